"""Direct loss minimisation: the value and gradient that two rankings give, and the loss itself (spec B8).

``F(R)`` is the score of a ranking as in :mod:`maxmargin.ranking.inference`. The *direct loss* is ``sign / epsilon`` times
``max over R of [F(R) + sign * epsilon * delta(R)] - max over R of F(R)``: a difference of two maxima, whose gradient is that of
the rankings that attain them. It is above the loss of the ranking by score for ``sign = 1``, below it for ``sign = -1``, and
tends to it as ``epsilon`` vanishes.
"""

from __future__ import annotations

import numpy as np

from maxmargin._utils import Bytes, Floats, Ints, Reals
from maxmargin.ranking.inference import solve_lists
from maxmargin.ranking.losses import RankingLoss


def direct_losses(
    values: Reals, truth: Bytes, offsets: Ints, loss: RankingLoss, epsilon: float, sign: int, n_threads: int
) -> tuple[Floats, Floats]:
    """Direct losses, shape (q,), and their gradients, shape (n,), of lists as in :func:`maxmargin.ranking.inference.solve_lists`.

    ``sign=1`` takes time as two inferences do; ``sign=-1`` takes O(PN) time and PN bits per list, unless the loss
    has a cut-off.
    """
    # Differences of nearly equal numbers follow: not in single precision.
    values = values.astype(np.float64, copy=False)
    _, plain, at_plain = solve_lists(values, truth, offsets, loss, 0.0, n_threads)
    _, moved, at_moved = solve_lists(values, truth, offsets, loss, sign * epsilon, n_threads)
    factor = sign / epsilon
    return factor * (moved - plain), np.asarray(factor * (at_moved - at_plain), dtype=np.float64)


def losses_by_score(values: Reals, truth: Bytes, offsets: Ints, loss: RankingLoss, n_threads: int) -> Floats:
    """Loss of the ranking by score of every list, shape (q,), samples with equal scores in the least favourable order."""
    # Inference puts equal scores in the most favourable order; places from last to first leave it no choice.
    order = np.lexsort((-truth.astype(np.int8), values))
    places = np.empty(len(values))
    places[order] = np.arange(len(values))
    return solve_lists(places, truth, offsets, loss, 0.0, n_threads)[0]
