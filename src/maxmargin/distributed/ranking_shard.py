"""Rows of lists to be ranked: scores of registered weights stay here, hinges and slopes along lines are made of them.

A *root* is the product of the rows with weights that the client has registered, by number. The scores of every point of a line
search are combinations of few roots, a *recipe*: coefficients and numbers, the latter rising. They are added up in that order.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin._types import Floats, Ints
from maxmargin._validation import thread_count
from maxmargin.distributed.rows import Rows, RowShard, with_columns
from maxmargin.distributed.shard import Answer, Context, MissingError, TaskShard
from maxmargin.distributed.sums import exact_dot
from maxmargin.inference.ranking import solve_lists
from maxmargin.losses import RankingLoss, ranking_loss
from maxmargin.problems.ranking import RankingProblem, gain_shares
from maxmargin.structures.rows import sum_of_rows, times

# Gradients that are kept for features to be asked for: cuts are made at two of the last points of a search.
_KEPT = 3
# Roots that are kept; a client drops those it does not need, but one that is gone cannot. Six or seven are in use at a time.
_MOST_ROOTS = 32


@dataclass(eq=False)
class _Found:
    """What inference has found at some scores: sums over all blocks, each times its weight."""

    hinge: float
    loss: float
    gradient: Floats


class Lists:
    """The lists of a shard under a task: the loss, relevance, weights, and the rows they are about.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    lists : RankingProblem, optional
        Of all rows; None if there are none.
    """

    def __init__(self, X: Any, lists: RankingProblem | None) -> None:
        self.X, self.lists = X, lists
        self.n_features = int(X.shape[1])

    def solve(self, scores: Floats, loss_scale: float, n_jobs: int | None) -> _Found:
        """Inference in all lists."""
        gradient = np.zeros(len(scores))
        if self.lists is None:
            return _Found(0.0, 0.0, gradient)
        lists, hinges, losses = self.lists, list[float](), list[float]()
        sizes, threads = np.diff(lists.offsets), thread_count(n_jobs)
        for relevant, factors in zip(lists.relevant, lists.weights, strict=True):
            delta, hinge, slopes = solve_lists(scores, relevant, lists.offsets, lists.checked, loss_scale, threads)
            losses += (factors * delta).tolist()
            hinges += (factors * hinge).tolist()
            gradient += slopes * np.repeat(factors, sizes)
        return _Found(math.fsum(hinges), math.fsum(losses), gradient)


class RankingShard(RowShard, TaskShard[Lists]):
    """Whole queries, and the scores of their rows.

    The task has ``loss`` (a name; empty for the loss that came with the source), ``thresholds``, ``n_features`` and, with graded
    gains, ``gains`` and all ``levels``.

    Parameters
    ----------
    rows : Rows
    loss : RankingLoss, optional
        One that has no name; it must be importable where the shard is.
    n_jobs : int, optional
        Threads; all cores by default. No answer depends on it.
    """

    operations = RowShard.operations | {"prepare", "look", "features", "cuts"}

    def __init__(self, rows: Rows | tuple[Any, ...], loss: RankingLoss | None = None, n_jobs: int | None = None) -> None:
        super().__init__(rows)
        if len(self.y) and (np.diff(self.offsets) == 0).any():
            raise ValueError("a query has no rows; leave it out of the offsets")
        if not len(self.y):
            self.offsets = np.zeros(1, dtype=np.int64)
        if self.y.dtype.kind not in "fiub":
            raise ValueError("y must be numbers: 1 for relevant samples and 0 for others, or grades; it holds text")
        self.own_loss = loss
        self.n_jobs = n_jobs
        self._roots: dict[int, Floats] = {}
        self._found: OrderedDict[tuple[Any, ...], _Found] = OrderedDict()

    def _build(self, task: dict[str, Any]) -> Lists:
        X = with_columns(self.X, int(task["n_features"])) if len(self.y) else np.zeros((0, int(task["n_features"])))
        if not len(self.y):
            return Lists(X, None)
        loss = ranking_loss(task["loss"]) if task["loss"] else self.own_loss
        if loss is None:
            raise ValueError("the loss has no name; give it to the source of every shard")
        y, thresholds = np.asarray(self.y, dtype=np.float64), task["thresholds"]
        gains, shares = task.get("gains"), None
        if gains:
            shares = gain_shares(y, self.offsets, thresholds, gains, loss.at, task["levels"])
        return Lists(X, RankingProblem(X, y > thresholds[:, None], loss, self.offsets, self.weights, shares))

    def prepare(self, context: Context) -> Answer:
        """Numbers of blocks, of lists without any, and of rows that are relevant; whether any block counts."""
        lists = self._find(context).lists
        if lists is None:
            return {"n_blocks": 0, "n_skipped": 0, "n_relevant": 0, "counts": False}
        return {
            "n_blocks": lists.n_blocks,
            "n_skipped": lists.n_skipped,
            "n_relevant": int(np.count_nonzero(lists.relevant[0])),
            "counts": bool(lists.weights.any()),
        }

    def look(self, context: Context, recipe: dict[str, Any], loss_scale: float) -> Answer:
        """Sums of hinges and losses at the scores of a recipe, and the products of the gradient with all of its roots."""
        found = self._at(context, recipe, loss_scale)
        dots = [exact_dot(found.gradient, self._roots[int(root)]) for root in recipe["roots"]]
        return {"hinge": found.hinge, "loss": found.loss, "dots": np.array(dots)}

    def features(self, context: Context, recipe: dict[str, Any], loss_scale: float) -> Answer:
        """The gradient at the scores of a recipe as a sum of rows, shape (d,); and the losses, by which it is known again."""
        found = self._at(context, recipe, loss_scale)
        return {"psi": sum_of_rows(found.gradient, self._find(context).X, self.n_jobs), "loss": found.loss}

    def cuts(self, context: Context, blocks: Ints, weights: Floats) -> Answer:
        """The cuts of some blocks, counted from the first of the shard."""
        lists = self._find(context).lists
        assert lists is not None
        found = [lists.cut(block, weights) for block in blocks.tolist()]
        hinges = np.array([cut.hinge(weights) for cut in found])
        return {
            "psi": np.array([cut.psi for cut in found]),
            "loss": np.array([cut.loss for cut in found]),
            "bound": hinges,
            "bounded": np.zeros(len(found), dtype=bool),
        }

    def _at(self, context: Context, recipe: dict[str, Any], loss_scale: float) -> _Found:
        lists = self._find(context)
        self._register(lists, recipe)
        key = (context["key"], recipe["roots"].tobytes(), recipe["coefficients"].tobytes(), loss_scale)
        found = self._found.get(key)
        if found is None:
            scores = self._combine(recipe["roots"], recipe["coefficients"])
            if np.isfinite(scores).all():
                found = lists.solve(scores, loss_scale, self.n_jobs)
            else:
                found = _Found(np.nan, np.nan, np.full(len(scores), np.nan))  # for the client to see
            self._found[key] = found
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)
        return found

    def _register(self, lists: Lists, recipe: dict[str, Any]) -> None:
        """Make roots that were sent, and drop those that nobody needs any more."""
        for root in recipe.get("drop", ()):
            self._roots.pop(int(root), None)
        for root, weights in recipe.get("new", {}).items():
            if root not in self._roots:
                self._roots[root] = times(lists.X, weights, self.n_jobs)
        lacking = [root for root in recipe["roots"].tolist() if root not in self._roots]
        if lacking:
            raise MissingError(lacking)
        for root in recipe["roots"].tolist():
            self._roots[root] = self._roots.pop(root)  # the ones used last are at the end
        while len(self._roots) > max(_MOST_ROOTS, len(recipe["roots"])):
            del self._roots[next(iter(self._roots))]

    def _combine(self, roots: Ints, coefficients: Floats) -> Floats:
        total = np.zeros(len(self.y))
        part = np.empty(len(self.y))
        for root, coefficient in zip(roots.tolist(), coefficients.tolist(), strict=True):
            np.multiply(self._roots[root], coefficient, out=part)
            total += part
        return total
