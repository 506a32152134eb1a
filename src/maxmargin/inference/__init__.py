"""Algorithms over structures: scores in, the best or most violating structure out. They know nothing of training."""

from maxmargin.inference.graphcut import BinaryLabeling, MinimumCut, best_binary_labeling, minimum_cut
from maxmargin.inference.ranking import (
    ViolatingRanking,
    ViolatingRankings,
    most_violating_ranking,
    most_violating_rankings,
)

__all__ = [
    "BinaryLabeling",
    "MinimumCut",
    "ViolatingRanking",
    "ViolatingRankings",
    "best_binary_labeling",
    "minimum_cut",
    "most_violating_ranking",
    "most_violating_rankings",
]
