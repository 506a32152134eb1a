"""Dependency parsing of UD English (EWT): surrogates and the perceptron, and what a pass costs. ``python -m benchmarks.parsing``.

All models have the same features and the same sentences, gold tags, and trees that are projective with a single root. C is
chosen on the first half of the development sentences, scores are those of the other half and of the test sentences.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import find
from benchmarks.timing import best_times, markdown, write_report
from maxmargin import ParserSVM, _core
from maxmargin.data import read_conllu
from maxmargin.solvers import ConvergenceWarning


def treebank(split: str) -> Any:
    """Sentences of a split."""
    return read_conllu(find("ud_english_ewt", f"en_ewt-ud-{split}.conllu.gz"))


def cost_of_a_pass(train: Any) -> list[list[str]]:
    """Processor time of a pass with the linear model, and of the bare searches over the same scores."""
    problem: Any = ParserSVM(labelled=False)._prepare(train, train)
    weights = np.random.default_rng(0).normal(size=problem.n_features)
    rows, offsets = problem.treebank.rows, problem.treebank.offsets
    scores = np.concatenate([rows.scores(k, weights).ravel() for k in range(problem.n_blocks)])
    times = best_times(
        {
            "pass: scores, loss, search, features": lambda: problem.mean_cut(weights),
            "bare Eisner": lambda: _core.best_trees(scores, offsets, 1, True, True),
            "bare Edmonds": lambda: _core.best_trees(scores, offsets, 1, False, True),
        },
        5,
    )
    bare = times["bare Eisner"]
    return [[name, f"{1e3 * seconds:.1f}", f"{seconds / bare:.2f}"] for name, seconds in times.items()]


def trained(train: Any, dev: Any, settings: dict[str, Any], grid: tuple[float, ...]) -> tuple[Any, float]:
    """The model with the best C, and the processor time of training it."""
    best: tuple[float, Any, float] | None = None
    for C in grid:
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ParserSVM(C=C, random_state=0, **settings).fit(train, train)
        seconds, value = time.process_time() - start, model.score(dev, dev)
        print(settings, C, f"{seconds:.1f} s, {value:.4f}", flush=True)
        if best is None or value > best[0]:
            best = value, model, seconds
    assert best is not None
    return best[1], best[2]


def main() -> None:
    """Write benchmarks/results/parsing.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--labelled", action="store_true")
    arguments = parser.parse_args()
    train, dev, test = treebank("train")[: arguments.sentences], treebank("dev"), treebank("test")
    half = len(dev) // 2
    costs = cost_of_a_pass(treebank("train")[:2000])
    budget = {"labelled": arguments.labelled, "max_iter": arguments.passes}
    table = []
    for name, settings, grid in (
        ("averaged perceptron", {"solver": "perceptron"}, (1.0,)),
        ("margin", {}, (0.03, 0.1, 0.3)),
        # The grid was 0.03 to 0.3 first, and its lower end the best of it.
        ("ProbLoss, convex", {"surrogate": "prob"}, (0.003, 0.01, 0.03)),
    ):
        model, seconds = trained(train, dev[:half], budget | settings, grid)
        row = [name, "" if len(grid) == 1 else str(model.C)]
        for part in (dev[half:], test):
            for punctuation in (True, False):
                found = model.evaluate(part, part, punctuation=punctuation)
                row.append(f"{100 * found.uas:.2f}" + (f" / {100 * found.las:.2f}" if arguments.labelled else ""))
        table.append([*row, f"{model.n_queries_ / (model.n_iter_ * len(train)):.1f}", f"{seconds:.1f}"])
    kind = "UAS / LAS" if arguments.labelled else "UAS"
    columns = ["training", "C", "dev", "dev, no punctuation", "test", "test, no punctuation", "searches per visit", "seconds"]
    about = (
        f"{kind} in percent; the first {len(train)} training sentences, {arguments.passes} passes, C chosen on {half}\n"
        f"development sentences, scores on the other {len(dev) - half} and on {len(test)} of test; gold tags, projective.\n"
        "Seconds are processor time of training with that C, one of three; the search of ProbLoss is in Python."
    )
    cost = "Processor time of a pass over the first 2,000 training sentences (margin, no labels), as multiples of the search:"
    name = "parsing_labelled.md" if arguments.labelled else "parsing.md"
    sections = [about, markdown(columns, table), cost, markdown(["what", "milliseconds", "ratio"], costs)]
    write_report(Path(__file__).parent / "results" / name, "UD English EWT, first-order linear parser", sections)


if __name__ == "__main__":
    main()
