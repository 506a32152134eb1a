"""What the linear rankers share: labels to relevance, samples to lists, scores to the metric they were trained for."""

from __future__ import annotations

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
            return np.unique(y)[:-1] if len(np.unique(y)) > 1 else np.unique(y)
        if self.relevance_threshold is not None:
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
            raise ValueError(
                f"y must contain relevant and irrelevant samples{'' if qid is None else ' of the same query'}, but holds "
                f"only one class (labels from {y.min():g} to {y.max():g}); mark relevant samples by 1 and the others by 0"
            )
        self.n_skipped_queries_ = model.n_skipped
        return model, order

    def _recalled(self, mark: bytes | None) -> Any:
        """What the last fit left for a warm start, if it was on the data of this mark."""
        earlier: tuple[bytes, Any] | None = getattr(self, "_earlier", None)
        return earlier[1] if mark is not None and earlier is not None and earlier[0] == mark else None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n,); sort them in descending order to rank."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_) + self.intercept_

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n,): as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X)

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """The metric that was trained for on new data: AP, NDCG, AUC or MRR, 1 - loss for other losses, AP for the baseline.

        The mean over the queries and, with ``grades=True``, over the grades.
        """
        scores = self.decision_function(X)
        labels = np.asarray(column_or_1d(y))
        check_consistent_length(scores, labels)
        if isinstance(self.grades, str):
            return metrics.ndcg(labels, scores, qid=qid, gains="linear" if self.grades == "linear" else "exponential")
        values = [self._metric(labels > threshold, scores, qid) for threshold in self.relevance_thresholds_]
        return float(np.mean(values))

    def _metric(self, relevant: NDArray[np.bool_], scores: NDArray[np.float64], qid: ArrayLike | None) -> float:
        if isinstance(self.loss, str) and self.loss == "accuracy":
            return metrics.average_precision(relevant, scores, qid=qid)
        loss = ranking_loss(self.loss)
        # By exact type, like inference: a subclass may mean something else.
        known = {AveragePrecision: metrics.average_precision, AUC: metrics.auc, ReciprocalRank: metrics.reciprocal_rank}
        if loss.native_name() == "ndcg":
            return metrics.ndcg(relevant, scores, qid=qid)
        if type(loss) in known:
            return known[type(loss)](relevant, scores, qid=qid)
        _, offsets, order = query_offsets(np.zeros(len(scores), dtype=np.int64) if qid is None else qid, len(scores))
        if order is not None:
            relevant, scores = relevant[order], scores[order]
        lists = [slice(begin, end) for begin, end in pairwise(offsets)]
        return float(np.mean([1.0 - loss_of_ranking(loss, relevant[rows], scores[rows]) for rows in lists]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def mark_of(model: RankingModel) -> bytes:
    """A short summary of lists and loss, by which a warm start knows its own data."""
    return fingerprint(model.X, model.relevant, model.offsets, model.weights, repr(model.loss))


def loss_of_ranking(loss: RankingLoss, relevant: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Loss of the ranking by score, ties with the negatives first; 0 if every ranking is right."""
    if relevant.all() or not relevant.any():
        return 0.0
    negatives = np.sort(scores[~relevant])
    positives = np.sort(scores[relevant])[::-1]
    above = len(negatives) - np.searchsorted(negatives, positives, side="left")
    return loss.value(above, len(negatives))
