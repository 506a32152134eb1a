"""The linear relaxation of pairwise energies: marginals of nodes and edges that agree with each other, and cost least.

The polytope of all such marginals contains the labelings as its integral points, so its minimum is a lower bound of the least
energy; on trees both are equal. TRW-S comes near the dual optimum in little time, and what its messages leave of the costs says
which pairs of labels can matter at all. What remains is a small linear program (HiGHS), in two forms:

- over pairs that cost little, which gives a point of the polytope, often already a best one;
- with marginals that may disagree at a price ``d`` per unit. Then no dual variable exceeds ``d``, and pairs that cost more than
  ``2 d`` cannot matter: it is exact without them. Where nothing disagrees, it has found the minimum over the polytope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Int32s, Ints, seconds_left

# Sweeps of TRW-S, and the part of the bound by which none of three in a row moves it at the end.
_SWEEPS, _STILL = 1000, 1e-9
# Value and bound this close, as a part of the sums of their terms, have met.
_MET = 1e-7
# Of the gap that TRW-S leaves: what a pair may cost in the first program, and the first price of disagreement; its growth.
_NEAR, _PRICE, _DEARER, _PRICES = 0.1, 0.5, 8.0, 8
_OPTIONS = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}


class Marginals(NamedTuple):
    """A point of the local polytope: marginals of nodes (L, K), of edges (E, K, K), first end first."""

    nodes: Floats
    pairs: Floats

    @classmethod
    def of_labels(cls, labels: Ints | Int32s, edges: Int32s, n_labels: int) -> Marginals:
        """The integral point of a labeling."""
        nodes = np.eye(n_labels)[labels]
        return cls(nodes, nodes[edges[:, 0]][:, :, None] * nodes[edges[:, 1]][:, None, :])

    def repaired(self, edges: Int32s) -> Marginals:
        """A point near by that is in the polytope but for rounding, from one that solvers call feasible."""
        nodes = np.maximum(self.nodes, 0.0)
        nodes /= nodes.sum(axis=1, keepdims=True)
        pairs = np.maximum(self.pairs, 0.0)
        first, second = nodes[edges[:, 0]], nodes[edges[:, 1]]
        # Too much of a label is scaled down; what is then lacking at both ends is put together.
        pairs *= np.minimum(1.0, _ratio(first, pairs.sum(axis=2)))[:, :, None]
        pairs *= np.minimum(1.0, _ratio(second, pairs.sum(axis=1)))[:, None, :]
        left, right = np.maximum(first - pairs.sum(axis=2), 0.0), np.maximum(second - pairs.sum(axis=1), 0.0)
        pairs += left[:, :, None] * _ratio(right, left.sum(axis=1, keepdims=True))[:, None, :]
        return Marginals(nodes, pairs)


class Relaxation(NamedTuple):
    """The best point that was found, its cost, and a lower bound of the cost of all points; equal but for rounding, as a rule."""

    marginals: Marginals
    value: float
    bound: float


def minimize_relaxation(
    messages: _core.MessagePassing,
    edges: Int32s,
    unary: Floats,
    tables: Floats,
    weights: Floats,
    shape: tuple[str, float, float],
    goal: Callable[[Relaxation], bool] | None = None,
) -> Relaxation:
    """The point of the local polytope with the least ``sum_s unary[s] . nodes[s] + sum_e weights[e] * tables[e] . pairs[e]``.

    If a run ends before that is found (see ``deadline.py``), the best point so far and a bound that holds all the same.

    Parameters
    ----------
    messages : MessagePassing
        Of the graph, for TRW-S.
    edges : array of shape (E, 2)
    unary : array of shape (L, K)
        Finite costs.
    tables : array of shape (K, K) or (E, K, K)
        Finite costs of the labels of first and second ends.
    weights : array of shape (E,)
    shape : tuple
        What is special about the table, as :func:`maxmargin.labeling.messages.table_shape` tells it.
    goal : callable, optional
        Is told the best point before every linear program, and says whether value and bound have met; by default they have once
        they are closer than a small part of the sums of the largest costs.

    Examples
    --------
    Neighbours on a triangle would all like to differ, with two labels; half of each is better than any labeling:

    >>> edges = np.array([(0, 1), (1, 2), (2, 0)], dtype=np.int32)
    >>> messages = _core.MessagePassing(3, 2, edges, True)
    >>> found = minimize_relaxation(messages, edges, np.zeros((3, 2)), np.eye(2), np.ones(3), ("dense", 0.0, 0.0))
    >>> found.marginals.nodes[0], found.value + 0.0, round(found.bound, 9) + 0.0
    (array([0.5, 0.5]), 0.0, 0.0)
    """
    # The same question has the same answer, whatever was asked before.
    messages.clear()
    labels, energies, bounds, _ = messages.run(unary, tables, weights, *shape, _SWEEPS, _STILL)
    costs = Marginals(unary, np.ascontiguousarray(weights[:, None, None] * tables))
    least = _MET * (np.abs(costs.nodes).max(axis=1).sum() + np.abs(costs.pairs).max(axis=(1, 2), initial=0.0).sum())

    def met(found: Relaxation) -> bool:
        return found.value - found.bound <= least if goal is None else goal(found)

    found = Relaxation(Marginals.of_labels(labels, edges, unary.shape[1]), float(energies.min()), float(bounds.max()))
    if messages.is_forest or met(found):
        return found._replace(bound=found.value if messages.is_forest else found.bound)
    search = _Search(edges, costs, found, messages.hand_over(unary, tables, weights, *shape).reshape(len(edges), 2, -1))
    gap = search.best.value - search.best.bound
    search.near_by(_NEAR * gap)
    price = _PRICE * gap
    for _ in range(_PRICES):
        if met(search.best):
            break
        search.at_price(price)
        price *= _DEARER
    return search.best


class _Search:
    """Linear programs over what the messages leave of the costs, none of it negative; the best point and bound so far."""

    def __init__(self, edges: Int32s, costs: Marginals, best: Relaxation, handed: Floats) -> None:
        self.edges, self.costs = edges, costs
        nodes = costs.nodes - self._at_nodes(handed)
        pairs = costs.pairs + handed[:, 0, :, None] + handed[:, 1, None, :]
        least = nodes.min(axis=1, keepdims=True), pairs.min(axis=(1, 2), keepdims=True)
        self.left, self.offset = Marginals(nodes - least[0], pairs - least[1]), float(least[0].sum() + least[1].sum())
        self.best = best._replace(bound=max(best.bound, self.offset))
        # Tolerances of solvers are for costs around one. Those that matter are like the gap, others may be far larger; a power of
        # two, so that nothing is rounded.
        self.unit = math.ldexp(1.0, math.frexp(self.best.value - self.best.bound)[1])

    def near_by(self, most: float) -> None:
        """Over pairs that cost little, and those of the best labels, so that there is a point."""
        self._solve(np.ones(self.left.nodes.shape, bool), (self.left.pairs <= most) | (self.best.marginals.pairs > 0), None)

    def at_price(self, price: float) -> None:
        """With marginals that may disagree; pairs that cost more than the largest dual variables of their ends are left out."""
        degrees = np.bincount(self.edges.ravel(), minlength=len(self.left.nodes))
        self._solve(self.left.nodes <= 2 * price * degrees[:, None], self.left.pairs <= 2 * price, price)

    def _solve(self, nodes: Booleans, pairs: Booleans, price: float | None) -> None:
        program = _Program(self.edges, self.left, nodes, pairs, price)
        left = seconds_left()
        if left == 0:
            return
        # The stubs know no sparse matrices.
        solve: Any = linprog
        options = _OPTIONS if left == np.inf else {**_OPTIONS, "time_limit": left}
        answer = solve(program.costs / self.unit, A_eq=program.matrix, b_eq=program.right, method="highs-ds", options=options)
        if answer.status != 0:
            return
        point = program.marginals(answer.x).repaired(self.edges)
        value = float(np.vdot(point.nodes, self.costs.nodes) + np.vdot(point.pairs, self.costs.pairs))
        if value < self.best.value:
            self.best = self.best._replace(marginals=point, value=value)
        if price is None:
            return
        # Whatever the dual variables are, they give a bound; pairs that were left out do not spoil it while none is too large.
        handed = np.clip(self.unit * program.duals(answer.eqlin.marginals), -price, price)
        changed = self.left.nodes + self._at_nodes(handed), self.left.pairs - handed[:, 0, :, None] - handed[:, 1, None, :]
        bound = self.offset + float(changed[0].min(axis=1).sum() + changed[1].min(axis=(1, 2)).sum())
        self.best = self.best._replace(bound=min(max(self.best.bound, bound), self.best.value))

    def _at_nodes(self, handed: Floats) -> Floats:
        """Sums over the edges of every node."""
        total = np.zeros(self.costs.nodes.shape)
        np.add.at(total, self.edges.ravel(), handed.reshape(2 * len(self.edges), -1))
        return total


class _Program:
    """Marginals of some labels and pairs as a linear program; with a price, marginals may disagree."""

    def __init__(self, edges: Int32s, costs: Marginals, nodes: Booleans, pairs: Booleans, price: float | None) -> None:
        self._nodes, self._pairs = nodes, pairs
        n_nodes, n_edges, n_labels = len(nodes), len(edges), nodes.shape[1]
        columns, n_pairs = np.cumsum(nodes).reshape(nodes.shape) - 1, int(pairs.sum())
        n_labels_kept = int(nodes.sum())
        edge, first, second = np.nonzero(pairs)
        # An edge's pairs with a label at one end weigh as much as the label; where neither is left, nothing is to be said.
        self._rows = np.stack([pairs.any(axis=2) | nodes[edges[:, 0]], pairs.any(axis=1) | nodes[edges[:, 1]]], axis=1)
        n_agreements = int(self._rows.sum())
        row = n_nodes + np.cumsum(self._rows).reshape(n_edges, 2, n_labels) - 1
        which, end, label = np.nonzero(nodes[edges] & self._rows)
        place = n_labels_kept + np.arange(n_pairs)
        parts: list[tuple[Any, Any, float]] = [
            (np.nonzero(nodes)[0], np.arange(n_labels_kept), 1.0),
            (row[edge, 0, first], place, 1.0),
            (row[edge, 1, second], place, 1.0),
            (row[which, end, label], columns[edges[which, end], label], -1.0),
        ]
        own = [costs.nodes[nodes], costs.pairs[pairs]]
        width = n_labels_kept + n_pairs
        if price is not None:
            for sign in (1.0, -1.0):
                parts.append((n_nodes + np.arange(n_agreements), width + np.arange(n_agreements), sign))
                width += n_agreements
            own.append(np.full(2 * n_agreements, price))
        entries = np.concatenate([np.full(len(at), value) for at, _, value in parts])
        at = tuple(np.concatenate([part[k] for part in parts]) for k in (0, 1))
        self.matrix = sparse.csr_array((entries, at), shape=(n_nodes + n_agreements, width))
        self.costs, self.right = np.concatenate(own), np.repeat([1.0, 0.0], [n_nodes, n_agreements])

    def marginals(self, solution: Floats) -> Marginals:
        """Those of the labels and pairs that were left, zero elsewhere."""
        found = Marginals(np.zeros(self._nodes.shape), np.zeros(self._pairs.shape))
        found.nodes[self._nodes], found.pairs[self._pairs] = np.split(
            solution[: self._nodes.sum() + self._pairs.sum()], [self._nodes.sum()]
        )
        return found

    def duals(self, multipliers: Floats) -> Floats:
        """Multipliers of the agreements, shape (E, 2, K)."""
        found = np.zeros(self._rows.shape)
        found[self._rows] = multipliers[len(self._nodes) :]
        return found


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Zero where there is no whole."""
    return np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)
