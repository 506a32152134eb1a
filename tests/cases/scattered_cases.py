"""Lists cut into shards, without an engine: every operation is answered in turn."""

from itertools import pairwise

import numpy as np

from maxmargin.distributed import run_rounds
from maxmargin.ranking import ranking_loss
from maxmargin.ranking.shards import ScatteredList
from maxmargin.ranking.shards.list_shard import ListPart, Scores


class Shards:
    """The parts of a list between cuts, and what was asked of them."""

    def __init__(self, scores, relevant, cuts, n_threads=1):
        edges = np.concatenate([[0], np.sort(np.asarray(cuts, dtype=int)), [len(scores)]])
        self.rows = [np.arange(first, last) for first, last in pairwise(edges)]
        self.parts = [ListPart(n_threads) for _ in self.rows]
        self.relevant = np.asarray(relevant, dtype=bool)
        self.asked: list[str] = []
        self.move(scores)

    def move(self, scores):
        """Other scores of the same samples."""
        self.scores = np.asarray(scores, dtype=float)

    @property
    def n_pos(self):
        return np.array([np.count_nonzero(self.relevant[rows]) for rows in self.rows])

    @property
    def n_neg(self):
        return np.array([len(rows) for rows in self.rows]) - self.n_pos

    def __call__(self, operation, args):
        self.asked.append(operation)
        return [self._answer(k, operation, args[k] if isinstance(args, list) else args) for k in range(len(self.parts))]

    def _answer(self, k, operation, args):
        rows, part = self.rows[k], self.parts[k]
        if operation == "look":
            own = self.scores[rows]
            negatives = own[~self.relevant[rows]]
            # Every other shard makes its scores of two arrays, 2 s - s, when it needs them.
            made_of = (np.array([2.0, -1.0]), [negatives, negatives]) if k % 2 else (np.ones(1), [negatives])
            room, below = np.full((2, len(negatives)), np.nan)
            answer = part.look(Scores(*made_of, room), below, *args)
            assert answer.pop("finite")
            return {**answer, "positives": own[self.relevant[rows]]}
        if operation in ("place", "place_equal"):
            *args, self.above = args
            self.own_above = getattr(self, "own_above", {}) | {k: self.above}
        return getattr(part, operation)(*args)

    def gradient(self, unit):
        """Of the whole list, in input order."""
        gradient = np.empty(len(self.scores))
        for k, (rows, part) in enumerate(zip(self.rows, self.parts, strict=True)):
            own = np.empty(len(rows))
            below = part.below
            if part.kept is not None:
                below = np.zeros(int(self.n_neg[k]))
                below[part.kept] = part.below
            own[~self.relevant[rows]] = unit * below
            own[self.relevant[rows]] = -unit * self.own_above[k]
            gradient[rows] = own
        return gradient


def ranked_by(task, shards):
    """The result of a list whose requests the shards answer."""
    return run_rounds([task], lambda requests: {k: shards(*request) for k, request in requests.items()})[0]


def scattered(scores, relevant, cuts, loss="ap", loss_scale=1.0, n_threads=1):
    """Shards, and what was found on them."""
    shards = Shards(scores, relevant, cuts, n_threads)
    found = ScatteredList(ranking_loss(loss), shards.n_pos, shards.n_neg).find(loss_scale)
    return shards, ranked_by(found, shards)
