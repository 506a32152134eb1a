"""Samples that are bags of candidates: one matrix of rows, read in pieces and never copied as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Booleans, Floats, Ints

# Numbers in a piece: a megabyte in float64, which stays near the processor; a product of that size is not worth several threads,
# and waiting for threads on a busy machine costs more than the product.
PIECE = 2**17


class Bags:
    """Rows of a matrix, grouped into bags of one candidate or more.

    Parameters
    ----------
    X : array of shape (m, d)
        Candidates, of any real type; a memory map is read piece by piece. Sums are in float64 whatever the type.
    offsets : int array of shape (n + 1,)
        Bag k has the rows ``offsets[k]:offsets[k + 1]``, at least one.
    given : int array of shape (n,), optional
        The row that is known to be the right one of its bag, so that all others are ignored; -1 where nothing is known.

    Examples
    --------
    >>> bags = Bags(np.array([[1.0], [3.0], [2.0]]), np.array([0, 2, 3]))
    >>> bags.highest(np.array([1.0]))
    (array([3., 2.]), array([1, 2]))
    """

    def __init__(self, X: NDArray[np.generic], offsets: Ints, given: Ints | None = None) -> None:
        # A plain view: slices of a memory map are slow to make.
        self.X = np.asarray(X)
        self.offsets = offsets
        self.sizes: Ints = np.diff(offsets)
        self.n_features = int(X.shape[1])
        self.given = np.full(len(self.sizes), -1, dtype=np.int64) if given is None else given
        # Rows that nobody may choose; None as long as all may be.
        self.ignored: Booleans | None = None
        if (self.given >= 0).any():
            self.ignored = np.repeat(self.given >= 0, self.sizes)
            self.ignored[self.given[self.given >= 0]] = False

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n_rows(self) -> int:
        """All candidates of all bags."""
        return int(self.offsets[-1])

    def random(self, rng: np.random.Generator) -> Ints:
        """A row of every bag, at random unless it is given."""
        rows = self.offsets[:-1] + rng.integers(0, self.sizes)
        return np.where(self.given >= 0, self.given, rows)

    def pieces(self, wanted: Booleans | None = None) -> Iterator[tuple[int, int]]:
        """First and last row (exclusive) of pieces that hold at least one wanted bag."""
        step = max(1, PIECE // max(1, self.n_features))
        for begin in range(0, self.n_rows, step):
            end = min(self.n_rows, begin + step)
            if wanted is None or wanted[self._bags_in(begin, end)].any():
                yield begin, end

    def _bags_in(self, begin: int, end: int) -> slice:
        return slice(
            int(np.searchsorted(self.offsets, begin, side="right")) - 1, int(np.searchsorted(self.offsets, end, side="left"))
        )

    def scores(self, weights: Floats, begin: int, end: int) -> Floats:
        """Of the rows ``begin:end``, in float64."""
        return np.asarray(np.asarray(self.X[begin:end], dtype=np.float64) @ weights)

    def highest(self, weights: Floats, wanted: Booleans | None = None, ignored: Booleans | None = None) -> tuple[Floats, Ints]:
        """The best score of every bag and its row, the first of several; ``-inf`` and -1 may stand for bags not wanted."""
        return self._extreme(weights, 1.0, wanted, ignored)

    def lowest(self, weights: Floats, wanted: Booleans | None = None) -> tuple[Floats, Ints]:
        """The worst score of every bag and its row."""
        scores, rows = self._extreme(weights, -1.0, wanted, None)
        return -scores, rows

    def _extreme(self, weights: Floats, sign: float, wanted: Booleans | None, ignored: Booleans | None) -> tuple[Floats, Ints]:
        best = np.full(len(self), -np.inf)
        rows = np.full(len(self), -1, dtype=np.int64)
        ignored = self.ignored if ignored is None else ignored
        for begin, end in self.pieces(wanted):
            values = self.scores(sign * weights, begin, end)
            if ignored is not None:
                values[ignored[begin:end]] = -np.inf
            bags = self._bags_in(begin, end)
            starts = np.maximum(self.offsets[bags], begin) - begin
            top = np.maximum.reduceat(values, starts)
            # Every stretch contains its own maximum, so the next hit from its start on lies in it.
            hits = np.flatnonzero(values == np.repeat(top, np.diff(starts, append=end - begin)))
            at = begin + hits[np.searchsorted(hits, starts)]
            # A bag may go on in the next piece; the earlier row wins a tie.
            better = top > best[bags]
            best[bags] = np.where(better, top, best[bags])
            rows[bags] = np.where(better, at, rows[bags])
        return best, rows

    def at(self, rows: Ints, weights: Floats) -> Floats:
        """Scores of single rows."""
        values = np.empty(len(rows))
        step = max(1, PIECE // max(1, self.n_features))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            values[some] = np.asarray(self.X[rows[some]], dtype=np.float64) @ weights
        return values

    def combine(self, coefficients: Floats, rows: Ints) -> Floats:
        """``sum_k coefficients[k] * X[rows[k]]``, shape (d,); rows without a share are not read."""
        present = np.flatnonzero(coefficients)
        total = np.zeros(self.n_features)
        step = max(1, PIECE // max(1, self.n_features))
        for first in range(0, len(present), step):
            some = present[first : first + step]
            total += coefficients[some] @ np.asarray(self.X[rows[some]], dtype=np.float64)
        return total

    def mean_difference(self, relevant: Booleans) -> Floats:
        """Mean of the relevant bags' mean candidates minus that of the others', shape (d,)."""
        usable = np.where(self.given >= 0, 1, self.sizes)
        share = np.where(relevant, 1.0 / np.count_nonzero(relevant), -1.0 / np.count_nonzero(~relevant)) / usable
        total = np.zeros(self.n_features)
        for begin, end in self.pieces():
            bags = self._bags_in(begin, end)
            bounds = np.clip(self.offsets[bags.start : bags.stop + 1], begin, end)
            coefficients = np.repeat(share[bags], bounds[1:] - bounds[:-1])
            if self.ignored is not None:
                coefficients[self.ignored[begin:end]] = 0.0
            total += coefficients @ np.asarray(self.X[begin:end], dtype=np.float64)
        return total

    def outliers(self, weights: Floats, bags: Booleans, fraction: float) -> Booleans:
        """Rows to ignore, shape (m,): the highest scoring ``fraction`` of the candidates of some bags.

        The lowest scoring candidate of every bag stays and is not counted, so no bag loses all.
        """
        _, kept = self.lowest(weights, bags)
        loses = np.repeat(bags, self.sizes)
        if self.ignored is not None:
            loses &= ~self.ignored
        loses[kept[bags]] = False
        values = np.empty(self.n_rows)
        for begin, end in self.pieces():
            values[begin:end] = self.scores(weights, begin, end)
        rows = np.flatnonzero(loses)
        # Rounding must not lose a row: 0.3 * 10 is a little less than 3.
        count = int(np.floor(fraction * len(rows) + 1e-9))
        ignored = np.zeros(self.n_rows, dtype=bool) if self.ignored is None else self.ignored.copy()
        ignored[rows[np.argsort(-values[rows], kind="stable")[:count]]] = True
        return ignored


def supervised_share(relevant: ArrayLike, annotations: ArrayLike, share: float, random_state: int = 0) -> Ints:
    """Forget all but a share of the annotations, for studies of the level of supervision.

    The same share of both classes is kept, and with the same seed a larger share contains a smaller one.

    Parameters
    ----------
    relevant : array of shape (n,)
        Booleans, the positives.
    annotations : int array of shape (n,)
        The right candidate of every bag.
    share : float
        Between 0 (none) and 1 (all).
    random_state : int
        Seed.

    Returns
    -------
    int array of shape (n,)
        The annotations that are left, and -1.

    Examples
    --------
    >>> left = supervised_share([1, 1, 0, 0, 0, 0], [3, 1, 2, 0, 4, 1], 0.5)
    >>> int((left[:2] >= 0).sum()), int((left[2:] >= 0).sum())
    (1, 2)
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share={share!r} must be between 0 and 1")
    truth, known = np.asarray(relevant, dtype=bool), np.asarray(annotations, dtype=np.int64)
    if truth.shape != known.shape or truth.ndim != 1:
        raise ValueError(f"relevant has shape {truth.shape}, but annotations has shape {known.shape}; both must be (n,)")
    rng = np.random.default_rng(random_state)
    left = np.full(len(known), -1, dtype=np.int64)
    for members in (np.flatnonzero(truth), np.flatnonzero(~truth)):
        chosen = rng.permutation(members)[: round(share * len(members))]
        left[chosen] = known[chosen]
    return left
