"""Data of models in the form the compiled block solvers take."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin import _core

# Rows with fewer entries than this are worth storing without their zeros.
_SPARSE = 0.4


def compiled_features(X: Any) -> _core.Features:
    """Rows of a dense or CSR matrix; dense ones that are mostly zeros, such as pixels, are stored sparse."""
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X, dtype=np.float64)
        # A look at some of the entries; a wrong guess costs time, nothing else.
        if np.count_nonzero(X.ravel()[:: max(1, X.size // 100_000)]) > _SPARSE * min(X.size, 100_000):
            return _core.Features(X, None, None, X.shape[1])
        return _core.Features(*_core.compress_rows(X), X.shape[1])
    matrix: Any = X
    rows = matrix.tocsr().astype(np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return _core.Features(
        np.ascontiguousarray(rows.data), rows.indices.astype(np.int32), rows.indptr.astype(np.int64), int(rows.shape[1])
    )
