"""Algorithms over structures: scores in, the best or most violating structure out. They know nothing of training."""

from maxmargin.inference.ranking import (
    ViolatingRanking,
    ViolatingRankings,
    most_violating_ranking,
    most_violating_rankings,
)
from maxmargin.inference.tree import BestLabeling, LabelMarginals, best_labeling, label_marginals

__all__ = [
    "BestLabeling",
    "LabelMarginals",
    "ViolatingRanking",
    "ViolatingRankings",
    "best_labeling",
    "label_marginals",
    "most_violating_ranking",
    "most_violating_rankings",
]
