"""Samples with one label out of K under other surrogates than margin rescaling: all labels are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.core import Cut, compiled_features, row_of
from maxmargin.multiclass.problem import MulticlassProblem
from maxmargin.surrogates import MicroF1, Surrogate, compiled_surrogate


class SurrogateMulticlassProblem(MulticlassProblem):
    """Classes whose hinge is the largest ``psi(score - score of the truth, cost)`` of a label; K values, so the search is exact.

    Parameters
    ----------
    X, y, n_classes, costs, sample_weight
        As in :class:`MulticlassProblem`.
    surrogate : Surrogate
        Any that is not made for sets; those that are affine in the margin have compiled blocks.

    Examples
    --------
    >>> from maxmargin.surrogates import Slack
    >>> problem = SurrogateMulticlassProblem(np.eye(2), np.array([0, 1]), 2, [[0, 3], [3, 0]], surrogate=Slack())
    >>> problem.cut(0, np.array([0.5, 0, 0, 0]))
    Cut(psi=array([ 3.,  0., -3., -0.]), loss=3.0, bound=None)
    """

    # The best point of a block is known where psi is affine in the margin error: its dual is quadratic then.
    exact_steps = True
    compiled_expectations = False

    def __init__(
        self,
        X: Any,
        y: Ints,
        n_classes: int,
        costs: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        surrogate: Surrogate,
    ) -> None:
        super().__init__(X, y, n_classes, costs, sample_weight)
        if isinstance(surrogate, MicroF1):
            raise ValueError("the micro F1 is a surrogate of sets, and a class is none; choose another surrogate")
        self.surrogate = surrogate
        pair = surrogate.affine(self.costs)
        # Of psi = a h + b for every truth and answer, if it is of that form; the truth is worth nothing.
        self._affine = None if pair is None else tuple(_without_diagonal(part, n_classes) for part in pair)
        # Tangents of a function that is not convex are no lower bounds.
        self.convex = self.exact = surrogate.convex

    def _contents(self) -> tuple[Any, ...] | None:
        form = compiled_surrogate(self.surrogate)
        return None if form is None else (self.X, self.y, self.costs, self.sample_weight, *form)

    def make_block_data(self) -> _core.BlockData | None:
        """Return the compiled form of this problem."""
        if self._affine is None:
            return None
        factors, costs = self._affine
        features, labels = compiled_features(self.X), self.y.astype(np.int32)
        data = _core.ClassData(features, labels, costs, self.n_classes, self.sample_weight)
        data.set_factors(factors)
        return data

    def _search(self, blocks: Ints, weights: Floats) -> tuple[Ints, Floats, Floats]:
        """Of every sample the most violating label, the first of several, and its cut ``a * margin error + b``."""
        at, truth = np.arange(len(blocks)), self.y[blocks]
        scores = self.structure.augmented(self.X[blocks], weights)
        h, g = scores - scores[at, truth][:, None], self.costs[truth]
        if self._affine is not None:
            a, b = (part[truth] for part in self._affine)
        else:
            # What costs nothing, the truth among it, is worth nothing.
            costly = np.where(g > 0, g, 1.0)
            a = np.where(g > 0, self.surrogate.gradient(h, costly)[0], 0.0)
            b = np.where(g > 0, self.surrogate.value(h, costly) - a * h, 0.0)
        # A score that is not a number goes on, for the solver to see.
        values = a * h + b
        labels = np.argmax(values, axis=1)
        labels = np.where(values[at, labels] <= 0, truth, labels)
        return labels, a[at, labels], b[at, labels]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The most violating labels."""
        chosen = np.asarray(list(blocks), dtype=np.int64)
        found = []
        for block, label, a, b in zip(chosen.tolist(), *self._search(chosen, weights), strict=True):
            coefficients = np.zeros(self.n_classes)
            coefficients[self.y[block]] += a
            coefficients[label] -= a
            cut = Cut(np.outer(coefficients, row_of(self.X, block)).ravel(), float(b))
            found.append(cut if self.sample_weight is None else cut.times(float(self.sample_weight[block])))
        return found

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        everyone = np.arange(self.n_blocks)
        answer, a, b = self._search(everyone, weights)
        coefficients = np.zeros((self.n_blocks, self.n_classes))
        coefficients[everyone, self.y] += self._counts * a
        coefficients[everyone, answer] -= self._counts * a
        psi = np.asarray((self.X.T @ coefficients).T).ravel() / self.n_blocks
        return Cut(psi, float(np.mean(self._counts * b)))

    def diameter(self) -> float:
        """Of no use: there are no expectations over labels under this surrogate."""
        raise NotImplementedError("partial linearization needs margin rescaling")


def _without_diagonal(values: ArrayLike, n: int) -> Floats:
    matrix = np.array(np.broadcast_to(np.asarray(values, dtype=np.float64), (n, n)))
    np.fill_diagonal(matrix, 0.0)
    return matrix
