"""Rank losses that loss-augmented inference can maximise exactly.

A loss is *QS-suitable* (Mohapatra et al., CVPR 2018; thesis section 3.3.1) if it splits into one term per negative,
``sum_j delta_j(r_j)``, where the j-th best negative stands below ``r_j - 1`` positives, and if the discrete derivative
``delta_j(i + 1) - delta_j(i)`` never falls with ``j``. Then every negative finds its place on its own. AP, NDCG, AUC and
the reciprocal rank qualify, and so does any convex decreasing discount of positions. A loss that has the terms but not the
monotone differences is maximised exactly as well, in time proportional to the number of pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._types import Floats, Ints


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
    # The compiled twin of this class, if it has one. A subclass does not inherit it: its derivative may differ.
    _native: ClassVar[str | None] = None

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
        """Name of the compiled version of exactly this class, or None."""
        return type(self).__dict__.get("_native")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class AveragePrecision(RankingLoss):
    """``1 - AP``, where AP is the mean over the positives of the precision at their position."""

    names = ("ap", "map", "average_precision")
    _native = "ap"

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``-i / ((i + j) (i + j - 1)) / P``."""
        position = np.asarray(i + j, dtype=np.float64)
        # The printed difference lacks 1/P; this form has no cancellation.
        return np.asarray(-i / (position * (position - 1)) / n_pos, dtype=np.float64)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """Mean over the positives of the share of negatives down to their position."""
        above = np.asarray(negatives_above, dtype=np.float64)
        return float(np.mean(above / (np.arange(1, len(above) + 1) + above)))


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
    """``1 - 1 / (position of the first positive)``."""

    names = ("mrr", "reciprocal_rank")
    _native = "mrr"

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """``1 / (j + 1) - 1 / j`` for the first positive, zero for the others."""
        rank = np.asarray(j, dtype=np.float64)
        return np.where(np.asarray(i) == 1, -1.0 / (rank * (rank + 1)), 0.0)

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """From the negatives above the first positive alone."""
        first = float(negatives_above[0])
        return first / (first + 1)


class Discounted(RankingLoss):
    """``1 - sum of discount(position of each positive) / its largest possible value``.

    Parameters
    ----------
    discount : callable
        Vectorised; maps positions (1, 2, ...) to weights. If it is decreasing and convex the loss is QS-suitable
        (:func:`check_qs_suitable` tells) and inference almost linear.

    Examples
    --------
    Rank-biased precision with persistence 0.8:

    >>> from maxmargin.losses import check_qs_suitable
    >>> loss = Discounted(lambda position: 0.8 ** position)
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
    """``1 - NDCG`` of a binary relevance, with the discount ``1 / log2(1 + position)`` unless another is given."""

    names = ("ndcg",)

    def __init__(self, discount: Callable[[Any], Any] | None = None) -> None:
        self.discount = discount if discount is not None else logarithmic_discount

    def native_name(self) -> str | None:
        """Compiled for the logarithmic discount."""
        return "ndcg" if type(self) is NDCG and self.discount is logarithmic_discount else None

    def __repr__(self) -> str:
        return "NDCG()" if self.discount is logarithmic_discount else super().__repr__()


def logarithmic_discount(position: ArrayLike) -> Floats:
    """The usual discount of DCG, ``1 / log2(1 + position)``."""
    return np.asarray(1.0 / np.log2(1.0 + np.asarray(position)), dtype=np.float64)


# Losses that have names; the first one is that by which the command knows them.
NAMED: tuple[type[RankingLoss], ...] = (AveragePrecision, NDCG, AUC, ReciprocalRank)
_BY_NAME = {name: kind for kind in NAMED for name in kind.names}


def ranking_loss(loss: str | RankingLoss) -> RankingLoss:
    """The loss object behind a name; an object is returned as it is.

    >>> ranking_loss("ndcg")
    NDCG()
    """
    if isinstance(loss, RankingLoss):
        return loss
    if isinstance(loss, str):
        try:
            return _BY_NAME[loss.lower()]()
        except KeyError:
            known = ", ".join(map(repr, sorted(_BY_NAME)))
            raise ValueError(f"loss={loss!r} is unknown; choose one of {known}, or pass a RankingLoss object") from None
    if isinstance(loss, type) and issubclass(loss, RankingLoss):
        raise TypeError(f"loss={loss.__name__} is a class; pass an object, {loss.__name__}()")
    raise TypeError(f"loss must be a name or a RankingLoss object, not {type(loss).__name__}")
