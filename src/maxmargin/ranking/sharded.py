"""Problems of rankers whose data are spread over shards."""

from __future__ import annotations

from typing import Any

from maxmargin.distributed import Engine, feature_scaling
from maxmargin.ranking.shards import ShardedRanking
from maxmargin.ranking.svm import RankingSVM


def ranking_over(model: RankingSVM, engine: Engine) -> ShardedRanking:
    """The problem of a ranker over shards; what is known of the data becomes fitted attributes, scales of features among them.

    With ``scale="standard"`` the weights of the problem are those of standardised features, as on one machine.
    """
    grades: Any = model.grades
    scale = None
    model._forget_scales()
    if model.scale == "standard":
        model.feature_center_, model.feature_scale_ = feature_scaling(engine)
        scale = model.feature_scale_
    problem = ShardedRanking(engine, model.loss, relevance_threshold=model.relevance_threshold, grades=grades, scale=scale)
    model.n_features_in_ = problem.n_features
    model.relevance_thresholds_ = problem.thresholds
    model.n_skipped_queries_ = problem.n_skipped
    return problem
