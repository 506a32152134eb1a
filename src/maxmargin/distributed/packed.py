"""Packed shards: rows of a shard in a folder, to be memory-mapped, so that they need not fit into memory and load at once.

A folder ``<name>.mmshard`` holds

- ``meta.json``: format, rows, features, dtype, sparse, queries (null if all rows of all shards are one list), the parts of files
  it was made from, how they were read, and the CRC-32 of every array;
- ``x.npy`` (rows in one piece, float32 or float64), or ``data.npy``, ``indices.npy`` (int32) and ``indptr.npy`` (int64);
- ``y.npy`` (float64), ``offsets.npy`` (int64, where queries begin) and, with queries, ``qid.npy``, their names.

It is written under another name and renamed at the end: there are no half-written shards.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from maxmargin import __version__
from maxmargin._utils import MAX_SAMPLES
from maxmargin.core import is_streamed, row_pieces, rows_between
from maxmargin.distributed.packed_meta import (
    FORMAT,
    META,
    PACK_AGAIN,
    as_json,
    changed_source,
    is_fresh,
    origin_of,
    packed_reading,
    read_meta,
)
from maxmargin.distributed.rows import Rows
from maxmargin.distributed.sources import PartsOfFiles, share_out
from maxmargin.io import DataError, Files, Names, SavedFileError

SUFFIX = ".mmshard"

_ABANDONED = 3600.0  # seconds after which nobody goes on with a folder that has not got its name
_NAME_BYTES = 1 << 30


# ---- writing ------------------------------------------------------------------------------------------------------------------


def write_packed(
    folder: str | os.PathLike[str], rows: Rows, source: PartsOfFiles | None = None, packing: str | None = None
) -> dict[str, Any]:
    """Write a packed shard, in one step, in the place of one that may be there; returns what its ``meta.json`` has.

    Parameters
    ----------
    folder : path
        Its name ends in ``.mmshard``.
    rows : Rows
    source : PartsOfFiles, optional
        Where they come from, to find out later whether that has changed.
    packing : str, optional
        Of which it is a shard: shards of several ones are not used together.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as where:
    ...     rows = Rows(np.eye(2, dtype=np.float32), np.array([1.0, 0.0]), None, None)
    ...     meta = write_packed(f"{where}/a.mmshard", rows)
    ...     [meta[key] for key in ("rows", "features", "dtype", "sparse", "queries")]
    [2, 2, 'float32', False, None]
    """
    return _write(Path(folder), rows, rows.X.shape[1], [rows.X], {**origin_of(source), "packing": packing})


def set_packing(folder: str | os.PathLike[str], packing: str) -> None:
    """Have a packed shard, which is as it should be, belong to a packing."""
    meta = read_meta(folder)
    if meta.get("packing") == packing:
        return
    path = Path(folder) / META
    other = path.with_name(f".{META}.{secrets.token_hex(6)}.tmp")
    try:
        with _synced(other) as file:
            file.write(json.dumps({**meta, "packing": packing}, indent=1).encode())
        os.replace(other, path)
    except BaseException:
        other.unlink(missing_ok=True)
        raise


def _write(target: Path, rows: Rows, width: int, blocks: Iterable[Any], origin: Mapping[str, Any]) -> dict[str, Any]:
    """Write the rows of X that come in blocks, dense or sparse as X is, with so many columns."""
    n, is_sparse = rows.X.shape[0], bool(sparse.issparse(rows.X))
    if target.suffix != SUFFIX:
        raise ValueError(f"{target} must end in {SUFFIX}")
    if n > MAX_SAMPLES or (is_sparse and rows.X.nnz > MAX_SAMPLES):
        what = f"{n} rows" if n > MAX_SAMPLES else f"{rows.X.nnz} numbers in sparse rows"
        raise DataError(f"{target}: a shard holds at most {MAX_SAMPLES}, but has {what}", "make more shards", "shards")
    if rows.weights is not None:
        raise ValueError("packed shards have no weights; leave them out, and give them when they are loaded")
    offsets = np.array([0, n]) if rows.offsets is None else rows.offsets
    arrays: dict[str, NDArray[Any]] = {"y": rows.y.astype("<f8", copy=False), "offsets": offsets.astype("<i8", copy=False)}
    if rows.names is not None:
        arrays["qid"] = _names(list(rows.names), target)
    if is_sparse:
        X = rows.X
        arrays |= {"data": X.data, "indices": X.indices.astype("<i4", copy=False), "indptr": X.indptr.astype("<i8", copy=False)}
    dtype = rows.X.dtype.newbyteorder("<")
    meta = {
        "format": FORMAT,
        "version": __version__,
        "rows": n,
        "features": width,
        "dtype": rows.X.dtype.name,
        "sparse": is_sparse,
        "queries": None if rows.offsets is None else len(rows.offsets) - 1,
        **origin,
    }
    with _in_place_of(target) as folder:
        sums = {}
        for name, array in arrays.items():
            sums[f"{name}.npy"] = _write_array(folder / f"{name}.npy", array.shape, array.dtype, [array])
        if not is_sparse:
            sums["x.npy"] = _write_array(folder / "x.npy", (n, width), dtype, blocks)
        meta["crc32"] = sums
        with _synced(folder / META) as file:
            # Names of files need not be text.
            file.write(json.dumps(meta, indent=1).encode())
    return meta


def _names(names: Names, target: Path) -> NDArray[Any]:
    if all(isinstance(name, int) and -(2**63) <= name < 2**63 for name in names):
        return np.array(names, dtype="<i8")
    longest = max(map(len, map(str, names)))
    # numpy gives every text the room of the longest.
    if 4 * longest * len(names) > _NAME_BYTES:
        raise DataError(f"{target}: {len(names)} names of queries with up to {longest} letters are too long; number the queries")
    return np.array(list(map(str, names)), dtype=f"<U{max(1, longest)}")


def _write_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike, blocks: Iterable[NDArray[Any]]) -> int:
    """Write an ``.npy`` file block by block; returns the CRC-32 of its bytes."""
    with _synced(path) as file:
        summed = _Summed(file)
        description = np.lib.format.dtype_to_descr(np.dtype(dtype))
        header = {"descr": description, "fortran_order": False, "shape": tuple(map(int, shape))}
        np.lib.format.write_array_header_1_0(summed, header)
        for block in blocks:
            # Piece by piece: rows may come from a mapped file, or need another byte order.
            for first in range(0, len(block), rows := max(1, (16 << 20) // max(1, block[:1].nbytes))):
                summed.write(np.ascontiguousarray(block[first : first + rows], dtype=dtype).tobytes())
    return summed.crc


class _Summed:
    """Writes to a file and adds up what has been written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.crc = file, 0

    def write(self, data: bytes) -> None:
        self.crc = zlib.crc32(data, self.crc)
        self.file.write(data)


