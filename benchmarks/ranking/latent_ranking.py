"""Weakly supervised ranking where the answer is known: AP on new bags, and cost."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import exponent, markdown, write_report

from maxmargin import LatentRankingSVM
from maxmargin.ranking import metrics, supervised_share

GRID = (1.0, 10.0, 100.0)
CANDIDATES, FEATURES = 20, 32


def make(n, rng, candidates, d, shift, share):
    """Noise, and one shifted candidate in every relevant bag; in the others any candidate is as good."""
    y = np.zeros(n, dtype=bool)
    y[: round(share * n)] = True
    X = rng.normal(size=(n, candidates, d))
    place = rng.integers(0, candidates, n)
    X[np.flatnonzero(y), place[y], :2] += shift
    return X, y, place


def methods(with_structured):
    """Label and parameters; J is the ratio of the classes where it says so."""
    rows = {
        "latent AP-SVM": {"formulation": "latent_ap"},
        "latent AP-SVM, 5 random starts": {"formulation": "latent_ap", "start": "random", "n_starts": 5},
        "latent SVM": {"formulation": "latent_svm"},
        "latent SVM, J = N/P": {"formulation": "latent_svm", "positive_weight": "balanced"},
    }
    if with_structured:
        rows["latent SSVM (A1, greedy)"] = {"formulation": "latent_ssvm"}
    return rows


def fit_best(parameters, train, known, valid):
    """The C that is best on validation bags; seconds are those of that one fit."""
    X, y, _ = train
    if parameters.get("positive_weight") == "balanced":
        parameters = {**parameters, "positive_weight": float((~y).sum() / y.sum())}
    best = None
    for C in GRID:
        start = time.process_time()
        model = LatentRankingSVM(C=C, random_state=0, **parameters).fit(X, y, annotations=known)
        seconds = time.process_time() - start
        score = metrics.average_precision(valid[1], model.decision_function(valid[0]))
        if best is None or score > best[0]:
            best = score, model, seconds
    return best[1], best[2]


def compare(name, n_train, candidates, d, shift, share, levels, seeds, with_structured):
    """Rows of AP, mean and standard deviation over seeds, and the difference to latent AP-SVM by seed."""
    scores: dict[tuple[str, float], list[float]] = {}
    found: dict[tuple[str, float], list[float]] = {}
    seconds: dict[tuple[str, float], list[float]] = {}
    ideal = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        train, valid, test = (make(n, rng, candidates, d, shift, share) for n in (n_train, 500, 2000))
        ideal.append(metrics.average_precision(test[1], test[0][:, :, :2].sum(axis=2).max(axis=1)))
        for level in levels:
            known = supervised_share(train[1], train[2], level, random_state=seed)
            for label, parameters in methods(with_structured).items():
                model, spent = fit_best(parameters, train, known, valid)
                key = label, level
                scores.setdefault(key, []).append(metrics.average_precision(test[1], model.decision_function(test[0])))
                hit = model.best_candidates(test[0])[test[1]] == test[2][test[1]]
                found.setdefault(key, []).append(float(hit.mean()))
                seconds.setdefault(key, []).append(spent)
    rows = []
    for (label, level), values in scores.items():
        gain = np.array(scores["latent AP-SVM", level]) - np.array(values)
        row = [
            name,
            f"{100 * level:.0f} %",
            label,
            f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}",
            "" if label == "latent AP-SVM" else f"{100 * gain.mean():+.1f} ({int((gain > 0).sum())} of {seeds})",
            f"{100 * np.mean(found[label, level]):.0f} %",
            f"{np.median(seconds[label, level]):.2f} s",
        ]
        print(row, flush=True)
        rows.append(row)
    rows.append([name, "", "the true direction", f"{100 * np.mean(ideal):.1f} ± {100 * np.std(ideal):.1f}", "", "", ""])
    return rows


def write_rows(path, n_rows):
    """A file of float32 candidates, made piece by piece; labels of the bags."""
    rng = np.random.default_rng(0)
    y = rng.random(n_rows // CANDIDATES) < 0.1
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_rows, FEATURES))
    for begin in range(0, n_rows, 100_000):
        end = min(n_rows, begin + 100_000)
        X[begin:end] = rng.standard_normal((end - begin, FEATURES), dtype=np.float32)
    X[np.flatnonzero(y) * CANDIDATES + rng.integers(0, CANDIDATES, int(y.sum())), :2] += 3
    X.flush()
    return y


def measure_fit(n_rows, formulation, what):
    """One fit from a memory map: seconds per inference call, calls, seconds, AP; or the largest memory in use."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        y = write_rows(path, n_rows)
        X = np.load(path, mmap_mode="r")
        offsets = np.arange(0, n_rows + 1, CANDIDATES)
        model = LatentRankingSVM(C=100, formulation=formulation, random_state=0)
        if what == "memory":
            tracemalloc.start()
            model.fit(X, y, offsets=offsets)
            print(tracemalloc.get_traced_memory()[1])
            return
        start = time.perf_counter()
        model.fit(X, y, offsets=offsets)
        seconds = time.perf_counter() - start
        calls = sum(len(history) for history in model.histories_)
        print(seconds, calls, model.n_rounds_, model.score(X, y, offsets))


