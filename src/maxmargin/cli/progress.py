"""Lines on a terminal that the next one overwrites; nothing in a pipe."""

from __future__ import annotations

import sys


def show(text: str) -> None:
    """Write over the line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def clear() -> None:
    """Leave an empty line to write on."""
    show("")
