"""How far a long run has come: one line that is written over on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """Progress on standard error; where that is no terminal at most one line a second, and the last one.

    Parameters
    ----------
    name : str
        What every line begins with.
    """

    _PAUSE = 1.0

    def __init__(self, name: str) -> None:
        self.name = name
        self._terminal = sys.stderr.isatty()
        self._written = -self._PAUSE
        self._waiting = ""

    def show(self, text: str) -> None:
        """Say how far it is now."""
        if self._terminal:
            sys.stderr.write(f"\r\033[K{self.name}: {text}")
            sys.stderr.flush()
        elif time.monotonic() - self._written >= self._PAUSE:
            self._print(text)
        else:
            self._waiting = text

    def close(self) -> None:
        """Leave an empty line on a terminal; elsewhere write what was not shown yet."""
        if self._terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        elif self._waiting:
            self._print(self._waiting)

    def _print(self, text: str) -> None:
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)
        self._written, self._waiting = time.monotonic(), ""
