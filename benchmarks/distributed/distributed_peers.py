"""Rankers on the same two workers: ours, xgboost.dask, a pointwise model.

All train on the same Dask arrays, which lie on the workers of one LocalCluster, and are tuned on the same validation queries.
Real queries are read from the folder in MAXMARGIN_DATA; a set that is not there is left out, and said so.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import xgboost
import xgboost.dask as xgb
from benchmarks import FOLDER, datasets
from benchmarks.datasets import Queries
from benchmarks.distributed.distributed import cluster
from benchmarks.distributed.shards import rows_of
from benchmarks.ranking.ranking_quality import difference, evaluate, five_parts, normalised, rotated
from benchmarks.timing import markdown, update_report
from scipy.optimize import minimize
from scipy.special import expit

from maxmargin.dask import DaskRankingSVM

RESULTS = FOLDER / "results" / "distributed_peers.md"
ROUNDS, EARLY = 500, 30  # of boosting, and without gain on validation queries
METRICS = {"map": "MAP", "ndcg": "NDCG@10"}


class Spread(NamedTuple):
    """Rows on the workers, as Dask arrays of as many chunks as workers, and the same rows in this process."""

    X: Any
    y: Any
    qid: Any
    here: Queries


class Method(NamedTuple):
    """``fit(client, setting, train, valid)`` returns what scores rows of this process."""

    name: str
    settings: Sequence[Any]
    fit: Callable[[Any, Any, Spread, Spread], Callable[[Any], Any]]


class Found(NamedTuple):
    """Metrics of all test queries, each at the setting validation chose for it; means of one fit; those settings."""

    test: dict[str, Any]
    wall: float
    cpu: float
    chosen: dict[str, Any]


# ---- data on workers ----------------------------------------------------------------------------------------------------------


def spread(client, data: Queries, cut: int | None = None) -> Spread:
    """Two chunks, which end where a query does unless ``cut`` says where."""
    ends = np.flatnonzero(np.diff(data.qid)) + 1
    middle = int(ends[np.abs(ends - len(data.y) // 2).argmin()]) if cut is None else cut
    rows = (middle, len(data.y) - middle)
    arrays = [
        da.from_array(np.ascontiguousarray(data.X, dtype=np.float32), chunks=(rows, data.X.shape[1])),
        da.from_array(data.y, chunks=(rows,)),
        da.from_array(data.qid, chunks=(rows,)),
    ]
    first, second = sorted(client.scheduler_info(n_workers=-1)["workers"])
    kept = []
    for array in arrays:
        # Every worker has one chunk of each.
        parts = [
            client.persist(array.blocks[k], workers=[address], allow_other_workers=False)
            for k, address in enumerate((first, second))
        ]
        kept.append(da.concatenate(parts))
    client.gather(client.compute([part.sum() for part in kept]))
    return Spread(*kept, data)


def processor_seconds(client):
    """Of this process, in which the scheduler is, and of all workers."""
    return time.process_time() + sum(client.run(time.process_time).values())


# ---- methods ------------------------------------------------------------------------------------------------------------------


def ours(loss):
    def fit(client, C, train, _valid):
        graded = loss == "ndcg" and len(np.unique(train.here.y)) > 2
        model = DaskRankingSVM(loss, C=C, grades="exponential" if graded else False, max_iter=3000, client=client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the data are small
            model.fit(train.X, train.y, qid=train.qid)
        return model.to_local().decision_function

    return fit


def boosted(objective):
    """Trees; the number of rounds is where the metric of the objective is best on validation queries."""

    def fit(client, setting, train, valid):
        binary = objective != "rank:ndcg"
        labels = [(part.y > 0).astype(np.float32) if binary else part.y for part in (train, valid)]
        options = {"n_estimators": ROUNDS, "learning_rate": 0.1, "tree_method": "hist", "random_state": 0}
        options |= {"early_stopping_rounds": EARLY, **setting}
        if objective == "binary:logistic":
            model = xgb.DaskXGBClassifier(eval_metric="aucpr", **options)
            groups = {}
        else:
            metric = "map" if binary else "ndcg@10"
            # Chunks end where queries do, so that none is split by this unless there is but one.
            model = xgb.DaskXGBRanker(objective=objective, eval_metric=metric, allow_group_split=True, **options)
            groups = {"qid": train.qid, "eval_qid": [valid.qid]}
        with client.as_current():
            model.fit(train.X, labels[0], eval_set=[(valid.X, labels[1])], verbose=False, **groups)
        found = model.get_booster()
        last = (0, found.best_iteration + 1)
        return lambda X: found.predict(xgboost.DMatrix(X.astype(np.float32)), iteration_range=last, output_margin=True)

    return fit


def part_of_logistic(X, y, weights):
    """Loss and gradient of a chunk."""
    signs = np.where(y > 0, 1.0, -1.0)
    margins = signs * (X @ weights[:-1].astype(X.dtype) + weights[-1])
    slopes = -signs * expit(-margins)
    return np.logaddexp(0.0, -margins).sum(), np.append(slopes.astype(X.dtype) @ X, slopes.sum())


def pointwise(client, C, train, _valid):
    """Logistic regression as map and reduce: a task for every chunk and evaluation, L-BFGS in this process."""
    chunks = [client.compute(list(array.to_delayed().ravel())) for array in (train.X, train.y)]

    def objective(weights):
        parts = client.gather(client.map(part_of_logistic, *chunks, weights=weights, pure=False))
        penalty = np.append(weights[:-1], 0.0)
        return (
            0.5 * penalty @ penalty + C * sum(part[0] for part in parts),
            penalty + C * np.sum([part[1] for part in parts], axis=0),
        )

    # A relative change of 1e-6 of the objective is enough; float32 features do not give much more.
    found = minimize(objective, np.zeros(train.X.shape[1] + 1), jac=True, method="L-BFGS-B", options={"ftol": 1e-6}).x
    return lambda X: X @ found[:-1]


DEPTHS = [{"max_depth": depth} for depth in (3, 6)]
# Long lists take long; the learning rate and the number of rounds are those that xgboost has by default. Pairs are those with the
# first 32 places, or with a random other row.
SHORT = {"max_depth": 6, "n_estimators": 100, "early_stopping_rounds": 15, "learning_rate": 0.3}
PAIRS = [{**SHORT, "lambdarank_pair_method": pairs} for pairs in ("topk", "mean")]


def methods(grid, pointwise_grid, trees, classifier=False):
    return [
        Method("DaskRankingSVM ap", grid, ours("ap")),
        Method("DaskRankingSVM ndcg", grid, ours("ndcg")),
        Method("logistic regression, map-reduce", pointwise_grid, pointwise),
        Method("DaskXGBRanker rank:map, trees", trees, boosted("rank:map")),
        Method("DaskXGBRanker rank:ndcg, trees", trees, boosted("rank:ndcg")),
        *([Method("DaskXGBClassifier, trees", [SHORT], boosted("binary:logistic"))] if classifier else []),
    ]


# The hinge of a query counts C times, so the range depends on how many there are.
QUERIES = methods(10.0 ** np.arange(-6, 1), 10.0 ** np.arange(-6, 0), DEPTHS)
ONE_LIST = methods(10.0 ** np.arange(2, 6), 10.0 ** np.arange(-4, 1, 2), PAIRS, classifier=True)


# ---- a comparison -------------------------------------------------------------------------------------------------------------


def tuned(client, method, metric_names, parts) -> Found:
    """Fit with all settings; each metric gets the one that is best on validation queries."""
    train, valid, test = parts
    best: dict[str, tuple[float, Any, Any]] = {}
    wall = cpu = 0.0
    for setting in method.settings:
        before, begin = processor_seconds(client), time.perf_counter()
        score = method.fit(client, setting, train, valid)
        wall += time.perf_counter() - begin
        cpu += processor_seconds(client) - before
        quality = {name: values.mean() for name, values in evaluate(valid.here, score(valid.here.X)).items()}
        for name in metric_names:
            if quality[name] > best.get(name, (-1.0,))[0]:
                best[name] = quality[name], score, setting
    n_fits = len(method.settings)
    scored = {name: evaluate(test, best[name][1](test.X))[name] for name in metric_names}
    return Found(scored, wall / n_fits, cpu / n_fits, {name: best[name][2] for name in metric_names})


def table(client, title, note, chosen_methods, metric_names, folds):
    """Means over test queries, paired differences to ours trained for the metric, and seconds beside those of ours."""
    found: dict[str, list[Found]] = {method.name: [] for method in chosen_methods}
    for number, (train, valid, test) in enumerate(folds, 1):
        spreads = [part if isinstance(part, Spread) else spread(client, part) for part in (train, valid)]
        for method in chosen_methods:
            found[method.name].append(tuned(client, method, metric_names, (*spreads, test)))
            print(f"{title}, fold {number}: {method.name}", *found[method.name][-1][1:], flush=True)
    units = {
        name: {metric: np.concatenate([fold.test[metric] for fold in folds_]) for metric in metric_names}
        for name, folds_ in found.items()
    }
    seconds = {name: [float(np.mean([fold[k] for fold in folds_])) for k in (1, 2)] for name, folds_ in found.items()}
    reference = {metric: f"DaskRankingSVM {'ap' if metric == 'map' else 'ndcg'}" for metric in metric_names}
    header = ["", *[text for metric in metric_names for text in (metric_names[metric], "ours minus it")]]
    header += ["a fit, s", "/ ours ap", "CPU s", "/ ours ap", "fits"]
    rows = []
    for method in chosen_methods:
        row = [method.name]
        for metric in metric_names:
            values = units[method.name][metric]
            row.append(f"{values.mean():.4f}")
            if method.name == reference[metric]:
                row.append("")
            elif len(values) > 1:
                row.append(difference(units[reference[metric]][metric], values))
            else:
                row.append(f"{(units[reference[metric]][metric] - values).mean():+.4f}")
        for took, mine in zip(seconds[method.name], seconds["DaskRankingSVM ap"], strict=True):
            row += [f"{took:.2f}", f"{took / mine:.2f}"]
        rows.append([*row, str(len(method.settings))])
    text = f"## {title}\n\n{note}\n\n{markdown(header, rows)}"
    print(text, flush=True)
    return text


# ---- sets ---------------------------------------------------------------------------------------------------------------------


def synthetic(n_queries, seed, product):
    """Queries of 40 documents with 40 features and grades 0 to 2: a noisy linear score, and perhaps a product of two features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40 * n_queries, 40))
    scores = X @ np.random.default_rng(7).normal(size=40) / 4 + product * X[:, 0] * X[:, 1] + rng.normal(size=len(X))
    return Queries(X, np.digitize(scores, [1.5, 3.0]).astype(float), np.repeat(np.arange(n_queries), 40))


