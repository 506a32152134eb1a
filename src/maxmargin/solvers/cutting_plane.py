"""One-slack cutting planes: the hinge is replaced by the maximum of its cuts, one more each round.

``min 1/2 ||w||^2 + C max_k (loss_k - psi_k . w)`` is solved exactly through its small dual; its value is a lower bound of
the optimum, and the primal objective at any ``w`` an upper bound (Joachims, Finley and Yu 2009; spec B8a).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Problem
from maxmargin.solvers.simplex_qp import SimplexQP
from maxmargin.solvers.solution import History, Solution


@dataclass(frozen=True)
class OneSlackCuttingPlane:
    """Minimise ``1/2 ||w||^2 + C * hinge(w)``.

    Parameters
    ----------
    tol : float
        Stop when ``gap <= tol * primal``.
    max_iter : int
        Most oracle calls.
    time_limit : float, optional
        Seconds after which no further round begins.
    callback : callable, optional
        Called with the :class:`History` after every round; returning True stops the solver.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    callback: Callable[[History], bool | None] | None = None

    # A cut that was not needed for so many rounds is dropped.
    _PATIENCE = 50

    def solve(self, problem: Problem, C: float) -> Solution:
        """Run to the tolerance; Ctrl-C returns the best state so far."""
        start = time.perf_counter()
        d = problem.n_features
        # The trivial cut, hinge >= 0, turns "sum of the dual variables <= C" into an equality.
        cuts = np.zeros((16, d))
        qp = SimplexQP(C)
        qp.add(np.zeros(1), 0.0)
        idle = np.zeros(1, dtype=np.int64)
        weights = np.zeros(d)
        best, best_weights, dual = np.inf, weights, 0.0
        history, status, calls = History(), "max_iter", 0
        try:
            for iteration in range(1, self.max_iter + 1):
                cut = problem.cut(weights)
                calls += 1
                primal = 0.5 * float(weights @ weights) + C * cut.hinge
                if primal < best:
                    best, best_weights = primal, weights
                history.record(iteration, best, dual, time.perf_counter() - start)
                if best - dual <= self.tol * best:
                    status = "converged"
                elif self.time_limit is not None and history.seconds[-1] > self.time_limit:
                    status = "time_limit"
                if (self.callback is not None and self.callback(history)) and status == "max_iter":
                    status = "callback"
                if status != "max_iter":
                    break
                m = len(qp)
                if m == len(cuts):
                    cuts = np.concatenate([cuts, np.zeros_like(cuts)])
                cuts[m] = cut.psi
                qp.add(cuts[: m + 1] @ cut.psi, cut.loss)
                alpha = qp.solve()
                # The dual only grows, up to rounding.
                dual = max(dual, qp.value)
                weights = alpha @ cuts[: m + 1]
                idle = _drop_idle(qp, cuts, np.append(idle, 0), self._PATIENCE)
        except KeyboardInterrupt:
            status = "interrupted"
            if not np.isfinite(best):
                raise
        return Solution(
            weights=best_weights,
            primal=best,
            dual=dual,
            certified=problem.exact,
            converged=status == "converged",
            status=status,
            iterations=len(history),
            oracle_calls=calls,
            seconds=time.perf_counter() - start,
            history=history,
        )


def _drop_idle(qp: SimplexQP, cuts: NDArray[np.float64], idle: NDArray[np.int64], patience: int) -> NDArray[np.int64]:
    """Count for how many rounds each cut was useless, and forget those that were for too many."""
    idle = np.where(qp.solution > 0, 0, idle + 1)
    idle[0] = 0
    if idle.max() <= patience:
        return idle
    kept = np.flatnonzero(idle <= patience)
    cuts[: len(kept)] = cuts[kept]
    qp.keep(kept)
    return idle[kept]
