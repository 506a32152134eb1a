"""Rankings whose rows are spread over shards, also a single list; the results are those of one process."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.ranking.shards.list_inference import ScatteredList
    from maxmargin.ranking.shards.metrics import evaluate as evaluate
    from maxmargin.ranking.shards.problem import ShardedRanking as ShardedRanking
    from maxmargin.ranking.shards.shard import RankingShard
    from maxmargin.ranking.shards.split_list import check_together
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
