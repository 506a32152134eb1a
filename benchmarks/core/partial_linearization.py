"""Partial linearization, exponentiated gradients and Frank-Wolfe, block by block: the dual objective over time.

``python -m benchmarks.core.partial_linearization`` makes the counterparts of Figures 2.3 and 2.5 of the thesis on data at hand.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import matplotlib
import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import mnist, ocr_words
from benchmarks.timing import markdown, write_report

from maxmargin import _core
from maxmargin.core.solvers import BCFW
from maxmargin.multiclass import MulticlassProblem
from maxmargin.sequences import ChainProblem

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = FOLDER / "results"
TEMPERATURE = 0.01
# Of the exponentiated gradient; the best one is shown, as in the thesis.
FIXED = (10.0, 1.0, 0.1, 0.01, 0.001)
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4)
Curve = list[tuple[float, float, float]]


def settings(method: str, temperature: float, mass: float) -> Any:
    """Of the compiled loop."""
    if method == "BCFW":
        return _core.BlockSettings.frank_wolfe("permutation", "fw", 0, 0)
    if method == "BCFW, gap sampling":
        return _core.BlockSettings.frank_wolfe("gap", "fw", 0, 0)
    rule = "line_search" if method.startswith("BCPL") else "fixed"
    return _core.BlockSettings.partial_linearization(temperature, rule, mass, 0)


def run(model: Any, lam: float, method: str, temperature: float, seconds: float, optimum: float) -> Curve:
    """(processor seconds, passes, dual) after every pass, until the time is up or the dual is as good as optimal."""
    mass = min(1e-3, 0.01 * lam / model.diameter() ** 2)
    engine = _core.BlockEngine(model.block_data, lam, None, None, settings(method, temperature, mass), None)
    curve: Curve = [(0.0, 0.0, engine.dual)]
    start, passes = time.thread_time(), 0
    while curve[-1][0] < seconds and curve[-1][2] < (1 - 1e-5) * optimum:
        visits, _, idle, _ = engine.run(model.n_blocks, 2**62, 2**62, 0.0, 0.0)
        passes += 1
        curve.append((time.thread_time() - start, passes, engine.dual))
        if "gap" in method and (idle or visits == 0 or passes % 10 == 0):
            # Blocks whose estimate was zero once are drawn again only after an exact look, which counts as a pass.
            engine.gap_pass()
            passes += 1
    return curve


def reach(curve: Curve, optimum: float, level: float) -> str:
    """Seconds (passes) until the dual is within a part of the optimum."""
    for seconds, passes, dual in curve:
        if dual >= (1 - level) * optimum:
            return f"{seconds:.2g} ({passes:.0f})"
    return "-"


def study(name: str, model: Any, lam: float, seconds: float, ax: Any) -> list[list[str]]:
    """All methods on one problem: rows of the table, and a plot."""
    steps = "exact" if isinstance(model, MulticlassProblem) else "pairwise"
    cache = 0 if steps == "exact" else 50
    solution = BCFW(steps=steps, cache=cache, tol=1e-5, max_passes=20_000, time_limit=60).solve(model, lam)
    optimum = solution.dual
    print(f"{name}, lambda {lam:g}: optimum {optimum:.6f}, gap {solution.gap / optimum:.1e}", flush=True)
    curves = {method: run(model, lam, method, TEMPERATURE, seconds, optimum) for method in ("BCFW", "BCFW, gap sampling")}
    curves[f"BCPL, {TEMPERATURE:g}"] = run(model, lam, "BCPL", TEMPERATURE, seconds, optimum)
    others = {tau: run(model, lam, "BCPL", tau, seconds, optimum) for tau in FIXED if tau != TEMPERATURE}
    best = max(others, key=lambda tau: quality(others[tau], optimum))
    curves[f"BCPL, {best:g} (best)"] = others[best]
    gradients = {tau: run(model, lam, "OEG", tau, seconds / 4, optimum) for tau in FIXED}
    best = max(gradients, key=lambda tau: quality(gradients[tau], optimum))
    curves[f"OEG, {best:g} (best)"] = run(model, lam, "OEG", best, seconds, optimum)
    rows = []
    for method, curve in curves.items():
        array = np.array(curve)
        per_pass = 1e3 * array[-1, 0] / array[-1, 1]
        rows.append([name, f"{lam:g}", method, *[reach(curve, optimum, level) for level in LEVELS], f"{per_pass:.3g}"])
        print(rows[-1], flush=True)
        ax.loglog(np.maximum(array[1:, 0], 1e-3), np.maximum(1 - array[1:, 2] / optimum, 1e-5), label=method)
    ax.set_title(f"{name}, lambda = {lam:g}")
    ax.set_xlabel("seconds")
    ax.legend(fontsize=7)
    return rows


def quality(curve: Curve, optimum: float) -> tuple[int, float]:
    """Levels reached, then how early the last one was: larger is better."""
    reached = [seconds for level in LEVELS for seconds in [first(curve, optimum, level)] if seconds is not None]
    return len(reached), -reached[-1] if reached else curve[-1][2]


def first(curve: Curve, optimum: float, level: float) -> float | None:
    return next((seconds for seconds, _, dual in curve if dual >= (1 - level) * optimum), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="per method and problem")
    options = parser.parse_args()
    X, y = mnist()
    train, test = ocr_words()
    problems = [("MNIST", MulticlassProblem(X, y, 10), lam) for lam in (0.1, 0.01, 0.001)]
    # The thesis trains on the small fold.
    small = ChainProblem(test.X, test.y, test.offsets, 26)
    problems += [("OCR, 626 words", small, lam) for lam in (0.1, 0.01)]
    problems += [("OCR, 6,251 words", ChainProblem(train.X, train.y, train.offsets, 26), 0.01)]
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), sharey=True, layout="constrained")
    rows: list[list[str]] = []
    for (name, model, lam), ax in zip(problems, axes.ravel(), strict=True):
        rows += study(name, model, lam, options.seconds, ax)
    for ax in axes[:, 0]:
        ax.set_ylabel("1 - dual / optimum")
    figure.savefig(RESULTS / "partial_linearization.svg")
    header = ["data", "lambda", "method", *[f"within {level:g}" for level in LEVELS], "ms per pass"]
    text = (
        "Processor seconds (passes) until the dual objective is within a part of its optimum, one thread, checks of the gap left "
        "out, at most "
        f"{options.seconds:g} s each. BCFW and the others visit the blocks in random order without repetition, unless gap "
        "sampling is named (it needs an exact look at all gaps every ten passes, which counts); "
        "the number is the temperature. OEG is the online exponentiated gradient with full steps."
    )
    note = "![dual objective over time](partial_linearization.svg)"
    write_report(RESULTS / "partial_linearization.md", "Partial linearization", [text, markdown(header, rows), note])


if __name__ == "__main__":
    main()
