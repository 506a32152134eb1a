"""Block steps as the formulas say them: slow, plain, and written apart from the engine that is compared with them.

With ``alpha_i`` a distribution over the outputs of block i, ``v_i = sum_y alpha_i(y) psi_i(y) / (lambda n)``,
``l_i = sum_y alpha_i(y) loss_i(y) / n`` and ``v, l`` their sums, the weights are ``w = clip(v)`` and the dual objective is
``l - lambda w.v + lambda/2 ||w||^2`` (spec 2.3 and 4.5).
"""

import numpy as np
from tests.cases.reference_averages import averages

# Steps in the interior end short of 1: a probability of zero could never grow again.
ALMOST_ONE = 1.0 - 2.0**-52


class Dual:
    """A dual point, as ``v_i`` and ``l_i`` of every block."""

    def __init__(self, n_blocks, n_features, lam, bounds):
        self.n, self.lam, self.bounds = n_blocks, lam, bounds
        self.v_block, self.l_block = np.zeros((n_blocks, n_features)), np.zeros(n_blocks)

    @property
    def v(self):
        return self.v_block.sum(axis=0)

    @property
    def l(self):  # noqa: E743
        return self.l_block.sum()

    @property
    def weights(self):
        return self.v if self.bounds is None else np.clip(self.v, *self.bounds)

    @property
    def value(self):
        w, v = self.weights, self.v
        return self.l - self.lam * w @ v + 0.5 * self.lam * w @ w

    def corner(self, psi, loss):
        """``(v_i, l_i)`` of a block with all its weight on one output, or on an average of outputs."""
        return psi / (self.lam * self.n), loss / self.n

    def put(self, block, psi, loss):
        self.v_block[block], self.l_block[block] = self.corner(psi, loss)

    def block_gap(self, block, weights, v, loss):
        """How much the average hinge of a block rises on the way to ``(v, loss)``, over n."""
        return self.lam * (self.v_block[block] - v) @ weights - (self.l_block[block] - loss)

    def value_after(self, block, v, loss, step):
        """The dual objective with that much added to a block (or, for all blocks at once, to any)."""
        other = Dual(self.n, len(v), self.lam, self.bounds)
        other.v_block, other.l_block = self.v_block.copy(), self.l_block.copy()
        other.shift(block, step * v, step * loss)
        return other.value

    def shift(self, block, v, loss):
        self.v_block[block] += v
        self.l_block[block] += loss

    def step_size(self, slope, direction, largest):
        """The best step along a direction of ``v`` with this slope of the dual objective, at most ``largest``.

        Within bounds the derivative falls, is piecewise linear, and may be zero for a while: any such step is best, and this is
        the one that false position finds between the step that would be best without bounds and the longest.
        """
        squared = direction @ direction
        if slope <= 0 or squared < 1e-300:
            return largest if slope > 0 else 0.0
        low, high = min(largest, slope / (self.lam * squared)), largest
        if self.bounds is None or low == largest:
            return low
        v, w = self.v, self.weights

        def derivative(at):
            return slope - self.lam * direction @ (np.clip(v + at * direction, *self.bounds) - w)

        at_low, at_high = derivative(low), derivative(high)
        if at_low <= 0 or at_high >= 0:
            return low if at_low <= 0 else high
        for _ in range(40):
            middle = low + (high - low) * at_low / (at_low - at_high)
            value = derivative(middle)
            if abs(value) <= 1e-9 * slope or high - low <= 1e-12 * high:
                return middle
            # The weight of an end that stays is halved.
            if value > 0:
                low, at_low, at_high = middle, value, 0.5 * at_high
            else:
                high, at_high, at_low = middle, value, 0.5 * at_low
        return low


class Outputs:
    """The outputs of one block that were seen, with their dual weights; the truth is the first."""

    def __init__(self, n_features):
        self.psi, self.loss, self.alpha = np.zeros((1, n_features)), np.zeros(1), np.ones(1)

    def add(self, psi, loss):
        """The place of an output, a new one if it was not known."""
        for place, (p, value) in enumerate(zip(self.psi, self.loss, strict=True)):
            if value == loss and np.array_equal(p, psi):
                return place
        self.psi, self.loss = np.vstack([self.psi, psi]), np.append(self.loss, loss)
        self.alpha = np.append(self.alpha, 0.0)
        return len(self.loss) - 1

    def moves(self, hinges, target, kind):
        """Directions in the space of distributions, with the longest step along each."""
        alpha, eye = self.alpha, np.eye(len(self.alpha))
        active = np.flatnonzero(alpha > 0)
        worst = active[np.argmin(hinges[active])]
        moves = {"fw": (eye[target] - alpha, 1.0)}
        if kind in ("away", "all") and len(active) > 1:
            moves["away"] = alpha - eye[worst], alpha[worst] / np.delete(alpha, worst).sum()
        if kind in ("pairwise", "all") and worst != target:
            moves["pairwise"] = eye[target] - eye[worst], alpha[worst]
        return [moves[kind]] if kind == "pairwise" and kind in moves else list(moves.values())


