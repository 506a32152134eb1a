"""Waiting for what has to happen, however slow the machine is: a time is only a limit."""

import signal
import time
from contextlib import contextmanager


@contextmanager
def time_out(seconds):
    """An error in the main thread, wherever it waits."""

    def ring(number, frame):
        raise TimeoutError(f"the test was not ready after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def wait_until(condition, seconds=60):
    """Return as soon as the condition holds; fail after a time that no machine needs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)
