"""Checks of what users hand in; every error names the argument, what was wrong and what to do."""

from __future__ import annotations

import copy
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils.types import Bytes, Reals

# Kernels number samples with 32-bit integers.
MAX_SAMPLES = 2**31 - 1

_NO_VALUE = object()


class Setting(NamedTuple):
    """An argument, perhaps with a value, as a sentence mentions it; every face has its own spelling.

    >>> str(Setting("loss", "ndcg")), str(Setting("features"))
    ("loss='ndcg'", 'features')
    """

    name: str
    value: Any = _NO_VALUE

    @property
    def has_value(self) -> bool:
        """Whether a value is mentioned."""
        return self.value is not _NO_VALUE

    def __str__(self) -> str:
        return f"{self.name}={self.value!r}" if self.has_value else self.name


Words = str | Sequence[str | Setting]


class ArgumentError(ValueError):
    """An argument that cannot be used: its name, what is wrong and what to do. Its text is in the words of the library.

    Problem and remedy are two halves of a sentence. Where they mention arguments, these are settings, so that :meth:`sentence`
    can spell them as a command does.

    Examples
    --------
    >>> error = ArgumentError("grades", ["such gains are those of ", Setting("loss", "ndcg")], ["leave out ", Setting("grades")])
    >>> str(error)
    "such gains are those of loss='ndcg'; leave out grades"
    >>> error.sentence(lambda setting: f"--{setting.name}")
    'such gains are those of --loss; leave out --grades'
    """

    def __init__(self, argument: str, problem: Words, remedy: Words = "") -> None:
        super().__init__(argument, problem, remedy)
        self.argument, self.problem, self.remedy = argument, problem, remedy

    def sentence(self, spell: Callable[[Setting], str] = str) -> str:
        """Problem and remedy, with settings in the spelling of a face."""
        halves = (self.problem, self.remedy)
        return "; ".join("".join(part if isinstance(part, str) else spell(part) for part in half) for half in halves if half)

    def __str__(self) -> str:
        return self.sentence()


def check_choice(name: str, value: Any, known: Iterable[str]) -> None:
    """Complain about a word that is not among those known."""
    if value not in (choices := tuple(known)):
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, choices))}")


def check_unmasked(values: Any, name: str) -> Any:
    """The values themselves; masked entries, which would count as whatever is under the mask, are refused."""
    if isinstance(values, np.ma.MaskedArray):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(values)))
        if hidden:
            raise ArgumentError(name, f"{name} has {hidden} masked entries", "leave out those samples, or fill the entries in")
        return values.data
    return values


def check_matrix(X: Any) -> Any:
    """Features that can be read without harm: nothing masked, and sparse ones whose indices lie inside the matrix.

    Shapes and numbers are for others to check. Sparse indices of 64 bits become 32 bits wherever they fit.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> broken = csr_array(np.eye(2))
    >>> broken.indices[1] = 7
    >>> check_matrix(broken)
    Traceback (most recent call last):
    maxmargin._utils.validation.ArgumentError: X is a broken sparse matrix (indices must be < 2); make it anew
    """
    from scipy.sparse import issparse

    X = check_unmasked(X, "X")
    if not issparse(X):
        return X
    X = copy.copy(X)  # its arrays may be cut to size and replaced
    compressed = hasattr(X, "check_format")
    try:
        if compressed:
            X.check_format(full_check=True)
        elif X.format == "coo" and any(((at < 0) | (at >= n)).any() for at, n in zip((X.row, X.col), X.shape, strict=True)):
            raise ValueError("indices are out of range")
    except ValueError as error:
        raise ArgumentError("X", f"X is a broken sparse matrix ({error})", "make it anew") from error
    if compressed and X.indices.dtype == np.int64 and max(*X.shape, X.nnz) <= np.iinfo(np.int32).max:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def check_labels(y: Any) -> Any:
    """Labels of which none is missing: neither masked nor None.

    >>> check_labels([1, None])
    Traceback (most recent call last):
    maxmargin._utils.validation.ArgumentError: y has no label for sample 2 (None); leave out samples without one
    """
    y = check_unmasked(y, "y")
    labels = np.asarray(y)
    if labels.dtype == object and labels.ndim:  # no labels at all are for others to refuse
        missing = [k for k, label in enumerate(labels.ravel()) if label is None or type(label).__name__ in ("NAType", "NaTType")]
        if missing:
            problem = f"y has no label for sample {missing[0] + 1} ({labels.ravel()[missing[0]]})"
            raise ArgumentError("y", problem, "leave out samples without one")
    return y


