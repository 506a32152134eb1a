"""The direct loss of rankings that are spread over shards: two passes over the same scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.distributed.problem import ShardedRanking
from maxmargin.problems.direct import DirectPoint


class ShardedDirect:
    """Mean loss and mean direct loss of lists over shards, as :class:`maxmargin.problems.direct.DirectRanking` has them.

    Parameters
    ----------
    problem : ShardedRanking
        The lists.
    sign : {1, -1}
        Side from which the direct loss approaches the loss; only 1 where a list lies in several shards.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> X, y = np.array([[4.0], [3.0], [2.0], [1.0]]), np.array([1, 0, 1, 0])
    >>> problem = ShardedRanking(LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, y, 2)]), "auc")
    >>> direct = ShardedDirect(problem)
    >>> round(direct.loss(np.array([1.0])), 6), round(direct.at(np.array([1.0]), 0.1).value, 6)
    (0.25, 0.25)
    """

    def __init__(self, problem: ShardedRanking, sign: int = 1) -> None:
        self.problem, self.sign = problem, self._checked(problem, sign)

    @staticmethod
    def _checked(problem: ShardedRanking, sign: int) -> int:
        if sign not in (1, -1):
            raise ValueError(f"sign={sign!r} must be 1 or -1")
        if sign < 0 and problem.scattered:
            raise ValueError(
                "sign=-1 takes all pairs of a list together, and here a list lies in several shards; use sign=1, or keep "
                "every query in one shard"
            )
        return sign

    def loss(self, weights: Floats) -> float:
        """Mean loss of the rankings by score, ties in the least favourable order."""
        return self.problem.shards.whole(lambda: self._loss(weights))

    def at(self, weights: Floats, epsilon: float, sign: int | None = None) -> DirectPoint:
        """Everything at ``weights``."""
        side = self.sign if sign is None else self._checked(self.problem, sign)
        problem = self.problem
        scores = problem.scores(weights)
        plain, moved = problem.tangent(scores, 0.0), problem.tangent(scores, side * epsilon)
        factor = side / epsilon * problem.n_blocks / problem.total_weight
        gradient = factor * (problem.features(moved.gradient) - problem.features(plain.gradient))
        return DirectPoint(self.loss(weights), factor * (moved.hinge - plain.hinge), gradient)

    def _loss(self, weights: Floats) -> float:
        problem, shards = self.problem, self.problem.shards
        weights = problem.unscaled(weights)
        found = shards.ask("score_losses", lambda shard: (weights,))
        losses = [float(answer["loss"]) for answer in found]
        positives = {
            block.number: np.sort(_joined(found, "positives", block.number, np.concatenate)) for block in problem.scattered
        }
        if positives:
            counted = shards.ask("negatives_above", lambda shard: (weights, positives))
            for block in problem.scattered:
                above = _joined(counted, "above", block.number, lambda parts: np.sum(parts, axis=0))
                losses.append(block.weight * block.ranking.loss_of(above[::-1]))
        return math.fsum(losses) / problem.total_weight


def _joined(answers: list[dict[str, Any]], name: str, block: int, join: Any) -> Any:
    """What the shards that have some of a block say of it, together."""
    return join([answer[name][answer["blocks"].index(block)] for answer in answers if block in answer["blocks"]])
