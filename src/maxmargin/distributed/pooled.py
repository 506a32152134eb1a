"""Scores of held-out samples that stay on their shards, all on one scale: what is asked of them to cut and to calibrate.

The positives' scores come to the client, P numbers; of the others there are counts, neighbours of given numbers, and sums. All
answers are exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin._types import Floats, Ints
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.sums import tree_sum

# Scores of all shards together that part the others, where one by its rank is looked for.
_PARTING = 4096


class PooledScores:
    """Scores on shards of the kind "events".

    Parameters
    ----------
    shards : Conversation
        With a task that names folds.
    pooling : dict
        As in :meth:`~maxmargin.distributed.event_shard.EventShard.pool`.

    Attributes
    ----------
    positives : array of shape (P,)
        Of the class that is to be found, in rising order.
    n : int
        Samples that some fold holds out.
    lowest, highest, mean : float
        Of all of them.
    """

    def __init__(self, shards: Conversation, pooling: dict[str, Floats]) -> None:
        self._shards, self._pooling = shards, pooling
        self.look()

    def look(self) -> None:
        """Ask for what the attributes hold; the first question of every pass that uses them."""
        found = self._ask("pool")
        self.positives: Floats = np.sort(np.concatenate([answer["positives"] for answer in found]))
        self.n = len(self.positives) + sum(int(answer["negatives"]) for answer in found)
        self.lowest = min(float(answer["range"][0]) for answer in found)
        self.highest = max(float(answer["range"][1]) for answer in found)
        self.mean = math.fsum(float(answer["sum"]) for answer in found) / self.n

    def counts(self, values: Floats) -> tuple[Ints, Ints]:
        """How many negatives score at least as much as, and more than, each of the values."""
        return self._counted("pool_counts", values)

    def ranks(self, values: Floats) -> tuple[Ints, Ints]:
        """How many samples score at least as much as, and more than, each of the values."""
        return self._counted("pool_ranks", values)

    def neighbours(self, values: Floats) -> tuple[Floats, Floats]:
        """The largest score below each of the values and the smallest one above it; infinite where there is none."""
        found = [answer["range"] for answer in self._ask("pool_neighbours", values)]
        return np.max([below for below, _ in found], axis=0), np.min([above for _, above in found], axis=0)

    def of_rank(self, k: int) -> float:
        """The k-th largest score, counted from 1."""
        low, high = -math.inf, math.inf
        most = max(16, _PARTING // self._shards.n_shards)
        while True:
            # Between two neighbours of these there are few scores of any shard.
            sample = np.unique(np.concatenate([answer["sample"] for answer in self._ask("pool_sample", low, high, most)]))
            at_least, more = self.ranks(sample)
            there = int(np.searchsorted(-at_least, -k, side="right")) - 1  # the largest that k scores reach
            if there >= 0 and more[there] < k:
                return float(sample[there])
            low = float(sample[there]) if there >= 0 else low
            high = float(sample[there + 1]) if there + 1 < len(sample) else high

    def spread(self) -> float:
        """The standard deviation of all scores."""
        return math.sqrt(math.fsum(float(answer["squares"]) for answer in self._ask("pool_squares", self.mean)) / self.n)

    def sigmoid(self, at: Floats, scale: Floats, targets: Floats) -> tuple[float, Floats, Floats]:
        """Loss, gradient and Hessian of a sigmoid; see :meth:`~maxmargin.distributed.event_shard.EventShard.pool_sigmoid`."""
        found = self._ask("pool_sigmoid", at, scale, targets)
        loss = math.fsum(float(answer["loss"]) for answer in found)
        return loss, tree_sum([answer["gradient"] for answer in found]), tree_sum([answer["hessian"] for answer in found])

    def _counted(self, operation: str, values: Floats) -> tuple[Ints, Ints]:
        found = self._ask(operation, values)
        at_least, more = (np.sum([answer[name] for answer in found], axis=0) for name in ("above", "higher"))
        return at_least, more

    def _ask(self, operation: str, *args: Any) -> list[dict[str, Any]]:
        return self._shards.ask(operation, lambda shard: (self._pooling, *args))
