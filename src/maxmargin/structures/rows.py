"""Rows of features, one per sample or node, in a dense or CSR matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin._types import Floats


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of scipy."""
    return bool(sparse.issparse(X))


def check_rows(X: Any, name: str = "X") -> Any:
    """X as a float64 array or CSR array of shape (N, p) with finite entries; no copy if it is one already.

    Sparse booleans stay what they are: a byte for an entry, or nothing where it matters.
    """
    if is_sparse(X):
        rows: Any = sparse.csr_array(X, dtype=np.bool_ if X.dtype == np.bool_ else np.float64)
    else:
        rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"{name} has shape {rows.shape}, but a matrix with one row of features per node is needed")
    bad = bad_row(rows)
    if bad is not None:
        raise ValueError(f"{name} contains NaN or infinite values, first in row {bad}; remove or replace them")
    return rows


def bad_row(X: Any) -> int | None:
    """The first row with an entry that is NaN or infinite."""
    if X.dtype == np.bool_:
        return None
    bad = ~np.isfinite(X.data if is_sparse(X) else X)
    if not bad.any():
        return None
    if is_sparse(X):
        return int(np.searchsorted(X.indptr, int(bad.argmax()), side="right")) - 1
    return int(bad.any(axis=1).argmax())


def row_norms(X: Any) -> Floats:
    """Euclidean norm of every row."""
    squares: Any = X.multiply(X) if is_sparse(X) else X * X
    return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())


def as_rows(x: Any) -> Any:
    """A row of numbers as a matrix; what is one already, dense or sparse, stays as it is."""
    return x if is_sparse(x) else np.atleast_2d(x)


def stack(parts: Any) -> Any:
    """Rows or matrices below each other; one matrix stays as it is."""
    if is_sparse(parts) or isinstance(parts, np.ndarray):
        return parts
    matrices = [as_rows(part) for part in parts]
    if any(map(is_sparse, matrices)):
        return sparse.vstack([sparse.csr_array(part) for part in matrices], format="csr")
    return np.concatenate(matrices)
