"""Rank losses for boosted trees: objectives and metrics for LightGBM and XGBoost, and estimators that blend two models.

Objectives and metrics need neither of the two libraries to be loaded; they are handed their data sets. The estimators train
with LightGBM (``pip install 'maxmargin[lightgbm]'``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxmargin.boosting.evaluations import RankEvaluation, evaluation
from maxmargin.boosting.objectives import RankObjective, objective

if TYPE_CHECKING:
    from maxmargin.boosting.blending import BoostedRanker, BoostedRankingClassifier

__all__ = ["BoostedRanker", "BoostedRankingClassifier", "RankEvaluation", "RankObjective", "evaluation", "objective"]


def __getattr__(name: str) -> Any:
    # Estimators load scikit-learn, which objectives do not need.
    if name in ("BoostedRanker", "BoostedRankingClassifier"):
        from maxmargin.boosting import blending

        return getattr(blending, name)
    raise AttributeError(f"module 'maxmargin.boosting' has no attribute {name!r}")
