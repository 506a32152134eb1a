"""Cutting planes: hinges are replaced by the maximum of their cuts, more of them each round (spec 3.3 and 3.4).

The replaced problem is solved exactly; its value is a lower bound of the optimum, and the objective at any weights an
upper bound (Joachims, Finley and Yu 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.corners import Corners, solve_on_corners
from maxmargin.solvers.dual import Dual
from maxmargin.solvers.frank_wolfe import mean_cut
from maxmargin.solvers.simplex_qp import SimplexQP
from maxmargin.solvers.solution import Solution

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneSlackCuttingPlane(Solver):
    """One cut of the mean hinge per pass. Few passes, each over all blocks: the choice for dear solves of few blocks."""

    # A cut that was not needed for so many rounds is dropped.
    _PATIENCE = 50

    def _iterate(self, run: Run, start: Solution | None) -> None:
        if run.bounds is None:
            self._free(run, start)
        else:
            self._bounded(run)

    def _free(self, run: Run, start: Solution | None) -> None:
        # The trivial cut, hinge >= 0, makes the dual variables add up to one.
        master = WorkingSet(run.problem.n_features, run.lam)
        if start is not None and isinstance(start.state, WorkingSet):
            master = start.state.rescaled(run.lam)
        run.state = master
        while True:
            weights = master.weights
            cut, hinge = mean_cut(run, weights)
            if run.check(weights, 0.5 * run.lam * float(weights @ weights) + hinge, master.value):
                return
            master.add(cut, self._PATIENCE)

    def _bounded(self, run: Run) -> None:
        dual = Dual(1, run.problem.n_features, run.lam, run.bounds)
        corners = Corners(run.problem.n_features)
        while True:
            weights = dual.weights
            cut, hinge = mean_cut(run, weights)
            primal = dual.primal(weights, hinge)
            if run.check(weights, primal, dual.value):
                return
            corners.add(cut)
            solve_within_bounds(dual, corners)
            # Usually there is nothing left to do.
            solve_on_corners(dual, [corners], 0.01 * max(run.target(), 1e-12 * abs(primal)), most_rounds=1000)
            corners.restore(dual, 0)
            dual.refresh()


def solve_within_bounds(dual: Dual, corners: Corners, most_rounds: int = 50) -> None:
    """Maximise the dual of one block over its known outputs, guessing which weights are at their bounds.

    With these fixed the problem is a quadratic on the simplex; its solution gives the next guess, and a guess that repeats
    is right. The best point seen is kept, so that a guess that wanders does no harm.
    """
    assert dual.bounds is not None
    lower, upper = dual.bounds
    best, alpha = (-np.inf, corners.alpha.copy()), corners.alpha.copy()
    seen: set[bytes] = set()
    for _ in range(most_rounds):
        corners.alpha[:] = alpha
        corners.restore(dual, 0)
        dual.refresh()
        if dual.value > best[0]:
            best = (dual.value, alpha)
        free = (dual.v > lower) & (dual.v < upper)
        if free.tobytes() in seen:
            break
        seen.add(free.tobytes())
        fixed = dual.weights[~free]
        inside = corners.psi[:, free]
        qp = SimplexQP.of(inside @ inside.T / dual.lam, corners.loss - corners.psi[:, ~free] @ fixed, alpha)
        alpha = qp.solve()
    corners.alpha[:] = best[1]
    corners.restore(dual, 0)
    dual.refresh()


class WorkingSet:
    """The cuts of a mean hinge and the exact minimiser of what they make of the problem.

    Linear constraints on the weights, ``row . w >= least``, may be among them: a constraint is a cut with a multiplier that
    has no upper bound.
    """

    # In place of the name of a constraint.
    _CUT = -1

    def __init__(self, n_features: int, lam: float) -> None:
        self.lam = lam
        self._cuts = np.zeros((16, n_features))
        self._losses = np.zeros(16)
        self._qp = SimplexQP(1.0)
        self._qp.add(np.zeros(1), 0.0)
        self._idle = np.zeros(1, dtype=np.int64)
        self._names = np.full(1, self._CUT, dtype=np.int64)
        self._best = 0.0

    @property
    def weights(self) -> Floats:
        """Minimiser."""
        return np.asarray(self._qp.solution @ self._cuts[: len(self._qp)] / self.lam)

    @property
    def value(self) -> float:
        """Minimum; with more cuts it only grows, up to rounding."""
        self._best = max(self._best, self._qp.value)
        return self._best

    @property
    def constraints(self) -> NDArray[np.int64]:
        """Names of the constraints."""
        return np.asarray(self._names[self._names != self._CUT], dtype=np.int64)

    def add(self, cut: Cut, patience: int) -> None:
        """One more cut; those idle for longer than ``patience`` rounds are dropped."""
        self.append(cut)
        self.settle(patience)

    def append(self, cut: Cut, name: int = _CUT) -> None:
        """One more cut or, if it has a name, the constraint ``psi . w >= loss``; :meth:`settle` takes them into account."""
        m = len(self._qp)
        if m == len(self._cuts):
            self._cuts = np.concatenate([self._cuts, np.zeros_like(self._cuts)])
            self._losses = np.concatenate([self._losses, np.zeros_like(self._losses)])
        self._cuts[m], self._losses[m] = cut.psi, cut.loss
        self._qp.add(self._cuts[: m + 1] @ cut.psi / self.lam, cut.loss, name == self._CUT)
        self._idle, self._names = np.append(self._idle, 0), np.append(self._names, name)

    def settle(self, patience: int) -> None:
        """Solve for all that was appended; what was idle for longer than ``patience`` rounds is dropped."""
        self._qp.solve()
        idle = np.where(self._qp.solution > 0, 0, self._idle + 1)
        idle[0] = 0
        if idle.max() > patience:
            kept = np.flatnonzero(idle <= patience)
            self._cuts[: len(kept)], self._losses[: len(kept)] = self._cuts[kept], self._losses[kept]
            self._qp.keep(kept)
            idle, self._names = idle[kept], self._names[kept]
        self._idle = idle

    def rescaled(self, lam: float) -> WorkingSet:
        """The same cuts at another regularization."""
        other = WorkingSet(self._cuts.shape[1], lam)
        for k in range(1, len(self._qp)):
            other.append(Cut(self._cuts[k], float(self._losses[k])), int(self._names[k]))
        other.settle(len(self._qp))
        return other


@dataclass(frozen=True, kw_only=True)
class NSlackCuttingPlane(Solver):
    """Every block has cuts of its own; after each sweep the problem over all known cuts is solved anew."""

    def _iterate(self, run: Run, start: Solution | None) -> None:
        dual = Dual(run.n, run.problem.n_features, run.lam, run.bounds)
        corners = [Corners(run.problem.n_features) for _ in range(run.n)]
        while True:
            weights = dual.weights
            hinge = 0.0
            for first in range(0, run.n, 1024):
                blocks = range(first, min(run.n, first + 1024))
                for block, cut in zip(blocks, run.problem.cuts(blocks, weights), strict=True):
                    hinge += cut.hinge(weights)
                    corners[block].add(cut)
            primal = dual.primal(weights, hinge / run.n)
            if run.check(weights, primal, dual.value):
                return
            solve_on_corners(dual, corners, 0.05 * max(run.target(), 1e-12 * abs(primal)))
            for block, known in enumerate(corners):
                known.restore(dual, block)
            dual.refresh()
