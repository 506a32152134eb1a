"""Files that the library writes: in one step, and readable without trust.

An *archive* is a zip file with ``header.json`` and one ``.npy`` file per array, so ``numpy.load`` opens it too. Equal content
gives equal bytes. Reading runs no code: no pickles, only numbers and text, and nothing larger than the file itself.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin import __version__
from maxmargin._utils import Path, replacing

_FORMAT = "maxmargin"
_FORMAT_VERSION = 1
_HEADER = "header.json"


class SavedFileError(ValueError):
    """A saved file that cannot be used: its name, what is wrong with it and what to do."""


# ---- writing in one step ------------------------------------------------------------------------------------------------------


# ---- archives -----------------------------------------------------------------------------------------------------------------


class Archive(NamedTuple):
    """What a file holds: text and numbers, arrays by name, and the version of the library that wrote it."""

    content: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    version: str


def write_archive(path: Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an archive in one step: what JSON can hold, with finite numbers, and arrays of numbers, booleans or text.

    The kind says what is in it; :func:`read_archive` asks for the same.
    """
    header = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "kind": kind,
        "version": __version__,
        "arrays": sorted(arrays),
        "content": content,
    }
    # Names of files need not be text; what UTF-8 cannot hold becomes an escape, which in JSON stands for the same.
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, indent=1)
    members = {_HEADER: text.encode(errors="backslashreplace")}
    for name in sorted(arrays):
        members[f"{name}.npy"] = _array_bytes(name, arrays[name])
    # Made in memory: in a pipe, where nothing can be filled in later, zip files have another form.
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, data in members.items():
            # A fixed date; nothing is compressed, because compressors differ and weights do not shrink.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    with replacing(path) as file:
        file.write(whole.getbuffer())


def read_archive(path: Path, kind: str) -> Archive:
    """Read an archive of this kind; a :class:`SavedFileError` says what is wrong with any other file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(f"{folder}/a", "example", {"name": "x"}, {"numbers": np.arange(3)})
    ...     read_archive(f"{folder}/a", "example")
    Archive(content={'name': 'x'}, arrays={'numbers': array([0, 1, 2])}, version='0.1.0')
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    remedy = _REMEDIES.get(kind, _Remedy(f"name a file of the kind {kind!r}"))
    members = _members(data, name, remedy)
    header = _header(members.pop(_HEADER), name, kind, remedy)
    arrays = {}
    for key in header["arrays"]:
        if f"{key}.npy" not in members:
            raise SavedFileError(f"{name}: the array {key!r} is missing; {remedy.damaged}")
        arrays[key] = _array(members[f"{key}.npy"], f"{name}: the array {key!r}", remedy)
    return Archive(header["content"], arrays, header["version"])


class Label(NamedTuple):
    """What stands on the outside of an archive: what is in it, the form of the file, and the version that wrote it."""

    kind: str
    format: int
    version: str


def read_label(path: Path) -> Label:
    """What kind of archive a file is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(f"{folder}/a", "example", {}, {})
    ...     read_label(f"{folder}/a")
    Label(kind='example', format=1, version='0.1.0')
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    remedy = _Remedy("name one that maxmargin wrote")
    header = _header(_members(data, name, remedy)[_HEADER], name, None, remedy)
    return Label(str(header.get("kind")), header["format_version"], header["version"])


