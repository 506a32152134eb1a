"""Shards of labelled sequences."""

from __future__ import annotations

from typing import Any

from maxmargin._utils import with_constant
from maxmargin.core import CheckedProblem
from maxmargin.distributed import LabelShard, with_columns
from maxmargin.sequences.problem import ChainProblem


class ChainShard(LabelShard):
    """Sequences of labels: part of a :class:`ChainProblem`. The task is as for :class:`ClassShard`, with ``normalize``."""

    def _build(self, task: dict[str, Any]) -> CheckedProblem | None:
        if not len(self.y):
            return None
        X, labels = with_columns(self.X, int(task["n_features"])), task["labels"]
        if task.get("constant"):
            X = with_constant(X)
        return CheckedProblem(
            ChainProblem(X, self._codes(task), self.offsets, len(labels), normalize=bool(task.get("normalize", True)))
        )
