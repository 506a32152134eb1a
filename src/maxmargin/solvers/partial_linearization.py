"""Partial linearization: Frank-Wolfe with an entropy left in the linear problem, so that directions are distributions.

At temperature 0 it is Frank-Wolfe; with full steps it is the exponentiated gradient (spec A2-A9). Needs a model that can
average over outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from maxmargin.cuts import ExpectationProblem
from maxmargin.solvers import compiled
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.bcfw import make_sampler
from maxmargin.solvers.dual import Dual
from maxmargin.solvers.solution import Solution

# No dual variable may become exactly zero: it could never grow again.
_ALMOST_ONE = 1.0 - 2.0**-52


@dataclass(frozen=True, kw_only=True)
class PartialLinearization(Solver):
    """Partial linearization, block by block (BCPL) or all blocks at once (PL).

    Parameters
    ----------
    temperature : float
        Of the entropy; 0 gives Frank-Wolfe directions. Above ``R**2 / (4 lambda n)``, with R the largest norm of a
        feature difference, steps are full and the method is the exponentiated gradient.
    block : bool
        Block-coordinate version.
    check_every : float
        Passes between exact checks of the gap.
    """

    temperature: float = 0.01
    block: bool = True
    check_every: float = 1

    def _iterate(self, run: Run, start: Solution | None) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature={self.temperature} must not be negative")
        passes = max(1, round(self.check_every))
        problem, data = run.problem.problem, compiled.block_data(run)
        if data is not None and isinstance(problem, ExpectationProblem):
            return compiled.iterate_partial_linearization(
                run,
                start,
                data,
                diameter=problem.diameter(),
                temperature=self.temperature,
                rule="line_search",
                block=self.block,
                passes=passes,
            )
        state = _DistributionState.make(run, start)
        run.state = state
        order = make_sampler("permutation", run.n, run.rng)
        while not state.check(run):
            for _ in range(passes):
                if self.block:
                    for _ in range(run.n):
                        self._block_step(run, state, order.draw())
                else:
                    self._batch_step(run, state)
        return None

    def _block_step(self, run: Run, state: _DistributionState, block: int) -> None:
        dual = state.dual
        weights = dual.weights
        run.problem.calls += 1
        direction, v, loss = state.direction(block, weights, self.temperature)
        slope = dual.block_gap(block, weights, v, loss)
        step = self._step(dual, slope, v - dual.v_block[block])
        dual.move(block, v, loss, step)
        state.mix(block, direction, step)

    def _batch_step(self, run: Run, state: _DistributionState) -> None:
        dual = state.dual
        weights = dual.weights
        run.problem.calls += run.n
        directions = [state.direction(block, weights, self.temperature) for block in range(run.n)]
        total = np.sum([v for _, v, _ in directions], axis=0) - dual.v
        slope = sum(dual.block_gap(block, weights, v, loss) for block, (_, v, loss) in enumerate(directions))
        step = self._step(dual, slope, total)
        for block, (direction, v, loss) in enumerate(directions):
            dual.move(block, v, loss, step)
            state.mix(block, direction, step)

    def _step(self, dual: Dual, slope: float, direction: Any) -> float:
        return min(_ALMOST_ONE, dual.step_size(slope, direction, 1.0))


@dataclass(frozen=True, kw_only=True)
class ExponentiatedGradient(Solver):
    """Exponentiated gradient with learning rate ``n / temperature``, online or in batches.

    Parameters
    ----------
    temperature : float
        Inverse learning rate (times n). Too small a value makes fixed steps diverge.
    step : {"fixed", "backtracking"}
        ``"backtracking"`` doubles the temperature of a step until the dual objective rises.
    online : bool
        One block at a time.
    check_every : float
        Passes between exact checks of the gap.
    """

    temperature: float = 0.1
    step: Literal["fixed", "backtracking"] = "backtracking"
    online: bool = True
    check_every: float = 1

    def _iterate(self, run: Run, start: Solution | None) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature={self.temperature} must be positive")
        if self.step not in ("fixed", "backtracking"):
            raise ValueError(f"step={self.step!r} is unknown; choose 'fixed' or 'backtracking'")
        passes = max(1, round(self.check_every))
        problem, data = run.problem.problem, compiled.block_data(run)
        if data is not None and isinstance(problem, ExpectationProblem):
            return compiled.iterate_partial_linearization(
                run,
                start,
                data,
                diameter=problem.diameter(),
                temperature=self.temperature,
                rule=self.step,
                block=self.online,
                passes=passes,
            )
        state = _DistributionState.make(run, start)
        run.state = state
        order = make_sampler("permutation", run.n, run.rng)
        while not state.check(run):
            for _ in range(passes):
                if self.online:
                    for _ in range(run.n):
                        self._update(run, state, [order.draw()])
                else:
                    self._update(run, state, list(range(run.n)))
        return None

    def _update(self, run: Run, state: _DistributionState, blocks: list[int]) -> None:
        dual = state.dual
        weights = dual.weights
        temperature = self.temperature
        while True:
            run.problem.calls += len(blocks)
            directions = [state.direction(block, weights, temperature) for block in blocks]
            if self.step == "fixed" or self._rises(dual, blocks, directions):
                break
            temperature *= 2
        for block, (direction, v, loss) in zip(blocks, directions, strict=True):
            dual.move(block, v, loss, _ALMOST_ONE)
            state.mix(block, direction, _ALMOST_ONE)

    def _rises(self, dual: Dual, blocks: list[int], directions: list[Any]) -> bool:
        weights = dual.weights
        change = np.sum([v - dual.v_block[b] for b, (_, v, _) in zip(blocks, directions, strict=True)], axis=0)
        slope = sum(dual.block_gap(b, weights, v, loss) for b, (_, v, loss) in zip(blocks, directions, strict=True))
        # The dual falls at most quadratically below its slope; bounds on the weights only help.
        return slope - 0.5 * dual.lam * float(change @ change) >= -1e-15 * abs(dual.value)


class _DistributionState:
    """A distribution per block, and the dual point they make."""

    def __init__(self, problem: ExpectationProblem, dual: Dual, distributions: list[Any]) -> None:
        self.problem = problem
        self.dual = dual
        self.distributions = distributions

    @classmethod
    def make(cls, run: Run, start: Solution | None) -> _DistributionState:
        problem = run.problem.problem
        if "expectations" not in problem.capabilities or not isinstance(problem, ExpectationProblem):
            raise TypeError(
                f"{type(problem).__name__} cannot average over outputs, which partial linearization and exponentiated "
                "gradients need; use BCFW, or give the model interior, tilt, mix, average and diameter"
            )
        dual = Dual(run.n, problem.n_features, run.lam, run.bounds)
        if start is not None and isinstance(start.state, _DistributionState):
            distributions = list(start.state.distributions)
        else:
            # Close to the truth, so that the weights are almost zero, but in the interior: a zero would stay zero.
            mass = min(1e-3, 0.01 * run.lam / max(problem.diameter() ** 2, 1e-300))
            distributions = [problem.interior(block, mass) for block in range(run.n)]
        state = cls(problem, dual, distributions)
        state.refresh()
        return state

    def direction(self, block: int, weights: Any, temperature: float) -> tuple[Any, Any, float]:
        """The tilted distribution of a block with its ``v`` and ``l``."""
        tilted = self.problem.tilt(block, self.distributions[block], weights, temperature)
        return tilted, *self.dual.corner(self.problem.average(block, tilted))

    def mix(self, block: int, other: Any, step: float) -> None:
        if step > 0:
            self.distributions[block] = self.problem.mix(self.distributions[block], other, step)

    def refresh(self) -> None:
        for block, distribution in enumerate(self.distributions):
            v, loss = self.dual.corner(self.problem.average(block, distribution))
            self.dual.v_block[block], self.dual.l_block[block] = v, loss
        self.dual.refresh()

    def check(self, run: Run) -> bool:
        """An exact gap by the max-oracle; also removes the drift of many small steps."""
        self.refresh()
        weights = self.dual.weights
        hinge = 0.0
        for first in range(0, run.n, 1024):
            for cut in run.problem.cuts(range(first, min(run.n, first + 1024)), weights):
                hinge += cut.hinge(weights)
        return run.check(weights, self.dual.primal(weights, hinge / run.n), self.dual.value)