def is_archive(path: Path) -> bool:
    """Whether a file starts like an archive, which no text and no other zip file does; nothing is taken out of pipes."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        start = file.read(30 + len(_HEADER))
    return start.startswith(b"PK\x03\x04") and start.endswith(_HEADER.encode())


class _Remedy(NamedTuple):
    """What to do about a file that is of another kind, and about one that is damaged."""

    foreign: str
    damaged: str = "copy or write it again"


_REMEDIES = {
    "model": _Remedy("name one that 'maxmargin train' or save_model wrote"),
    "path": _Remedy("name one that 'maxmargin path --save' or RegularizationPath.save wrote"),
    # Nobody has another copy of a checkpoint, and whatever is in its place would be written over.
    "path checkpoint": _Remedy("name another file for the checkpoint", "remove it to begin anew"),
    "training checkpoint": _Remedy("name another file for the checkpoint", "remove it to begin anew"),
}


def _members(data: bytes, name: str, remedy: _Remedy) -> dict[str, bytes]:
    if not data:
        raise SavedFileError(f"{name}: is empty; {remedy.damaged}")
    if not data.startswith(b"PK"):
        raise SavedFileError(f"{name}: is not a file saved by maxmargin; {remedy.foreign}")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            # Nothing is compressed when we write, so nothing unpacks to more than the file.
            stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
            bounded = stored and sum(entry.file_size for entry in entries) <= len(data)
            members = {entry.filename: archive.read(entry) if bounded else b"" for entry in entries}
    # Any field of a damaged zip file can be anything; wrong check sums are of the first kind.
    except (zipfile.BadZipFile, ValueError, RuntimeError, OSError, EOFError, OverflowError, LookupError) as error:
        raise SavedFileError(f"{name}: is damaged or incomplete ({error}); {remedy.damaged}") from error
    if _HEADER not in members:
        raise SavedFileError(f"{name}: is a zip file, but not one saved by maxmargin; {remedy.foreign}")
    if not bounded:
        raise SavedFileError(f"{name}: is packed in another way than maxmargin does; {remedy.damaged}")
    return members


def _header(data: bytes, name: str, kind: str | None, remedy: _Remedy) -> dict[str, Any]:
    try:
        header = json.loads(data.decode(), parse_constant=_no_constant)
    # Python refuses integers of thousands of digits, and lists within lists within lists.
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{name}: its header is not sound JSON ({error}); {remedy.damaged}") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise SavedFileError(f"{name}: is a zip file, but not one saved by maxmargin; {remedy.foreign}")
    form, version = header.get("format_version"), header.get("version")
    if type(form) is not int or form < 1 or not isinstance(version, str):
        raise SavedFileError(f"{name}: its header has no sound format_version and version; {remedy.damaged}")
    if form > _FORMAT_VERSION:
        raise SavedFileError(
            f"{name}: was written by maxmargin {version[:40]} in format {form}, but maxmargin {__version__} reads formats up to "
            f"{_FORMAT_VERSION}; upgrade with pip install --upgrade maxmargin"
        )
    if kind is not None and header.get("kind") != kind:
        raise SavedFileError(f"{name}: holds a {str(header.get('kind'))[:40]}, not a {kind}; {remedy.foreign}")
    arrays = header.get("arrays")
    sound = isinstance(arrays, list) and all(isinstance(key, str) for key in arrays) and isinstance(header.get("content"), dict)
    if not sound:
        raise SavedFileError(f"{name}: its header lacks arrays or content; {remedy.damaged}")
    if _is_deep(header):
        raise SavedFileError(f"{name}: its header is nested more than {_DEEPEST} levels deep; {remedy.damaged}")
    return header


_DEEPEST = 50  # levels of lists and mappings; those who read them recurse


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        inner = [part for part in level if isinstance(part, dict | list)]
        level = [part for whole in inner for part in (whole.values() if isinstance(whole, dict) else whole)]
    return bool(level)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def can_store(dtype: np.dtype[Any]) -> bool:
    """Booleans, integers, floating-point numbers of up to eight bytes, text and bytes: the same on every machine."""
    return dtype.kind in "biuUS" or (dtype.kind == "f" and dtype.itemsize <= 8)


def _array_bytes(name: str, array: NDArray[Any]) -> bytes:
    if not can_store(array.dtype):
        raise TypeError(f"{name} has dtype {array.dtype}; files hold numbers of up to eight bytes, booleans and text")
    # The smaller end first, wherever it was computed.
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape)
    file = io.BytesIO()
    np.lib.format.write_array(file, little, version=(1, 0), allow_pickle=False)
    return file.getvalue()


# The start of an .npy file as it is written above: magic, length of the header, header. Smaller end first, by rows.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '[<|]([biufUS][0-9]{1,9})', 'fortran_order': False, 'shape': \(([0-9, ]{0,99})\), \} *\n",
    re.DOTALL,
)


def _array(data: bytes, what: str, remedy: _Remedy) -> NDArray[Any]:
    """The array, whose size is checked before anything is made of it.

    Not by numpy, which evaluates the header as an expression and answers a spoilt one with errors of many kinds.
    """
    start = _NPY.match(data)
    if start is None:
        raise SavedFileError(f"{what} is not as maxmargin writes it, numbers or text in a plain order; {remedy.damaged}")
    try:
        dtype = np.dtype("<" + start[1].decode())
        shape = tuple(int(n) for n in start[2].decode().split(",") if n.strip())
    except (TypeError, ValueError) as error:
        raise SavedFileError(f"{what} is damaged ({error}); {remedy.damaged}") from error
    rest = data[start.end() :]
    if not can_store(dtype) or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != len(rest) or len(shape) > 32:
        raise SavedFileError(f"{what} is said to be {dtype} of shape {shape}, but has {len(rest)} bytes; {remedy.damaged}")
    values = np.frombuffer(rest, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))
    if dtype.kind == "b" and (values.view(np.uint8) > 1).any():
        raise SavedFileError(f"{what} holds booleans that are neither true nor false; {remedy.damaged}")
    return values
