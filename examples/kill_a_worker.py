"""Kill a worker during training and verify that the model is bit-identical.

A Dask cluster of two processes on this machine trains on one list of samples, which lies on both workers. One worker is
killed in the middle. Its shard is loaded again, its questions are asked again, and the weights are those of a single process.

Run it with ``python examples/kill_a_worker.py``. It needs Dask: ``pip install 'maxmargin[dask]'``.
"""

import os
import signal

import dask
import numpy as np
from dask.distributed import Client, LocalCluster

from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import DaskEngine, LocalEngine, ShardOf, split_rows
from maxmargin.ranking.shards import ShardedRanking

ROWS, FEATURES, SHARDS, FATAL_PASS = 40_000, 20, 2, 8


def make_sources():
    """Make a list with few relevant samples, and split it into shards."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    y = X[:, 0] + 0.4 * rng.normal(size=ROWS) > 2.5
    return [ShardOf(rows, "ranking", n_jobs=1) for rows in split_rows(X, y, SHARDS)]


def train(engine, callback=None):
    """Minimise the AP hinge of the whole list to a gap of 0.1 %."""
    return OneSlackCuttingPlane(tol=1e-3, callback=callback).solve(ShardedRanking(engine, "ap"), 1e-4)


def main():
    """Train in this process, train on the cluster, compare."""
    sources = make_sources()
    alone = train(LocalEngine(sources))
    print(f"one process:   {alone.passes:.0f} passes, primal {alone.primal:.9g}")

    # The nanny of a killed worker starts it again; the cluster must not give it up meanwhile.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    killed = []
    with LocalCluster(**options) as cluster, Client(cluster) as client, DaskEngine(sources, client, beat=0.5) as engine:

        def kill(history):
            if history.passes[-1] >= FATAL_PASS and not killed:
                pid = client.run(os.getpid, workers=[engine.where(0)])[engine.where(0)]
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                print(f"pass {history.passes[-1]:.0f}:        killed process {pid}, which held shard 0")

        found = train(engine, kill)
        print(f"two workers:   {found.passes:.0f} passes, primal {found.primal:.9g}, {engine.moves} shard loaded again")

    same = bool((found.weights == alone.weights).all())
    print("The weights are bit-identical." if same else "THE WEIGHTS DIFFER.")
    return 0 if same and killed else 1


if __name__ == "__main__":
    raise SystemExit(main())
