"""A shard's part of one list: its negatives, and how many positives each of them has below it.

What the operations mean together is in :mod:`maxmargin.ranking.shards.list_inference`; the work is done in
``cpp/ranking/split_list.hpp``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, Ints, Reals

# A sample of the negatives has so many at most, from every shard.
_SAMPLE = 1024
# Limits that decide nothing.
_NOTHING = np.zeros(1, dtype=np.float32)
_UNLIMITED = (_NOTHING, _NOTHING, np.array([-np.inf]), np.array([np.inf]), np.ones(1, dtype=np.uint8))


class Scores(NamedTuple):
    """Scores of negatives as sums of ``arrays`` times ``coefficients``; ``room`` is for those that have to be written down."""

    coefficients: Floats
    arrays: list[Floats]
    room: Floats

    def shard(self, below: Floats, n_threads: int) -> _core.ListShard:
        """A list of them, made when they are first looked at."""
        if len(self.arrays) == 1 and self.coefficients[0] == 1.0:
            return _core.ListShard(self.arrays[0], below, n_threads)
        return _core.ListShard(self.coefficients, self.arrays, self.room, below, n_threads)


class ListPart:
    """The negatives of a list that lie in one shard, with their scores at the weights last looked at.

    Parameters
    ----------
    n_threads : int
        For the passes over the scores; no result depends on it.

    Attributes
    ----------
    below : array of shape (negatives,) or (kept,)
        The number of positives below each negative, once :meth:`place` was called. The gradient of the hinge is
        ``2 / (P N)`` times it.
    kept : int array of shape (kept,), optional
        Those that ``below`` is about, where there were few above a floor; the others have none below them.
    """

    operations = frozenset({"sample", "count", "write", "aside", "split", "decide", "undecided", "place", "place_equal"})

    def __init__(self, n_threads: int = 1) -> None:
        self._n_threads = n_threads
        self.below = self._all = np.zeros(0)
        self.kept: Int32s | None = None
        self._shard = _core.ListShard(np.zeros(0), self.below, n_threads)

    def look(
        self, scores: Scores, below: Floats, buckets: Floats | None, n_best: int, floor: float | None, most: int
    ) -> dict[str, Any]:
        """At new scores of the negatives: whether they are equal, the best, and how many are in buckets guessed.

        Where a floor is guessed, only what is above it is looked at; with no guess, a sample is told. The positives below each
        are written to ``below``, an array that need not be filled. Scores that are not ``finite`` are looked at no further.
        """
        self._whole(below)
        self._shard = scores.shard(below, self._n_threads)
        found: dict[str, Any] = {}
        if floor is not None:
            self.kept, self.below, finite = self._shard.keep_above(floor)
            found.update(self.decide(_UNLIMITED, 0.0, most))
        elif buckets is None:
            finite = self._shard.make()
            found["sample"] = self._shard.sample(_SAMPLE)[0]
        else:
            counts, finite = self._shard.count(buckets)
            found["counts"] = trimmed(counts)
        if not finite:
            return {"finite": False}
        found.update(equal=self._shard.all_equal(), first=self._shard.first(), best=self._shard.best(n_best))
        return {"finite": True, **found}

    def sample(self) -> dict[str, Any]:
        """Some of the scores."""
        return {"sample": self._shard.sample(_SAMPLE)[0]}

    def count(self, buckets: Floats) -> dict[str, Any]:
        """How many negatives are in which bucket."""
        return {"counts": trimmed(self._shard.count(buckets)[0])}

    def write(self, buckets: Floats, plan: dict[str, Any], sides: tuple[Any, ...], origin: float, most: int) -> dict[str, Any]:
        """Settle whole buckets, and of the others what limits decide."""
        self._whole(self._all)
        self._shard.write(buckets, np.repeat(plan["below"], plan["buckets"]), origin)
        return self.decide(sides, origin, most)

    def aside(self, origin: float) -> dict[str, Any]:
        """All negatives, as if in one bucket, undecided."""
        self._whole(self._all)
        self._shard.put_aside(origin)
        return self.undecided()

    def decide(self, sides: tuple[Any, ...], origin: float, most: int) -> dict[str, Any]:
        """What limits decide; the rest is told if it is no more than ``most``."""
        self._shard.count_from(origin)
        *limits, lengths = sides
        above, undecided, lowest, highest = self._shard.decide(*(np.repeat(one, lengths) for one in limits))
        some = undecided > 0
        found: dict[str, Any] = {"above": short(above), "undecided": short(undecided), "range": (lowest[some], highest[some])}
        if int(undecided.sum()) <= most:
            found.update(self.undecided())
        return found

    def split(self, splits: Floats) -> dict[str, Any]:
        """Finer buckets of what is undecided, and how many are in each."""
        return {"counts": trimmed(self._shard.split(splits))}

    def undecided(self) -> dict[str, Any]:
        """Scores of what is undecided and how many have them; and the groups they are in, how many scores of each."""
        group, score, count = self._shard.undecided()
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(starts, append=len(group))
        # Nearly always every score is there once.
        return {"entries": (short(group[starts]), short(sizes), score, short(count if (count != 1).any() else count[:0]))}

    def place(self, below: Reals, count: Any, origin: float) -> dict[str, Any]:
        """Ranks of what was undecided; the sum over all negatives of positives below times (score - origin)."""
        self._shard.count_from(origin)
        self._shard.place(below.astype(np.float64), count.astype(np.int64))
        return {"total": self._shard.total()}

    def place_equal(self, below: Reals, count: Any, origin: float) -> dict[str, Any]:
        """Ranks of negatives that all have the same score."""
        self._whole(self._all)
        self._shard.place_equal(below.astype(np.float64), count.astype(np.int64), origin)
        return {"total": self._shard.total()}

    def _whole(self, below: Floats) -> None:
        """All negatives are looked at."""
        self.below, self._all, self.kept = below, below, None


def short(counts: Ints | Int32s) -> Any:
    """Counts in the shortest numbers that hold them: this is how they travel.

    Examples
    --------
    >>> short(np.array([3, 300]))
    array([  3, 300], dtype=uint16)
    """
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def trimmed(counts: Ints) -> dict[str, Any]:
    """Counts without the zeros at both ends, in the shortest numbers that hold them.

    Examples
    --------
    >>> trimmed(np.array([0, 0, 7, 0, 2, 0]))["counts"]
    array([7, 0, 2], dtype=uint8)
    """
    filled = np.flatnonzero(counts)
    first, last = (int(filled[0]), int(filled[-1]) + 1) if len(filled) else (0, 0)
    return {"first": first, "size": len(counts), "counts": short(counts[first:last])}


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


def rows_in_runs(*columns: Any) -> tuple[Any, ...]:
    """Columns of the same length with equal neighbouring rows as one, and how many rows these are.

    Examples
    --------
    >>> rows_in_runs(np.array([1, 1, 1]), np.array([2.0, 2.0, 3.0]))
    (array([1, 1]), array([2., 3.]), array([2, 1], dtype=uint8))
    """
    n = len(columns[0])
    differs = np.ones(n, dtype=bool)
    if n > 1:
        differs[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    starts = np.flatnonzero(differs)
    return *(column[starts] for column in columns), short(np.diff(starts, append=n))


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
