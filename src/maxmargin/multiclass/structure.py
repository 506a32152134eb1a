"""One label out of K: weights are a K x p matrix, the score of label k is ``W[k] . x`` (spec A1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin._utils import Floats
from maxmargin.core import Problem, Structure, as_rows, check_costs, check_rows, stack


class ClassStructure(Structure):
    """Classes with any cost matrix. Inputs are arrays of shape (p,) or sparse rows, outputs 0 to K - 1.

    Parameters
    ----------
    n_classes, n_inputs : int
        K and p.
    costs : array of shape (K, K), optional
        ``costs[truth, answer]``; 0-1 by default.

    Examples
    --------
    >>> ClassStructure(3, 2).decode(np.array([1.0, -1.0]), np.array([0.0, 0.0, 2.0, 1.0, 0.5, 0.0]))
    1
    """

    def __init__(self, n_classes: int, n_inputs: int, costs: ArrayLike | None = None) -> None:
        self.n_classes, self.n_inputs = n_classes, n_inputs
        self.costs = check_costs(costs, n_classes)

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """A row of numbers, and a label between 0 and K - 1."""
        row = check_rows(as_rows(x), "x")
        if row.shape != (1, self.n_inputs):
            raise ValueError(f"x has shape {np.shape(x)}, but must be one row of {self.n_inputs} numbers")
        if y is not None and not 0 <= y < self.n_classes:
            raise ValueError(f"y={y} must lie between 0 and {self.n_classes - 1}")
        return row, y

    def joint_feature(self, x: Any, y: Any) -> Any:
        """The input, in the place of its label."""
        row: Any = sparse.coo_array(as_rows(x))
        at = row.col.astype(np.int64) + int(y) * self.n_inputs
        return sparse.coo_array((row.data, (np.zeros_like(at), at)), shape=(1, self.n_classes * self.n_inputs))

    def loss(self, truth: Any, y: Any) -> float:
        """The cost of answering ``y``."""
        return float(self.costs[truth, y])

    def augmented(self, X: Any, weights: Floats, truths: Any = None, a: float = 1.0, b: float = 0.0) -> Floats:
        """``a * score + b * cost`` of every label, shape (n, K), for the rows of X."""
        scores = np.asarray(X @ (a * weights).reshape(self.n_classes, -1).T)
        return scores if truths is None else scores + b * self.costs[truths]

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> int:
        """The best label, the first of several."""
        truths = None if truth is None else [truth]
        return int(np.argmax(self.augmented(as_rows(x), weights, truths, a, b)))

    def decode_batch(
        self, xs: Any, weights: Floats, truths: Sequence[Any] | None = None, a: float = 1.0, b: float = 0.0
    ) -> list[int]:
        """By one matrix product; ``xs`` may be a matrix."""
        labels: list[int] = np.argmax(self.augmented(stack(xs), weights, truths, a, b), axis=1).tolist()
        return labels

    def k_best(self, x: Any, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[int]:
        """The k best labels, by sorting."""
        values = self.augmented(as_rows(x), weights, None if truth is None else [truth], a, b)[0]
        best: list[int] = np.argsort(-values, kind="stable")[:k].tolist()
        return best

    def all_outputs(self, x: Any) -> range:
        """All labels."""
        return range(self.n_classes)

    def loss_values(self, x: Any, truth: Any) -> Floats:
        """All costs of this truth."""
        return np.unique(self.costs[truth])

    def make_problem(self, xs: Sequence[Any], ys: Sequence[Any]) -> Problem:
        """The compiled problem of these samples."""
        from maxmargin.multiclass.problem import MulticlassProblem

        return MulticlassProblem(stack(xs), np.array(ys, dtype=np.int64), self.n_classes, self.costs)
