"""What all solvers share: budgets, stopping, interruption, and the record of a run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, time_limit, warn
from maxmargin.core import (
    Bounds,
    Certificate,
    CheckedProblem,
    Problem,
    SupportsCompiledExpectations,
    SupportsExactSteps,
    SupportsExpectations,
    cancellation_error,
    supports,
    why_not,
)
from maxmargin.core.solvers.solution import Curve, History, InexactOracleWarning, Solution

if TYPE_CHECKING:
    from maxmargin.core.solvers.cutting_plane import KnownCuts

Protocols = type | tuple[type, ...]
EXPECTATIONS = (SupportsExpectations, SupportsCompiledExpectations)

# For protocols that a problem may lack: the problems that implement them, and what else to do.
_REMEDIES: dict[Protocols, str] = {
    SupportsExactSteps: "BinaryProblem, HierarchyProblem, HierarchySetProblem, MulticlassProblem and MultilabelProblem do; for "
    "others use steps='pairwise'",
    EXPECTATIONS: "BinaryProblem, ChainProblem, MulticlassProblem and TreeProblem do; for others use BCFW, or write interior, "
    "tilt, mix, average and diameter",
}


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
    # Whether it can do without hinges that are convex.
    _takes_any: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[Protocols, ...]:
        """Protocols that a problem must support; of a tuple of protocols, one."""
        return ()

    @property
    def certifies(self) -> bool:
        """Whether results are certified, given an oracle that is exact or bounded."""
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
            Result of an earlier run on the same problem (the same object, or one with equal data), perhaps at another lambda; for
            cutting planes also cuts that are known to hold.
        """
        if not 0 < regularization < np.inf:
            raise ValueError(f"regularization={regularization!r} must be a positive number (lambda)")
        for protocol in self.needs:
            if not supports(problem, protocol):
                name = (protocol[0] if isinstance(protocol, tuple) else protocol).__name__
                raise TypeError(
                    f"{type(problem).__name__} does not support what {type(self).__name__} needs ({name}): "
                    f"{why_not(problem, protocol)}. {_REMEDIES[protocol]}"
                )
        if not problem.convex and not self._takes_any:
            raise TypeError(
                f"{type(self).__name__} needs convex hinges, and the surrogate of {type(problem).__name__} is not convex in the "
                "weights; use solver='subgradient', or a convex surrogate, such as ProbLoss(convex=True)"
            )
        if start is not None and not isinstance(start, Solution) and not self._takes_cuts:
            raise TypeError(f"start must be a Solution, since {type(self).__name__} cannot begin with cuts")
        if isinstance(start, Solution) and not start.belongs_to(problem):
            raise ValueError(
                "start belongs to other data: what was learned there proves nothing here; leave it out, or pass a solution of "
                "this very problem"
            )
        run = Run(self, problem, float(regularization), check_bounds(bounds, problem.n_features))
        # An oracle that has passed its audit is trusted from then on.
        run.trusted = isinstance(start, Solution) and start.certified
        try:
            with time_limit(self.time_limit):
                self._iterate(run, start)
        except KeyboardInterrupt:
            if run.best_weights is None:
                raise
            run.status = "interrupted"
        return run.solution()

    @abstractmethod
    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
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
        self.primal, self.dual = np.inf, -np.inf
        self.dual_curve: Curve | None = None
        # The part of the gap that is the solver's to close.
        self.open_gap = np.inf
        # The mean hinge of zero weights, once it is needed.
        self._zero_hinge: float | None = None
        # Whether bounds come from oracles, not from estimates.
        self.proved = True
        self.trusted = False
        self.state: object = None

    @property
    def passes(self) -> float:
        """Oracle calls so far over the number of blocks."""
        return self.problem.calls / self.n

    def project(self, weights: Floats) -> Floats:
        """Nearest weights within the bounds."""
        return weights if self.bounds is None else np.clip(weights, *self.bounds)

    def curve(self, dual: float, weights: Floats) -> Curve | None:
        """The dual objective as a function of lambda, at a dual point that belongs to the weights; not within bounds."""
        ridge = 0.5 * self.lam * float(weights @ weights)
        return None if self.bounds is not None else (dual + ridge, ridge * self.lam)

    def check(
        self,
        weights: Floats,
        primal: float,
        dual: float,
        oracle_gap: float = 0.0,
        curve: Curve | None = None,
        *,
        owned: bool = False,
    ) -> bool:
        """Record a pair of bounds, and how much of their gap is the oracle's; True if the run is over.

        Weights are copied unless they are the run's own, which nobody else will write to.
        """
        if primal < self.primal or self.best_weights is None:
            self.primal, self.best_weights = primal, weights if owned else weights.copy()
        if dual > self.dual:
            self.dual, self.dual_curve = dual, curve
        # Where the oracle misses outputs the best weights may be others than those at which the solver has done what it can.
        self.open_gap = min(self.primal, primal - oracle_gap) - self.dual
        self.history.record(self.passes, self.primal, self._certificate().dual, time.perf_counter() - self.started)
        solver = self.solver
        gap, target = self.primal - self.dual, self.target()
        # Where the oracle's part alone is too large, the solver's is all there is to close.
        if gap <= target or self.open_gap <= target <= gap - self.open_gap:
            self.status = "converged"
        elif self.passes >= solver.max_passes:
            self.status = "max_passes"
        elif self.out_of_time():
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

    def _certificate(self) -> Certificate:
        """What is proved so far. The run itself keeps a dual that exceeds the primal, which later checks are compared with."""
        proved = self.proved and self.problem.exact
        oracle_gap = max(0.0, self.primal - self.dual - max(0.0, self.open_gap))
        relaxed = self.problem.problem.relaxed
        # Rows of the history are the lowest so far: the first one is the largest, or the present one if it is negative.
        noise = cancellation_error(max(map(abs, [self.primal, *self.history.primal[:1]])))
        found = Certificate(float(self.primal), float(self.dual), proved, float(oracle_gap), noise, relaxed)
        if found.crossed and np.isfinite(found.gap):
            # Rare: a warm start may know no larger objective than the last one. One more pass tells how large losses are.
            if self._zero_hinge is None:
                zero = np.zeros(self.problem.n_features)
                self._zero_hinge = self.problem.mean_cut(zero).upper(zero)
            found = replace(found, noise=max(noise, cancellation_error(abs(self._zero_hinge))))
        return found

    def solution(self) -> Solution:
        """The result, with a warning if the oracle was caught."""
        assert self.best_weights is not None
        certificate = self._certificate()
        proved = certificate.proved
        caught, audited = "", proved and not self.trusted
        if self.problem.worse_than_truth:
            caught = f"the oracle returned {self.problem.worse_than_truth} outputs that violate the margin less than the truth"
        elif proved and certificate.crossed:
            caught = "the dual objective exceeds the primal one"
        elif audited and (audit := self.problem.problem.audit(self.best_weights)) is not None and audit.n_wrong:
            caught = f"better outputs than the oracle's are known in {audit.n_wrong} of {audit.n_blocks} blocks"
            certificate = replace(certificate, proved=False)
        if caught:
            message = f"{caught}; the oracle is not exact, so the gap is not a certificate"
            warn(message, InexactOracleWarning)
        return Solution(
            weights=self.best_weights, certificate=certificate, converged=self.status == "converged",
            status=self.status or "converged", passes=self.passes, oracle_calls=self.problem.calls,
            seconds=time.perf_counter() - self.started, history=self.history, regularization=self.lam, state=self.state,
            dual_curve=self.dual_curve, problem=self.problem.problem,
        )  # fmt: skip
