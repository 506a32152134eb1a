"""How far chance alone could have moved the numbers of a report: 95 % intervals, seeded, paired between methods.

Several queries are drawn again as wholes; of very many, the standard error of the mean says the same. In one list the samples are
drawn, relevant and irrelevant ones apart, and all methods rank the same draw. Lists with repetitions score a little higher than
they should, so an interval is that of the draws around their mean, put around the value itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.ranking import RankedLists, discounts, ratio
from maxmargin.report.plain import number
from maxmargin.report.ranked import METRICS, Ranked, metric_of_lists

DRAWS = 1000
_WORK = 2_000_000  # samples drawn in all, for one method
_FEWEST = 30  # draws, of the longest lists
_PERCENTILES = 400  # with fewer draws, ends are those of a normal distribution with their standard deviation
_MANY = 20_000  # queries
_PIECE = 200_000  # numbers in memory at once
_Z = 1.959964


class Interval(NamedTuple):
    """Ends of a 95 % interval."""

    low: float
    high: float

    def json(self) -> list[float | None]:
        """For the page."""
        return [number(self.low), number(self.high)]

    def words(self, shift: float = 0.0) -> str:
        """With three digits.

        >>> Interval(-0.25, 1.0).words()
        '−0.250 to 1.000'
        """
        return " to ".join(f"{end - shift:.3f}".replace("-0.000", "0.000").replace("-", "\N{MINUS SIGN}") for end in self)


def interval(value: float, draws: Floats, low: float = -np.inf, high: float = np.inf) -> Interval:
    """The interval of a value from what came out in the draws, inside of what is possible.

    >>> interval(0.5, np.linspace(0.3, 0.8, 1001)).words()
    '0.263 to 0.738'
    """
    if np.ptp(draws) == 0:
        return Interval(value, value)
    centred = draws - draws.mean()
    if len(draws) >= _PERCENTILES:
        return _inside(value, np.quantile(centred, [0.025, 0.975]), low, high)
    return _inside(value, np.array([-_Z, _Z]) * np.std(centred, ddof=1), low, high)


def _inside(value: float, ends: Floats, low: float, high: float) -> Interval:
    below, above = np.clip(value + ends, low, high).tolist()
    return Interval(min(below, value), max(above, value))


class Intervals(NamedTuple):
    """Of every metric for every method, of the model's lead in every metric over each baseline, and of precision at budgets."""

    how: str
    metrics: list[dict[str, Interval]]
    leads: list[dict[str, Interval]]
    precisions: list[Interval]


def intervals(ranked: list[Ranked], budgets: Ints | None = None, names: Sequence[str] = METRICS, seed: int = 0) -> Intervals:
    """Those of the model, first in the list, and of its baselines; ``budgets`` are numbers of samples of a single list."""
    if ranked[0].lists.n_queries > 1:
        return _of_queries(ranked, names, seed)
    return _of_one_list(ranked, np.empty(0, dtype=np.int64) if budgets is None else budgets, names, seed)


def _of_queries(ranked: list[Ranked], names: Sequence[str], seed: int) -> Intervals:
    values = np.array([[method.values[name] for name in names] for method in ranked])
    leads = values[:1] - values[1:]
    columns = np.concatenate((values, leads)).reshape(-1, values.shape[-1]).T
    found, how = mean_intervals(columns, seed)
    bounded = [Interval(max(0.0, low), min(1.0, high)) for low, high in found]
    n, m = len(ranked), len(names)
    rows = [dict(zip(names, bounded[k * m : (k + 1) * m], strict=True)) for k in range(n)]
    duels = [dict(zip(names, found[k * m : (k + 1) * m], strict=True)) for k in range(n, 2 * n - 1)]
    return Intervals(how, rows, duels, [])


