"""Searches for slack rescaling by the plain oracle, as published: by halving a range of weights of the loss (spec 8).

The largest ``(1 + h) g`` is looked for; in the formulas ``H`` is ``1 + h``. No such search finds an output below the line of two
others (spec 8.5), but each knows a bound: with ``K = H + lam g`` of the output found, nothing exceeds ``K^2 / (4 lam)``. The
smallest of these bounds is the optimum over the convex hull.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxmargin import _core
from maxmargin.surrogates.oracle import Candidate, LambdaOracle
from maxmargin.surrogates.result import SearchResult, Step, steps_of

# Relative tolerance of the searches, and the most questions they ask.
TOLERANCE, MOST_CALLS = 1e-6, 60
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


class _Probing:
    """Questions with their answers, the best output and the smallest bound so far."""

    def __init__(self, oracle: LambdaOracle, known: Sequence[Candidate]) -> None:
        self.oracle, self.before = oracle, oracle.calls
        self.trace: list[Step] = []
        self.best, self.upper, self.seen = oracle.truth, np.inf, {oracle.truth.key: oracle.truth}
        for point in known:
            self._take(point)

    def _take(self, point: Candidate) -> None:
        self.seen[point.key] = point
        if _product(point) > _product(self.best):
            self.best = point

    def probe(self, lam: float) -> tuple[Candidate, float]:
        """The answer and ``K``, or the oracle's bound of it."""
        found, upper = self.oracle.ask(1.0, lam)
        assert found is not None
        self.trace.append(Step(1.0, lam, found, upper))
        self._take(found)
        most = 1.0 + upper
        if lam > 0:
            self.upper = min(self.upper, most * most / (4.0 * lam))
        return found, most

    def ends(self) -> tuple[float, float]:
        """The largest ``H`` and the largest loss, by one question each; bounds of them where the oracle knows no better."""
        _, most_h = self.probe(0.0)
        found, most_g = self.oracle.ask(0.0, 1.0)
        assert found is not None
        self.trace.append(Step(0.0, 1.0, found, most_g))
        self._take(found)
        self.upper = min(self.upper, max(0.0, most_h) * most_g)
        return most_h, most_g

    def closed(self, tolerance: float) -> bool:
        """Whether the bound says that nothing is much better."""
        return self.upper <= _product(self.best) * (1.0 + tolerance)

    def room(self, limit: int) -> bool:
        """Whether another question is allowed."""
        return len(self.trace) < limit

    def result(self) -> SearchResult:
        value = _product(self.best)
        calls = self.oracle.calls - self.before
        return SearchResult(
            (self.best,), (1.0,), value, self.best, value, max(value, self.upper), calls, self.trace, list(self.seen.values())
        )  # fmt: skip


def bisecting(
    oracle: LambdaOracle,
    known: Sequence[Candidate] = (),
    *,
    start: float | None = None,
    tolerance: float = TOLERANCE,
    max_calls: int = MOST_CALLS,
) -> SearchResult:
    """Halve the range of the weight of the loss that the best output can have, from any ``start`` (spec 8.4).

    The printed loop never ends and begins in the middle of an unbounded range (E7): here the range grows by doubling, and the
    search ends with the bound, with the same output at both ends, or with a range as narrow as the tolerance.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle
    >>> bisecting(PointOracle([1.0, 3.0, 2.01], [4.0, 2.0, 3.0])).incumbent.key
    2
    """
    before = oracle.calls
    best, value, upper, rows, seen = _core.product_bisecting(oracle.ask, oracle.truth, known, start, tolerance, max_calls)
    return SearchResult((best,), (1.0,), value, best, value, upper, oracle.calls - before, steps_of(rows), seen)


def binary_search(
    oracle: LambdaOracle, known: Sequence[Candidate] = (), *, tolerance: float = TOLERANCE, max_calls: int = MOST_CALLS
) -> SearchResult:
    """Minimise the bound ``K(mu)^2 / (4 mu)``, which is convex in ``mu``, by the sign of its derivative (spec 8.2).

    Convex as the largest of convex functions, one for each output (E8: in print by a second derivative, which it need not have).
    Questions go to ``mu``, the *square* of the published weight.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle
    >>> binary_search(PointOracle([1.0, 3.0, 2.01], [4.0, 2.0, 3.0])).incumbent.key
    2
    """
    probing = _Probing(oracle, known)
    most_h, most_g = probing.ends()
    if most_h <= 0 or most_g <= 0 or probing.closed(tolerance):
        return probing.result()
    floor = max(_product(probing.best), 1e-6 * most_h * most_g)
    low, high = floor / most_g**2, most_h**2 / floor
    at: list[Candidate | None] = [None, None]
    while probing.room(max_calls):
        mu = np.sqrt(low * high)
        found, _ = probing.probe(mu)
        rising = mu * found.g >= 1.0 + found.h
        low, high = (low, mu) if rising else (mu, high)
        at[int(rising)] = found
        same = at[0] is not None and at[1] is not None and at[0][:2] == at[1][:2]
        if probing.closed(tolerance) or same or high < low * (1.0 + tolerance):
            break
    return probing.result()


def sarawagi(
    oracle: LambdaOracle,
    known: Sequence[Candidate] = (),
    *,
    slack: float | None = None,
    tolerance: float = 1e-3,
    max_calls: int = MOST_CALLS,
) -> SearchResult:
    """Look for an output that is worth more than the present ``slack``: the largest ``H - slack / g``, by golden sections (8.1).

    ``F(lam) = K(lam) - 2 sqrt(slack lam)`` is convex and bounds it from above; where F is not positive, nothing is worth more.

    Parameters
    ----------
    slack : float, optional
        The slack of the sample; the value of the best known output by default.

    Examples
    --------
    >>> from maxmargin.surrogates import PointOracle
    >>> sarawagi(PointOracle([1.0, 3.0, 2.01], [4.0, 2.0, 3.0])).incumbent.key
    2
    """
    probing = _Probing(oracle, known)
    most_h, most_g = probing.ends()
    if most_h <= 0 or most_g <= 0:
        return probing.result()
    if slack is None:
        slack = _product(probing.best)
    slack = max(slack, 1e-9 * most_h * most_g)
    least = _least_loss(probing, most_g)
    low, high = np.log(slack / most_g**2), np.log(slack / least**2)

    def bound(place: float) -> float:
        lam = float(np.exp(place))
        _, most = probing.probe(lam)
        found = most - 2.0 * float(np.sqrt(slack * lam))
        if found <= 0:
            # Nothing exceeds the slack.
            probing.upper = min(probing.upper, max(slack, _product(probing.best)))
        return found

    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = bound(left), bound(right)
    while probing.room(max_calls) and high - low > tolerance and not probing.closed(tolerance):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = bound(right)
    return probing.result()


def _least_loss(probing: _Probing, most: float) -> float:
    """The smallest positive loss: as the oracle knows it, or far below the largest one."""
    losses = probing.oracle.losses()
    return 1e-3 * most if losses is None or not (losses > 0).any() else float(losses[losses > 0].min())


def _product(point: Candidate) -> float:
    return (1.0 + point.h) * point.g
