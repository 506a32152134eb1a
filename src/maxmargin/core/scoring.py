"""Judging the models of a path: scorers of every kind, and the best of their scores."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import numpy as np
from sklearn.metrics import get_scorer

from maxmargin._utils import Floats, Scorer, warn


def scorer_of(scoring: str | Scorer | None, score_params: Mapping[str, object]) -> Scorer:
    """``scoring(estimator, X, y, **score_params)``, whatever was given."""
    if scoring is None:
        return lambda estimator, *data, **params: estimator.score(*data, **params)
    if isinstance(scoring, str):
        if score_params:
            raise ValueError(
                f"scoring={scoring!r} of scikit-learn knows no {' or '.join(score_params)}; pass a function "
                f"scoring(estimator, X, y, {', '.join(score_params)}), or None for the metric that is trained for"
            )
        named: Scorer = get_scorer(scoring)
        return named
    if not callable(scoring):
        raise ValueError(f"scoring={scoring!r} must be a function of (estimator, X, y), a name, or None")
    if inspect.isfunction(scoring):
        taken = inspect.signature(scoring).parameters
        anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())
        lacking = [name for name in score_params if name not in taken and not anything]
        if lacking:
            raise ValueError(f"scoring takes no {lacking[0]}; write it as scoring(estimator, X, y, {', '.join(score_params)})")
    return scoring


def best_of(scores: Floats) -> int:
    """Place of the largest number."""
    if np.isnan(scores).any():
        if not (scores > -np.inf).any():
            raise ValueError("scoring gave no number for any model; look at it, and at the validation data")
        warn("some scores are not a number; the models they belong to are not chosen")
    return int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))
