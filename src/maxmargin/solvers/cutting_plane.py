"""Cutting planes: hinges are replaced by the maximum of their cuts, more of them each round (spec 3.3 and 3.4).

The replaced problem is solved exactly; its value is a lower bound of the optimum, and the objective at any weights an
upper bound (Joachims, Finley and Yu 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut, Tangent
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.corners import Corners, solve_on_corners
from maxmargin.solvers.dual import Dual
from maxmargin.solvers.simplex_qp import SimplexQP
from maxmargin.solvers.solution import Solution

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class OneSlackCuttingPlane(Solver):
    """Cuts of the mean hinge: few passes, each over all blocks. The choice for dear solves of few blocks.

    The minimiser of what the cuts make of the problem is far from the best weights known while cuts are few. So the
    objective is searched along the line between the two, and the cuts are made where that search ends: close to the best
    weights, where they matter (Franc and Sonnenburg 2009). Where hinges are functions of few scores, the search needs no look
    at the features.
    """

    # A cut that was not needed for so many rounds is dropped.
    _PATIENCE = 50

    def _iterate(self, run: Run, start: Solution | None) -> None:
        master = self._master(run, start)
        run.state = master
        weights = master.weights
        best = Point.at(run, weights, run.problem.scores(weights), 0.0)
        master.append(best.cut(run))
        master.settle(self._PATIENCE)
        reach = 1.0
        while True:
            best, reach = advance(run, master, best, master.weights, reach)
            master.settle(self._PATIENCE)
            # Not before the first search: weights of zero may be optimal to the tolerance, but rank nothing.
            if run.check(best.weights, best.primal, master.value):
                return

    def _master(self, run: Run, start: Solution | None) -> WorkingSet | BoundedWorkingSet:
        kind = WorkingSet if run.bounds is None else BoundedWorkingSet
        if start is not None and isinstance(start.state, kind):
            return start.state.rescaled(run)
        master = kind.of(run)
        for cut in run.known_cuts:
            master.append(cut)
        if run.known_cuts:
            master.settle(self._PATIENCE)
        return master


@dataclass(frozen=True, eq=False)
class Point:
    """Weights with their scores, the tangent of the mean hinge there, the objective, and the place on the line searched."""

    weights: Floats
    scores: Floats
    tangent: Tangent
    primal: float
    place: float

    @classmethod
    def at(cls, run: Run, weights: Floats, scores: Floats, place: float) -> Point:
        """By one pass."""
        tangent = run.problem.tangent(scores)
        return cls(weights, scores, tangent, 0.5 * run.lam * float(weights @ weights) + tangent.hinge, place)

    def cut(self, run: Run) -> Cut:
        """The tangent as a cut."""
        return Cut(run.problem.features(-self.tangent.gradient), self.tangent.loss)


class _Line:
    """The objective between the best weights, at 0, and a target, at 1."""

    # A slope so much smaller than the first one is as good as none; so many looks at most.
    _FLAT = 0.1
    _LOOKS = 5

    def __init__(self, run: Run, origin: Point, target: Floats) -> None:
        self.run = run
        self.origin = origin
        self.direction = target - origin.weights
        self.change = run.problem.scores(target) - origin.scores
    def _look(self, place: float) -> Point:
        origin = self.origin
        return Point.at(self.run, origin.weights + place * self.direction, origin.scores + place * self.change, place)

    def _slope(self, point: Point) -> float:
        ridge = self.run.lam * float(point.weights @ self.direction)
        return ridge + float(point.tangent.gradient.ravel() @ self.change.ravel())

    def search(self, first: float) -> tuple[Point, Point | None]:
        """The last point seen where the objective still falls, and the first where it does not (None if there is none)."""
        low = self.origin
        high: Point | None = None
        fall = at_low = self._slope(low)
        if fall >= 0:
            # Rounding says that the objective rises at once; the target's own cut is the way on.
            point = self._look(1.0)
            return (low, point) if point.primal >= low.primal else (point, None)
        at_high = np.inf
        place = min(1.0, first)
        for _ in range(self._LOOKS):
            point = self._look(place)
            slope = self._slope(point)
            if slope > 0:
                high, at_high = point, slope
            else:
                low, at_low = point, slope
            if abs(slope) <= self._FLAT * abs(fall) or (high is None and place == 1.0):
                break
            if self.run.passes >= self.run.solver.max_passes:
                break
            if high is None:
                place = min(1.0, 3 * place)
            else:
                # False position, but not too close to either end.
                begin = 0.0 if low is self.origin else low.place
                place = begin + (high.place - begin) * float(np.clip(at_low / (at_low - at_high), 0.1, 0.9))
        return low, high


def advance(
    run: Run, master: WorkingSet | BoundedWorkingSet, best: Point, target: Floats, reach: float
) -> tuple[Point, float]:
    """Search the line from the best weights to a target, and append the cuts where the search ends.

    Returns the best weights now, and where the next search should begin: a little beyond the place where this one ended.
    """
    low, high = _Line(run, best, target).search(reach)
    for point in (low, high):
        if point is not None and point is not best:
            master.append(point.cut(run))
    # Weights of zero rank nothing: where features are so small that rounding hides what they gain, leave them all the same.
    rounding = 0.0 if best.weights.any() else 4 * np.finfo(np.float64).eps * abs(low.primal)
    found = low if high is None or low.primal <= high.primal - rounding else high
    return found, 0.3 * reach if found is best else 1.2 * found.place


class BoundedWorkingSet:
    """The same as :class:`WorkingSet` for weights within bounds."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._dual = Dual(1, run.problem.n_features, run.lam, run.bounds)
        self._corners = Corners(run.problem.n_features)

    @classmethod
    def of(cls, run: Run) -> BoundedWorkingSet:
        """No cuts yet."""
        return cls(run)

    @property
    def weights(self) -> Floats:
        """Minimiser."""
        return self._dual.weights

    @property
    def value(self) -> float:
        """Minimum, or a lower bound of it."""
        return self._dual.value

    def append(self, cut: Cut) -> None:
        """One more cut."""
        self._corners.add(cut)

    def settle(self, patience: int = 0) -> None:
        """Solve for all that was appended; nothing is dropped."""
        solve_within_bounds(self._dual, self._corners)
        # Usually there is nothing left to do.
        gap = 0.01 * max(self._run.target(), 1e-12 * abs(self._dual.value))
        solve_on_corners(self._dual, [self._corners], gap, most_rounds=1000)
        self._corners.restore(self._dual, 0)
        self._dual.refresh()

    def rescaled(self, run: Run) -> BoundedWorkingSet:
        """The same cuts at another regularization."""
        other = BoundedWorkingSet(run)
        other._corners = self._corners.copy()
        other._corners.restore(other._dual, 0)
        other._dual.refresh()
        other.settle()
        return other


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
        qp.solve()
        alpha = qp.solution
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

    @classmethod
    def of(cls, run: Run) -> WorkingSet:
        """No cuts but the trivial one, hinge >= 0, which makes the dual variables add up to one."""
        return cls(run.problem.n_features, run.lam)

    def rescaled(self, run: Run) -> WorkingSet:
        """The same cuts at another regularization."""
        other = WorkingSet.of(run)
        m = len(self._qp)
        other._cuts, other._losses = self._cuts.copy(), self._losses.copy()
        # How long each was idle counts on, or a long path would end with all cuts it ever met.
        other._idle, other._names = self._idle.copy(), self._names.copy()
        gram = self._cuts[:m] @ self._cuts[:m].T / run.lam
        for k in range(1, m):
            other._qp.add(np.ascontiguousarray(gram[k, : k + 1]), float(self._losses[k]), bool(self._names[k] == self._CUT))
        other.settle(int(self._idle.max()) + 1)
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
