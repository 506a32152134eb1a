"""What a structure must answer: three methods are enough, a batch method makes them faster. It knows no training data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from maxmargin._utils import Floats, Input, JointFeature, Output
from maxmargin.core.cuts import Bounds
from maxmargin.core.problem import Override, Problem, override_below, relies_on


class Decoded(NamedTuple):
    """An output that may not be the best one, and what the best one is worth at most.

    Attributes
    ----------
    output : object
        The best output that was found.
    upper : float
        An upper bound of ``a * score + b * loss`` over all outputs, in the scale of the question.
    """

    output: Output
    upper: float


class Structure(ABC):
    """A space of outputs with features, a loss and a search. Inputs ``x`` and outputs ``y`` are whatever you like.

    Attributes
    ----------
    exact : bool
        Whether `decode` finds the maximum; if it does not, it can still be certified by what it returns as :class:`Decoded`.
    relaxed : bool
        Whether `decode` with a truth maximises over more than the outputs, averages of them that may be worth more than any.

    Examples
    --------
    A classifier of three classes, written out:

    >>> import numpy as np
    >>> class ThreeClasses(Structure):
    ...     def joint_feature(self, x, y):
    ...         return np.outer(np.eye(3)[y], x).ravel()
    ...     def loss(self, truth, y):
    ...         return float(truth != y)
    ...     def decode(self, x, weights, truth=None, a=1.0, b=0.0):
    ...         return int(np.argmax(a * weights.reshape(3, -1) @ x + b * (np.arange(3) != truth)))
    >>> ThreeClasses().decode(np.array([1.0, 2.0]), np.arange(6.0))
    2
    """

    exact: bool = True

    @property
    def relaxed(self) -> bool:
        """Not unless a structure says so."""
        return False

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        if hasattr(cls, "loss_augmented") and cls.decode is Structure.decode:
            raise TypeError(
                f"{cls.__name__} has loss_augmented(x, truth, weights), but a Structure has decode(x, weights, truth=None, "
                "a=1.0, b=0.0), the output with the largest a * score + b * loss: rename it, let a and b count, and leave out "
                "predict, which is decode without truth"
            )
        # Whoever replaces the search is asked about batches too, however fast they were before.
        if "decode" in vars(cls) and "decode_batch" not in vars(cls):
            type.__setattr__(cls, "decode_batch", Structure.decode_batch)

    @abstractmethod
    def joint_feature(self, x: Input, y: Output) -> JointFeature:
        """``Phi(x, y)``, an array of shape (d,) or a sparse row of scipy; the score of ``y`` is ``weights . Phi(x, y)``."""

    @abstractmethod
    def loss(self, truth: Output, y: Output) -> float:
        """``delta(truth, y)``: not negative, zero for the truth."""

    @abstractmethod
    def decode(self, x: Input, weights: Floats, truth: Output | None = None, a: float = 1.0, b: float = 0.0) -> Output | Decoded:
        """The output with the largest ``a * weights . Phi(x, y) + b * loss(truth, y)``, for any ``a, b >= 0``.

        Training asks with ``a = b = 1``, prediction with ``b = 0`` and no truth. A search that is not exact, but knows a bound
        of the maximum, returns ``Decoded(output, upper)`` and is certified by it.
        """

    def decode_batch(
        self, xs: Sequence[Input], weights: Floats, truths: Sequence[Output] | None = None, a: float = 1.0, b: float = 0.0
    ) -> Sequence[Output | Decoded]:
        """The same for many samples; override it where that is faster than one by one."""
        known = [None] * len(xs) if truths is None else truths
        return [self.decode(x, weights, truth, a, b) for x, truth in zip(xs, known, strict=True)]

    def encode(self, x: Input, y: Output | None = None) -> tuple[Input, Output]:
        """Input and true output, checked and in the form that the other methods get; ``y`` is None in prediction."""
        return x, y

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the weights without which `decode` would not be exact."""
        return None


# What an earlier class tells of its outputs does not hold for other features, losses or searches.
_OUTPUTS = "joint_feature", "loss", "decode"