def synthetic_folds(product):
    yield [synthetic(n, seed, product) for seed, n in enumerate((600, 200, 400))]


PAIRED = (
    "Mean over test queries with a relevant document. *Ours minus it*: ours trained for the metric of the column, paired, with "
    "the standard error."
)


def mq2008(client, n_folds):
    folds = list(rotated(datasets.mq2008()))[:n_folds]
    return table(client, f"MQ2008, {n_folds} official folds", PAIRED, QUERIES, METRICS, folds)


def mslr(client, n_folds):
    folds = list(rotated([normalised(part) for part in five_parts(datasets.mslr(), 0)]))[:n_folds]
    note = f"86 queries of MSLR-WEB10K, features normalised within queries, {n_folds} folds. {PAIRED}"
    return table(client, "MSLR-WEB10K, 86 queries", note, QUERIES, METRICS, folds)


def linear(client, _folds):
    note = f"600 queries of 40 documents and 40 features, grades of a noisy linear score; 400 queries to test. {PAIRED}"
    return table(client, "Synthetic, linear", note, QUERIES, METRICS, synthetic_folds(0.0))


def with_product(client, _folds):
    note = f"The same, but the score also has a product of two features, which no linear model knows. {PAIRED}"
    return table(client, "Synthetic, linear but for a product", note, QUERIES, METRICS, synthetic_folds(1.0))


