"""Lists of a shard under a task: which rows they are about, in which order their scores lie, and inference in whole ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._types import Booleans, Floats, Ints
from maxmargin._validation import thread_count
from maxmargin.inference.ranking import solve_lists
from maxmargin.problems.ranking import RankingProblem
from maxmargin.structures.rows import sum_of_rows, times

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


class Chosen(NamedTuple):
    """Lists of a shard that a task is about: their rows, where they begin among these, and which lists of the shard they are.

    ``rows`` is None for all rows.
    """

    rows: Ints | None
    offsets: Ints
    lists: Ints


class Lists:
    """The lists of a shard under a task: the loss, relevance, weights, and the rows they are about.

    Scores are kept in an order in which the rows of whole lists come first, and then the negatives and the positives of every
    scattered one: its negatives lie in one piece.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
    whole : RankingProblem, optional
        Lists that lie here alone, without features; None if there are none.
    order : int array of shape (n,) or fewer, optional
        Rows in the order of scores, those that lists are about; None if it is that of X.
    parts : dict of int to Part
        By number of the block.
    mark : int
        A check sum of whatever was chosen here, and not by the client.
    chosen : Chosen, optional
        The lists of the shard that these are; None for all of them.
    is_of_rows : bool
        Whether every row is a sample, so that scores are not :meth:`reduced`.
    """

    mark = 0
    chosen: Chosen | None = None
    is_of_rows = True

    def __init__(
        self, X: Any, relevant: Booleans, offsets: Ints, numbers: Ints, names: list[str], thresholds: Floats,
        some: Ints | None = None,
    ) -> None:  # fmt: skip
        """List k of the offsets is the scattered list ``numbers[k]`` of those named, or a whole one if that is -1.

        Where lists are about ``some`` rows of X only, relevance and offsets are of these.
        """
        self.X, self.names, self.thresholds = X, names, thresholds
        self.whole: RankingProblem | None = None
        self.parts: dict[int, Part] = {}
        self.n_whole = int(offsets[-1])
        self.order: NDArray[np.int64] | None = some
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
        if some is not None or not np.array_equal(joined, np.arange(len(joined))):
            self.order = joined if some is None else some[joined]

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
        if len(gradient) < len(ordered):
            ordered[:] = 0
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

    def reduced(self, scores: Floats) -> tuple[Floats, Ints | None]:
        """The scores that lists are about, and the rows they come from if these are not all: here all."""
        return scores, None

    def spread(self, gradient: Floats, rows: Ints | None) -> Floats:
        """The way back, for a gradient."""
        return gradient

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
