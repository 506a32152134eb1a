"""Where bytes come from: plain and compressed files, open files, bytes in memory. Errors name the file."""

from __future__ import annotations

import bz2
import gzip
import io
import math
import os
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from maxmargin._utils import ArgumentError, Floats, Words

Source = str | os.PathLike[str] | bytes | IO[bytes]

# Enough for many pieces of work, little beside the data.
_BLOCK_BYTES = 1 << 22
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstd"}


class DataError(ArgumentError):
    """A file that cannot be used: the problem begins with its name and the place in it.

    ``argument`` is what mends it, if an argument of the reader does, and ``"path"`` otherwise.
    """

    def __init__(self, problem: Words, remedy: Words = "", argument: str = "path") -> None:
        super().__init__(argument, problem, remedy)
        self.args = (problem, remedy, argument)


def number(text: str) -> float:
    """The number that a decimal in ASCII stands for; a ValueError for what only Python takes for one, ``1_000`` or ``\u0663``."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a decimal number")
    return float(text)


def finite_score(text: str, place: str, not_a_number: str, not_finite: str) -> float:
    """The score that a file has at a place, or what to do about it."""
    try:
        score = number(text)
    except ValueError:
        raise DataError(f"{place}: score {text[:40]!r} is not a number; {not_a_number}") from None
    if not math.isfinite(score):
        raise DataError(f"{place}: score {text[:40]!r} is not finite; {not_finite}")
    return score


def name_of(source: Source) -> str:
    """What messages call it."""
    if isinstance(source, bytes | bytearray | memoryview):
        return "<bytes>"
    if isinstance(source, Path):
        return str(source)
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<file object>"


def format_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix that tells the format, that of the compression passed over: ``.csv`` for ``a.csv.gz``."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def open_binary(source: Source) -> Iterator[IO[bytes]]:
    """A file to read bytes from. What goes wrong with its content becomes a DataError with its name."""
    name = name_of(source)
    if isinstance(source, bytes | bytearray | memoryview):
        file: Any = io.BytesIO(source)
    elif isinstance(source, str | os.PathLike):
        # Errors of opening carry the name already, and their kind is worth keeping (FileNotFoundError).
        opener = _OPENERS.get(Path(source).suffix.lower(), open)
        file = opener(source, "rb")
    elif hasattr(source, "read"):
        file = source
    else:
        raise TypeError(f"a path, bytes or a file open for reading bytes is needed, not {type(source).__name__}")
    try:
        yield file
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name}: not a sound gzip file ({error}); make or fetch it anew") from error
    except EOFError as error:
        kind = "bzip2" if name.lower().endswith(".bz2") else "gzip"
        raise DataError(f"{name}: not a complete {kind} file ({error}); make or fetch it anew") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from error
    finally:
        if file is not source:
            file.close()


def _refuse_compressed(start: bytes, name: str) -> None:
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            raise DataError(
                f"{name}: looks like a {kind} file; files are unpacked where their names end in .gz or .bz2, "
                "anything else has to be unpacked first"
            )


def blocks(source: Source, read_ahead: bool, size: int = _BLOCK_BYTES) -> Generator[bytes]:
    """The content in blocks of some megabytes, the next one fetched and unpacked meanwhile if ``read_ahead``."""
    with open_binary(source) as file:

        def read() -> bytes:
            block = file.read(size)
            if not isinstance(block, bytes | bytearray | memoryview):
                raise TypeError(f"{name_of(source)}: the file gives {type(block).__name__} and not bytes; open it in binary mode")
            return block

        block = read()
        _refuse_compressed(bytes(block[:6]), name_of(source))
        if not read_ahead:
            while block:
                yield block
                block = read()
            return
        with ThreadPoolExecutor(1) as background:
            while block:
                upcoming = background.submit(read)
                yield block
                block = upcoming.result()


def lines(source: Source) -> Generator[str]:
    """Lines of UTF-8 text with their ends; a byte order mark is passed over."""
    with closing(blocks(source, False, io.DEFAULT_BUFFER_SIZE)) as content:
        text = io.TextIOWrapper(io.BufferedReader(_Stream(content)), encoding="utf-8-sig", newline="")
        count = 0
        try:
            while line := text.readline():
                count += 1
                yield line
        except UnicodeDecodeError as error:
            # Bytes are decoded in pieces, ahead of the line that is wanted.
            ahead = len((error.object[: error.start] + b"?").splitlines())
            raise DataError(
                f"{name_of(source)}, line {count + ahead}: not a text file in UTF-8 ({error.reason}); save or convert it in "
                "that encoding"
            ) from error


def read_scores(path: Source) -> Floats:
    """One number per line, as ``svm_rank_classify`` and others write their predictions."""
    scores = []
    for line, text in enumerate(map(str.strip, lines(path)), start=1):
        if text:
            place = f"{name_of(path)}, line {line}"
            scores.append(finite_score(text, place, "write one per line", "write a number for every sample"))
    if not scores:
        raise DataError(f"{name_of(path)}: holds no scores; one number per line is needed")
    return np.array(scores)


class _Stream(io.RawIOBase):
    """Blocks as a file."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self._content, self._rest = content, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._rest or next(self._content, b"")
        data, self._rest = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)
