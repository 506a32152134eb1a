"""Sources of shards that are made of rows: where the rows come from, and what is to be made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from maxmargin.distributed.chain_shard import ChainShard
from maxmargin.distributed.class_shard import ClassShard
from maxmargin.distributed.engine import Shard
from maxmargin.distributed.ranking_shard import RankingShard
from maxmargin.distributed.rows import RowSource
from maxmargin.losses import RankingLoss

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
    >>> from maxmargin.distributed.rows import ArrayRows
    >>> source = ShardOf(ArrayRows(np.eye(2), np.array([0, 1])), "classes")
    >>> source.load().info()["rows"]
    2
    """

    rows: RowSource
    kind: Kind
    loss: RankingLoss | None = None
    n_jobs: int | None = None

    def load(self) -> Shard:
        """Read the rows."""
        if self.kind == "ranking":
            return RankingShard(self.rows.load_rows(), self.loss, self.n_jobs)
        if self.kind not in ("classes", "chains"):
            raise ValueError(f"kind={self.kind!r} is unknown; choose one of 'ranking', 'classes', 'chains'")
        return (ClassShard if self.kind == "classes" else ChainShard)(self.rows.load_rows())

    def describe(self) -> str:
        """The rows."""
        return self.rows.describe()
