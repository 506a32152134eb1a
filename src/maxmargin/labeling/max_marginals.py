"""Max-marginals with two labels where neighbours attract each other: the best score if one node is told its label; all exact.

One minimum cut per connected component finds the best labeling, which is the answer for one label of every node; for the other
one as much more flow is found as keeps the node from its other side, from the last flow on (Kohli and Torr, CVIU 2008).
Components of a few nodes are enumerated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Booleans, Bytes, Floats, Int32s, Ints, check_memory
from maxmargin.labeling.graphcut import check_binary_terms


@dataclass(frozen=True, eq=False)
class MaxMarginals:
    """The best scores if one node is told its label.

    Attributes
    ----------
    values : array of shape (L, 2)
        ``values[t, k]`` is the largest score of a labeling in which node t has label k.
    labels : int array of shape (L,)
        The best labeling; ``values[t, labels[t]]`` is its score, for every t.
    labelings : boolean array of shape (L, 2, L), optional
        ``labelings[t, k]`` has the score ``values[t, k]``.
    """

    values: Floats
    labels: Ints
    labelings: Booleans | None = None

    @property
    def margins(self) -> Floats:
        """``values[:, 1] - values[:, 0]``, shape (L,): positive where every best labeling says 1."""
        return np.asarray(self.values[:, 1] - self.values[:, 0])

    def __repr__(self) -> str:
        return f"MaxMarginals(score={self.values.max():.6g}, {int(self.labels.sum())} ones of {len(self.labels)})"


def binary_max_marginals(unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike, *, labelings: bool = False) -> MaxMarginals:
    """The largest ``sum_t unary[t, y_t] + sum_e pairwise[e][y_a, y_b]`` in which a node has a label, for all nodes and labels.

    Parameters
    ----------
    unary, edges, pairwise
        As in :func:`maxmargin.labeling.best_binary_labeling`.
    labelings : bool, default=False
        Also return the labelings that have these scores, ``2 L^2`` booleans.

    Notes
    -----
    On grids the costs of one node's other label are found in some microseconds where a cut from scratch takes milliseconds.
    The value of a node's better label is the same sum for all nodes; the other one differs from it by the growth of a flow.

    Examples
    --------
    >>> found = binary_max_marginals([[0, 3], [1, 0], [0, 2], [5, 0]], [(0, 1), (1, 2), (2, 3)], [1, 1, 1])
    >>> found.labels, found.values
    (array([1, 1, 1, 0]), array([[6., 9.],
           [8., 9.],
           [8., 9.],
           [9., 5.]]))
    >>> found.margins
    array([ 3.,  1.,  1., -4.])
    """
    scores, pairs, terms = check_binary_terms(unary, edges, pairwise)
    _check_attraction(scores, pairs, terms)
    gains, penalties, base = _as_gains(scores, pairs, terms)
    parts = Components(len(scores), pairs)
    if labelings:
        check_memory(2 * len(scores) ** 2, "the labelings of all nodes and labels")
    inner, weights = np.ascontiguousarray(gains[parts.order]), np.ascontiguousarray(penalties[parts.edge_order])
    labels, costs = parts.costs_of_other_labels(inner, weights)
    best = np.empty(len(scores), dtype=np.int64)
    best[parts.order] = labels
    fall = np.empty(len(scores))
    fall[parts.order] = costs
    differ = best[pairs[:, 0]] != best[pairs[:, 1]]
    score = base + float(gains[best == 1].sum()) - float(penalties[differ].sum())
    values = np.full((len(scores), 2), score)
    values[np.arange(len(scores)), 1 - best] -= fall
    found = np.repeat(best[None].astype(bool), 2 * len(scores), axis=0).reshape(len(scores), 2, -1) if labelings else None
    if found is not None:
        flips = parts.forced(inner, weights, (1 - labels).astype(np.uint8))
        for t, node in enumerate(parts.order.tolist()):
            found[node, 1 - best[node], parts.order[flips.of(t)]] ^= True
    return MaxMarginals(values, best, found)


def _check_attraction(unary: Floats, pairs: Int32s, terms: Floats) -> None:
    """Complain about numbers that are none, edges from a node to itself, and terms that reward different labels."""
    if not np.isfinite(unary).all():
        at = int(np.flatnonzero(~np.isfinite(unary).all(axis=1))[0])
        raise ValueError(f"unary must be finite, but unary[{at}] has NaN or infinity; use a large number to forbid a label")
    tables = terms.reshape(len(pairs), 1 if terms.ndim == 1 else 4)
    surplus = terms if terms.ndim == 1 else 0.5 * ((tables[:, 0] - tables[:, 1]) + (tables[:, 3] - tables[:, 2]))
    # Rounding may leave tables that attract nothing a little below zero.
    least = 0.0 if terms.ndim == 1 else -2 * np.finfo(np.float64).eps * np.abs(tables).sum(axis=1)
    for wrong, problem in (
        (pairs[:, 0] == pairs[:, 1], "joins a node to itself; add such scores to unary instead"),
        (~np.isfinite(tables).all(axis=1), "must be finite; use a large number to tie two labels together"),
        (~(surplus >= least), "rewards different labels; a minimum cut needs attractive terms"),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"pairwise[{at}] of edge ({pairs[at, 0]}, {pairs[at, 1]}) {problem}")
    with np.errstate(over="ignore"):
        if not np.isfinite(4 * (np.abs(unary).sum() + np.abs(terms).sum())):
            raise ValueError("unary and pairwise are so large that their sum overflows; scale both down")


def _as_gains(unary: Floats, pairs: Int32s, terms: Floats) -> tuple[Floats, Floats, float]:
    """What every node gains by label 1, what every edge loses by different labels, and the score of zeros."""
    gains, base = unary[:, 1] - unary[:, 0], float(unary[:, 0].sum())
    if terms.ndim == 1:
        return gains, terms, base
    t00, t01, t10, t11 = terms[:, 0, 0], terms[:, 0, 1], terms[:, 1, 0], terms[:, 1, 1]
    np.add.at(gains, pairs[:, 0], 0.5 * ((t10 - t00) + (t11 - t01)))
    np.add.at(gains, pairs[:, 1], 0.5 * ((t01 - t00) + (t11 - t10)))
    return gains, np.maximum(0.0, 0.5 * ((t00 - t01) + (t11 - t10))), base + float(t00.sum())


@dataclass(frozen=True, eq=False)
class Labelings:
    """A labeling per node, of its component: the best labels but for a set of nodes, which others may share.

    Nodes that change their labels together have one set between them, so the memory is that of the different sets.

    Attributes
    ----------
    best : array of shape (L,)
        The best labels.
    set_of : int array of shape (L,)
        The set of every node; set 0 is empty.
    offsets, nodes : int arrays of shape (S + 1,) and (number of entries,)
        Set s has the nodes ``nodes[offsets[s]:offsets[s + 1]]``, in rising order.
    """

    best: Bytes
    set_of: Ints
    offsets: Ints
    nodes: Int32s

    def of(self, node: int) -> Int32s:
        """The nodes whose labels differ from the best ones in the labeling of ``node``."""
        begin, end = self.offsets[self.set_of[node] : self.set_of[node] + 2]
        return self.nodes[begin:end]

    def _arrays(self) -> tuple[Bytes, Ints, Ints, Int32s]:
        return self.best, self.set_of, self.offsets, self.nodes


class Components:
    """A graph with two labels as its connected components, one after the other.

    A labeling has the value ``sum over nodes with label 1 of scores[t] - sum over edges with different ends of penalties[e]``,
    penalties being not negative. All arrays of nodes and edges are in the order of the components.

    Parameters
    ----------
    n_nodes : int
    edges : int array of shape (E, 2)

    Attributes
    ----------
    order, edge_order : int arrays of shape (L,) and (E,)
        Nodes and edges as they were numbered, in the order of the components.
    node_offsets, edge_offsets : int arrays of shape (K + 1,)
        Component k has the nodes ``node_offsets[k]:node_offsets[k + 1]``, and its edges likewise.
    edges : int array of shape (E, 2)
        In the new order.
    """

    def __init__(self, n_nodes: int, edges: Int32s) -> None:
        ones = np.ones(len(edges), dtype=np.int8)
        # Not at the top: a ranking needs no SciPy.
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        n_parts, part = connected_components(
            coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n_nodes, n_nodes)), directed=False
        )
        self.n_nodes, self.n_parts = n_nodes, int(n_parts)
        self.order: NDArray[np.intp] = np.argsort(part, kind="stable")
        self.edge_order: NDArray[np.intp] = np.argsort(part[edges[:, 0]], kind="stable")
        self.node_offsets: Ints = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=n_parts))]).astype(np.int64)
        sizes = np.bincount(part[edges[:, 0]], minlength=n_parts)
        self.edge_offsets: Ints = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        place = np.empty(n_nodes, dtype=np.int64)
        place[self.order] = np.arange(n_nodes)
        self.edges: Ints = place[edges[self.edge_order]].reshape(-1, 2)
        self._kernel = self._compiled()

    def _compiled(self) -> _core.BinaryComponents:
        first = np.repeat(self.node_offsets[:-1], np.diff(self.edge_offsets))
        local = np.ascontiguousarray(self.edges - first[:, None], dtype=np.int32)
        return _core.BinaryComponents(self.node_offsets, self.edge_offsets, local)

    def best(self, scores: Floats, penalties: Floats, first: int = 0, last: int | None = None) -> Bytes:
        """The best labels of some components, of which scores and penalties are; all by default."""
        return self._kernel.best(first, self.n_parts if last is None else last, scores, penalties)

    def costs_of_other_labels(self, scores: Floats, penalties: Floats) -> tuple[Bytes, Floats]:
        """The best labels, and by how much the value falls if a node has its other label."""
        return self._kernel.costs_of_other_labels(scores, penalties)

    def forced(self, scores: Floats, penalties: Floats, wanted: Bytes) -> Labelings:
        """The best labels, and a labeling per node: the best one in which it has the wanted label."""
        return Labelings(*self._kernel.forced(scores, penalties, wanted))

    def values(self, labelings: Labelings, scores: Floats, penalties: Floats) -> Floats:
        """The value of every node's labeling in its component."""
        return self._kernel.values(*labelings._arrays(), scores, penalties)

    def combine(self, labelings: Labelings, coefficients: Floats) -> tuple[Floats, Floats]:
        """Sums of labelings times the coefficients of their nodes: of ones at nodes, and of edges with different ends."""
        return self._kernel.combine(*labelings._arrays(), coefficients)

    def same(self, labelings: Labelings, others: Labelings) -> bool:
        """Whether every node has the same labeling in both, although the best labels may differ."""
        return self._kernel.same(*labelings._arrays(), *others._arrays())

    def sums(self, values: Floats) -> Floats:
        """Of what nodes have, over every component."""
        return np.add.reduceat(values, self.node_offsets[:-1]) if len(values) else np.zeros(0)

    def __getstate__(self) -> dict[str, object]:
        # The compiled form belongs to the process.
        return {name: value for name, value in vars(self).items() if name != "_kernel"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._kernel = self._compiled()
