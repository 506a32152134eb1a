r"""Parts of a svmlight/LETOR file, given by bytes: every line, and every query, is in one part, however the file is cut.

A part owns the lines that begin in it or, where queries are to stay whole, the queries that begin in it. Both are a matter of
where the first line *after a cut* is that begins something new, which depends on the file and the cut alone: two parts that meet
at a cut find the same place, and nothing before it has to be read but the line in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import IO, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from maxmargin import _core
from maxmargin._utils import Bytes
from maxmargin.io.places import opened, opened_raw
from maxmargin.io.ranking_data import RankingData
from maxmargin.io.source import DataError, blocks
from maxmargin.io.svmlight import load_svmlight_lines

_BLOCK = 1 << 20
_BACK = 1 << 14  # bytes in front of a cut in which the sample before it is looked for first
_GLANCE = 1 << 16


def line_start(file: IO[bytes], place: int, size: int) -> int:
    r"""Where the first line begins that does not begin before ``place``; the end of the file if there is none.

    Examples
    --------
    >>> import io
    >>> [line_start(io.BytesIO(b"ab\ncd\n"), place, 6) for place in range(7)]
    [0, 3, 3, 3, 6, 6, 6]
    """
    if place <= 0:
        return 0
    # The end of the line before may be right in front.
    at = place - 1
    file.seek(at)
    while at < size and (block := file.read(_BLOCK)):
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
    return size


def query_start(file: IO[bytes], place: int, size: int) -> int:
    r"""Where the first query begins that does not begin before ``place``; the end of the file if there is none.

    Examples
    --------
    >>> import io
    >>> text = b"1 qid:7\n0 qid:7\n1 qid:8\n"
    >>> [query_start(io.BytesIO(text), place, len(text)) for place in (0, 1, 8, 16, 17)]
    [0, 16, 16, 16, 24]
    """
    start = line_start(file, place, size)
    if start in (0, size):
        return start
    found, known = _query_before(file, start)
    if not found:
        return start
    file.seek(start)
    rest = b""
    while block := file.read(_BLOCK):
        text = rest + block
        whole = text.rfind(b"\n") + 1
        at = _core.next_query(_bytes(text[:whole]), known)
        if at < whole:
            return start + at
        start, rest = start + whole, text[whole:]
    return start + _core.next_query(_bytes(rest), known)


def _query_before(file: IO[bytes], start: int) -> tuple[bool, bytes | None]:
    """Whether there is a sample in front of a line, and its query."""
    length = _BACK
    while True:
        begin = max(0, start - length)
        file.seek(begin)
        text = _read(file, start - begin)
        # The first line may have begun earlier.
        whole = text[text.find(b"\n") + 1 or len(text) :] if begin else text
        found, query = _core.last_query(_bytes(whole))
        if found or begin == 0:
            return found, query
        length *= 4


def _bytes(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


def _read(file: IO[bytes], size: int) -> bytes:
    """So many bytes, or all there are; one call may give fewer."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def bytes_between(file: IO[bytes], first: int, last: int) -> Iterator[bytes]:
    """What is between two places of a file, in blocks."""
    file.seek(first)
    while first < last and (block := file.read(min(4 * _BLOCK, last - first))):
        first += len(block)
        yield block


def owned(file: IO[bytes], first: int, last: int, size: int, whole_queries: bool) -> tuple[int, int]:
    """The bytes of the lines that belong to the part ``first`` to ``last`` of a file, the latter not among them."""
    start = query_start if whole_queries else line_start
    begin = start(file, first, size)
    # A query that ends far behind the part, perhaps: then there is nothing that begins in it.
    return begin, begin if begin >= last else start(file, last, size)


def load_svmlight_part(
    name: str,
    first: int,
    last: int,
    size: int,
    *,
    queries: bool,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    n_threads: int | None = None,
) -> RankingData:
    r"""Samples of a part of a plain svmlight/LETOR file; perhaps none.

    Parameters
    ----------
    name : str
        The file, or a URL for fsspec.
    first, last : int
        The part owns what begins at or after byte ``first`` and before byte ``last``.
    size : int
        Bytes of the file.
    queries : bool
        Whether it owns whole queries; or else lines.
    zero_based, n_features, dtype, n_threads
        As in :func:`~maxmargin.io.load_svmlight`; "auto" may be another choice in another part.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.svm")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"1 qid:7 1:1\n0 qid:7 1:2\n1 qid:8 1:3\n")
    ...     [load_svmlight_part(path, *part, 36, queries=True).y.tolist() for part in ((0, 5), (5, 30), (30, 36))]
    [[1.0, 0.0], [1.0], []]
    """
    with opened_raw(name) as file:
        begin, end = owned(file, first, last, size, queries)

        def lines_before() -> int:
            return sum(block.count(b"\n") for block in bytes_between(file, 0, begin))

        return load_svmlight_lines(
            bytes_between(file, begin, end), name, zero_based=zero_based, n_features=n_features, dtype=dtype, n_threads=n_threads,
            lines_before=lines_before if begin else None,
        )  # fmt: skip


class Glance(NamedTuple):
    """What the first lines of a file say: whether samples have queries, and whether feature 0 occurs; None without samples."""

    queries: bool | None
    has_zero: bool


def glance(name: str) -> Glance:
    """Read the beginning of a file, up to the end of some line after its first sample."""
    text = b""
    with opened(name) as source, closing(blocks(source, False, _GLANCE)) as content:
        for block in content:
            text += block
            whole = text.rfind(b"\n") + 1
            if whole and _core.last_query(_bytes(text[:whole]))[0]:
                text = text[:whole]
                break
    try:
        data = load_svmlight_lines([text], name, n_threads=1)
    except DataError as error:
        # That a query comes back is found by whoever reads the file.
        if error.argument != "split_queries":
            raise
        return Glance(True, False)
    return Glance(None if len(data) == 0 else data.qid is not None, bool(data.zero_based))
