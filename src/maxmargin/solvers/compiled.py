"""Block-coordinate Frank-Wolfe in one compiled loop, for models that come in compiled form.

A model has such a form if it has an attribute ``block_data``; the steps are those of :mod:`maxmargin.solvers.bcfw`, which
works on any model. Between two calls of the loop Python looks for Ctrl-C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxmargin import _core
from maxmargin.solvers.base import Run
from maxmargin.solvers.solution import Solution

if TYPE_CHECKING:
    from maxmargin.solvers.bcfw import BCFW

# Visits per call of the loop: some milliseconds.
_VISITS = 10_000


def iterate(solver: BCFW, run: Run, start: Solution | None, data: _core.BlockData) -> None:
    """Improve ``run`` until it says stop."""
    if solver.steps == "exact" and not isinstance(data, _core.ClassData):
        raise TypeError(f"steps='exact' is for multi-class and binary models, not for {type(run.problem.problem).__name__}")
    earlier = start.state if start is not None and isinstance(start.state, _core.BlockEngine) else None
    lower, upper = run.bounds if run.bounds is not None else (None, None)
    engine = _core.BlockEngine(
        data, run.lam, lower, upper, solver.sampling, solver.steps, solver.cache, int(run.rng.integers(2**63)), earlier
    )
    run.state = engine
    while True:
        _updates(solver, run, engine)
        if solver.stop == "heuristic" and _seems_done(solver, run, engine):
            return
        primal, dual, _ = engine.look()
        run.problem.calls += run.n
        if np.isnan(primal):
            raise ValueError("scores or losses are NaN; check the features")
        _count_failures(run, engine)
        if run.check(engine.weights(), primal, dual):
            return
        if solver.hybrid:
            engine.step_all()


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


def _count_failures(run: Run, engine: _core.BlockEngine) -> None:
    run.problem.worse_than_truth = engine.worse_than_truth
    run.problem.exact &= engine.worse_than_truth == 0
