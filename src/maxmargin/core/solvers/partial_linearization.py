"""Partial linearization: Frank-Wolfe with an entropy left in the linear problem, so that directions are distributions.

At temperature 0 it is Frank-Wolfe; with full steps it is the exponentiated gradient (spec A2-A9). Needs a problem that can
average over outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from maxmargin import _core
from maxmargin._utils import check_choice
from maxmargin.core import SupportsExpectations
from maxmargin.core.solvers.base import EXPECTATIONS, Protocols, Run, Solver
from maxmargin.core.solvers.engine import EngineRun, seed_of
from maxmargin.core.solvers.solution import Solution

if TYPE_CHECKING:
    from maxmargin.core.solvers.cutting_plane import KnownCuts


@dataclass(frozen=True, kw_only=True)
class _Soft(Solver):
    """Steps toward tilted distributions, by a rule for their length."""

    check_every: float = 1

    @property
    def needs(self) -> tuple[Protocols, ...]:
        """Averages over outputs, in Python or compiled."""
        return (EXPECTATIONS,)

    def _soft_steps(self, run: Run, start: Solution | KnownCuts | None, temperature: float, rule: str, block: bool) -> None:
        problem = cast(SupportsExpectations[object], run.problem.problem)
        # Close to the truth, so that the weights are almost zero, but in the interior: a zero would stay zero.
        mass = min(1e-3, 0.01 * run.lam / max(problem.diameter() ** 2, 1e-300))
        settings = _core.BlockSettings.partial_linearization(temperature, rule, mass, seed_of(run))
        blocks = EngineRun(run, settings, start, kind="interior")
        while not blocks.gap_pass():
            for _ in range(max(1, round(self.check_every))):
                if run.out_of_time():
                    break
                if block:
                    blocks.visit(run.n, 2**62)
                else:
                    run.problem.calls += blocks.engine.step_all()


@dataclass(frozen=True, kw_only=True)
class PartialLinearization(_Soft):
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

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        if self.temperature < 0:
            raise ValueError(f"temperature={self.temperature} must not be negative")
        self._soft_steps(run, start, self.temperature, "line_search", self.block)


@dataclass(frozen=True, kw_only=True)
class ExponentiatedGradient(_Soft):
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

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        if self.temperature <= 0:
            raise ValueError(f"temperature={self.temperature} must be positive")
        check_choice("step", self.step, ("fixed", "backtracking"))
        self._soft_steps(run, start, self.temperature, self.step, self.online)
