"""Following the optimum from large lambda to small (spec 5, with a second rule of our own).

Weights found at one lambda have an objective that is affine in lambda, and the optimum is concave in it. That makes two rules
for where to solve next:

``"transport"``, the published one: the optimum at ``r lambda`` is at least ``r`` times that at lambda, so the gap of the weights
grows to ``gap + (1 - r) (hinge - gap)`` at worst. Solve again where that reaches epsilon. Steps are of the order of epsilon.

``"interpolate"``: solve farther away, and bound the optimum in between from above by the better of the two weights, and
from below by chords between lower bounds: those of the two solves and, where the weights change, what the dual points or the
cuts of the solves prove there. Where the bounds are too far apart, solve once more in between. Errors are of second order, so
steps are of the order of the root of epsilon.
"""

from __future__ import annotations

import dataclasses
import itertools
import numbers
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from maxmargin._utils import Floats, Reals
from maxmargin.core.cuts import Bounds
from maxmargin.core.path_result import Segment, TracedPath
from maxmargin.core.path_start import Start, start_of_path
from maxmargin.core.path_weights import WeightStore
from maxmargin.core.problem import CheckedProblem, Problem
from maxmargin.core.solvers import Curve, Solution, Solver, check_bounds

Rule = Literal["interpolate", "transport"]


@dataclass(eq=False)
class Solved:
    """A solved lambda: weights, what is proved of them, and what a solver needs to go on from here."""

    lam: float
    weights: Reals
    hinge: float
    dual: float
    passes: float
    certified: bool = True
    solution: Solution | None = None
    # Other lower bounds of the optimum: ``curve[0] - curve[1] / lambda`` everywhere, and one where these weights take over from
    # those above.
    curve: Curve = (0.0, 0.0)
    place: float = 0.0
    dual_there: float = 0.0

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        self.squared = float(weights @ weights)
        # The objective is computed here by other sums than the solver's, which may round to less than its dual.
        self.dual = min(self.dual, self.objective(self.lam))

    def objective(self, lam: float) -> float:
        """At another lambda."""
        return 0.5 * lam * self.squared + self.hinge

    @property
    def gap(self) -> float:
        """At the own lambda."""
        return self.objective(self.lam) - self.dual


@dataclass
class PathProgress:
    """What a callback is told after every solve."""

    lam: float
    n_solved: int
    passes: float
    seconds: float


def trace_path(
    problem: Problem,
    *,
    epsilon: float,
    lambda_min: float,
    solver: Solver,
    kappa: float = 0.9,
    lambda_max: float | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    rule: Rule = "interpolate",
    certified: bool = True,
    dtype: DTypeLike = np.float64,
    time_limit: float | None = None,
    callback: Callable[[PathProgress], None] | None = None,
    known: list[Solved] | None = None,
    keep: Callable[[list[Solved], bool], None] | None = None,
) -> TracedPath:
    """Weights within ``epsilon`` of the optimum of ``lambda/2 ||w||^2 + mean hinge`` for every lambda from ``lambda_min`` up.

    Parameters
    ----------
    problem : Problem
        A sum of hinges that are zero for the truth.
    epsilon : float
        Largest duality gap anywhere on the path, absolute.
    lambda_min : float
        Where to stop.
    solver : Solver
        Solves at every breakpoint, to the gap ``kappa * epsilon``, from the solution at the last one.
    kappa : float
        Between 0 and 1: a small one means harder solves and fewer of them.
    lambda_max : float, optional
        Begin here instead of where the closed form for large lambda ends.
    bounds : pair of arrays or numbers, optional
        ``lower <= w <= upper``.
    rule : {"interpolate", "transport"}
        How to choose breakpoints.
    certified : bool
        False allows oracles that are not exact and solvers that stop on estimates; the bounds are then not proved.
    dtype : float64 or float32
        How weights are stored. float32 takes half the memory and one more pass per solve, for the hinge of rounded weights.
    time_limit : float, optional
        Seconds after which tracing stops with what it has.
    callback : callable, optional
        Called after every solve.
    known : list of Solved, optional
        Points of an earlier run that was interrupted; those of no use for this epsilon are solved anew.
    keep : callable, optional
        Called with all points after every solve, to write them down, and at the end, when the second argument is True.
    """
    check_settings(epsilon, lambda_min, lambda_max, kappa, rule, dtype, time_limit, callback)
    if not problem.convex:
        raise ValueError(
            "hinges are not convex in the weights, so that there is no path of optima; use a convex surrogate, such as "
            "ProbLoss(convex=True)"
        )
    if certified and not problem.exact:
        raise ValueError("the oracle is not exact, so that no path can be certified; pass certified=False for an uncertified one")
    if certified and not solver.certifies:
        name = type(solver).__name__
        raise ValueError(f"{name}(stop='heuristic') certifies nothing; use stop='exact', or pass certified=False")
    for point in known or []:
        if len(point.weights) != problem.n_features:
            found, wanted = len(point.weights), problem.n_features
            raise ValueError(f"known has points of {found} weights, but the problem has {wanted} features")
    run = _PathRun(problem, float(epsilon), float(lambda_min), float(kappa), solver, bounds, dtype, time_limit, callback, keep)
    # What an uncertified run has left proves nothing.
    usable = [point for point in known or [] if point.certified or not certified]
    return run.run(rule, None if lambda_max is None else float(lambda_max), usable)


