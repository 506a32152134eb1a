"""Linear ranking by the metric one reports: the AP-SVM, NDCG-SVM and their kin."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from maxmargin import metrics
from maxmargin.estimators.training import check_budgets, train
from maxmargin.losses import AUC, AveragePrecision, RankingLoss, ReciprocalRank, ranking_loss
from maxmargin.models import RankingModel


class RankingSVM(BaseEstimator):
    """Rank samples by a linear score that is trained for a rank loss.

    Minimises ``1/2 ||w||^2 + C * J(w)``, where ``J`` bounds the loss (1 - AP, 1 - NDCG, ...) of the ranking from above,
    by one-slack cutting planes with exact loss-augmented inference. The result comes with a duality gap: the objective
    is within ``dual_gap_`` of the best possible one.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        ``"ap"``, ``"ndcg"``, ``"auc"``, ``"mrr"``, or an object of :mod:`maxmargin.losses`.
    C : float, default=1.0
        Weight of the hinge against the regulariser. The hinge is that of the whole list (not a sum over samples), so
        useful values are larger than for a classifier: 10 to 1e4 are common.
    tol : float, default=1e-3
        Stop when ``gap <= tol * primal``.
    max_iter : int, default=1000
        Most inference calls; a warning says if they did not suffice.
    time_limit : float, optional
        Seconds after which training stops with what it has.
    verbose : int, default=0
        Progress on standard error if 1.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights; the score of a sample is ``x . coef_``.
    intercept_ : float
        Always 0: a constant does not change a ranking.
    primal_objective_, dual_objective_, dual_gap_ : float
        Objective at ``coef_``, a lower bound of the optimum, and their difference.
    certified_ : bool
        Whether the gap is proved (inference was exact).
    n_iter_ : int
        Inference calls.
    history_ : History
        Primal, dual and seconds after each; ``history_.plot()`` draws it.
    relevance_threshold_ : float
        Labels above it count as relevant.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    maxmargin.most_violating_ranking : the inference inside.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankingSVM(loss="ap", C=100).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 3)
    0.998
    >>> model.certified_, bool(model.dual_gap_ <= 1e-3 * model.primal_objective_)
    (True, True)
    """

    def __init__(
        self,
        loss: str | RankingLoss = "ap",
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on one list.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Features.
        y : array of shape (n,)
            Relevance; a sample is relevant if its label is greater than zero or, where no label is zero or less, greater
            than the smallest (so 0/1, -1/+1, 1/2 and grades all work).

        Returns
        -------
        self
        """
        check_budgets(self)
        loss = ranking_loss(self.loss)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, accept_large_sparse=False, y_numeric=True)
        self.relevance_threshold_ = max(0.0, float(y.min()))
        relevant = y > self.relevance_threshold_
        if not relevant.any():
            raise ValueError(
                f"y must contain relevant and irrelevant samples, but holds only one class (labels from {y.min():g} to "
                f"{y.max():g}); mark relevant samples by 1 and the others by 0"
            )
        solution = train(self, RankingModel(X, relevant, loss))
        self.coef_ = solution.weights
        self.intercept_ = 0.0
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n,); sort them in descending order to rank."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores, shape (n,): as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X)

    def score(self, X: Any, y: ArrayLike) -> float:
        """The metric that was trained for (AP, NDCG, AUC or MRR; 1 - loss for other losses) on new data."""
        scores = self.decision_function(X)
        relevant = np.asarray(column_or_1d(y)) > self.relevance_threshold_
        check_consistent_length(scores, relevant)
        loss = ranking_loss(self.loss)
        # By exact type, like inference: a subclass may mean something else.
        metric = {AveragePrecision: metrics.average_precision, AUC: metrics.auc, ReciprocalRank: metrics.reciprocal_rank}
        if loss.native_name() == "ndcg":
            return metrics.ndcg(relevant, scores)
        if type(loss) in metric:
            return metric[type(loss)](relevant, scores)
        return 1.0 - _loss_of_ranking(loss, relevant, scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _loss_of_ranking(loss: RankingLoss, relevant: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Loss of the ranking by score, ties with the negatives first."""
    negatives = np.sort(scores[~relevant])
    positives = np.sort(scores[relevant])[::-1]
    above = len(negatives) - np.searchsorted(negatives, positives, side="left")
    return loss.value(above, len(negatives))
