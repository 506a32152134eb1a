"""Sequences of labels: a score for every label of every position, and one for every pair of neighbouring labels.

The joint feature of a sequence has four parts: for every label the sum of the features of its positions (with a constant,
if asked for), the label of the first position, that of the last, and the counts of pairs of neighbours; for the OCR data of
the literature 26 x 129 + 26 + 26 + 26 x 26 = 4082 numbers (spec A9).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.cuts import Cut
from maxmargin.models.compiled import compiled_features, has_own_oracle
from maxmargin.models.distributions import log_mix, near_vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ChainWeights:
    """The parts of a weight vector of a chain, as views.

    Attributes
    ----------
    emission : array of shape (K, p)
    first, last : arrays of shape (K,)
    transition : array of shape (K, K)
        From the row's label to the column's.
    """

    def __init__(self, vector: Floats, n_labels: int, n_inputs: int) -> None:
        k = n_labels
        self.emission, self.first, self.last, self.transition = (
            part.reshape(shape)
            for part, shape in zip(
                np.split(vector, np.cumsum([k * n_inputs, k, k])), [(k, n_inputs), (k,), (k,), (k, k)], strict=True
            )
        )

    @staticmethod
    def size(n_labels: int, n_inputs: int) -> int:
        """Length of the vector."""
        return n_labels * n_inputs + 2 * n_labels + n_labels * n_labels


def chain_scores(weights: ChainWeights, X: Any, offsets: Ints) -> Floats:
    """Score of every label at every position, without transitions; the rows of X are the sequences one after the other."""
    scores = np.ascontiguousarray(X @ weights.emission.T)
    scores[offsets[:-1]] += weights.first
    scores[offsets[1:] - 1] += weights.last
    return scores


class ChainModel:
    """Chains with Hamming loss.

    Parameters
    ----------
    X : array of shape (N, p)
        Features of all positions of all sequences, one sequence after the other.
    y : int array of shape (N,)
        Labels 0 to K - 1.
    offsets : int array of shape (n + 1,)
        Sequence i has the rows ``offsets[i]:offsets[i + 1]``; none is empty.
    n_labels : int
        K.
    normalize : bool
        Divide the Hamming loss by the length of the sequence.
    """

    exact = True

    def __init__(self, X: Floats, y: Ints, offsets: Ints, n_labels: int, *, normalize: bool = True) -> None:
        if len(X) != len(y) or offsets[-1] != len(y):
            raise ValueError(f"X has {len(X)} positions, y has {len(y)} and offsets end at {offsets[-1]}; they must be equal")
        lengths = np.diff(offsets)
        if (lengths < 1).any():
            raise ValueError(f"sequence {int(np.argmin(lengths))} is empty; drop sequences without positions")
        if y.min() < 0 or y.max() >= n_labels:
            raise ValueError(f"y must lie between 0 and {n_labels - 1}, but ranges from {y.min()} to {y.max()}")
        self.X, self.y, self.offsets, self.n_labels = X, y, np.asarray(offsets, dtype=np.int64), n_labels
        self.n_inputs = int(X.shape[1])
        self.n_blocks = len(lengths)
        self.n_features = ChainWeights.size(n_labels, self.n_inputs)
        # What a wrong label costs at every position.
        self.cost = np.repeat(1.0 / lengths if normalize else np.ones(self.n_blocks), lengths)

    @cached_property
    def block_data(self) -> _core.BlockData | None:
        """For the compiled block solvers; None if a subclass has an oracle of its own."""
        if has_own_oracle(self, ChainModel):
            return None
        labels = self.y.astype(np.int32)
        return _core.ForestData(compiled_features(self.X), labels, self.cost, self.offsets, None, self.n_labels)

    def _rows(self, block: int) -> slice:
        return slice(int(self.offsets[block]), int(self.offsets[block + 1]))

    def _augmented(self, rows: slice | Ints, offsets: Ints, weights: ChainWeights) -> Floats:
        scores = chain_scores(weights, self.X[rows], offsets)
        scores += self.cost[rows][:, None]
        scores[np.arange(len(scores)), self.y[rows]] -= self.cost[rows]
        return scores

    def _features(self, rows: slice, nodes: Floats, pairs: Floats) -> Floats:
        """Joint feature of node coefficients (L, K) and pair coefficients (K, K)."""
        return np.concatenate([(nodes.T @ self.X[rows]).ravel(), nodes[0], nodes[-1], pairs.ravel()])

    def _cut(self, block: int, labels: NDArray[Any]) -> Cut:
        rows = self._rows(block)
        truth = self.y[rows]
        at = np.arange(len(truth))
        nodes, pairs = np.zeros((len(truth), self.n_labels)), np.zeros((self.n_labels, self.n_labels))
        nodes[at, truth] += 1.0
        nodes[at, labels] -= 1.0
        np.add.at(pairs, (truth[:-1], truth[1:]), 1.0)
        np.add.at(pairs, (labels[:-1], labels[1:]), -1.0)
        loss = float(np.sum(self.cost[rows][truth != labels]))
        return Cut(self._features(rows, nodes, pairs), loss, labels.tobytes())

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating sequence of labels."""
        return self.cuts([block], weights)[0]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several sequences, by Viterbi."""
        parts = ChainWeights(weights, self.n_labels, self.n_inputs)
        rows = np.concatenate([np.arange(self.offsets[b], self.offsets[b + 1]) for b in blocks])
        offsets = np.concatenate([[0], np.cumsum([self.offsets[b + 1] - self.offsets[b] for b in blocks])]).astype(np.int64)
        labels, _ = _core.chain_best_many(self._augmented(rows, offsets, parts), np.ascontiguousarray(parts.transition), offsets)
        return [self._cut(b, labels[offsets[k] : offsets[k + 1]].astype(np.int64)) for k, b in enumerate(blocks)]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all sequences, without a feature vector for each."""
        parts = ChainWeights(weights, self.n_labels, self.n_inputs)
        scores = self._augmented(slice(None), self.offsets, parts)
        labels, _ = _core.chain_best_many(scores, np.ascontiguousarray(parts.transition), self.offsets)
        everywhere = np.arange(len(self.y))
        nodes = np.zeros((len(self.y), self.n_labels))
        nodes[everywhere, self.y] += 1.0
        nodes[everywhere, labels] -= 1.0
        inner = np.setdiff1d(everywhere, self.offsets[1:] - 1)
        pairs = np.zeros((self.n_labels, self.n_labels))
        np.add.at(pairs, (self.y[inner], self.y[inner + 1]), 1.0)
        np.add.at(pairs, (labels[inner], labels[inner + 1]), -1.0)
        ends = [nodes[self.offsets[:-1]].sum(axis=0), nodes[self.offsets[1:] - 1].sum(axis=0)]
        psi = np.concatenate([(nodes.T @ self.X).ravel(), *ends, pairs.ravel()]) / self.n_blocks
        return Cut(psi, float(np.sum(self.cost[self.y != labels])) / self.n_blocks)

    # ---- distributions are (log-marginals of positions (L, K), log-marginals of neighbours (L - 1, K, K)) -----------------

    def interior(self, block: int, mass: float) -> tuple[Floats, Floats]:
        """Independent positions, each close to its true label."""
        truth = self.y[self._rows(block)]
        nodes = np.stack([near_vertex(self.n_labels, int(label), mass) for label in truth])
        return nodes, nodes[:-1, :, None] + nodes[1:, None, :]

    def tilt(
        self, block: int, distribution: tuple[Floats, Floats], weights: Floats, temperature: float
    ) -> tuple[Floats, Floats]:
        """Marginals of the tree distribution with these marginals, moved toward violating labels (spec A9)."""
        rows = self._rows(block)
        parts = ChainWeights(weights, self.n_labels, self.n_inputs)
        length = rows.stop - rows.start
        scores = self._augmented(rows, np.array([0, length]), parts)
        parent = np.arange(-1, length - 1, dtype=np.int32)
        if temperature == 0:
            nodes, edges, _ = _core.tree_marginals(scores, np.ascontiguousarray(parts.transition), parent, 0.0, True)
            return nodes, edges[1:]
        nodes, edges = distribution
        degree = np.full(length, 2.0)
        degree[0] -= 1
        degree[-1] -= 1
        unary = (1.0 - degree)[:, None] * nodes + scores / temperature
        tables = np.zeros((length, self.n_labels, self.n_labels))
        tables[1:] = edges + parts.transition / temperature
        log_nodes, log_edges, _ = _core.tree_marginals(unary, tables, parent, 1.0, True)
        return log_nodes, log_edges[1:]

    def mix(self, distribution: tuple[Floats, Floats], other: tuple[Floats, Floats], step: float) -> tuple[Floats, Floats]:
        """Mixture of the marginals."""
        return log_mix(distribution[0], other[0], step), log_mix(distribution[1], other[1], step)

    def average(self, block: int, distribution: tuple[Floats, Floats]) -> Cut:
        """Average of all cuts: features and loss depend on the marginals alone."""
        rows = self._rows(block)
        truth = self.y[rows]
        at = np.arange(len(truth))
        nodes, pairs = -np.exp(distribution[0]), -np.exp(distribution[1]).sum(axis=0)
        loss = float(np.sum(self.cost[rows] * (1.0 + nodes[at, truth])))
        nodes[at, truth] += 1.0
        np.add.at(pairs, (truth[:-1], truth[1:]), 1.0)
        return Cut(self._features(rows, nodes, pairs), max(0.0, loss))

    def diameter(self) -> float:
        """A bound of ``||psi||``: every position and every pair of neighbours wrong."""
        norms = np.sqrt(np.einsum("ij,ij->i", self.X, self.X))
        sums = np.add.reduceat(norms, self.offsets[:-1])
        lengths = np.diff(self.offsets)
        return float(np.sqrt(2.0 * np.max(sums**2 + (lengths - 1.0) ** 2 + 2.0)))
