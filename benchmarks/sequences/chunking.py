"""Chunks of CoNLL-2000: surrogates of `ChainSVM` against each other and against CRFsuite.

Every model gets the same features and as many settings, and more where the best of them was an end of its grid, chosen by
chunk F1 on the last ninth of the sentences, and is trained again on all of them. Two trainers of CRFsuite stand beside them if
``python-crfsuite`` is installed. ``--only slack beta`` makes these rows anew and keeps the others of the table.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.timing import markdown, write_report
from scipy import sparse

from maxmargin import ChainSVM
from maxmargin.sequences import chunk_scores, read_conll
from maxmargin.sequences.metrics import chunks, sentence_f1

# Four values of C for every surrogate, around the best of a first look on the development part, and smaller ones where the
# smallest of the four was the best.
GRIDS = {
    "margin": (0.03, 0.1, 0.3, 1.0),
    "slack": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
    "beta": (0.01, 0.03, 0.1, 0.3, 1.0),
    "log": (0.03, 0.1, 0.3, 1.0),
    "prob": (0.03, 0.1, 0.3, 1.0),
    "micro_f1": (1.0, 3.0, 10.0, 30.0),
}
Sentences = list[list[tuple[str, ...]]]


class Part(NamedTuple):
    """Names of features of every token, their matrices, and the tags, by sentence."""

    names: list[list[list[str]]]
    X: list[Any]
    y: list[list[str]]


def features(sentence: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Words and tags in a window of five with their pairs and triples, and the beginnings and ends of the word."""
    word = ["</", "</", *(token[0] for token in sentence), "/>", "/>"]
    tag = ["</", "</", *(token[1] for token in sentence), "/>", "/>"]
    rows = []
    for t in range(2, len(sentence) + 2):
        own = [f"w{k}={word[t + k]}" for k in range(-2, 3)] + [f"p{k}={tag[t + k]}" for k in range(-2, 3)]
        own += [f"w{k}|={word[t + k]}|{word[t + k + 1]}" for k in (-1, 0)]
        own += [f"p{k}|={tag[t + k]}|{tag[t + k + 1]}" for k in range(-2, 2)]
        own += [f"p{k}||={tag[t + k]}|{tag[t + k + 1]}|{tag[t + k + 2]}" for k in range(-2, 1)]
        own += [f"^{n}={word[t][:n]}" for n in (2, 3)] + [f"${n}={word[t][-n:]}" for n in (2, 3)]
        own.append("shape=" + "".join(map(shape, word[t][:3])))
        rows.append(own)
    return rows


def shape(character: str) -> str:
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return "0" if character.isdigit() else "."


def encoded(names: list[list[list[str]]], known: dict[str, int], grow: bool) -> list[Any]:
    """Indicators of the features of every sentence; those that training has not seen are left out."""
    lists = []
    for sentence in names:
        rows = []
        for own in sentence:
            if grow:
                rows.append([known.setdefault(name, len(known)) for name in own])
            else:
                rows.append([at for name in own if (at := known.get(name)) is not None])
        lists.append(rows)
    matrices = []
    for rows in lists:
        begin = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        at = np.array([k for row in rows for k in row])
        matrices.append(sparse.csr_array((np.ones(len(at)), at, begin), shape=(len(rows), len(known))))
    return matrices


def parts(train: Sentences, test: Sentences) -> tuple[Part, Part]:
    known: dict[str, int] = {}
    found = []
    for data, grow in ((train, True), (test, False)):
        names = [features(sentence) for sentence in data]
        found.append(Part(names, encoded(names, known, grow), [[token[-1] for token in sentence] for sentence in data]))
    # All matrices of training are as wide as the last of them.
    for matrix in found[0].X:
        matrix.resize((matrix.shape[0], len(known)))
    return found[0], found[1]


class Run(NamedTuple):
    """Tags of the test sentences, processor seconds of training, and how far it came."""

    predicted: list[list[str]]
    seconds: float
    passes: str
    gap: str


def chain(surrogate: str, C: float, train: Part, test: Part) -> Run:
    # Losses are counts of wrong tags, which is what ProbLoss is for, and the C of a sentence does not depend on its length.
    model = ChainSVM(C=C, surrogate=surrogate, normalize=False, tol=0.05, random_state=0)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train.X, train.y)
    seconds = time.process_time() - start
    found = [list(map(str, tags)) for tags in model.predict(test.X)]
    return Run(found, seconds, f"{model.n_iter_:.0f}", f"{100 * model.dual_gap_ / model.primal_objective_:.1f}")


def crfsuite(algorithm: str, parameters: dict[str, float], train: Part, test: Part) -> Run:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    trainer.set_params({**parameters, "feature.possible_transitions": True})
    for own, tags in zip(train.names, train.y, strict=True):
        trainer.append(own, tags)
    with tempfile.NamedTemporaryFile(suffix=".crfsuite") as file:
        start = time.process_time()
        trainer.train(file.name)
        seconds = time.process_time() - start
        tagger = pycrfsuite.Tagger()
        tagger.open(file.name)
        return Run([tagger.tag(own) for own in test.names], seconds, "", "")


