"""Sets of points for searches, the hull optimum by brute force, and an oracle that plays against its questions."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from maxmargin.surrogates import PointOracle


def generated(kind, rng, n):
    """Margin errors and losses of n outputs; four generators, and the awkward cases."""
    if kind == "gaussian":
        return rng.normal(scale=2, size=n), rng.uniform(0.1, 3, n)
    if kind == "integer":
        return rng.normal(scale=2, size=n), rng.integers(1, 8, n).astype(float)
    if kind == "arc":
        angle = rng.uniform(0, np.pi / 2, n)
        return 3 * np.cos(angle) - 1, 4 * np.sin(angle) + 1e-3
    if kind == "hyperbola":
        g = np.exp(rng.uniform(-1.5, 1.5, n))
        return rng.uniform(0.8, 1.2, n) * 2 / g - 1, g
    if kind == "grid":
        return rng.integers(-3, 4, n).astype(float), rng.integers(1, 5, n).astype(float)
    if kind == "collinear":
        g = rng.integers(1, 6, n).astype(float)
        return 4 - g, g
    if kind == "separated":
        return -rng.uniform(0.5, 5, n), rng.integers(1, 5, n).astype(float)
    if kind == "equal":
        return rng.normal(size=n), np.full(n, 2.0)
    raise ValueError(kind)


KINDS = ("gaussian", "integer", "arc", "hyperbola", "grid", "collinear", "separated", "equal")


def hull_optimum(surrogate, oracle: PointOracle) -> float:
    """psi over the convex hull: the best on any segment between two points, by brute force.

    On every segment the surroundings of the best of a few places are looked at again and again: a peak may be next to an end
    that many segments share, so no segment is left out.
    """
    first, second = np.triu_indices(len(oracle.points))
    h, g = np.array([p.h for p in oracle.points]), np.array([p.g for p in oracle.points])
    low, high = np.zeros(len(first)), np.ones(len(first))
    best = np.full(len(first), -np.inf)
    for _ in range(14):
        share = low + (high - low) * np.linspace(0, 1, 9)[:, None]
        values = surrogate.value(share * h[first] + (1 - share) * h[second], share * g[first] + (1 - share) * g[second])
        top = np.argmax(values, axis=0)
        best = np.maximum(best, values[top, np.arange(len(first))])
        step = (high - low) / 8
        low, high = low + step * np.maximum(top - 1, 0), low + step * np.minimum(top + 1, 8)
    return float(best.max())


def best_point(surrogate, oracle: PointOracle) -> float:
    """psi over the points."""
    return max(float(surrogate.value(p.h, p.g)) for p in oracle.points)


class Adversary:
    """Answers questions ``(lam, low, high)`` about cones so that the best label is revealed last (spec 9.6, E14).

    All numbers are fractions: its rectangle of places where the best label may yet be shrinks far below what doubles can tell.
    """

    def __init__(self):
        self.low_h, self.high_h, self.low_g, self.high_g = Fraction(1), Fraction(2), Fraction(1), Fraction(2)
        self.seen: list[tuple[Fraction, Fraction]] = []
        self.questions: list[tuple[Fraction, Fraction, Fraction, int | None]] = []

    def ask(self, lam, low, high):
        """The best label of the closed cone ``low <= g / h <= high``; None if there is none."""
        inside = [k for k, (h, g) in enumerate(self.seen) if low * h <= g <= high * h]
        old = max(inside, key=lambda k: self.seen[k][0] + lam * self.seen[k][1]) if inside else None
        if self._retreat(lam, low, high, old):
            answer = old
        else:
            self.seen.append(self._reveal(lam))
            answer = len(self.seen) - 1
        self.questions.append((lam, low, high, answer))
        return None if answer is None else self.seen[answer]

    def _retreat(self, lam, low, high, old) -> bool:
        """Whether a corner of the rectangle is outside the cone, or below the line of a label seen: go there."""
        if self.high_g > high * self.low_h:
            self._shrink(self.low_h, self.high_g, lambda h, g: g > high * h)
        elif self.low_g < low * self.high_h:
            self._shrink(self.high_h, self.low_g, lambda h, g: g < low * h)
        elif old is not None and self.low_h + lam * self.low_g < (top := self.seen[old][0] + lam * self.seen[old][1]):
            self._shrink(self.low_h, self.low_g, lambda h, g: h + lam * g < top)
        else:
            return False
        return True

    def _shrink(self, h, g, holds) -> None:
        """A rectangle at the corner (h, g) of this one all of whose corners satisfy the condition."""
        width, height = self.high_h - self.low_h, self.high_g - self.low_g
        while True:
            width, height = width / 2, height / 2
            hs = (h, h + width) if h == self.low_h else (h - width, h)
            gs = (g, g + height) if g == self.low_g else (g - height, g)
            if all(holds(a, b) for a in hs for b in gs):
                (self.low_h, self.high_h), (self.low_g, self.high_g) = hs, gs
                return

    def _reveal(self, lam):
        """A label of the rectangle off the ray of the question; the rest is worth more, and below its line."""
        h, g = (self.low_h + self.high_h) / 2, (self.low_g + self.high_g) / 2
        if h == lam * g:
            h = (self.low_h + h) / 2
        # Along the contour of the product the line h + lam g falls toward its lowest point, where h = lam g.
        sign = 1 if h < lam * g else -1
        size = min(self.high_h - self.low_h, self.high_g - self.low_g) / 4
        while True:
            size /= 2
            # A step along the contour, and a much smaller one above it.
            a, b = h + sign * size, h * g / (h + sign * size)
            b = _rounded_up(b, size * size * size)
            tiny = size * size * size
            box = (a, a + tiny, b, b + tiny)
            below = box[1] + lam * box[3] < h + lam * g
            within = self.low_h <= box[0] and box[1] <= self.high_h and self.low_g <= box[2] and box[3] <= self.high_g
            if below and within and box[0] * box[2] > h * g:
                self.low_h, self.high_h, self.low_g, self.high_g = box
                return h, g

    def final(self):
        """The best label, never revealed."""
        return (self.low_h + self.high_h) / 2, (self.low_g + self.high_g) / 2


def _rounded_up(number: Fraction, unit: Fraction) -> Fraction:
    """Above the number by at most twice the unit, with a short denominator."""
    bits = max(1, (unit.denominator // max(1, unit.numerator)).bit_length() + 2)
    return Fraction((number.numerator << bits) // number.denominator + 2, 1 << bits)


def rational_root(number: Fraction) -> Fraction:
    """Near the square root, for questions of an angular search in fractions."""
    scale = 1 << 400
    return Fraction(isqrt(number.numerator * scale * scale // number.denominator), scale)
