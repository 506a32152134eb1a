"""What a random ranking scores on average: the expectation over all orders of a list, exactly."""

from __future__ import annotations

import numpy as np

from maxmargin._utils import Floats
from maxmargin.ranking import RankedLists, discounts, ideal_gain, ratio


def expected_metric(name: str, lists: RankedLists, gains: Floats) -> float:
    """Mean over the queries of the expectation of ``ap``, ``auc``, ``mrr``, ``ndcg``, ``rbp(p=0.8)``, or one of the first places,
    ``ndcg@K``, ``ap@K`` (divided by what K places can hold), ``p@K``, ``mrr@K`` or ``recall@K``.

    ``gains``, of shape (n,), are for NDCG: of the samples of the first query in any order, of the second, ...

    >>> expected_metric("ap", RankedLists([1, 0], [0, 0], None), np.array([1.0, 0.0]))
    0.75
    """
    plain, _, cut = name.partition("@")
    k = int(cut) if cut else None
    if plain == "ndcg":
        # Every position holds the mean gain on average.
        expected = lists.per_query(gains) / lists.sizes * lists.per_query(discounts(lists.place, k))
        return float(np.mean(ratio(expected, ideal_gain(lists, gains, k))))
    # Equal queries have equal expectations.
    pairs, times = np.unique(np.stack([lists.sizes, lists.per_query(lists.relevant)]), axis=1, return_counts=True)
    if plain.startswith("rbp"):
        persistence = float(plain.partition("=")[2].rstrip(")") or 0.8)
        values = [p / n * (1 - persistence ** int(n)) for n, p in pairs.T]
    elif k is None:
        formula = {"ap": _ap, "auc": _auc, "mrr": _mrr}[plain]
        values = [formula(int(n), int(p)) if p else 0.0 for n, p in pairs.T]
    elif plain == "ap":
        values = [_ap_at(int(n), int(p), k) if p else 0.0 for n, p in pairs.T]
    elif plain == "mrr":
        values = [_mrr(int(n), int(p), k) if p else 0.0 for n, p in pairs.T]
    elif plain == "recall":
        values = [min(k, n) / n if p else 0.0 for n, p in pairs.T]
    elif plain == "p":
        values = [min(k, n) * p / n / k for n, p in pairs.T]
    else:
        raise ValueError(f"metric {name!r} is unknown; choose from ap, auc, mrr, ndcg, rbp, ap@K, ndcg@K, p@K, mrr@K, recall@K")
    return float(np.average(values, weights=times))


def _ap(n: int, p: int) -> float:
    # At position r stands a relevant sample with probability p / n; of the r - 1 before it, each is relevant with
    # probability (p - 1) / (n - 1). The sum over r of the precisions there is a harmonic number.
    if n == 1:
        return 1.0
    harmonic = float(np.sum(1.0 / np.arange(1, n + 1))) / n
    return (p - 1) / (n - 1) * (1 - harmonic) + harmonic


def _ap_at(n: int, p: int, k: int) -> float:
    # As above, over the first k positions.
    r = np.arange(1, min(n, k) + 1)
    precision = (1 + (r - 1) * (p - 1) / max(n - 1, 1)) / r
    return float(p / n * np.sum(precision)) / min(p, k)


def _auc(n: int, p: int) -> float:
    return 0.5 if p < n else 0.0


def _mrr(n: int, p: int, k: int | None = None) -> float:
    # The first relevant sample stands at r: none among the r - 1 before it.
    r = np.arange(1, n - p + 1)
    none_before = np.append(1.0, np.cumprod((n - p - r + 1) / (n - r + 1)))
    position = np.arange(1, n - p + 2)
    return float(np.sum((none_before * p / (n - position + 1) / position)[:k]))
