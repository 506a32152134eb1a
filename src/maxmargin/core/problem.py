"""What solvers minimise: means of convex hinges, known through their cuts; and the optional methods of a problem.

Optional methods are the ``Supports...`` protocols. :func:`supports` tells whether an object has them, and whether a subclass has
overridden a method that they rely on; then they are not used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np

from maxmargin import _core
from maxmargin._utils import Arrays, Floats, Scores, warn
from maxmargin.core.cuts import Bounds, Cut, size


class Audit(NamedTuple):
    """What became of the claim that an oracle finds the maximum, or bounds it."""

    # Blocks that were looked at, and those with an output better than what the oracle found, or claimed to be possible.
    n_blocks: int
    n_wrong: int
    # The largest difference of their hinges.
    excess: float


class Problem(ABC):
    """A sum of convex hinges over d weights, one per block (sample, sequence, query), known through its cuts.

    Attributes
    ----------
    n_blocks, n_features : int
    exact : bool
        Whether `cut` finds the maximum, or bounds it (``Cut.bound``); only then is a duality gap a certificate.
    relaxed : bool
        Whether the hinges are those of a relaxation, maxima over more than the outputs: the certificate then says so.
    convex : bool
        Whether hinges are convex in the weights; cuts of one that is not are gradients, and no lower bounds.
    worse_than_truth : int
        Outputs of the oracle that are worse than the truth, where the problem itself has noticed any in its whole passes.
    unavailable : dict
        Protocols whose methods exist but cannot be used on this object, each with the reason.
    """

    n_blocks: int
    n_features: int
    exact: bool = True
    relaxed: bool = False
    convex: bool = True
    worse_than_truth: int = 0
    unavailable: Mapping[type, str] = MappingProxyType({})

    def __init_subclass__(cls, **settings: object) -> None:
        # Of cut and cuts the one that was written last makes the other one, so that both always have the same hinges.
        super().__init_subclass__(**settings)
        one, many = (next((base for base in cls.__mro__[:-1] if name in vars(base)), Problem) for name in ("cut", "cuts"))
        made: dict[str, object] = {}
        # Of a class and a mixin, or of a class and its base, the one that comes first.
        if cls.__mro__.index(one) < cls.__mro__.index(many):
            cut = vars(one)["cut"]
            made = {"cut": cut, "cuts": lambda self, blocks, weights: [cut(self, block, weights) for block in blocks]}
        elif one is not many:
            cuts = vars(many)["cuts"]
            made = {"cuts": cuts, "cut": lambda self, block, weights: cuts(self, [block], weights)[0]}
        if made or "cut" in vars(cls):
            made.setdefault("mean_cut", vars(cls).get("mean_cut", Problem.mean_cut))
        for name, value in made.items():
            setattr(cls, name, value)

    @abstractmethod
    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut of one block's hinge at ``weights``, which may change after the call: keep no reference."""

    def cuts(self, blocks: Sequence[int], weights: Floats) -> Sequence[Cut]:
        """The tangent cuts of several blocks at the same ``weights``."""
        return [self.cut(block, weights) for block in blocks]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average of all blocks' cuts, in one pass."""
        return average_of(self, weights)

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the weights without which the oracle would not be exact; None if it needs none."""
        return None

    @property
    def block_data(self) -> _core.BlockData | None:
        """The problem in the form of the compiled block engine; None if it is to ask :meth:`cut` and :meth:`cuts`."""
        return None

    def audit(self, weights: Floats) -> Audit | None:
        """Look for outputs at ``weights`` that the oracle should have found, at the cost of about a pass; None if it cannot."""
        return None

    def fingerprint(self) -> bytes | None:
        """A digest of everything the hinges depend on, equal for equal problems; None if only this very object is the same."""
        return None

    def same_as(self, other: Problem) -> bool:
        """Whether the other problem has the same hinges, so that what is known of one holds for the other."""
        if self is other:
            return True
        own = self.fingerprint()
        return own is not None and own == other.fingerprint()

    def __getstate__(self) -> dict[str, object]:
        # Compiled forms belong to the process; they are made anew.
        return {name: value for name, value in vars(self).items() if name not in ("block_data", "_data")}


def compiled_blocks(problem: Problem) -> _core.BlockData:
    """What the compiled block engine works on: the problem in its form or, without one, the questions that it will ask."""
    check_cuts(problem)
    data = problem.block_data
    return _core.PythonOracle(problem, problem.n_blocks, problem.n_features) if data is None else data


# Forms of the hinges beside the cuts of single blocks.
_FORMS = "mean_cut", "tangent", "scores", "features"


def check_cuts(problem: Problem) -> None:
    """Complain if the cuts of single blocks ignore an override of another form of the hinges."""
    cls = type(problem)
    own = [name for name in ("cut", "cuts") if callable(vars(problem).get(name))]
    if len(own) == 1 or (not own and _writer(cls, "cut") is not _writer(cls, "cuts")):
        raise TypeError(
            f"{own[0] if own else 'cut or cuts'} of {cls.__name__} was replaced after the class was defined, and the other of "
            "cut and cuts does not call it; override the method in the body of a subclass"
        )
    writer = _writer(cls, "cuts")
    forms = frozenset(name for name in _FORMS if getattr(writer, name, Problem.mean_cut) is not Problem.mean_cut)
    found = None if own else overridden(problem, "cuts", forms)
    if found is not None:
        raise TypeError(
            f"{found} is overridden, but not the cuts of single blocks, which are still those of {writer.__name__}; override cut "
            f"or cuts too, use OneSlackCuttingPlane, or assign cuts = {writer.__name__}.cuts in the subclass if they hold"
        )


def average_of(problem: Problem | CheckedProblem, weights: Floats) -> Cut:
    """The average of all blocks' cuts, asked for in batches."""
    psi, loss, bound, exact = np.zeros(problem.n_features), 0.0, 0.0, True
    for first in range(0, problem.n_blocks, 1024):
        for cut in problem.cuts(range(first, min(problem.n_blocks, first + 1024)), weights):
            cut.add_to(psi)
            loss += cut.loss
            bound += cut.upper(weights)
            exact &= cut.bound is None
    n = problem.n_blocks
    return Cut(psi / n, loss / n, None if exact else bound / n)


