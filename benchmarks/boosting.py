"""Boosted trees: rank hinges against the rank objectives of LightGBM and XGBoost, and the blend on single lists.

Every piece (a data set and a fold) is kept in ``build/boosting`` and not made again; ``--fresh`` makes all of them again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from benchmarks import datasets
from benchmarks.datasets import Queries
from benchmarks.timing import markdown, update_report
from maxmargin import metrics
from maxmargin.boosting import evaluation, objective
from maxmargin.boosting.training import Part, Watched, train_watched

RESULTS = Path(__file__).parent / "results" / "boosting.md"
PIECES = Path(__file__).parent.parent / "build" / "boosting"
TITLE = "Boosted trees with rank losses"
ROUNDS = 200
QUIET = {"verbose": -1, "num_threads": 1, "seed": 1}
# Leaves and learning rate, chosen on the validation part.
SHAPES = ((7, 0.1), (31, 0.05))
Piece = dict[str, Any]


def piece(name: str, make: Callable[[], Piece], fresh: bool) -> Piece:
    """A result from an earlier run, or a new one."""
    path = PIECES / f"{name}.json"
    if fresh or not path.exists():
        PIECES.mkdir(parents=True, exist_ok=True)
        found = make()
        path.write_text(json.dumps(found))
        print(name, flush=True)
    return json.loads(path.read_text())


# ---- queries -----------------------------------------------------------------------------------------------------------------


def graded(seed: int, n_queries: int, noise: float, flipped: float) -> Queries:
    """Synthetic queries: a score with interactions and an offset of the query, cut into grades 0 to 4, some of them wrong."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 60, n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.normal(size=(len(qid), 20))
    # Features of the query, the same for all of its documents.
    X[:, 15:] = rng.normal(size=(n_queries, 5))[qid]
    score = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.8 * np.maximum(X[:, 3], 0) * np.sign(X[:, 15]) + np.sin(2 * X[:, 4])
    score += 0.5 * X[:, 16] + noise * rng.normal(size=len(qid))
    y = np.digitize(score, np.quantile(score, [0.6, 0.8, 0.92, 0.98])).astype(float)
    wrong = rng.random(len(y)) < flipped
    y[wrong] = rng.integers(0, 5, np.count_nonzero(wrong))
    return Queries(X, y, qid)


def query_folds(name: str) -> list[tuple[Queries, Queries, Queries]]:
    """Five times training, validation, test."""
    if name == "MQ2008":
        parts = datasets.mq2008()
        turns = [[parts[(k + i) % 5] for i in range(5)] for k in range(5)]
        return [(_joined(five[:3]), five[3], five[4]) for five in turns]
    made = {
        "LightGBM example": datasets.lightgbm_example,
        "MSLR, 86 queries": datasets.mslr,
        "synthetic": lambda: graded(1, 300, 1.0, 0.0),
        "synthetic, 10 % wrong grades": lambda: graded(2, 300, 1.0, 0.1),
    }
    data = made[name]()
    fold = np.random.default_rng(0).permutation(int(data.qid.max()) + 1) % 5
    of_row = fold[data.qid]
    parts = [data.take(np.flatnonzero(of_row == k)) for k in range(5)]
    trained = [data.take(np.flatnonzero((of_row != k) & (of_row != (k + 1) % 5))) for k in range(5)]
    return [(trained[k], parts[(k + 1) % 5], parts[k]) for k in range(5)]


QUERY_SETS = ("MQ2008", "LightGBM example", "MSLR, 86 queries", "synthetic", "synthetic, 10 % wrong grades")
LIGHTGBM = {
    "lambdarank": "lambdarank",
    "rank_xendcg": "rank_xendcg",
    "NDCG hinge": objective("ndcg"),
    "AP hinge": objective("ap"),
}
XGBOOST = {"XGBoost rank:ndcg": "rank:ndcg", "XGBoost rank:map": "rank:map"}
BLENDS = (("lambdarank", "rank_xendcg"), ("lambdarank", "NDCG hinge"), ("lambdarank", "AP hinge"), ("rank_xendcg", "NDCG hinge"))
REPORTED = ("ndcg@10", "ap")


