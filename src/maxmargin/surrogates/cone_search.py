"""Angular search: the largest ``(1 + h) g`` exactly, by an oracle that looks into a cone of slopes (spec 9).

``H`` is ``1 + h`` (E2), and the slope of an output ``g / H``; of an edge of the hull it is ``dh / dg`` (E16). Whatever beats an
output found in a cone lies strictly between its slope and that of its mirror image, so that a question splits a cone into two
smaller ones.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from maxmargin.surrogates.oracle import Candidate, LambdaOracle
from maxmargin.surrogates.result import SearchResult, Step

# The most questions; slopes that differ by less than this part of them are one.
MOST_CALLS, _SAME = 2000, 1e-12
# Of the largest product that there could be, what the cone of theorem 5 leaves out.
_FLOOR = 1e-6
# The slope of which an angle begins that has no lower end.
_LEAST = math.nextafter(0.0, 1.0)


class _Angle(NamedTuple):
    """Slopes ``low <= slope < high``, the lines that bound what is in there, and the bound that follows."""

    low: float
    high: float
    lines: tuple[tuple[float, float], ...]
    upper: float

    @property
    def unbounded(self) -> bool:
        return self.high == np.inf or self.low <= _LEAST


class _Queue:
    """Angles, the one with the largest bound first or the oldest one first."""

    def __init__(self, first_in_first_out: bool) -> None:
        self.fifo: deque[_Angle] = deque()
        self.heap: list[tuple[float, int, _Angle]] = []
        self.oldest_first, self.count = first_in_first_out, 0

    def push(self, angle: _Angle) -> None:
        if self.oldest_first:
            self.fifo.append(angle)
        else:
            self.count += 1
            heapq.heappush(self.heap, (-angle.upper, self.count, angle))

    def pop(self) -> _Angle:
        return self.fifo.popleft() if self.oldest_first else heapq.heappop(self.heap)[2]

    def __len__(self) -> int:
        return len(self.fifo) + len(self.heap)

    def upper(self) -> float:
        """The largest bound of an angle that is open."""
        if self.oldest_first:
            return max((angle.upper for angle in self.fifo), default=-np.inf)
        return -self.heap[0][0] if self.heap else -np.inf


def angular(
    oracle: LambdaOracle,
    known: Sequence[Candidate] = (),
    *,
    order: Literal["priority", "fifo"] = "priority",
    start: float | None = None,
    ratio: float = 1.0,
    cone: bool = False,
    shrink: float = 0.0,
    max_calls: int = MOST_CALLS,
) -> SearchResult:
    """The best output, exactly, in at most ``2 M + 1`` questions to a cone if M outputs have positive ``H`` and ``g``.

    Parameters
    ----------
    oracle : LambdaOracle
        With `LambdaOracle.within`.
    known : sequence of Candidate
        Outputs seen before, the label cache: the best one is the first incumbent, and the first question is tangent to it.
    order : {"priority", "fifo"}
        The angle with the largest bound first, cut down to where something better can be; or the oldest one first, and angles as
        their parents left them, for which the rates are proved (E12).
    start : float, optional
        The first weight of the loss. By default that of the best known output; if none is known, of an output with the largest
        loss and no margin error or, with "fifo", the ratio of the largest ``H`` and the largest loss (E11).
    ratio : float
        Stop if the incumbent is at least this part of the bound.
    cone : bool
        Begin with the cone of theorem 5, outside which nothing is worth more than what is known, or a millionth of what there
        could be: for linear programs, which cannot keep ``g > 0``.
    shrink : float
        Part by which open ends of cones are moved inward, for oracles that know closed ones only; 0 if they are exact.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle
    >>> found = angular(PointOracle([-0.99, 9.0, 4.0], [10.0, 0.01, 5.0]))
    >>> found.incumbent.key, found.exact
    (2, True)
    """
    before = oracle.calls
    trace: list[Step] = []
    best, seen = oracle.truth, {oracle.truth.key: oracle.truth}

    def take(point: Candidate) -> None:
        nonlocal best
        seen[point.key] = point
        if _product(point) > _product(best):
            best = point

    def ask(a: float, b: float) -> float:
        answer = oracle.ask(a, b)
        trace.append(Step(a, b, *answer))
        if answer.found is not None:
            take(answer.found)
        return answer.upper

    def result(upper: float) -> SearchResult:
        value, calls = _product(best), oracle.calls - before
        return SearchResult((best,), (1.0,), value, best, value, max(value, upper), calls, trace, list(seen.values()))

    for point in known:
        take(point)
    values = oracle.losses()
    losses = None if values is None else [loss for loss in values.tolist() if loss > 0]
    # Both ends of the plane need no question where something else says how large its numbers are.
    most_h, most_g = np.inf, np.inf if losses is None else max(losses, default=0.0)
    if order == "fifo":
        most_h, most_g = 1.0 + ask(1.0, 0.0), ask(0.0, 1.0)
    elif start is None and _product(best) <= 0 and losses is None:
        most_g = ask(0.0, 1.0)
    if most_h <= 0 or most_g <= 0:
        return result(0.0)
    if start is not None:
        first = start
    elif order == "fifo":
        first = most_h / most_g
    else:
        first = (1.0 + best.h) / best.g if _product(best) > 0 else 1.0 / most_g
    lines: tuple[tuple[float, float], ...] = ()
    if order == "fifo":
        lines = ((0.0, most_h),)
    if cone:
        # A question to all outputs is no dearer than one to a cone, and says how large H can be.
        top = 1.0 + ask(1.0, first)
        if top <= 0:
            return result(0.0)
        lines = (*lines, (first, top))
        most_h, most_g = min(most_h, top), min(most_g, top / first)
    low, high, residue = _LEAST, np.inf, 0.0
    if cone:
        floor = max(_product(best), _FLOOR * most_h * most_g)
        low, high, residue = floor / most_h**2, most_g**2 / floor * (1.0 + _SAME), floor

    def angle(low: float, high: float, lines: tuple[tuple[float, float], ...]) -> _Angle:
        if order == "fifo":
            # As it is analysed: angles are what their parents left of them.
            return _Angle(low, high, lines, _room(low, high, lines, losses, 0.0)[0])
        upper, least, most = _room(low, high, lines, losses, _product(best))
        return _Angle(max(low, least), min(high, most), lines, upper)

    queue = _Queue(order == "fifo")
    queue.push(angle(low, high, lines))
    # What angles that could not be looked into may hold.
    unresolved = 0.0
    cones = 0
    while queue and cones < max_calls:
        if _product(best) >= ratio * max(queue.upper(), unresolved):
            break
        current = queue.pop()
        if current.upper <= _product(best):
            continue
        if order == "priority":
            # The incumbent may be better by now.
            current = angle(*current[:3])
            if current.upper <= _product(best) or current.low >= current.high:
                continue
        lam = first if current.unbounded else 1.0 / math.sqrt(current.low * current.high)
        answer, cones = oracle.within(lam, current.low * (1.0 + shrink), current.high * (1.0 - shrink)), cones + 1
        trace.append(Step(1.0, lam, *answer, (current.low, current.high)))
        found, most = answer.found, 1.0 + answer.upper
        lines = (*current.lines, (lam, most))
        if found is None:
            if most > 0:
                unresolved = max(unresolved, _room(current.low, current.high, lines, losses, 0.0)[0])
            continue
        take(found)
        H = 1.0 + found.h
        if most > (H + lam * found.g) * (1.0 + 1e-9):
            # The oracle may have missed something: the two smaller cones would leave it out.
            unresolved = max(unresolved, _room(current.low, current.high, lines, losses, 0.0)[0])
        slope, middle = found.g / H if H > 0 else np.inf, 1.0 / lam
        mirrored = middle * middle / slope if slope > 0 else np.inf
        if abs(slope - middle) <= _SAME * middle or not 0 < slope < np.inf:
            # E10: this proves that the angle has nothing better, not that no angle has.
            continue
        upper_end, lower_end = max(slope, mirrored), min(slope, mirrored)
        if upper_end < lower_end * (1.0 + max(_SAME, shrink)):
            continue
        # E5: the upper part has the middle and not its end, the lower part neither.
        for from_, to in ((middle, min(upper_end, current.high)), (math.nextafter(max(lower_end, current.low), np.inf), middle)):
            if from_ < to:
                queue.push(angle(from_, to, lines))
    return result(max(queue.upper(), unresolved, residue if cone and residue > _product(best) else 0.0))


def _room(
    low: float, high: float, lines: Sequence[tuple[float, float]], losses: Sequence[float] | None, floor: float
) -> tuple[float, float, float]:
    """The largest product of a point with a slope in the range below all lines ``H + lam g <= K`` (E13), and a range of slopes.

    Of all points, or of those with one of the ``losses`` if these are known; whatever is worth more than ``floor`` is in the
    range of slopes, but for rounding.
    """
    if any(most <= 0 for _, most in lines):
        return 0.0, high, low
    if losses is None:
        return _room_of_points(low, high, lines, floor)
    upper, least, most_slope = 0.0, high, low
    for g in losses:
        # From the ray of the lower end to the left, to the first line that is met.
        H = g / low if low > _LEAST else np.inf
        for lam, most in lines:
            H = min(H, most - lam * g)
        if H <= 0 or H * high <= g * (1.0 - _SAME) or H * g <= floor:
            continue
        upper, least = max(upper, H * g), min(least, g / H)
        most_slope = max(most_slope, g * g / floor if floor > 0 else np.inf)
    return upper, least * (1.0 - _SAME), most_slope * (1.0 + _SAME)


def _room_of_points(low: float, high: float, lines: Sequence[tuple[float, float]], floor: float) -> tuple[float, float, float]:
    """The same for all points: the lowest line is highest at a peak of one, where two of them cross, or at an end."""
    if not lines or (high == np.inf and all(lam == 0 for lam, _ in lines)):
        return np.inf, low, high
    places, least, most_slope = [low, high], low, high
    for k, (lam, most) in enumerate(lines):
        if lam > 0:
            places.append(1.0 / lam)
        for other, top in lines[:k]:
            # K / (1 + lam s) is the same for both.
            fall = lam * top - other * most
            if fall != 0 and (most - top) / fall > 0:
                places.append((most - top) / fall)
        if floor > 0 and lam > 0:
            # On this line the product is floor at two slopes: s K^2 = floor (1 + lam s)^2.
            half = most * most / (2.0 * floor * lam) - 1.0
            if half < 1.0:
                return 0.0, high, low
            far = half + math.sqrt(half * half - 1.0)
            least, most_slope = max(least, (1.0 - _SAME) / (lam * far)), min(most_slope, (1.0 + _SAME) * far / lam)
    upper = 0.0
    for place in {min(max(place, least), most_slope) for place in places}:
        if 0 < place < np.inf:
            upper = max(upper, min(place * (most / (1.0 + lam * place)) ** 2 for lam, most in lines))
    return upper, least, most_slope


def _product(point: Candidate) -> float:
    return (1.0 + point.h) * point.g
