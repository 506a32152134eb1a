"""Message passing on pairwise energies: TRW-S, with a lower bound of the least energy, and min-sum belief propagation."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats
from maxmargin.labeling.clique_moves import starts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import Spreads, offset_free

# Entries of messages that are computed between two looks at the clock.
_WORK = 20_000_000


@offset_free
def trws(
    energy: Energy, *, init: str | ArrayLike | None = None, random_state: int | None = None, max_sweeps: int | None = None,
    tol: float = 1e-7, time_limit: float | None = None, callback: Callback | None = None,
) -> Labeling:  # fmt: skip
    """Sequential tree-reweighted message passing (Kolmogorov 2006).

    The graph is a set of chains along an order of its nodes; messages make the sum of their least energies rise, which is a
    lower bound of the least energy, and never falls. Labels follow from messages one after the other, and the best ones are
    kept. Components without cycles are solved exactly in one sweep.

    Parameters
    ----------
    energy : Energy
        Without cliques. Any pairwise tables; shared Potts and (truncated) linear ones take O(L) time per edge and sweep, others
        O(L^2). Unary costs may be infinite.
    init : {"unary", "constant", "best"} or labels, optional
        Labels to start from; the result has no more energy.
    random_state : int, optional
        Not used: nothing is random here.
    max_sweeps : int, default=1000
        Each visits all nodes twice, forth and back.
    tol : float
        End when three sweeps in a row have each raised the bound by no more than this part of the energy.
    time_limit : float, optional
        Seconds.
    callback : callable, optional
        ``callback(energy, lower_bound)`` is called now and then.

    Returns
    -------
    Labeling
        With ``lower_bound``, and all bounds on the way in ``bounds``; ``certified`` if both meet.

    Examples
    --------
    >>> energy = Energy([[0, 2], [1, 1], [3, 0]], edges=[(0, 1), (1, 2), (0, 2)], pairwise="potts")
    >>> trws(energy)
    Labeling(energy=3, the least, method='trws', converged)
    """
    return _pass_messages(energy, "trws", init, 1000 if max_sweeps is None else max_sweeps, tol, time_limit, callback)


@offset_free
def bp(
    energy: Energy, *, init: str | ArrayLike | None = None, random_state: int | None = None, max_sweeps: int | None = None,
    tol: float = 1e-7, time_limit: float | None = None, callback: Callback | None = None,
) -> Labeling:  # fmt: skip
    """Min-sum belief propagation: exact, in one sweep, on trees and forests; without any promise elsewhere.

    Parameters and result are those of :func:`trws`, but there is a lower bound on forests only, and on other graphs messages
    need not settle.

    Examples
    --------
    >>> energy = Energy([[0, 2], [1, 1], [3, 0]], edges=[(0, 1), (1, 2)], pairwise="potts")
    >>> bp(energy)
    Labeling(energy=2, the least, method='bp', converged)
    """
    return _pass_messages(energy, "bp", init, 200 if max_sweeps is None else max_sweeps, tol, time_limit, callback)


class TableShape(NamedTuple):
    """Whether a table allows messages in O(L) time: "potts", "linear" or "dense", with slope and limit."""

    kind: str
    slope: float = 0.0
    limit: float = 0.0


def table_shape(table: Floats) -> TableShape:
    """What is special about a table of shape (L, L); tables of single edges are dense.

    >>> from maxmargin.labeling import Metric
    >>> table_shape(Metric("linear", limit=2, scale=3).table(5))
    TableShape(kind='linear', slope=3.0, limit=6.0)
    """
    n_labels = table.shape[-1]
    if table.ndim != 2 or n_labels < 2:
        return TableShape("dense")
    slope, limit = float(table[0, 1]), float(table.max())
    apart = np.abs(np.subtract.outer(np.arange(n_labels), np.arange(n_labels)))
    if slope < 0 or limit < slope or not np.allclose(table, np.minimum(slope * apart, limit), rtol=1e-14, atol=0.0):
        return TableShape("dense")
    return TableShape("potts" if slope == limit else "linear", slope, limit)


def _pass_messages(
    energy: Energy,
    method: str,
    init: str | ArrayLike | None,
    max_sweeps: int,
    tol: float,
    time_limit: float | None,
    callback: Callback | None,
) -> Labeling:
    if energy.cliques:
        raise ValueError(
            f"method {method!r} knows costs of nodes and edges, but the energy has {sum(map(len, energy.cliques))} cliques; "
            "use 'expansion' for P^n Potts, 'parsimonious' or 'cooccurrence' for diversities, or leave the cliques out"
        )
    if not tol >= 0:
        raise ValueError(f"tol={tol!r} must not be negative")
    begin = time.monotonic()
    graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, method == "trws")
    shape = table_shape(energy.table)
    has_bound = method == "trws" or graph.is_forest
    result = Labeling(np.zeros(energy.n_nodes, np.int64), np.inf, method, status="max_sweeps")
    result.rounding = Spreads.of(energy).rounding
    if init is not None:
        result.labels = min(starts(energy, init), key=energy.energy)
        result.energy = energy.energy(result.labels)
    per_sweep = 2 * max(1, len(energy.edges)) * energy.n_labels * (energy.n_labels if shape.kind == "dense" else 4)
    at_once = max(4, min(64, _WORK // per_sweep)) if per_sweep < _WORK // 4 else 1
    sums: list[float] = []
    try:
        while len(sums) < max_sweeps:
            n = min(at_once, max_sweeps - len(sums))
            labels, energies, bounds, settled = graph.run(energy.unary, energy.table, energy.weights, *shape, n, tol)
            sums.extend(bounds.tolist())
            result.history.extend(energies.tolist())
            if energies.min() < result.energy:
                # Evaluated from scratch, by other means than those which found it.
                found = energy.energy(labels)
                if found < result.energy:
                    result.labels, result.energy = labels.astype(np.int64), found
            if has_bound:
                # Each of them is a bound, so that rounding need not make it fall, nor lift it above the energy that it has met.
                before = result.bounds[-1:] or [-np.inf]
                known = np.maximum.accumulate(np.concatenate([before, bounds]))[1:]
                result.bounds.extend(np.minimum(known, result.energy).tolist())
                result.bounded(result.bounds[-1])
            result.seconds = time.monotonic() - begin
            if settled or result.certified or stands_still(sums, tol * max(abs(result.energy), abs(sums[-1]))):
                result.status = "converged"
            if callback is not None:
                callback(result.energy, result.lower_bound)
            if result.status != "max_sweeps":
                break
            if time_limit is not None and result.seconds > time_limit:
                result.status = "time_limit"
                break
    except KeyboardInterrupt:
        result.status = "interrupted"
    if not np.isfinite(result.energy):
        result.energy = energy.energy(result.labels)
    result.labels = result.labels.reshape(energy.shape)
    return result


def stands_still(sums: list[float], least: float) -> bool:
    """Whether each of the last three sweeps has changed the sum of all minima by little."""
    return len(sums) > 3 and all(abs(new - old) <= least for old, new in zip(sums[-4:-1], sums[-3:], strict=True))
