"""Weakly supervised rankings over shards: bags of candidates, of which those of the positives are imputed in turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.distributed.engine import Engine
from maxmargin.distributed.problem import ShardedRanking
from maxmargin.losses import RankingLoss
from maxmargin.problems.latent import LatentProblem


class ShardedLatentRanking(ShardedRanking, LatentProblem):
    """The hinge of :class:`maxmargin.problems.LatentRankingProblem`, one list of bags that is spread over shards.

    For :func:`maxmargin.latent.concave_convex`. An imputation is made where the bags are, from weights that the client keeps; a
    shard that is lost makes it anew. Cuts of earlier imputations are not handed on.

    Parameters
    ----------
    engine : Engine
        Of shards of the kind "bags".
    loss : str or RankingLoss
    relevance_threshold : float, optional
        As for :class:`ShardedRanking`, of the labels of bags.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> X = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> parts = split_rows(X, [1, 1, 0, 0], 2, qid=[0, 0, 1, 1])
    >>> problem = ShardedLatentRanking(LocalEngine([ShardOf(part, "bags") for part in parts]))
    >>> problem.impute(np.array([1.0, 0.0])), problem.impute(np.array([1.0, 0.0]))
    (True, False)
    >>> problem.hinge(np.array([1.0, 0.0]))
    0.0
    """

    offers = ShardedRanking.offers

    def __init__(self, engine: Engine, loss: str | RankingLoss = "ap", *, relevance_threshold: float | None = None) -> None:
        super().__init__(engine, loss, relevance_threshold=relevance_threshold)
        self._plain = self.shards.task

    def start(self, rng: np.random.Generator) -> None:
        """Random candidates."""
        self._impute({"seed": int(rng.integers(2**31))})

    def impute(self, weights: Floats) -> bool:
        """The candidates that are best for ``weights``; whether any changed."""
        before = self._marks
        self._impute({"imputed": np.array(weights, dtype=np.float64)})
        return before != self._marks

    def hinge(self, weights: Floats) -> float:
        """The hinge that is not convex, if ``weights`` were used for the imputation; otherwise an upper bound of it."""
        return float(self._pass(self.scores(weights), 1.0, None)[0].hinge)

    def _impute(self, how: dict[str, Any]) -> None:
        self.shards.set_task({**self._plain, **how})
        self._marks = [int(answer["mark"]) for answer in self.shards.ask("prepare")]
