"""Convex hull search for any surrogate of the class, and the best single output by forbidding those that were found (spec 10)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.surrogates.geometry import best_between, bound_of_line, bound_of_losses, upper_right_hull
from maxmargin.surrogates.oracle import Banned, Candidate, LambdaOracle
from maxmargin.surrogates.result import ROUNDING, SearchResult, Step

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate

# A point is above a line if it is so by this part of the numbers of the line.
_FLAT = 1e-11
# Questions of one search, and rounds of recovery, at most.
MOST_CALLS, MOST_ROUNDS = 500, 50


def hull_search(
    surrogate: Surrogate,
    oracle: LambdaOracle,
    known: Sequence[Candidate] = (),
    *,
    first: float | None = None,
    with_truth: bool = True,
    max_calls: int = MOST_CALLS,
) -> SearchResult:
    """The largest psi over the convex hull of all outputs, in at most one question more than the hull has corners.

    Each question goes along the tangent of psi at the best corner or, if a neighbour is above that, along the edge between
    them (E15: in print it is a neighbour *below*). If nothing above the line is found, no output is above it.

    Parameters
    ----------
    surrogate : Surrogate
    oracle : LambdaOracle
    known : sequence of Candidate
        Outputs to begin with, of an earlier search, say; the truth is always one of them, unless ``with_truth`` is False.
    first : float, optional
        Weight of the loss in a first question that proves nothing but finds a good output, if none is known.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle, Slack
    >>> found = hull_search(Slack(), PointOracle([1.0, 3.0, 2.01], [4.0, 2.0, 3.0]))
    >>> found.incumbent, found.calls, found.exact
    (Candidate(h=2.01, g=3.0, key=2, output=None), 4, True)
    """
    before, trace = oracle.calls, []
    seen = {point.key: point for point in ((oracle.truth, *known) if with_truth else known)}

    def ask(a: float, b: float) -> Step:
        answer = oracle.ask(a, b)
        trace.append(Step(a, b, *answer))
        if answer.found is not None:
            seen[answer.found.key] = answer.found
        return trace[-1]

    if first is not None and len(seen) <= 1:
        ask(1.0, first)
    elif not seen:
        ask(1.0, 0.0)
    proved, corner, hull = False, None, []
    while seen:
        hull = upper_right_hull(seen.values())
        corner, lam = _best_corner(surrogate, hull)
        neighbour = _above(hull, corner, lam)
        if neighbour is not None:
            lam = -(hull[neighbour].h - hull[corner].h) / (hull[neighbour].g - hull[corner].g)
        a, b = (1.0, lam) if lam <= 1 else (1.0 / lam, 1.0)
        if len(trace) >= max_calls:
            break
        step, least = ask(a, b), hull[corner].along(a, b)
        # Of the terms of both sums: near the truth the sums themselves are differences of much larger numbers.
        ends = (hull[corner], hull[corner] if neighbour is None else hull[neighbour], step.found or hull[corner])
        rounding = _FLAT * sum(abs(a * point.h) + abs(b * point.g) for point in ends)
        if step.found is None or step.found.along(a, b) <= least + rounding:
            proved = step.upper <= least + rounding
            break
    return _result(surrogate, oracle, hull, corner, seen, proved, trace, before)


def _best_corner(surrogate: Surrogate, hull: Sequence[Candidate]) -> tuple[int, float]:
    """The corner where psi is largest, and the weight of the loss along its tangent there.

    Where psi is negative everywhere its contours need not be convex; but that of zero is, and the corner nearest to it in ``h``
    leads there.
    """
    h, g = np.array([point.h for point in hull]), np.array([point.g for point in hull])
    values = np.asarray(surrogate.value(h, g))
    if values.max() >= 0:
        # Not by their order alone: what does not underflow may not be defined for negative values.
        order = np.where(values >= 0, surrogate.order(h, g), -np.inf)
        corner = int(np.argmax(order)) if np.isfinite(order).any() else int(np.argmax(values))
        at = h[corner]
    else:
        level = np.asarray(surrogate.level(g))
        corner = int(np.argmax(h - level))
        at = level[corner]
    with np.errstate(all="ignore"):
        lam = float(surrogate.tangent(at, g[corner]))
    # At the truth every contour is level, and the loss alone counts.
    return corner, np.inf if np.isnan(lam) else max(0.0, lam)


def _above(hull: Sequence[Candidate], corner: int, lam: float) -> int | None:
    """The neighbour of a corner that lies above the tangent there; no two can, or the corner would be none."""
    a, b = (1.0, lam) if lam <= 1 else (1.0 / lam, 1.0)
    own, found = hull[corner], []
    for k in (corner - 1, corner + 1):
        if 0 <= k < len(hull):
            size = abs(a * own.h) + abs(b * own.g) + abs(a * hull[k].h) + abs(b * hull[k].g)
            if hull[k].along(a, b) - own.along(a, b) > _FLAT * size:
                found.append(k)
    assert len(found) < 2, "both neighbours of a corner are above its tangent"
    return found[0] if found else None


def _result(
    surrogate: Surrogate,
    oracle: LambdaOracle,
    hull: Sequence[Candidate],
    corner: int | None,
    seen: dict[Hashable, Candidate],
    proved: bool,
    trace: list[Step],
    before: int,
) -> SearchResult:
    points = [oracle.truth, *seen.values()]
    values = [float(surrogate.value(point.h, point.g)) for point in points]
    best = int(np.argmax(values))
    incumbent, value = points[best], values[best]
    labels: tuple[Candidate, ...] = (incumbent,)
    weights: tuple[float, ...] = (1.0,)
    mixed = value
    if corner is not None:
        for k in (corner - 1, corner + 1):
            if 0 <= k < len(hull):
                place, there = best_between(surrogate, hull[corner], hull[k])
                if there > mixed + ROUNDING * abs(mixed) and 0 < place < 1:
                    mixed, labels, weights = there, (hull[corner], hull[k]), (1.0 - place, place)
    # The optimum of the hull; what a search for it may have missed by rounding is no more than that.
    upper = mixed * (1.0 + ROUNDING) if len(labels) == 2 else mixed
    if trace and trace[-1].found is None:
        # There is no output at all.
        upper = value
    elif not proved:
        upper = np.inf
        if any(step.a > 0 for step in trace):
            most = oracle.most_loss()
            upper = min(bound_of_line(surrogate, step, most) for step in trace)
    losses = oracle.losses()
    if upper > value and losses is not None:
        upper = min(upper, bound_of_losses(surrogate, trace, losses))
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
        current = hull_search(surrogate, allowed, known, with_truth=oracle.truth.key not in banned)
        known = current.vertices
        trace += current.trace
        if current.best > best:
            incumbent, best = current.incumbent, current.best
        # Nothing that is banned is better than the incumbent; of everything else the search has a bound.
        upper = max(best, min(upper, current.upper))
    calls = found.calls + oracle.calls - before
    return replace(found, incumbent=incumbent, best=best, upper=upper, calls=calls, trace=trace)
