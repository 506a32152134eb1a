"""Problems: a structure, data and a surrogate make an oracle that hands out cuts. They know no solver."""

from maxmargin.problems.bags import Bags, supervised_share
from maxmargin.problems.binary import BinaryProblem
from maxmargin.problems.decoded import DecodedProblem, decoder_signature
from maxmargin.problems.enumerated import EnumeratedProblem
from maxmargin.problems.graph import GraphProblem
from maxmargin.problems.hierarchy import HierarchyProblem, HierarchySetProblem, RecursiveProblem
from maxmargin.problems.high_order_ranking import HighOrderBinaryProblem, HighOrderRankingProblem, LinkedSamples
from maxmargin.problems.labeling_surrogates import SurrogateTreeProblem
from maxmargin.problems.labelings import ChainProblem, TreeProblem
from maxmargin.problems.latent import LatentProblem
from maxmargin.problems.latent_graph import LatentGraphProblem
from maxmargin.problems.latent_ranking import JointLatentRankingProblem, LatentBinaryProblem, LatentRankingProblem
from maxmargin.problems.latent_structured import LatentStructuredProblem
from maxmargin.problems.multiclass import MulticlassProblem
from maxmargin.problems.multiclass_surrogates import SurrogateMulticlassProblem
from maxmargin.problems.multilabel import MultilabelProblem
from maxmargin.problems.native_problem import NativeProblem, native_signature
from maxmargin.problems.parsing import ParseProblem, SurrogateParseProblem, Treebank
from maxmargin.problems.ranking import RankingProblem
from maxmargin.problems.structured import StructuredProblem, make_problem
from maxmargin.problems.weighted import WeightedProblem

__all__ = [
    "Bags", "BinaryProblem", "ChainProblem", "DecodedProblem", "EnumeratedProblem", "GraphProblem", "HierarchyProblem",
    "HierarchySetProblem", "HighOrderBinaryProblem", "HighOrderRankingProblem", "JointLatentRankingProblem",
    "LatentBinaryProblem", "LatentGraphProblem", "LatentProblem", "LatentRankingProblem", "LatentStructuredProblem",
    "LinkedSamples", "MulticlassProblem", "MultilabelProblem", "NativeProblem", "ParseProblem", "RankingProblem",
    "RecursiveProblem", "StructuredProblem", "SurrogateMulticlassProblem", "SurrogateParseProblem", "SurrogateTreeProblem",
    "TreeProblem", "Treebank", "WeightedProblem",
    "decoder_signature", "make_problem", "native_signature", "supervised_share",
]  # fmt: skip