def _joined(parts: list[Queries]) -> Queries:
    numbers = np.concatenate([[0], np.cumsum([part.qid.max() + 1 for part in parts])])
    return Queries(
        np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts]),
        np.concatenate([part.qid + first for part, first in zip(parts, numbers[:-1], strict=True)]),
    )  # fmt: skip


def _sizes(qid: NDArray[Any]) -> NDArray[np.int64]:
    starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]]))
    return np.diff(np.append(starts, len(qid)))


def _part(data: Queries) -> Part:
    return Part(data.X, data.y, _sizes(data.qid))


class XGBoostModel:
    """An XGBoost model with the face of a booster of LightGBM."""

    def __init__(self, booster: xgb.Booster) -> None:
        self.booster = booster

    def predict(self, X: Any, num_iteration: int) -> NDArray[Any]:
        return self.booster.predict(xgb.DMatrix(X), iteration_range=(0, num_iteration))


def _xgboost_settings(name: str, leaves: int, rate: float) -> dict[str, Any]:
    shape = {"grow_policy": "lossguide", "max_leaves": leaves, "max_depth": 0, "learning_rate": rate, "min_child_weight": 1e-3}
    fixed = {"tree_method": "hist", "nthread": 1, "seed": 1, "disable_default_eval_metric": True}
    return {**shape, **fixed, "objective": XGBOOST[name]}


def _labels(name: str, grades: NDArray[Any]) -> NDArray[Any]:
    return grades > 0 if name == "XGBoost rank:map" else grades


def _fit(name: str, shape: tuple[int, float], train: Queries, held_out: Queries) -> Watched:
    measured = [evaluation(metric) for metric in REPORTED]
    if name in LIGHTGBM:
        settings = {**QUIET, "num_leaves": shape[0], "learning_rate": shape[1], "objective": LIGHTGBM[name]}
        return train_watched(settings, _part(train), _part(held_out), measured, ROUNDS)
    curves: dict[str, list[float]] = {metric: [] for metric in REPORTED}

    def watch(scores: NDArray[Any], data: Any) -> tuple[str, float]:
        for metric in measured:
            curves[metric.metric].append(metric(scores, data)[1])
        return "none", 0.0

    # rank:map knows no grades; the metrics of the held-out part do.
    labels = (_labels(name, train.y), held_out.y)
    matrices = [xgb.DMatrix(part.X, y, qid=part.qid) for part, y in zip((train, held_out), labels, strict=True)]
    booster = xgb.train(
        _xgboost_settings(name, *shape), matrices[0], ROUNDS, evals=[(matrices[1], "held_out")], custom_metric=watch,
        verbose_eval=False,
    )  # fmt: skip
    return Watched(XGBoostModel(booster), {metric: np.array(curve) for metric, curve in curves.items()})


def fold_of_queries(train: Queries, held_out: Queries, test: Queries) -> Piece:
    """Metrics of every test query by every method, tuned for the metric that is reported."""
    found: Piece = {metric: {} for metric in REPORTED}
    scores: dict[tuple[str, str], NDArray[Any]] = {}
    for name in (*LIGHTGBM, *XGBOOST):
        fits = [_fit(name, shape, train, held_out) for shape in SHAPES]
        for metric in REPORTED:
            fit = max(fits, key=lambda one, by=metric: one.best_round(by)[1])
            rounds = fit.best_round(metric)[0]
            spread = np.std(fit.booster.predict(held_out.X, num_iteration=rounds))
            scores[name, metric] = fit.booster.predict(test.X, num_iteration=rounds) / max(spread, 1e-12)
    for metric in REPORTED:
        every = {name: scores[name, metric] for name in (*LIGHTGBM, *XGBOOST)}
        every |= {f"{a} + {b}": every[a] + every[b] for a, b in BLENDS}
        for name, values in every.items():
            by_query = metrics.per_query(test.y, values, qid=test.qid, metrics=[metric], gains="exponential")[0][metric]
            found[metric][name] = by_query.tolist()
    return found


