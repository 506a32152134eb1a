"""Features made comparable: their means and spreads, of dense and sparse matrices."""

from __future__ import annotations

import numpy as np

from maxmargin._utils import Floats, Matrix
from maxmargin.core.moments import moments_of
from maxmargin.core.rows import is_sparse


def feature_scale(X: Matrix) -> Floats:
    """Standard deviation of every column of a dense or CSR matrix, shape (d,); the largest entry, or 1, where it is constant."""
    return moments_of(X).scale


def center_and_scale(X: Matrix) -> tuple[Floats, Floats]:
    """Means of the columns, zero for sparse matrices, which would not stay sparse; and :func:`feature_scale`; shapes (d,)."""
    found = moments_of(X)
    return np.zeros(X.shape[1]) if is_sparse(X) else found.mean, found.scale


def divided(X: Matrix, scale: Floats) -> Matrix:
    """The columns of a dense or CSR matrix divided by numbers."""
    if not is_sparse(X):
        return X / scale
    other: Matrix = X.copy()
    other.data /= scale[other.indices]
    return other
