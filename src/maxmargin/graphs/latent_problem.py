"""Graphs with hidden states: where imputation begins."""

from __future__ import annotations

import numpy as np

from maxmargin._utils import Floats, Ints
from maxmargin.graphs.latent_structure import LatentGraphStructure
from maxmargin.surrogates import LatentStructuredProblem

# Rounds of clustering; it need not settle, since states are imputed anew anyway.
_ROUNDS = 20


class LatentGraphProblem(LatentStructuredProblem):
    """A :class:`maxmargin.graphs.LatentGraphStructure` with its data.

    States begin as clusters of the nodes of a label (or of the hidden nodes), by their features and the labels around them:
    states drawn node by node would all look alike, and weights learned from them too.
    """

    structure: LatentGraphStructure

    def start(self, rng: np.random.Generator) -> None:
        """Clusters around random nodes."""
        rows = np.concatenate([self._description(k) for k in range(len(self.X))])
        hidden = [np.full(x.n_hidden, -1) for x in self.X]
        labels = np.concatenate([part for pair in zip(self.y, hidden, strict=True) for part in pair])
        states = np.zeros(len(labels), dtype=np.int64)
        for label in np.unique(labels):
            at, choice = labels == label, np.flatnonzero(self.structure.label_of == label)
            states[at] = choice[clusters(rows[at], len(choice), rng)]
        ends = np.cumsum([len(x.graph.nodes) for x in self.X])
        self._complete(np.split(states, ends[:-1]))

    def _description(self, number: int) -> Floats:
        """Features of the nodes of a graph, and how often each label is next to them."""
        x, labels = self.X[number], self.y[number]
        known = np.zeros((len(x.graph.nodes), self.structure.n_labels))
        known[np.arange(len(labels)), labels] = 1.0
        around = np.zeros_like(known)
        for one, other in ((0, 1), (1, 0)):
            np.add.at(around, x.graph.edges[:, one], known[x.graph.edges[:, other]])
        return np.hstack([x.graph.nodes, around])


def clusters(rows: Floats, n_clusters: int, rng: np.random.Generator) -> Ints:
    """The cluster of every row, by k-means from random rows; some may be empty.

    >>> clusters(np.array([[0.0], [5.0], [0.1], [5.2]]), 2, np.random.default_rng(0))
    array([1, 0, 1, 0])
    """
    if n_clusters == 1:
        return np.zeros(len(rows), dtype=np.int64)
    centres = rows[rng.permutation(len(rows))[:n_clusters]]
    if len(centres) < n_clusters:
        return rng.integers(0, n_clusters, len(rows))
    found = np.zeros(len(rows), dtype=np.int64)
    for _ in range(_ROUNDS):
        # Squared distances, less what all of them have in common.
        found = np.argmin((centres**2).sum(axis=1) - 2 * rows @ centres.T, axis=1)
        counts = np.bincount(found, minlength=n_clusters)
        sums = np.zeros_like(centres)
        np.add.at(sums, found, rows)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return found
