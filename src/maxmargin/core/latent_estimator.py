"""What estimators with hidden parts share: rounds of imputation and convex problems."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core.cccp import Descent, concave_convex
from maxmargin.core.estimator import Estimator
from maxmargin.core.latent_problem import LatentProblem
from maxmargin.core.problem import Problem
from maxmargin.core.solvers import KnownCuts, Solution, Solver


@dataclass(eq=False, repr=False, kw_only=True)
class LatentEstimator(Estimator):
    """Base of estimators whose objective is not convex: rounds of imputation and convex problems, from several starts.

    Parameters
    ----------
    n_starts : int, default=1
        Runs from different first guesses; the lowest objective wins.
    max_rounds : int
        Most rounds of imputation; they end when the objective falls by less than ``tol`` of itself.
    bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, of the convex problems; ``time_limit`` is for all of them. With a Solver object,
        ``tol`` is that of the rounds, ``time_limit`` that of all of them and ``random_state`` that of the starts.

    Attributes
    ----------
    objective_ : float
        The objective that is not convex, at ``coef_``.
    objectives_ : list of float
        After every round of the best start; one that did not fall is not kept.
    start_objectives_ : list of float
        At the end of every start.
    n_rounds_ : int
        Rounds of the best start.
    histories_ : list of History
        Of their convex problems.
    primal_objective_, dual_objective_, dual_gap_, oracle_gap_, certified_, n_iter_, history_
        The certificate of the convex problem that gave ``coef_``: never that of ``objective_``.
    """

    n_starts: int = 1
    max_rounds: int = 50

    of_blocks = True
    # The solver of the convex problems, if users have no choice.
    _METHOD: ClassVar[Solver | None] = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_count("n_starts", "max_rounds")

    def _budgets_of_loops(self) -> Set[str]:
        return {"tol", "time_limit", "random_state"}

    @abstractmethod
    def _first_weights(self, problem: Any, start: int, rng: np.random.Generator) -> Floats | None:
        """Weights for whose best hidden parts a start begins; None for a random one."""

    def _train(self, problem: Any) -> Floats:
        factor = self.C * problem.n_blocks

        def solve(convex: LatentProblem, known: KnownCuts, seconds: float | None) -> Solution:
            # Solvers that cannot begin with cuts do where there are none.
            return self._solve(convex, self._limited(convex, seconds), known if known.cuts else None)

        def tell(start: int, run: Descent) -> None:
            line.show(f"start {start + 1}, round {len(run.objectives)}, objective {run.objective:.6g}")

        with self._status_line() as line:
            best, self.start_objectives_ = concave_convex(
                problem, factor, solve, lambda start, rng: self._first_weights(problem, start, rng), n_starts=self.n_starts,
                max_rounds=self.max_rounds, tol=self.tol, time_limit=self.time_limit, seed=self.random_state, tell=tell,
            )  # fmt: skip
        if not best.settled:
            rounds = len(best.objectives)
            self._warn(f"stopped after {rounds} rounds while the objective was still falling; raise max_rounds or time_limit")
        assert best.solution is not None
        self._certify(best.solution, factor)
        self.objective_, self.objectives_, self.histories_ = best.objective, best.objectives, best.histories
        self.n_rounds_ = len(best.objectives)
        return best.solution.weights

    def _limited(self, problem: Problem, seconds: float | None) -> Solver:
        """The solver of the convex problems, within what is left of the time."""
        solver = self._solver(problem, self._METHOD)
        limits = [limit for limit in (seconds, solver.time_limit) if limit is not None]
        return dataclasses.replace(solver, time_limit=min(limits, default=None))
