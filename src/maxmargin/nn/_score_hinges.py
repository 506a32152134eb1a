"""Hinges of whole tables of scores, (samples, outputs), that layer-wise training can minimise.

All are convex, not negative, and monotone in every score: they never fall as the score of an irrelevant entry rises, and
never rise as that of a relevant one does. So an upper bound for the former and a lower bound for the latter bound the hinge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from maxmargin._utils import Booleans, Floats
from maxmargin.ranking import RankingLoss, checked_loss, ranking_loss, solve_lists


class ScoreHinge(ABC):
    """A hinge for a given truth: ``relevant``, booleans of shape (n, k), is what should score high."""

    def __init__(self, relevant: Booleans) -> None:
        self.relevant = relevant

    @abstractmethod
    def __call__(self, scores: Floats) -> tuple[float, Floats]:
        """Value, and a subgradient of shape (n, k), at scores of shape (n, k)."""


class RankHinge(ScoreHinge):
    """The mean, over the outputs with relevant and irrelevant samples, of the structured hinge of a rank loss."""

    def __init__(self, relevant: Booleans, loss: RankingLoss) -> None:
        super().__init__(relevant)
        self.loss = checked_loss(loss)
        n, k = relevant.shape
        self._truth = np.ascontiguousarray(relevant.T).view(np.uint8).ravel()
        self._offsets = np.arange(k + 1, dtype=np.int64) * n
        positives = np.count_nonzero(relevant, axis=0)
        self.n_ranked = int(np.count_nonzero((positives > 0) & (positives < n)))
        if self.n_ranked == 0:
            raise ValueError("relevant has no output with both relevant and irrelevant samples; there is nothing to rank")

    def __call__(self, scores: Floats) -> tuple[float, Floats]:
        columns = np.ascontiguousarray(scores.T).ravel()
        _, hinges, gradient = solve_lists(columns, self._truth, self._offsets, self.loss, 1.0, torch.get_num_threads())
        return float(hinges.sum()) / self.n_ranked, gradient.reshape(scores.T.shape).T / self.n_ranked


class BinaryHinge(ScoreHinge):
    """The mean over samples and outputs of ``max(0, 1 - y s)``, with y = 1 for relevant entries and -1 for the others."""

    def __call__(self, scores: Floats) -> tuple[float, Floats]:
        y = np.where(self.relevant, 1.0, -1.0)
        hinges = np.maximum(0.0, 1.0 - y * scores)
        return float(hinges.mean()), np.where(hinges > 0, -y, 0.0) / scores.size


class MulticlassHinge(ScoreHinge):
    """The mean over samples of ``max over classes of [class is wrong] + its score - score of the right class``."""

    def __init__(self, relevant: Booleans) -> None:
        super().__init__(relevant)
        marked = np.count_nonzero(relevant, axis=1)
        if relevant.shape[1] < 2 or (marked != 1).any():
            odd = "has one column" if relevant.shape[1] < 2 else f"marks {marked[marked != 1][0]} in row {np.argmax(marked != 1)}"
            raise ValueError(
                f"relevant must mark exactly one of several classes per row for loss='multiclass', but it {odd}; use 'accuracy' "
                "for outputs that do not exclude each other"
            )
        self._right = np.argmax(relevant, axis=1)

    def __call__(self, scores: Floats) -> tuple[float, Floats]:
        rows = np.arange(len(scores))
        raised = scores + ~self.relevant
        answer = np.argmax(raised, axis=1)
        value = float(np.mean(raised[rows, answer] - scores[rows, self._right]))
        gradient = np.zeros_like(scores)
        gradient[rows, answer] += 1.0
        gradient[rows, self._right] -= 1.0
        return value, gradient / len(scores)


def score_hinge(loss: str | RankingLoss, relevant: Booleans) -> ScoreHinge:
    """The hinge behind a name or a loss object."""
    if isinstance(loss, str) and loss == "accuracy":
        return BinaryHinge(relevant)
    if isinstance(loss, str) and loss == "multiclass":
        return MulticlassHinge(relevant)
    return RankHinge(relevant, ranking_loss(loss))