# ---- one long list ------------------------------------------------------------------------------------------------------------


def list_parts(n, d):
    """A million rows to train, fewer to validate and to test, of one noisy linear score; one row in 200 is relevant."""
    sizes = (n, n // 5, n // 2)
    X, y = rows_of(sum(sizes), d)
    whole = Queries(X, y, np.zeros(len(y), dtype=np.int64))
    ends = np.cumsum([0, *sizes])
    return [whole.take(np.arange(first, last)) for first, last in pairwise(ends)]


def long_list(client, n, d):
    """One query over both workers, its rows dealt at random, or sorted by relevance."""
    train, valid, test = list_parts(n, d)
    note = (
        f"{n:,} rows of {d} features, one query; one row in 200 is relevant, by a noisy linear score. Each worker has half of "
        f"the rows. AP of {len(test.y):,} other rows. Trees: depth 6, learning rate 0.3, up to 100 rounds, pairs with the first "
        "places (`topk`) or random ones (`mean`), whichever is better on validation rows. `DaskXGBRanker` takes such rows with "
        "`allow_group_split=True` only, and then treats the rows of every worker as a query of its own."
    )
    sorted_note = (
        "The same rows, but those that are relevant come last, as where positives have files of their own: one worker then has "
        "no relevant row at all."
    )
    orders = {
        "One list, rows dealt at random": (note, np.arange(n)),
        "One list, sorted by relevance": (sorted_note, np.argsort(train.y, kind="stable")),
    }
    for title, (text, order) in orders.items():
        parts = spread(client, train.take(order), n // 2), spread(client, valid, len(valid.y) // 2), test
        yield table(client, title, text, ONE_LIST, {"map": "AP"}, [parts])


def within(seconds, task):
    """What a task answers or raises, as text; the task is left alone when its time is over."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    begin = time.perf_counter()
    try:
        answer = pool.submit(task).result(seconds)
    except concurrent.futures.TimeoutError:
        answer = f"no answer within {seconds:.0f} s"
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        answer = f"{type(error).__name__}: {lines[0][:200]}"
    pool.shutdown(wait=False)
    return f"{answer} ({time.perf_counter() - begin:.1f} s)"


def refusals(n, d):
    """What xgboost.dask does where it must not split the list, and with its linear booster."""
    import dask.dataframe as dd
    import pandas as pd

    train = list_parts(n, d)[0]

    def unsplit(client, n_queries):
        names = [f"x{k}" for k in range(d)]
        queries = np.arange(n) * n_queries // n
        frame = dd.from_pandas(pd.DataFrame(train.X, columns=names).assign(y=train.y, qid=queries), npartitions=2)
        model = xgb.DaskXGBRanker(objective="rank:map", n_estimators=20, max_depth=6, allow_group_split=False)
        with client.as_current():
            model.fit(frame[names], frame.y, qid=frame.qid)
        return f"{model.get_booster().num_boosted_rounds()} rounds"

    def gblinear(client):
        parts = spread(client, synthetic(200, 0, 0.0))
        model = xgb.DaskXGBRanker(objective="rank:ndcg", booster="gblinear", n_estimators=20, allow_group_split=True)
        with client.as_current():
            model.fit(parts.X, parts.y, qid=parts.qid)
        return "20 rounds"

    tasks = {
        "`rank:map`, `allow_group_split=False`, the rows as one query": lambda client: unsplit(client, 1),
        "the same rows as a hundred queries": lambda client: unsplit(client, 100),
        "`rank:ndcg`, `booster='gblinear'`, 200 queries": gblinear,
    }
    notes = []
    for name, task in tasks.items():
        made, client = cluster(2)  # of its own, which may be left hanging
        try:
            notes.append(f"- {name}: {within(600, lambda task=task, client=client: task(client))}.")
            print(notes[-1], flush=True)
        finally:
            client.close(timeout=5)
            made.close(timeout=5)
    text = f"20 rounds of `DaskXGBRanker` on the list of {n:,} x {d} where no query may be split, and of its linear booster."
    return "\n\n".join(["## What xgboost.dask refuses", text, "\n".join(notes)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, choices=range(1, 6), default=5, help="of real queries")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the long list")
    parser.add_argument("--features", type=int, default=20, help="of the long list")
    tables = {"mq2008": mq2008, "mslr": mslr, "linear": linear, "product": with_product, "list": None, "refusals": None}
    parser.add_argument("--only", nargs="+", choices=list(tables), help="these tables; the others stay as they are")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    introduction = (
        "Two workers of one thread each on one machine of two cores, which also runs the client and the scheduler; whole queries "
        "on one worker unless said otherwise. Features are float32, of mean zero and variance one in the training rows of real "
        "queries. Everybody is tuned on the same validation queries, separately for each metric: C of ours and of the logistic "
        "regression from a grid of decades (on one list of its own range), the depth of trees (3 or 6) and the number of up to "
        f"{ROUNDS} rounds (learning rate 0.1, early stopping after {EARLY}), which a fit does by itself. NDCG has exponential "
        "gains for all. Seconds are means over all fits, from rows on the workers to weights; CPU is that of all processes. "
        "Other jobs used the machine: compare ratios, and CPU rather than seconds."
    )
    wanted = [name for name in tables if options.only is None or name in options.only]
    folders = {"mq2008": "ltr_mq2008", "mslr": "ltr_mslr_5k"}

    def write(text):
        update_report(RESULTS, "Rankers on two workers", introduction, [text])

    if any(name != "refusals" for name in wanted):
        made, client = cluster(2)
        try:
            for name in wanted:
                if name in folders and not (datasets.ROOT / folders[name]).exists():
                    print(f"left out: {folders[name]} is not in {datasets.ROOT}; set MAXMARGIN_DATA to a folder that has it")
                elif name == "list":
                    for text in long_list(client, options.rows, options.features):
                        write(text)
                elif tables[name] is not None:
                    write(tables[name](client, options.folds))
        finally:
            client.close()
            made.close()
    if "refusals" in wanted:
        write(refusals(options.rows, options.features))


if __name__ == "__main__":
    main()
