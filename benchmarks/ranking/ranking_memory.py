"""Memory and time of ``RankingSVM.fit`` on dense features, float32 against float64.

Every figure is of a process of its own: how much its peak of resident memory grows during ``fit``, over the size of X, and the
processor seconds of ``fit`` on one core, over those of one pass over X in the same process. Processes take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import best_times, markdown, update_report

# Share of positives: rare events, and some that are not.
SHARES = (0.01, 0.06)
KINDS = [(dtype, order) for order in ("C", "F") for dtype in ("float32", "float64")]
PACKAGES = ("RankingSVM", "LogisticRegression")


def features(n, d, dtype, order):
    """Normal features; made in pieces, so that the peak is not that of making them."""
    rng = np.random.default_rng(0)
    X = np.empty((n, d), dtype=dtype, order=order)
    for first in range(0, n, 10_000):
        X[first : first + 10_000] = rng.standard_normal(X[first : first + 10_000].shape, dtype=np.float32)
    return X


def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def measure(package, dtype, order, share, n, d):
    """One fit: extra memory over that of X, seconds, seconds of a pass, passes, objective."""
    from sklearn.linear_model import LogisticRegression

    from maxmargin import RankingSVM

    X = features(n, d, dtype, order)
    noisy = np.zeros(n)
    for first in range(0, n, 10_000):
        noisy[first : first + 10_000] = X[first : first + 10_000, :5].sum(axis=1, dtype=np.float64)
    noisy += 2 * np.random.default_rng(1).standard_normal(n)
    y = noisy > np.quantile(noisy, 1 - share)
    del noisy
    model = RankingSVM(C=100, n_jobs=1) if package == "RankingSVM" else LogisticRegression()
    model.fit(X[:1000], np.arange(1000) % 9 == 0)  # what is loaded on first use is no part of it
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory("VmRSS")
    start = time.thread_time()
    model.fit(X, y)
    seconds = time.thread_time() - start
    extra = (memory("VmHWM") - before) / X.nbytes
    one_pass = best_times({"sum": lambda: X.sum()}, 5)["sum"]
    objective = getattr(model, "primal_objective_", float("nan"))
    return extra, seconds, one_pass, int(np.max(model.n_iter_)), float(objective)


def measured(*arguments):
    """In a process of its own."""
    command = [sys.executable, "-m", "benchmarks.ranking.ranking_memory", "--one", json.dumps(arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def section(share, n, d, repeats):
    cases = [("RankingSVM", *kind) for kind in KINDS] + [("LogisticRegression", dtype, "C") for dtype in ("float32", "float64")]
    found = {case: [] for case in cases}
    for _ in range(repeats):
        for case in cases:
            found[case].append(measured(*case, share, n, d))
            print(share, case, found[case][-1], flush=True)
    seconds = {case: min(runs, key=lambda run: run[1])[1] for case, runs in found.items()}
    rows = []
    for case, runs in found.items():
        package, dtype, order = case
        single = dtype == "float32"
        rows.append([
            f"{package}, {dtype}, {'rows' if order == 'C' else 'columns'}",
            f"{max(run[0] for run in runs):.2f}",
            f"{seconds[case]:.2f}",
            f"{seconds[case] / seconds[package, 'float64', order]:.2f}" if single else "",
            f"{seconds[case] / min(run[2] for run in runs):.0f}",
            f"{runs[0][3]}",
            "" if package == "LogisticRegression" else f"{runs[0][4]:.9g}",
        ])  # fmt: skip
    header = ["", "extra memory / X", "seconds", "float32 / float64", "in passes over X", "iterations", "objective"]
    text = f"## {n:,} x {d}, {100 * share:g} % positive\n\n{markdown(header, rows)}"
    print(text, flush=True)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="one measurement, for the processes this starts")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    introduction = (
        "Extra memory is the growth of the peak of resident memory during `fit` over the size of X, the largest of the runs; "
        "seconds are of the processor, on one core, the smallest of the runs. A pass over X is `X.sum()`. `RankingSVM(C=100)` "
        'for AP is certified to 1e-3; "rows" and "columns" are the two layouts of an array. Values are the same in both '
        "precisions."
    )
    path = FOLDER / "results" / "ranking_memory.md"
    for share in SHARES:
        found = section(share, options.samples, options.features, options.repeats)
        update_report(path, "Memory of training on dense features", introduction, [found])


if __name__ == "__main__":
    main()
