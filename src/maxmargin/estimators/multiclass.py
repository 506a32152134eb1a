"""The multi-class SVM of Crammer and Singer with any cost matrix, and a certified gap."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin._validation import check_labels, check_matrix
from maxmargin.estimators.training import check_budgets, train
from maxmargin.problems import MulticlassProblem
from maxmargin.solvers import Solver


def with_constant(X: Any) -> Any:
    """X with a column of ones."""
    ones = np.ones((X.shape[0], 1))
    if not hasattr(X, "tocsr"):
        return np.hstack([X, ones])
    parts: Any = [X, sparse.csr_array(ones)]
    return sparse.hstack(parts, format="csr")


class MulticlassSVM(ClassifierMixin, BaseEstimator):
    """Linear classifier that minimises ``1/2 ||W||^2 + C * sum_i max_k (cost[y_i, k] + (W_k - W_{y_i}) . x_i)``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges.
    costs : array of shape (K, K), optional
        ``costs[truth, answer]`` in the order of ``classes_``; 0-1 by default.
    fit_intercept : bool, default=True
        Add a constant feature; its weights are regularised like the others.
    solver : str or Solver, default="auto"
        ``"auto"``, ``"bcfw"``, ``"one_slack"``, ``"n_slack"``, ``"fw"``, ``"pl"``, ``"eg"``, ``"subgradient"``, or an object
        of :mod:`maxmargin.solvers`.
    tol, max_iter, time_limit, random_state, verbose
        Relative duality gap to stop at, passes and seconds at most, seed, progress. A solver object brings its own.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p), or (1, p) for two classes
    intercept_ : array of shape (K,) or (1,)
    primal_objective_, dual_objective_, dual_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.RankingSVM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVM(C=1.0).fit(X, y)
    >>> round(model.score(X, y), 2), model.certified_
    (0.98, True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        costs: ArrayLike | None = None,
        fit_intercept: bool = True,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.costs = costs
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on samples X of shape (n, p), dense or sparse, with labels y of shape (n,)."""
        check_budgets(self)
        problem, _ = self._prepare(X, y)
        self._keep(train(self, problem).weights)
        return self

    def _prepare(self, X: Any, y: Any) -> tuple[MulticlassProblem, None]:
        """The problem to solve; its weights have no bounds."""
        X, y = check_matrix(X), check_labels(y)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, accept_large_sparse=False)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y holds only one class; at least two are needed")
        inputs = with_constant(X) if self.fit_intercept else X
        return MulticlassProblem(inputs, labels.astype(np.int64), len(self.classes_), self.costs), None

    def _keep(self, weights: NDArray[np.float64]) -> None:
        """Weights of the problem as fitted attributes."""
        W = weights.reshape(len(self.classes_), -1)
        if len(self.classes_) == 2:
            W = W[1:] - W[:1]
        self.coef_ = W[:, : self.n_features_in_].copy()
        self.intercept_ = W[:, -1].copy() if self.fit_intercept else np.zeros(len(W))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of shape (n, K), or (n,) for two classes, where positive means the second."""
        check_is_fitted(self)
        X = validate_data(self, check_matrix(X), accept_sparse="csr", dtype=np.float64, reset=False)
        scores = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of the largest score, the first of several."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[index])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
