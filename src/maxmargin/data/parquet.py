"""Parquet files by way of pyarrow, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin._types import Floats
from maxmargin.data.columns import Table, Wanted, choose, name_columns
from maxmargin.data.source import DataError
from maxmargin.queries import QueryCodes

Path = str | os.PathLike[str]

_ANEW = "make or fetch it anew"


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file; whatever pyarrow finds wrong with it becomes a DataError."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{os.fspath(path)}: Parquet files need pyarrow: pip install 'maxmargin[parquet]'") from error
    with open(path, "rb") as source:
        try:
            with pyarrow.parquet.ParquetFile(source) as file:
                yield file
        except DataError:
            raise
        # Sizes and text in a damaged file can be anything.
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            raise DataError(f"{os.fspath(path)}: not a sound Parquet file ({str(error).strip()[:200]}); {_ANEW}") from error


def read_parquet(path: Path, wanted: Wanted) -> Table:
    """The columns wanted."""
    name = os.fspath(path)
    with _opened(path) as file:
        features, query = choose(list(file.schema_arrow.names), wanted, name)
        _check_numbers(file.schema_arrow, [*wanted.labels, *features], name)
        used = [*wanted.labels, *features, *([] if query is None else [query])]
        n = file.metadata.num_rows
        X, y, queries = np.empty((n, len(features))), np.full(n, np.nan), QueryCodes()
        row = 0
        for batch in file.iter_batches(columns=list(dict.fromkeys(used))):
            rows = slice(row, row + batch.num_rows)
            if wanted.label is not None:
                y[rows] = _numbers(batch, wanted.label, name, row)
            for k, column in enumerate(features):
                X[rows, k] = _numbers(batch, column, name, row)
            if query is not None:
                for asked in _queries(batch.column(query), name, row):
                    queries.add(asked)
            row += batch.num_rows
        if row != n:
            raise DataError(f"{name}: not a sound Parquet file (it has {row} rows and says {n}); {_ANEW}")
    qid, names = (None, None) if query is None else queries.finish()
    return Table(X, y, qid, names, features)


def _check_numbers(schema: Any, columns: list[str], name: str) -> None:
    from pyarrow import types

    for column in columns:
        kind = schema.field(column).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise name_columns(f"{name}: column {column!r} holds {kind} and not numbers")


def _numbers(batch: Any, column: str, name: str, row: int) -> Floats:
    values: Floats = batch.column(column).to_numpy(zero_copy_only=False).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        place = f"{name}, row {row + int(bad[0]) + 1}"
        raise DataError(f"{place}: {column} is missing or not finite; leave out or impute what is missing")
    return values


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
