"""One door to all ways of minimising an energy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.labeling.cliques import PnPotts
from maxmargin.labeling.cooccurrence_moves import cooccurrence
from maxmargin.labeling.descents import descent
from maxmargin.labeling.elimination import TooWideError, elimination
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.exhaustive import exhaustive
from maxmargin.labeling.hierarchical_moves import hierarchical
from maxmargin.labeling.messages import bp, trws
from maxmargin.labeling.moves import NotSubmodularError, expansion, mincut, swap
from maxmargin.labeling.parsimonious_moves import parsimonious
from maxmargin.labeling.result import Callback, Labeling

# Every one: (energy, *, init, random_state, max_sweeps, time_limit, callback, ...) -> Labeling
METHODS: dict[str, Callable[..., Labeling]] = {
    "mincut": mincut,
    "expansion": expansion,
    "swap": swap,
    "hierarchical": hierarchical,
    "parsimonious": parsimonious,
    "cooccurrence": cooccurrence,
    "elimination": elimination,
    "descent": descent,
    "trws": trws,
    "bp": bp,
    "exhaustive": exhaustive,
}
_COMMON = ("energy", "init", "random_state", "max_sweeps", "time_limit", "callback")
# So few labelings are tried faster than anything else.
_FEW = 20_000
# A descent on more nodes takes many seconds, between which it is not looked at the clock.
_MOST_NODES = 100_000
# Entries that a test of the tables of all edges may look at.
_MOST_TESTED = 20_000_000


def minimize(
    energy: Energy,
    method: str = "auto",
    init: str | ArrayLike | None = None,
    random_state: Any = None,
    *,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    **options: Any,
) -> Labeling:
    """Find labels of little energy.

    Parameters
    ----------
    energy : Energy
    method : str
        ``"auto"`` takes what is exact where there is such a thing (``"mincut"`` for two labels that attract, ``"bp"`` for trees,
        ``"exhaustive"`` for few nodes), then ``"expansion"`` for metrics and P^n Potts cliques, and ``"parsimonious"`` for other
        cliques. Other pairwise costs have ``"elimination"`` where the tree-width is small, which is exact, or else ``"descent"``,
        and ``"trws"`` on more than 100,000 nodes.
    init : {"unary", "constant", "best"} or labels, optional
        Where moves start.
    random_state : int, Generator or None
        For methods that draw lots.
    max_sweeps : int, optional
        Passes over all labels, or over all nodes.
    time_limit : float, optional
        Seconds; the best labels so far are returned, as after Ctrl-C.
    callback : function, optional
        ``callback(energy, lower_bound)`` is called on the way.
    **options
        More, for the method.

    Examples
    --------
    >>> found = minimize(Energy.grid([[[0, 2], [2, 1]], [[3, 0], [2, 0.5]]], "potts"))
    >>> found
    Labeling(energy=3.5, the least, method='mincut', converged)
    >>> found.labels
    array([[0, 1],
           [1, 1]])
    """
    if not isinstance(energy, Energy):
        raise TypeError(f"energy must be an Energy, but is a {type(energy).__name__}; make it by Energy(unary, edges, pairwise)")
    common = {
        "init": init,
        "random_state": random_state,
        "max_sweeps": max_sweeps,
        "time_limit": time_limit,
        "callback": callback,
    }
    if method == "auto":
        return _automatic(energy, common, options)
    if method not in METHODS:
        known = ", ".join(map(repr, ["auto", *METHODS]))
        raise ValueError(f"method={method!r} is unknown; choose one of {known}")
    _check_options(method, options)
    return METHODS[method](energy, **common, **options)


def options_of(method: str) -> list[str]:
    """The options that a method has of its own."""
    return [name for name in inspect.signature(METHODS[method]).parameters if name not in _COMMON]


def _check_options(method: str, options: dict[str, Any]) -> None:
    allowed = options_of(method)
    for name in options:
        if name not in allowed:
            more = [f"{one!r}" for one in allowed]
            raise TypeError(f"{name!r} is no option of method {method!r}; it takes {', '.join(more) if more else 'none'}")


def _automatic(energy: Energy, common: dict[str, Any], options: dict[str, Any]) -> Labeling:
    """The first of the fitting methods that does not refuse the costs."""
    refused: NotSubmodularError | TooWideError | None = None
    for method, more in _candidates(energy):
        # Options that only some methods know say that one of these is meant.
        if not set(options) <= set(inspect.signature(METHODS[method]).parameters):
            continue
        try:
            return METHODS[method](energy, **common, **{**more, **options})
        except (NotSubmodularError, TooWideError) as error:
            refused = error
    if refused is not None:
        raise refused
    raise ValueError(f"no method for this energy takes the options {', '.join(map(repr, options))}; choose a method by name")


def _candidates(energy: Energy) -> list[tuple[str, dict[str, Any]]]:
    potts = all(isinstance(some.cost, PnPotts) for some in energy.cliques)
    wanted: list[tuple[str, dict[str, Any]]] = []
    if energy.n_labels == 2 and potts:
        wanted.append(("mincut", {}))
    if not energy.cliques and _is_forest(energy):
        wanted.append(("bp", {}))
    if energy.n_nodes * np.log(energy.n_labels) <= np.log(_FEW):
        wanted.append(("exhaustive", {}))
    if potts:
        if energy.cliques or not _repels(energy):
            wanted.append(("expansion", {}))
        if not energy.cliques:
            wanted.append(("elimination", {}))
            if energy.n_nodes <= _MOST_NODES:
                wanted.append(("descent", {}))
            wanted.append(("trws", {}))
        wanted.append(("expansion", {"truncate": True}))
    else:
        wanted.append(("parsimonious", {}))
    chosen = [(method, more) for method, more in wanted if method in METHODS]
    if not chosen:
        kinds = ", ".join(sorted({type(some.cost).__name__ for some in energy.cliques}))
        raise ValueError(f"no method takes cliques with costs of kind {kinds} together with these pairwise costs")
    return chosen


def _repels(energy: Energy) -> bool:
    """Whether tables of single edges are found to be none that expansions take; moves meet only some of the entries."""
    if energy.table.ndim == 2 or energy.table.size * energy.n_labels > _MOST_TESTED:
        return False
    costs = energy.weights[:, None, None] * energy.table
    slack = 1e-9 * np.abs(costs).max(axis=(1, 2), keepdims=True)
    return any(
        (costs + costs[:, k, None, k, None] > costs[:, :, k, None] + costs[:, None, k, :] + slack).any()
        for k in range(energy.n_labels)
    )


def _is_forest(energy: Energy) -> bool:
    """Whether the edges make no circle."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = energy.n_nodes
    if len(energy.edges) >= n:
        return False
    a, b = energy.edges.T
    parts, _ = connected_components(coo_array((np.ones(len(a)), (a, b)), shape=(n, n)), directed=False)
    return bool(len(energy.edges) == n - parts)
