"""Moves that a minimum cut makes best: alpha-expansion, alpha-beta swap, and the exact minimum where there are two labels.

Boykov, Veksler and Zabih, "Fast Approximate Energy Minimization via Graph Cuts" (PAMI 2001); P^n Potts cliques after Kohli, Kumar
and Torr, "P3 & Beyond" (CVPR 2007). The cuts are in ``cpp/labeling/moves.hpp``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, Ints
from maxmargin.labeling.cliques import PnPotts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.flow import GRID_STEPS
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import Spreads, offset_free

Order = Literal["natural", "random"]
# Tables may lack this part of their largest entry to be metrics.
_ROUNDING = 1e-9
# Products below this may have lost digits.
_TINY = 1e-290


class NotSubmodularError(ValueError):
    """A term that no minimum cut can represent."""


@offset_free
def mincut(
    energy: Energy,
    *,
    init: str | ArrayLike | None = None,
    random_state: Any = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Labeling:
    """The least energy of two labels, by one minimum cut.

    Every pairwise table needs ``t[0, 0] + t[1, 1] <= t[0, 1] + t[1, 0]``; cliques may have P^n Potts costs. The maximum flow
    proves that no labels are better.

    Parameters
    ----------
    energy : Energy
        With two labels.
    init, random_state, max_sweeps, time_limit
        As elsewhere, but of no use to a method of one step.
    callback : function, optional
        Called once, with the energy and its bound.

    Examples
    --------
    >>> energy = Energy([[0, 3], [2, 1], [2, 1], [4, 0]], edges=[(0, 1), (1, 2), (2, 3)], pairwise="potts", weights=0.5)
    >>> found = mincut(energy)
    >>> found.labels, found.energy, found.certified
    (array([0, 1, 1, 1]), 2.5, True)
    """
    start = time.perf_counter()
    if energy.n_labels != 2:
        raise ValueError(f"method 'mincut' is for two labels, but the energy has {energy.n_labels}; choose 'expansion'")
    check_starts(energy, init)
    labels = np.zeros(energy.n_nodes, dtype=np.int32)
    with _Naming("method 'mincut' needs costs that attract; choose 'trws' or 'exhaustive' for others"):
        spreads = Spreads.of(energy)
        value = kernel_of(spreads.limited(energy), "mincut").best_of_two(labels, spreads.rounding)
    least = energy.energy(labels)
    found = Labeling(_shaped(labels, energy), least, "mincut", guarantee=1.0, history=[least], n_cuts=1)
    found.rounding = spreads.rounding
    found.bounded(value)
    found.bounds = [min(value, least)]
    try:
        if callback is not None:
            callback(least, found.lower_bound)
    except KeyboardInterrupt:
        found.status = "interrupted"
    found.seconds = time.perf_counter() - start
    return found


@offset_free
def expansion(
    energy: Energy, *, init: str | ArrayLike | None = None, random_state: Any = None, max_sweeps: int | None = None,
    time_limit: float | None = None, callback: Callback | None = None, order: Order = "natural", truncate: bool = False,
) -> Labeling:  # fmt: skip
    """Alpha-expansion: one label after the other, any nodes may take it, until no label helps.

    The moves are the best of all of their kind, so the result is a minimum with respect to every expansion. Its energy is at most
    the unary part of the best labels plus ``guarantee`` times their other parts.

    Parameters
    ----------
    energy : Energy
        Pairwise costs with ``d(a, b) + d(l, l) <= d(a, l) + d(l, b)``, as metrics have; cliques with P^n Potts costs.
    init : {"unary", "constant", "best"} or labels, optional
        Labels of least unary cost, the best single label for all nodes, both of them one after the other, or given ones. By
        default "unary" without and "best" with cliques.
    random_state : int, Generator or None
        For the random order.
    max_sweeps : int, optional
        Passes over all labels.
    time_limit : float, optional
        Seconds.
    callback : function, optional
        Called with the energy after every move that helped.
    order : {"natural", "random"}
        Of the labels in a sweep. Labels that cannot help, as nothing has changed since they were tried, are skipped.
    truncate : bool
        Take other pairwise costs too: where a cut cannot represent them, they are overestimated in moves. The energy still never
        rises, but nothing is guaranteed.

    Examples
    --------
    >>> unary = [[0, 2, 2], [2, 1.5, 2], [2, 2, 0], [2, 2, 0]]
    >>> found = expansion(Energy(unary, edges=[(0, 1), (1, 2), (2, 3)], pairwise="potts"))
    >>> found.labels, found.energy, found.guarantee
    (array([0, 0, 2, 2]), 3.0, 2.0)
    """
    if not truncate:
        _check_expandable(energy)
    energy = _without_hopeless(energy, init)
    kernel = kernel_of(energy, "expansion")

    def move(labels: Int32s, alpha: int, least: float) -> float:
        return kernel.expand(alpha, labels, least, truncate)

    exact = not truncate or (_why_not_expandable(energy.table) is None and not (energy.weights < 0).any())
    with _Naming("method 'expansion' needs metrics; pass truncate=True to do without a guarantee, or choose 'swap' or 'trws'"):
        found = _descend(
            energy, "expansion", move, energy.n_labels, init, random_state, max_sweeps, time_limit, callback, order, exact
        )
    if found.status == "converged" and exact:
        found.guarantee = _guarantee(energy)
        if energy.n_labels == 1:
            found.bounded(found.energy)
    return found


@offset_free
def swap(
    energy: Energy, *, init: str | ArrayLike | None = None, random_state: Any = None, max_sweeps: int | None = None,
    time_limit: float | None = None, callback: Callback | None = None, order: Order = "natural", truncate: bool = False,
) -> Labeling:  # fmt: skip
    """Alpha-beta swap: for one pair of labels after the other, any nodes that have one may take the other, until no pair helps.

    Takes more energies than expansion, ``d(a, a) + d(b, b) <= d(a, b) + d(b, a)`` is enough, but guarantees nothing.
    Parameters are those of `expansion`; a sweep goes over all pairs of labels.

    Examples
    --------
    >>> from maxmargin.labeling import Metric
    >>> unary = [[0, 2, 9], [2, 1.5, 2], [9, 2, 0]]
    >>> found = swap(Energy(unary, edges=[(0, 1), (1, 2)], pairwise=Metric("quadratic")))
    >>> found.labels, found.energy
    (array([0, 1, 2]), 3.5)
    """
    first, second = np.triu_indices(energy.n_labels, 1)
    energy = _without_hopeless(energy, init)
    kernel = kernel_of(energy, "swap")

    def move(labels: Int32s, pair: int, least: float) -> float:
        return kernel.swap(int(first[pair]), int(second[pair]), labels, least, truncate)

    with _Naming("method 'swap' needs costs that attract; pass truncate=True to do with approximate moves, or choose 'trws'"):
        return _descend(
            energy, "swap", move, len(first), init, random_state, max_sweeps, time_limit, callback, order, not truncate
        )


def check_init(energy: Energy, init: str | ArrayLike, name: str = "init") -> Int32s:
    """Labels to start from, int32 of shape (N,): "unary", "constant" or given ones, none of them forbidden."""
    if isinstance(init, str):
        cheapest: Int32s = energy.unary.argmin(axis=1).astype(np.int32)
        if init == "unary":
            return cheapest
        if init == "constant":
            allowed = np.flatnonzero(np.isfinite(energy.unary).all(axis=0))
            if not len(allowed):
                return cheapest
            energies = [energy.energy(np.full(energy.n_nodes, label)) for label in allowed]
            return np.full(energy.n_nodes, allowed[int(np.argmin(energies))], dtype=np.int32)
        raise ValueError(f"{name}={init!r} is unknown; choose 'unary', 'constant', 'best', or give labels")
    labels = energy.check_labels(init, name)
    forbidden = np.flatnonzero(np.isinf(energy.unary[np.arange(energy.n_nodes), labels]))
    if forbidden.size:
        node = int(forbidden[0])
        raise ValueError(
            f"{name} has label {labels[node]} at node {node}, where unary forbids it; start from labels that are allowed"
        )
    return labels.astype(np.int32)


def check_starts(energy: Energy, init: str | ArrayLike | None) -> None:
    """Complain about labels to start from where none are needed."""
    if init is not None:
        check_init(energy, "unary" if isinstance(init, str) and init == "best" else init)


def _without_hopeless(energy: Energy, init: str | ArrayLike | None) -> Energy:
    """Capacities are multiples of a part of the largest cost, which should not be one that is never paid, unless at the start."""
    allowed = Spreads.of(energy).without_hopeless(energy)
    if init is not None and not isinstance(init, str):
        labels = energy.check_labels(init, "init")
        if np.isinf(allowed.unary[np.arange(energy.n_nodes), labels]).any():
            return energy
    return allowed


class _Naming:
    """Turns the kernel's complaint about a term into an error with a remedy."""

    def __init__(self, remedy: str) -> None:
        self._remedy = remedy

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if type(error) is ValueError and "not submodular" in str(error):
            raise NotSubmodularError(f"{error}; {self._remedy}") from None


