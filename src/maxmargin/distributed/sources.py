"""Rows of many files, shared out: every shard is told by a few names and numbers which part of which file is its own.

Files are not read to share them out; of tables the header is looked at, of Parquet the footer, of svmlight the first lines. Plain
svmlight files are cut anywhere between their lines, Parquet between row groups, all others stay whole. Queries stay whole too: a
query belongs to the shard in whose part it begins (see :mod:`maxmargin.io.byte_ranges`). A shard in whose part nothing
begins is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from maxmargin._utils import ArgumentError, Setting, Words
from maxmargin.core import bad_row
from maxmargin.distributed.rows import Rows
from maxmargin.io import (
    READERS,
    DataError,
    Encoding,
    Files,
    RankingData,
    RowGroups,
    Table,
    Wanted,
    blocks,
    bytes_between,
    check_numbering,
    choose,
    column_names,
    expand,
    file_of_queries,
    first_split,
    format_suffix,
    glance,
    is_compressed,
    is_table,
    is_url,
    load_svmlight,
    load_svmlight_lines,
    load_svmlight_part,
    opened,
    opened_raw,
    owned,
    read_parquet,
    read_table,
    row_group_bytes,
    stamp,
    true_or_false,
)

# Bytes of files that a shard has if nobody says how many shards there are to be.
_USUAL = 256 << 20
# How many files are asked whether features are numbered from 0.
_ASKED = 16

_PARQUET = (".parquet", ".pq")


class Part(NamedTuple):
    """A part of a file that was so many bytes long and modified then: bytes ``first`` to ``last``, of Parquet row groups."""

    file: str
    bytes: int
    modified: int | str | None
    first: int
    last: int

    def describe(self) -> str:
        """For messages.

        >>> Part("a.svm", 100, None, 0, 50).describe(), Part("a.svm", 100, None, 0, 100).describe()
        ('a.svm, bytes 0 to 49', 'a.svm')
        """
        if format_suffix(self.file) in _PARQUET:
            return f"{self.file}, row groups {self.first} to {self.last - 1}"
        whole = self.first == 0 and self.last == self.bytes
        return self.file if whole else f"{self.file}, bytes {self.first} to {self.last - 1}"


@dataclass(frozen=True)
class Reading:
    """How files are read, the same for all of them; made by :func:`share_out`."""

    dtype: str = "float64"
    queries: bool = False
    whole_queries: bool = True
    # Of svmlight files.
    zero_based: bool = False
    n_features: int | None = None
    # Of tables: columns, and what those that are not numbers hold.
    label: str | None = None
    query: str | None = None
    features: tuple[str, ...] | None = None
    kinds: tuple[tuple[str, Any], ...] | None = None
    asked_by: str = ""

    def wanted(self) -> Wanted:
        """Columns of a table."""
        kinds: dict[str, Any] | None = None
        if self.kinds is not None:
            kinds = {name: list(kind) if isinstance(kind, tuple) else kind for name, kind in self.kinds}
        return Wanted(self.label, self.query, self.features, asked_by=self.asked_by, kinds=kinds)


@dataclass(frozen=True)
class PartsOfFiles:
    """A source of rows: parts of files, one below the other. Small, and can be pickled.

    Attributes
    ----------
    parts : tuple of Part
    reading : Reading
    size : int
        Bytes to read, about.
    """

    parts: tuple[Part, ...]
    reading: Reading
    size: int = 0

    def describe(self) -> str:
        """For messages: files, and which of their bytes or row groups."""
        texts = [part.describe() for part in self.parts]
        more = f" and {len(texts) - 3} more" if len(texts) > 4 else ""
        return "; ".join(texts[:3] if more else texts) + more or "no file"

    def load_rows(self) -> Rows:
        """Read the rows; a DataError if a file is not as long as it was when it was shared out."""
        for part in self.parts:
            check_length(part, stamp(part.file).bytes)
        return _joined([_load(part, self.reading) for part in self.parts], self.reading, self.describe())

    def with_features(self, n_features: int) -> PartsOfFiles:
        """The same rows with so many columns, of svmlight files."""
        return replace(self, reading=replace(self.reading, n_features=n_features))


def share_out(
    files: Files,
    shards: int | None = None,
    *,
    label: str | None = None,
    label_needed: bool = True,
    query: str | None = None,
    query_needed: bool = True,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    encoding: Encoding | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    n_features: int | None = None,
    dtype: DTypeLike = np.float64,
    whole_queries: bool = True,
) -> list[PartsOfFiles]:
    r"""Sources of rows for shards, about the same number of bytes for each, in the order of the files.

    Parameters
    ----------
    files : path, glob or URL, or a list of them
        svmlight/LETOR files, or tables: ``.csv``, ``.tsv``, ``.parquet``; plain, or text in ``.gz`` or ``.bz2``. All of one kind.
    shards : int, optional
        How many; by default as many as have 256 MB each. Fewer come out where files cannot be cut.
    label, query, features, drop, encoding
        Columns of tables, as in :func:`~maxmargin.io.load_table`. Columns of text need ``encoding``: categories in order of
        appearance would be others in every shard.
    label_needed : bool
        False reads no labels of tables without ``label``; they become NaN.
    query_needed : bool
        Whether the column of the queries has to be there.
    zero_based : bool or "auto"
        How features of svmlight files are numbered. "auto" looks at the beginning of some files; if feature 0 occurs only
        later, reading ends with an error that says so.
    n_features : int, optional
        Columns of svmlight files; without it every shard has as many as its own rows need.
    dtype : float64 or float32
        Of features; labels are always float64.
    whole_queries : bool
        False cuts queries wherever a part ends; parts of the same query then have the same name on several shards.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.svm")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"1 qid:7 1:1\n0 qid:7 1:2\n1 qid:8 1:3\n0 qid:8 2:4\n")
    ...     sources = share_out(path, 2)
    ...     [source.load_rows().names for source in sources]
    [[7], [8]]
    """
    if shards is not None and shards < 1:
        raise ArgumentError("shards", f"shards={shards} must be at least 1")
    check_numbering(zero_based, n_features)
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ArgumentError("dtype", f"dtype={np.dtype(dtype)} must be float64 or float32")
    names = expand(files)
    for name in names:
        if is_url(name) and format_suffix(name) in READERS:
            raise DataError(f"{name}: its format is read from files of this machine only", "copy it here", "files")
    tables = [name for name in names if is_table(name)]
    if tables and len(tables) < len(names):
        other = next(name for name in names if name not in tables)
        raise DataError(f"{tables[0]} is a table, and {other} is not", "take files of one format", "files")
    reading = Reading(np.dtype(dtype).name, whole_queries=whole_queries, n_features=n_features)
    if tables:
        if label is None and label_needed:
            raise ArgumentError("label", f"{names[0]} is a table", "pass label=, the name of the column of its labels")
        wanted = Wanted(label, query, features, query_needed=query_needed, drop=drop)
        laid_out = [_laid_out_table(name) for name in names]
        reading = _of_tables(reading, names, laid_out, wanted, encoding)
        extents = [table.extent for table in laid_out]
    else:
        extents, reading = _svmlight_files(names, reading, zero_based)
    return _cut(names, extents, shards, reading)


class _Extent(NamedTuple):
    """Length of a file in bytes, of which its parts are made, and where it may be cut; None stands for anywhere."""

    bytes: int
    modified: int | str | None
    cuts: list[int] | None
    in_groups: bool = False

    @property
    def length(self) -> int:
        return self.bytes if self.cuts is None else self.cuts[-1]

    def nearest(self, place: int) -> int:
        return place if self.cuts is None else min(self.cuts, key=lambda cut: (abs(cut - place), cut))

    def part(self, name: str, first: int, last: int) -> Part:
        if self.in_groups and self.cuts is not None:
            first, last = self.cuts.index(first), self.cuts.index(last)
        return Part(name, self.bytes, self.modified, first, last)


class _LaidOut(NamedTuple):
    extent: _Extent
    columns: list[str]


def _laid_out_table(name: str) -> _LaidOut:
    known = stamp(name)
    if format_suffix(name) in _PARQUET:
        with opened_raw(name) as file:
            sizes, columns = row_group_bytes(_named(file, name))
        return _LaidOut(_Extent(*known, [0, *accumulate(max(1, size) for size in sizes)], in_groups=True), columns)
    with opened(name) as source:
        columns = column_names(source)
    return _LaidOut(_Extent(*known, [0, known.bytes]), columns)


def _named(file: Any, name: str) -> Any:
    """The file for pyarrow and for messages; those of fsspec have no name."""
    return name if not is_url(name) else _NamedFile(file, name)


class _NamedFile:
    """An open file with another name."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self.name = file, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)


