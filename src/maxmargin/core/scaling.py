"""Features of rankers made comparable before training: over all samples, or within every query.

Standardised over all samples, a linear score is one of the features as they came, with other weights: nothing is left to do for
predictions. Standardised within queries it is not, and predictions need the queries.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import ArgumentError, Floats, Ints, Matrix, Setting
from maxmargin.core.rows import is_sparse
from maxmargin.core.standardizing import divided
from maxmargin.io import query_offsets

Scale = Literal["none", "standard", "query"]
SCALES: tuple[str, ...] = get_args(Scale)


def standardized(X: Matrix, center: Floats, scale: Floats) -> Matrix:
    """Columns less their centers, divided by their scales; sparse matrices are divided only, and stay sparse."""
    return divided(X if is_sparse(X) else X - center, scale)


def folded(weights: Floats, intercept: float, center: Floats, scale: Floats) -> tuple[Floats, float]:
    """Weights and intercept that give features as they came the scores of :func:`standardized` ones."""
    raw = weights / scale
    return raw, intercept - float(raw @ center)


def standardized_within(X: Matrix, qid: ArrayLike | None) -> Matrix:
    """Every query standardised for itself: columns less their mean in the query, divided by their standard deviation there.

    What is constant in a query becomes zero. Rows of sparse matrices are divided only, which shifts all scores of a query by the
    same and leaves its ranking as it is.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    qid : array of shape (n,)
        In any order.

    Examples
    --------
    >>> standardized_within(np.array([[1.0, 5.0], [3.0, 5.0], [70.0, 1.0]]), ["a", "a", "b"])
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 0.,  0.]])
    """
    if qid is None:
        raise ArgumentError(
            "qid",
            [Setting("scale", "query"), " standardises features within every query, and there are none"],
            ["give queries with ", Setting("qid"), ", or use ", Setting("scale", "standard")],
        )
    _, offsets, order = query_offsets(qid, X.shape[0])
    return _sparse_within(X, offsets, order) if is_sparse(X) else _dense_within(X, offsets, order)


# Of a variance, relative to the largest square: below it is the rounding of constant columns.
_ROUNDING = 1e-24


def _dense_within(X: Floats, offsets: Ints, order: NDArray[np.intp] | None) -> Floats:
    starts, sizes = offsets[:-1], np.diff(offsets)
    rows = X if order is None else X[order]
    peak = np.maximum.reduceat(np.abs(rows), starts, axis=0)
    peak[peak == 0] = 1.0
    # Squares of entries of any size would not be numbers.
    rows = np.asarray(rows / np.repeat(peak, sizes, axis=0))
    rows -= np.repeat(np.add.reduceat(rows, starts, axis=0) / sizes[:, None], sizes, axis=0)
    variance = np.add.reduceat(rows * rows, starts, axis=0) / sizes[:, None]
    # What is constant becomes zero, whatever rounding has left of it.
    factor = np.where(variance > _ROUNDING, 1.0 / np.sqrt(np.maximum(variance, _ROUNDING)), 0.0)
    rows *= np.repeat(factor, sizes, axis=0)
    if order is not None:
        rows[order] = rows.copy()
    return np.asarray(rows)


def _sparse_within(X: Matrix, offsets: Ints, order: NDArray[np.intp] | None) -> Matrix:
    sizes = np.diff(offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    if order is not None:
        query[order] = query.copy()
    entry_query = np.repeat(query, np.diff(X.indptr))
    slots, slot = np.unique(entry_query * np.int64(X.shape[1]) + X.indices, return_inverse=True)
    size = sizes[slots // X.shape[1]].astype(np.float64)
    peak = np.zeros(len(slots))
    np.maximum.at(peak, slot, np.abs(X.data))
    peak[peak == 0] = 1.0
    values = X.data / peak[slot]
    mean = np.bincount(slot, values, len(slots)) / size
    # Entries that are not stored are zeros.
    zeros = size - np.bincount(slot, minlength=len(slots))
    variance = (np.bincount(slot, (values - mean[slot]) ** 2, len(slots)) + zeros * mean**2) / size
    scaled = X.copy()
    scaled.data = values / np.where(variance > _ROUNDING, np.sqrt(variance), 1.0)[slot]
    return scaled
