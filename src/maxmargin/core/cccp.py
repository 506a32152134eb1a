"""The concave-convex procedure: impute the hidden parts, solve the convex problem that remains, impute again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core.latent_problem import LatentProblem
from maxmargin.core.solvers import History, KnownCuts, Solution

# Where the objective changes from round to round it need not settle.
_MOST_ROUNDS_WITHOUT_DESCENT = 20

Solve = Callable[[LatentProblem, KnownCuts, float | None], Solution]
First = Callable[[int, np.random.Generator], Floats | None]


@dataclass
class Descent:
    """Rounds from one start; only those that were kept, which is all but a last one that got worse."""

    # Of the convex problem that gave the weights.
    solution: Solution | None = None
    # ``1/2 ||w||^2 + factor * hinge`` at the weights of every round, imputed anew: the objective that is not convex.
    objectives: list[float] = field(default_factory=list)
    # Of the convex problems.
    histories: list[History] = field(default_factory=list)
    # Whether there was nothing more to gain.
    settled: bool = False

    @property
    def objective(self) -> float:
        """That of the weights."""
        return self.objectives[-1] if self.objectives else np.inf


def concave_convex(
    problem: LatentProblem,
    factor: float,
    solve: Solve,
    first: First,
    *,
    n_starts: int = 1,
    max_rounds: int = 50,
    tol: float = 1e-3,
    time_limit: float | None = None,
    seed: int | None = None,
    tell: Callable[[int, Descent], None] | None = None,
) -> tuple[Descent, list[float]]:
    """Descend on ``1/2 ||w||^2 + factor * hinge(w)`` from several starts.

    Parameters
    ----------
    problem : LatentProblem
        Left as the weights that are returned impute it.
    factor : float
        Weight of the mean hinge.
    solve : callable
        Solves the convex problem as imputed, from cuts that are known, within some seconds; an interruption ends all rounds.
    first : callable
        Gives the weights for which a start, numbered from 0, imputes; None for one that is random.
    n_starts, max_rounds : int
        Starts, and most rounds of each.
    tol : float
        Rounds end when the objective falls by less than this part of it.
    time_limit : float, optional
        Seconds for all of it.
    seed : int, optional
        Of the random starts.
    tell : callable, optional
        Called with the number of the start and its rounds so far, after every one.

    Returns
    -------
    best : Descent
        The start with the lowest objective.
    objectives : list of float
        Those at the end of every start.
    """
    rng, began = np.random.default_rng(seed), time.perf_counter()
    runs: list[Descent] = []
    over = False
    try:
        for number in range(n_starts):
            problem.start(rng)
            weights = first(number, rng)
            if weights is not None:
                problem.impute(weights)
            run = Descent()
            runs.append(run)
            for _ in range(max_rounds if problem.descends else min(max_rounds, _MOST_ROUNDS_WITHOUT_DESCENT)):
                left = None if time_limit is None else max(1e-9, time_limit - (time.perf_counter() - began))
                status = _round(problem, factor, solve, run, tol, left)
                if tell is not None:
                    tell(number, run)
                late = time_limit is not None and time.perf_counter() - began >= time_limit
                over = late or status in ("interrupted", "callback")
                if over or run.settled:
                    break
            else:
                # The limit is then part of the method.
                run.settled = not problem.descends and max_rounds >= _MOST_ROUNDS_WITHOUT_DESCENT
            if over:
                break
    except KeyboardInterrupt:
        if not any(run.objectives for run in runs):
            raise
    best = min(runs, key=lambda run: run.objective)
    assert best.solution is not None
    problem.impute(best.solution.weights)
    return best, [run.objective for run in runs if run.objectives]


def _round(problem: LatentProblem, factor: float, solve: Solve, run: Descent, tol: float, seconds: float | None) -> str:
    """Solve and impute; a round that got worse is not kept, and is the last one. Why the solver stopped."""
    solution = solve(problem, KnownCuts(problem.known_cuts()), seconds)
    weights = solution.weights
    changed = problem.impute(weights)
    # At the hidden parts imputed anew, the hinge is the one that is not convex.
    objective = 0.5 * float(weights @ weights) + factor * problem.hinge(weights)
    fall = run.objective - objective
    if problem.descends and not fall > 0:
        run.settled = True
        return solution.status
    run.solution = solution
    run.objectives.append(objective)
    run.histories.append(solution.history.scaled(factor))
    changed |= problem.revise(weights)
    run.settled = not changed or (problem.descends and fall <= tol * abs(objective))
    return solution.status
