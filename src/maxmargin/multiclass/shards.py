"""Shards of samples with classes."""

from __future__ import annotations

from typing import Any

from maxmargin._utils import with_constant
from maxmargin.core import CheckedProblem
from maxmargin.distributed import LabelShard, with_columns
from maxmargin.multiclass.problem import MulticlassProblem


class ClassShard(LabelShard):
    """Samples with one label out of K: part of a :class:`MulticlassProblem`.

    The task has ``labels`` (all of them, in order), ``n_features`` (columns of X) and perhaps ``costs`` and ``constant``, whether
    to add a column of ones. Weights of the rows, if they have any, are those of samples.
    """

    weighs_rows = True

    def _build(self, task: dict[str, Any]) -> CheckedProblem | None:
        if not len(self.y):
            return None
        X = with_columns(self.X, int(task["n_features"]))
        if task.get("constant"):
            X = with_constant(X)
        return CheckedProblem(
            MulticlassProblem(X, self._codes(task), len(task["labels"]), task.get("costs"), sample_weight=self.weights)
        )
