"""`ChainSVM()` as it comes beside CRFsuite: quality, time and memory from dictionaries to tags.

Every run is a process of its own, which makes the lists of dictionaries, notes what memory they take, trains and predicts.
``--only chunks tags letters`` makes these sections anew, ``--models perceptron`` these rows of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find, ocr_words
from benchmarks.sequences.chunking import features
from benchmarks.timing import markdown, update_report

from maxmargin.parsing import read_conllu
from maxmargin.sequences import chunk_scores, read_conll

Blocks = list[list[dict[str, float]]]
Tags = list[list[str]]
# Passes and c2 of CRFsuite are those that benchmarks/sequences/chunking.py chose on held-out sentences.
MODELS = ("ChainSVM()", "ChainSVM(surrogate='log')", "CRFsuite, averaged perceptron", "CRFsuite, L-BFGS")
PERCEPTRON = "CRFsuite, averaged perceptron"
TITLES = {
    "chunks": "Chunks of CoNLL-2000",
    "tags": "Part-of-speech tags of UD English EWT",
    "letters": "Letters of handwritten words",
}


class Data(NamedTuple):
    """Training and test sequences."""

    X: Blocks
    y: Tags
    X_test: Blocks
    y_test: Tags


def named(sentence: list[tuple[str, ...]]) -> list[dict[str, float]]:
    return [dict.fromkeys(row, 1.0) for row in features(sentence)]


def without_tags(sentence: list[tuple[str, ...]]) -> list[dict[str, float]]:
    """Of a sentence whose tags are to be found: nothing that names one."""
    rows = []
    for row, (word, _) in zip(features(sentence), sentence, strict=True):
        own = [name for name in row if not name.startswith("p")]
        rows.append(dict.fromkeys([*own, f"$1={word[-1:]}", f"lower={word.lower()}"], 1.0))
    return rows


def load(name: str) -> Data:
    if name == "chunks":
        parts = [read_conll(find("conll2000", f"{part}.txt.gz")) for part in ("train", "test")]
        X, X_test = ([named(sentence) for sentence in part] for part in parts)
        y, y_test = ([[token[-1] for token in sentence] for sentence in part] for part in parts)
        return Data(X, y, X_test, y_test)
    if name == "tags":
        trees = [read_conllu(find("ud_english_ewt", f"en_ewt-ud-{part}.conllu.gz")) for part in ("train", "test")]
        parts = [[list(zip(tree.words, tree.tags, strict=True)) for tree in part] for part in (trees[0][:4000], trees[1])]
        X, X_test = ([without_tags(sentence) for sentence in part] for part in parts)
        y, y_test = ([[tag for _, tag in sentence] for sentence in part] for part in parts)
        return Data(X, y, X_test, y_test)
    # The small task: one fold for training, and a part of the others for testing.
    many, few = ocr_words()
    found: list[Any] = []
    for part, every in ((few, 1), (many, 4)):
        rows = [{f"{j}": 1.0 for j in np.flatnonzero(x[:128])} for x in part.X]
        pairs = list(itertools.pairwise(part.offsets.tolist()))[::every]
        found += [[rows[a:b] for a, b in pairs], [[str(k) for k in part.y[a:b]] for a, b in pairs]]
    return Data(*found)


def memory() -> float:
    """Most megabytes so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def work(name: str, model: str) -> dict[str, float]:
    """One row, in a process of its own; all seconds are of the processor."""
    data = load(name)
    held = memory()
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = os.path.join(folder, "model")
        if model.startswith("ChainSVM"):
            from maxmargin import ChainSVM, save_model

            settings = {"surrogate": "log"} if "log" in model else {}
            if "before" in model:
                settings = {"C": 1.0, "normalize": True, "tol": 1e-3}  # type: ignore[dict-item]
            chain = ChainSVM(**settings, n_jobs=1).fit(data.X, data.y)
            fitted, peak = time.process_time() - start, memory()
            start = time.process_time()
            predicted = [list(map(str, tags)) for tags in chain.predict(data.X_test)]
            seconds = time.process_time() - start
            start = time.process_time()
            for sentence in data.X_test[:200]:
                chain.predict([sentence])
            single = (time.process_time() - start) / 200
            save_model(chain, file)
        else:
            import pycrfsuite

            ours = {"max_iterations": 10} if "perceptron" in model else {"max_iterations": 100, "c2": 0.3}
            trainer = pycrfsuite.Trainer("ap" if "perceptron" in model else "lbfgs", verbose=False)
            trainer.set_params({**ours, "feature.possible_transitions": True})
            for rows, tags in zip(data.X, data.y, strict=True):
                trainer.append(rows, tags)
            trainer.train(file)
            fitted, peak = time.process_time() - start, memory()
            tagger = pycrfsuite.Tagger()
            tagger.open(file)
            start = time.process_time()
            predicted = [tagger.tag(rows) for rows in data.X_test]
            seconds = time.process_time() - start
            start = time.process_time()
            for sentence in data.X_test[:200]:
                tagger.tag(sentence)
            single = (time.process_time() - start) / 200
        size = os.path.getsize(file) / 1e6
    right = np.concatenate([np.array(a) == np.array(b) for a, b in zip(data.y_test, predicted, strict=True)])
    score = chunk_scores(data.y_test, predicted).f1 if name == "chunks" else float(np.mean(right))
    return {
        "score": 100 * score, "fit": fitted, "memory": peak - held, "held": held, "predict": seconds, "single": 1e3 * single,
        "file": size, "sentences": len(data.y), "tokens": sum(map(len, data.y)),
    }  # fmt: skip


