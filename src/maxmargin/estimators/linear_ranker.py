"""What the linear rankers share: labels to relevance, samples to lists, scores to the metric they were trained for."""

from __future__ import annotations

import numbers
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from maxmargin import metrics
from maxmargin._validation import query_offsets
from maxmargin.estimators.reporting import ReportMixin
from maxmargin.estimators.training import check_list_weights, fingerprint
from maxmargin.losses import AUC, AveragePrecision, RankingLoss, ReciprocalRank, ranking_loss
from maxmargin.models import RankingModel
from maxmargin.models.ranking import gain_shares

# With grades=True every one is a problem of its own, with an array as long as the data.
_MOST_GRADES = 1000


class LinearRanker(ReportMixin, BaseEstimator):
    """Base of the estimators that score a sample by ``x . coef_ + intercept_`` and are trained for a rank loss."""

    loss: str | RankingLoss
    relevance_threshold: float | None
    # A ranker without this parameter knows one notion of relevance.
    grades: bool | str = False
    relevance_thresholds_: NDArray[np.float64]
    coef_: NDArray[np.float64]
    intercept_: float

    def _check_samples(self, X: Any, y: Any) -> tuple[Any, NDArray[np.float64]]:
        """X as an array or CSR matrix and y as numbers; finds the labels above which a sample is relevant."""
        check_numbers(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, accept_large_sparse=False, y_numeric=True)
        self.relevance_thresholds_ = self._thresholds(y)
        return X, y

    def _thresholds(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Labels above each of them are relevant in turn."""
        if self.grades not in (False, True, "linear", "exponential"):
            raise ValueError(f"grades={self.grades!r} must be True, False, 'linear' or 'exponential'")
        if self.grades:
            if self.relevance_threshold is not None:
                raise ValueError("grades=True uses every grade as a threshold; leave relevance_threshold at None")
            levels = np.unique(y)
            if len(levels) > _MOST_GRADES:
                raise ValueError(
                    f"grades={self.grades!r} trains for every distinct label, and y has {len(levels)}; round y to a few grades, "
                    "or give relevance_threshold"
                )
            return levels[:-1] if len(levels) > 1 else levels
        if self.relevance_threshold is not None:
            if not isinstance(self.relevance_threshold, numbers.Real) or not np.isfinite(float(self.relevance_threshold)):
                raise ValueError(f"relevance_threshold={self.relevance_threshold!r} must be a finite number, or None")
            return np.array([float(self.relevance_threshold)])
        return np.array([max(0.0, float(y.min()))])

    def _lists(
        self, X: Any, y: NDArray[np.float64], qid: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> tuple[RankingModel, NDArray[np.intp] | None]:
        """The lists of checked samples, one per query, and the order of the samples in them (None if it is that of X)."""
        relevant = y > self.relevance_thresholds_[:, None]
        loss = ranking_loss(self.loss)
        offsets = order = None
        weights = check_list_weights(sample_weight, np.zeros(len(y), dtype=np.int64) if qid is None else qid)
        if qid is not None:
            _, offsets, order = query_offsets(qid, len(y))
            if order is not None:
                X, relevant = X[order], relevant[:, order]
        shares = None
        if isinstance(self.grades, str):
            if loss.native_name() != "ndcg":
                raise ValueError(f"grades={self.grades!r} are the gains of NDCG; use them with loss='ndcg', or pass grades=True")
            shares = gain_shares(
                y if order is None else y[order],
                np.array([0, len(y)], dtype=np.int64) if offsets is None else offsets,
                self.relevance_thresholds_,
                "linear" if self.grades == "linear" else "exponential",
            )
        model = RankingModel(X, relevant, loss, offsets, weights, shares)
        if model.n_blocks == 0:
            raise ValueError(self._one_class(y, relevant))
        if not model.weights.any():
            reason = "sample_weight is zero" if shares is None else "sample_weight or the gain of the grades is zero"
            raise ValueError(f"{reason} for every query with relevant and irrelevant samples; one must count")
        self.n_skipped_queries_ = model.n_skipped
        return model, order

    def _one_class(self, y: NDArray[np.float64], relevant: NDArray[np.bool_]) -> str:
        """Why there is nothing to learn."""
        labels = f"labels are from {y.min():g} to {y.max():g}, and those above {self.relevance_thresholds_[0]:g} are relevant"
        if relevant.all() or not relevant.any():
            kind = "relevant" if relevant.all() else "irrelevant"
            return (
                f"y must contain relevant and irrelevant samples, but holds only one class, {kind} ones: {labels}; mark relevant "
                "samples by 1 and the others by 0, or set relevance_threshold"
            )
        return f"y must contain relevant and irrelevant samples of the same query, but no query has both ({labels}); check qid"

    def _remember(self, mark: bytes | None, found: Any) -> None:
        """Keep something for a warm start; the loss as well, so that no other one can take its place in memory."""
        self._earlier = None if mark is None else (mark, found, self.loss)

    def __getstate__(self) -> Any:
        # What a warm start goes on from belongs to this process.
        return {key: value for key, value in super().__getstate__().items() if key != "_earlier"}

    def _recalled(self, mark: bytes | None) -> Any:
        """What the last fit left for a warm start, if it was on the data of this mark."""
        earlier: tuple[bytes, Any, Any] | None = getattr(self, "_earlier", None)
        return earlier[1] if mark is not None and earlier is not None and earlier[0] == mark else None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n,); sort them in descending order to rank."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_) + self.intercept_

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n,): as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X)

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """The metric that was trained for on new data: AP, NDCG, AUC or MRR, 1 - loss for other losses, AP for the baseline.

        The mean over the queries, weighted by ``sample_weight`` as in :meth:`fit`, and over the grades if ``grades=True``. A
        query without relevant samples counts as 0; so does one without irrelevant ones for AUC.
        """
        scores = self.decision_function(X)
        check_numbers(y)
        labels = np.asarray(column_or_1d(y), dtype=np.float64)
        check_consistent_length(scores, labels)
        if np.isnan(labels).any():
            raise ValueError("y contains NaN; every sample needs a label")
        weights = check_list_weights(sample_weight, np.zeros(len(labels), dtype=np.int64) if qid is None else qid)
        if isinstance(self.grades, str):
            gains: metrics.Gains = "linear" if self.grades == "linear" else "exponential"
            found = metrics.per_query(labels, scores, qid=qid, metrics=["ndcg"], gains=gains)[0]["ndcg"]
            return float(np.average(found, weights=weights))
        values = [self._metric(labels > threshold, scores, qid) for threshold in self.relevance_thresholds_]
        return float(np.mean([np.average(value, weights=weights) for value in values]))

    def _metric(self, relevant: NDArray[np.bool_], scores: NDArray[np.float64], qid: ArrayLike | None) -> NDArray[np.float64]:
        """Of every query."""
        baseline = isinstance(self.loss, str) and self.loss == "accuracy"
        loss = AveragePrecision() if baseline else ranking_loss(self.loss)
        # By exact type, like inference: a subclass may mean something else.
        known = {AveragePrecision: "ap", AUC: "auc", ReciprocalRank: "mrr"}
        name = "ndcg" if loss.native_name() == "ndcg" else known.get(type(loss))
        if name is not None:
            return metrics.per_query(relevant, scores, qid=qid, metrics=[name])[0][name]
        _, offsets, order = query_offsets(np.zeros(len(scores), dtype=np.int64) if qid is None else qid, len(scores))
        if order is not None:
            relevant, scores = relevant[order], scores[order]
        lists = [slice(begin, end) for begin, end in pairwise(offsets)]
        return np.array([1.0 - loss_of_ranking(loss, relevant[rows], scores[rows]) for rows in lists])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def mark_of(model: RankingModel) -> bytes:
    """A short summary of lists and loss, by which a warm start knows its own data."""
    loss = model.loss
    settings = [part for item in sorted(getattr(loss, "__dict__", {}).items()) for part in item]
    return fingerprint(model.X, model.relevant, model.offsets, model.weights, type(loss), repr(loss), *settings)


def check_numbers(y: Any) -> None:
    """Complain about labels that are text."""
    labels = np.asarray(y)
    text = labels.dtype.kind in "US" or (labels.dtype == object and any(isinstance(label, str) for label in labels.ravel()))
    if text:
        raise ValueError("y must be numbers: 1 for relevant samples and 0 for others, or grades; it holds text")


def loss_of_ranking(loss: RankingLoss, relevant: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Loss of the ranking by score, ties with the negatives first; 0 if every ranking is right."""
    if relevant.all() or not relevant.any():
        return 0.0
    negatives = np.sort(scores[~relevant])
    positives = np.sort(scores[relevant])[::-1]
    above = len(negatives) - np.searchsorted(negatives, positives, side="left")
    return loss.value(above, len(negatives))
