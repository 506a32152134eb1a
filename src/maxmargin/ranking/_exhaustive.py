"""Enumeration of every ranking: hopeless beyond a dozen samples, and beyond doubt. Other methods are checked with it."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from maxmargin._utils import Bytes, Int32s, Ints, Reals
from maxmargin.ranking.losses import RankingLoss

MAX_RANKINGS = 200_000


def solve_exhaustively(
    scores: Reals, relevant: Bytes, loss: RankingLoss, loss_scale: float
) -> tuple[float, float, Reals, Reals, Int32s, Ints]:
    """Loss, hinge, gradient, scores, positives (best first) and the number of negatives above each positive."""
    positives = np.flatnonzero(relevant).astype(np.int32)
    negatives = np.flatnonzero(relevant == 0)
    positives = positives[np.argsort(-scores[positives], kind="stable")]
    negatives = negatives[np.argsort(-scores[negatives], kind="stable")]
    n_pos, n_neg = len(positives), len(negatives)
    if comb(n_pos + n_neg, n_pos) > MAX_RANKINGS:
        raise ValueError(
            f"method='exhaustive' would enumerate {comb(n_pos + n_neg, n_pos)} rankings of {n_pos} positives and "
            f"{n_neg} negatives; use another method, they are exact as well"
        )
    if not np.isfinite(scores).all():
        index = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ValueError(f"scores must be finite, but scores[{index}] is NaN or infinite; remove or replace such entries")
    high = scores[negatives].astype(np.float64)
    low = scores[positives].astype(np.float64)
    # Some optimum has both classes in descending order (observation 1), so the patterns of signs are all there is.
    best, best_delta = (-np.inf, -np.inf), 0.0
    best_above = np.zeros(n_pos, dtype=np.int64)
    for pattern in combinations(range(n_pos + n_neg), n_pos):
        above = np.array(pattern, dtype=np.int64) - np.arange(n_pos)
        delta = loss.value(above, n_neg)
        # Every inverted pair moves F from (s+ - s-)/(PN) to its negative.
        inverted = sum(float(np.sum(high[: above[i]] - low[i])) for i in range(n_pos))
        hinge = loss_scale * delta + 2 * inverted / (n_pos * n_neg)
        # Ties go to the ranking with the negatives as low as possible.
        key = (hinge, -float(above.sum()))
        if key > best:
            best, best_above, best_delta = key, above, delta
    gradient = np.empty_like(scores)
    unit = 2.0 / (n_pos * n_neg)
    gradient[positives] = -unit * best_above
    # A negative stands above the positives that have at least as many negatives above them as its own place.
    gradient[negatives] = unit * (n_pos - np.searchsorted(best_above, np.arange(1, n_neg + 1), side="left"))
    return float(best_delta), max(0.0, float(best[0])), gradient, scores, positives, best_above
