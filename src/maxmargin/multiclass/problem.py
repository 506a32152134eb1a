"""Samples that have one label out of K, or one of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.core import ArrayProblem, Cut, check_weights, compiled_features, row_norms, row_of
from maxmargin.multiclass.structure import ClassStructure


class MulticlassProblem(ArrayProblem):
    """The multi-class hinge of Crammer and Singer, with any cost matrix.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
        Features.
    y : int array of shape (n,)
        Labels 0 to K - 1.
    n_classes : int
        K.
    costs : array of shape (K, K), optional
        ``costs[truth, answer]``; 0-1 by default.
    sample_weight : array of shape (n,), optional
        The hinge of every sample is multiplied by its weight; by one if not given.
    """

    exact_steps = True
    compiled_expectations = True

    def __init__(
        self, X: Any, y: Ints, n_classes: int, costs: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> None:
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(y)}; they must be equal")
        if len(y) and (y.min() < 0 or y.max() >= n_classes):
            raise ValueError(f"y must lie between 0 and {n_classes - 1}, but ranges from {y.min()} to {y.max()}")
        self.X, self.y = X, y
        self.structure = ClassStructure(n_classes, X.shape[1], costs)
        self.n_classes, self.costs = n_classes, self.structure.costs
        self.sample_weight = check_weights(sample_weight, len(y))
        self._counts = np.ones(len(y)) if self.sample_weight is None else self.sample_weight
        self.n_blocks = len(y)
        self.n_features = n_classes * X.shape[1]

    def _contents(self) -> tuple[Any, ...] | None:
        return self.X, self.y, self.costs, self.sample_weight

    def make_block_data(self) -> _core.BlockData | None:
        """Return the compiled form of this problem."""
        labels = self.y.astype(np.int32)
        return _core.ClassData(compiled_features(self.X), labels, self.costs, self.n_classes, self.sample_weight)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The most violating labels, each the first of several, with one matrix product."""
        chosen = list(blocks)
        labels = np.argmax(self.structure.augmented(self.X[chosen], weights, self.y[chosen], 1.0, 1.0), axis=1)
        found = []
        for block, label in zip(blocks, labels, strict=True):
            weight, truth, coefficients = float(self._counts[block]), self.y[block], np.zeros(self.n_classes)
            coefficients[truth] += weight
            coefficients[label] -= weight
            psi = np.outer(coefficients, row_of(self.X, block)).ravel()
            found.append(Cut(psi, weight * float(self.costs[truth, label])))
        return found

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        everyone = np.arange(self.n_blocks)
        answer = np.argmax(self.structure.augmented(self.X, weights, self.y, 1.0, 1.0), axis=1)
        coefficients = np.zeros((self.n_blocks, self.n_classes))
        coefficients[everyone, self.y] += self._counts
        coefficients[everyone, answer] -= self._counts
        psi = np.asarray((self.X.T @ coefficients).T).ravel() / self.n_blocks
        return Cut(psi, float(np.mean(self._counts * self.costs[self.y, answer])))

    def diameter(self) -> float:
        """``sqrt(2)`` times the largest norm of a sample, times its weight."""
        return float(np.sqrt(2.0) * (row_norms(self.X) * self._counts).max(initial=0.0))
