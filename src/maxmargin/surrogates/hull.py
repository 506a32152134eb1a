"""Convex hull search for any surrogate of the class, and the best single output by forbidding those that were found (spec 10)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin import _core
from maxmargin.surrogates.geometry import Ceiling, best_between, bound_of_line, upper_right_hull
from maxmargin.surrogates.oracle import Banned, Candidate, LambdaOracle
from maxmargin.surrogates.result import ROUNDING, SearchResult, Step, steps_of

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate

# A point is above a line if it is so by this part of the numbers of the line.
_FLAT = 1e-11
# Values below this may have lost digits, and are compared by their order.
_UNDERFLOW = 1e-280
# Questions of one search, and rounds of recovery, at most.
MOST_HULL_CALLS, MOST_ROUNDS = 500, 50


class _Seen:
    """Outputs that a search has seen, with what psi is there: as long as the weights stay, it is looked at once.

    ``incumbent`` is the best single output, the truth or one that was seen, and psi is ``top`` there.
    """

    def __init__(self, surrogate: Surrogate, truth: Candidate, points: Sequence[Candidate]) -> None:
        self.surrogate, self.truth = surrogate, truth
        self.points = {point.key: point for point in points}
        self.orders: dict[Hashable, float] = {}
        self.values: dict[Hashable, float]
        if surrogate.by_numbers or len(self.points) <= 2:
            self.values = {key: float(surrogate.value(point.h, point.g)) for key, point in self.points.items()}
        else:
            columns = list(self.points.values())
            h, g = np.array([point.h for point in columns]), np.array([point.g for point in columns])
            self.values = dict(zip(self.points, np.asarray(surrogate.value(h, g)).tolist(), strict=True))
        self._find_best()

    def _find_best(self) -> None:
        top = self.values.get(self.truth.key)
        self.incumbent, self.top = self.truth, self._value(self.truth) if top is None else top
        for key, value in self.values.items():
            if value > self.top:
                self.incumbent, self.top = self.points[key], value

    def _value(self, point: Candidate) -> float:
        return float(self.surrogate.value(point.h, point.g))

    def _order(self, point: Candidate) -> float:
        order = self.orders.get(point.key)
        if order is None:
            order = self.orders[point.key] = float(self.surrogate.order(point.h, point.g))
        return order

    def add(self, point: Candidate) -> bool:
        """Whether it is new."""
        old = self.points.get(point.key)
        if old is not None and old.h == point.h and old.g == point.g:
            return False
        value = self._value(point)
        self.points[point.key], self.values[point.key] = point, value
        if old is not None:
            # What was known of it, the best one perhaps, holds no longer.
            self.orders.pop(point.key, None)
            self._find_best()
        elif value > self.top:
            self.incumbent, self.top = point, value
        return True

    def best_corner(self, hull: Sequence[Candidate]) -> tuple[int, float]:
        """The corner where psi is largest, and the weight of the loss along its tangent there.

        Where psi is negative everywhere its contours need not be convex; but that of zero is, and the corner nearest to it in
        ``h`` leads there.
        """
        values = [self.values[point.key] for point in hull]
        top = max(values)
        if top > _UNDERFLOW:
            corner = values.index(top)
            at = hull[corner].h
        elif top >= 0:
            # Not by their order alone: what does not underflow may not be defined for negative values.
            orders = [self._order(point) if value >= 0 else -np.inf for point, value in zip(hull, values, strict=True)]
            highest = max(orders)
            corner = orders.index(highest) if -np.inf < highest < np.inf else values.index(top)
            at = hull[corner].h
        else:
            level = np.asarray(self.surrogate.level(np.array([point.g for point in hull])))
            corner = int(np.argmax(np.array([point.h for point in hull]) - level))
            at = float(level[corner])
        loss = hull[corner].g
        if self.surrogate.by_numbers:
            lam = float(self.surrogate.tangent(at, loss))
        else:
            with np.errstate(all="ignore"):
                lam = float(self.surrogate.tangent(at, loss))
        # At the truth every contour is level, and the loss alone counts.
        return corner, np.inf if lam != lam else max(0.0, lam)


def hull_search(
    surrogate: Surrogate,
    oracle: LambdaOracle,
    known: Sequence[Candidate] = (),
    *,
    first: float | None = None,
    with_truth: bool = True,
    enough: float = -np.inf,
    tolerance: float = 0.0,
    max_calls: int = MOST_HULL_CALLS,
) -> SearchResult:
    """The largest psi over the convex hull of all outputs, in at most one question more than the hull has corners.

    Algorithm 4 and theorem 6 of the thesis (E17): each question goes along the tangent of psi at the best corner or, if a
    neighbour is above that, along the edge between them (E15: in print it is a neighbour *below*). If nothing above the line is
    found, no output is above it. Where the oracle knows all losses that there can be, the search ends as soon as the lines leave
    none of them room for a better output, be the optimum of the hull found or not.

    Parameters
    ----------
    surrogate : Surrogate
    oracle : LambdaOracle
    known : sequence of Candidate
        Outputs to begin with, of an earlier search, say; the truth is always one of them, unless ``with_truth`` is False.
    first : float, optional
        Weight of the loss in a first question that proves nothing but finds a good output, if none is known.
    enough : float
        The value of an output that is known from elsewhere: the search ends if no loss has room for more than that.
    tolerance : float
        Where all losses are known: the search also ends if the lines of the answers leave none of them room for more than
        ``1 + tolerance`` times the best output. Of an oracle that is exact ``upper`` is no larger than that then; of another one
        it is what the oracle's own bounds say.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle, Slack
    >>> found = hull_search(Slack(), PointOracle([1.0, 3.0, 2.01], [4.0, 2.0, 3.0]))
    >>> found.incumbent, found.calls, found.exact
    (Candidate(h=2.01, g=3.0, key=2, output=None), 4, True)
    """
    if not 0 <= tolerance < np.inf:
        raise ValueError(f"tolerance must be a number, not negative, such as 0.001; it is {tolerance}")
    if surrogate.product:
        return _of_products(surrogate, oracle, known, first, with_truth, enough, max_calls, tolerance)
    before, trace = oracle.calls, []
    seen = _Seen(surrogate, oracle.truth, (oracle.truth, *known) if with_truth else known)
    losses = oracle.losses()
    ceiling = None if losses is None else Ceiling(surrogate, losses)
    # Of what the oracle finds, whatever it may have missed.
    reach = None if losses is None or tolerance == 0 else Ceiling(surrogate, losses)
    hull = upper_right_hull(seen.points.values())

    def ask(a: float, b: float) -> Step:
        nonlocal hull
        step = Step(a, b, *oracle.ask(a, b))
        trace.append(step)
        if ceiling is not None:
            ceiling.lower(step)
        if reach is not None and step.found is not None:
            reach.lower(step._replace(upper=step.found.along(a, b)))
        if step.found is not None and seen.add(step.found):
            hull = upper_right_hull([*hull, step.found])
        return step

    def settled() -> bool:
        """Whether the lines leave no room for anything better than the best single output."""
        if ceiling is None or not trace:
            return False
        best = max(enough, seen.top)
        if reach is not None and reach.upper <= best * (1.0 + tolerance):
            return True
        return ceiling.upper <= best * (1.0 + 2.0 * ROUNDING)

    if first is not None and len(seen.points) <= 1:
        ask(1.0, first)
    elif not seen.points:
        ask(1.0, 0.0)
    proved, corners = False, hull
    corner: int | None = None
    neighbour: int | None = None
    while hull and not settled():
        corners = hull
        corner, lam = seen.best_corner(corners)
        neighbour = _above(corners, corner, lam)
        if neighbour is not None:
            lam = -(corners[neighbour].h - corners[corner].h) / (corners[neighbour].g - corners[corner].g)
        a, b = (1.0, lam) if lam <= 1 else (1.0 / lam, 1.0)
        if len(trace) >= max_calls:
            break
        step, least = ask(a, b), corners[corner].along(a, b)
        # Of the terms of both sums: near the truth the sums themselves are differences of much larger numbers.
        other, found = corners[corner if neighbour is None else neighbour], step.found
        size = _size(corners[corner], a, b) + _size(other, a, b) + (_size(found, a, b) if found else 0.0)
        if found is None or found.along(a, b) <= least + _FLAT * size:
            proved = step.upper <= least + _FLAT * size
            break
    else:
        # Nothing, or nothing better than a single output: of mixtures nothing is said.
        corner, corners = None, hull
    edge = None if corner is None or neighbour is None else (corner, neighbour)
    return _result(surrogate, oracle, corners, edge, seen, proved, ceiling, trace, before)


def _of_products(
    surrogate: Surrogate,
    oracle: LambdaOracle,
    known: Sequence[Candidate],
    first: float | None,
    with_truth: bool,
    enough: float,
    max_calls: int,
    tolerance: float,
) -> SearchResult:
    """The same search for slack rescaling, compiled: beside a quick decoder its own time would be most of it."""
    before = oracle.calls
    found, place, value, incumbent, best, upper, is_open, rows, hull = _core.product_hull_search(
        oracle.ask, oracle.truth, known, with_truth, oracle.losses(), first, enough, max_calls, tolerance
    )
    trace = steps_of(rows)
    if is_open and any(step.a > 0 for step in trace):
        most = oracle.most_loss()
        upper = min(upper, *(bound_of_line(surrogate, step, most) for step in trace))
    weights = (1.0,) if len(found) == 1 else (1.0 - place, place)
    return SearchResult(tuple(found), weights, value, incumbent, best, max(upper, best), oracle.calls - before, trace, hull)


def _above(hull: Sequence[Candidate], corner: int, lam: float) -> int | None:
    """The neighbour of a corner that lies above the tangent there; no two can, or the corner would be none."""
    a, b = (1.0, lam) if lam <= 1 else (1.0 / lam, 1.0)
    if len(hull) == 1:
        return None
    own, found = hull[corner], []
    for k in (corner - 1, corner + 1):
        if 0 <= k < len(hull):
            rise = hull[k].along(a, b) - own.along(a, b)
            if rise > 0 and rise > _FLAT * (_size(own, a, b) + _size(hull[k], a, b)):
                found.append(k)
    assert len(found) < 2, "both neighbours of a corner are above its tangent"
    return found[0] if found else None


def _size(point: Candidate, a: float, b: float) -> float:
    """Of the numbers that are added up along a line."""
    return abs(a * point.h) + abs(b * point.g)


def _result(
    surrogate: Surrogate,
    oracle: LambdaOracle,
    hull: Sequence[Candidate],
    edge: tuple[int, int] | None,
    seen: _Seen,
    proved: bool,
    ceiling: Ceiling | None,
    trace: list[Step],
    before: int,
) -> SearchResult:
    incumbent, value = seen.incumbent, seen.top
    labels: tuple[Candidate, ...] = (incumbent,)
    weights: tuple[float, ...] = (1.0,)
    mixed = value
    if edge is not None:
        # Nothing is above the tangent of psi on the way to a neighbour that is not itself.
        p, q = (hull[k] for k in edge)
        place, there = best_between(surrogate, p, q)
        if there > mixed + ROUNDING * abs(mixed) and 0 < place < 1:
            mixed, labels, weights = there, (p, q), (1.0 - place, place)
    # The optimum of the hull; what a search for it may have missed by rounding is no more than that.
    upper = mixed * (1.0 + ROUNDING) if len(labels) == 2 else mixed
    if trace and trace[-1].found is None:
        # There is no output at all.
        upper = value
    elif not proved:
        upper = np.inf
        if (ceiling is None or np.isinf(ceiling.upper)) and any(step.a > 0 for step in trace):
            most = oracle.most_loss()
            upper = min(bound_of_line(surrogate, step, most) for step in trace)
    if ceiling is not None:
        upper = min(upper, ceiling.upper)
    return SearchResult(
        labels, weights, mixed, incumbent, value, max(upper, value), oracle.calls - before, trace, list(hull)
    )  # fmt: skip


def recover(surrogate: Surrogate, oracle: LambdaOracle, found: SearchResult, max_rounds: int = MOST_ROUNDS) -> SearchResult:
    """The best single output, by searches without the outputs that mixtures were made of (spec 10.5).

    Exact if `LambdaOracle.k_best` is; after ``max_rounds`` the bound says how much may have been missed.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle, Slack
    >>> oracle = PointOracle([-0.99, 9.0, 4.0], [10.0, 0.01, 5.0])
    >>> found = hull_search(Slack(), oracle)
    >>> found.exact, recover(Slack(), oracle, found).incumbent.key
    (False, 2)
    """
    banned: set[Hashable] = set()
    incumbent, best, upper, before = found.incumbent, found.best, found.upper, oracle.calls
    trace, known = list(found.trace), list(found.vertices)
    current = found
    for _ in range(max_rounds):
        if len(current.labels) == 1 or upper <= best + ROUNDING * (1.0 + abs(best)):
            break
        banned |= {label.key for label in current.labels}
        known = [point for point in known if point.key not in banned]
        allowed = Banned(oracle, banned)
        current = hull_search(surrogate, allowed, known, with_truth=oracle.truth.key not in banned, enough=best)
        known = current.vertices
        trace += current.trace
        if current.best > best:
            incumbent, best = current.incumbent, current.best
        # Nothing that is banned is better than the incumbent; of everything else the search has a bound.
        upper = max(best, min(upper, current.upper))
    calls = found.calls + oracle.calls - before
    return replace(found, incumbent=incumbent, best=best, upper=upper, calls=calls, trace=trace)
