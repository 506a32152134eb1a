"""Labels on the nodes of a graph, with the linear relaxation in place of the search that nobody can do exactly.

Training then maximises over the local polytope, marginals of nodes and edges that agree with each other, in place of the
labelings, which are its integral points. Features and loss are linear in the marginals, so that hinges of the relaxation are
maxima of linear functions of the weights as well, at least as large as the hinges proper, and equal to them on trees. The
maximum is found: what is certified is the optimum of the relaxed objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import Decoded, Problem
from maxmargin.graphs.structure import Graph, GraphStructure, as_row
from maxmargin.labeling import Marginals, minimize_relaxation


class RelaxedGraphStructure(GraphStructure):
    """A :class:`GraphStructure` whose outputs in training are :class:`Marginals`, and labels elsewhere.

    Parameters are those of :class:`GraphStructure`. For two labels that attract each other, and wherever else a minimum cut
    finds the best labels, the relaxation is tight, and outputs are labels.

    Examples
    --------
    Neighbours on a triangle that would all like to differ, with two labels; halves are worth more than any labeling:

    >>> graph = Graph(np.zeros((3, 1)), np.array([[0, 1], [1, 2], [2, 0]]), np.ones((3, 1)))
    >>> structure, truth = RelaxedGraphStructure(1, pairwise="symmetric"), np.array([0, 1, 1])
    >>> found = structure.decode(graph, np.array([0.0, 0.0, 0.0, 1.0, 0.0]), truth, 1.0, 0.1)
    >>> found.output.nodes[0], round(structure.loss(truth, found.output), 9), round(found.upper, 6)
    (array([0.5, 0.5]), 0.5, 3.05)
    """

    @property
    def relaxed(self) -> bool:
        """Whether marginals can be worth more than labels."""
        return not self.exact

    def joint_feature(self, x: Graph, y: Any) -> Any:
        """Of labels, or the average of marginals."""
        if not isinstance(y, Marginals):
            return super().joint_feature(x, y)
        K = self.n_labels
        pairs = self._sign * (x.edge_features.T @ y.pairs.reshape(-1, K * K)).reshape(-1, K, K)
        own = np.bincount(self._place.ravel(), weights=pairs.ravel(), minlength=self._n_pair_weights)
        return as_row(np.concatenate([(y.nodes.T @ x.nodes).ravel(), own]))

    def loss(self, truth: Any, y: Any) -> float:
        """The share, or the number, of wrong labels, each with its cost; on average over marginals."""
        if not isinstance(y, Marginals):
            return super().loss(truth, y)
        labels = np.asarray(truth)
        right = np.minimum(y.nodes[np.arange(len(labels)), labels], 1.0)
        return float(self.costs[labels] @ (1.0 - right)) / self.unit(len(labels))

    def decode(self, x: Graph, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """With a truth the best marginals, without one a labeling as :class:`GraphStructure` finds it."""
        if truth is None or isinstance(truth, Marginals):
            return super().decode(x, weights, None, a, 0.0)
        scores = self.node_scores(x, a * weights, truth, b)
        cut = self._by_cut(x, scores, a * weights)
        if cut is not None:
            return cut
        edges = np.ascontiguousarray(x.edges, dtype=np.int32)
        found = minimize_relaxation(x.messages(self.n_labels), edges, *self.costs_of(x, scores, a * weights))
        return Decoded(found.marginals, -found.bound)

    def make_problem(self, xs: Sequence[Any], ys: Sequence[Any]) -> Problem:
        """The compiled problem of these graphs."""
        from maxmargin.graphs.problem import GraphProblem

        return GraphProblem(xs, ys, self.n_labels, self.pairwise, self.costs, relaxed=True, normalize=self.normalize)
