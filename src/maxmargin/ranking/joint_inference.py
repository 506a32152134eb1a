"""Rankings together with candidates: the inference of the latent structured SVM for rank losses.

Every sample has scores between ``lowest`` and ``highest``, one of its candidates each. A sample that stands above most of
the other class wants its best candidate, one below wants its worst, so neither the order nor the candidates can be chosen
alone. For a fixed pattern of classes the two orders are assignment problems; the pattern is searched greedily or by
enumeration (Behl 2015, appendix A, with corrected coefficients).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from maxmargin._utils import Floats, Ints, check_both_classes, check_relevant, check_scores
from maxmargin.ranking.losses import RankingLoss, ranking_loss

MAX_PATTERNS = 20_000


@dataclass(frozen=True)
class JointRanking:
    """A ranking with a candidate for every sample: the worst where its coefficient is negative, elsewhere the best."""

    loss: float
    value: float  # loss plus score, the sum of coefficients times the chosen scores
    coefficients: Floats  # (samples of the other class below minus those above) / (P N)


class _Patterns:
    """Values of patterns, each given by the number of positives above every negative, in ascending order."""

    def __init__(self, highest: Floats, lowest: Floats, relevant: NDArray[np.uint8], loss: RankingLoss) -> None:
        self.sides = [np.flatnonzero(relevant == 1), np.flatnonzero(relevant == 0)]
        self.n_pos, self.n_neg = map(len, self.sides)
        self.highest, self.lowest, self.loss = highest, lowest, loss

    def evaluate(self, positives_above: Ints) -> JointRanking:
        """The best candidates and orders for one pattern."""
        negatives_above = np.searchsorted(positives_above, np.arange(1, self.n_pos + 1), side="left")
        pairs = self.n_pos * self.n_neg
        loss = self.loss.value(negatives_above, self.n_neg)
        coefficients, total = np.empty(self.n_pos + self.n_neg), 0.0
        for members, others, above in zip(self.sides, (self.n_neg, self.n_pos), (negatives_above, positives_above), strict=True):
            # The best assignment of positions to the samples of one class.
            places = (others - 2.0 * above) / pairs
            high, low = self.highest[members], self.lowest[members]
            gain = np.outer(high, np.maximum(places, 0)) + np.outer(low, np.minimum(places, 0))
            samples, positions = linear_sum_assignment(gain, maximize=True)
            total += float(gain[samples, positions].sum())
            coefficients[members] = places[positions]
        return JointRanking(loss, loss + total, coefficients)


def most_violating_joint_ranking(
    highest: ArrayLike,
    lowest: ArrayLike,
    relevant: ArrayLike,
    loss: str | RankingLoss = "ap",
    *,
    method: Literal["greedy", "exact"] = "greedy",
) -> JointRanking:
    """Maximise the loss plus the joint score over rankings and candidates.

    Parameters
    ----------
    highest, lowest : arrays of shape (n,)
        Scores of every sample's best and worst candidate.
    relevant : array of shape (n,)
        Booleans, the positives.
    loss : str or RankingLoss
        Any rank loss.
    method : {"greedy", "exact"}
        ``"greedy"`` places one negative after the other, with two assignment problems for each place, and may miss the
        maximum; ``"exact"`` tries every pattern and is for a handful of samples.

    Examples
    --------
    The greedy search can fail (scores here are four times those of the usual scale, for the four pairs):

    >>> highest, lowest = 4.0 * np.array([8, 7, 9, 7]), 4.0 * np.array([4, 6, 1, 0])
    >>> for method in ("greedy", "exact"):
    ...     round(most_violating_joint_ranking(highest, lowest, [0, 1, 0, 1], method=method).value, 4)
    18.0
    22.5833
    """
    if method not in ("greedy", "exact"):
        raise ValueError(f"method={method!r} is unknown; choose 'greedy' or 'exact'")
    top = check_scores(highest, "highest").astype(np.float64)
    bottom = check_scores(lowest, "lowest").astype(np.float64)
    if top.shape != bottom.shape:
        raise ValueError(f"highest has {len(top)} entries, but lowest has {len(bottom)}; they must be equal")
    truth = check_relevant(relevant, len(top))
    n_pos, n_neg = check_both_classes(truth)
    patterns = _Patterns(top, bottom, truth, ranking_loss(loss))
    if method == "greedy":
        return _greedy(patterns)
    if comb(n_pos + n_neg, n_pos) > MAX_PATTERNS:
        raise ValueError(
            f"exact inference would try {comb(n_pos + n_neg, n_pos)} patterns of {n_pos} positives and {n_neg} negatives, "
            f"more than {MAX_PATTERNS}; use 'greedy'"
        )
    every = combinations_with_replacement(range(n_pos + 1), n_neg)
    return max((patterns.evaluate(np.array(above, dtype=np.int64)) for above in every), key=lambda found: found.value)


def _greedy(patterns: _Patterns) -> JointRanking:
    """From the true ranking, each negative in turn goes to its best place; the lowest of equally good ones."""
    above = np.full(patterns.n_neg, patterns.n_pos, dtype=np.int64)
    best = patterns.evaluate(above)
    for j in range(patterns.n_neg):
        settled = above[:j].copy()
        rest = above[j + 1 :]
        # What counts is the pattern, not which negative has which place.
        for place in range(patterns.n_pos - 1, -1, -1):
            other = np.concatenate([np.sort(np.append(settled, place)), rest])
            found = patterns.evaluate(other)
            if found.value > best.value:
                best, above = found, other
    return best
