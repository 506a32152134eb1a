"""Batch methods: one pass over all blocks makes one direction (spec 3.2 and 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from maxmargin import _core
from maxmargin._utils import Floats, check_choice
from maxmargin.core import CheckedProblem, Cut, Problem, entries
from maxmargin.core.solvers.base import Run, Solver
from maxmargin.core.solvers.engine import EngineRun
from maxmargin.core.solvers.solution import Solution

if TYPE_CHECKING:
    from maxmargin.core.solvers.cutting_plane import KnownCuts


class _Whole(Problem):
    """All blocks as one, whose cut is their mean."""

    n_blocks = 1

    def __init__(self, problem: CheckedProblem) -> None:
        self.problem = problem
        self.n_features = problem.n_features

    def cut(self, block: int, weights: Floats) -> Cut:
        """The mean cut."""
        return self.problem.mean_cut(weights)


def _whole(run: Run, start: Solution | KnownCuts | None) -> EngineRun:
    data = _core.PythonOracle(_Whole(run.problem), 1, run.problem.n_features)
    return EngineRun(run, _core.BlockSettings.frank_wolfe("uniform", "fw", 0, 0), start, kind="whole", data=data)


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Solver):
    """Frank-Wolfe on the dual with exact line search; the duality gap comes for free with every pass."""

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        whole = _whole(run, start)
        while not whole.gap_pass(calls=0):
            whole.engine.step_all()


@dataclass(frozen=True, kw_only=True)
class Subgradient(Solver):
    """The (projected) subgradient method.

    By default Pegasos: one block per step, every one once per pass, steps ``1 / (lambda t)``.

    Parameters
    ----------
    batch_size : int, optional
        Blocks per step with ``average="rising"``; all by default. If fewer, they are drawn at random, the iterates are averaged
        and checked once in a while, and the only dual bound is zero: the gap is proved, and useless.
    average : {"last_half", "rising"}
        ``"last_half"`` is Pegasos with the average of about the last half of all weights. The cuts of whole passes bound the
        optimum from below, so the gap means something. Hinges that are not convex (:class:`maxmargin.surrogates.ProbLoss`) are
        always treated so, and nothing is certified. ``"rising"`` takes all blocks, or ``batch_size`` of them, per step. A step of
        all blocks is a Frank-Wolfe step of fixed length ``2 / (t + 1)``, so a dual value and a gap come with it. Where C is large
        it needs very many passes to fall below the objective of zero weights.
    """

    batch_size: int | None = None
    average: Literal["rising", "last_half"] = "last_half"

    _takes_any = True

    def __post_init__(self) -> None:
        check_choice("average", self.average, ("rising", "last_half"))
        if self.batch_size is not None and self.average != "rising":
            raise ValueError(f"batch_size={self.batch_size} needs average='rising': average='last_half' takes one block per step")

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        convex = run.problem.problem.convex
        # The objective is computed, not a bound of it; but there is no lower bound of anything.
        run.proved &= convex
        if self.average == "last_half" or not convex:
            self._pegasos(run, convex)
            return
        if self.batch_size is not None and self.batch_size < run.n:
            self._stochastic(run, self.batch_size)
            return
        whole = _whole(run, start)
        t = 1
        while not whole.gap_pass(calls=0):
            whole.engine.step_all(2.0 / (t + 1))
            t += 1

    def _pegasos(self, run: Run, convex: bool) -> None:
        weights = run.project(np.zeros(run.problem.n_features))
        average, total, loss = weights.copy(), np.zeros_like(weights), 0.0
        t, epoch, begun = 0, 0, 0
        while True:
            for block in run.rng.permutation(run.n).tolist():
                t += 1
                cut = run.problem.cuts([block], weights)[0]
                weights = (1.0 - 1.0 / t) * weights
                at, values = entries(cut.psi)
                weights[at] += values / (run.lam * t)
                weights = run.project(weights)
                average += (weights - average) / (t - begun * run.n)
                cut.add_to(total)
                loss += cut.loss
                if run.out_of_time():
                    break
            epoch += 1
            full = t == epoch * run.n
            dual = -np.inf
            if convex and full and run.bounds is None:
                # The mean of the cuts of whole passes is a lower bound of the mean hinge.
                passes = epoch - begun
                psi = total / (passes * run.n)
                dual = loss / (passes * run.n) - 0.5 * float(psi @ psi) / run.lam
            if not full or epoch & (epoch - 1) == 0 or run.passes + 1 >= self.max_passes or epoch % 10 == 0:
                cut = run.problem.mean_cut(average)
                ridge, missed = 0.5 * run.lam * float(average @ average), cut.upper(average) - cut.hinge(average)
                if run.check(average, ridge + cut.upper(average), max(0.0, dual), missed):
                    return
            if epoch == 2 * begun or epoch == 1:
                # What came before is no longer the last half.
                begun, average, loss = epoch, weights.copy(), 0.0
                total[:] = 0.0

    def _stochastic(self, run: Run, batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be positive")
        weights = run.project(np.zeros(run.problem.n_features))
        average = weights.copy()
        t, next_check = 1, 0.0
        while True:
            if run.passes >= next_check or run.out_of_time():
                # A full pass for the objective of the averaged weights.
                cut = run.problem.mean_cut(average)
                ridge, missed = 0.5 * run.lam * float(average @ average), cut.upper(average) - cut.hinge(average)
                if run.check(average, ridge + cut.upper(average), 0.0, missed):
                    return
                next_check = run.passes + 10
            step = 2.0 / (t + 1)
            target = np.zeros_like(weights)
            for cut in run.problem.cuts(run.rng.choice(run.n, batch_size, replace=False).tolist(), weights):
                cut.add_to(target)
            weights = run.project((1.0 - step) * weights + step / (run.lam * batch_size) * target)
            average += (weights - average) * 2.0 / (t + 1)
            t += 1
