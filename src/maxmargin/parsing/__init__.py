"""Dependency trees of sentences."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.parsing.conllu import Sentence as Sentence
    from maxmargin.parsing.conllu import read_conllu as read_conllu
    from maxmargin.parsing.conllu import write_conllu as write_conllu
    from maxmargin.parsing.inference import ScoredTree as ScoredTree
    from maxmargin.parsing.inference import best_tree as best_tree
    from maxmargin.parsing.inference import best_trees as best_trees
    from maxmargin.parsing.inference import k_best_trees as k_best_trees
    from maxmargin.parsing.metrics import AttachmentScores as AttachmentScores
    from maxmargin.parsing.metrics import attachment_scores as attachment_scores
    from maxmargin.parsing.problem import ParseProblem as ParseProblem
    from maxmargin.parsing.problem import SurrogateParseProblem as SurrogateParseProblem
    from maxmargin.parsing.problem import Treebank as Treebank
    from maxmargin.parsing.structure import DependencyStructure as DependencyStructure
    from maxmargin.parsing.structure import SentenceArcs as SentenceArcs
    from maxmargin.parsing.structure import check_tree
    from maxmargin.parsing.svm import Parse as Parse
    from maxmargin.parsing.svm import ParserSVM as ParserSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
