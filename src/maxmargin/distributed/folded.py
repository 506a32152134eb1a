"""Rankings over shards in folds: whole queries, or samples of the only list, kept in proportion; no fold is a copy of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._types import Bytes
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.engine import Engine
from maxmargin.distributed.folds import MOST_FOLDS, NEVER, stratified_folds
from maxmargin.distributed.problem import ShardedRanking
from maxmargin.losses import RankingLoss


class FoldedRanking(ShardedRanking):
    """All lists of the shards, or those that a fold is trained on or tested by.

    :meth:`folds` makes the parts of it. The only list is one that lies in several shards, also where it lies in one: its rows are
    shared out among folds, and its shares in grades are those of the whole list.

    Parameters
    ----------
    engine : Engine or Conversation
        Of shards of the kind "ranking".
    loss, relevance_threshold, grades, scale
        As in :class:`ShardedRanking`.
    task : dict, optional
        That of another problem, in place of one from the data; the parts of a fold have theirs so.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> X, y = np.arange(12.0)[:, None], np.array([0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1])
    >>> lists = FoldedRanking(LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, y, 3)]))
    >>> [round(test.mean_cut(np.ones(1)).loss, 2) for train, test in lists.folds(3, seed=0)]
    [0.25, 0.0, 0.17]
    """

    def __init__(
        self,
        engine: Engine | Conversation,
        loss: str | RankingLoss = "ap",
        *,
        relevance_threshold: float | None = None,
        grades: bool | Literal["linear", "exponential"] = False,
        scale: ArrayLike | None = None,
        task: dict[str, Any] | None = None,
    ) -> None:
        self._given_task = task
        super().__init__(engine, loss, relevance_threshold=relevance_threshold, grades=grades, scale=scale)

    def _task(self, shards: Conversation, threshold: float | None, grades: Any) -> dict[str, Any]:
        if self._given_task is not None:
            return self._given_task
        task = super()._task(shards, threshold, grades)
        return {**task, "scattered": [""]} if _is_one_list(shards) else task

    def with_loss(self, loss: RankingLoss, scale: ArrayLike | None = None) -> FoldedRanking:
        """The same lists under another loss, and with other scales; grades gain as they do now."""
        task = {**self.shards.task, "loss": loss.native_name() or ""}
        if task.get("gains"):
            task.setdefault("share_at", self.loss.at or 0)
        return FoldedRanking(self.shards.beside(task), loss, scale=scale, task=task)

    def folds(self, n_folds: int, seed: int) -> Iterator[tuple[FoldedRanking, FoldedRanking]]:
        """Lists to train on, and lists to test by: the folds that estimators make of the same data on one machine.

        Parameters
        ----------
        n_folds : int
        seed : int
            Of the folds of a single list; queries are dealt out in their order.
        """
        if n_folds > MOST_FOLDS:
            raise ValueError(f"{n_folds} folds are too many; lists over shards know {MOST_FOLDS} at most")
        task = dict(self.shards.task)
        if _is_one_list(self.shards):
            gifts = self._rows_in_folds(n_folds, seed)
            task["shares"] = np.array([[self._share(level)] for level in range(len(self.thresholds))])
        else:
            gifts = self._lists_in_folds(n_folds)
        task["folds"] = self.shards.give(gifts)
        for part in range(n_folds):
            train, test = ({**task, "part": part, "tested": tested} for tested in (0, 1))
            yield tuple(FoldedRanking(self.shards.beside(own), self.loss, task=own) for own in (train, test))  # type: ignore[misc]

    def _share(self, level: int) -> float:
        return next((block.weight for block in self.scattered if block.number == level), 0.0)

    def _rows_in_folds(self, n_folds: int, seed: int) -> list[Bytes]:
        """Folds of the rows of the only list, by shard; those of its negatives come first."""
        found = self.shards.ask("first_relevant")
        counts = np.array([answer["sizes"] for answer in found], dtype=np.int64)
        sizes = counts.sum(axis=0)
        fewest = int(sizes.min())
        if fewest < n_folds:
            raise ValueError(f"{n_folds} folds need as many samples of each kind, but there are {fewest}; take fewer")
        first = next(int(answer["first"]) for answer in found if answer["sizes"].sum())
        of_classes = stratified_folds((int(sizes[first]), int(sizes[1 - first])), n_folds, seed)
        by_class = of_classes if first == 0 else of_classes[::-1]
        ends = np.cumsum(counts, axis=0)[:-1]
        parts = [np.split(own, ends[:, kind]) for kind, own in enumerate(by_class)]
        return [np.concatenate(own) for own in zip(*parts, strict=True)]

    def _lists_in_folds(self, n_folds: int) -> list[Bytes]:
        """Folds of the lists of every shard; those with something to learn are dealt out in the order of their first rows."""
        useful = {block.number % len(self.shards.task["scattered"]) for block in self.scattered if block.weight > 0}
        dealt, known = 0, dict[int, int]()
        gifts: list[Bytes] = []
        for answer in self.shards.ask("useful_lists"):
            folds = np.full(len(answer["numbers"]), NEVER, dtype=np.uint8)
            for k, number in enumerate(answer["numbers"].tolist()):
                if number == -1 or (number in useful and number not in known):
                    folds[k] = known[number] = dealt % n_folds
                    dealt += 1
                elif number in useful:
                    folds[k] = known[number]
            gifts.append(folds)
        if dealt < n_folds:
            raise ValueError(f"{n_folds} folds need as many queries with samples of both kinds, not {dealt}; take fewer")
        return gifts


def _is_one_list(shards: Conversation) -> bool:
    return all(info["one_list"] for info in shards.infos if info["rows"])
