"""Labels from fractional labelings, by drawing lots that keep neighbours together."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Ints, StatusLine, check_choice, thread_count
from maxmargin.labeling.distances import METRIC_NAMES, Metric
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.fractional import FractionalLabeling, check_not_negative, generator, marginals_for
from maxmargin.labeling.spreads import check_sums

RoundingName = Literal["max", "complete", "interval", "kleinberg_tardos", "independent"]
ROUNDINGS: tuple[RoundingName, ...] = get_args(RoundingName)
Kept = TypeVar("Kept")
# Labels that are drawn between two looks at the clock.
_WORK = 20_000_000


@dataclass(eq=False)
class Roundings:
    """Labels that were drawn, the best of them, and the energies of all.

    Attributes
    ----------
    labels : int array of shape (N,), or of the grid's shape
        Those with the least energy; of equal ones those drawn first.
    energy : float
        Theirs, evaluated from scratch.
    energies : array of shape (draws,)
        Of everything that was drawn; one number for ``method="max"``, which draws nothing.
    method : str
    interval : int or None
        Labels in a window, for interval rounding.
    seconds : float
    status : {"done", "time_limit", "interrupted"}
    """

    labels: Ints
    energy: float
    energies: Floats
    method: str
    interval: int | None = None
    seconds: float = 0.0
    status: str = "done"

    @property
    def mean(self) -> float:
        """Mean energy."""
        return float(self.energies.mean())

    @property
    def minimum(self) -> float:
        """The least energy."""
        return float(self.energies.min())

    @property
    def standard_error(self) -> float:
        """Of the mean; zero if nothing was left to chance, and not known (NaN) after a single draw or with forbidden labels."""
        if self.method == "max":
            return 0.0
        if len(self.energies) < 2 or not np.isfinite(self.energies).all():
            return math.nan
        return float(self.energies.std(ddof=1) / math.sqrt(len(self.energies)))

    def __repr__(self) -> str:
        drawn = f"{len(self.energies)} draws" if self.method != "max" else "no draws"
        return f"Roundings(energy={self.energy:.6g}, mean={self.mean:.6g}, {drawn}, method={self.method!r}, {self.status})"


def round_labeling(
    fractional: FractionalLabeling | ArrayLike,
    energy: Energy,
    method: RoundingName = "complete",
    draws: int = 1000,
    random_state: int | np.random.Generator | None = None,
    *,
    interval: int | None = None,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
) -> Roundings:
    """Draw labels from a fractional labeling and keep the best.

    Parameters
    ----------
    fractional : FractionalLabeling, or array of shape (N, L) or (H, W, L)
        How much of every label the nodes have, as :func:`relax` finds it.
    energy : Energy
        Without cliques.
    method : {"complete", "interval", "kleinberg_tardos", "max", "independent"}
        All but ``"max"`` give a node every label as often as it has of it.

        - ``"complete"``: one number for all nodes; a node takes the label whose part of [0, 1) holds it.
        - ``"interval"``: a window of labels and a number, again and again; nodes whose share of the window holds it take theirs.
          The mean energy of a best point of the linear relaxation is at most ``2 + sqrt(2)`` times the least for truncated
          linear distances (Chekuri et al. 2005).
        - ``"kleinberg_tardos"``: windows of one label; at most twice the least energy for Potts (Kleinberg and Tardos 2002).
        - ``"max"``: the label a node has most of, without lots.
        - ``"independent"``: every node for itself, which may be arbitrarily bad; its mean is what the quadratic relaxation costs.
    draws : int
        Labelings to draw.
    random_state : int, Generator or None
        The same labels come from the same seed, for any number of threads.
    interval : int, optional
        Labels in a window; by default 1 for Potts, ``sqrt(2) * limit`` for truncated linear and ``sqrt(limit)`` for truncated
        quadratic tables.
    n_jobs : int, optional
        Threads; all cores by default.
    time_limit : float, optional
        Seconds; what was drawn until then is returned, as after Ctrl-C.
    verbose : bool
        Say how far it is.

    Returns
    -------
    Roundings

    Examples
    --------
    Three nodes in a triangle, each of which must not have its own label: half of each of the others is the least of the linear
    relaxation, and any of the labels two nodes agree on is best.

    >>> unary = np.where(np.eye(3) > 0, np.inf, 0.0)
    >>> energy = Energy(unary, [(0, 1), (1, 2), (0, 2)], "potts")
    >>> y = (1 - np.eye(3)) / 2
    >>> drawn = round_labeling(y, energy, "kleinberg_tardos", draws=100, random_state=0)
    >>> drawn
    Roundings(energy=2, mean=2, 100 draws, method='kleinberg_tardos', done)
    """
    check_choice("method", method, ROUNDINGS)
    y = marginals_for(fractional, energy)
    if not isinstance(draws, (int, np.integer)) or isinstance(draws, bool) or draws < 1:
        raise ValueError(f"draws={draws!r} must be a positive whole number")
    check_not_negative("time_limit", time_limit)
    length = _window(method, interval, energy)
    begin = time.perf_counter()
    if method == "max":
        labels = y.argmax(axis=1)
        value = energy.energy(labels)
        return Roundings(labels.reshape(energy.shape), value, np.array([value]), method, seconds=time.perf_counter() - begin)
    seed = int(generator(random_state).integers(2**63))
    kernel = "interval" if method == "kleinberg_tardos" else method
    rounder, threads = _core.Rounder(y), thread_count(n_jobs)
    terms = (energy.unary, energy.edges, energy.table, energy.weights)
    at_once = max(threads, min(int(draws), _WORK // y.size))

    def draw(done: int, count: int) -> tuple[Floats, int, int]:
        energies, first = rounder.energies(*terms, kernel, length, seed, done, count, threads)
        return energies, first - done, first

    ends = math.inf if time_limit is None else begin + time_limit
    energies, best, status = draw_in_parts(draw, int(draws), at_once, ends, verbose)
    if not np.isfinite(energies).all():
        # Forbidden labels, or costs that are too large.
        check_sums(energy)
    labels = rounder.labels(kernel, length, seed, best).astype(np.int64)
    shown = length if kernel == "interval" else None
    seconds = time.perf_counter() - begin
    value = energy.energy(labels)
    return Roundings(labels.reshape(energy.shape), value, energies, method, shown, seconds, status)


def draw_in_parts(
    draw: Callable[[int, int], tuple[Floats, int, Kept]], draws: int, at_once: int, ends: float, verbose: bool
) -> tuple[Floats, Kept, str]:
    """Energies of all labelings drawn, what is kept of the best one, and how it ended: "done", "time_limit" or "interrupted".

    Parameters
    ----------
    draw : callable
        Takes how many there are and how many to draw next; returns their energies, which is least, and what to keep of it.
    draws, at_once : int
        How many are wanted, and how many of them between two looks at the clock.
    ends : float
        When ``time.perf_counter()`` is later, it is enough; the first part is always drawn.

    Examples
    --------
    >>> def draw(done, count):
    ...     return np.arange(done + count, done, -1.0), count - 1, done + count - 1
    >>> draw_in_parts(draw, 5, 3, math.inf, False)
    (array([3., 2., 1., 5., 4.]), 2, 'done')
    """
    energies, at, best = draw(0, min(at_once, draws))
    parts, least, done, status = [energies], float(energies[at]), len(energies), "done"
    try:
        with StatusLine("rounding", shown=verbose) as line:
            line.show(f"{done} of {draws} draws, least energy {least:.6g}")
            while done < draws:
                if time.perf_counter() > ends:
                    status = "time_limit"
                    break
                energies, at, kept = draw(done, min(at_once, draws - done))
                if energies[at] < least:
                    best, least = kept, float(energies[at])
                parts.append(energies)
                done += len(energies)
                line.show(f"{done} of {draws} draws, least energy {least:.6g}")
    except KeyboardInterrupt:
        status = "interrupted"
    return np.concatenate(parts), best, status


def metric_of(energy: Energy) -> Metric | None:
    """The truncated distance that all tables of an energy are multiples of, or None.

    >>> metric_of(Energy([[0, 0, 0]], pairwise=Metric("quadratic", limit=3, scale=2)))
    Metric(kind='quadratic', limit=3.0, scale=2.0)
    """
    table = energy.table
    if table.ndim == 3:
        if len(table) == 0 or (shared := energy.table_facts.shared) < 0:
            return None
        table = table[shared]
    if len(table) < 2 or table[0, 1] <= 0:
        return None
    scale = float(table[0, 1])
    for kind in METRIC_NAMES:
        found = Metric(kind, float(table.max()) / scale, scale)
        if np.allclose(table, found.table(len(table)), rtol=1e-12, atol=0.0):
            return found
    return None


def _window(method: str, interval: int | None, energy: Energy) -> int:
    """How many labels a window has."""
    if interval is not None:
        if method != "interval":
            raise ValueError(f"interval={interval!r} is for method='interval', but method={method!r}; leave one of them out")
        if not isinstance(interval, (int, np.integer)) or isinstance(interval, bool) or interval < 1:
            raise ValueError(f"interval={interval!r} must be a positive whole number of labels")
        return min(int(interval), 2 * energy.n_labels)
    if method != "interval" or energy.n_labels < 2 or len(energy.edges) == 0:
        return 1
    metric = metric_of(energy)
    if metric is None:
        raise ValueError(
            "interval has no default for tables that are no truncated distances; pass interval=, the number of labels in a window"
        )
    wanted = {"potts": 1.0, "linear": math.sqrt(2) * metric.limit, "quadratic": math.sqrt(metric.limit)}[metric.kind]
    return max(1, min(int(wanted), 2 * energy.n_labels))