class Tangent(NamedTuple):
    """The mean hinge as a function of scores, at one point."""

    # Its value or, from an oracle that is not exact but bounds what it misses, that of the outputs found; their mean loss.
    hinge: float
    loss: float
    # The derivative; ``gradient.ravel() @ scores.ravel()`` is a number, ``-gradient`` has features.
    gradient: Scores
    # Upper bound of the hinge if it is not the hinge itself.
    bound: float | None = None


class SupportsMeanCut(Protocol):
    """The average of all cuts in one pass, which costs less than the cuts one by one."""

    def mean_cut(self, weights: Floats) -> Cut:
        """The average of all blocks' cuts."""


class SupportsLinearScores(Protocol):
    """Hinges that depend on the weights through few linear scores.

    Along a line in the space of the weights the scores are then known without another pass over the features. Solvers treat
    scores as opaque: they add and subtract them, multiply them by numbers, and multiply a gradient with them. They may be arrays
    or handles of data on other machines. An attribute ``cheap_scores = True`` tells solvers that computing scores again costs
    no more than storing them.
    """

    def scores(self, weights: Floats) -> Scores:
        """Linear in the weights."""

    def tangent(self, scores: Scores) -> Tangent:
        """The mean hinge, by inference in every block."""

    def features(self, coefficients: Scores) -> Floats:
        """The transposed map: ``features(c) . w == sum(c * scores(w))`` for all w."""


Distribution = TypeVar("Distribution")


