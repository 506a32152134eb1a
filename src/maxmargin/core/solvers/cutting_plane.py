"""Cutting planes: hinges are replaced by the maximum of their cuts, more of them each round (spec 3.3 and 3.4).

The replaced problem is solved exactly; its value is a lower bound of the optimum, and the objective at any weights an
upper bound (Joachims, Finley and Yu 2009).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypedDict

import numpy as np

from maxmargin import _core
from maxmargin._utils import Arrays, Booleans, Floats, Ints, Scores
from maxmargin.core import Bounds, Cut, Tangent, dot
from maxmargin.core.solvers.base import Run, Solver
from maxmargin.core.solvers.simplex_qp import SimplexQP
from maxmargin.core.solvers.solution import Curve, Solution


@dataclass(frozen=True)
class KnownCuts:
    """Cuts of the mean hinge that are known before a run, to begin with in place of an earlier solution.

    Parameters
    ----------
    cuts : sequence of Cut
        Lower bounds of the mean hinge of the problem to be solved; nobody checks that they are.
    weights : array of shape (d,), optional
        Where to begin; the minimiser of what the cuts make of the problem by default.
    """

    cuts: Sequence[Cut]
    weights: Floats | None = None


class RunNumbers(TypedDict):
    """The state of a run, but for its arrays; a pair may be a list in what a checkpoint returns."""

    calls: int
    reach: float
    value: float
    curve: Sequence[float] | None
    hinge: float
    loss: float
    bound: float | None
    place: float
    primal: float
    dual: float
    dual_curve: Sequence[float] | None
    worse_than_truth: int
    exact: bool


class Checkpoint(Protocol):
    """Where a run leaves its state, so that another one can go on where it was, to the last bit.

    What is in it are names with numbers or text, and arrays by name.
    """

    def read(self) -> tuple[RunNumbers, Arrays] | None:
        """What an earlier run on the same problem has left; None if there was none."""

    def keep(self, numbers: RunNumbers, arrays: Arrays, last: bool) -> None:
        """The state after a round; what need not be written at once is written at the end."""

    def close(self) -> None:
        """The run is over, whatever ended it."""


@dataclass(frozen=True, kw_only=True)
class OneSlackCuttingPlane(Solver):
    """Cuts of the mean hinge: few passes, each over all blocks. The choice for dear solves of few blocks.

    The minimiser of what the cuts make of the problem is far from the best weights known while cuts are few. So the
    objective is searched along the line between the two, and the cuts are made where that search ends: close to the best
    weights, where they matter (Franc and Sonnenburg 2009). Where hinges are functions of few scores, the search needs no look
    at the features.

    Parameters
    ----------
    tol, epsilon, max_passes, time_limit, callback, random_state
        As of any :class:`Solver`.
    checkpoint : Checkpoint, optional
        Such as :class:`maxmargin.core.checkpoint.CheckpointFile`. A run that finds one begins where it was left, whatever
        its ``start``.
    """

    checkpoint: Checkpoint | None = None

    _takes_cuts = True
    # A cut that was not needed for so many rounds is dropped.
    _PATIENCE = 50

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        try:
            self._advance(run, start)
        finally:
            if self.checkpoint is not None:
                self.checkpoint.close()

    def _advance(self, run: Run, start: Solution | KnownCuts | None) -> None:
        saved = None if self.checkpoint is None else self.checkpoint.read()
        bundle = run.state = Bundle.of(run, start) if saved is None else Bundle.restored(run, *saved)
        # Not before the first search: weights of zero may be optimal to the tolerance, but rank nothing.
        if (saved is not None or bundle.point.weights.any()) and bundle.check(run):
            return
        while True:
            bundle.advance(run, bundle.cuts.weights)
            bundle.cuts.settle(self._PATIENCE, run.out_of_time)
            over = bundle.check(run)
            if self.checkpoint is not None:
                self.checkpoint.keep(*bundle.saved(run), over)
            if over:
                return


@dataclass(frozen=True, eq=False)
class LinePoint:
    """Weights with their scores, the tangent of the mean hinge there, the objective, and the place on the line searched.

    Where features are quick to be had, the cut is made at once and takes the place of scores and gradient: of long lists with few
    features every array of their length counts.
    """

    weights: Floats
    scores: Scores
    tangent: Tangent
    primal: float
    place: float
    made: Cut | None = None

    @classmethod
    def at(cls, run: Run, weights: Floats, scores: Scores, place: float) -> LinePoint:
        """By one pass."""
        tangent, made = run.problem.tangent(scores), None
        if run.problem.quick:
            made = Cut(-run.problem.features(tangent.gradient), tangent.loss)
            scores, tangent = None, tangent._replace(gradient=None)
        return cls(weights, scores, tangent, np.inf, place, made).under(run)

    def under(self, run: Run) -> LinePoint:
        """The same weights with the objective of another run on the same problem."""
        return replace(self, primal=0.5 * run.lam * float(self.weights @ self.weights) + self.tangent.hinge + self.oracle_gap)

    @property
    def oracle_gap(self) -> float:
        """What the oracle may have missed here."""
        return 0.0 if self.tangent.bound is None else self.tangent.bound - self.tangent.hinge

    def cut(self, run: Run) -> Cut:
        """The tangent as a cut."""
        return self.made or Cut(run.problem.features(-self.tangent.gradient), self.tangent.loss)


class _Line:
    """The objective between the best weights, at 0, and a target, at 1."""

    # A slope so much smaller than the first one is as good as none; so many looks at most, and so many where each asks for all
    # features: there another cut is worth more than a better place on the line.
    _FLAT = 0.3
    _LOOKS, _DEAR_LOOKS = 5, 3

    def __init__(self, run: Run, origin: LinePoint, target: Floats) -> None:
        self.run = run
        self.origin = origin
        self.direction = target - origin.weights
        self.change: Scores = None if run.problem.quick else run.problem.scores(target) - origin.scores
        self.looks: list[LinePoint] = []

    def _look(self, place: float) -> LinePoint:
        origin = self.origin
        weights = origin.weights + place * self.direction
        scores = self.run.problem.scores(weights) if self.change is None else origin.scores + self.change * place
        point = LinePoint.at(self.run, weights, scores, place)
        self.looks.append(point)
        return point

    def _slope(self, point: LinePoint) -> float:
        ridge = self.run.lam * float(point.weights @ self.direction)
        if point.made is not None:
            return ridge - dot(point.made.psi, self.direction)
        assert self.change is not None  # a point without a cut was found along the change of scores
        return ridge + float(point.tangent.gradient.ravel() @ self.change.ravel())

    def search(self, first: float) -> tuple[LinePoint, LinePoint | None]:
        """The last point seen where the objective still falls, and the first where it does not (None if there is none)."""
        low = self.origin
        high: LinePoint | None = None
        fall = at_low = self._slope(low)
        if fall >= 0:
            # Rounding says that the objective rises at once; the target's own cut is the way on.
            point = self._look(1.0)
            return (low, point) if point.primal >= low.primal else (point, None)
        at_high = np.inf
        place = min(1.0, first)
        for _ in range(self._LOOKS if self.run.problem.scored else self._DEAR_LOOKS):
            point = self._look(place)
            slope = self._slope(point)
            if slope > 0:
                high, at_high = point, slope
            else:
                low, at_low = point, slope
            if abs(slope) <= self._FLAT * abs(fall) or (high is None and place == 1.0):
                break
            if self.run.passes >= self.run.solver.max_passes or self.run.out_of_time():
                break
            if high is None:
                place = min(1.0, 3 * place)
            else:
                # False position, but not too close to either end.
                begin = 0.0 if low is self.origin else low.place
                place = begin + (high.place - begin) * float(np.clip(at_low / (at_low - at_high), 0.1, 0.9))
        return low, high


@dataclass(eq=False)
class Bundle:
    """What a run knows: the cuts, the best weights with their tangent, and where on a line the next search should begin."""

    cuts: WorkingSet
    # None where a pickled one is not in use yet.
    best: LinePoint | None
    reach: float

    @classmethod
    def of(cls, run: Run, start: Solution | KnownCuts | None) -> Bundle:
        """What an earlier run on the same problem has left; else known cuts, or nothing."""
        earlier = start.state if isinstance(start, Solution) and isinstance(start.state, Bundle) else None
        if earlier is None:
            cuts = WorkingSet(run.problem.n_features, run.lam, run.bounds)
            for cut in start.cuts if isinstance(start, KnownCuts) else ():
                cuts.append(cut)
            cuts.settle()
        else:
            cuts = earlier.cuts.at(run.lam, run.bounds)
        weights = cuts.weights if start is None or start.weights is None else run.project(start.weights)
        bundle = cls(cuts, None, 1.0) if earlier is None else replace(earlier, cuts=cuts)
        # A tangent that no exact oracle made would be believed in.
        if bundle.best is not None and getattr(start, "certified", False) and np.array_equal(bundle.best.weights, weights):
            bundle.best = bundle.best.under(run)
        else:
            bundle.best = LinePoint.at(run, weights, run.problem.scores(weights), 0.0)
            cuts.append(bundle.best.cut(run))
            cuts.settle()
        return bundle

    @property
    def point(self) -> LinePoint:
        """The best weights, in a run."""
        assert self.best is not None
        return self.best

    def check(self, run: Run) -> bool:
        """Record what is known; True if the run is over."""
        best = self.point
        return run.check(best.weights, best.primal, self.cuts.value, best.oracle_gap, self.cuts.curve)

    def advance(self, run: Run, target: Floats) -> None:
        """Search the line from the best weights to a target, and append the cuts where the search ends.

        Where features come with every look, all of them are cuts that cost nothing more.
        """
        best, line = self.point, _Line(run, self.point, target)
        low, high = line.search(self.reach)
        for point in line.looks:
            if not run.problem.scored or point is low or point is high:
                self.cuts.append(point.cut(run))
        # Zero weights rank nothing: where features are so small that rounding hides what they gain, leave them too.
        rounding = 0.0 if best.weights.any() else 4 * np.finfo(np.float64).eps * abs(low.primal)
        self.best = low if high is None or low.primal <= high.primal - rounding else high
        # The next search begins a little beyond the place where this one ended.
        self.reach = 0.3 * self.reach if self.best is best else 1.2 * self.best.place

    def saved(self, run: Run) -> tuple[RunNumbers, Arrays]:
        """Everything another run needs to go on: numbers, and arrays by name."""
        best, tangent = self.point, self.point.tangent
        numbers: RunNumbers = {
            "calls": run.problem.calls, "reach": self.reach, "value": self.cuts.value, "curve": self.cuts.curve,
            "hinge": tangent.hinge, "loss": tangent.loss, "bound": tangent.bound, "place": best.place,
            "primal": run.primal, "dual": run.dual, "dual_curve": run.dual_curve,
            "worse_than_truth": run.problem.worse_than_truth, "exact": run.problem.exact,
        }  # fmt: skip
        psi = best.cut(run).dense(run.problem.n_features)
        rows = {f"history.{name}": np.array(column) for name, column in vars(run.history).items()}
        return numbers, {
            **rows, **self.cuts.arrays(), "best.weights": best.weights, "best.psi": psi,
            **run.problem.packed_scores(best.scores),
        }  # fmt: skip

    @classmethod
    def restored(cls, run: Run, numbers: RunNumbers, arrays: Arrays) -> Bundle:
        """What :meth:`saved` has saved, in a run that has done nothing yet."""
        cuts = WorkingSet.of_arrays(arrays, run.lam, run.bounds)
        cuts.value, cuts.curve = numbers["value"], _pair(numbers["curve"])
        weights, psi = arrays["best.weights"], arrays["best.psi"]
        scores, gradient = run.problem.unpacked_scores(weights, psi, arrays)
        tangent = Tangent(numbers["hinge"], numbers["loss"], gradient, numbers["bound"])
        made = Cut(psi, tangent.loss) if gradient is None else None
        best = LinePoint(weights, scores, tangent, np.inf, numbers["place"], made).under(run)
        run.problem.calls, run.problem.worse_than_truth = numbers["calls"], numbers["worse_than_truth"]
        run.problem.exact &= numbers["exact"]
        # The last row is recorded again by the check that follows, and with it what is best.
        for name, column in vars(run.history).items():
            column.extend(arrays[f"history.{name}"][:-1].tolist())
        run.started -= float(arrays["history.seconds"][-1])
        run.primal, run.best_weights = numbers["primal"], weights
        run.dual, run.dual_curve = numbers["dual"], _pair(numbers["dual_curve"])
        return cls(cuts, best, numbers["reach"])

    def lower_bound(self, lam: float) -> float:
        """What the cuts say of the optimum at another lambda."""
        return self.cuts.at(lam, self.cuts.bounds).value

    def curve_at(self, lam: float) -> Curve | None:
        """A lower bound for every lambda that is this one there."""
        return self.cuts.at(lam, self.cuts.bounds).curve

    def __getstate__(self) -> dict[str, object]:
        # Scores belong to the process; one pass makes them anew.
        return {"cuts": self.cuts, "best": None, "reach": self.reach}


def _pair(values: Sequence[float] | None) -> Curve | None:
    """JSON knows lists only."""
    return None if values is None else (values[0], values[1])


class WorkingSet:
    """The cuts of a mean hinge and the exact minimiser of what they make of the problem.

    Linear constraints on the weights, ``row . w >= least``, may be among them: a constraint is a cut with a multiplier that
    has no upper bound.

    With multipliers ``alpha`` and ``v = psi' alpha / lambda``, the minimiser is ``v`` or, within bounds, ``clip(v)``. Which
    weights are at their bounds is guessed; the rest is a quadratic on the simplex, whose solution gives the next guess. Steps
    that go no farther than the dual objective rises make that converge from anywhere (Newton's method for a function that is
    quadratic in pieces).

    Attributes
    ----------
    weights : array of shape (d,)
        The minimiser, once settled.
    value : float
        The minimum, or a lower bound of it; with more cuts it only grows.
    curve : pair of float, optional
        What the multipliers of ``value`` say of other lambda, see :class:`maxmargin.core.solvers.Solution`.
    """

    # In place of the name of a constraint.
    _CUT = -1
    # Guesses per solve; what they have come to is a lower bound in any case.
    _GUESSES = 100
    # Products of cuts so many times larger than lambda times their losses leave a double too few digits for the losses.
    _ILL = 1e10

    def __init__(self, n_features: int, lam: float, bounds: Bounds | None = None) -> None:
        self.lam, self.bounds = lam, bounds
        self._rows = np.zeros((16, n_features))
        self._losses = np.zeros(16)
        self._borrowed = False
        # The trivial cut, hinge >= 0, makes the multipliers add up to one.
        self._idle = np.zeros(1, dtype=np.int64)
        self._names = np.full(1, self._CUT, dtype=np.int64)
        self._qp = SimplexQP(1.0)
        self._qp.add(np.zeros(1), 0.0)
        self._free: Booleans | None = None
        self._fixed = np.zeros(n_features)
        # Weights from multipliers of twice the digits, where they are needed.
        self._precise: Floats | None = None
        self.value = 0.0
        self.curve: Curve | None = None
        self.settle()

    def __len__(self) -> int:
        return len(self._qp)

    def arrays(self) -> Arrays:
        """All of it but ``value`` and ``curve``, which are numbers; nothing in them changes later."""
        m = len(self)
        support, factor, shift = self._qp.factor
        found = {
            "rows": self._rows[:m], "losses": self._losses[:m], "idle": self._idle, "names": self._names, "weights": self.weights,
            "gram": self._qp.gram, "linear": self._qp.linear, "solution": self._qp.solution, "support": support,
            "factor": factor, "shift": np.array([shift]),
        }  # fmt: skip
        if self._free is not None:
            found.update(free=self._free, fixed=self._fixed)
        return {f"cuts.{name}": array for name, array in found.items()}

    @classmethod
    def of_arrays(cls, arrays: Arrays, lam: float, bounds: Bounds | None) -> WorkingSet:
        """The way back, for the same lambda and the same bounds."""
        found = {name.removeprefix("cuts."): array for name, array in arrays.items() if name.startswith("cuts.")}
        rows = found["rows"]
        made = cls(rows.shape[1], lam, bounds)
        made._rows, made._losses, made._borrowed = rows, found["losses"], True
        made._idle, made._names, made.weights = found["idle"], found["names"], found["weights"]
        made._free, made._fixed = found.get("free"), found.get("fixed", made._fixed)
        made._qp = SimplexQP.of(1.0, found["gram"], found["linear"], found["solution"], made._names == cls._CUT)
        made._qp.set_factor(found["support"], found["factor"], float(found["shift"][0]))
        return made

    def known(self) -> list[Cut]:
        """The cuts, without the constraints."""
        return [Cut(self._rows[k].copy(), float(self._losses[k])) for k in range(1, len(self)) if self._names[k] == self._CUT]

    @property
    def constraints(self) -> Ints:
        """Names of the constraints."""
        return np.asarray(self._names[self._names != self._CUT], dtype=np.int64)

    def append(self, cut: Cut, name: int = _CUT) -> None:
        """One more cut or, if it has a name, the constraint ``psi . w >= loss``; :meth:`settle` takes them into account."""
        m, psi = len(self), cut.dense(self._rows.shape[1])
        if m == len(self._rows) or self._borrowed:
            more = np.zeros((max(16, m), len(psi)))
            self._rows = np.concatenate([self._rows[:m], more])
            self._losses = np.concatenate([self._losses[:m], more[:, 0]])
            self._borrowed = False
        self._rows[m], self._losses[m] = psi, cut.loss
        self._idle, self._names = np.append(self._idle, 0), np.append(self._names, name)
        free, level = (psi, cut.loss) if self._free is None else (np.where(self._free, psi, 0.0), cut.loss - psi @ self._fixed)
        # Times lambda, so that the quadratic part does not depend on it.
        self._qp.add(self._rows[: m + 1] @ free, self.lam * float(level), name == self._CUT)

    def settle(self, patience: int | None = None, late: Callable[[], bool] = lambda: False) -> None:
        """Solve for all that was appended; what was idle for longer than ``patience`` rounds is dropped.

        ``late`` is asked between guesses whether to leave it at that.
        """
        self._solve(late)
        alpha = self._qp.solution
        v = self._direction(alpha) if self._precise is None else self._precise
        w = self.weights = self._within(v)
        loss, ridge = float(alpha @ self._losses[: len(self)]), self.lam * float(w @ v - 0.5 * (w @ w))
        if loss - ridge > self.value:
            self.value, self.curve = loss - ridge, None if self.bounds is not None else (loss, ridge * self.lam)
        if patience is None:
            return
        idle = np.where(alpha > 0, 0, self._idle + 1)
        idle[0] = 0
        if idle.max() > patience:
            kept = np.flatnonzero(idle <= patience)
            # New arrays: another set may have borrowed these.
            self._rows, self._losses, self._names = self._rows[kept], self._losses[kept], self._names[kept]
            self._qp.keep(kept)
            idle = idle[kept]
        self._idle = idle

    def at(self, lam: float, bounds: Bounds | None) -> WorkingSet:
        """The same cuts at another regularization, or within other bounds; how long each was idle counts on."""
        other = copy.copy(self)
        other.lam, other.value, other.curve, other._qp, other._borrowed = lam, 0.0, None, SimplexQP(self._qp), True
        if (bounds is None) != (self.bounds is None) or (bounds is not None and not np.array_equal(bounds, self.bounds or ())):
            other.bounds, other._free = bounds, None
            other._build()
        else:
            other._qp.set_linear(lam * other._levels())
        other.settle()
        return other

    def _direction(self, alpha: Floats) -> Floats:
        return np.asarray(alpha @ self._rows[: len(alpha)] / self.lam)

    def _within(self, v: Floats) -> Floats:
        return v if self.bounds is None else np.clip(v, *self.bounds)

    def _levels(self) -> Floats:
        """Losses less what weights at their bounds make up for."""
        m = len(self)
        return self._losses[:m] if self._free is None else self._losses[:m] - self._rows[:m] @ self._fixed

    def _build(self) -> None:
        """The quadratic problem of the present guess."""
        rows = self._rows[: len(self)]
        inside = rows if self._free is None else rows[:, self._free]
        start, cuts = self._qp.solution, self._names == self._CUT
        self._qp = SimplexQP.of(1.0, inside @ inside.T, self.lam * self._levels(), start, cuts)

    def _guess(self) -> bool:
        """Weights at their bounds by the present multipliers; whether that is another guess than before."""
        assert self.bounds is not None
        lower, upper = self.bounds
        v = self._direction(self._qp.solution)
        free = (lower < v) & (v < upper)
        fixed = np.where(free, 0.0, np.clip(v, lower, upper))
        if self._free is not None and np.array_equal(free, self._free) and np.array_equal(fixed, self._fixed):
            return False
        self._free, self._fixed = free, fixed
        self._build()
        return True

    def _solve(self, late: Callable[[], bool]) -> None:
        self._precise = None
        if self.bounds is None:
            rows, linear = self._rows[: len(self)], self.lam * self._losses[: len(self)]
            if np.einsum("ij,ij->i", rows, rows).max() <= self._ILL * np.abs(linear).max():
                self._qp.solve()
                return
            # The weights are what is left of cuts that cancel: with large features and a large C it is below their rounding.
            alpha, total = _core.solve_precisely(rows, linear, self._names == self._CUT, self._qp.solution)
            self._qp.set_solution(alpha)
            self._precise = total / self.lam
            return
        self._guess()
        for _ in range(self._GUESSES):
            alpha = self._qp.solution
            self._qp.solve()
            change = self._qp.solution - alpha
            step = self._step(alpha, change)
            if step < 1:
                self._qp.set_solution(alpha + step * change)
            if step == 0 or (not self._guess() and step == 1) or late():
                break

    def _step(self, alpha: Floats, change: Floats) -> float:
        """How far along a change of the multipliers the dual objective rises, at most 1."""
        from scipy.optimize import brentq

        v, moved = self._direction(alpha), self._direction(change)
        linear = float(change @ self._losses[: len(change)])

        def slope(step: float) -> float:
            return linear - self.lam * float(moved @ self._within(v + step * moved))

        if slope(0.0) <= 4 * np.finfo(np.float64).eps * abs(linear):
            return 0.0
        return 1.0 if slope(1.0) >= 0 else float(brentq(slope, 0.0, 1.0, xtol=1e-13))