def _descend(
    energy: Energy,
    method: str,
    move: Callable[[Int32s, int, float], float],
    n_moves: int,
    init: str | ArrayLike | None,
    random_state: Any,
    max_sweeps: int | None,
    time_limit: float | None,
    callback: Callback | None,
    order: Order,
    exact: bool,
) -> Labeling:
    """Try one move after the other until none helps, from one start or two."""
    start = time.perf_counter()
    if order not in ("natural", "random"):
        raise ValueError(f"order={order!r} is unknown; choose 'natural' or 'random'")
    if init is None:
        init = "best" if energy.cliques else "unary"
    starts = ["unary", "constant"] if isinstance(init, str) and init == "best" else [init]
    rng = np.random.default_rng(random_state)
    # On smaller gains rounding would go round in circles.
    least_gain = Spreads.of(energy).rounding
    deadline = np.inf if time_limit is None else start + time_limit
    best: Labeling | None = None
    n_cuts = 0
    for given in starts:
        labels = check_init(energy, given)
        value = energy.energy(labels)
        found = Labeling(_shaped(labels, energy), value, method, rounding=least_gain, history=[value])
        # How often labels had changed when a move was tried; as long as they are the same it is of no use again.
        version, tried = 0, np.full(n_moves, -1)
        sweeps = 0
        try:
            while (tried != version).any():
                if max_sweeps is not None and sweeps == max_sweeps:
                    found.status = "max_sweeps"
                    break
                sweeps += 1
                for k in rng.permutation(n_moves) if order == "random" else range(n_moves):
                    if tried[k] == version:
                        continue
                    if time.perf_counter() > deadline:
                        found.status = "time_limit"
                        break
                    change = move(labels, int(k), least_gain)
                    n_cuts += 1
                    if change < 0:
                        version += 1
                        value += change
                        found.history.append(value)
                        if callback is not None:
                            callback(value, None)
                    # The best move of its kind leaves nothing to the same one.
                    tried[k] = version if exact or not change < 0 else version - 1
                if found.status != "converged":
                    break
        except KeyboardInterrupt:
            found.status = "interrupted"
        found.labels, found.energy = _shaped(labels, energy), energy.energy(labels)
        if best is None or found.energy < best.energy:
            best = found
        if found.status in ("interrupted", "time_limit"):
            best.status = found.status
            break
    assert best is not None
    best.n_cuts, best.seconds = n_cuts, time.perf_counter() - start
    return best


