"""Moves of labelings with terms over cliques: who keeps its label, who takes the one proposed; and when to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Int32s, Ints
from maxmargin.labeling.cliques import Cliques
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.moves import check_init
from maxmargin.labeling.result import Callback
from maxmargin.labeling.spreads import Spreads


class Clock:
    """Says when to stop: after a time, or when somebody asked for it from another thread.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now on.
    """

    def __init__(self, time_limit: float | None = None) -> None:
        if time_limit is not None and not time_limit > 0:
            raise ValueError(f"time_limit={time_limit!r} must be a positive number of seconds, or None")
        self.time_limit = time_limit
        self._started = time.perf_counter()
        self._asked = threading.Event()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.perf_counter() - self._started

    def interrupt(self) -> None:
        """Whoever looks at the clock next stops."""
        self._asked.set()

    @property
    def interrupted(self) -> bool:
        """Whether somebody asked to stop."""
        return self._asked.is_set()

    def over(self) -> bool:
        """Whether to stop now."""
        return self.interrupted or (self.time_limit is not None and self.seconds >= self.time_limit)

    def status(self, finished: bool) -> str:
        """How a run ended that either finished or was stopped, by sweeps if not by this clock."""
        if self.interrupted:
            return "interrupted"
        return "converged" if finished else "time_limit" if self.over() else "max_sweeps"


def starts(energy: Energy, init: str | ArrayLike | None) -> list[Ints]:
    """Labels to start from: given ones, those of least unary cost, the best single label ("constant"), or both ("best")."""
    if init is None:
        return []
    names = ["unary", "constant"] if isinstance(init, str) and init == "best" else [init]
    return [check_init(energy, name).astype(np.int64) for name in names]


@dataclass
class Terms:
    """What the kernel needs of an energy, whatever the moves.

    Attributes
    ----------
    energy : Energy
        Its infinite unary costs replaced by more than all others together.
    offsets, nodes : int arrays
        Members of the cliques of all kinds, one kind after the other.
    weights : array of shape (K,)
        Of these cliques.
    rounding : float
        Moves must lower the energy by more.
    """

    energy: Energy
    offsets: Ints
    nodes: Int32s
    weights: Floats
    rounding: float

    @classmethod
    def of(cls, energy: Energy) -> Terms:
        """The terms of an energy."""
        offsets, nodes, weights, so_far = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)], 0
        for some in energy.cliques:
            offsets.append(some.offsets[1:] + so_far)
            nodes.append(some.nodes)
            weights.append(some.weights)
            so_far += len(some.nodes)
        finite, spreads = np.isfinite(energy.unary), Spreads.of(energy)
        if not finite.all():
            more = 2 * spreads.total + float(np.abs(energy.unary[finite]).max())
            energy = energy.replaced(unary=np.where(finite, energy.unary, more or 1.0))
        return cls(energy, np.concatenate(offsets), np.concatenate(nodes), np.concatenate(weights), spreads.rounding)

    def best_move(
        self, labels: Ints, proposal: Ints, some_move: Floats, some_stay: Floats, label_stays: Floats | None
    ) -> tuple[float, Booleans]:
        """Who moves, and an upper bound of how the energy changes by it.

        Parameters
        ----------
        labels, proposal : int arrays of shape (N,)
            What nodes have and what they may take; those where both agree have nothing to choose.
        some_move : array of shape (K,)
            What a clique costs more if any node moves.
        some_stay : array of shape (K,)
            What it costs less if all nodes that can move do so.
        label_stays : array of shape (K, L), optional
            What it costs less if all nodes with the label move.
        """
        energy = self.energy
        change, moved = _core.best_clique_move(
            energy.unary,
            energy.edges,
            energy.table,
            energy.weights,
            self.offsets,
            self.nodes,
            np.ascontiguousarray(self.weights * some_move),
            np.ascontiguousarray(self.weights * some_stay),
            None if label_stays is None else np.ascontiguousarray(self.weights[:, None] * label_stays),
            np.ascontiguousarray(labels, dtype=np.int32),
            np.ascontiguousarray(proposal, dtype=np.int32),
        )
        return change, moved.view(np.bool_)


def present_labels(cliques: Sequence[Cliques], labels: Ints, n_labels: int) -> list[Booleans]:
    """Which labels occur in the cliques of every kind."""
    return [some.present(labels, n_labels) for some in cliques]


@dataclass
class Descent:
    """Where sweeps of moves ended.

    Attributes
    ----------
    labels : int array of shape (N,)
    energy : float
    history : list of float
        Energies after accepted moves, from the start on.
    n_cuts : int
    finished : bool
        Whether no move lowers the energy any more.
    """

    labels: Ints
    energy: float
    history: list[float]
    n_cuts: int
    finished: bool


def sweep(
    labels: Ints,
    value: Callable[[Ints], float],
    move: Callable[[Ints, int], tuple[float, Ints]],
    n_moves: int,
    *,
    clock: Clock,
    least_gain: float,
    max_sweeps: int | None = None,
    order: Ints | None = None,
    callback: Callback | None = None,
) -> Descent:
    """Try one move after the other until none of them lowers the energy.

    Parameters
    ----------
    labels : int array of shape (N,)
    value : callable
        Energy of labels.
    move : callable
        ``move(labels, k)`` returns an upper bound of the change of the energy, and the labels after move k.
    n_moves : int
        Moves are numbered from 0.
    least_gain : float
        Moves must lower the energy by more.
    """
    if max_sweeps is not None and not max_sweeps >= 1:
        raise ValueError(f"max_sweeps={max_sweeps!r} must be at least 1")
    energy = value(labels)
    history, n_cuts, failed = [energy], 0, 0
    steps = np.arange(n_moves) if order is None else order
    limit = np.inf if max_sweeps is None else max_sweeps * n_moves
    k = 0
    # A move that failed need not be tried again before another one succeeds.
    try:
        while failed < n_moves and k < limit and not clock.over():
            bound, after = move(labels, int(steps[k % n_moves]))
            k, n_cuts, failed = k + 1, n_cuts + 1, failed + 1
            if bound < -least_gain and (lower := value(after)) < energy:
                labels, energy, failed = after, lower, 0
                history.append(energy)
                if callback is not None:
                    callback(energy, None)
    except KeyboardInterrupt:
        # Everybody stops, and what was reached is kept.
        clock.interrupt()
    return Descent(labels, energy, history, n_cuts, failed >= n_moves)
