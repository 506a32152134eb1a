"""Algorithms over structures: scores in, the best or most violating structure out. They know nothing of training."""

from maxmargin.inference.flow import FlowGraph, MinimumCut, minimum_cut
from maxmargin.inference.graphcut import BinaryLabeling, best_binary_labeling
from maxmargin.inference.label_sets import BestSets, LabelPairs, RelaxedSets
from maxmargin.inference.max_marginals import MaxMarginals, binary_max_marginals
from maxmargin.inference.parsing import ScoredTree, best_tree, best_trees, k_best_trees
from maxmargin.inference.ranking import ViolatingRanking, ViolatingRankings, most_violating_ranking, most_violating_rankings
from maxmargin.inference.tree import BestLabeling, LabelMarginals, best_labeling, label_marginals

__all__ = [
    "BestLabeling", "BestSets", "BinaryLabeling", "FlowGraph", "LabelMarginals", "LabelPairs", "MaxMarginals", "MinimumCut",
    "RelaxedSets", "ScoredTree", "ViolatingRanking", "ViolatingRankings", "best_binary_labeling", "best_labeling", "best_tree",
    "best_trees", "binary_max_marginals", "k_best_trees", "label_marginals", "minimum_cut", "most_violating_ranking",
    "most_violating_rankings",
]  # fmt: skip
