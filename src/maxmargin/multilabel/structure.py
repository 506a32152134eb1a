"""Sets of labels: weights are an L x p matrix and a score for each of some pairs of labels (spec 11.1).

The score of a set ``y`` in {0, 1}^L is ``sum_j y_j W[j] . x + sum over pairs (j, k) of y_j y_k P_jk``, its loss the number of
wrong labels. Which pairs there are decides how the best set is found, see :mod:`maxmargin.multilabel.inference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import Bounds as Box
from scipy.optimize import LinearConstraint, milp

from maxmargin._utils import Floats
from maxmargin.core import Bounds, Decoded, Structure, as_rows, check_rows, is_sparse, stack
from maxmargin.multilabel.inference import LabelPairs, all_sets

LabelSet = NDArray[np.int8]

# Up to so many labels all sets are listed where a search wants that.
MOST_LISTED = 14


class LabelSetStructure(Structure):
    """Label sets with Hamming loss. Inputs are arrays of shape (p,) or sparse rows, outputs arrays of L zeros and ones.

    Parameters
    ----------
    n_labels, n_inputs : int
        L and p.
    pairs : int array of shape (E, 2)
        Pairs of labels that have scores.
    attractive : bool
        Whether pairs can only be good, which bounds of their weights ensure: then minimum cuts find the best set.

    Attributes
    ----------
    exact : bool
        Whether the best set is always found; if not, it comes with an upper bound (:class:`Decoded`), that of the relaxation.

    Examples
    --------
    >>> structure = LabelSetStructure(3, 1, [(0, 1)])
    >>> structure.decode(np.array([1.0]), np.array([1.0, -0.5, -1.0, 0.75]))
    array([1, 1, 0], dtype=int8)
    >>> structure.k_best(np.array([1.0]), np.array([1.0, -0.5, -1.0, 0.75]), None, 1.0, 0.0, 2)
    [array([1, 1, 0], dtype=int8), array([1, 0, 0], dtype=int8)]
    """

    def __init__(self, n_labels: int, n_inputs: int, pairs: ArrayLike = (), attractive: bool = False) -> None:
        self.n_labels, self.n_inputs = n_labels, n_inputs
        self.pairs, self.attractive = LabelPairs(n_labels, pairs), attractive
        self.exact = self.pairs.exact or attractive

    @property
    def n_weights(self) -> int:
        """``L p + E``."""
        return self.n_labels * self.n_inputs + len(self.pairs.pairs)

    @property
    def bounds(self) -> Bounds | None:
        """Scores of pairs that attract are not negative."""
        if not self.attractive:
            return None
        lower = np.full(self.n_weights, -np.inf)
        lower[self.n_labels * self.n_inputs :] = 0.0
        return lower, np.full(self.n_weights, np.inf)

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """A row of numbers, and zeros and ones for the labels."""
        row = check_rows(as_rows(x), "x")
        if row.shape != (1, self.n_inputs):
            raise ValueError(f"x has shape {np.shape(x)}, but must be one row of {self.n_inputs} numbers")
        if y is None:
            return row, None
        labels = np.asarray(y.toarray() if is_sparse(y) else y).ravel()
        if labels.shape != (self.n_labels,) or not np.isin(labels, (0, 1)).all():
            raise ValueError(f"y must be {self.n_labels} zeros and ones, one for each label")
        return row, labels.astype(np.int8)

    def split(self, weights: Floats) -> tuple[Floats, Floats]:
        """Weights of labels (L, p) and of pairs (E,)."""
        own = self.n_labels * self.n_inputs
        return weights[:own].reshape(self.n_labels, self.n_inputs), weights[own:]

    def joint_feature(self, x: Any, y: Any) -> Any:
        """The input in the place of every label of the set, and a one for every pair of them."""
        row: Any = sparse.coo_array(as_rows(x))
        labels = np.asarray(y, dtype=np.float64)
        on, both = np.flatnonzero(labels), self.pair_values(labels)
        pairs = np.flatnonzero(both)
        own = (on[:, None] * self.n_inputs + row.col).ravel()
        at = np.concatenate([own, self.n_labels * self.n_inputs + pairs])
        values = np.concatenate([np.outer(labels[on], row.data).ravel(), both[pairs]])
        return sparse.coo_array((values, (np.zeros_like(at), at)), shape=(1, self.n_weights))

    def pair_values(self, labels: Floats) -> Floats:
        """A one for every pair that is in the set."""
        return labels[self.pairs.pairs[:, 0]] * labels[self.pairs.pairs[:, 1]]

    def loss(self, truth: Any, y: Any) -> float:
        """How many labels are wrong."""
        return float(np.abs(np.asarray(truth, dtype=np.float64) - np.asarray(y)).sum())

    def set_size(self, y: Any) -> int:
        """How many labels the set has."""
        return int(np.sum(y))

    def unary(self, X: Any, weights: Floats, truths: Any = None, a: float = 1.0, b: float = 0.0, c: float = 0.0) -> Floats:
        """Shares of the labels in ``a * score + b * loss - c * size``, shape (n, L), but for what the empty set loses."""
        own, _ = self.split(weights)
        scores = a * np.asarray(X @ own.T) - c
        return scores if truths is None else scores + b * (1.0 - 2.0 * np.asarray(truths, dtype=np.float64))

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The best set, or a good one with the bound of the relaxation."""
        return self.decode_sized(x, weights, truth, a, b, 0.0)

    def decode_sized(self, x: Any, weights: Floats, truth: Any, a: float, b: float, c: float) -> Any:
        """The set with the largest ``a * score + b * loss - c * size``."""
        truths = None if truth is None else np.asarray(truth)[None]
        return self._answers(as_rows(x), weights, truths, a, b, c)[0]

    def decode_batch(
        self, xs: Any, weights: Floats, truths: Sequence[Any] | None = None, a: float = 1.0, b: float = 0.0
    ) -> list[Any]:
        """By one matrix product; ``xs`` may be a matrix."""
        return self._answers(stack(xs), weights, None if truths is None else np.asarray(truths), a, b, 0.0)

    def _answers(self, X: Any, weights: Floats, truths: Any, a: float, b: float, c: float) -> list[Any]:
        pairs = a * self.split(weights)[1]
        found = self.pairs.best(self.unary(X, weights, truths, a, b, c), pairs)
        if found.upper is None:
            # What is exact here need not be so elsewhere, and then everything has a bound.
            if self.exact:
                return list(found.labels)
            upper = self.pairs.scores(found.labels, self.unary(X, weights, truths, a, b, c), pairs)
        else:
            upper = found.upper
        empty = np.zeros(len(upper)) if truths is None else b * np.asarray(truths).sum(axis=1)
        return [Decoded(labels, float(bound)) for labels, bound in zip(found.labels, upper + empty, strict=True)]

    def k_best(self, x: Any, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[LabelSet]:
        """The ``k`` best different sets, best first; all of them if there are no more. Exact where `decode` is."""
        truths = None if truth is None else np.asarray(truth)[None]
        unary, pairs = self.unary(as_rows(x), weights, truths, a, b)[0], a * self.split(weights)[1]
        if self.n_labels <= MOST_LISTED and k > self.n_labels:
            sets = all_sets(self.n_labels)
            order = np.argsort(-self.pairs.listed_scores(unary, pairs), kind="stable")[:k]
            return list(sets[order].astype(np.int8))
        return [labels for labels, _ in self.pairs.k_best(unary, pairs, k)]

    def all_outputs(self, x: Any) -> list[LabelSet]:
        """All sets of few labels."""
        if self.n_labels > MOST_LISTED:
            raise ValueError(f"{self.n_labels} labels have too many sets to list them; at most {MOST_LISTED} can be listed")
        return list(all_sets(self.n_labels).astype(np.int8))

    def decode_within(self, x: Any, weights: Floats, truth: Any, lam: float, low: float, high: float) -> LabelSet | None:
        """The set with the largest ``score + lam * loss`` of those with ``low <= loss / (1 + margin error) < high``.

        Margin error and loss are positive, the former with the one added (E2). Few labels are listed, more are left to an integer
        program (HiGHS) whose open end is moved inward by a billionth (spec 7.2). None if there is no such set.
        """
        own, pairs = self.unary(as_rows(x), weights)[0], self.split(weights)[1]
        turns = 1.0 - 2.0 * np.asarray(truth, dtype=np.float64)
        size, base = float(np.sum(truth)), float(self.pairs.scores(np.asarray(truth), own, pairs))
        if self.n_labels <= MOST_LISTED:
            sets = all_sets(self.n_labels)
            error, wrong = 1.0 + self.pairs.listed_scores(own, pairs) - base, size + sets @ turns
            with np.errstate(divide="ignore", invalid="ignore"):
                slope = wrong / error
            inside = (error > 0) & (wrong > 0) & (slope >= low) & (slope < high)
            if not inside.any():
                return None
            return np.asarray(sets[np.argmax(np.where(inside, error + lam * wrong, -np.inf))], dtype=np.int8)
        return self._by_integer_program(own, pairs, turns, size, 1.0 - base, lam, low, high)

    def _by_integer_program(
        self, own: Floats, pairs: Floats, turns: Floats, size: float, rest: float, lam: float, low: float, high: float
    ) -> LabelSet | None:
        L, E = self.n_labels, len(pairs)
        # Variables are labels and pairs; error = rest + error_of . v, wrong = size + wrong_of . v.
        error_of, wrong_of = np.concatenate([own, pairs]), np.concatenate([turns, np.zeros(E)])
        one, (j, k) = np.arange(E), self.pairs.pairs.T
        pair = sparse.csr_array((np.ones(E), (one, L + one)), shape=(E, L + E))
        first = sparse.csr_array((np.ones(E), (one, j)), shape=(E, L + E))
        second = sparse.csr_array((np.ones(E), (one, k)), shape=(E, L + E))
        constraints = [
            LinearConstraint(pair - first, -np.inf, 0.0),
            LinearConstraint(pair - second, -np.inf, 0.0),
            LinearConstraint(first + second - pair, -np.inf, 1.0),
            LinearConstraint(wrong_of[None], 1.0 - size, np.inf),
            LinearConstraint(error_of[None], 1e-9 - rest, np.inf),
        ]
        if low > 0:
            constraints.append(LinearConstraint((wrong_of - low * error_of)[None], low * rest - size, np.inf))
        if np.isfinite(high):
            end = high * (1.0 - 1e-9)
            constraints.append(LinearConstraint((end * error_of - wrong_of)[None], size - end * rest, np.inf))
        whole = np.concatenate([np.ones(L), np.zeros(E)])
        found = milp(-(error_of + lam * wrong_of), constraints=constraints, integrality=whole, bounds=Box(0.0, 1.0))
        return None if found.x is None else np.asarray(np.rint(found.x[:L]), dtype=np.int8)


class RelaxedLabelSets(LabelSetStructure):
    """A :class:`LabelSetStructure` whose outputs in training may have halves of labels, solutions of the linear relaxation.

    Features and loss are linear in labels and pairs, so that hinges of the relaxation are at least those of sets. What a pair has
    of two halves depends on the sign of its score, so that such outputs belong to the weights for which they were found:
    :class:`maxmargin.multilabel.MultilabelProblem` keeps the two together, and this class stands for what is trained.
    """

    @property
    def relaxed(self) -> bool:
        """Whether halves can be worth more than sets."""
        return not (self.pairs.is_forest or self.attractive)