def seconds_per_fit(train: Queries) -> Piece:
    """Processor time of 100 rounds, the better of three, all in turn."""
    tasks: dict[tuple[str, int], Callable[[], object]] = {}
    best: dict[tuple[str, int], float] = {}
    for leaves, rate in SHAPES:
        for name, wanted in LIGHTGBM.items():
            settings = {**QUIET, "num_leaves": leaves, "learning_rate": rate, "objective": wanted}
            tasks[name, leaves] = lambda s=settings: lgb.train(s, lgb.Dataset(train.X, train.y, group=_sizes(train.qid)), 100)
        for name in XGBOOST:
            settings = _xgboost_settings(name, leaves, rate)
            labels = _labels(name, train.y)
            tasks[name, leaves] = lambda s=settings, y=labels: xgb.train(s, xgb.DMatrix(train.X, y, qid=train.qid), 100)
    for _ in range(3):
        for key, task in tasks.items():
            start = time.process_time()
            task()
            best[key] = min(best.get(key, np.inf), time.process_time() - start)
    return {f"{name}, {leaves} leaves": seconds for (name, leaves), seconds in best.items()}


def _difference(values: NDArray[Any], reference: NDArray[Any]) -> str:
    gap = values - reference
    return f"{gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}"


def report_queries(fresh: bool) -> None:
    measured: dict[str, dict[str, dict[str, NDArray[Any]]]] = {}
    seconds: dict[str, Piece] = {}
    for name in QUERY_SETS:
        folds = query_folds(name)
        pieces = [piece(f"queries-{name}-{k}", lambda f=fold: fold_of_queries(*f), fresh) for k, fold in enumerate(folds)]
        measured[name] = {
            metric: {method: np.concatenate([np.array(p[metric][method]) for p in pieces]) for method in pieces[0][metric]}
            for metric in REPORTED
        }
        seconds[name] = piece(f"query-seconds-{name}", lambda f=folds: seconds_per_fit(f[0][0]), fresh)
    sections = []
    for metric, title in zip(REPORTED, ("NDCG@10", "MAP"), strict=True):
        rows = [["lambdarank", *(f"{measured[name][metric]['lambdarank'].mean():.4f}" for name in QUERY_SETS), ""]]
        for method in measured[QUERY_SETS[0]][metric]:
            if method == "lambdarank":
                continue
            own = [measured[name][metric] for name in QUERY_SETS]
            mean = np.mean([one[method].mean() - one["lambdarank"].mean() for one in own])
            rows.append([method, *(_difference(one[method], one["lambdarank"]) for one in own), f"{mean:+.4f}"])
        sections.append(f"## Queries, {title}\n\n{QUERY_WORDS[metric]}" + markdown(["", *QUERY_SETS, "mean"], rows))
    keys = list(seconds[QUERY_SETS[0]])
    rows = [
        [key, *(f"{seconds[name][key] / seconds[name]['lambdarank, ' + key.split(', ')[1]]:.2f}" for name in QUERY_SETS)]
        for key in keys
    ]
    words = "Processor time of 100 rounds on one core, data set included, relative to `lambdarank` of as many leaves.\n\n"
    sections.append(f"## Queries, time per fit\n\n{words}" + markdown(["", *QUERY_SETS], rows))
    update_report(RESULTS, TITLE, INTRODUCTION, sections)


INTRODUCTION = (
    "Rounds (at most 200) and shape of the trees are chosen on a validation part for the metric that is reported, by the mean "
    "over five neighbouring rounds, for all methods alike. All numbers are of test parts. ± is the standard error of paired "
    "differences; below two of them it is a tie."
)
QUERY_WORDS = {
    "ndcg@10": "Exponential gains; queries without relevant documents count 0. First row: `lambdarank` itself. Other rows: "
    "difference to it, paired by query. Five folds, 7 leaves with learning rate 0.1 or 31 with 0.05. Blends add the scores, "
    "each divided by its standard deviation on the validation part.\n\n",
    "ap": "As above, with every grade above 0 relevant.\n\n",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("queries", "lists", "rounds"), help="one of the parts")
    parser.add_argument("--fresh", action="store_true", help="use nothing from earlier runs")
    given = parser.parse_args()
    parts = {"queries": report_queries}
    for name, part in parts.items():
        if given.only in (None, name):
            part(given.fresh)


if __name__ == "__main__":
    main()
