"""The best regularization by cross-validation over whole paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, indexable

from maxmargin.estimators.path import RegularizationPath, regularization_path
from maxmargin.path.tracing import Rule
from maxmargin.solvers import Solver

Floats = NDArray[np.float64]


def _has(name: str) -> Callable[[Any], bool]:
    """The estimator inside decides what can be called."""
    return lambda search: hasattr(search.best_estimator_ if hasattr(search, "best_estimator_") else search.estimator, name)


class PathSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Choose the regularization among *all* values, not a grid.

    On the training part of every fold the whole path is traced, and each of its models is scored once on the rest. Scores are
    step functions of lambda; the best mean over the folds is found exactly. The path on all data then gives the model.

    Parameters
    ----------
    estimator : estimator
        One that :func:`maxmargin.regularization_path` takes.
    epsilon : float, default=0.01
        Largest duality gap anywhere on a path, in the form ``lambda/2 ||w||^2 + mean hinge``.
    lambda_min : float, default=1e-4
        The smallest lambda.
    kappa, rule, solver, time_limit
        As in :func:`maxmargin.regularization_path`.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; with ``qid`` and an integer, folds are of whole queries.
    scoring : callable, optional
        ``scoring(estimator, X, y)``; by default ``estimator.score``.

    Attributes
    ----------
    best_lambda_, best_C_, best_score_ : float
        What was chosen, and its mean score over the folds.
    best_estimator_ : estimator
        Fitted on all data, with its certificate.
    path_ : RegularizationPath
        On all data.
    cv_lambdas_ : array of shape (k + 1,)
        Ends, in descending order, of the ranges in which no fold changes its model.
    cv_scores_ : array of shape (folds, k)
        Scores in these ranges.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import RankingSVM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = make_pipeline(StandardScaler(), PathSearchCV(RankingSVM("ap"), epsilon=0.02, cv=3)).fit(X, y)
    >>> search[-1].best_estimator_.certified_, round(search.score(X, y), 2)
    (True, 1.0)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float = 0.01,
        lambda_min: float = 1e-4,
        kappa: float = 0.9,
        rule: Rule = "interpolate",
        solver: str | Solver = "auto",
        time_limit: float | None = None,
        cv: Any = 5,
        scoring: Callable[..., float] | None = None,
    ) -> None:
        self.estimator = estimator
        self.epsilon = epsilon
        self.lambda_min = lambda_min
        self.kappa = kappa
        self.rule = rule
        self.solver = solver
        self.time_limit = time_limit
        self.cv = cv
        self.scoring = scoring

    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Trace a path on every fold and on all data.

        Parameters
        ----------
        X, y
            As for the estimator.
        qid : array of shape (n,), optional
            Queries, for ranking.
        """
        if y is None:
            raise ValueError("PathSearchCV requires y to be passed, but the target y is None")
        X, y, qid = indexable(X, y, qid)
        paths, scores = [], []
        for train, test in self._folds(X, y, qid):
            own = {} if qid is None else {"qid": _safe_indexing(qid, train)}
            held = {} if qid is None else {"qid": _safe_indexing(qid, test)}
            path = self._trace(_safe_indexing(X, train), _safe_indexing(y, train), own)
            found = path.select(_safe_indexing(X, test), _safe_indexing(y, test), scoring=self.scoring, **held)
            paths.append(path)
            scores.append(found.scores)
        self.path_ = self._trace(X, y, {} if qid is None else {"qid": qid})
        self._choose(paths, scores)
        self.best_estimator_ = self.path_.estimator(self.best_lambda_)
        self.best_C_ = float(self.best_estimator_.C)
        for name in ("n_features_in_", "classes_", "feature_names_in_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _trace(self, X: Any, y: Any, fit_params: dict[str, Any]) -> RegularizationPath:
        return regularization_path(
            clone(self.estimator),
            X,
            y,
            epsilon=self.epsilon,
            lambda_min=self.lambda_min,
            kappa=self.kappa,
            rule=self.rule,
            solver=self.solver,
            time_limit=self.time_limit,
            **fit_params,
        )

    def _folds(self, X: Any, y: Any, qid: Any) -> Any:
        if qid is None:
            # Two classes of samples are kept in proportion, also for rankings.
            binary = isinstance(y, np.ndarray) and y.ndim == 1 and len(np.unique(y)) == 2
            return check_cv(self.cv, y, classifier=binary or is_classifier(self.estimator)).split(X, y)
        if not isinstance(self.cv, int):
            return check_cv(self.cv).split(X, y, qid)
        # Whole queries, dealt out in the order of their first appearance.
        _, first, which = np.unique(np.asarray(qid), return_index=True, return_inverse=True)
        if len(first) < self.cv:
            raise ValueError(f"cv={self.cv} folds need as many queries, but qid has only {len(first)}; lower cv")
        fold = np.argsort(np.argsort(first))[which] % self.cv
        return ((np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(self.cv))

    def _choose(self, paths: list[RegularizationPath], scores: list[Floats]) -> None:
        """The range of lambda with the best mean score; of several, the one with the largest lambda."""
        lowest = max(self.lambda_min, self.path_.lambda_end, *(path.lambda_end for path in paths))
        ends = {float(lam) for path in paths for lam in path.breakpoints if lam > lowest}
        # Above the first breakpoint nothing changes; its upper end stands for all of that.
        highest = max(ends, default=lowest) * 2.0
        self.cv_lambdas_ = np.array([highest, *sorted(ends, reverse=True), lowest])
        middles = np.sqrt(self.cv_lambdas_[:-1] * self.cv_lambdas_[1:])
        self.cv_scores_ = np.array(
            [[own[path.model_at(lam)] for lam in middles] for path, own in zip(paths, scores, strict=True)]
        )
        means = self.cv_scores_.mean(axis=0)
        best = int(np.argmax(means))
        self.best_lambda_, self.best_score_ = float(middles[best]), float(means[best])

    @available_if(_has("predict"))
    def predict(self, X: Any) -> Any:
        """Of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Of the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(_has("score"))
    def score(self, X: Any, y: Any, **score_params: Any) -> float:
        """Of the best estimator, or by ``scoring``."""
        check_is_fitted(self)
        if self.scoring is not None:
            return float(self.scoring(self.best_estimator_, X, y, **score_params))
        return float(self.best_estimator_.score(X, y, **score_params))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = own.estimator_type, own.classifier_tags
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        return tags
