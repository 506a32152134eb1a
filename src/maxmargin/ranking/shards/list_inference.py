"""The most violating ranking of one list whose samples are scattered over shards, exactly.

The client knows the positives. Shards count their negatives in buckets that are the same everywhere; from the sums the client
knows which buckets have one rank as a whole, and between which ranks the members of the others lie. Few members remain undecided,
and only these are sent. Rounds of requests, whose arguments are one tuple for all shards or a list with one for each:

1. ``look``: the positives' scores, and counts in the buckets of the last time, or a sample to choose buckets from.
   Where the last time nearly all negatives were below every positive, only those above a *floor* are looked at: if they are as
   few as is needed to prove that the others still are, these are the undecided ones, and steps 2 and 3 are left out;
2. ``count``, if buckets were chosen anew;
3. ``write``: whole buckets are settled, limits decide between two ranks, what is undecided comes back
   (``split`` and ``decide`` before, where it would be too much);
4. ``place``: the ranks of the rest, and the sums that make the hinge.

Loss and ranks are those of :func:`maxmargin.most_violating_ranking` on the whole list; ties are dealt in the order of the shards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.distributed import Rounds
from maxmargin.ranking import RankingLoss, checked_loss
from maxmargin.ranking.shards.list_shard import add_trimmed, in_runs, rows_in_runs, short

# For a shard, runs of negatives in its order: how many positives are below each, and how many negatives these are.
Runs = tuple[Any, Any]

# Lists with so few negatives are sent as they are.
_SHORT = 4096
# So many undecided members of all shards are sent at once; more are split into finer buckets before, this often at most.
_UNDECIDED = 65_536
_SPLITS = 6
# Shards count positives in single precision; of more of them the scores of all negatives are sent, equal ones as one.
_MOST_POSITIVES = 2**24
# A floor is used where no more than this part of the negatives is expected above it.
_FLOOR_PART = 16


@dataclass(frozen=True, eq=False)
class ScatteredRanking:
    """The most violating ranking of a scattered list; the shards know the ranks of their negatives.

    Attributes
    ----------
    loss, hinge : float
    unit : float
        ``2 / (P N)``: the gradient of a negative is so many times the number of positives below it, that of a positive minus
        so many times the number of negatives above it.
    answers : list of dict
        What the shards have answered to the last round.
    """

    loss: float
    hinge: float
    unit: float
    answers: list[dict[str, Any]]


class ScatteredList:
    """One list over shards; asked again and again, it begins with the buckets of the last time.

    Parameters
    ----------
    loss : RankingLoss
    n_pos, n_neg : int arrays of shape (shards,)
        How many positives and negatives each shard has; both classes occur.
    """

    def __init__(self, loss: RankingLoss, n_pos: Ints, n_neg: Ints) -> None:
        self.n_pos, self.n_neg = np.asarray(n_pos, dtype=np.int64), np.asarray(n_neg, dtype=np.int64)
        self._P, self._N = int(self.n_pos.sum()), int(self.n_neg.sum())
        if self._P == 0 or self._N == 0:
            raise ValueError("a list needs relevant and irrelevant samples; mark relevant samples by 1 and the others by 0")
        cut = loss.at is not None and loss.at < self._P + self._N
        # Of a loss with a cut-off the first places decide; the best negatives of all shards can be in them.
        self._n_best = min(self._N, int(loss.at or 0)) if cut else 0
        name = loss.native_name()
        self._checked = checked_loss(loss)
        if name is None and not self._checked.is_suitable(self._P, self._N):
            raise ValueError(
                f"loss={loss!r} is not QS-suitable, and a list of {self._P + self._N:,} samples over several shards is ranked "
                "for such losses alone; use one of the built-in losses, or keep the list in one shard"
            )
        self._loss: Any = name if name is not None else self._checked
        self._buckets: Floats | None = None
        # Members of open buckets, when buckets were last chosen from a sample.
        self._open = 0
        # Below it there were only negatives that have no positive below them.
        self._floor: float | None = None

    @property
    def unit(self) -> float:
        """``2 / (P N)``, see :class:`ScatteredRanking`."""
        return 2.0 / (float(self._P) * float(self._N))

    def loss_of(self, above: Ints) -> float:
        """The loss of a ranking with so many negatives above every positive, the best of them first."""
        return float(self._checked.value(np.ascontiguousarray(above), self._N))

    def guess(self) -> Floats:
        """What the next question begins with, for files: the number of open members, a floor and buckets if there are any."""
        floor = [] if self._floor is None else [self._floor]
        return np.array([self._open, *floor, *([] if self._buckets is None else self._buckets)], dtype=np.float64)

    def begin_with(self, guess: Floats) -> None:
        """The way back."""
        self._open = int(guess[0])
        # Buckets are made of five numbers.
        self._floor = float(guess[1]) if len(guess) in (2, 7) else None
        self._buckets = np.array(guess[-5:]) if len(guess) > 2 else None

    @staticmethod
    def is_guess(guess: Any) -> bool:
        """Whether an array could be a :meth:`guess`."""
        if not isinstance(guess, np.ndarray) or guess.dtype != np.float64 or guess.ndim != 1 or len(guess) not in (1, 2, 6, 7):
            return False
        if not np.isfinite(guess).all() or guess[0] < 0:
            return False
        return len(guess) <= 2 or bool(_core.ListMerge.is_usable(np.array(guess[-5:])))

    def find(self, loss_scale: float = 1.0) -> Rounds[ScatteredRanking]:
        """Find the ranking at the weights that shards have received, as a generator of requests for `run_rounds`.

        The loss counts ``loss_scale`` times, which must not be negative.
        """
        if not loss_scale >= 0:
            raise ValueError(f"loss_scale={loss_scale} must not be negative for a list that is scattered over shards")
        floor, most = self._floor, self._most(len(self.n_neg))
        replies = yield "look", (self._buckets if floor is None else None, self._n_best, floor, most)
        scores = np.concatenate([np.asarray(reply["positives"], dtype=np.float64) for reply in replies])
        # Stable: tied positives are in the order of the shards.
        order = np.argsort(-scores, kind="stable")
        positives = scores[order]
        # A loss written in Python need not be asked where it has no say.
        silent = loss_scale == 0 and not isinstance(self._loss, str)
        merge = _core.ListMerge(positives, self._N, "auc" if silent else self._loss, loss_scale)
        if merge.negatives_needed:
            best = np.sort(np.concatenate([reply["best"] for reply in replies]))[::-1]
            merge.decide_first(np.ascontiguousarray(best[: merge.negatives_needed]))
        origin = float(positives[-1])
        filled = [reply for reply, n in zip(replies, self.n_neg, strict=True) if n]
        first = float(filled[0]["first"])
        if all(reply["equal"] and reply["first"] == first for reply in filled):
            # A list that is constant says nothing about buckets of the next one.
            self._buckets = self._floor = None
            runs, how = [_sent(*run) for run in merge.rank_equal(first, self.n_neg)], "place_equal"
        else:
            runs, counts = yield from self._ranks(merge, replies, origin)
            how = "place"
        above = merge.negatives_above()
        if how == "place":
            self._floor = self._next_floor(int(above[-1]), counts)
        own = np.empty(self._P, dtype=np.int64)
        own[order] = above
        parts = np.split(own, np.cumsum(self.n_pos)[:-1])
        answers = yield how, [(*run, origin, part) for run, part in zip(runs, parts, strict=True)]
        unit = self.unit
        loss = self.loss_of(above) if silent else merge.loss(above)
        terms = [unit * float(answer["total"]) for answer in answers]
        terms += (-unit * above * (positives - origin)).tolist()
        terms.append(loss_scale * loss)
        # The true ranking violates nothing; rounding may say otherwise.
        return ScatteredRanking(loss, max(0.0, math.fsum(terms)), unit, answers)

    def _most(self, n_shards: int) -> int:
        """How many undecided members a shard may send."""
        return max(_UNDECIDED, 8 * self._P) // n_shards

    def _next_floor(self, live: int, counts: Ints | int) -> float | None:
        """A floor for the next time: this time ``live`` negatives had positives below them; counts are those of buckets, or kept.

        Twice as many as were needed are kept: scores move, and a proof that fails costs two rounds.
        """
        wanted = 2 * live + _SHORT
        if isinstance(counts, int):
            # A few in a hundred cost little; with buckets too coarse for a better floor, these would be in use every other time.
            many = min(max(2 * wanted, self._N // (4 * _FLOOR_PART)), self._N // 4)
            return self._floor if counts < many and 8 * counts > 9 * live else None
        if self._buckets is None or wanted * _FLOOR_PART > self._N or self._P > _MOST_POSITIVES:
            return None
        reached = np.cumsum(counts)
        # The last bucket has no lower end.
        bucket = min(int(np.searchsorted(reached, wanted)), len(counts) - 2)
        return _core.ListMerge.lowest(self._buckets, bucket) if 8 * reached[bucket] >= 9 * live else None

    def _ranks(
        self, merge: _core.ListMerge, replies: list[dict[str, Any]], origin: float
    ) -> Rounds[tuple[list[Runs], Ints | int]]:
        """The ranks of what shards have left undecided, by all rounds but the first and the last.

        And how many negatives were in which bucket, or above the floor.
        """
        if self._floor is not None:
            kept = sum(int(reply["undecided"][0]) for reply in replies)
            if merge.keep_above(kept, self._floor):
                return (yield from self._settled(merge, replies, origin)), kept
            self._floor = self._buckets = None
            replies = yield "sample", ()
        planned = yield from self._planned(merge, replies)
        if planned is None:
            merge.all_in_one()
            return self._ranked(merge, (yield "aside", (origin,))), self._N
        buckets, plan, counts = planned
        replies = yield "write", (buckets, plan, rows_in_runs(*merge.sides()), origin, self._most(len(replies)))
        return (yield from self._settled(merge, replies, origin)), counts

    def _settled(self, merge: _core.ListMerge, replies: list[dict[str, Any]], origin: float) -> Rounds[list[Runs]]:
        """The ranks of what is undecided in groups; large ones are split before."""
        most = self._most(len(replies))
        self._decided(merge, replies)
        for _ in range(_SPLITS):
            if all("entries" in reply for reply in replies):
                break
            splits = merge.splits()
            if not len(splits):
                break
            finer = yield "split", (splits,)
            merge.split(add_trimmed([reply["counts"] for reply in finer]))
            replies = yield "decide", (rows_in_runs(*merge.sides()), origin, most)
            self._decided(merge, replies)
        if not all("entries" in reply for reply in replies):
            replies = yield "undecided", ()
        return self._ranked(merge, replies)

    def _planned(
        self, merge: _core.ListMerge, replies: list[dict[str, Any]]
    ) -> Rounds[tuple[Floats, dict[str, Any], Ints] | None]:
        """Buckets, which of them have one rank, and how many are in each; None where there are none to be had."""
        if self._N <= _SHORT or self._P > _MOST_POSITIVES:
            return None
        if self._buckets is not None:
            # Points of a line are close to each other: what parted the last ones may part these too.
            counts = add_trimmed([reply["counts"] for reply in replies])
            below, open_now = merge.plan(self._buckets, counts)
            if open_now <= min(2 * self._open + self._N // 100, self._N // 2):
                return self._buckets, in_runs(below), counts
            replies = yield "sample", ()
        self._buckets = None
        # As many of every shard as it has negatives: the sample of the whole list must not lean to small shards.
        buckets, usable = merge.choose_buckets(self._mixed([reply["sample"] for reply in replies]))
        if not usable:
            return None
        replies = yield "count", (buckets,)
        counts = add_trimmed([reply["counts"] for reply in replies])
        below, self._open = merge.plan(buckets, counts)
        if self._open <= self._N // 2:
            self._buckets = buckets
        return buckets, in_runs(below), counts

    def _mixed(self, samples: Sequence[Floats]) -> Floats:
        """A sample of all, to which every shard adds according to its size."""
        sizes = np.array([len(sample) for sample in samples])
        drawn = (sizes > 0) & (self.n_neg > 0)
        part = float((sizes[drawn] / self.n_neg[drawn]).min())
        kept = [
            sample[np.linspace(0, len(sample) - 1, max(1, round(part * n))).astype(np.int64)]
            for sample, n in zip(samples, self.n_neg, strict=True)
            if len(sample)
        ]
        return np.concatenate(kept)

    @staticmethod
    def _decided(merge: _core.ListMerge, replies: list[dict[str, Any]]) -> None:
        above = np.asarray(np.sum([reply["above"] for reply in replies], axis=0), dtype=np.int64)
        undecided = np.asarray(np.sum([reply["undecided"] for reply in replies], axis=0), dtype=np.int64)
        lowest, highest = np.full(len(above), np.inf), np.full(len(above), -np.inf)
        for reply in replies:
            some = reply["undecided"] > 0
            lowest[some] = np.minimum(lowest[some], reply["range"][0])
            highest[some] = np.maximum(highest[some], reply["range"][1])
        merge.decided(above, undecided, lowest, highest)

    @staticmethod
    def _ranked(merge: _core.ListMerge, replies: list[dict[str, Any]]) -> list[Runs]:
        told = [reply["entries"] for reply in replies]
        group = np.concatenate([np.repeat(groups.astype(np.int32), sizes) for groups, sizes, _, _ in told])
        score = np.concatenate([scores for _, _, scores, _ in told])
        ones = [counts.astype(np.int64) if len(counts) else np.ones(len(scores), np.int64) for _, _, scores, counts in told]
        shard = np.repeat(np.arange(len(replies), dtype=np.int32), [len(scores) for _, _, scores, _ in told])
        runs = merge.rank(group, score, np.concatenate(ones), shard, len(replies))
        return [_sent(*run) for run in runs]


def _sent(below: Floats, count: Ints) -> Runs:
    """Runs in numbers that are as short as can be."""
    return below.astype(np.float32 if below.max(initial=0) < 1 << 24 else np.float64), short(count)
