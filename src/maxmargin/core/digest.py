"""Short summaries of data, by which warm starts and checkpoints know their own problem."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, Matrix, Reals, thread_count

_NUMBERS = 1 << 16  # that are summed up at once
_SHARED = 1 << 23  # and by one thread


def fingerprint(*parts: object) -> bytes:
    """A digest: equal for equal data, and different for different ones as far as anybody knows."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        rows: Matrix = part
        arrays = [rows.data, rows.indices, rows.indptr, rows.shape] if hasattr(part, "indptr") else [part]
        for array in arrays:
            if isinstance(array, np.ndarray) and array.dtype != object:
                digest.update(f"{array.dtype}{array.shape}".encode())
                # Row by row, whatever the layout; only parts of another layout are copied at a time.
                pieces = [array] if array.flags.c_contiguous else (array[k : k + 4096] for k in range(0, len(array), 4096))
                for own in pieces:
                    digest.update(np.ascontiguousarray(own).view(np.uint8).data)
            else:
                digest.update(f"{array!r};".encode())
    return digest.digest()


def sketch(X: Matrix, y: ArrayLike, n_jobs: int | None = 1) -> Floats:
    """Six numbers about samples by which to know them again, in any order, sparse or dense, in single or double precision.

    Size, and sums of labels, of features, of their squares and of their products with the labels; on ``n_jobs`` cores.

    >>> X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.0, 1.0])
    >>> sketch(X, y)
    array([ 2.,  2.,  1., 10., 30.,  7.])
    >>> same_sketch(sketch(X[::-1], y[::-1]), sketch(X, y)), same_sketch(sketch(X, y), sketch(X, 1 - y))
    (True, False)
    """
    labels = np.asarray(y, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # sums of the largest numbers there are
        if hasattr(X, "indptr"):
            each = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
            squares = float(np.einsum("i,i->", X.data, X.data, dtype=np.float64))
            return np.array([*X.shape, labels.sum(), each.sum(), squares, float(each @ labels)])
        matrix = np.asarray(X)
        rows = max(1, _SHARED // max(1, matrix.shape[1]))
        parts = [slice(begin, begin + rows) for begin in range(0, len(matrix), rows)]
        n_threads = min(thread_count(n_jobs), len(parts))
        if n_threads > 1:
            with ThreadPoolExecutor(n_threads) as threads:
                sums = list(threads.map(lambda part: _sums(matrix[part], labels[part]), parts))
        else:
            sums = [_sums(matrix[part], labels[part]) for part in parts]
        return np.array([*matrix.shape, labels.sum(), *(np.sum(sums, axis=0) if sums else np.zeros(3))])


def _sums(matrix: Reals, labels: Floats) -> Floats:
    """Of features, of their squares and of their products with the labels."""
    ones, sums = np.ones(matrix.shape[1]), np.zeros(3)
    # Some rows at a time: as doubles they stay in the cache, where sums cost next to nothing.
    step = max(1, _NUMBERS // max(1, matrix.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, len(matrix), step):
            own = np.ascontiguousarray(matrix[begin : begin + step], dtype=np.float64)
            each = own @ ones
            sums += each.sum(), np.vdot(own, own), each @ labels[begin : begin + step]
    return sums


def same_sketch(one: ArrayLike, other: ArrayLike) -> bool:
    """Whether two sketches are of the same samples, but for rounding."""
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != (6,) or b.shape != (6,) or a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
        return False
    # Sums of signed numbers may be small; the sum of squares says how small is rounding.
    scale = np.sqrt(np.abs(a[4]) * a[0] * a[1]) + 1e-300
    labels = max(1.0, float(np.abs(a[2])))
    with np.errstate(invalid="ignore"):
        return bool((np.abs(a - b) <= 1e-6 * np.array([0, 0, labels, scale, a[4], scale * labels])).all())
