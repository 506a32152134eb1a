"""Checks of what users hand in; every error names the argument, what was wrong and what to do."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Kernels number samples with 32-bit integers.
MAX_SAMPLES = 2**31 - 1


def check_scores(scores: ArrayLike, name: str = "scores") -> NDArray[np.floating[Any]]:
    """A contiguous one-dimensional float32 or float64 array; other real types become float64."""
    array = np.asarray(scores)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} is empty; at least one positive and one negative sample are needed")
    if array.size > MAX_SAMPLES:
        raise ValueError(f"{name} has {array.size} entries; at most {MAX_SAMPLES} fit into one list")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, but has dtype {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    # The kernels expect the machine's byte order and no gaps; the caller's array is never written to.
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array)


def check_relevant(relevant: ArrayLike, n: int, name: str = "relevant") -> NDArray[np.uint8]:
    """A contiguous array of n bytes 0 or 1 from booleans, or from numbers that are all 0 or 1."""
    array = np.asarray(relevant)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"{name} has {len(array)} entries, but scores has {n}; they must be of equal length")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must be booleans or zeros and ones, but has dtype {array.dtype}")
        truth = array == 1
        if not np.array_equal(truth, array != 0):
            odd = array[(array != 0) & (array != 1)][0]
            raise ValueError(
                f"{name} must contain only 0 and 1, but contains {odd}; "
                "for graded or -1/+1 labels pass a comparison such as y > 0"
            )
        array = truth
    return np.ascontiguousarray(array).view(np.uint8)


def check_both_classes(relevant: NDArray[np.uint8], name: str = "relevant") -> tuple[int, int]:
    """Numbers of positives and negatives, both at least one."""
    n_pos = int(np.count_nonzero(relevant))
    n_neg = relevant.size - n_pos
    if n_pos == 0:
        raise ValueError(f"{name} marks no sample as positive; rank losses need at least one positive sample")
    if n_neg == 0:
        raise ValueError(f"{name} marks every sample as positive; rank losses need at least one negative sample")
    return n_pos, n_neg


def query_offsets(qid: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.intp] | None]:
    """Group rows by query.

    Returns
    -------
    ids : array of shape (q,)
        The distinct query ids in order of first appearance.
    offsets : int64 array of shape (q + 1,)
        Query k has the rows ``offsets[k]:offsets[k + 1]`` of the ordered data.
    order : int array of shape (n,), or None
        Rows in query order; None if the rows are grouped already.
    """
    ids = np.asarray(qid)
    if ids.shape != (n,):
        raise ValueError(f"qid has shape {ids.shape}, but one query id for each of the {n} samples is needed")
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise ValueError("qid contains NaN; every sample must belong to a query")
    if n == 0:
        return ids, np.zeros(1, dtype=np.int64), None
    if ids.dtype.kind in "mM" and np.isnat(ids).any():
        raise ValueError("qid contains NaT; every sample must belong to a query")
    if ids.dtype == object:
        kinds = {next((kind for kind in (str, numbers.Real) if isinstance(entry, kind)), type(entry)) for entry in ids}
        # NaN is what differs from itself; some kinds of missing values cannot even be asked, but have a kind of their own.
        missing = any(kind.__name__ in ("NoneType", "NAType", "NaTType") for kind in kinds)
        if len(kinds) > 1 or missing or any(entry != entry for entry in ids):
            raise ValueError("qid must be numbers or strings, of one kind and without missing values")
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    heads = ids[starts]
    distinct, first, group = np.unique(heads, return_index=True, return_inverse=True)
    if len(distinct) == len(heads):
        return heads, np.append(starts, n).astype(np.int64), None
    # Some query is spread over several stretches: order the stretches by first appearance, rows stay in order inside.
    appearance = np.argsort(np.argsort(first))
    lengths = np.diff(np.append(starts, n))
    query = np.repeat(appearance[group], lengths)
    order = np.argsort(query, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(query))))
    return heads[np.sort(first)], offsets.astype(np.int64), order


def thread_count(n: int | None, name: str = "n_jobs") -> int:
    """Number of threads behind the usual ``n_jobs``: all cores for None and -1."""
    if n is None or n == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n < 1:
        raise ValueError(f"{name}={n} must be a positive number of threads, or -1 for all cores")
    return n


def check_memory(n_bytes: int, what: str) -> None:
    """Refuse storage that the machine does not have, before the system stops the process for asking."""
    try:
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if n_bytes > available:
        raise MemoryError(
            f"{n_bytes / 2**30:.1f} GB for {what} are more than the {available / 2**30:.1f} GB of this machine; use "
            "fewer samples or features, or a solver that stores nothing per sample, such as OneSlackCuttingPlane"
        )


def with_constant(X: Any) -> Any:
    """A dense or CSR matrix with a column of ones."""
    ones = np.ones((X.shape[0], 1))
    if not hasattr(X, "tocsr"):
        return np.hstack([X, ones])
    from scipy import sparse

    parts: Any = [X, sparse.csr_array(ones)]
    return sparse.hstack(parts, format="csr")
