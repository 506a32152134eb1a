"""Training on data in parts: shards, engines that run them in this process, on Dask or on Ray, packed files."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
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
    from maxmargin.distributed.dask_engine import DaskEngine as DaskEngine
    from maxmargin.distributed.engine import PROTOCOL as PROTOCOL
    from maxmargin.distributed.engine import Engine as Engine
    from maxmargin.distributed.engine import Reply as Reply
    from maxmargin.distributed.engine import Shard as Shard
    from maxmargin.distributed.engine import ShardError as ShardError
    from maxmargin.distributed.engine import ShardSource as ShardSource
    from maxmargin.distributed.kinds import Kind
    from maxmargin.distributed.kinds import ShardOf as ShardOf
    from maxmargin.distributed.local import Fault as Fault
    from maxmargin.distributed.local import LocalEngine as LocalEngine
    from maxmargin.distributed.means import ShardedMean as ShardedMean
    from maxmargin.distributed.moments import column_moments as column_moments
    from maxmargin.distributed.moments import feature_scaling as feature_scaling
    from maxmargin.distributed.packed import CachedRows as CachedRows
    from maxmargin.distributed.packed import PackedRows as PackedRows
    from maxmargin.distributed.packed import feature_names
    from maxmargin.distributed.packed import open_packed as open_packed
    from maxmargin.distributed.packed import row_sources as row_sources
    from maxmargin.distributed.packed_meta import packed_reading, read_meta
    from maxmargin.distributed.packing import pack as pack
    from maxmargin.distributed.problem_shard import Answer, Context, LabelShard, MissingError, TaskShard
    from maxmargin.distributed.problem_shard import ProblemSource as ProblemSource
    from maxmargin.distributed.ray_engine import RayEngine as RayEngine
    from maxmargin.distributed.rounds import Rounds, run_rounds
    from maxmargin.distributed.rows import ArrayRows as ArrayRows
    from maxmargin.distributed.rows import Rows as Rows
    from maxmargin.distributed.rows import RowShard, with_columns
    from maxmargin.distributed.rows import RowSource as RowSource
    from maxmargin.distributed.rows import split_rows as split_rows
    from maxmargin.distributed.scoring import ScoresOf as ScoresOf
    from maxmargin.distributed.scoring import write_scores as write_scores
    from maxmargin.distributed.sharded_problem import ShardedProblem, all_labels, n_columns
    from maxmargin.distributed.sources import Reading
    from maxmargin.distributed.sources import share_out as share_out
    from maxmargin.distributed.status import ClusterLine, numbers
    from maxmargin.distributed.sums import tree_sum
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
