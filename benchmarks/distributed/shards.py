"""What benchmarks of shards have in common: timings in turns, rows, a solver, and a part of a report."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.timing import markdown

from maxmargin.core.solvers import OneSlackCuttingPlane


def measured(task, repeats):
    """Smallest wall-clock seconds and smallest processor seconds of this process, of several tries, and the last result."""
    wall = cpu = np.inf
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        result = task()
        wall, cpu = min(wall, time.perf_counter() - begin), min(cpu, time.process_time() - used)
    return wall, cpu, result


def in_turns(tasks, repeats):
    """The same of several tasks that take turns, so that a slow spell hits all of them."""
    best: dict[Any, Any] = dict.fromkeys(tasks, (np.inf, np.inf, None))
    for _ in range(repeats):
        for name, task in tasks.items():
            wall, cpu, result = measured(task, 1)
            best[name] = (min(best[name][0], wall), min(best[name][1], cpu), result)
    return best


def ms(seconds):
    """As text."""
    return f"{seconds * 1e3:.1f}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


def rows_of(n, d, share=0.005):
    """Features in float32, and labels of which a share is relevant, by a noisy linear score."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    scores = X @ (rng.normal(size=d) / np.sqrt(d)).astype(np.float32) + 0.7 * rng.standard_normal(n, dtype=np.float32)
    return X, (scores > np.quantile(scores, 1 - share)).astype(np.float64)


def section(title, text, header, rows):
    """A part of the report."""
    return "\n\n".join([f"## {title}", text, markdown(header, rows)])


def one_slack(problem, lam=1e-3, **settings):
    """Train to a relative gap of 1e-3."""
    return OneSlackCuttingPlane(tol=1e-3, **settings).solve(problem, lam)
