"""Trees of labels, as in :mod:`maxmargin.sequences.structure`, with data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.core import ArrayProblem, Cut, check_rows, compiled_features, row_norms
from maxmargin.sequences.forest import CHAINS, TREES, Forests, TreeWeights, add_losses, best_labels, check_labels, label_scores


class LabelingProblem(ArrayProblem, ABC):
    """Labels on the nodes of forests, Hamming loss, and somebody who finds the best labeling from the scores.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, p)
        Features of all nodes of all forests, one forest after the other.
    y : int array of shape (N,)
        Labels 0 to K - 1.
    offsets : int array of shape (n + 1,)
        Forest i has the rows ``offsets[i]:offsets[i + 1]``; none is empty.
    parent : int array of shape (N,) or None
        Parent of every node, counted from the first node of its forest; -1 for a root. Parents come before their children.
        None if every forest is a chain.
    n_labels : int
        K.
    normalize : bool
        Divide the Hamming loss by the number of nodes of the forest.
    """

    words = TREES

    def __init__(
        self, X: Any, y: ArrayLike, offsets: ArrayLike, parent: ArrayLike | None, n_labels: int, *, normalize: bool = True
    ) -> None:
        self.X, self.y = check_rows(X), check_labels(y, n_labels)
        n, end = self.X.shape[0], int(np.asarray(offsets)[-1])
        if not n == len(self.y) == end:
            raise ValueError(f"X has {n} {self.words.node}s, y has {len(self.y)} and offsets end at {end}; they must be equal")
        self.forests = Forests(offsets, parent, self.words)
        self.offsets, self.n_labels = self.forests.offsets, n_labels
        self.n_inputs = int(self.X.shape[1])
        self.n_blocks = len(self.forests.lengths)
        self.n_features = TreeWeights.size(n_labels, self.n_inputs)
        self.cost = self.forests.costs(normalize)

    def _forest_data(self) -> _core.LabelingData:
        features, labels = compiled_features(self.X), self.y.astype(np.int32)
        return _core.LabelingData(features, labels, self.cost, self.offsets, self.forests.parent, self.n_labels)

    @abstractmethod
    def _decode(self, blocks: Sequence[int], scores: Floats, parts: TreeWeights, offsets: Ints) -> Ints:
        """The best labelings of some blocks, one after the other; block k of them has the rows ``offsets[k]:offsets[k + 1]``."""

    def _parts(self, weights: Floats) -> TreeWeights:
        return TreeWeights(weights, self.n_labels, self.n_inputs)

    def _augmented(self, rows: slice | Ints, weights: TreeWeights) -> Floats:
        """Scores of the labels of some nodes, plus what they cost."""
        scores = label_scores(weights, self.X[rows], self.forests.is_root[rows], self.forests.is_leaf[rows])
        add_losses(scores, self.y[rows], self.cost[rows])
        return scores

    def _counts(self, parents: Ints, children: Ints) -> Floats:
        """How often each pair of labels occurs, shape (K * K,)."""
        return np.bincount(parents * self.n_labels + children, minlength=self.n_labels**2).astype(np.float64)

    def _difference(self, rows: slice, children: Ints, parents: Ints, labels: Ints) -> tuple[Floats, float]:
        """Feature of the truth minus that of a labeling, and its loss; edges are counted from the first row."""
        truth = self.y[rows]
        at = np.arange(len(truth))
        nodes = np.zeros((len(truth), self.n_labels))
        nodes[at, truth] += 1.0
        nodes[at, labels] -= 1.0
        pairs = self._counts(truth[parents], truth[children]) - self._counts(labels[parents], labels[children])
        roots, leaves = nodes[self.forests.is_root[rows]], nodes[self.forests.is_leaf[rows]]
        psi = np.concatenate([(nodes.T @ self.X[rows]).ravel(), roots.sum(axis=0), leaves.sum(axis=0), pairs])
        return psi, float(np.sum(self.cost[rows][truth != labels]))

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The most violating labelings."""
        if len(blocks) == 0:
            return []
        parts, forests = self._parts(weights), self.forests
        chosen = np.concatenate([np.arange(self.offsets[b], self.offsets[b + 1]) for b in blocks])
        offsets = np.concatenate([[0], np.cumsum(forests.lengths[list(blocks)])])
        labels = np.split(self._decode(blocks, self._augmented(chosen, parts), parts, offsets), offsets[1:-1])
        return [Cut(*self._difference(forests.rows(b), *forests.edges(b), own)) for b, own in zip(blocks, labels, strict=True)]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all forests, without a feature vector for each."""
        parts, forests, everything = self._parts(weights), self.forests, slice(None)
        labels = self._decode(range(self.n_blocks), self._augmented(everything, parts), parts, self.offsets)
        psi, loss = self._difference(everything, forests.child, forests.above, labels)
        return Cut(psi / self.n_blocks, loss / self.n_blocks)


class TreeProblem(LabelingProblem):
    """Forests with Hamming loss, given as for :class:`LabelingProblem`; belief propagation (Viterbi) finds the best labeling."""

    compiled_expectations = True

    def make_block_data(self) -> _core.LabelingData:
        """Return the compiled form of this problem."""
        return self._forest_data()

    def _contents(self) -> tuple[Any, ...]:
        return self.X, self.y, self.cost, self.offsets, self.forests.parent, self.n_labels

    def _decode(self, blocks: Sequence[int], scores: Floats, parts: TreeWeights, offsets: Ints) -> Ints:
        parent = self.forests.parent
        if parent is not None and blocks != range(self.n_blocks):
            parent = parent[np.concatenate([np.arange(self.offsets[b], self.offsets[b + 1]) for b in blocks])]
        return best_labels(scores, parts, offsets, parent)

    def diameter(self) -> float:
        """A bound of ``||psi||``: every node and every edge wrong."""
        forests, first = self.forests, self.offsets[:-1]
        norms, roots, leaves = (
            np.add.reduceat(values.astype(np.float64), first) for values in (row_norms(self.X), forests.is_root, forests.is_leaf)
        )
        return float(np.sqrt(2.0 * np.max(norms**2 + roots**2 + leaves**2 + np.diff(forests.edge_offsets) ** 2)))


class ChainProblem(TreeProblem):
    """Sequences of labels, given as for :class:`LabelingProblem`: trees in which every position is the parent of the next."""

    words = CHAINS

    def __init__(self, X: Any, y: ArrayLike, offsets: ArrayLike, n_labels: int, *, normalize: bool = True) -> None:
        super().__init__(X, y, offsets, None, n_labels, normalize=normalize)
