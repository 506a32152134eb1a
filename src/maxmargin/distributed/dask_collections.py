"""Dask arrays and data frames as shards: neighbouring chunks become the rows of one shard, where Dask has computed them.

Nothing is computed here, and no rows come to the client. Chunks go by their numbers, so rows keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from dask import delayed, is_dask_collection
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse

from maxmargin._utils import Ints
from maxmargin.distributed.engine import Shard
from maxmargin.distributed.kinds import Kind, ShardOf
from maxmargin.distributed.rows import ArrayRows
from maxmargin.io import query_offsets

# What belongs to a row, besides its features.
_COLUMNS = ("y", "qid", "sample_weight")


@dataclass(frozen=True)
class ChunkShard:
    """A source of shards that are made of chunks; see :class:`maxmargin.distributed.dask_engine.DaskEngine`.

    Parameters
    ----------
    first, last : int
        Numbers of the chunks, with both ends.
    columns : tuple of str
        Which of ``y``, ``qid``, ``sample_weight`` there are: each chunk has its features, then these.
    names : tuple of str, optional
        Columns of a frame that are features.
    kind, loss, n_jobs
        As in :class:`maxmargin.distributed.ShardOf`.
    group : str
        What messages call ``qid``: it may be a sequence.
    """

    first: int
    last: int
    columns: tuple[str, ...]
    names: tuple[Any, ...] | None
    kind: Kind
    loss: Any = None
    n_jobs: int | None = None
    group: str = "qid"

    def load(self) -> Shard:
        """There is nothing without chunks."""
        raise TypeError("a shard of chunks is loaded by load_parts")

    def load_parts(self, parts: Sequence[Any]) -> Shard:
        """The shard of some chunks: features, labels and what else there is, of one after the other."""
        called = [self.group if name == "qid" else name for name in self.columns]
        X, columns = rows_of_chunks(parts, self.names, called, self.first)
        return self._shard(X, dict(zip(self.columns, columns, strict=True)))

    def _shard(self, X: Any, columns: dict[str, NDArray[Any]]) -> Shard:
        y, qid, weight = (columns.get(name) for name in _COLUMNS)
        assert y is not None
        offsets: Ints | None = None
        names = None
        weights = weight
        if qid is not None:
            ids, offsets, order = query_offsets(qid, len(y))
            names = ids.tolist()
            if order is not None:
                X, y = X[order], y[order]
                weight = None if weight is None else weight[order]
            weights = weight
            if weight is not None and self.kind != "classes":
                weights = first_of_queries(weight, offsets)
        elif weight is not None and self.kind == "ranking":
            weights = first_of_queries(weight, np.array([0, len(y)]))
        rows = ArrayRows(X, y, offsets, names, weights, self.describe())
        return ShardOf(rows, self.kind, self.loss, self.n_jobs).load()

    def describe(self) -> str:
        """Numbers of chunks."""
        return f"chunk {self.first} of X" if self.first == self.last else f"chunks {self.first} to {self.last} of X"


def rows_of_chunks(
    parts: Sequence[Any], names: Sequence[Any] | None, columns: Sequence[str], first: int | None = None
) -> tuple[Any, list[NDArray[Any]]]:
    """Features of chunks below each other, and what else these have, the same columns in each; ``first`` is their number."""
    width = 1 + len(columns)
    features: list[Any] = []
    found: list[list[NDArray[Any]]] = [[] for _ in columns]
    for k in range(0, len(parts), width):
        X, *others = parts[k : k + width]
        where = "a chunk" if first is None else f"chunk {first + k // width}"
        rows = numeric_features(X, names, where)
        features.append(rows)
        for name, values, kept in zip(columns, others, found, strict=True):
            column = plain_column(values, name)
            if len(column) != rows.shape[0]:
                raise ValueError(
                    f"{where} of X has {rows.shape[0]} rows and that of {name} {len(column)}; both need the same chunks: call "
                    "compute_chunk_sizes() on both first, or make both from one frame"
                )
            kept.append(column)
    return stacked(features), [np.concatenate(kept) for kept in found]


def first_of_queries(weights: NDArray[Any], offsets: Ints) -> NDArray[Any]:
    """The weight of every query, which is that of all of its samples."""
    if weights.dtype.kind not in "fiub" or np.isnan(weights).any():
        raise ValueError("sample_weight holds text or missing values; give every query a number")
    sizes = np.diff(offsets)
    first = weights[offsets[:-1][sizes > 0]]
    if (weights != np.repeat(first, sizes[sizes > 0])).any():
        raise ValueError("sample_weight is the weight of a query, so all samples of a query must have the same; they differ")
    return np.asarray(first, dtype=np.float64) if (sizes > 0).all() else np.ones(len(sizes))


def numeric_features(X: Any, names: Sequence[Any] | None, where: str) -> Any:
    """Rows of numbers, float32 or float64, of a chunk of an array or of a frame."""
    if names is not None:
        X = X[list(names)]
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        text = [name for name, kind in X.dtypes.items() if kind.kind not in "fiub"]
        if text:
            raise ValueError(
                f"column {text[0]!r} of {where} of X holds {X.dtypes[text[0]]}, not numbers; encode it, or leave it out of X"
            )
        single = all(kind == np.float32 for kind in X.dtypes)
        return np.ascontiguousarray(X.to_numpy(dtype=np.float32 if single else np.float64))
    _refuse_masked(X, f"{where} of X")
    rows: Any
    if hasattr(X, "tocsr"):
        rows = sparse.csr_array(X)
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"{where} of X has shape {rows.shape}; rows of features are needed, shape (n, d)")
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"{where} of X holds {rows.dtype}, not numbers; encode it first")
    return np.ascontiguousarray(rows, dtype=rows.dtype if rows.dtype in (np.float32, np.float64) else np.float64)


def _refuse_masked(values: Any, what: str) -> None:
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise ValueError(f"{what} has masked entries; fill them, or leave these rows out")


def plain_column(values: Any, name: str) -> NDArray[Any]:
    """Labels, queries or weights of a chunk: numbers, or text of one kind."""
    _refuse_masked(values, name)
    if hasattr(values, "columns"):
        if len(values.columns) != 1:
            raise ValueError(f"{name} is a frame of {len(values.columns)} columns; pass one of them")
        values = values.iloc[:, 0]
    if getattr(getattr(values, "dtype", None), "kind", "O") not in "fiubUS" and len(values):
        values = np.asarray([str(value) if isinstance(value, str) else value for value in values])
    column = np.asarray(values)
    if column.dtype == object and len(column):
        raise ValueError(f"{name} holds values of several kinds, or missing ones; all must be numbers, or all text")
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{name} has chunks of shape {column.shape}; one value for every row is needed")
    return column


def stacked(features: Sequence[Any]) -> Any:
    """Rows of chunks below each other; of one, as they are."""
    if len(features) == 1:
        return features[0]
    if any(sparse.issparse(rows) for rows in features):
        return sparse.csr_array(sparse.vstack(features, format="csr"))
    return np.concatenate(features)


class Chunked(NamedTuple):
    """A Dask collection as chunks of rows.

    Attributes
    ----------
    chunks : list of Delayed
    rows : list of int, or None
        How many rows each has, if that is known.
    """

    chunks: list[Any]
    rows: list[int] | None


class Shards(NamedTuple):
    """What an engine needs: sources, and the chunks that each is made of; and what is known of the features."""

    sources: list[ChunkShard]
    parts: list[list[Any]]
    names: tuple[Any, ...] | None


def is_frame(X: Any) -> bool:
    """Whether it is a Dask data frame."""
    # A Delayed has every attribute; a series knows its name, as the one of its columns.
    is_lazy = is_dask_collection(X) and not isinstance(X, Delayed)
    return is_lazy and hasattr(X, "npartitions") and hasattr(X, "columns") and getattr(X, "ndim", 2) == 2


def shards_of(
    X: Any,
    y: Any,
    qid: Any = None,
    sample_weight: Any = None,
    *,
    n_shards: int,
    kind: Kind,
    loss: Any = None,
    n_jobs: int | None = None,
    group: str = "qid",
    trained: Sequence[Any] | None = None,
) -> Shards:
    """Shards of Dask collections, at most ``n_shards``.

    Parameters
    ----------
    X : Dask array of shape (n, d), or Dask data frame
        Chunks of any sizes; columns are brought together.
    y, qid, sample_weight : Dask array or series of length n; of a frame, names of its columns
        In the chunks of X, or in others if the sizes of all are known.
    group : str
        What messages call ``qid``.
    trained : sequence of str, optional
        Columns of a frame that a model was trained with, in that order; others are left out.

    Examples
    --------
    >>> import dask.array as da
    >>> made = shards_of(da.ones((10, 2), chunks=(3, 1)), da.zeros(10), n_shards=2, kind="ranking")
    >>> [source.describe() for source in made.sources], [len(parts) for parts in made.parts]
    (['chunks 0 to 1 of X', 'chunks 2 to 3 of X'], [4, 4])
    """
    names: tuple[Any, ...] | None = None
    others = {"y": y, "qid": qid, "sample_weight": sample_weight}
    if is_frame(X):
        X, others, names = _of_frame(X, others, group, trained)
    given = {name: value for name, value in others.items() if value is not None}
    if "y" not in given:
        raise ValueError("y is None; labels are needed, a Dask array or the name of a column of the frame")
    features = _chunked(X, "X")
    called = {name: group if name == "qid" else name for name in given}
    columns = [_alike(_chunked(value, called[name], features), features, called[name]) for name, value in given.items()]
    table = list(zip(features.chunks, *(column.chunks for column in columns), strict=True))
    sources, parts = [], []
    for first, last in _groups(features, n_shards):
        sources.append(ChunkShard(first, last, tuple(given), names, kind, loss, n_jobs, group))
        parts.append([part for chunk in table[first : last + 1] for part in chunk])
    return Shards(sources, parts, names)


def trained_columns(frame: Any, trained: Sequence[Any]) -> list[Any]:
    """The columns that a model was trained with, all of which a frame must have."""
    for name in trained:
        if name not in frame.columns:
            raise ValueError(f"X has no column {name!r}, which the model was trained with; add it")
    return list(trained)


def _of_frame(
    frame: Any, others: dict[str, Any], group: str, trained: Sequence[Any] | None
) -> tuple[Any, dict[str, Any], tuple[Any, ...]]:
    """The frame, and columns of it where they are named; which of the rest are features."""
    named = {name: value for name, value in others.items() if isinstance(value, str)}
    known = list(frame.columns)
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise ValueError(f"X has several columns {twice!r}; give columns different names")
    for name, column in named.items():
        if column not in known:
            shown = ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
            name = group if name == "qid" else name
            raise ValueError(f"{name}={column!r} is not a column of X, which has {shown}; name one of them, or pass a series")
    features = tuple(column for column in known if column not in named.values())
    if trained is not None:
        features = tuple(trained_columns(frame, trained))
    if not features:
        raise ValueError(f"X has no columns besides those that y, {group} and sample_weight name; features are needed")
    return frame, {name: frame[value] if isinstance(value, str) else value for name, value in others.items()}, features


def _chunked(values: Any, name: str, like: Chunked | None = None) -> Chunked:
    if not is_dask_collection(values):
        what = "a Dask array or data frame" if name == "X" else "a Dask array or series, as X is"
        raise TypeError(
            f"{name} must be {what}, not {type(values).__name__}; make one with dask.array.from_array({name}, chunks=...), or "
            "use the estimator of the same name without Dask"
        )
    if isinstance(values, Delayed) or not hasattr(values, "chunks"):
        is_part = not isinstance(values, Delayed) and hasattr(values, "to_delayed") and hasattr(values, "partitions")
        if not is_part or (name == "X" and getattr(values, "ndim", 2) != 2):
            wanted = "rows of features, a Dask array of shape (n, d) or a data frame"
            wanted = wanted if name == "X" else "a Dask array, or a data frame or one of its columns"
            raise TypeError(f"{name} is a {type(values).__name__}; pass {wanted}")
        return Chunked(list(values.to_delayed()), None)
    array = values
    if array.ndim == 2 and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    if name == "X" and array.ndim != 2:
        raise ValueError(f"X has shape {array.shape}; rows of features are needed, shape (n, d)")
    if name == "X" and array.shape[1] == 0:
        raise ValueError(f"X has shape {array.shape}, and so no features; at least one is needed")
    known = not any(math.isnan(size) for size in array.chunks[0])
    if like is not None and known and like.rows is not None and list(array.chunks[0]) != like.rows:
        if sum(array.chunks[0]) != sum(like.rows):
            lengths = f"{name} has {sum(array.chunks[0])} rows and X has {sum(like.rows)}"
            raise ValueError(f"{lengths}; one is needed for every row of X")
        array = array.rechunk({0: tuple(like.rows)})
    return Chunked(array.to_delayed().ravel().tolist(), list(array.chunks[0]) if known else None)


def _alike(column: Chunked, features: Chunked, name: str) -> Chunked:
    if len(column.chunks) == len(features.chunks):
        return column
    raise ValueError(
        f"X has {len(features.chunks)} chunks and {name} has {len(column.chunks)}, and the sizes of some are not known; call "
        "compute_chunk_sizes() on the Dask arrays first, or make all from one frame"
    )


def _groups(features: Chunked, n_shards: int) -> list[tuple[int, int]]:
    """First and last chunk of every shard: neighbours, with about as many rows each."""
    if n_shards < 1:
        raise ValueError(f"n_shards={n_shards} must be at least 1")
    sizes = [1] * len(features.chunks) if features.rows is None else [max(1, rows) for rows in features.rows]
    ends = np.cumsum(sizes)
    wanted = ends[-1] * np.arange(1, n_shards + 1) / n_shards
    last = sorted({int(k) for k in np.minimum(np.searchsorted(ends, wanted), len(sizes) - 1)} | {len(sizes) - 1})
    return list(zip([0, *(k + 1 for k in last[:-1])], last, strict=True))


# ---- sequences, which stay whole ----------------------------------------------------------------------------------------------


class _Ends(NamedTuple):
    """What is known of the ids of a chunk: rows, how many of them have the id of the first, and all ids in order."""

    rows: int
    head: int
    ids: NDArray[Any]


class Whole(NamedTuple):
    """Parts whose sequences are whole, in the order of their rows.

    Attributes
    ----------
    parts : list of lists of Delayed
    rows : list of int
        How many each has.
    """

    parts: list[list[Any]]
    rows: list[int]


def gathered(client: Any, tasks: Sequence[Any]) -> list[Any]:
    """What tasks come to; nothing stays on the workers, also if one fails and somebody keeps the error."""
    futures = client.compute(list(tasks))
    try:
        return list(client.gather(futures))
    finally:
        for future in futures:
            future.release()


def kept_whole(client: Any, made: Shards) -> Whole:
    """The parts of shards, of which those rows that go on with a sequence from before belong to the shard where it begins.

    One look at the ids of all chunks is needed, and these come to the client, one for every sequence.
    """
    width = 1 + len(made.sources[0].columns)
    at = 1 + made.sources[0].columns.index("qid")
    chunks = [parts[k : k + width] for parts in made.parts for k in range(0, len(parts), width)]
    owners = [g for g, parts in enumerate(made.parts) for _ in range(len(parts) // width)]
    ends = gathered(client, [delayed(_ends_of)(chunk[at], number) for number, chunk in enumerate(chunks)])
    pieces: list[list[tuple[int, int, int]]] = [[] for _ in made.parts]
    seen: dict[Any, int] = {}
    owner, last = 0, None
    for number, (found, own) in enumerate(zip(ends, owners, strict=True)):
        if not found.rows:
            continue
        ids = found.ids.tolist()
        goes_on = last is not None and ids[0] == last
        for name in ids[goes_on:]:
            if name in seen:
                raise ValueError(
                    f"sequence {name!r} is in chunks {seen[name]} and {number} of X, with others in between; put the rows of a "
                    "sequence next to each other, for instance by sorting"
                )
            seen[name] = number
        head = found.head if goes_on and owner != own else 0
        if head:
            pieces[owner].append((number, 0, head))
        if head < found.rows:
            pieces[own].append((number, head, found.rows))
            owner = own
        last = ids[-1]
    parts = [
        [_cut(part, first, end, ends[number].rows) for number, first, end in own for part in chunks[number]] for own in pieces
    ]
    return Whole(parts, [sum(end - first for _, first, end in own) for own in pieces])


def _ends_of(values: Any, number: int) -> _Ends:
    ids = plain_column(values, "sequence")
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1]))) if len(ids) else np.zeros(0, dtype=int)
    heads = ids[starts]
    if len(np.unique(heads)) < len(heads):
        raise ValueError(
            f"chunk {number} of X has rows of the same sequence in several places; put the rows of a sequence next to each "
            "other, for instance by sorting"
        )
    return _Ends(len(ids), int(starts[1] if len(starts) > 1 else len(ids)), heads)


def _cut(part: Any, first: int, end: int, rows: int) -> Any:
    return part if (first, end) == (0, rows) else delayed(_between)(part, first, end, rows)


def _between(values: Any, first: int, end: int, rows: int) -> Any:
    if values.shape[0] != rows:
        raise ValueError(
            f"a chunk of X has {values.shape[0]} rows, and those of what belongs to it {rows}; both need the same chunks: call "
            "compute_chunk_sizes() on both first, or make both from one frame"
        )
    return values.iloc[first:end] if hasattr(values, "iloc") else values[first:end]
