"""Many weight vectors in little memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from maxmargin._utils import Arrays, Floats, Int32s, Reals


class WeightStore:
    """Weight vectors of one length, each kept sparse or dense, whichever is smaller.

    Parameters
    ----------
    n_features : int
        Length of the vectors.
    dtype : float64 or float32
        Type of the stored values; vectors come out as float64.
    """

    def __init__(self, n_features: int, dtype: DTypeLike = np.float64) -> None:
        self.n_features = n_features
        self.dtype = np.dtype(dtype)
        self._indices: list[Int32s | None] = []
        self._values: list[Reals] = []

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, which: int) -> Floats:
        """A vector, shape (d,), to be changed at will."""
        indices, values = self._indices[which], self._values[which]
        if indices is None:
            return values.astype(np.float64)
        weights = np.zeros(self.n_features)
        weights[indices] = values
        return weights

    def append(self, weights: Reals) -> int:
        """Keep one more, which must not be changed afterwards; returns its number."""
        used = np.flatnonzero(weights)
        # An entry of a sparse vector takes four bytes more than one of a dense vector.
        if len(used) * (self.dtype.itemsize + 4) < self.n_features * self.dtype.itemsize:
            self._indices.append(used.astype(np.int32))
            self._values.append(weights[used].astype(self.dtype))
        else:
            self._indices.append(None)
            self._values.append(weights.astype(self.dtype, copy=False))
        return len(self._values) - 1

    @property
    def nbytes(self) -> int:
        """Of all vectors."""
        return sum(kept.nbytes for kept in (*self._values, *self._indices) if kept is not None)

    def arrays(self) -> Arrays:
        """Everything in four arrays, for a file."""
        every = np.arange(self.n_features, dtype=np.int32)
        indices = [every[:0] if own is None else own for own in self._indices]
        empty = np.zeros(0, dtype=self.dtype)
        return {
            "weights_values": np.concatenate([*self._values, empty]),
            "weights_indices": np.concatenate([*indices, every[:0]]),
            "weights_sizes": np.array([len(values) for values in self._values], dtype=np.int64),
            "weights_dense": np.array([own is None for own in self._indices], dtype=bool),
        }

    @classmethod
    def of(cls, n_features: int, arrays: Arrays) -> WeightStore:
        """The way back; a ValueError if the arrays do not fit together."""
        names = ("weights_values", "weights_indices", "weights_sizes", "weights_dense")
        missing = [name for name in names if name not in arrays]
        if missing:
            raise ValueError(f"the array {missing[0]!r} is missing")
        values, indices, sizes, dense = (arrays[name] for name in names)
        store = cls(n_features, values.dtype)
        if values.dtype not in (np.float64, np.float32) or indices.dtype != np.int32 or sizes.dtype != np.int64:
            raise ValueError("the weights are of other types than were written")
        if dense.dtype != np.bool_ or dense.shape != sizes.shape or any(a.ndim != 1 for a in (values, indices, sizes)):
            raise ValueError("the weights are of other shapes than were written")
        if (sizes < 0).any() or (sizes > n_features).any() or (sizes[dense] != n_features).any():
            raise ValueError("some weights are not as many as there are features")
        if sizes.sum() != len(values) or sizes[~dense].sum() != len(indices):
            raise ValueError("the weights are not as many as were written")
        if len(indices) and (indices.min() < 0 or indices.max() >= n_features):
            raise ValueError("some weight belongs to no feature")
        if not np.isfinite(values).all():
            raise ValueError("some weight is not finite")
        at, at_index = 0, 0
        for size, is_dense in zip(sizes.tolist(), dense.tolist(), strict=True):
            own = None if is_dense else indices[at_index : at_index + size]
            if own is not None and (own[1:] <= own[:-1]).any():
                raise ValueError("some feature has two weights, or they are out of order")
            store._values.append(values[at : at + size])
            store._indices.append(own)
            at += size
            at_index += 0 if is_dense else size
        return store
