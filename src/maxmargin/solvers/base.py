"""What all solvers share: budgets, stopping, interruption, and the record of a run."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.cuts import CheckedProblem, Problem
from maxmargin.solvers.solution import Curve, History, InexactOracleWarning, Solution

if TYPE_CHECKING:
    from maxmargin.solvers.cutting_plane import KnownCuts

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """Minimise ``lambda/2 ||w||^2 + mean over the blocks of hinge(w)``, perhaps within bounds on the weights.

    Parameters
    ----------
    tol : float
        Stop when ``gap <= tol * primal``.
    epsilon : float, optional
        Stop when ``gap <= epsilon`` instead; absolute, in the lambda form.
    max_passes : float
        Most oracle calls, in units of the number of blocks.
    time_limit : float, optional
        Seconds after which the solver stops at its next check.
    callback : callable, optional
        Called with the :class:`History` after every check; returning True stops the solver.
    random_state : int
        Seed of everything random.
    """

    tol: float = 1e-3
    epsilon: float | None = None
    max_passes: float = 1000
    time_limit: float | None = None
    callback: Callable[[History], bool | None] | None = None
    random_state: int = 0

    # Whether a run may begin with known cuts.
    _takes_cuts: ClassVar[bool] = False

    @property
    def certifies(self) -> bool:
        """Whether it stops on proved bounds, not on estimates."""
        return True

    def solve(
        self,
        problem: Problem,
        regularization: float,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        start: Solution | KnownCuts | None = None,
    ) -> Solution:
        """Run to the tolerance or to the end of a budget; Ctrl-C returns the best certified state so far.

        Parameters
        ----------
        problem : Problem
            What to minimise.
        regularization : float
            Lambda, positive. ``C`` of the form ``1/2 ||w||^2 + C * sum of hinges`` is ``1 / (lambda * n_blocks)``.
        bounds : pair of arrays or numbers, optional
            ``lower <= w <= upper``, elementwise; infinite entries are free.
        start : Solution or KnownCuts, optional
            Result of an earlier run of the same solver on the same problem, perhaps at another lambda; for cutting planes also
            cuts that are known to hold.
        """
        if not 0 < regularization < np.inf:
            raise ValueError(f"regularization={regularization!r} must be a positive number (lambda)")
        if start is not None and not isinstance(start, Solution) and not self._takes_cuts:
            raise TypeError(f"start must be a Solution, since {type(self).__name__} cannot begin with cuts")
        if isinstance(start, Solution) and start.state is not None and len(start.weights) != problem.n_features:
            raise ValueError(f"start has {len(start.weights)} weights, but the problem has {problem.n_features} features")
        run = Run(self, problem, float(regularization), check_bounds(bounds, problem.n_features))
        try:
            self._iterate(run, start)
        except KeyboardInterrupt:
            if run.best_weights is None:
                raise
            run.status = "interrupted"
        return run.solution()

    @abstractmethod
    def _iterate(self, run: Run, start: Any) -> None:
        """Improve ``run`` until it says stop."""


def check_bounds(bounds: tuple[ArrayLike, ArrayLike] | None, n_features: int) -> Bounds | None:
    """Lower and upper bounds as arrays of shape (d,)."""
    if bounds is None:
        return None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError("bounds must be a pair (lower, upper)")
    try:
        lower, upper = (np.broadcast_to(np.asarray(bound, dtype=np.float64), (n_features,)).copy() for bound in bounds)
    except ValueError:
        raise ValueError(f"bounds must be numbers or arrays of shape ({n_features},)") from None
    if np.isnan(lower).any() or np.isnan(upper).any():
        raise ValueError("bounds must not contain NaN; use infinities for free weights")
    if (lower > upper).any():
        k = int(np.flatnonzero(lower > upper)[0])
        raise ValueError(f"bounds are contradictory: lower[{k}]={lower[k]:g} is greater than upper[{k}]={upper[k]:g}")
    return lower, upper


class Run:
    """One call of ``solve``: the problem with its counters, the best state so far, and the stop rules."""

    def __init__(self, solver: Solver, problem: Problem, regularization: float, bounds: Bounds | None) -> None:
        self.solver = solver
        self.problem = CheckedProblem(problem)
        self.n = problem.n_blocks
        self.lam = regularization
        self.bounds = bounds
        self.rng = np.random.default_rng(solver.random_state)
        self.started = time.perf_counter()
        self.history = History()
        self.status = ""
        self.best_weights: Floats | None = None
        self.primal, self.dual, self.oracle_gap = np.inf, -np.inf, 0.0
        self.dual_curve: Curve | None = None
        self.certified = True
        self.state: Any = None

    @property
    def passes(self) -> float:
        """Oracle calls so far over the number of blocks."""
        return self.problem.calls / self.n

    def project(self, weights: Floats) -> Floats:
        """Nearest weights within the bounds."""
        return weights if self.bounds is None else np.clip(weights, *self.bounds)

    def check(self, weights: Floats, primal: float, dual: float, oracle_gap: float = 0.0, curve: Curve | None = None) -> bool:
        """Record a certified pair of bounds, perhaps with what the dual point says of every lambda; True if the run is over."""
        if primal < self.primal or self.best_weights is None:
            self.primal, self.best_weights, self.oracle_gap = primal, weights.copy(), oracle_gap
        if dual > self.dual:
            self.dual, self.dual_curve = dual, curve
        return self._over(self.primal, self.dual)

    def curve(self, dual: float, weights: Floats) -> Curve | None:
        """The dual objective as a function of lambda, at the dual point of these weights; nothing is said with bounds."""
        ridge = 0.5 * self.lam * float(weights @ weights)
        return None if self.bounds is not None else (dual + ridge, ridge * self.lam)

    def report(self, primal: float, dual: float) -> bool:
        """Record an uncertified pair; True if a budget is used up."""
        return self._over(primal, dual)

    def _over(self, primal: float, dual: float) -> bool:
        self.history.record(self.passes, primal, dual, time.perf_counter() - self.started)
        solver = self.solver
        target = solver.epsilon if solver.epsilon is not None else solver.tol * abs(self.primal)
        if self.best_weights is not None and self.primal - self.dual <= target:
            self.status = "converged"
        elif self.best_weights is not None and self.primal - self.dual - target <= self.oracle_gap >= target:
            # The rest is not to be had.
            self.status = "oracle"
        elif self.passes >= solver.max_passes:
            self.status = "max_passes"
        elif solver.time_limit is not None and self.history.seconds[-1] >= solver.time_limit:
            self.status = "time_limit"
        if solver.callback is not None and solver.callback(self.history) and not self.status:
            self.status = "callback"
        return bool(self.status)

    def out_of_time(self) -> bool:
        """Whether the time limit has passed; the next check then ends the run."""
        limit = self.solver.time_limit
        return limit is not None and time.perf_counter() - self.started >= limit

    def target(self) -> float:
        """The gap to reach."""
        if self.solver.epsilon is not None:
            return self.solver.epsilon
        return self.solver.tol * abs(self.primal) if np.isfinite(self.primal) else 0.0

    def solution(self) -> Solution:
        """The result, with a warning if the oracle was caught."""
        assert self.best_weights is not None
        if self.problem.worse_than_truth:
            warnings.warn(
                f"the oracle returned {self.problem.worse_than_truth} outputs that violate the margin less than the truth; "
                "it is not exact, so the gap is not a certificate",
                InexactOracleWarning,
                stacklevel=3,
            )
        # A lower bound above an upper one, beyond the rounding of losses that nearly cancel: some maximum was missed.
        rounding = 1e-11 * max(1.0, *map(abs, self.history.primal))
        crossed = self.dual - self.primal > max(self.target(), 1e-7 * abs(self.primal)) + rounding
        if crossed and self.certified and self.problem.exact:
            warnings.warn(
                "the dual objective exceeds the primal one: the oracle is not exact, so the gap is not a certificate",
                InexactOracleWarning,
                stacklevel=3,
            )
        return Solution(
            weights=self.best_weights,
            primal=float(self.primal),
            dual=float(self.dual),
            certified=self.certified and self.problem.exact and not crossed,
            converged=self.status == "converged",
            status=self.status or "converged",
            passes=self.passes,
            oracle_calls=self.problem.calls,
            seconds=time.perf_counter() - self.started,
            history=self.history,
            regularization=self.lam,
            state=self.state,
            oracle_gap=float(self.oracle_gap),
            dual_curve=self.dual_curve,
        )
