"""How far a long run is, on standard error: a line that is written over on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

_EVERY = 5.0  # seconds between two plain lines


class StatusLine:
    """Says how far a run is, as often as it is told.

    On a terminal every text takes the place of the one before. In a pipe, a file or a notebook a text becomes a line of its own,
    but only some seconds after the one before; the last one is always printed. Every text begins with the name, if there is one.

    Parameters
    ----------
    shown : bool
        False says nothing at all.
    transient : bool
        Leave nothing behind at the end: the line goes away from a terminal, and elsewhere the last text need not be printed.

    Examples
    --------
    >>> with StatusLine(stream=sys.stdout) as line:
    ...     for number in range(1, 4):
    ...         line.show(f"pass {number}")
    pass 3
    """

    def __init__(
        self,
        name: str = "",
        *,
        shown: bool = True,
        transient: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prefix, self._shown, self._transient, self._clock = f"{name}: " if name else "", shown, transient, clock
        self._stream = sys.stderr if stream is None else stream
        self._printed = clock()
        self._waiting = ""

    def show(self, text: str) -> None:
        """The state of things."""
        if not self._shown:
            return
        self._waiting = text = self._prefix + text
        if self._stream.isatty():
            self._write(f"\r\033[K{text}")
        elif self._clock() - self._printed >= _EVERY:
            self._print()

    def close(self) -> None:
        """The run has ended; what is written next begins a line."""
        if not self._waiting:
            return
        if self._stream.isatty():
            self._write("\r\033[K" if self._transient else "\n")
            self._waiting = ""
        elif not self._transient:
            self._print()

    def _print(self) -> None:
        self._write(f"{self._waiting}\n")
        self._printed, self._waiting = self._clock(), ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
