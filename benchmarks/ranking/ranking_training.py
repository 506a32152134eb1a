"""Training for AP against ordinary training: seconds and quality."""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings

import lightgbm
import numpy as np
import xgboost
from benchmarks import FOLDER, datasets
from benchmarks.timing import exponent, markdown, write_report
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import LinearSVC

from maxmargin import RankingSVM
from maxmargin.ranking import average_precision

ROUNDS = 50  # of boosting on long lists


def timed(model, X, y):
    """The fitted model and the processor seconds of this thread."""
    start = time.thread_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, time.thread_time() - start


def quality(model, X, y):
    return average_precision(y, model.decision_function(X))


def tuned(make, grid, X, y, folds=None):
    """The value of C that is best in cross-validation or, without folds, on a quarter of the data."""
    splits = StratifiedKFold(folds or 4, shuffle=True, random_state=1).split(np.zeros(len(y)), y)
    parts = list(splits) if folds else [next(splits)]
    return max(grid, key=lambda C: sum(quality(timed(make(C), X[fit], y[fit])[0], X[valid], y[valid]) for fit, valid in parts))


def ranking(C):
    return RankingSVM("ap", C=C, max_iter=5000)


def hinge(C):
    return LinearSVC(loss="hinge", C=C)


RANKING_GRID, HINGE_GRID = 10.0 ** np.arange(1, 6), 10.0 ** np.arange(-3, 2)


def against_liblinear(name):
    """Five folds; both tuned on the training data of the fold, and LinearSVC also with its default C."""
    X, y = datasets.binary(name)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    seconds, aps, chosen, gaps = [], [], [], []
    for train, test in folds:
        C, C_hinge = (
            tuned(make, grid, X[train], y[train], folds=5) for make, grid in ((ranking, RANKING_GRID), (hinge, HINGE_GRID))
        )
        times = {"ours": [], "theirs": [], "default": []}
        for _ in range(3):
            for who, model in (("ours", ranking(C)), ("theirs", hinge(C_hinge)), ("default", hinge(1.0))):
                fitted, took = timed(model, X[train], y[train])
                times[who].append(took)
                if who == "ours":
                    ap, gap = quality(fitted, X[test], y[test]), fitted.dual_gap_ / fitted.primal_objective_
                elif who == "theirs":
                    ap_hinge = quality(fitted, X[test], y[test])
        seconds.append([min(values) for values in times.values()])
        aps.append([ap, ap_hinge])
        chosen.append((C, C_hinge))
        gaps.append(gap)
    seconds, aps = np.array(seconds), np.array(aps)
    difference = aps[:, 0] - aps[:, 1]
    ours, theirs, default = seconds.mean(axis=0)
    values = [" ".join(f"{C:g}" for C in sorted({pair[side] for pair in chosen})) for side in (0, 1)]
    return [
        name,
        f"{aps[:, 0].mean():.4f}",
        f"{aps[:, 1].mean():.4f}",
        f"{difference.mean():+.4f} ± {difference.std(ddof=1) / np.sqrt(5):.4f}",
        f"{max(gaps):.1e}",
        f"{ours:.3f}",
        f"{theirs:.3f}",
        f"{ours / theirs:.2f}",
        f"{ours / default:.2f}",
        *values,
    ]


def well_specified(n, rng):
    """Logistic labels of a linear score, 1.4 % positive."""
    X, direction = rng.normal(size=(n, 20)), np.random.default_rng(7).normal(size=20)
    return X, rng.random(n) < 1 / (1 + np.exp(6 - 2 * X @ direction / np.linalg.norm(direction)))


def rare(n, rng):
    """One per cent positives, inside the negatives: no threshold is better than none."""
    y = rng.random(n) < 0.01
    X = rng.normal(size=(n, 20))
    X[y, :4] += 0.75
    return X, y


def two_kinds(n, rng):
    """Half of the positives (0.5 %) can be found by the first feature, the others pull the weights elsewhere."""
    y = rng.random(n) < 0.01
    X, easy = rng.normal(size=(n, 20)), rng.random(n) < 0.5
    found, others = y & easy, y & ~easy
    X[found, 0] = 3 + 0.5 * X[found, 0]
    X[found, 1] -= 1
    X[others, 1] += 1
    return X, y


def like_w8a(rows):
    """Rows of w8a, drawn again and again with a tenth of the words left out: features that are no linear model's own."""
    X, y = datasets.binary("w8a")

    def make(n, rng):
        drawn = rng.choice(rows, n)
        thinned = X[drawn].copy()
        thinned.data = thinned.data * (rng.random(len(thinned.data)) < 0.9)
        thinned.eliminate_zeros()
        return csr_matrix(thinned), y[drawn]

    return make


def boosted(objective, X, y):
    """Scores of trees after some rounds, and processor seconds."""
    data = xgboost.DMatrix(X, label=y.astype(int), qid=np.zeros(len(y), dtype=int) if objective.startswith("rank") else None)
    start = time.process_time()
    model = xgboost.train({"objective": objective, "nthread": 1, "max_depth": 6, "eta": 0.1, "tree_method": "hist"}, data, ROUNDS)
    return (lambda Z: model.predict(xgboost.DMatrix(Z))), time.process_time() - start


