"""Logistic regression from sums over shards: Newton's method where Hessians are small, L-BFGS elsewhere; several at once.

The objective is that of scikit-learn's ``LogisticRegression``, ``C * sum of losses + 1/2 ||w||^2``, divided by C and the number
of samples; the intercept, the last weight, counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from maxmargin._types import Floats
from maxmargin.distributed.chorus import in_chorus

_MOST_STEPS = 1000
_MOST_HALVINGS = 40
_EPS = float(np.finfo(np.float64).eps)


class Sums(NamedTuple):
    """Over samples: the logistic loss, its gradient (d + 1,), its Hessian if asked for; and whether time is up."""

    loss: float
    gradient: Floats
    hessian: Floats | None
    over: bool


@dataclass(frozen=True)
class Regression:
    """A logistic regression whose sums somebody else makes.

    Parameters
    ----------
    n : int
        How many samples there are.
    C : float
    tol : float
        It ends when no component of the gradient is larger.

    Examples
    --------
    >>> x, y = np.array([-2.0, -1.0, 1.0, 3.0]), np.array([0, 1, 0, 1])
    >>> def sums(weights):
    ...     p = 1 / (1 + np.exp(-(x * weights[0] + weights[1])))
    ...     rows = np.column_stack([x, np.ones(4)])
    ...     loss = -np.log(np.where(y, p, 1 - p)).sum()
    ...     return Sums(loss, rows.T @ (p - y), (rows.T * (p * (1 - p))) @ rows, False)
    >>> regression = Regression(4, C=1.0, tol=1e-10)
    >>> newton, quasi = regression.newton(sums, np.zeros(2)), regression.quasi_newton(sums, np.zeros(2))
    >>> newton.round(4), bool(np.allclose(newton, quasi))
    (array([ 0.3332, -0.0774]), True)
    """

    n: int
    C: float
    tol: float

    def newton(self, sums: Callable[[Floats], Sums], first: Floats) -> Floats:
        """Weights by Newton's method from ``first``; if time is up, after the step that is being made."""
        at, here = first, self._at(first, sums(first))
        for _ in range(_MOST_STEPS):
            value, gradient, hessian = here[:3]
            if float(np.abs(gradient).max()) <= self.tol:
                break
            direction = _solved(hessian, gradient)
            slope, length = float(gradient @ direction), 1.0
            # What is left is rounding.
            if slope <= 4 * _EPS * abs(value):
                break
            for _ in range(_MOST_HALVINGS):
                there = at - length * direction
                new = self._at(there, sums(there))
                if new[0] <= value - 1e-4 * length * slope:
                    break
                length *= 0.5
            else:
                break
            at, here = there, new
            if here[3]:
                break
        return at

    def quasi_newton(self, sums: Callable[[Floats], Sums], first: Floats) -> Floats:
        """Weights by L-BFGS from ``first``; if time is up, after the step that is being made."""
        over = False

        def objective(at: Floats) -> tuple[float, Floats]:
            nonlocal over
            value, gradient, _, over = self._at(at, sums(at))
            return value, gradient

        def end(intermediate_result: Any) -> None:
            if over:
                raise StopIteration

        options: Any = {"maxiter": _MOST_STEPS, "maxls": 50, "gtol": self.tol, "ftol": 64 * _EPS}
        found = minimize(objective, first, jac=True, method="L-BFGS-B", callback=end, options=options)
        return np.asarray(found.x, dtype=np.float64)

    def _at(self, weights: Floats, sums: Sums) -> tuple[float, Floats, Any, bool]:
        """The objective, its gradient and Hessian; and whether time is up."""
        strength = 1.0 / (self.C * self.n)
        own = np.append(weights[:-1], 0.0)
        hessian = sums.hessian
        if hessian is not None:
            hessian = hessian / self.n + np.diag(np.append(np.full(len(own) - 1, strength), 0.0))
        value = sums.loss / self.n + 0.5 * strength * float(own @ own)
        return value, sums.gradient / self.n + strength * own, hessian, sums.over


def _solved(hessian: Floats, gradient: Floats) -> Floats:
    """Newton's direction; where samples are told apart so well that the Hessian is no number, with some of its size added."""
    size = float(np.diag(hessian).max())
    for ridge in (0.0, 1e-12, 1e-8, 1e-4):
        try:
            return np.asarray(cho_solve(cho_factor(hessian + ridge * size * np.eye(len(gradient))), gradient))
        except LinAlgError:
            continue
    return gradient


def fit_together(
    regressions: Sequence[Regression], firsts: Sequence[Floats], exchange: Callable[[dict[int, Floats]], dict[int, Sums]],
    *, curved: bool,
) -> list[Floats]:  # fmt: skip
    """Weights of several regressions whose questions go out in common rounds.

    Parameters
    ----------
    regressions : sequence of Regression
    firsts : sequence of arrays of shape (d + 1,)
        Where each begins.
    exchange : callable
        Gets weights by number of the regression, and returns sums there.
    curved : bool
        Whether sums have Hessians: Newton's method, or L-BFGS without.
    """
    def voice(regression: Regression, first: Floats) -> Callable[[Any], Floats]:
        solve = regression.newton if curved else regression.quasi_newton
        return lambda call: solve(lambda weights: call("logistic", weights), first)

    voices = [voice(regression, first) for regression, first in zip(regressions, firsts, strict=True)]
    return in_chorus(voices, lambda asked: exchange({k: weights for k, (_, weights) in asked.items()}))
