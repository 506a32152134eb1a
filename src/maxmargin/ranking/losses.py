"""Rank losses that loss-augmented inference can maximise exactly.

A loss is *QS-suitable* (Mohapatra et al., CVPR 2018; thesis section 3.3.1) if it splits into one term per negative,
``sum_j delta_j(r_j)``, where the j-th best negative stands below ``r_j - 1`` positives, and if the discrete derivative
``delta_j(i + 1) - delta_j(i)`` never falls with ``j``. Then every negative finds its place on its own. AP, NDCG, AUC and
the reciprocal rank qualify, and so does any convex decreasing discount of positions, rank-biased precision among them. A loss
that has the terms but not the monotone differences is maximised exactly as well, in time proportional to the number of pairs.

Losses with a cut-off, ``NDCG(at=10)`` or ``"ndcg@10"``, do not qualify: the last place that counts makes a jump. But only the
first places have a say in them, so they are as quick (``cpp/ranking/cutoff.hpp``). All of them are what a ranking lacks to the
best one, so a perfect ranking has the loss 0; where ``at`` is not smaller than the list, they are the loss without a cut-off.
"""

from __future__ import annotations

import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, Ints


class RankingLoss(ABC):
    """Base class of a rank loss; a new one needs :meth:`derivative`, and should have :meth:`value`.

    Positives and negatives are both numbered from 1 in descending order of score.

    Attributes
    ----------
    names : tuple of str
        By which estimators and the command know it, if it is one of ``NAMED``.
    proved_suitable : bool
        A class whose losses are QS-suitable for lists of any size may say so in its body. Otherwise the differences of all pairs
        of a long list are looked at before it is ranked in almost linear time.
    at : int or None
        The cut-off: places after the first ``at`` do not count. None if all do.

    Examples
    --------
    AUC, written again:

    >>> import numpy as np
    >>> class MyAUC(RankingLoss):
    ...     def derivative(self, j, i, n_pos, n_neg):
    ...         return np.full(j.shape, -1.0 / (n_pos * n_neg))
    ...     def value(self, negatives_above, n_neg):
    ...         return negatives_above.mean() / n_neg
    >>> from maxmargin import most_violating_ranking
    >>> most_violating_ranking([0.5, 0.2, 0.1], [1, 0, 1], MyAUC()).hinge
    0.8
    """

    names: ClassVar[tuple[str, ...]] = ()
    proved_suitable: ClassVar[bool] = False
    at: int | None = None
    # The compiled twin of this class, if it has one. A subclass does not inherit it: its derivative may differ.
    _native: ClassVar[str | None] = None
    # Whether a name may end in a cut-off, "ndcg@10", or has to.
    _cut_off: ClassVar[Literal["none", "optional", "needed"]] = "none"

    @abstractmethod
    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``delta_j(i + 1) - delta_j(i)`` for arrays of pairs: what the loss changes as negative ``j`` drops below
        positive ``i``.

        Parameters
        ----------
        j : int array of shape (m,)
            Positions among the negatives, 1 to ``n_neg``.
        i : int array of shape (m,)
            Positions among the positives, 1 to ``n_pos``.
        n_pos, n_neg : int
            Sizes of the two classes.

        Returns
        -------
        float array of shape (m,)
            Finite; never positive for a sensible loss.
        """

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """The loss of a ranking, given the number of negatives above each positive, best positive first.

        This version adds up :meth:`derivative` over all inverted pairs, which can be ``n_pos * n_neg`` many; a loss with
        a closed form should override it.
        """
        n_pos = len(negatives_above)
        total = 0.0
        for first in range(0, n_pos, 64):
            above = np.asarray(negatives_above[first : first + 64], dtype=np.int64)
            i = np.repeat(np.arange(first + 1, first + 1 + len(above)), above)
            starts = np.repeat(np.cumsum(above) - above, above)
            j = np.arange(1, len(i) + 1) - starts
            if len(i):
                total -= float(np.sum(self.derivative(j, i, n_pos, n_neg)))
        return total

    def native_name(self) -> str | None:
        """Name of the compiled version of exactly this class, with its parameters, or None."""
        name = type(self).__dict__.get("_native")
        return name if name is None or self.at is None else f"{name}@{self.at}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()" if self.at is None else f"{type(self).__name__}(at={self.at})"


class AveragePrecision(RankingLoss):
    """``1 - AP``, where AP is the mean over the positives of the precision at their position.

    Parameters
    ----------
    at : int, optional
        Positives after the first ``at`` places count as not found, and the sum is divided by ``min(P, at)``, the number of those
        that can be found. (The metric ``ap@K`` of evaluation tools divides by P: a constant factor for every list.)
    """

    names = ("ap", "map", "average_precision")
    _native = "ap"
    _cut_off = "optional"

    def __init__(self, *, at: int | None = None) -> None:
        self.at = check_cut_off(at)

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``-i / ((i + j) (i + j - 1)) / P``."""
        position = np.asarray(i + j, dtype=np.float64)
        # The printed difference lacks 1/P; this form has no cancellation.
        if self.at is None:
            return np.asarray(-i / (position * (position - 1)) / n_pos, dtype=np.float64)
        # The last place that counts is left for nothing.
        drop = np.where(position <= self.at, i / (position * (position - 1)), np.where(position - 1 <= self.at, i / self.at, 0.0))
        return np.asarray(-drop / min(n_pos, self.at), dtype=np.float64)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """Mean over the positives of the share of negatives down to their position."""
        above = np.asarray(negatives_above, dtype=np.float64)
        if self.at is None:
            return float(np.mean(above / (np.arange(1, len(above) + 1) + above)))
        above = above[: self.at]
        position = np.arange(1, len(above) + 1) + above
        return float(np.mean(np.where(position <= self.at, above / position, 1.0)))