def in_a_process(*arguments):
    """The numbers another process prints, so that nothing is left over from the last size."""
    command = [sys.executable, "-m", "benchmarks.ranking.latent_ranking", "--one", *map(str, arguments)]
    return [float(v) for v in subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()]


def scaling(sizes):
    """Rows of the scaling table, and the exponents of time per call and of memory, by formulation."""
    rows, slopes = [], []
    for formulation in ("latent_ap", "latent_svm"):
        per_call, memory = [], []
        # The binary problem needs several times as many calls; its largest run would tell nothing new.
        here = [size for size in sizes if formulation == "latent_ap" or size <= 1e6]
        for size in here:
            seconds, calls, rounds, ap = in_a_process(size, formulation, "time")
            (used,) = in_a_process(size, formulation, "memory")
            per_call.append(seconds / calls)
            memory.append(used)
            row = [
                formulation,
                f"{size:,}",
                f"{size * FEATURES * 4 / 1e6:,.0f} MB",
                f"{used / 1e6:,.1f} MB",
                f"{used / size:.1f}",
                f"{1e3 * seconds / calls:,.1f} ms",
                f"{calls:.0f}",
                f"{rounds:.0f}",
                f"{seconds:,.1f} s",
                f"{100 * ap:.1f}",
            ]
            print(row, flush=True)
            rows.append(row)
        slopes.append(f"`{formulation}`: time per call {exponent(here, per_call):.2f}, memory {exponent(here, memory):.2f}")
    return rows, slopes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--largest", type=float, default=1e6, help="candidate rows of the largest run")
    parser.add_argument("--one", nargs=3, metavar=("ROWS", "FORMULATION", "WHAT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure_fit(int(options.one[0]), options.one[1], options.one[2])
        return
    sizes = [int(s) for s in (1e4, 1e5, 1e6, 1e7) if s <= options.largest]
    size_rows, slopes = scaling(sizes)
    small = compare("small", 32, 5, 8, 2.5, 0.25, (0.0, 0.5, 1.0), min(4, options.seeds), with_structured=True)
    large = compare("large", 400, 10, 20, 2.0, 0.1, (0.0, 0.5), options.seeds, with_structured=False)
    header = ["data", "annotated", "method", "AP", "latent AP-SVM better by", "right candidate", "CPU time of a fit"]
    first = (
        "Bags of Gaussian noise; in a relevant bag one candidate is shifted along two of the features, nobody says which. "
        "*Small*: 32 training bags of 5 candidates, 8 features, a quarter relevant, 4 seeds (the latent structured SVM "
        f"is slow). *Large*: 400 bags of 10, 20 features, a tenth relevant, {options.seeds} seeds. AP (in percent) is on "
        "2,000 new bags, whose "
        "candidates are never annotated; C from 1, 10, 100 by AP on 500 further bags, for every method alike. *Annotated* is "
        "the share of training bags whose candidate is told. *Right candidate* is the share of new relevant bags whose best "
        "candidate is the shifted one. All start from the difference of means except where random starts are named. The true "
        "direction is the best linear scorer there is."
    )
    second = (
        f"A fit with C = 100 from a memory-mapped float32 file, {CANDIDATES} candidates a bag, {FEATURES} features, a tenth of "
        "the bags relevant. Memory is the most that was allocated at any time, the file's own pages excluded; the third number "
        "is bytes per candidate row. Time per call is the wall-clock time of the fit over its inference calls, on a busy "
        "machine. Exponents over the sizes: " + "; ".join(slopes) + "."
    )
    columns = ["formulation", "rows", "data", "memory", "bytes a row", "per call", "calls", "rounds", "fit", "AP (training)"]
    path = FOLDER / "results" / "latent_ranking.md"
    write_report(
        path, "Ranking with weak supervision", [first, markdown(header, small + large), second, markdown(columns, size_rows)]
    )


if __name__ == "__main__":
    main()
