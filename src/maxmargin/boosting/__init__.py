"""Rank losses for boosted trees: objectives and metrics for LightGBM and XGBoost, and estimators that blend two models.

Objectives and metrics need neither of the two libraries to be loaded; they are handed their data sets. The estimators train
with LightGBM (``pip install 'maxmargin[lightgbm]'``).
"""

from __future__ import annotations

from maxmargin.boosting.evaluations import RankEvaluation, evaluation
from maxmargin.boosting.objectives import RankObjective, objective

__all__ = ["RankEvaluation", "RankObjective", "evaluation", "objective"]
