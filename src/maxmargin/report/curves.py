"""Curves of ranked lists, thinned to what a screen can show; numpy in, numpy out.

For one list they are exact; for several queries means over those that have relevant samples, as evaluation campaigns draw them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.ranking import RankedLists

MAX_POINTS = 1000
_RECALLS = np.linspace(0, 1, 101)


class Curve(NamedTuple):
    """Points of a curve, from left to right."""

    x: Floats
    y: Floats


def thin(*columns: NDArray[Any], limit: int = MAX_POINTS) -> Ints:
    """Rows to keep of equally long columns: all, or at most ``limit`` that show every rise and fall.

    Rows are put into buckets, half of them equally long and half growing from the start, where a list matters most. Of every
    bucket the first and the last row stay, and the lowest and highest value of every column.

    >>> thin(np.sin(np.arange(100_000) / 5e3)).size <= 1000
    True
    """
    n = len(columns[0])
    if n <= limit:
        return np.arange(n)
    n_buckets = limit // (2 + 2 * len(columns))
    half = n_buckets // 2
    edges = np.concatenate((np.linspace(0, n, half + 1), np.geomspace(1, n, n_buckets - half)))
    edges = np.unique(edges.astype(np.int64))
    kept = [edges[:-1], edges[1:] - 1]
    for column in columns:
        values = np.nan_to_num(column)
        for choose in (np.argmin, np.argmax):
            kept.append(np.array([begin + choose(values[begin:end]) for begin, end in pairwise(edges)]))
    return np.unique(np.concatenate(kept))


def precision_recall(lists: RankedLists) -> Curve:
    """One list: recall and precision at each relevant sample. Several: mean interpolated precision at 101 recalls."""
    relevant = lists.relevant
    precision = (lists.seen(relevant) / lists.position)[relevant]
    if lists.n_queries == 1:
        recall = np.arange(1, len(precision) + 1) / len(precision)
        kept = thin(precision)
        return Curve(np.append(0.0, recall[kept]), np.append(precision[0], precision[kept]))
    query = lists.query[relevant]
    # Running maximum from the end of every query: later queries are lifted above earlier ones, then put back.
    lift = 2.0 * (lists.n_queries - query)
    best = (np.maximum.accumulate((precision + lift)[::-1])[::-1]) - lift
    first, counts = np.unique(query, return_index=True, return_counts=True)[1:]
    # Recall k / 100 is reached at that share of the relevant samples, rounded up in whole numbers.
    steps = np.arange(len(_RECALLS))
    y = [best[first + np.maximum(0, -(-k * counts // (len(steps) - 1)) - 1)].mean() for k in steps]
    return Curve(_RECALLS, np.array(y))


def gain(lists: RankedLists, gains: Floats) -> Curve:
    """Share of the ``gains`` (sorted as the lists are, not negative) collected over the share of the list inspected."""
    collected, totals = lists.seen(gains), lists.per_query(gains)
    if lists.n_queries == 1:
        # Corners of the steps: just before and at every sample that brings something.
        at = np.flatnonzero(gains)
        corners = np.unique(np.concatenate(([0], at, at + 1, [len(gains)])))
        share = np.append(0.0, collected)[corners] / totals[0]
        kept = thin(share)
        return Curve(corners[kept] / len(gains), share[kept])
    counted = totals > 0
    starts, sizes, totals = lists.starts[counted], lists.sizes[counted], totals[counted]
    longest = int(sizes.max())
    x = np.unique(np.concatenate((np.linspace(0, 1, 201), np.geomspace(max(1 / longest, 1e-5), 1, 100))))
    y = np.zeros(len(x))
    for k, share in enumerate(x):
        place = share * sizes
        below = np.minimum(np.floor(place).astype(np.int64), sizes)
        above = np.minimum(below + 1, sizes)
        low = np.where(below > 0, collected[starts + np.maximum(below, 1) - 1], 0.0)
        high = collected[starts + above - 1]
        y[k] = np.mean((low + (place - below) * (high - low)) / totals)
    return Curve(x, y)


def histogram(values: Floats, groups: list[Booleans], n_bins: int = 60) -> tuple[Floats, list[Ints], tuple[int, int]]:
    """Common edges, counts of every group, and how many values lie below and above the edges.

    The edges leave out the outermost thousandth on a side where it takes more room than all the rest.
    """
    low, high = float(values.min()), float(values.max())
    inner_low, inner_high = (float(q) for q in np.quantile(values, [0.001, 0.999]))
    width = inner_high - inner_low
    if width > 0:
        low = inner_low if inner_low - low > width else low
        high = inner_high if high - inner_high > width else high
    if not low < high:
        margin = 0.5 * max(abs(low), 1.0)
        low, high = low - margin, high + margin
    edges = np.linspace(low, high, n_bins + 1)
    counts = [np.histogram(values[group], edges)[0] for group in groups]
    return edges, counts, (int(np.count_nonzero(values < low)), int(np.count_nonzero(values > high)))
