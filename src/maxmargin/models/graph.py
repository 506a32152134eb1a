"""Two labels on the nodes of a graph, with neighbours that attract each other.

The score of a labeling is ``sum_t W[y_t] . x_t - sum over edges with different labels of v . f_e``. It can be maximised
exactly, by a minimum cut, as long as no edge rewards a difference: ``v . f_e >= 0``, which holds for features ``f >= 0`` if
the weights ``v`` are kept ``>= 0`` (``bounds``; spec 2.5 and 4.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin.cuts import Cut, Problem
from maxmargin.fingerprint import fingerprint

Floats = NDArray[np.float64]


class Graph(NamedTuple):
    """Features of nodes (L, p), edges (E, 2) and features of edges (E, q), the last not negative."""

    nodes: Floats
    edges: NDArray[np.int32]
    edge_features: Floats


class GraphModel(Problem):
    """Binary graphs with Hamming loss, divided by the number of nodes.

    Parameters
    ----------
    graphs : sequence of Graph
        Inputs.
    labels : sequence of int arrays of shape (L,)
        Labels 0 and 1.
    """

    def __init__(self, graphs: Sequence[Graph], labels: Sequence[NDArray[np.int64]]) -> None:
        if len(graphs) != len(labels) or len(graphs) == 0:
            raise ValueError(f"there are {len(graphs)} graphs and {len(labels)} labelings; they must be equal and not zero")
        self.graphs, self.labels = list(graphs), list(labels)
        self.n_inputs, self.n_edge_inputs = graphs[0].nodes.shape[1], graphs[0].edge_features.shape[1]
        self.n_blocks = len(graphs)
        self.n_features = 2 * self.n_inputs + self.n_edge_inputs
        self._cutters = []
        for k, (graph, y) in enumerate(zip(graphs, labels, strict=True)):
            if len(graph.nodes) != len(y) or len(y) == 0:
                raise ValueError(f"graph {k} has {len(graph.nodes)} nodes and {len(y)} labels; they must be equal and not zero")
            if not np.isin(y, (0, 1)).all():
                raise ValueError(f"labels of graph {k} must be 0 or 1")
            if (graph.edge_features < 0).any():
                raise ValueError(f"edge features of graph {k} must not be negative; min-cut needs attractive terms")
            self._cutters.append(_core.GraphCut(len(y), np.ascontiguousarray(graph.edges, dtype=np.int32)))
        self._truth = [self.feature(graph, y) for graph, y in zip(self.graphs, self.labels, strict=True)]

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Bounds that keep every weight of an edge feature from becoming negative."""
        lower = np.full(self.n_features, -np.inf)
        lower[2 * self.n_inputs :] = 0.0
        return lower, np.full(self.n_features, np.inf)

    def fingerprint(self) -> bytes:
        """Of the data."""
        return fingerprint(type(self), *(part for graph in self.graphs for part in graph), *self.labels)

    def feature(self, graph: Graph, y: NDArray[np.int64]) -> Floats:
        """Joint feature of a labeling."""
        ones = y.astype(np.float64)
        different = (y[graph.edges[:, 0]] != y[graph.edges[:, 1]]).astype(np.float64)
        return np.concatenate([(1.0 - ones) @ graph.nodes, ones @ graph.nodes, -(different @ graph.edge_features)])

    def best(self, block: int, graph: Graph, extra: Floats, weights: Floats) -> NDArray[np.int64]:
        """The labeling of the largest score plus ``extra`` (L, 2)."""
        unary = graph.nodes @ weights[: 2 * self.n_inputs].reshape(2, -1).T + extra
        penalties = graph.edge_features @ weights[2 * self.n_inputs :]
        if (penalties < 0).any():
            raise ValueError(
                f"an edge of graph {block} has the penalty {penalties.min():.3g} < 0: it would reward different labels, and "
                "a minimum cut cannot find the best labeling; solve with bounds=model.bounds"
            )
        _, labels = self._cutters[block].solve(np.ascontiguousarray(unary), np.ascontiguousarray(penalties))
        return labels.astype(np.int64)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating labeling."""
        graph, truth = self.graphs[block], self.labels[block]
        extra = np.full((len(truth), 2), 1.0 / len(truth))
        extra[np.arange(len(truth)), truth] = 0.0
        y = self.best(block, graph, extra, weights)
        return Cut(self._truth[block] - self.feature(graph, y), float(np.mean(y != truth)))

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several graphs."""
        return [self.cut(block, weights) for block in blocks]
