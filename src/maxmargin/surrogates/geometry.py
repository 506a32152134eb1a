"""Points, lines and hulls in the plane of margin error and loss (spec 8.3 and 10.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from maxmargin._utils import Floats
from maxmargin.surrogates.oracle import Candidate
from maxmargin.surrogates.result import ROUNDING, Step

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate

# Places between two points that are looked at, and how often the surroundings of the best of them are looked at again: to a
# ten millionth of the way, and of a maximum much closer than that.
_PLACES, _ROUNDS = np.linspace(0.0, 1.0, 33), 6
# Steps towards the place where a slope changes its sign, at most, and the part of psi that they may leave.
_STEPS, _LEFT = 60, 1e-10
# Values below this may have lost digits.
_UNDERFLOW = 1e-280
# Parts of the size of points that are as good as zero.
_FLAT = 1e-12
# Candidates by their g, then their h.
_BY_LOSS = itemgetter(1, 0)


def upper_right_hull(points: Iterable[Candidate]) -> list[Candidate]:
    """Corners of the hull to the upper right, by rising loss: what some question with positive weights finds.

    Examples
    --------
    >>> [point[:2] for point in upper_right_hull([Candidate(0, 0), Candidate(2, 1), Candidate(0, 2), Candidate(1, 1.4)])]
    [(2, 1), (0, 2)]
    """
    hull: list[Candidate] = []
    for point in sorted(points, key=_BY_LOSS):
        h = point.h
        while hull and hull[-1].h <= h:
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
            place = min(1.0, max(0.0, -((1.0 + p.h) * dg + p.g * dh) / (2.0 * dh * dg)))
        else:
            place = float((1.0 + q.h) * q.g > (1.0 + p.h) * p.g)
        return place, (1.0 + p.h + place * dh) * (p.g + place * dg)
    if surrogate.by_numbers:
        start = float(surrogate.value(p.h, p.g))
        # Without loss psi need have no slope; there it is known at most that it does not rise further.
        if (start > _UNDERFLOW or start == 0) and (q.g > 0 or float(surrogate.value(q.h, q.g)) < start):
            return _where_slope_ends(surrogate, p, dh, dg, start)
    return maximize(lambda t: surrogate.value(p.h + t * dh, p.g + t * dg))


def _where_slope_ends(surrogate: Surrogate, p: Candidate, dh: float, dg: float, start: float) -> tuple[float, float]:
    """The maximum on the way from p, where psi is ``start``, not negative, by the sign of its slope: one number at a time.

    As psi is quasi-concave, it rises on the way and then falls; whatever is worth less than the start is behind the maximum,
    also where psi is negative, or has underflowed, and its slope means nothing. Steps go along the secant of the slopes, an end
    that stays counting half (Illinois), and to the middle where that is not known or has cut off little.
    """
    low, high, place, best = 0.0, 1.0, 0.0, start
    at_low, at_high, side, slow = np.inf, 0.0, 0, 0
    if p.g > 0:
        psi_h, psi_g = surrogate.gradient(p.h, p.g)
        at_low = psi_h * dh + psi_g * dg
        if at_low <= 0:
            return place, best
    t, width = 1.0, 1.0
    for _ in range(_STEPS):
        h, g = p.h + t * dh, p.g + t * dg
        value = float(surrogate.value(h, g))
        if value > 0 and value >= start:
            psi_h, psi_g = surrogate.gradient(h, g)
            slope = psi_h * dh + psi_g * dg
            if value > best:
                place, best = t, value
            if slope >= 0 and t == 1.0:
                break
            if slope > 0:
                low, at_low = t, slope
                at_high, side = at_high * (0.5 if side == 1 else 1.0), 1
            else:
                high, at_high = t, slope
                at_low, side = at_low * (0.5 if side == -1 else 1.0), -1
            # Of the best place only: far away psi may be as flat, and nothing.
            if value == best and abs(slope) * (high - low) <= _LEFT * best:
                break
        else:
            high, at_high, side = t, 0.0, 0
        # The slope at the upper end is known where psi is not less than at the start, at the lower one where there is a loss.
        slow = 0 if high - low <= 0.5 * width else slow + 1
        width = high - low
        middle = 0.5 * (low + high)
        t = low + width * at_low / (at_low - at_high) if at_high < 0 and at_low < np.inf and slow < 2 else middle
        if not low < t < high:
            t = middle
            if not low < t < high:
                break
    return place, best


def maximize(function: Callable[[Floats], Floats]) -> tuple[float, float]:
    """The largest value on [0, 1] of a function that is unimodal where it is not negative: a grid, and finer ones around it."""
    low, high, best, place = 0.0, 1.0, -np.inf, 0.0
    for _ in range(_ROUNDS):
        places = low + (high - low) * _PLACES
        values = np.asarray(function(places), dtype=np.float64)
        k = int(values.argmax())
        if values[k] > best:
            best, place = float(values[k]), float(places[k])
        low, high = float(places[max(0, k - 1)]), float(places[min(len(places) - 1, k + 1)])
    return place, best


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


class Ceiling:
    """What no single output is worth more than, where only some losses are possible: by all lines that were asked.

    Parameters
    ----------
    surrogate : Surrogate
    losses : array of shape (m,)
        All losses that outputs can have; the truth, without loss, is worth zero.

    Examples
    --------
    >>> from maxmargin.surrogates import Slack
    >>> ceiling = Ceiling(Slack(), np.array([0.0, 1.0, 2.0, 3.0]))
    >>> ceiling.lower(Step(1.0, 1.0, None, 2.5))
    >>> round(ceiling.upper, 6)
    3.0
    """

    def __init__(self, surrogate: Surrogate, losses: Floats) -> None:
        self.surrogate, self.g = surrogate, losses[losses > 0]
        self.h: Floats | None = None
        self.upper = np.inf if len(self.g) else 0.0

    def lower(self, step: Step) -> None:
        """Take note of one more line ``a h + b g <= upper``."""
        if step.a <= 0 or len(self.g) == 0:
            return
        line = (step.upper - step.b * self.g) / step.a
        self.h = line if self.h is None else np.minimum(self.h, line)
        self.upper = max(0.0, float(np.asarray(self.surrogate.value(self.h, self.g)).max())) * (1.0 + ROUNDING)