class SupportsExpectations(Protocol[Distribution]):
    """Averages over the outputs of a block.

    A distribution over outputs is represented by whatever the problem likes (log-probabilities of classes, log-marginals of a
    chain), as long as features and losses of the average follow from it.
    """

    def interior(self, block: int, mass: float) -> Distribution:
        """A distribution with all but ``mass`` on the truth and no output at zero."""

    def tilt(self, block: int, distribution: Distribution, weights: Floats, temperature: float) -> Distribution:
        """The distribution times ``exp(hinge of each output / temperature)``, normalised."""

    def mix(self, distribution: Distribution, other: Distribution, step: float) -> Distribution:
        """``(1 - step) * distribution + step * other``."""

    def average(self, block: int, distribution: Distribution) -> Cut:
        """The average of all cuts of the block under the distribution."""

    def diameter(self) -> float:
        """An upper bound of ``||psi||`` over all outputs of all blocks."""


class SupportsCompiledExpectations(Protocol):
    """The same in compiled code, which stores the distributions itself."""

    compiled_expectations: bool

    def make_block_data(self) -> _core.BlockData | None:
        """The problem in the form of the compiled block engine."""

    def diameter(self) -> float:
        """An upper bound of ``||psi||`` over all outputs of all blocks."""


class SupportsExactSteps(Protocol):
    """Compiled blocks that compute their own best point."""

    exact_steps: bool

    def make_block_data(self) -> _core.BlockData | None:
        """The problem in the form of the compiled block engine."""


class SupportsCheckpoint(Protocol):
    """Scores that are not arrays, stored in checkpoints as arrays."""

    def pack_scores(self, scores: Scores) -> Arrays:
        """Scores as arrays by name."""

    def check_packed_scores(self, arrays: Arrays) -> None:
        """Complain about arrays that ``pack_scores`` cannot have returned."""

    def unpack_scores(self, psi: Floats, arrays: Arrays) -> tuple[Scores, Scores]:
        """Scores, and the gradient there, whose features are ``-psi``."""


# Methods that no hinge depends on.
_INDEPENDENT = frozenset({"fingerprint", "same_as", "audit", "make_block_data", "block_data", "_contents", "_fingerprint"})
_RELIES_ON = "__relies_on__"


