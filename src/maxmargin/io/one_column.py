"""One column of a table, whatever it holds: to group samples by it."""

from __future__ import annotations

import csv
import os
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.io.parquet import _opened
from maxmargin.io.source import DataError, lines, name_of
from maxmargin.io.table import _header, _is_parquet


def read_column(path: str | os.PathLike[str], column: str) -> NDArray[Any]:
    r"""The cells of a column of a ``.csv``, ``.tsv`` or Parquet file, shape (n,): text, or what Parquet has; None where blank.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("price,town\n3,Rome\n4,\n")
    ...     read_column(path, "town")
    array(['Rome', None], dtype=object)
    """
    if _is_parquet(path):
        with _opened(path) as file:
            _check_name(list(file.schema_arrow.names), column, os.fspath(path))
            cells = file.read(columns=[column]).column(0).to_pylist()
    else:
        name = name_of(path)
        with closing(lines(path)) as text:
            names, reader, *_ = _header(text, name)
            _check_name(names, column, f"{name}, line 1")
            place = names.index(column)
            try:
                cells = [row[place].strip() or None if place < len(row) else None for row in reader if row]
            except csv.Error as error:
                where = f"{name}, line {reader.line_num}"
                raise DataError(f"{where}: {error}; close quotes, and write two for one inside a field") from None
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _check_name(names: list[str], column: str, where: str) -> None:
    if names.count(column) != 1:
        times = "no column" if column not in names else f"{names.count(column)} columns"
        raise DataError(f"{where}: has {times} {column!r}; its columns are {', '.join(names)[:300]}")
