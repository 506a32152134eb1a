"""Angular search: the largest ``(1 + h) g`` exactly, by an oracle that looks into a cone of slopes (spec 9).

``H`` is ``1 + h``, and the slope of an output ``g / H``. Whatever beats an output found in a cone lies strictly between its slope
and that of its mirror image, so that a question splits a cone into two smaller ones.
"""

from __future__ import annotations

import heapq
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


class _Angle(NamedTuple):
    """Slopes ``low <= slope < high``, the lines that bound what is in there, and the bound that follows."""

    low: float
    high: float
    lines: tuple[tuple[float, float], ...]
    upper: float


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
        Outputs seen before, the label cache: the best one is the first incumbent.
    order : {"priority", "fifo"}
        The angle with the largest bound first, or the oldest one, for which the rates are proved (E12).
    start : float, optional
        The first weight of the loss; the ratio of the largest ``H`` and the largest loss by default (E11).
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
    before, trace = oracle.calls, []
    best, seen = oracle.truth, {oracle.truth.key: oracle.truth}

    def take(point: Candidate) -> None:
        nonlocal best
        seen[point.key] = point
        if _product(point) > _product(best):
            best = point

    def result(upper: float) -> SearchResult:
        value, calls = _product(best), oracle.calls - before
        return SearchResult((best,), (1.0,), value, best, value, max(value, upper), calls, trace, list(seen.values()))

    for point in known:
        take(point)
    for a, b in ((1.0, 0.0), (0.0, 1.0)):
        answer = oracle.ask(a, b)
        trace.append(Step(a, b, *answer))
        if answer.found is not None:
            take(answer.found)
    most_h, most_g = 1.0 + trace[0].upper, trace[1].upper
    if most_h <= 0 or most_g <= 0:
        return result(0.0)
    first = most_h / most_g if start is None else start
    low, high, residue = float(np.nextafter(0.0, 1.0)), np.inf, 0.0
    if cone:
        floor = max(_product(best), _FLOOR * most_h * most_g)
        low, high, residue = floor / most_h**2, most_g**2 / floor * (1.0 + _SAME), floor
    queue = _Queue(order == "fifo")
    queue.push(_Angle(low, high, (), most_h * most_g))
    # What angles that could not be looked into may hold.
    unresolved = 0.0
    cones = 0
    while queue and cones < max_calls:
        if _product(best) >= ratio * max(queue.upper(), unresolved):
            break
        angle = queue.pop()
        if angle.upper <= _product(best):
            continue
        unbounded = angle.high == np.inf or angle.low <= np.nextafter(0.0, 1.0)
        lam = first if unbounded else 1.0 / np.sqrt(angle.low * angle.high)
        answer, cones = oracle.within(lam, angle.low * (1.0 + shrink), angle.high * (1.0 - shrink)), cones + 1
        trace.append(Step(1.0, lam, *answer, (angle.low, angle.high)))
        found, most = answer.found, 1.0 + answer.upper
        lines = (*angle.lines, (lam, most))
        if found is None:
            if most > 0:
                unresolved = max(unresolved, _bound(angle.low, angle.high, lines))
            continue
        take(found)
        H = 1.0 + found.h
        if most > (H + lam * found.g) * (1.0 + 1e-9):
            # The oracle may have missed something: the two smaller cones would leave it out.
            unresolved = max(unresolved, _bound(angle.low, angle.high, lines))
        slope, middle = found.g / H if H > 0 else np.inf, 1.0 / lam
        mirrored = middle * middle / slope if slope > 0 else np.inf
        if abs(slope - middle) <= _SAME * middle or not 0 < slope < np.inf:
            # E10: this proves that the angle has nothing better, not that no angle has.
            continue
        upper_end, lower_end = max(slope, mirrored), min(slope, mirrored)
        if upper_end < lower_end * (1.0 + max(_SAME, shrink)):
            continue
        # E5: the upper part has the middle and not its end, the lower part neither.
        queue.push(_Angle(middle, min(upper_end, angle.high), lines, _bound(middle, upper_end, lines)))
        inner = float(np.nextafter(max(lower_end, angle.low), np.inf))
        queue.push(_Angle(inner, middle, lines, _bound(inner, middle, lines)))
    return result(max(queue.upper(), unresolved, residue if cone and residue > _product(best) else 0.0))


def _bound(low: float, high: float, lines: Sequence[tuple[float, float]]) -> float:
    """The largest product of a point with a slope in the range below all lines ``H + lam g <= K``."""
    bounds = []
    for lam, most in lines:
        slope = float(np.clip(1.0 / lam, low, high))
        bounds.append(slope * (most / (1.0 + lam * slope)) ** 2 if most > 0 else 0.0)
    return min(bounds)


def _product(point: Candidate) -> float:
    return (1.0 + point.h) * point.g
