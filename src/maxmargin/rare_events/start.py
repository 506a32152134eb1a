"""Linear scores tuned by a rank metric in inner folds: logistic regression over a grid of C, or the hinge over its path.

Weights have the shape (d + 1,); the last one is the intercept.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning as SolverWarning
from sklearn.linear_model import LogisticRegression

from maxmargin._utils import Booleans, Floats, Ints, seconds_left
from maxmargin.core import PathSearchCV, RegularizationPath, is_sparse
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.ranking import Precision, RankingLoss, RankingSVM, Recall, evaluate, loss_of_ranking

Folds = Sequence[tuple[Ints, Ints]]
# Forming d x d matrices pays only while they are small and samples are many.
MOST_FEATURES_OF_NEWTON = 200
# Of a solver; and how many tell what a step costs, where there is a limit.
_MOST_STEPS, _FIRST_STEPS = 1000, 5


@dataclass
class TunedStart:
    """What was tried, what was best.

    ``scores`` has the shape (folds, len(Cs)), ``folds`` the weights of every fold at the best C, ``weights`` those of all.
    """

    C: float
    Cs: Floats
    scores: Floats
    folds: list[Floats]
    weights: Floats
    complete: bool = True


def linear_scores(X: Any, weights: Floats) -> Floats:
    """Of shape (n,)."""
    return np.asarray(X @ weights[:-1] + weights[-1])


def metric_of(loss: RankingLoss, relevant: Booleans, scores: Floats) -> float:
    """Of the ranking by score: precision and recall as such, of which the loss is what is missing to the best; else 1 - loss."""
    name = own_metric(loss)
    if name is not None:
        return float(evaluate(relevant, scores, metrics=[name])[name])
    return 1.0 - loss_of_ranking(loss, relevant, scores)


def own_metric(loss: RankingLoss) -> str | None:
    """The name of a metric that is not 1 - loss."""
    return str(loss.native_name()) if type(loss) in (Precision, Recall) else None


class Regressions(Protocol):
    """Logistic regressions on the training samples of folds and on all, wherever these are; each begins where it is told."""

    def fit_folds(self, C: float, firsts: list[Floats] | None) -> list[Floats]:
        """Weights of every fold; those of some, or of other C, once time is up."""

    def fit_all(self, C: float, first: Floats) -> Floats:
        """Weights of all samples."""

    def judge(self, by_fold: list[Floats]) -> list[float]:
        """The metric of the samples that each fold holds out."""


def tune_logistic(
    X: Any, relevant: Booleans, loss: RankingLoss, folds: Folds, Cs: Sequence[float], tell: Callable[[str], None]
) -> TunedStart:
    """Logistic regression with the C whose rankings of held-out samples are best on average; see :func:`search_grid`."""
    return search_grid(_RegressionsInMemory(X, relevant, loss, folds), Cs, tell)


def search_grid(regressions: Regressions, Cs: Sequence[float], tell: Callable[[str], None]) -> TunedStart:
    """The C with the best mean metric of held-out samples; of several, the smallest.

    Every fold goes up the grid once, each C from the weights of the one before. If time runs out, or at Ctrl-C, C is the best of
    those that all folds have done; one is always tried. From then on a fit makes a single step.
    """
    Cs = sorted(Cs)
    scores: list[list[float]] = []
    best: tuple[float, float, list[Floats]] | None = None
    fitted: list[Floats] | None = None
    for C in Cs:
        tell(f"C {C:g}")
        try:
            fitted = regressions.fit_folds(C, fitted)
        except KeyboardInterrupt:
            if best is None:
                raise
            break
        # Weights of a fit that was ended are those of another C.
        if best is not None and seconds_left() <= 0:
            break
        found = regressions.judge(fitted)
        scores.append(found)
        if best is None or np.mean(found) > best[0]:
            best = float(np.mean(found)), C, fitted
        if seconds_left() <= 0:
            break
    assert best is not None
    tell(f"all samples, C {best[1]:g}")
    # From the mean of the folds, which is nearly there.
    tried, weights = np.array(Cs[: len(scores)]), regressions.fit_all(best[1], np.mean(best[2], axis=0))
    complete = len(tried) == len(Cs) and seconds_left() > 0
    return TunedStart(best[1], tried, np.array(scores).T, best[2], weights, complete)


class _RegressionsInMemory:
    """By scikit-learn, one fold after the other."""

    def __init__(self, X: Any, relevant: Booleans, loss: RankingLoss, folds: Folds) -> None:
        self._X, self._relevant, self._loss = X, relevant, loss
        self._models = [_logistic(X, len(train)) for train, _ in folds]
        self._parts = [(X[train], relevant[train], X[test], relevant[test]) for train, test in folds]

    def fit_folds(self, C: float, firsts: list[Floats] | None) -> list[Floats]:
        """Weights of every fold; models go on from their last ones."""
        fitted: list[Floats] = []
        for model, part in zip(self._models, self._parts, strict=True):
            fitted.append(_fit(model, C, *part[:2]))
            if firsts is not None and seconds_left() <= 0:
                break
        return fitted

    def fit_all(self, C: float, first: Floats) -> Floats:
        """Weights of all samples."""
        whole = _logistic(self._X, self._X.shape[0])
        whole.coef_, whole.intercept_, whole.classes_ = first[None, :-1], first[-1:], np.array([False, True])
        return _fit(whole, C, self._X, self._relevant)

    def judge(self, by_fold: list[Floats]) -> list[float]:
        """The metric of the samples that each fold holds out."""
        pairs = zip(by_fold, self._parts, strict=True)
        return [metric_of(self._loss, part[3], linear_scores(part[2], weights)) for weights, part in pairs]


def _logistic(X: Any, n: int) -> LogisticRegression:
    newton = not is_sparse(X) and X.shape[1] <= MOST_FEATURES_OF_NEWTON and n >= 5 * X.shape[1]
    return LogisticRegression(solver="newton-cholesky" if newton else "lbfgs", warm_start=True)


def _fit(model: LogisticRegression, C: float, X: Any, relevant: Booleans) -> Floats:
    """Weights from those that the model has; solvers know no clock, so they get as many steps as there seems to be time for."""
    done, portion = 0, _MOST_STEPS if np.isinf(seconds_left()) else _FIRST_STEPS if seconds_left() > 0 else 1
    with warnings.catch_warnings():
        # A start need not be the optimum to the last digit; it is judged by its rankings.
        warnings.simplefilter("ignore", SolverWarning)
        # Newton's method says so when it hands over to another one.
        warnings.simplefilter("ignore", LinAlgWarning)
        while True:
            began = time.perf_counter()
            model.set_params(C=C, max_iter=portion).fit(X, relevant)
            done += portion
            if int(model.n_iter_[0]) < portion or done >= _MOST_STEPS or seconds_left() <= 0:
                break
            # Half of what is left, as steps are not all the same.
            affordable = 0.5 * seconds_left() * portion / max(time.perf_counter() - began, 1e-9)
            portion = int(np.clip(affordable, 1, _MOST_STEPS - done))
    return np.append(model.coef_[0], model.intercept_[0])


def fit_hinge(X: Any, relevant: Booleans, loss: RankingLoss, folds: Folds, C: float | None) -> TunedStart:
    """The hinge of the loss; C, unless given, is the best on the certified path, of which every range is judged."""
    ranker, labels = RankingSVM(loss, 1.0 if C is None else C), relevant.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if C is not None:
            fitted = []
            for k, (train, _) in enumerate(folds):
                # The others want their share.
                ranker.set_params(time_limit=_share(len(folds) + 1 - k))
                fitted.append(np.append(ranker.fit(X[train], labels[train]).coef_, 0.0))
            ranker.set_params(time_limit=_share(1))
            tests = [test for _, test in folds]
            held = [metric_of(loss, relevant[t], linear_scores(X[t], w)) for w, t in zip(fitted, tests, strict=True)]
            weights = np.append(ranker.fit(X, labels).coef_, 0.0)
            return TunedStart(C, np.array([C]), np.array(held)[:, None], fitted, weights, seconds_left() > 0)
        search = _SearchWithPaths(ranker, cv=list(folds), time_limit=_share(1)).fit(X, labels)
    fitted = [np.append(path.weights(search.best_lambda_), 0.0) for path in search.fold_paths]
    middles = np.sqrt(search.cv_lambdas_[:-1] * search.cv_lambdas_[1:])
    weights = np.append(search.best_estimator_.coef_, 0.0)
    return TunedStart(search.best_C_, 1.0 / middles, search.cv_scores_, fitted, weights, search.path_.complete)


def _share(parts: int) -> float | None:
    """Seconds for one of so many fits; None if there is no limit."""
    left = seconds_left()
    return max(left / parts, 1e-9) if np.isfinite(left) else None


class _SearchWithPaths(PathSearchCV):
    """A search that keeps the paths of its folds."""

    def _choose(self, paths: list[RegularizationPath], scores: list[Floats]) -> None:
        self.fold_paths = paths
        super()._choose(paths, scores)
