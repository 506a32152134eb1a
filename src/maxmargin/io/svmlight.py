"""Files in the format of svmlight, LIBSVM and LETOR: ``label qid:query index:value ... # comment``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from maxmargin import _core
from maxmargin._utils import Floats, Setting, Words, thread_count
from maxmargin.io.queries import Codes, Names, as_integers
from maxmargin.io.ranking_data import RankingData, SplitQueries, check_split_queries, grouped, split_query
from maxmargin.io.source import DataError, Source, blocks, name_of, read_scores

_PIECE_BYTES = 1 << 18


class FeatureIndexError(DataError):
    """A feature beyond those that were expected: its line, its index, and whether indices start at 0 or 1."""

    line: int
    index: int
    start: int


def load_svmlight(
    path: Source,
    *,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    split_queries: SplitQueries = "refuse",
    comments: bool = False,
    n_threads: int | None = None,
) -> RankingData:
    r"""Samples of a svmlight/LETOR file, on several threads and in little more memory than they take.

    Values are correctly rounded. Fields are separated by blanks or tabs, lines end in ``\n`` or ``\r\n``; a carriage return
    elsewhere is refused. Blank lines and lines that hold only a comment are passed over. Zeros that the file spells out are
    stored. What is wrong with a file is an error that names the line.

    Parameters
    ----------
    path : path, bytes or binary file
        Names that end in ``.gz`` or ``.bz2`` are unpacked. Where no line has a query and there is a file of the same name with
        ``.query`` or ``.group`` after it, as for LightGBM and XGBoost, that one has the sizes of the queries, one per line.
    zero_based : bool or "auto"
        Whether features are numbered from 0. "auto" says yes if index 0 occurs and no otherwise; say it yourself where a file
        may happen to lack the first feature.
    n_features : int, optional
        Number of columns; by default what the largest index calls for. For test data, pass that of the training data.
    dtype : float64 or float32
        Type of the values; labels are always float64.
    split_queries : "refuse", "group" or "keep"
        What to do if a query appears again after others: refuse the file, sort the rows so that queries stand together
        in order of first appearance (stable: rows of a query keep their order), or leave the rows as they are.
    comments : bool
        Keep the comment of every sample.
    n_threads : int, optional
        All cores by default; with 1 everything happens in the caller's thread.

    Returns
    -------
    RankingData
        With ``X`` a csr_array of shape (n, p).

    Raises
    ------
    DataError
        A ValueError: file, line, what is wrong and what to do.

    Examples
    --------
    >>> data = load_svmlight(b"2 qid:7 1:0.5 3:1 # docid = a\n0 qid:7 2:0.25\n", comments=True)
    >>> data.X.toarray(), data.y, data.docids
    (array([[0.5 , 0.  , 1.  ],
           [0.  , 0.25, 0.  ]]), array([2., 0.]), ['a', None])
    >>> data.qid.tolist(), data.query_names
    ([0, 0], [7])
    """
    check_split_queries(split_queries)
    check_numbering(zero_based, n_features)
    threads = thread_count(n_threads, "n_threads")
    parser = _parser(dtype)(True, comments, zero_based is not False, split_queries != "refuse", threads, _PIECE_BYTES)
    with closing(blocks(path, threads > 1)) as content:
        found = _parse(content, name_of(path), parser)
    _refuse_empty(found, name_of(path))
    qid, query_names = _queries(found, name_of(path)) or _queries_beside(path, len(found["labels"]))
    data = RankingData(
        X=_matrix(found, zero_based, n_features, name_of(path)),
        y=found["labels"],
        qid=qid,
        query_names=query_names,
        comments=_comments(found) if comments else None,
        zero_based=_is_zero_based(found, zero_based),
    )
    return grouped(data) if split_queries == "group" else data


def read_labels(path: Source, n_threads: int | None = None) -> tuple[Floats, Codes | None, Names | None]:
    """Labels and queries of a svmlight/LETOR file; what else is on the lines is passed over and not checked.

    Returns
    -------
    labels : array of shape (n,)
        First field of every line.
    qid : int64 array of shape (n,), or None
        Codes of the queries, in the order of the file; None if there are none.
    query_names : list of q int or str, or None
        Names of the queries by code.
    """
    threads = thread_count(n_threads, "n_threads")
    parser = _core.SvmlightParser64(False, False, True, True, threads, _PIECE_BYTES)
    with closing(blocks(path, threads > 1)) as content:
        found = _parse(content, name_of(path), parser)
    _refuse_empty(found, name_of(path))
    return found["labels"], *(_queries(found, name_of(path)) or _queries_beside(path, len(found["labels"])))


def load_svmlight_lines(
    content: Iterable[bytes],
    name: str,
    *,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    n_threads: int | None = None,
    lines_before: Callable[[], int] | None = None,
) -> RankingData:
    r"""Samples of some lines of a svmlight/LETOR file, perhaps none; a query must not appear again after others.

    Parameters
    ----------
    content : iterable of bytes
        Lines in full, in blocks of any sizes; the last one need have no end.
    name : str
        What errors call the file.
    zero_based, n_features, dtype, n_threads
        As in :func:`load_svmlight`.
    lines_before : callable, optional
        How many lines of the file come before these, for messages; asked only if something is wrong. Leave it out for lines that
        begin with the file: they may have a byte order mark.

    Examples
    --------
    >>> load_svmlight_lines([b"1 qid:7 1:0.5\n1 qi", b"d:8 2:1\n"], "part.svm").query_names
    [7, 8]
    >>> load_svmlight_lines([b"1 1:x"], "part.svm", lines_before=lambda: 41)
    Traceback (most recent call last):
    maxmargin.io.source.DataError: part.svm, line 42: value of feature 1 'x' is not a number; write features as index:value
    """
    check_numbering(zero_based, n_features)
    threads = thread_count(n_threads, "n_threads")
    parser = _parser(dtype)(True, False, zero_based is not False, False, threads, _PIECE_BYTES)
    shift: Callable[[], int] | None = None
    if lines_before is not None:
        counted = lines_before
        # A blank line, so that a byte order mark is none here.
        parser.feed(np.frombuffer(b"\n", dtype=np.uint8))

        def shift() -> int:
            return counted() - 1

    found = _parse(content, name, parser, shift)
    qid, names = _queries(found, name) or (None, None)
    X = _matrix(found, zero_based, n_features, name, shift)
    return RankingData(X=X, y=found["labels"], qid=qid, query_names=names, zero_based=_is_zero_based(found, zero_based))


def check_numbering(zero_based: bool | str, n_features: int | None) -> None:
    """Refuse what says nothing about columns."""
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based={zero_based!r} must be True, False or 'auto'")
    if n_features is not None and n_features < 0:
        raise ValueError(f"n_features={n_features} must not be negative")


def _parser(dtype: DTypeLike) -> type[_core.SvmlightParser64]:
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype={np.dtype(dtype)} must be float64 or float32")
    return _core.SvmlightParser32 if np.dtype(dtype) == np.float32 else _core.SvmlightParser64


def _parse(
    content: Iterable[bytes], name: str, parser: _core.SvmlightParser64, shift: Callable[[], int] | None = None
) -> dict[str, Any]:
    try:
        for block in content:
            parser.feed(np.frombuffer(block, dtype=np.uint8))
        return parser.finish()
    except _core.SplitQueryError as error:
        raise split_query(f"{name}, {_shifted(error, shift)}") from None
    except _core.ZeroIndexError as error:
        problem: Words = [f"{name}, {_shifted(error, shift)}, but ", Setting("zero_based", False), " says that they start at 1"]
        raise DataError(problem, ["pass ", Setting("zero_based", True)], "zero_based") from None
    except _core.TextError as error:
        raise DataError(f"{name}, {_shifted(error, shift)}") from None


def _shifted(error: _core.TextError, shift: Callable[[], int] | None) -> str:
    """What is wrong, with the number of the line in the whole file."""
    text = str(error)
    return text if shift is None else re.sub(r"^line (\d+)", lambda line: f"line {int(line[1]) + shift()}", text)


def _refuse_empty(found: dict[str, Any], name: str) -> None:
    if len(found["labels"]) == 0:
        raise DataError(f"{name}: holds no samples; at least one line such as '2 qid:7 1:0.5' is needed")


def _is_zero_based(found: dict[str, Any], zero_based: bool | str) -> bool:
    return zero_based is True or bool(found["has_zero"])


def _matrix(
    found: dict[str, Any], zero_based: bool | str, n_features: int | None, name: str, shift: Callable[[], int] | None = None
) -> Any:
    # Not at the top: scipy.sparse takes longer to load than the command needs for a small table.
    from scipy.sparse import csr_array

    start = 0 if _is_zero_based(found, zero_based) else 1
    needed = max(0, found["highest"] + 1 - start)
    if n_features is not None and needed > n_features:
        line = found["highest_line"] + (0 if shift is None else shift())
        error = FeatureIndexError(
            f"{name}, line {line}: feature index {found['highest']} is beyond n_features={n_features} "
            f"(indices start at {start}); raise n_features or leave it out"
        )
        error.line, error.index, error.start = line, found["highest"], start
        raise error
    columns, row_begin = found["columns"], found["row_begin"]
    if start:
        columns -= 1
    # One integer type for both, as scipy wants it.
    if len(columns) <= np.iinfo(np.int32).max:
        row_begin = row_begin.astype(np.int32)
    else:
        columns = columns.astype(np.int64)
    shape = (len(found["labels"]), needed if n_features is None else n_features)
    return csr_array((found["values"], columns, row_begin), shape=shape)


def _queries(found: dict[str, Any], name: str) -> tuple[Codes, Names] | None:
    if len(found["query"]) == 0:
        return None
    try:
        names = [text.decode() for text in found["query_names"]]
    except UnicodeDecodeError as error:
        start = bytes(error.object[:40])
        raise DataError(f"{name}: the query {start!r} is not text in UTF-8; save or convert the file in it") from None
    return found["query"], as_integers(names)


def file_of_queries(path: Source) -> str | None:
    """The file beside the data that has the sizes of their queries, if there is one."""
    if not isinstance(path, str | os.PathLike):
        return None
    return next((side for suffix in (".query", ".group") if os.path.isfile(side := f"{os.fspath(path)}{suffix}")), None)


def _queries_beside(path: Source, n: int) -> tuple[Codes | None, Names | None]:
    """Queries of a file beside the data, numbered from 1."""
    side = file_of_queries(path)
    if side is None:
        return None, None
    sizes = read_scores(side)
    if (sizes < 1).any() or (sizes % 1 != 0).any() or sizes.sum() != n:
        raise DataError(
            f"{side}: must hold the sizes of the queries of {name_of(path)}, whole numbers that add up to its {n} "
            f"samples, but adds up to {sizes.sum():g}; correct it, or take it away"
        )
    return np.repeat(np.arange(len(sizes)), sizes.astype(np.int64)), list(range(1, len(sizes) + 1))


def _comments(found: dict[str, Any]) -> list[str]:
    ends = [0, *found["comment_ends"].tolist()]
    return [found["comments"][begin:end].decode(errors="replace") for begin, end in pairwise(ends)]
