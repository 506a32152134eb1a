"""Checks of bags of candidates as users hand them in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from maxmargin._utils import Floats, Ints
from maxmargin.ranking.bags import Bags


def as_rows(X: Any, offsets: ArrayLike | None) -> tuple[NDArray[np.generic], Ints]:
    """One matrix of candidates and the offsets of the bags.

    A matrix with offsets is used as it is, memory maps included, and so is an array of shape (n, m, d) if it is contiguous;
    a list is stacked, in float32 if all its arrays are.
    """
    if offsets is None:
        return _stack(X)
    if not isinstance(X, np.ndarray):
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix of candidates, one per row, if offsets are given, but has shape {X.shape}")
    _check_real(X.dtype, "X")
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or len(bounds) < 2 or bounds.dtype.kind not in "iu":
        raise ValueError(
            "offsets must be a one-dimensional array of at least two integers: bag k is X[offsets[k]:offsets[k + 1]]"
        )
    bounds = bounds.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != len(X):
        raise ValueError(f"offsets run from {bounds[0]} to {bounds[-1]}, but must run from 0 to the {len(X)} rows of X")
    if (np.diff(bounds) < 0).any():
        k = int(np.flatnonzero(np.diff(bounds) < 0)[0])
        raise ValueError(f"offsets must not fall, but offsets[{k}]={bounds[k]} is followed by {bounds[k + 1]}")
    return X, bounds


def _stack(X: Any) -> tuple[NDArray[np.generic], Ints]:
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim != 3:
            raise ValueError(
                f"X has shape {X.shape}; pass a list of (candidates, features) arrays, an array of shape (n, candidates, "
                "features), or a matrix of all candidates together with offsets (np.arange(n + 1) for one candidate each)"
            )
        _check_real(X.dtype, "X")
        n, m, d = X.shape
        return X.reshape(n * m, d), np.arange(n + 1, dtype=np.int64) * m
    bags = [np.asarray(bag) for bag in X]
    if not bags:
        raise ValueError("X is empty; pass at least one relevant and one irrelevant bag")
    # An empty list has no second dimension to tell; it is left to the check for bags without candidates.
    width = next((bag.shape[1] for bag in bags if bag.ndim == 2), None)
    for k, bag in enumerate(bags):
        _check_real(bag.dtype, f"X[{k}]")
        if bag.size and (bag.ndim != 2 or bag.shape[1] != width):
            raise ValueError(
                f"X[{k}] has shape {bag.shape}; every bag must be an array of shape (candidates, features) with "
                + (f"{width} features" if width is not None else "two dimensions")
            )
    kind = np.float32 if all(bag.dtype == np.float32 for bag in bags if bag.size) else np.float64
    filled = [bag.astype(kind, copy=False) for bag in bags if bag.size]
    if not filled:
        raise ValueError("X holds no candidates at all; every bag needs at least one row")
    sizes = [len(bag) if bag.size else 0 for bag in bags]
    return np.concatenate(filled), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _check_real(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, but has dtype {dtype}; convert it to float32 or float64")


def check_finite(bags: Bags, numbers: NDArray[np.intp] | None = None) -> None:
    """Complain about NaN and infinity, piece by piece; ``numbers`` are those of the bags for whoever gave them."""
    if bags.X.dtype.kind != "f":
        return
    for begin, end in bags.pieces():
        finite = np.isfinite(bags.X[begin:end])
        if not finite.all():
            row = begin + int(np.flatnonzero(~finite.all(axis=1))[0])
            bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
            number = bag if numbers is None else int(numbers[bag])
            raise ValueError(
                f"X contains NaN or infinity in bag {number}, candidate {row - int(bags.offsets[bag])}; remove such candidates "
                "or replace the values"
            )


def check_filled(offsets: Ints, which: NDArray[np.intp] | None = None, what: str = "bag") -> None:
    """Complain about bags without candidates."""
    empty = np.flatnonzero(np.diff(offsets) == 0)
    empty = empty if which is None else np.intersect1d(empty, which)
    if len(empty):
        raise ValueError(f"X has no candidates for {what} {empty[0]}; give every {what} at least one row, or leave it out")


def check_labels(y: Any, n: int) -> Floats:
    """Finite numbers, one per bag."""
    labels = np.asarray(column_or_1d(y))
    if labels.dtype.kind not in "fiub":
        raise TypeError(f"y must be numbers or booleans, but has dtype {labels.dtype}; mark relevant bags by 1, others by 0")
    if len(labels) != n:
        raise ValueError(f"X has {n} bags, but y has {len(labels)} labels; they must be equal")
    labels = labels.astype(np.float64)
    if not np.isfinite(labels).all():
        k = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"y[{k}] is NaN or infinite; every bag needs a label, or leave it out")
    return labels


def check_annotations(annotations: ArrayLike | None, offsets: Ints) -> Ints | None:
    """Rows of the matrix that are given, and -1."""
    if annotations is None:
        return None
    known, sizes = np.asarray(annotations), np.diff(offsets)
    if known.shape != sizes.shape or known.dtype.kind not in "iu":
        raise ValueError(
            f"annotations must be {len(sizes)} integers, one per bag (-1 if unknown), but has shape {known.shape} and dtype "
            f"{known.dtype}"
        )
    known = known.astype(np.int64)
    wrong = np.flatnonzero((known < -1) | (known >= sizes))
    if len(wrong):
        k = int(wrong[0])
        raise ValueError(
            f"annotations[{k}]={known[k]} is not a candidate of bag {k}, which has {sizes[k]}; count from 0 inside the bag, or "
            "use -1 if unknown"
        )
    return np.where(known >= 0, offsets[:-1] + known, -1)
