"""Joint features as vectors, dense or sparse, whichever they came as."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Floats, JointFeature
from maxmargin.core.cuts import SparseVector, Vector, entries
from maxmargin.core.rows import is_sparse


def as_vector(feature: JointFeature) -> tuple[Vector, int]:
    """A joint feature as its user wrote it, and its length; sparse ones stay sparse, with indices in order and none twice."""
    if isinstance(feature, np.ndarray) or not is_sparse(feature):
        dense = np.asarray(feature, dtype=np.float64)
        if dense.ndim != 1:
            raise ValueError(f"joint_feature must be one-dimensional or a sparse row, but has shape {dense.shape}")
        return dense, len(dense)
    if feature.ndim == 2 and feature.shape[0] != 1:
        raise ValueError(f"joint_feature must be a sparse row of shape (1, d), but has shape {feature.shape}")
    entries = feature.tocoo()
    indices = entries.col if feature.ndim == 2 else entries.coords[0]
    return in_order(indices, np.asarray(entries.data, dtype=np.float64)), int(feature.shape[-1])


def difference(vector: Vector, other: Vector) -> Vector:
    """``vector - other``; sparse if both are."""
    if isinstance(vector, SparseVector):
        if isinstance(other, SparseVector):
            indices = np.concatenate([vector.indices, other.indices])
            return in_order(indices, np.concatenate([vector.values, -other.values]))
        return -cast(Floats, difference(other, vector))
    at, values = entries(other)
    result = vector.copy()
    result[at] -= values
    return result


def in_order(indices: NDArray[np.int32 | np.int64], values: Floats) -> SparseVector:
    """Indices that rise; values of an index that comes more than once are added up, and zeros left out."""
    if not (indices[1:] > indices[:-1]).all():
        indices, place = np.unique(indices, return_inverse=True)
        values = np.bincount(place, weights=values, minlength=len(indices)).astype(np.float64, copy=False)
    if not values.all():
        kept = values != 0
        indices, values = indices[kept], values[kept]
    return SparseVector(indices.astype(np.int32, copy=False), values)