class OutputSteps:
    """Frank-Wolfe, away, pairwise or the best of these steps, from the truth on."""

    def __init__(self, problem, lam, bounds, kind):
        self.problem, self.kind = problem, kind
        self.dual = Dual(problem.n_blocks, problem.n_features, lam, bounds)
        self.known = [Outputs(problem.n_features) for _ in range(problem.n_blocks)]

    def step(self, block):
        """Ask the oracle and move; returns the gap of the block before."""
        dual, known, weights = self.dual, self.known[block], self.dual.weights
        cut = self.problem.cut(block, weights)
        target = known.add(cut.dense(len(weights)), cut.loss)
        hinges = known.loss - known.psi @ weights
        best = None
        for change, largest in known.moves(hinges, target, self.kind):
            v, loss = dual.corner(change @ known.psi, change @ known.loss)
            step = dual.step_size(change @ hinges / dual.n, v, largest)
            value = dual.value_after(block, v, loss, step)
            if best is None or value > best[0]:
                best = value, known.alpha + step * change
        gap = (hinges[target] - known.alpha @ hinges) / dual.n
        known.alpha = np.maximum(best[1], 0.0)
        # What is left of an output after the longest step is rounding.
        known.alpha[known.alpha < 1e-15] = 0.0
        known.alpha /= known.alpha.sum()
        dual.put(block, known.alpha @ known.psi, known.alpha @ known.loss)
        return max(0.0, gap)

    def transport(self, lam):
        """To a smaller lambda with the same weights: what every distribution has too much goes to the truth."""
        part = lam / self.dual.lam
        self.dual.lam = lam
        for block, known in enumerate(self.known):
            known.alpha = part * known.alpha
            known.alpha[0] += 1 - part
            self.dual.put(block, known.alpha @ known.psi, known.alpha @ known.loss)


class SoftSteps:
    """Steps toward tilted distributions: as far as pays, all the way, or all the way at a temperature that pays."""

    def __init__(self, problem, lam, bounds, distributions, temperature, rule):
        self.problem, self.temperature, self.rule = problem, temperature, rule
        self.averages = averages(problem)
        self.dual = Dual(problem.n_blocks, problem.n_features, lam, bounds)
        self.distributions = list(distributions)
        self.refresh()

    def refresh(self):
        for block, distribution in enumerate(self.distributions):
            cut = self.averages.average(block, distribution)
            self.dual.put(block, cut.dense(self.problem.n_features), cut.loss)

    def step(self, blocks):
        """Of one block, or of all at once."""
        dual, weights, temperature = self.dual, self.dual.weights, self.temperature
        while True:
            tilted = [self.averages.tilt(b, self.distributions[b], weights, temperature) for b in blocks]
            cuts = [self.averages.average(b, t) for b, t in zip(blocks, tilted, strict=True)]
            ends = [dual.corner(cut.dense(len(weights)), cut.loss) for cut in cuts]
            slope = sum(dual.block_gap(b, weights, *end) for b, end in zip(blocks, ends, strict=True))
            direction = sum(v - dual.v_block[b] for b, (v, _) in zip(blocks, ends, strict=True))
            if self.rule == "line_search":
                step = min(ALMOST_ONE, dual.step_size(slope, direction, 1.0))
                break
            step = ALMOST_ONE
            # The dual falls at most quadratically below its slope; bounds on the weights only help.
            if self.rule == "fixed" or slope - 0.5 * dual.lam * direction @ direction >= -1e-15 * abs(dual.value):
                break
            temperature *= 2
        for b, t in zip(blocks, tilted, strict=True):
            if step > 0:
                self.distributions[b] = self.averages.mix(self.distributions[b], t, step)
        self.refresh()
