"""Remembered outputs of a block with their dual weights: what away and pairwise steps, caches and working sets need."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut
from maxmargin.solvers.dual import Dual

Floats = NDArray[np.float64]


class Corners:
    """The known outputs of one block; the truth, with ``psi = 0`` and ``loss = 0``, is the first.

    Attributes
    ----------
    psi : array of shape (m, d)
    loss, alpha : arrays of shape (m,)
        ``alpha`` is a distribution.
    """

    TRUTH = 0

    def __init__(self, n_features: int) -> None:
        self._psi = np.zeros((4, n_features))
        self._loss = np.zeros(4)
        self._alpha = np.zeros(4)
        self._alpha[0] = 1.0
        self._size = 1
        self._slots: dict[Hashable, int] = {(): 0}

    def __len__(self) -> int:
        return self._size

    def copy(self) -> Corners:
        """The same outputs and distribution, to be changed on their own."""
        other = Corners.__new__(Corners)
        other._psi, other._loss, other._alpha = self._psi.copy(), self._loss.copy(), self._alpha.copy()
        other._size, other._slots = self._size, dict(self._slots)
        return other

    def shrink(self, part: float) -> None:
        """Keep only this part of the distribution and put the rest on the truth."""
        self._alpha[: self._size] *= part
        self._alpha[self.TRUTH] += 1.0 - part

    @property
    def psi(self) -> Floats:
        """Features, shape (m, d)."""
        return self._psi[: self._size]

    @property
    def loss(self) -> Floats:
        """Losses, shape (m,)."""
        return self._loss[: self._size]

    @property
    def alpha(self) -> Floats:
        """Dual weights, shape (m,)."""
        return self._alpha[: self._size]

    def add(self, cut: Cut) -> int:
        """Slot of the output, a new one if it was not known."""
        if cut.loss == 0 and not cut.psi.any():
            return self.TRUTH
        key = (cut.loss, cut.psi.tobytes())
        slot = self._slots.get(key)
        if slot is not None:
            return slot
        slot = self._size
        if slot == len(self._loss):
            self._psi = np.concatenate([self._psi, np.zeros_like(self._psi)])
            self._loss = np.concatenate([self._loss, np.zeros_like(self._loss)])
            self._alpha = np.concatenate([self._alpha, np.zeros_like(self._alpha)])
        self._psi[slot], self._loss[slot], self._alpha[slot] = cut.psi, cut.loss, 0.0
        self._slots[key] = slot
        self._size += 1
        return slot

    def hinges(self, weights: Floats) -> Floats:
        """Hinge of every known output, shape (m,)."""
        return self.loss - self.psi @ weights

    def forget_idle(self, most: int, hinges: Floats) -> None:
        """Keep at most ``most`` outputs: those in use, the truth, and of the others the most violating."""
        if self._size <= most:
            return
        needed = self.alpha > 0
        needed[self.TRUTH] = True
        order = np.lexsort((-hinges, ~needed))
        kept = np.sort(order[: max(most, int(needed.sum()))])
        for name in ("_psi", "_loss", "_alpha"):
            values = getattr(self, name)
            values[: len(kept)] = values[kept]
        place = {int(old): new for new, old in enumerate(kept)}
        self._slots = {key: place[slot] for key, slot in self._slots.items() if slot in place}
        self._size = len(kept)

    def blend(self, cut: Cut, step: float) -> None:
        """Move the distribution ``step`` of the way to one output."""
        slot = self.add(cut)
        self._alpha[: self._size] *= 1.0 - step
        self._alpha[slot] += step

    def step_toward(self, dual: Dual, block: int, slot: int, kind: str) -> None:
        """A Frank-Wolfe, away, pairwise or the best of these steps, toward the output in ``slot``."""
        weights = dual.weights
        hinges = self.hinges(weights)
        mean = float(self.alpha @ hinges)
        active = np.flatnonzero(self.alpha > 0)
        worst = int(active[np.argmin(hinges[active])])
        moves = [(float(hinges[slot] - mean), "fw")]
        if kind in ("away", "all") and self.alpha[worst] < 1:
            moves.append((float(mean - hinges[worst]), "away"))
        if kind in ("pairwise", "all") and worst != slot:
            moves.append((float(hinges[slot] - hinges[worst]), "pairwise"))
        if kind == "pairwise":
            moves = moves[-1:]
        best = max((self._plan(dual, block, slot, worst, slope / dual.n, move) for slope, move in moves), key=lambda p: p[0])
        self._apply(dual, block, slot, worst, *best[1:])

    def _plan(
        self, dual: Dual, block: int, slot: int, worst: int, slope: float, move: str
    ) -> tuple[float, str, float, bool, Floats]:
        scale = dual.lam * dual.n
        if move == "fw":
            direction, largest = self.psi[slot] / scale - dual.v_block[block], 1.0
        elif move == "away":
            direction = dual.v_block[block] - self.psi[worst] / scale
            largest = self.alpha[worst] / (1.0 - self.alpha[worst])
        else:
            direction, largest = (self.psi[slot] - self.psi[worst]) / scale, float(self.alpha[worst])
        step = dual.step_size(slope, direction, largest)
        return dual.gain(slope, direction, step), move, step, step == largest, direction

    def _apply(
        self, dual: Dual, block: int, slot: int, worst: int, move: str, step: float, full: bool, direction: Floats
    ) -> None:
        if step == 0:
            return
        alpha = self.alpha
        if move == "fw":
            alpha *= 1.0 - step
            alpha[slot] += step
        elif move == "away":
            alpha *= 1.0 + step
            alpha[worst] = 0.0 if full else alpha[worst] - step
        else:
            alpha[slot] += step
            alpha[worst] = 0.0 if full else alpha[worst] - step
        np.maximum(alpha, 0.0, out=alpha)
        alpha /= alpha.sum()
        loss = float(alpha @ self.loss) / dual.n
        dual.shift(block, step * direction, loss - dual.l_block[block])

    def restore(self, dual: Dual, block: int) -> None:
        """Compute the block of ``dual`` from the distribution, without the rounding of many steps."""
        dual.v_block[block] = self.alpha @ self.psi / (dual.lam * dual.n)
        dual.l_block[block] = float(self.alpha @ self.loss) / dual.n


def solve_on_corners(dual: Dual, corners: list[Corners], gap: float, most_rounds: int = 10_000) -> None:
    """Maximise the dual over the known outputs alone, by pairwise steps, until at most ``gap`` is left."""
    for round_ in range(most_rounds):
        left = 0.0
        for block, known in enumerate(corners):
            if len(known) == 1:
                continue
            hinges = known.hinges(dual.weights)
            best = int(np.argmax(hinges))
            left += float(hinges[best] - known.alpha @ hinges) / dual.n
            known.step_toward(dual, block, best, "pairwise")
        if left <= gap:
            break
        if round_ % 100 == 99:
            for block, known in enumerate(corners):
                known.restore(dual, block)
            dual.refresh()
