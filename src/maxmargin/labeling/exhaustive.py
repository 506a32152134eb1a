"""Every labeling there is, for small energies and for tests of everything else."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, Ints
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.moves import check_starts
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import Spreads, offset_free

# More labelings than this are not for enumeration.
MAX_LABELINGS = 2**24
_CHUNK = 2**14
# Costs of all sets of this many labels fit into a table.
_MAX_TABLED = 12


@offset_free
def exhaustive(
    energy: Energy,
    *,
    init: str | ArrayLike | None = None,
    random_state: Any = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Labeling:
    """The least energy of all labelings, of which there may be 2^24 at most. Takes every energy.

    Examples
    --------
    >>> exhaustive(Energy([[0, 1], [1, 0]], edges=[(0, 1)], pairwise=[[9, 2], [3, 4]])).labels
    array([0, 1])
    """
    start = time.perf_counter()
    check_starts(energy, init)
    n, n_labels = energy.n_nodes, energy.n_labels
    total = n_labels**n
    if total > MAX_LABELINGS:
        raise ValueError(f"{n_labels}^{n} labelings are too many for method 'exhaustive'; at most {MAX_LABELINGS} are tried")
    costs = _costs_of_sets(energy)
    best, least, status = energy.unary.argmin(axis=1), np.inf, "converged"
    history: list[float] = []
    try:
        for first in range(0, total, _CHUNK):
            if time_limit is not None and time.perf_counter() - start > time_limit:
                status = "time_limit"
                break
            labels = _labelings(first, min(first + _CHUNK, total), n, n_labels)
            energies = _energies(energy, labels, costs)
            at = int(np.argmin(energies))
            if energies[at] < least:
                best, least = labels[at], float(energies[at])
                history.append(least)
                if callback is not None:
                    callback(least, None)
    except KeyboardInterrupt:
        status = "interrupted"
    value = energy.energy(best)
    found = Labeling(
        best.reshape(energy.shape),
        value,
        "exhaustive",
        rounding=Spreads.of(energy).rounding,
        history=history,
        seconds=time.perf_counter() - start,
        status=status,
    )
    if status == "converged":
        found.guarantee = 1.0
        found.bounded(value)
    return found


def _labelings(first: int, end: int, n_nodes: int, n_labels: int) -> Ints:
    """Labelings of these numbers, whose digits they are."""
    numbers = np.arange(first, end, dtype=np.int64)
    digits = np.empty((end - first, n_nodes), dtype=np.int64)
    for i in range(n_nodes):
        numbers, digits[:, i] = np.divmod(numbers, n_labels)
    return digits


def _costs_of_sets(energy: Energy) -> list[Floats] | None:
    """Of every kind of cliques: costs of every set of labels, as bits of its number, in every clique."""
    if energy.n_labels > _MAX_TABLED:
        return None
    present = (np.arange(2**energy.n_labels)[:, None] >> np.arange(energy.n_labels)) & 1 == 1
    tables = []
    for some in energy.cliques:
        table = np.zeros((len(present), len(some)))
        for number in range(1, len(present)):
            table[number] = some.cost.of(np.broadcast_to(present[number], (len(some), energy.n_labels))) * some.weights
        tables.append(table)
    return tables


def _energies(energy: Energy, labels: Ints, costs: list[Floats] | None) -> Floats:
    if costs is None and energy.cliques:
        return np.array([energy.energy(y) for y in labels])
    values = energy.unary[np.arange(energy.n_nodes), labels].sum(axis=1)
    a, b = labels[:, energy.edges[:, 0]], labels[:, energy.edges[:, 1]]
    pairs = energy.table[a, b] if energy.table.ndim == 2 else energy.table[np.arange(len(energy.edges)), a, b]
    values = values + pairs @ energy.weights
    for some, table in zip(energy.cliques, costs or [], strict=True):
        for k in range(len(some)):
            values += table[np.bitwise_or.reduce(1 << labels[:, some[k]], axis=1), k]
    return np.asarray(values)