@cache
def _members(protocol: type) -> tuple[frozenset[str], frozenset[str]]:
    """Methods and flags of a protocol."""
    methods = frozenset(name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_"))
    return methods, frozenset(vars(protocol).get("__annotations__", ()))


def _writer(cls: type, method: str) -> type:
    """The class that defines a method; the class itself if only its objects have it."""
    return next((base for base in cls.__mro__ if method in vars(base)), cls)


@cache
def _relied_on(cls: type) -> frozenset[str]:
    """Methods that a method of ``cls`` may call: all that it has, but for abstract ones."""
    return frozenset(
        name
        for base in cls.__mro__[:-1]
        for name, value in vars(base).items()
        if not name.startswith("__")
        and name not in _INDEPENDENT
        and (callable(value) or hasattr(value, "__get__"))
        and not getattr(getattr(cls, name), "__isabstractmethod__", False)
    )


Marked = TypeVar("Marked", bound=type)


def relies_on(*methods: str) -> Callable[[Marked], Marked]:
    """Declare that implementations of a protocol rely on these methods only, not on all of their class."""

    def mark(protocol: Marked) -> Marked:
        setattr(protocol, _RELIES_ON, frozenset(methods))
        return protocol

    return mark


class Override(NamedTuple):
    """A method that a class overrides."""

    cls: type
    method: str

    def __str__(self) -> str:
        return f"{self.cls.__name__}.{self.method}"


def override_below(instance: object, base: type, among: frozenset[str] | None = None) -> Override | None:
    """Find a method of ``base`` that a subclass overrides, or the object itself; ``among`` these methods or, by default, all."""
    relied = _relied_on(base) if among is None else _relied_on(base) & among
    own = {name for name, value in getattr(instance, "__dict__", {}).items() if callable(value)} & relied
    if own:
        return Override(type(instance), min(own))
    mro = type(instance).__mro__
    found = ((cls, relied & vars(cls).keys()) for cls in mro[: mro.index(base)])
    for cls, names in found:
        if names:
            # A method that __init_subclass__ has made out of the override has another name of its own.
            return Override(cls, min(names, key=lambda name: (getattr(vars(cls)[name], "__name__", name) != name, name)))
    return None


def overridden(instance: object, method: str, among: frozenset[str] | None = None) -> Override | None:
    """Find an override of a method that ``method`` may rely on: the class that defines it knows the methods of its own only."""
    return override_below(instance, _writer(type(instance), method), among)


def warn_of_override(override: Override, instance: object) -> None:
    """Warn that compiled code is not used because it would ignore an override."""
    below = type(instance).__mro__[type(instance).__mro__.index(override.cls) + 1 :]
    base = next((cls for cls in below if override.method in vars(cls)), override.cls)
    warn(
        f"{override} overrides {base.__name__}.{override.method}, which compiled code would ignore; training calls Python "
        "instead, often more than ten times slower",
        UserWarning,
    )


def supports(instance: object, protocol: type | tuple[type, ...]) -> bool:
    """Return whether a problem or a structure has the methods of a protocol, and they can be used.

    They cannot if a subclass overrides another method that one of them may rely on, if a flag of the protocol is not set, or if
    ``instance.unavailable`` names the protocol. To declare that an inherited method still holds, assign it in the subclass:
    ``mean_cut = Parent.mean_cut``.

    Parameters
    ----------
    instance : Problem or Structure
        What is asked.
    protocol : type or tuple of types
        One of the ``Supports...`` protocols, or several of which one is enough.

    Examples
    --------
    >>> from maxmargin.multiclass import MulticlassProblem
    >>> problem = MulticlassProblem(np.eye(3), np.arange(3), 3)
    >>> supports(problem, SupportsMeanCut), supports(problem, SupportsLinearScores)
    (True, False)
    """
    if isinstance(protocol, tuple):
        return any(supports(instance, one) for one in protocol)
    methods, flags = _members(protocol)
    if _missing(instance, methods, flags) or protocol in getattr(instance, "unavailable", ()):
        return False
    if any(_overridden(instance, protocol, method) for method in methods):
        return False
    return "make_block_data" not in methods or getattr(instance, "block_data", None) is not None


def _missing(instance: object, methods: frozenset[str], flags: frozenset[str]) -> list[str]:
    """Methods that the object does not have, and flags that are not set."""
    default = {"mean_cut"} if getattr(type(instance), "mean_cut", None) is Problem.mean_cut else set()
    found = [name for name in methods if name in default or not callable(getattr(instance, name, None))]
    return sorted(found) + sorted(flag for flag in flags if not getattr(instance, flag, False))


def _overridden(instance: object, protocol: type, method: str) -> Override | None:
    """An override, below the class that defines a method of the protocol, of another method that it may rely on."""
    relied = getattr(protocol, _RELIES_ON, None)
    relied = _relied_on(_writer(type(instance), method)) if relied is None else relied
    return overridden(instance, method, relied - _members(protocol)[0])


def why_not(instance: object, protocol: type | tuple[type, ...]) -> str:
    """Return why :func:`supports` is false, as the end of a sentence."""
    if isinstance(protocol, tuple):
        reasons = [why_not(instance, one) for one in protocol]
        return next((reason for reason in reasons if not reason.startswith("it has no")), reasons[0])
    unavailable: Mapping[type, str] = getattr(instance, "unavailable", {})
    if protocol in unavailable:
        return unavailable[protocol]
    methods, flags = _members(protocol)
    missing = _missing(instance, methods, flags)
    if missing:
        return f"it has no {', '.join(missing)}"
    found = next(filter(None, (_overridden(instance, protocol, method) for method in sorted(methods))), None)
    if found is not None:
        return f"{found} overrides a method that an inherited one may rely on"
    return "it has no compiled form"


class CheckedProblem:
    """Counts oracle calls and watches for an oracle that returns something worse than the truth.

    The truth itself violates the margin by zero, so a cut with a negative hinge proves that the oracle is not exact. Then
    the truth is used instead, and no result may call itself certified.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.n_blocks = problem.n_blocks
        self.n_features = problem.n_features
        self.exact = problem.exact
        self.calls = 0
        self.worse_than_truth = 0
        self._noticed = problem.worse_than_truth
        self._scored = cast(SupportsLinearScores, problem) if supports(problem, SupportsLinearScores) else None
        self._averages = supports(problem, SupportsMeanCut)
        self._cuts_checked = False
        packs = self._scored is not None and supports(problem, SupportsCheckpoint)
        self._packing = cast(SupportsCheckpoint, problem) if packs else None

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Checked cuts of several blocks."""
        if not self._cuts_checked:
            check_cuts(self.problem)
            self._cuts_checked = True
        self.calls += len(blocks)
        return [self._check(cut, weights) for cut in self.problem.cuts(blocks, weights)]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average of all blocks' cuts, in one pass; every one is checked unless the problem averages by itself."""
        if self._averages:
            self.calls += self.n_blocks
            cut = self.problem.mean_cut(weights)
        elif self._scored is not None:
            found = self.tangent(self.scores(weights))
            cut = Cut(-self.features(found.gradient), found.loss, found.bound)
        else:
            return average_of(self, weights)
        self.notice()
        return self._check(cut, weights)

    def notice(self) -> None:
        """What the problem has found out about its oracle."""
        if self.problem.worse_than_truth > self._noticed:
            self.exact = False
            self.worse_than_truth += self.problem.worse_than_truth - self._noticed
            self._noticed = self.problem.worse_than_truth

    @property
    def scored(self) -> bool:
        """Whether hinges are functions of few scores, so that a look at them needs no features."""
        return self._scored is not None

    @property
    def quick(self) -> bool:
        """Whether scores, and features from them, cost so little that neither need be kept."""
        return self.scored and bool(getattr(self.problem, "cheap_scores", False))

    def scores(self, weights: Floats) -> Scores:
        """Those of the problem; if it has none, the weights themselves."""
        return weights if self._scored is None else self._scored.scores(weights)

    def tangent(self, scores: Scores) -> Tangent:
        """The mean hinge at these scores, in one pass."""
        if self._scored is None:
            cut = self.mean_cut(scores)
            return Tangent(cut.hinge(scores), cut.loss, -cut.dense(self.n_features), cut.bound)
        self.calls += self.n_blocks
        found = self._scored.tangent(scores)
        _refuse_nan(found.hinge)
        return found

    def packed_scores(self, scores: Scores) -> Arrays:
        """Scores as arrays by name, where they are handles; where they are arrays, nothing: the weights make them anew."""
        return {} if self._packing is None or scores is None else self._packing.pack_scores(scores)

    def unpacked_scores(self, weights: Floats, psi: Floats, arrays: Arrays) -> tuple[Scores, Scores]:
        """Scores, and the gradient that has the features ``-psi``, at weights; (None, None) where neither need be kept."""
        if self.quick:
            return None, None
        if self._scored is None:
            return weights, -psi
        if self._packing is not None:
            return self._packing.unpack_scores(psi, arrays)
        scores = self._scored.scores(weights)
        return scores, self._scored.tangent(scores).gradient

    def features(self, coefficients: Scores) -> Floats:
        """Back from scores to weights."""
        return coefficients if self._scored is None else self._scored.features(coefficients)

    def _check(self, cut: Cut, weights: Floats) -> Cut:
        hinge = cut.hinge(weights)
        _refuse_nan(hinge)
        if hinge >= 0:
            return cut
        least = -1e-9 * max(cut.loss + size(cut.psi, weights), 1e-300)
        if hinge >= least:
            return cut
        # No fault of an oracle that says how much it may have missed.
        if cut.bound is None or cut.bound < least:
            self.exact = False
            self.worse_than_truth += 1
        return Cut(np.zeros(self.n_features), 0.0, cut.bound)


def _refuse_nan(hinge: float) -> None:
    if np.isnan(hinge):
        raise ValueError("the oracle returned an output whose score or loss is NaN; check the features and the weights")