def check_settings(
    epsilon: float,
    lambda_min: float,
    lambda_max: float | None,
    kappa: float,
    rule: str,
    dtype: DTypeLike,
    time_limit: float | None,
    callback: object,
) -> None:
    """Complain about arguments of :func:`trace_path` that make no sense."""
    optional = {"lambda_max": lambda_max, "time_limit": time_limit}
    for name, value in {"epsilon": epsilon, "lambda_min": lambda_min, **optional}.items():
        if value is None and name in optional:
            continue
        if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name}={value!r} must be a positive number")
    if lambda_max is not None and lambda_max <= lambda_min:
        raise ValueError(f"lambda_max={lambda_max!r} must be greater than lambda_min={lambda_min!r}")
    if not isinstance(kappa, numbers.Real) or not 0 < float(kappa) < 1:
        raise ValueError(f"kappa={kappa!r} must be between 0 and 1")
    if rule not in ("interpolate", "transport"):
        raise ValueError(f"rule={rule!r} is unknown; choose 'interpolate' or 'transport'")
    try:
        known = np.dtype(dtype) in (np.float64, np.float32)
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"dtype={dtype!r} must be float64 or float32")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback={callback!r} must be a function of one argument, or None")


class _Stopped(Exception):
    """A budget ended the run; what has been solved is kept."""


