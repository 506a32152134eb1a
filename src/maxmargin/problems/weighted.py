"""Blocks that do not all count alike."""

from __future__ import annotations

from collections.abc import Sequence

from maxmargin._types import Floats
from maxmargin.cuts import Bounds, Cut, Problem, SparseVector
from maxmargin.fingerprint import fingerprint


class WeightedProblem(Problem):
    """Another problem whose hinges are multiplied by weights; a weight of 2 is that of a block that is there twice.

    Parameters
    ----------
    problem : Problem
        With n blocks.
    weights : array of shape (n,)
        Not negative.
    """

    def __init__(self, problem: Problem, weights: Floats) -> None:
        self.problem = problem
        self.weights = weights
        self.n_blocks, self.n_features, self.exact = problem.n_blocks, problem.n_features, problem.exact

    def cut(self, block: int, weights: Floats) -> Cut:
        """The cut of the block times its weight."""
        return self.cuts([block], weights)[0]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several blocks."""
        found = self.problem.cuts(blocks, weights)
        return [_times(cut, float(self.weights[block])) for block, cut in zip(blocks, found, strict=True)]

    @property
    def bounds(self) -> Bounds | None:
        """Those of the problem."""
        return self.problem.bounds

    def fingerprint(self) -> bytes | None:
        """Of the problem and the weights."""
        own = self.problem.fingerprint()
        return None if own is None else fingerprint(own, self.weights)


def _times(cut: Cut, weight: float) -> Cut:
    psi = SparseVector(cut.psi.indices, weight * cut.psi.values) if isinstance(cut.psi, SparseVector) else weight * cut.psi
    return Cut(psi, weight * cut.loss, None if cut.bound is None else weight * cut.bound)
