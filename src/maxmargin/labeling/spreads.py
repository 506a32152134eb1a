"""By how much the terms of an energy differ between labels, which is what rounding and gains of moves are compared with.

Costs that every labeling has are no part of that. They are taken away before methods run, since beside a large one the rest would
be lost in rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from maxmargin._utils import Floats
from maxmargin.labeling.cliques import Cliques, PnPotts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.result import Labeling

# What sums of terms may be wrong by, as a part of the sum of their spreads.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)
# Costs of all labelings that are so many times the spreads are taken away.
_LARGE = 8.0
# Labels that cost so many times what is around their node are never worth it.
_HOPELESS = 1e6
# Kernels add up a few times all costs.
_LARGEST = 1e-3 * float(np.finfo(np.float64).max)

Method = TypeVar("Method", bound=Callable[..., Labeling])


@dataclass
class Spreads:
    """Largest less smallest finite cost of every term.

    Attributes
    ----------
    nodes : array of shape (N,)
    edges : array of shape (E,)
    cliques : array of shape (K,)
        Of these from the least cost, or 0, to the largest, or 0.
    around : array of shape (N,)
        Sum over the edges and cliques of a node.
    """

    nodes: Floats
    edges: Floats
    cliques: Floats
    around: Floats

    @classmethod
    def of(cls, energy: Energy) -> Spreads:
        """The spreads of an energy."""
        finite = np.isfinite(energy.unary)
        nodes = np.where(finite, energy.unary, -np.inf).max(axis=1) - energy.unary.min(axis=1)
        least, most = energy.table_range
        edges = np.abs(energy.weights) * (most - least)
        costs = [_largest(some, energy.n_labels) for some in energy.cliques]
        around = np.zeros(energy.n_nodes) + np.bincount(energy.edges.ravel(), np.repeat(edges, 2), energy.n_nodes)
        for some, largest in zip(energy.cliques, costs, strict=True):
            around += np.bincount(some.nodes, np.repeat(largest, np.diff(some.offsets)), energy.n_nodes)
        return cls(nodes, edges, np.concatenate([np.zeros(0), *costs]), around)

    @property
    def total(self) -> float:
        """No two labelings that are allowed differ by more."""
        return float(self.nodes.sum() + self.edges.sum() + self.cliques.sum())

    @property
    def scale(self) -> float:
        """How much labelings that matter can differ.

        A label that costs more than the best one of its node could ever gain around it is in none of them, so the spread of a
        node counts up to what is around it.
        """
        return float(np.minimum(self.nodes, self.around).sum() + self.edges.sum() + self.cliques.sum())

    @property
    def rounding(self) -> float:
        """Differences of energies up to this are none."""
        return _ROUNDING * self.scale

    def limited(self, energy: Energy) -> Energy:
        """The energy with labels that are in no best labeling made cheaper, but not so cheap that they are in one.

        That changes nothing but how much is lost by rounding beside their costs. Around a node there may be so little that a
        label dearer by twice that would not be told from the cheapest one: then it is dearer by what is usual around nodes.
        """
        most = energy.unary.min(axis=1) + 2 * np.maximum(self.around, self.scale / energy.n_nodes)
        dear = (self.scale > 0) & np.isfinite(energy.unary) & (energy.unary > most[:, None])
        return energy.replaced(unary=np.where(dear, most[:, None], energy.unary)) if dear.any() else energy

    def without_hopeless(self, energy: Energy) -> Energy:
        """The energy with labels forbidden whose costs are so large that others would be lost beside them.

        None of them is in a best labeling: they cost far more than can be gained around the node.
        """
        usual = _HOPELESS * np.maximum(self.around, self.scale / energy.n_nodes)
        hopeless = (self.scale > 0) & np.isfinite(energy.unary) & (energy.unary > (energy.unary.min(axis=1) + usual)[:, None])
        return energy.replaced(unary=np.where(hopeless, np.inf, energy.unary)) if hopeless.any() else energy


def _largest(some: Cliques, n_labels: int) -> Floats:
    high = np.asarray(some.cost.of(np.ones((len(some), n_labels), dtype=bool)), dtype=np.float64)
    low = high
    if isinstance(some.cost, PnPotts) and some.cost.uniform is not None:
        # These may be rewards.
        high, low = np.maximum(high, some.cost.uniform.max(axis=-1)), np.minimum(low, some.cost.uniform.min(axis=-1))
    return np.asarray(some.weights * (np.maximum(high, 0.0) - np.minimum(low, 0.0)))


def without_offset(energy: Energy, spreads: Spreads) -> tuple[Energy, float, bool]:
    """The energy without large costs that all labelings have, their sum, and whether those of edges are negative."""
    low = energy.unary.min(axis=1)
    unary = energy.unary - low[:, None] if np.abs(low).sum() > _LARGE * spreads.scale else None
    offset = 0.0 if unary is None else math.fsum(low)
    table, on_edges = None, 0.0
    if len(energy.edges):
        least = energy.table_range[0]
        costs = energy.weights * least
        if np.abs(costs).sum() > _LARGE * spreads.scale:
            table, on_edges = energy.table - np.expand_dims(least, (-2, -1)), math.fsum(costs)
    if unary is None and table is None:
        return energy, 0.0, False
    return energy.replaced(unary=unary, table=table), offset + on_edges, on_edges < 0


def _at_most(bounds: list[float], energies: list[float]) -> list[float]:
    """Lower bounds that exceed no energy, as they may by rounding."""
    least = min(energies)
    return [min(bound, least) for bound in bounds]


def offset_free(method: Method) -> Method:
    """Make a method run on an energy without large costs that all labelings have; its result is that for the whole energy."""

    @wraps(method)
    def run(energy: Energy, *args: Any, callback: Any = None, **options: Any) -> Labeling:
        if not isinstance(energy, Energy):
            raise TypeError(
                f"energy must be an Energy, but is a {type(energy).__name__}; make it by Energy(unary, edges, pairwise)"
            )
        _check_common(options)
        spreads = check_sums(energy)
        plain, offset, negative = without_offset(energy, spreads)
        if plain is energy:
            result = method(energy, *args, callback=callback, **options)
            result.bounds = _at_most(result.bounds, [result.energy, *result.history])
            return result

        def shifted(value: float, bound: float | None) -> object:
            return callback(value + offset, None if bound is None else bound + offset)

        found: Any = method(plain, *args, callback=None if callback is None else shifted, **options)
        value = energy.energy(found.labels)
        history = [one + offset for one in found.history]
        moved: dict[str, Any] = {
            "energy": value,
            "gap": found.gap,
            "lower_bound": None if found.gap is None else value - found.gap,
            "history": history,
            "bounds": _at_most([one + offset for one in found.bounds], [value, *history]),
            # A factor of costs less a negative constant is none of the costs.
            "guarantee": None if negative and found.guarantee != 1 else found.guarantee,
        }
        if hasattr(found, "energies"):
            moved["energies"] = [one + offset for one in found.energies]
            moved["unrefined"] = found.unrefined + offset
        shown: Labeling = replace(found, **moved)
        return shown

    return cast(Method, run)


def _check_common(options: dict[str, Any]) -> None:
    """Complain about options of all methods, whether they need them or not."""
    sweeps, limit, lots = (options.get(name) for name in ("max_sweeps", "time_limit", "random_state"))
    if sweeps is not None and (isinstance(sweeps, bool) or not isinstance(sweeps, int | np.integer) or sweeps < 1):
        raise ValueError(f"max_sweeps={sweeps!r} must be an integer of at least 1, or None")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or not limit > 0):
        raise ValueError(f"time_limit={limit!r} must be a positive number of seconds, or None")
    try:
        np.random.default_rng(lots)
    except (TypeError, ValueError):
        raise ValueError(f"random_state={lots!r} must be an integer that is not negative, a Generator, or None") from None


def check_sums(energy: Energy) -> Spreads:
    """The spreads of an energy; complain about costs whose sums are no numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = Spreads.of(energy)
        largest = np.where(np.isfinite(energy.unary), np.abs(energy.unary), 0.0).max(axis=1).sum()
        least, most = energy.table_range
        largest += (np.abs(energy.weights) * np.maximum(most, -least)).sum()
        is_large = not largest + spreads.total < _LARGEST / max(1, energy.n_labels)
    if is_large:
        raise ValueError("the costs of the energy are so large that sums of them overflow; divide all of them by a number")
    return spreads
