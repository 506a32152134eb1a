"""Following the optimum from large lambda to small (spec 5, with a second rule of our own).

Weights found at one lambda have an objective that is affine in lambda, and the optimum is concave in it. That makes two rules
for where to solve next:

``"transport"``, the published one: the optimum at ``r lambda`` is at least ``r`` times that at lambda, so the gap of the weights
grows to ``gap + (1 - r) (hinge - gap)`` at worst. Solve again where that reaches epsilon. Steps are of the order of epsilon.

``"interpolate"``: solve farther away, and bound the optimum in between from below by the chord of the two lower bounds, and
from above by the better of the two weights. Where the bounds are too far apart, solve once more in between. Errors are of
second order, so steps are of the order of the root of epsilon.
"""

from __future__ import annotations

import dataclasses
import itertools
import numbers
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.cuts import Bounds, CheckedProblem, Problem
from maxmargin.path.result import Segment, TracedPath
from maxmargin.path.start import Start, start_of_path
from maxmargin.path.weights import WeightStore
from maxmargin.solvers import BCFW, Solution, Solver
from maxmargin.solvers.base import check_bounds

Floats = NDArray[np.float64]
Rule = Literal["interpolate", "transport"]


@dataclass(eq=False)
class Point:
    """A solved lambda: weights, what is proved of them, and what a solver needs to go on from here."""

    lam: float
    weights: NDArray[Any]
    hinge: float
    dual: float
    passes: float
    certified: bool = True
    solution: Solution | None = None

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, dtype=np.float64)
        self.squared = float(weights @ weights)

    def objective(self, lam: float) -> float:
        """At another lambda."""
        return 0.5 * lam * self.squared + self.hinge

    @property
    def gap(self) -> float:
        """At the own lambda; not negative, as rounding may have it."""
        return max(0.0, self.objective(self.lam) - self.dual)


