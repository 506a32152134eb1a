"""Clusters, and shards that fail when they are told to."""

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.cases.waiting import wait_until

from maxmargin.distributed import ArrayRows, ShardOf, split_rows


@contextmanager
def processes(n_workers=2, **settings):
    """A cluster of processes on this machine, and its client."""
    import dask
    from dask.distributed import Client, LocalCluster

    # A nanny starts its worker again; the cluster must not take both for lost meanwhile.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", **settings}
    with LocalCluster(n_workers=n_workers, **options) as cluster, Client(cluster, set_as_default=False) as client:
        if n_workers:
            client.wait_for_workers(n_workers, timeout=60)
        yield client


@contextmanager
def threads(n_workers=2):
    """A cluster within this process: quick to start, but its workers cannot be killed."""
    with processes(n_workers, processes=False) as client:
        yield client


class Faults:
    """Tells shards on any worker what is to go wrong, by files: each holds how often."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def plan(self, kind, operation, shard, times=1):
        self.path(kind, operation, shard).write_text(str(times))

    def wake(self):
        """Let those go on that sleep; nobody sleeps from now on."""
        (self.folder / "woken").touch()

    def path(self, kind, operation, shard):
        return self.folder / f"{kind}-{operation}-{shard}"

    def happens(self, kind, operation, shard):
        """Whether it is time; one time less is left then."""
        path = self.path(kind, operation, shard)
        if not path.exists():
            return False
        left = int(path.read_text()) - 1
        path.write_text(str(left)) if left > 0 else path.unlink()
        return True


class FaultyShard:
    def __init__(self, shard, number, faults):
        self.shard, self.number, self.faults = shard, number, faults

    def info(self):
        return self.shard.info()

    def answer(self, operation, *args):
        def now(kind):
            return self.faults.happens(kind, operation, self.number)

        if operation == "where":
            return {"pid": os.getpid(), "incarnation": self.shard.incarnation}
        if operation == "fail":
            raise args[0]
        if now("die before"):
            die()
        if now("sleep"):
            wait_until((self.faults.folder / "woken").exists, 120)
        answer = self.shard.answer(operation, *args)
        if now("die after"):
            die()
        if now("nan"):
            return {key: value * np.nan if is_number(value) else value for key, value in answer.items()}
        return answer


def is_number(value):
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


class FaultySource:
    def __init__(self, source, number, folder):
        self.source, self.number, self.faults = source, number, Faults(folder)

    def load(self):
        if self.faults.happens("die", "load", self.number):
            die()
        if self.faults.happens("hide", "load", self.number):
            raise FileNotFoundError(2, "No such file or directory", "/data/part-7.svm")
        return FaultyShard(self.source.load(), self.number, self.faults)

    def describe(self):
        return self.source.describe()


class BigSource:
    """More numbers than a worker may hold."""

    def __init__(self, n):
        self.n = n

    def load(self):
        X = np.ones((self.n // 10, 10))
        return ShardOf(ArrayRows(X, np.arange(len(X)) % 2), "ranking").load()

    def describe(self):
        return "a big file"


def lists(n_queries=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(8 * n_queries, d)), np.repeat(np.arange(n_queries), 8)
    return X, X[:, 0] + rng.normal(size=len(X)) > 0.5, qid


def sources_of(X, y, n_shards, qid=None, kind="ranking", folder=None):
    """Sources of shards; with a folder they fail as the files there say."""
    sources = [ShardOf(rows, kind, n_jobs=1) for rows in split_rows(X, y, n_shards, qid)]
    return sources if folder is None else [FaultySource(source, k, folder) for k, source in enumerate(sources)]


def ranking_sources(n_shards=3, folder=None):
    X, y, qid = lists()
    return sources_of(X, y, n_shards, qid, folder=folder)


def list_sources(n_shards=3, folder=None):
    """One list, which lies in all shards."""
    X, y, _ = lists()
    return sources_of(X, y, n_shards, folder=folder)


def class_sources(n_shards=3, folder=None):
    X, _, _ = lists()
    return sources_of(X, np.argmax(X[:, :3] + 0.3, axis=1), n_shards, kind="classes", folder=folder)


def chunked(values, sizes):
    """A Dask array of all columns in chunks of rows."""
    import dask.array as da

    return da.from_array(values, chunks=(sizes,) if np.ndim(values) == 1 else (sizes, values.shape[1]))
