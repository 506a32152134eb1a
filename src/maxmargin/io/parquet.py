"""Parquet files by way of pyarrow, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Floats
from maxmargin.io.columns import Table, Wanted, choose, name_columns
from maxmargin.io.encoding import Coder, drop_column
from maxmargin.io.queries import QueryCodes
from maxmargin.io.source import DataError, name_of

Path = str | os.PathLike[str]

_ANEW = "make or fetch it anew"


class RowGroups(NamedTuple):
    """Some row groups of a file, the one of number ``last`` not among them.

    With ``whole_queries`` the rows are those of the queries that begin in these groups, wherever they end.
    """

    first: int
    last: int
    whole_queries: bool


@contextmanager
def _opened(path: Path | IO[bytes]) -> Iterator[Any]:
    """The file; whatever pyarrow finds wrong with it becomes a DataError."""
    name = name_of(path)
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{name}: Parquet files need pyarrow: pip install 'maxmargin[parquet]'") from error
    with open(path, "rb") if isinstance(path, str | os.PathLike) else nullcontext(path) as source:
        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                yield file
        except DataError:
            raise
        # Sizes and text in a damaged file can be anything.
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise DataError(f"{name}: not a sound Parquet file ({str(error).strip()[:200]}); {_ANEW}") from error


def row_group_bytes(path: Path | IO[bytes]) -> tuple[list[int], list[str]]:
    """Sizes of the row groups in bytes, and the names of the columns."""
    with _opened(path) as file:
        about = file.metadata
        return [about.row_group(k).total_byte_size for k in range(about.num_row_groups)], list(file.schema_arrow.names)


def read_parquet(path: Path | IO[bytes], wanted: Wanted, groups: RowGroups | None = None) -> Table:
    """The columns wanted, of all rows or of some row groups, which may turn out to have none."""
    name = name_of(path)
    with _opened(path) as file:
        features, query = choose(list(file.schema_arrow.names), wanted, name)
        coder = Coder(wanted.labels, features, wanted.kinds, wanted.categorical)
        _settle(coder, file.schema_arrow, name)
        used = [*wanted.labels, *features, *([] if query is None else [query])]
        begin, n, batches = _rows(file, groups, list(dict.fromkeys(used)), query, name)
        if n == 0 and groups is None:
            raise DataError(f"{name}: has columns but no rows; samples are needed")
        empty = np.ones(len(features), dtype=bool)
        X, y, queries = np.empty((n, len(features))), np.full(n, np.nan), QueryCodes()
        row = 0
        for batch in batches:
            rows = slice(row, row + batch.num_rows)
            if wanted.label is not None:
                y[rows] = _numbers(batch, wanted.label, name, begin + row)
            for k, column in enumerate(features):
                place = k + len(wanted.labels)
                if coder.is_coded(place):
                    X[rows, k] = coder.column_values(place, _texts(batch.column(column)), begin + row, name)
                elif empty[k] and batch.column(column).null_count == batch.num_rows:
                    X[rows, k] = np.nan
                else:
                    X[rows, k] = _numbers(batch, column, name, begin + row)
                    empty[k] = False
                    _refuse_missing(X[:row, k], column, name, begin)
            if query is not None:
                for asked in _queries(batch.column(query), name, begin + row):
                    queries.add(asked)
            row += batch.num_rows
        if row != n:
            raise DataError(f"{name}: not a sound Parquet file (it has {row} rows and says {n}); {_ANEW}")
    for k, column in enumerate(features):
        if n > 0 and empty[k] and not coder.is_coded(k + len(wanted.labels)):
            raise drop_column(f"{name}: column {column!r} has no value at all, every cell is missing", column)
    qid, names = (None, None) if query is None else queries.finish()
    X, encoding = coder.finish(name, X)
    return Table(X, y, qid, names, encoding, query)


def _rows(file: Any, groups: RowGroups | None, columns: list[str], query: str | None, name: str) -> tuple[int, int, Any]:
    """The first row, how many there are, and batches of them."""
    if groups is None:
        return 0, file.metadata.num_rows, file.iter_batches(columns=columns)
    sizes = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    begin, end = sum(sizes[: groups.first]), sum(sizes[: groups.last])
    start, stop = begin, end
    if query is not None and groups.whole_queries:
        starts = [sum(sizes[:k]) for k in range(len(sizes))]

        def queries(k: int) -> list[Any]:
            cells = file.read_row_group(k, columns=[query]).column(0).combine_chunks()
            return list(map(str, _queries(cells, name, starts[k])))

        start = _query_start(queries, sizes, groups.first, begin)
        stop = start if start >= end else _query_start(queries, sizes, groups.last, end)
    if start >= stop:
        return start, 0, []
    # Groups that hold some of these rows.
    ends = np.cumsum(sizes)
    used = range(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, stop, side="left")) + 1)
    table = file.read_row_groups(list(used), columns=columns)
    table = table.slice(start - sum(sizes[: used[0]]), stop - start)
    return start, stop - start, table.to_batches()


def _query_start(queries: Callable[[int], list[Any]], sizes: list[int], group: int, row: int) -> int:
    """The first row, not before this one, with which a group begins, that has another query than the row in front of it."""
    before = next((k for k in range(group - 1, -1, -1) if sizes[k]), None)
    if before is None:
        return row
    known = queries(before)[-1]
    for k in range(group, len(sizes)):
        asked = queries(k)
        place = next((place for place, found in enumerate(asked) if found != known), None)
        if place is not None:
            return row + place
        row += sizes[k]
    return row


def _settle(coder: Coder, schema: Any, name: str) -> None:
    """What columns hold, by their types; complain about those that are neither numbers nor text."""
    from pyarrow import types

    for k, column in enumerate(coder.columns):
        kind = schema.field(column).type
        inner = kind.value_type if types.is_dictionary(kind) else kind
        words = types.is_string(inner) or types.is_large_string(inner)
        plain = types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner) or types.is_null(inner)
        coder.settle(k, "boolean" if types.is_boolean(inner) and k >= coder.n_labels else "text" if words else "number")
        if not plain and not (words and coder.is_coded(k) and k >= coder.n_labels):
            raise name_columns(f"{name}: column {column!r} holds {kind} and not numbers")


def _texts(column: Any) -> list[str]:
    """Cells as a table in text would have them."""
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _numbers(batch: Any, column: str, name: str, row: int) -> Floats:
    values: Floats = batch.column(column).to_numpy(zero_copy_only=False).astype(np.float64)
    _refuse_missing(values, column, name, row)
    return values


def _refuse_missing(values: Floats, column: str, name: str, row: int) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        place = f"{name}, row {row + int(bad[0]) + 1}"
        raise DataError(f"{place}: {column} is missing or not finite; leave out or impute what is missing")


def _queries(column: Any, name: str, row: int) -> list[int] | list[str]:
    def refuse(bad: Any, what: str) -> None:
        if np.any(bad):
            raise DataError(f"{name}, row {row + int(np.argmax(bad)) + 1}: the query is {what}; every row needs one")

    refuse(column.is_null().to_numpy(zero_copy_only=False), "missing")
    ids: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if ids.dtype.kind in "iub":
        return [int(value) for value in ids.tolist()]
    if ids.dtype.kind == "f":
        refuse(np.isnan(ids), "NaN")
    names = [str(value) for value in ids.tolist()]
    refuse([not text.strip() for text in names], "blank")
    return names
