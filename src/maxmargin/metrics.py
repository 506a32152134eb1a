"""Metrics of all tasks: of rankings as evaluation campaigns define them, of chunks in tagged sentences, of dependency trees."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.parsing import attachment_scores as attachment_scores
    from maxmargin.ranking import auc as auc
    from maxmargin.ranking import average_precision as average_precision
    from maxmargin.ranking import evaluate as evaluate
    from maxmargin.ranking import interpolated_average_precision as interpolated_average_precision
    from maxmargin.ranking import ndcg as ndcg
    from maxmargin.ranking import per_query as per_query
    from maxmargin.ranking import precision as precision
    from maxmargin.ranking import reciprocal_rank as reciprocal_rank
    from maxmargin.sequences import chunk_scores as chunk_scores
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