def _of_tables(
    reading: Reading, names: list[str], laid_out: list[_LaidOut], wanted: Wanted, encoding: Encoding | None
) -> Reading:
    """The columns that the first table has are those that all must have."""
    if encoding is not None:
        if wanted.features is not None or wanted.drop:
            problem = "encoding says which columns are features of what kind"
            raise ArgumentError("encoding", problem, "leave out features and drop")
        wanted = wanted._replace(features=encoding.columns, kinds=encoding.kinds)
    features, query = choose(laid_out[0].columns, wanted, names[0])
    kinds: tuple[tuple[str, Any], ...] | None = None
    if encoding is None and format_suffix(names[0]) not in _PARQUET:
        with opened(names[0]) as source:
            # Of all shards alike; and whoever reads other files for the same model has to know.
            kinds = tuple((name, "boolean") for name in true_or_false(source, features)) or None
    if encoding is not None:
        kinds = tuple((name, tuple(kind) if isinstance(kind, list) else kind) for name, kind in encoding.kinds.items())
    reading = replace(
        reading, label=wanted.label, query=query, features=tuple(features), kinds=kinds, queries=query is not None,
        asked_by=f"the first file, {names[0]}" if len(names) > 1 else "",
    )  # fmt: skip
    # Before anybody has read a row of the last file.
    for name, table in zip(names, laid_out, strict=True):
        choose(table.columns, reading.wanted(), name)
    return reading


