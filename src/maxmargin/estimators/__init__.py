"""The scikit-learn face: ``fit``, ``predict``, ``score``, with the certificate in the fitted attributes."""

from maxmargin.estimators.approximate import ApproximateRankingSVM
from maxmargin.estimators.base import Estimator
from maxmargin.estimators.classifier import RankingClassifier
from maxmargin.estimators.direct import DirectLossMinimizer
from maxmargin.estimators.graph import GraphSVM, GridSVM
from maxmargin.estimators.hierarchical import HierarchicalSVM
from maxmargin.estimators.high_order_ranking import HighOrderRankingSVM
from maxmargin.estimators.labelings import ChainSVM, TreeSVM
from maxmargin.estimators.latent import LatentStructuredSVM
from maxmargin.estimators.latent_graph import LatentGraphSVM, LatentGridSVM
from maxmargin.estimators.latent_ranking import LatentRankingSVM
from maxmargin.estimators.model_files import load_model, save_model
from maxmargin.estimators.multiclass import MulticlassSVM
from maxmargin.estimators.multilabel import MultilabelSVM
from maxmargin.estimators.parsing import Parse, ParserSVM
from maxmargin.estimators.path import RegularizationPath, Selection, regularization_path
from maxmargin.estimators.path_search import PathSearchCV
from maxmargin.estimators.ranking import RankingSVM
from maxmargin.estimators.structured import StructuredSVM

__all__ = [
    "ApproximateRankingSVM", "ChainSVM", "DirectLossMinimizer", "Estimator", "GraphSVM", "GridSVM", "HierarchicalSVM",
    "HighOrderRankingSVM", "LatentGraphSVM", "LatentGridSVM", "LatentRankingSVM", "LatentStructuredSVM", "MulticlassSVM",
    "MultilabelSVM", "Parse", "ParserSVM", "PathSearchCV", "RankingClassifier", "RankingSVM", "RegularizationPath", "Selection",
    "StructuredSVM", "TreeSVM", "load_model", "regularization_path", "save_model",
]  # fmt: skip
