"""Metrics of all tasks: of rankings as evaluation campaigns define them, of chunks in tagged sentences, of dependency trees."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.parsing import attachment_scores
    from maxmargin.ranking import (
        auc,
        average_precision,
        evaluate,
        interpolated_average_precision,
        ndcg,
        per_query,
        precision,
        reciprocal_rank,
    )
    from maxmargin.sequences import chunk_scores
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
