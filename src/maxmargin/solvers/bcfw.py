"""Block-coordinate Frank-Wolfe: one oracle call, one exact step, block after block (spec 4.3-4.5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut
from maxmargin.solvers import compiled
from maxmargin.solvers.base import Run, Solver
from maxmargin.solvers.corners import Corners
from maxmargin.solvers.dual import Dual
from maxmargin.solvers.solution import Solution

Floats = NDArray[np.float64]
Sampling = Literal["uniform", "permutation", "gap"]
Steps = Literal["fw", "pairwise", "away", "all", "exact"]


@dataclass(frozen=True, kw_only=True)
class BCFW(Solver):
    """Block-coordinate Frank-Wolfe on the dual.

    Parameters
    ----------
    sampling : {"gap", "uniform", "permutation"}
        Which block is next: in proportion to what it was last seen to contribute to the duality gap, at random, or every
        block once per pass.
    steps : {"fw", "pairwise", "away", "all", "exact"}
        Toward the oracle's output; also away from the worst output in use; the best of all of these; or to the best point
        of the whole block, which multi-class and binary models know.
    cache : int
        Outputs to remember per block. A remembered output that violates enough is used instead of an oracle call. Multi-class
        and binary models have no use for it: asking costs no more than remembering.
    stop : {"exact", "heuristic"}
        Stop on the exact gap, checked every ``check_every`` passes and whenever the estimates suggest it, or on the
        estimates alone; the latter saves passes and certifies nothing.
    hybrid : bool
        Use the oracle calls of every exact check for a batch step as well.
    check_every : float
        Passes between exact checks.
    """

    sampling: Sampling = "gap"
    steps: Steps = "fw"
    cache: int = 0
    stop: Literal["exact", "heuristic"] = "exact"
    hybrid: bool = False
    check_every: float = 10

    # A remembered output is good enough if it gains this part of the block's last gap, and this part of the mean gap.
    _CACHE_PART, _CACHE_MEAN = 0.25, 0.01
    # Updates of either kind between exact checks, per update that the passes between them allow.
    _CACHE_UPDATES = 3

    def __post_init__(self) -> None:
        for name, known in (("sampling", Sampling), ("steps", Steps)):
            if getattr(self, name) not in get_args(known):
                choices = ", ".join(map(repr, get_args(known)))
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; choose one of {choices}")
        if self.stop not in ("exact", "heuristic"):
            raise ValueError(f"stop={self.stop!r} is unknown; choose 'exact' or 'heuristic'")
        if self.hybrid and self.steps != "fw":
            raise ValueError("hybrid=True needs steps='fw': a batch step mixes the outputs of all blocks at once")

    @property
    def certifies(self) -> bool:
        """Not if it stops on estimates."""
        return self.stop == "exact"

    def _iterate(self, run: Run, start: Solution | None) -> None:
        data = compiled.block_data(run)
        if data is not None:
            return compiled.iterate_frank_wolfe(self, run, start, data)
        if self.steps == "exact":
            raise TypeError(f"steps='exact' is for multi-class and binary models, not for {type(run.problem.problem).__name__}")
        state = self._start(run, start)
        run.state = state
        sampler = make_sampler(self.sampling, run.n, run.rng)
        gaps = np.full(run.n, np.inf) if state.gaps is None else state.gaps
        sampler.reset(gaps)
        while True:
            self._updates(run, state, sampler, gaps)
            if self.stop == "heuristic" and self._seems_done(run, state.dual, gaps):
                return None
            if self._exact_check(run, state, gaps):
                return None
            sampler.reset(gaps)

    def most_updates(self, n_blocks: int) -> int:
        """Updates between two exact checks. Steps to remembered outputs cost no pass; they have a budget of their own."""
        return int((self._CACHE_UPDATES if self.cache else 1) * self.check_every * n_blocks) + n_blocks

    def _start(self, run: Run, start: Solution | None) -> BlockState:
        if start is not None and isinstance(start.state, BlockState):
            state = start.state.rescaled(run)
        else:
            state = BlockState(Dual(run.n, run.problem.n_features, run.lam, run.bounds), None)
        if state.corners is None and (self.cache > 0 or self.steps != "fw"):
            # Corners know the distributions; the sums are theirs from now on.
            state.corners = [Corners(run.problem.n_features) for _ in range(run.n)]
            state.dual = Dual(run.n, run.problem.n_features, run.lam, run.bounds)
            state.gaps = None
        return state

    def _updates(self, run: Run, state: BlockState, sampler: Sampler, gaps: Floats) -> None:
        """Block updates until an exact check is due."""
        first = run.passes
        total_known = False
        updates = 0
        most_updates = self.most_updates(run.n)
        while run.passes - first < self.check_every and run.passes < self.max_passes and updates < most_updates:
            # At least one pass, so that estimates that are too low do not cost a check each time.
            if total_known and run.passes - first >= 1 and float(gaps.sum()) <= 0.8 * self._target(run, state.dual, gaps):
                break
            block = sampler.draw()
            if block < 0:
                break
            sampler.update(block, self._update(run, state, block, gaps))
            updates += 1
            if updates % run.n == 0:
                total_known = bool(np.isfinite(gaps).all())

    def _update(self, run: Run, state: BlockState, block: int, gaps: Floats) -> float:
        """One step on one block; returns its gap before the step."""
        dual = state.dual
        weights = dual.weights
        if state.corners is None:
            v, loss = dual.corner(run.problem.cut(block, weights))
            gap = dual.block_gap(block, weights, v, loss)
            dual.move(block, v, loss, dual.step_size(gap, v - dual.v_block[block], 1.0))
            gaps[block] = max(0.0, gap)
            return float(gaps[block])
        known = state.corners[block]
        if self.cache and len(known) > 1 and np.isfinite(gaps[block]):
            hinges = known.hinges(weights)
            slot = int(np.argmax(hinges))
            gain = float(hinges[slot] - known.alpha @ hinges) / run.n
            if gain > 0 and gain >= max(self._CACHE_PART * gaps[block], self._CACHE_MEAN * state.last_gap / run.n):
                known.step_toward(dual, block, slot, self.steps)
                return float(gaps[block])
        cut = run.problem.cut(block, weights)
        slot = known.add(cut)
        v, loss = dual.corner(cut)
        gaps[block] = max(0.0, dual.block_gap(block, weights, v, loss))
        known.step_toward(dual, block, slot, self.steps)
        if self.cache:
            known.forget_idle(self.cache, known.hinges(weights))
        return float(gaps[block])

    def _target(self, run: Run, dual: Dual, gaps: Floats) -> float:
        if self.epsilon is not None:
            return self.epsilon
        return self.tol * abs(dual.value + float(gaps.sum()))

    def _seems_done(self, run: Run, dual: Dual, gaps: Floats) -> bool:
        total = float(gaps.sum())
        if not total <= self._target(run, dual, gaps):
            return False
        run.certified = False
        run.best_weights, run.primal, run.dual = dual.weights.copy(), dual.value + total, dual.value
        return run.report(run.primal, run.dual)

    def _exact_check(self, run: Run, state: BlockState, gaps: Floats) -> bool:
        dual = state.dual
        if state.corners is not None:
            for block, known in enumerate(state.corners):
                known.restore(dual, block)
        dual.refresh()
        weights = dual.weights
        violations = np.empty(run.n)
        corners: list[tuple[Floats, float]] = []
        for first in range(0, run.n, 1024):
            blocks = range(first, min(run.n, first + 1024))
            for block, cut in zip(blocks, run.problem.cuts(blocks, weights), strict=True):
                v, loss = dual.corner(cut)
                gaps[block] = max(0.0, dual.block_gap(block, weights, v, loss))
                violations[block] = cut.hinge(weights) / run.n
                if self.hybrid:
                    corners.append((v, loss))
                self._remember(state, block, cut)
        state.last_gap = float(gaps.sum())
        state.gaps, state.means = gaps, violations - gaps
        primal, value = dual.primal(weights, float(violations.sum())), dual.value
        if run.check(weights, primal, value, curve=run.curve(value, weights)):
            return True
        if self.hybrid:
            direction = sum((v for v, _ in corners), np.zeros_like(dual.v)) - dual.v
            step = dual.step_size(state.last_gap, direction, 1.0)
            for block, (v, loss) in enumerate(corners):
                dual.move(block, v, loss, step)
                if state.corners is not None:
                    state.corners[block].blend(Cut(v * dual.lam * run.n, loss * run.n), step)
        return False

    def _remember(self, state: BlockState, block: int, cut: Cut) -> None:
        if state.corners is not None and self.cache:
            state.corners[block].add(cut)


class BlockState:
    """What BCFW knows: the dual point, outputs if they are remembered, gaps and mean hinges of the blocks at the last check."""

    def __init__(self, dual: Dual, corners: list[Corners] | None) -> None:
        self.dual = dual
        self.corners = corners
        self.last_gap = np.inf
        self.gaps: Floats | None = None
        self.means = np.zeros(dual.n)

    def rescaled(self, run: Run) -> BlockState:
        """At another lambda; a smaller one keeps the weights, and the gaps follow, since the truth violates nothing."""
        part = run.lam / self.dual.lam
        corners = None if self.corners is None else [known.copy() for known in self.corners]
        other = BlockState(self.dual.rescaled(run.lam, run.bounds), corners)
        if part < 1:
            for known in corners or []:
                known.shrink(part)
            if self.gaps is not None:
                # Not negative but by rounding, or after an interruption, when they are no more than estimates.
                other.gaps = np.maximum(0.0, self.gaps + (1.0 - part) * self.means)
                other.last_gap = float(other.gaps.sum())
        return other


class Sampler:
    """Every block with the same probability."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        self.rng = rng

    def draw(self) -> int:
        """The next block, or -1 if no block is worth a visit."""
        return int(self.rng.integers(self.n))

    def update(self, block: int, gap: float) -> None:
        """Take note of a block's new gap estimate."""

    def reset(self, gaps: Floats) -> None:
        """Take note of all estimates."""