class AUC(RankingLoss):
    """``1 - AUC``: the fraction of (negative, positive) pairs in the wrong order."""

    names = ("auc", "roc_auc")
    _native = "auc"

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``-1 / (P N)``: one pair less in the wrong order."""
        return np.full(np.shape(j), -1.0 / (n_pos * n_neg))

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """Wrong pairs over all pairs."""
        return float(np.mean(negatives_above) / n_neg)


class ReciprocalRank(RankingLoss):
    """``1 - 1 / (position of the first positive)``; with ``at``, 1 where that is not among the first ``at``."""

    names = ("mrr", "rr", "reciprocal_rank")
    _native = "mrr"
    _cut_off = "optional"

    def __init__(self, *, at: int | None = None) -> None:
        self.at = check_cut_off(at)

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``1 / (j + 1) - 1 / j`` for the first positive, zero for the others."""
        rank = np.asarray(j, dtype=np.float64)
        drop = 1.0 / (rank * (rank + 1))
        if self.at is not None:
            drop = np.where(rank < self.at, drop, np.where(rank == self.at, 1.0 / self.at, 0.0))
        return np.where(np.asarray(i) == 1, -drop, 0.0)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """From the negatives above the first positive alone."""
        first = float(negatives_above[0])
        return 1.0 if self.at is not None and first >= self.at else first / (first + 1)


