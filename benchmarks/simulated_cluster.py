"""What more machines would take: shards of one process with the clock of a cluster, sums in groups, and block steps.

Parts of the tables of ``benchmarks.distributed``. Classes and words are read from the folder in MAXMARGIN_DATA.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks import datasets
from benchmarks.shards import in_turns, measured, ms, one_slack, rows_of, section
from maxmargin.distributed import LocalEngine, ShardedRanking, ShardOf, split_rows
from maxmargin.distributed.engine import size_of
from maxmargin.distributed.sums import group_size, tree_sum
from maxmargin.solvers import OneSlackCuttingPlane

# Of a message from one machine to another and back, and bytes a second: what the cost model assumes.
ROUND_TRIP, BANDWIDTH = 0.010, 1.25e9


class SimulatedCluster(LocalEngine):
    """Shards of this process with the clock of a cluster: every round lasts as long as its slowest shard, and messages take time.

    All messages go through the client, which has one connection of so many bytes a second.
    """

    def __init__(self, sources):
        super().__init__(sources)
        self.latency = self.wire = self.work = self.counts = self.hops = 0.0
        self.client = -time.process_time()
        self._slowest = 0.0

    def call(self, operation, args=(), only=None):
        """As everywhere."""
        before, self._slowest, begin = self.bytes_up + self.bytes_down, 0.0, time.process_time()
        replies = super().call(operation, args, only)
        answers = [answer for reply in replies for answer in reply.values.get("answers", ()) if "counts" in answer]
        self.counts += sum(size_of(answer["counts"]) for answer in answers) / BANDWIDTH
        self.hops += ROUND_TRIP if answers else 0.0
        self.client -= time.process_time() - begin
        self.latency += ROUND_TRIP
        self.wire += (self.bytes_up + self.bytes_down - before) / BANDWIDTH
        self.work += self._slowest
        return replies

    def _ask(self, k, now, operation, question):
        begin = time.thread_time()
        reply = super()._ask(k, now, operation, question)
        self._slowest = max(self._slowest, time.thread_time() - begin)
        return reply

    def clock(self):
        """Seconds so far, by what they were spent on."""
        return {"latency": self.latency, "wire": self.wire, "work": self.work, "client": self.client + time.process_time()}


def simulation():
    """A hundred workers."""
    rows = []
    for n, d, share in ((4_000_000, 50, 1e-3), (20_000_000, 10, 1e-4)):
        X, y = rows_of(n, d, share)
        for n_workers in (10, 100):
            engine = SimulatedCluster([ShardOf(part, "ranking", n_jobs=1) for part in split_rows(X, y, n_workers)])
            problem = ShardedRanking(engine, "ap")
            problem.mean_cut(np.zeros(d))  # shards are loaded, and have their task
            begin, rounds, sent = engine.clock(), engine.rounds, engine.bytes_up + engine.bytes_down
            engine.counts = engine.hops = 0.0
            found = one_slack(problem)
            spent = {name: value - begin[name] for name, value in engine.clock().items()}
            rounds, sent = engine.rounds - rounds, engine.bytes_up + engine.bytes_down - sent
            looks = found.passes
            total = sum(spent.values())
            # Four round trips a look and one a cut, 40 ns a row in lists, products at 20 GB/s, and a megabyte of counts and plans
            # from and to every worker.
            model_look = 4 * ROUND_TRIP + 40e-9 * n / n_workers + n_workers * 1e6 / BANDWIDTH
            products = engine.log.count("features") + looks / 3
            model = looks * model_look + products * (4.0 * n * d / n_workers / 20e9 + ROUND_TRIP)
            row = [f"{n:,} x {d}, {int(y.sum()):,} positives", f"{n_workers}", f"{looks:.0f}", f"{rounds / looks:.1f}"]
            row += [
                f"{sent / looks / n_workers / 1e3:,.1f}",
                *(f"{spent[name]:.2f}" for name in ("latency", "wire", "work", "client")),
            ]
            rows.append([*row, f"{total:.2f}", f"{model:.2f}", f"{engine.counts:.2f}", f"{engine.hops:.2f}"])
            print(rows[-1], flush=True)
            engine.close()
    text = (
        f"`LocalEngine` with a simulated clock: every round costs a round trip of {1e3 * ROUND_TRIP:.0f} ms, its bytes at "
        f"{BANDWIDTH / 1e9} GB/s through the one client, and the processor time of its slowest shard, measured here one after "
        "the other. Training to a gap of 1e-3, AP, lambda = 1e-3. The model is that of the guide: per look 4 round trips, "
        "40 ns a row and core, 1 MB to and from every worker; products at 20 GB/s. The last two columns are what groups of "
        "workers could at most save if they added up counts of negatives first, and what their one more round trip would cost: "
        "counts go to the client."
    )
    header = [
        "list",
        "workers",
        "passes",
        "rounds a pass",
        "kB a pass and worker",
        "latency, s",
        "wire, s",
        "slowest shards, s",
        "client, s",
    ]
    header += ["together, s", "model, s", "counts on the wire, s", "one more trip for them, s"]
    return section("A hundred workers, simulated", text, header, rows)


def groups(repeats):
    """Vectors of all shards added up by the client alone, and in groups first."""
    rows = []
    for n_shards in (16, 32, 64, 128, 256):
        for d in (1_000, 10_000, 100_000, 1_000_000):
            # The same few vectors again and again: what is added up does not matter, and they fit into memory.
            few = np.random.default_rng(0).normal(size=(8, d))
            vectors = [few[k % 8] for k in range(n_shards)]
            size = 1 << round(np.log2(np.sqrt(n_shards)))
            n_groups = -(-n_shards // size)
            tasks = {
                "star": lambda vectors=vectors: tree_sum(vectors),
                "first": lambda vectors=vectors, size=size: tree_sum(vectors[:size]),
                "then": lambda vectors=vectors, n_groups=n_groups: tree_sum(vectors[:n_groups]),
            }
            found = in_turns(tasks, 3 * repeats)
            wire = 8 * d / BANDWIDTH
            star = ROUND_TRIP + n_shards * wire + found["star"][1]
            tree = 2 * ROUND_TRIP + (size - 1 + n_groups) * wire + found["first"][1] + found["then"][1]
            row = [f"{n_shards}", f"{d:,}", f"{8 * d * n_shards / 1e6:,.1f}", f"{size}", ms(found["star"][1]), ms(star), ms(tree)]
            rows.append([*row, f"{tree / star:.2f}", "groups" if group_size(n_shards, d) > 1 else "client"])
            print(rows[-1], flush=True)
    text = (
        f"One cut: a vector of d numbers from every shard. A round trip costs {1e3 * ROUND_TRIP:.0f} ms, bytes go at "
        f"{BANDWIDTH / 1e9} GB/s through the client or through the first shard of a group, adding up is measured here (processor "
        "time). In groups there is one more round trip. The last column is who adds up in `maxmargin`."
    )
    header = ["shards", "d", "MB", "group", "adding up by the client, ms", "client alone, ms", "groups, ms", "ratio", "in use"]
    return section("Sums of vectors in groups, simulated", text, header, rows)


# ---- block steps over shards --------------------------------------------------------------------------------------------------


def python_epoch(problem, lam, points, order):
    """The steps of an epoch in Python, from where the points are: a vector of all weights for every block."""
    n, here = problem.n_blocks, sum(points.values()) if points else np.zeros(problem.n_features + 1)
    nowhere = np.zeros(len(here))
    for block in order:
        cut, old = problem.cuts([block], here[:-1])[0], points.get(block, nowhere)
        way = np.append(cut.dense(len(here) - 1) / (lam * n), cut.loss / n) - old
        slope, squared = way[-1] - lam * way[:-1] @ here[:-1], lam * way[:-1] @ way[:-1]
        if slope > 0:
            points[block] = old + min(1.0, slope / squared) * way
            here += points[block] - old


def epochs(repeats):
    """One epoch, compiled and in Python."""
    from maxmargin import _core
    from maxmargin.cuts import compiled_blocks
    from maxmargin.problems import ChainProblem, MulticlassProblem

    X, y = datasets.mnist()
    words = datasets.ocr_words()[0]
    end = words.offsets[1000]
    problems = {
        "MNIST, 2,000 samples": (MulticlassProblem(X[:2000], y[:2000], 10), 1e-2),
        "handwriting, 1,000 words": (ChainProblem(words.X[:end], words.y[:end], words.offsets[:1001], 26), 1e-2),
    }
    rows = []
    for name, (problem, lam) in problems.items():
        n, d = problem.n_blocks, problem.n_features
        block_epochs, points, weights = _core.BlockEpochs(compiled_blocks(problem), lam, n), {}, [np.zeros(d)]
        rng = np.random.default_rng(0)

        def compiled(epochs=block_epochs, weights=weights):
            change, _ = epochs.run(weights[0], 1, "fw", 1.0, 0)
            epochs.keep(1.0)
            weights[0] = weights[0] + change

        def in_python(problem=problem, lam=lam, points=points, rng=rng):
            python_epoch(problem, lam, points, rng.permutation(problem.n_blocks).tolist())

        found = in_turns({"compiled": compiled, "python": in_python}, 2 * repeats)
        fast, slow = found["compiled"][1], found["python"][1]
        row = [name, f"{d:,}", ms(fast), ms(slow), f"{slow / fast:.0f}", f"{block_epochs.n_bytes / n / 1e3:.2f}"]
        rows.append([*row, f"{16 * d / 1e3:.1f}"])
        print(rows[-1], flush=True)
    text = (
        "Frank-Wolfe steps of all blocks of one shard, lambda = 0.01, processor times; in Python every block is asked for its "
        "cut, and its point is a vector of all weights, kept twice."
    )
    header = ["shard", "weights", "compiled, ms", "Python, ms", "ratio", "kB a block, compiled", "kB a block, Python"]
    return section("An epoch of block steps on a shard", text, header, rows)


def block_steps():
    """Time to a gap of 1 %: block steps over shards, in one process, and cutting planes over the same shards."""
    from maxmargin.distributed import ShardedMean
    from maxmargin.problems import ChainProblem, MulticlassProblem
    from maxmargin.solvers import BCFW, PartedBCFW

    words = datasets.ocr_words()[0]
    qid = np.repeat(np.arange(len(words.offsets) - 1), np.diff(words.offsets))
    X, y = datasets.news20()
    pixels, digits = (part[:20_000] for part in datasets.mnist())
    chain = ChainProblem(words.X, words.y, words.offsets, 26)
    tasks = [
        ("20 newsgroups", "classes", MulticlassProblem(X, y, int(y.max()) + 1), (X, y, None), (1e-2, 3e-3)),
        ("MNIST, 20,000 samples", "classes", MulticlassProblem(pixels, digits, 10), (pixels, digits, None), (1e-1, 1e-2)),
        ("handwriting", "chains", chain, (words.X, words.y, qid), (1e-1, 3e-2)),
    ]
    rows = []
    for name, kind, problem, (rows_, labels, groups), lams in tasks:
        for lam in lams:
            one = BCFW(tol=1e-2, steps="exact" if kind == "classes" else "fw")
            _, alone, found = measured(lambda one=one, problem=problem, lam=lam: one.solve(problem, lam), 1)
            first = [f"{name}, {problem.n_features:,} weights", f"{lam:g}"]
            rows.append([*first, "`BCFW`, one process", "", f"{found.passes:.0f}", "", f"{alone:.2f}", "1.0", "", ""])
            print(rows[-1], flush=True)
            for n_shards in (2, 4):
                for solver in (PartedBCFW(tol=1e-2, max_passes=2000), OneSlackCuttingPlane(tol=1e-2)):
                    sources = [ShardOf(part, kind) for part in split_rows(rows_, labels, n_shards, groups)]
                    engine = SimulatedCluster(sources)
                    sharded = getattr(ShardedMean, kind)(engine)
                    sharded.mean_cut(np.zeros(sharded.n_features))  # shards are loaded, and have their task
                    begin, rounds, sent = engine.clock(), engine.rounds, engine.bytes_up + engine.bytes_down
                    _, cpu, found = measured(lambda s=solver, p=sharded, lam=lam: s.solve(p, lam), 1)
                    spent = sum(value - begin[part] for part, value in engine.clock().items())
                    rounds, sent = engine.rounds - rounds, engine.bytes_up + engine.bytes_down - sent
                    row = [*first, f"`{type(solver).__name__}`", f"{n_shards}", f"{found.passes:.0f}", f"{rounds}", f"{cpu:.2f}"]
                    row += [f"{cpu / alone:.1f}", f"{spent:.1f}", f"{sent / 1e6:,.0f}"]
                    if not found.converged:
                        raise AssertionError(f"{solver} has not reached the gap")
                    rows.append(row)
                    print(rows[-1], flush=True)
                    engine.close()
    text = (
        "To a gap of 1 %, processor seconds of one process with all shards and the client, and what a cluster would take by the "
        f"clock of a simulation: {1e3 * ROUND_TRIP:.0f} ms a round, {BANDWIDTH / 1e9} GB/s through the client, the slowest shard "
        "of every round. `BCFW` draws blocks by their gaps, `PartedBCFW` in random order; both make the best step of a block of "
        "classes."
    )
    header = [
        "data",
        "lambda",
        "solver",
        "shards",
        "passes",
        "rounds",
        "CPU s",
        "/ one process",
        "simulated cluster, s",
        "MB sent",
    ]
    return section("Block steps over shards", text, header, rows)
