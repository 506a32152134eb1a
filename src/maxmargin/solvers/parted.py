"""Block-coordinate Frank-Wolfe in several places at once, with exact aggregation.

Every place makes steps on its own blocks while the parts of all others are fixed. What they have found is combined by the best
convex combination of old and new points: each place has a factor between 0 and 1, and the dual is a concave quadratic in these.
Averaging (Jaggi et al. 2014, CoCoA) is one candidate, so a round never gains less than that.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, get_args

import numpy as np

from maxmargin._types import Floats
from maxmargin._validation import check_choice
from maxmargin.cuts import Capability, PartedProblem
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.solution import Solution

Aggregate = Literal["qp", "line", "add", "average"]
BlockSteps = Literal["best", "fw"]


@dataclass(frozen=True, kw_only=True)
class PartedBCFW(Solver):
    """Block steps in all shards at once; the choice for classes, and where the small problem of cutting planes is dear.

    More local work does not replace rounds, of which there are the more the more shards there are and the smaller lambda is; the
    passes of :class:`OneSlackCuttingPlane` do not depend on the shards. Steps are made by the compiled engine, which keeps the
    features of a shard in memory. Without bounds on the weights.

    Parameters
    ----------
    aggregate : {"qp", "line", "add", "average"}
        Factors of the steps of all shards: the best ones, by a quadratic program; the best common one; 1, with steps so much
        shorter that they may be added up (CoCoA+); one over their number (CoCoA).
    epochs : int
        Steps of every block in a round.
    steps : {"best", "fw"}
        To the best point of the whole block, where blocks know it (classes, sets of labels), and toward the oracle's output
        elsewhere; or always toward the oracle's output.
    check_every : int
        Rounds between exact checks of the gap, which cost a pass each; one at the weights, and one at their average.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ProblemSource, ShardedMean
    >>> from maxmargin.problems import MulticlassProblem
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 1, 1])
    >>> sources = [ProblemSource(MulticlassProblem, (X[k], y[k], 2)) for k in ([0, 1], [2])]
    >>> found = PartedBCFW().solve(ShardedMean(LocalEngine(sources)), 0.1)
    >>> found.certified, round(found.primal, 3)
    (True, 0.125)
    """

    aggregate: Aggregate = "qp"
    epochs: int = 1
    steps: BlockSteps = "best"
    check_every: int = 5

    def __post_init__(self) -> None:
        check_choice("aggregate", self.aggregate, get_args(Aggregate))
        check_choice("steps", self.steps, get_args(BlockSteps))
        for name in ("epochs", "check_every"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} must be a whole number, at least 1")

    @property
    def needs(self) -> frozenset[Capability]:
        """Places that make steps of their own."""
        return frozenset({"epochs of parts"})

    def _iterate(self, run: Run, start: Solution | None) -> None:
        if run.bounds is not None:
            raise ValueError("bounds are not known to PartedBCFW; use OneSlackCuttingPlane")
        if run.problem.problem.bounds is not None:
            raise ValueError("the oracles need bounds on the weights, which PartedBCFW does not know; use OneSlackCuttingPlane")
        state = _Parts(run)
        steps = "exact" if self.steps == "best" else "fw"
        asked = {"run": secrets.token_hex(8), "lam": run.lam, "n_epochs": self.epochs, "steps": steps, "seed": self.random_state}
        average = np.zeros(run.problem.n_features)
        for number in count():
            now = {**asked, "round": number}
            state.round(self.aggregate, now)
            # Later weights count more, as the third power of the round.
            average += 4 * (state.weights - average) / (number + 4)
            late = run.passes >= self.max_passes or run.out_of_time()
            due = (number + 1) % self.check_every == 0 or late
            if due and (state.check(state.weights, now) or state.check(average, now)):
                return


class _Parts:
    """The parts of the weights, and of the linear term of the dual, that every place has; zero in the beginning."""

    def __init__(self, run: Run) -> None:
        self.run, self.lam = run, run.lam
        problem: Any = run.problem.problem
        self.problem: PartedProblem = problem
        self.weights = np.zeros(run.problem.n_features)
        self.parts = [np.zeros(len(self.weights)) for _ in range(self.problem.n_parts)]
        self.linear = [0.0] * len(self.parts)

    @property
    def dual(self) -> float:
        """The dual objective."""
        return math.fsum(self.linear) - 0.5 * self.lam * float(self.weights @ self.weights)

    def round(self, aggregate: Aggregate, asked: dict[str, Any]) -> None:
        """Steps everywhere, and the best of them."""
        asked = {**asked, "curvature": float(len(self.parts)) if aggregate == "add" else 1.0}
        steps = self.problem.epoch(self.weights, asked)
        self.run.problem.calls += self.run.n * asked["n_epochs"]
        for k, step in enumerate(steps):
            if step is None:
                self._forget(k)
        changes = np.array([np.zeros(len(self.weights)) if step is None else step.change for step in steps])
        gains = np.array([0.0 if step is None else step.gain for step in steps])
        factors = best_factors(changes, gains, self.weights, self.lam, aggregate)
        for k, kept in enumerate(self.problem.mix(factors.tolist(), asked)):
            if not kept and steps[k] is not None:
                self._forget(k)
            elif kept:
                self.parts[k] = self.parts[k] + factors[k] * changes[k]
                self.linear[k] += float(factors[k] * gains[k])
        self._add_up()

    def _forget(self, k: int) -> None:
        """A place is back at the truth: the dual falls, and whatever was proved stays so."""
        self.parts[k], self.linear[k] = np.zeros(len(self.weights)), 0.0
        self._add_up()

    def _add_up(self) -> None:
        self.weights = np.sum(self.parts, axis=0)

    def check(self, weights: Floats, asked: dict[str, Any]) -> bool:
        """An exact gap at some weights, by a pass."""
        run = self.run
        upper, missed = self.problem.hinge(weights, asked)
        run.problem.calls += run.n
        run.problem.notice()
        ridge, dual = 0.5 * self.lam * float(weights @ weights), self.dual
        return run.check(weights, ridge + max(upper, 0.0), dual, missed, run.curve(dual, self.weights))


def best_factors(changes: Floats, gains: Floats, weights: Floats, lam: float, aggregate: Aggregate = "qp") -> Floats:
    """Factors within [0, 1] of the steps of K places, ``changes`` of shape (K, d) and ``gains`` of shape (K,).

    With "qp" they maximise the dual, ``gains . f - lambda/2 ||weights + f . changes||^2``, by coordinate ascent, which never ends
    below where it began: at the best common factor.

    Examples
    --------
    >>> best_factors(np.eye(2), np.array([0.5, 3.0]), np.zeros(2), 1.0)
    array([0.5, 1. ])
    """
    n = len(gains)
    if aggregate in ("add", "average"):
        return np.full(n, 1.0 if aggregate == "add" else 1.0 / n)
    gram, slopes = lam * (changes @ changes.T), gains - lam * (changes @ weights)
    slope, curvature = float(slopes.sum()), float(gram.sum())
    common = 0.0 if slope <= 0 else 1.0 if curvature <= slope else slope / curvature
    factors = np.full(n, common)
    if aggregate == "line":
        return factors
    rest = slopes - gram @ factors
    for _ in range(1000):
        largest = 0.0
        for k in range(n):
            room = rest[k] / gram[k, k] if gram[k, k] > 0 else math.copysign(1.0, rest[k]) if rest[k] else 0.0
            move = float(np.clip(factors[k] + room, 0.0, 1.0) - factors[k])
            if move:
                factors[k] += move
                rest -= move * gram[k]
                largest = max(largest, abs(move))
        if largest <= 1e-12:
            break
    return factors
