"""What the compiled loop adds to an oracle written in Python, and n-slack against one-slack."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import ROOT, ocr_words
from benchmarks.timing import markdown, write_report
from scipy import sparse
from sklearn.datasets import load_digits
from tests.cases.enumerated import EnumeratedProblem

from maxmargin.core import Structure
from maxmargin.core.solvers import BCFW, NSlackCuttingPlane, OneSlackCuttingPlane
from maxmargin.multiclass import MulticlassProblem
from maxmargin.sequences import ChainProblem
from maxmargin.surrogates import StructuredProblem

N_CLASSES = 10
N_HASHED = 1_000_000
WAYS: dict[str, dict[str, Any]] = {
    "fw": {"steps": "fw"},
    "pairwise": {"steps": "pairwise"},
    "pairwise, cache of 20": {"steps": "pairwise", "cache": 20},
}


class Digits(Structure):
    """Ten classes as a user writes them: a matrix product, dense joint features."""

    def joint_feature(self, x, y):
        return np.outer(np.eye(N_CLASSES)[y], x).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        wrong = 0.0 if truth is None else 1.0 - np.eye(N_CLASSES)[truth]
        return int(np.argmax(a * (weights.reshape(N_CLASSES, -1) @ x) + b * wrong))


class Hashed(Structure):
    """Two classes; a sample is the places and the values of its non-zeros, for either class."""

    def joint_feature(self, x, y):
        places, values = x[y]
        return sparse.csr_array((values, places, np.array([0, len(values)])), shape=(1, N_HASHED))

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        worth = [a * float(values @ weights[places]) for places, values in x]
        return int(np.argmax([score + b * (truth is not None and y != truth) for y, score in enumerate(worth)]))


def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def dear(n: int) -> StructuredProblem:
    """Digits as a user's structure."""
    X, y = digits()
    return StructuredProblem(Digits(), list(X[:n]), y[:n].tolist())


def cheap(n: int) -> EnumeratedProblem:
    """Five outputs in 20 dimensions, listed."""
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(n, 5, 20)) + rng.normal(size=20)
    psi[:, 0] = 0
    return EnumeratedProblem(list(psi), list(np.tile([0.0, 1.0, 1.0, 1.0, 1.0], (n, 1))))


