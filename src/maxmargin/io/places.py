"""Names of many files: globs, lists and URLs, and what can be told of a file without reading it.

URLs (``s3://``, ``gs://``, ``hdfs://``, ``memory://``, ...) go through fsspec, which is not needed for anything else.
"""

from __future__ import annotations

import bz2
import errno
import glob
import gzip
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from maxmargin.io.source import DataError, Source

Files = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_UNPACKERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


class Stamp(NamedTuple):
    """By which a file is known again: its bytes, and when it was modified (nanoseconds, or what its file system says)."""

    bytes: int
    modified: int | str | None


def is_url(name: str) -> bool:
    """Whether a name is that of fsspec, not of a file here.

    >>> is_url("s3://bucket/part.svm"), is_url("/data/part.svm"), is_url("C:/part.svm")
    (True, False, False)
    """
    return _URL.match(name) is not None


def is_compressed(name: str) -> bool:
    """Whether a file is compressed, so that nobody can begin in its middle.

    >>> is_compressed("part.svm.gz"), is_compressed("part.svm")
    (True, False)
    """
    return Path(name).suffix.lower() in _UNPACKERS


def expand(files: Files) -> list[str]:
    """Names of the files, globs replaced by what they match in alphabetical order; every file must be there, once.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.svm", "a.svm"):
    ...         _ = Path(folder, name).write_text("1 1:1")
    ...     [os.path.basename(name) for name in expand(f"{folder}/*.svm")]
    ['a.svm', 'b.svm']
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not given:
        raise DataError("files names no file", "pass a name, a glob such as 'part-*.svm', or a list of them", "files")
    found: dict[str, str] = {}
    for entry in given:
        for name in _matches(os.fspath(entry)):
            # However it is spelt.
            place = name.removeprefix("file://")
            place = place if is_url(place) else os.path.realpath(place)
            if place in found:
                raise DataError(f"files names {name} twice, and its rows would count twice", "name it once", "files")
            found[place] = name
    return list(found.values())


def _matches(name: str) -> list[str]:
    if is_url(name):
        system, path = _file_system(name)
        if not _is_glob(path):
            return [name]
        matches = [str(system.unstrip_protocol(found)) for found in system.glob(path)]
    # A file may have brackets in its name.
    elif os.path.exists(name) or not _is_glob(name):
        return [name]
    else:
        matches = glob.glob(name, recursive=True)
    if not matches:
        remedy = "look at the folder and the spelling; names are matched as by a shell"
        raise DataError(f"no file matches {name!r}", remedy, "files")
    return sorted(matches)


def _is_glob(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def stamp(name: str) -> Stamp:
    """Size and time of a file.

    Raises
    ------
    FileNotFoundError
        With a question that helps where files lie on the disk of another machine.
    """
    if is_url(name):
        system, path = _file_system(name)
        system.invalidate_cache()
        with _missing(name):
            about = system.info(path)
        if about.get("type") == "directory":
            raise _is_folder(name)
        if about.get("size") is None:
            raise DataError(f"{name}: its size is not known, so it cannot be shared out", "copy it to a file system", "files")
        times = (about.get(key) for key in ("mtime", "LastModified", "last_modified", "updated", "ETag", "created"))
        known = next((time for time in times if time is not None), None)
        return Stamp(int(about["size"]), None if known is None else str(known))
    with _missing(name):
        status = os.stat(name)
    if os.path.isdir(name):
        raise _is_folder(name)
    return Stamp(status.st_size, status.st_mtime_ns)


def _is_folder(name: str) -> OSError:
    return IsADirectoryError(errno.EISDIR, "is a folder; name the files in it, with a glob", name)


@contextmanager
def opened(name: str) -> Iterator[Source]:
    """The file for a reader: its name if it is here, or else an open file, unpacked by its suffix."""
    with _missing(name):
        if not is_url(name):
            if not os.path.exists(name):
                raise FileNotFoundError(name)
            yield name
            return
        with ExitStack() as stack:
            file: Any = stack.enter_context(_remote(name))
            unpacker = _UNPACKERS.get(Path(name).suffix.lower())
            yield cast("IO[bytes]", _Named(name, file if unpacker is None else stack.enter_context(unpacker(file))))


@contextmanager
def opened_raw(name: str) -> Iterator[Any]:
    """The file as it lies there, open for reading bytes from any place."""
    with _missing(name), _remote(name) if is_url(name) else open(name, "rb") as file:
        yield file


@contextmanager
def _missing(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        problem = "is not there; is it on a shared file system, which every machine sees under this name?"
        raise FileNotFoundError(errno.ENOENT, problem, name) from error


def _file_system(name: str) -> tuple[Any, str]:
    try:
        import fsspec.core
    except ImportError as error:
        raise ImportError(f"{name}: URLs need fsspec: pip install 'maxmargin[remote]'") from error
    try:
        system, path = fsspec.core.url_to_fs(name)
    # An unknown protocol, or one whose package is not here.
    except (ImportError, ValueError) as error:
        remedy = "install what fsspec asks for, or use files of this machine"
        raise DataError(f"{name}: {error}", remedy, "files") from error
    return system, path


def _remote(name: str) -> Any:
    system, path = _file_system(name)
    return system.open(path, "rb")


class _Named(io.RawIOBase):
    """An open file under the name that messages call it."""

    def __init__(self, name: str, file: Any) -> None:
        self.name, self._file = name, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        place: int = self._file.seek(offset, whence)
        return place

    def tell(self) -> int:
        place: int = self._file.tell()
        return place
