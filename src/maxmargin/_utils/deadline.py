"""Until when a run may go on, for whoever works on its behalf far below, such as a linear program inside an oracle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ends: ContextVar[float] = ContextVar("ends", default=float("inf"))


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """What happens inside has so many seconds from now on, and no more than it had anyway; of a thread, not of those it starts.

    Examples
    --------
    >>> with time_limit(10.0), time_limit(None), time_limit(60.0):
    ...     9 < seconds_left() <= 10
    True
    >>> seconds_left()
    inf
    """
    token = _ends.set(_ends.get() if seconds is None else min(_ends.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _ends.reset(token)


def seconds_left() -> float:
    """Seconds that are left, not less than zero; infinite without a limit."""
    return max(0.0, _ends.get() - time.perf_counter())
