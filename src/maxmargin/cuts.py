"""The currency between models and solvers: a model hands out cuts, a solver eats them; neither knows the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cut:
    """A linear lower bound of a hinge: ``hinge(w) >= loss - psi . w`` for all w, with equality where it was made.

    Attributes
    ----------
    psi : array of shape (d,)
        Joint feature of the truth minus that of the most violating output.
    loss : float
        ``delta`` of the most violating output.
    key : hashable
        Two cuts of a block with the same key are the same output; None where outputs cannot be told apart.
    """

    psi: Floats
    loss: float
    key: Hashable = None

    def hinge(self, weights: Floats) -> float:
        """Value of the bound at ``weights``."""
        return self.loss - float(self.psi @ weights)


class Problem(Protocol):
    """A sum of convex hinges over d weights, one per block (sample, sequence, query), known through its cuts."""

    n_blocks: int
    n_features: int
    # True if `cut` finds the maximum; only then is a duality gap a certificate.
    exact: bool

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut of one block's hinge at ``weights``."""
        ...

    def cuts(self, blocks: Sequence[int], weights: Floats) -> Sequence[Cut]:
        """The tangent cuts of several blocks at the same ``weights``."""
        ...


class Tangent(NamedTuple):
    """The mean hinge as a function of scores, at one point.

    Attributes
    ----------
    hinge : float
        Its value.
    loss : float
        Mean loss of the most violating outputs.
    gradient : array
        Its derivative; of the shape of the scores.
    """

    hinge: float
    loss: float
    gradient: Floats


@runtime_checkable
class ScoredProblem(Protocol):
    """A problem whose hinges depend on the weights through few linear scores.

    Along a line in the space of the weights the scores are then known without looking at the features again.
    """

    def scores(self, weights: Floats) -> Floats:
        """Linear in the weights."""
        ...

    def tangent(self, scores: Floats) -> Tangent:
        """The mean hinge, by inference in every block."""
        ...

    def features(self, coefficients: Floats) -> Floats:
        """The transposed map: ``features(c) . w == sum(c * scores(w))`` for all w."""
        ...


@runtime_checkable
class ExpectationProblem(Protocol):
    """A problem that can also *average* over outputs.

    A distribution over the outputs of a block is represented by whatever the model likes (log-probabilities of classes,
    log-marginals of a chain), as long as features and losses of the average can be had from it.
    """

    n_blocks: int
    n_features: int

    def interior(self, block: int, mass: float) -> Any:
        """A distribution with all but ``mass`` on the truth and no output at zero."""
        ...

    def tilt(self, block: int, distribution: Any, weights: Floats, temperature: float) -> Any:
        """The distribution times ``exp(hinge of each output / temperature)``, normalised."""
        ...

    def mix(self, distribution: Any, other: Any, step: float) -> Any:
        """``(1 - step) * distribution + step * other``."""
        ...

    def average(self, block: int, distribution: Any) -> Cut:
        """The average of all cuts of the block under the distribution."""
        ...

    def diameter(self) -> float:
        """An upper bound of ``||psi||`` over all outputs of all blocks."""
        ...


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

    def cut(self, block: int, weights: Floats) -> Cut:
        """One checked cut."""
        self.calls += 1
        return self._check(self.problem.cut(block, weights), weights)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Checked cuts of several blocks."""
        self.calls += len(blocks)
        return [self._check(cut, weights) for cut in self.problem.cuts(blocks, weights)]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average of all blocks' cuts, in one pass; by the problem's own method if it has one."""
        own = getattr(self.problem, "mean_cut", None)
        if own is not None:
            self.calls += self.n_blocks
            return self._check(own(weights), weights)
        psi, loss = np.zeros(self.n_features), 0.0
        for first in range(0, self.n_blocks, 1024):
            for cut in self.cuts(range(first, min(self.n_blocks, first + 1024)), weights):
                psi += cut.psi
                loss += cut.loss
        return Cut(psi / self.n_blocks, loss / self.n_blocks)

    def scores(self, weights: Floats) -> Floats:
        """Those of the problem; if it has none, the weights themselves."""
        return self.problem.scores(weights) if isinstance(self.problem, ScoredProblem) else weights

    def tangent(self, scores: Floats) -> Tangent:
        """The mean hinge at these scores, in one pass."""
        if not isinstance(self.problem, ScoredProblem):
            cut = self.mean_cut(scores)
            return Tangent(cut.hinge(scores), cut.loss, -cut.psi)
        self.calls += self.n_blocks
        found = self.problem.tangent(scores)
        _refuse_nan(found.hinge)
        return found

    def features(self, coefficients: Floats) -> Floats:
        """Back from scores to weights."""
        return self.problem.features(coefficients) if isinstance(self.problem, ScoredProblem) else coefficients

    def _check(self, cut: Cut, weights: Floats) -> Cut:
        hinge = cut.hinge(weights)
        _refuse_nan(hinge)
        scale = cut.loss + float(np.abs(cut.psi) @ np.abs(weights))
        if hinge < -1e-9 * max(scale, 1e-300) and hinge < 0:
            self.exact = False
            self.worse_than_truth += 1
            return Cut(np.zeros_like(cut.psi), 0.0, ())
        return cut


def _refuse_nan(hinge: float) -> None:
    if np.isnan(hinge):
        raise ValueError("the oracle returned an output whose score or loss is NaN; check the features and the weights")
