"""Block-coordinate solvers in one compiled loop, for models that come in compiled form.

A model has such a form if it has an attribute ``block_data``; the steps are those of :mod:`maxmargin.solvers.bcfw` and
:mod:`maxmargin.solvers.partial_linearization`, which work on any model. Between two calls of the loop Python looks for Ctrl-C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin import _core
from maxmargin._validation import check_memory
from maxmargin.solvers.base import Run
from maxmargin.solvers.solution import Solution

if TYPE_CHECKING:
    from maxmargin.solvers.bcfw import BCFW

# Visits per call of the loop: some milliseconds.
_VISITS = 10_000


def block_data(run: Run) -> _core.BlockData | None:
    """The model in compiled form, if it has one."""
    return run.problem.problem.block_data


class SoftState:
    """An engine whose blocks are in the interior: what partial linearization can go on from."""

    def __init__(self, engine: _core.BlockEngine) -> None:
        self.engine = engine


def make_engine(run: Run, data: _core.BlockData, settings: Any, earlier: Any, *, interior: bool = False) -> _core.BlockEngine:
    """An engine at the run's lambda and bounds, with the dual point of an earlier one on the same data.

    At a smaller lambda the weights are kept, elsewhere the distributions.
    """
    check_memory(data.n_bytes(interior), f"the dual variables of {run.n:,} blocks")
    lower, upper = run.bounds if run.bounds is not None else (None, None)
    start = earlier if isinstance(earlier, _core.BlockEngine) else None
    transport = start is not None and run.lam < start.lam
    return _core.BlockEngine(data, run.lam, lower, upper, settings, start, transport)


def iterate_frank_wolfe(solver: BCFW, run: Run, start: Solution | None, data: _core.BlockData) -> None:
    """Improve ``run`` by BCFW until it says stop."""
    if solver.steps == "exact" and not isinstance(data, _core.ClassData):
        raise TypeError(f"steps='exact' is for multi-class and binary models, not for {type(run.problem.problem).__name__}")
    settings = _core.BlockSettings.frank_wolfe(solver.sampling, solver.steps, solver.cache, _seed(run))
    engine = make_engine(run, data, settings, start.state if start is not None else None)
    run.state = engine
    while True:
        _updates(solver, run, engine)
        if solver.stop == "heuristic" and _seems_done(solver, run, engine):
            return
        if _look(run, engine):
            return
        if solver.hybrid:
            engine.step_all()


def iterate_partial_linearization(
    run: Run,
    start: Solution | None,
    data: _core.BlockData,
    *,
    diameter: float,
    temperature: float,
    rule: str,
    block: bool,
    passes: int,
) -> None:
    """Improve ``run`` by partial linearization or exponentiated gradients, with exact checks every so many passes."""
    # Close to the truth, so that the weights are almost zero, but in the interior: a zero would stay zero.
    mass = min(1e-3, 0.01 * run.lam / max(diameter**2, 1e-300))
    settings = _core.BlockSettings.partial_linearization(temperature, rule, mass, _seed(run))
    earlier = start.state.engine if start is not None and isinstance(start.state, SoftState) else None
    engine = make_engine(run, data, settings, earlier, interior=True)
    run.state = SoftState(engine)
    while not _look(run, engine):
        for _ in range(passes):
            if not block:
                run.problem.calls += engine.step_all()
                continue
            visits_left = run.n
            while visits_left > 0 and not run.out_of_time():
                visits, calls, _, _ = engine.run(min(visits_left, _VISITS), 2**62, 2**62, 0.0, 0.0)
                run.problem.calls += calls
                visits_left -= visits


def _seed(run: Run) -> int:
    return int(run.rng.integers(2**63))


def _look(run: Run, engine: _core.BlockEngine) -> bool:
    """An exact gap, by one call of every oracle; True if the run is over."""
    primal, dual, _ = engine.look()
    run.problem.calls += run.n
    if np.isnan(primal):
        raise ValueError("scores or losses are NaN; check the features")
    run.problem.worse_than_truth = engine.worse_than_truth
    run.problem.exact &= engine.worse_than_truth == 0
    weights = engine.weights()
    return run.check(weights, primal, dual, curve=run.curve(dual, weights))


def _updates(solver: BCFW, run: Run, engine: _core.BlockEngine) -> None:
    """Block updates until an exact check is due."""
    calls_left = int(np.ceil(min(solver.check_every, max(0.0, solver.max_passes - run.passes)) * run.n))
    visits_left = solver.most_updates(run.n)
    # At least one pass, so that estimates that are too low do not cost a check each time.
    quiet = run.n if solver.stop == "exact" else 0
    # Estimates that were made before other blocks moved are often too low.
    caution = 0.8 if solver.stop == "exact" else 1.0
    absolute = -1.0 if solver.epsilon is None else caution * solver.epsilon
    while calls_left > 0 and visits_left > 0:
        visits, calls, idle, reached = engine.run(min(visits_left, _VISITS), calls_left, quiet, absolute, caution * solver.tol)
        run.problem.calls += calls
        calls_left -= calls
        visits_left -= visits
        quiet = max(0, quiet - calls)
        if idle or reached or run.out_of_time():
            return


def _seems_done(solver: BCFW, run: Run, engine: _core.BlockEngine) -> bool:
    if not engine.all_seen:
        return False
    total = engine.known_gap
    target = solver.epsilon if solver.epsilon is not None else solver.tol * abs(engine.dual + total)
    if total > target:
        return False
    run.certified = False
    run.best_weights, run.primal, run.dual = engine.weights(), engine.dual + total, engine.dual
    return run.report(run.primal, run.dual)
