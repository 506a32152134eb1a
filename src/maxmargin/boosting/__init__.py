"""Rank losses for boosted trees: objectives and metrics for LightGBM and XGBoost, and estimators that blend two models.

Objectives and metrics work on the data sets they are given and load neither library. The estimators train with LightGBM
(``pip install 'maxmargin[lightgbm]'``).
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.boosting.blending import BoostedRanker as BoostedRanker
    from maxmargin.boosting.blending import BoostedRankingClassifier as BoostedRankingClassifier
    from maxmargin.boosting.evaluations import RankEvaluation as RankEvaluation
    from maxmargin.boosting.evaluations import evaluation as evaluation
    from maxmargin.boosting.objectives import RankObjective as RankObjective
    from maxmargin.boosting.objectives import objective as objective
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
