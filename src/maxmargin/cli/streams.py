"""Standard input as a file: kept in a temporary one, under a name that tells its format by what is in it."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import click

_KEY = "maxmargin.standard input"
_PACKED: dict[bytes, tuple[str, Any]] = {b"\x1f\x8b": (".gz", gzip.open), b"BZh": (".bz2", bz2.open)}


class StandardInput(type(Path())):  # type: ignore[misc]
    """The temporary file; messages have another name for it."""

    def __str__(self) -> str:
        return "standard input"

    def __fspath__(self) -> str:
        return os.path.join(*self.parts)


def keep_standard_input(context: click.Context) -> Path:
    """A file with all that comes in, which goes away when the command ends. There is one standard input, to be read once."""
    root = context.find_root()
    if _KEY in root.meta:
        raise click.UsageError("'-' stands for standard input, which can be read once; name a file for the other")
    root.meta[_KEY] = True
    folder = Path(root.with_resource(tempfile.TemporaryDirectory(prefix="maxmargin-")))
    raw = folder / "stdin"
    with open(raw, "wb") as file:
        shutil.copyfileobj(getattr(sys.stdin, "buffer", sys.stdin), file)
    named = folder / f"stdin{_suffix(raw)}"
    raw.rename(named)
    return StandardInput(named)


def _suffix(raw: Path) -> str:
    """What the format of the content is called in names of files."""
    from maxmargin.io import SVMLIGHT_LINE

    with open(raw, "rb") as file:
        start = file.read(1 << 16)
    if start.startswith(b"PAR1"):
        return ".parquet"
    packed, opener = next((found for magic, found in _PACKED.items() if start.startswith(magic)), ("", None))
    if opener is not None:
        try:
            with opener(raw, "rb") as file:
                start = file.read(1 << 16)
        except (OSError, EOFError, zlib.error):  # what is wrong with it is said when it is read
            return packed
    # Comments before the first sample are those of svmlight.
    text = io.StringIO(start.decode("utf-8-sig", errors="replace"))
    line = next((line for line in text if line.strip() and not line.startswith("#")), "")
    is_table = not SVMLIGHT_LINE.match(line) and any(separator in line for separator in ",;\t")
    return (".csv" if is_table else ".txt") + packed
