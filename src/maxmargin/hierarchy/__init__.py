"""Labels in a tree or a directed acyclic graph."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.hierarchy.closed_sets import LabelSets as LabelSets
    from maxmargin.hierarchy.closed_sets import Program as Program
    from maxmargin.hierarchy.hierarchy import Hierarchy as Hierarchy
    from maxmargin.hierarchy.hierarchy import MinimalGraph as MinimalGraph
    from maxmargin.hierarchy.hierarchy import paths_of as paths_of
    from maxmargin.hierarchy.norms import heaviest_antichain as heaviest_antichain
    from maxmargin.hierarchy.norms import node_norm as node_norm
    from maxmargin.hierarchy.norms import shared_norm as shared_norm
    from maxmargin.hierarchy.norms import shared_weights as shared_weights
    from maxmargin.hierarchy.norms import structured_shared_norm as structured_shared_norm
    from maxmargin.hierarchy.norms import tree_norm as tree_norm
    from maxmargin.hierarchy.problem import HierarchyProblem as HierarchyProblem
    from maxmargin.hierarchy.problem import HierarchySetProblem as HierarchySetProblem
    from maxmargin.hierarchy.problem import RecursiveProblem as RecursiveProblem
    from maxmargin.hierarchy.readers import HierarchicalData as HierarchicalData
    from maxmargin.hierarchy.readers import load_hierarchical as load_hierarchical
    from maxmargin.hierarchy.structure import HierarchyLoss as HierarchyLoss
    from maxmargin.hierarchy.structure import HierarchySetStructure as HierarchySetStructure
    from maxmargin.hierarchy.structure import HierarchyStructure as HierarchyStructure
    from maxmargin.hierarchy.svm import HierarchicalSVM as HierarchicalSVM
    from maxmargin.hierarchy.weights import NodeWeights as NodeWeights
    from maxmargin.hierarchy.weights import tree_weights as tree_weights
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
