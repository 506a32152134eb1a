"""Hierarchies of labels: trees and graphs, how much their nodes count, norms that share weights, and the best set of labels."""

from maxmargin.hierarchies.hierarchy import Hierarchy, MinimalGraph, paths_of
from maxmargin.hierarchies.label_sets import LabelSets, Program
from maxmargin.hierarchies.norms import (
    heaviest_antichain,
    node_norm,
    shared_norm,
    shared_weights,
    structured_shared_norm,
    tree_norm,
)
from maxmargin.hierarchies.weights import NodeWeights, tree_weights

__all__ = [
    "Hierarchy", "LabelSets", "MinimalGraph", "NodeWeights", "Program", "heaviest_antichain", "node_norm", "paths_of",
    "shared_norm", "shared_weights", "structured_shared_norm", "tree_norm", "tree_weights",
]  # fmt: skip
