"""Problems: a structure, data and a surrogate make an oracle that hands out cuts. They know no solver."""

from maxmargin.problems.enumerated import EnumeratedProblem
from maxmargin.problems.graph import GraphProblem
from maxmargin.problems.labelings import ChainProblem, TreeProblem
from maxmargin.problems.make import make_problem
from maxmargin.problems.multiclass import BinaryProblem, MulticlassProblem
from maxmargin.problems.native import DecodedProblem, NativeProblem, decoder_signature, native_signature
from maxmargin.problems.ranking import RankingProblem
from maxmargin.problems.structured import StructuredProblem

__all__ = [
    "BinaryProblem",
    "ChainProblem",
    "DecodedProblem",
    "EnumeratedProblem",
    "GraphProblem",
    "MulticlassProblem",
    "NativeProblem",
    "RankingProblem",
    "StructuredProblem",
    "TreeProblem",
    "decoder_signature",
    "make_problem",
    "native_signature",
]
