"""Rows of data on a shard: where they come from, what is known of them before training, and what is wrong with them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maxmargin._utils import MAX_SAMPLES, Floats, Ints
from maxmargin.core import bad_row, fingerprint, is_sparse, moments_of
from maxmargin.distributed.engine import Shard
from maxmargin.distributed.messages import aligned
from maxmargin.io import query_offsets


class Rows(NamedTuple):
    """What a source of rows loads.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        float32 or float64, perhaps mapped from a file.
    y : array of shape (n,)
        Labels or grades.
    offsets : int array of shape (q + 1,), optional
        Query (or sequence) k has the rows ``offsets[k]:offsets[k + 1]``; None if all rows of all shards are one list.
    names : sequence of length q, optional
        What queries are called; those of the same name on several shards are one query.
    weights : array of shape (q,), optional
        Of the queries.
    """

    X: Any
    y: NDArray[Any]
    offsets: Ints | None = None
    names: Sequence[Any] | None = None
    weights: Floats | None = None


class RowSource(Protocol):
    """Where rows come from; small, and can be pickled."""

    def load_rows(self) -> Rows | tuple[Any, ...]:
        """The rows, or a tuple of its first fields."""

    def describe(self) -> str:
        """For messages: the file, and which of its rows."""


@dataclass(frozen=True)
class ArrayRows:
    """Rows that are in memory; for engines of this process, and for tests.

    Parameters
    ----------
    X, y, offsets, names, weights
        As in :class:`Rows`.
    text : str
        What to call them in messages.
    """

    X: Any
    y: NDArray[Any]
    offsets: Ints | None = None
    names: Sequence[Any] | None = None
    weights: Floats | None = None
    text: str = "an array"

    def load_rows(self) -> Rows:
        """The arrays."""
        return Rows(self.X, self.y, self.offsets, self.names, self.weights)

    def describe(self) -> str:
        """As given."""
        return self.text


def split_rows(
    X: Any, y: ArrayLike, n_shards: int, qid: ArrayLike | None = None, *, query_weight: ArrayLike | None = None,
    whole: bool = True,
) -> list[ArrayRows]:  # fmt: skip
    """Rows in memory as parts of about the same size, in their order.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    y : array of shape (n,)
    n_shards : int
        Some parts are empty where there are fewer queries.
    qid : array of shape (n,), optional
        Queries, grouped; one list without it.
    query_weight : array of shape (q,), optional
    whole : bool
        Whether queries stay whole; else they are cut wherever a part ends.

    Examples
    --------
    >>> parts = split_rows(np.eye(4), [1, 0, 1, 0], 2, [7, 7, 7, 8])
    >>> [(len(part.y), part.names) for part in parts]
    [(3, [7]), (1, [8])]
    """
    y = np.asarray(y)
    n = len(y)
    if n_shards < 1:
        raise ValueError(f"n_shards={n_shards} must be at least 1")
    edges = [n * k // n_shards for k in range(n_shards + 1)]
    if qid is None:
        return [ArrayRows(X[a:b], y[a:b], text=f"rows {a} to {b - 1}") for a, b in pairwise(edges)]
    names, offsets, order = query_offsets(qid, n)
    if order is not None:
        raise ValueError("qid is out of order; put the rows of every query next to each other first")
    if whole:
        edges = [int(offsets[np.searchsorted(offsets, edge)]) for edge in edges]
    weights = None if query_weight is None else np.asarray(query_weight, dtype=np.float64)
    parts = []
    for a, b in pairwise(edges):
        first, last = int(np.searchsorted(offsets, a, side="right")) - 1, int(np.searchsorted(offsets, b, side="left"))
        last = max(first, last) if b > a else first
        own = np.clip(offsets[first : last + 1], a, b) - a if b > a else np.zeros(1, dtype=np.int64)
        parts.append(
            ArrayRows(
                X[a:b], y[a:b], own, names[first:last].tolist(), None if weights is None else weights[first:last],
                f"rows {a} to {b - 1}",
            )
        )  # fmt: skip
    return parts


class RowShard(Shard):
    """Rows, and what is known of them without training.

    Attributes
    ----------
    X, y, offsets, names, weights
        As in :class:`Rows`, checked.
    """

    operations: ClassVar[frozenset[str]] = Shard.operations | {"labels", "digest", "first_not_finite", "moments"}
    # Whose weights there are: those of queries, or of rows.
    weighs_rows = False

    def __init__(self, rows: Rows | tuple[Any, ...]) -> None:
        super().__init__()
        rows = Rows(*aligned(tuple(rows)))
        self.X: Any = rows.X
        self.y = np.asarray(rows.y)
        self.names = None if rows.names is None else list(rows.names)
        n = len(self.y)
        if self.X.ndim != 2 or self.X.shape[0] != n:
            raise ValueError(f"X has shape {self.X.shape} and y has {n} labels; a row of features is needed for every label")
        if n > MAX_SAMPLES:
            raise ValueError(f"there are {n} rows, and a shard holds at most {MAX_SAMPLES}; make more shards")
        self.one_list = rows.offsets is None
        self.offsets = np.array([0, n], dtype=np.int64) if rows.offsets is None else np.asarray(rows.offsets, dtype=np.int64)
        steps = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != n or (steps < 0).any():
            raise ValueError(f"offsets of queries must rise from 0 to the number of rows, {n}")
        self.weights = None if rows.weights is None else np.asarray(rows.weights, dtype=np.float64)
        if self.names is not None and len(self.names) != len(steps):
            raise ValueError(f"names are {len(self.names)}, but there are {len(steps)} queries")
        what, count = ("rows", n) if self.weighs_rows else ("queries", len(steps))
        if self.weights is not None and len(self.weights) != count:
            raise ValueError(f"weights are {len(self.weights)}, but there are {count} {what}")
        if self.weights is not None and not ((self.weights >= 0) & (self.weights < np.inf)).all():
            raise ValueError(f"weights of {what} must be finite numbers that are not negative")

    def info(self) -> dict[str, Any]:
        """Sizes, the range of the labels, and a check sum of them: the same after every reload."""
        numbers = self.y.dtype.kind in "fiub"
        known = numbers and len(self.y) > 0
        return {
            **super().info(),
            "rows": len(self.y),
            "n_features": int(self.X.shape[1]),
            "sparse": is_sparse(self.X),
            "queries": len(self.offsets) - 1,
            "one_list": self.one_list,
            "lowest": float(self.y.min()) if known else 0.0,
            "highest": float(self.y.max()) if known else 0.0,
            "checksum": zlib.crc32(np.ascontiguousarray(self.y).view(np.uint8).data) if self.y.dtype != object else 0,
        }

    def labels(self, most: int) -> dict[str, Any]:
        """The distinct labels, in order; the first ``most`` of them."""
        found = np.unique(self.y)
        return {"labels": found[:most], "n_labels": len(found)}

    def moments(self) -> dict[str, Any]:
        """Means and spreads of the features, around the mean of this shard; :mod:`maxmargin.core.moments` has the names."""
        return asdict(moments_of(self.X))

    def digest(self) -> dict[str, Any]:
        """A digest of all that hinges can depend on."""
        parts = (self.X, self.y, self.offsets, self.weights, self.names if self.names is None else [str(x) for x in self.names])
        return {"digest": fingerprint(*parts).hex()}

    def first_not_finite(self) -> dict[str, Any]:
        """The first row with a label or a feature that is NaN or infinite; -1 if there is none."""
        if self.y.dtype.kind == "f" and not np.isfinite(self.y).all():
            return {"row": int(np.argmin(np.isfinite(self.y))), "what": "label"}
        # In pieces: a mask as long as the data may not fit.
        for first in range(0, len(self.y), 65536):
            bad = bad_row(self.X[first : first + 65536])
            if bad is not None:
                return {"row": first + bad, "what": "feature"}
        return {"row": -1, "what": ""}


def with_columns(X: Any, n_features: int) -> Any:
    """The same rows with so many columns: sparse ones know no more than the largest index they have seen."""
    if X.shape[1] == n_features:
        return X
    if not is_sparse(X) or X.shape[1] > n_features:
        raise ValueError(f"X has {X.shape[1]} columns, but {n_features} were expected; all parts of the data need the same")
    # Not a copy: its numbers may be mapped from a file that does not fit into memory.
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features), copy=False)