class _Hits(RankingLoss):
    """What the positives among the first ``at`` places lack to as many as there can be, over some number."""

    _cut_off = "needed"
    at: int

    def __init__(self, at: int) -> None:
        self.at = check_cut_off(at, needed=True)

    @abstractmethod
    def _denominator(self, n_pos: int) -> int:
        """By what the number is divided."""

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``-1 / denominator`` for the negative that pushes the positive out of the first places, zero for the others."""
        return np.where(np.asarray(i + j) == self.at + 1, -1.0 / self._denominator(n_pos), 0.0)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """Those pushed out of the first places."""
        above = np.asarray(negatives_above)[: self.at]
        lost = np.count_nonzero(np.arange(1, len(above) + 1) + above > self.at)
        return float(lost / self._denominator(len(negatives_above)))


class Precision(_Hits):
    """``(min(P, at) - hits) / at``: the precision among the first ``at`` places, and what it lacks to the best possible one.

    >>> Precision(at=2).value(np.array([0, 3]), n_neg=5)
    0.5
    """

    names = ("p", "precision")
    _native = "p"

    def _denominator(self, n_pos: int) -> int:
        assert self.at is not None
        return self.at


class Recall(_Hits):
    """``(min(P, at) - hits) / P``: the recall among the first ``at`` places, and what it lacks to the best possible one."""

    names = ("recall",)
    _native = "recall"

    def _denominator(self, n_pos: int) -> int:
        return n_pos


class Discounted(RankingLoss):
    """``1 - sum of discount(position of each positive) / its largest possible value``.

    Parameters
    ----------
    discount : callable
        Vectorised; maps positions (1, 2, ...) to weights. If it is decreasing and convex the loss is QS-suitable
        (:func:`check_qs_suitable` tells) and inference almost linear.

    Examples
    --------
    A discount that is half as large after every ten places:

    >>> from maxmargin.ranking import check_qs_suitable
    >>> loss = Discounted(lambda position: 0.5 ** (position / 10))
    >>> bool(check_qs_suitable(loss))
    True
    """

    def __init__(self, discount: Callable[[Any], Any]) -> None:
        self.discount = discount

    def _at(self, positions: ArrayLike) -> Floats:
        return np.asarray(self.discount(np.asarray(positions, dtype=np.float64)), dtype=np.float64)

    def _ideal(self, n_pos: int) -> float:
        # Kept for the last size: inference asks a dozen times per list.
        if getattr(self, "_ideal_of", (None, 0.0))[0] != n_pos:
            self._ideal_of = (n_pos, float(np.sum(self._at(np.arange(1, n_pos + 1)))))
        return self._ideal_of[1]

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """Difference of the discounts of two neighbouring positions, over the ideal sum."""
        position = np.asarray(i + j)
        return (self._at(position) - self._at(position - 1)) / self._ideal(n_pos)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """What the positives lose by not being at the top."""
        best = np.arange(1, len(negatives_above) + 1)
        lost = self._at(best) - self._at(best + np.asarray(negatives_above))
        return float(np.sum(lost) / self._ideal(len(best)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(discount={self.discount!r})"


class NDCG(Discounted):
    """``1 - NDCG`` of a binary relevance, with the discount ``1 / log2(1 + position)`` unless another is given.

    Parameters
    ----------
    discount : callable, optional
        As in :class:`Discounted`.
    at : int, optional
        Only the first ``at`` places count, in the ideal ranking too: NDCG@k.
    """

    names = ("ndcg",)
    _cut_off = "optional"

    def __init__(self, discount: Callable[[Any], Any] | None = None, *, at: int | None = None) -> None:
        self.discount = discount if discount is not None else logarithmic_discount
        self.at = check_cut_off(at)

    def _at(self, positions: ArrayLike) -> Floats:
        values = super()._at(positions)
        return values if self.at is None else np.where(np.asarray(positions) <= self.at, values, 0.0)

    def native_name(self) -> str | None:
        """Compiled for the logarithmic discount."""
        if type(self) is not NDCG or self.discount is not logarithmic_discount:
            return None
        return "ndcg" if self.at is None else f"ndcg@{self.at}"

    def __repr__(self) -> str:
        given = [] if self.discount is logarithmic_discount else [f"discount={self.discount!r}"]
        return f"{type(self).__name__}({', '.join(given + ([] if self.at is None else [f'at={self.at}']))})"


class RankBiasedPrecision(RankingLoss):
    """``RBP of the best ranking - RBP``, where RBP is ``(1 - p)`` times the sum of ``p ** (position - 1)`` over the positives:
    somebody looks at the first place, and goes on from every place to the next with probability p (Moffat and Zobel, 2008).

    Parameters
    ----------
    persistence : float
        p, between 0 and 1.

    Examples
    --------
    >>> loss = RankBiasedPrecision(0.5)
    >>> loss.value(np.array([1]), n_neg=3)  # the only positive at the second place
    0.25
    """

    names = ("rbp", "rank_biased_precision")
    proved_suitable = True  # the discount is convex and falls

    def __init__(self, persistence: float = 0.8) -> None:
        if not isinstance(persistence, numbers.Real) or isinstance(persistence, bool) or not 0 < float(persistence) < 1:
            raise ValueError(f"persistence={persistence!r} must be a number between 0 and 1, 0.8 say")
        self.persistence: float = float(persistence)

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``-(1 - p)^2 p^(i + j - 2)``."""
        position = np.asarray(i + j, dtype=np.float64)
        return np.asarray(-((1.0 - self.persistence) ** 2) * self.persistence ** (position - 2), dtype=np.float64)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """What the positives lose by not being at the top."""
        p, best = self.persistence, np.arange(len(negatives_above))
        # 1 - p^a without cancellation where p is nearly 1.
        lost = p**best * -np.expm1(np.asarray(negatives_above) * math.log(p))
        return float((1.0 - p) * np.sum(lost))

    def native_name(self) -> str | None:
        """With the persistence, for exactly this class."""
        return f"rbp(p={self.persistence!r})" if type(self) is RankBiasedPrecision else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(persistence={self.persistence!r})"


