"""The most violating ranking of one list whose samples are scattered over shards, exactly.

The client knows the positives. Shards count their negatives in buckets that are the same everywhere; from the sums the client
knows which buckets have one rank as a whole, and between which ranks the members of the others lie. Few members remain undecided,
and only these are sent. Rounds of questions to all shards:

1. ``look``: the positives' scores, and counts in the buckets of the last time, or a sample to choose buckets from;
2. ``count``, if buckets were chosen anew;
3. ``write``: whole buckets are settled, limits decide between two ranks, what is undecided comes back
   (``split`` and ``decide`` before, where it would be too much);
4. ``place``: the ranks of the rest, and the sums that make the hinge.

Loss and ranks are those of :func:`maxmargin.most_violating_ranking` on the whole list; ties are dealt in the order of the shards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin import _core
from maxmargin._types import Floats, Ints
from maxmargin.distributed.list_shard import add_trimmed, in_runs
from maxmargin.losses import RankingLoss
from maxmargin.losses.checked import checked_loss

# For a shard, runs of negatives in its order: how many positives are below each, and how many negatives these are.
Runs = tuple[Floats, Ints]

# Asks all shards: an operation, and one tuple of arguments for all of them or a list with one for each.
Call = Callable[[str, tuple[Any, ...] | list[tuple[Any, ...]]], list[dict[str, Any]]]

# Lists with so few negatives are sent as they are.
_SHORT = 4096
# So many undecided members of all shards are sent at once; more are split into finer buckets before, this often at most.
_UNDECIDED = 65_536
_SPLITS = 6


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

    @property
    def unit(self) -> float:
        """``2 / (P N)``, see :class:`ScatteredRanking`."""
        return 2.0 / (float(self._P) * float(self._N))

    def loss_of(self, above: Ints) -> float:
        """The loss of a ranking with so many negatives above every positive, the best of them first."""
        return float(self._checked.value(np.ascontiguousarray(above), self._N))

    def guess(self) -> Floats:
        """What the next question begins with, for files: the number of open members, and the buckets if there are any."""
        return np.array([self._open, *([] if self._buckets is None else self._buckets)], dtype=np.float64)

    def begin_with(self, guess: Floats) -> None:
        """The way back."""
        self._open = int(guess[0])
        self._buckets = np.array(guess[1:]) if len(guess) > 1 else None

    def find(self, call: Call, loss_scale: float = 1.0) -> ScatteredRanking:
        """Ask the shards, which have been told the weights. The loss counts ``loss_scale`` times, which must not be negative."""
        if not loss_scale >= 0:
            raise ValueError(f"loss_scale={loss_scale} must not be negative for a list that is scattered over shards")
        replies = call("look", (self._buckets, self._n_best))
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
        filled = self.n_neg > 0
        lowest = min(reply["lowest"] for reply, any_here in zip(replies, filled, strict=True) if any_here)
        highest = max(reply["highest"] for reply, any_here in zip(replies, filled, strict=True) if any_here)
        if lowest == highest:
            # A list that is constant says nothing about buckets of the next one.
            self._buckets = None
            runs, how = merge.rank_equal(lowest, self.n_neg), "place_equal"
        else:
            runs, how = self._ranks(call, merge, replies, origin), "place"
        above = merge.negatives_above()
        own = np.empty(self._P, dtype=np.int64)
        own[order] = above
        parts = np.split(own, np.cumsum(self.n_pos)[:-1])
        more = (origin,) if how == "place_equal" else ()
        answers = call(how, [(*run, *more, part) for run, part in zip(runs, parts, strict=True)])
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

    def _ranks(self, call: Call, merge: _core.ListMerge, replies: list[dict[str, Any]], origin: float) -> list[Runs]:
        """The ranks of what shards have left undecided, by all rounds but the first and the last."""
        planned = self._planned(call, merge, replies)
        if planned is None:
            merge.all_in_one()
            return self._ranked(merge, call("aside", (origin,)))
        most = self._most(len(replies))
        buckets, plan = planned
        replies = call("write", (buckets, plan, merge.sides(), origin, most))
        self._decided(merge, replies)
        for _ in range(_SPLITS):
            if all("entries" in reply for reply in replies):
                break
            splits = merge.splits()
            if not len(splits):
                break
            merge.split(add_trimmed([reply["counts"] for reply in call("split", (splits,))]))
            replies = call("decide", (merge.sides(), most))
            self._decided(merge, replies)
        if not all("entries" in reply for reply in replies):
            replies = call("undecided", ())
        return self._ranked(merge, replies)

    def _planned(self, call: Call, merge: _core.ListMerge, replies: list[dict[str, Any]]) -> tuple[Floats, dict[str, Any]] | None:
        """Buckets, and which of them have one rank; None where there are none to be had."""
        if self._N <= _SHORT:
            return None
        if self._buckets is not None:
            # Points of a line are close to each other: what parted the last ones may part these too.
            below, open_now = merge.plan(self._buckets, add_trimmed([reply["counts"] for reply in replies]))
            if open_now <= min(2 * self._open + self._N // 100, self._N // 2):
                return self._buckets, in_runs(below)
            replies = call("sample", ())
        self._buckets = None
        # As many of every shard as it has negatives: the sample of the whole list must not lean to small shards.
        buckets, usable = merge.choose_buckets(self._mixed([reply["sample"] for reply in replies]))
        if not usable:
            return None
        below, self._open = merge.plan(buckets, add_trimmed([reply["counts"] for reply in call("count", (buckets,))]))
        if self._open <= self._N // 2:
            self._buckets = buckets
        return buckets, in_runs(below)

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
        above, undecided = (np.sum([reply[name] for reply in replies], axis=0) for name in ("above", "undecided"))
        lowest = np.min([reply["range"][0] for reply in replies], axis=0)
        highest = np.max([reply["range"][1] for reply in replies], axis=0)
        merge.decided(above, undecided, lowest, highest)

    @staticmethod
    def _ranked(merge: _core.ListMerge, replies: list[dict[str, Any]]) -> list[Runs]:
        group, score, count = (np.concatenate([reply["entries"][k] for reply in replies]) for k in range(3))
        shard = np.repeat(np.arange(len(replies), dtype=np.int32), [len(reply["entries"][0]) for reply in replies])
        found: list[Runs] = merge.rank(group, score, count, shard, len(replies))
        return found
