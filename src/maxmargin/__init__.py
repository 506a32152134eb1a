"""Max-margin learning of rankings and structured outputs, with certified duality gaps.

The names below are what most people need. They are loaded when first used, so ``import maxmargin`` loads no other package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from maxmargin._api import PACKAGES, lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from maxmargin.core import PathSearchCV, RegularizationPath, load_model, regularization_path, save_model
    from maxmargin.core.solvers import (
        BCFW,
        ConvergenceWarning,
        FrankWolfe,
        NSlackCuttingPlane,
        OneSlackCuttingPlane,
        PartialLinearization,
        Subgradient,
    )
    from maxmargin.graphs import GraphSVM, GridSVM, LatentGraphSVM, LatentGridSVM
    from maxmargin.hierarchy import HierarchicalSVM
    from maxmargin.io import SavedFileError
    from maxmargin.multiclass import MulticlassSVM
    from maxmargin.multilabel import MultilabelSVM
    from maxmargin.parsing import ParserSVM
    from maxmargin.ranking import (
        ApproximateRankingSVM,
        DirectLossMinimizer,
        HighOrderRankingSVM,
        LatentRankingSVM,
        RankingSVM,
        ViolatingRanking,
        ViolatingRankings,
        most_violating_ranking,
        most_violating_rankings,
    )
    from maxmargin.rare_events import RankingClassifier
    from maxmargin.sequences import ChainSVM, TreeSVM
    from maxmargin.structured import LatentStructuredSVM, StructuredSVM
else:
    _load, _, _names = lazy_names(__name__)
    __all__ = sorted([*_names, "__version__"])

    def __getattr__(name: str) -> object:
        return importlib.import_module(f"maxmargin.{name}") if name in PACKAGES else _load(name)

    def __dir__() -> list[str]:
        return __all__
