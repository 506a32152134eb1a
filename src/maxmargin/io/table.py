"""Tables with named columns: comma- or tab-separated text, and Parquet."""

from __future__ import annotations

import csv
import math
import os
import re
from array import array
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import Any, TypeGuard

import numpy as np

from maxmargin._utils import Setting
from maxmargin.io.columns import Table, Wanted, choose, name_columns
from maxmargin.io.encoding import Coder, Encoding, drop_column
from maxmargin.io.parquet import read_parquet
from maxmargin.io.queries import QueryCodes, as_integers, first_split
from maxmargin.io.ranking_data import RankingData, SplitQueries, check_split_queries, grouped, split_query
from maxmargin.io.source import DataError, Source, format_suffix, lines, name_of, number

# A label, then a query or the first feature, as no header has them.
SVMLIGHT_LINE = re.compile(r"\s*[+-]?[0-9.]+(e[+-]?[0-9]+)?\s+(qid|[0-9]+):[^\s,]+(\s|$)", re.IGNORECASE)


def load_table(
    path: Source,
    label: str,
    query: str | None = None,
    features: Sequence[str] | None = None,
    *,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    encoding: Encoding | None = None,
    split_queries: SplitQueries = "refuse",
) -> RankingData:
    r"""Samples of a table with a header: ``.csv`` or ``.tsv``, perhaps with ``.gz`` or ``.bz2``, or ``.parquet``.

    Text is in UTF-8, separated by commas, by semicolons where the header has more of them, or by tabs if it has one; lines may
    end in ``\n``, ``\r\n`` or ``\r``, blank lines are passed over. Every label is a finite number, or true or false; features
    also text, which is one-hot encoded (see :mod:`maxmargin.io.encoding`).

    Parameters
    ----------
    path : path, bytes or binary file
        Parquet by the suffix ``.parquet`` or ``.pq`` (needs pyarrow), text otherwise.
    label : str
        Column of the labels.
    query : str, optional
        Column of the queries, numbers or text.
    features : sequence of str, optional
        Columns of the features in the order wanted; by default all others, in the order of the table, but for numbers of rows
        and documents (``id``, ``docid``, ``doc_id``, ``document_id``, ``sample_id``, ``row_id``, the index that pandas writes).
    drop : sequence of str
        Columns that are no features.
    categorical : sequence of str
        Columns whose numbers are names, not sizes, and are one-hot encoded as text is.
    encoding : Encoding, optional
        That of training data, for columns that become the same features; ``features`` is not needed then.
    split_queries : "refuse", "group" or "keep"
        As in :func:`load_svmlight`.

    Returns
    -------
    RankingData
        With ``X`` a float64 array of shape (n, p).

    Examples
    --------
    >>> data = load_table(b"grade,who,length\n1,a,0.5\n0,a,2\n", label="grade", query="who")
    >>> data.X, data.y, data.feature_names
    (array([[0.5],
           [2. ]]), array([1., 0.]), ['length'])
    >>> data.qid, data.query_names
    (array([0, 0]), ['a'])
    """
    for name, columns in (("features", features), ("drop", drop), ("categorical", categorical)):
        if isinstance(columns, str):
            raise TypeError(f"{name}={columns!r} must be several columns; pass {[columns]!r}")
    wanted = Wanted(label, query, features, drop=drop, categorical=categorical)
    if encoding is not None:
        if features is not None or drop or categorical:
            raise ValueError("encoding says which columns are features of what kind; leave out features, drop and categorical")
        wanted = wanted._replace(features=encoding.columns, kinds=encoding.kinds)
    return load_wanted(path, wanted, split_queries)


def load_wanted(path: Source, wanted: Wanted, split_queries: SplitQueries = "refuse") -> RankingData:
    """As :func:`load_table`, with everything that can be said about columns."""
    check_split_queries(split_queries)
    table = read_table(path, wanted)
    names = table.query_names
    if split_queries == "refuse" and table.qid is not None and names is not None and (row := first_split(table.qid)) is not None:
        place = f"row {row + 1}" if table.lines is None else f"line {table.lines[row]}"
        query_name = str(names[table.qid[row]])[:60]
        raise split_query(f"{name_of(path)}, {place}: query {query_name} has appeared before, with others in between")
    data = RankingData(
        table.X, table.y, table.qid, names, feature_names=table.encoding.names(), label_name=wanted.label,
        query_column=table.query, encoding=table.encoding,
    )  # fmt: skip
    return grouped(data) if split_queries == "group" else data


def read_table(path: Source, wanted: Wanted) -> Table:
    """The columns wanted, rows as they stand."""
    if _is_parquet(path):
        table = read_parquet(path, wanted)
    else:
        with closing(lines(path)) as text:
            table = _read_rows(text, name_of(path), wanted)
    return table


def column_names(path: Source) -> list[str]:
    r"""Names in the header of a table in text.

    >>> column_names(b"grade,who\n1,a\n")
    ['grade', 'who']
    """
    with closing(lines(path)) as text:
        return _header(text, name_of(path))[0]


# Rows that tell whether a column is about truth.
_FIRST_ROWS = 100


