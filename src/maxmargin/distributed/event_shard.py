"""Samples of two classes, the rare one of which is to be found: sums of the logistic loss, scores of held-out samples, lists.

Features are standardised without a copy: ``(x - center) / scale`` times weights is x times ``weights / scale``, but for a
constant. A fold is a number for every row, sent by the client; lists of a fold are about some rows of the same matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from maxmargin import fingerprint
from maxmargin._types import Booleans, Bytes, Floats, Ints
from maxmargin.distributed.judging import irrelevant_above
from maxmargin.distributed.lists import Lists
from maxmargin.distributed.ranking_shard import RankingShard, by_row
from maxmargin.distributed.rows import with_columns
from maxmargin.distributed.shard import Answer, Context, MissingError
from maxmargin.losses import ranking_loss
from maxmargin.problems.ranking import RankingProblem
from maxmargin.structures.rows import is_sparse, sum_of_rows, times
from maxmargin.structures.streaming import is_streamed, rows_between

# Numbers of a piece of dense rows that is standardised: some that stay in the cache.
_PIECE = 1 << 17


class Events(Lists):
    """All samples of a shard as one list, or those of a fold's training or testing.

    Attributes
    ----------
    truth : bool array of shape (n,)
        The samples to be found, of all rows.
    folds : uint8 array of shape (n,), optional
        Which fold holds a row out.
    center, scale : arrays of shape (d,)
        What is taken off features, and what they are divided by.
    """

    def __init__(self, X: Any, truth: Booleans, folds: Bytes | None, task: dict[str, Any]) -> None:
        self.truth, self.folds = truth, folds
        d = X.shape[1]
        self.center: Floats = task.get("center", np.zeros(d))
        self.scale: Floats = task.get("scale", np.ones(d))
        some: Ints | None = None
        if "part" in task:
            some = np.flatnonzero(self.mask(int(task["part"]), bool(task["tested"])))
        own = truth if some is None else truth[some]
        scattered = list(task["scattered"])
        lists = np.array([0, len(own)] if len(own) else [0], dtype=np.int64)
        numbers = np.full(len(lists) - 1, 0 if scattered else -1, dtype=np.int64)
        super().__init__(X, own[None], lists, numbers, scattered, np.array([0.5]), some)

    def mask(self, part: int, tested: bool) -> Booleans:
        """The rows that a fold holds out, or those it is trained on; all rows where ``part`` is -1."""
        if part < 0:
            return np.ones(len(self.truth), dtype=bool)
        if self.folds is None:
            raise MissingError
        return np.asarray((self.folds == part) == tested)

    def raw(self, weights: Floats) -> tuple[Floats, float]:
        """Weights of standardised features, the intercept last, as weights of features as they are."""
        own = weights[:-1] / self.scale
        return own, float(weights[-1] - self.center @ own)

    def scores(self, weights: Floats, n_jobs: int | None) -> Floats:
        """Of all rows, by weights of standardised features and the intercept."""
        own, offset = self.raw(weights)
        return np.asarray(times(self.X, own, n_jobs) + offset)


class _Pool(NamedTuple):
    """Scores of held-out samples on one scale, each in rising order; and what they were asked for by."""

    key: bytes
    positives: Floats
    negatives: Floats

    @property
    def both(self) -> tuple[Floats, Floats]:
        """Of either class."""
        return self.positives, self.negatives


class EventShard(RankingShard):
    """Rows with labels of two classes, of any kind.

    The task has ``n_features``, ``scattered``, either ``classes`` (two labels) and ``positive`` (which of them is to be found) or
    ``threshold`` (labels above it are), and later ``center`` and ``scale``, ``folds`` (the mark of fold numbers that were given)
    and ``by_class`` (whether those of all negatives come first), and for lists ``loss`` and perhaps ``part`` and ``tested``: the
    rows that a fold holds out, or does not.
    """

    operations = RankingShard.operations | {
        "counted", "sketch", "logistic", "held_positives", "held_above", "score_sums", "score_squares",
        "pool", "pool_counts", "pool_neighbours", "pool_sample", "pool_ranks", "pool_squares", "pool_sigmoid",
    }  # fmt: skip

    def _forget(self) -> None:
        super()._forget()
        self._pooled: _Pool | None = None
        self._held: tuple[bytes, list[tuple[Floats, Floats]]] | None = None

    def _check_labels(self) -> None:
        if self.y.dtype != object:
            return
        if not all(isinstance(label, str) for label in self.y):
            raise ValueError("y holds labels of several kinds, or missing ones; all must be numbers, or all text")
        self.y = self.y.astype(str)

    def _build(self, task: dict[str, Any]) -> Events:
        n = len(self.y)
        X = with_columns(self.X, int(task["n_features"])) if n else np.zeros((0, int(task["n_features"])))
        truth = self._truth(task)
        folds = self._folds_in(task)
        if folds is not None and task["by_class"]:
            folds = by_row(folds, truth)
        events = Events(X, truth, folds, task)
        if events.n_whole and "loss" in task:
            events.whole = self._whole_list(task, events)
        return events

    def _truth(self, task: dict[str, Any]) -> Booleans:
        if "threshold" in task:
            return np.asarray(self.y > float(task["threshold"]))
        return np.asarray(self.y == task["classes"][int(task["positive"])])

    def _whole_list(self, task: dict[str, Any], events: Events) -> RankingProblem:
        loss = ranking_loss(task["loss"]) if task["loss"] else self.own_loss
        if loss is None:
            raise ValueError("the loss has no name; give it to the source of every shard")
        relevant = events.truth if events.order is None else events.truth[events.order]
        # Products with features are made elsewhere: the problem gets the shape of them only.
        return RankingProblem(np.broadcast_to(0.0, (len(relevant), events.X.shape[1])), relevant, loss)

    def _events(self, context: Context) -> Events:
        found = self._find(context)
        assert isinstance(found, Events)
        return found

    # ---- what there is --------------------------------------------------------------------------------------------------------

    def prepare(self, context: Context) -> Answer:
        """As of any shard of rankings."""
        events = self._events(context)
        own = events.truth if events.order is None else events.truth[events.order]
        scattered, relevant = len(events.names), int(np.count_nonzero(own))
        whole = events.whole
        return {
            "n_blocks": 0 if whole is None else whole.n_blocks,
            "n_skipped": 0 if whole is None else whole.n_skipped,
            "n_relevant": relevant,
            "total_weight": 0.0 if whole is None else float(whole.weights.sum()),
            "rows": np.full(scattered, len(own)), "weights": np.ones(scattered),
            "relevant": np.full((1, scattered), relevant), "mark": events.mark,
        }  # fmt: skip

    def counted(self, context: Context, n_folds: int) -> Answer:
        """Samples of both classes, of all folds and of none, shape (2, n_folds + 1); and of which class the first one is."""
        events = self._events(context)
        folds = np.full(len(events.truth), n_folds) if events.folds is None else np.minimum(events.folds, n_folds)
        sizes = [np.bincount(folds[events.truth == kind], minlength=n_folds + 1) for kind in (False, True)]
        return {"sizes": np.array(sizes, dtype=np.int64), "first": int(events.truth[:1].any())}

    def sketch(self, context: Context) -> Answer:
        """Sums by which data are known again; see :func:`fingerprint.sketch`."""
        events = self._events(context)
        total = np.zeros(6)
        for piece, rows in self._pieces(events):
            total += fingerprint.sketch(piece, events.truth[rows])
        return {"sketch": total}

    def _pieces(self, events: Events) -> Iterator[tuple[Any, slice]]:
        """Rows in pieces of float64, and where they stand; always the same ones."""
        X = events.X
        step = max(1, _PIECE // max(1, X.shape[1])) if not is_sparse(X) else max(1, X.shape[0])
        for begin in range(0, X.shape[0], step):
            end = min(begin + step, X.shape[0])
            piece = rows_between(X, begin, end) if is_streamed(X) else X[begin:end]
            yield piece if is_sparse(piece) else np.asarray(piece, dtype=np.float64), slice(begin, end)

    # ---- the logistic loss ----------------------------------------------------------------------------------------------------

    def logistic(self, context: Context, parts: Ints, weights: Floats, curved: bool) -> Answer:
        """Sums over the training rows of folds (all rows for -1) of the logistic loss, its gradient and perhaps its Hessian.

        ``weights`` has a row for each of the parts: of standardised features, the intercept last.
        """
        events = self._events(context)
        masks = [events.mask(int(part), False) for part in parts]
        if curved:
            return self._curved(events, masks, weights)
        losses, gradients = [], []
        for mask, own in zip(masks, weights, strict=True):
            loss, residuals, _ = _pointwise(events.scores(own, self.n_jobs), events.truth, mask)
            total = float(residuals.sum())
            slope = (sum_of_rows(residuals, events.X, self.n_jobs) - events.center * total) / events.scale
            losses.append(loss)
            gradients.append(np.append(slope, total))
        return {"loss": np.array(losses), "gradient": np.array(gradients)}

    def _curved(self, events: Events, masks: list[Booleans], weights: Floats) -> Answer:
        """With the Hessian: dense rows are centred piece by piece, as squares of what is far from zero would leave nothing."""
        m, d = weights.shape
        losses: list[list[float]] = [[] for _ in range(m)]
        gradient, hessian = np.zeros((m, d)), np.zeros((m, d, d))
        for piece, rows in self._pieces(events):
            Z = np.column_stack([(piece - events.center) / events.scale, np.ones(len(piece))])
            for k, (mask, own) in enumerate(zip(masks, weights, strict=True)):
                loss, residuals, curvature = _pointwise(times(Z, own, 1), events.truth[rows], mask[rows])
                losses[k].append(loss)
                gradient[k] += sum_of_rows(residuals, Z, 1)
                scaled = Z * np.sqrt(curvature)[:, None]
                hessian[k] += scaled.T @ scaled
        return {"loss": np.array([sum(own) for own in losses]), "gradient": gradient, "hessian": hessian}

    # ---- metrics of held-out samples ------------------------------------------------------------------------------------------

    def held_positives(self, context: Context, parts: Ints, weights: Floats) -> Answer:
        """Scores of the positives that folds hold out (all for -1), by rows of ``weights``; and the number of negatives."""
        held = self._held_scores(context, parts, weights)
        return {"positives": [own for own, _ in held], "negatives": np.array([len(others) for _, others in held])}

    def held_above(self, context: Context, parts: Ints, weights: Floats, positives: list[Floats]) -> Answer:
        """How many negatives score at least as high as, and higher than, the positives of all shards, in rising order."""
        held = self._held_scores(context, parts, weights)
        counts = [irrelevant_above(own, others) for own, (_, others) in zip(positives, held, strict=True)]
        return {"above": [above for above, _ in counts], "higher": [higher for _, higher in counts]}

    def _held_scores(self, context: Context, parts: Ints, weights: Floats) -> list[tuple[Floats, Floats]]:
        events, key = self._events(context), context["key"].encode() + parts.tobytes() + weights.tobytes()
        if self._held is None or self._held[0] != key:
            found = []
            for part, own in zip(parts, weights, strict=True):
                scores, mask = events.scores(own, self.n_jobs), events.mask(int(part), True)
                found.append((scores[mask & events.truth], scores[mask & ~events.truth]))
            self._held = key, found
        return self._held[1]

    # ---- held-out scores on one scale -----------------------------------------------------------------------------------------

    def score_sums(self, context: Context, by_fold: Floats, whole: Floats) -> Answer:
        """For the training rows of every fold, the largest sizes of its own scores and of the model's, and sums over these.

        Shape (folds, 2); the sums are divided by the sizes of this shard.
        """
        peaks, sums = [], []
        for own, other in self._of_both(context, by_fold, whole):
            largest = [float(np.abs(scores).max(initial=0.0)) for scores in (own, other)]
            peaks.append(largest)
            sums.append([float((s / (peak or 1.0)).sum()) for s, peak in zip((own, other), largest, strict=True)])
        return {"peaks": np.array(peaks), "sums": np.array(sums)}

    def score_squares(self, context: Context, by_fold: Floats, whole: Floats, peaks: Floats, means: Floats) -> Answer:
        """Sums of the squares of ``score / peak - mean``, shape (folds, 2)."""
        squares = [
            [float(((s / peak - mean) ** 2).sum()) for s, peak, mean in zip(both, own_peaks, own_means, strict=True)]
            for both, own_peaks, own_means in zip(self._of_both(context, by_fold, whole), peaks, means, strict=True)
        ]
        return {"squares": np.array(squares)}

    def _of_both(self, context: Context, by_fold: Floats, whole: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Scores of training rows by the model of their fold and by the model of all."""
        events = self._events(context)
        others = events.scores(whole, self.n_jobs)
        for part, weights in enumerate(by_fold):
            mask = events.mask(part, False)
            yield events.scores(weights, self.n_jobs)[mask], others[mask]

    def pool(self, context: Context, pooling: dict[str, Floats]) -> Answer:
        """Scores of the held-out positives, in rising order; number of the negatives; sum and range of all.

        ``pooling`` has the ``weights`` of all folds, and what their scores are moved by and stretched: ``centers``,
        ``stretches`` and ``wanted``, all of shape (folds,).
        """
        pool = self._pool_of(context, pooling)
        filled = [scores for scores in pool.both if len(scores)]
        ends = [(scores[0], scores[-1]) for scores in filled]
        return {
            "positives": pool.positives,
            "negatives": len(pool.negatives),
            "sum": float(sum(scores.sum() for scores in filled)),
            "range": (min((low for low, _ in ends), default=np.inf), max((high for _, high in ends), default=-np.inf)),
        }

    def pool_counts(self, context: Context, pooling: dict[str, Floats], values: Floats) -> Answer:
        """How many held-out negatives score at least as much as, and more than, each of the values."""
        negatives = self._pool_of(context, pooling).negatives
        found = [len(negatives) - np.searchsorted(negatives, values, side=side) for side in ("left", "right")]
        return {"above": found[0], "higher": found[1]}

    def pool_neighbours(self, context: Context, pooling: dict[str, Floats], values: Floats) -> Answer:
        """The largest held-out score below each of the values, and the smallest above it."""
        below, above = np.full(len(values), -np.inf), np.full(len(values), np.inf)
        for scores in self._pool_of(context, pooling).both:
            if len(scores):
                first, last = np.searchsorted(scores, values, side="left"), np.searchsorted(scores, values, side="right")
                below = np.where(first > 0, np.maximum(below, scores[first - 1]), below)
                above = np.where(last < len(scores), np.minimum(above, scores[np.minimum(last, len(scores) - 1)]), above)
        return {"range": (below, above)}

    def pool_sample(self, context: Context, pooling: dict[str, Floats], low: float, high: float, most: int) -> Answer:
        """Of the held-out scores between two numbers some that part them evenly, both ends among them; all, if they are few."""
        samples = []
        for scores in self._pool_of(context, pooling).both:
            inside = scores[np.searchsorted(scores, low, side="right") : np.searchsorted(scores, high, side="left")]
            places = np.linspace(0, len(inside) - 1, min(most, len(inside))).astype(np.int64)
            samples.append(inside[places])
        return {"sample": np.concatenate(samples)}

    def pool_ranks(self, context: Context, pooling: dict[str, Floats], values: Floats) -> Answer:
        """How many held-out scores are at least as large as, and larger than, each of the values."""
        both = self._pool_of(context, pooling).both
        n = sum(map(len, both))
        found = [n - sum(np.searchsorted(scores, values, side=side) for scores in both) for side in ("left", "right")]
        return {"above": found[0], "higher": found[1]}

    def pool_squares(self, context: Context, pooling: dict[str, Floats], center: float) -> Answer:
        """The sum of the squares of held-out scores less a number."""
        return {"squares": float(sum(((scores - center) ** 2).sum() for scores in self._pool_of(context, pooling).both))}

    def pool_sigmoid(self, context: Context, pooling: dict[str, Floats], at: Floats, scale: Floats, targets: Floats) -> Answer:
        """Sums of the logistic loss of ``at[0] * (score - scale[0]) / scale[1] + at[1]``, its gradient and its Hessian.

        ``targets`` are those of positives and of negatives.
        """
        loss, gradient, hessian = 0.0, np.zeros(2), np.zeros((2, 2))
        for scores, target in zip(self._pool_of(context, pooling).both, targets, strict=True):
            moved = (scores - scale[0]) / scale[1]
            linear = at[0] * moved + at[1]
            loss -= float((target * log_expit(linear) + (1 - target) * log_expit(-linear)).sum())
            p = expit(linear)
            residuals, curvature = p - target, p * (1 - p)
            gradient += [(residuals * moved).sum(), residuals.sum()]
            mixed = (curvature * moved).sum()
            hessian += [[(curvature * moved * moved).sum(), mixed], [mixed, curvature.sum()]]
        return {"loss": loss, "gradient": gradient, "hessian": hessian}

    def _pool_of(self, context: Context, pooling: dict[str, Floats]) -> _Pool:
        events = self._events(context)
        key = context["key"].encode() + b"".join(pooling[name].tobytes() for name in sorted(pooling))
        if self._pooled is None or self._pooled.key != key:
            found = []
            parts = zip(pooling["weights"], pooling["centers"], pooling["stretches"], pooling["wanted"], strict=True)
            for part, (weights, center, stretch, wanted) in enumerate(parts):
                mask = events.mask(part, True)
                scores = (events.scores(weights, self.n_jobs)[mask] - center) * stretch + wanted
                found.append((scores, events.truth[mask]))
            scores, truth = (np.concatenate(columns) for columns in zip(*found, strict=True))
            self._pooled = _Pool(key, np.sort(scores[truth]), np.sort(scores[~truth]))
        return self._pooled


def _pointwise(linear: Floats, truth: Booleans, mask: Booleans) -> tuple[float, Floats, Floats]:
    """The sum of the logistic loss over some rows; its derivatives by the scores, zero for other rows."""
    p = expit(linear)
    residuals, curvature = np.where(mask, p - truth, 0.0), np.where(mask, p * (1 - p), 0.0)
    return float(np.logaddexp(0.0, np.where(truth, -linear, linear)[mask]).sum()), residuals, curvature
