"""Samples of two classes as the classifier of rare events uses them: what it asks for, and samples in memory that answer.

Weights have the shape (d + 1,), are for standardised features, and end with the intercept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.ranking import Attempt, DirectLists, DirectRanking, RankingLoss, RankingProblem, Trial
from maxmargin.rare_events.calibration import calibrate
from maxmargin.rare_events.held_out import pooled_scores
from maxmargin.rare_events.start import TunedStart, fit_hinge, linear_scores, metric_of, tune_logistic
from maxmargin.rare_events.thresholds import Aim, Cutoff, choose_cutoff, outcome


class HeldOutScores(Protocol):
    """Scores of held-out samples, all on the scale of the model of all samples."""

    def calibrate(self, kind: str) -> Floats:
        """See :func:`maxmargin.rare_events.calibration.calibrate`."""

    def cutoff(self, aim: Aim, positive: int) -> Cutoff:
        """See :func:`maxmargin.rare_events.thresholds.choose_cutoff`."""

    def ends(self) -> tuple[float, float]:
        """The lowest and the highest."""

    def outcome(self, cut: float) -> dict[str, float]:
        """Of flagging those above a cut; see :func:`maxmargin.rare_events.thresholds.outcome`."""


class EventSamples(Protocol):
    """Samples, wherever they are.

    Attributes
    ----------
    center, scale : arrays of shape (d,)
        What was taken off features, and what they were divided by.
    """

    center: Floats
    scale: Floats

    def tune(self, start: str, Cs: Sequence[float] | None, loss: RankingLoss, tell: Callable[[str], None]) -> TunedStart:
        """The start: a logistic regression with the best of some C, or the hinge, with the best of all for None."""

    def in_folds(self, by_fold: Sequence[Floats], loss: RankingLoss, may_mix: bool, attempt: Attempt) -> Iterator[Trial | None]:
        """An attempt in every fold, from its weights: one after the other, or some at a time where ``may_mix`` says so."""

    def lists(self, loss: RankingLoss) -> DirectLists:
        """One list of all samples."""

    def metrics(self, by_fold: Sequence[Floats], loss: RankingLoss) -> list[float]:
        """Of the samples that each fold holds out."""

    def held_out(self, by_fold: Sequence[Floats], whole: Floats) -> HeldOutScores:
        """Scores of held-out samples by the models of folds, on the scale of the model of all."""


@dataclass
class SamplesInMemory:
    """Standardised features Z, which samples are positive, and folds."""

    Z: Any
    relevant: Booleans
    center: Floats
    scale: Floats
    folds: list[tuple[Ints, Ints]]

    def tune(self, start: str, Cs: Sequence[float] | None, loss: RankingLoss, tell: Callable[[str], None]) -> TunedStart:
        """The start."""
        data = self.Z, self.relevant, loss, self.folds
        if start == "hinge":
            tell("the path of the hinge")
            return fit_hinge(*data, None if Cs is None else Cs[0])
        assert Cs is not None
        return tune_logistic(*data, Cs, tell)

    def in_folds(self, by_fold: Sequence[Floats], loss: RankingLoss, may_mix: bool, attempt: Attempt) -> Iterator[Trial | None]:
        """One after the other: copies of the rows of a fold are let go with it."""
        for weights, (train, test) in zip(by_fold, self.folds, strict=True):
            yield attempt(self._list(loss, train), self._list(loss, test), weights[:-1])

    def lists(self, loss: RankingLoss) -> DirectLists:
        """One list of all samples."""
        return self._list(loss, slice(None))

    def _list(self, loss: RankingLoss, rows: Any) -> DirectRanking:
        return DirectRanking(RankingProblem(self.Z[rows], self.relevant[rows], loss))

    def metrics(self, by_fold: Sequence[Floats], loss: RankingLoss) -> list[float]:
        """Of the samples that each fold holds out."""
        tests = [test for _, test in self.folds]
        scores = [linear_scores(self.Z, weights) for weights in by_fold]
        return [metric_of(loss, self.relevant[test], own[test]) for own, test in zip(scores, tests, strict=True)]

    def held_out(self, by_fold: Sequence[Floats], whole: Floats) -> HeldOutScores:
        """Scores of held-out samples."""
        scores, seen = pooled_scores([linear_scores(self.Z, w) for w in by_fold], linear_scores(self.Z, whole), self.folds)
        return ScoresInMemory(scores[seen], self.relevant[seen], len(seen))


@dataclass(frozen=True)
class ScoresInMemory:
    """Held-out scores, which samples are positive, and how many samples there are besides."""

    scores: Floats
    relevant: Booleans
    n: int

    def calibrate(self, kind: str) -> Floats:
        """The calibration of a kind."""
        return calibrate(kind, self.scores, self.relevant)

    def cutoff(self, aim: Aim, positive: int) -> Cutoff:
        """The best cut for an aim."""
        return choose_cutoff(aim, self.scores, self.relevant, positive, self.n)

    def ends(self) -> tuple[float, float]:
        """The lowest and the highest."""
        return float(np.min(self.scores)), float(np.max(self.scores))

    def outcome(self, cut: float) -> dict[str, float]:
        """Of flagging those above a cut."""
        return outcome(self.scores > cut, self.relevant)
