"""Metrics of rankings by score, on a shard: of whole queries here, of scattered ones what the client needs to know.

In every metric the irrelevant samples gain nothing: they only push others back. So of a list that lies in several shards the
scores and grades of the relevant samples are sent, and to each of them every shard adds how many irrelevant ones it has above,
ties standing in the least favourable order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._utils import Floats, Ints
from maxmargin.ranking import RankedLists, RankingLoss, checked_loss, losses_by_score, metric_named, per_query, plain_name

# Among the names of metrics: 1 - the loss that was asked for.
LOSS = "1 - loss"


def views(y: Floats, asked: dict[str, Any]) -> list[Floats]:
    """Grades to be judged by: the labels themselves, counted from a base, or whether they are above each threshold.

    >>> views(np.array([1.0, 2.0]), {"base": 1.0}), views(np.array([1.0, 2.0]), {"thresholds": np.array([0.0])})
    ([array([0., 1.])], [array([1., 1.])])
    """
    if "thresholds" in asked:
        return [(y > threshold).astype(np.float64) for threshold in asked["thresholds"]]
    base = asked.get("base")
    return [y if base is None else np.where(y > base, y - np.floor(base), 0.0)]


def whole_sums(
    grades: Floats, scores: Floats, sizes: Ints, weights: Floats, names: Sequence[str], gains: Any, loss: RankingLoss | None
) -> list[float]:
    """The sum over queries of weight times metric, for every name; queries lie one after the other."""
    if not len(sizes):
        return [0.0] * len(names)
    plain = [name for name in names if name != LOSS]
    found, _ = per_query(grades, scores, qid=np.repeat(np.arange(len(sizes)), sizes), metrics=plain, gains=gains)
    if LOSS in names:
        assert loss is not None
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        found[LOSS] = 1.0 - losses_by_score(scores, (grades > 0).astype(np.uint8), offsets, checked_loss(loss), 1)
    return [math.fsum((weights * found[name]).tolist()) for name in names]


def irrelevant_above(relevant: Floats, irrelevant: Floats) -> tuple[Ints, Ints]:
    """For relevant scores in rising order: how many irrelevant ones are at least as high, and how many are higher.

    >>> irrelevant_above(np.array([0.0, 1.0]), np.array([1.0, 2.0, -3.0]))
    (array([2, 2]), array([2, 1]))
    """
    n = len(relevant)

    def counted(side: Any) -> Ints:
        # An irrelevant one counts for all relevant ones before its place.
        places = np.bincount(np.searchsorted(relevant, irrelevant, side=side), minlength=n + 1)
        return np.asarray(np.cumsum(places[::-1])[::-1][1:], dtype=np.int64)

    return counted("right"), counted("left")


class JudgedList(RankedLists):
    """The relevant samples of one list at their positions; for metrics to which the others add nothing.

    Parameters
    ----------
    grades, scores : arrays of shape (P,)
        Of the relevant samples, in rising order of score.
    above : int array of shape (P,)
        Irrelevant samples whose scores are at least as high.
    """

    def __init__(self, grades: Floats, scores: Floats, above: Ints) -> None:
        # Of equal scores the lower grade stands first.
        order = np.lexsort((grades, -scores))
        n = len(order)
        self.grades, self.scores, self.relevant = grades[order], scores[order], np.ones(n, dtype=bool)
        self.query, self.starts, self.sizes = np.zeros(n, dtype=np.int64), np.zeros(1, dtype=np.int64), np.array([n])
        self.n_queries, self.rows = 1, order
        self.place = np.arange(1, n + 1)
        self.position = (self.place + above[order]).astype(np.float64)
        self.above = above[order]


def judged(name: str, found: JudgedList, n_irrelevant: int, higher: Ints, gains: Any, loss: RankingLoss | None) -> float:
    """A metric of a scattered list, as :func:`maxmargin.ranking.metrics.per_query` has it of a whole one."""
    n = len(found.grades)
    if name == LOSS:
        assert loss is not None
        return 1.0 - (checked_loss(loss).value(found.above, n_irrelevant) if n and n_irrelevant else 0.0)
    if n == 0:
        return 0.0
    if plain_name(name) == "auc":
        # Ties count one half.
        pairs = n * n_irrelevant
        return 0.0 if pairs == 0 else (pairs - 0.5 * (int(found.above.sum()) + int(higher.sum()))) / pairs
    return float(metric_named(name, gains)(found)[0])
