"""Products with rows that lie in a memory-mapped file, in one walk through the file and in little memory.

A thread brings the next pieces of the file into memory while the present one is worked on, up to 64 MB ahead; what is behind is
let go. So a product costs about what reading the file costs, and the process keeps some 70 MB of it, however long it is. (The
system may keep more of the file in its own cache, which it gives away when somebody else needs the memory.)

Only mappings that cannot be written to are treated like this: what is let go is read from the file again.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Floats, Ints, Matrix

_PIECE = 8 << 20  # bytes that are worked on at once
_AHEAD = 64 << 20  # bytes that may be waiting
_SMALL = 1 << 20  # bytes for which none of this is worth while

_DONTNEED, _POPULATE_READ = 4, 22
_PAGE = mmap.PAGESIZE
_madvise: Callable[[int, int, int], int] | None = None
if sys.platform == "linux":
    # Not by the method of Python's mmap, which keeps the interpreter waiting until the disk has answered.
    _madvise = ctypes.CDLL(None, use_errno=True).madvise
    _madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _is_sparse(X: object) -> bool:
    return bool(sparse.issparse(X))


Span = tuple[int, int]  # the addresses of a stretch of memory


def is_streamed(X: Matrix) -> bool:
    """Whether X, dense in rows or CSR, is in a file that is mapped for reading, and not small.

    Examples
    --------
    >>> is_streamed(np.zeros((1000, 1000)))
    False
    """
    if _is_sparse(X):
        return X.format == "csr" and X.data.nbytes + X.indices.nbytes >= _SMALL and _is_mapped(X.data) and _is_mapped(X.indices)
    in_rows = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64) and X.strides[1] == X.itemsize
    return in_rows and X.strides[0] >= X.shape[1] * X.itemsize and X.nbytes >= _SMALL and X.dtype.isnative and _is_mapped(X)


def _is_mapped(array: object) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    array = array.obj if isinstance(array, memoryview) else array
    # What has been written to a private mapping would be lost with its pages.
    return isinstance(array, mmap.mmap) and memoryview(array).readonly


def streamed_times(X: Matrix, weights: Floats, n_threads: int, scores: Floats) -> None:
    """Write ``X @ weights`` to ``scores``, for X that :func:`is_streamed`; the bits are those of X in memory, if it is dense."""
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    for begin, end in row_pieces(X):
        piece = rows_between(X, begin, end)
        if _is_sparse(X):
            scores[begin:end] = piece @ weights
        else:
            _core.times_vector(piece, weights, n_threads, scores[begin:end])


def streamed_sum_of_rows(coefficients: Floats, X: Matrix, n_threads: int) -> Floats:
    """``coefficients @ X``, for X that :func:`is_streamed`; pieces of the file whose coefficients are all zero are not read.

    The same bits as for X in memory, if it is dense with rows of up to 4 kB.
    """
    total = np.zeros(X.shape[1])
    coefficients = np.ascontiguousarray(coefficients, dtype=np.float64)
    for begin, end in row_pieces(X, coefficients):
        piece = rows_between(X, begin, end)
        if _is_sparse(X):
            total += coefficients[begin:end] @ piece
        else:
            _core.add_rows(coefficients[begin:end], piece, n_threads, total)
    return total


def rows_between(X: Matrix, begin: int, end: int) -> Matrix:
    """Some rows, without a copy of their numbers."""
    if not _is_sparse(X):
        return X[begin:end]
    first, last = int(X.indptr[begin]), int(X.indptr[end])
    offsets = X.indptr[begin : end + 1] - X.indptr[begin]
    return sparse.csr_array((X.data[first:last], X.indices[first:last], offsets), shape=(end - begin, X.shape[1]))


def row_pieces(X: Matrix, coefficients: Floats | None = None) -> Iterator[tuple[int, int]]:
    """First row, and row after the last, of one piece after the other; it is in memory until the next one is asked for.

    Pieces whose coefficients are all zero are left out.
    """
    bounds = _bounds(X)
    pieces = [
        (begin, end)
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        if coefficients is None or coefficients[begin:end].any()
    ]
    places = [_spans(X, begin, end) for begin, end in pieces]
    depth = max(1, _AHEAD // _PIECE)
    waiting: deque[Future[None]] = deque()
    background = ThreadPoolExecutor(1, thread_name_prefix="maxmargin-read-ahead")
    try:
        for k, piece in enumerate(pieces):
            while len(waiting) < depth and k + len(waiting) < len(pieces):
                waiting.append(background.submit(_fetch, places[k + len(waiting)]))
            waiting.popleft().result()
            try:
                yield piece
            finally:
                _release(places[k])
    finally:
        background.shutdown(wait=True, cancel_futures=True)
        # What was fetched and never asked for, because somebody has had enough.
        for spans in places[k + 1 : k + 1 + depth] if pieces else ():
            _release(spans)


def _bounds(X: Matrix) -> Ints:
    """Rows at which pieces begin, and the number of rows."""
    n = X.shape[0]
    if _is_sparse(X):
        per_piece = max(1, _PIECE // (X.data.itemsize + X.indices.itemsize))
        targets = np.arange(0, int(X.indptr[-1]), per_piece)
        indptr: Ints = X.indptr
        inner = np.searchsorted(indptr, targets[1:], side="left")
        return np.unique(np.concatenate(([0], inner, [n]))).astype(np.int64)
    rows = max(1, _PIECE // max(1, X.strides[0]))
    # The kernel adds up so many rows at a time; with whole blocks of them sums have the bits of one call.
    rows = max(rows // _core.ROWS_OF_BLOCK * _core.ROWS_OF_BLOCK, min(rows, _core.ROWS_OF_BLOCK))
    return np.append(np.arange(0, n, rows), n).astype(np.int64)


def _spans(X: Matrix, begin: int, end: int) -> list[Span]:
    if _is_sparse(X):
        first, last = int(X.indptr[begin]), int(X.indptr[end])
        arrays = (X.data, X.indices)
        return [(array.ctypes.data + first * array.itemsize, array.ctypes.data + last * array.itemsize) for array in arrays]
    start = X.ctypes.data
    return [(start + begin * X.strides[0], start + (end - 1) * X.strides[0] + X.shape[1] * X.itemsize)]


def _fetch(spans: Sequence[Span]) -> None:
    """Bring the pages into memory; an OSError where the file does not give them, which would otherwise end the process."""
    for begin, end in spans:
        begin -= begin % _PAGE
        if end <= begin or _madvise is None:
            continue
        if _madvise(begin, end - begin, _POPULATE_READ) == 0:
            continue
        code = ctypes.get_errno()
        if code in (errno.EFAULT, errno.EIO, getattr(errno, "EHWPOISON", -1)):
            problem = "the memory-mapped rows cannot be read; has their file been cut off, or its disk taken away? Pack it anew"
            raise OSError(errno.EIO, f"{problem} ({os.strerror(code)})")
        # Linux before 5.14 knows no such advice: one byte of every page, then.
        pages = (ctypes.c_uint8 * (end - begin)).from_address(begin)
        np.frombuffer(memoryview(pages), dtype=np.uint8)[::_PAGE].sum()


def _release(spans: Sequence[Span]) -> None:
    """Let go of the pages, but for the last one, in which the next piece may begin."""
    for begin, end in spans:
        begin -= begin % _PAGE
        end -= end % _PAGE
        if end > begin and _madvise is not None:
            _madvise(begin, end - begin, _DONTNEED)
