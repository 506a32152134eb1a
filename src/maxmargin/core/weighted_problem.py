"""Blocks that do not all count alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.core.cuts import Bounds, Cut
from maxmargin.core.digest import fingerprint
from maxmargin.core.problem import Problem, check_cuts


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
        check_cuts(problem)
        self.problem = problem
        self.weights = weights
        self.n_blocks, self.n_features, self.exact = problem.n_blocks, problem.n_features, problem.exact
        self.relaxed, self.convex = problem.relaxed, problem.convex

    def cut(self, block: int, weights: Floats) -> Cut:
        """The cut of the block times its weight."""
        return self.cuts([block], weights)[0]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several blocks."""
        found = self.problem.cuts(blocks, weights)
        return [cut.times(float(self.weights[block])) for block, cut in zip(blocks, found, strict=True)]

    @property
    def queries(self) -> int | None:
        """Questions to the decoder so far, if the problem counts them."""
        return getattr(self.problem, "queries", None)

    @property
    def bounds(self) -> Bounds | None:
        """Those of the problem."""
        return self.problem.bounds

    def fingerprint(self) -> bytes | None:
        """Of the problem and the weights."""
        own = self.problem.fingerprint()
        return None if own is None else fingerprint(own, self.weights)


def check_weights(sample_weight: ArrayLike | None, n: int) -> Floats | None:
    """One weight per block, not negative."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but one weight for each of the {n} samples is needed")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one sample must count")
    return weights


def weighted(problem: Problem, sample_weight: ArrayLike | None) -> Problem:
    """The problem with its hinges multiplied by weights, if there are any."""
    weights = check_weights(sample_weight, problem.n_blocks)
    return problem if weights is None else WeightedProblem(problem, weights)