class PermutationSampler(Sampler):
    """Every block once per pass, in a new random order."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        super().__init__(n, rng)
        self._waiting: list[int] = []

    def draw(self) -> int:
        """The next block of the present order."""
        if not self._waiting:
            self._waiting = self.rng.permutation(self.n).tolist()
        return self._waiting.pop()


class GapSampler(Sampler):
    """In proportion to the last known block gaps; blocks never visited come first, in random order."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        super().__init__(n, rng)
        self._unvisited: list[int] = rng.permutation(n).tolist()
        self._tree = [0.0] * (2 * n)

    def draw(self) -> int:
        """A block, in O(log n) by a tree of sums."""
        if self._unvisited:
            return self._unvisited.pop()
        tree, n = self._tree, self.n
        if not tree[1] > 0:
            return -1
        at = 1
        target = self.rng.random() * tree[1]
        while at < n:
            at *= 2
            if target >= tree[at] and tree[at + 1] > 0:
                target -= tree[at]
                at += 1
        return at - n

    def update(self, block: int, gap: float) -> None:
        """Replace one leaf and the sums above it."""
        at = block + self.n
        tree = self._tree
        tree[at] = gap
        at //= 2
        while at:
            tree[at] = tree[2 * at] + tree[2 * at + 1]
            at //= 2

    def reset(self, gaps: Floats) -> None:
        """Build the tree anew; sums of many updates drift."""
        self._unvisited = [block for block in self._unvisited if not np.isfinite(gaps[block])]
        tree = self._tree
        tree[self.n :] = np.where(np.isfinite(gaps), gaps, 0.0).tolist()
        for at in range(self.n - 1, 0, -1):
            tree[at] = tree[2 * at] + tree[2 * at + 1]


def make_sampler(name: str, n: int, rng: np.random.Generator) -> Sampler:
    """The sampler behind a name."""
    return {"uniform": Sampler, "permutation": PermutationSampler, "gap": GapSampler}[name](n, rng)
