"""One list on all cores, over shards and over workers.

Parts that use Dask start a LocalCluster. Wall-clock times are those of a machine that may be used by others too, so processor
times stand beside them; compare ratios. Other distributed rankers are in ``benchmarks.distributed.distributed_peers``.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import FOLDER
from benchmarks.distributed.shards import in_turns, measured, ms, one_slack, rows_of, section
from benchmarks.distributed.simulated_cluster import simulation
from benchmarks.timing import update_report

from maxmargin import RankingSVM, most_violating_ranking
from maxmargin.distributed import LocalEngine, PackedRows, Rows, ShardOf, split_rows
from maxmargin.distributed.packed import write_packed
from maxmargin.ranking import RankingProblem, ranking_loss
from maxmargin.ranking.shards import ShardedRanking

RESULTS = FOLDER / "results" / "distributed.md"


def list_of(n, n_pos, kind):
    """Scores of normal negatives, and positives one deviation above their mean, or eight: nearly all negatives below them."""
    rng = np.random.default_rng(0)
    y = np.zeros(n)
    y[rng.choice(n, n_pos, replace=False)] = 1
    return rng.normal(size=n) + (1 if kind == "overlapping" else 8) * y, y


# ---- one machine --------------------------------------------------------------------------------------------------------------


SORT = """
import time
import numpy as np
scores = np.random.default_rng(0).normal(size={n})
best = np.inf
for _ in range({repeats}):
    begin = time.perf_counter()
    np.sort(scores)
    best = min(best, time.perf_counter() - begin)
