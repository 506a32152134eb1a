"""Ranking metrics as evaluation campaigns define them, for one list or for the mean over queries.

They take ``(relevance, scores)``; with ``qid`` the metric of every query is averaged (so ``average_precision``
becomes MAP and ``reciprocal_rank`` MRR). Samples with tied scores are put in the least favourable order, so a constant scorer
never looks good; evaluation tools that know document names break ties by name. A query without relevant samples scores 0, as
in ``trec_eval``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Floats, check_scores
from maxmargin.io import query_offsets

__all__ = [
    "auc", "average_precision", "evaluate", "interpolated_average_precision", "ndcg", "per_query",
    "precision", "reciprocal_rank",
]  # fmt: skip

Gains = Literal["linear", "exponential"]


class RankedLists:
    """Samples sorted by query and descending score, ties with the less relevant first, those not retrieved at the end."""

    def __init__(
        self, relevance: ArrayLike, scores: ArrayLike, qid: ArrayLike | None, retrieved: ArrayLike | None = None
    ) -> None:
        values = check_scores(scores)
        if not np.isfinite(values).all():
            raise ValueError("scores must be finite, but contains NaN or infinite values")
        grades = np.asarray(relevance)
        if grades.shape != values.shape:
            raise ValueError(f"relevance has shape {grades.shape}, but scores has shape {values.shape}; they must be equal")
        if grades.dtype.kind not in "fiub":
            raise TypeError(f"relevance must be numbers or booleans, but has dtype {grades.dtype}")
        grades = grades.astype(np.float64)
        if not np.isfinite(grades).all():
            raise ValueError("relevance must be finite, but contains NaN or infinite values")
        found = np.ones(len(values), dtype=bool) if retrieved is None else np.asarray(retrieved)
        if found.shape != values.shape or found.dtype != np.bool_:
            raise ValueError(f"retrieved must be {len(values)} booleans, but has shape {found.shape} and dtype {found.dtype}")
        rows = None
        if qid is None:
            self.qid: NDArray[Any] = np.array([""])
            offsets = np.array([0, len(values)], dtype=np.int64)
        else:
            self.qid, offsets, rows = query_offsets(qid, len(values))
            if rows is not None:
                values, grades, found = values[rows], grades[rows], found[rows]
        sizes = np.diff(offsets)
        query = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((grades, -values, ~found, query))
        self.scores = values[order]
        self.grades = grades[order]
        self.relevant = self.grades > 0
        self.rows = order if rows is None else rows[order]  # where each sample stood in the input
        self.query = query
        self.starts = offsets[:-1]
        self.sizes = sizes
        self.n_queries = len(sizes)
        self.place = np.arange(1, len(values) + 1) - np.repeat(self.starts, sizes)
        # What was not retrieved stands at no position.
        self.position = np.where(found[order], self.place, np.inf)

    def per_query(self, values: NDArray[Any]) -> Floats:
        """Sum over each query."""
        return np.bincount(self.query, weights=values, minlength=self.n_queries).astype(np.float64, copy=False)

    def seen(self, values: NDArray[Any]) -> Floats:
        """Running sum inside each query."""
        running: Floats = np.cumsum(values, dtype=np.float64)
        before = running[self.starts] - values[self.starts]
        return np.asarray(running - np.repeat(before, self.sizes))


def average_precision(relevance: ArrayLike, scores: ArrayLike, *, qid: ArrayLike | None = None) -> float:
    """Mean over the relevant samples of the precision at their position; MAP with ``qid``.

    Parameters
    ----------
    relevance : array of shape (n,)
        Grades or booleans; relevant means greater than zero.
    scores : array of shape (n,)
        Finite, higher is better.
    qid : array of shape (n,), optional
        Query of each sample; without it all samples form one list.

    Examples
    --------
    >>> average_precision([1, 0, 0, 0, 1], [5, 4, 3, 2, 1])
    0.7
    """
    return float(_average_precision(RankedLists(relevance, scores, qid)).mean())


def interpolated_average_precision(
    relevance: ArrayLike, scores: ArrayLike, *, points: int | None = None, qid: ArrayLike | None = None
) -> float:
    """Average precision with the precision at a recall replaced by the best one at that recall or beyond, as in PASCAL VOC.

    Parameters
    ----------
    relevance, scores, qid
        As in :func:`average_precision`.
    points : int, optional
        Mean over so many equally spaced recalls from 0 to 1 (11 in VOC 2007); by default the area under the curve (VOC 2010
        and later).

    Examples
    --------
    >>> interpolated_average_precision([0, 1, 1, 0], [4, 3, 2, 1])
    0.6666666666666666
    >>> round(interpolated_average_precision([1, 0, 0, 1], [4, 3, 2, 1], points=11), 4)
    0.7727
    """
    if points is not None and points < 2:
        raise ValueError(f"points={points} must be at least 2 (recalls 0 and 1), or None for the area under the curve")
    lists = RankedLists(relevance, scores, qid)
    relevant = lists.relevant
    precisions = lists.seen(relevant) / lists.position
    total = 0.0
    for begin, end in zip(lists.starts, [*lists.starts[1:], len(relevant)], strict=True):
        here = precisions[begin:end][relevant[begin:end]]
        if len(here):
            best = np.maximum.accumulate(here[::-1])[::-1]
            # Recall k / (points - 1) is reached at that share of the relevant samples, rounded up in whole numbers.
            at = slice(None) if points is None else np.maximum(0, -(-np.arange(points) * len(here) // (points - 1)) - 1)
            total += float(best[at].mean())
    return total / lists.n_queries


def reciprocal_rank(relevance: ArrayLike, scores: ArrayLike, *, qid: ArrayLike | None = None) -> float:
    """One over the position of the first relevant sample; MRR with ``qid``. Arguments as in :func:`average_precision`.

    >>> reciprocal_rank([0, 0, 1], [3, 2, 1])
    0.3333333333333333
    """
    return float(_reciprocal_rank(RankedLists(relevance, scores, qid)).mean())


def precision(relevance: ArrayLike, scores: ArrayLike, *, k: int, qid: ArrayLike | None = None) -> float:
    """Relevant samples among the first ``k``, divided by ``k`` (also where a list is shorter).

    >>> precision([1, 0, 1, 0], [4, 3, 2, 1], k=2)
    0.5
    """
    return float(_precision(RankedLists(relevance, scores, qid), k).mean())


def auc(relevance: ArrayLike, scores: ArrayLike, *, qid: ArrayLike | None = None) -> float:
    """Fraction of (relevant, irrelevant) pairs in the right order, ties counting one half; 0 without such pairs.

    >>> auc([1, 0, 1, 0], [4, 3, 2, 1])
    0.75
    """
    return float(_auc(RankedLists(relevance, scores, qid)).mean())


def ndcg(
    relevance: ArrayLike, scores: ArrayLike, *, k: int | None = None, gains: Gains = "linear", qid: ArrayLike | None = None
) -> float:
    """Normalised discounted cumulative gain with the discount ``1 / log2(1 + position)``.

    Parameters
    ----------
    relevance : array of shape (n,)
        Grades; those of zero or less gain nothing.
    scores, qid
        As in :func:`average_precision`.
    k : int, optional
        Count only the first k positions (NDCG@k), in the ideal ranking too.
    gains : {"linear", "exponential"}
        The grade itself (as ``trec_eval`` and scikit-learn) or ``2**grade - 1`` (as LETOR, LightGBM and XGBoost).

    Examples
    --------
    >>> round(ndcg([1, 0, 0, 0, 1], [5, 4, 3, 2, 1]), 6)
    0.850345
    """
    return float(_ndcg(RankedLists(relevance, scores, qid), k, gains).mean())


DEFAULT_METRICS = ("map", "mrr", "ndcg", "ndcg@10", "p@10", "auc")


def evaluate(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    metrics: Iterable[str] = DEFAULT_METRICS,
    gains: Gains = "linear",
    retrieved: ArrayLike | None = None,
) -> dict[str, float]:
    """Several metrics by name, as ``trec_eval`` and ``ir_measures`` define them.

    ``ap`` (``map``), ``mrr`` (``rr``), ``ndcg`` and ``err``, also with a cut-off, ``ndcg@10``; ``p@K``, ``recall@K`` and
    ``success@K``; ``rprec``, precision at the number of relevant samples; ``rbp``, rank-biased precision with persistence 0.8, or
    ``rbp(p=0.9)``; ``auc``. ``ap@K`` is divided by the number of all relevant samples. Grades of ``err`` go up to 4, as in
    ``gdeval``, or to 2 in ``err(max=2)``. Names are taken in any case, and as ``trec_eval`` spells them: ``ndcg_cut_10``,
    ``P_5``, ``recall_20``, ``recip_rank``.

    ``retrieved`` as in :func:`per_query`.

    Examples
    --------
    >>> evaluate([1, 0, 1, 0], [4, 3, 2, 1], metrics=["map", "p@1"])
    {'map': 0.8333333333333333, 'p@1': 1.0}
    """
    values, _ = per_query(relevance, scores, qid=qid, metrics=metrics, gains=gains, retrieved=retrieved)
    return {name: float(value.mean()) for name, value in values.items()}


def per_query(
    relevance: ArrayLike,
    scores: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    metrics: Iterable[str] = DEFAULT_METRICS,
    gains: Gains = "linear",
    retrieved: ArrayLike | None = None,
    query_names: Sequence[Any] | None = None,
) -> tuple[dict[str, Floats], Any]:
    """The metrics of every query, and the query ids in the same order (that of first appearance).

    Where ``query_names`` are given, as readers of files do, ``qid`` are codes, places in them, and the names are returned.

    Where ``retrieved`` (booleans, shape (n,)) is False, a sample is known but was not returned by the search that is evaluated:
    it counts among the relevant samples there are, and stands at no position (for ``auc``, below all others).

    Examples
    --------
    >>> values, queries = per_query([1, 0, 0, 1], [4, 3, 2, 1], qid=["a", "a", "b", "b"], metrics=["ap"])
    >>> values["ap"], queries
    (array([1. , 0.5]), array(['a', 'b'], dtype=object))
    """
    wanted = {name: metric_named(name, gains) for name in metrics}
    lists = RankedLists(relevance, scores, qid, retrieved)
    ids = lists.qid if query_names is None else [query_names[code] for code in lists.qid.tolist()]
    return {name: metric(lists) for name, metric in wanted.items()}, ids


_FORM = re.compile(r"(?P<plain>[a-z_]+)(\((?P<key>p|max)=(?P<value>[^)]*)\))?(@(?P<k>[0-9]{1,18}))?")
# Names of evaluation tools and losses, and what they are called here.
_OTHER_NAMES = {
    "map": "ap", "average_precision": "ap", "rr": "mrr", "recip_rank": "mrr", "reciprocal_rank": "mrr", "precision": "p",
    "r": "recall", "r_precision": "rprec", "rank_biased_precision": "rbp", "roc_auc": "auc",
}  # fmt: skip
_KNOWN = "ap[@K], mrr[@K], ndcg[@K], p@K, recall@K, success@K, rprec, rbp, rbp(p=0.9), err[@K], err(max=2)[@K], auc"


def plain_name(name: str) -> str:
    """The one name of a metric that has several, also of losses; any other text as it is.

    >>> plain_name("nDCG_cut_10"), plain_name("R@20"), plain_name("recip_rank"), plain_name("RBP(p=0.9)")
    ('ndcg@10', 'recall@20', 'mrr', 'rbp(p=0.9)')
    """
    parts = _parts(name)
    if parts is None:
        return name
    key = "" if parts["key"] is None else f"({parts['key']}={parts['value']})"
    return _OTHER_NAMES.get(parts["plain"], parts["plain"]) + key + ("" if parts["k"] is None else f"@{parts['k']}")


def _parts(name: str) -> re.Match[str] | None:
    # As trec_eval has them, ndcg_cut_10 and P_5.
    return _FORM.fullmatch(re.sub(r"(_cut)?_([0-9]+)$", r"@\2", name.lower()))


def metric_named(name: str, gains: Gains) -> Callable[[RankedLists], Floats]:
    """The metric of every query, by a name that :func:`evaluate` takes."""
    parts = _parts(name)
    found = None if parts is None else _metric_of(parts, gains)
    if found is None:
        raise ValueError(f"metric {name!r} is unknown; choose from {_KNOWN}, K a whole number of first places, at least 1")
    return found


def _metric_of(parts: re.Match[str], gains: Gains) -> Callable[[RankedLists], Floats] | None:
    plain, key = _OTHER_NAMES.get(parts["plain"], parts["plain"]), parts["key"]
    k = None if parts["k"] is None else int(parts["k"])
    if k == 0 or (key is not None and (plain, key) not in (("rbp", "p"), ("err", "max"))):
        return None
    if plain == "rbp" and k is None:
        return partial(_rank_biased_precision, persistence=0.8 if key is None else _number(parts["value"]))
    if plain == "err":
        return partial(_expected_reciprocal_rank, k=k, highest=4.0 if key is None else _number(parts["value"]))
    if plain == "ndcg":
        return partial(_ndcg, k=k, gains=gains)
    if plain in _ALL_OR_FIRST:
        return partial(_ALL_OR_FIRST[plain], k=k)
    if plain in _FIRST and k is not None:
        return partial(_FIRST[plain], k=k)
    return _WHOLE_LIST.get(plain) if k is None else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} in the name of a metric is not a number; write rbp(p=0.8) or err(max=4), say") from None


def _average_precision(lists: RankedLists, k: int | None = None) -> Floats:
    _check_k(k)
    precision_here = lists.seen(lists.relevant) / lists.position
    counted = lists.relevant & (lists.position <= _places(k))
    return ratio(lists.per_query(precision_here * counted), lists.per_query(lists.relevant))


def _reciprocal_rank(lists: RankedLists, k: int | None = None) -> Floats:
    _check_k(k)
    first = lists.relevant & (lists.seen(lists.relevant) == 1) & (lists.position <= _places(k))
    return lists.per_query(first / lists.position)


def _hits(lists: RankedLists, k: int) -> Floats:
    _check_k(k)
    return lists.per_query(lists.relevant & (lists.position <= k))


def _precision(lists: RankedLists, k: int) -> Floats:
    return _hits(lists, k) / k


def _recall(lists: RankedLists, k: int) -> Floats:
    return ratio(_hits(lists, k), lists.per_query(lists.relevant))


def _success(lists: RankedLists, k: int) -> Floats:
    return np.asarray(_hits(lists, k) > 0, dtype=np.float64)


def _r_precision(lists: RankedLists) -> Floats:
    total = lists.per_query(lists.relevant)
    return ratio(lists.per_query(lists.relevant & (lists.position <= total[lists.query])), total)


def _rank_biased_precision(lists: RankedLists, persistence: float) -> Floats:
    if not 0 < persistence < 1:
        raise ValueError(f"persistence p={persistence:g} of rbp must be between 0 and 1, 0.8 say")
    return (1 - persistence) * lists.per_query(np.where(lists.relevant, persistence ** (lists.position - 1), 0.0))


def _expected_reciprocal_rank(lists: RankedLists, k: int | None, highest: float) -> Floats:
    _check_k(k)
    if not highest >= 1 or not np.isfinite(highest):
        raise ValueError(f"the highest grade max={highest:g} of err must be at least 1")
    largest = lists.grades.max(initial=0.0)
    if largest > highest:
        raise ValueError(f"relevance has the grade {largest:g}, but err knows grades up to {highest:g}; use err(max={largest:g})")
    # Whoever looks at a sample stops there with this probability, which is never 1.
    stops = np.where(lists.position <= _places(k), (np.exp2(np.maximum(lists.grades, 0.0)) - 1) / np.exp2(highest), 0.0)
    onward = np.log1p(-stops)
    return lists.per_query(stops * np.exp(lists.seen(onward) - onward) / lists.position)


def _places(k: int | None) -> float:
    # What was not retrieved stands at no position, which is infinite.
    return np.finfo(np.float64).max if k is None else k


def _auc(lists: RankedLists) -> Floats:
    relevant = lists.relevant
    # Ties stand with the irrelevant first: give back half of what that costs.
    tied = np.concatenate(([False], (lists.scores[1:] == lists.scores[:-1]) & (lists.query[1:] == lists.query[:-1])))
    block = np.cumsum(~tied) - 1
    in_block = np.bincount(block, weights=~relevant)[block]
    irrelevant_above = lists.seen(~relevant) - 0.5 * in_block
    pairs = lists.per_query(relevant) * lists.per_query(~relevant)
    return ratio(pairs - lists.per_query(irrelevant_above * relevant), pairs)


def _ndcg(lists: RankedLists, k: int | None, gains: Gains) -> Floats:
    _check_k(k)
    if gains not in ("linear", "exponential"):
        raise ValueError(f"gains={gains!r} is unknown; choose 'linear' or 'exponential'")
    grades = np.maximum(lists.grades, 0)
    gain = np.exp2(grades) - 1 if gains == "exponential" else grades
    return ratio(lists.per_query(gain * discounts(lists.position, k)), ideal_gain(lists, gain, k))


def discounts(position: NDArray[Any], k: int | None) -> Floats:
    """Those of DCG; nothing after the first ``k`` positions."""
    return np.where(position <= (np.inf if k is None else k), 1 / np.log2(1.0 + position), 0.0)


def ideal_gain(lists: RankedLists, gain: Floats, k: int | None) -> Floats:
    """The largest DCG of every query, from the gains of its samples in any order."""
    return lists.per_query(gain[np.lexsort((-gain, lists.query))] * discounts(lists.place, k))


_WHOLE_LIST: dict[str, Callable[[RankedLists], Floats]] = {"auc": _auc, "rprec": _r_precision}
_ALL_OR_FIRST: dict[str, Callable[..., Floats]] = {"ap": _average_precision, "mrr": _reciprocal_rank}
_FIRST: dict[str, Callable[..., Floats]] = {"p": _precision, "recall": _recall, "success": _success}


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient, or 0 where there is nothing to divide by."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _check_k(k: int | None) -> None:
    if k is not None and k < 1:
        raise ValueError(f"k={k} must be at least 1, or None for the whole list")
