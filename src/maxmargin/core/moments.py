"""Means and spreads of the columns of rows that lie in one place or in several; every part is looked at for itself.

A part is looked at three times: for its largest entries, for its mean, and for the sums of the deviations from that mean and of
their squares. Parts are put together around the mean of all. So neither a column with a mean that is huge next to its spread, as
time stamps have it, nor one with few entries far out loses digits. All is done in units near the largest entry of a column,
powers of two: numbers of any size can be squared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._utils import Floats, Matrix
from maxmargin.core.rows import column_peaks, is_sparse
from maxmargin.core.streaming import is_streamed, row_pieces, rows_between

# Of a variance, relative to the square of the largest entry: below it is the rounding of constant columns.
_ROUNDING = 1e-24
# Entries of sparse rows that are added up before they enter the compensated sum.
_ENTRIES = 8192


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of the columns of some rows.

    Attributes
    ----------
    rows : int
        How many there are.
    peak : array of shape (d,)
        The largest absolute value of every column.
    center : array of shape (d,)
        About the mean, in units of :attr:`unit`.
    first, second : arrays of shape (d,)
        Sums of the deviations from the center, and of their squares, in these units.

    Examples
    --------
    >>> parts = [moments_of(np.array([[1.7e9, 1.0], [1.7e9 + 2, 1.0]])), moments_of(np.zeros((0, 2)))]
    >>> found = merged(parts)
    >>> found.mean, found.scale
    (array([1.7e+09, 1.0e+00]), array([1., 1.]))
    """

    rows: int
    peak: Floats
    center: Floats
    first: Floats
    second: Floats

    @property
    def unit(self) -> NDArray[np.int32]:
        """Exponents of the powers of two that the largest entries are below of, shape (d,)."""
        return _unit(self.peak)

    @property
    def mean(self) -> Floats:
        """Shape (d,); zero if there are no rows."""
        return np.asarray(np.ldexp(self.center + self.first / max(1, self.rows), self.unit))

    @property
    def scale(self) -> Floats:
        """Standard deviations, shape (d,); the largest entry, or 1, where a column is constant but for rounding."""
        n = max(1, self.rows)
        variance = np.maximum(self.second / n - (self.first / n) ** 2, 0.0)
        deviation = np.ldexp(np.sqrt(variance), self.unit)
        # That of the smallest numbers there are may be zero.
        spread = (variance > _ROUNDING * np.ldexp(self.peak, -self.unit) ** 2) & (deviation > 0)
        return np.where(spread, deviation, np.where(self.peak > 0, self.peak, 1.0))

    def widened(self, n_columns: int) -> Moments:
        """The same with more columns, all of them zero."""
        more = (0, n_columns - len(self.peak))
        return Moments(self.rows, *(np.pad(part, more) for part in (self.peak, self.center, self.first, self.second)))


def moments_of(X: Matrix) -> Moments:
    """Of dense or CSR rows, in memory or mapped from a file, of any floating-point type.

    The same bits for dense rows of up to 4 kB, wherever they are.
    """
    n, d = X.shape
    if not n:
        return Moments(0, np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d))
    # Numbers that are none make sums that are none.
    with np.errstate(invalid="ignore", over="ignore"):
        peak = column_peaks(X)
        factor = np.ldexp(1.0, -_unit(peak))
        sums = _sparse_sums if is_sparse(X) else _dense_sums
        (total,) = sums(X, factor, None, 1)
        center = total / n
        first, second = sums(X, factor, center, 2)
    return Moments(n, peak, center, first, second)


def merged(parts: Sequence[Moments]) -> Moments:
    """Of all rows of some parts, which may have fewer columns where the last are zero; added up in their order."""
    d = max(len(part.peak) for part in parts)
    filled = [part if len(part.peak) == d else part.widened(d) for part in parts if part.rows]
    if len(filled) < 2:
        return filled[0] if filled else moments_of(np.zeros((0, d)))
    n, peak = sum(part.rows for part in filled), np.stack([part.peak for part in filled]).max(axis=0)
    unit = _unit(peak)
    total, first, second = _Sum(d), _Sum(d), _Sum(d)
    for part in filled:
        total.add(np.ldexp(part.rows * part.center + part.first, part.unit - unit))
    center = total.value / n
    for part in filled:
        exponent = part.unit - unit
        # The difference of two numbers that are close has all of its digits.
        shift, own = np.ldexp(part.center, exponent) - center, np.ldexp(part.first, exponent)
        first.add(own)
        first.add(part.rows * shift)
        second.add(np.ldexp(part.second, 2 * exponent))
        second.add(2.0 * shift * own)
        second.add(part.rows * shift**2)
    return Moments(n, peak, center, first.value, second.value)


def _unit(peak: Floats) -> NDArray[np.int32]:
    # Below, the power of two that it is divided by would be infinite.
    return np.maximum(np.frexp(peak)[1], -1022)


class _Sum:
    """Vectors added up with what rounding takes off, by the method of Neumaier."""

    def __init__(self, d: int) -> None:
        self._sum, self._rest = np.zeros(d), np.zeros(d)

    def add(self, other: Floats) -> None:
        total = self._sum + other
        larger = np.abs(self._sum) >= np.abs(other)
        self._rest += np.where(larger, (self._sum - total) + other, (other - total) + self._sum)
        self._sum = total

    @property
    def value(self) -> Floats:
        return self._sum + self._rest


def _pieces(X: Matrix) -> Iterator[Matrix]:
    if is_streamed(X):
        for begin, end in row_pieces(X):
            yield rows_between(X, begin, end)
    else:
        yield X


def _dense_sums(X: Matrix, factor: Floats, center: Floats | None, n_powers: int) -> list[Floats]:
    """Sums of ``factor * x - center`` and of its squares."""
    sums = [_Sum(X.shape[1]) for _ in range(n_powers)]
    for piece in _pieces(X):
        for begin in range(0, piece.shape[0], _core.ROWS_OF_BLOCK):
            values = piece[begin : begin + _core.ROWS_OF_BLOCK] * factor
            if center is not None:
                values -= center
            for power, one in enumerate(sums, 1):
                one.add((values**power).sum(axis=0))
    return [one.value for one in sums]


def _sparse_sums(X: Matrix, factor: Floats, center: Floats | None, n_powers: int) -> list[Floats]:
    """The same; entries that are not stored are zeros."""
    n, d = X.shape
    sums, stored = [_Sum(d) for _ in range(n_powers)], np.zeros(d, dtype=np.int64)
    length = max(_ENTRIES, d)
    for piece in _pieces(X):
        for begin in range(0, len(piece.data), length):
            indices = piece.indices[begin : begin + length]
            values = piece.data[begin : begin + length] * factor[indices]
            if center is not None:
                values -= center[indices]
            stored += np.bincount(indices, minlength=d)
            for power, one in enumerate(sums, 1):
                one.add(np.bincount(indices, values**power, d).astype(np.float64))
    if center is not None:
        for power, one in enumerate(sums, 1):
            one.add((n - stored) * (-center) ** power)
    return [one.value for one in sums]
