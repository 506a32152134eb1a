"""Features made comparable: their means and spreads, of dense and sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from maxmargin._types import Floats
from maxmargin.structures.rows import is_sparse


def feature_scale(X: Any) -> Floats:
    """Standard deviation of every column of a dense or CSR matrix, shape (d,); the largest entry, or 1, where it is constant."""
    peak = _peaks(X)
    # Squares of entries of any size would not be numbers.
    variance = StandardScaler(with_mean=False).fit(divided(X, peak)).var_
    # Rounding gives constant columns some variance.
    return np.asarray(peak * np.where(variance > 1e-24, np.sqrt(variance), 1.0))


def feature_center(X: Any) -> Floats:
    """Mean of every column, shape (d,); zero for sparse matrices, which would not stay sparse."""
    if is_sparse(X):
        return np.zeros(X.shape[1])
    peak = _peaks(X)
    return np.asarray(peak * (X / peak).mean(axis=0))


def _peaks(X: Any) -> Floats:
    largest: Any = abs(X).max(axis=0)
    peak = np.asarray(largest.toarray() if is_sparse(largest) else largest, dtype=np.float64).ravel()
    peak[peak == 0] = 1.0
    return peak


def divided(X: Any, scale: Floats) -> Any:
    """The columns of a dense or CSR matrix divided by numbers."""
    if not is_sparse(X):
        return X / scale
    other: Any = X.copy()
    other.data /= scale[other.indices]
    return other
