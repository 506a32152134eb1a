"""Rank losses for boosted trees: objectives and metrics for LightGBM and XGBoost, and estimators that blend two models.

Objectives and metrics work on the data sets they are given and load neither library. The estimators train with LightGBM
(``pip install 'maxmargin[lightgbm]'``).
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.boosting.blending import BoostedRanker, BoostedRankingClassifier
    from maxmargin.boosting.evaluations import RankEvaluation, evaluation
    from maxmargin.boosting.objectives import RankObjective, objective
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