def lambdarank(X, y):
    lightgbm.LGBMRanker(n_estimators=5, verbose=-1, n_jobs=1).fit(X, y.astype(int), group=[len(y)])


def long_list(name, make_train, make_test, sizes):
    """One list, ever longer; settings are chosen at the first length."""
    rows = []
    test = make_test(200_000, np.random.default_rng(2))
    linear = {
        "RankingSVM ap": (ranking, RANKING_GRID, 0),
        "LinearSVC": (hinge, HINGE_GRID, 1),
        "LogisticRegression": (lambda C: LogisticRegression(C=C, max_iter=300), HINGE_GRID, 1),
    }
    chosen = {}
    for n in sizes:
        X, y = make_train(n, np.random.default_rng(1))
        for method, (make, grid, per_sample) in linear.items():
            if method not in chosen:
                chosen[method] = tuned(make, grid, X, y)
            # A sum over samples grows with them, the hinge of a list does not.
            model, seconds = timed(make(chosen[method] * (sizes[0] / n) ** per_sample), X, y)
            gap = f"{model.dual_gap_ / model.primal_objective_:.1e}" if hasattr(model, "dual_gap_") else ""
            aps = [f"{quality(model, Z, labels):.4f}" for Z, labels in ((X, y), test)]
            rows.append([name, f"{n:,}", method, *aps, f"{seconds:.2f}", gap])
        for objective in ("rank:map", "binary:logistic"):
            score, seconds = boosted(objective, X, y)
            aps = [f"{average_precision(labels, score(Z)):.4f}" for Z, labels in ((X, y), test)]
            rows.append([name, f"{n:,}", f"XGBoost {objective}, trees", *aps, f"{seconds:.2f}", ""])
        try:
            lambdarank(X, y)
        except lightgbm.basic.LightGBMError as error:
            rows.append([name, f"{n:,}", "LightGBM lambdarank, trees", f"refuses: {error}", "", "", ""])
        for row in rows[-6:]:
            print(*row, sep=" | ", flush=True)
    return rows


def scaling(sizes):
    """Seconds and memory beside the data for the same problem in ever more rows."""
    rows, seconds = [], []
    for n in sizes:
        X, y = rare(n, np.random.default_rng(3))
        model, took = timed(ranking(100.0), X, y)
        seconds.append(took)
        start = time.thread_time()
        X @ model.coef_
        product = time.thread_time() - start
        tracemalloc.start()
        ranking(100.0).fit(X[: n // 10], y[: n // 10])
        peak = tracemalloc.get_traced_memory()[1] / X[: n // 10].nbytes
        tracemalloc.stop()
        gap = model.dual_gap_ / model.primal_objective_
        rows.append([f"{n:,}", f"{took:.2f}", f"{model.n_iter_}", f"{gap:.1e}", f"{took / product:.0f}", f"{peak:.1f}"])
        print(*rows[-1], sep=" | ", flush=True)
    return rows, exponent([float(n) for n in sizes], seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    quick = parser.parse_args().quick
    header = ["data", "AP", "AP, LinearSVC", "difference", "largest gap", "s", "s, LinearSVC", "ratio", "ratio to C=1"]
    table = markdown([*header, "C", "C, LinearSVC"], [against_liblinear(name) for name in ("w8a", "a9a")])
    print(table, flush=True)
    sizes = [10_000, 100_000] if quick else [100_000, 1_000_000]
    labels = datasets.binary("w8a")[1]
    rows, held_out = train_test_split(np.arange(len(labels)), test_size=0.2, stratify=labels, random_state=0)
    lists = long_list("w8a-like", like_w8a(rows), like_w8a(held_out), sizes)
    for name, make in (("well specified", well_specified), ("rare", rare), ("two kinds", two_kinds)):
        lists += long_list(name, make, make, sizes)
    ever_more, slope = scaling([10_000, 100_000, 1_000_000] if quick else [100_000, 1_000_000, 10_000_000])
    liblinear = (
        '## Against liblinear\n\nMean AP over five held-out folds, RankingSVM("ap") to a certified gap of 1e-3 and '
        '`LinearSVC(loss="hinge")` at its defaults, C of both chosen by cross-validation inside. Differences are paired '
        'by fold; seconds are processor time of one fit, the best of three. "Ratio to C=1" takes LinearSVC with its default '
        f"C.\n\n{table}"
    )
    long = (
        "## One long list\n\nAP on the training list and on 200,000 new samples. C is chosen on a quarter of the shorter list; "
        f"trees have {ROUNDS} rounds of depth 6. Seconds are processor time of one fit.\n\n"
    )
    growth = (
        "## Scaling\n\nRare positives, 20 features, C = 100, gap 1e-3. Memory is the largest use beside the data, as a "
        "multiple of their size, measured on a tenth of the rows.\n\n"
        + markdown(["samples", "s", "passes", "gap", "time / one product X w", "memory / data"], ever_more)
        + f"\n\nExponent of time over samples: {slope:.2f}."
    )
    long += markdown(["data", "samples", "method", "training AP", "test AP", "s", "gap"], lists)
    path = FOLDER / "results" / "ranking_training.md"
    write_report(path, "Training for average precision", [liblinear, long, growth])


if __name__ == "__main__":
    main()
