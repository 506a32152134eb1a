"""Samples of two classes over shards: folds, standardised features, logistic regressions, lists, held-out scores."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from maxmargin._types import Bytes, Floats, Ints
from maxmargin._validation import ArgumentError
from maxmargin.deadline import seconds_left
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.direct import ShardedDirect
from maxmargin.distributed.engine import Engine
from maxmargin.distributed.folds import MOST_FOLDS, stratified_folds
from maxmargin.distributed.judging import LOSS, JudgedList, judged
from maxmargin.distributed.logistic import Regression, Sums, fit_together
from maxmargin.distributed.moments import column_moments
from maxmargin.distributed.pooled import PooledScores
from maxmargin.distributed.problem import ShardedRanking
from maxmargin.distributed.sharded import n_columns
from maxmargin.distributed.sums import tree_sum
from maxmargin.distributed.voices import together
from maxmargin.losses import RankingLoss
from maxmargin.structures.rows import LARGEST_FEATURE

Result = TypeVar("Result")

# Labels that a shard tells; more than that are numbers that somebody took for labels.
_MOST_LABELS = 100_000
# Scores that differ by less than this, relative to their size, differ by rounding.
_ROUNDING = 1e-12
# Folds are trained together where a worker has no more rows than that, times folds: these take up to 150 bytes each. And no more
# folds than that, as each has a thread.
_ROWS_TOGETHER, _FOLDS_TOGETHER = 1_000_000, 32
# Newton's method gains digits so fast that the last ones cost little; L-BFGS ends where scikit-learn's does.
_NEWTON_TOL, _QUASI_NEWTON_TOL = 1e-8, 1e-4


class Labels(NamedTuple):
    """Which samples are to be found: two classes and the place of theirs, or those with labels above a threshold.

    >>> Labels.above(0.5).task(), sorted(Labels(np.array(["a", "b"]), 1).task())
    ({'threshold': 0.5}, ['classes', 'positive'])
    """

    classes: Any
    positive: int = 1
    threshold: float | None = None

    @classmethod
    def above(cls, threshold: float) -> Labels:
        """Labels above it; the classes are 0 and 1."""
        return cls(np.array([0, 1]), 1, threshold)

    def task(self) -> dict[str, Any]:
        """For the shards."""
        return (
            {"classes": self.classes, "positive": self.positive} if self.threshold is None else {"threshold": self.threshold}
        )


def labels_of(shards: Conversation) -> Any:
    """All different labels, in order, where no shard has more than a hundred thousand."""
    found = [answer["labels"] for answer in shards.plain("labels", _MOST_LABELS) if len(answer["labels"])]
    if not found:
        raise ValueError(f"the {shards.n_shards} shards hold no data; at least one needs a sample")
    if len({labels.dtype.kind in "US" for labels in found}) > 1:
        raise ArgumentError("y", "y mixes labels of different kinds, numbers and text", "make them alike, say y.astype(str)")
    return np.unique(np.concatenate(found))


class ShardedEvents:
    """Samples of two classes, of which shards hold the rows.

    Weights have the shape (d + 1,), are for standardised features, and end with the intercept.

    Parameters
    ----------
    shards : Conversation or Engine
        Of shards of the kind "events".
    labels : Labels
    n_features : int, optional
        Columns that rows must have, or may have if they are sparse; by default those that they have.

    Attributes
    ----------
    n_features : int
    n_samples, n_positive : int
    sparse : bool
        Whether features are only divided, and not centred.
    center, scale : arrays of shape (d,)
        Zero and one before :meth:`standardize`.
    sizes : int array of shape (2, folds + 1)
        Samples of both classes that each fold holds out, and in the end those that none does; all of them before
        :meth:`divide`.
    sketch : array of shape (6,)
        See :func:`maxmargin.fingerprint.sketch`.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> X, y = np.arange(12.0)[:, None], np.array(list("nnynnynynyyy"))
    >>> engine = LocalEngine([ShardOf(rows, "events") for rows in split_rows(X, y, 3)])
    >>> events = ShardedEvents(engine, Labels(np.array(["n", "y"])))
    >>> events.standardize()
    >>> events.stratify(3, seed=0)
    >>> by_fold = events.fit(1.0, [0, 1, 2])
    >>> (whole,) = events.fit(1.0, [-1])
    >>> whole.round(2), len(events.pooled(by_fold, whole).positives)
    (array([ 0.86, -0.  ]), 6)
    """

    def __init__(self, shards: Conversation | Engine, labels: Labels, n_features: int | None = None) -> None:
        self.shards = shards if isinstance(shards, Conversation) else Conversation(shards)
        filled = [info for info in self.shards.infos if info["rows"]]
        if not filled:
            raise ValueError(f"the {self.shards.n_shards} shards hold no data; at least one needs rows")
        if not all(info["one_list"] for info in filled):
            raise ArgumentError("qid", "the data have queries, and rare events are found in one list", "leave queries out")
        found_features, self.sparse = n_columns(self.shards.infos, self.shards.engine), any(info["sparse"] for info in filled)
        self.n_features = found_features if n_features is None else n_features
        # Sparse rows know no more columns than they have seen.
        if found_features > self.n_features or (found_features < self.n_features and not self.sparse):
            raise ValueError(f"X has {found_features} features, but the model was trained with {self.n_features}")
        self.center, self.scale = np.zeros(self.n_features), np.ones(self.n_features)
        self.labels = labels
        self.shards.set_task({"n_features": self.n_features, "scattered": [""] if len(filled) > 1 else [], **labels.task()})
        found = self.shards.ask("counted", lambda shard: (0,))
        # Of every shard, shape (shards, 2).
        self._counts = np.array([answer["sizes"][:, 0] for answer in found])
        self._first = next(int(answer["first"]) for answer in found if answer["sizes"].sum())
        self.sizes: Ints = self._counts.sum(axis=0)[:, None]
        self.n_samples, self.n_positive = int(self.sizes.sum()), int(self.sizes[1].sum())
        self.sketch = np.zeros(6)

    # ---- before training ------------------------------------------------------------------------------------------------------

    def standardize(self, wanted: bool = True) -> None:
        """Find means and spreads of the columns, unless they are not ``wanted``: then data are only looked at."""
        moments = column_moments(self.shards).widened(self.n_features)
        k = int(np.argmax(moments.peak))
        if moments.peak[k] > LARGEST_FEATURE:
            raise ArgumentError(
                "X",
                f"column {k + 1} of X reaches {moments.peak[k]:.3g}, and squares of numbers beyond {LARGEST_FEATURE:g} are too "
                "large to add up",
                "measure it in larger units, or leave it out",
            )
        self.sketch = tree_sum([answer["sketch"] for answer in self.shards.ask("sketch")])
        self.sketch[1] = self.n_features
        if wanted:
            self.center = np.zeros(self.n_features) if self.sparse else moments.mean
            self.scale = moments.scale
            self.shards.set_task({**self.shards.task, "center": self.center, "scale": self.scale})

    def stratify(self, n_folds: int, seed: int) -> None:
        """The folds that :class:`sklearn.model_selection.StratifiedKFold` makes of all samples with this seed, shuffled."""
        sizes = self._counts.sum(axis=0)
        found = stratified_folds((int(sizes[self._first]), int(sizes[1 - self._first])), n_folds, seed)
        by_class = found if self._first == 0 else found[::-1]
        ends = np.cumsum(self._counts, axis=0)[:-1]
        parts = [np.split(own, ends[:, kind]) for kind, own in enumerate(by_class)]
        # The client does not know which row is of which class: those of the negatives come first.
        self._give([np.concatenate(own) for own in zip(*parts, strict=True)], n_folds, by_class=True)

    def divide(self, folds: Bytes, n_folds: int) -> None:
        """Folds by the number of the one that holds out each sample, shape (n,); 255 for those that none does."""
        if folds.shape != (self.n_samples,):
            raise ValueError(f"there are {len(folds)} numbers of folds for {self.n_samples} samples; give one for each")
        if n_folds > MOST_FOLDS:
            raise ValueError(f"there are {n_folds} folds, and samples over shards know {MOST_FOLDS} at most; take fewer")
        self._give(np.split(folds, np.cumsum(self._counts.sum(axis=1))[:-1]), n_folds, by_class=False)

    def _give(self, numbers: list[Bytes], n_folds: int, *, by_class: bool) -> None:
        """Tell shards the folds of their rows."""
        self.shards.set_task({**self.shards.task, "folds": self.shards.give(numbers), "by_class": int(by_class)})
        found = self.shards.ask("counted", lambda shard: (n_folds,))
        self.sizes = np.sum([answer["sizes"] for answer in found], axis=0)

    @property
    def n_folds(self) -> int:
        """How many there are."""
        return int(self.sizes.shape[1]) - 1

    def n_trained(self, part: int) -> int:
        """Samples that a fold is trained on; all for -1."""
        return self.n_samples - (int(self.sizes[:, part].sum()) if part >= 0 else 0)

    # ---- training -------------------------------------------------------------------------------------------------------------

    def fit(
        self, C: float, parts: Sequence[int], firsts: Sequence[Floats] | None = None, *, most_curved: int = 200,
        tol: float | None = None,
    ) -> list[Floats]:  # fmt: skip
        """Weights of logistic regressions on the training samples of folds, -1 for all samples, in common rounds.

        Parameters
        ----------
        C : float
            As in scikit-learn's ``LogisticRegression``.
        parts : sequence of int
        firsts : sequence of arrays of shape (d + 1,), optional
            Where to begin; zero by default.
        most_curved : int
            Newton's method is used up to so many dense features, if there are at least five samples for each.
        tol : float, optional
            Of the gradient.
        """
        few = self.n_features <= most_curved and all(self.n_trained(part) >= 5 * self.n_features for part in parts)
        curved = few and not self.sparse
        tol = tol or (_NEWTON_TOL if curved else _QUASI_NEWTON_TOL)
        regressions = [Regression(self.n_trained(part), C, tol) for part in parts]

        def exchange(asked: dict[int, Floats]) -> dict[int, Sums]:
            own = np.array([parts[k] for k in asked])
            weights = np.array(list(asked.values()))
            found = self.shards.ask("logistic", lambda shard: (own, weights, curved))
            losses = [math.fsum(column) for column in zip(*(answer["loss"].tolist() for answer in found), strict=True)]
            gradients = tree_sum([answer["gradient"] for answer in found])
            hessians: Any = tree_sum([answer["hessian"] for answer in found]) if curved else [None] * len(own)
            over = seconds_left() <= 0
            return {k: Sums(*sums, over) for k, sums in zip(asked, zip(losses, gradients, hessians, strict=True), strict=True)}

        if firsts is None:
            firsts = [np.zeros(self.n_features + 1)] * len(parts)
        return fit_together(regressions, firsts, exchange, curved=curved)

    def lists(self, loss: RankingLoss, part: int = -1, *, tested: bool = False) -> ShardedDirect:
        """The direct loss of one list: all samples, or those that a fold is trained on, or ``tested`` by; without intercepts."""
        return ShardedDirect(_RankedEvents(self.shards, loss, part, tested, self.scale))

    @property
    def is_small(self) -> bool:
        """Whether :meth:`together` pays: rounds take longer than what is computed in them, and memory is no matter."""
        rows = self.n_samples * self.n_folds / max(1, self.shards.engine.workers)
        return rows <= _ROWS_TOGETHER and self.n_folds <= _FOLDS_TOGETHER

    def together(self, works: Sequence[Callable[[ShardedEvents], Result]]) -> list[Result]:
        """What every work returns that gets these samples, and asks their shards in rounds common to all."""

        def voice(work: Callable[[ShardedEvents], Result], shards: Conversation) -> Result:
            own = copy.copy(self)
            own.shards = shards
            return work(own)

        return together(self.shards, [partial(voice, work) for work in works])

    # ---- held-out samples -----------------------------------------------------------------------------------------------------

    def metrics(self, loss: RankingLoss, parts: Sequence[int], weights: Sequence[Floats], name: str | None = None) -> list[float]:
        """Of the rankings of the samples that folds hold out (all for -1): a metric by its name, or 1 - loss; in two rounds."""
        return self.shards.whole(lambda: self._metrics(loss, np.asarray(parts), np.array(weights), name or LOSS))

    def _metrics(self, loss: RankingLoss, parts: Ints, weights: Floats, name: str) -> list[float]:
        found = self.shards.ask("held_positives", lambda shard: (parts, weights))
        positives = [np.sort(np.concatenate([answer["positives"][k] for answer in found])) for k in range(len(parts))]
        counted = self.shards.ask("held_above", lambda shard: (parts, weights, positives))
        values = []
        for k, scores in enumerate(positives):
            above, higher = (np.sum([answer[which][k] for answer in counted], axis=0) for which in ("above", "higher"))
            negatives = sum(int(answer["negatives"][k]) for answer in found)
            one = JudgedList(np.ones(len(scores)), scores, above)
            values.append(judged(name, one, negatives, higher, "linear", loss))
        return values

    def pooled(self, by_fold: Sequence[Floats], whole: Floats) -> PooledScores:
        """Scores of held-out samples by the models of their folds, with the mean and the spread that the model of all gives."""
        weights = np.array(by_fold)
        sizes = np.array([self.n_trained(part) for part in range(len(weights))])[:, None]
        found = self.shards.ask("score_sums", lambda shard: (weights, whole))
        peaks = np.max([answer["peaks"] for answer in found], axis=0)
        shown = np.where(peaks > 0, peaks, 1.0)
        means = tree_sum([answer["peaks"] / shown * answer["sums"] for answer in found]) / sizes
        squares = self.shards.ask("score_squares", lambda shard: (weights, whole, shown, means))
        spreads = np.sqrt(tree_sum([answer["squares"] for answer in squares]) / sizes)
        spreads = np.where(spreads > _ROUNDING, spreads, 0.0) * peaks
        (own, other), centers = spreads.T, (means * peaks).T
        stretches = np.where(own > 0, other / np.where(own > 0, own, 1.0), np.where(other > 0, 1.0, 0.0))
        pooling = {"weights": weights, "centers": centers[0], "stretches": stretches, "wanted": centers[1]}
        return PooledScores(self.shards, pooling)


class _RankedEvents(ShardedRanking):
    """One list of samples that their shards choose by fold."""

    def __init__(self, shards: Conversation, loss: RankingLoss, part: int, tested: bool, scale: Floats) -> None:
        self._which = {} if part < 0 else {"part": part, "tested": int(tested)}
        super().__init__(shards.beside(shards.task), loss, scale=scale)

    def _task(self, shards: Conversation, threshold: float | None, grades: Any) -> dict[str, Any]:
        own = {"loss": self.loss.native_name() or "", "thresholds": np.array([0.5])}
        return {**shards.task, **own, **self._which}
