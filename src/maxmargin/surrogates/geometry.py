"""Points, lines and hulls in the plane of margin error and loss (spec 8.3 and 10.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxmargin._types import Floats
from maxmargin.surrogates.oracle import Candidate
from maxmargin.surrogates.result import ROUNDING, Step

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate

_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
# Places between two points that are looked at before the best of them is refined, and rounds of that.
_PLACES, _ROUNDS = 33, 48
# Parts of the size of points that are as good as zero.
_FLAT = 1e-12


def upper_right_hull(points: Iterable[Candidate]) -> list[Candidate]:
    """Corners of the hull to the upper right, by rising loss: what some question with positive weights finds.

    Examples
    --------
    >>> [point[:2] for point in upper_right_hull([Candidate(0, 0), Candidate(2, 1), Candidate(0, 2), Candidate(1, 1.4)])]
    [(2, 1), (0, 2)]
    """
    hull: list[Candidate] = []
    for point in sorted(points, key=lambda point: (point.g, point.h)):
        while hull and hull[-1].h <= point.h:
            hull.pop()
        while len(hull) > 1 and not _turns(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _turns(left: Candidate, middle: Candidate, right: Candidate) -> bool:
    """Whether the middle one is above the line of the others, by more than rounding."""
    first, second = (middle.h - left.h) * (right.g - left.g), (right.h - left.h) * (middle.g - left.g)
    return first - second > _FLAT * (abs(first) + abs(second))


def best_between(surrogate: Surrogate, p: Candidate, q: Candidate) -> tuple[float, float]:
    """The place between two points, 0 to 1, where psi is largest, and psi there; no question is needed (spec 10.2)."""
    dh, dg = q.h - p.h, q.g - p.g
    if surrogate.product:
        if dh * dg < 0:
            place = float(np.clip(-((1.0 + p.h) * dg + p.g * dh) / (2.0 * dh * dg), 0.0, 1.0))
        else:
            place = float(surrogate.value(q.h, q.g) > surrogate.value(p.h, p.g))
        return place, float(surrogate.value(p.h + place * dh, p.g + place * dg))
    return maximize(lambda t: surrogate.value(p.h + t * dh, p.g + t * dg))


def maximize(function: Callable[[Floats], Floats]) -> tuple[float, float]:
    """The largest value on [0, 1] of a function that is unimodal where it is not negative: a grid, then golden sections."""
    places = np.linspace(0.0, 1.0, _PLACES)
    values = np.asarray(function(places), dtype=np.float64)
    k = int(np.argmax(values))
    low, high = places[max(0, k - 1)], places[min(_PLACES - 1, k + 1)]
    best, place = values[k], places[k]
    for _ in range(_ROUNDS):
        probes = np.array([high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)])
        left, right = np.asarray(function(probes), dtype=np.float64)
        if max(left, right) > best:
            best, place = max(left, right), probes[int(right > left)]
        low, high = (low, probes[1]) if left >= right else (probes[0], high)
    return float(place), float(best)


def bound_of_line(surrogate: Surrogate, step: Step, most_loss: float) -> float:
    """The largest psi of a point with ``a h + b g <= upper`` and a loss of at most ``most_loss``."""
    if step.a == 0:
        return np.inf
    lam, top = step.b / step.a, step.upper / step.a
    if surrogate.product:
        g = min(most_loss, 0.5 * (1.0 + top) / lam) if lam > 0 else most_loss
        found = (1.0 + top - lam * g) * g
    else:
        # Along the line psi is not negative from the truth's loss on, and unimodal there.
        _, found = maximize(lambda t: surrogate.value(top - lam * t * most_loss, t * most_loss))
    return max(0.0, float(found)) * (1.0 + ROUNDING)


def bound_of_losses(surrogate: Surrogate, steps: Sequence[Step], losses: Floats) -> float:
    """The largest psi of a point below all lines that were asked, if only these losses are possible; the truth is worth zero."""
    lines = [step for step in steps if step.a > 0]
    if not lines:
        return np.inf
    g = losses[losses > 0]
    if len(g) == 0:
        return 0.0
    h = np.min([(step.upper - step.b * g) / step.a for step in lines], axis=0)
    return max(0.0, float(np.max(surrogate.value(h, g)))) * (1.0 + ROUNDING)
