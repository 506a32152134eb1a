"""Block-coordinate Frank-Wolfe: one oracle call, one exact step, block after block (spec 4.3-4.5 and 6).

Cutting planes with a slack for every block (spec 3.3) are the same steps, taken between all known outputs after each sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from maxmargin import _core
from maxmargin._utils import check_choice
from maxmargin.core import SupportsExactSteps
from maxmargin.core.solvers.base import Protocols, Run, Solver
from maxmargin.core.solvers.engine import EngineRun, seed_of
from maxmargin.core.solvers.solution import Solution

if TYPE_CHECKING:
    from maxmargin.core.solvers.cutting_plane import KnownCuts

Sampling = Literal["uniform", "permutation", "gap"]
Steps = Literal["fw", "pairwise", "away", "all", "exact"]
Stop = Literal["exact", "heuristic"]


@dataclass(frozen=True, kw_only=True)
class BCFW(Solver):
    """Block-coordinate Frank-Wolfe on the dual.

    Parameters
    ----------
    sampling : {"gap", "uniform", "permutation"}
        Which block is next: in proportion to what it was last seen to contribute to the duality gap, at random, or every
        block once per pass.
    steps : {"pairwise", "fw", "away", "all", "exact"}
        ``"pairwise"`` moves weight from the worst output in use to the oracle's output, and ``"fw"`` only toward the latter,
        as published: it needs several times as many passes. ``"away"`` also moves away from the worst output in use, ``"all"``
        takes the best of all of these, and ``"exact"`` goes to the best point of the whole block, which multi-class and binary
        problems know.
    cache : int
        Outputs to remember per block. A remembered output that violates enough is used instead of an oracle call. Multi-class
        and binary problems have no use for it: asking costs no more than remembering.
    stop : {"exact", "heuristic"}
        Stop on the exact gap, checked every ``check_every`` passes and whenever the estimates suggest it, or on the
        estimates alone; the latter saves passes and certifies nothing.
    hybrid : bool
        Use the oracle calls of every exact check for a batch step as well; needs ``steps="fw"``.
    check_every : float
        Passes between exact checks.
    """

    sampling: Sampling = "gap"
    steps: Steps = "pairwise"
    cache: int = 0
    stop: Stop = "exact"
    hybrid: bool = False
    check_every: float = 10

    # Updates of either kind between exact checks, per update that the passes between them allow.
    _CACHE_UPDATES = 3

    def __post_init__(self) -> None:
        check_choice("sampling", self.sampling, get_args(Sampling))
        check_choice("steps", self.steps, get_args(Steps))
        check_choice("stop", self.stop, get_args(Stop))
        if self.hybrid and self.steps != "fw":
            raise ValueError("hybrid=True needs steps='fw': a batch step mixes the outputs of all blocks at once")

    @property
    def needs(self) -> tuple[Protocols, ...]:
        """Exact steps, if it is to make them."""
        return (SupportsExactSteps,) if self.steps == "exact" else ()

    @property
    def certifies(self) -> bool:
        """Not if it stops on estimates."""
        return self.stop == "exact"

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        settings = _core.BlockSettings.frank_wolfe(self.sampling, self.steps, self.cache, seed_of(run))
        blocks = EngineRun(run, settings, start)
        while True:
            self._updates(run, blocks)
            if self.stop == "heuristic" and self._seems_done(run, blocks.engine):
                return
            if blocks.gap_pass():
                return
            if self.hybrid:
                blocks.engine.step_all()

    def _updates(self, run: Run, blocks: EngineRun) -> None:
        """Block updates until an exact check is due."""
        passes = min(self.check_every, max(0.0, self.max_passes - run.passes))
        quiet, caution = 0, 1.0
        if self.stop == "exact":
            # At least one pass, and estimates below the goal: made before other blocks moved, they are often too low, and far too
            # low once a check has shown it. Where all are close to zero they no longer tell which blocks to visit.
            quiet, caution = run.n, 0.3 if run.history.passes else 0.8
        # Steps to remembered outputs cost no pass; they have a budget of their own.
        visits = int((self._CACHE_UPDATES if self.cache else 1) * self.check_every * run.n) + run.n
        goal = -1.0 if self.epsilon is None else caution * self.epsilon
        blocks.visit(visits, np.ceil(passes * run.n), quiet, goal, caution * self.tol)

    def _seems_done(self, run: Run, engine: _core.BlockEngine) -> bool:
        total = engine.known_gap
        target = self.epsilon if self.epsilon is not None else self.tol * abs(engine.dual + total)
        if not engine.all_seen or total > target:
            return False
        run.proved = False
        return run.check(engine.weights(), engine.dual + total, engine.dual)


@dataclass(frozen=True, kw_only=True)
class NSlackCuttingPlane(Solver):
    """Every block has cuts of its own; after each sweep the problem over all known cuts is solved anew."""

    # Of the gap at the last sweep, and of the gap to reach: what may be left among the known cuts.
    _PART, _TARGET_PART = 0.1, 0.05

    def _iterate(self, run: Run, start: Solution | KnownCuts | None) -> None:
        # No cut is forgotten.
        settings = _core.BlockSettings.frank_wolfe("gap", "pairwise", 2**31, seed_of(run))
        blocks = EngineRun(run, settings, start)
        while not blocks.gap_pass():
            blocks.settle(max(self._PART * run.open_gap, self._TARGET_PART * run.target(), 1e-13 * abs(run.primal)))
