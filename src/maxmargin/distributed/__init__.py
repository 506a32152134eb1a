"""Data in parts: problems whose rows are spread over shards, which an engine asks; the same cuts and certificates as on one."""

from maxmargin.distributed.checkpoint import CheckpointFile
from maxmargin.distributed.engine import PROTOCOL, Engine, Reply, Shard, ShardError, ShardSource
from maxmargin.distributed.kinds import ShardOf
from maxmargin.distributed.local import Fault, LocalEngine
from maxmargin.distributed.means import ShardedMean
from maxmargin.distributed.metrics import evaluate
from maxmargin.distributed.moments import column_moments, feature_scaling
from maxmargin.distributed.packed import CachedRows, PackedRows, open_packed, row_sources
from maxmargin.distributed.packing import pack
from maxmargin.distributed.problem import ShardedRanking
from maxmargin.distributed.rows import ArrayRows, Rows, RowSource, split_rows
from maxmargin.distributed.scoring import ScoresOf, write_scores
from maxmargin.distributed.shard import ProblemSource
from maxmargin.distributed.sources import share_out

__all__ = [
    "PROTOCOL", "ArrayRows", "CachedRows", "CheckpointFile", "Engine", "Fault", "LocalEngine", "PackedRows", "ProblemSource",
    "Reply", "RowSource", "Rows", "ScoresOf", "Shard", "ShardError", "ShardOf", "ShardSource", "ShardedMean", "ShardedRanking",
    "column_moments", "evaluate", "feature_scaling", "open_packed", "pack", "row_sources", "share_out", "split_rows",
    "write_scores",
]  # fmt: skip