def _shaped(labels: Any, energy: Energy) -> Ints:
    return np.asarray(labels, dtype=np.int64).reshape(energy.shape)


def kernel_of(energy: Energy, method: str) -> _core.Moves:
    """The energy as the kernel takes it; only P^n Potts cliques are."""
    for k, some in enumerate(energy.cliques):
        if not isinstance(some.cost, PnPotts):
            kind = type(some.cost).__name__
            raise TypeError(f"cliques[{k}] has costs of kind {kind}; method {method!r} takes PnPotts, choose 'parsimonious'")
    sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(some.offsets) for some in energy.cliques)])
    members = np.concatenate([np.zeros(0, np.int32), *(some.nodes for some in energy.cliques)]).astype(np.int32)
    mixed, uniform = clique_costs(energy)
    shape, steps = None, []
    if energy.connectivity is not None:
        missing = 3 - len(energy.shape)
        shape = (*(1,) * missing, *energy.shape)
        steps = [(*(0,) * missing, *step) for step in GRID_STEPS[energy.connectivity]]
    offsets, facts = np.cumsum(sizes), energy.table_facts
    table, weights = _as_shared(energy)
    largest = np.maximum(facts.most, -facts.least) if table.ndim == 3 else None
    return _core.Moves(
        energy.unary, energy.edges, table, weights, members, offsets, mixed, uniform, shape, steps,
        largest, facts.zero_diagonals, facts.symmetric,
    )  # fmt: skip


