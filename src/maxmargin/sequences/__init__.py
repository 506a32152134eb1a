"""Labels of the nodes of chains and trees: structure, problem, estimators, tagged sentences, features of words, chunk metrics."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.sequences.conll import read_conll as read_conll
    from maxmargin.sequences.features import window_features as window_features
    from maxmargin.sequences.forest import ChainWeights as ChainWeights
    from maxmargin.sequences.forest import TreeWeights as TreeWeights
    from maxmargin.sequences.metrics import Chunk as Chunk
    from maxmargin.sequences.metrics import ChunkScores as ChunkScores
    from maxmargin.sequences.metrics import check_bio as check_bio
    from maxmargin.sequences.metrics import chunk_scores as chunk_scores
    from maxmargin.sequences.metrics import chunks as chunks
    from maxmargin.sequences.metrics import sentence_f1 as sentence_f1
    from maxmargin.sequences.native import DecodedProblem as DecodedProblem
    from maxmargin.sequences.native import decoder_signature as decoder_signature
    from maxmargin.sequences.problem import ChainProblem as ChainProblem
    from maxmargin.sequences.problem import TreeProblem as TreeProblem
    from maxmargin.sequences.shards import ChainShard
    from maxmargin.sequences.structure import ChainStructure as ChainStructure
    from maxmargin.sequences.structure import Tree as Tree
    from maxmargin.sequences.structure import TreeStructure as TreeStructure
    from maxmargin.sequences.surrogate_problem import SurrogateTreeProblem as SurrogateTreeProblem
    from maxmargin.sequences.svm import AUTO_C
    from maxmargin.sequences.svm import ChainSVM as ChainSVM
    from maxmargin.sequences.svm import TreeSVM as TreeSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
