"""Dependency trees of sentences."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.parsing.conllu import Sentence, read_conllu, write_conllu
    from maxmargin.parsing.inference import ScoredTree, best_tree, best_trees, k_best_trees
    from maxmargin.parsing.metrics import AttachmentScores, attachment_scores
    from maxmargin.parsing.problem import ParseProblem, SurrogateParseProblem, Treebank
    from maxmargin.parsing.structure import DependencyStructure, SentenceArcs, check_tree
    from maxmargin.parsing.svm import Parse, ParserSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
