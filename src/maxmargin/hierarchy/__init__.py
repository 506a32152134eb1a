"""Labels in a tree or a directed acyclic graph."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.hierarchy.closed_sets import LabelSets, Program
    from maxmargin.hierarchy.hierarchy import Hierarchy, MinimalGraph, paths_of
    from maxmargin.hierarchy.norms import (
        heaviest_antichain,
        node_norm,
        shared_norm,
        shared_weights,
        structured_shared_norm,
        tree_norm,
    )
    from maxmargin.hierarchy.problem import HierarchyProblem, HierarchySetProblem, RecursiveProblem
    from maxmargin.hierarchy.readers import HierarchicalData, load_hierarchical
    from maxmargin.hierarchy.structure import HierarchyLoss, HierarchySetStructure, HierarchyStructure
    from maxmargin.hierarchy.svm import HierarchicalSVM
    from maxmargin.hierarchy.weights import NodeWeights, tree_weights
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
