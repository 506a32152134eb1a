"""Search for labels of little energy where pairwise costs may attract or repel: messages, then moves of random forests of nodes.

:class:`ForestSearch` serves decoding of graphs and :func:`descent`. TRW-S gives labels and a lower bound. A descent then changes
single labels, and the labels of all nodes of a random forest at once: a dynamic program finds the best ones for fixed labels of
the other nodes (``descend_forests`` in ``cpp/labeling/messages.hpp``). :func:`descent` goes on from labels in which regions are
replaced by random ones: iterated local search (Lourenco, Martin and Stuetzle, Handbook of Metaheuristics 2003).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from maxmargin import _core
from maxmargin._utils import Floats, Int32s
from maxmargin.labeling.clique_moves import starts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.messages import bp, stands_still, table_shape
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import Spreads, offset_free

# TRW-S ends when the bound has not moved by this part of it for three sweeps, or after so many of them.
_TOLERANCE, _SWEEPS = 1e-6, 200
# A descent ends when so many random forests in a row did not help; the first ones, and those from labels that were changed.
_PATIENCE, _SHORT = 20, 5
# Energies and bounds are sums of as many numbers as there are nodes and edges; closer than this part they are equal.
_ROUNDING = 1e-12
# Entries of messages that are computed between two looks at the clock.
_WORK = 400_000_000
# Rounds of changed labels without success after which a search ends, and the part of how much costs differ that is a success, per
# node. On large graphs some region nearly always gets better by little; there fewer rounds are idle, and more must be gained.
_IDLE, _LEAST_GAIN, _LARGE = 60, 5e-8, 1000


class ForestSearch:
    """The best labels that messages and descents have found so far, and a lower bound.

    Decoding of training examples must not change: the same messages, and descents with seeds 0, 1, ... in their order.

    Parameters
    ----------
    graph : MessagePassing
        Reweighted, with the messages to start from.
    unary, tables, weights, shape
        Costs, and what is special about the tables, as `table_shape` says.

    Attributes
    ----------
    labels : int32 array of shape (N,)
    energy, bound : float
    """

    def __init__(
        self, graph: _core.MessagePassing, unary: Floats, tables: Floats, weights: Floats, shape: tuple[str, float, float]
    ) -> None:
        self._graph, self._costs, self._shape = graph, (unary, tables, weights), shape
        self.labels: Int32s = np.zeros(len(unary), dtype=np.int32)
        self.energy, self.bound = np.inf, -np.inf
        self.n_descents = 0

    @property
    def proved(self) -> bool:
        """Whether nothing is better than the bound."""
        return self.energy - self.bound <= _ROUNDING * abs(self.bound)

    def run(self, others: Iterable[Int32s] = ()) -> None:
        """Pass messages, then descend from their labels and from others, as long as the bound is not met."""
        self.pass_messages(_SWEEPS)
        if self._graph.is_forest:
            self.energy, self.labels = self._graph.descend(*self._costs, self.labels, 0, 0)
            self.bound = self.energy
            return
        for start in (self.labels, *others):
            if self.proved:
                break
            self.descend(start)

    def pass_messages(self, n_sweeps: int) -> tuple[bool, list[float]]:
        """Up to so many sweeps; whether they have converged, and their bounds."""
        labels, energies, bounds, settled = self._graph.run(*self._costs, *self._shape, n_sweeps, _TOLERANCE)
        energy = float(energies.min())
        if energy < self.energy or not np.isfinite(self.energy):
            self.energy, self.labels = energy, labels
        self.bound = max(self.bound, float(bounds.max()))
        return settled, bounds.tolist()

    def descend(self, start: Int32s, patience: int = _PATIENCE) -> Int32s:
        """Labels that a descent from these ends with; they are kept if they are the best."""
        energy, labels = self._graph.descend(*self._costs, start, patience, self.n_descents)
        self.n_descents += 1
        self.offer(labels, energy)
        return labels

    def offer(self, labels: Int32s, energy: float) -> None:
        """Keep labels if they are better."""
        if energy < self.energy:
            self.energy, self.labels = energy, labels


@offset_free
def descent(
    energy: Energy,
    *,
    init: str | ArrayLike | None = None,
    random_state: Any = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    patience: int | None = None,
) -> Labeling:
    """Messages, then descents from their labels and from many others, for pairwise costs of any sign.

    TRW-S gives a lower bound and labels to start from; so do min-sum messages. A descent makes moves of random forests of nodes,
    each of them the best of its kind. Then regions of the best labels are replaced by random labels, and another descent follows;
    what has become better is kept, region by region.

    Parameters
    ----------
    energy : Energy
        Without cliques.
    init : {"unary", "constant", "best"} or labels, optional
        Labels to start from, too; the result has no more energy.
    random_state : int, Generator or None
        For changed labels; None is 0 here, so that two runs agree.
    max_sweeps : int, optional
        Rounds of changed labels.
    time_limit : float, optional
        Seconds. It is looked at between descents.
    callback : callable, optional
        ``callback(energy, lower_bound)`` is called after every round.
    patience : int, optional
        End when so many rounds in a row have gained little: together less than 5e-8 per node (at most 1e-3) of how much the costs
        differ between labels. By default 60, on more than 1,000 nodes 60,000 / N, but at least 5.

    Returns
    -------
    Labeling
        With ``lower_bound``; ``certified`` if the energy meets it.

    Examples
    --------
    >>> ring = Energy(0.1 * np.eye(5, 3), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], np.eye(3))
    >>> descent(ring).energy
    0.0
    """
    begin = time.perf_counter()
    if energy.cliques:
        raise ValueError(
            f"method 'descent' knows costs of nodes and edges, but the energy has {sum(map(len, energy.cliques))} cliques; "
            "use 'expansion' for P^n Potts, 'parsimonious' or 'cooccurrence' for diversities"
        )
    if patience is None:
        patience = max(5, min(_IDLE, _IDLE * _LARGE // energy.n_nodes))
    elif isinstance(patience, bool) or not isinstance(patience, int | np.integer) or patience < 1:
        raise ValueError(f"patience={patience!r} must be an integer of at least 1")
    given = [one.astype(np.int32) for one in starts(energy, init)]
    result = Labeling(energy.unary.argmin(axis=1), np.inf, "descent", rounding=Spreads.of(energy).rounding)
    result.energy = energy.energy(result.labels)
    for one in given:
        _note(result, energy, one)
    run = _Run(energy, result, np.inf if time_limit is None else begin + time_limit, callback)
    try:
        run.start(given)
        run.improve(np.random.default_rng(0 if random_state is None else random_state), patience, max_sweeps)
    except _Ended as end:
        result.status = end.status
    except KeyboardInterrupt:
        result.status = "interrupted"
    run.take()
    result.labels = result.labels.reshape(energy.shape)
    result.seconds = time.perf_counter() - begin
    return result


class _Ended(Exception):
    """A search that has found the best labels, or has no time left."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class _Run:
    """A search with a clock."""

    def __init__(self, energy: Energy, result: Labeling, deadline: float, callback: Callback | None) -> None:
        self.energy, self.result, self._deadline, self._callback = energy, result, deadline, callback
        graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
        self.search = ForestSearch(graph, energy.unary, energy.table, energy.weights, table_shape(energy.table))

    def start(self, given: list[Int32s]) -> None:
        """Labels of messages, of both kinds, given ones, and those of least unary cost, and descents from them."""
        energy, search = self.energy, self.search
        per_sweep = 2 * max(1, len(energy.edges)) * energy.n_labels**2
        at_once = max(1, min(_SWEEPS, _WORK // per_sweep))
        bounds: list[float] = []
        while len(bounds) < _SWEEPS:
            settled, new = search.pass_messages(min(at_once, _SWEEPS - len(bounds)))
            bounds.extend(new)
            self.look()
            if settled or stands_still(bounds, _TOLERANCE * max(abs(search.energy), abs(bounds[-1]))):
                break
        first = search.labels
        search.descend(first)
        self.look()
        left = self._deadline - time.perf_counter()
        passed = bp(energy, time_limit=max(1e-3, left) if np.isfinite(left) else None)
        _note(self.result, energy, passed.labels)
        # It has taken the interrupt for itself.
        if passed.status == "interrupted":
            raise KeyboardInterrupt
        for one in (passed.labels.ravel().astype(np.int32), *given, energy.unary.argmin(axis=1).astype(np.int32)):
            search.descend(one)
            self.look()

    def improve(self, rng: np.random.Generator, patience: int, max_rounds: int | None) -> None:
        """Rounds of changed labels."""
        energy, search = self.energy, self.search
        changes = _Changes(energy, rng)
        least, idle, rounds = min(1e-3, _LEAST_GAIN * energy.n_nodes) * Spreads.of(energy).scale, 0, 0
        short = _SHORT if energy.n_nodes <= _LARGE else 1
        reference = search.energy
        while idle < patience:
            if rounds == max_rounds:
                raise _Ended("max_sweeps")
            rounds += 1
            other = search.descend(changes.changed(search.labels), short)
            mixed = changes.best_parts(search.labels, other)
            if mixed is not None:
                search.offer(mixed, energy.energy(mixed))
            idle += 1
            if search.energy < reference - least:
                reference, idle = search.energy, 0
            self.look()

    def look(self) -> None:
        """Take what was found; end if it is proved to be the best, or time is up."""
        self.take()
        self.result.history.append(self.result.energy)
        if self._callback is not None:
            self._callback(self.result.energy, self.result.lower_bound)
        if self.result.certified or self.search.proved:
            raise _Ended("converged")
        if time.perf_counter() > self._deadline:
            raise _Ended("time_limit")

    def take(self) -> None:
        """Make what the search has found the result."""
        _note(self.result, self.energy, self.search.labels)
        if np.isfinite(self.search.bound):
            self.result.bounded(self.search.bound)
            self.result.bounds.append(min(self.search.bound, self.result.energy))


def _note(result: Labeling, energy: Energy, labels: Any) -> None:
    """Take labels if they are better, their energy evaluated from scratch, by other means than those which found it."""
    value = energy.energy(labels)
    if value < result.energy:
        result.labels, result.energy = np.asarray(labels, dtype=np.int64).ravel(), value


class _Changes:
    """Labels changed at random in regions of a graph, and the better parts of two labelings."""

    def __init__(self, energy: Energy, rng: np.random.Generator) -> None:
        self._energy, self._rng = energy, rng
        n, (a, b) = energy.n_nodes, energy.edges.T
        ones = np.ones(2 * len(a), dtype=np.int32)
        self._around = csr_array((ones, (np.concatenate([a, b]), np.concatenate([b, a]))), shape=(n, n))
        self._allowed = np.isfinite(energy.unary)

    def changed(self, labels: Int32s) -> Int32s:
        """Labels with random ones in balls of a random radius, which cover up to half of the nodes, or at times everywhere."""
        n, rng = len(labels), self._rng
        inside = np.ones(n, dtype=bool)
        if rng.random() < 0.75:
            radius, share = int(rng.integers(4)), rng.uniform(0.05, 0.5)
            ball = self._grown(np.arange(n) == rng.integers(n), radius)
            more = rng.random(n) < max(0.0, share - ball.mean()) / max(1, ball.sum())
            inside = ball | self._grown(more, radius)
        new = labels.copy()
        draws = np.where(self._allowed[inside], rng.random((int(inside.sum()), self._energy.n_labels)), -1.0)
        new[inside] = draws.argmax(axis=1)
        return new

    def _grown(self, inside: NDArray[np.bool_], steps: int) -> NDArray[np.bool_]:
        for _ in range(steps):
            inside = inside | (self._around @ inside.astype(np.int32) > 0)
        return inside

    def best_parts(self, labels: Int32s, other: Int32s) -> Int32s | None:
        """Labels with those connected parts of another labeling that are better.

        Parts in which labelings differ, and between which there are no edges, change the energy independently of each other.
        """
        from scipy.sparse.csgraph import connected_components

        energy = self._energy
        differs = labels != other
        if not differs.any():
            return None
        a, b = energy.edges.T
        at = np.flatnonzero(differs[a] | differs[b])
        a, b = a[at], b[at]
        both = differs[a] & differs[b]
        n = energy.n_nodes
        links = csr_array((np.ones(int(both.sum()), dtype=np.int32), (a[both], b[both])), shape=(n, n))
        n_parts, part = connected_components(links, directed=False)
        nodes = np.arange(n)
        change = np.bincount(part, energy.unary[nodes, other] - energy.unary[nodes, labels], n_parts)
        own = () if energy.table.ndim == 2 else (at,)
        after, before = (energy.table[(*own, y[a], y[b])] for y in (other, labels))
        change += np.bincount(part[np.where(differs[a], a, b)], energy.weights[at] * (after - before), n_parts)
        better = differs & (change < 0)[part]
        return np.where(better, other, labels).astype(np.int32) if better.any() else None
