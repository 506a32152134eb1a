"""Ranking metrics as LightGBM and XGBoost call them, by the definitions of :mod:`maxmargin.ranking.metrics`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import check_choice
from maxmargin.boosting.datasets import (
    Labelled,
    check_labelled,
    is_data_set,
    list_weights,
    of_xgboost,
    read_arrays,
    read_data_set,
)
from maxmargin.boosting.graded import Gains
from maxmargin.ranking import metric_named, per_query

_NOT_PASSED: Any = object()
# Early stopping of XGBoost looks for the largest value of metrics whose names begin so, and for the smallest of all others.
_MAXIMISED = ("auc", "map", "ndcg", "pre")
_AS_IN_XGBOOST = {"ap": "map", "p": "pre"}


def name_for_xgboost(metric: str) -> str:
    """The name under which XGBoost gets a metric: its own one, or another one that it takes for a metric to be maximised.

    Examples
    --------
    >>> [name_for_xgboost(name) for name in ("NDCG@10", "ap", "p@5", "mrr")]
    ['ndcg@10', 'map', 'pre@5', 'prefer_mrr']
    """
    plain, at, k = metric.lower().partition("@")
    name = _AS_IN_XGBOOST.get(plain, plain) + at + k
    return name if name.startswith(_MAXIMISED) else f"prefer_{name}"


@dataclass(eq=False)
class RankEvaluation:
    """A ranking metric as a custom metric of LightGBM and XGBoost; :func:`evaluation` makes one."""

    metric: str = "ndcg@10"
    _: KW_ONLY
    gains: Gains = "exponential"

    def __post_init__(self) -> None:
        check_choice("gains", self.gains, get_args(Gains))
        metric_named(self.metric, self.gains)
        # What the scikit-learn interface of XGBoost calls it.
        self.__name__ = name_for_xgboost(self.metric)

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: ArrayLike | None = None, group: Any = _NOT_PASSED
    ) -> tuple[str, float, bool] | tuple[str, float] | float:
        """The metric in the form that who asks expects.

        With scores and a data set: name, value and that higher is better for LightGBM, name and value for XGBoost. With labels
        and scores: the same three if ``group`` is passed, as LightGBM does, the value alone if not.
        """
        if is_data_set(y_pred):
            value = self._value(read_data_set(y_pred), y_true)
            return (self.__name__, value) if of_xgboost(y_pred) else (self.metric, value, True)
        if group is _NOT_PASSED:
            return self._value(read_arrays(y_true, sample_weight, None), y_pred)
        return self.metric, self._value(read_arrays(y_true, sample_weight, group), y_pred), True

    def _value(self, data: Labelled, scores: Any) -> float:
        values = np.asarray(scores, dtype=np.float64)
        labels = check_labelled(data, len(values))
        qid = None if data.offsets is None else np.repeat(np.arange(len(data.offsets) - 1), np.diff(data.offsets))
        found = per_query(labels, values, qid=qid, metrics=[self.metric], gains=self.gains)[0][self.metric]
        weights = list_weights(data, len(values))
        return float(np.average(found, weights=weights))


def evaluation(metric: str = "ndcg@10", *, gains: Gains = "exponential") -> RankEvaluation:
    """A ranking metric for early stopping and logs of LightGBM and XGBoost, for queries or for one list.

    Parameters
    ----------
    metric : str, default="ndcg@10"
        A name that :func:`maxmargin.ranking.metrics.evaluate` takes: ``"ap"``, ``"ndcg@10"``, ``"p@5"``, ``"auc"`` ...
    gains : {"exponential", "linear"}
        Of NDCG.

    Returns
    -------
    RankEvaluation
        A callable that can be copied and pickled: ``feval=`` of ``lightgbm.train``, ``custom_metric=`` of ``xgboost.train``,
        ``eval_metric=`` in the scikit-learn interfaces. XGBoost tells by its name whether a metric is to be large: it gets
        ``"ap"`` as ``"map"``, ``"p@5"`` as ``"pre@5"``, and what it does not have, ``"mrr"``, as ``"prefer_mrr"``. As everywhere
        in this library, ties are put in the least favourable order, and a query without relevant rows counts 0 (1 in LightGBM).

    Examples
    --------
    >>> evaluation("ap")([1, 0, 0, 1], [4.0, 3.0, 2.0, 1.0])
    0.75
    """
    return RankEvaluation(metric, gains=gains)
