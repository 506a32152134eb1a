"""Labels on the nodes of a graph, read as the set of nodes that have one: for the micro F1 (spec 6.7 and 11.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._utils import Floats, Ints
from maxmargin.core import Decoded
from maxmargin.graphs.structure import Graph, GraphStructure, best_of_messages


class GraphSetStructure(GraphStructure):
    """A :class:`GraphStructure` whose outputs are the sets of pairs (node, label) with a label other than ``outside``.

    The loss counts the pairs that are in one of two sets: 1 where one of the labels is ``outside``, 2 where the labels differ and
    neither is (spec 11.3).

    Parameters
    ----------
    n_inputs, n_edge_inputs, n_labels, pairwise
        As in :class:`GraphStructure`.
    outside : int
        The label of nodes that are in no set.

    Examples
    --------
    >>> structure = GraphSetStructure(1, n_labels=3, outside=0)
    >>> structure.loss(np.array([0, 1, 1, 2]), np.array([1, 1, 2, 0])), structure.set_size(np.array([1, 1, 2, 0]))
    (4.0, 3)
    """

    def __init__(
        self,
        n_inputs: int,
        n_edge_inputs: int = 1,
        n_labels: int = 2,
        pairwise: str | Sequence[str] = "attractive",
        outside: int = 0,
    ) -> None:
        super().__init__(n_inputs, n_edge_inputs, n_labels, pairwise, normalize=False)
        if not 0 <= outside < n_labels:
            raise ValueError(f"outside={outside} must be the label, 0 to {n_labels - 1}, of nodes that are in no set")
        self.outside = outside
        self._inside: Ints = (np.arange(n_labels) != outside).astype(np.int64)
        # By the true label and the other one.
        self._differences = (1.0 - np.eye(n_labels)) * np.add.outer(self._inside, self._inside)

    def loss(self, truth: Any, y: Any) -> float:
        """How many pairs of a node and its label are in one set only."""
        return float(self._differences[np.asarray(truth), np.asarray(y)].sum())

    def set_size(self, y: Any) -> int:
        """How many nodes have a label."""
        return int(self._inside[np.asarray(y)].sum())

    def node_scores(self, x: Graph, weights: Floats, truth: Any = None, b: float = 0.0) -> Floats:
        """Of the labels of every node, shape (L, K), with ``b`` times the loss if there is a truth."""
        scores = super().node_scores(x, weights)
        return scores if truth is None else scores + b * self._differences[np.asarray(truth)]

    def decode(self, x: Graph, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """As a :class:`GraphStructure` does."""
        return self.decode_sized(x, weights, truth, a, b, 0.0)

    def decode_sized(self, x: Graph, weights: Floats, truth: Any, a: float, b: float, c: float) -> Any:
        """The labeling with the largest ``a * score + b * loss - c * size``, or a good one with a bound."""
        scores = np.ascontiguousarray(self.node_scores(x, a * weights, truth, b) - c * self._inside)
        cut = self._by_cut(x, scores, a * weights)
        if cut is None:
            return best_of_messages(x, self.costs_of(x, scores, a * weights), truth)
        return cut.output if self.exact and isinstance(cut, Decoded) else cut
