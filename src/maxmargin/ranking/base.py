"""What the linear rankers share: labels to relevance, samples to lists, scores to the metric they were trained for."""

from __future__ import annotations

import numbers
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from maxmargin._utils import ArgumentError, Booleans, Floats, Ints, Setting, thread_count
from maxmargin.core import Estimator, check_weights, column_peaks, register_codec, sketch, times
from maxmargin.io import query_offsets
from maxmargin.ranking.losses import NDCG, AveragePrecision, RankingLoss, ranking_loss, without_cut_off
from maxmargin.ranking.metrics import Gains, per_query
from maxmargin.ranking.problem import RankingProblem, gain_shares

# With grades=True every one is a problem of its own, with an array as long as the data.
_MOST_GRADES = 1000


# What files hold.
RANKING: dict[str, Any] = {
    "n_features_in_": int,
    "coef_": ("n_features_in_",),
    "intercept_": (),
    "relevance_thresholds_": ("levels",),
}


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRanker(Estimator):
    """Base of the estimators that score a sample by ``x . coef_ + intercept_`` and are trained for a rank loss.

    Parameters are described in :class:`maxmargin.RankingSVM`.
    """

    relevance_threshold: float | None = None
    warm_start: bool = False
    n_jobs: int | None = None

    keeps_float32: ClassVar[bool] = True

    def fit(self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on one list, or on one list per query.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Features. Dense ones of float32 or float64 are not copied, unless ``qid`` is out of order or the loss is
            ``"accuracy"``; all sums are made in float64.
        y : array of shape (n,)
            Relevance: labels or grades.
        qid : array of shape (n,), optional
            The query each sample belongs to, numbers or strings, in any order. Queries without relevant or without
            irrelevant samples are skipped and counted.
        sample_weight : array of shape (n,), optional
            Weight of the query a sample belongs to, not negative and the same for all samples of a query.

        Returns
        -------
        self
        """
        return self._fit(X, y, qid=qid, sample_weight=sample_weight)

    def _check_samples(self, X: Any, y: Any) -> tuple[Any, Floats]:
        """X as an array or CSR matrix and y as numbers; finds the labels above which a sample is relevant."""
        check_numbers(y)
        X, y = self._check_matrix(X, y, fitting=True, y_numeric=True)
        self.relevance_thresholds_ = self._thresholds(y)
        # Reports say if they are about the training data.
        self.training_sketch_ = sketch(X, y, self.n_jobs)
        return X, y

    def _keep(self, weights: Floats) -> None:
        self.coef_ = weights[: self.n_features_in_].copy()
        self.intercept_ = float(weights[-1]) if len(weights) > self.n_features_in_ else 0.0

    def _scaling_advice(self, problem: Any) -> str:
        """Names the columns that stand out, if the features are at hand."""
        X = getattr(problem, "X", None)
        if X is None or isinstance(X, list) or getattr(X, "ndim", 0) != 2:
            return super()._scaling_advice(problem)
        names = getattr(self, "feature_names_in_", None)
        return scaling_advice(column_peaks(X)[: self.n_features_in_], None if names is None else list(names))

    @property
    def _grades(self) -> Any:
        """The parameter, where there is one."""
        return getattr(self, "grades", False)

    def _thresholds(self, y: Floats) -> Floats:
        """Labels above each of them are relevant in turn."""
        grades = self._grades
        if grades not in (False, True, "linear", "exponential"):
            raise ValueError(f"grades={grades!r} must be True, False, 'linear' or 'exponential'")
        if grades:
            if self.relevance_threshold is not None:
                raise _unfit(grades, " uses every grade as a threshold", "leave ", Setting("relevance_threshold"), " out")
            levels = np.unique(y)
            if len(levels) > _MOST_GRADES:
                why = f" trains for every distinct label, and y has {len(levels)}"
                raise _unfit(grades, why, "round y to a few grades, or give ", Setting("relevance_threshold"))
            return levels[:-1] if len(levels) > 1 else levels
        if self.relevance_threshold is not None:
            if not isinstance(self.relevance_threshold, numbers.Real) or not np.isfinite(float(self.relevance_threshold)):
                raise ValueError(f"relevance_threshold={self.relevance_threshold!r} must be a finite number, or None")
            return np.array([float(self.relevance_threshold)])
        return np.array([max(0.0, float(y.min()))])

    def _lists(
        self, X: Any, y: Floats, qid: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[RankingProblem, NDArray[np.intp] | None]:
        """The lists of checked samples, one per query, and the order of the samples in them (None if it is that of X)."""
        loss = ranking_loss(self.loss)
        _, offsets, order = query_offsets(qid, len(y))
        weights = check_list_weights(sample_weight, offsets, order)
        if order is not None:
            X, y = X[order], y[order]
        relevant = y > self.relevance_thresholds_[:, None]
        shares, grades = None, self._grades
        if grades in get_args(Gains):
            if not has_gains(loss):
                remedy = ("use them with ", Setting("loss", "ndcg"), " (or ndcg@10), or pass ", Setting("grades", True))
                raise _unfit(grades, f" are the gains of NDCG, and {loss!r} knows none", *remedy)
            shares = gain_shares(y, offsets, self.relevance_thresholds_, grades, loss.at)
        model = RankingProblem(X, relevant, loss, offsets, weights, shares)
        model.n_jobs = thread_count(self.n_jobs)
        if model.n_blocks == 0:
            raise self._one_class(y, relevant)
        if not model.weights.any():
            reason = "sample_weight is zero" if shares is None else "sample_weight or the gain of the grades is zero"
            raise ValueError(f"{reason} for every query with relevant and irrelevant samples; one must count")
        self.n_skipped_queries_ = model.n_skipped
        return model, order

    def _one_class(self, y: Floats, relevant: Booleans) -> ArgumentError:
        """Why there is nothing to learn."""
        labels = f"labels are from {y.min():g} to {y.max():g}, and those above {self.relevance_thresholds_[0]:g} are relevant"
        if relevant.all() or not relevant.any():
            kind = "relevant" if relevant.all() else "irrelevant"
            return ArgumentError(
                "y",
                f"y must contain relevant and irrelevant samples, but holds only one class, {kind} ones: {labels}",
                ["mark relevant samples by 1 and the others by 0, or set ", Setting("relevance_threshold")],
            )
        problem = f"y must contain relevant and irrelevant samples of the same query, but no query has both ({labels})"
        return ArgumentError("y", problem, "check qid")

    def decision_function(self, X: Any) -> Floats:
        """Scores, shape (n,); sort them in descending order to rank."""
        check_is_fitted(self)
        X = self._check_matrix(X)
        return times(X, self.coef_, self.n_jobs) + self.intercept_

    def predict(self, X: Any) -> Floats:
        """Scores, shape (n,): as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X)

    def _scores(self, X: Any, qid: ArrayLike | None) -> Floats:
        """Scores of samples whose queries are known, for rankers whose scores depend on them."""
        return self.decision_function(X)

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """The metric that was trained for on new data: AP, NDCG, AUC, MRR, precision, recall, RBP, each at its cut-off if it has
        one; 1 - loss for other losses, AP for the baseline.

        The mean over the queries, weighted by ``sample_weight`` as in :meth:`fit`, and over the grades if ``grades=True``. A
        query without relevant samples counts as 0; so does one without irrelevant ones for AUC.
        """
        scores = self._scores(X, qid)
        labels = numeric_labels(y, scores)
        _, offsets, order = query_offsets(qid, len(labels))
        weights = check_list_weights(sample_weight, offsets, order)
        if self._grades in get_args(Gains):
            name = trained_metric(ranking_loss(self.loss)) or "ndcg"
            values = [per_query(labels, scores, qid=qid, metrics=[name], gains=self._grades)[0][name]]
        else:
            values = [self._metric(labels > threshold, scores, qid) for threshold in self.relevance_thresholds_]
        return float(np.mean([np.average(value, weights=weights) for value in values]))

    def _metric(self, relevant: Booleans, scores: Floats, qid: ArrayLike | None) -> Floats:
        """Of every query."""
        baseline = isinstance(self.loss, str) and self.loss == "accuracy"
        loss = AveragePrecision() if baseline else ranking_loss(self.loss)
        name = trained_metric(loss)
        if name is not None:
            return per_query(relevant, scores, qid=qid, metrics=[name])[0][name]
        _, offsets, order = query_offsets(qid, len(scores))
        if order is not None:
            relevant, scores = relevant[order], scores[order]
        lists = [slice(begin, end) for begin, end in pairwise(offsets)]
        return np.array([1.0 - loss_of_ranking(loss, relevant[rows], scores[rows]) for rows in lists])

    def _check_fitted(self) -> None:
        if self.loss != "accuracy":
            ranking_loss(self.loss)

    def report(
        self, X: Any, y: ArrayLike, qid: ArrayLike | None = None, *, path: str | os.PathLike[str] = "report.html", **options: Any
    ) -> Path:
        """Write one HTML page about the model, judged on labelled samples, preferably others than those of :meth:`fit`.

        Options are those of :func:`maxmargin.report.write_report`: ``baselines``, ``feature_names``, ``query_names``, ``name``,
        ``title`` and ``notes``.
        """
        return self._write_report(X, y, qid, path=path, **{"scores": self._scores(X, qid), **options})