print(best)
"""


def sort_seconds(n, repeats):
    """Of ``np.sort``, as it comes and without AVX-512, which is slow on some processors: the faster of the two."""
    seconds = []
    for features in ("", "X86_V4 AVX512_ICL AVX512_SPR"):
        command = [sys.executable, "-W", "ignore", "-c", SORT.format(n=n, repeats=repeats)]
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": features}
        seconds.append(float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout))
    return min(seconds)


def threads(repeats):
    """One list by one and by two threads."""
    rows = []
    for n in (1_000_000, 10_000_000):
        for kind in ("overlapping", "separated"):
            scores, y = list_of(n, 100, kind)
            relevant, room = y > 0, np.zeros(n)
            found = in_turns(
                {
                    "bare": lambda s=scores, to=room: np.multiply(s, 2.0, out=to),
                    # Gradients are let go, as in training: their memory is used again.
                    "one": lambda s=scores, r=relevant: most_violating_ranking(s, r, n_jobs=1).hinge,
                    "two": lambda s=scores, r=relevant: most_violating_ranking(s, r, n_jobs=2).hinge,
                    "sum": lambda s=scores: s.sum(),
                },
                repeats * (10 if n <= 1_000_000 else 3),
            )
            one, two = found["one"], found["two"]
            sort, total = sort_seconds(n, 3 * repeats), found["sum"][0]
            row = [f"{n:,} {kind}", ms(one[0]), ms(two[0]), f"{two[0] / one[0]:.2f}", f"{ms(one[1])} / {ms(two[1])}"]
            rows.append(
                [*row, f"{two[0] / sort:.2f}", f"{two[0] / total:.1f}", f"{one[1] / 2 / sort:.2f}", f"{one[1] / 2 / total:.1f}"]
                + [f"{found['bare'][0] / total:.1f}"]
            )
            print(rows[-1], flush=True)
    header = ["scores", "1 thread, ms", "2 threads, ms", "2 / 1", "CPU ms, 1 / 2 threads", "2 threads / np.sort", "/ np.sum"]
    text = (
        "`most_violating_ranking`, AP, P = 100, float64. Wall-clock, the best of several; `np.sort` in the faster of numpy's two "
        "ways on this processor, in a process of its own. A second thread helps only if it gets a "
        "core: two columns are half of the processor time of one thread, what two free cores would take at best. The last one is "
        "`np.multiply` into an array that is there already, by one thread: to read every score and to write a number for each is "
        "what no method that returns a gradient can do without, where few negatives are below all positives."
    )
    header += ["half of 1 thread's CPU / np.sort", "/ np.sum", "reading and writing alone / np.sum"]
    return section("Both threads on one list", text, header, rows)


def narrow_training(repeats):
    """RankingSVM on many narrow rows by one and by two threads."""
    X, y = rows_of(10_000_000, 10, 1e-4)
    found = in_turns({jobs: lambda jobs=jobs: RankingSVM(C=1e3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)}, repeats)
    one, two = found[1], found[2]
    if not np.array_equal(one[2].coef_, two[2].coef_):
        raise AssertionError("weights depend on the number of threads")
    row = ["10,000,000 x 10", f"{one[0]:.2f}", f"{two[0]:.2f}", f"{two[0] / one[0]:.2f}", f"{one[1]:.2f} / {two[1]:.2f}"]
    print(row, flush=True)
    text = (
        "`RankingSVM(C=1000)`, float32, 1,000 positives, to a gap of 1e-3; both give the same bits. Two processes that only read "
        f"memory take {least_of_two():.2f} of the time of one on this machine."
    )
    header = ["rows", "1 thread, s", "2 threads, s", "2 / 1", "CPU s, 1 / 2 threads"]
    return section("Training with both threads", text, header, [row])


# ---- shards in this process ---------------------------------------------------------------------------------------------------


def local(parts, n_jobs=1):
    """An engine of one thread for every shard."""
    return LocalEngine([ShardOf(part, "ranking", n_jobs=1) for part in parts], n_jobs=n_jobs)


def list_passes(repeats):
    """A look of a line search over two shards, and on one machine."""
    rows = []
    for n_pos in (100, 10_000):
        for kind in ("overlapping", "separated"):
            scores, y = list_of(10_000_000, n_pos, kind)
            relevant, change = y > 0, 1e-3 * np.random.default_rng(1).normal(size=len(y))
            X = np.stack([scores, change], axis=1)
            for loss in ("ap", "ndcg"):
                engine = local(split_rows(X, y, 2))
                problem = ShardedRanking(engine, loss)
                origin, direction = problem.scores(np.array([1.0, 0.0])), problem.scores(np.array([0.0, 1.0]))
                places = iter(np.linspace(0.1, 1, 10_000))

                def look(problem=problem, origin=origin, direction=direction, places=places):
                    return problem.tangent(origin + next(places) * direction)

                def alone(loss=loss, scores=scores, change=change, relevant=relevant):
                    point = scores + 0.5 * change
                    found = most_violating_ranking(point, relevant, loss, n_jobs=1)
                    return found.gradient @ change, found.gradient @ scores

                both = itertools.cycle([origin, problem.scores(np.array([1.0, 0.01]))])

                def rank(problem=problem, both=both):
                    return problem.tangent(next(both))

                for _ in range(8):
                    look(), rank()
                before = engine.rounds, engine.bytes_up + engine.bytes_down
                rank()
                rounds, sent = engine.rounds - before[0], engine.bytes_up + engine.bytes_down - before[1]
                tasks = {"kernel": lambda s=scores, r=relevant, loss=loss: most_violating_ranking(s, r, loss, n_jobs=1)}
                found = in_turns({**tasks, "alone": alone, "ranks": rank, "shards": look}, 4 * repeats)
                kernel, whole, ranks, shards = (found[name][1] for name in ("kernel", "alone", "ranks", "shards"))
                row = [f"P = {n_pos:,}, {kind}, {loss}", ms(kernel), ms(ranks), f"{ranks / 2 / kernel:.2f}", f"{rounds}"]
                row += [f"{sent / 1e3:,.0f}", f"{100 * sent / (8 * len(y)):.2f} %"]
                row += [ms(whole), ms(shards), f"{shards / whole:.2f}"]
                rows.append(row)
                print(rows[-1], flush=True)
    text = (
        "1e7 scores in two shards of this process, asked one after the other; processor times. *Kernel*: the ranking, on one "
        "machine and by one thread. *List pass*: the same over shards, which hold the scores, with the hinge and the product of "
        "gradient and scores; half of it is what two free cores would take. Rounds and bytes are those of one pass, of both "
        "shards together. *Look*: scores of a place on a line (two arrays are combined), the ranking, the hinge, and products of "
        "the gradient with both arrays; on one machine the same by numpy and one thread of the kernel."
    )
    header = ["list", "kernel, ms", "list pass, shards, ms", "half of it / kernel", "rounds", "kB", "of the scores' bytes"]
    header += ["look, one machine, ms", "look, shards, ms", "shards / one machine"]
    return section("A look at a list in two shards", text, header, rows)


def one_list(X, y, loss="ap"):
    """The same list on one core."""
    problem = RankingProblem(X, (y > 0)[None], ranking_loss(loss), np.array([0, len(y)]))
    problem.n_jobs = 1
    return problem


def local_training(repeats):
    """Training with shards in this process."""
    rows = []
    for n, d in ((400_000, 100), (100_000, 100)):
        X, y = rows_of(n, d)
        tasks = {
            "one": lambda X=X, y=y: one_slack(one_list(X, y)),
            "shards": lambda X=X, y=y: one_slack(ShardedRanking(local(split_rows(X, y, 2)), "ap")),
        }
        found = in_turns(tasks, 2 * repeats)
        (_, one, alone), (_, two, sharded) = found["one"], found["shards"]
        same = abs(sharded.primal - alone.primal) / alone.primal
        row = [f"{n:,} x {d}", f"{one:.2f}", f"{two:.2f}", f"{two / one:.2f}", f"{alone.passes:.0f} / {sharded.passes:.0f}"]
        rows.append([*row, f"{same:.0e}"])
        print(rows[-1], flush=True)
    text = (
        "AP, float32, lambda = 1e-3, 0.5 % relevant; processor seconds of training to a gap of 1e-3 by `RankingProblem` with "
        "BLAS on one thread, and by `LocalEngine` with two shards of one thread each."
    )
    header = ["rows", "one machine, CPU s", "two shards, CPU s", "ratio", "passes", "difference of the objectives"]
    return section("Training with shards of one process", text, header, rows)


# ---- workers ------------------------------------------------------------------------------------------------------------------


def read_again_and_again(start, answer):
    """Seconds in which one of several processes reads 400 MB."""
    rows = np.ones(50_000_000)
    start.wait()
    begin = time.perf_counter()
    for _ in range(10):
        rows.max()
    answer.put((time.perf_counter() - begin) / 10)


def least_of_two():
    """What two processes take at least of the time of one, where both only read: memory serves them both."""
    seconds = []
    for n in (1, 2):
        context = multiprocessing.get_context("spawn")
        start, answer = context.Barrier(n), context.Queue()
        readers = [context.Process(target=read_again_and_again, args=(start, answer)) for _ in range(n)]
        for reader in readers:
            reader.start()
        seconds.append(max(answer.get(timeout=120) for _ in readers))
        for reader in readers:
            reader.join()
    return seconds[1] / (2 * seconds[0])


def cluster(n_workers):
    """A LocalCluster of processes with one thread each, and its client."""
    from dask.distributed import Client, LocalCluster

    made = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0)
    client = Client(made, set_as_default=False)
    client.wait_for_workers(n_workers, timeout=120)
    return made, client


@dataclass(frozen=True)
class LoadedRows:
    """A packed shard that is read into memory: mapped pages are made and let go anew for every product."""

    packed: PackedRows

    def load_rows(self):
        rows = self.packed.load_rows()
        return rows._replace(X=np.array(rows.X))

    def describe(self):
        return self.packed.describe()


def packed_parts(folder, X, y, n_shards):
    """Shards in files, which workers read into their memory."""
    sources = []
    for k, part in enumerate(split_rows(X, y, n_shards)):
        write_packed(folder / f"{k}.mmshard", Rows(part.X, part.y, None, None))
        sources.append(ShardOf(LoadedRows(PackedRows(str(folder / f"{k}.mmshard"))), "ranking", n_jobs=1))
    return sources


class Bare:
    """An actor of Dask that is asked next to nothing."""

    def info(self):
        return {"rows": 50}


def tiny_pass(client):
    """Of four tiny shards: seconds of bare calls of Dask, of the engine, and of a pass, as many each; rounds; CPU a round."""
    from maxmargin.distributed import DaskEngine

    X, y = rows_of(200, 3, 0.2)
    workers = itertools.cycle(client.scheduler_info()["workers"])
    futures = [client.submit(Bare, actor=True, pure=False, workers=[next(workers)]) for _ in range(4)]
    with client.as_current():
        actors = [future.result() for future in futures]

    def ask_bare(rounds):
        with client.as_current():
            for _ in range(rounds):
                for answer in [actor.info() for actor in actors]:
                    answer.result()

    with DaskEngine([ShardOf(part, "ranking", n_jobs=1) for part in split_rows(X, y, 4)], client) as engine:
        problem = ShardedRanking(engine, "ap")
        scores = problem.scores(np.ones(3))
        problem.tangent(scores)
        before = engine.rounds
        problem.tangent(scores)
        per_pass = engine.rounds - before
        tasks = {
            "bare": lambda: ask_bare(per_pass),
            "engine": lambda: [engine.call("info") for _ in range(per_pass)],
            "pass": lambda: problem.tangent(scores),
        }
        found = in_turns(tasks, 40)
    seconds = [found[name][0] for name in ("bare", "engine", "pass")]
    return *seconds, per_pass, found["pass"][1] / per_pass


def killed(sources, client, expected):
    """Train once more and kill a worker with SIGKILL in the middle: whether the bits are the same, and moves."""
    from maxmargin.distributed import DaskEngine

    pids = list(client.run(os.getpid).values())
    seen = []

    def kill(history: Any) -> None:
        seen.append(history)
        if len(seen) == 4:
            os.kill(pids[0], signal.SIGKILL)

    with DaskEngine(sources, client) as engine:
        found = one_slack(ShardedRanking(engine, "ap"), callback=kill)
        return np.array_equal(found.weights, expected.weights), engine.moves


def dask_training(n, d, repeats):
    """Training over workers."""
    from maxmargin.distributed import DaskEngine

    X, y = rows_of(n, d)
    rows = []
    one_wall, one_cpu, alone = measured(lambda: one_slack(one_list(X, y)), repeats)
    rows.append(["one process, one thread", f"{one_wall:.2f}", "1.00", f"{one_cpu:.2f}", "", f"{alone.passes:.0f}", "", "", ""])
    print(rows[-1], flush=True)
    notes = []
    with tempfile.TemporaryDirectory() as where:
        sources = packed_parts(Path(where), X, y, 2)
        for n_workers in (1, 2):
            made, client = cluster(n_workers)
            try:
                bare, asked, tiny, per_pass, client_cpu = tiny_pass(client)
                notes.append(
                    f"{n_workers} worker{'s' if n_workers > 1 else ''}, 4 tiny shards: {per_pass} times a call of 4 actors of "
                    f"Dask {ms(bare)} ms, as many rounds of the engine that ask nothing {ms(asked)} ms, a pass {ms(tiny)} ms "
                    f"({tiny / bare:.2f} of the actors, {tiny / asked:.2f} of the engine), client and scheduler {ms(client_cpu)} "
                    "ms of CPU a round."
                )
                with DaskEngine(sources, client) as engine:
                    problem = ShardedRanking(engine, "ap")
                    best = np.inf, np.inf, np.inf
                    for _ in range(repeats):
                        rounds, sent, before = engine.rounds, engine.bytes_up + engine.bytes_down, client.run(time.process_time)
                        begin = time.perf_counter()
                        found = one_slack(problem)
                        wall = time.perf_counter() - begin
                        after = client.run(time.process_time)
                        used = [after[key] - before[key] for key in after]
                        best = min(best, (wall, sum(used), max(used)))
                        rounds, sent = engine.rounds - rounds, engine.bytes_up + engine.bytes_down - sent
                row = [
                    f"{n_workers} worker{'s' if n_workers > 1 else ''}",
                    f"{best[0]:.2f}",
                    f"{best[0] / one_wall:.2f}",
                    f"{best[1]:.2f}",
                ]
                row += [f"{best[2]:.2f}", f"{found.passes:.0f}", f"{rounds}", f"{sent / found.passes / 1e3:,.0f}"]
                rows.append([*row, f"{abs(found.primal - alone.primal) / alone.primal:.0e}"])
                print(rows[-1], flush=True)
                if n_workers == 2:
                    same, moves = killed(sources, client, found)
                    notes.append(
                        f"A worker killed by SIGKILL in mid-run: the same bits: {'yes' if same else 'NO'} "
                        f"({moves} shard(s) loaded again)."
                    )
            finally:
                client.close()
                made.close()
            print(notes[-1], flush=True)
    text = (
        f"{n:,} x {d}, float32, in two shards which workers read into memory; AP, lambda = 1e-3, to a gap of 1e-3; a "
        "LocalCluster on this machine. The client and the scheduler are processes of the same two cores, and two processes that "
        f"only read memory take {least_of_two():.2f} of the time of one here."
    )
    header = [
        "",
        "s",
        "/ one process",
        "CPU s of all workers",
        "of the busiest",
        "passes",
        "rounds",
        "kB a pass",
        "difference of the objectives",
    ]
    return "\n\n".join(
        [section(f"Training over workers, {n:,} x {d}", text, header, rows), "\n".join(f"- {note}" for note in notes)]
    )


# ---- out of core --------------------------------------------------------------------------------------------------------------

CHILD = """
import resource, sys, threading, time
import numpy as np
from maxmargin.distributed import LocalEngine, PackedRows, ShardOf, open_packed
from maxmargin.ranking.shards import ShardedRanking
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.core import rows as products