def logarithmic_discount(position: ArrayLike) -> Floats:
    """The usual discount of DCG, ``1 / log2(1 + position)``."""
    return np.asarray(1.0 / np.log2(1.0 + np.asarray(position)), dtype=np.float64)


def check_cut_off(at: Any, *, needed: bool = False) -> Any:
    """A whole number of places, at least one; None, for all places, unless one is needed."""
    if at is None and not needed:
        return None
    if not isinstance(at, numbers.Integral) or isinstance(at, bool) or at < 1:
        otherwise = "" if needed else ", or None for all"
        raise ValueError(f"at={at!r} must be a whole number of first places that count, at least 1{otherwise}")
    return min(int(at), 2**53)  # longer than any list, and exact as a floating-point number


# Losses that have names; the first one is that by which the command knows them.
NAMED: tuple[type[RankingLoss], ...] = (AveragePrecision, NDCG, AUC, ReciprocalRank, Precision, Recall, RankBiasedPrecision)
_BY_NAME = {name: kind for kind in NAMED for name in kind.names}
# What stands behind a name.
_ENDING = {"none": "", "optional": "[@K]", "needed": "@K"}
_FORM = re.compile(r"(?P<plain>[^@(]*)(\(p=(?P<persistence>[^)]*)\))?(@(?P<at>.*))?", re.DOTALL)


def loss_names() -> list[str]:
    """The first name of every loss, with the cut-off it may or must have.

    >>> loss_names()
    ['ap[@K]', 'ndcg[@K]', 'auc', 'mrr[@K]', 'p@K', 'recall@K', 'rbp']
    """
    return [kind.names[0] + _ENDING[kind._cut_off] for kind in NAMED]


def without_cut_off(loss: RankingLoss) -> RankingLoss:
    """A loss of all places with much the same aim; the loss itself if it looks at all of them.

    >>> without_cut_off(NDCG(at=10)), without_cut_off(Precision(5)), without_cut_off(AUC())
    (NDCG(), AveragePrecision(), AUC())
    """
    if loss.at is None:
        return loss
    if type(loss) is NDCG:
        return NDCG(loss.discount)
    return ReciprocalRank() if type(loss) is ReciprocalRank else AveragePrecision()


def ranking_loss(loss: str | RankingLoss) -> RankingLoss:
    """The loss object behind a name; an object is returned as it is.

    >>> ranking_loss("ndcg"), ranking_loss("ndcg@10"), ranking_loss("rbp(p=0.9)")
    (NDCG(), NDCG(at=10), RankBiasedPrecision(persistence=0.9))
    """
    if isinstance(loss, RankingLoss):
        return loss
    if isinstance(loss, str):
        return _named(loss)
    if isinstance(loss, type) and issubclass(loss, RankingLoss):
        raise TypeError(f"loss={loss.__name__} is a class; pass an object, {loss.__name__}()")
    raise TypeError(f"loss must be a name or a RankingLoss object, not {type(loss).__name__}")


def _named(name: str) -> RankingLoss:
    parts = _FORM.fullmatch(name.lower())
    kind = _BY_NAME.get(parts["plain"]) if parts else None
    if parts is None or kind is None or (parts["persistence"] is not None and kind is not RankBiasedPrecision):
        known = ", ".join(repr(known + _ENDING[_BY_NAME[known]._cut_off]) for known in sorted(_BY_NAME))
        raise ValueError(f"loss={name!r} is unknown; choose one of {known}, or pass a RankingLoss object")
    plain, at = parts["plain"], parts["at"]
    if at is None:
        if kind._cut_off == "needed":
            raise ValueError(f"loss={name!r} needs the number of first places that count; write '{plain}@10', say")
        if parts["persistence"] is None:
            return kind()
        try:
            return RankBiasedPrecision(float(parts["persistence"]))
        except ValueError:
            raise ValueError(f"loss={name!r} has no persistence between 0 and 1; write 'rbp(p=0.8)', say") from None
    if kind._cut_off == "none":
        raise ValueError(f"loss={name!r} has a cut-off, and {plain} looks at all places; write {plain!r}")
    if not (at.isascii() and at.isdigit() and int(at) >= 1):
        raise ValueError(
            f"loss={name!r} must have a whole number of first places, at least 1, behind the @; write '{plain}@10', say"
        )
    return kind(at=int(at))  # type: ignore[call-arg]  # all kinds that have cut-offs take it
