"""Rankers side by side on real data, each tuned on the same validation queries.

Every data set is cut into five parts; a fold trains on three, tunes on one and tests on one, so every sample is tested
once. MQ2008 has official parts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import xgboost
from benchmarks import FOLDER, datasets
from benchmarks.datasets import Queries
from benchmarks.timing import markdown, update_report
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from maxmargin import DirectLossMinimizer, RankingSVM, metrics

ROUNDS = 200  # of boosting; validation says which was best


class Method(NamedTuple):
    """How to fit with one setting; the answer scores samples."""

    name: str
    linear: bool
    settings: list[Any]
    fit: Callable[[Any, Queries, Queries, str], Callable[[Any], Any]]


def sizes(qid):
    return np.diff(np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1], [True]])))


def ours(**parameters):
    def fit(C, train, _valid, _metric):
        graded = parameters.get("grades") and len(np.unique(train.y)) > 2
        model = RankingSVM(C=C, max_iter=3000, **{**parameters, "grades": parameters.get("grades") if graded else False})
        return model.fit(train.X, train.y, qid=train.qid).decision_function

    return fit


def direct(C, train, _valid, _metric):
    model = DirectLossMinimizer("ndcg", C=C, grades="exponential", step=0.3, epsilon=1.0, max_iter=150)
    return model.fit(train.X, train.y, qid=train.qid).decision_function


def polished(setting, train, _valid, _metric):
    """A few short steps from logistic regression, as many as validation likes."""
    C, steps = setting
    start = LogisticRegression(C=C, max_iter=1000).fit(train.X, train.y > 0).coef_[0]
    model = DirectLossMinimizer("ap", start=start, standardize=False, step=0.01, epsilon=0.01, max_iter=steps)
    return model.fit(train.X, train.y).decision_function


def pointwise(make):
    return lambda C, train, _valid, _metric: make(C).fit(train.X, train.y > 0).decision_function


def lambdarank(leaves, train, valid, metric):
    model = lightgbm.LGBMRanker(
        n_estimators=ROUNDS,
        num_leaves=leaves,
        learning_rate=0.05,
        min_child_samples=20,
        random_state=0,
        n_jobs=1,
        verbose=-1,
        metric="map" if metric == "map" else "ndcg",
    )
    model.fit(
        train.X,
        train.y.astype(int),
        group=sizes(train.qid),
        eval_X=valid.X,
        eval_y=valid.y.astype(int),
        eval_at=[10_000] if metric == "map" else [10],
        eval_group=[sizes(valid.qid)],
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )
    return model.predict


def boosted(objective, booster):
    def fit(setting, train, valid, _metric):
        binary = objective in ("rank:map", "binary:logistic")
        labels = [(part.y > 0 if binary else part.y).astype(int) for part in (train, valid)]
        parameters = {"objective": objective, "booster": booster, "nthread": 1, "seed": 0}
        if booster == "gbtree":
            parameters |= {"max_depth": setting, "eta": 0.05, "tree_method": "hist"}
        else:
            parameters |= {"lambda": setting, "eta": 0.5, "updater": "coord_descent"}
        if objective == "binary:logistic":
            parameters["eval_metric"] = "aucpr"
            data = [xgboost.DMatrix(part.X, label=y) for part, y in zip((train, valid), labels, strict=True)]
        else:
            # XGBoost's AP takes no grades.
            parameters["eval_metric"] = "map" if binary else "ndcg@10"
            data = [xgboost.DMatrix(part.X, label=y, qid=part.qid) for part, y in zip((train, valid), labels, strict=True)]
        model = xgboost.train(
            parameters, data[0], ROUNDS, evals=[(data[1], "valid")], early_stopping_rounds=50, verbose_eval=False
        )
        last = (0, model.best_iteration + 1) if booster == "gbtree" else (0, 0)
        return lambda X: model.predict(xgboost.DMatrix(X), iteration_range=last)

    return fit


# The hinge of a query counts C times, so the range depends on how many there are.
QUERIES, ONE = 10.0 ** np.arange(-5, 1, 0.5), 10.0 ** np.arange(0, 6)
POINTWISE = {len(QUERIES): 10.0 ** np.arange(-5, 1, 0.5), len(ONE): 10.0 ** np.arange(-4, 2)}
TREES, RIDGES = [3, 6], [0.0, 1e-3, 1e-1]


def methods(grid):
    pointwise_grid = POINTWISE[len(grid)]
    return [
        Method("RankingSVM ap", True, grid, ours(loss="ap")),
        Method("RankingSVM ndcg", True, grid, ours(loss="ndcg", grades="exponential")),
        Method("RankingSVM auc", True, grid, ours(loss="auc", grades=True)),
        Method("LinearSVC", True, pointwise_grid, pointwise(lambda C: LinearSVC(loss="hinge", C=C))),
        Method("LogisticRegression", True, pointwise_grid, pointwise(lambda C: LogisticRegression(C=C, max_iter=1000))),
        Method("XGBoost rank:map, linear", True, RIDGES, boosted("rank:map", "gblinear")),
        Method("XGBoost rank:ndcg, linear", True, RIDGES, boosted("rank:ndcg", "gblinear")),
        Method("LightGBM lambdarank, trees", False, [7, 31], lambdarank),
        Method("XGBoost rank:map, trees", False, TREES, boosted("rank:map", "gbtree")),
        Method("XGBoost rank:ndcg, trees", False, TREES, boosted("rank:ndcg", "gbtree")),
    ]


LISTS = methods(QUERIES)
LISTS.insert(3, Method("DirectLossMinimizer ndcg", True, QUERIES[::2], direct))
ONE_LIST = [*methods(ONE), Method("XGBoost logistic, trees", False, TREES, boosted("binary:logistic", "gbtree"))]
# From logistic regression, which is the better start there.
SHORT = [(C, steps) for C in POINTWISE[len(ONE)][2:] for steps in (4, 12, 40, 120)]
ONE_LIST.insert(3, Method("DirectLossMinimizer ap", True, SHORT, polished))


def evaluate(data: Queries, scores) -> dict[str, Any]:
    """AP and NDCG@10 (exponential gains) of every query that has something relevant."""
    ap = metrics.per_query(data.y, scores, qid=data.qid, metrics=["map"])[0]["map"]
    ndcg = metrics.per_query(data.y, scores, qid=data.qid, metrics=["ndcg@10"], gains="exponential")[0]["ndcg@10"]
    begins = np.flatnonzero(np.concatenate([[True], data.qid[1:] != data.qid[:-1]]))
    useful = np.maximum.reduceat(data.y, begins) > 0
    return {"map": ap[useful], "ndcg": ndcg[useful]}


def run_fold(methods, metric_names, train, valid, test):
    """For every method: (metrics of the test queries, each tuned for; seconds of one fit), or why it refuses."""
    results = {}
    for method in methods:
        best: dict[str, tuple[float, Any]] = {}
        seconds = []
        for setting in method.settings:
            # Trees stop early by the metric.
            for metric in metric_names if not method.linear else ("map",):
                start = time.process_time()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        warnings.simplefilter("ignore", FutureWarning)
                        score = method.fit(setting, train, valid, metric)
                except (lightgbm.basic.LightGBMError, xgboost.core.XGBoostError) as error:
                    results[method.name] = str(error).strip().splitlines()[0]
                    break
                seconds.append(time.process_time() - start)
                quality = {name: values.mean() for name, values in evaluate(valid, score(valid.X)).items()}
                for name in metric_names:
                    if (method.linear or name == metric) and quality[name] > best.get(name, (-1.0,))[0]:
                        best[name] = quality[name], score
            else:
                continue
            break
        else:
            found = {name: evaluate(test, best[name][1](test.X))[name] for name in metric_names}
            results[method.name] = found, float(np.mean(seconds))
    return results


def scaled(parts):
    """Features of mean zero and variance one in the training part."""
    scaler = StandardScaler().fit(parts[0].X)
    return [part._replace(X=scaler.transform(part.X)) for part in parts]


def normalised(data: Queries) -> Queries:
    """Logarithms of the features, of mean zero and variance one in every query."""
    X = np.sign(data.X) * np.log1p(np.abs(data.X))
    ends = np.cumsum(sizes(data.qid))
    for rows in np.split(np.arange(len(X)), ends[:-1]):
        spread = X[rows].std(axis=0)
        X[rows] = (X[rows] - X[rows].mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    return data._replace(X=X)


# What is ours, trained for a metric; the first is what every method is compared with.
OURS = {"map": ("RankingSVM ap", "DirectLossMinimizer ap"), "ndcg": ("RankingSVM ndcg", "DirectLossMinimizer ndcg")}


def difference(mine, other):
    """Mean of paired differences, with its standard error."""
    found = mine - other
    return f"{found.mean():+.4f} ± {found.std(ddof=1) / np.sqrt(len(found)):.4f}"


def section(title, note, methods, folds, metric_names):
    """Means and standard errors over the test units of all folds, and paired differences."""
    collected: dict[str, Any] = {method.name: {"map": [], "ndcg": [], "seconds": [], "refused": ""} for method in methods}
    for number, parts in enumerate(folds):
        for name, found in run_fold(methods, metric_names, *parts).items():
            if isinstance(found, str):
                collected[name]["refused"] = found
                continue
            for metric in metric_names:
                collected[name][metric].append(found[0][metric])
            collected[name]["seconds"].append(found[1])
        print(f"{title}: fold {number + 1} done", flush=True)
    units = {
        name: {metric: np.concatenate(values[metric]) for metric in metric_names}
        for name, values in collected.items()
        if not values["refused"]
    }
    header = ["", *[text for metric in metric_names for text in (metric_names[metric], "ours minus it")], "seconds of a fit"]
    rows = []
    for method in methods:
        if collected[method.name]["refused"]:
            rows.append([method.name, f"refuses: {collected[method.name]['refused']}", *[""] * (len(header) - 2)])
            continue
        row = [method.name]
        for metric in metric_names:
            values, ours_is = units[method.name][metric], OURS[metric][0]
            row += [f"{values.mean():.4f}", "" if method.name == ours_is else difference(units[ours_is][metric], values)]
        rows.append([*row, f"{np.mean(collected[method.name]['seconds']):.2f}"])
    foreign = [m.name for m in methods if m.linear and not m.name.startswith(("RankingSVM", "DirectLossMinimizer"))]
    standing = []
    for metric, name in metric_names.items():
        rival = max(foreign, key=lambda other, metric=metric: units[other][metric].mean())
        for mine in OURS[metric]:
            if mine in units:
                standing.append(f"{name}, {mine} minus {rival}: {difference(units[mine][metric], units[rival][metric])}.")
    text = (
        f'## {title}\n\n{note} "Ours" is the RankingSVM trained for the metric of the column.\n\n{markdown(header, rows)}\n\n'
        f"Against the best of the other linear models: {' '.join(standing)}"
    )
    print(text, flush=True)
    return text


def five_parts(data: Queries, seed: int) -> list[Queries]:
    """Queries dealt at random into five parts."""
    queries = np.unique(data.qid)
    part = np.random.default_rng(seed).permutation(np.arange(len(queries)) % 5)
    return [data.take(np.flatnonzero(part[data.qid] == k)) for k in range(5)]


def joined(parts: list[Queries]) -> Queries:
    first = np.concatenate([[0], np.cumsum([part.qid.max() + 1 for part in parts])])
    return Queries(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.qid + first[k] for k, part in enumerate(parts)]),
    )


def rotated(parts: list[Queries]):
    """Official LETOR scheme: three parts to train, the next to tune, the next to test."""
    for k in range(5):
        p = [parts[(k + shift) % 5] for shift in range(5)]
        yield scaled([joined(p[:3]), p[3], p[4]])


def one_list_folds(X, relevant):
    """Stratified parts of one list; every sample has query 0."""
    whole = Queries(X, relevant.astype(float), np.zeros(len(relevant), dtype=np.int64))
    parts = [rows for _, rows in StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(relevant)), relevant)]
    for k in range(5):
        p = [parts[(k + shift) % 5] for shift in range(5)]
        yield [whole.take(np.sort(np.concatenate(p[:3]))), whole.take(p[3]), whole.take(p[4])]


def mnist_folds(n_train, n_valid):
    """One digit against the rest, ten times; the official test images."""
    pixels, digits = datasets.mnist()
    test_pixels, test_digits = datasets.mnist("t10k")
    rows = np.random.default_rng(0).permutation(len(digits))
    for digit in range(10):
        yield [
            Queries(X, (y == digit).astype(float), np.zeros(len(y), dtype=np.int64))
            for X, y in (
                (pixels[rows[:n_train]], digits[rows[:n_train]]),
                (pixels[rows[n_train : n_train + n_valid]], digits[rows[n_train : n_train + n_valid]]),
                (test_pixels, test_digits),
            )
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    choices = ["mq2008", "mslr", "mslr-normalised", "lightgbm", "w8a", "mnist"]
    parser.add_argument("--only", nargs="+", choices=choices, help="these tables; the others stay as they are")
    only = parser.parse_args().only
    both, ap = {"map": "MAP", "ndcg": "NDCG@10"}, {"map": "AP"}
    paired = "Mean over queries with a relevant document; differences are paired, with their standard error."
    tables = {
        "mq2008": lambda: section("LETOR MQ2008, five official folds", paired, LISTS, rotated(datasets.mq2008()), both),
        "mslr": lambda: section("MSLR-WEB10K, 86 queries", paired, LISTS, rotated(five_parts(datasets.mslr(), 0)), both),
        "mslr-normalised": lambda: section(
            "MSLR-WEB10K, features normalised within queries",
            f"The same folds, with logarithms of the features, of mean zero and variance one in every query. {paired}",
            LISTS,
            rotated([normalised(part) for part in five_parts(datasets.mslr(), 0)]),
            both,
        ),
        "lightgbm": lambda: section(
            "LightGBM's example, 251 queries", paired, LISTS, rotated(five_parts(datasets.lightgbm_example(), 0)), both
        ),
        "w8a": lambda: section(
            "w8a, one list (3 % positive)",
            "Mean over five folds; differences are paired by fold.",
            ONE_LIST,
            one_list_folds(*datasets.binary("w8a")),
            ap,
        ),
        "mnist": lambda: section(
            "MNIST, one digit against the rest",
            "10,000 images to train (more is refused by LightGBM), 5,000 to tune, the official test images; mean over the ten "
            "digits, paired by digit.",
            ONE_LIST,
            mnist_folds(10_000, 5_000),
            ap,
        ),
    }
    introduction = (
        f"Settings are chosen on validation queries, separately for each metric: C from {len(QUERIES)} values, two a decade, "
        f"for linear models on queries and from {len(ONE)}, one a decade, on single lists; leaves or depth and the number of up "
        f"to {ROUNDS} rounds for trees. NDCG has exponential gains, and RankingSVM ndcg is trained with them; auc is the mean "
        "over the grades, ap takes labels above zero. DirectLossMinimizer starts from the hinge on queries, and on single lists "
        "takes 4 to 120 short steps from a logistic regression, C and steps chosen as above. Seconds are of the processor, "
        "for one fit."
    )
    path = FOLDER / "results" / "ranking_quality.md"
    for name in only or tables:
        update_report(path, "Quality of rankers", introduction, [tables[name]()])


if __name__ == "__main__":
    main()
