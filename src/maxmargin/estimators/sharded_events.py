"""Samples of two classes over shards, for the classifier of rare events: the same answers as in memory, and no rows gathered."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from maxmargin._types import Bytes, Floats, Ints
from maxmargin._validation import ArgumentError
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.events import Labels, ShardedEvents, labels_of
from maxmargin.distributed.folds import NEVER
from maxmargin.distributed.pooled import PooledScores
from maxmargin.estimators.calibration import fit_sigmoid, isotonic, targets_of
from maxmargin.estimators.classifier import RankingClassifier, one_class_fold
from maxmargin.estimators.cutoffs import Aim, Cutoff, Cuts, best_cut, between, outcome_of_counts, within_budget
from maxmargin.estimators.descent import Attempt, DirectLists, Trial
from maxmargin.estimators.event_samples import HeldOutScores
from maxmargin.estimators.linear_start import MOST_FEATURES_OF_NEWTON, TunedStart, own_metric, search_grid
from maxmargin.losses import RankingLoss

Result = TypeVar("Result")


class SamplesOverShards:
    """What :class:`maxmargin.estimators.event_samples.SamplesInMemory` is for data in memory.

    Parameters
    ----------
    events : ShardedEvents
        Standardised, and with folds.
    """

    def __init__(self, events: ShardedEvents) -> None:
        self.events, self.center, self.scale = events, events.center, events.scale

    @property
    def shards(self) -> Conversation:
        """Who asks."""
        return self.events.shards

    def tune(self, start: str, Cs: Sequence[float] | None, loss: RankingLoss, tell: Callable[[str], None]) -> TunedStart:
        """The logistic regression with the best C."""
        assert start == "logistic" and Cs is not None
        return search_grid(_RegressionsOverShards(self.events, loss), Cs, tell)

    def in_folds(
        self, by_fold: Sequence[Floats], loss: RankingLoss, may_mix: bool, attempt: Attempt
    ) -> Iterator[Trial | None]:
        """On lists of some rows of every shard, which nobody copies; in common rounds, where these are what takes time."""

        def work(part: int, events: ShardedEvents) -> Trial:
            return attempt(events.lists(loss, part), events.lists(loss, part, tested=True), by_fold[part][:-1])

        if not (may_mix and self.events.is_small):
            yield from (work(part, self.events) for part in range(len(by_fold)))
            return
        try:
            yield from self.events.together([partial(work, part) for part in range(len(by_fold))])
        except KeyboardInterrupt:
            yield None

    def lists(self, loss: RankingLoss) -> DirectLists:
        """One list of all samples."""
        return self.events.lists(loss)

    def metrics(self, by_fold: Sequence[Floats], loss: RankingLoss) -> list[float]:
        """Of the samples that each fold holds out."""
        return self.events.metrics(loss, range(len(by_fold)), by_fold, own_metric(loss))

    def held_out(self, by_fold: Sequence[Floats], whole: Floats) -> HeldOutScores:
        """Scores that stay where the rows are."""
        return ScoresOverShards(self.events, self.events.pooled(by_fold, whole))


class _RegressionsOverShards:
    """All folds in common rounds."""

    def __init__(self, events: ShardedEvents, loss: RankingLoss) -> None:
        self._events, self._loss, self._parts = events, loss, range(events.n_folds)

    def fit_folds(self, C: float, firsts: list[Floats] | None) -> list[Floats]:
        """Weights of every fold."""
        return self._events.fit(C, self._parts, firsts, most_curved=MOST_FEATURES_OF_NEWTON)

    def fit_all(self, C: float, first: Floats) -> Floats:
        """Weights of all samples."""
        return self._events.fit(C, [-1], [first], most_curved=MOST_FEATURES_OF_NEWTON)[0]

    def judge(self, by_fold: list[Floats]) -> list[float]:
        """The metric of the samples that each fold holds out."""
        return self._events.metrics(self._loss, self._parts, by_fold, own_metric(self._loss))


class ScoresOverShards:
    """Held-out scores; the best cut and the calibration are exact, from the positives' scores and counts between them.

    Parameters
    ----------
    events : ShardedEvents
    scores : PooledScores
    """

    def __init__(self, events: ShardedEvents, scores: PooledScores) -> None:
        self._events, self._scores = events, scores
        self._positive = len(scores.positives)

    def calibrate(self, kind: str) -> Floats:
        """The calibration of a kind."""
        return self._whole(self._isotonic if kind == "isotonic" else self._sigmoid)

    def ends(self) -> tuple[float, float]:
        """The lowest and the highest."""
        return self._scores.lowest, self._scores.highest

    def outcome(self, cut: float) -> dict[str, float]:
        """Of flagging those above a cut."""
        return self._whole(lambda: self._outcome(cut))

    def _whole(self, work: Callable[[], Result]) -> Result:
        """Scores, counts and neighbours must be of the same incarnations."""

        def begun() -> Result:
            self._scores.look()
            return work()

        return self._events.shards.whole(begun)

    def _outcome(self, cut: float) -> dict[str, float]:
        hits = int(np.count_nonzero(self._scores.positives > cut))
        false = int(self._scores.counts(np.array([cut]))[1][0])
        return outcome_of_counts(hits, hits + false, self._positive, self._scores.n)

    def _sigmoid(self) -> Floats:
        scores, targets = self._scores, np.array(targets_of(self._positive, self._scores.n))
        scale = np.array([scores.mean, scores.spread()])
        return fit_sigmoid(
            self._positive, scores.n, scores.mean, float(scale[1]), lambda at: scores.sigmoid(at, scale, targets)
        )

    def _isotonic(self) -> Floats:
        """Negatives that follow a positive are in its block, whatever their number, up to the next positive: few points say all.

        A block begins at the score of a positive and ends right before that of another; before the first there may be a block of
        negatives only.
        """
        scores = self._scores
        values, groups = np.unique(scores.positives, return_counts=True)
        at_least, more = scores.counts(values)
        below = scores.neighbours(values)[0]
        lower = scores.n - self._positive - int(at_least[0])
        points: list[tuple[float, float, float]] = []
        if lower:
            points.append((scores.lowest, 0.0, max(lower - 1, 1)))
            if below[0] > scores.lowest:
                points.append((float(below[0]), 0.0, 1.0))
        # Negatives between a positive and the next one, or the end.
        between_ = more - np.append(at_least[1:], 0)
        ends = np.append(below[1:], scores.highest)
        for k, value in enumerate(values):
            weight = int(groups[k]) + int(at_least[k] - more[k])
            points.append((float(value), int(groups[k]) / weight, float(weight)))
            if between_[k]:
                points.append((float(ends[k]), 0.0, float(between_[k])))
        at, shares, weights = map(np.array, zip(*points, strict=True))
        return isotonic(at, shares, weights)

    def cutoff(self, aim: Aim, positive: int) -> Cutoff:
        """The best cut for an aim.

        It is right below a positive: with as many of them, fewer samples above are better. Only a budget and a precision may have
        room for more negatives, and then one more cut is looked at.
        """
        return self._whole(lambda: self._cutoff(aim, positive))

    def _cutoff(self, aim: Aim, positive: int) -> Cutoff:
        scores, n = self._scores, self._scores.n
        values = np.unique(scores.positives)[::-1]
        at_least, _ = self._above(values)
        places = np.concatenate([[0], at_least, [n]])
        hits = np.concatenate([[0], self._hits(values), [self._positive]])
        # By the number of samples above: the score right above the cut.
        last = dict(zip(at_least.tolist(), values.tolist(), strict=True)) | {n: scores.lowest}
        room = self._room(aim, values)
        if room:
            score = scores.of_rank(room)
            (most,), (fewer,) = self._above(np.array([score]))
            if most > room:
                # Samples with equal scores are on the same side.
                most, score = fewer, float(scores.neighbours(np.array([score]))[1][0])
            if most:
                last[int(most)] = score
                places, hits = np.append(places, most), np.append(hits, np.count_nonzero(scores.positives >= score))
        places, first = np.unique(places, return_index=True)
        best, met = best_cut(aim, Cuts(places, hits[first], n, self._positive), positive, self._events.n_samples)
        k = int(places[best])
        neighbours: Sequence[float] = ()
        if 0 < k < n:
            neighbours = last[k], float(scores.neighbours(np.array([last[k]]))[0][0])
        return Cutoff(between(neighbours, scores.highest, scores.lowest, low=k == n), met)

    def _hits(self, values: Floats) -> Ints:
        """Positives with at least these scores."""
        return self._positive - np.searchsorted(self._scores.positives, values, side="left")

    def _above(self, values: Floats) -> tuple[Ints, Ints]:
        """Samples with at least these scores, and with more."""
        at_least, more = self._scores.counts(values)
        equal_or_more = self._positive - np.searchsorted(self._scores.positives, values, side="right")
        return at_least + self._hits(values), more + equal_or_more

    def _room(self, aim: Aim, values: Floats) -> int:
        """How many samples an aim would have above the cut if their scores were all different; 0 if positives alone decide."""
        kind, wanted = next(iter(aim.items())) if isinstance(aim, Mapping) else ("", 0.0)
        n = self._scores.n
        if kind == "budget":
            low, high = 0, n
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if within_budget(wanted, middle, n, self._events.n_samples) else (low, middle - 1)
            return low
        if kind != "precision":
            return 0
        at_least, more = self._above(values)
        hits = self._hits(values)
        # From right below a positive to right above the next one.
        ends = np.append(more[1:], n)
        most = np.minimum(ends, np.floor(hits / wanted).astype(np.int64) + 1)
        for _ in range(2):  # rounding
            most = np.where(hits / np.maximum(most, 1) >= wanted, most, most - 1)
        fine = np.flatnonzero((most >= at_least) & (hits / np.maximum(most, 1) >= wanted))
        return int(most[fine[-1]]) if len(fine) else 0


class ClassifierOverShards(RankingClassifier):
    """A classifier whose samples shards hold; what is known of them becomes fitted attributes."""

    def _over(self, shards: Conversation, threshold: float | None = None) -> SamplesOverShards:
        """The samples; with a threshold, those with labels above it are to be found, and the classes are 0 and 1."""
        if threshold is None:
            self._keep_classes(labels_of(shards))
            labels = Labels(self.classes_, self._positive())
        else:
            labels = Labels.above(threshold)
            self.classes_ = labels.classes
        events = ShardedEvents(shards, labels)
        self.n_features_in_ = events.n_features
        events.standardize(bool(self.standardize))
        self.training_sketch_ = events.sketch
        self._divide(events)
        return SamplesOverShards(events)

    def _divide(self, events: ShardedEvents) -> None:
        """Inner folds."""
        if isinstance(self.cv, numbers.Integral):
            negatives, positives = events.sizes.sum(axis=1).tolist()
            events.stratify(self._n_folds(negatives, positives), self.random_state or 0)
        elif hasattr(self.cv, "test_fold"):
            events.divide(*held_out_numbers(self.cv.test_fold))
        else:
            raise ArgumentError(
                "cv",
                f"cv={self.cv!r} is not known over shards",
                "pass the number of folds, or a PredefinedSplit with the fold of every sample",
            )
        for k in range(events.n_folds):
            tested = events.sizes[:, k]
            if not tested.all() or not (events.sizes.sum(axis=1) - tested).all():
                raise one_class_fold(k)


def held_out_numbers(test_fold: Any) -> tuple[Bytes, int]:
    """Numbers of folds from 0, as a ``PredefinedSplit`` has them, 255 for samples that none holds out; and how many there are.

    >>> held_out_numbers([3, -1, 5, 3])
    (array([  0, 255,   1,   0], dtype=uint8), 2)
    """
    given = np.asarray(test_fold)
    names = np.unique(given[given != -1])
    return np.where(given == -1, NEVER, np.searchsorted(names, given)).astype(np.uint8), len(names)
