"""Labels on the nodes of forests: who is whose parent, which weights a labeling meets, and the best labeling.

A block is a forest: one or more trees, each node with its parent before it. A chain is the tree in which every node is the
parent of the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Int32s, Ints


class Words(NamedTuple):
    """What messages call a block and a node."""

    block: str
    node: str


TREES = Words("tree", "node")
CHAINS = Words("sequence", "position")


class TreeWeights:
    """The parts of a weight vector of trees, as views.

    Attributes
    ----------
    emission : array of shape (K, p)
    root, leaf : arrays of shape (K,)
        For the label of a node without parent, and of one without children; a single node is both.
    transition : array of shape (K, K)
        From the parent's label (row) to the child's (column).
    """

    def __init__(self, vector: Floats, n_labels: int, n_inputs: int) -> None:
        k = n_labels
        emission, self.root, self.leaf, transition = np.split(vector, np.cumsum([k * n_inputs, k, k]))
        self.emission, self.transition = emission.reshape(k, n_inputs), transition.reshape(k, k)

    @staticmethod
    def size(n_labels: int, n_inputs: int) -> int:
        """Length of the vector."""
        return n_labels * n_inputs + 2 * n_labels + n_labels * n_labels


class ChainWeights(TreeWeights):
    """The parts of a weight vector of a chain: as for trees, with the first position for the root and the last for the leaf."""

    @property
    def first(self) -> Floats:
        """Weights of the label of the first position: the root of the chain."""
        return self.root

    @property
    def last(self) -> Floats:
        """Weights of the label of the last position: its leaf."""
        return self.leaf


class PackedWeights:
    """Weights as predictions read them: those of a feature for all labels lie next to each other.

    A row of features then touches as many places as it has entries, however many features there are; nothing is copied.

    Parameters
    ----------
    emission : array of shape (K, p)
    constant : array of shape (K,) or None
        Weights of one more feature, the last.
    root, leaf, transition : arrays of shape (K,), (K,) and (K, K)
        As in :class:`TreeWeights`.

    Attributes
    ----------
    rows : array of shape (p, K), or (p + 1, K), and with a column of padding if K is odd and not 1
    """

    def __init__(self, emission: Floats, constant: Floats | None, root: Floats, leaf: Floats, transition: Floats) -> None:
        n_labels, n_inputs = emission.shape
        self.n_labels = n_labels
        # Kernels take labels in pairs.
        self.rows = np.zeros((n_inputs + (constant is not None), n_labels if n_labels == 1 else n_labels + n_labels % 2))
        self.rows[:n_inputs, :n_labels] = emission.T
        if constant is not None:
            self.rows[n_inputs, :n_labels] = constant
        self.root, self.leaf, self.transition = root, leaf, transition

    @property
    def emission(self) -> Floats:
        """A view of shape (K, p) or (K, p + 1)."""
        return self.rows[:, : self.n_labels].T

    def scores(self, X: Any, features: _core.Features | None, forests: Forests, n_threads: int = 1) -> Floats:
        """Score of every label at every node, shape (N, K), without transitions; a sparse X comes with its compiled form."""
        if features is None:
            scores: Floats = np.ascontiguousarray(X @ self.rows[:, : self.n_labels])
        else:
            scores = _core.score_rows(features, self.rows, self.n_labels, n_threads)
        scores[forests.is_root] += self.root
        scores[forests.is_leaf] += self.leaf
        return scores


class Forests:
    """Blocks of nodes that lie one after the other, and the parent of every node.

    Parameters
    ----------
    offsets : int array of shape (n + 1,)
        Block i has the nodes ``offsets[i]:offsets[i + 1]``; none is empty.
    parent : int array of shape (N,), optional
        Parent of every node, counted from the first node of its block; -1 for a root. None if all blocks are chains.
    words : Words
        For messages.

    Attributes
    ----------
    is_root, is_leaf : bool arrays of shape (N,)
    child, above : int arrays of shape (E,)
        The nodes that have a parent, and that parent, counted over all blocks.
    edge_offsets : int array of shape (n + 1,)
        Block i has the edges ``edge_offsets[i]:edge_offsets[i + 1]``.
    """

    def __init__(self, offsets: ArrayLike, parent: ArrayLike | None = None, words: Words = TREES) -> None:
        self.offsets = _check_offsets(offsets, words)
        self.lengths = np.diff(self.offsets)
        self.n_nodes = int(self.offsets[-1])
        first = np.repeat(self.offsets[:-1], self.lengths)
        place = np.arange(self.n_nodes) - first
        # As the kernels take it.
        self.parent = None if parent is None else _check_parent(parent, place, self.offsets, words)
        upper = place - 1 if self.parent is None else self.parent
        self.is_root = upper < 0
        self.child = np.flatnonzero(~self.is_root)
        self.above = first[self.child] + upper[self.child]
        self.is_leaf = np.bincount(self.above, minlength=self.n_nodes) == 0
        self.edge_offsets = np.concatenate([[0], np.cumsum(~self.is_root)])[self.offsets]

    def costs(self, normalize: bool) -> Floats:
        """What a wrong label costs at every node: one over the number of nodes of its block, or one."""
        return np.repeat(1.0 / self.lengths if normalize else np.ones(len(self.lengths)), self.lengths)

    def rows(self, block: int) -> slice:
        """Nodes of a block."""
        return slice(int(self.offsets[block]), int(self.offsets[block + 1]))

    def edges(self, block: int) -> tuple[Ints, Ints]:
        """Children and parents of a block, counted from its first node."""
        edges = slice(int(self.edge_offsets[block]), int(self.edge_offsets[block + 1]))
        first = self.offsets[block]
        return self.child[edges] - first, self.above[edges] - first


def label_scores(weights: TreeWeights, X: Any, is_root: Booleans, is_leaf: Booleans) -> Floats:
    """Score of every label at every node, shape (N, K), without transitions; X is dense or CSR."""
    scores: Floats = np.ascontiguousarray(X @ weights.emission.T)
    scores[is_root] += weights.root
    scores[is_leaf] += weights.leaf
    return scores


def add_losses(scores: Floats, truth: Ints, costs: Floats) -> None:
    """Add to the scores (N, K) what every label costs where it is wrong."""
    scores += costs[:, None]
    scores[np.arange(len(scores)), truth] -= costs


def best_labels(
    scores: Floats, weights: TreeWeights | PackedWeights, offsets: Ints, parent: Int32s | None, n_threads: int = 1
) -> Ints:
    """The best labeling of every block, all in one array; of equally good labels the lowest, from the roots down."""
    labels, _ = _core.forest_best_many(scores, np.ascontiguousarray(weights.transition), offsets, parent, n_threads)
    return labels.astype(np.int64)


def log_marginals(
    scores: Floats, weights: PackedWeights, offsets: Ints, parent: Int32s | None, temperature: float, n_threads: int = 1
) -> Floats:
    """Logarithms of the probabilities of all labels at all nodes, shape (N, K), where ``P(y) ~ exp(score(y) / temperature)``."""
    table = np.ascontiguousarray(weights.transition)
    nodes, _ = _core.forest_marginals_many(scores, table, offsets, parent, float(temperature), n_threads)
    return nodes


def best_by_count(scores: Floats, weights: TreeWeights, truth: Ints, parent: Int32s | None) -> tuple[Floats, Ints]:
    """The best labeling of one block for every number of wrong labels: scores (m,) and labelings (m, L), by rising numbers.

    The first one is the truth. By belief propagation with a counter (spec 7.4): L / 2 times the work of `best_labels` on a chain.
    """
    values, labels = _core.forest_best_by_count(
        scores, np.ascontiguousarray(weights.transition), np.ascontiguousarray(truth, dtype=np.int32), parent
    )
    # With one label only nothing can be wrong.
    return (values, labels.astype(np.int64)) if scores.shape[1] > 1 else (values[:1], labels[:1].astype(np.int64))


def check_labels(y: ArrayLike, n_labels: int) -> Ints:
    """Labels of nodes, between 0 and K - 1, as int64."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ValueError(f"y must be a one-dimensional array of integers, but has shape {labels.shape}, dtype {labels.dtype}")
    if len(labels) and (labels.min() < 0 or labels.max() >= n_labels):
        raise ValueError(f"y must lie between 0 and {n_labels - 1}, but ranges from {labels.min()} to {labels.max()}")
    return labels.astype(np.int64, copy=False)


