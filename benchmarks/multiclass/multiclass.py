"""Multi-class SVM against liblinear (Crammer and Singer), without intercept.

Both get the same CSR matrix and the same C, and run on one thread. What counts is the processor time until the primal
objective is within 0.1 % of the optimum; preparing the data is part of it for both.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import mnist, news20
from benchmarks.timing import markdown, write_report
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from maxmargin.core.solvers import BCFW
from maxmargin.multiclass import MulticlassProblem

NEAR = 1.001
TOLERANCES = (3.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01)


def primal(W: Any, X: Any, y: Any, C: float) -> float:
    """Half the squared norm plus C times the sum of the hinges, by definition."""
    rows = np.arange(len(y))
    scores = np.asarray(X @ W.T)
    hinges = 1.0 + scores - scores[rows, y][:, None]
    hinges[rows, y] = 0.0
    return 0.5 * float(np.sum(W * W)) + C * float(hinges.max(axis=1).sum())


def ours(X: Any, y: Any, C: float, limit: float) -> tuple[float, float, float]:
    """Processor seconds until the primal is at most ``limit`` (infinite: until a tight gap), and the bounds reached."""
    start = time.thread_time()
    model = MulticlassProblem(X, y, int(y.max()) + 1)
    lam = 1.0 / (C * len(y))
    tight = np.isinf(limit)
    solver = BCFW(
        steps="exact",
        check_every=10 if tight else 3,
        tol=2e-5,
        max_passes=100_000,
        time_limit=900.0,
        callback=None if tight else lambda history: history.primal[-1] / lam <= limit,
    )
    solution = solver.solve(model, lam)
    return time.thread_time() - start, solution.primal / lam, solution.dual / lam


def liblinear(X: Any, y: Any, C: float, limit: float, most_seconds: float) -> tuple[float, float]:
    """Seconds and primal of the loosest tolerance that is close enough, or of the last one tried within the time."""
    seconds, value = 0.0, np.inf
    for tol in TOLERANCES:
        start = time.thread_time()
        machine = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=tol, max_iter=20_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X, y)
        seconds = time.thread_time() - start
        value = primal(machine.coef_, X, y, C)
        if value <= limit or seconds > most_seconds:
            break
    return seconds, value


def compare(name: str, X: Any, y: Any, C: float, repeats: int) -> list[str]:
    """One row."""
    _, upper, lower = ours(X, y, C, np.inf)
    limit = NEAR * lower
    mine = [ours(X, y, C, limit) for _ in range(repeats)]
    theirs = [liblinear(X, y, C, limit, 60.0) for _ in range(repeats if repeats > 1 else 1)]
    a, b = min(t for t, _, _ in mine), min(t for t, _ in theirs)
    reached = theirs[0][1] <= limit
    tight = LinearSVC(multi_class="crammer_singer", C=C, fit_intercept=False, tol=3e-3, max_iter=3000)
    agreement = "-"
    if reached:
        tight.fit(X, y)
        agreement = f"{primal(tight.coef_, X, y, C) / upper - 1:.1e}"
    row = [
        name,
        f"{C:g}",
        f"{upper:.6g}",
        f"{upper / lower - 1:.0e}",
        agreement,
        f"{a:.2f}",
        f"{b:.2f}" if reached else f"> {b:.0f} ({theirs[0][1] / lower - 1:.1%} off)",
        f"{a / b:.2f}" if reached else f"< {a / b:.2f}",
    ]
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="timings per entry; the best counts")
    options = parser.parse_args()
    rows = []
    X, y = mnist()
    pixels = sparse.csr_matrix(X)
    rows += [compare("MNIST, pixels / 255", pixels, y, C, options.repeats) for C in (0.001, 0.01, 0.1)]
    counts, y = news20()
    unit = normalize(counts)
    rows += [compare("news20, rows of norm 1", unit, y, C, options.repeats) for C in (0.1, 1.0, 10.0)]
    rows += [compare("news20, counts", counts, y, C, options.repeats) for C in (0.001, 0.01)]
    header = ["data", "C", "objective", "our gap", "liblinear / ours - 1", "ours, s", "liblinear, s", "ours / liblinear"]
    text = (
        "Seconds of processor time, one thread each, until the primal objective is within 0.1 % of the optimum (our certified "
        'lower bound at a gap of 2e-5). Ours is `BCFW(steps="exact")` with checks every 3 passes; liblinear shows no '
        f"progress, so its tolerance is lowered step by step ({', '.join(map(str, TOLERANCES))}) and the time of the first run "
        "that is close enough counts alone. *liblinear / ours - 1* compares the objectives of tight solutions of both."
    )
    path = FOLDER / "results" / "multiclass.md"
    write_report(path, "Multi-class SVM: time to 0.1 %", [text, markdown(header, rows)])


if __name__ == "__main__":
    main()
