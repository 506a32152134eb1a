"""Labels of the nodes of chains and trees: structure, problem, estimators, tagged sentences, features of words, chunk metrics."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.sequences.conll import read_conll
    from maxmargin.sequences.features import window_features
    from maxmargin.sequences.forest import ChainWeights, TreeWeights
    from maxmargin.sequences.metrics import Chunk, ChunkScores, check_bio, chunk_scores, chunks, sentence_f1
    from maxmargin.sequences.native import DecodedProblem, decoder_signature
    from maxmargin.sequences.problem import ChainProblem, TreeProblem
    from maxmargin.sequences.shards import ChainShard
    from maxmargin.sequences.structure import ChainStructure, Tree, TreeStructure
    from maxmargin.sequences.surrogate_problem import SurrogateTreeProblem
    from maxmargin.sequences.svm import AUTO_C, ChainSVM, TreeSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
