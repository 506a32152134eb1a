"""Sources of shards that are made of rows: where the rows come from, and what is to be made of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from maxmargin.distributed.engine import Shard
from maxmargin.distributed.rows import RowSource

# Tasks are above this package, so a shard's class is imported by its path, on the worker.
_CLASSES = {
    "ranking": ("maxmargin.ranking.shards", "RankingShard"),
    "classes": ("maxmargin.multiclass", "ClassShard"),
    "chains": ("maxmargin.sequences", "ChainShard"),
}
Kind = Literal["ranking", "classes", "chains"]


@dataclass(frozen=True)
class ShardOf:
    """A source of shards: rows from somewhere, and what kind of shard to make of them.

    Parameters
    ----------
    rows : RowSource
    kind : {"ranking", "classes", "chains"}
    loss : RankingLoss, optional
        Of rankings, one that is not known by its name.
    n_jobs : int, optional
        Threads of rankings; all cores by default.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.distributed import ArrayRows
    >>> source = ShardOf(ArrayRows(np.eye(2), np.array([0, 1])), "classes")
    >>> source.load().info()["rows"]
    2
    """

    rows: RowSource
    kind: Kind
    loss: Any = None
    n_jobs: int | None = None

    def load(self) -> Shard:
        """Read the rows."""
        if self.kind not in _CLASSES:
            raise ValueError(f"kind={self.kind!r} is unknown; choose one of 'ranking', 'classes', 'chains'")
        module, name = _CLASSES[self.kind]
        own = (self.loss, self.n_jobs) if self.kind == "ranking" else ()
        shard: Shard = getattr(import_module(module), name)(self.rows.load_rows(), *own)
        return shard

    def describe(self) -> str:
        """The rows."""
        return self.rows.describe()