def check_scores(scores: ArrayLike, name: str = "scores") -> Reals:
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
    # The kernels expect the machine's byte order, which these have, and no gaps; the caller's array is never written to.
    return np.ascontiguousarray(array if array.dtype in (np.float32, np.float64) else array.astype(np.float64))


def check_relevant(relevant: ArrayLike, n: int) -> Bytes:
    """A contiguous array of n bytes 0 or 1 from booleans, or from numbers that are all 0 or 1."""
    array = np.asarray(relevant)
    if array.ndim != 1:
        raise ValueError(f"relevant must be one-dimensional, but has shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"relevant has {len(array)} entries, but scores has {n}; they must be of equal length")
    if array.dtype != np.bool_:
        if array.dtype.kind not in "fiu":
            raise TypeError(f"relevant must be booleans or zeros and ones, but has dtype {array.dtype}")
        truth = array == 1
        if not np.array_equal(truth, array != 0):
            odd = array[(array != 0) & (array != 1)][0]
            raise ValueError(
                f"relevant must contain only 0 and 1, but contains {odd}; "
                "for graded or -1/+1 labels pass a comparison such as y > 0"
            )
        array = truth
    return np.ascontiguousarray(array).view(np.uint8)


def check_both_classes(relevant: Bytes) -> tuple[int, int]:
    """Numbers of positives and negatives, both at least one."""
    n_pos = int(np.count_nonzero(relevant))
    n_neg = relevant.size - n_pos
    if n_pos == 0:
        raise ValueError("relevant marks no sample as positive; rank losses need at least one positive sample")
    if n_neg == 0:
        raise ValueError("relevant marks every sample as positive; rank losses need at least one negative sample")
    return n_pos, n_neg


def thread_count(n: int | None, name: str = "n_jobs") -> int:
    """Number of threads behind the usual ``n_jobs``: all cores for None and -1."""
    if n is None or n == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(n, numbers.Integral) or n < 1:
        raise ValueError(f"{name}={n!r} must be a positive number of threads, or -1 for all cores")
    return int(n)


def check_memory(
    n_bytes: int,
    what: str,
    remedy: str = "use fewer samples or features, or a solver that stores nothing per sample, such as OneSlackCuttingPlane",
) -> None:
    """Refuse storage that the machine does not have, before the system stops the process for asking."""
    try:
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    if n_bytes > available:
        raise MemoryError(
            f"{n_bytes / 2**30:.1f} GB for {what} are more than the {available / 2**30:.1f} GB of this machine; {remedy}"
        )


def with_constant(X: Any) -> Any:
    """A dense or CSR matrix with a column of ones."""
    ones = np.ones((X.shape[0], 1))
    if not hasattr(X, "tocsr"):
        return np.hstack([X, ones])
    from scipy import sparse

    parts: Any = [X, sparse.csr_array(ones)]
    return sparse.hstack(parts, format="csr")


def tree_fault(heads: Sequence[int], n: int) -> tuple[int, str] | None:
    """The first word, counted from 0, whose head is none, and what is wrong with it; None if heads are a tree."""
    if len(heads) != n:
        return min(len(heads), n - 1), f"there are {len(heads)} heads for {n} words; each word needs one"
    for k, head in enumerate(heads):
        if not 0 <= head <= n:
            return k, f"the head of word {k + 1} is {head}, but words are numbered 1 to {n}, and the root is 0"
        if head == k + 1:
            return k, f"word {head} is its own head; give it another one, or 0 for the root"
    # 0: not seen, 1: on the way from the present word, 2: leads to the root.
    state = [2] + [0] * n
    for k in range(n):
        way, word = [], k + 1
        while state[word] == 0:
            state[word] = 1
            way.append(word)
            word = heads[word - 1]
        if state[word] == 1:
            cycle = way[way.index(word) :]
            text = " -> ".join(map(str, [*cycle, word]))
            return word - 1, f"heads go in a cycle, {text}; every word must lead to the root, 0"
        for word in way:
            state[word] = 2
    return None


def tree_of(output: Any) -> tuple[Sequence[int], Sequence[Any] | None]:
    """Heads and labels of a sentence that has them, of a pair ``(heads, labels)``, or of heads alone."""
    if hasattr(output, "heads"):
        if output.heads is None:
            raise ValueError("the sentence has no tree, but its heads are needed")
        return output.heads, output.labels
    if isinstance(output, tuple) and len(output) == 2 and not isinstance(output[0], int):
        return output[0], output[1]
    return output, None


# Samples that are worth a thread of their own.
_PER_THREAD = 256


def threads_for(n: int) -> int:
    """How many threads n samples are worth."""
    return max(1, min(thread_count(None), n // _PER_THREAD))
