"""Small text files: tables with a header, the labels of svmlight/LETOR files, one score per line.

All readers take plain or gzipped UTF-8 and name the file and the line when something is wrong.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class DataError(ValueError):
    """A file that cannot be used, with its place and a remedy."""


def _lines(path: Path) -> Iterator[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text file in UTF-8 ({error.reason})") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise DataError(f"{path}: not a complete gzip file ({error})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _number(text: str, path: Path, line: int, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DataError(f"{path}, line {line}: {what} {text!r} is not a number") from None
    if not math.isfinite(value):
        raise DataError(f"{path}, line {line}: {what} {text!r} is not finite")
    return value


def read_columns(path: Path, numeric: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[np.generic]]:
    """Columns of a comma- or tab-separated table with a header line.

    Parameters
    ----------
    path : Path
        The table.
    numeric : sequence of str
        Columns that must be there and hold numbers.
    optional : sequence of str
        Columns of text that are read where they exist.

    Returns
    -------
    dict
        From column name to an array.
    """
    lines = _lines(path)
    header = next(lines, None)
    if header is None:
        raise DataError(f"{path}: is empty; a header line and at least one row are needed")
    delimiter = "\t" if "\t" in header else ","
    names = next(csv.reader([header], delimiter=delimiter))
    missing = [name for name in numeric if name not in names]
    if missing:
        raise DataError(f"{path}, line 1: there is no column {missing[0]!r}; the header has {', '.join(map(repr, names))}")
    wanted = {name: names.index(name) for name in [*numeric, *optional] if name in names}
    values: dict[str, list[float | str]] = {name: [] for name in wanted}
    reader = csv.reader(lines, delimiter=delimiter)
    for row in reader:
        line = reader.line_num + 1
        if not row:
            continue
        if len(row) != len(names):
            raise DataError(f"{path}, line {line}: {len(row)} fields, but the header has {len(names)}")
        for name, column in wanted.items():
            text = row[column].strip()
            values[name].append(_number(text, path, line, name) if name in numeric else text)
    if not values[numeric[0]]:
        raise DataError(f"{path}: has a header but no rows")
    return {name: np.array(column) for name, column in values.items()}


def read_labels(path: Path) -> tuple[NDArray[np.float64], NDArray[np.str_] | None]:
    """Labels and query ids of a svmlight/LETOR file (``label qid:Q index:value ... # comment``), features passed over.

    Returns
    -------
    labels : array of shape (n,)
        First field of every line.
    qid : array of shape (n,), or None
        None if no line has a query.
    """
    labels: list[float] = []
    queries: list[str] = []
    for line, text in enumerate(_lines(path), start=1):
        fields = text.split("#", 1)[0].split(None, 2)
        if not fields:
            continue
        labels.append(_number(fields[0], path, line, "label"))
        if len(fields) > 1 and fields[1].startswith("qid:"):
            queries.append(fields[1][4:])
        if queries and len(queries) != len(labels):
            raise DataError(f"{path}, line {line}: some lines have a qid and some have not; give every line one, or none")
    if not labels:
        raise DataError(f"{path}: holds no samples")
    return np.array(labels), np.array(queries) if queries else None


def read_scores(path: Path) -> NDArray[np.float64]:
    """One number per line, as ``svm_rank_classify`` and others write their predictions."""
    scores = [_number(text.strip(), path, line, "score") for line, text in enumerate(_lines(path), start=1) if text.strip()]
    if not scores:
        raise DataError(f"{path}: holds no scores")
    return np.array(scores)