@contextmanager
def _synced(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            if error.filename is not None:
                raise
            # The system does not say which file has no room.
            raise OSError(error.errno, _no_room(error), os.fspath(path)) from error


def _no_room(error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    return f"{error.strerror or error}{'; make room, or write somewhere else' if full else ''}"


@contextmanager
def _in_place_of(target: Path) -> Iterator[Path]:
    """A new folder, which gets the name at the end, and goes away if that is not reached."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    folder = target.parent / f".{target.name}.{secrets.token_hex(6)}.tmp"
    folder.mkdir()
    try:
        yield folder
        old = folder.with_suffix(".old")
        with suppress(FileNotFoundError):
            os.rename(target, old)
        os.rename(folder, target)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _sweep(target: Path) -> None:
    """Remove what runs that were killed have left of the same shard."""
    mine = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{12}}\.(tmp|old)")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            with suppress(OSError):
                if mine.fullmatch(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                    shutil.rmtree(entry.path, ignore_errors=True)


def make_dense(folder: str | os.PathLike[str], n_features: int) -> dict[str, Any]:
    """Write a packed shard anew with dense rows of so many columns, without having all of them in memory."""
    folder = Path(folder)
    meta = read_meta(folder)
    rows = PackedRows(str(folder)).load_rows()
    X = rows.X

    def blocks() -> Iterator[NDArray[Any]]:
        step = max(1, (16 << 20) // max(1, n_features * X.dtype.itemsize))
        for begin in range(0, X.shape[0], step):
            part = rows_between(X, begin, min(X.shape[0], begin + step))
            wide = np.zeros((part.shape[0], n_features), dtype=X.dtype)
            wide[:, : part.shape[1]] = part.toarray() if meta["sparse"] else part
            yield wide

    shape_only = np.broadcast_to(np.zeros((), dtype=X.dtype), (X.shape[0], n_features))
    origin = {key: meta.get(key) for key in ("source", "reading", "packing")}
    return _write(folder, rows._replace(X=shape_only), n_features, blocks(), origin)


# ---- reading ------------------------------------------------------------------------------------------------------------------


def _array(folder: Path, name: str, shape: tuple[int, ...], dtype: str, mapped: bool) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError as error:
        raise SavedFileError(f"{path}: is missing; {PACK_AGAIN}") from error
    except (ValueError, EOFError, OSError) as error:
        raise SavedFileError(f"{path}: is damaged ({error}); {PACK_AGAIN}") from error
    right = array.dtype == dtype if dtype else array.dtype.kind in "iU"
    if not right or array.ndim != len(shape) or any(n not in (-1, m) for n, m in zip(shape, array.shape, strict=True)):
        has = f"{array.dtype} of shape {array.shape}"
        raise SavedFileError(f"{path}: holds {has}, which {META} does not say; {PACK_AGAIN}")
    return array


@dataclass(frozen=True)
class PackedRows:
    """A source of rows: a packed shard, of which features stay in their file. Small, and can be pickled.

    Parameters
    ----------
    folder : str
    n_features : int, optional
        Columns of sparse rows, which may be fewer in this shard than in others.
    """

    folder: str
    n_features: int | None = None

    def describe(self) -> str:
        """For messages."""
        return self.folder

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(entry.stat().st_size for entry in os.scandir(self.folder))

    def with_features(self, n_features: int) -> PackedRows:
        """The same rows with so many columns, if they are sparse."""
        return replace(self, n_features=n_features)

    def load_rows(self) -> Rows:
        """The rows, with ``X`` mapped from its file; labels and queries are read."""
        folder, meta = Path(self.folder), read_meta(self.folder)
        n, d = meta["rows"], meta["features"]
        y = _array(folder, "y", (n,), "<f8", False)
        offsets, names = None, None
        if meta["queries"] is not None:
            q = meta["queries"]
            offsets = _array(folder, "offsets", (q + 1,), "<i8", False)
            names = read_names(folder)
            if (q and offsets[0] != 0) or offsets[-1] != n or (np.diff(offsets) < 0).any():
                raise SavedFileError(f"{folder}: its queries do not begin one after the other; {PACK_AGAIN}")
        width = d if self.n_features is None else self.n_features
        if width < d or (width > d and not meta["sparse"] and n):
            raise SavedFileError(f"{folder}: has {d} features, but {width} are expected; pack all shards together")
        if not meta["sparse"]:
            X: Any = _array(folder, "x", (n, d), meta["dtype"], n * d > 0)
            return Rows(X if width == d else np.zeros((0, width), dtype=meta["dtype"]), y, offsets, names)
        return Rows(_sparse(folder, meta, width), y, offsets, names)


def _sparse(folder: Path, meta: Mapping[str, Any], width: int) -> Any:
    indptr = _array(folder, "indptr", (meta["rows"] + 1,), "<i8", False)
    count = int(indptr[-1])
    if indptr[0] != 0 or (np.diff(indptr) < 0).any() or count > MAX_SAMPLES:
        raise SavedFileError(f"{folder / 'indptr.npy'}: rows do not begin one after the other; {PACK_AGAIN}")
    data = _array(folder, "data", (count,), meta["dtype"], count > 0)
    indices = _array(folder, "indices", (count,), "<i4", count > 0)
    # 32 bits as the columns have: scipy would copy the columns otherwise.
    X = sparse.csr_array((data, indices, indptr.astype(np.int32)), shape=(meta["rows"], width), copy=False)
    # A column that does not exist would be read from foreign memory.
    for begin, end in row_pieces(X) if is_streamed(X) else [(0, X.shape[0])]:
        columns = X.indices[X.indptr[begin] : X.indptr[end]]
        if len(columns) and not 0 <= columns.min() <= columns.max() < meta["features"]:
            problem = f"has columns beyond the {meta['features']} of the shard"
            raise SavedFileError(f"{folder / 'indices.npy'}: {problem}; {PACK_AGAIN}")
    return X


def read_names(folder: str | os.PathLike[str]) -> Names | None:
    """Names of the queries of a packed shard; None if they have none, or if all rows of all shards are one list."""
    meta = read_meta(folder)
    if meta["queries"] is None or "qid.npy" not in meta["crc32"]:
        return None
    names: Names = _array(Path(folder), "qid", (meta["queries"],), "", False).tolist()
    return names


def open_packed(folder: str | os.PathLike[str], *, check_source: bool = True) -> list[PackedRows]:
    """Sources of rows for all packed shards of a folder, or for one packed shard.

    Parameters
    ----------
    folder : path
        As :func:`~maxmargin.distributed.packing.pack` has written it.
    check_source : bool
        Complain about shards whose files have changed since. Files that are not there any more, and URLs, are not looked at.
    """
    folder = Path(folder)
    found = [folder] if folder.suffix == SUFFIX else sorted(folder.glob(f"*{SUFFIX}"))
    if not found:
        if not folder.is_dir():
            problem = "is not there; is it on a shared file system, which every machine sees under this name?"
            raise FileNotFoundError(2, problem, os.fspath(folder))
        raise DataError(f"{folder}: holds no packed shard", f"pack files into it; shards are folders *{SUFFIX}", "files")
    _check_complete(folder, [path.name for path in found])
    metas = [read_meta(path) for path in found]
    widths = {None if meta["sparse"] else meta["features"] for meta in metas}
    kinds = {(meta["dtype"], meta["sparse"], meta["queries"] is None) for meta in metas}
    if len(widths) > 1 or len(kinds) > 1:
        problem = f"{folder}: its shards differ in precision, layout, queries or columns"
        raise DataError(problem, "pack all of them together, into a folder of their own", "files")
    if len({meta.get("packing") for meta in metas}) > 1:
        problem = f"{folder}: its shards are of several packings, of which the last was not finished"
        raise DataError(problem, "run maxmargin pack again, or pack into a folder of its own", "files")
    if check_source:
        for path, meta in zip(found, metas, strict=True):
            changed = changed_source(meta)
            if changed is not None:
                remedy = "pack it again; or, in Python, use the shards as they are with open_packed(..., check_source=False)"
                raise DataError(f"{path}: {changed}", remedy, "files")
    width = max(meta["features"] for meta in metas)
    return [PackedRows(str(path), width) for path in found]


def _check_complete(folder: Path, names: list[str]) -> None:
    """Complain about a packing that was not finished."""
    counted = [match for name in names if (match := re.fullmatch(rf"([0-9]+)-of-([0-9]+){re.escape(SUFFIX)}", name))]
    if folder.suffix == SUFFIX or not counted:
        return
    totals = {int(match[2]) for match in counted}
    if len(totals) > 1 or len(counted) < len(names):
        raise DataError(f"{folder}: holds shards of several packings", "keep each in a folder of its own", "files")
    if len(counted) < max(totals):
        problem = f"{folder}: holds {len(counted)} of {max(totals)} shards"
        raise DataError(problem, "run maxmargin pack again, which goes on where it was stopped", "files")


def check_packed(folder: str | os.PathLike[str]) -> None:
    """Read all arrays of a packed shard, and its source if that is there, and compare their CRC-32 with what they had.

    Raises
    ------
    SavedFileError
        An array is damaged.
    DataError
        The source has changed.
    """
    folder = Path(folder)
    meta = read_meta(folder)
    for name, expected in meta["crc32"].items():
        found = 0
        try:
            with open(folder / name, "rb") as file:
                while block := file.read(4 << 20):
                    found = zlib.crc32(block, found)
        except FileNotFoundError as error:
            raise SavedFileError(f"{folder / name}: is missing; {PACK_AGAIN}") from error
        if found != expected:
            raise SavedFileError(f"{folder / name}: is damaged, its check sum is another one; {PACK_AGAIN}")
    changed = changed_source(meta, thorough=True)
    if changed is not None:
        raise DataError(f"{folder}: {changed}", "pack it again", "files")


def row_sources(
    files: Files, shards: int | None = None, *, cache: str | os.PathLike[str] | None = None, **options: Any
) -> list[PartsOfFiles] | list[CachedRows] | list[PackedRows]:
    """Sources of rows: of a folder that :func:`~maxmargin.distributed.packing.pack` has written, or of files, shared out.

    Parameters
    ----------
    files : path, glob or URL, or a list of them
        A folder is taken for one of packed shards.
    shards, **options
        As in :func:`~maxmargin.distributed.sources.share_out`; packed shards are what they are.
    cache : path, optional
        Folder, on whichever machine loads a shard, to pack files into, so that rows are mapped and need not fit into memory.
    """
    if isinstance(files, str | os.PathLike) and os.path.isdir(files):
        said = [name for name, value in {**options, "shards": shards, "cache": cache}.items() if value is not None]
        if said:
            raise DataError(f"{files} holds packed shards, for which {said[0]} says nothing", f"leave out {said[0]}", said[0])
        return open_packed(files)
    sources = share_out(files, shards, **options)
    return sources if cache is None else [CachedRows(source, os.fspath(cache)) for source in sources]


def feature_names(sources: Sequence[PartsOfFiles] | Sequence[CachedRows] | Sequence[PackedRows]) -> tuple[str, ...] | None:
    """Names of the columns, where rows come from tables and every column is a feature."""
    first = sources[0]
    source = first.source if isinstance(first, CachedRows) else first
    reading = packed_reading(source.folder) if isinstance(source, PackedRows) else source.reading
    return reading.features if all(kind == "boolean" for _, kind in reading.kinds or ()) else None


@dataclass(frozen=True)
class CachedRows:
    """A source of rows: parts of files, packed into a folder of this machine when they are first asked for, mapped from then on.

    So a shard need not fit into memory, and loads at once after a restart.

    Parameters
    ----------
    source : PartsOfFiles
    folder : str
        On the disk of whichever machine loads the shard; it is made if need be.
    """

    source: PartsOfFiles
    folder: str

    def describe(self) -> str:
        """For messages."""
        return self.source.describe()

    @property
    def size(self) -> int:
        """Bytes to read, about."""
        return self.source.size

    def with_features(self, n_features: int) -> CachedRows:
        """The same rows with so many columns, of svmlight files."""
        return replace(self, source=self.source.with_features(n_features))

    def load_rows(self) -> Rows:
        """The rows, with ``X`` mapped from a packed shard."""
        # Columns can be added to what is there.
        plain = replace(self.source, reading=replace(self.source.reading, n_features=None))
        key = hashlib.sha256(repr((plain.parts, as_json(plain.reading))).encode(errors="surrogateescape")).hexdigest()[:24]
        target = Path(self.folder) / f"{key}{SUFFIX}"
        if not is_fresh(target, plain):
            rows = plain.load_rows()
            try:
                write_packed(target, rows, plain)
            except OSError:
                # Somebody else may have been quicker.
                if not is_fresh(target, plain):
                    raise
        return PackedRows(str(target), self.source.reading.n_features).load_rows()
