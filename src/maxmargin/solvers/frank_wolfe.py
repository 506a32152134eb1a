"""Batch methods: one pass over all blocks makes one direction (spec 3.2 and 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.dual import Dual
from maxmargin.solvers.solution import Solution


def mean_cut(run: Run, weights: NDArray[np.float64]) -> tuple[Cut, float]:
    """The average of all blocks' cuts at ``weights``, and the mean hinge there. One pass."""
    cut = run.problem.mean_cut(weights)
    return cut, cut.hinge(weights)


def _start(run: Run, start: Solution | None) -> Dual:
    """The whole problem as one block; a warm start keeps the dual variables."""
    if start is not None and isinstance(start.state, Dual):
        return start.state.rescaled(run.lam, run.bounds)
    return Dual(1, run.problem.n_features, run.lam, run.bounds)


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(Solver):
    """Frank-Wolfe on the dual with exact line search; the duality gap comes for free with every pass."""

    def _iterate(self, run: Run, start: Solution | None) -> None:
        run.state = dual = _start(run, start)
        while True:
            weights = dual.weights
            cut, hinge = mean_cut(run, weights)
            if run.check(weights, dual.primal(weights, hinge), dual.value, curve=run.curve(dual.value, weights)):
                return
            v, loss = dual.corner(cut)
            slope = dual.block_gap(0, weights, v, loss)
            dual.move(0, v, loss, dual.step_size(slope, v - dual.v_block[0], 1.0))


@dataclass(frozen=True, kw_only=True)
class Subgradient(Solver):
    """The (projected) subgradient method with steps ``2 / (lambda (t + 1))``.

    A batch step is a Frank-Wolfe step of fixed length ``2 / (t + 1)``, so a dual value and a gap come with it. With a
    ``batch_size`` smaller than the problem only a random part of the blocks is looked at per step; then the iterates are
    averaged, checked once in a while, and the only dual bound is zero.

    Parameters
    ----------
    batch_size : int, optional
        Blocks per step; all by default.
    """

    batch_size: int | None = None

    def _iterate(self, run: Run, start: Solution | None) -> None:
        if self.batch_size is None or self.batch_size >= run.n:
            self._batch(run, start)
        else:
            self._stochastic(run, self.batch_size)

    def _batch(self, run: Run, start: Solution | None) -> None:
        run.state = dual = _start(run, start)
        t = 1
        while True:
            weights = dual.weights
            cut, hinge = mean_cut(run, weights)
            if run.check(weights, dual.primal(weights, hinge), dual.value, curve=run.curve(dual.value, weights)):
                return
            dual.move(0, *dual.corner(cut), 2.0 / (t + 1))
            t += 1

    def _stochastic(self, run: Run, batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be positive")
        weights = run.project(np.zeros(run.problem.n_features))
        average = weights.copy()
        t, next_check = 1, 0.0
        while True:
            if run.passes >= next_check:
                # A full pass for the objective of the averaged weights.
                _, hinge = mean_cut(run, average)
                if run.check(average, 0.5 * run.lam * float(average @ average) + hinge, 0.0):
                    return
                next_check = run.passes + 10
            blocks = run.rng.choice(run.n, batch_size, replace=False)
            psi = np.mean([cut.psi for cut in run.problem.cuts(blocks.tolist(), weights)], axis=0)
            step = 2.0 / (t + 1)
            weights = run.project((1.0 - step) * weights + step / run.lam * psi)
            average += (weights - average) * 2.0 / (t + 1)
            t += 1