def true_or_false(path: Source, features: Sequence[str]) -> list[str]:
    r"""Columns of a table in text whose first rows say ``true`` or ``false``; none if one of the others holds text.

    >>> true_or_false(b"a,b,c\n1,True,0\n2,false,1\n", ["a", "b", "c"]), true_or_false(b"a,b\nx,true\n", ["a", "b"])
    (['b'], [])
    """
    with closing(lines(path)) as text:
        names, reader = _header(text, name_of(path))
        places = {column: names.index(column) for column in features}
        try:
            rows = [row for row in islice(reader, _FIRST_ROWS) if len(row) == len(names)]
        except csv.Error:  # whoever reads all rows says where
            return []
    cells = {column: {row[place].strip().lower() for row in rows} for column, place in places.items()}
    found = [column for column, texts in cells.items() if texts and texts <= {"true", "false"}]
    others = [text for column, texts in cells.items() if column not in found for text in texts]
    return [] if any(not _is_number(text) for text in others) else found


def _is_number(text: str) -> bool:
    try:
        number(text)
    except ValueError:
        return text == ""
    return True


def _is_parquet(path: Source) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(path, str | os.PathLike) and format_suffix(path) in (".parquet", ".pq")


def _header(text: Iterable[str], name: str) -> tuple[list[str], Any]:
    """Column names, and a reader of the rows below."""
    rest = iter(text)
    first = next(rest, None)
    if first is None:
        raise DataError(f"{name}: is empty; a header line and at least one row are needed")
    if not first.strip():
        raise DataError(f"{name}, line 1: is blank; the first line has to be the header, with the names of the columns")
    if SVMLIGHT_LINE.match(first):
        raise DataError(
            f"{name}, line 1: looks like a line of a svmlight/LETOR file and not like a header; write a header, or read it as "
            "svmlight: with load_svmlight, or under a name other than .csv, .tsv and .parquet"
        )
    # Strict, or a quote that is never closed swallows the rest of the file.
    bare = re.sub(r'"[^"]*"', "", first)
    delimiter = "\t" if "\t" in bare else ";" if bare.count(";") > bare.count(",") else ","
    reader = csv.reader(chain([first], rest), delimiter=delimiter, strict=True)
    try:
        return next(reader), reader
    except (csv.Error, StopIteration) as error:
        raise DataError(f"{name}, line 1: not a header ({error}); close quotes, and write two for one inside a field") from None


def _read_rows(text: Iterable[str], name: str, wanted: Wanted) -> Table:
    names, reader = _header(text, name)
    features, query = choose(names, wanted, f"{name}, line 1")
    places = [names.index(column) for column in [*wanted.labels, *features]]
    coder = Coder(wanted.labels, features, wanted.kinds, wanted.categorical)
    n_labels = len(wanted.labels)
    query_place = None if query is None else names.index(query)
    labels, numbers, queries, ends = array("d"), array("d"), QueryCodes(), array("q")
    try:
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise DataError(
                    f"{name}, line {reader.line_num}: {len(row)} fields, but the header has {len(names)}; give every row one for "
                    "each column, and quote fields that contain the separator"
                )
            cells = [row[place] for place in places]
            place = f"{name}, line {reader.line_num}"
            values = _plain_numbers(cells) if coder.plain else coder.values(cells, place)
            if values is None:
                raise _bad_number(row, places, names, place, coder, named=wanted.features is not None)
            labels.append(values[0] if n_labels else math.nan)
            numbers.extend(values[n_labels:])
            ends.append(reader.line_num)
            if query_place is not None:
                queries.add(name_of_query := row[query_place].strip())
                if not name_of_query:
                    raise DataError(f"{place}: the query is blank; every row needs one")
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num}: {error}; close quotes, and write two for one inside a field") from None
    if not labels:
        raise DataError(f"{name}: has a header but no rows; samples are needed")
    X, encoding = coder.finish(name, np.asarray(numbers).reshape(len(labels), len(features)))
    qid, asked = queries.finish()
    if query is None:
        return Table(X, np.asarray(labels), None, None, encoding, None, ends)
    return Table(X, np.asarray(labels), qid, as_integers(asked), encoding, query, ends)


def _plain_numbers(cells: list[str]) -> list[float] | None:
    """Finite numbers; None if one is not."""
    together = "".join(cells)
    # One by one as in `number`, but asked once for all of them.
    if not together.isascii() or "_" in together:
        return None
    try:
        values = list(map(float, cells))
    except ValueError:
        return None
    return values if all(map(math.isfinite, values)) else None


def _bad_number(row: list[str], places: list[int], names: list[str], where: str, coder: Coder, *, named: bool) -> DataError:
    """What is wrong with a row; columns that somebody has named cannot be left out."""
    for k, place in enumerate(places):
        text = row[place].strip()
        try:
            if coder.is_coded(k) or math.isfinite(number(text)):
                continue
        except ValueError:
            if k < coder.n_labels:
                what = "is missing" if text == "" else f"{text[:60]!r} is not a number"
                numbers = "labels are numbers, or true and false: correct it, or name another column with "
                remedy: list[str | Setting] = [numbers, Setting("label")]
                return DataError(f"{where}: {names[place]} {what}", remedy, "label")
            if text == "":
                if named:
                    return DataError(f"{where}: {names[place]} is missing; fill in what is missing, or leave out this row")
                fill = "fill in what is missing, or leave out this row, or the column: "
                return drop_column(f"{where}: {names[place]} is missing", names[place], fill)
            hint = " (decimals are written with a point)" if re.fullmatch(r"[+-]?[0-9]*,[0-9]+", text) else ""
            problem = f"{where}: {names[place]} {text[:60]!r} is not a number{hint}"
            if named:
                return DataError(f"{problem}; correct it")
            return name_columns(problem, "correct it, ", Setting("drop", [names[place]]), " leaves the column out, or ")
        return DataError(f"{where}: {names[place]} {text!r} is not finite; leave out or impute what is missing")
    raise AssertionError("a bad number was found before")
