"""A shard's part of one list: its negatives, and how many positives each of them has below it.

What the operations mean together is in :mod:`maxmargin.distributed.list_inference`; ``cpp/ranking/scattered.hpp`` does the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin import _core
from maxmargin._types import Floats, Int32s, Ints

# A sample of the negatives has so many at most, from every shard.
_SAMPLE = 1024


class ListPart:
    """The negatives of a list that lie in one shard, with their scores at the weights last looked at.

    Parameters
    ----------
    n_threads : int
        For the passes over the scores; no result depends on it.

    Attributes
    ----------
    below : array of shape (negatives,)
        The number of positives below each negative, once :meth:`place` was called. The gradient of the hinge is
        ``2 / (P N)`` times it.
    """

    operations = frozenset({"sample", "count", "write", "aside", "split", "decide", "undecided", "place", "place_equal"})

    def __init__(self, n_threads: int = 1) -> None:
        self._n_threads = n_threads
        self._shard = _core.ListShard(np.zeros(0), n_threads)

    @property
    def below(self) -> Floats:
        """As in the class."""
        return self._shard.below

    def look(self, scores: Floats, lowest: float, highest: float, buckets: Floats | None, n_best: int) -> dict[str, Any]:
        """At new scores of the negatives, all finite: their range, a sample, the best ones and, in buckets guessed, how many."""
        self._shard = _core.ListShard(scores, self._n_threads)
        found: dict[str, Any] = {"lowest": lowest, "highest": highest, "best": self._shard.best(n_best)}
        if buckets is None:
            found["sample"] = self._shard.sample(_SAMPLE)[0]
        else:
            found["counts"] = trimmed(self._shard.count(buckets)[0])
        return found

    def sample(self) -> dict[str, Any]:
        """Some of the scores."""
        return {"sample": self._shard.sample(_SAMPLE)[0]}

    def count(self, buckets: Floats) -> dict[str, Any]:
        """How many negatives are in which bucket."""
        return {"counts": trimmed(self._shard.count(buckets)[0])}

    def write(self, buckets: Floats, plan: dict[str, Any], sides: tuple[Any, ...], origin: float, most: int) -> dict[str, Any]:
        """Settle whole buckets, and of the others what limits decide."""
        self._shard.write(buckets, np.repeat(plan["below"], plan["buckets"]), origin)
        return self.decide(sides, most)

    def aside(self, origin: float) -> dict[str, Any]:
        """All negatives, as if in one bucket, undecided."""
        self._shard.put_aside(origin)
        return self.undecided()

    def decide(self, sides: tuple[Any, ...], most: int) -> dict[str, Any]:
        """What limits decide; the rest is told if it is no more than ``most``."""
        above, undecided, lowest, highest = self._shard.decide(*sides)
        found: dict[str, Any] = {"above": above, "undecided": undecided, "range": (lowest, highest)}
        if int(undecided.sum()) <= most:
            found.update(self.undecided())
        return found

    def split(self, splits: Floats) -> dict[str, Any]:
        """Finer buckets of what is undecided, and how many are in each."""
        return {"counts": trimmed(self._shard.split(splits))}

    def undecided(self) -> dict[str, Any]:
        """Groups, scores and how many have them, of what is undecided."""
        group, score, count = self._shard.undecided()
        return {"entries": (group, score, count)}

    def place(self, below: Floats, count: Ints) -> dict[str, Any]:
        """Ranks of what was undecided; the sum over all negatives of positives below times (score - origin)."""
        self._shard.place(below, count)
        return {"total": self._shard.total()}

    def place_equal(self, below: Floats, count: Ints, origin: float) -> dict[str, Any]:
        """Ranks of negatives that all have the same score."""
        self._shard.place_equal(below, count, origin)
        return {"total": self._shard.total()}


def trimmed(counts: Ints) -> dict[str, Any]:
    """Counts without the zeros at both ends, in the shortest numbers that hold them.

    Examples
    --------
    >>> trimmed(np.array([0, 0, 7, 0, 2, 0]))["counts"]
    array([7, 0, 2], dtype=uint8)
    """
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
    kept = counts[first:last]
    return {"first": first, "size": len(counts), "counts": kept.astype(np.min_scalar_type(int(kept.max(initial=0))))}


def add_trimmed(parts: list[dict[str, Any]]) -> Ints:
    """The sum of counts that were trimmed.

    Examples
    --------
    >>> add_trimmed([trimmed(np.array([0, 1, 2])), trimmed(np.array([5, 0, 0]))])
    array([5, 1, 2])
    """
    total = np.zeros(parts[0]["size"], dtype=np.int64)
    for part in parts:
        if part["size"] != len(total):
            raise RuntimeError("shards count in different buckets")
        total[part["first"] : part["first"] + len(part["counts"])] += part["counts"]
    return total


def in_runs(below: Any) -> dict[str, Any]:
    """A plan for buckets, equal neighbours as one number; -0.0 is not 0.0.

    Examples
    --------
    >>> in_runs(np.array([2.0, 2.0, -0.0, 0.0, 0.0], dtype=np.float32))
    {'below': array([ 2., -0.,  0.], dtype=float32), 'buckets': array([2, 1, 2], dtype=int32)}
    """
    bits = below.view(np.int32)
    starts = np.flatnonzero(np.concatenate(([True], bits[1:] != bits[:-1])))
    lengths: Int32s = np.diff(np.append(starts, len(below))).astype(np.int32)
    return {"below": below[starts], "buckets": lengths}
