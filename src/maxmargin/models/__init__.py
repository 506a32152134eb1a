"""Models bind data, loss and inference into an oracle that hands out cuts. They know no solver's insides."""

from maxmargin.models.chain import ChainModel, ChainWeights
from maxmargin.models.enumerated import EnumeratedModel
from maxmargin.models.forest import TreeWeights
from maxmargin.models.graph import Graph, GraphModel
from maxmargin.models.multiclass import BinaryModel, MulticlassModel
from maxmargin.models.native import DecodedModel, NativeProblem, decoder_signature, native_signature
from maxmargin.models.ranking import RankingModel
from maxmargin.models.tree import Tree, TreeModel
from maxmargin.models.user import StructuredModel, UserProblem

__all__ = [
    "BinaryModel",
    "ChainModel",
    "ChainWeights",
    "DecodedModel",
    "EnumeratedModel",
    "Graph",
    "GraphModel",
    "MulticlassModel",
    "NativeProblem",
    "RankingModel",
    "StructuredModel",
    "Tree",
    "TreeModel",
    "TreeWeights",
    "UserProblem",
    "decoder_signature",
    "native_signature",
]
