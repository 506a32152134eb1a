"""Data in parts: problems whose rows are spread over shards, which an engine asks; the same cuts and certificates as on one."""

from maxmargin.distributed.engine import PROTOCOL, Engine, Reply, Shard, ShardError, ShardSource
from maxmargin.distributed.local import Fault, LocalEngine

__all__ = ["PROTOCOL", "Engine", "Fault", "LocalEngine", "Reply", "Shard", "ShardError", "ShardSource"]