def _as_shared(energy: Energy) -> tuple[Floats, Floats]:
    """Tables and weights: one table where those of all edges are multiples of it, which is read faster."""
    facts = energy.table_facts
    if energy.table.ndim == 2 or facts.shared < 0:
        return energy.table, energy.weights
    with np.errstate(over="ignore", under="ignore"):
        weights = energy.weights * facts.factors
    # Neither may be lost.
    lost = ~np.isfinite(weights) | ((np.abs(weights) < _TINY) & (energy.weights != 0) & (facts.factors != 0))
    return (energy.table, energy.weights) if lost.any() else (energy.table[facts.shared], weights)


def clique_costs(energy: Energy) -> tuple[Floats, Floats | None]:
    """Weighted costs of all P^n Potts cliques: mixed, shape (K,), and uniform, shape (K, L), or None if these are all zero."""
    costs: list[PnPotts] = [some.cost for some in energy.cliques if isinstance(some.cost, PnPotts)]
    mixed = [np.broadcast_to(cost.mixed, len(some)) * some.weights for cost, some in zip(costs, energy.cliques, strict=True)]
    uniform = None
    if any(cost.uniform is not None and cost.uniform.any() for cost in costs):
        uniform = np.concatenate(
            [
                np.broadcast_to(0.0 if cost.uniform is None else cost.uniform, (len(some), energy.n_labels))
                * some.weights[:, None]
                for cost, some in zip(costs, energy.cliques, strict=True)
            ]
        )
    return np.concatenate([np.zeros(0), *mixed]), uniform


def _check_expandable(energy: Energy) -> None:
    remedy = "pass truncate=True to do without a guarantee, or choose 'swap' or 'trws'"
    if energy.table.ndim == 2 and len(energy.edges):
        why = _why_not_expandable(energy.table)
        if why is not None:
            raise NotSubmodularError(f"pairwise is no metric, as method 'expansion' needs: {why}; {remedy}")
        if (energy.weights < 0).any():
            at = int(np.flatnonzero(energy.weights < 0)[0])
            raise NotSubmodularError(
                f"weights[{at}] = {energy.weights[at]:g} is negative, a reward for different labels; {remedy}"
            )


def _why_not_expandable(table: Floats) -> str | None:
    """The labels for which an expansion is not submodular; tables of every edge are left to the moves themselves."""
    if table.ndim != 2:
        return None
    slack = _ROUNDING * float(np.abs(table).max(initial=0.0))
    for alpha in range(len(table)):
        around = table[:, alpha, None] + table[None, alpha, :]
        excess = table + table[alpha, alpha] - around
        if (excess > slack).any():
            a, b = np.unravel_index(int(np.argmax(excess)), table.shape)
            own = f" + d({alpha}, {alpha})" if table[alpha, alpha] != 0 else ""
            value = table[a, b] + table[alpha, alpha]
            return f"d({a}, {b}){own} = {value:g} is more than d({a}, {alpha}) + d({alpha}, {b}) = {around[a, b]:g}"
    return None


def _guarantee(energy: Energy) -> float | None:
    """B of the multiplicative bound: for every term min(size, L) times its largest cost over its least cost of different labels.

    A term whose labels differ in the best labeling is on the boundary of at most min(size, L) of its regions, and an expansion
    into such a region makes it cost no more than its most. All costs must be at least zero, of different labels more.
    """
    n_labels = energy.n_labels
    if n_labels == 1:
        return 1.0
    worst = 1.0
    if len(energy.edges) and (energy.weights != 0).any():
        if (energy.weights < 0).any() or (energy.table_range[0] < 0).any():
            return None
        most, apart = energy.table_facts.most, energy.table_facts.apart
        # A table of zeros, or one without weight, is as good as none.
        some = most > 0 if energy.table.ndim == 2 else (most > 0) & (energy.weights > 0)
        if (apart[some] <= 0).any():
            return None
        worst = max(worst, 2.0 * float((most[some] / apart[some]).max(initial=0.5)))
    mixed, uniform = clique_costs(energy)
    if uniform is not None and uniform.min(initial=0.0) < 0:
        return None
    sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(some.offsets) for some in energy.cliques)])
    # Mixed cliques all cost the same, and nothing costs more.
    return max(worst, float(np.minimum(sizes, n_labels)[mixed > 0].max(initial=1)))
