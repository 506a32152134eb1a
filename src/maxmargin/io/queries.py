"""Queries of samples: any ids to lists of rows, and names of files to integer codes.

Files hand out *codes*, 0, 1, ... in order of first appearance, and one name per code: a name may be as long as the file, and an
array of names would take that much for every sample. Users may pass ids of any kind to estimators and metrics.
"""

from __future__ import annotations

import numbers
from array import array
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Ints

Codes = Ints
Names = list[int] | list[str]

T = TypeVar("T", bound=np.generic)


def query_offsets(qid: ArrayLike | None, n: int) -> tuple[NDArray[Any], Codes, NDArray[np.intp] | None]:
    """Group rows by query.

    Parameters
    ----------
    qid : array of shape (n,), or None
        Numbers or text, in any order; None if all samples are of one query.
    n : int
        Number of samples.

    Returns
    -------
    ids : array of shape (q,)
        The distinct query ids in order of first appearance.
    offsets : int64 array of shape (q + 1,)
        Query k has the rows ``offsets[k]:offsets[k + 1]`` of the ordered data.
    order : int array of shape (n,), or None
        Rows in query order; None if the rows are grouped already.

    Examples
    --------
    >>> query_offsets([7, 3, 7], 3)
    (array([7, 3]), array([0, 2, 3]), array([0, 2, 1]))
    """
    if qid is None:
        return np.zeros(min(n, 1), dtype=np.int64), np.array([0, n] if n else [0], dtype=np.int64), None
    ids = _as_ids(qid)
    if ids.shape != (n,):
        raise ValueError(f"qid has shape {ids.shape}, but one query id for each of the {n} samples is needed")
    if n == 0:
        return ids, np.zeros(1, dtype=np.int64), None
    if ids.dtype.kind in "fmM" and (ids != ids).any():  # what is missing differs from itself
        raise ValueError(f"qid contains {'NaN' if ids.dtype.kind == 'f' else 'NaT'}; every sample must belong to a query")
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


def counts_in_lists(marked: NDArray[Any], offsets: Ints) -> Ints:
    """How many of the samples of every list are marked, shape (levels, q), for marks of shape (levels, n).

    Examples
    --------
    >>> counts_in_lists(np.array([[True, False, True, True]]), np.array([0, 1, 1, 4]))
    array([[1, 0, 2]])
    """
    # Where marked ones are few it is the quickest; sums of truth values are slow anyway.
    places = [np.searchsorted(np.flatnonzero(row), offsets) for row in marked]
    return np.diff(np.array(places, dtype=np.int64).reshape(len(marked), len(offsets)), axis=1)


def _as_ids(qid: ArrayLike) -> NDArray[Any]:
    if isinstance(qid, np.ma.MaskedArray) and np.ma.getmaskarray(qid).any():
        raise ValueError("qid has masked entries; every sample must belong to a query, so leave out those without one")
    # numpy gives every text of a list the room of the longest.
    if isinstance(qid, list | tuple) and any(isinstance(entry, str) for entry in qid):
        ids = np.empty(len(qid), dtype=object)
        ids[:] = qid
        return ids
    return np.asarray(qid)


class QueryCodes:
    """Numbers queries as they come.

    >>> codes = QueryCodes()
    >>> for name in "737":
    ...     codes.add(name)
    >>> codes.finish()
    (array([0, 1, 0]), ['7', '3'])
    """

    def __init__(self) -> None:
        self._codes, self._known = array("q"), dict[Any, int]()

    def add(self, name: Any) -> None:
        """The query of the next sample."""
        self._codes.append(self._known.setdefault(name, len(self._known)))

    def finish(self) -> tuple[Codes, list[Any]]:
        """Codes of the samples, names of the queries."""
        return np.array(self._codes, dtype=np.int64), list(self._known)


def as_integers(names: list[str]) -> Names:
    """Names in a text as integers if every one is written as one of 64 bits (``7``, not ``07``), unchanged otherwise."""
    # Python does not even read integers of thousands of digits.
    if all(len(name) <= 20 for name in names):
        try:
            found = [int(name) for name in names]
        except ValueError:
            return names
        if all(-(2**63) <= number < 2**63 and str(number) == name for number, name in zip(found, names, strict=True)):
            return found
    return names


def first_split(codes: Codes) -> int | None:
    """The first row whose query has appeared before, with others in between."""
    if len(codes) == 0:
        return None
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    # Codes grow with every new query, so what is no new highest code has been there.
    heads = codes[starts]
    again = np.flatnonzero(heads[1:] <= np.maximum.accumulate(heads)[:-1])
    return int(starts[again[0] + 1]) if len(again) else None


def in_input_order(values: NDArray[T], order: NDArray[np.intp] | None) -> NDArray[T]:
    """Undo an ordering of the rows."""
    if order is None:
        return values
    result = np.empty_like(values)
    result[order] = values
    return result
