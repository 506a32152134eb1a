"""Dependency parsing of UD English (EWT): surrogates and the perceptron, and what a pass costs.

All models have the same features and the same sentences, gold tags, and trees that are projective with a single root. C is
chosen on the development sentences, by LAS if there are labels, among 1 and 3 times powers of ten: the values tried grow at
the end that is the best of them until it is no end any more. Scores are those of the test sentences. Whether two parsers
differ is asked of the test sentences one by one: two-sided Wilcoxon signed-rank test of the number of right words in each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.timing import best_times, markdown, update_report
from scipy.stats import wilcoxon

from maxmargin import ParserSVM, _core
from maxmargin.core.solvers import ConvergenceWarning, Subgradient
from maxmargin.parsing import SurrogateParseProblem, read_conllu
from maxmargin.parsing.svm import _hashed
from maxmargin.surrogates import ProbLoss, make_surrogate

PASS_SIZE = 2000
# Values of C, and how many of them are tried at most.
LADDER = tuple(float(f"{digit}e{power}") for power in range(-5, 3) for digit in (1, 3))
MOST_VALUES = 8


def treebank(split: str) -> Any:
    """Sentences of a split."""
    return read_conllu(find("ud_english_ewt", f"en_ewt-ud-{split}.conllu.gz"))


# ---- what a pass costs --------------------------------------------------------------------------------------------------------


def problem_of(problem: Any, surrogate: str) -> Any:
    """The same sentences under a surrogate."""
    if surrogate == "margin":
        return problem
    return SurrogateParseProblem(problem.treebank, problem.heads, problem.labels, surrogate=make_surrogate(surrogate))


def trained_for(problem: Any, surrogate: str, C: float, labelled: bool, passes: int) -> tuple[Any, Any]:
    """A model after so many passes, and its weights."""
    model = ParserSVM(C=C, labelled=labelled, surrogate=surrogate, max_iter=passes, random_state=0, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model, model._train(problem_of(problem, surrogate))


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
        7,
    )
    bare = times["bare Eisner"]
    return [[name, f"{1e3 * seconds:.1f}", f"{seconds / bare:.2f}"] for name, seconds in times.items()]


def cost_of_surrogates(train: Any, labelled: bool, passes: int = 5) -> list[list[str]]:
    """Processor time of training with each surrogate, and of a pass that proves its hinges, against margin rescaling."""
    problem: Any = ParserSVM(labelled=labelled)._prepare(train, train)
    rows, base = [], {}
    for surrogate in ("margin", "slack", "beta", "log", "prob"):
        C = 0.1 if surrogate == "margin" else 0.01
        weights = trained_for(problem, surrogate, C, labelled, passes)[1]
        own = problem_of(problem, surrogate)
        own.mean_cut(weights)
        model: Any = None

        def train_once(name: str = surrogate, C: float = C) -> None:
            nonlocal model
            model = trained_for(problem, name, C, labelled, passes)[0]

        times = best_times({"training": train_once, "pass": lambda own=own, weights=weights: own.mean_cut(weights)}, 2)
        base = base or times
        asked = model.n_queries_ / (model.n_iter_ * len(train))
        ratios = [f"{times[name] / base[name]:.2f}" for name in ("training", "pass")]
        rows.append([surrogate, f"{1e3 * times['training'] / model.n_iter_:.0f}", ratios[0], ratios[1], f"{asked:.2f}"])
    return rows


# ---- how good the parsers are -------------------------------------------------------------------------------------------------


class Parsed(NamedTuple):
    """Right heads, and right heads with their labels, of all words of a split."""

    heads: Any
    both: Any


class Split:
    """Sentences with their features, ready to be parsed with any weights."""

    def __init__(self, model: Any, sentences: Any) -> None:
        self.sentences, self.labelled = sentences, model.labelled
        self.bank = model._treebank(_hashed(sentences))
        self.heads = np.concatenate([sentence.heads for sentence in sentences])
        self.labels = np.concatenate([sentence.labels for sentence in sentences])
        self.counted = np.concatenate([np.array(sentence.tags) != "PUNCT" for sentence in sentences])
        self.names = model.classes_

    def parse(self, weights: Any) -> Parsed:
        """By the best trees."""
        heads, labels = self.bank.rows.predict(weights, True, True)
        right = heads == self.heads
        return Parsed(right, right & (self.names[labels] == self.labels) if self.labelled else right)

    def scores(self, parsed: Parsed) -> list[str]:
        """UAS, and LAS with labels, of all words and of those that are no punctuation."""
        found = []
        for counted in (np.ones_like(self.counted), self.counted):
            found.append(f"{100 * parsed.heads[counted].mean():.2f}")
            if self.labelled:
                found.append(f"{100 * parsed.both[counted].mean():.2f}")
        return found

    def per_sentence(self, right: Any) -> Any:
        """Right words of every sentence, without punctuation."""
        return np.add.reduceat(right & self.counted, self.bank.offsets[:-1])


class Trained(NamedTuple):
    """A parser, and what it took."""

    value: float
    weights: Any
    seconds: float
    passes: float


def chosen(train: Callable[[float], Trained], start: float, n_values: int) -> tuple[float, dict[float, Trained]]:
    """The best of some values of C from ``start`` on, with a worse one on both sides of it, and all that were tried."""
    at = LADDER.index(start)
    tried = {C: train(C) for C in LADDER[at : at + n_values]}
    while True:
        best = max(tried, key=lambda C: tried[C].value)
        low, high = LADDER.index(min(tried)), LADDER.index(max(tried))
        # Beyond the largest or the smallest, if that is the best one.
        further = high + 1 if best == LADDER[high] else low - 1 if best == LADDER[low] else -1
        if not 0 <= further < len(LADDER) or len(tried) == MOST_VALUES:
            return best, tried
        tried[LADDER[further]] = train(LADDER[further])


def quality(
    train: Any, dev: Any, test: Any, labelled: bool, passes: int, raw: bool, n_values: int
) -> tuple[list[str], list[list[str]], list[str]]:
    """The table: columns and rows, and the names of models whose C still is an end of the values tried."""
    base = ParserSVM(labelled=labelled)
    problem: Any = base._prepare(train, train)
    splits = [Split(base, part) for part in (dev, test)]
    methods: list[tuple[str, Any, Any, float | None]] = [
        ("averaged perceptron", "margin", "perceptron", None),
        ("margin", "margin", "auto", 0.1),
        ("slack", "slack", "auto", 0.0003),
        ("ProbLoss, convex", "prob", "auto", 0.01),
    ]
    if raw:
        methods.append(("ProbLoss, raw (Pegasos)", ProbLoss(convex=False), Subgradient(max_passes=passes), 0.01))
    found: dict[str, tuple[list[str], Parsed]] = {}
    at_end = []
    for name, surrogate, solver, start in methods:
        own = problem
        if surrogate != "margin":
            own = SurrogateParseProblem(problem.treebank, problem.heads, problem.labels, surrogate=make_surrogate(surrogate))

        def trained(C: float, name: str = name, surrogate: Any = surrogate, solver: Any = solver, own: Any = own) -> Trained:
            model = ParserSVM(C=C, labelled=labelled, surrogate=surrogate, solver=solver, max_iter=passes, random_state=0)
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                weights = model._train(own)
            seconds = time.process_time() - begin
            value = float(splits[0].parse(weights).both.mean())
            print(f"{name}, C={C:g}: {seconds:.1f} s, {model.n_iter_:.0f} passes, dev {100 * value:.2f}", flush=True)
            return Trained(value, weights, seconds, model.n_iter_)

        if start is None:
            best, settings = trained(1.0), ["", ""]
        else:
            C, tried = chosen(trained, start, n_values)
            best, settings = tried[C], [f"{C:g}", f"{min(tried):g} to {max(tried):g}"]
            if C in (min(tried), max(tried)):
                at_end.append(name)
        parsed = splits[1].parse(best.weights)
        row = [name, *settings, *splits[0].scores(splits[0].parse(best.weights))[: 2 if labelled else 1]]
        found[name] = [*row, *splits[1].scores(parsed), f"{best.passes:.0f}", f"{best.seconds:.1f}"], parsed
    reference = splits[1].per_sentence(found["margin"][1].both)
    rows = []
    for name, (row, parsed) in found.items():
        difference = splits[1].per_sentence(parsed.both) - reference
        rows.append([*row, "" if name == "margin" else f"{wilcoxon(difference).pvalue:.2g}"])
    kinds = ["UAS", "LAS"] if labelled else ["UAS"]
    columns = [f"{part}{kind}" for part in ("dev ", "test ") for kind in kinds] + [f"{kind}, no punctuation" for kind in kinds]
    return ["training", "C", "C tried", *columns, "passes", "seconds", "p against margin"], rows, at_end


# ---- memory -------------------------------------------------------------------------------------------------------------------


def memory_of(size: int, labelled: bool) -> dict[str, float]:
    """Peak memory of this process before features are made, and after two passes of training, in bytes; entries of features."""
    train = treebank("train")[:size]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    model = ParserSVM(C=0.01, labelled=labelled, max_iter=2, random_state=0)
    problem: Any = model._prepare(train, train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model._train(problem)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    bank = problem.treebank
    entries = len(bank.columns) + len(bank.begin) * 2
    if labelled:
        entries += len(bank.label_columns) + len(bank.label_begin) * 2
    return {"sentences": len(train), "before": before, "after": after, "entries": entries}


def memory_rows(sizes: tuple[int, ...], labelled: bool) -> list[list[str]]:
    """One process for each size."""
    rows = []
    for size in sizes:
        command = [
            sys.executable,
            "-m",
            "benchmarks.parsing.parsing",
            "--memory-of",
            str(size),
            *(["--labelled"] if labelled else []),
        ]
        got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        grown = got["after"] - got["before"]
        rows.append([
            str(got["sentences"]), f"{got['entries'] / 1e6:.1f}", f"{got['before'] / 2**20:.0f}", f"{got['after'] / 2**20:.0f}",
            f"{grown / got['entries']:.1f}",
        ])  # fmt: skip
    return rows


def main() -> None:
    """Write a part of benchmarks/results/parsing.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=10**9)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--labelled", action="store_true")
    parser.add_argument("--part", choices=["cost", "quality", "memory"], default="quality")
    parser.add_argument("--values", type=int, default=3, help="values of C to begin with")
    parser.add_argument("--raw", action="store_true", help="also the raw ProbLoss, by subgradient steps")
    parser.add_argument("--memory-of", type=int)
    arguments = parser.parse_args()
    labelled = arguments.labelled
    if arguments.memory_of is not None:
        print(json.dumps(memory_of(arguments.memory_of, labelled)))
        return
    kind = "labelled" if labelled else "unlabelled"
    if arguments.part == "cost":
        train = treebank("train")[:PASS_SIZE]
        sections = []
        if not labelled:
            sections.append(
                "## A pass\n\nProcessor time of a pass over the first 2,000 training sentences (margin, no labels), as multiples "
                "of the search:\n\n" + markdown(["what", "milliseconds", "ratio"], cost_of_a_pass(train))
            )
        size = 500 if labelled else PASS_SIZE
        sections.append(
            f"## Surrogates, {kind}\n\nProcessor time on the first {size:,} training sentences: of training, five passes and the "
            "proof of the gap, and of\none more pass that proves all hinges, both as multiples of margin rescaling's.\n\n"
            + markdown(
                ["surrogate", "milliseconds per pass of training", "training", "proving pass", "searches per visit"],
                cost_of_surrogates(train[:size], labelled),
            )
        )
    elif arguments.part == "memory":
        sizes = (1500, 5000, 12544)
        columns = ["sentences", "million entries", "MiB before", "MiB at the peak", "bytes per entry"]
        sections = [
            f"## Memory, {kind}\n\nPeak memory of a process that makes features of the first training sentences and takes two "
            "passes;\nentries are features of arcs, all of them, and two per row. Before that it has read the file.\n\n"
            + markdown(columns, memory_rows(sizes, labelled))
        ]
    else:
        train, dev, test = treebank("train")[: arguments.sentences], treebank("dev"), treebank("test")
        columns, rows, at_end = quality(train, dev, test, labelled, arguments.passes, arguments.raw, arguments.values)
        sections = [
            f"## Attachment scores, {kind}\n\nIn percent; {len(train):,} training sentences, at most {arguments.passes} passes, "
            f"C chosen on the {len(dev):,} development\nsentences, {len(test):,} test sentences; gold tags, projective. "
            f"C is at an end of the values tried for: {', '.join(at_end) or 'none'}.\nSeconds are processor time of training "
            "with that C. The last column is the p-value of a two-sided Wilcoxon signed-rank\ntest over test sentences, "
            "words that are no punctuation.\n\n" + markdown(columns, rows)
        ]
    update_report(FOLDER / "results" / "parsing.md", "UD English EWT, first-order parsers", "", sections)


if __name__ == "__main__":
    main()
