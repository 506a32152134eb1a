"""What a plain logistic regression reaches on the same folds: the model to beat."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from maxmargin._utils import Floats, thread_count
from maxmargin.core import center_and_scale, folded, standardized, standardized_within
from maxmargin.io import RankingData
from maxmargin.ranking import RankingSVM

GRID = tuple(10.0**k for k in range(-4, 2))


def logistic_weights(X: Any, relevant: NDArray[np.bool_], values: tuple[float, ...] = GRID) -> list[Floats]:
    """Weights for features as they came, of logistic regressions on standardised ones, one for every C."""
    center, scale = center_and_scale(X)
    Z, found = standardized(X, center, scale), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model to compare with need not be exact to the last digit
        for C in values:
            found.append(folded(LogisticRegression(C=C, max_iter=300).fit(Z, relevant).coef_[0], 0.0, center, scale)[0])
    return found


def cross_validated_logistic(
    data: RankingData, parameters: dict[str, Any], held_out: list[NDArray[np.intp]], measure: Any, jobs: int | None
) -> Floats:
    """The measure of every C (rows) on every fold (columns)."""
    # As the model itself sees them.
    X = standardized_within(data.X, data.qid) if parameters["scale"] == "query" else data.X
    shell = RankingSVM(**{**parameters, "scale": "none"})
    shell.n_features_in_, shell.intercept_ = X.shape[1], 0.0
    shell.relevance_thresholds_ = shell._thresholds(data.y)
    relevant = data.y > measure.threshold

    def fold(held: NDArray[np.intp]) -> list[float]:
        kept = np.setdiff1d(np.arange(len(data)), held)
        if relevant[kept].all() or not relevant[kept].any():
            return [float("nan")] * len(GRID)
        qid = None if data.qid is None else data.qid[held]
        values = []
        for weights in logistic_weights(X[kept], relevant[kept]):
            model = RankingSVM(**shell.get_params(deep=False))
            for name, value in {**vars(shell), "coef_": weights}.items():
                setattr(model, name, value)
            values.append(float(measure.of(model, X[held], data.y[held], qid)))
        return values

    with threadpool_limits(1), ThreadPoolExecutor(thread_count(jobs, "--jobs")) as pool:
        return np.array(list(pool.map(fold, held_out))).T


def summary(scores: Floats) -> dict[str, float]:
    """The best C by its mean over the folds."""
    best = int(np.argmax(scores.mean(axis=1)))
    error = float(np.std(scores[best], ddof=1) / np.sqrt(scores.shape[1]))
    return {"C": GRID[best], "mean": float(scores[best].mean()), "standard_error": error}
