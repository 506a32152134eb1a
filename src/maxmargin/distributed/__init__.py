"""Training on data in parts: shards, engines that run them in this process, on Dask or on Ray, packed files."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.distributed.chorus import in_chorus
    from maxmargin.distributed.client import MOST_REPEATS, Conversation
    from maxmargin.distributed.dask_cluster import Cluster, connect, find_client, n_cores, own_cluster
    from maxmargin.distributed.dask_collections import (
        Shards,
        gathered,
        is_frame,
        kept_whole,
        numeric_features,
        rows_of_chunks,
        shards_of,
        trained_columns,
    )
    from maxmargin.distributed.dask_engine import DaskEngine
    from maxmargin.distributed.engine import PROTOCOL, Engine, Reply, Shard, ShardError, ShardSource
    from maxmargin.distributed.kinds import Kind, ShardOf
    from maxmargin.distributed.local import Fault, LocalEngine
    from maxmargin.distributed.means import ShardedMean
    from maxmargin.distributed.moments import column_moments, feature_scaling
    from maxmargin.distributed.packed import CachedRows, PackedRows, feature_names, open_packed, row_sources
    from maxmargin.distributed.packed_meta import packed_reading, read_meta
    from maxmargin.distributed.packing import pack
    from maxmargin.distributed.problem_shard import Answer, Context, LabelShard, MissingError, ProblemSource, TaskShard
    from maxmargin.distributed.ray_engine import RayEngine
    from maxmargin.distributed.rows import ArrayRows, Rows, RowShard, RowSource, split_rows, with_columns
    from maxmargin.distributed.scoring import ScoresOf, write_scores
    from maxmargin.distributed.sharded_problem import ShardedProblem, all_labels, n_columns
    from maxmargin.distributed.sources import Reading, share_out
    from maxmargin.distributed.status import ClusterLine, numbers
    from maxmargin.distributed.sums import tree_sum
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
