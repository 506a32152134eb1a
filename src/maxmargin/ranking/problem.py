"""Lists to be ranked by a linear score: the structured hinge of a rank loss as a function of the weights, one per query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints, thread_count
from maxmargin.core import ArrayProblem, Cut, Tangent, is_streamed, sum_of_rows, times
from maxmargin.io import counts_in_lists
from maxmargin.ranking.checked import checked_loss
from maxmargin.ranking.inference import most_violating_ranking, solve_lists
from maxmargin.ranking.losses import RankingLoss

# Bytes of a row up to which another look at it costs little more than adding up scores that were kept, and takes less memory.
_NARROW = 400


class RankingProblem(ArrayProblem):
    """The hinges ``J(X w)`` of one or more lists, each perhaps for several notions of relevance.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Features, float64 or (dense ones) float32. All sums are made in float64, without a copy of X.
    relevant : bool array of shape (n,) or (levels, n)
        The positives; with several rows, a block for every list and row that has both positives and negatives.
    loss : RankingLoss
        Any; those that are not QS-suitable take time proportional to the number of pairs, unless they are built in.
    offsets : int array of shape (q + 1,), optional
        List k has the rows ``offsets[k]:offsets[k + 1]``; one list by default.
    list_weights : array of shape (q,), optional
        Hinges and losses of a list are multiplied by its weight, and divided by the number of its blocks.
    shares : array of shape (levels, q), optional
        What to multiply those of a block with instead of one over their number; see :func:`gain_shares`.

    Attributes
    ----------
    blocks : int array of shape (n_blocks, 2)
        The level and the list of every block.
    n_skipped : int
        Lists without any block: every ranking of them is right.
    checked : CheckedLoss
        The loss behind checks; remembers for which lists it was proved to be QS-suitable.
    """

    # Threads; all cores by default.
    n_jobs: int | None = None

    def __init__(
        self,
        X: Any,
        relevant: Booleans,
        loss: RankingLoss,
        offsets: Ints | None = None,
        list_weights: Floats | None = None,
        shares: Floats | None = None,
    ) -> None:
        self.X = X
        relevant = np.ascontiguousarray(np.atleast_2d(relevant))
        self.relevant = relevant.view(np.uint8) if relevant.dtype == np.bool_ else relevant.astype(np.uint8)
        self.loss = loss
        self.checked = checked_loss(loss)
        self.offsets = np.array([0, X.shape[0]], dtype=np.int64) if offsets is None else offsets
        sizes = np.diff(self.offsets)
        positives = counts_in_lists(self.relevant, self.offsets)
        mixed = (positives > 0) & (positives < sizes)
        per_list = mixed.sum(axis=0)
        weights = np.ones(len(sizes)) if list_weights is None else list_weights
        self.n_skipped = int(np.count_nonzero(per_list == 0))
        # Weight of every (level, list), zero where there is nothing to learn.
        self.weights = np.where(mixed, weights * (1.0 / np.maximum(per_list, 1) if shares is None else shares), 0.0)
        self.blocks = np.argwhere(mixed)
        self.n_blocks = len(self.blocks)
        self.n_features: int = X.shape[1]

    @property
    def cheap_scores(self) -> bool:
        """Whether rows are so short, and in memory, that computing scores again costs no more than storing them."""
        return isinstance(self.X, np.ndarray) and self.X.shape[1] * self.X.itemsize <= _NARROW and not is_streamed(self.X)

    def _contents(self) -> tuple[Any, ...] | None:
        name = self.loss.native_name()
        # What a loss written in Python does cannot be told from its arrays.
        return None if name is None else (self.X, self.relevant, self.offsets, self.weights, name)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut at ``weights``: the most violating ranking of the scores."""
        level, which = self.blocks[block]
        begin, end = int(self.offsets[which]), int(self.offsets[which + 1])
        X = self.X if len(self.offsets) == 2 else self.X[begin:end]
        found = most_violating_ranking(times(X, weights, self.n_jobs), self.relevant[level, begin:end], self.checked)
        weight = self.weights[level, which]
        return Cut(-weight * sum_of_rows(found.gradient, X, self.n_jobs), weight * found.loss)

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all blocks, on all cores."""
        found = self.tangent(self.scores(weights))
        return Cut(-self.features(found.gradient), found.loss)

    def scores(self, weights: Floats) -> Floats:
        """Of all samples, shape (n,)."""
        return times(self.X, weights, self.n_jobs)

    def tangent(self, scores: Floats) -> Tangent:
        """Mean hinge of all blocks as a function of the scores."""
        hinge = loss = 0.0
        gradient: Floats | None = None
        for relevant, factors in zip(self.relevant, self.weights / self.n_blocks, strict=True):
            losses, hinges, slopes = solve_lists(scores, relevant, self.offsets, self.checked, 1.0, thread_count(self.n_jobs))
            loss += float(factors @ losses)
            hinge += float(factors @ hinges)
            # In place, and where it changes anything: long lists should not be copied, or read, again and again.
            if len(factors) > 1 or factors[0] != 1.0:
                slopes *= factors[0] if len(factors) == 1 else np.repeat(factors, np.diff(self.offsets))
            gradient = np.asarray(slopes if gradient is None else gradient + slopes)
        assert gradient is not None
        return Tangent(hinge, loss, gradient)

    def features(self, coefficients: Floats) -> Floats:
        """Sum of the samples, each times its coefficient."""
        return sum_of_rows(coefficients, self.X, self.n_jobs)


def gain_shares(
    grades: Floats,
    offsets: Ints,
    thresholds: Floats,
    gains: Literal["linear", "exponential"],
    at: int | None = None,
    levels: Floats | None = None,
) -> Floats:
    """Parts of the NDCG of graded lists that "grade > threshold" has, shape (thresholds, q).

    A gain is a sum of steps from one grade to the next, and the ideal order is ideal for every threshold at once. So 1 - NDCG
    with these gains *is* the sum over the thresholds of their binary 1 - NDCG, each times its step and its ideal DCG over the
    ideal DCG of all. Where only the first ``at`` places count, so do the first ``at`` of every ideal order. ``levels`` are all
    grades in order, if these lists do not have every one.
    """
    levels = np.unique(grades) if levels is None else levels
    relevant = counts_in_lists(grades > thresholds[:, None], offsets)
    return shares_of_counts(relevant, np.diff(offsets), levels, gains, at)


def shares_of_counts(
    relevant: Ints, sizes: Ints, levels: Floats, gains: Literal["linear", "exponential"], at: int | None = None
) -> Floats:
    """The same from the number of samples above every level but the last, shape (levels - 1, q), and the sizes of the lists."""
    ideal = ideal_gains(int(sizes.max(initial=1)), lambda place: 1.0 / np.log2(place + 1), at)
    return shares_of_thresholds(gain_steps(levels, gains), relevant, sizes, ideal)


def gain_steps(levels: Floats, gains: Literal["linear", "exponential"]) -> Floats:
    """What the gain of every grade has more than that of the one before, shape (levels,); the first one has all of its own.

    Examples
    --------
    >>> gain_steps(np.array([0.0, 1.0, 3.0]), "exponential")
    array([0., 1., 6.])
    """
    with np.errstate(over="ignore"):
        gain = np.maximum(levels, 0.0) if gains == "linear" else np.exp2(np.maximum(levels, 0.0)) - 1.0
    # The sum over a list must be a number too.
    if not gain[-1] < 1e300:
        raise ValueError(f"the gain of the grade {levels[-1]:g} is too large a number with {gains!r} gains; use smaller grades")
    return np.diff(gain, prepend=0.0)


def ideal_gains(most: int, discount: Callable[[Floats], Floats], at: int | None = None) -> Floats:
    """Ideal DCG of 0 to ``most`` relevant samples with a gain of 1, shape (most + 1,), of which ``at`` places count."""
    discounts = np.array(discount(np.arange(1.0, most + 1)), dtype=np.float64)
    if at is not None:
        discounts[at:] = 0.0
    return np.concatenate([[0.0], np.cumsum(discounts)])


def shares_of_thresholds(steps: Floats, relevant: Ints, sizes: Ints, ideal: Floats) -> Floats:
    """Parts of the ideal DCG of graded lists that every threshold has, shape (levels - 1, q).

    Parameters
    ----------
    steps : array of shape (levels,)
        Of the gain, from :func:`gain_steps`.
    relevant : int array of shape (levels - 1, q)
        How many samples of a list are above the threshold.
    sizes : int array of shape (q,)
        How many samples a list has.
    ideal : array
        From :func:`ideal_gains`.
    """
    parts = steps[1:, None] * ideal[relevant]
    total = parts.sum(axis=0) + steps[0] * ideal[sizes]
    return np.asarray(parts / np.where(total > 0, total, 1.0))
