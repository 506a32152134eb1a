"""A classifier for rare events in one table: tuned start, refinement on held-out folds, thresholds, probabilities."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.rare_events.classifier import RankingClassifier as RankingClassifier
    from maxmargin.rare_events.thresholds import check_aim
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
