"""Algorithms over structures: scores in, the best or most violating structure out. They know nothing of training."""

from maxmargin.inference.ranking import (
    ViolatingRanking,
    ViolatingRankings,
    most_violating_ranking,
    most_violating_rankings,
)

__all__ = ["ViolatingRanking", "ViolatingRankings", "most_violating_ranking", "most_violating_rankings"]
