"""Lists of a shard under a task: which rows they are about, in which order their scores lie, and inference in whole ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Ints, thread_count
from maxmargin.core import sum_of_rows, times
from maxmargin.ranking import RankingProblem, solve_lists

# Rows that are copied at a time, where only some of them count.
_ROWS_AT_ONCE = 16_384

# Where the rows of something stand among all scores.
Places = slice | NDArray[np.int64]


@dataclass(eq=False)
class Found:
    """What inference has found at some scores: sums over all blocks, each times its weight.

    The gradient counts ``unit`` times, and is about all rows, in the order of scores, or some: elsewhere it is zero.
    """

    hinge: float
    loss: float
    gradient: Floats
    unit: float = 1.0
    rows: Ints | None = None


@dataclass(eq=False)
class Part:
    """A block that lies in other shards too: the rows that this one has."""

    positives: Places
    negatives: Places
    n_negatives: int


class Lists:
    """The lists of a shard under a task: the loss, relevance and weights.

    Scores are kept in an order in which the rows of whole lists come first, and then the negatives and the positives of every
    scattered one: its negatives lie in one piece.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
    whole : RankingProblem, optional
        Lists that lie here alone, without features; None if there are none.
    order : int array of shape (n,), optional
        Rows in the order of scores; None if it is that of X.
    parts : dict of int to Part
        By number of the block.
    """

    def __init__(self, X: Any, relevant: Booleans, offsets: Ints, numbers: Ints, names: list[str], thresholds: Floats) -> None:
        """List k of the offsets is the scattered list ``numbers[k]`` of those named, or a whole one if that is -1."""
        self.X, self.names, self.thresholds = X, names, thresholds
        self.whole: RankingProblem | None = None
        self.parts: dict[int, Part] = {}
        self.n_whole = int(offsets[-1])
        self.order: NDArray[np.int64] | None = None
        if (numbers < 0).all():
            return
        rows = [np.arange(begin, end) for begin, end in pairwise(offsets)]
        order = [own for own, number in zip(rows, numbers, strict=True) if number < 0]
        self.n_whole = done = sum(map(len, order))
        # With several notions of relevance the negatives of the first lie in one piece.
        for own, number in zip(rows, numbers, strict=True):
            if number < 0:
                continue
            for level, truth in enumerate(relevant[:, own]):
                if level == 0:
                    order += [own[~truth], own[truth]]
                    n_negatives = int(np.count_nonzero(~truth))
                    inner = np.concatenate([np.flatnonzero(~truth), np.flatnonzero(truth)])
                    negatives, positives = slice(done, done + n_negatives), slice(done + n_negatives, done + len(own))
                    part = Part(positives, negatives, n_negatives)
                else:
                    other = truth[inner]
                    # Ties are dealt in the order of the rows.
                    first = np.argsort(inner)
                    part = Part(done + first[other[first]], done + first[~other[first]], int(np.count_nonzero(~other)))
                self.parts[level * len(names) + int(number)] = part
            done += len(own)
        joined = np.concatenate([np.zeros(0, dtype=np.int64), *order])
        if not np.array_equal(joined, np.arange(len(joined))):
            self.order = joined

    @property
    def is_one_part(self) -> bool:
        """Whether all rows are those of one list that lies in other shards too, under one notion of relevance."""
        return len(self.parts) == 1 and self.n_whole == 0

    def root(self, weights: Floats, n_jobs: int | None) -> Floats:
        """Scores at weights, in their order."""
        scores = times(self.X, weights, n_jobs)
        if self.order is None:
            return scores
        # Places are within the rows; only so numpy writes where it is told without another copy.
        return np.take(scores, self.order, out=_core.recycled(len(self.order)), mode="clip")

    def sum_of_rows(self, gradient: Floats, n_jobs: int | None) -> Floats:
        """Rows times numbers that are in the order of scores."""
        if self.order is None:
            return sum_of_rows(gradient, self.X, n_jobs)
        ordered = _core.recycled(self.X.shape[0])
        ordered[self.order] = gradient
        return sum_of_rows(ordered, self.X, n_jobs)

    def sum_of_some(self, some: Ints, gradient: Floats, n_jobs: int | None) -> Floats:
        """The same where the numbers of all other rows are zero; ``some`` are places in the order of scores."""
        rows = some if self.order is None else self.order[some]
        ascending = np.argsort(rows)
        rows, gradient, total = rows[ascending], gradient[ascending], np.zeros(self.X.shape[1])
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            piece = slice(first, first + _ROWS_AT_ONCE)
            total += sum_of_rows(gradient[piece], self.X[rows[piece]], n_jobs)
        return total

    def solve(self, scores: Floats, loss_scale: float, n_jobs: int | None) -> Found:
        """Inference in all whole lists; the gradient of other rows is zero."""
        gradient = np.zeros(len(scores))
        if self.whole is None:
            return Found(0.0, 0.0, gradient)
        lists, own = self.whole, scores[: self.n_whole]
        hinges, losses = list[float](), list[float]()
        sizes, threads = np.diff(lists.offsets), thread_count(n_jobs)
        for relevant, factors in zip(lists.relevant, lists.weights, strict=True):
            delta, hinge, slopes = solve_lists(own, relevant, lists.offsets, lists.checked, loss_scale, threads)
            losses += (factors * delta).tolist()
            hinges += (factors * hinge).tolist()
            gradient[: self.n_whole] += slopes * np.repeat(factors, sizes)
        return Found(math.fsum(hinges), math.fsum(losses), gradient)
