"""Problems of many blocks, spread over shards: the mean cut is a sum of sums, exact and certified as on one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.core import Audit, Bounds, Cut
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.engine import Engine, ShardError
from maxmargin.distributed.problem_shard import LARGEST
from maxmargin.distributed.sharded_problem import ShardedProblem, all_labels, n_columns
from maxmargin.distributed.sums import tree_sum

# Labels of classes or chains; more than that are numbers that somebody took for labels.
_MOST_LABELS = 100_000


class ShardedMean(ShardedProblem):
    """A problem whose blocks are those of the problems of all shards, one after the other.

    Every shard answers with the sums of its cuts; that of all of them over the number of blocks is the mean cut, exactly. So
    whatever a solver proves from it is proved as on one machine.

    Parameters
    ----------
    engine : Engine
        Of shards that have problems: :class:`~maxmargin.distributed.problem_shard.ProblemShard`, or made of rows.
    task : dict, optional
        What shards made of rows are to build; see :meth:`classes` and :meth:`chains`.

    Attributes
    ----------
    shards : Conversation
        Counts what had to be repeated.
    worse_than_truth : int
        Outputs that violate the margin less than the truth, over all shards and passes: each proves that an oracle is not exact,
        and none hides in a mean.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine
    >>> from maxmargin.distributed import ProblemSource
    >>> from maxmargin.multiclass import MulticlassProblem
    >>> from maxmargin.core.solvers import OneSlackCuttingPlane
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 1, 1])
    >>> sources = [ProblemSource(MulticlassProblem, (X[k], y[k], 2)) for k in ([0, 1], [2])]
    >>> found = OneSlackCuttingPlane().solve(ShardedMean(LocalEngine(sources)), 0.1)
    >>> found.certified, round(found.primal, 3)
    (True, 0.125)
    """

    def __init__(self, engine: Engine, task: dict[str, Any] | None = None) -> None:
        shards = Conversation(engine, task)
        found = shards.ask("prepare")
        counts = [int(answer["n_blocks"]) for answer in found]
        super().__init__(shards, counts)
        self.worse_than_truth = 0
        filled = [answer for answer in found if answer["n_blocks"]]
        if not filled:
            raise ValueError(f"the {engine.n_shards} shards hold no data; at least one needs a sample")
        sizes = {int(answer["n_features"]) for answer in filled}
        if len(sizes) > 1:
            k = next(k for k, n in enumerate(counts) if n and int(found[k]["n_features"]) != int(filled[0]["n_features"]))
            raise ShardError(
                f"the shards have problems with {sorted(sizes)} weights, which must be the same number; shard {k} "
                f"({engine.describe(k)}) differs from the first: give all the same features and labels"
            )
        self.n_features = sizes.pop()
        self.exact = all(answer["exact"] for answer in filled)
        self.relaxed = any(answer["relaxed"] for answer in filled)
        self.convex = all(answer["convex"] for answer in filled)
        self._bounds = _tightest([answer for answer in filled if "lower" in answer])

    @classmethod
    def classes(cls, engine: Engine, costs: ArrayLike | None = None, *, constant: bool = False) -> Self:
        """Samples with one label out of K, from shards of rows; see :class:`~maxmargin.multiclass.MulticlassProblem`.

        The labels are all that any shard has, in order; ``costs`` are for these. With ``constant`` every sample has one
        more feature, which is 1.
        """
        task = {**_label_task(engine), "constant": int(constant)}
        if costs is not None:
            task["costs"] = np.asarray(costs, dtype=np.float64)
        return cls(engine, task)

    @classmethod
    def chains(cls, engine: Engine, *, normalize: bool = True, constant: bool = False) -> Self:
        """Sequences of labels, from shards of rows; see :class:`~maxmargin.sequences.ChainProblem`."""
        return cls(engine, {**_label_task(engine), "normalize": int(normalize), "constant": int(constant)})

    @property
    def labels(self) -> Any:
        """All labels in order, where shards are made of rows."""
        return self.shards.task.get("labels")

    @property
    def bounds(self) -> Bounds | None:
        """What the oracles of all shards need."""
        return self._bounds

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all blocks, in one round."""
        found = self.shards.whole(lambda: self.shards.ask("mean_cut", lambda shard: (weights,)))
        self.worse_than_truth += sum(int(answer["worse"]) for answer in found)
        psi, n = tree_sum([answer["psi"] for answer in found]), self.n_blocks
        loss = math.fsum(answer["loss"] for answer in found) / n
        if not any("bound" in answer for answer in found):
            return Cut(psi / n, loss)
        parts = (answer.get("bound", answer["loss"] - answer["psi"] @ weights) for answer in found)
        return Cut(psi / n, loss, math.fsum(parts) / n)

    def audit(self, weights: Floats) -> Audit | None:
        """Of all shards together; None if one of them cannot tell."""
        found = self.shards.ask("audit", lambda shard: (weights,))
        if not all(found):
            return None
        parts = zip(*((answer["n_blocks"], answer["n_wrong"], answer["excess"]) for answer in found), strict=True)
        n_blocks, n_wrong, excess = parts
        return Audit(sum(n_blocks), sum(n_wrong), max(excess))


def _label_task(engine: Engine) -> dict[str, Any]:
    """All labels, and the number of columns, in two rounds."""
    shards = Conversation(engine)
    labels = all_labels(shards, _MOST_LABELS)
    if labels is None:
        raise ValueError(f"y has more than {_MOST_LABELS} different labels; are they numbers to be predicted by a regression?")
    if len(labels) < 2:
        raise ValueError(f"y must have at least two different labels, but all are {labels[0]!r}")
    return {"labels": labels, "n_features": n_columns(shards.infos, engine)}


def _tightest(answers: Sequence[dict[str, Any]]) -> Bounds | None:
    if not answers:
        return None
    lower = np.max([answer["lower"] for answer in answers], axis=0)
    upper = np.min([answer["upper"] for answer in answers], axis=0)
    return np.where(lower <= -LARGEST, -np.inf, lower), np.where(upper >= LARGEST, np.inf, upper)
