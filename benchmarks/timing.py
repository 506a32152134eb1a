"""Honest timing on noisy machines: processor time of one thread, the best of many, peers interleaved with us."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np


def best_times(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Smallest processor seconds of each task; tasks take turns, so that a slow spell hits all of them.

    A turn lasts about a millisecond at least, so that short tasks run as they do in a loop: with warm caches.
    """
    best = dict.fromkeys(tasks, float("inf"))
    calls = dict.fromkeys(tasks, 1)
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.thread_time()
            for _ in range(calls[name]):
                task()
            best[name] = min(best[name], (time.thread_time() - start) / calls[name])
            calls[name] = max(1, min(1000, int(1e-3 / best[name])))
    return best


def best_wall_time(task: Callable[[], object], repeats: int) -> float:
    """Smallest wall-clock seconds, for tasks that use several threads."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return best


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def cpu_seconds_of(command: list[str], repeats: int) -> float:
    """Smallest user + system seconds of a whole process."""
    best = float("inf")
    for _ in range(repeats):
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        best = min(best, used)
    return best


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_report(path: Path, title: str, sections: list[str]) -> None:
    """Save the tables with the command that made them."""
    _write(path, title, " ".join([_module(), *sys.argv[1:]]), sections)


def update_report(path: Path, title: str, introduction: str, sections: list[str]) -> None:
    """Save sections, which begin with "## ", in the place of those with the same title; the others stay as they are."""
    found = re.split(r"^(?=## )", path.read_text(), flags=re.MULTILINE)[1:] if path.exists() else []
    kept = {text.splitlines()[0]: text.strip() for text in [*found, *sections]}
    _write(path, title, _module(), [*filter(None, [introduction]), *kept.values()])


def _module() -> str:
    return f"python -m {sys.modules['__main__'].__spec__.name}"  # type: ignore[union-attr]


def _write(path: Path, title: str, command: str, sections: list[str]) -> None:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}"
    path.write_text("\n\n".join([f"# {title}", f"Made by `{command}` on {machine}.", *sections]) + "\n")
    print(f"\nwritten to {path}")
