"""Rows of features, one per sample or node, in a dense or CSR matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Floats, Matrix, Reals, thread_count
from maxmargin.core.streaming import is_streamed, row_pieces, rows_between, streamed_sum_of_rows, streamed_times


def is_sparse(X: object) -> bool:
    """Whether X is a sparse matrix or array of scipy."""
    return bool(sparse.issparse(X))


def check_rows(X: Matrix, name: str = "X") -> Matrix:
    """X as a float64 array or CSR array of shape (N, p) with finite entries; no copy if it is one already.

    Sparse booleans stay what they are: a byte for an entry, or nothing where it matters.
    """
    if is_sparse(X):
        rows: Matrix = sparse.csr_array(X, dtype=np.bool_ if X.dtype == np.bool_ else np.float64)
    else:
        rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"{name} has shape {rows.shape}, but a matrix with one row of features per node is needed")
    bad = bad_row(rows)
    if bad is not None:
        raise ValueError(f"{name} contains NaN or infinite values, first in row {bad}; remove or replace them")
    return rows


def bad_row(X: Matrix) -> int | None:
    """The first row with an entry that is NaN or infinite."""
    if X.dtype == np.bool_:
        return None
    if is_streamed(X):
        found = ((begin, _bad_row(rows_between(X, begin, end))) for begin, end in row_pieces(X))
        return next((begin + bad for begin, bad in found if bad is not None), None)
    return _bad_row(X)


def _bad_row(X: Matrix) -> int | None:
    bad = ~np.isfinite(X.data if is_sparse(X) else X)
    if not bad.any():
        return None
    if is_sparse(X):
        return int(np.searchsorted(X.indptr, int(bad.argmax()), side="right")) - 1
    return int(bad.any(axis=1).argmax())


def row_norms(X: Matrix) -> Floats:
    """Euclidean norm of every row."""
    squares: Matrix = X.multiply(X) if is_sparse(X) else X * X
    return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())


def as_rows(x: Matrix) -> Matrix:
    """A row of numbers as a matrix; what is one already, dense or sparse, stays as it is."""
    return x if is_sparse(x) else np.atleast_2d(x)


def stack(parts: Matrix | Sequence[Matrix]) -> Matrix:
    """Rows or matrices below each other; one matrix stays as it is."""
    if is_sparse(parts) or isinstance(parts, np.ndarray):
        return parts
    matrices = [as_rows(part) for part in parts]
    if any(map(is_sparse, matrices)):
        return sparse.vstack([sparse.csr_array(part) for part in matrices], format="csr")
    return np.concatenate(matrices)


def column_peaks(X: Matrix) -> Floats:
    """The largest absolute value of every column, shape (d,)."""
    if not X.shape[0]:
        return np.zeros(X.shape[1])
    if is_streamed(X):
        peaks = [_column_peaks(rows_between(X, begin, end)) for begin, end in row_pieces(X)]
        return np.asarray(np.max(peaks, axis=0))
    return _column_peaks(X)


def _column_peaks(X: Matrix) -> Floats:
    ends: list[Matrix] = [X.max(axis=0), X.min(axis=0)]
    highest, lowest = (np.asarray(end.toarray() if is_sparse(end) else end, dtype=np.float64).ravel() for end in ends)
    return np.maximum(highest, -lowest)


# Squares of larger numbers are too large to add up.
LARGEST_FEATURE = 1e140


def huge_column(X: Matrix) -> tuple[int, float] | None:
    """The column with the largest entry, and that entry, if it is beyond what can be squared and added up.

    Examples
    --------
    >>> huge_column(np.array([[1.0, -1e200], [2.0, 3.0]])), huge_column(np.ones((2, 2)))
    ((1, 1e+200), None)
    """
    values = X.data if is_sparse(X) else X
    # Columns are looked at only if need be: there may be billions of them, with nothing inside.
    if not values.size or max(float(values.max()), -float(values.min())) <= LARGEST_FEATURE:
        return None
    peaks = column_peaks(X)
    k = int(np.argmax(peaks))
    return k, float(peaks[k])


def times(X: Matrix, weights: Floats, n_jobs: int | None = None) -> Floats:
    """``X @ weights``, shape (n,), in float64 and without a copy of X, also where X is float32; on ``n_jobs`` cores.

    If X is in a memory-mapped file, it is read in one walk, and little of it is in memory at a time.

    Examples
    --------
    >>> times(np.eye(2, dtype=np.float32), np.array([1e-9, 1.0]))
    array([1.e-09, 1.e+00])
    """
    streamed = is_streamed(X)
    if not streamed and not _has_kernel(X):
        return np.ascontiguousarray(X @ weights, dtype=np.float64)
    scores = _core.recycled(X.shape[0])
    if streamed:
        streamed_times(X, weights, thread_count(n_jobs), scores)
    else:
        _core.times_vector(X, np.ascontiguousarray(weights, dtype=np.float64), thread_count(n_jobs), scores)
    return scores


def sum_of_rows(coefficients: Reals, X: Matrix, n_jobs: int | None = None) -> Floats:
    """``coefficients @ X``, shape (d,), in float64 and without a copy of X; rows whose coefficient is zero cost next to nothing.

    Sums of dense rows do not depend on the number of cores. Memory-mapped files as in :func:`times`.
    """
    if is_streamed(X):
        return streamed_sum_of_rows(np.asarray(coefficients, dtype=np.float64), X, thread_count(n_jobs))
    if _has_kernel(X):
        return _core.sum_of_rows(np.ascontiguousarray(coefficients, dtype=np.float64), X, thread_count(n_jobs))
    used = np.flatnonzero(coefficients)
    few = is_sparse(X) and 4 * len(used) < len(coefficients)
    product = coefficients[used] @ X[used] if few else coefficients @ X
    return np.asarray(product, dtype=np.float64).ravel()


def _has_kernel(X: Matrix) -> bool:
    """Whether compiled products take X as it is: dense rows, or float32 columns, each in one piece.

    Columns of float64 are left to numpy, which is quicker there and copies nothing either.
    """
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype not in (np.float32, np.float64) or not X.dtype.isnative:
        return False
    if any(step % X.itemsize for step in X.strides):
        return False
    in_rows = X.strides[1] == X.itemsize or X.shape[1] <= 1
    return in_rows or (X.dtype == np.float32 and (X.strides[0] == X.itemsize or X.shape[0] <= 1))


def check_costs(costs: ArrayLike | None, n_classes: int) -> Floats:
    """The (K, K) matrix of ``costs[truth, answer]``; 0-1 by default."""
    if costs is None:
        return 1.0 - np.eye(n_classes)
    matrix = np.asarray(costs, dtype=np.float64)
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(f"costs has shape {matrix.shape}, but {n_classes} classes need ({n_classes}, {n_classes})")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError("costs must be finite and not negative")
    if np.diagonal(matrix).any():
        k = int(np.flatnonzero(np.diagonal(matrix))[0])
        raise ValueError(f"costs[{k}, {k}]={matrix[k, k]:g} must be zero: the right answer costs nothing")
    return matrix


def row_of(X: Matrix, index: int) -> Floats:
    """One row of a dense or sparse matrix, dense."""
    row: Matrix = X[index]
    return np.asarray(row.toarray().ravel() if hasattr(row, "toarray") else row)
