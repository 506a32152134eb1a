"""Where a path begins: weights for all large lambda at once (spec 5.4, 5.8 and 5.9).

With the most expensive outputs on all blocks, ``psi`` their mean features and ``loss`` their mean loss, the dual point is
``psi / lambda`` and the weights are its projection. Their gap, ``||u||^2 / lambda + hinge(u / lambda) - loss``, is a convex
function of ``1 / lambda`` that is zero at zero, so it falls at least like ``1 / lambda``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core.cuts import Bounds
from maxmargin.core.problem import CheckedProblem


@dataclass(frozen=True)
class Start:
    """The closed form above ``lam``.

    Attributes
    ----------
    direction : array of shape (d,)
        Weights are ``direction / lambda``.
    lam : float
        The smallest lambda it is used for; 0 if weights of zero are optimal for every lambda.
    gap : float
        Bound of the gap there; at larger lambda it is smaller by the ratio of the two.
    hinge : float
        Mean hinge of the weights at ``lam``.
    oracle_gap : float
        What the oracle may have missed at weights of zero; if anything, the gap does not fall to zero above ``lam``.
    """

    direction: Floats
    lam: float
    gap: float
    hinge: float
    oracle_gap: float = 0.0


def start_of_path(problem: CheckedProblem, gap: float, bounds: Bounds | None, exact: bool) -> Start:
    """The largest range of lambda for which the closed form has at most the given gap.

    Two passes; a third one makes the gap at ``lam`` exact instead of a bound.
    """
    cut = problem.mean_cut(np.zeros(problem.n_features))
    psi = cut.dense(problem.n_features)
    direction = psi if bounds is None else _within_cone(psi, bounds)
    squared = float(direction @ psi)
    missed = cut.upper(np.zeros_like(psi)) - cut.loss
    if missed >= gap:
        raise ValueError(
            f"the oracle's bound at weights of zero leaves a gap of {missed:g}, and solves are to end with {gap:g}; raise "
            "epsilon or kappa, or pass lambda_max"
        )
    if squared == 0 or cut.loss == 0:
        return Start(np.zeros_like(direction), 0.0, missed, cut.loss + missed, missed)
    # Along the direction the hinge rises at most as fast as in the limit, where losses no longer count.
    far = 1e8 * max(cut.loss, 1e-300) / squared
    slope = max(0.0, problem.mean_cut(far * direction).upper(far * direction) / far)
    lam = (squared + slope) / (gap - missed)
    if bounds is not None:
        lam = max(lam, _inside(direction, bounds))
    if not exact:
        # What the bound on the gap says of the hinge.
        return Start(direction, lam, (squared + slope) / lam + missed, cut.loss + slope / lam + missed, missed)
    weights = direction / lam
    hinge = problem.mean_cut(weights).upper(weights)
    return Start(direction, lam, max(0.0, squared / lam + hinge - cut.loss), hinge, missed)


def _within_cone(psi: Floats, bounds: Bounds) -> Floats:
    """The part of ``psi`` along which small weights stay within the bounds."""
    lower, upper = bounds
    if (lower > 0).any() or (upper < 0).any():
        k = int(np.flatnonzero((lower > 0) | (upper < 0))[0])
        raise ValueError(
            f"bounds exclude the weight 0 (lower[{k}]={lower[k]:g}, upper[{k}]={upper[k]:g}); pass lambda_max to begin the path "
            "at a lambda of your choice"
        )
    return np.where(((psi > 0) & (upper == 0)) | ((psi < 0) & (lower == 0)), 0.0, psi)


def _inside(direction: Floats, bounds: Bounds) -> float:
    """The smallest lambda at which ``direction / lambda`` is within the bounds."""
    lower, upper = bounds
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(direction > 0, direction / upper, np.where(direction < 0, direction / lower, 0.0))
    # On the safe side of rounding.
    return float(np.max(needed, initial=0.0)) * (1.0 + 1e-12)