def models() -> dict[str, list[tuple[str, Any]]]:
    """For every model its settings, and how to train it with one of them."""
    found: dict[str, list[tuple[str, Any]]] = {
        f"ChainSVM, {name}": [(f"C = {C:g}", lambda a, b, n=name, C=C: chain(n, C, a, b)) for C in grid]
        for name, grid in GRIDS.items()
    }
    found["CRFsuite, L-BFGS"] = [
        (f"c2 = {c:g}", lambda a, b, c=c: crfsuite("lbfgs", {"c1": 0.0, "c2": c, "max_iterations": 100}, a, b))
        for c in (0.03, 0.1, 0.3, 1.0)
    ]
    found["CRFsuite, averaged perceptron"] = [
        (f"{n} passes", lambda a, b, n=n: crfsuite("ap", {"max_iterations": n}, a, b)) for n in (5, 10, 20, 50)
    ]
    return found


def counts(truth: list[list[str]], found: list[list[str]]) -> np.ndarray:
    """Right, true and predicted chunks of every sentence."""
    rows = []
    for own, other in zip(truth, found, strict=True):
        one, two = set(chunks(own)), set(chunks(other))
        rows.append((len(one & two), len(one), len(two)))
    return np.array(rows)


def f1(rows: np.ndarray) -> float:
    right, true, predicted = rows.sum(axis=0)
    return 200.0 * right / (true + predicted)


def rows_of(path: Path) -> dict[str, list[str]]:
    """The rows of a table that was written before, by their first cells."""
    lines = [line.strip("|").split("|") for line in path.read_text().splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells] for cells in lines[2:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=8936)
    parser.add_argument("--only", nargs="*", help="names of models, or parts of them, whose rows are made; the others stay")
    options = parser.parse_args()
    data = read_conll(find("conll2000", "train.txt.gz"))[: options.sentences]
    held_out = read_conll(find("conll2000", "test.txt.gz"))
    n_dev = len(data) // 9
    fit, dev = parts(data[:-n_dev], data[-n_dev:])
    train, test = parts(data, held_out)
    n_features = train.X[0].shape[1]
    results: dict[str, tuple[str, float, Run]] = {}
    path = FOLDER / "results" / "chunking.md"
    table = rows_of(path) if options.only else {}
    every = models()
    base = next(iter(every))
    for name, settings in every.items():
        if "CRFsuite" in name and find_spec("pycrfsuite") is None:
            print(f"python-crfsuite is not installed: no {name}")
            continue
        if options.only and not any(word in name for word in options.only):
            if name == base:
                # All others are compared with it: trained again, with the setting that was chosen.
                results[name] = table[name][1], float(table[name][2]), dict(settings)[table[name][1]](train, test)
            continue
        scores = [100 * chunk_scores(dev.y, run(fit, dev).predicted).f1 for _, run in settings]
        best = int(np.argmax(scores))
        setting, run = settings[best]
        results[name] = setting, scores[best], run(train, test)
        print(name, [f"{s:.2f}" for s in scores], setting, f"{f1(counts(test.y, results[name][2].predicted)):.2f}", flush=True)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(test.y), (1000, len(test.y)))
    tables = {name: counts(test.y, run.predicted) for name, (_, _, run) in results.items()}
    resampled = {name: np.array([f1(found[draw]) for draw in draws]) for name, found in tables.items()}
    for name, (setting, on_dev, run) in results.items():
        scores = chunk_scores(test.y, run.predicted)
        against = (
            ""
            if name == base
            else (f"{f1(tables[name]) - f1(tables[base]):+.2f} ± {np.std(resampled[name] - resampled[base]):.2f}")
        )
        row = [
            name, setting, f"{on_dev:.2f}", f"{100 * scores.f1:.2f} ± {np.std(resampled[name]):.2f}", against,
            f"{100 * scores.accuracy:.2f}", f"{100 * sentence_f1(test.y, run.predicted):.2f}", f"{run.seconds:.1f}",
            f"{run.seconds / results[base][2].seconds:.2f}", run.passes, run.gap,
        ]  # fmt: skip
        if name != base or name not in table:
            table[name] = row
        elif row[3:7] != table[name][3:7]:
            raise SystemExit(f"{name} is not what it was, {row} and not {table[name]}: make the whole table anew")
    grids = {name: [setting for setting, _ in settings] for name, settings in every.items()}
    at_end = [name for name, row in table.items() if row[1] in (grids[name][0], grids[name][-1])]
    longer = [f"{len(grid)} for {name}" for name, grid in grids.items() if len(grid) > 4]
    header = [
        "model", "setting", "dev F1", "test F1", f"minus {base}", "tags right, %", "F1 of sentences", "fit, s", "fit / margin",
        "passes", "gap, %",
    ]  # fmt: skip
    text = (
        f"{len(train.y):,} training sentences ({len(dev.y):,} of them to choose the setting, one of four for each model, "
        f"{', '.join(longer)}), {len(test.y):,} test sentences, {n_features:,} features: words and part-of-speech tags in "
        "a window of five with pairs and triples, affixes, the shape of the beginning. F1 of chunks as conlleval has it, in "
        "percent, with bootstrap standard errors over the test sentences (1,000 draws), of differences too. *F1 of sentences* is "
        "the mean over sentences of the F1 of tokens that are not O, whose complement the surrogate micro_f1 bounds. *Fit* is "
        "processor time of training with "
        "the setting chosen, from matrices or from lists of names, whatever the trainer takes, and its ratio to that of margin "
        f"in the same run; `ChainSVM` has normalize=False, tol=0.05. Settings at an end of their grid: "
        f"{', '.join(at_end) or 'none'}. Peak memory of the last run: "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB."
    )
    if options.only:
        text += f" This run made: {', '.join(name for name in results if name != base)}; all other rows are of an earlier one."
    rows = [table[name] for name in every if name in table]
    write_report(path, "Chunks: surrogates of sequences", [text, markdown(header, rows)])


if __name__ == "__main__":
    main()