def _svmlight_files(names: list[str], reading: Reading, zero_based: bool | str) -> tuple[list[_Extent], Reading]:
    extents: list[_Extent] = []
    zero = zero_based is True
    asked: dict[bool, str] = {}  # with queries, without: the first file that is so
    for name in names:
        known = stamp(name)
        whole = is_compressed(name) or format_suffix(name) in READERS
        if format_suffix(name) not in READERS and (len(asked) == 0 or len(extents) < _ASKED):
            seen = glance(name)
            zero = zero or (zero_based == "auto" and seen.has_zero)
            if seen.queries is not None:
                beside = not seen.queries and not is_url(name) and file_of_queries(name) is not None
                whole = whole or beside
                asked.setdefault(seen.queries or beside, name)
        elif not is_url(name) and file_of_queries(name) is not None:
            whole = True
        extents.append(_Extent(*known, [0, known.bytes] if whole else None))
    if len(asked) == 2:
        raise DataError(f"{asked[True]} has queries, and {asked[False]} has none; all files need them, or none")
    return extents, replace(reading, queries=True in asked, zero_based=zero)


def _cut(names: list[str], extents: list[_Extent], shards: int | None, reading: Reading) -> list[PartsOfFiles]:
    """Cut the files, laid end to end, into equal lengths, as nearly as they let themselves be cut."""
    starts = [0, *accumulate(extent.length for extent in extents)]
    total = starts[-1]
    if total == 0:
        raise DataError(f"{names[0]}{' and all others are' if len(names) > 1 else ' is'} empty; samples are needed")
    count = -(-total // _USUAL) if shards is None else shards
    cuts = {0, total}
    for k in range(1, count):
        place = total * k // count
        file = int(np.searchsorted(starts, place, side="right")) - 1
        cuts.add(starts[file] + extents[file].nearest(place - starts[file]))
    sources = []
    for begin, end in pairwise(sorted(cuts)):
        parts = [
            extent.part(name, max(begin, start) - start, min(end, start + extent.length) - start)
            for name, extent, start in zip(names, extents, starts[:-1], strict=True)
            if max(begin, start) < min(end, start + extent.length)
        ]
        sources.append(PartsOfFiles(tuple(parts), reading, end - begin))
    return sources


# ---- reading ------------------------------------------------------------------------------------------------------------------


def check_length(part: Part, found: int) -> None:
    """Complain about a file that has become longer or shorter."""
    if found != part.bytes:
        problem = f"{part.file}: has {found} bytes, but had {part.bytes} when it was shared out"
        raise DataError(problem, "do not change files that are in use; share them out, or pack them, again")


def _load(part: Part, reading: Reading) -> RankingData | Table:
    if is_table(part.file):
        return _load_table(part, reading)
    try:
        return _load_lines(part, reading)
    except DataError as error:
        if error.argument != "split_queries":
            raise
        raise DataError(error.problem, "put the samples of a query together; sort the file by its queries") from None


def _load_lines(part: Part, reading: Reading) -> RankingData:
    suffix, whole = format_suffix(part.file), part.first == 0 and part.last == part.bytes
    options: dict[str, Any] = {"zero_based": reading.zero_based, "n_features": reading.n_features, "dtype": reading.dtype}
    if suffix in READERS:
        data = READERS[suffix](part.file)
    elif whole and not is_url(part.file) and file_of_queries(part.file) is not None:
        data = load_svmlight(part.file, **options)
    elif is_compressed(part.file):
        with opened(part.file) as source, closing(blocks(source, True)) as content:
            data = load_svmlight_lines(content, part.file, **options)
    else:
        data = load_svmlight_part(
            part.file, part.first, part.last, part.bytes, queries=reading.queries and reading.whole_queries, **options
        )
    if len(data) and (data.qid is not None) != reading.queries:
        has, others = ("queries", "have none") if data.qid is not None else ("no queries", "have them")
        raise DataError(f"{part.describe()}: has {has}, and others {others}; give every line one, or none")
    return data


def _load_table(part: Part, reading: Reading) -> Table:
    wanted = reading.wanted()
    if format_suffix(part.file) in _PARQUET:
        with opened_raw(part.file) as file:
            groups = RowGroups(part.first, part.last, reading.whole_queries)
            table = read_parquet(_named(file, part.file), wanted, groups)
    else:
        with opened(part.file) as source:
            table = read_table(source, wanted)
    texts = [name for name, kind in table.encoding.kinds.items() if isinstance(kind, list)]
    if reading.kinds is None and texts:
        problem = f"{part.file}: column {texts[0]!r} holds text, whose categories would be others in every shard"
        drop = Setting("drop", [texts[0]])
        remedy: Words = ["leave it out with ", drop, ", or, in Python, pass the encoding of load_table"]
        raise DataError(problem, remedy, "drop")
    if table.qid is not None and table.query_names is not None and (row := first_split(table.qid)) is not None:
        place = f"row {row + 1} of {part.describe()}" if table.lines is None else f"{part.file}, line {table.lines[row]}"
        name = str(table.query_names[table.qid[row]])[:60]
        remedy = "put the samples of a query together; sort the table by its queries"
        raise DataError(f"{place}: query {name} has appeared before, with others in between", remedy)
    return table


def _joined(found: list[RankingData | Table], reading: Reading, where: str) -> Rows:
    """Rows one below the other; a query that goes on in the next file is one."""
    X = _stacked([data.X for data in found], reading, where)
    y = np.concatenate([np.zeros(0), *(data.y for data in found)])
    if not reading.queries:
        return Rows(X, y, None, None)
    names: list[Any] = []
    starts: list[NDArray[Any]] = []
    known: set[str] = set()
    row = 0
    for data in found:
        n = len(data.y)
        if n and data.qid is not None and data.query_names is not None:
            # Codes rise with first appearance, and every query stands together.
            begins = np.flatnonzero(np.diff(data.qid, prepend=-1))
            own = [data.query_names[code] for code in data.qid[begins]]
            goes_on = bool(names) and str(names[-1]) == str(own[0])
            for name in map(str, own[goes_on:]):
                if name in known:
                    problem = f"{where}: query {name[:60]} is in two files, with others in between"
                    raise DataError(problem, "put the samples of a query together, or give queries other names")
            known |= set(map(str, own))
            names += own[goes_on:]
            starts.append(begins[goes_on:] + row)
        row += n
    offsets = np.concatenate([*starts, np.array([row])]).astype(np.int64)
    # Integers if all are, as within a file.
    return Rows(X, y, offsets, names if all(isinstance(name, int) for name in names) else list(map(str, names)))


def _stacked(parts: list[Any], reading: Reading, where: str) -> Any:
    dtype = np.dtype(reading.dtype)
    if reading.features is not None or (parts and not any(hasattr(X, "indptr") for X in parts)):
        with np.errstate(over="ignore"):
            X = np.concatenate([np.ascontiguousarray(part, dtype=dtype) for part in parts])
        if dtype == np.float32 and (bad := bad_row(X)) is not None:
            problem = f"{where}: row {bad + 1} has a number that is too large for float32"
            raise DataError(problem, ["measure it in larger units, or read with ", Setting("dtype", "float64")], "dtype")
        return X
    width = max((part.shape[1] for part in parts), default=0) if reading.n_features is None else reading.n_features
    if not parts:
        return sparse.csr_array((0, width), dtype=dtype)
    parts = [sparse.csr_array(part, dtype=dtype) for part in parts]
    for part in parts:
        part.resize(part.shape[0], width)
    return parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr")


def checksum(part: Part, reading: Reading) -> int | None:
    """CRC-32 of the bytes that a part is read from; None for Parquet, whose row groups are in many places."""
    if format_suffix(part.file) in _PARQUET:
        return None
    with opened_raw(part.file) as file:
        begin, end = part.first, part.last
        if (begin, end) != (0, part.bytes):
            begin, end = owned(file, begin, end, part.bytes, reading.queries and reading.whole_queries)
        found = 0
        for block in bytes_between(file, begin, end):
            found = crc32(block, found)
        return found