def kept_rows(path: Path, name: str) -> dict[str, list[str]]:
    """Rows of a section that was written before, by their first cells."""
    text = path.read_text().partition(f"## {TITLES[name]}\n")[2].partition("\n## ")[0] if path.exists() else ""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {cells[0]: cells for cells in lines[2:]}


def section(name: str, path: Path, wanted: list[str]) -> str:
    models = [*MODELS, *(["ChainSVM(), before"] if name == "letters" else [])]
    if find_spec("pycrfsuite") is None:
        print("python-crfsuite is not installed: no rows of CRFsuite")
        models = [model for model in models if "CRF" not in model]
    rows: dict[str, dict[str, float]] = {}
    for model in [model for model in models if not wanted or any(word in model for word in wanted)]:
        command = [sys.executable, "-m", "benchmarks.sequences.tagging", "--worker", name, model]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows[model] = json.loads(found.splitlines()[-1])
        print(name, model, rows[model], flush=True)
    peer = rows.get(PERCEPTRON)
    made = {
        model: [
            model, f"{row['score']:.2f}", f"{row['fit']:.1f}", f"{row['fit'] / peer['fit']:.2f}" if peer else "",
            f"{row['memory']:.0f}", f"{row['predict']:.2f}", f"{row['single']:.2f}", f"{row['file']:.1f}",
        ]
        for model, row in rows.items()
    }  # fmt: skip
    table = {**(kept_rows(path, name) if wanted else {}), **made}
    metric = "chunk F1, %" if name == "chunks" else "tags right, %"
    header = ["model", metric, "fit, s", "fit / perceptron", "memory, MB", "predict, s", "one sequence, ms", "file, MB"]
    own = next(iter(rows.values()))
    sizes = f"{own['sentences']:,.0f} sequences of training, {own['tokens']:,.0f} positions; the lists take {own['held']:,.0f} MB"
    text = f"{sizes} with the interpreter."
    if wanted:
        text += f" The last run made {' and '.join(made)}; other rows are of an earlier one."
    return "\n\n".join([f"## {TITLES[name]}", text, markdown(header, [table[model] for model in models if model in table])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=TITLES, default=list(TITLES))
    parser.add_argument("--models", nargs="*", default=[], help="parts of the names of models whose rows are made")
    parser.add_argument("--worker", nargs=2, metavar=("DATA", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(*options.worker)))
        return
    introduction = (
        "From lists of dictionaries to tags, every model in a process of its own, processor seconds. *Fit* begins with the "
        "dictionaries; *memory* is what training adds to the process at its peak, the lists not counted, and 0 where reading the "
        "data took more. `ChainSVM()` has no "
        "argument; the surrogate `log` is another objective with its own usual C. CRFsuite has the passes (10) and the c2 (0.3, "
        "at most 100 iterations) that were best on held-out sentences of CoNLL-2000; its own default of 100 passes takes ten "
        "times as long. *Before* are the defaults of earlier versions: C = 1, losses over lengths, tol = 0.001."
    )
    path = FOLDER / "results" / "tagging.md"
    for name in options.only:
        update_report(path, "Sequences out of the box", introduction, [section(name, path, options.models)])


if __name__ == "__main__":
    main()