@dataclass(eq=False)
class _PathRun:
    """One run."""

    problem: Problem
    epsilon: float
    lambda_min: float
    kappa: float
    solver: Solver
    limits: tuple[ArrayLike, ArrayLike] | None
    dtype: DTypeLike
    time_limit: float | None
    callback: Callable[[PathProgress], None] | None
    keep: Callable[[list[Solved], bool], None] | None

    # Of log lambda: the first step, the longest one, and a step over the longest that seems to need no solve in between: these
    # are cheap, for they begin between two solutions.
    _STEP, _LONGEST, _STRIDE = np.log(4.0), np.log(100.0), 1.5
    # So many steps from the end it is tried at once: with at least so much of epsilon for the solve, which is cheaper at a larger
    # lambda even if it has to be harder, and so much of the rest for the way from there to the end.
    _FINISH, _LAST, _CAUTION = 1.2, 0.5, 0.8
    # Of the room between kappa * epsilon and epsilon: what a solve must leave. With less, steps would become ever smaller.
    _LEAST_ROOM = 0.1

    def __post_init__(self) -> None:
        self.largest_gap = self.epsilon * (1.0 - self._LEAST_ROOM * (1.0 - self.kappa))
        self.bounds = check_bounds(self.limits, self.problem.n_features)
        self.store = WeightStore(self.problem.n_features, self.dtype)
        self.storable = self.bounds if self.bounds is None else _storable(self.bounds, self.store.dtype)
        self.began = time.perf_counter()
        self.start: Start | None = None
        self.points: list[Solved] = []
        self.passes = 0.0

    def run(self, rule: Rule, lambda_max: float | None, known: list[Solved]) -> TracedPath:
        """Trace from the top, or from where ``known`` ends."""
        complete, interrupted = True, False
        try:
            self._begin(rule, lambda_max, known)
            (self._transport if rule == "transport" else self._interpolate)()
        except (_Stopped, KeyboardInterrupt) as stopped:
            if not self.points:
                if isinstance(stopped, KeyboardInterrupt):
                    raise
                raise ValueError(
                    f"no weights within epsilon={self.epsilon:g} were found at lambda_max={lambda_max:g}; raise epsilon, or "
                    "max_passes or time_limit"
                ) from None
            complete, interrupted = False, isinstance(stopped, KeyboardInterrupt)
        finally:
            if self.keep is not None and self.points:
                self.keep(self.points, True)
        segments = self._ranges(rule)
        end = segments[-1].lo if segments else self.points[0].lam
        # What lies below a hole is of use to a later run only.
        self.points = [point for point in self.points if point.lam >= end]
        return self._result(rule, segments, complete and end <= self.lambda_min, interrupted)

    # ---- solving ---------------------------------------------------------------------------------------------------------------

    def _begin(self, rule: Rule, lambda_max: float | None, known: list[Solved]) -> None:
        # Weights that the store would round are others than those that were solved for.
        known = [p for p in known if p.gap <= self.largest_gap and np.array_equal(p.weights, self._stored(p.weights))]
        if self.bounds is not None:
            lower, upper = self.bounds
            known = [p for p in known if ((lower <= p.weights) & (p.weights <= upper)).all()]
        if lambda_max is not None:
            first = next((point for point in known if point.lam == lambda_max), None)
            self._insert(first or self._solve(lambda_max, None))
        else:
            self._insert(self._closed_form(exact=rule == "interpolate"))
        for point in known:
            if point.lam < self.points[0].lam:
                self._insert(point, tell=False)

    def _closed_form(self, exact: bool) -> Solved:
        counted = CheckedProblem(self.problem)
        self.start = start = start_of_path(counted, self.kappa * self.epsilon, self.bounds, exact)
        weights, hinge = start.direction / start.lam if start.lam > 0 else np.zeros(self.problem.n_features), start.hinge
        dual = 0.5 * start.lam * float(weights @ weights) + hinge - start.gap
        stored = self._stored(weights)
        if stored is not weights:
            weights, hinge = stored, counted.mean_cut(stored).upper(stored)
        return Solved(start.lam, weights, hinge, dual, counted.calls / counted.n_blocks, counted.exact)

    def _stored(self, weights: Reals) -> Floats:
        """What will come out of the store for these weights; still within the bounds."""
        if self.store.dtype == np.float64:
            return np.asarray(weights, dtype=np.float64)
        rounded = weights.astype(self.store.dtype)
        return (rounded if self.storable is None else np.clip(rounded, *self.storable)).astype(np.float64)

    def _solve(self, lam: float, near: Solved | None, weights: Floats | None = None, goal: float = np.inf) -> Solved:
        left = None if self.time_limit is None else self.time_limit - (time.perf_counter() - self.began)
        if left is not None and left <= 0:
            raise _Stopped
        solver = dataclasses.replace(
            self.solver,
            epsilon=min(goal, self.kappa * self.epsilon),
            # Every solve draws numbers of its own, the same in every run.
            random_state=(self.solver.random_state or 0) + len(self.points),
            time_limit=min((limit for limit in (left, self.solver.time_limit) if limit is not None), default=None),
        )
        start = None if near is None else near.solution
        if start is not None and weights is not None:
            start = dataclasses.replace(start, weights=np.asarray(weights, dtype=np.float64))
        solution = solver.solve(self.problem, lam, bounds=self.bounds, start=start)
        weights, passes, exact = solution.weights, solution.passes, solution.certified
        hinge = solution.primal - 0.5 * lam * float(weights @ weights)
        stored = self._stored(weights)
        if stored is not weights:
            counted = CheckedProblem(self.problem)
            weights, hinge = stored, counted.mean_cut(stored).upper(stored)
            passes, exact = passes + 1, exact and counted.exact
        point = Solved(lam, weights, hinge, solution.dual, passes, exact, solution, solution.dual_curve or (0.0, 0.0))
        if solution.status == "interrupted" or point.gap > self.largest_gap:
            if point.gap < self.epsilon:
                self._insert(point)
            raise KeyboardInterrupt if solution.status == "interrupted" else _Stopped
        return point

    def _insert(self, point: Solved, tell: bool = True) -> None:
        at = bisect_left(self.points, -point.lam, key=lambda own: -own.lam)
        if at < len(self.points) and self.points[at].lam == point.lam:
            return
        # As they will be stored, which loses nothing any more: many points take a lot of memory.
        point.weights = point.weights.astype(self.store.dtype, copy=False)
        self.points.insert(at, point)
        self.passes += point.passes
        if tell and self.keep is not None:
            self.keep(self.points, False)
        if tell and self.callback is not None:
            self.callback(PathProgress(point.lam, len(self.points), self.passes, time.perf_counter() - self.began))

    def _transport(self) -> None:
        # Known points may leave holes between them, and the number of points grows on the way.
        for k in itertools.count():
            if k == len(self.points):
                return
            point, following = self.points[k], self._transported(self.points[k])
            if following > (self.points[k + 1].lam if k + 1 < len(self.points) else self.lambda_min):
                if following >= point.lam:
                    # No room that rounding would not take.
                    raise _Stopped
                self._insert(self._solve(following, point))
            point.solution = None

    def _transported(self, point: Solved) -> float:
        """The smallest lambda for which the weights are good enough by the published bound; 0 if they are for all."""
        room, growth = self.epsilon - point.gap, point.hinge - point.gap
        if growth <= room:
            return 0.0
        # On the safe side of rounding.
        return point.lam * (1.0 - room / growth) * (1.0 + 1e-12)

    def _interpolate(self) -> None:
        for above, below in list(zip(self.points, self.points[1:], strict=False)):
            if below.place != _crossing(above, below)[0]:
                _bound_between(above, below)
            self._refine(above, below)
        step = self._STEP
        while True:
            above = self.points[-1]
            if above.lam <= self.lambda_min or self._last_range(above) is not None:
                return
            lam, goal = self._next(above, step)
            below = self._solve(lam, above, goal=goal)
            self._insert(below)
            _bound_between(above, below)
            if self._last_range(below) is None and below.solution is not None:
                below.curve = below.solution.curve_at(self.lambda_min) or below.curve
            width = np.log(above.lam / below.lam)
            room = self.epsilon - max(above.gap, below.gap)
            excess = _crossing(above, below)[1] - max(above.gap, below.gap)
            self._refine(above, below)
            for solved in self.points[:-1]:
                solved.solution = None
            # The distance between the bounds grows with the square of the step.
            longest = width * np.sqrt(room / excess) if excess > 0 else self._LONGEST
            step = float(np.clip(self._STRIDE * longest, 0.2 * width, min(4.0 * width, self._LONGEST)))

    def _next(self, above: Solved, step: float) -> tuple[float, float]:
        """Where to solve after a step of log lambda, and to which gap; not close above where the path ends."""
        end, goal = self.lambda_min, self.kappa * self.epsilon
        if np.log(above.lam / end) > self._FINISH * step:
            return float(above.lam * np.exp(-step)), goal
        # Where the dual point has (nearly) the same weights, the gap grows by ridge * (x - 1)^2 / x from x * lambda_min to
        # lambda_min. The ridge is no greater there than it is here.
        ridge = 0.5 * above.lam * above.squared
        same = ridge > 0 and abs(above.curve[1] / (ridge * above.lam) - 1.0) < 0.05
        if not same or above.lam < 1.5 * end:
            return end, goal
        part = self._CAUTION * (1.0 - min(self._LAST, self.kappa)) * self.epsilon / ridge
        x = min(1.0 + 0.5 * part + float(np.sqrt(part + 0.25 * part**2)), float(np.sqrt(above.lam / end)))
        return x * end, min(goal, self.epsilon - ridge * (x - 1.0) ** 2 / x / self._CAUTION)

    def _last_range(self, last: Solved) -> Segment | None:
        """From the last point to the end of the path, or to zero, if its weights are good enough for that."""
        model, lam = len(self.points) - 1, self.lambda_min
        if last.hinge <= self.epsilon and last.lam > 0:
            return Segment(last.lam, 0.0, model, last.gap, max(last.gap, last.hinge))
        if last.lam <= lam:
            return None
        # The optimum is not negative, and concave.
        gap = max(0.0, last.objective(lam) - max(last.dual * lam / last.lam, last.curve[0] - last.curve[1] / lam))
        return Segment(last.lam, lam, model, last.gap, gap) if gap <= self.epsilon else None

    def _refine(self, above: Solved, below: Solved) -> None:
        """Solve in between until the whole range is covered."""
        waiting = [(above, below)]
        while waiting:
            above, below = waiting.pop()
            place, worst = _crossing(above, below)
            if worst <= self.epsilon:
                # From below to above: nothing more will begin there.
                if below is not self.points[-1]:
                    below.solution = None
                continue
            # Well inside, also where the two objectives hardly differ.
            inside = np.clip(np.log(place / below.lam) / np.log(above.lam / below.lam), 0.1, 0.9)
            lam = below.lam * (above.lam / below.lam) ** float(inside)
            if not below.lam < lam < above.lam:
                # No room that rounding would not take.
                raise _Stopped
            # Dual points that stay the same have weights that are affine in 1 / lambda.
            share = (1.0 / lam - 1.0 / above.lam) / (1.0 / below.lam - 1.0 / above.lam)
            weights = (1.0 - share) * above.weights + share * below.weights
            middle = self._solve(lam, above if inside > 0.5 and above.solution is not None else below, weights)
            self._insert(middle)
            _bound_between(above, middle)
            _bound_between(middle, below)
            waiting += [(above, middle), (middle, below)]

    # ---- what has been solved, as ranges ---------------------------------------------------------------------------------------

    def _ranges(self, rule: Rule) -> list[Segment]:
        return self._transported_ranges() if rule == "transport" else self._interpolated_ranges()

    def _transported_ranges(self) -> list[Segment]:
        segments = []
        for k, point in enumerate(self.points):
            lowest = self._transported(point)
            following = self.points[k + 1].lam if k + 1 < len(self.points) else (0.0 if lowest == 0 else self.lambda_min)
            lo = max(lowest, following)
            if point.lam > lo:
                gap = point.gap + (1.0 - lo / point.lam) * (point.hinge - point.gap)
                segments.append(Segment(point.lam, lo, k, point.gap, gap))
            # An interrupted run may leave a hole; nothing below it counts.
            if lo > following:
                break
        return segments

    def _interpolated_ranges(self) -> list[Segment]:
        segments: list[Segment] = []
        for k, (above, below) in enumerate(zip(self.points, self.points[1:], strict=False)):
            place, worst = _crossing(above, below)
            # An interrupted run may end with a range that is not covered; nothing below it counts.
            if worst > self.epsilon * (1.0 + 1e-9):
                return segments
            if place < above.lam:
                segments.append(Segment(above.lam, place, k, above.gap, _gap_at(place, above, above, below)))
            if place > below.lam:
                segments.append(Segment(place, below.lam, k + 1, _gap_at(place, below, above, below), below.gap))
        last = self._last_range(self.points[-1])
        return segments if last is None else [*segments, last]

    def _result(self, rule: Rule, segments: list[Segment], complete: bool, interrupted: bool) -> TracedPath:
        for point in self.points:
            self.store.append(point.weights)
        names = {"lambdas": "lam", "hinges": "hinge", "squared_norms": "squared", "duals": "dual", "passes": "passes"}
        return TracedPath(
            epsilon=self.epsilon, kappa=self.kappa, rule=rule, n_blocks=self.problem.n_blocks,
            **{column: np.array([getattr(point, name) for point in self.points]) for column, name in names.items()},
            store=self.store, segments=segments, certified=all(point.certified for point in self.points), complete=complete,
            closed_form=self.start is not None and self.start.oracle_gap == 0, start_gap=self.points[0].gap,
            interrupted=interrupted,
        )  # fmt: skip


