"""The best labeling of a chain, tree or forest, and the marginals of all labelings, exactly.

A labeling ``y`` scores ``sum_t unary[t, y_t] + sum over edges (q, r) of pairwise[y_q, y_r]``. Its maximum (Viterbi) and the
marginals of ``P(y) ~ exp(score(y) / temperature)`` come from one recursion, belief propagation from the leaves to the roots
and back, in which the temperature decides between maxima and sums; see ``cpp/labeling/tree_dp.hpp`` for how it stays
accurate for scores of any size. Both take O(L K^2) time for L nodes and K labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Int32s
from maxmargin.io import in_input_order
from maxmargin.labeling.flow import check_edges, real_array

# Sums of scores stay below this, divided by the temperature too, so that nothing overflows.
_LARGEST = 1e300


@dataclass(frozen=True, eq=False)
class BestLabeling:
    """The labeling of the largest score.

    Attributes
    ----------
    labels : int32 array of shape (L,)
        A label in ``0 .. K-1`` for every node.
    score : float
        Its score.
    """

    labels: Int32s
    score: float


@dataclass(frozen=True, eq=False)
class LabelMarginals:
    """Marginal distributions of the labels of nodes and edges.

    Attributes
    ----------
    log_nodes : array of shape (L, K)
        Logarithm of the probability of every label of every node. Finite at positive temperatures, also where the
        probability itself is too small for a float.
    log_edges : array of shape (E, K, K)
        The same for the pairs of labels of every edge, rows for the edge's first node, columns for its second.
    log_partition : float
        ``temperature * log(sum over labelings of exp(score / temperature))``. In units of the score, never less than the
        best one, and equal to it at temperature 0.
    """

    log_nodes: Floats
    log_edges: Floats
    log_partition: float

    @cached_property
    def nodes(self) -> Floats:
        """Probabilities of the labels of every node, shape (L, K)."""
        return np.exp(self.log_nodes)

    @cached_property
    def edges(self) -> Floats:
        """Probabilities of the pairs of labels of every edge, shape (E, K, K)."""
        return np.exp(self.log_edges)

    def __repr__(self) -> str:
        n_nodes, n_labels = self.log_nodes.shape
        sizes = f"{n_nodes} nodes, {len(self.log_edges)} edges, {n_labels} labels"
        return f"LabelMarginals({sizes}, log_partition={self.log_partition:.6g})"


def best_labeling(unary: ArrayLike, pairwise: ArrayLike, *, edges: ArrayLike | None = None) -> BestLabeling:
    """Find the labeling of the largest score (Viterbi, max-product).

    Parameters
    ----------
    unary : array of shape (L, K)
        Finite score of every label at every node.
    pairwise : array of shape (K, K) or (E, K, K)
        Finite scores of pairs of labels, one table for all edges or one for each. Rows are the labels of the edge's first
        node, columns those of its second; for a chain these are the earlier and the later one, and E = L - 1.
    edges : int array of shape (E, 2), optional
        Pairs of nodes without cycles: a tree or a forest, nodes and edges in any order. By default the nodes form a chain.

    Notes
    -----
    Of equally good labelings of a chain it is the first in lexicographic order. On a forest every component starts with
    its lowest node, and labels are as low as possible there, then at its neighbours, and so on outwards.

    Examples
    --------
    >>> unary = [[1.0, 0.0], [0.0, 0.5], [2.0, 0.0]]
    >>> best_labeling(unary, np.zeros((2, 2)))
    BestLabeling(labels=array([0, 1, 0], dtype=int32), score=3.5)
    >>> best_labeling(unary, np.eye(2))            # neighbours like to agree
    BestLabeling(labels=array([0, 0, 0], dtype=int32), score=5.0)
    >>> best_labeling(unary, -2 * np.eye(2), edges=[[2, 0]])
    BestLabeling(labels=array([1, 1, 0], dtype=int32), score=2.5)
    """
    problem = _Problem(unary, pairwise, edges)
    whole = np.array([0, len(problem.unary)], dtype=np.int64)
    labels, scores = _core.forest_best_many(problem.unary, problem.tables, whole, problem.parent)
    return BestLabeling(in_input_order(labels, problem.order), float(scores[0]))


def label_marginals(
    unary: ArrayLike, pairwise: ArrayLike, *, edges: ArrayLike | None = None, temperature: float = 1.0
) -> LabelMarginals:
    """Find the marginals of the distribution ``P(y) ~ exp(score(y) / temperature)`` over all labelings (sum-product).

    Parameters
    ----------
    unary, pairwise, edges : arrays of shape (L, K), (K, K) or (E, K, K), and (E, 2)
        As in :func:`best_labeling`.
    temperature : float
        Not negative. At 0 all probability is on the best labeling, the one that :func:`best_labeling` returns.

    Examples
    --------
    >>> unary = [[1.0, 0.0], [0.0, 0.5], [2.0, 0.0]]
    >>> found = label_marginals(unary, np.eye(2))
    >>> found
    LabelMarginals(3 nodes, 2 edges, 2 labels, log_partition=5.58906)
    >>> found.nodes.round(3)
    array([[0.752, 0.248],
           [0.661, 0.339],
           [0.878, 0.122]])
    >>> np.allclose(found.edges.sum(axis=2), found.nodes[:-1])
    True
    >>> label_marginals(unary, np.eye(2), temperature=0).nodes
    array([[1., 0.],
           [1., 0.],
           [1., 0.]])
    """
    if not 0 <= temperature < np.inf:
        raise ValueError(f"temperature={temperature} must be a finite number, 0 or greater")
    problem = _Problem(unary, pairwise, edges)
    if temperature > 0 and not problem.bound < _LARGEST * min(1.0, temperature):
        raise ValueError(f"temperature={temperature} is too small for scores of this size; use 0 for the best labeling alone")
    log_nodes, blocks, total = _core.tree_marginals(problem.unary, problem.tables, problem.parent, float(temperature))
    return LabelMarginals(in_input_order(log_nodes, problem.order), problem.of_edges(blocks), total)


class _Problem:
    """Checked input, with the nodes numbered so that parents come first.

    ``unary`` (L, K), ``tables`` (K, K) or (L, K, K) and ``parent`` (L,) are what the kernels take; ``bound`` is at least the
    absolute score of any labeling.
    """

    def __init__(self, unary: ArrayLike, pairwise: ArrayLike, edges: ArrayLike | None) -> None:
        self.unary = _finite(unary, "unary")
        if self.unary.ndim != 2 or 0 in self.unary.shape:
            raise ValueError(
                f"unary has shape {self.unary.shape}, but (L, K) is needed: a row for each of at least one node, "
                "a column for each of at least one label"
            )
        n, k = self.unary.shape
        tables = _finite(pairwise, "pairwise")
        # order[t]: the node that comes t-th; upper[t]: the row of `edges` to its parent, or -1; turned[t]: that row has the
        # parent second.
        self.order: NDArray[np.intp] | None = None
        if edges is None:
            self.n_edges = n - 1
            self.parent = np.arange(-1, n - 1, dtype=np.int32)
            self.upper = np.arange(-1, n - 1, dtype=np.intp)
            self.turned = np.zeros(n, dtype=bool)
        else:
            pairs = _check_tree_edges(edges, n)
            self.n_edges = len(pairs)
            self.order, self.parent, self.upper, self.turned = _parents_first(pairs, n)
            self.unary = self.unary[self.order]
        if tables.shape not in ((k, k), (self.n_edges, k, k)):
            raise ValueError(
                f"pairwise has shape {tables.shape}, but unary has {k} labels: it must be ({k}, {k}), one table for all edges, "
                f"or ({self.n_edges}, {k}, {k}), one for each of the {self.n_edges} edges"
            )
        largest = float(np.abs(self.unary).max()) + float(np.abs(tables).max(initial=0.0))
        self.bound = 2 * n * largest
        if not self.bound < _LARGEST:
            raise ValueError("unary and pairwise are so large that their sums overflow; scale them down")
        self.tables = self._of_nodes(tables)

    def _of_nodes(self, tables: Floats) -> Floats:
        """Tables [parent's label, own label] of all nodes; a root has none and gets zeros."""
        if tables.ndim == 2 and not self.turned.any():
            return tables
        result = np.zeros((len(self.parent), *tables.shape[-2:]))
        inner = self.upper >= 0
        result[inner] = tables if tables.ndim == 2 else tables[self.upper[inner]]
        result[self.turned] = result[self.turned].transpose(0, 2, 1)
        return result

    def of_edges(self, blocks: Floats) -> Floats:
        """Blocks (L, K, K) of nodes and their parents as blocks (E, K, K) of the edges as given."""
        blocks[self.turned] = blocks[self.turned].transpose(0, 2, 1)
        result = np.empty((self.n_edges, *blocks.shape[1:]))
        inner = self.upper >= 0
        result[self.upper[inner]] = blocks[inner]
        return result


def _finite(values: ArrayLike, name: str) -> Floats:
    """A contiguous float64 array of finite numbers."""
    array = real_array(values, name)
    if not np.isfinite(array).all():
        place = ", ".join(map(str, np.argwhere(~np.isfinite(array))[0]))
        raise ValueError(
            f"{name} must be finite, but {name}[{place}] is NaN or infinite; forbid labels by a large negative score, say -1e6"
        )
    return array


def _check_tree_edges(edges: ArrayLike, n: int) -> NDArray[np.intp]:
    """Pairs of different nodes below n, no pair twice."""
    pairs = check_edges(edges, n).astype(np.intp)
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        at = int(loops.argmax())
        raise ValueError(f"edges[{at}] = {pairs[at].tolist()} joins a node to itself; add such scores to unary instead")
    distinct, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    if len(distinct) < len(pairs):
        at = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
        raise ValueError(f"edges[{at}] = {pairs[at].tolist()} is there twice; add up the two tables of pairwise instead")
    return pairs


def _parents_first(pairs: NDArray[np.intp], n: int) -> tuple[NDArray[np.intp], Int32s, NDArray[np.intp], Booleans]:
    """Number the nodes of a forest breadth first, every component from its lowest node: order, parent, upper, turned."""
    neighbours: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for row, (q, r) in enumerate(pairs.tolist()):
        neighbours[q].append((r, row))
        neighbours[r].append((q, row))
    number = [-1] * n
    order: list[int] = []
    parent: list[int] = []
    upper: list[int] = []

    def visit(node: int, above: int, row: int) -> None:
        number[node] = len(order)
        order.append(node)
        parent.append(above)
        upper.append(row)

    t = 0
    for root in range(n):
        if number[root] < 0:
            visit(root, -1, -1)
        while t < len(order):
            for other, row in neighbours[order[t]]:
                if number[other] < 0:
                    visit(other, t, row)
                elif row != upper[t]:
                    raise ValueError(
                        f"edges has a cycle, through edges[{row}] = {pairs[row].tolist()}; only forests are solved exactly"
                    )
            t += 1
    turned = [row >= 0 and int(pairs[row, 0]) == node for node, row in zip(order, upper, strict=True)]
    return np.array(order, np.intp), np.array(parent, np.int32), np.array(upper, np.intp), np.array(turned, bool)
