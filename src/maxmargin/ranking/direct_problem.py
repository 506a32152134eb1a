"""Lists to be ranked by a linear score: the loss of their rankings, and the direct loss that stands in for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._utils import Floats, thread_count
from maxmargin.core import sum_of_rows
from maxmargin.ranking.direct_inference import direct_losses, losses_by_score
from maxmargin.ranking.problem import RankingProblem


class DirectPoint(NamedTuple):
    """Loss, direct loss and its gradient of shape (d,) at some weights; means over the lists."""

    loss: float
    value: float
    gradient: Floats


class DirectRanking:
    """Mean loss and mean direct loss of the lists of a :class:`RankingProblem`, as functions of the weights.

    Neither is convex, and there are no cuts to be had: this is for descent methods. Lists count by their weights, and where
    a list has several notions of relevance, each has its share.

    Parameters
    ----------
    model : RankingProblem
        The lists.
    sign : {1, -1}
        Side from which the direct loss approaches the loss; see :func:`maxmargin.ranking.direct_inference.direct_losses`.
    """

    def __init__(self, model: RankingProblem, sign: int = 1) -> None:
        self.model = model
        self.sign = sign
        # All weights may be zero: then nothing counts, and every mean is zero.
        self._total = max(float(model.weights.sum()), 1e-300)

    def loss(self, weights: Floats) -> float:
        """Mean loss of the rankings by score, ties in the least favourable order."""
        return self._loss_of(self._scores(weights))

    def at(self, weights: Floats, epsilon: float, sign: int | None = None) -> DirectPoint:
        """Everything at ``weights``, in one product with the features and one back; ``sign`` is the model's unless given."""
        scores = self._scores(weights)
        coefficients, value = np.zeros(len(scores)), 0.0
        for relevant, factors in zip(self.model.relevant, self.model.weights, strict=True):
            lists, threads = (scores, relevant, self.model.offsets), thread_count(self.model.n_jobs)
            values, slopes = direct_losses(*lists, self.model.checked, epsilon, sign or self.sign, threads)
            value += float(factors @ values)
            coefficients += np.repeat(factors, np.diff(self.model.offsets)) * slopes
        gradient = sum_of_rows(coefficients, self.model.X, self.model.n_jobs) / self._total
        return DirectPoint(self._loss_of(scores), value / self._total, gradient)

    def _scores(self, weights: Floats) -> Floats:
        return self.model.scores(weights)

    def _loss_of(self, scores: Floats) -> float:
        losses = (
            factors @ losses_by_score(scores, relevant, self.model.offsets, self.model.checked, thread_count(self.model.n_jobs))
            for relevant, factors in zip(self.model.relevant, self.model.weights, strict=True)
        )
        return float(sum(losses)) / self._total
