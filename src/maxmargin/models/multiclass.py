"""One label out of K: weights are a K x p matrix, the score of label k is ``W[k] . x`` (spec A1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin.cuts import Cut, Problem, overrides
from maxmargin.fingerprint import fingerprint
from maxmargin.models.compiled import compiled_features
from maxmargin.models.distributions import log_mix, near_vertex, tilt
from maxmargin.models.rows import row_norms

Floats = NDArray[np.float64]


def row_of(X: Any, index: int) -> Floats:
    """One row of a dense or sparse matrix, dense."""
    row: Any = X[index]
    return np.asarray(row.toarray().ravel() if hasattr(row, "toarray") else row)


def largest_norm(X: Any) -> float:
    """Largest Euclidean norm of a row."""
    return float(row_norms(X).max(initial=0.0))


def check_costs(costs: ArrayLike | None, n_classes: int) -> Floats:
    """The (K, K) matrix of ``costs[truth, answer]``; 0-1 by default."""
    if costs is None:
        return 1.0 - np.eye(n_classes)
    matrix = np.asarray(costs, dtype=np.float64)
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(f"costs has shape {matrix.shape}, but {n_classes} classes need ({n_classes}, {n_classes})")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError("costs must be finite and not negative")
    if np.diagonal(matrix).any():
        k = int(np.flatnonzero(np.diagonal(matrix))[0])
        raise ValueError(f"costs[{k}, {k}]={matrix[k, k]:g} must be zero: the right answer costs nothing")
    return matrix


class MulticlassModel(Problem):
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
    weights : array of shape (n,), optional
        What the hinges of the samples are multiplied by; there is no compiled form then.
    """

    offers = frozenset({"whole passes", "expectations", "exact steps"})

    def __init__(
        self, X: Any, y: NDArray[np.int64], n_classes: int, costs: ArrayLike | None = None, weights: Floats | None = None
    ) -> None:
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(y)}; they must be equal")
        if len(y) and (y.min() < 0 or y.max() >= n_classes):
            raise ValueError(f"y must lie between 0 and {n_classes - 1}, but ranges from {y.min()} to {y.max()}")
        self.X = X
        self.y = y
        self.n_classes = n_classes
        self.costs = check_costs(costs, n_classes)
        self.weights = weights
        self.n_blocks = len(y)
        self.n_features = n_classes * X.shape[1]

    @cached_property
    def block_data(self) -> _core.BlockData | None:
        """For the compiled block solvers; None if samples have weights or a subclass has an oracle of its own."""
        if self.weights is not None or overrides(self, MulticlassModel):
            return None
        return _core.ClassData(compiled_features(self.X), self.y.astype(np.int32), self.costs, self.n_classes)

    def _hinges(self, blocks: Sequence[int], weights: Floats) -> Floats:
        scores = np.asarray(self.X[list(blocks)] @ weights.reshape(self.n_classes, -1).T)
        truth = self.y[list(blocks)]
        hinges = np.asarray(self.costs[truth] + scores - scores[np.arange(len(truth)), truth][:, None])
        return hinges if self.weights is None else self.weights[list(blocks)][:, None] * hinges

    def _weighted(self, block: int, cut: Cut) -> Cut:
        if self.weights is None:
            return cut
        weight = float(self.weights[block])
        return Cut(weight * cut.dense(self.n_features), weight * cut.loss)

    def _psi(self, block: int, coefficients: Floats) -> Floats:
        return np.outer(coefficients, row_of(self.X, block)).ravel()

    def _corner(self, block: int, label: int) -> Cut:
        coefficients = np.zeros(self.n_classes)
        coefficients[self.y[block]] += 1.0
        coefficients[label] -= 1.0
        return self._weighted(block, Cut(self._psi(block, coefficients), float(self.costs[self.y[block], label])))

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating label, the first of several."""
        return self.cuts([block], weights)[0]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several samples, with one matrix product."""
        labels = np.argmax(self._hinges(blocks, weights), axis=1)
        return [self._corner(block, int(label)) for block, label in zip(blocks, labels, strict=True)]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        everyone = np.arange(self.n_blocks)
        scores = np.asarray(self.X @ weights.reshape(self.n_classes, -1).T)
        answer = np.argmax(self.costs[self.y] + scores, axis=1)
        coefficients = np.zeros((self.n_blocks, self.n_classes))
        coefficients[everyone, self.y] += 1.0
        coefficients[everyone, answer] -= 1.0
        losses = self.costs[self.y, answer]
        if self.weights is not None:
            coefficients *= self.weights[:, None]
            losses = losses * self.weights
        psi = np.asarray((self.X.T @ coefficients).T).ravel() / self.n_blocks
        return Cut(psi, float(losses.mean()))

    def fingerprint(self) -> bytes:
        """Of data, costs and weights."""
        return fingerprint(type(self), self.X, self.y, self.costs, self.weights)

    def interior(self, block: int, mass: float) -> Floats:
        """Log-probabilities close to the truth."""
        return near_vertex(self.n_classes, int(self.y[block]), mass)

    def tilt(self, block: int, distribution: Floats, weights: Floats, temperature: float) -> Floats:
        """Log-probabilities moved toward violating labels."""
        return tilt(distribution, self._hinges([block], weights)[0], temperature)

    def mix(self, distribution: Floats, other: Floats, step: float) -> Floats:
        """Mixture of two distributions."""
        return log_mix(distribution, other, step)

    def average(self, block: int, distribution: Floats) -> Cut:
        """Average of all cuts: ``(e_truth - p) x'``."""
        p = np.exp(distribution)
        loss = float(p @ self.costs[self.y[block]])
        p[self.y[block]] -= 1.0
        return self._weighted(block, Cut(self._psi(block, -p), loss))

    def diameter(self) -> float:
        """``sqrt(2)`` times the largest norm of a sample."""
        most = 1.0 if self.weights is None else float(self.weights.max(initial=0.0))
        return float(np.sqrt(2.0) * most * largest_norm(self.X))