# Columns so many times larger than the usual one stand out.
_LARGE = 1e3


def scaling_advice(peaks: Floats, names: list[str] | None = None) -> str:
    """What to do about columns with these largest entries: the last part of a sentence.

    Examples
    --------
    >>> scaling_advice(np.array([2.0, 1.6e9, 3.0]), ["age", "time", "size"])
    "scale the features with StandardScaler: column 2 ('time') reaches 1.6e+09, the usual one 3"
    """
    advice = "scale the features with StandardScaler"
    seen = peaks[peaks > 0]
    if not len(seen):
        return advice
    usual = float(np.sort(seen)[(len(seen) - 1) // 2])
    large = [int(k) for k in np.argsort(-peaks, kind="stable") if peaks[k] > _LARGE * usual][:3]
    if not large:
        return advice if 1 / _LARGE <= usual <= _LARGE else f"{advice}: their entries reach {peaks.max():.3g}"
    told = [f"column {k + 1}" + ("" if names is None else f" ({names[k]!r})") + f" reaches {peaks[k]:.3g}" for k in large]
    return f"{advice}: {', '.join(told)}, the usual one {usual:.3g}"


def _unfit(grades: Any, why: str, *remedy: str | Setting) -> ArgumentError:
    return ArgumentError("grades", [Setting("grades", grades), why], remedy)


def has_gains(loss: RankingLoss) -> bool:
    """Whether grades can be gains: NDCG with the usual discount."""
    return isinstance(loss, NDCG) and loss.native_name() is not None


def trained_metric(loss: RankingLoss) -> str | None:
    """Name of the metric that the loss is about, as :mod:`maxmargin.ranking.metrics` knows it; None if it has none there.

    AP with a cut-off is divided by the number of positives that the first places can hold, by evaluation tools by all positives:
    what was trained for is 1 - loss.
    """
    return None if isinstance(loss, AveragePrecision) and loss.at is not None else loss.native_name()


def flat_at_zero(loss: RankingLoss) -> str:
    """Why weights of zero are best for a loss with a cut-off, and what to do: the last part of a sentence."""
    return (
        f"which rank nothing: the hinge of {loss!r} knows the first places, and no weights lower it; train for "
        f"{without_cut_off(loss)!r}, and choose C by the metric itself"
    )


def check_list_weights(sample_weight: ArrayLike | None, offsets: Ints, order: NDArray[np.intp] | None) -> Floats | None:
    """One weight per query, in order of first appearance, from one per sample."""
    weights = check_weights(sample_weight, int(offsets[-1]))
    if weights is None:
        return None
    weights = weights if order is None else weights[order]
    first = weights[offsets[:-1]]
    if (weights != np.repeat(first, np.diff(offsets))).any():
        raise ValueError("sample_weight is the weight of a query, so all samples of a query must have the same; they differ")
    return np.asarray(first)


def check_numbers(y: Any) -> None:
    """Complain about labels that are text."""
    labels = np.asarray(y)
    text = labels.dtype.kind in "US" or (labels.dtype == object and any(isinstance(label, str) for label in labels.ravel()))
    if text:
        raise ValueError("y must be numbers: 1 for relevant samples and 0 for others, or grades; it holds text")


def numeric_labels(y: Any, scores: Floats) -> Floats:
    """Labels of samples that have been scored."""
    check_numbers(y)
    labels = np.asarray(column_or_1d(y), dtype=np.float64)
    check_consistent_length(scores, labels)
    if np.isnan(labels).any():
        raise ValueError("y contains NaN; every sample needs a label")
    return labels


def relevant_labels(labels: Floats, what: str) -> tuple[float, Booleans]:
    """The label above which ``what`` (samples, bags) are relevant, 0 or the smallest, and which ones are."""
    threshold, lowest, highest = max(0.0, float(labels.min())), labels.min(), labels.max()
    if not highest > threshold:
        raise ValueError(
            f"y must contain relevant and irrelevant {what}, but holds only one class (labels from {lowest:g} to {highest:g}); "
            f"mark relevant {what} by 1 and the others by 0"
        )
    return threshold, labels > threshold


def loss_of_ranking(loss: RankingLoss, relevant: Booleans, scores: Floats) -> float:
    """Loss of the ranking by score, ties with the negatives first; 0 if every ranking is right."""
    if relevant.all() or not relevant.any():
        return 0.0
    negatives = np.sort(scores[~relevant])
    positives = np.sort(scores[relevant])[::-1]
    above = len(negatives) - np.searchsorted(negatives, positives, side="left")
    return loss.value(above, len(negatives))


def _name_of(loss: RankingLoss) -> str:
    name = loss.native_name()
    if name is None:
        raise TypeError(f"{loss!r} is a loss of the user, which model files cannot hold")
    return name


register_codec("loss", RankingLoss, _name_of, ranking_loss)
