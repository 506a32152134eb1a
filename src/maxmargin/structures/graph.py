"""Two labels on the nodes of a graph, with neighbours that attract each other.

The score of a labeling is ``sum_t W[y_t] . x_t - sum over edges with different labels of v . f_e``. It can be maximised
exactly, by a minimum cut, as long as no edge rewards a difference: ``v . f_e >= 0``, which holds for features ``f >= 0`` if
the weights ``v`` are kept ``>= 0`` (``bounds``; spec 2.5 and 4.5).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._types import Floats, Ints
from maxmargin.cuts import Bounds
from maxmargin.structures.base import Structure


class _Parts(NamedTuple):
    nodes: Floats
    edges: NDArray[np.int32]
    edge_features: Floats


class Graph(_Parts):
    """Features of nodes (L, p), edges (E, 2) and features of edges (E, q), the last not negative."""

    @cached_property
    def cutter(self) -> _core.GraphCut:
        """Finds minimum cuts of this graph for any capacities."""
        return _core.GraphCut(len(self.nodes), np.ascontiguousarray(self.edges, dtype=np.int32))

    def __getstate__(self) -> None:
        # The cutter belongs to the process.
        return None


class GraphStructure(Structure):
    """Binary labelings of a :class:`Graph` with Hamming loss, divided by the number of nodes.

    Parameters
    ----------
    n_inputs, n_edge_inputs : int
        Numbers of features of a node and of an edge.

    Examples
    --------
    >>> graph = Graph(np.array([[1.0], [-0.2], [1.0]]), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))
    >>> GraphStructure(1).decode(graph, np.array([0.0, 1.0, 0.0]))
    array([1, 0, 1])
    >>> GraphStructure(1).decode(graph, np.array([0.0, 1.0, 0.5]))
    array([1, 1, 1])
    """

    def __init__(self, n_inputs: int, n_edge_inputs: int = 1) -> None:
        self.n_inputs, self.n_edge_inputs = n_inputs, n_edge_inputs

    @property
    def bounds(self) -> Bounds:
        """Those that keep every weight of an edge feature from becoming negative."""
        lower = np.full(2 * self.n_inputs + self.n_edge_inputs, -np.inf)
        lower[2 * self.n_inputs :] = 0.0
        return lower, np.full(len(lower), np.inf)

    def encode(self, x: Any, y: Any = None) -> tuple[Graph, Any]:
        """A graph of finite numbers, from (nodes, edges) or (nodes, edges, edge_features), and a label 0 or 1 for each node."""
        if not isinstance(x, tuple | list) or len(x) not in (2, 3):
            raise ValueError("a graph must be (features, edges) or (features, edges, edge_features)")
        nodes, edges = np.asarray(x[0], dtype=np.float64), np.asarray(x[1], dtype=np.int32).reshape(-1, 2)
        if nodes.ndim != 2 or nodes.shape[1] != self.n_inputs or not np.isfinite(nodes).all():
            raise ValueError(f"features must be a finite array of shape (nodes, {self.n_inputs}), but have shape {nodes.shape}")
        features = np.asarray(x[2], dtype=np.float64) if len(x) == 3 else np.ones((len(edges), 1))
        if features.shape != (len(edges), self.n_edge_inputs) or not np.isfinite(features).all():
            raise ValueError(
                f"edge features must be a finite array of shape ({len(edges)}, {self.n_edge_inputs}), but have shape "
                f"{features.shape}"
            )
        if (features < 0).any():
            raise ValueError("edge features must not be negative; min-cut needs attractive terms")
        graph = Graph(nodes, edges, features)
        if y is None:
            return graph, None
        labels = np.asarray(y).astype(np.int64)
        if len(labels) != len(nodes) or len(labels) == 0:
            raise ValueError(f"there are {len(nodes)} nodes and {len(labels)} labels; they must be equal and not zero")
        if not np.isin(labels, (0, 1)).all():
            raise ValueError("labels must be 0 or 1")
        return graph, labels

    def joint_feature(self, x: Graph, y: Any) -> Floats:
        """Sums of node features for each label, and those of edges with different labels, negative."""
        ones, (left, right) = np.asarray(y, dtype=np.float64), x.edges.T
        different = np.abs(ones[left] - ones[right])
        return np.concatenate([(1.0 - ones) @ x.nodes, ones @ x.nodes, -(different @ x.edge_features)])

    def loss(self, truth: Any, y: Any) -> float:
        """The share of wrong labels."""
        return np.count_nonzero(np.asarray(truth) != np.asarray(y)) / len(truth)

    def decode(self, x: Graph, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Ints:
        """The best labeling, by a minimum cut; of equally good ones that with the fewest ones."""
        weights = a * weights
        unary = x.nodes @ weights[: 2 * self.n_inputs].reshape(2, -1).T
        if truth is not None:
            unary += (b / len(unary)) * np.column_stack([truth, 1 - np.asarray(truth)])
        penalties = x.edge_features @ weights[2 * self.n_inputs :]
        if (penalties < 0).any():
            raise ValueError(
                f"an edge has the penalty {penalties.min():.3g} < 0: it would reward different labels, and a minimum cut cannot "
                "find the best labeling; solve with the problem's bounds"
            )
        _, labels = x.cutter.solve(unary, penalties)
        return labels.astype(np.int64)
