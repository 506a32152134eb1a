"""One door to the relaxations of an energy: fractional labelings with lower bounds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, StatusLine, check_choice, seconds_left
from maxmargin._utils import time_limit as limited
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.fractional import FractionalLabeling, check_not_negative, expected_energy, generator, marginals_for
from maxmargin.labeling.frank_wolfe import Step, frank_wolfe, softmin
from maxmargin.labeling.local_polytope import Relaxation, minimize_relaxation
from maxmargin.labeling.messages import TableShape, table_shape
from maxmargin.labeling.potts_program import potts_program
from maxmargin.labeling.primal_dual import State, check_pairs, primal_dual
from maxmargin.labeling.result import Callback
from maxmargin.labeling.spreads import Spreads, check_sums

RelaxationName = Literal["auto", "lp", "first_order", "qp", "convex_qp", "trws"]
RELAXATIONS: tuple[RelaxationName, ...] = get_args(RelaxationName)
_TOLERANCE = {"lp": 1e-6, "first_order": 1e-4, "qp": 1e-6, "convex_qp": 1e-3, "trws": 1e-9}
_MOST = {"lp": 1, "first_order": 20_000, "qp": 1000, "convex_qp": 2000, "trws": 1000}
# So many variables are a matter of seconds for HiGHS.
_SMALL = 60_000
# Value and bound this close are not told apart by solvers: as a part of what a point costs beyond the least of every term, and of
# what labelings can differ by, which pairs that are all but forbidden make huge.
_CLOSE, _ROUNDING = 1e-7, float(np.finfo(np.float64).eps)
_SWEEPS = 10


def relax(
    energy: Energy,
    method: RelaxationName = "auto",
    *,
    tol: float | None = None,
    max_iter: int | None = None,
    time_limit: float | None = None,
    init: str | FractionalLabeling | ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    temperature: float = 1.0,
    callback: Callback | None = None,
    verbose: bool = False,
) -> FractionalLabeling:
    """Marginals of nodes that cost little, and a lower bound of the energy of all labelings.

    Parameters
    ----------
    energy : Energy
        Without cliques. Unary costs may be infinite.
    method : {"auto", "lp", "first_order", "qp", "convex_qp", "trws"}
        - ``"lp"``: the least over the local polytope, where marginals of pairs agree with those of nodes. HiGHS solves it: for
          Potts in a small form, otherwise over what messages leave.
        - ``"first_order"``: the same up to ``tol``, for images. Primal-dual steps (Chambolle and Pock) with averages and
          restarts, from where TRW-S ends: they need a pass over the costs each and no factorisation, and their multipliers give
          a bound at any time, which may still rise where that of TRW-S is stuck.
        - ``"qp"``: products of marginals for those of pairs, by Frank-Wolfe steps with exact line search; values never rise. The
          value is the mean energy if every node draws for itself. It ends where no step helps, without a bound.
        - ``"convex_qp"``: the same made convex, with a bound, which is a weak one.
        - ``"trws"``: ``exp(-m / temperature)`` of the min-marginals ``m`` of TRW-S, whose bound never falls; exact on trees. The
          value is that of complete rounding's pairs, as a point of the local polytope.
        - ``"auto"``: ``"lp"`` for small energies, ``"first_order"`` for others; both are exact on trees.
    tol : float, optional
        The gap between value and bound to end with, as a part of the value beyond the least costs of all nodes, so that offsets
        do not matter: 1e-6, for ``"first_order"`` 1e-4, for ``"convex_qp"`` 1e-3. For ``"qp"`` what a step could gain, for
        ``"trws"`` what a sweep does gain (1e-9).
    max_iter : int, optional
        Steps or sweeps; not for ``"lp"``.
    time_limit : float, optional
        Seconds; the best point so far is returned, as after Ctrl-C.
    init : {"unary", "uniform", "random"}, FractionalLabeling or array of shape (N, L), optional
        Where ``"qp"`` and ``"convex_qp"`` start: softmax of unary costs by default.
    random_state : int, Generator or None
        For ``init="random"``.
    temperature : float
        For ``"trws"``, in the unit of costs.
    callback : function, optional
        ``callback(value, lower_bound)`` is called on the way.
    verbose : bool
        Say how far it is.

    Returns
    -------
    FractionalLabeling
        ``certified`` if value and bound meet.

    Examples
    --------
    Three nodes that would all like to differ, with two labels; half of each is better than any labeling:

    >>> energy = Energy(np.zeros((3, 2)), [(0, 1), (1, 2), (2, 0)], np.eye(2))
    >>> relax(energy)
    FractionalLabeling(3 nodes, 2 labels, 3 fractional, value=0, the least, method='lp')
    >>> relax(energy).marginals[0]
    array([0.5, 0.5])
    >>> round(relax(energy, "qp", init="uniform").value, 9)
    1.5
    """
    check_choice("method", method, RELAXATIONS)
    check_energy(energy)
    check_not_negative("tol", tol)
    check_not_negative("time_limit", time_limit)
    if max_iter is not None and (isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0):
        raise ValueError(f"max_iter={max_iter!r} must be a whole number that is not negative, or None")
    if not isinstance(temperature, int | float | np.number) or not 0 < temperature < math.inf:
        raise ValueError(f"temperature={temperature!r} must be a positive number, in the unit of costs")
    chosen = _automatic(energy) if method == "auto" else method
    if init is not None and chosen not in ("qp", "convex_qp"):
        raise ValueError(f"init is where 'qp' and 'convex_qp' start, but method={chosen!r}; leave it out")
    plain, unit, low = _plain(energy)
    tolerance = _TOLERANCE[chosen] if tol is None else tol
    with StatusLine(f"relax {chosen}", shown=verbose) as line, limited(time_limit):
        run = _Run(plain, unit, math.fsum(low), tolerance, _MOST[chosen] if max_iter is None else int(max_iter), callback, line)
        if chosen in ("qp", "convex_qp"):
            run.by_frank_wolfe(_start(energy, init, random_state), chosen == "convex_qp")
        elif chosen == "trws":
            run.by_messages(temperature / unit)
        elif chosen == "lp":
            run.by_linear_program()
        else:
            run.by_primal_dual()
    return run.result(chosen, energy.shape)


def check_energy(energy: Energy) -> None:
    """Complain about what has no fractional labelings here."""
    if isinstance(energy, Energy) and not energy.cliques:
        return
    marginals_for(np.ones((1, 1)), energy)


def _plain(energy: Energy) -> tuple[Energy, float, Floats]:
    """The energy without what every labeling costs, in a unit that solvers like; that unit, and the least cost of every node."""
    low = energy.unary.min(axis=1)
    # A power of two, so that nothing is rounded.
    spread = check_sums(energy).scale / energy.n_nodes
    unit = math.ldexp(1.0, math.frexp(spread)[1]) if 0 < spread < math.inf else 1.0
    plain = energy.replaced(unary=(energy.unary - low[:, None]) / unit)
    plain.weights = energy.weights / unit
    return plain, unit, low


def _automatic(energy: Energy) -> Literal["lp", "first_order"]:
    edges = len(energy.edges)
    potts = table_shape(energy.table).kind == "potts" and bool((energy.weights >= 0).all())
    size = edges * energy.n_labels * (2 if potts else energy.n_labels)
    return "lp" if size <= _SMALL else "first_order"


def _start(
    energy: Energy, init: str | FractionalLabeling | ArrayLike | None, random_state: int | np.random.Generator | None
) -> Floats:
    if init is None or isinstance(init, str):
        check_choice("init", "unary" if init is None else init, ("unary", "uniform", "random"))
        allowed = np.isfinite(energy.unary)
        if init == "uniform":
            return np.asarray(allowed / allowed.sum(axis=1, keepdims=True))
        if init == "random":
            shares = generator(random_state).exponential(size=allowed.shape) * allowed
            return np.asarray(shares / shares.sum(axis=1, keepdims=True))
        return softmin(energy.unary)
    y = marginals_for(init, energy, "init")
    if (y[np.isinf(energy.unary)] > 0).any():
        node, label = (int(k) for k in np.argwhere((y > 0) & np.isinf(energy.unary))[0])
        raise ValueError(f"init has {y[node, label]:g} of label {label} at node {node}, which unary forbids; set it to 0")
    return y


@dataclass
class _Run:
    """An energy without what all labelings have in common, and what is known of its relaxation so far."""

    energy: Energy
    unit: float
    offset: float
    tol: float
    max_iter: int
    callback: Callback | None
    line: StatusLine
    nodes: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    value: float = math.inf
    bound: float = -math.inf
    history: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    status: str = "max_iter"
    message: str = ""

    def __post_init__(self) -> None:
        self.begin = time.monotonic()
        spreads = Spreads.of(self.energy)
        self.scale = spreads.scale
        least, most = self.energy.table_range
        # No labeling costs less: the least of every node is nothing.
        self.trivial = float(np.minimum(self.energy.weights * least, self.energy.weights * most).sum())
        # Dearer by more than all that is around a node: in no best point, of whatever relaxation.
        dear = 2 * np.maximum(spreads.around, max(spreads.scale, 1.0) / self.energy.n_nodes)
        forbidden = np.isinf(self.energy.unary)
        most = np.where(forbidden, -np.inf, self.energy.unary).max(axis=1) + dear
        self.finite = (
            self.energy.replaced(unary=np.where(forbidden, most[:, None], self.energy.unary)) if forbidden.any() else self.energy
        )

    def whole(self, value: float) -> float:
        """A value in the unit of the energy, with what all labelings cost."""
        return value * self.unit + self.offset

    def least_gap(self, value: float) -> float:
        """What is no gap between a value and its bound."""
        return max(_CLOSE * min(self.scale, abs(value - self.trivial)), _ROUNDING * self.scale)

    @property
    def has_met(self) -> bool:
        """Whether value and bound are as close as was asked for."""
        asked = self.tol * max(abs(self.value), abs(self.bound))
        return self.value - self.bound <= max(asked, self.least_gap(self.value))

    def told(self, nodes: Floats, value: float, bound: float) -> bool:
        """Take down a state; whether to stop, because time is up."""
        # Rounding may have made a bound higher than the value that it has met.
        self.nodes, self.value, self.bound = nodes, value, min(max(bound, self.bound), value)
        self.history.append(self.whole(value))
        if self.bound > -math.inf:
            self.bounds.append(self.whole(self.bound))
        known = self.bounds[-1] if self.bounds else None
        self.line.show(f"value {self.history[-1]:.7g}" + ("" if known is None else f", at least {known:.7g}"))
        if self.callback is not None:
            self.callback(self.history[-1], known)
        if seconds_left() == 0:
            self.status = "time_limit"
        return self.status == "time_limit"

    def by_linear_program(self) -> None:
        """HiGHS."""
        shape = table_shape(self.energy.table)
        if shape.kind == "potts" and (self.energy.weights >= 0).all():
            try:
                # Often TRW-S has met its bound already.
                primal_dual(self.energy, self.finite, 0, self._pursue)
                found = None if self.has_met else potts_program(self.energy, shape.slope)
                if found is not None:
                    self.told(found[0], found[1], min(found[2], found[1]))
                elif not self.has_met and seconds_left() == 0:
                    self.status = "time_limit"
                    self.message = "time was up before the linear program was solved; this is a labeling by TRW-S"
            except KeyboardInterrupt:
                self.interrupted()
        else:
            point, value, bound = self._least_of_pairs(shape)
            nodes = point.nodes
            if self.finite is not self.energy:
                # What solvers leave of forbidden labels, a billionth at most, goes to the others.
                nodes = np.where(np.isinf(self.energy.unary), 0.0, nodes)
                point = point._replace(nodes=nodes / nodes.sum(axis=1, keepdims=True)).repaired(self.energy.edges)
                costs = self.finite.weights[:, None, None] * self.finite.table
                nodes, value = point.nodes, float(np.vdot(point.nodes, self.finite.unary) + np.vdot(point.pairs, costs))
            self.told(nodes, value, min(bound, value))
        if self.has_met:
            self.status = "converged"
        elif self.status == "interrupted":
            self.message = "interrupted before the linear program was solved; this is the best point so far"
        elif not self.message:
            self.status = "time_limit" if seconds_left() == 0 else "max_iter"
            self.message = "the linear programs left a gap; method='first_order' closes it step by step"

    def _least_of_pairs(self, shape: TableShape) -> Relaxation:
        """The least over marginals of pairs; after Ctrl-C the best of them so far."""
        # Costs, what messages leave of them, and a point and what is repaired of it.
        check_pairs(self.energy, 5)
        states: list[Relaxation] = []

        def goal(found: Relaxation) -> bool:
            states.append(found)
            return found.value - found.bound <= self.least_gap(found.value)

        messages = _core.MessagePassing(self.energy.n_nodes, self.energy.n_labels, self.energy.edges, True)
        terms = (self.finite.unary, self.finite.table, self.finite.weights, shape)
        try:
            return minimize_relaxation(messages, self.energy.edges, *terms, goal)
        except KeyboardInterrupt:
            if not states:
                raise
            self.status = "interrupted"
            return states[-1]

    def by_primal_dual(self) -> None:
        """Chambolle-Pock steps."""
        try:
            primal_dual(self.energy, self.finite, self.max_iter, self._pursue)
        except KeyboardInterrupt:
            self.interrupted()

    def _pursue(self, state: State) -> bool:
        late = self.told(state.nodes, state.value, min(state.bound, state.value))
        if self.has_met:
            self.status = "converged"
        return late or self.has_met

    def by_frank_wolfe(self, start: Floats, convex: bool) -> None:
        """Quadratic relaxations."""

        def goal(step: Step) -> bool:
            # Under a convex function lies its tangent.
            late = self.told(step.nodes, step.value, step.value - step.gap if convex else -math.inf)
            if step.gap <= max(self.tol * abs(step.value), self.least_gap(step.value)):
                self.status = "converged"
            return late or self.status == "converged"

        try:
            frank_wolfe(self.energy, start, convex, self.max_iter, goal)
        except KeyboardInterrupt:
            self.interrupted()
        if not convex:
            self.message = "no step helps any more" if self.status == "converged" else "steps would still help"

    def by_messages(self, temperature: float) -> None:
        """Min-marginals of TRW-S."""
        energy = self.energy
        messages = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
        terms = (energy.unary, energy.table, energy.weights, *table_shape(energy.table))
        least, best, done = math.inf, -math.inf, 0
        try:
            while self.status == "max_iter" and (done < self.max_iter or done == 0):
                n = max(1, min(_SWEEPS, self.max_iter - done))
                _, energies, bounds, settled = messages.run(*terms, n, self.tol)
                done, least = done + len(bounds), min(least, float(energies.min()))
                before, best = best, max(best, float(bounds.max()))
                best = least if messages.is_forest else min(best, least)
                if settled or least - best <= self.least_gap(least) or best - before <= n * self.tol * abs(best):
                    self.status = "converged"
                if self.status == "max_iter" and seconds_left() == 0:
                    self.status = "time_limit"
                self.bounds.append(self.whole(best))
                self.line.show(f"bound {self.bounds[-1]:.7g}, labels of energy {self.whole(least):.7g}")
                if self.callback is not None:
                    self.callback(self.whole(least), self.bounds[-1])
        except KeyboardInterrupt:
            if done == 0:
                raise
            self.status = "interrupted"
        self.message = f"the best labels on the way have energy {self.whole(least):.10g}"
        self.nodes = softmin(messages.min_marginals(*terms), temperature)
        self.value = expected_energy(self.nodes, energy)
        self.history.append(self.whole(self.value))
        # No point costs less than the bound, but its sum may be rounded down.
        self.bound, self.bounds = min(best, self.value), [min(one, self.history[-1]) for one in self.bounds]

    def interrupted(self) -> None:
        """Go on if there is something to go on with."""
        if not self.history:
            raise KeyboardInterrupt
        self.status = "interrupted"

    def result(self, method: str, shape: tuple[int, ...]) -> FractionalLabeling:
        """What is known at the end."""
        bound = None if self.bound == -math.inf else self.whole(self.bound)
        certified = bound is not None and self.has_met
        more = (tuple(self.history), tuple(self.bounds), shape, time.monotonic() - self.begin, self.status, self.message)
        return FractionalLabeling(self.nodes, self.whole(self.value), bound, certified, method, *more)