class BinaryModel(Problem):
    """Two classes and one weight vector: the ordinary hinge ``max(0, 1 - y w.x)``.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
        Features.
    y : array of shape (n,)
        Labels -1 and +1.
    """

    offers = frozenset({"whole passes", "expectations", "exact steps"})

    def __init__(self, X: Any, y: NDArray[Any]) -> None:
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(y)}; they must be equal")
        if not np.isin(y, (-1, 1)).all():
            raise ValueError("y must contain only -1 and +1")
        self.X = X
        self.y = np.asarray(y, dtype=np.float64)
        self.n_blocks, self.n_features = X.shape

    @cached_property
    def block_data(self) -> _core.BlockData | None:
        """For the compiled block solvers; None if a subclass has an oracle of its own."""
        if overrides(self, BinaryModel):
            return None
        return _core.ClassData(compiled_features(self.X), (self.y > 0).astype(np.int32), None, 2)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The other label, unless the margin is met."""
        return self.cuts([block], weights)[0]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several samples."""
        margins = self.y[list(blocks)] * np.asarray(self.X[list(blocks)] @ weights)
        # psi of the other label is y x: half of it would be the joint feature y x / 2 on either side. A margin that is not a
        # number goes the same way, for the solver to see.
        return [
            Cut(self.y[block] * row_of(self.X, block), 1.0) if not margin >= 1 else Cut(np.zeros(self.n_features), 0.0)
            for block, margin in zip(blocks, margins, strict=True)
        ]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        # A margin that is not a number goes the same way as above.
        wrong = ~(self.y * np.asarray(self.X @ weights) >= 1)
        psi = np.asarray(self.X.T @ np.where(wrong, self.y, 0.0)).ravel() / self.n_blocks
        return Cut(psi, float(wrong.mean()))

    def fingerprint(self) -> bytes:
        """Of the data."""
        return fingerprint(type(self), self.X, self.y)

    def interior(self, block: int, mass: float) -> Floats:
        """Log-probabilities of (right, wrong)."""
        return near_vertex(2, 0, mass)

    def tilt(self, block: int, distribution: Floats, weights: Floats, temperature: float) -> Floats:
        """Log-probabilities moved toward the violating label."""
        hinge = 1.0 - self.y[block] * float(row_of(self.X, block) @ weights)
        return tilt(distribution, np.array([0.0, hinge]), temperature)

    def mix(self, distribution: Floats, other: Floats, step: float) -> Floats:
        """Mixture of two distributions."""
        return log_mix(distribution, other, step)

    def average(self, block: int, distribution: Floats) -> Cut:
        """The wrong label's cut times its probability."""
        p = float(np.exp(distribution[1]))
        return Cut(p * self.y[block] * row_of(self.X, block), p)

    def diameter(self) -> float:
        """Largest norm of a sample."""
        return largest_norm(self.X)
