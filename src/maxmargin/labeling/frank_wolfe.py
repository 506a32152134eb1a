"""Quadratic relaxations: products of marginals stand for marginals of pairs, made small by Frank-Wolfe steps.

As it is, the relaxation is not convex and has a best point that is a labeling (Ravikumar and Lafferty 2006), so finding it is as
hard as the energy itself; steps end where none helps. With ``d * (y^2 - y)`` added, which is nothing for labelings, it is convex
once ``d`` outweighs the tables. Then the best point is no labeling any more, but what a step could gain at most bounds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from maxmargin._utils import Floats
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.fractional import pairwise_slopes


class Step(NamedTuple):
    """Where a step begins: marginals, their cost, and what a step could gain at most if costs were linear."""

    nodes: Floats
    value: float
    gap: float


def frank_wolfe(energy: Energy, start: Floats, convex: bool, max_iter: int, goal: Callable[[Step], bool]) -> tuple[Step, int]:
    """Steps towards the cheapest labels of all nodes, each as long as is best; the last one and their number.

    Values never rise: along a step the cost is a parabola, whose lowest point is known.
    """
    y = start.copy()
    added = _curvature(energy) if convex else np.zeros(y.shape)
    rows = np.arange(len(y))
    unary = np.where(np.isfinite(energy.unary), energy.unary, 0.0)
    forbidden = ~np.isfinite(energy.unary)
    slopes = pairwise_slopes(y, energy)
    for done in range(max_iter + 1):
        value = float(np.vdot(y, unary) + 0.5 * np.vdot(y, slopes) + np.vdot(added, y * y - y))
        gradient = unary + slopes + added * (2 * y - 1)
        gradient[forbidden] = np.inf
        towards = np.zeros_like(y)
        towards[rows, gradient.argmin(axis=1)] = 1.0
        direction = towards - y
        gradient[forbidden] = 0.0
        slope = float(np.vdot(gradient, direction))
        step = Step(y, value, max(0.0, -slope))
        if goal(step) or slope >= 0 or done == max_iter:
            break
        turned = pairwise_slopes(direction, energy)
        curvature = float(0.5 * np.vdot(direction, turned) + np.vdot(added, direction * direction))
        length = 1.0 if curvature <= 0 or -slope >= 2 * curvature else -slope / (2 * curvature)
        if length == 1.0:
            y, slopes = towards, pairwise_slopes(towards, energy)
        else:
            y, slopes = y + length * direction, slopes + length * turned
    return step, done


def _curvature(energy: Energy) -> Floats:
    """So much that no other term outweighs it: half of the sums of all tables' rows."""
    total = np.zeros(energy.unary.shape)
    if len(energy.edges) == 0:
        return total
    table, weights = np.abs(energy.table), 0.5 * np.abs(energy.weights)[:, None]
    for end, axis in ((0, -1), (1, -2)):
        np.add.at(total, energy.edges[:, end], weights * table.sum(axis=axis))
    return total


def softmin(costs: Floats, temperature: float = 1.0) -> Floats:
    """``exp(-costs / temperature)``, divided by the sum of its row."""
    # Costs that are beyond all numbers in so small a unit have no share.
    with np.errstate(over="ignore"):
        shares = np.exp(-(costs - costs.min(axis=1, keepdims=True)) / max(temperature, 1e-300))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
