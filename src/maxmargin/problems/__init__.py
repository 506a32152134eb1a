"""Structures with data: they hand out cuts and know no solver."""

from maxmargin.problems.bags import Bags, supervised_share
from maxmargin.problems.latent import LatentProblem, LatentStructuredProblem
from maxmargin.problems.latent_ranking import JointLatentRankingProblem, LatentBinaryProblem, LatentRankingProblem
from maxmargin.problems.weighted import WeightedProblem

__all__ = [
    "Bags",
    "JointLatentRankingProblem",
    "LatentBinaryProblem",
    "LatentProblem",
    "LatentRankingProblem",
    "LatentStructuredProblem",
    "WeightedProblem",
    "supervised_share",
]