def _storable(bounds: Bounds, dtype: DTypeLike) -> tuple[Reals, Reals]:
    """The closest bounds, inside the given ones, that are numbers of the type."""
    with np.errstate(over="ignore"):
        lower, upper = bounds[0].astype(dtype), bounds[1].astype(dtype)
    lower = np.where(lower < bounds[0], np.nextafter(lower, np.array(np.inf, dtype)), lower)
    upper = np.where(upper > bounds[1], np.nextafter(upper, np.array(-np.inf, dtype)), upper)
    if (lower > upper).any():
        k = int(np.flatnonzero(lower > upper)[0])
        own = f"lower[{k}]={bounds[0][k]} and upper[{k}]={bounds[1][k]}"
        raise ValueError(f"dtype={dtype} has no number between {own}; use float64")
    return lower, upper


def _gap_at(lam: float, point: Solved, above: Solved, below: Solved) -> float:
    """Objective of the weights minus the lower bound at an end of the range, or where the weights change."""
    share = (lam - below.lam) / (above.lam - below.lam)
    lower = share * above.dual + (1.0 - share) * below.dual
    return max(0.0, point.objective(lam) - (max(lower, below.dual_there) if lam == below.place else lower))


def _bound_between(above: Solved, below: Solved) -> None:
    """Find the best lower bound that both solves prove where the weights change."""
    place, _ = _crossing(above, below)
    cuts = [point.solution.lower_bound(place) for point in (above, below) if point.solution is not None]
    below.place, below.dual_there = place, max(_hull(above.curve, below.curve, place), *cuts, 0.0)


