"""Processes that end while daemon threads are in compiled code: none may abort, and none may hang.

``python -m tests.process_exit`` runs all kinds of work and of endings, several at a time, and prints a table of what failed;
``tests/test_process_exit.py`` runs each pair once.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# What threads do for ever: `step()` is called again and again.
WORK = {
    "kernel": """
from maxmargin import most_violating_ranking
y = rng.random(300_000) < 1e-3
s = rng.normal(size=300_000) + y
def step(): most_violating_ranking(s, y)
""",
    "kernel, two threads": """
from maxmargin import most_violating_ranking
y = rng.random(300_000) < 1e-3
s = rng.normal(size=300_000) + y
def step(): most_violating_ranking(s, y, n_jobs=2)
""",
    "loss in Python": """
from maxmargin import most_violating_ranking
from maxmargin.ranking import AveragePrecision
class Own(AveragePrecision):
    def derivative(self, j, i, n_pos, n_neg):
        return sum(1.0 for _ in range(100)) / 100 * super().derivative(j, i, n_pos, n_neg)
y = rng.random(3000) < 0.02
s = rng.normal(size=3000) + y
def step(): most_violating_ranking(s, y, Own())
""",
    "training": """
from maxmargin import RankingSVM
y = rng.random(2000) < 0.1
X = rng.normal(size=(2000, 10)) + y[:, None]
def step(): RankingSVM(C=10.0).fit(X, y)
""",
    "training of classes": """
from maxmargin import MulticlassSVM
X, y = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
def step():
    np.unique(y)
    MulticlassSVM(C=0.1).fit(X, y)
""",
    "training with an oracle in Python": """
from maxmargin.core import Cut
from maxmargin.core import Problem
from maxmargin.core.solvers import BCFW
class Signs(Problem):
    n_blocks, n_features = 50, 2
    def cut(self, block, weights):
        x = np.array([1.0, block % 7 - 3.0])
        loss = 1.0 - float(sum(a * b for a, b in zip(x, weights)))
        return Cut(x, 1.0) if loss > 0 else Cut(0 * x, 0.0)
def step(): BCFW(max_passes=20).solve(Signs(), 0.01)
""",
    "training with finalizers and numbers in Python": """
from maxmargin.core import Problem
from maxmargin.core.solvers import BCFW
class Loss:
    def __float__(self): return sum(1.0 for _ in range(300)) / 300
    def __del__(self): sum(range(300))
class OwnCut:
    bound = known_bound = None
    def __init__(self, psi): self.psi, self.loss = psi, Loss()
class Signs(Problem):
    n_blocks, n_features = 50, 2
    def cut(self, block, weights): return OwnCut(np.array([1.0, block % 7 - 3.0]))
def step(): BCFW(max_passes=20).solve(Signs(), 0.01)
""",
    "reader": """
from maxmargin.io import load
path = sys.argv[3]
def step(): load(path)
""",
    "rows of names": """
from maxmargin import _core
words = [f"word{k}" for k in range(50)]
def step():
    rows = ((word for word in words[k % 40 :]) for k in range(2000))
    _core.Vocabulary().encode([rows], True, False)
""",
    "rows that end in an error": """
from maxmargin import _core
def names(bad):
    try:
        yield "word"
        yield bad
    finally:
        sum(range(3000))
def step():
    try:
        _core.Vocabulary().encode([names(bad) for bad in ("word", object())], True, False)
    except TypeError:
        pass
""",
}
# The signal may reach another thread than the main one, which would sleep on.
_WAIT = """
while True: time.sleep(0.001)
"""
# How the process ends, and its exit code.
ENDINGS = {
    "end of the program": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "uncaught exception": ("raise OSError('on purpose')", 1),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)" + _WAIT, -signal.SIGTERM),
    "SIGINT": ("os.kill(os.getpid(), signal.SIGINT)" + _WAIT, -signal.SIGINT),
}
_SETUP = """
import os, signal, sys, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore")
sys.setswitchinterval(1e-4)
rng = np.random.default_rng(0)
"""
_THREADS = """
begun = threading.Event()
def work():
    step()
    begun.set()
    while True:
        step()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(float(sys.argv[2]))
"""
_PATIENCE = 120.0


@dataclass(frozen=True)
class Outcome:
    """How a process ended: "as expected", "hang", or its exit code with the end of what it said."""

    work: str
    ending: str
    result: str


def write_data(path: Path) -> None:
    """A file for readers."""
    lines = (f"{k % 3} qid:{k // 20} " + " ".join(f"{j}:{(k * j) % 17}" for j in range(1, 30)) for k in range(4000))
    path.write_text("\n".join(lines) + "\n")


def run(work: str, ending: str, data: Path, n_threads: int = 2, delay: float = 0.0) -> Outcome:
    """One process of its own."""
    code, expected = ENDINGS[ending]
    program = _SETUP + WORK[work] + _THREADS + code
    command = [sys.executable, "-c", program, str(n_threads), str(delay), str(data)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, env=environment)
    except subprocess.TimeoutExpired:
        return Outcome(work, ending, "hang")
    # A thread may complain that it cannot start others any more; an abort is reported by the C++ library or by the interpreter.
    said = done.stderr.strip()
    aborted = any(word in said for word in ("terminate called", "Fatal Python error", "FATAL"))
    if done.returncode == expected and not aborted:
        return Outcome(work, ending, "as expected")
    return Outcome(work, ending, f"exit code {done.returncode} instead of {expected}: {said[-200:]!r}")


def main() -> int:
    """All pairs in turn; 0 if every process ended as expected."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=3)
    options = parser.parse_args()
    pairs = itertools.cycle(itertools.product(WORK, ENDINGS))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        data = Path(folder) / "lists.txt"
        write_data(data)
        # One thread and two, and another moment each time.
        waiting = [
            pool.submit(run, *pair, data, 1 + k % 2, (k % 97) * 2e-4)
            for k, pair in enumerate(itertools.islice(pairs, options.runs))
        ]
        outcomes = [one.result() for one in waiting]
    failed = Counter(outcome for outcome in outcomes if outcome.result != "as expected")
    for outcome, count in failed.most_common():
        print(f"{count} x {outcome.work}, {outcome.ending}: {outcome.result}")
    print(f"{len(outcomes) - failed.total()} passed, {failed.total()} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