@dataclass
class Progress:
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
    dtype: Any = np.float64,
    time_limit: float | None = None,
    callback: Callable[[Progress], None] | None = None,
    known: list[Point] | None = None,
    keep: Callable[[list[Point], bool], None] | None = None,
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
    known : list of Point, optional
        Points of an earlier run that was interrupted; those of no use for this epsilon are solved anew.
    keep : callable, optional
        Called with all points after every solve, to write them down, and at the end, when the second argument is True.
    """
    check_settings(epsilon, lambda_min, lambda_max, kappa, rule, dtype, time_limit, callback)
    if certified and not problem.exact:
        raise ValueError("the oracle is not exact, so that no path can be certified; pass certified=False for an uncertified one")
    if certified and isinstance(solver, BCFW) and solver.stop == "heuristic":
        raise ValueError("BCFW(stop='heuristic') certifies nothing; use stop='exact', or pass certified=False")
    for point in known or []:
        if len(point.weights) != problem.n_features:
            found, wanted = len(point.weights), problem.n_features
            raise ValueError(f"known has points of {found} weights, but the problem has {wanted} features")
    tracer = _Tracer(problem, float(epsilon), float(lambda_min), float(kappa), solver, bounds, dtype, time_limit, callback, keep)
    # What an uncertified run has left proves nothing.
    usable = [point for point in known or [] if point.certified or not certified]
    return tracer.run(rule, None if lambda_max is None else float(lambda_max), usable)


def check_settings(
    epsilon: Any,
    lambda_min: Any,
    lambda_max: Any = None,
    kappa: Any = 0.9,
    rule: Any = "interpolate",
    dtype: Any = np.float64,
    time_limit: Any = None,
    callback: Any = None,
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


class _Tracer:
    """One run."""

    # Of log lambda: the first step, the longest one, and how much of what seems possible is tried.
    _STEP, _LONGEST, _CAUTION = np.log(4.0), np.log(100.0), 0.8
    # Of the room between kappa * epsilon and epsilon: what a solve must leave. With less, steps would become ever smaller.
    _LEAST_ROOM = 0.1

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        lambda_min: float,
        kappa: float,
        solver: Solver,
        bounds: tuple[ArrayLike, ArrayLike] | None,
        dtype: Any,
        time_limit: float | None,
        callback: Callable[[Progress], None] | None,
        keep: Callable[[list[Point], bool], None] | None,
    ) -> None:
        self.problem = problem
        self.epsilon, self.kappa, self.lambda_min = epsilon, kappa, lambda_min
        self.largest_gap = epsilon * (1.0 - self._LEAST_ROOM * (1.0 - kappa))
        self.solver = solver
        self.bounds = check_bounds(bounds, problem.n_features)
        self.store = WeightStore(problem.n_features, dtype)
        self.storable = self.bounds if self.bounds is None else _storable(self.bounds, self.store.dtype)
        self.time_limit = time_limit
        self.callback, self.keep = callback, keep
        self.began = time.perf_counter()
        self.start: Start | None = None
        self.points: list[Point] = []
        self.passes = 0.0

    def run(self, rule: Rule, lambda_max: float | None, known: list[Point]) -> TracedPath:
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
        return self._result(rule, segments, complete and end <= self.lambda_min, interrupted)

    # ---- solving ---------------------------------------------------------------------------------------------------------------

    def _begin(self, rule: Rule, lambda_max: float | None, known: list[Point]) -> None:
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

    def _closed_form(self, exact: bool) -> Point:
        counted = CheckedProblem(self.problem)
        self.start = start = start_of_path(counted, self.kappa * self.epsilon, self.bounds, exact)
        weights, hinge = start.direction / start.lam if start.lam > 0 else np.zeros(self.problem.n_features), start.hinge
        dual = 0.5 * start.lam * float(weights @ weights) + hinge - start.gap
        stored = self._stored(weights)
        if stored is not weights:
            weights, hinge = stored, counted.mean_cut(stored).hinge(stored)
        return Point(start.lam, weights, hinge, dual, counted.calls / counted.n_blocks, counted.exact)

    def _stored(self, weights: Floats) -> Floats:
        """What will come out of the store for these weights; still within the bounds."""
        if self.store.dtype == np.float64:
            return weights
        rounded = weights.astype(self.store.dtype)
        return (rounded if self.storable is None else np.clip(rounded, *self.storable)).astype(np.float64)

    def _solve(self, lam: float, near: Point | None) -> Point:
        left = None if self.time_limit is None else self.time_limit - (time.perf_counter() - self.began)
        if left is not None and left <= 0:
            raise _Stopped
        solver = dataclasses.replace(
            self.solver,
            epsilon=self.kappa * self.epsilon,
            # Every solve draws numbers of its own, the same in every run.
            random_state=(self.solver.random_state or 0) + len(self.points),
            time_limit=min((limit for limit in (left, self.solver.time_limit) if limit is not None), default=None),
        )
        solution = solver.solve(self.problem, lam, bounds=self.bounds, start=None if near is None else near.solution)
        weights, passes, exact = solution.weights, solution.passes, solution.certified
        hinge = solution.primal - 0.5 * lam * float(weights @ weights)
        stored = self._stored(weights)
        if stored is not weights:
            counted = CheckedProblem(self.problem)
            weights, hinge = stored, counted.mean_cut(stored).hinge(stored)
            passes, exact = passes + 1, exact and counted.exact
        point = Point(lam, weights, hinge, solution.dual, passes, exact, solution)
        if solution.status == "interrupted" or point.gap > self.largest_gap:
            if point.gap < self.epsilon:
                self._insert(point)
            raise KeyboardInterrupt if solution.status == "interrupted" else _Stopped
        return point

    def _insert(self, point: Point, tell: bool = True) -> None:
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
            self.callback(Progress(point.lam, len(self.points), self.passes, time.perf_counter() - self.began))

    def _covers_the_rest(self, point: Point) -> bool:
        """Whether the weights are good enough for every smaller lambda."""
        return point.hinge <= self.epsilon

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

    def _transported(self, point: Point) -> float:
        """The smallest lambda for which the weights are good enough by the published bound; 0 if they are for all."""
        room, growth = self.epsilon - point.gap, point.hinge - point.gap
        if growth <= room:
            return 0.0
        # On the safe side of rounding.
        return point.lam * (1.0 - room / growth) * (1.0 + 1e-12)

    def _interpolate(self) -> None:
        for above, below in list(zip(self.points, self.points[1:], strict=False)):
            self._refine(above, below)
        step = self._STEP
        while True:
            above = self.points[-1]
            if above.lam <= self.lambda_min or self._covers_the_rest(above):
                return
            below = self._solve(max(self.lambda_min, float(above.lam * np.exp(-step))), above)
            self._insert(below)
            width = np.log(above.lam / below.lam)
            room = self.epsilon - max(above.gap, below.gap)
            excess = _crossing(above, below)[1] - max(above.gap, below.gap)
            self._refine(above, below)
            for solved in self.points[:-1]:
                solved.solution = None
            # The distance between the bounds grows with the square of the step.
            longest = width * np.sqrt(room / excess) if excess > 0 else self._LONGEST
            step = float(np.clip(self._CAUTION * longest, 0.2 * width, min(4.0 * width, self._LONGEST)))

    def _refine(self, above: Point, below: Point) -> None:
        """Solve in between until the whole range is covered."""
        waiting = [(above, below)]
        while waiting:
            above, below = waiting.pop()
            place, worst = _crossing(above, below)
            if worst <= self.epsilon:
                continue
            # Well inside, also where the two objectives hardly differ.
            inside = np.clip(np.log(place / below.lam) / np.log(above.lam / below.lam), 0.1, 0.9)
            lam = below.lam * (above.lam / below.lam) ** float(inside)
            if not below.lam < lam < above.lam:
                # No room that rounding would not take.
                raise _Stopped
            middle = self._solve(lam, above if inside > 0.5 and above.solution is not None else below)
            self._insert(middle)
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
        last = self.points[-1]
        if self._covers_the_rest(last) and last.lam > 0:
            segments.append(Segment(last.lam, 0.0, len(self.points) - 1, last.gap, max(last.gap, last.hinge)))
        return segments

    def _result(self, rule: Rule, segments: list[Segment], complete: bool, interrupted: bool) -> TracedPath:
        for point in self.points:
            self.store.append(point.weights)
        columns = {
            name: np.array([getattr(point, name) for point in self.points])
            for name in ("lam", "hinge", "squared", "dual", "passes")
        }
        return TracedPath(
            epsilon=self.epsilon,
            kappa=self.kappa,
            rule=rule,
            n_blocks=self.problem.n_blocks,
            lambdas=columns["lam"],
            hinges=columns["hinge"],
            squared_norms=columns["squared"],
            duals=columns["dual"],
            passes=columns["passes"],
            store=self.store,
            segments=segments,
            certified=all(point.certified for point in self.points),
            complete=complete,
            closed_form=self.start is not None,
            start_gap=self.points[0].gap,
            interrupted=interrupted,
        )


def _storable(bounds: Bounds, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
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


def _gap_at(lam: float, point: Point, above: Point, below: Point) -> float:
    """Objective of the weights minus the chord of the lower bounds."""
    share = (lam - below.lam) / (above.lam - below.lam)
    return max(0.0, point.objective(lam) - (share * above.dual + (1.0 - share) * below.dual))


def _crossing(above: Point, below: Point) -> tuple[float, float]:
    """Where to change from the weights above to those below, and the largest gap in the whole range."""
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