def _hull(above: Curve, below: Curve, lam: float) -> float:
    """Lower bound of a concave function that is nowhere below two curves ``b - c / lambda``."""
    found = max(b - c / lam for b, c in (above, below))
    if not above[1] > below[1] > 0 or not above[0] > below[0]:
        return found
    # The line that touches both, if it does so on both sides.
    ratio = float(np.sqrt(above[1] / below[1]))
    place = 2.0 * below[1] * (ratio - 1.0) / (above[0] - below[0])
    return below[0] - (2.0 - lam / place) * below[1] / place if place <= lam <= ratio * place else found


def _crossing(above: Solved, below: Solved) -> tuple[float, float]:
    """Where to change from the weights above to those below, and the largest gap in the whole range."""
    if np.array_equal(above.weights, below.weights):
        # A start that was good enough as it was; rounding is not to choose.
        return below.lam, max(above.gap, _gap_at(below.lam, above, above, below))
    behind_above = above.objective(above.lam) - below.objective(above.lam)
    behind_below = above.objective(below.lam) - below.objective(below.lam)
    if behind_above < 0 < behind_below:
        place = below.lam + (above.lam - below.lam) * behind_below / (behind_below - behind_above)
    else:
        # One of them is better all the way, or they cross the wrong way round: the one with the smaller largest gap.
        worst = [max(_gap_at(lam, point, above, below) for lam in (above.lam, below.lam)) for point in (above, below)]
        place = below.lam if worst[0] <= worst[1] else above.lam
    ends = [(above.lam, above if place < above.lam else below), (below.lam, below if place > below.lam else above)]
    inside = min(_gap_at(place, above, above, below), _gap_at(place, below, above, below))
    return place, max(inside, *(_gap_at(lam, point, above, below) for lam, point in ends))
