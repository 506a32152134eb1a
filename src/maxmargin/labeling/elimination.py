"""Exact minimisation by eliminating one node after the other, for graphs of small tree-width.

Bucket elimination (Dechter, "Bucket Elimination: A Unifying Framework for Reasoning", Artificial Intelligence 1999): add up all
tables that contain a node, minimise over its labels, and keep the result as a table of its neighbours. The largest table has as
many entries as labelings of a node and its neighbours at that time, so the order of the nodes decides about time and memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.labeling.clique_moves import starts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import Spreads, offset_free

# Entries of the largest table, 32 MB, and of all tables together, about a second. Every node of a table has at least two labels,
# so that tables have at most 22 dimensions; numpy 1 allows 32.
MAX_ENTRIES, _MAX_TOTAL = 2**22, 2**26
# Counting the edges that an elimination adds takes time that is quadratic in degrees.
_MOST_FOR_FILL = 2000


class TooWideError(ValueError):
    """Elimination needs larger tables than allowed."""


class _Term(NamedTuple):
    """A table of costs whose axes are the labels of these nodes, in increasing order."""

    nodes: tuple[int, ...]
    costs: Floats


class _Choice(NamedTuple):
    """The best label of an eliminated node for all labels of the nodes that are its neighbours at that time."""

    node: int
    nodes: tuple[int, ...]
    best: Any


@offset_free
def elimination(
    energy: Energy,
    *,
    init: str | ArrayLike | None = None,
    random_state: Any = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Labeling:
    """Find the least energy of a graph of small tree-width, by eliminating its nodes.

    Any tables, without cliques. Labels that ``unary`` forbids take no memory.

    Parameters
    ----------
    energy : Energy
        Without cliques. No table of an elimination may exceed 2^22 entries: with L labels and tree-width t they have L^(t + 1).
    init : {"unary", "constant", "best"} or labels, optional
        A descent from these labels is what is returned if the run is stopped before its end.
    random_state, max_sweeps
        Not used.
    time_limit : float, optional
        Seconds.
    callback : callable, optional
        Called once, with the energy and its bound.

    Returns
    -------
    Labeling
        Certified, unless it was stopped.

    Raises
    ------
    ValueError
        If the tables are too large.

    Examples
    --------
    >>> energy = Energy([[0, 1], [0, 1], [0, 1]], edges=[(0, 1), (1, 2), (2, 0)], pairwise=[[5, 0], [0, 5]])
    >>> elimination(energy)
    Labeling(energy=6, the least, method='elimination', converged)
    """
    begin = time.perf_counter()
    if energy.cliques:
        raise ValueError(
            f"method 'elimination' knows costs of nodes and edges, but the energy has {sum(map(len, energy.cliques))} cliques; "
            "use 'expansion' for P^n Potts, 'parsimonious' or 'cooccurrence' for diversities"
        )
    deadline = np.inf if time_limit is None else begin + time_limit
    graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
    given = min(starts(energy, "unary" if init is None else init), key=energy.energy).astype(np.int32)
    descended = graph.descend(energy.unary, energy.table, energy.weights, given, 1, 0)[1]
    first = descended.astype(np.int64)
    found = Labeling(first, energy.energy(first), "elimination", rounding=Spreads.of(energy).rounding)
    try:
        order = elimination_order(energy)
        if order is None:
            raise TooWideError(
                f"{energy!r} needs tables of more than {MAX_ENTRIES} entries, or too many of them; method 'elimination' is for "
                "graphs of small tree-width, choose 'descent' or 'trws'"
            )
        solved = _eliminate(energy, order, deadline)
        if solved is None:
            found.status = "time_limit"
        else:
            found.labels, value = solved
            found.energy, found.guarantee = energy.energy(found.labels), 1.0
            # The same sum in two orders: that of the labels where they differ by rounding only.
            found.bounded(found.energy if abs(found.energy - value) <= found.rounding else value)
            found.bounds = [min(value, found.energy)]
            if callback is not None:
                callback(found.energy, found.lower_bound)
    except KeyboardInterrupt:
        found.status = "interrupted"
    found.history = [found.energy]
    found.labels = found.labels.reshape(energy.shape)
    found.seconds = time.perf_counter() - begin
    return found


def elimination_order(energy: Energy) -> list[int] | None:
    """An order of the nodes in which tables stay below the bounds; None if none is found."""
    sizes: list[int] = np.isfinite(energy.unary).sum(axis=1).tolist()
    n = energy.n_nodes
    # Edges of nodes without a choice are costs of the other end.
    choice = np.asarray(sizes) > 1
    edges = energy.edges[choice[energy.edges].all(axis=1)]
    around: list[set[int]] = [set() for _ in range(n)]
    for a, b in edges.tolist():
        around[a].add(b)
        around[b].add(a)
    logs = [math.log2(size) for size in sizes]
    # A graph of n nodes and tree-width t has less than n * t edges.
    width = math.log2(MAX_ENTRIES) / max(1.0, float(np.min(np.asarray(logs)[choice], initial=np.inf)))
    if sum(map(len, around)) / 2 > n * width:
        return None
    ways = ["size", "numbers", "fill"] if n <= _MOST_FOR_FILL else ["size", "numbers"]
    for way in ways:
        order = _greedy_order([set(one) for one in around], logs, way)
        if order is not None:
            return order
    return None


def _greedy_order(around: list[set[int]], logs: list[float], way: str) -> list[int] | None:
    """Smallest table first ("size"), fewest new edges first ("fill"), or as they are numbered; None if a bound is exceeded."""
    import heapq

    def cost(s: int) -> float:
        if way == "numbers":
            return s
        if way == "fill":
            return sum(len(around[s]) - 1 - len(around[s] & around[t]) for t in around[s])
        return logs[s] + sum(logs[t] for t in around[s])

    n = len(around)
    heap = [(cost(s), s) for s in range(n)]
    heapq.heapify(heap)
    current = [key for key, _ in sorted(heap, key=lambda one: one[1])]
    done = [False] * n
    order: list[int] = []
    total, most = 0.0, math.log2(MAX_ENTRIES) + 1e-9
    while heap:
        key, s = heapq.heappop(heap)
        if done[s] or key != current[s]:
            continue
        near = around[s]
        size = logs[s] + sum(logs[t] for t in near)
        total += 2.0**size if size <= most else math.inf
        if total > _MAX_TOTAL:
            return None
        done[s] = True
        order.append(s)
        for t in near:
            around[t] |= near
            around[t] -= {s, t}
        if way == "numbers":
            continue
        # Fill changes at neighbours of neighbours, too; an order that is not quite greedy is as good.
        for t in near:
            current[t] = cost(t)
            heapq.heappush(heap, (current[t], t))
    return order


def _terms(energy: Energy, labels: list[Ints]) -> Iterator[_Term]:
    """Costs of nodes and edges for the labels that are allowed, without axes for nodes that have one label only."""
    for s, own in enumerate(labels):
        yield _reduced((s,), energy.unary[s, own], labels)
    weights = energy.weights.tolist()
    for e, (a, b) in enumerate(energy.edges.tolist()):
        table = energy.table if energy.table.ndim == 2 else energy.table[e]
        costs = weights[e] * table[np.ix_(labels[a], labels[b])]
        yield _reduced((a, b), costs, labels) if a < b else _reduced((b, a), costs.T, labels)


def _reduced(nodes: tuple[int, ...], costs: Floats, labels: list[Ints]) -> _Term:
    kept = tuple(s for s in nodes if len(labels[s]) > 1)
    return _Term(kept, costs.reshape([len(labels[s]) for s in kept]))


def _aligned(term: _Term, nodes: tuple[int, ...]) -> Floats:
    """The table with an axis for each of these nodes, of length 1 for those that it does not have."""
    shape = dict(zip(term.nodes, term.costs.shape, strict=True))
    return term.costs.reshape([shape.get(s, 1) for s in nodes])


def _eliminate(energy: Energy, order: list[int], deadline: float) -> tuple[Ints, float] | None:
    """Labels of the least energy, and this energy as the elimination adds it up; None if time runs out."""
    labels = [np.flatnonzero(row) for row in np.isfinite(energy.unary)]
    # Every term waits for the first of its nodes in the order.
    turn = np.empty(energy.n_nodes, dtype=np.int64)
    turn[order] = np.arange(len(order))
    waiting: list[list[_Term]] = [[] for _ in order]
    constants: list[float] = []

    def add(term: _Term) -> None:
        # Minima are summed apart, so that tables hold differences between labels only.
        least = float(term.costs.min())
        constants.append(least)
        if term.nodes:
            waiting[min(int(turn[s]) for s in term.nodes)].append(_Term(term.nodes, term.costs - least))

    for term in _terms(energy, labels):
        add(term)
    choices: list[_Choice] = []
    for place, node in enumerate(order):
        if time.perf_counter() > deadline:
            return None
        terms, waiting[place] = waiting[place], []
        if not terms:
            continue
        scope = tuple(sorted(set().union(*(term.nodes for term in terms))))
        total = np.zeros([len(labels[s]) for s in scope])
        for term in terms:
            total += _aligned(term, scope)
        axis = scope.index(node)
        rest = scope[:axis] + scope[axis + 1 :]
        choices.append(_Choice(node, rest, total.argmin(axis=axis).astype(np.int16)))
        add(_Term(rest, total.min(axis=axis)))
    found = np.zeros(energy.n_nodes, dtype=np.int64)
    for choice in reversed(choices):
        found[choice.node] = choice.best[tuple(found[list(choice.nodes)])]
    return np.array([own[k] for own, k in zip(labels, found.tolist(), strict=True)], dtype=np.int64), math.fsum(constants)
