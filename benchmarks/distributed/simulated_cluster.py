"""What more machines would take: shards of one process with the clock of a cluster.

A part of the tables of ``benchmarks.distributed.distributed``.
"""

from __future__ import annotations

import time

import numpy as np
from benchmarks.distributed.shards import one_slack, rows_of, section

from maxmargin.distributed import LocalEngine, ShardOf, split_rows
from maxmargin.ranking.shards import ShardedRanking

# Of a message from one machine to another and back, and bytes a second: what the cost model assumes.
ROUND_TRIP, BANDWIDTH = 0.010, 1.25e9


class SimulatedCluster(LocalEngine):
    """Shards of this process with the clock of a cluster: every round lasts as long as its slowest shard, and messages take time.

    All messages go through the client, which has one connection of so many bytes a second.
    """

    def __init__(self, sources):
        super().__init__(sources)
        self.latency = self.wire = self.work = 0.0
        self.client = -time.process_time()
        self._slowest = 0.0

    def call(self, operation, args=(), only=None):
        """As everywhere."""
        before, self._slowest, begin = self.bytes_up + self.bytes_down, 0.0, time.process_time()
        replies = super().call(operation, args, only)
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
            rows.append([*row, f"{total:.2f}", f"{model:.2f}"])
            print(rows[-1], flush=True)
            engine.close()
    text = (
        f"`LocalEngine` with a simulated clock: every round costs a round trip of {1e3 * ROUND_TRIP:.0f} ms, its bytes at "
        f"{BANDWIDTH / 1e9} GB/s through the one client, and the processor time of its slowest shard, measured here one after "
        "the other. Training to a gap of 1e-3, AP, lambda = 1e-3. The model is that of the guide: per look 4 round trips, "
        "40 ns a row and core, 1 MB to and from every worker; products at 20 GB/s."
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
    header += ["together, s", "model, s"]
    return section("A hundred workers, simulated", text, header, rows)
