"""Surrogates that are curved in the margin error: the scaled log loss and the probability of an error (spec 6.5 and 6.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, ndtr

from maxmargin.surrogates.base import Surrogate

# Below this margin error ``log(1 + e^h)`` is ``e^h`` to the last bit but few.
_FAR = -30.0
# Losses above this are divided by without care.
_SMALL = 1e-100


@dataclass(frozen=True)
class LogLoss(Surrogate):
    """``g log(1 + e^h)``, to the base 2 by default: with natural logarithms it is ``0.69 g`` at ``h = 0``, no bound (E31).

    Parameters
    ----------
    base : float
        Of the logarithm.

    Examples
    --------
    >>> LogLoss().value(0.0, 3.0)
    3.0
    """

    base: float = 2.0
    by_numbers: ClassVar[bool] = True

    @property
    def bounds_loss(self) -> bool:
        """For bases up to 2."""
        return self.base <= 2

    def check_parameters(self) -> None:
        """A base of logarithms."""
        super().check_parameters()
        if not 1 < self.base < np.inf:
            raise ValueError(f"base={self.base!r} must be a number above 1, the base of the logarithm")

    def value(self, h: Any, g: Any) -> Any:
        """``g log(1 + e^h)``."""
        if type(h) is float and type(g) is float:
            return g * _softplus(h) / math.log(self.base)
        return np.multiply(g, np.logaddexp(0.0, h)) / np.log(self.base)

    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """``(g sigma(h), log(1 + e^h))``."""
        if type(h) is float and type(g) is float:
            unit = math.log(self.base)
            return g * _sigmoid(h) / unit, _softplus(h) / unit
        scale = 1.0 / np.log(self.base)
        return np.multiply(g, expit(h)) * scale, np.logaddexp(0.0, h) * scale + 0.0 * np.asarray(g)

    def tangent(self, h: Any, g: Any) -> Any:
        """``log(1 + e^h) / (g sigma(h))``, whose quotient tends to 1 where both underflow."""
        if type(h) is float and type(g) is float and g >= 0:
            if g == 0:
                return math.inf
            return (_softplus(h) / _sigmoid(h) if h > _FAR else 1.0 + 0.5 * math.exp(h)) / g
        near = np.maximum(h, _FAR)
        ratio = np.where(np.asarray(h) > _FAR, np.logaddexp(0.0, near) / expit(near), 1.0 + 0.5 * np.exp(np.minimum(h, _FAR)))
        with np.errstate(divide="ignore"):
            return np.divide(ratio, g)[()]

    def order(self, h: Any, g: Any) -> Any:
        """The logarithm, which does not underflow."""
        inner = np.where(np.asarray(h) > _FAR, np.log(np.logaddexp(0.0, np.maximum(h, _FAR))), h)
        with np.errstate(divide="ignore"):
            return (np.log(g) + inner)[()]


@dataclass(frozen=True)
class ProbLoss(Surrogate):
    """Twice the loss times the probability that noise in every wrong part makes the output win: ``2 g N(h / sqrt(tau g))``.

    Losses must be counts of wrong parts, such as Hamming losses that are not normalized. It is bounded by ``2 g`` and positive
    for every wrong output, so that there is always something to learn from.

    Parameters
    ----------
    convex : bool
        Continue it by its tangent ``g + sqrt(2 g / (pi tau)) h`` for ``h > 0``, so that training is a convex problem. The formula
        itself is for subgradient steps only, and nothing is certified.
    tau : float
        Variance of the noise in every part; 2 / pi makes the slope at ``h = 0`` the root of the loss.

    Examples
    --------
    >>> print(f"{ProbLoss().value(0.0, 4.0):.3f} {ProbLoss().value(1.0, 4.0):.3f} {ProbLoss(convex=False).value(1.0, 4.0):.3f}")
    4.000 6.000 5.876
    """

    convex: bool = True
    tau: float = 2.0 / np.pi
    by_numbers: ClassVar[bool] = True

    def check_parameters(self) -> None:
        """A variance."""
        super().check_parameters()
        if not 0 < self.tau < np.inf:
            raise ValueError(f"tau={self.tau!r} must be a positive number, the variance of the noise")

    def _standard(self, h: Any, g: Any) -> Any:
        """``h / sqrt(tau g)``; the truth, and whatever costs nothing, gets no noise."""
        with np.errstate(divide="ignore", invalid="ignore"):
            u = np.divide(h, np.sqrt(self.tau * np.asarray(g, dtype=np.float64)))
        return np.where(np.isnan(u), 0.0, u)

    def _slope(self, g: Any) -> Any:
        """That of psi at ``h = 0``."""
        return np.sqrt(2.0 / (np.pi * self.tau) * np.asarray(g, dtype=np.float64))

    def value(self, h: Any, g: Any) -> Any:
        """``2 g N(u)``, or its tangent."""
        if type(h) is float and type(g) is float:
            # One number at a time, as searches ask: many times faster than an array of one.
            if g > _SMALL:
                if self.convex and h > 0:
                    return g + math.sqrt(2.0 / (math.pi * self.tau) * g) * h
                return g * math.erfc(-h / math.sqrt(2.0 * self.tau * g))
            if g == 0:
                return 0.0
        curved = 2.0 * np.multiply(g, ndtr(self._standard(h, g)))
        if not self.convex:
            return curved[()]
        return np.where(np.asarray(h) > 0, g + self._slope(g) * h, curved)[()]

    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """``(slope at 0 times exp(-u^2 / 2), 2 N(u) - u n(u))``."""
        if type(h) is float and type(g) is float and g > _SMALL:
            steep = math.sqrt(2.0 / (math.pi * self.tau) * g)
            if self.convex and h > 0:
                return steep, 1.0 + 0.5 * steep * h / g
            near = h / math.sqrt(self.tau * g)
            density = math.exp(-0.5 * near * near)
            return steep * density, math.erfc(-near / math.sqrt(2.0)) - near * density / math.sqrt(2.0 * math.pi)
        u, slope = self._standard(h, g), self._slope(g)
        bell = np.exp(-0.5 * u * u)
        finite = np.where(np.isfinite(u), u, 0.0)
        psi_h, psi_g = slope * bell, 2.0 * ndtr(u) - finite * bell / np.sqrt(2.0 * np.pi)
        if self.convex:
            above = np.asarray(h) > 0
            with np.errstate(divide="ignore", invalid="ignore"):
                line = 1.0 + 0.5 * np.divide(slope * h, g)
            psi_h, psi_g = np.where(above, slope, psi_h), np.where(above, line, psi_g)
        return psi_h[()], psi_g[()]

    def tangent(self, h: Any, g: Any) -> Any:
        """``sqrt(tau / g) (N(u) / n(u) - u / 2)`` by the scaled complementary error function, so that nothing underflows."""
        if type(h) is float and type(g) is float and (g > _SMALL or g == h == 0):
            if g == 0:
                return math.inf
            if self.convex and h > 0:
                slope = math.sqrt(2.0 / (math.pi * self.tau) * g)
                return (1.0 + 0.5 * slope * h / g) / slope
            near = h / math.sqrt(self.tau * g)
            return math.sqrt(self.tau / g) * (math.sqrt(math.pi / 2.0) * float(erfcx(-near / math.sqrt(2.0))) - 0.5 * near)
        u = self._standard(h, g)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            root = np.sqrt(self.tau / np.asarray(g, dtype=np.float64))
            found = root * (np.sqrt(np.pi / 2.0) * erfcx(-u / np.sqrt(2.0)) - 0.5 * u)
            if self.convex:
                slope = self._slope(g)
                found = np.where(np.asarray(h) > 0, (1.0 + 0.5 * np.divide(slope * h, g)) / slope, found)
        return found[()]

    def order(self, h: Any, g: Any) -> Any:
        """The logarithm, which does not underflow."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithm = np.log(2.0 * np.asarray(g, dtype=np.float64)) + log_ndtr(self._standard(h, g))
            if self.convex:
                logarithm = np.where(np.asarray(h) > 0, np.log(g + self._slope(g) * np.maximum(h, 0.0)), logarithm)
        return np.where(np.asarray(g) > 0, logarithm, -np.inf)[()]


def _softplus(h: float) -> float:
    """``log(1 + e^h)`` without overflow."""
    return max(h, 0.0) + math.log1p(math.exp(-abs(h)))


def _sigmoid(h: float) -> float:
    """``1 / (1 + e^-h)`` without overflow."""
    small = math.exp(-abs(h))
    return 1.0 / (1.0 + small) if h >= 0 else small / (1.0 + small)
