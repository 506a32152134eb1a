"""Cutting planes with a slack for every block: after each sweep the problem over all known outputs is solved anew (spec 3.3)."""

from __future__ import annotations

from dataclasses import dataclass

from maxmargin import _core
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.engine import EngineRun, seed_of
from maxmargin.solvers.solution import Solution

# Nothing is forgotten.
_EVERYTHING = 2**31


@dataclass(frozen=True, kw_only=True)
class NSlackCuttingPlane(Solver):
    """Every block has cuts of its own; after each sweep the problem over all known cuts is solved anew."""

    # Of the gap at the last sweep, and of the gap to reach: what may be left among the known cuts.
    _PART, _TARGET_PART = 0.1, 0.05

    def _iterate(self, run: Run, start: Solution | None) -> None:
        settings = _core.BlockSettings.frank_wolfe("gap", "pairwise", _EVERYTHING, seed_of(run))
        blocks = EngineRun(run, settings, start)
        while not blocks.gap_pass():
            blocks.settle(max(self._PART * run.open_gap, self._TARGET_PART * run.target(), 1e-13 * abs(run.primal)))
