"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

Path = str | os.PathLike[str]


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to; it takes the place of ``path`` when the block ends, and goes away if the block fails.

    So ``path`` is never half written, whatever interrupts the program. Links are followed, an existing file keeps its mode,
    and what is not an ordinary file (a pipe, ``/dev/stdout``) is written to directly.
    """
    check_writable(path)
    try:
        with _written_directly(path) if is_special(path) else _put_in_place(os.path.realpath(path)) as file:
            yield file
    except _NotMadeError as error:
        # Of the file that is named, not of the one that was to take its place.
        raise OSError(error.errno, f"cannot be written ({error.strerror}); choose another place", os.fspath(path)) from error
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        # A full disk does not say which file it has no room for.
        remedy = "; make room, or choose another place" if error.errno == errno.ENOSPC else ""
        raise OSError(error.errno, f"{error.strerror}{remedy}", os.fspath(path)) from error


def is_special(path: Path) -> bool:
    """Whether something other than an ordinary file is there: a pipe, a device, a folder, an open stream such as ``/dev/stdout``.

    The path is looked at as it is: where ``/dev/stdout`` leads to, if that is a pipe, has no name.
    """
    return _stream(path) is not None or (os.path.exists(path) and not os.path.isfile(path))


_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


def _stream(path: Path) -> int | None:
    """Number of the open stream that a path stands for."""
    name = os.fspath(path)
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]{1,6})", str(name))
    return int(numbered[1]) if numbered else _STREAMS.get(str(name))


@contextmanager
def _written_directly(path: Path) -> Iterator[IO[bytes]]:
    stream = _stream(path)
    # Opened anew, a file that the stream leads to would lose what others have written to it.
    with open(path if stream is None else os.dup(stream), "wb") as file:
        yield file


class _NotMadeError(OSError):
    """There is no place for a new file."""


# Nobody writes that long: what is written has been made in memory.
_ABANDONED = 3600.0  # seconds


@contextmanager
def _put_in_place(target: str) -> Iterator[IO[bytes]]:
    folder, start = os.path.dirname(target), f".{os.path.basename(target)[:100]}."
    _sweep(folder, start)
    # Not tempfile, whose files only their owner may read.
    temporary = os.path.join(folder, f"{start}{secrets.token_hex(6)}.tmp")
    try:
        opened = open(temporary, "xb")  # noqa: SIM115
    except OSError as error:
        raise _NotMadeError(error.errno, error.strerror) from error
    try:
        with opened as file:
            if os.path.exists(target):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _sweep(folder: str, start: str) -> None:
    """Remove what runs that were killed have left of the same file."""
    with suppress(OSError), os.scandir(folder) as entries:  # they may be somebody else's, or gone by now
        for entry in entries:
            if entry.name.startswith(start) and re.fullmatch(r"[0-9a-f]{12}\.tmp", entry.name[len(start) :]):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                        os.unlink(entry)


def check_writable(path: Path) -> None:
    """Complain now about a file that could not be written later."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", os.fspath(path))
    folder = os.path.dirname(os.path.realpath(path))
    if not is_special(path) and not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist; make it first", os.fspath(path))
    if not os.access(path if is_special(path) else folder, os.W_OK):
        raise PermissionError(errno.EACCES, "may not be written; choose another place", os.fspath(path))
