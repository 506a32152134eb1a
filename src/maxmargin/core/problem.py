"""What solvers minimise: means of convex hinges, known through their cuts; and what else a problem may offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._utils import Floats
from maxmargin.core.cuts import Bounds, Cut, size

# What a problem may offer besides cuts, and a solver may need.
# "whole passes": `mean_cut` costs less than the cuts of all blocks one by one.
# "scores": hinges depend on the weights through few linear scores, see `ScoredProblem`.
# "quick features": besides, `scores` and `features` take hardly longer than adding up scores, and need not be saved.
# "expectations": averages over outputs, see `ExpectationProblem`.
# "exact steps": compiled blocks know their own best point.
Capability = Literal["whole passes", "scores", "quick features", "expectations", "exact steps"]


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
    offers : frozenset of Capability
        Declared by the class, which vouches for its own methods: a subclass that replaces one of them declares anew.
    """

    n_blocks: int
    n_features: int
    exact: bool = True
    relaxed: bool = False
    convex: bool = True
    worse_than_truth: int = 0
    offers: ClassVar[frozenset[Capability]] = frozenset()

    def __init_subclass__(cls, **settings: Any) -> None:
        # Whoever replaces one of the three methods is asked by the others too, however fast those were before.
        super().__init_subclass__(**settings)
        own = vars(cls)
        one, many = own.get("cut"), own.get("cuts")
        others: dict[str, Any] = {} if one is None and many is None else {"mean_cut": Problem.mean_cut}
        if many is None and one is not None:
            others["cuts"] = lambda self, blocks, weights: [one(self, block, weights) for block in blocks]
        if one is None and many is not None:
            others["cut"] = lambda self, block, weights: many(self, [block], weights)[0]
        for name in others.keys() - own.keys():
            setattr(cls, name, others[name])

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
    def block_data(self) -> Any:
        """The problem in the form of the compiled block engine; None if it is to ask :meth:`cut` and :meth:`cuts`."""
        return None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What is offered, unless a subclass has methods of its own that the fast ways do not know."""
        return self.offers if vouches(self, "offers") else frozenset()

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

    def __getstate__(self) -> dict[str, Any]:
        # Compiled forms belong to the process; they are made anew.
        return {name: value for name, value in vars(self).items() if name not in ("block_data", "_data")}


def compiled_blocks(problem: Problem) -> _core.BlockData:
    """What the compiled block engine works on: the problem in its form or, without one, the questions that it will ask."""
    data: _core.BlockData | None = problem.block_data
    return _core.PythonOracle(problem, problem.n_blocks, problem.n_features) if data is None else data


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


# Methods that no hinge depends on.
_ASIDE = frozenset({"fingerprint", "same_as", "audit"})


def overrides(instance: object, base: type) -> bool:
    """Whether a subclass of ``base``, or the object itself, has a method of its own in place of one that ``base`` has.

    Compiled forms know the methods of ``base`` only, so they must not stand in for such an object.
    """
    hooks = {
        name
        for cls in base.__mro__[:-1]
        for name, value in vars(cls).items()
        if not name.startswith("__") and name not in _ASIDE and (callable(value) or hasattr(value, "__get__"))
    }
    below = type(instance).__mro__[: type(instance).__mro__.index(base)]
    own = getattr(instance, "__dict__", {})
    return any(not hooks.isdisjoint(vars(cls)) for cls in below) or any(callable(own.get(name)) for name in hooks)


def vouches(instance: object, name: str) -> bool:
    """Whether the class that has written ``name`` knows all methods of the object: none was replaced since."""
    return not overrides(instance, next(cls for cls in type(instance).__mro__ if name in vars(cls)))


class Tangent(NamedTuple):
    """The mean hinge as a function of scores, at one point."""

    # Its value or, from an oracle that is not exact but bounds what it misses, that of the outputs found; their mean loss.
    hinge: float
    loss: float
    # The derivative; ``gradient.ravel() @ scores.ravel()`` is a number, ``-gradient`` has features.
    gradient: Any
    # Upper bound of the hinge if it is not the hinge itself.
    bound: float | None = None


class ScoredProblem(Protocol):
    """A problem whose hinges depend on the weights through few linear scores.

    Along a line in the space of the weights the scores are then known without looking at the features again. Scores are opaque:
    solvers add and subtract them, multiply them by numbers, and ask a gradient for its product with them. Arrays are such
    scores; where data are spread over machines a handle is, and the numbers stay where the data are.
    """

    def scores(self, weights: Floats) -> Any:
        """Linear in the weights."""

    def tangent(self, scores: Any) -> Tangent:
        """The mean hinge, by inference in every block."""

    def features(self, coefficients: Any) -> Floats:
        """The transposed map: ``features(c) . w == sum(c * scores(w))`` for all w."""


@runtime_checkable
class ExpectationProblem(Protocol):
    """A problem that can also *average* over outputs.

    A distribution over the outputs of a block is represented by whatever the problem likes (log-probabilities of classes,
    log-marginals of a chain), as long as features and losses of the average can be had from it. One with a compiled form, which
    keeps distributions of its own, is asked for its diameter only.
    """

    n_blocks: int
    n_features: int

    def interior(self, block: int, mass: float) -> Any:
        """A distribution with all but ``mass`` on the truth and no output at zero."""

    def tilt(self, block: int, distribution: Any, weights: Floats, temperature: float) -> Any:
        """The distribution times ``exp(hinge of each output / temperature)``, normalised."""

    def mix(self, distribution: Any, other: Any, step: float) -> Any:
        """``(1 - step) * distribution + step * other``."""

    def average(self, block: int, distribution: Any) -> Cut:
        """The average of all cuts of the block under the distribution."""

    def diameter(self) -> float:
        """An upper bound of ``||psi||`` over all outputs of all blocks."""


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
        self._scored: Any = problem if "scores" in problem.capabilities else None

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Checked cuts of several blocks."""
        self.calls += len(blocks)
        return [self._check(cut, weights) for cut in self.problem.cuts(blocks, weights)]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average of all blocks' cuts, in one pass; every one is checked unless the problem averages by itself."""
        if "whole passes" not in self.problem.capabilities:
            return average_of(self, weights)
        self.calls += self.n_blocks
        cut = self.problem.mean_cut(weights)
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
        return "quick features" in self.problem.capabilities

    def scores(self, weights: Floats) -> Any:
        """Those of the problem; if it has none, the weights themselves."""
        return weights if self._scored is None else self._scored.scores(weights)

    def tangent(self, scores: Any) -> Tangent:
        """The mean hinge at these scores, in one pass."""
        if self._scored is None:
            cut = self.mean_cut(scores)
            return Tangent(cut.hinge(scores), cut.loss, -cut.dense(self.n_features), cut.bound)
        self.calls += self.n_blocks
        found: Tangent = self._scored.tangent(scores)
        _refuse_nan(found.hinge)
        return found

    def packed_scores(self, scores: Any) -> dict[str, NDArray[Any]]:
        """Scores as arrays by name, where they are handles; where they are arrays, nothing: the weights make them anew."""
        pack = getattr(self._scored, "pack_scores", None)
        return {} if pack is None or scores is None else pack(scores)

    def unpacked_scores(self, weights: Floats, psi: Floats, arrays: dict[str, NDArray[Any]]) -> tuple[Any, Any]:
        """Scores, and the gradient that has the features ``-psi``, at weights; (None, None) where neither need be kept."""
        if self.quick:
            return None, None
        if self._scored is None:
            return weights, -psi
        unpack = getattr(self._scored, "unpack_scores", None)
        if unpack is not None:
            found: tuple[Any, Any] = unpack(psi, arrays)
            return found
        scores = self._scored.scores(weights)
        return scores, self._scored.tangent(scores).gradient

    def features(self, coefficients: Any) -> Floats:
        """Back from scores to weights."""
        found: Floats = coefficients if self._scored is None else self._scored.features(coefficients)
        return found

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
