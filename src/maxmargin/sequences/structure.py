"""Labels on the nodes of trees, and of sequences: trees in which every position is the parent of the next.

The joint feature of a labeling has four parts: for every label the sum of the features of its nodes, how many roots and how
many leaves have it (the first and the last position), and the counts of pairs (parent's label, own label); for the OCR data of
the literature 26 x 129 + 26 + 26 + 26 x 26 = 4082 numbers (spec A9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin._utils import Floats, Ints
from maxmargin.core import Problem, Structure, check_rows, stack
from maxmargin.labeling import k_best_labelings
from maxmargin.sequences.forest import (
    CHAINS,
    TREES,
    Forests,
    TreeWeights,
    add_losses,
    best_by_count,
    best_labels,
    check_labels,
    label_scores,
)


class Tree(NamedTuple):
    """Features of nodes (L, p) and the parent (L,) of each: a node before it, or -1 for a root; several roots are fine."""

    features: Any
    parent: ArrayLike


class TreeStructure(Structure):
    """Labelings of a :class:`Tree` with Hamming loss; the best one is found by belief propagation (Viterbi).

    Parameters
    ----------
    n_labels, n_inputs : int
        K and p; outputs are arrays of shape (L,) of labels 0 to K - 1.
    normalize : bool
        Divide the Hamming loss by the number of nodes.

    Examples
    --------
    >>> tree = Tree(np.array([[1.0], [0.1], [-2.0]]), [-1, 0, 0])
    >>> TreeStructure(2, 1).decode(tree, np.array([-1.0, 1.0, 0, 0, 0, 0, 0.5, 0, 0, 0.5]))
    array([1, 1, 0])
    """

    words = TREES

    def __init__(self, n_labels: int, n_inputs: int, normalize: bool = True) -> None:
        self.n_labels, self.n_inputs, self.normalize = n_labels, n_inputs, normalize

    def parts(self, x: Any) -> tuple[Any, ArrayLike | None]:
        """Features and parents; no parents if the nodes form a chain."""
        if not isinstance(x, tuple | list) or len(x) != 2:
            raise ValueError(f"x must be a pair (features, parent), such as maxmargin.sequences.Tree, not {type(x).__name__}")
        return x[0], x[1]

    def gather(self, xs: Sequence[Any]) -> tuple[Any, Forests]:
        """Features of all nodes below each other, and who is whose parent."""
        features, parents = zip(*map(self.parts, xs), strict=True)
        offsets = np.concatenate([[0], np.cumsum([rows.shape[0] for rows in features])])
        return stack(features), Forests(offsets, None if parents[0] is None else np.concatenate(parents), self.words)

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """Rows of numbers, and one label for each."""
        features, parent = self.parts(x)
        rows = check_rows(features, "x")
        forest = Forests([0, rows.shape[0]], parent, self.words)
        if rows.shape[1] != self.n_inputs:
            raise ValueError(f"x has {rows.shape[1]} features, but {self.n_inputs} are needed")
        labels = None if y is None else check_labels(y, self.n_labels)
        if labels is not None and len(labels) != rows.shape[0]:
            raise ValueError(f"x has {rows.shape[0]} {self.words.node}s, but y has {len(labels)}; they must be equal")
        return (rows if forest.parent is None else Tree(rows, forest.parent)), labels

    def joint_feature(self, x: Any, y: Any) -> Any:
        """Counts of everything that has a weight, as a sparse row."""
        X, forest = self.gather([x])
        labels, K, p = np.asarray(y, dtype=np.int64), self.n_labels, self.n_inputs
        if labels.shape != (X.shape[0],):
            raise ValueError(f"y has shape {labels.shape}, but x has {X.shape[0]} {self.words.node}s")
        rows: Any = sparse.coo_array(X)
        counted = [
            K * p + labels[forest.is_root],
            K * p + K + labels[forest.is_leaf],
            K * p + 2 * K + K * labels[forest.above] + labels[forest.child],
        ]
        at = np.concatenate([labels[rows.row] * p + rows.col, *counted])
        values = np.concatenate([rows.data, np.ones(len(at) - len(rows.data))])
        return sparse.coo_array((values, (np.zeros_like(at), at)), shape=(1, TreeWeights.size(K, p)))

    def loss(self, truth: Any, y: Any) -> float:
        """Wrong labels, over the number of nodes if normalized."""
        wrong = np.count_nonzero(np.asarray(truth) != np.asarray(y))
        return wrong / len(truth) if self.normalize else float(wrong)

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Ints:
        """The best labeling; of equally good labels the lowest, from the roots down."""
        return TreeStructure.decode_batch(self, [x], weights, None if truth is None else [truth], a, b)[0]

    def decode_batch(
        self, xs: Sequence[Any], weights: Floats, truths: Sequence[Any] | None = None, a: float = 1.0, b: float = 0.0
    ) -> list[Ints]:
        """Those of several trees."""
        X, forests = self.gather(xs)
        parts = TreeWeights(a * weights, self.n_labels, self.n_inputs)
        scores = label_scores(parts, X, forests.is_root, forests.is_leaf)
        if truths is not None:
            add_losses(scores, np.concatenate(truths), b * forests.costs(self.normalize))
        labels = best_labels(scores, parts, forests.offsets, forests.parent)
        return np.split(labels, forests.offsets[1:-1])

    def k_best(self, x: Any, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[Ints]:
        """The k best labelings, by dynamic programming with lists."""
        X, forest = self.gather([x])
        parts = TreeWeights(a * weights, self.n_labels, self.n_inputs)
        scores = label_scores(parts, X, forest.is_root, forest.is_leaf)
        if truth is not None:
            add_losses(scores, np.asarray(truth), b * forest.costs(self.normalize))
        parent = np.arange(-1, len(scores) - 1) if forest.parent is None else np.asarray(forest.parent, dtype=np.int64)
        return list(k_best_labelings(scores, parts.transition, parent, k)[1])

    def best_by_loss(self, x: Any, weights: Floats, truth: Any) -> list[Ints]:
        """The best labeling for every number of wrong labels, none first: the truth."""
        return list(self._by_count(x, weights, truth)[1])

    def decode_within(self, x: Any, weights: Floats, truth: Any, lam: float, low: float, high: float) -> Ints | None:
        """The best of `best_by_loss` with ``low <= loss / (1 + margin error) < high``, both positive; None if there is none.

        Among *all* labelings in the cone this would be the problem of hitting a sum exactly, which is hard; but those left out
        have a smaller margin error than one with the same loss, so that none of them is the most violating.
        """
        scores, labels = self._by_count(x, weights, truth)
        error, loss = 1.0 + scores - scores[0], np.arange(len(scores)) / (len(truth) if self.normalize else 1.0)
        with np.errstate(divide="ignore"):
            slope = loss / error
        inside = (error > 0) & (loss > 0) & (slope >= low) & (slope < high)
        return labels[np.argmax(np.where(inside, error + lam * loss, -np.inf))] if inside.any() else None

    def _by_count(self, x: Any, weights: Floats, truth: Any) -> tuple[Floats, Ints]:
        X, forest = self.gather([x])
        parts = TreeWeights(weights, self.n_labels, self.n_inputs)
        return best_by_count(label_scores(parts, X, forest.is_root, forest.is_leaf), parts, np.asarray(truth), forest.parent)

    def all_outputs(self, x: Any) -> Iterator[Ints]:
        """All labelings, of which there are many."""
        nodes = self.parts(x)[0].shape[0]
        return (np.array(labels, dtype=np.int64) for labels in product(range(self.n_labels), repeat=nodes))

    def loss_values(self, x: Any, truth: Any) -> Floats:
        """Counts of wrong labels, over the number of nodes if normalized."""
        counts = np.arange(len(truth) + 1.0)
        return counts / len(truth) if self.normalize else counts

    def make_problem(self, xs: Sequence[Any], ys: Sequence[Any]) -> Problem:
        """The compiled problem of these samples."""
        from maxmargin.sequences.problem import TreeProblem

        X, forests = self.gather(xs)
        return TreeProblem(X, np.concatenate(ys), forests.offsets, forests.parent, self.n_labels, normalize=self.normalize)


class ChainStructure(TreeStructure):
    """Labelings of sequences, as :class:`TreeStructure`; inputs are arrays or CSR matrices of shape (L, p)."""

    words = CHAINS

    def parts(self, x: Any) -> tuple[Any, None]:
        """Features alone."""
        return x, None

    def make_problem(self, xs: Sequence[Any], ys: Sequence[Any]) -> Problem:
        """The compiled problem of these samples."""
        from maxmargin.sequences.problem import ChainProblem

        X, forests = self.gather(xs)
        return ChainProblem(X, np.concatenate(ys), forests.offsets, self.n_labels, normalize=self.normalize)
