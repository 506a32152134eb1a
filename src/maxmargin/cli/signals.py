"""Ctrl-C and SIGTERM: both end the work, and what is done is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noting_signals() -> Iterator[list[int]]:
    """The signals that have come, each of which raises KeyboardInterrupt; solvers catch that themselves."""
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals come to the main thread alone
        yield seen
        return

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        outer = before[signal.Signals(number)]
        if callable(outer):  # it wants to know, too
            outer(number, frame)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(seen: list[int]) -> int:
    """As shells have it: 130 after Ctrl-C, 143 after SIGTERM, 0 if nothing came."""
    return 128 + seen[-1] if seen else 0
