"""Workloads of ``python -m benchmarks.compare_commits``: generated data, fixed seeds, 0.1 to 1 s each.

This file runs in a process whose ``maxmargin`` may be of any commit. So it imports the package only inside of workloads, public
names from the top level, and other names with `find`, which knows the modules that have had them. Parameters whose defaults may
change are given. As a script it reads names of workloads from standard input and writes one line of JSON for each.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

# A task returns counts, which do not depend on the machine's load: two commits that do the same work have the same.
Task = Callable[[], dict[str, Any]]
# Name -> (packages it needs besides our dependencies, context manager that makes the data and returns what is timed).
WORKLOADS: dict[str, tuple[tuple[str, ...], Callable[[], Any]]] = {}
BUDGET: dict[str, Any] = {"max_iter": 10_000, "random_state": 0}


def workload(name: str, *needs: str) -> Callable[[Callable[[], Iterator[Task]]], None]:
    """Register a generator function that makes data, yields a task and cleans up."""

    def register(make: Callable[[], Iterator[Task]]) -> None:
        WORKLOADS[name] = needs, contextlib.contextmanager(make)

    return register


def find(names: str, *modules: str) -> Any:
    """The first of some names, separated by blanks, in the first module that has it."""
    for module in modules:
        try:
            home = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # Only what this commit does not have; not what is missing on this machine.
            if not str(error.name).startswith("maxmargin"):
                raise
            continue
        for name in names.split():
            if hasattr(home, name):
                return getattr(home, name)
    raise LookupError(
        f"this commit has {names.replace(' ', ' or ')} in none of {', '.join(modules)}; add its module to workloads.py"
    )


def fit_counts(model: Any) -> dict[str, Any]:
    """Passes, gap checks and oracle calls of a fitted estimator, as far as it has them."""
    calls = getattr(model, "n_oracle_calls_", getattr(model, "n_queries_", None))
    passes = list(model.history_.passes)
    return {"passes": passes[-1], "checks": len(passes), "certified": bool(model.certified_), "oracle calls": calls}


def linear_classes(rng: np.random.Generator, X: np.ndarray, n_classes: int, noise: float) -> np.ndarray:
    """Classes by the largest of noisy linear scores."""
    scores = X @ rng.normal(size=(X.shape[1], n_classes)) / np.sqrt(X.shape[1])
    return (scores + noise * rng.normal(size=scores.shape)).argmax(axis=1)


def ranking_rows(n: int, d: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which a share is relevant, by a noisy linear score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d) / np.sqrt(d) + 0.7 * rng.normal(size=n)
    return X, (scores > np.quantile(scores, 1 - share)).astype(int)


def sequences(n: int, length: int, n_labels: int, d: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Sequences of about this length, whose labels come from the rows and from the label before."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(length // 2, length + length // 2 + 1, n)
    centres, follower = rng.normal(size=(n_labels, d)), rng.permutation(n_labels)
    y = [np.empty(m, dtype=int) for m in lengths]
    for labels in y:
        labels[0] = rng.integers(n_labels)
        for k in range(1, len(labels)):
            labels[k] = follower[labels[k - 1]] if rng.random() < 0.5 else rng.integers(n_labels)
    return [centres[labels] + 1.5 * rng.normal(size=(len(labels), d)) for labels in y], y


def inference(loss: str) -> Iterator[Task]:
    from maxmargin import most_violating_ranking

    rng = np.random.default_rng(0)
    relevant = rng.random(1_000_000) < 0.1
    scores = rng.normal(size=len(relevant)) + relevant

    def task() -> dict[str, Any]:
        for _ in range(4):
            found = most_violating_ranking(scores, relevant, loss, n_jobs=1)
        return {"positives above": int(found.interleaving[~relevant].sum()), "loss": found.loss}

    yield task


workload("AP inference, 1e6 scores")(lambda: inference("ap"))
workload("NDCG inference, 1e6 scores")(lambda: inference("ndcg"))


@workload("RankingSVM, one list")
def one_list() -> Iterator[Task]:
    from maxmargin import RankingSVM

    X, y = ranking_rows(100_000, 20, 0.05)
    yield lambda: fit_counts(RankingSVM("ap", C=10_000.0, tol=1e-4, n_jobs=1, **BUDGET).fit(X, y))


@workload("RankingSVM, 1000 queries")
def queries() -> Iterator[Task]:
    from maxmargin import RankingSVM

    X, y = ranking_rows(50_000, 30, 0.2)
    qid = np.repeat(np.arange(1000), 50)
    yield lambda: fit_counts(RankingSVM("ap", C=1.0, tol=1e-4, n_jobs=1, **BUDGET).fit(X, y, qid=qid))


@workload("MulticlassSVM")
def multiclass() -> Iterator[Task]:
    from maxmargin import MulticlassSVM

    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 50))
    y = linear_classes(rng, X, 10, 0.5)
    yield lambda: fit_counts(MulticlassSVM(C=0.1, tol=1e-4, **BUDGET).fit(X, y))


@workload("ChainSVM")
def chains() -> Iterator[Task]:
    from maxmargin import ChainSVM

    X, y = sequences(500, 20, 26, 50)
    yield lambda: fit_counts(ChainSVM(C=0.01, tol=0.02, **BUDGET).fit(X, y))


@workload("GraphSVM")
def graphs() -> Iterator[Task]:
    from maxmargin import GraphSVM

    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(100):
        n = int(rng.integers(8, 13))
        ring = [(k, (k + 1) % n) for k in range(n)] + [(0, n // 2)]
        rows = rng.normal(size=(n, 5))
        X.append((rows, np.array(ring)))
        y.append((rows[:, :3] + 0.5 * np.roll(rows[:, :3], 1, axis=0) + 0.3 * rng.normal(size=(n, 3))).argmax(axis=1))
    yield lambda: fit_counts(GraphSVM(C=0.1, tol=1e-2, **BUDGET).fit(X, y))


@workload("MultilabelSVM")
def multilabel() -> Iterator[Task]:
    from maxmargin import MultilabelSVM

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    scores = X @ rng.normal(size=(30, 8)) / np.sqrt(30)
    Y = (scores + 0.5 * np.roll(scores, 1, axis=1) + 0.3 * rng.normal(size=scores.shape) > 0.5).astype(int)
    yield lambda: fit_counts(MultilabelSVM(C=0.03, pairwise="tree", tol=1e-4, **BUDGET).fit(X, Y))


@workload("HierarchicalSVM")
def hierarchical() -> Iterator[Task]:
    from maxmargin import HierarchicalSVM

    rng = np.random.default_rng(0)
    # Four levels of two children.
    parents = {f"n{k}": f"n{k // 2}" for k in range(2, 32)}
    X = rng.normal(size=(3000, 30))
    leaves = np.array([f"n{16 + k}" for k in linear_classes(rng, X, 16, 0.3)])
    yield lambda: fit_counts(HierarchicalSVM(parents, C=0.1, tol=1e-4, **BUDGET).fit(X, leaves))


@workload("regularization path, chains")
def path() -> Iterator[Task]:
    from maxmargin import ChainSVM, regularization_path

    X, y = sequences(500, 8, 10, 16)

    def task() -> dict[str, Any]:
        model = ChainSVM(C=1.0, tol=0.05, **BUDGET)
        found = regularization_path(model, X, y, epsilon=0.05, lambda_min=0.05)
        return {"passes": found.total_passes, "models": len(found), "segments": len(found.segments)}

    yield task


def labeling(method: str, **options: Any) -> Iterator[Task]:
    home = "maxmargin.labeling"
    Energy, Metric, minimize = (find(name, home) for name in ("Energy", "Metric", "minimize"))
    truth = np.add.outer(np.arange(200) // 25, np.arange(200) // 25) % 16
    noise = np.random.default_rng(0).normal(size=(200, 200, 16))
    energy = Energy.grid(np.abs(np.arange(16) - truth[..., None]) + 2.0 * noise, Metric("linear", limit=3))

    def task() -> dict[str, Any]:
        found = minimize(energy, method, random_state=0, **options)
        return {"cuts": found.n_cuts, "steps": len(found.history), "bounds": len(found.bounds), "energy": found.energy}

    yield task


workload("expansion moves, 200 x 200")(lambda: labeling("expansion"))
workload("TRW-S, 200 x 200")(lambda: labeling("trws", max_sweeps=20))


@workload("svmlight reader, 20 MB")
def reader() -> Iterator[Task]:
    load_svmlight = find("load_svmlight", "maxmargin.io", "maxmargin.data")
    rng = np.random.default_rng(0)
    rows = [" ".join(f"{j}:{x:.6f}" for j, x in enumerate(values, 1)) for values in rng.normal(size=(50, 40))]
    query = "".join(f"{k % 3} qid:@ {row}\n" for k, row in enumerate(rows))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.svm")
        file.write_text("".join(query.replace("@", str(k)) for k in range(20_000_000 // len(query))))

        def task() -> dict[str, Any]:
            for _ in range(5):
                data = load_svmlight(file, n_threads=1)
            return {"rows": data.X.shape[0], "columns": data.X.shape[1]}

        yield task


@workload("APLoss, 1e5 scores", "torch")
def ap_loss() -> Iterator[Task]:
    import torch

    loss = find("APLoss", "maxmargin.nn")()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    relevant = torch.from_numpy(rng.random(100_000) < 0.1)
    start = torch.from_numpy(rng.normal(size=len(relevant)) + relevant.numpy())

    def task() -> dict[str, Any]:
        for _ in range(40):
            scores = start.clone().requires_grad_()
            value = loss(scores, relevant)
            value.backward()
        return {"loss": float(value.detach()), "zero gradients": int((scores.grad == 0).sum())}

    yield task


@workload("local shards, one list")
def local_shards() -> Iterator[Task]:
    X, y = ranking_rows(100_000, 20, 0.05)
    home = "maxmargin.distributed"
    with contextlib.suppress(LookupError):
        ShardedData = find("ShardedData", home)
        from maxmargin import RankingSVM

        data = ShardedData.from_arrays(X, y, n_shards=4)
        yield lambda: fit_counts(RankingSVM("ap", C=10_000.0, tol=1e-4, solver="one_slack", n_jobs=1, **BUDGET).fit(data))
        return
    split_rows, ShardedRanking = find("split_rows", home), find("ShardedRanking", home, "maxmargin.ranking.shards")
    ShardOf, LocalEngine = find("ShardOf RowShardSource", home), find("LocalEngine", home)
    OneSlackCuttingPlane = find("OneSlackCuttingPlane", "maxmargin", "maxmargin.solvers")
    sources = [ShardOf(rows, "ranking", n_jobs=1) for rows in split_rows(X, y, 4)]

    def task() -> dict[str, Any]:
        problem = ShardedRanking(LocalEngine(sources), "ap")
        found = OneSlackCuttingPlane(tol=1e-4, max_passes=10_000).solve(problem, 1e-4)
        return {"passes": found.history.passes[-1], "checks": len(found.history.passes), "certified": bool(found.certified)}

    yield task


@workload("Dask shards, one list", "distributed")
def dask_shards() -> Iterator[Task]:
    import dask.array as da
    from distributed import Client

    DaskRankingSVM = find("DaskRankingSVM", "maxmargin.dask")
    X, y = ranking_rows(300_000, 20, 0.05)
    X, y = da.from_array(X, chunks=(75_000, 20)), da.from_array(y, chunks=75_000)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        yield lambda: fit_counts(DaskRankingSVM("ap", C=10_000.0, tol=1e-4, n_jobs=1, client=client, **BUDGET).fit(X, y))


def measure(name: str) -> dict[str, Any]:
    """Wall-clock and processor seconds of the second run of a workload, and its counts."""
    with WORKLOADS[name][1]() as task:
        task()
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        counts = task()
        found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {**found, "counts": {key: value for key, value in counts.items() if value is not None}}


def main() -> None:
    """Answer requests; the argument is the folder that ``maxmargin`` has to come from."""
    import maxmargin

    # Without __init__.py, as the folder of an editable install, it has no __file__.
    home = Path(next(iter(maxmargin.__path__))).resolve()
    if not home.is_relative_to(Path(sys.argv[1]).resolve()):
        raise SystemExit(f"maxmargin was imported from {home}, not from {sys.argv[1]}")
    warnings.simplefilter("ignore")
    # What libraries print must not get between the replies.
    replies, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            reply = measure(line.strip())
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
