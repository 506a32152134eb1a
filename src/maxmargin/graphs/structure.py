"""Labels on the nodes of a graph, with scores of nodes and of the pairs of labels on edges.

The score of a labeling is ``sum_t W[y_t] . x_t + sum over edges (s, t) and their features f of f * V_f[y_s, y_t]``. What the
tables ``V_f`` look like is said for each feature of an edge:

``"attractive"``
    ``-v`` for different labels, ``v >= 0``; features must not be negative. One weight.
``"symmetric"``
    The same for ``(k, l)`` and ``(l, k)``. K (K + 1) / 2 weights, of pairs ``k <= l``.
``"antisymmetric"``
    Opposite for ``(k, l)`` and ``(l, k)``, as for features that change sign when the edge is turned. K (K - 1) / 2 weights,
    of pairs ``k < l``.
``"free"``
    Any table. K^2 weights, row by row.

The best labeling is found exactly on trees and forests, by messages, and for two labels if no edge rewards a difference more
than agreement, by a minimum cut (which bounds of the weights ensure for attractive features; spec 2.5 and 4.5). In all other
cases TRW-S finds a labeling and an upper bound of the best score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.core import Bounds, Decoded, Problem, Structure
from maxmargin.graphs.graph_lists import MOST_LABELINGS, Cone, Rooted, best_in_cone, every_labeling, is_small, rooted, values_of
from maxmargin.labeling import ForestSearch, Listed, k_best_labelings, listed_by_parts

Pairwise = Literal["attractive", "symmetric", "antisymmetric", "free"]

# Joint features longer than this are handed out without their zeros.
_LONG = 1000
# A list of the best labelings takes a minimum cut per node for each of them; up to so many nodes searches ask for it.
_MOST_NODES = 64
# Losses that sums of costs can have are listed if there are no more than this.
_MOST_LOSSES = 4096


class _Parts(NamedTuple):
    nodes: Floats
    edges: NDArray[np.int32]
    edge_features: Floats


class Graph(_Parts):
    """Features of nodes (L, p), edges (E, 2) and features of edges (E, q)."""

    @cached_property
    def cutter(self) -> _core.GraphCut:
        """Finds minimum cuts of this graph for any capacities."""
        return _core.GraphCut(len(self.nodes), np.ascontiguousarray(self.edges, dtype=np.int32))

    def messages(self, n_labels: int) -> _core.MessagePassing:
        """Passes messages on this graph for any costs."""
        kept: dict[int, _core.MessagePassing] = self.__dict__.setdefault("_messages", {})
        if n_labels not in kept:
            edges = np.ascontiguousarray(self.edges, dtype=np.int32)
            kept[n_labels] = _core.MessagePassing(len(self.nodes), n_labels, edges, True)
        return kept[n_labels]

    @cached_property
    def rooted(self) -> Rooted:
        """The nodes of a forest from the roots down."""
        return rooted(len(self.nodes), self.edges)

    def __getstate__(self) -> None:
        # The cutter and the messages belong to the process.
        return None


class Costs(NamedTuple):
    """Costs of labels (L, K), of pairs (K, K) or (E, K, K), weights of the latter (E,), and what is special about the tables."""

    unary: Floats
    tables: Floats
    weights: Floats
    shape: tuple[str, float, float]


class GraphStructure(Structure):
    """Labelings of a :class:`Graph` with Hamming loss, divided by the number of nodes unless it is to count.

    Parameters
    ----------
    n_inputs, n_edge_inputs : int
        Numbers of features of a node and of an edge.
    n_labels : int
        K; outputs are arrays of shape (L,) of labels 0 to K - 1.
    pairwise : {"attractive", "symmetric", "antisymmetric", "free"}, or a sequence of them
        What edges can say, for all of their features or for each; see :mod:`maxmargin.graphs.structure`.
    costs : array of shape (K,), optional
        Loss of a wrong label, by the true one; ones by default.
    normalize : bool
        Divide the loss by the number of nodes; False counts wrong labels.

    Attributes
    ----------
    exact : bool
        Whether the best labeling is always found; if not, it comes with an upper bound (:class:`Decoded`).

    Examples
    --------
    >>> graph = Graph(np.array([[1.0], [-0.2], [1.0]]), np.array([[0, 1], [1, 2]]), np.ones((2, 1)))
    >>> GraphStructure(1).decode(graph, np.array([0.0, 1.0, 0.0]))
    array([1, 0, 1])
    >>> GraphStructure(1).decode(graph, np.array([0.0, 1.0, 0.5]))
    array([1, 1, 1])

    Labels that like to rise along edges:

    >>> GraphStructure(1, n_labels=3, pairwise="antisymmetric").decode(graph, np.array([0.0, 1.0, 0.0, 5.0, 0.0, 5.0]))
    Decoded(output=array([0, 1, 2]), upper=9.8)
    """

    def __init__(
        self,
        n_inputs: int,
        n_edge_inputs: int = 1,
        n_labels: int = 2,
        pairwise: Pairwise | str | Sequence[str] = "attractive",
        costs: ArrayLike | None = None,
        normalize: bool = True,
    ) -> None:
        self.n_inputs, self.n_edge_inputs, self.n_labels, self.normalize = n_inputs, n_edge_inputs, n_labels, normalize
        self.pairwise = check_pairwise(pairwise, n_edge_inputs)
        self.costs = np.ones(n_labels) if costs is None else np.asarray(costs, dtype=np.float64)
        if self.costs.shape != (n_labels,) or not (np.isfinite(self.costs) & (self.costs >= 0)).all():
            raise ValueError(f"costs must be {n_labels} finite numbers that are not negative, one per label")
        self._all_attractive = all(kind == "attractive" for kind in self.pairwise)
        self.exact = self._all_attractive and n_labels == 2
        self._n_node_weights = n_labels * n_inputs
        self._place, self._sign, self._n_pair_weights = _tables(self.pairwise, n_labels)

    @property
    def n_weights(self) -> int:
        """Weights of nodes, one row per label, and of edges, one feature after the other."""
        return self._n_node_weights + self._n_pair_weights

    @property
    def bounds(self) -> Bounds | None:
        """Those that keep the weight of every attractive edge feature from becoming negative; None if there is none."""
        attractive = np.array([kind == "attractive" for kind in self.pairwise], dtype=bool)
        if not attractive.any():
            return None
        lower = np.full(self.n_weights, -np.inf)
        lower[self._n_node_weights + self._place[attractive, 0, 0]] = 0.0
        return lower, np.full(len(lower), np.inf)

    def tables(self, pair_weights: Floats) -> Floats:
        """``V``, scores of pairs of labels for each edge feature, shape (q, K, K), from the weights of edges."""
        return np.asarray(self._sign * pair_weights[self._place])

    def encode(self, x: Any, y: Any = None) -> tuple[Graph, Any]:
        """A graph of finite numbers, from (nodes, edges) or (nodes, edges, edge_features), and a label for each node."""
        if not isinstance(x, tuple | list) or len(x) not in (2, 3):
            raise ValueError("a graph must be (features, edges) or (features, edges, edge_features)")
        nodes, edges = np.asarray(x[0], dtype=np.float64), np.asarray(x[1]).reshape(-1, 2)
        if nodes.ndim != 2 or nodes.shape[1] != self.n_inputs:
            raise ValueError(f"features must be a finite array of shape (nodes, {self.n_inputs}), but have shape {nodes.shape}")
        if not np.isfinite(nodes).all():
            at, column = np.argwhere(~np.isfinite(nodes))[0].tolist()
            raise ValueError(f"features must be a finite array, but feature {column} of node {at} is {nodes[at, column]}")
        if len(edges) and edges.dtype.kind not in "iu":
            raise ValueError(f"edges must be pairs of integers, but have dtype {edges.dtype}")
        features = np.asarray(x[2], dtype=np.float64) if len(x) == 3 else np.ones((len(edges), 1))
        if features.shape != (len(edges), self.n_edge_inputs) or not np.isfinite(features).all():
            raise ValueError(
                f"edge features must be a finite array of shape ({len(edges)}, {self.n_edge_inputs}), but have shape "
                f"{features.shape}"
            )
        if len(edges) and (edges.min() < 0 or edges.max() >= len(nodes)):
            at = int(np.flatnonzero(((edges < 0) | (edges >= len(nodes))).any(axis=1))[0])
            raise ValueError(f"edge {at} joins {edges[at, 0]} and {edges[at, 1]}; nodes are numbered 0 to {len(nodes) - 1}")
        attractive = [kind == "attractive" for kind in self.pairwise]
        if (features[:, attractive] < 0).any():
            raise ValueError("edge features must not be negative where they are attractive; choose pairwise='symmetric', say")
        if not self.exact and (edges[:, 0] == edges[:, 1]).any():
            node = int(edges[np.flatnonzero(edges[:, 0] == edges[:, 1])[0], 0])
            raise ValueError(f"an edge joins node {node} to itself; add its features to those of the node")
        graph = Graph(nodes, edges.astype(np.int32), features)
        if y is None:
            return graph, None
        labels = np.asarray(y).astype(np.int64)
        if labels.ndim != 1:
            raise ValueError(f"labels have shape {labels.shape}, but must have ({len(nodes)},), one for each node")
        if len(labels) != len(nodes) or len(labels) == 0:
            raise ValueError(f"there are {len(nodes)} nodes and {len(labels)} labels; they must be equal and not zero")
        if not ((labels >= 0) & (labels < self.n_labels)).all():
            choice = "0 or 1" if self.n_labels == 2 else f"0 to {self.n_labels - 1}"
            raise ValueError(f"labels must be {choice}")
        return graph, labels

    def joint_feature(self, x: Graph, y: Any) -> Any:
        """Sums of node features for each label, and of edge features for each pair of labels; a sparse row if that is long."""
        labels, K = np.asarray(y, dtype=np.int64), self.n_labels
        nodes = np.zeros((K, self.n_inputs))
        np.add.at(nodes, labels, x.nodes)
        left, right = x.edges.T
        pairs = np.zeros((K * K, self.n_edge_inputs))
        if self._all_attractive:
            own = -((labels[left] != labels[right]).astype(np.float64) @ x.edge_features)
        else:
            np.add.at(pairs, labels[left] * K + labels[right], x.edge_features)
            counted = self._sign * pairs.T.reshape(-1, K, K)
            own = np.bincount(self._place.ravel(), weights=counted.ravel(), minlength=self._n_pair_weights)
        return as_row(np.concatenate([nodes.ravel(), own]))

    def loss(self, truth: Any, y: Any) -> float:
        """The share, or the number, of wrong labels, each with its cost."""
        wrong = np.asarray(truth) != np.asarray(y)
        return float(self.costs[np.asarray(truth)[wrong]].sum()) / self.unit(len(truth))

    def unit(self, n_nodes: int) -> int:
        """What the cost of a wrong label is divided by."""
        return n_nodes if self.normalize else 1

    def decode(self, x: Graph, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The best labeling where it can be found, or else a good one; with an upper bound unless the structure is exact.

        Minimum cuts take of equally good labelings that with the fewest ones.
        """
        scores = self.node_scores(x, a * weights, truth, b)
        cut = self._by_cut(x, scores, a * weights)
        return best_of_messages(x, self.costs_of(x, scores, a * weights), truth) if cut is None else cut

    # ---- more than the best ----------------------------------------------------------------------------------------------------

    def can_list(self, x: Graph) -> bool:
        """Whether a search may ask for the k best: on forests, where all labelings can be listed, and by few minimum cuts."""
        n_nodes = len(x.nodes)
        return is_small(n_nodes, self.n_labels) or self._is_forest(x) or (self.exact and n_nodes <= _MOST_NODES)

    def k_best(self, x: Graph, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[Any]:
        """The ``k`` best labelings, best first; all of them if there are no more.

        Small graphs are listed, forests have a dynamic program, and elsewhere what is left is divided into parts, each of which
        is searched as `decode` does. Unless the structure is exact, labelings are :class:`Decoded`, with an upper bound of them
        and of all that come later: above their own value only where TRW-S is asked.
        """
        return [one.labels if self.exact else Decoded(one.labels, one.upper) for one in self._listed(x, weights, truth, a, b, k)]

    def _listed(self, x: Graph, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[Listed]:
        scores, own, K = self.node_scores(x, a * weights, truth, b), a * weights, self.n_labels
        tables = self._pair_scores(x, own)
        if is_small(len(scores), K):
            values = values_of(every_labeling(len(scores), K), scores, x.edges, tables)
            order = np.argsort(-values, kind="stable")[:k]
            return [Listed(every_labeling(len(scores), K)[n].copy(), float(values[n]), float(values[n])) for n in order]
        if self._is_forest(x):
            order, parent, edge, turned = x.rooted
            # Tables of the edges above nodes, from the label of the parent to that of the child.
            above, below = np.zeros((len(scores), K, K)), edge >= 0
            own_tables = tables[edge[below]]
            above[below] = np.where((turned[below] == 0)[:, None, None], own_tables, own_tables.transpose(0, 2, 1))
            totals, found = k_best_labelings(scores[order], above, parent, k)
            labels = np.empty_like(found)
            labels[:, order] = found
            return [Listed(one, float(value), float(value)) for one, value in zip(labels, totals, strict=True)]

        def best(allowed: NDArray[np.bool_]) -> Listed:
            answer = self._best_allowed(x, scores, own, allowed, tables)
            labels = answer.output if isinstance(answer, Decoded) else answer
            value = float(values_of(labels[None], scores, x.edges, tables)[0])
            return Listed(labels, value, max(value, answer.upper) if isinstance(answer, Decoded) else value)

        return list(listed_by_parts(best, len(scores), K, k))

    def _best_allowed(self, x: Graph, scores: Floats, weights: Floats, allowed: NDArray[np.bool_], tables: Floats) -> Any:
        """The best labeling of the labels that are allowed; with a bound unless a minimum cut has found it."""
        # More than all scores together, for minimum cuts know no infinity.
        wall = 1.0 + 2.0 * float(np.abs(scores).sum() + np.abs(tables).max(axis=(1, 2), initial=0.0).sum())
        cut = self._by_cut(x, np.where(allowed, scores, scores - wall), weights)
        if cut is None:
            return best_of_messages(x, self.costs_of(x, np.where(allowed, scores, -np.inf), weights), None)
        return cut.output if isinstance(cut, Decoded) else cut

    def _is_forest(self, x: Graph) -> bool:
        # A loop, which minimum cuts allow, is none of the edges that messages know.
        return not (x.edges[:, 0] == x.edges[:, 1]).any() and x.messages(self.n_labels).is_forest

    def all_outputs(self, x: Graph) -> list[Ints]:
        """All labelings of a small graph."""
        if not is_small(len(x.nodes), self.n_labels):
            raise ValueError(
                f"{len(x.nodes)} nodes with {self.n_labels} labels have too many labelings to list them, more than "
                f"{MOST_LABELINGS}; use search='auto' or 'hull'"
            )
        return list(every_labeling(len(x.nodes), self.n_labels))

    def loss_values(self, x: Graph, truth: Any) -> Floats | None:
        """All losses that labelings can have: counts, or sums of costs if these are not too many."""
        labels = np.asarray(truth)
        values, counts = np.unique(self.costs[labels], return_counts=True)
        values, counts = values[values > 0], counts[values > 0]
        if np.prod(counts + 1.0) > _MOST_LOSSES:
            return None
        totals = np.zeros(1)
        for value, count in zip(values, counts, strict=True):
            totals = np.unique(totals[:, None] + value * np.arange(count + 1))
        return totals / self.unit(len(labels))

    def decode_within(self, x: Graph, weights: Floats, truth: Any, lam: float, low: float, high: float) -> Any:
        """The labeling with the largest ``score + lam * loss`` of those with ``low <= loss / (1 + margin error) < high``.

        Loss and denominator are positive. Labelings of small graphs are listed, others are left to an integer program; None if
        there is no such labeling.
        """
        scores, tables = self.node_scores(x, weights), self._pair_scores(x, weights)
        labels = np.asarray(truth)
        own = float(values_of(labels[None], scores, x.edges, tables)[0])
        losses = self.node_scores(x, 0.0 * weights, truth, 1.0)
        if not is_small(len(scores), self.n_labels):
            return best_in_cone(scores, x.edges, tables, losses, own, lam, Cone(low, high))
        every = every_labeling(len(scores), self.n_labels)
        error = 1.0 + values_of(every, scores, x.edges, tables) - own
        wrong = losses[np.arange(len(losses)), every].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = wrong / error
        inside = (error > 0) & (wrong > 0) & (slope >= low) & (slope < high)
        if not inside.any():
            return None
        at = int(np.argmax(np.where(inside, error + lam * wrong, -np.inf)))
        return Decoded(every[at].copy(), float(error[at] - 1.0 + own + lam * wrong[at]))

    # ---- the searches ----------------------------------------------------------------------------------------------------------

    def _by_cut(self, x: Graph, unary: Floats, weights: Floats) -> Any:
        """The best labeling for scores of nodes, if a minimum cut can find it; None otherwise."""
        if self.n_labels != 2:
            return None
        if self._all_attractive:
            return self._cut(x, unary, x.edge_features @ weights[self._n_node_weights :])
        scores = self._pair_scores(x, weights)
        if (scores[:, 0, 0] + scores[:, 1, 1] >= scores[:, 0, 1] + scores[:, 1, 0]).all():
            value, labels = x.cutter.solve(unary, scores)
            return Decoded(labels.astype(np.int64), value)
        return None

    def costs_of(self, x: Graph, unary: Floats, weights: Floats) -> Costs:
        """Scores of nodes, and those that the weights give to edges, as costs of a labeling."""
        if self._all_attractive:
            penalties = x.edge_features @ weights[self._n_node_weights :]
            return Costs(-unary, 1.0 - np.eye(self.n_labels), penalties, ("potts", 1.0, 1.0))
        scores = np.ascontiguousarray(-self._pair_scores(x, weights))
        return Costs(-unary, scores, np.ones(len(x.edges)), ("dense", 0.0, 0.0))

    def _pair_scores(self, x: Graph, weights: Floats) -> Floats:
        """Of both labels of every edge, shape (E, K, K)."""
        K, tables = self.n_labels, self.tables(weights[self._n_node_weights :])
        return np.asarray(x.edge_features @ tables.reshape(self.n_edge_inputs, K * K)).reshape(-1, K, K)

    def node_scores(self, x: Graph, weights: Floats, truth: Any = None, b: float = 0.0) -> Floats:
        """Of the labels of every node, shape (L, K), with ``b`` times the loss if there is a truth."""
        unary = np.asarray(x.nodes @ weights[: self._n_node_weights].reshape(self.n_labels, -1).T)
        if truth is not None:
            labels = np.asarray(truth)
            losses = (b / self.unit(len(unary))) * self.costs[labels]
            unary += losses[:, None]
            unary[np.arange(len(labels)), labels] -= losses
        return np.ascontiguousarray(unary)

    def _cut(self, x: Graph, unary: Floats, penalties: Floats) -> Ints:
        if (penalties < 0).any():
            raise ValueError(
                f"an edge has the penalty {penalties.min():.3g} < 0: it would reward different labels, and a minimum cut cannot "
                "find the best labeling; solve with the problem's bounds"
            )
        _, labels = x.cutter.solve(unary, penalties)
        return labels.astype(np.int64)

    def make_problem(self, xs: Sequence[Any], ys: Sequence[Any]) -> Problem:
        """The compiled problem of these graphs."""
        from maxmargin.graphs.problem import GraphProblem

        return GraphProblem(xs, ys, self.n_labels, self.pairwise, self.costs, relaxed=False, normalize=self.normalize)


def as_row(feature: Floats) -> Any:
    """A joint feature, without its zeros if it is long."""
    if len(feature) <= _LONG:
        return feature
    at = np.flatnonzero(feature)
    return sparse.coo_array((feature[at], (np.zeros_like(at), at)), shape=(1, len(feature)))


def check_pairwise(pairwise: str | Sequence[str], n_edge_inputs: int) -> tuple[str, ...]:
    """A kind of table for every feature of an edge."""
    kinds = (pairwise,) * n_edge_inputs if isinstance(pairwise, str) else tuple(pairwise)
    for kind in kinds:
        if kind not in get_args(Pairwise):
            raise ValueError(f"pairwise={kind!r} is unknown; choose one of {', '.join(map(repr, get_args(Pairwise)))}")
    if len(kinds) != n_edge_inputs:
        raise ValueError(f"pairwise has {len(kinds)} entries, but edges have {n_edge_inputs} features; name one for each")
    return kinds


def _tables(kinds: Sequence[str], K: int) -> tuple[Ints, Floats, int]:
    """Which weight stands in each entry of the tables, with which sign, shape (q, K, K) both; and how many weights there are."""
    first, second = np.indices((K, K))
    low, high = np.minimum(first, second), np.maximum(first, second)
    # Pairs k <= l, and k < l, in lexicographic order.
    upto, below = low * K - low * (low - 1) // 2 + high - low, low * (K - 1) - low * (low - 1) // 2 + high - low - 1
    shapes: dict[str, tuple[Ints, Floats, int]] = {
        "attractive": (np.zeros((K, K), np.int64), -(first != second).astype(np.float64), 1),
        "symmetric": (upto, np.ones((K, K)), K * (K + 1) // 2),
        "antisymmetric": (np.maximum(below, 0) * (first != second), np.sign(second - first).astype(np.float64), K * (K - 1) // 2),
        "free": (first * K + second, np.ones((K, K)), K * K),
    }
    offsets = np.concatenate([[0], np.cumsum([shapes[kind][2] for kind in kinds], dtype=np.int64)])
    place = np.array([offset + shapes[kind][0] for offset, kind in zip(offsets, kinds, strict=False)], dtype=np.int64)
    sign = np.array([shapes[kind][1] for kind in kinds])
    return place.reshape(-1, K, K), sign.reshape(-1, K, K), int(offsets[-1])


def best_of_messages(x: Graph, costs: Costs, truth: Any) -> Decoded:
    """The labeling that messages find, improved on trees of nodes, and minus the lower bound of the costs."""
    messages = x.messages(costs.unary.shape[1])
    # The same question has the same answer, whatever was asked before.
    messages.clear()
    search = ForestSearch(messages, *costs)
    # What violates the margin is often near the truth.
    search.run([] if truth is None else [np.asarray(truth).astype(np.int32)])
    return Decoded(search.labels.astype(np.int64), -min(search.bound, search.energy))
