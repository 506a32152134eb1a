"""For one list: what is found if only so many samples can be looked at, which threshold to set, and what errors cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Ints
from maxmargin.ranking import RankedLists
from maxmargin.report.intervals import Interval
from maxmargin.report.plain import number
from maxmargin.report.ranked import Ranked

_FIRST = 1000  # budgets that are all there
_LATER = 500  # budgets beyond, a constant factor apart
_RECALLS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


def table_budgets(n: int) -> Ints:
    """Numbers of samples for the table: 10, 50, 100, and 1, 5 and 10 % of the list.

    >>> table_budgets(3000).tolist(), table_budgets(30).tolist()
    ([10, 30, 50, 100, 150, 300], [1, 2, 3, 10])
    """
    shares = [max(1, round(n * percent / 100)) for percent in (1, 5, 10)]
    return np.unique([k for k in (10, 50, 100, *shares) if k <= n])


def budgets(ranked: list[Ranked], ks: Ints, intervals: list[Interval]) -> dict[str, Any]:
    """Relevant samples among the first k for the slider, and precision and recall at the budgets ``ks`` for the table.

    Tied samples stand in the least favourable order, as for the metrics.
    """
    n = len(ranked[0].lists.rows)
    steps = np.arange(1, min(n, _FIRST) + 1)
    if n > _FIRST:
        steps = np.unique(np.concatenate((steps, np.geomspace(_FIRST, n, _LATER).round().astype(np.int64), ks, [n])))
    found = [np.cumsum(method.lists.relevant) for method in ranked]
    total = int(found[0][-1])
    rows = []
    for k, ends in zip(ks.tolist(), intervals, strict=True):
        hits = int(found[0][k - 1])
        others = [number(hit[k - 1] / k) for hit in found[1:]]
        rows.append([k, number(hits / k), ends.json(), number(hits / total), *others])
    return {"total": total, "steps": steps.tolist(), "hits": [hit[steps - 1].tolist() for hit in found], "rows": rows}


def thresholds(lists: RankedLists) -> dict[str, Any]:
    """Rows for some recalls and for the best F1; and the corners among which the cheapest threshold is, whatever errors cost.

    Everything that scores at least the threshold is flagged, so ties are flagged together.
    """
    score, flagged, hits = _levels(lists)
    below = np.append(score[1:], -np.inf)

    def shown(k: int) -> float:
        return short_threshold(float(below[k]), float(score[k]))

    total = int(hits[-1])
    f1 = 2 * hits / (flagged + total)
    best = int(np.argmax(f1))
    reached = [int(np.searchsorted(hits, np.ceil(share * total - 1e-9))) for share in _RECALLS]
    rows = [
        [shown(k), int(flagged[k]), number(hits[k] / flagged[k]), number(hits[k] / total), number(f1[k])]
        for k in sorted({best, *reached})
    ]
    # Nothing flagged is a choice too: a threshold above all scores.
    alarms, caught = np.append(0, flagged - hits), np.append(0, hits)
    corners = convex_corners(alarms, caught)
    cheapest = [[None if k == 0 else shown(k - 1), int(alarms[k]), int(caught[k])] for k in corners]
    return {"rows": rows, "best": shown(best), "corners": cheapest, "total": total, "samples": int(flagged[-1])}


def short_threshold(below: float, score: float) -> float:
    """The shortest decimal that flags what scores at least ``score`` and nothing that scores ``below``.

    >>> short_threshold(0.2911, 0.29607), short_threshold(-3.0, -2.5), short_threshold(0.1, 0.1 + 1e-16)
    (0.296, -2.5, 0.1000000000000001)
    """
    middle = 0.5 * (max(below, score - 1 - abs(score)) + score)
    for digits in range(2, 17):
        for candidate in (score, middle):
            short = float(f"{candidate:.{digits}g}")
            if below < short <= score:
                return short
    return score


def _levels(lists: RankedLists) -> tuple[NDArray[Any], Ints, Ints]:
    """Distinct scores in descending order, how many samples have at least that score, and how many of them are relevant."""
    last = np.flatnonzero(np.append(lists.scores[1:] != lists.scores[:-1], True))
    hits = np.cumsum(lists.relevant, dtype=np.int64)
    return lists.scores[last], (last + 1).astype(np.int64), hits[last]


def convex_corners(alarms: Ints, hits: Ints) -> list[int]:
    """Corners of the upper hull of points that go up and to the right: the only ones that any costs make the cheapest.

    >>> convex_corners(np.array([0, 0, 2, 3, 6]), np.array([0, 2, 3, 5, 5]))
    [1, 3, 4]
    """
    kept: list[int] = []
    x, y = alarms.tolist(), hits.tolist()
    for k in range(len(x)):
        while kept and x[kept[-1]] == x[k] and y[kept[-1]] <= y[k]:
            kept.pop()
        while len(kept) > 1:
            a, b = kept[-2:]
            if (x[b] - x[a]) * (y[k] - y[a]) < (y[b] - y[a]) * (x[k] - x[a]):
                break
            kept.pop()
        kept.append(k)
    return kept
