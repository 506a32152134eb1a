"""The one place where a loss written in Python is asked: what it answers is checked, and what it was proved to be is kept."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin._utils import Floats, Ints
from maxmargin.ranking.losses import Discounted, RankingLoss

# Whoever looks at all pairs of a list waits a minute or two for so many, and keeps a bit for each.
MAX_PAIRS = 4_000_000_000
_PAIRS_AT_ONCE = 2**18
# Part of the loss that rounding may hide, where differences fall that should not; and by which value and differences may part.
_PROVED = 1e-9
_AGREES = 1e-6


class Fall(NamedTuple):
    """How differences fall from one negative to a later one."""

    largest: float  # as a part of the largest difference
    j: int  # where it ends
    i: int
    missed: float  # bounds what is missed if every negative finds its place alone, as a part of the largest loss


class CheckedLoss(RankingLoss):
    """A loss whose answers are checked. It belongs to one problem and remembers for which lists the loss is QS-suitable, so the
    loss must not change meanwhile.
    """

    def __init__(self, loss: RankingLoss) -> None:
        self.loss = loss
        self.at = loss.at
        self.rounding = 1e-10
        self._suitable: dict[tuple[int, int], bool] = {}

    def __repr__(self) -> str:
        return repr(self.loss)

    def native_name(self) -> str | None:
        """That of the loss."""
        return self.loss.native_name()

    def derivative(self, j: Ints, i: Ints, n_pos: int, n_neg: int) -> Floats:
        """Finite float64 numbers, one for every pair."""
        found = np.asarray(self.loss.derivative(j, i, n_pos, n_neg))
        needed = "it must return one value for every pair (j, i)"
        if found.dtype.kind not in "fiub":
            raise TypeError(f"derivative of loss={self!r} returned dtype {found.dtype}; {needed}, a real number")
        if found.shape != j.shape:
            raise ValueError(f"derivative of loss={self!r} returned shape {found.shape} for {j.size} pairs; {needed}")
        if found.dtype.kind == "f" and found.itemsize < 8:
            self.rounding = 1e-5
        found = np.ascontiguousarray(found, dtype=np.float64)
        finite = np.isfinite(found)
        if not finite.all():
            k = int(np.argmin(finite))
            raise ValueError(
                f"derivative of loss={self!r} returned {found[k]}, which is not finite, for j={j[k]}, i={i[k]}, n_pos={n_pos}, "
                f"n_neg={n_neg}; {needed}, a finite number"
            )
        return found

    def value(self, negatives_above: Ints, n_neg: int) -> float:
        """A finite number."""
        found: Any = self.loss.value(negatives_above, n_neg)
        numeric = np.asarray(found)
        if numeric.ndim != 0 or numeric.dtype.kind not in "fiub" or not np.isfinite(numeric):
            shown = f"an array of shape {numeric.shape}" if numeric.ndim else repr(found)
            raise ValueError(f"value of loss={self!r} returned {shown}; it must return the loss of a ranking, one finite number")
        return float(found)

    def check_value(self, negatives_above: Ints, n_neg: int, added_up: float) -> None:
        """Refuse a loss whose ``value`` is not what its differences add up to."""
        if _own(self.loss, "value") == RankingLoss.value:
            return
        n_pos = len(negatives_above)
        value, worst = self.value(negatives_above, n_neg), self.value(np.full(n_pos, n_neg), n_neg)
        if abs(value - added_up) > _AGREES * max(abs(value), abs(added_up), abs(worst)):
            raise ValueError(
                f"value and derivative of loss={self!r} disagree: for a ranking of {n_pos} positives and {n_neg} negatives "
                f"value is {value:.6g}, the differences add up to {added_up:.6g}; mend one of them, "
                "maxmargin.ranking.check_qs_suitable looks for a small example"
            )

    def is_suitable(self, n_pos: int, n_neg: int) -> bool:
        """Whether the loss is proved to be QS-suitable for lists of this size, by all its differences or by its author."""
        size = (n_pos, n_neg)
        if self.native_name() is not None:
            return self.loss.at is None or self.loss.at >= n_pos + n_neg
        if size not in self._suitable:
            # A few rankings with not too many inverted pairs.
            for seed in range(3):
                above = np.sort(np.random.default_rng(seed).integers(0, 1 + min(n_neg, 20_000 // n_pos), n_pos))
                self.check_value(above, n_neg, RankingLoss.value(self, above, n_neg))
            self._suitable[size] = vars(type(self.loss)).get("proved_suitable", False) or self.fall(*size).missed <= _PROVED
        return self._suitable[size]

    def fall(self, n_pos: int, n_neg: int) -> Fall:
        """Look at the differences of all pairs of a list; of as many as there are positions if only positions count."""
        by_position = n_neg > 1 and isinstance(self.loss, Discounted) and _own(self.loss, "derivative") == Discounted.derivative
        rows, columns = (1, n_pos + n_neg - 1) if by_position else (n_pos, n_neg)
        self.refuse_too_many(rows, columns)
        largest, place, total, magnitude, worst = 0.0, (1, 1), 0.0, 0.0, 0.0
        width = min(columns, _PAIRS_AT_ONCE)
        height = max(1, _PAIRS_AT_ONCE // width)
        for first in range(1, rows + 1, height):
            i = np.arange(first, min(rows, first + height - 1) + 1)
            peak, falls = np.full((len(i), 1), -np.inf), np.zeros(len(i))
            for begin in range(1, columns + 1, width):
                j = np.arange(begin, min(columns, begin + width - 1) + 1)
                pairs = (np.tile(j, len(i)), np.repeat(i, len(j)))
                table = self.derivative(*pairs, n_pos, n_neg).reshape(len(i), len(j))
                peaks = np.maximum.accumulate(np.hstack([peak, table]), axis=1)
                depth = peaks[:, 1:] - table
                peak = peaks[:, -1:]
                falls = np.maximum(falls, depth.max(axis=1))
                # How many pairs have this difference.
                pairs_of = np.minimum(np.minimum(j, columns + 1 - j), min(n_pos, n_neg)) if by_position else np.ones(len(j))
                magnitude += float(np.sum(np.abs(table) @ pairs_of))
                worst = max(worst, float(np.abs(table).max()))
                if depth.max() > largest:
                    largest = float(depth.max())
                    row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
                    place = (int(j[column]), int(i[row]))
            total += float(falls.sum()) * n_neg * (n_pos if by_position else 1)
        return Fall(largest / max(worst, 1e-300), *place, total / max(magnitude, 1e-300))

    def refuse_too_many(self, n_pos: int, n_neg: int) -> None:
        """Say what to do about lists with more pairs than anyone waits for."""
        if n_pos * n_neg > MAX_PAIRS:
            raise ValueError(
                f"loss={self!r} asks for {n_pos * n_neg:.2g} pairs, all of {n_pos} positives and {n_neg} negatives, which would "
                f"take minutes; up to {MAX_PAIRS:.2g} are looked at. Use shorter lists, a smaller cut-off if there is one, a "
                "built-in loss without or a Discounted one with a convex discount, or write proved_suitable = True into the "
                "class of a loss that is proved to be QS-suitable"
            )


def checked_loss(loss: RankingLoss) -> CheckedLoss:
    """The loss behind checks, with its memory if it has one."""
    return loss if isinstance(loss, CheckedLoss) else CheckedLoss(loss)


def _own(loss: RankingLoss, name: str) -> Any:
    """The function behind a method of an object."""
    return getattr(getattr(loss, name), "__func__", None)
