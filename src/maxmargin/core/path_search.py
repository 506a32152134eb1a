"""The best regularization by cross-validation over whole paths."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, indexable

from maxmargin._utils import Floats
from maxmargin.core.path import Rule
from maxmargin.core.path_estimators import RegularizationPath, regularization_path
from maxmargin.core.scoring import best_of, scorer_of
from maxmargin.core.solvers import Solver
from maxmargin.io import query_offsets


def _has(name: str) -> Callable[[Any], bool]:
    """The estimator inside decides what can be called."""
    return lambda search: hasattr(search.best_estimator_ if hasattr(search, "best_estimator_") else search.estimator, name)


def _two_classes(y: Any) -> NDArray[np.intp] | None:
    """Labels that are of two kinds, as 0 and 1; None for others, such as those of structures."""
    try:
        labels = np.asarray(y)
    except ValueError:  # sequences of different lengths
        return None
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.ravel()
    if labels.ndim != 1 or (labels.dtype == object and any(np.ndim(label) > 0 for label in labels)):
        return None
    kinds, which = np.unique(labels, return_inverse=True)
    return which if len(kinds) == 2 else None


@dataclass(eq=False, repr=False)
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
    kappa, rule, solver, bounds, certified, time_limit
        As in :func:`maxmargin.regularization_path`, which ignores the ``solver``, ``tol``, ``max_iter``, ``time_limit``,
        ``random_state`` and ``callback`` of ``estimator``.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; with ``qid`` and a number, folds are of whole queries.
    scoring : str or callable, optional
        ``scoring(estimator, X, y)``, with ``qid=...`` if there are queries, or the name of one of scikit-learn's; by default
        ``estimator.score``.

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

    estimator: Any
    _: KW_ONLY
    epsilon: float = 0.01
    lambda_min: float = 1e-4
    kappa: float = 0.9
    rule: Rule = "interpolate"
    solver: str | Solver = "auto"
    bounds: tuple[ArrayLike, ArrayLike] | None = None
    certified: bool = True
    time_limit: float | None = None
    cv: Any = 5
    scoring: str | Callable[..., float] | None = None

    def fit(self, X: Any, y: Any, qid: Any = None, **fit_params: Any) -> Self:
        """Trace a path on every fold and on all data.

        Parameters
        ----------
        X, y
            As for the estimator.
        qid : array of shape (n,), optional
            Queries, for ranking.
        **fit_params
            Further arguments of ``fit`` of the estimator with one entry per sample, such as ``sample_weight``.
        """
        if y is None:
            raise ValueError("PathSearchCV requires y to be passed, but the target y is None")
        fit_params = {name: value for name, value in fit_params.items() if value is not None}
        X, y, qid, *values = indexable(X, y, qid, *fit_params.values())
        params = dict(zip(fit_params, values, strict=True)) | ({} if qid is None else {"qid": qid})
        paths, scores = [], []
        for train, test in self._folds(X, y, qid):
            own = {name: _safe_indexing(value, train) for name, value in params.items()}
            held = {} if qid is None else {"qid": _safe_indexing(qid, test)}
            path = self._trace(_safe_indexing(X, train), _safe_indexing(y, train), own)
            found = path.select(_safe_indexing(X, test), _safe_indexing(y, test), scoring=self.scoring, **held)
            paths.append(path)
            scores.append(found.scores)
        self.path_ = self._trace(X, y, params)
        self._choose(paths, scores)
        self.best_estimator_ = self.path_.estimator(self.best_lambda_)
        self.best_C_ = float(self.best_estimator_.C)
        for name in ("n_features_in_", "classes_", "feature_names_in_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _trace(self, X: Any, y: Any, fit_params: dict[str, Any]) -> RegularizationPath:
        names = ("epsilon", "lambda_min", "kappa", "rule", "solver", "bounds", "certified", "time_limit")
        settings = {name: getattr(self, name) for name in names}
        path = regularization_path(clone(self.estimator), X, y, **settings, **fit_params)
        # A path goes on with what it has; of a search nothing is left.
        if path.interrupted:
            raise KeyboardInterrupt
        return path

    def _folds(self, X: Any, y: Any, qid: Any) -> Any:
        if self.cv is not None and not isinstance(self.cv, numbers.Integral):
            folds = list(check_cv(self.cv).split(X, y, qid))
            if not folds:
                raise ValueError("cv gives no folds; pass a number, a splitter of scikit-learn, or pairs of indices")
            return folds
        n_folds = 5 if self.cv is None else int(self.cv)
        if n_folds < 2:
            raise ValueError(f"cv={self.cv} must be at least 2 folds")
        if qid is None:
            # Two classes of samples are kept in proportion, also for rankings.
            two = _two_classes(y)
            labels = y if two is None else two
            return check_cv(n_folds, labels, classifier=two is not None or is_classifier(self.estimator)).split(X, labels)
        # Whole queries, dealt out in the order of their first appearance.
        ids, offsets, order = query_offsets(qid, len(qid))
        if len(ids) < n_folds:
            raise ValueError(f"cv={n_folds} folds need as many queries, but qid has only {len(ids)}; lower cv")
        fold = np.repeat(np.arange(len(ids)) % n_folds, np.diff(offsets))
        if order is not None:
            fold = fold[np.argsort(order)]
        return ((np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds))

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
        best = best_of(means)
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
    def score(self, X: Any, y: Any, qid: Any = None, **score_params: Any) -> float:
        """Of the best estimator, or by ``scoring``."""
        check_is_fitted(self)
        score_params |= {} if qid is None else {"qid": qid}
        return float(scorer_of(self.scoring, score_params)(self.best_estimator_, X, y, **score_params))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = own.estimator_type, own.classifier_tags
        tags.input_tags, tags.target_tags = own.input_tags, own.target_tags
        return tags
