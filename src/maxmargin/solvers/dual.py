"""The dual point of block solvers, and steps along its blocks.

With ``alpha_i`` a distribution over the outputs of block i, ``v_i = sum_y alpha_i(y) psi_i(y) / (lambda n)``,
``l_i = sum_y alpha_i(y) loss_i(y) / n`` and ``v, l`` their sums, the weights are ``w = v`` or, within bounds, ``clip(v)``,
and the dual objective is ``l - lambda w.v + lambda/2 ||w||^2`` (spec 2.3 and 4.5). Only ``v_i`` and ``l_i`` are stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin._validation import check_memory
from maxmargin.cuts import Bounds, Cut

Floats = NDArray[np.float64]


class Dual:
    """A feasible dual point.

    Parameters
    ----------
    n_blocks, n_features : int
        Size of the problem.
    lam : float
        Regularization.
    bounds : pair of arrays, optional
        Bounds on the weights.
    """

    def __init__(self, n_blocks: int, n_features: int, lam: float, bounds: Bounds | None) -> None:
        self.n = n_blocks
        self.lam = lam
        self.bounds = bounds
        check_memory(n_blocks * n_features * 8, f"the weights of {n_blocks:,} blocks with {n_features:,} features each")
        self.v_block = np.zeros((n_blocks, n_features))
        self.l_block = np.zeros(n_blocks)
        self.v = np.zeros(n_features)
        self.l = 0.0

    @property
    def weights(self) -> Floats:
        """The primal point that belongs to this dual point."""
        return self.v if self.bounds is None else np.clip(self.v, *self.bounds)

    @property
    def value(self) -> float:
        """Dual objective."""
        if self.bounds is None:
            return float(self.l - 0.5 * self.lam * float(self.v @ self.v))
        w = self.weights
        return float(self.l - self.lam * float(w @ self.v) + 0.5 * self.lam * float(w @ w))

    def primal(self, weights: Floats, mean_hinge: float) -> float:
        """Primal objective at ``weights``."""
        return 0.5 * self.lam * float(weights @ weights) + float(mean_hinge)

    def corner(self, cut: Cut) -> tuple[Floats, float]:
        """``(v, l)`` of a block with all its weight on one output."""
        return cut.psi / (self.lam * self.n), cut.loss / self.n

    def block_gap(self, block: int, weights: Floats, v: Floats, loss: float) -> float:
        """How much of the duality gap block ``block`` is answerable for, given its best corner."""
        return float(self.lam * float((self.v_block[block] - v) @ weights) - (self.l_block[block] - loss))

    def step_size(self, slope: float, direction: Floats, largest: float) -> float:
        """Best step along a direction of ``v`` with the given slope of the dual objective, at most ``largest``.

        With bounds the dual is piecewise quadratic along the direction; the quadratic bound gives a first step that
        cannot fail, and bisection of the derivative the exact one.
        """
        if slope <= 0:
            return 0.0
        squared = float(direction @ direction)
        if squared < 1e-300:
            return largest
        step = min(largest, slope / (self.lam * squared))
        if self.bounds is None or step == largest:
            return step
        linear = slope + self.lam * float(direction @ self.weights)
        lower, upper = self.bounds

        def derivative(at: float) -> float:
            inside = np.minimum(np.maximum(self.v + at * direction, lower), upper)
            return linear - self.lam * float(direction @ inside)

        low, high, at_low, at_high = step, largest, derivative(step), derivative(largest)
        if at_low <= 0:
            return low
        if at_high >= 0:
            return high
        # The derivative is piecewise linear and falls: false position, halving the weight of an end that stays.
        for _ in range(40):
            middle = low + (high - low) * at_low / (at_low - at_high)
            value = derivative(middle)
            if abs(value) <= 1e-9 * slope or high - low <= 1e-12 * high:
                return middle
            if value > 0:
                low, at_low, at_high = middle, value, 0.5 * at_high
            else:
                high, at_high, at_low = middle, value, 0.5 * at_low
        return low

    def gain(self, slope: float, direction: Floats, step: float) -> float:
        """How much the dual objective rises by such a step."""
        if self.bounds is None:
            return step * slope - 0.5 * self.lam * step * step * float(direction @ direction)
        w, v = self.weights, self.v + step * direction
        x = np.clip(v, *self.bounds)
        bend = float(x @ v - w @ self.v) - 0.5 * float(x @ x - w @ w)
        return float(step * (slope + self.lam * float(direction @ w)) - self.lam * bend)

    def move(self, block: int, v: Floats, loss: float, step: float) -> None:
        """Go ``step`` of the way from the block's point to ``(v, loss)``."""
        if step == 0:
            return
        self.shift(block, step * (v - self.v_block[block]), step * (loss - self.l_block[block]))

    def shift(self, block: int, dv: Floats, dl: float) -> None:
        """Add to a block, and so to the whole."""
        self.v_block[block] += dv
        self.l_block[block] += dl
        self.v += dv
        self.l += dl

    def refresh(self) -> None:
        """Sum the blocks anew: thousands of small steps leave rounding errors."""
        self.v = self.v_block.sum(axis=0)
        self.l = float(self.l_block.sum())

    def rescaled(self, lam: float, bounds: Bounds | None) -> Dual:
        """At another regularization: a larger one keeps the distributions, a smaller one the weights.

        The latter is done by putting ``1 - lam / self.lam`` of every distribution on the truth, which has no features and no
        loss (spec 5.2).
        """
        other = Dual.__new__(Dual)
        other.n, other.lam, other.bounds = self.n, lam, bounds
        v, loss = (1.0, lam / self.lam) if lam < self.lam else (self.lam / lam, 1.0)
        other.v_block, other.l_block = v * self.v_block, loss * self.l_block
        other.v, other.l = v * self.v, loss * self.l
        return other
