"""The best ranking for a loss of any sign, by dynamic programming in O(PN).

Inference in almost linear time rests on every negative finding its place alone. That fails when the loss is subtracted: the
places would cross. Here the places are kept in order explicitly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin._validation import check_memory
from maxmargin.inference._exhaustive import interleaving_gradient
from maxmargin.losses import RankingLoss


def solve_any_scale(
    scores: NDArray[np.floating[Any]], relevant: NDArray[np.uint8], loss: RankingLoss, loss_scale: float
) -> tuple[float, NDArray[np.float64]]:
    """``max over rankings R of loss_scale * delta(R) + F(R) - F(R*)`` and its gradient, shape (n,).

    ``loss_scale`` may be negative. Lists without a positive or without a negative give zeros. Takes O(PN) time and
    ``4 P (N + 1)`` bytes. Among rankings equally good, positives stand as high as possible.
    """
    positives = np.flatnonzero(relevant)
    negatives = np.flatnonzero(relevant == 0)
    n_pos, n_neg = len(positives), len(negatives)
    if n_pos == 0 or n_neg == 0:
        return 0.0, np.zeros(len(scores))
    check_memory(4 * n_pos * (n_neg + 1), f"the table of {n_pos} positives and {n_neg} negatives")
    # For given places, both classes are best in descending order of score, whatever the sign of the loss.
    positives = positives[np.argsort(-scores[positives], kind="stable")]
    negatives = negatives[np.argsort(-scores[negatives], kind="stable")]
    high, low = scores[positives].astype(np.float64), scores[negatives].astype(np.float64)
    places = np.arange(n_neg + 1, dtype=np.int32)
    rank = np.arange(1, n_neg + 1)
    unit = 2.0 / (n_pos * n_neg)
    # best[a]: the first i positives, the last of them below at most a negatives; chosen[i, a]: below how many, then.
    best = np.zeros(n_neg + 1)
    chosen = np.empty((n_pos, n_neg + 1), dtype=np.int32)
    for i in range(n_pos):
        raised = unit * (low - high[i]) - loss_scale * loss.derivative(rank, np.full(n_neg, i + 1), n_pos, n_neg)
        value = best
        value[1:] += np.cumsum(raised)
        best = np.maximum.accumulate(value)
        better = np.concatenate(([True], value[1:] > best[:-1]))
        np.maximum.accumulate(np.where(better, places, 0), out=chosen[i])
    above = np.empty(n_pos, dtype=np.int64)
    last = n_neg
    for i in reversed(range(n_pos)):
        last = above[i] = int(chosen[i, last])
    return float(best[-1]), interleaving_gradient(positives, negatives, above)
