"""Surrogates that are affine in the margin error: margin and slack rescaling, and what lies between them (spec 6.1-6.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.surrogates.base import Surrogate

# Losses whose powers neither overflow nor underflow.
_SMALL = 1e-100


@dataclass(frozen=True)
class GeneralizedScaling(Surrogate):
    """``h g^beta + g^alpha``: margin rescaling for (1, 0), slack rescaling for (1, 1).

    Quasi-concave and increasing for ``beta >= 0`` and ``0 <= alpha - beta <= 1``; the printed region has the two exchanged (E3).

    Parameters
    ----------
    alpha, beta : float
        Powers of the loss that a wrong output costs, and by which its margin error counts.

    Examples
    --------
    >>> GeneralizedScaling(1.0, 0.5).value(2.0, 4.0)
    8.0
    """

    alpha: float
    beta: float
    by_numbers: ClassVar[bool] = True

    @property
    def bounds_loss(self) -> bool:
        """For alpha = 1; other powers are below the loss for small losses or for large ones."""
        return self.alpha == 1

    @property
    def product(self) -> bool:
        """For alpha = beta = 1."""
        return self.alpha == 1 and self.beta == 1

    def check_parameters(self) -> None:
        """The region of E3."""
        super().check_parameters()
        alpha, beta = self.alpha, self.beta
        if not (np.isfinite(alpha) and np.isfinite(beta)):
            raise ValueError(f"alpha={alpha!r} and beta={beta!r} must be finite numbers")
        if beta < 0:
            raise ValueError(f"beta={beta!r} must not be negative: h g^beta + g^alpha would decrease in g")
        if not 0 <= alpha - beta <= 1:
            raise ValueError(
                f"alpha - beta = {alpha - beta:g} must lie between 0 and 1: h g^beta + g^alpha would not be quasi-concave (E3)"
            )

    def affine(self, g: Any) -> tuple[Any, Any]:
        """``(g^beta, g^alpha)``; the latter is zero for g = 0, so that the truth costs nothing even for alpha = 0."""
        if type(g) is float:
            return g**self.beta, g**self.alpha if self.alpha > 0 else float(g > 0)
        own = np.power(g, self.alpha) if self.alpha > 0 else np.where(np.asarray(g) > 0, 1.0, 0.0)[()]
        return np.power(g, self.beta), own

    def value(self, h: Any, g: Any) -> Any:
        """``h g^beta + g^alpha``."""
        a, b = self.affine(g)
        return a * h + b

    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """``(g^beta, beta h g^(beta - 1) + alpha g^(alpha - 1))``."""
        if type(g) is float and type(h) is float and g > _SMALL:
            psi_h = g**self.beta
            return psi_h, self.beta * h * psi_h / g + self.alpha * g ** (self.alpha - 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            psi_g = _term(self.beta, h, g) + _term(self.alpha, 1.0, g)
        return np.power(g, self.beta) + 0.0 * np.asarray(h), psi_g

    def tangent(self, h: Any, g: Any) -> Any:
        """``beta h / g + alpha g^(alpha - beta - 1)``, without a quotient of powers."""
        if type(g) is float and type(h) is float:
            if g > _SMALL:
                return self.beta * h / g + self.alpha * g ** (self.alpha - self.beta - 1.0)
            if g == 0 and h == 0 and self.beta:
                return math.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            first = self.beta * np.divide(h, g) if self.beta else 0.0
            second = self.alpha * np.power(np.asarray(g, dtype=np.float64), self.alpha - self.beta - 1.0) if self.alpha else 0.0
            return first + second + 0.0 * np.asarray(h)


@dataclass(frozen=True)
class BetaScaling(GeneralizedScaling):
    """``h g^beta + g``, between margin rescaling (0) and slack rescaling (1).

    Examples
    --------
    >>> BetaScaling(0.5).tangent(0.0, 4.0)
    0.5
    """

    def __init__(self, beta: float, *, search: Any = "auto") -> None:
        # The power of the loss is fixed.
        for name, value in {"alpha": 1.0, "beta": beta, "search": search}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"BetaScaling(beta={self.beta!r}, search={self.search!r})"


@dataclass(frozen=True)
class Slack(Surrogate):
    """Slack rescaling, ``(1 + h) g``: wrong outputs must lose by one, and what they violate counts in proportion to the loss.

    Examples
    --------
    >>> Slack().value([-10.0, 1.0], [100.0, 2.0])
    array([-900.,    4.])
    """

    by_numbers: ClassVar[bool] = True

    @property
    def product(self) -> bool:
        """It is."""
        return True

    def affine(self, g: Any) -> tuple[Any, Any]:
        """``(g, g)``."""
        return g, g

    def value(self, h: Any, g: Any) -> Any:
        """``(1 + h) g``."""
        if type(h) is float and type(g) is float:
            return (1.0 + h) * g
        return np.multiply(np.add(h, 1.0), g)

    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """``(g, 1 + h)``."""
        if type(h) is float and type(g) is float:
            return g, 1.0 + h
        return g + 0.0 * np.asarray(h), 1.0 + h + 0.0 * np.asarray(g)

    def tangent(self, h: Any, g: Any) -> Any:
        """``(1 + h) / g``."""
        if type(h) is float and type(g) is float and (g > 0 or h > -1):
            return (1.0 + h) / g if g else math.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(np.add(h, 1.0), g)


def _term(power: float, factor: Any, g: Any) -> Any:
    """The derivative of ``factor * g^power``; zero for the power zero, wherever g is."""
    if power == 0:
        return 0.0 * np.asarray(factor) * np.asarray(g)
    return power * np.asarray(factor) * np.power(np.asarray(g, dtype=np.float64), power - 1.0)
