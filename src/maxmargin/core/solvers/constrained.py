"""Cutting planes under hard constraints: samples that must keep their margin (the approximation of AP-SVM, spec B9).

``min lambda/2 ||w||^2 + mean hinge(w)  subject to  row_i . w >= 1 for all i``. Both the cuts of the hinge and the constraints
are added as they are found to be violated. A lower bound comes from the dual of what is known, as for ordinary cutting
planes; the upper bound is the objective at weights that satisfy *all* constraints, which those of the small problem are
made to do by growing or, far out, by moving toward weights that are known to be feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin._utils import Floats, Matrix
from maxmargin.core import Cut
from maxmargin.core.solvers.base import Run, Solver
from maxmargin.core.solvers.cutting_plane import Bundle, KnownCuts, WorkingSet
from maxmargin.core.solvers.solution import Solution


class Margins:
    """The constraints ``signs[i] * (rows[i] . w) >= 1``: an array or CSR matrix of shape (m, d), and m signs +1 or -1."""

    def __init__(self, rows: Matrix, signs: Floats) -> None:
        self.rows = rows
        self.signs = signs
        squares: Matrix = rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows
        self.norms = np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())

    def __len__(self) -> int:
        return len(self.signs)

    def at(self, weights: Floats) -> Floats:
        """All margins, shape (m,)."""
        return np.asarray(self.signs * np.asarray(self.rows @ weights).ravel())

    def violation(self, weights: Floats) -> float:
        """By how much the worst margin is missed, 0 if none is."""
        return float(np.max(1.0 - self.at(weights), initial=0.0))

    def constraint(self, which: int, norm: float) -> Cut:
        """One of them, as ``psi . w >= loss`` with ``||psi|| = norm``: multipliers are free, and like sizes are solved best."""
        row = self.rows[[which]]
        psi = np.asarray(row.toarray() if hasattr(row, "toarray") else row, dtype=np.float64).ravel()
        factor = norm / self.norms[which]
        return Cut(self.signs[which] * factor * psi, factor)


@dataclass(frozen=True, kw_only=True)
class ConstrainedCuttingPlane(Solver):
    """Cuts of the mean hinge, as in :class:`OneSlackCuttingPlane`, and constraints as they are violated.

    Parameters
    ----------
    margins : Margins
        The constraints.
    feasible : array of shape (d,)
        Weights that satisfy all of them; the first ones to be looked at.
    """

    margins: Margins
    feasible: Floats

    # A cut or constraint that was not needed for so many rounds is dropped.
    _PATIENCE = 50
    # Constraints added at a time, and rounds of adding them between two cuts.
    _MOST = 20
    _ROUNDS = 500
    # A margin counts as violated below 1 minus this.
    _SLACK = 1e-9

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        if run.bounds is not None:
            raise ValueError("ConstrainedCuttingPlane knows no bounds; leave them out")
        if not self.margins.violation(self.feasible) <= 1e-6:
            raise ValueError("feasible violates a constraint; give weights with all margins at least 1")
        # Without constraints there is no better place to begin than zero.
        feasible = self._grown(self.feasible) if len(self.margins) else np.zeros(run.problem.n_features)
        known: list[Cut] = []
        if isinstance(start, Solution) and isinstance(start.state, Bundle):
            # Its constraints may have been others.
            feasible, known = self._grown(start.weights), start.state.cuts.known()
        bundle = run.state = Bundle.of(run, KnownCuts(known, feasible))
        norm = float(np.linalg.norm(bundle.point.cut(run).psi)) or 1.0
        while True:
            target = self._feasible_minimiser(run, bundle.cuts, norm)
            if bundle.check(run):
                return
            # What lies between feasible weights is feasible.
            bundle.advance(run, target)

    def _feasible_minimiser(self, run: Run, master: WorkingSet, norm: float) -> Floats:
        """Solve the small problem, adding constraints until none is violated; feasible weights in any case."""
        for _ in range(self._ROUNDS):
            master.settle(self._PATIENCE, run.out_of_time)
            weights = master.weights
            margins = self.margins.at(weights)
            missed = np.where(margins < 1.0 - self._SLACK, (1.0 - margins) / self.margins.norms, 0.0)
            missed[master.constraints] = 0.0
            worst = np.argsort(-missed, kind="stable")[: self._MOST]
            worst = worst[missed[worst] > 0]
            if len(worst) == 0 or run.out_of_time():
                break
            for which in worst:
                master.append(self.margins.constraint(int(which), norm), int(which))
        return self._grown(weights)

    def _grown(self, weights: Floats) -> Floats:
        """Weights that satisfy all constraints, close to the given ones if these almost do."""
        margins = self.margins.at(weights)
        least = float(margins.min(initial=np.inf))
        if least < 0.5:
            # Twice the feasible weights are in the interior, so every constraint is met before they are reached.
            aim = 2.0 * self.feasible
            low = margins < 1.0
            reach = float(np.max((1.0 - margins[low]) / (self.margins.at(aim)[low] - margins[low])))
            weights = (1.0 - reach) * weights + reach * aim
            least = float(self.margins.at(weights).min())
        return weights / least if least < 1.0 else weights
