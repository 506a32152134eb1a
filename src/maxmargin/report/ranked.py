"""Labelled samples, and the order that somebody's scores put them in."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Booleans, Floats
from maxmargin.ranking import RankedLists, metric_named

METRICS = ("ap", "ndcg", "ndcg@10", "mrr", "p@10", "auc")


def metric_of_lists(name: str, lists: RankedLists) -> Floats:
    """A metric of every query. AP of the first K is divided by what K places can hold, as in training.

    >>> metric_of_lists("ap@2", RankedLists([1, 1, 1, 0], [4, 3, 2, 1], None))
    array([1.])
    """
    values = metric_named(name, "linear")(lists)
    plain, _, cut = name.partition("@")
    if plain != "ap" or not cut:
        return values
    relevant = lists.per_query(lists.relevant)
    return values * (relevant / np.maximum(1.0, np.minimum(relevant, int(cut))))


class Judged:
    """The samples of the report: labels, what counts as relevant, gains, queries.

    What is irrelevant gains nothing, and whole grades above the threshold gain 1, 2, ...
    """

    def __init__(self, y: ArrayLike, qid: ArrayLike | None, threshold: float | None) -> None:
        labels = np.asarray(y)
        if labels.ndim != 1 or labels.dtype.kind not in "fiub":
            raise ValueError(f"y must be one number or boolean per sample, but has shape {labels.shape} and dtype {labels.dtype}")
        labels = labels.astype(np.float64)
        if len(labels) == 0 or not np.isfinite(labels).all():
            raise ValueError("y must hold finite labels of at least two samples")
        self.labels = labels
        floor = max(0.0, float(labels.min()))
        self.threshold = floor if threshold is None else threshold
        self.relevant = labels > self.threshold
        if self.relevant.all() or not self.relevant.any():
            only = "relevant" if self.relevant.any() else "irrelevant"
            raise ValueError(
                f"y must hold relevant and irrelevant samples, but all are {only} (labels from {labels.min():g} to "
                f"{labels.max():g}, relevant above {self.threshold:g}); report on a larger set"
            )
        self.graded = len(np.unique(labels[self.relevant])) > 1
        self.gains = np.where(self.relevant, labels - np.floor(self.threshold), 0.0)
        self.qid = None if qid is None else np.asarray(qid)

    def part(self, rows: Booleans) -> Judged:
        """Some of the samples, with the same meaning of relevant; all of them may be, or none."""
        found = copy.copy(self)
        found.labels, found.relevant, found.gains = self.labels[rows], self.relevant[rows], self.gains[rows]
        found.qid = None if self.qid is None else self.qid[rows]
        return found

    def __len__(self) -> int:
        return len(self.relevant)


class Ranked:
    """The samples in the order of somebody's scores, with the metrics of every query, by name and in the order of ``names``."""

    def __init__(self, name: str, scores: Floats, judged: Judged, names: Sequence[str] = METRICS) -> None:
        self.name = name
        self.scores = scores
        self.lists = RankedLists(judged.relevant, scores, judged.qid)
        same = np.array_equal(judged.gains > 0, judged.relevant)
        self.graded = RankedLists(judged.gains, scores, judged.qid) if judged.graded else self.lists
        # Tied samples stand with the lower grade first; for relevance alone any order of the relevant ones will do.
        self.lists = self.graded if same else self.lists
        self.values = {name: metric_of_lists(name, self.graded if name.startswith("ndcg") else self.lists) for name in names}
        self.means = {name: float(value.mean()) for name, value in self.values.items()}
