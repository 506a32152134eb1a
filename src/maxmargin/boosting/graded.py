"""Graded lists as a sum of binary ones, prepared once for all rounds of boosting.

For every threshold t the samples with a larger grade are relevant. 1 - NDCG of a graded list *is* the sum over the thresholds of
the binary 1 - NDCG, each times the step of the gain there and its ideal DCG over that of all grades, also if only the first k
places count: the ideal order is ideal for every threshold at once. The sum of the binary hinges therefore bounds it. Thresholds
between which a list has no sample mark the same ones as relevant, and become one block.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import ArgumentError, Floats, Ints, Reals
from maxmargin.boosting.datasets import Labelled, check_labelled, list_weights
from maxmargin.ranking import NDCG, RankingLoss, checked_loss, gain_steps, ideal_gains, shares_of_thresholds, solve_lists

Gains = Literal["linear", "exponential"]
Float32s = NDArray[np.float32]
# Every one is a list of its own.
_MOST_GRADES = 1000


class GradedLists:
    """The blocks "list k, relevant above t" of labelled rows, and the gradient of their hinges.

    Parameters
    ----------
    data : Labelled
        Labels, queries and weights.
    n : int
        Number of scores.
    loss : RankingLoss
        With :class:`~maxmargin.ranking.NDCG` grades have gains, with all others samples are relevant above a threshold.
    gains : {"linear", "exponential"}
        Those of NDCG.
    threshold : float, optional
        Labels above it are relevant; then NDCG has no grades either. By default 0, or the smallest label if that is larger.

    Attributes
    ----------
    unit : float
        Gradients and Hessians are multiples of it: the mean length of a query, or the number of positives of a single list. So a
        row, or a positive, has a Hessian of about 1, as the limits of both libraries expect.
    curvature : array of shape (n,)
        For every sample ``unit`` times the weight of its blocks over the size of its class there.
    """

    def __init__(self, data: Labelled, n: int, loss: RankingLoss, gains: Gains, threshold: float | None = None) -> None:
        labels = check_labelled(data, n)
        self.one_list = data.offsets is None
        self.offsets = np.array([0, n], dtype=np.int64) if data.offsets is None else data.offsets
        self._loss = checked_loss(loss)
        weights = list_weights(data, n)
        sizes = np.diff(self.offsets)
        # Every training begins here, and should not cost many rounds: labels are not sorted, nor values spread needlessly.
        if isinstance(loss, NDCG) and threshold is None:
            levels = np.unique(labels)
            if len(levels) > _MOST_GRADES:
                problem = f"every distinct label is a grade of NDCG, and there are {len(levels)}"
                raise ArgumentError("label", problem, "round labels to a few grades, or set relevance_threshold")
            codes, steps = np.searchsorted(levels, labels), gain_steps(levels, gains)
        else:
            # One step, at the threshold.
            levels = np.unique([labels.min(), labels.max()])
            at = max(0.0, float(levels[0])) if threshold is None else threshold
            codes, steps = (labels > at).astype(np.int64), np.array([0.0, 1.0])
        blocks, shares = _blocks(codes, self.offsets, steps, loss)
        if not len(blocks):
            kind = f"from {levels[0]:g} to {levels[-1]:g}" if len(levels) > 1 else f"all {levels[0]:g}"
            where = "" if self.one_list else " of the same query"
            raise ArgumentError(
                "label",
                f"labels must tell relevant and irrelevant rows{where} apart, but they are {kind}; data sets without labels may "
                "look like this too",
                "mark relevant rows by 1 and the others by 0, check label and group, or set relevance_threshold",
            )
        if weights is not None:
            shares = shares * weights[blocks[:, 0]]
        if not shares.any():
            raise ArgumentError("weight", "every query with relevant and irrelevant rows has weight 0", "let one of them count")
        which, above = blocks.T
        lengths = sizes[which]
        # Rows of the blocks, one behind the other; the first of a list is where its offset says.
        begins = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(begins[-1]) + _spread(self.offsets[which] - begins[:-1], lengths)
        relevant = codes[rows] > _spread(above, lengths)
        positives = np.add.reduceat(relevant, begins[:-1], dtype=np.int64)
        self.unit = float(positives.max() if self.one_list else sizes.mean())
        share = shares * self.unit
        per_row = np.where(relevant, _spread(share / positives, lengths), _spread(share / (lengths - positives), lengths))
        self.curvature: Float32s = np.bincount(rows, weights=per_row, minlength=n).astype(np.float32)
        self._rows: Ints | None = None if len(rows) == n and (rows == np.arange(n)).all() else rows
        self._relevant = relevant.view(np.uint8)
        self._begins = begins
        # Half the gradient of the hinge, whose pairs count from -1 to 1.
        self._factors = _spread((0.5 * share).astype(np.float32), lengths)
        self.n = n

    def gradient(self, scores: Reals, scale: float, n_threads: int) -> Float32s:
        """``unit / 2`` times the gradient of the sum of all hinges at ``scale * scores``, shape (n,)."""
        values = scores if self._rows is None else scores[self._rows]
        # Scores times a number and the loss over that number have the same maximum.
        slopes = solve_lists(values, self._relevant, self._begins, self._loss, 1.0 / scale, n_threads)[2]
        slopes *= self._factors
        total = slopes if self._rows is None else np.bincount(self._rows, weights=slopes, minlength=self.n)
        return np.asarray(total, dtype=np.float32)


def _spread(values: NDArray[Any], lengths: Ints) -> NDArray[Any]:
    """Every value so many times; the one of a single block needs no counting."""
    return np.full(lengths[0], values[0]) if len(values) == 1 else np.repeat(values, lengths)


def _blocks(codes: Ints, offsets: Ints, steps: Floats, loss: RankingLoss) -> tuple[Ints, Floats]:
    """Lists and thresholds with relevant and irrelevant samples, shape (blocks, 2), and the weight of each in its list."""
    sizes = np.diff(offsets)
    counts = np.bincount(np.repeat(np.arange(len(sizes)), sizes) * len(steps) + codes, minlength=len(sizes) * len(steps))
    # How many samples of a list are above grade t, shape (levels - 1, q).
    relevant = counts.reshape(len(sizes), -1)[:, :0:-1].cumsum(axis=1)[:, ::-1].T
    most = int(sizes.max(initial=1))
    ideal = ideal_gains(most, loss.discount, loss.at) if isinstance(loss, NDCG) else np.ones(most + 1)
    # Nothing relevant, nothing to gain, also where every list is worth the same.
    ideal[0] = 0.0
    parts = shares_of_thresholds(steps, relevant, sizes, ideal)
    # One list after the other, as blocks are.
    relevant, parts = relevant.T, parts.T
    mixed = (relevant > 0) & (relevant < sizes[:, None]) & (parts > 0)
    blocks, shares = np.argwhere(mixed), parts[mixed]
    # Sets of relevant samples are nested: as many means the same.
    numbers = relevant[mixed]
    new = np.ones(len(blocks), dtype=bool)
    new[1:] = (numbers[1:] != numbers[:-1]) | (blocks[1:, 0] != blocks[:-1, 0])
    return blocks[new], np.add.reduceat(shares, np.flatnonzero(new)) if len(blocks) else shares