def status(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name + ":")) * 1024

limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
peak, over = [0], threading.Event()
def watch():
    while not over.wait(0.02):
        peak[0] = max(peak[0], status("VmRSS"))
threading.Thread(target=watch, daemon=True).start()
from maxmargin.ranking.shards import lists
walked = [0, 0.0]  # bytes and seconds
for name, place in (("times", 0), ("sum_of_rows", 1)):
    def counted(*args, own=getattr(lists, name), place=place):
        begin = time.perf_counter()
        found = own(*args)
        walked[0] += args[place].nbytes
        walked[1] += time.perf_counter() - begin
        return found
    setattr(lists, name, counted)
engine = LocalEngine([ShardOf(part, "ranking", n_jobs=2) for part in open_packed(sys.argv[1])])
begin = time.perf_counter()
found = OneSlackCuttingPlane(tol=1e-3).solve(ShardedRanking(engine, "ap"), 1e-3)
wall = time.perf_counter() - begin
over.set()
print(wall, *walked, peak[0], found.passes, int(found.certified), found.gap)
"""


def read_file(paths):
    """Seconds to read files once, four megabytes at a time."""
    begin = time.perf_counter()
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(4 << 20):
                pass
    return time.perf_counter() - begin


def forget(paths):
    """Ask the system to let what it has of files go."""
    os.sync()
    for path in paths:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def out_of_core(folder):
    """A packed list four times larger than the memory that training may use."""
    n, d, n_shards = 1_250_000, 400, 4
    with tempfile.TemporaryDirectory(dir=folder) as where:
        rng, files, size = np.random.default_rng(0), [], 0
        weights = (rng.normal(size=d) / np.sqrt(d)).astype(np.float32)
        for k in range(n_shards):
            X = rng.standard_normal((n // n_shards, d), dtype=np.float32)
            y = (X @ weights + 0.7 * rng.standard_normal(len(X), dtype=np.float32) > 3.15).astype(np.float64)
            target = Path(where) / f"{k}-of-{n_shards}.mmshard"
            write_packed(target, Rows(X, y, None, None))
            files.append(target / "x.npy")
            size += (target / "x.npy").stat().st_size
            del X
        limit = size // 4
        forget(files)
        cold = read_file(files)
        warm = min(read_file(files) for _ in range(3))
        forget(files)
        command = [sys.executable, "-c", CHILD, where, str(limit)]
        told = subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        ).stdout
        warm = min(warm, *(read_file(files) for _ in range(2)))
    wall, reads, product, peak, passes, certified, gap = map(float, told.split())
    row = [
        f"{n:,} x {d}",
        f"{size / 1e9:.1f} GB",
        f"{limit / 1e6:.0f} MB",
        f"{peak / 1e6:.0f} MB",
        f"{wall:.1f}",
        f"{passes:.0f}",
    ]
    row += [
        f"{gap:.1e}{'' if certified else ' (not certified)'}",
        f"{reads / size:.1f}",
        f"{wall / passes:.2f}",
        f"{product / (reads / size):.2f}",
    ]
    row += [f"{cold:.2f} / {warm:.2f}", f"{wall / passes / cold:.2f} / {wall / passes / warm:.2f}"]
    print(row, flush=True)
    text = (
        "Four packed shards on disk, mapped; `LocalEngine`, AP, lambda = 1e-3, to a gap of 1e-3, float32. RLIMIT_DATA holds "
        "the process to a quarter of the file; the peak is that of all resident memory, mapped pages of the file included. "
        "*Readings* are walks through all of X, products with weights or with gradients. The time to read is that "
        "of plain reads of four megabytes, from a file that the system was asked to forget, and from its "
        "cache, which this machine has room for."
    )
    header = ["list", "X", "may use", "peak of resident memory", "training, s", "passes", "gap", "readings of X"]
    header += ["s a pass", "s a reading", "reading the file, s: cold / cached", "a pass / that"]
    return section("Larger than memory", text, header, [row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2, help="timings per entry; the best counts")
    parser.add_argument("--scratch", type=Path, help="directory for files of 2 GB; that of temporary files by default")
    parts = {
        "threads": lambda o: threads(o.repeats),
        "narrow": lambda o: narrow_training(o.repeats),
        "pass": lambda o: list_passes(o.repeats),
        "training": lambda o: local_training(o.repeats),
        "dask": lambda o: dask_training(1_000_000, 200, o.repeats),
        "small": lambda o: dask_training(400_000, 100, o.repeats),
        "memory": lambda o: out_of_core(o.scratch),
        "simulation": lambda o: simulation(),
    }
    parser.add_argument("--only", choices=list(parts), nargs="+", help="some of the tables")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, part in parts.items():
        if options.only is None or name in options.only:
            introduction = (
                "Other jobs used the two cores while some of these tables were made: wall-clock times of "
                "several threads or processes are upper bounds, processor times (CPU) are closer to the truth. "
                "`OMP_NUM_THREADS=1`; threads are those named."
            )
            update_report(RESULTS, "Beyond one machine", introduction, [part(options)])


if __name__ == "__main__":
    main()
