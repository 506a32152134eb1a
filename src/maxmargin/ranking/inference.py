"""The ranking that violates the margin most, exactly.

For scores ``s`` the structured hinge of a rank loss is ``J = max over rankings R of delta(R) + F(R) - F(R*)``, with
``F(R)`` the mean over (positive, negative) pairs of the score difference, signed by their order in R (thesis chapter 3).
For QS-suitable losses, in long lists with few positives, it is found in less time than sorting the scores takes; see
``cpp/ranking/buckets.hpp`` for how. Losses with a cut-off leave little to decide and are as quick, ``cpp/ranking/cutoff.hpp``.
For all others a dynamic program over the places of the positives finds it, ``cpp/ranking/table.hpp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Bytes, Floats, Int32s, Ints, Reals, check_both_classes, check_relevant, check_scores, thread_count
from maxmargin.io import in_input_order, query_offsets
from maxmargin.ranking._exhaustive import solve_exhaustively
from maxmargin.ranking.checked import MAX_PAIRS, checked_loss
from maxmargin.ranking.losses import RankingLoss, ranking_loss

Method = Literal["auto", "quicksort", "sort", "greedy", "table", "exhaustive"]
_METHODS = get_args(Method)


@dataclass(eq=False, repr=False)
class ViolatingRanking:
    """The most violating ranking of one list.

    Attributes
    ----------
    loss : float
        Its loss ``delta``, between 0 and 1 for the built-in losses.
    hinge : float
        ``J >= loss of the ranking by score``; convex in the scores.
    gradient : array of shape (n,)
        A subgradient ``dJ/dscores`` in input order, of the scores' floating type; it sums to zero.
    n_pos, n_neg : int
        Sizes of the two classes.
    """

    loss: float
    hinge: float
    gradient: Reals
    _scores: Reals
    _positives: Int32s
    _negatives_above: Ints
    # In double precision, where the gradient has fewer digits than there are positives.
    _slopes: Reals | None = None

    def __post_init__(self) -> None:
        self.n_pos = len(self._positives)
        self.n_neg = len(self._scores) - self.n_pos

    @cached_property
    def interleaving(self) -> Ints:
        """For every sample in input order: one plus the number of samples of the other class above it, shape (n,)."""
        # The gradient of a negative is 2/(PN) for every positive below it.
        slopes = self.gradient if self._slopes is None else self._slopes
        below = np.rint(slopes.astype(np.float64) * (0.5 * self.n_pos * self.n_neg)).astype(np.int64)
        ranks: Ints = self.n_pos + 1 - below
        ranks[self._positives] = self._negatives_above + 1
        return ranks

    def ranking(self) -> NDArray[np.intp]:
        """Indices of the samples from first to last in the most violating ranking, shape (n,).

        Each class is in descending order of score; ties are in input order.
        """
        is_negative = np.ones(len(self._scores), dtype=bool)
        is_negative[self._positives] = False
        # A negative of interleaving rank r comes right before the r-th positive.
        group = self.interleaving.copy()
        group[self._positives] = np.arange(1, self.n_pos + 1)
        return np.lexsort((-self._scores, ~is_negative, group))

    def __repr__(self) -> str:
        return f"ViolatingRanking(loss={self.loss:.6g}, hinge={self.hinge:.6g}, n_pos={self.n_pos}, n_neg={self.n_neg})"


def most_violating_ranking(
    scores: ArrayLike,
    relevant: ArrayLike,
    loss: str | RankingLoss = "ap",
    *,
    method: Method = "auto",
    loss_scale: float = 1.0,
    n_jobs: int | None = None,
) -> ViolatingRanking:
    """Find the ranking that violates the margin most.

    Parameters
    ----------
    scores : array of shape (n,)
        Finite scores, higher is better. float32 and float64 are used as they are.
    relevant : array of shape (n,)
        Booleans (or zeros and ones): the positives.
    loss : str or RankingLoss
        ``"ap"``, ``"ndcg"``, ``"auc"``, ``"mrr"``, ``"rbp"``, with cut-offs ``"ndcg@10"``, ``"ap@10"``, ``"mrr@10"``,
        ``"p@5"`` and ``"recall@20"``, or a loss object.
    method : {"auto", "quicksort", "sort", "greedy", "table", "exhaustive"}
        All are exact. ``"auto"`` is the fastest; the others are for comparison. Published for QS-suitable losses, and refused
        for others: quicksort-flavoured divide and conquer, a full sort with monotone search, the O(PN) scan. For any loss: the
        O(PN) dynamic program, and the enumeration of all rankings (short lists only).
    loss_scale : float
        The loss counts so many times in the maximum: the hinge is that of ``loss_scale * delta + F(R) - F(R*)``. With 0 the
        answer is the ranking by score; negative scales take O(PN) time, unless the loss has a cut-off.
    n_jobs : int, optional
        Threads; all available cores by default (also for -1). Lists of some 100,000 samples use one, and the result does not
        depend on their number.

    Notes
    -----
    Where several places of a negative are equally good it takes the lowest; tied negatives are interchangeable.
    ``"auto"`` takes O(N + P log N) time unless nearly all scores coincide without being equal, and for a built-in loss with a
    cut-off k O(k^2) more. A loss written in Python that is
    not a :class:`~maxmargin.ranking.Discounted` one first has its O(PN) differences looked at; if they fall anywhere, or the
    list is short, the dynamic program finds the ranking, in O(PN) time and PN bits.

    Examples
    --------
    >>> found = most_violating_ranking([2.0, 1.0, 0.5, 0.0], [True, False, True, False], "ap")
    >>> found.interleaving
    array([1, 2, 2, 3])
    >>> round(found.loss, 6), round(found.hinge, 6)
    (0.166667, 0.416667)
    >>> found.ranking()
    array([0, 1, 2, 3])
    """
    if method not in _METHODS:
        raise ValueError(f"method={method!r} is unknown; choose one of {', '.join(map(repr, _METHODS))}")
    if not math.isfinite(loss_scale):
        raise ValueError(f"loss_scale={loss_scale} must be finite")
    loss = ranking_loss(loss)
    values = check_scores(scores)
    truth = check_relevant(relevant, len(values))
    if method == "exhaustive":
        check_both_classes(truth)
        return ViolatingRanking(*solve_exhaustively(values, truth, checked_loss(loss), loss_scale))
    many = values.dtype == np.float32 and len(values) > _DIGITS_OF_SINGLES and np.count_nonzero(truth) > _DIGITS_OF_SINGLES
    wide = values.astype(np.float64) if many else values
    delta, hinge, gradient, positives, above = _solve_list(wide, truth, loss, method, loss_scale, thread_count(n_jobs))
    if len(positives) in (0, len(values)):
        check_both_classes(truth)  # raises; the kernel has counted the positives already
    if many:
        return ViolatingRanking(delta, hinge, gradient.astype(np.float32), values, positives, above, gradient)
    return ViolatingRanking(delta, hinge, gradient, values, positives, above)


# Ranks are read off the gradient; those of more positives than that are not whole numbers in single precision.
_DIGITS_OF_SINGLES = 2**22
# Up to so many pairs a loss written in Python is asked once for all of them, which takes less time than forty questions.
_FEW_PAIRS = 2**13


def _solve_list(
    values: Reals, truth: Bytes, loss: RankingLoss, how: str, loss_scale: float, n_threads: int
) -> tuple[float, float, Reals, Int32s, Ints]:
    """Loss, hinge, gradient, positives (best first) and the number of negatives above each positive."""
    name = loss.native_name()
    cut = loss.at is not None and loss.at < len(values)
    if name is not None and (how == "auto" if cut else loss_scale >= 0 and how != "table"):
        if cut:
            _refuse_too_many(loss, truth, np.array([0, len(truth)]), loss_scale)
        return _core.solve_list(values, truth, name, how, loss_scale, n_threads)[:5]
    loss = checked_loss(loss)
    n_pos = int(np.count_nonzero(truth))
    n_neg = len(truth) - n_pos
    if n_pos > 0 and n_neg > 0:
        if how in ("quicksort", "sort", "greedy") and not (loss_scale >= 0 and loss.is_suitable(n_pos, n_neg)):
            why = "with a loss that counts negatively" if loss_scale < 0 else f"for loss={loss!r}, which is not QS-suitable"
            raise ValueError(f"method={how!r} does not find the maximum {why}; use 'auto' or 'table'")
        if loss_scale == 0:
            name, how = "auc", "auto"  # no loss has a say
        elif how == "auto" and (loss_scale < 0 or n_pos * n_neg <= _FEW_PAIRS or not loss.is_suitable(n_pos, n_neg)):
            how = "table"
        if how == "table":
            loss.refuse_too_many(n_pos, n_neg)
    delta, hinge, gradient, positives, above, _ = _core.solve_list(values, truth, name or loss, how, loss_scale, n_threads)
    if n_pos > 0 and n_neg > 0:
        if name != loss.native_name():
            delta = loss.value(above, n_neg)
        elif name is None and how == "table":
            loss.check_value(above, n_neg, delta)
    return delta, hinge, gradient, positives, above


@dataclass(eq=False, repr=False)
class ViolatingRankings:
    """The most violating rankings of many queries.

    Attributes
    ----------
    qid : array of shape (q,)
        Query ids in order of first appearance.
    loss, hinge : arrays of shape (q,)
        As for one list; zero for queries that were skipped.
    gradient : array of shape (n,)
        ``dJ_query/dscores`` in input order.
    skipped : boolean array of shape (q,)
        Queries without a positive or without a negative: every ranking of them is right.
    """

    qid: NDArray[Any]
    loss: Floats
    hinge: Floats
    gradient: Reals
    _relevant: Bytes
    _offsets: Ints
    _order: NDArray[np.intp] | None

    def __post_init__(self) -> None:
        ordered = self._relevant if self._order is None else self._relevant[self._order]
        self._n_pos = np.add.reduceat(ordered, self._offsets[:-1], dtype=np.int64)
        self._n_neg = np.diff(self._offsets) - self._n_pos
        self.skipped = (self._n_pos == 0) | (self._n_neg == 0)

    @cached_property
    def interleaving(self) -> Ints:
        """One plus the number of samples of the other class above each sample of its query, shape (n,)."""
        sizes = np.diff(self._offsets)
        n_pos, n_neg = (in_input_order(np.repeat(count, sizes), self._order) for count in (self._n_pos, self._n_neg))
        pairs = np.rint(self.gradient.astype(np.float64) * (0.5 * n_pos * n_neg)).astype(np.int64)
        return np.asarray(np.where(self._relevant == 1, 1 - pairs, n_pos + 1 - pairs), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.qid)

    def __repr__(self) -> str:
        return f"ViolatingRankings({len(self)} queries, {int(self.skipped.sum())} skipped, mean hinge={self.hinge.mean():.6g})"


def most_violating_rankings(
    scores: ArrayLike, relevant: ArrayLike, qid: ArrayLike, loss: str | RankingLoss = "ap", *, n_jobs: int | None = None
) -> ViolatingRankings:
    """Find the most violating ranking of every query, on all cores.

    Parameters
    ----------
    scores, relevant : arrays of shape (n,)
        As in :func:`most_violating_ranking`.
    qid : array of shape (n,)
        The query each sample belongs to, numbers or strings, in any order.
    loss : str or RankingLoss
        As in :func:`most_violating_ranking`; one written in Python is solved query by query on one core.
    n_jobs : int, optional
        Threads; all available cores by default (also for -1).

    Examples
    --------
    >>> found = most_violating_rankings([2.0, 1.0, 0.5, 3.0], [1, 0, 1, 1], ["a", "a", "a", "b"])
    >>> found.qid, found.skipped
    (array(['a', 'b'], dtype=object), array([False,  True]))
    >>> found.interleaving
    array([1, 2, 2, 1])
    """
    loss = ranking_loss(loss)
    values = check_scores(scores)
    truth = check_relevant(relevant, len(values))
    ids, offsets, order = query_offsets(qid, len(values))
    if values.dtype == np.float32 and np.diff(offsets).max() > _DIGITS_OF_SINGLES:
        # Beyond that float32 cannot tell two interleaving ranks apart.
        values = values.astype(np.float64)
    ordered, ordered_truth = (values, truth) if order is None else (values[order], truth[order])
    delta, hinge, gradient = solve_lists(ordered, ordered_truth, offsets, loss, 1.0, thread_count(n_jobs))
    return ViolatingRankings(ids, delta, hinge, in_input_order(gradient, order), truth, offsets, order)


# Below that a thread costs more than it brings.
_SAMPLES_PER_THREAD = 16_384


def solve_lists(
    values: Reals, truth: Bytes, offsets: Ints, loss: RankingLoss, loss_scale: float, n_threads: int
) -> tuple[Floats, Floats, Reals]:
    """Losses and hinges, shape (q,), and gradients, shape (n,), of lists that follow each other in checked arrays.

    List k is ``offsets[k]:offsets[k + 1]`` and may be empty; lists without a positive or without a negative give zeros.
    The loss counts ``loss_scale`` times, which may be any number. A problem that asks again and again passes the same
    :class:`~maxmargin.ranking.checked.CheckedLoss`, which remembers what was proved of the loss.
    """
    n_lists = len(offsets) - 1
    name = loss.native_name()
    # The table of one long list is shared out among threads too.
    if name is not None and not (n_lists == 1 and loss_scale < 0 and loss.at is None):
        _refuse_too_many(loss, truth, offsets, loss_scale)
        # One list shares its own passes out.
        threads = max(1, min(n_threads, n_lists if n_lists > 1 else n_threads, len(values) // _SAMPLES_PER_THREAD))
        return _core.solve_lists(values, truth, offsets, name, loss_scale, threads)
    loss = checked_loss(loss)
    delta, hinge, gradient = np.zeros(n_lists), np.zeros(n_lists), np.zeros_like(values)
    for k, (begin, end) in enumerate(pairwise(offsets)):
        part = slice(begin, end)
        delta[k], hinge[k], gradient[part], *_ = _solve_list(values[part], truth[part], loss, "auto", loss_scale, n_threads)
    return delta, hinge, gradient


def _refuse_too_many(loss: RankingLoss, truth: Bytes, offsets: Ints, loss_scale: float) -> None:
    """Complain about lists for which a built-in loss would look at too many pairs: all of them if it is subtracted, those that
    can be in the first places if it has a cut-off.
    """
    if len(offsets) < 2 or not (loss_scale < 0 or (loss.at is not None and loss.at**2 > MAX_PAIRS)):
        return
    n_pos = np.diff(np.concatenate(([0], np.cumsum(truth, dtype=np.int64)))[offsets])
    sizes = np.diff(offsets)
    n_neg = sizes - n_pos
    if loss.at is not None:
        cut = loss.at < sizes
        # A list that is not longer has no cut-off, and a loss that is added then needs no pairs.
        n_pos, n_neg = (np.where(cut, np.minimum(n, loss.at), n if loss_scale < 0 else 0) for n in (n_pos, n_neg))
    most = int(np.argmax(n_pos * n_neg))
    checked_loss(loss).refuse_too_many(int(n_pos[most]), int(n_neg[most]))
