"""Bags of candidates to be ranked: labels belong to bags, and nobody says which candidate of a bag earned them.

Roots hold the scores of candidates; a recipe is evaluated on these, before the best candidate of a bag is looked for. A bag lies
in one shard as a whole. Which candidates the positives are imputed with follows from the task: the weights of the imputation, or
the seed of a random one.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from maxmargin._types import Booleans, Floats, Ints
from maxmargin.distributed.lists import Lists
from maxmargin.distributed.ranking_shard import RankingShard
from maxmargin.distributed.rows import Rows, with_columns
from maxmargin.distributed.shard import Answer, Context
from maxmargin.losses import RankingLoss
from maxmargin.structures.rows import sum_of_rows, times


class BagLists(Lists):
    """One list of bags, or a part of it: positives have the score of their imputed candidate, others that of their best.

    Attributes
    ----------
    imputed : int array of shape (positives,)
        Rows of the candidates of the positives.
    """

    is_of_rows = False

    def __init__(
        self, X: Any, bags: Ints, relevant: Booleans, numbers: Ints, names: list[str], thresholds: Floats, imputed: Ints
    ) -> None:
        lists = np.array([0, len(bags) - 1]) if len(bags) > 1 else np.zeros(1, dtype=np.int64)
        super().__init__(X, relevant[None], lists, numbers, names, thresholds)
        self.bags, self.positives, self.imputed = bags, np.flatnonzero(relevant), imputed
        self.mark = zlib.crc32(np.ascontiguousarray(imputed).view(np.uint8).data)

    def root(self, weights: Floats, n_jobs: int | None) -> Floats:
        """Scores of all candidates."""
        return times(self.X, weights, n_jobs)

    def reduced(self, scores: Floats) -> tuple[Floats, Ints | None]:
        """Scores of bags, in their order, and the rows that they are those of."""
        rows = best_rows(scores, self.bags)
        rows[self.positives] = self.imputed
        if self.order is not None:
            rows = rows[self.order]
        return scores[rows], rows

    def spread(self, gradient: Floats, rows: Ints | None) -> Floats:
        """To the candidates that have a say."""
        found = np.zeros(self.X.shape[0])
        found[rows] = gradient
        return found

    def sum_of_rows(self, gradient: Floats, n_jobs: int | None) -> Floats:
        """Candidates times numbers."""
        return sum_of_rows(gradient, self.X, n_jobs)


def best_rows(scores: Floats, bags: Ints) -> Ints:
    """The row with the highest score of every bag, the first of several.

    >>> best_rows(np.array([1.0, 3.0, 3.0, 2.0]), np.array([0, 3, 4]))
    array([1, 3])
    """
    starts = bags[:-1]
    if not len(starts):
        return np.zeros(0, dtype=np.int64)
    top = np.maximum.reduceat(scores, starts)
    # A score that is none is the best of its bag: it is noticed then, where sums are looked at.
    hits = np.flatnonzero((scores == np.repeat(top, np.diff(bags))) | np.isnan(scores))
    return np.asarray(hits[np.searchsorted(hits, starts)], dtype=np.int64)


def check_labels_of_bags(y: Any, bags: Ints) -> Floats:
    """The label of every bag, which all of its rows have.

    >>> check_labels_of_bags(np.array([1, 1, 0]), np.array([0, 2, 3]))
    array([1., 0.])
    """
    if y.dtype.kind not in "fiub" or np.isnan(y).any():
        raise ValueError("y holds text or missing values; every row has the label of its bag, a number")
    labels = np.asarray(y[bags[:-1]], dtype=np.float64) if len(y) else np.zeros(0)
    if (np.repeat(labels, np.diff(bags)) != y).any():
        raise ValueError("y is the label of a bag, so all rows of a bag must have the same; they differ")
    return labels


def _combined(shares: Floats, lists: BagLists) -> Floats:
    """Rows of shares times the imputed candidates, which are few."""
    found = [sum_of_rows(np.ascontiguousarray(row), lists.X[lists.imputed], 1) for row in shares]
    return np.array(found).reshape(len(shares), lists.X.shape[1])


class BagShard(RankingShard):
    """Bags with their candidates: rows of a query are the candidates of a bag, and have its label.

    The task of :class:`RankingShard` has ``imputed`` besides, weights for which the positives' candidates are the best ones, or
    ``seed`` for random ones; without either, the first ones.
    """

    operations = RankingShard.operations | {"imputed_sums", "mean_candidates"}

    def __init__(self, rows: Rows | tuple[Any, ...], loss: RankingLoss | None = None, n_jobs: int | None = None) -> None:
        super().__init__(rows, loss, n_jobs)
        if self.one_list and len(self.y):
            raise ValueError("bags need names or offsets: the query of every row is its bag")
        if self.weights is not None:
            raise ValueError("bags have no weights; leave them out")
        self.bags, sizes = self.offsets, np.diff(self.offsets)
        self.of_bags = check_labels_of_bags(self.y, self.bags)
        # All bags are one list, whichever names they have.
        self.one_list, self.names = True, None
        self.offsets = np.array([0, len(sizes)]) if len(sizes) else np.zeros(1, dtype=np.int64)
        self.called = [""] * (len(self.offsets) - 1)

    def features(self, context: Context, recipe: dict[str, Any], loss_scale: float, chosen: list[int] | None) -> Answer:
        """As of other lists; besides ``shares``, what the imputed candidates count, and the part of the sum that is theirs."""
        answer, lists = super().features(context, recipe, loss_scale, chosen), self._find(context)
        found = self._found.get(self._key(context, recipe, loss_scale, chosen))
        if found is None or "lost" in answer:
            return answer
        assert isinstance(lists, BagLists)
        shares = -found.gradient[lists.imputed]
        return {**answer, "shares": shares, "own": _combined(shares[None], lists)[0]}

    def imputed_sums(self, context: Context, shares: Floats) -> Answer:
        """Sums of the imputed candidates, each as often as a row of ``shares`` says, shape (rows, d)."""
        lists = self._find(context)
        assert isinstance(lists, BagLists)
        return {"sums": _combined(shares, lists), "mark": lists.mark}

    def mean_candidates(self, n_features: int, threshold: float) -> Answer:
        """Sums of the mean candidates of bags, of those with a label above the threshold and of the others; and their numbers."""
        relevant, sizes = self.of_bags > threshold, np.diff(self.bags)
        X = with_columns(self.X, n_features) if len(self.y) else np.zeros((0, n_features))
        sums = [sum_of_rows(np.repeat(which / sizes, sizes), X, self.n_jobs) for which in (relevant, ~relevant)]
        return {"relevant": sums[0], "others": sums[1], "n_relevant": int(relevant.sum()), "n_bags": len(sizes)}

    def _build(self, task: dict[str, Any]) -> Lists:
        n_features, thresholds = int(task["n_features"]), task["thresholds"]
        if len(thresholds) != 1:
            raise ValueError("bags have one notion of relevance; leave grades out")
        X = with_columns(self.X, n_features) if len(self.y) else np.zeros((0, n_features))
        relevant = self.of_bags > thresholds[0]
        scattered = bool(task["scattered"])
        numbers = np.full(len(self.offsets) - 1, 0 if scattered else -1, dtype=np.int64)
        lists = BagLists(X, self.bags, relevant, numbers, task["scattered"], thresholds, self._imputed(task, X, relevant))
        if not scattered and len(self.y):
            only = np.zeros(1, dtype=np.int64)
            lists.whole = self._whole(task, self._all_lists(), only, self.of_bags, relevant[None], n_features)
        return lists

    def _imputed(self, task: dict[str, Any], X: Any, relevant: Booleans) -> Ints:
        positives = np.flatnonzero(relevant)
        if "imputed" in task:
            return best_rows(times(X, task["imputed"], self.n_jobs), self.bags)[positives]
        starts, sizes = self.bags[:-1][positives], np.diff(self.bags)[positives]
        if "seed" not in task:
            return np.asarray(starts)
        # Another one in every shard, and the same after every reload.
        own = np.random.default_rng([int(task["seed"]), len(self.y), zlib.crc32(np.ascontiguousarray(self.bags).data)])
        return np.asarray(starts + own.integers(0, sizes))
