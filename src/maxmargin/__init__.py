"""Max-margin learning of rankings and structured outputs, with certified duality gaps.

The names below are what most people need. They are loaded when first used, so ``import maxmargin`` loads no other package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from maxmargin.core import PathSearchCV as PathSearchCV
    from maxmargin.core import RegularizationPath as RegularizationPath
    from maxmargin.core import load_model as load_model
    from maxmargin.core import regularization_path as regularization_path
    from maxmargin.core import save_model as save_model
    from maxmargin.core.solvers import BCFW as BCFW
    from maxmargin.core.solvers import ConvergenceWarning as ConvergenceWarning
    from maxmargin.core.solvers import FrankWolfe as FrankWolfe
    from maxmargin.core.solvers import NSlackCuttingPlane as NSlackCuttingPlane
    from maxmargin.core.solvers import OneSlackCuttingPlane as OneSlackCuttingPlane
    from maxmargin.core.solvers import PartialLinearization as PartialLinearization
    from maxmargin.core.solvers import Subgradient as Subgradient
    from maxmargin.graphs import GraphSVM as GraphSVM
    from maxmargin.graphs import GridSVM as GridSVM
    from maxmargin.graphs import LatentGraphSVM as LatentGraphSVM
    from maxmargin.graphs import LatentGridSVM as LatentGridSVM
    from maxmargin.hierarchy import HierarchicalSVM as HierarchicalSVM
    from maxmargin.io import SavedFileError as SavedFileError
    from maxmargin.multiclass import MulticlassSVM as MulticlassSVM
    from maxmargin.multilabel import MultilabelSVM as MultilabelSVM
    from maxmargin.parsing import ParserSVM as ParserSVM
    from maxmargin.ranking import ApproximateRankingSVM as ApproximateRankingSVM
    from maxmargin.ranking import DirectLossMinimizer as DirectLossMinimizer
    from maxmargin.ranking import HighOrderRankingSVM as HighOrderRankingSVM
    from maxmargin.ranking import LatentRankingSVM as LatentRankingSVM
    from maxmargin.ranking import RankingSVM as RankingSVM
    from maxmargin.ranking import ViolatingRanking as ViolatingRanking
    from maxmargin.ranking import ViolatingRankings as ViolatingRankings
    from maxmargin.ranking import most_violating_ranking as most_violating_ranking
    from maxmargin.ranking import most_violating_rankings as most_violating_rankings
    from maxmargin.rare_events import RankingClassifier as RankingClassifier
    from maxmargin.sequences import ChainSVM as ChainSVM
    from maxmargin.sequences import TreeSVM as TreeSVM
    from maxmargin.structured import LatentStructuredSVM as LatentStructuredSVM
    from maxmargin.structured import StructuredSVM as StructuredSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
