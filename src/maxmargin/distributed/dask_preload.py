"""Loaded by the workers of a cluster that a command starts for itself: Ctrl-C is for the command, which then lets them go."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask when a worker begins; a terminal sends Ctrl-C to all processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
