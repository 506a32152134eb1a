"""Ranking metrics as evaluation campaigns define them, for one list or for the mean over queries; scores of parsed sentences.

Those of rankings take ``(relevance, scores)``; with ``qid`` the metric of every query is averaged (so ``average_precision``
becomes MAP and ``reciprocal_rank`` MRR). Samples with tied scores are put in the least favourable order, so a constant scorer
never looks good; evaluation tools that know document names break ties by name. A query without relevant samples scores 0, as
in ``trec_eval``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._types import Floats
from maxmargin._validation import check_scores, tree_of
from maxmargin.queries import query_offsets

__all__ = [
    "attachment_scores", "auc", "average_precision", "evaluate", "interpolated_average_precision", "ndcg", "per_query",
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
    """Several metrics by name: ``map`` (or ``ap``), ``mrr``, ``ndcg``, ``ndcg@K``, ``p@K``, ``auc``.

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


def metric_named(name: str, gains: Gains) -> Callable[[RankedLists], Floats]:
    """The metric of every query, by a name that :func:`evaluate` takes."""
    plain, at, cut = name.lower().partition("@")
    k = int(cut) if cut.isdigit() and int(cut) > 0 else None
    if not at or k is not None:
        if plain == "ndcg":
            return lambda lists: _ndcg(lists, k, gains)
        if plain in ("p", "precision") and k is not None:
            return lambda lists: _precision(lists, k)
        if plain in _WHOLE_LIST and not at:
            return _WHOLE_LIST[plain]
    known = ", ".join([*_WHOLE_LIST, "ndcg", "ndcg@K", "p@K"])
    raise ValueError(f"metric {name!r} is unknown; choose from {known}")


def _average_precision(lists: RankedLists) -> Floats:
    precision_here = lists.seen(lists.relevant) / lists.position
    return ratio(lists.per_query(precision_here * lists.relevant), lists.per_query(lists.relevant))


def _reciprocal_rank(lists: RankedLists) -> Floats:
    first = lists.relevant & (lists.seen(lists.relevant) == 1)
    return lists.per_query(first / lists.position)


def _precision(lists: RankedLists, k: int) -> Floats:
    _check_k(k)
    return lists.per_query(lists.relevant & (lists.position <= k)) / k


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


_WHOLE_LIST: dict[str, Callable[[RankedLists], Floats]] = {
    "ap": _average_precision,
    "map": _average_precision,
    "mrr": _reciprocal_rank,
    "auc": _auc,
}


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """The quotient, or 0 where there is nothing to divide by."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _check_k(k: int | None) -> None:
    if k is not None and k < 1:
        raise ValueError(f"k={k} must be at least 1, or None for the whole list")


class AttachmentScores(NamedTuple):
    """How many words of parsed sentences are right.

    Attributes
    ----------
    uas : float
        Part of the words with the right head.
    las : float
        Part of the words with the right head and the right label; NaN if there are no labels.
    n_words : int
        How many words were looked at.
    """

    uas: float
    las: float
    n_words: int


def attachment_scores(truth: Sequence[Any], found: Sequence[Any], *, skip: Sequence[ArrayLike] | None = None) -> AttachmentScores:
    """Unlabelled and labelled attachment scores of dependency trees, over all words of all sentences.

    Parameters
    ----------
    truth, found : sequences of trees
        Each with heads and labels: a :class:`maxmargin.data.Sentence`, a pair ``(heads, labels)``, or heads alone.
    skip : sequence of boolean arrays, optional
        Words that do not count, punctuation say: ``[[tag == "PUNCT" for tag in sentence.tags] for sentence in truth]``.

    Examples
    --------
    >>> attachment_scores([([2, 0], ["nsubj", "root"])], [([2, 0], ["obj", "root"])])
    AttachmentScores(uas=1.0, las=0.5, n_words=2)
    """
    if len(truth) != len(found) or (skip is not None and len(skip) != len(truth)):
        raise ValueError(f"truth has {len(truth)} sentences and found {len(found)}; they must be equal, as must be those of skip")
    heads = labels = total = 0
    labelled = True
    for k, (one, other) in enumerate(zip(truth, found, strict=True)):
        (true_heads, true_labels), (found_heads, found_labels) = tree_of(one), tree_of(other)
        right = np.asarray(true_heads)
        if right.shape != np.shape(found_heads):
            raise ValueError(f"sentence {k} has {right.size} words in truth, but {np.size(found_heads)} in found")
        right = right == np.asarray(found_heads)
        counts = np.ones(len(right), dtype=bool) if skip is None else ~np.asarray(skip[k], dtype=bool)
        if counts.shape != right.shape:
            raise ValueError(f"sentence {k} has {len(right)} words, but {counts.size} entries in skip")
        total += int(counts.sum())
        heads += int((right & counts).sum())
        if true_labels is None or found_labels is None:
            labelled = False
        else:
            labels += int((right & counts & (np.asarray(true_labels) == np.asarray(found_labels))).sum())
    if total == 0:
        raise ValueError("there are no words to look at; at least one must count")
    return AttachmentScores(heads / total, labels / total if labelled else float("nan"), total)