@relies_on(*_OUTPUTS)
class SupportsKBest(Protocol):
    """The best outputs, not only the best one."""

    def k_best(self, x: Input, weights: Floats, truth: Output, a: float, b: float, k: int) -> Sequence[Output | Decoded]:
        """Return the k best distinct outputs, best first.

        A structure that is not exact returns each as :class:`Decoded`, with an upper bound of it and of all that are not listed
        before it.
        """


@relies_on(*_OUTPUTS)
class SupportsListing(Protocol):
    """Inputs for which ``k_best`` costs too much."""

    def can_list(self, x: Input) -> bool:
        """Return whether ``k_best`` is worth its cost in a search; it is if there is no such method."""


@relies_on(*_OUTPUTS)
class SupportsCone(Protocol):
    """The best output within a cone of margin error and loss, for the angular search."""

    def decode_within(self, x: Input, weights: Floats, truth: Output, lam: float, low: float, high: float) -> Output | None:
        """Return the output with the largest ``score + lam * loss`` and ``low <= loss / (1 + score - score of truth) < high``.

        Loss and denominator are positive; None if there is no such output. Outputs with the loss of another one and a smaller
        score, which no surrogate ever prefers, may be left out.
        """


@relies_on(*_OUTPUTS)
class SupportsBestByLoss(Protocol):
    """The best output for every loss."""

    def best_by_loss(self, x: Input, weights: Floats, truth: Output) -> Sequence[Output]:
        """Return, for every loss that an output can have, one with the largest score."""


@relies_on("decode")
class SupportsEnumeration(Protocol):
    """All outputs."""

    def all_outputs(self, x: Input) -> Iterable[Output]:
        """Return every output."""


@relies_on("loss", "decode")
class SupportsLossValues(Protocol):
    """All losses."""

    def loss_values(self, x: Input, truth: Output) -> Sequence[float] | None:
        """Return every loss that an output can have; None if they are not known."""


@relies_on(*_OUTPUTS)
class SupportsSetSize(Protocol):
    """Outputs that are sets, for the micro F1."""

    def set_size(self, y: Output) -> int:
        """Return the number of elements."""

    def decode_sized(self, x: Input, weights: Floats, truth: Output, a: float, b: float, c: float) -> Output:
        """Return the output with the largest ``a * score + b * loss - c * size``."""


class SupportsFastProblem(Protocol):
    """A compiled problem under margin rescaling."""

    def make_problem(self, xs: Sequence[Input], ys: Sequence[Output]) -> Problem:
        """Return the problem of encoded inputs and outputs."""


class _Encodes(Protocol):
    def encode(self, x: Input, y: Output | None = None) -> tuple[Input, Output]: ...


def encoded(structure: _Encodes, number: int, x: Input, y: Output) -> tuple[Input, Output]:
    """A sample as the structure codes it; what is wrong with it is told with its number."""
    try:
        return structure.encode(x, y)
    except (TypeError, ValueError) as error:
        raise type(error)(f"sample {number}: {error}") from error


def predict(structure: Structure, xs: Sequence[Input], weights: Floats) -> list[Output]:
    """The outputs of the largest score."""
    found = structure.decode_batch([encoded(structure, k, x, None)[0] for k, x in enumerate(xs)], weights)
    return [answer.output if isinstance(answer, Decoded) else answer for answer in found]


def check_decoder(structure: Structure) -> None:
    """Complain if ``decode`` is that of a structure of this package and ignores an override of features or losses."""
    writer = next(cls for cls in type(structure).__mro__ if "decode" in vars(cls))
    found = override_below(structure, writer, frozenset({"joint_feature", "loss"}))
    if found is not None and writer.__module__.startswith("maxmargin."):
        raise TypeError(
            f"{found} is overridden, but decode is that of {writer.__name__} and ignores it; override decode(x, weights, truth, "
            "a, b) and decode_batch too, so that they find the output with the largest a * score + b * loss"
        )


def check_not_overridden(structure: Structure, problem: str) -> None:
    """Complain about a user's subclass of a structure whose problem would ignore an override."""
    found = user_override(structure)
    if found is not None:
        raise TypeError(f"{problem} does not call {found}; use StructuredProblem, or StructuredSVM, with this structure")


def user_override(structure: Structure) -> Override | None:
    """Find a method of a structure of this package that a user's subclass overrides."""
    return override_below(structure, next(cls for cls in type(structure).__mro__ if cls.__module__.startswith("maxmargin.")))