def hashed(n: int) -> StructuredProblem:
    """A hundred non-zeros among a million features; a tenth of them tell the class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    samples = []
    for label in y:
        words = np.unique(np.concatenate([rng.integers(0, 10_000, 10) + 10_000 * label, rng.integers(20_000, N_HASHED // 2, 90)]))
        values = rng.random(len(words))
        samples.append([(words, values), (words + N_HASHED // 2, values)])
    return StructuredProblem(Hashed(), samples, y.tolist())


ORACLES: dict[str, tuple[Callable[[int], Any], int]] = {
    "digits, a user's structure, d = 640 dense": (dear, 1000),
    "5 listed outputs, d = 20": (cheap, 2000),
    "2 classes, d = 1,000,000, 100 non-zeros": (hashed, 1000),
}


def thread_time_of(task: Callable[[], Any]) -> float:
    start = time.thread_time()
    task()
    return time.thread_time() - start


def per_pass(problem: Any, lam: float, passes: int, settings: dict[str, Any]) -> float:
    """Processor seconds of a pass of BCFW, from runs of two lengths: what is done once in a run does not count."""

    def run(length: int) -> tuple[float, float]:
        solver = BCFW(tol=1e-12, max_passes=length, **settings)
        start = time.thread_time()
        solution = solver.solve(problem, lam)
        return time.thread_time() - start, solution.passes

    (short, few), (long, many) = run(passes), run(5 * passes)
    return (long - short) / (many - few)


def oracle_rows(repeats: int, passes: int) -> list[list[str]]:
    """A pass of BCFW over a bare loop of `problem.cut`, in turns; medians."""
    rows = []
    for name, (make, n) in ORACLES.items():
        problem = make(n)
        lam = 10 / n
        weights = BCFW(steps="fw", max_passes=5).solve(problem, lam).weights
        for way, settings in WAYS.items():
            bare, ours = [], []
            for _ in range(repeats):
                bare.append(thread_time_of(lambda w=weights, p=problem: [p.cut(block, w) for block in range(p.n_blocks)]))
                ours.append(per_pass(problem, lam, passes, settings))
            ratio = np.median(np.array(ours) / np.array(bare))
            calls = [f"{1e6 * float(np.median(times)) / n:.1f}" for times in (bare, ours)]
            rows.append([name, f"{n:,}", way, *calls, f"{ratio:.2f}"])
            print(rows[-1], flush=True)
    return rows


def slack_rows(repeats: int) -> list[list[str]]:
    """Seconds and passes until a certified gap of 1e-3."""
    X, y = digits()
    problems = {"digits, 1,797 samples": MulticlassProblem(X, y, N_CLASSES)}
    if ROOT.is_dir():
        small = ocr_words()[1]
        problems["OCR, 626 words"] = ChainProblem(small.X, small.y, small.offsets, 26)
    else:
        print("the words are left out; set MAXMARGIN_DATA to the folder that has them")
    solvers = {"one": OneSlackCuttingPlane(max_passes=5000), "n": NSlackCuttingPlane(max_passes=5000)}
    rows = []
    for name, problem in problems.items():
        # One-slack cutting planes take very long for words at less regularization than this.
        for lam in (0.1, 0.01) if isinstance(problem, ChainProblem) else (0.1, 0.01, 0.001):
            seconds: dict[str, list[float]] = {kind: [] for kind in solvers}
            found = {}
            for _ in range(repeats):
                if sum(map(sum, seconds.values())) > 20:
                    break
                for kind, solver in solvers.items():
                    start = time.thread_time()
                    found[kind] = solver.solve(problem, lam)
                    seconds[kind].append(time.thread_time() - start)
            one, several = found["one"], found["n"]
            for solution in found.values():
                if not (solution.certified and solution.gap <= 1e-3 * solution.primal):
                    raise AssertionError(f"{name} at lambda={lam:g}: gap {solution.gap:g}, certified={solution.certified}")
            if max(one.dual, several.dual) > min(one.primal, several.primal):
                raise AssertionError(f"{name} at lambda={lam:g}: the bounds of the two contradict each other")
            times = [f"{np.median(seconds[kind]):.3g} ({found[kind].passes:.0f})" for kind in solvers]
            ratio = np.median(np.array(seconds["n"]) / np.array(seconds["one"]))
            rows.append([name, f"{lam:g}", f"{min(one.primal, several.primal):.5f}", *times, f"{ratio:.2f}"])
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="turns per entry; the median of the ratios counts")
    parser.add_argument("--passes", type=int, default=10, help="length of the shorter run")
    options = parser.parse_args()
    first = (
        "A pass of BCFW with gap sampling, exact checks every 10 passes included, with oracles written in Python; per oracle "
        "call, against a bare loop that asks `problem.cut` for every sample once and does nothing else. The loop is compiled and "
        "calls Python back, so what is above 1 is the call, the step and its books. The two take turns, processor time of one "
        "thread, lambda = 10 / n; a pass is the difference of a long run and a short one, so what a run does once is left out."
    )
    header = ["oracle", "samples", "steps", "bare, us", "pass, us", "pass / bare"]
    second = (
        "Cutting planes with one slack for each sample against one slack in all, from zero weights to a certified relative gap "
        "of 1e-3: processor seconds (passes). Both are built-in problems."
    )
    titles = ["data", "lambda", "objective", "one-slack", "n-slack", "n-slack / one-slack"]
    oracles, slacks = oracle_rows(options.repeats, options.passes), slack_rows(options.repeats)
    sections = [first, markdown(header, oracles), second, markdown(titles, slacks)]
    path = FOLDER / "results" / "engine.md"
    write_report(path, "The engine: oracles in Python, a slack for every sample", sections)


if __name__ == "__main__":
    main()