def mean_intervals(values: Floats, seed: int = 0) -> tuple[list[Interval], str]:
    """Of the means over queries, from values of shape (queries, m); and how they were found.

    >>> found, how = mean_intervals(np.arange(100.0)[:, None])
    >>> [round(end) for end in found[0]], how
    ([44, 55], 'a bootstrap over the queries, 1,000 draws')
    """
    n, means = len(values), values.mean(axis=0)
    if n > _MANY:
        errors = values.std(axis=0, ddof=1) / np.sqrt(n)
        ends = [np.array([-_Z, _Z]) * error for error in errors]
        how = "the standard error of the mean over the queries"
        return [_inside(float(mean), end, -np.inf, np.inf) for mean, end in zip(means, ends, strict=True)], how
    rng, piece, drawn = np.random.default_rng(seed), max(1, _PIECE // n), []
    for begin in range(0, DRAWS, piece):
        count = min(piece, DRAWS - begin)
        times = _counts(rng.integers(n, size=(count, n)), n)
        drawn.append(times @ values / n)
    draws = np.concatenate(drawn)
    found = [interval(float(mean), column) for mean, column in zip(means, draws.T, strict=True)]
    return found, f"a bootstrap over the queries, {DRAWS:,} draws"


def _counts(rows: Ints, n: int) -> Ints:
    """How often each of n things is among those of every row."""
    flat = rows + n * np.arange(len(rows))[:, None]
    return np.bincount(flat.ravel(), minlength=len(rows) * n).reshape(len(rows), n)


class DrawnLists(RankedLists):
    """One list drawn again and again: a query for every row of ``times``, which has shape (draws, n) and rows of equal sum.

    The order of the list stays, so nothing is sorted.
    """

    def __init__(self, lists: RankedLists, times: Ints) -> None:
        n_draws, n = times.shape
        # `times` are counts of samples as they stood in the input.
        at = np.repeat(np.tile(np.arange(n), n_draws), times[:, lists.rows].ravel())
        size = int(times[0].sum())
        self.scores, self.grades, self.relevant = lists.scores[at], lists.grades[at], lists.relevant[at]
        self.query = np.repeat(np.arange(n_draws), size)
        self.starts, self.sizes, self.n_queries = np.arange(n_draws) * size, np.full(n_draws, size), n_draws
        self.place = np.tile(np.arange(1, size + 1), n_draws)
        self.position = self.place.astype(np.float64)


def redraws(relevant: Booleans, seed: int = 0) -> Iterator[Ints]:
    """How often each sample of one list is drawn, some draws at a time: shape (draws, n). Both kinds keep their numbers.

    >>> draws = np.concatenate(list(redraws(np.array([True, False, False]))))
    >>> draws.shape, bool((draws[:, 0] == 1).all()), bool((draws[:, 1:].sum(axis=1) == 2).all())
    ((1000, 3), True, True)
    """
    n = len(relevant)
    kinds = [np.flatnonzero(relevant), np.flatnonzero(~relevant)]
    n_draws = int(np.clip(_WORK // n, _FEWEST, DRAWS))
    rng, piece = np.random.default_rng(seed), max(1, _PIECE // n)
    for begin in range(0, n_draws, piece):
        count = min(piece, n_draws - begin)
        again = [rows[rng.integers(len(rows), size=(count, len(rows)))] for rows in kinds]
        yield _counts(np.concatenate(again, axis=1), n)


def how_drawn(n_draws: int) -> str:
    """What was done, in words."""
    how = f"a bootstrap over the samples, relevant and irrelevant ones apart, {n_draws:,} draws"
    return how if n_draws >= _PERCENTILES else f"{how}, by their standard deviation"


def p_value(difference: float, draws: Floats) -> float:
    """Chance of a difference at least as large, either way, if there were none: two-sided, from the differences in the draws.

    >>> round(p_value(0.5, np.linspace(-1, 1, 1001)), 2), p_value(0.0, np.zeros(1001))
    (0.5, 1.0)
    """
    centred = np.abs(draws - draws.mean())
    # Equal but for rounding is as large.
    size = abs(difference) * (1 - 1e-9)
    if len(draws) >= _PERCENTILES or np.ptp(draws) == 0:
        return (int(np.count_nonzero(centred >= size)) + 1) / (len(draws) + 1)
    return math.erfc(size / float(np.std(draws, ddof=1)) / math.sqrt(2))


def _of_one_list(ranked: list[Ranked], budgets: Ints, names: Sequence[str], seed: int) -> Intervals:
    first = ranked[0].lists
    n = len(first.rows)
    relevant = np.empty(n, dtype=bool)
    relevant[first.rows] = first.relevant
    weights = {name: discounts(np.arange(1.0, n + 1), _cut(name)) for name in names if _is_ndcg(name)}
    drawn: list[list[Floats]] = [[] for _ in ranked]
    found_at: list[Floats] = []
    for times in redraws(relevant, seed):
        for method, into in zip(ranked, drawn, strict=True):
            lists = DrawnLists(method.lists, times)
            graded = lists if method.graded is method.lists else DrawnLists(method.graded, times)
            ideal = _ideal(method.graded, times)
            into.append(np.array([_metric(name, lists, graded, ideal, weights) for name in names]))
            if method is ranked[0] and len(budgets):
                hits = np.cumsum(lists.relevant.reshape(len(times), n), axis=1)
                found_at.append(hits[:, budgets - 1] / budgets)
    draws = [np.concatenate(parts, axis=1) for parts in drawn]
    means = [[method.means[name] for name in names] for method in ranked]
    how = how_drawn(draws[0].shape[1])
    rows = [
        {name: interval(m, d, 0, 1) for name, m, d in zip(names, mean, draw, strict=True)}
        for mean, draw in zip(means, draws, strict=True)
    ]
    leads = [
        {name: interval(a - b, c - d) for name, a, b, c, d in zip(names, means[0], mean, draws[0], draw, strict=True)}
        for mean, draw in zip(means[1:], draws[1:], strict=True)
    ]
    precisions: list[Interval] = []
    if len(budgets):
        truth = np.cumsum(first.relevant)[budgets - 1] / budgets
        precisions = [interval(float(p), d, 0, 1) for p, d in zip(truth, np.concatenate(found_at).T, strict=True)]
    return Intervals(how, rows, leads, precisions)


def _is_ndcg(name: str) -> bool:
    return name.partition("@")[0] == "ndcg"


def _cut(name: str) -> int | None:
    cut = name.partition("@")[2]
    return int(cut) if cut else None


def _ideal(graded: RankedLists, times: Ints) -> Floats:
    """Gains in the best order, for every draw; without grades all draws have the same."""
    best = np.argsort(-graded.grades, kind="stable")
    grades = graded.grades[best]
    if len(np.unique(grades[grades > 0])) == 1:
        return grades[None]
    return np.repeat(np.tile(grades, len(times)), times[:, graded.rows[best]].ravel()).reshape(len(times), -1)


def _metric(name: str, lists: RankedLists, graded: RankedLists, ideal: Floats, weights: dict[str, Floats]) -> Any:
    if not _is_ndcg(name):
        return metric_of_lists(name, lists)
    reached = graded.grades.reshape(graded.n_queries, -1) @ weights[name]
    return ratio(reached, np.broadcast_to(ideal @ weights[name], reached.shape))
