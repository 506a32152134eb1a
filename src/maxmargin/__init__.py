"""Max-margin learning of rankings and structured outputs, with certified duality gaps.

The names below are what most people need; everything else may move. They are loaded when first used, so that
``import maxmargin`` costs next to nothing.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Names that are not from maxmargin.estimators.
_HOMES = {
    "SavedFileError": "storage",
    "ViolatingRanking": "inference",
    "ViolatingRankings": "inference",
    "most_violating_ranking": "inference",
    "most_violating_rankings": "inference",
}
# "boosting", "nn" and "pictures" are not in __all__: they need LightGBM, torch and scikit-image, which not everybody has.
_MODULES = (
    "boosting",
    "data",
    "distributed",
    "estimators",
    "hierarchies",
    "inference",
    "labeling",
    "latent",
    "losses",
    "metrics",
    "nn",
    "path",
    "pictures",
    "problems",
    "report",
    "solvers",
    "structures",
    "surrogates",
)

__all__ = [
    "ApproximateRankingSVM", "ChainSVM", "DirectLossMinimizer", "GraphSVM", "GridSVM", "HierarchicalSVM", "HighOrderRankingSVM",
    "LatentGraphSVM", "LatentGridSVM", "LatentRankingSVM", "LatentStructuredSVM", "MulticlassSVM", "MultilabelSVM", "ParserSVM",
    "PathSearchCV", "RankingClassifier", "RankingSVM", "RegularizationPath", "SavedFileError", "StructuredSVM", "TreeSVM",
    "ViolatingRanking", "ViolatingRankings", "__version__", "data", "estimators", "hierarchies", "inference", "labeling",
    "load_model", "losses", "metrics", "most_violating_ranking", "most_violating_rankings",
    "path", "problems", "regularization_path", "report",
    "save_model", "solvers", "structures", "surrogates",
]  # fmt: skip

if TYPE_CHECKING:
    from maxmargin import boosting as boosting
    from maxmargin import (
        data,
        estimators,
        hierarchies,
        inference,
        labeling,
        losses,
        metrics,
        path,
        problems,
        report,
        solvers,
        structures,
    )
    from maxmargin import nn as nn
    from maxmargin import pictures as pictures
    from maxmargin import surrogates as surrogates
    from maxmargin.estimators import *
    from maxmargin.inference import ViolatingRanking, ViolatingRankings, most_violating_ranking, most_violating_rankings
    from maxmargin.storage import SavedFileError


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"maxmargin.{name}")
    if name in __all__:
        return getattr(importlib.import_module(f"maxmargin.{_HOMES.get(name, 'estimators')}"), name)
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
