"""The compiled block engine as solvers use it: made for a run, warm-started, asked for gaps, and stopped in time.

Every block-coordinate method is a few lines around it. Problems with a compiled form are solved without Python in between;
of all others the engine asks the cuts, one block at a time or, where an algorithm allows it, a thousand.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np

from maxmargin import _core
from maxmargin._utils import check_memory
from maxmargin.core import compiled_blocks
from maxmargin.core.solvers.base import Run
from maxmargin.core.solvers.solution import Solution

if TYPE_CHECKING:
    from maxmargin.core.solvers.cutting_plane import KnownCuts

# How long the loop runs between two looks at the clock and at Ctrl-C, in seconds.
_SLICE = 0.05


class BlockState(NamedTuple):
    """What a warm start of the same kind goes on from."""

    kind: str
    engine: _core.BlockEngine


class _CountsQueries(Protocol):
    """A problem that counts what its decoder was asked."""

    queries: int


class EngineRun:
    """An engine at the lambda and bounds of a run, with the dual point of an earlier one if there is one.

    Of a start, its weights are kept at a smaller lambda, elsewhere its distributions. States of different kinds do not fit each
    other: points made of "outputs", points in the "interior", one block for the "whole". ``data`` replaces what the problem
    offers.
    """

    def __init__(
        self,
        run: Run,
        settings: _core.BlockSettings,
        start: Solution | KnownCuts | None,
        *,
        kind: str = "outputs",
        data: _core.BlockData | None = None,
    ) -> None:
        problem = run.problem.problem
        data = compiled_blocks(problem) if data is None else data
        check_memory(data.n_bytes(kind == "interior"), f"the dual variables of {run.n:,} blocks")
        lower, upper = run.bounds if run.bounds is not None else (None, None)
        state = start.state if isinstance(start, Solution) else None
        earlier = state.engine if isinstance(state, BlockState) and state.kind == kind else None
        self.engine = _core.BlockEngine(
            data, run.lam, lower, upper, settings, earlier, earlier is not None and run.lam < earlier.lam
        )
        self._run = run
        self._visits, self._queries = 64, self.engine.queries
        run.state = BlockState(kind, self.engine)

    def gap_pass(self, calls: int | None = None) -> bool:
        """An exact gap, by one call of every oracle; True if the run is over."""
        primal, dual, _, oracle_gap = self.engine.gap_pass()
        self._count()
        self._run.problem.calls += self._run.n if calls is None else calls
        if np.isnan(primal):
            raise ValueError("scores or losses are NaN; check the features")
        self._run.problem.worse_than_truth = self.engine.worse_than_truth
        self._run.problem.exact &= self.engine.worse_than_truth == 0
        run = self._run
        if run.best_weights is None or primal >= run.primal:
            weights = self.engine.weights()
            return run.check(weights, primal, dual, oracle_gap, run.curve(dual, weights), owned=True)
        # There may be many weights. Written over the best so far, they are better than what is said of them until the check.
        self.engine.write_weights(run.best_weights)
        return run.check(run.best_weights, primal, dual, oracle_gap, run.curve(dual, run.best_weights), owned=True)

    def visit(
        self, most_visits: int, most_calls: float, quiet_calls: int = 2**62, absolute: float = 0.0, relative: float = 0.0
    ) -> None:
        """Block steps until a limit or, after ``quiet_calls`` oracle calls, until the known gaps reach a goal."""
        run, calls_left, visits_left = self._run, most_calls, most_visits
        while calls_left > 0 and visits_left > 0 and not run.out_of_time():
            began = time.perf_counter()
            visits, calls, idle, reached = self.engine.run(
                min(visits_left, self._visits), int(calls_left), max(0, quiet_calls), absolute, relative
            )
            run.problem.calls += calls
            calls_left -= calls
            visits_left -= visits
            quiet_calls -= calls
            if idle or reached:
                return
            self._adapt(time.perf_counter() - began)

    def _count(self) -> None:
        """Tell a problem with compiled searches what was asked of its decoder; others count by themselves."""
        asked, self._queries = self.engine.queries - self._queries, self.engine.queries
        if asked:
            cast(_CountsQueries, self._run.problem.problem).queries += asked

    def settle(self, goal: float) -> None:
        """Steps between remembered outputs alone until their gaps are small, or time is up."""
        while not self._run.out_of_time():
            began = time.perf_counter()
            if self.engine.settle(goal, self._visits):
                return
            self._adapt(time.perf_counter() - began)

    def _adapt(self, seconds: float) -> None:
        """Slices of equal time, whatever an oracle costs."""
        factor = min(4.0, max(0.25, _SLICE / max(seconds, 1e-6)))
        self._visits = int(min(2.0**40, 1 + self._visits * factor))


def seed_of(run: Run) -> int:
    """The engine's own seed."""
    return int(run.rng.integers(2**63))
