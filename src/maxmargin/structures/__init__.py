"""Structures: spaces of outputs with features, a loss and a search for the best of them. They know no training data."""

from maxmargin.structures.base import Decoded, Structure, predict
from maxmargin.structures.classes import ClassStructure
from maxmargin.structures.forest import ChainWeights, TreeWeights
from maxmargin.structures.graph import Graph, GraphStructure
from maxmargin.structures.graph_sets import GraphSetStructure
from maxmargin.structures.hierarchy import HierarchyLoss, HierarchySetStructure, HierarchyStructure
from maxmargin.structures.label_sets import LabelSetStructure, RelaxedLabelSets
from maxmargin.structures.labelings import ChainStructure, Tree, TreeStructure
from maxmargin.structures.latent import LatentStructure
from maxmargin.structures.latent_classes import LatentClasses
from maxmargin.structures.latent_graph import LatentGraphStructure, PartlyHidden
from maxmargin.structures.parsing import DependencyStructure, SentenceArcs
from maxmargin.structures.ranking import Interleaving, RankingStructure
from maxmargin.structures.relaxed_graph import RelaxedGraphStructure

__all__ = [
    "ChainStructure", "ChainWeights", "ClassStructure", "Decoded", "DependencyStructure", "Graph",
    "GraphSetStructure", "GraphStructure",
    "HierarchyLoss", "HierarchySetStructure", "HierarchyStructure", "Interleaving", "LabelSetStructure", "LatentClasses",
    "LatentGraphStructure", "LatentStructure", "PartlyHidden", "RankingStructure", "RelaxedGraphStructure", "RelaxedLabelSets",
    "SentenceArcs", "Structure", "Tree", "TreeStructure", "TreeWeights", "predict",
]  # fmt: skip
