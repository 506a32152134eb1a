"""What a random ranking scores on average: the expectation over all orders of a list, exactly."""

from __future__ import annotations

import numpy as np

from maxmargin._types import Floats, Ints


def expected_metric(name: str, sizes: Ints, relevant: Ints, gains: Floats, starts: Ints) -> float:
    """Mean over the queries of the expectation of ``ap``, ``auc``, ``mrr``, ``ndcg``, ``ndcg@K`` or ``p@K``.

    Parameters
    ----------
    name : str
        As in :func:`maxmargin.metrics.evaluate`.
    sizes, relevant : int arrays of shape (q,)
        Samples and relevant samples of every query. As in :mod:`maxmargin.metrics`, a query without relevant samples scores 0.
    gains : array of shape (n,)
        Gains of all samples, queries together, for NDCG.
    starts : int array of shape (q,)
        Where each query begins in ``gains``.

    Examples
    --------
    >>> one, two = np.array([1]), np.array([2])
    >>> expected_metric("ap", two, one, np.array([1.0, 0.0]), np.array([0]))
    0.75
    """
    plain, _, cut = name.partition("@")
    k = int(cut) if cut else None
    if plain == "ndcg":
        return float(np.mean(_ndcg(sizes, gains, starts, k)))
    # Equal queries have equal expectations.
    pairs, times = np.unique(np.stack([sizes, relevant]), axis=1, return_counts=True)
    if k is None:
        formula = {"ap": _ap, "auc": _auc, "mrr": _mrr}[plain]
        values = [formula(int(n), int(p)) if p else 0.0 for n, p in pairs.T]
    else:
        values = [min(k, n) * p / n / k for n, p in pairs.T]
    return float(np.average(values, weights=times))


def _ap(n: int, p: int) -> float:
    # At position r stands a relevant sample with probability p / n; of the r - 1 before it, each is relevant with
    # probability (p - 1) / (n - 1). The sum over r of the precisions there is a harmonic number.
    if n == 1:
        return 1.0
    harmonic = float(np.sum(1.0 / np.arange(1, n + 1))) / n
    return (p - 1) / (n - 1) * (1 - harmonic) + harmonic


def _auc(n: int, p: int) -> float:
    return 0.5 if p < n else 0.0


def _mrr(n: int, p: int) -> float:
    # The first relevant sample stands at r: none among the r - 1 before it.
    r = np.arange(1, n - p + 1)
    none_before = np.append(1.0, np.cumprod((n - p - r + 1) / (n - r + 1)))
    position = np.arange(1, n - p + 2)
    return float(np.sum(none_before * p / (n - position + 1) / position))


def _ndcg(sizes: Ints, gains: Floats, starts: Ints, k: int | None) -> Floats:
    query = np.repeat(np.arange(len(sizes)), sizes)
    position = np.arange(1, len(gains) + 1) - np.repeat(starts, sizes)
    weight = 1 / np.log2(1.0 + position)
    if k is not None:
        weight = weight * (position <= k)
    ideal = np.bincount(query, weights=gains[np.lexsort((-gains, query))] * weight, minlength=len(sizes))
    # Every position holds the mean gain on average.
    expected = np.bincount(query, weights=gains, minlength=len(sizes)) / sizes
    expected = expected * np.bincount(query, weights=weight, minlength=len(sizes))
    return np.divide(expected, ideal, out=np.zeros(len(sizes)), where=ideal > 0)
