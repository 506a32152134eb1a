"""Training on rows that do not fit into the memory that may be used.

Rows are float32 in packed shards, memory-mapped. The process that is measured may have a quarter of their size as memory of its
own (RLIMIT_DATA), and its resident memory, in which mapped pages count, is watched. "Cold" drops the file from the system's cache
before every walk through it, as if it were larger than the machine; "warm" leaves it there. Reading is the file from end to end
into one buffer, in the same process and in turns with what it is compared with.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import markdown, update_report

from maxmargin.core import sum_of_rows, times
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import LocalEngine, Rows, ShardOf, open_packed
from maxmargin.distributed.packed import write_packed
from maxmargin.ranking.shards import ShardedRanking, lists

RESULTS = FOLDER / "results" / "out_of_core.md"
SHARDS = 8
LIST = 100  # rows of a query
LAMBDA = 1e-3


def make(folder, n, d, queries):
    """Normal features, of which five tell something; one row in a hundred is relevant, of queries one in ten."""
    rng = np.random.default_rng(0)
    rows = n // SHARDS // LIST * LIST
    for k in range(SHARDS):
        scratch = folder / "scratch.npy"
        X = np.lib.format.open_memmap(scratch, mode="w+", dtype=np.float32, shape=(rows, d))
        y = np.empty(rows)
        for first in range(0, rows, 50_000):
            X[first : first + 50_000] = rng.standard_normal(X[first : first + 50_000].shape, dtype=np.float32)
            noisy = X[first : first + 50_000, :5].sum(axis=1) + 2 * rng.standard_normal(len(X[first : first + 50_000]))
            y[first : first + 50_000] = noisy > (3.84 if queries else 6.98)
        offsets = np.arange(0, rows + 1, LIST) if queries else None
        names = list(range(k * rows, k * rows + rows // LIST)) if queries else None
        write_packed(folder / f"{k:05d}-of-{SHARDS:05d}.mmshard", Rows(X, y, offsets, names))
        del X
        scratch.unlink()


def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def files(folder):
    return sorted(Path(folder).glob("*.mmshard/x.npy"))


def drop(folder):
    for path in files(folder):
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def read(folder):
    buffer = bytearray(8 << 20)
    for path in files(folder):
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)  # as cat does
            while file.readinto(buffer):
                pass


class Walks:
    """Counts products with all rows, and reads the file before each that begins a walk, to have the seconds of both."""

    def __init__(self, folder, cold):
        self.folder, self.cold, self.bytes, self.first, self.reading = folder, cold, 0, None, 0.0

    def watch(self, product, rows_of):
        def watched(*args):
            X = rows_of(args)
            # Shards are asked in their order.
            self.first = self.first or X.ctypes.data
            if X.ctypes.data == self.first:
                self.read()
            self.bytes += X.nbytes
            return product(*args)

        return watched

    def read(self):
        if self.cold:
            drop(self.folder)
        start = time.perf_counter()
        read(self.folder)
        self.reading += time.perf_counter() - start
        if self.cold:
            drop(self.folder)


def measure(folder, cold, repeats):
    """In a process of its own, whose memory is limited: seconds of reading, of both products, of training; memory."""
    sources = open_packed(folder)
    size = sum(path.stat().st_size for path in files(folder))
    read(folder)  # buffers and modules are there from now on
    limit = size // 4
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    X = [source.load_rows().X for source in sources]
    rng = np.random.default_rng(1)
    weights, coefficients = rng.normal(size=X[0].shape[1]), [rng.normal(size=len(part)) for part in X]

    def all_times():
        for part in X:
            times(part, weights)

    def all_sums():
        for own, part in zip(coefficients, X, strict=True):
            sum_of_rows(own, part)

    tasks = {"read": lambda: read(folder), "times": all_times, "sum": all_sums}
    seconds = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            if cold:
                drop(folder)
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    X.clear()
    coefficients.clear()
    walks = Walks(folder, cold)
    product, summed = walks.watch(times, lambda args: args[0]), walks.watch(sum_of_rows, lambda args: args[1])
    lists.times, lists.sum_of_rows = product, summed
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    start = time.perf_counter()
    problem = ShardedRanking(LocalEngine([ShardOf(source, "ranking") for source in sources]), "ap")
    found = OneSlackCuttingPlane(tol=1e-3).solve(problem, LAMBDA)
    spent = time.perf_counter() - start
    return {
        **{name: min(values) for name, values in seconds.items()},
        "size": size, "limit": limit, "peak": memory("VmHWM"), "walks": walks.bytes / size,
        "training": spent - walks.reading, "reading": walks.reading,
        "certified": bool(found.certified), "gap": (found.primal - found.dual) / found.primal, "primal": found.primal,
    }  # fmt: skip


def measured(*arguments):
    command = [sys.executable, "-m", "benchmarks.distributed.out_of_core", "--one", json.dumps(arguments)]
    # Buffers of its threads would count.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def section(title, n, d, queries, repeats, where):
    rows = []
    with tempfile.TemporaryDirectory(dir=where) as folder:
        make(Path(folder), n, d, queries)
        os.sync()
        for cold in (True, False):
            found = measured(folder, cold, repeats)
            if not found["certified"] or found["peak"] > found["limit"]:
                print(f"not certified, or beyond the limit: {found}", file=sys.stderr)
            rows.append(
                [
                    "cold" if cold else "warm",
                    f"{found['read']:.2f}",
                    f"{found['times'] / found['read']:.2f}",
                    f"{found['sum'] / found['read']:.2f}",
                    f"{found['training']:.1f}",
                    f"{found['walks']:.0f}",
                    f"{found['training'] / found['reading']:.2f}",
                    f"{found['gap']:.1e}",
                    f"{found['peak'] / found['size']:.2f}",
                    f"{found['limit'] / found['size']:.2f}",
                ]
            )
            print(rows[-1], flush=True)
    header = [
        "", "read, s", "X w / read", "X'g / read", "training, s", "walks", "training / as many reads", "gap", "peak memory / X",
        "limit / X",
    ]  # fmt: skip
    return f"## {title}\n\n" + markdown(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_250_000)
    parser.add_argument("--features", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", help="where to write the rows; by default among temporary files")
    parser.add_argument("--sections", nargs="+", choices=["list", "queries"], default=["list", "queries"])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(*json.loads(options.one))))
        return
    n, d = options.rows, options.features
    what = f"{n:,} x {d}, float32, {4 * n * d / 1e9:.1f} GB"
    titles = {"list": f"One list over {SHARDS} shards: {what}", "queries": f"Queries of {LIST} rows in {SHARDS} shards: {what}"}
    sections = [section(titles[name], n, d, name == "queries", options.repeats, options.folder) for name in options.sections]
    introduction = (
        "Rows lie in packed shards on disk; the process may have a quarter of their size as memory of its own (RLIMIT_DATA), and "
        "its resident memory, mapped pages among it, is compared with their size. Cold: the file is dropped from the system's "
        "cache before every walk through it. A walk is one product with all rows, `X w` or `X'g`; seconds of reading and of "
        "products are the shortest of several. Training is one run of cutting planes for AP, with inference and everything else, "
        f"at lambda {LAMBDA:g}, certified to 1e-3; the file is read before each of its walks, for comparison."
    )
    update_report(RESULTS, "Training on more than fits into memory", introduction, sections)


if __name__ == "__main__":
    main()
