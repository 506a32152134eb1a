"""AP-SVM and its approximation by easy samples: AP on new data, and cost."""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import binary, mnist
from benchmarks.timing import best_times, markdown, write_report

from maxmargin import ApproximateRankingSVM, RankingSVM, metrics, most_violating_ranking
from maxmargin.core.solvers import BCFW

# C of the binary SVM, and of the others.
GRIDS = {"MNIST": ((0.01, 0.1, 1.0), (10.0, 100.0, 1000.0)), "w8a": ((0.1, 1.0, 10.0), (1e2, 1e3, 1e4, 1e5))}
MOST_CALLS = 10_000
SHARES = (0.25, 0.5, 0.75)


def fitted(model, train):
    """The model with the processor seconds of its training."""
    start = time.process_time()
    model.fit(*train)
    return model, time.process_time() - start


def best(models, train, valid):
    """The one with the best AP on validation data, and the seconds of its training."""
    found = [fitted(model, train) for model in models]
    return max(found, key=lambda pair: metrics.average_precision(valid[1], pair[0].decision_function(valid[0])))


def inference_seconds(model, X, y):
    """One search for the most violating ranking of the samples that are in it, at the final scores."""
    ranked = ~model.easy_ if isinstance(model, ApproximateRankingSVM) else np.ones(len(y), dtype=bool)
    scores, relevant = model.decision_function(X)[ranked], y[ranked]
    return best_times({"": lambda: most_violating_ranking(scores, relevant, "ap")}, 20)[""], int(ranked.sum())


def compare(name, train, valid, test):
    """For every method: AP, samples in the inference, its seconds per call, calls, seconds of training."""
    X, y = train
    binary_grid, grid = GRIDS[name]
    binary, seconds = best(
        [RankingSVM("accuracy", C=C, solver=BCFW(steps="exact", max_passes=MOST_CALLS)) for C in binary_grid], train, valid
    )
    rows = {"binary SVM": [metrics.average_precision(test[1], binary.decision_function(test[0])), 0, np.nan, 0, seconds]}
    methods = {"AP-SVM": [RankingSVM("ap", C=C, max_iter=MOST_CALLS) for C in grid]}
    for share in SHARES:
        methods[f"approximation, {100 * share:.0f} % easy"] = [
            ApproximateRankingSVM("ap", C=C, easy_fraction=share, binary_C=binary.C, max_iter=MOST_CALLS) for C in grid
        ]
    for name, models in methods.items():
        model, seconds = best(models, train, valid)
        per_call, ranked = inference_seconds(model, X, y)
        rows[name] = [
            metrics.average_precision(test[1], model.decision_function(test[0])), ranked, per_call, model.n_iter_, seconds
        ]  # fmt: skip
    return rows


def summary(name, runs):
    """Means over the runs; times as ratios to the exact AP-SVM of the same run."""
    rows = []
    for method in runs[0]:
        ap, ranked, per_call, calls, seconds = np.array([run[method] for run in runs]).T
        exact = np.array([run["AP-SVM"] for run in runs]).T
        is_binary = method == "binary SVM"
        rows.append(
            [
                name,
                method,
                f"{100 * ap.mean():.2f}",
                "" if is_binary else f"{ranked.mean():,.0f}",
                "" if is_binary else f"{1e6 * per_call.mean():,.0f} µs",
                "" if is_binary else f"{calls.mean():.0f}",
                f"{seconds.sum() / len(runs):.2f} s",
                f"{seconds.sum() / exact[4].sum():.2f}",
                "" if is_binary else f"{100 * (per_call * calls).sum() / seconds.sum():.1f} %",
            ]
        )
        print(rows[-1], flush=True)
    return rows


def split(X, y, rng, *sizes):
    """Disjoint random parts."""
    order = rng.permutation(X.shape[0])
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return [(X[order[a:b]], y[order[a:b]]) for a, b in pairwise(bounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--digits", type=int, default=10, help="digits of MNIST to find, one after the other")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X, digits = mnist()
    parts = split(X, digits, rng, 5000, 2000)
    parts.append(mnist("t10k"))
    runs = []
    for digit in range(options.digits):
        runs.append(compare("MNIST", *[(X, y == digit) for X, y in parts]))
        print(digit, {method: round(100 * row[0], 2) for method, row in runs[-1].items()}, flush=True)
    classes = [[f"digit {digit}", *(f"{100 * row[0]:.2f}" for row in run.values())] for digit, run in enumerate(runs)]
    rows = summary("MNIST", runs)
    X, y = binary("w8a")
    rows += summary("w8a", [compare("w8a", *split(X, y, rng, 20_000, 10_000, 19_749)) for _ in range(3)])
    grids = "; ".join(
        f"{name} {', '.join(f'{C:g}' for C in grid)} (binary SVM {', '.join(f'{C:g}' for C in binary_grid)})"
        for name, (binary_grid, grid) in GRIDS.items()
    )
    first = (
        "MNIST: every digit against the others, 5,000 images for training and 2,000 for choosing C, the 10,000 of the test set. "
        "w8a: 3 % positives among 20,000 + 10,000 + 19,749 pages, three random splits. C is chosen by AP on the second part: "
        f"{grids}. The approximation has the C of the best binary SVM in its first stage. Means over digits and splits. *Easy* "
        "is the share of the samples with a margin of at least 1 that are held by constraints; the others are in the inference. "
        "All are trained to a relative gap of 0.1 %. *Training* is processor time at the chosen C, both stages included; *share* "
        "is the part of it that the inference alone takes."
    )
    header = ["data", "method", "AP", "in the inference", "a call", "calls", "training", "/ AP-SVM", "share"]
    second = "AP (in percent) on the test set of MNIST, by digit:"
    path = FOLDER / "results" / "approximate_ranking.md"
    write_report(
        path,
        "AP-SVM and its approximation by easy samples",
        [first, markdown(header, rows), second, markdown(["", *runs[0]], classes)],
    )


if __name__ == "__main__":
    main()
