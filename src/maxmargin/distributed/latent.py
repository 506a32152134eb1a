"""Weakly supervised rankings over shards: bags of candidates, of which those of the positives are imputed in turn."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from maxmargin._types import Floats
from maxmargin.cuts import Cut
from maxmargin.distributed.engine import Engine
from maxmargin.distributed.problem import ShardedRanking
from maxmargin.distributed.sums import tree_sum
from maxmargin.losses import RankingLoss
from maxmargin.problems.latent import LatentProblem

# Cuts kept within a round and for the next one, at most.
_KEPT, _HANDED_ON = 100, 30


class SharedPlane(NamedTuple):
    """A cut in a form that outlives the imputation it was made with."""

    loss: float
    # By shard, coefficients of what is imputed.
    shares: list[Floats]
    # The part of the derivative that does not depend on it.
    rest: Floats


class ShardedLatentRanking(ShardedRanking, LatentProblem):
    """The hinge of :class:`maxmargin.problems.LatentRankingProblem`, one list of bags that is spread over shards.

    For :func:`maxmargin.latent.concave_convex`. An imputation is made where the bags are, from weights that the client keeps; a
    shard that is lost makes it anew. Cuts are handed on to the next imputation, as on one machine.

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
        self._planes: deque[SharedPlane] = deque(maxlen=_KEPT)
        super().__init__(engine, loss, relevance_threshold=relevance_threshold)
        self._plain = self.shards.task

    def start(self, rng: np.random.Generator) -> None:
        """Random candidates."""
        self._planes.clear()
        self._impute({"seed": int(rng.integers(2**31))})

    def impute(self, weights: Floats) -> bool:
        """The candidates that are best for ``weights``; whether any changed."""
        before = self._marks
        # Only the cuts that are highest here have a say in the next solution nearby.
        heights = [cut.hinge(weights) for cut in self.known_cuts()]
        kept = np.sort(np.argsort(heights, kind="stable")[-_HANDED_ON:])
        self._planes = deque((self._planes[k] for k in kept), maxlen=_KEPT)
        self._impute({"imputed": np.array(weights, dtype=np.float64)})
        return before != self._marks

    def hinge(self, weights: Floats) -> float:
        """The hinge that is not convex, if ``weights`` were used for the imputation; otherwise an upper bound of it."""
        return float(self._pass(self.scores(weights), 1.0, None)[0].hinge)

    def known_cuts(self) -> list[Cut]:
        """Cuts of earlier imputations, made valid for this one; in one round."""
        planes = list(self._planes)
        if not planes:
            return []
        found = self.shards.ask("imputed_sums", lambda shard: (np.array([plane.shares[shard] for plane in planes]),))
        for shard, answer in enumerate(found):
            if answer["mark"] != self._marks[shard]:
                raise self._changed(shard)
        sums = tree_sum([answer["sums"] for answer in found])
        return [Cut(plane.rest + own, plane.loss) for plane, own in zip(planes, sums, strict=True)]

    def _note(self, total: Floats, found: list[dict[str, Any]], losses: list[float]) -> None:
        own = tree_sum([answer["own"] for answer in found])
        self._planes.append(SharedPlane(math.fsum(losses), [answer["shares"] for answer in found], -total - own))

    def _impute(self, how: dict[str, Any]) -> None:
        self.shards.set_task({**self._plain, **how})
        self._marks = [int(answer["mark"]) for answer in self.shards.ask("prepare")]
