"""Hierarchies of labels: trees and graphs, how much their nodes count, norms that share weights, and the best set of labels."""

from maxmargin.hierarchies.hierarchy import Hierarchy, MinimalGraph
from maxmargin.hierarchies.weights import NodeWeights

__all__ = ["Hierarchy", "MinimalGraph", "NodeWeights"]