def _check_offsets(offsets: ArrayLike, words: Words) -> Ints:
    array = np.asarray(offsets, dtype=np.int64)
    if array.ndim != 1 or len(array) < 2 or array[0] != 0:
        raise ValueError(
            f"offsets must begin with 0 and have one more entry than there are {words.block}s, at least one; "
            f"it has shape {array.shape}" + (f" and begins with {array[0]}" if array.ndim == 1 and len(array) else "")
        )
    short = np.diff(array) < 1
    if short.any():
        raise ValueError(f"{words.block} {int(short.argmax())} is empty; drop {words.block}s without {words.node}s")
    return array


def _check_parent(parent: ArrayLike, place: Ints, offsets: Ints, words: Words) -> Int32s:
    array = np.asarray(parent)
    if array.dtype.kind not in "iu":
        raise TypeError(f"parent must be integers, the {words.node} above each {words.node}, but has dtype {array.dtype}")
    if array.shape != place.shape:
        raise ValueError(f"parent has shape {array.shape}, but one entry for each of the {len(place)} {words.node}s is needed")
    wrong = (array < -1) | (array >= place)
    if wrong.any():
        at = int(wrong.argmax())
        block = int(np.searchsorted(offsets, at, side="right")) - 1
        raise ValueError(
            f"{words.node} {place[at]} of {words.block} {block} has the parent {array[at]}; it must be -1 for a root, or a "
            f"{words.node} before {place[at]}: number every {words.node} after its parent"
        )
    return np.ascontiguousarray(array, dtype=np.int32)
