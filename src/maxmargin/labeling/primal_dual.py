"""Image-sized linear relaxations by a first-order method, from where TRW-S ends.

Primal-dual steps need a pass over the costs each and no factorisation. They begin at the messages of TRW-S, which are nearly the
best multipliers as a rule, and at its labels; with averages and restarts they come nearer at a linear rate. Two things are
known at any time: a point of the polytope with its cost, and multipliers with their bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from maxmargin import _core
from maxmargin._utils import Floats, check_memory, seconds_left
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.messages import TableShape, stands_still, table_shape

# Steps between two looks at value and bound; TRW-S ends when a sweep raises the bound by less than this part of it.
_STEPS, _STILL, _SWEEPS = 50, 1e-6, 200
# Costs of pairs that are looked at between two looks at the clock.
_WORK = 20_000_000
# A restart is due when the gap has fallen to this part, and after this part of all steps anyway.
_FALLEN, _LATE = 0.4, 0.36
# How much of the typical cost of an edge multipliers of TRW-S are away from the best ones.
_AWAY = 0.1


class State(NamedTuple):
    """What is known on the way: marginals of nodes, their cost, and a lower bound of the cost of all."""

    nodes: Floats
    value: float
    bound: float


def primal_dual(energy: Energy, finite: Energy, max_iter: int, goal: Callable[[State], bool]) -> tuple[State, int]:
    """Steps until a goal is reached, or too many were made; the best state and the number of steps.

    Parameters
    ----------
    energy : Energy
        Without cliques.
    finite : Energy
        The same with labels that are forbidden made so dear that they are in no best point.
    max_iter : int
    goal : callable
        Is told the best state now and then, and says whether to stop.
    """
    shape = table_shape(energy.table)
    potts = shape.kind == "potts" and bool((energy.weights >= 0).all())
    n_edges, n_labels = len(energy.edges), energy.n_labels
    if not potts:
        check_pairs(energy, 3)
    at_once = max(1, _WORK // max(1, n_edges * n_labels * (4 if potts else n_labels)))
    best, messages, is_enough = _from_messages(finite, shape, at_once, goal)
    if is_enough or n_edges == 0:
        return best, 0
    handed = messages.hand_over(finite.unary, finite.table, finite.weights, *shape).reshape(n_edges, 2, n_labels)
    multipliers = _one_per_label(handed) if potts else handed
    terms = (energy.unary, energy.edges, energy.table, energy.weights)
    method = _core.PrimalDual(*terms, potts, shape.slope, best.nodes, np.ascontiguousarray(multipliers).ravel())
    least, most = energy.table_range
    typical = float(np.mean(np.abs(energy.weights) * (most - least)))
    step = 1.0 / max(_AWAY * typical, 1e-300)
    done, since, gap_then = 0, 0, math.inf
    while done < max_iter:
        n = min(_STEPS, max_iter - done)
        for part in range(0, n, at_once):
            method.run(min(at_once, n - part), step)
            if seconds_left() == 0:
                break
        done, since = done + n, since + n
        gaps = []
        for averaged in (False, True):
            value, bound = method.evaluate(averaged)
            gaps.append(value - bound)
            if value < best.value:
                best = best._replace(nodes=method.nodes(averaged).reshape(-1, n_labels), value=value)
            best = best._replace(bound=max(best.bound, bound))
        if goal(best):
            break
        gap = min(gaps)
        if gap <= _FALLEN * gap_then or since >= _LATE * done:
            moved, dual = method.restart(gaps[1] < gaps[0])
            gap_then, since = gap, 0
            if moved > 0 and dual > 0:
                # Half the way to steps that would move both by as much.
                step = math.sqrt(step * moved / dual)
    return best, done


def check_pairs(energy: Energy, copies: int) -> None:
    """Complain if so many numbers for all pairs of labels on all edges do not fit."""
    n_bytes = copies * 8 * len(energy.edges) * energy.n_labels**2
    check_memory(n_bytes, "marginals of all pairs of labels", "use method='trws' or 'qp', which keep none of them")


def _from_messages(
    energy: Energy, shape: TableShape, at_once: int, goal: Callable[[State], bool]
) -> tuple[State, _core.MessagePassing, bool]:
    """Labels and bound of TRW-S, the messages themselves, and whether that is enough; some sweeps at once."""
    messages = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
    best, sums = State(np.zeros((0, 0)), math.inf, -math.inf), list[float]()
    while True:
        n = min(at_once, _SWEEPS - len(sums))
        labels, energies, bounds, settled = messages.run(energy.unary, energy.table, energy.weights, *shape, n, _STILL)
        sums.extend(bounds.tolist())
        value = float(energies.min())
        if value < best.value:
            best = best._replace(nodes=np.eye(energy.n_labels)[labels], value=value)
        best = best._replace(bound=best.value if messages.is_forest else min(max(best.bound, float(bounds.max())), best.value))
        if goal(best):
            return best, messages, True
        if settled or len(sums) >= _SWEEPS or stands_still(sums, _STILL * max(abs(best.value), abs(sums[-1]))):
            return best, messages, False


def _one_per_label(handed: Floats) -> Floats:
    """For Potts one multiplier for each label does for both ends; whatever is beyond the cost of the edge is cut off."""
    first, second = (
        part - 0.5 * (part.min(axis=1, keepdims=True) + part.max(axis=1, keepdims=True)) for part in (handed[:, 0], handed[:, 1])
    )
    return np.asarray(0.5 * (second - first))
