"""Sums of convex functions of the nodes of a hierarchy under budgets of its leaves, by an interior point method.

``min sum_n f_n(x_n)`` with ``x >= 0``, ``lower <= B x <= upper``, one row of B per leaf, and, if asked, ``x_parent <= x_child``.
Newton's equations are written in the nodes, not in the rows: two nodes meet in them only if one leaf is below both. Children
before parents is then an order of elimination that costs no entry on a tree, ``sum of depths`` in all; equations in the rows
would be full, as all leaves share the root. Where rows are equalities, leaves take what their ancestors leave and are no
unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from maxmargin._utils import Floats, Ints

# A factor with more than this part of its entries is kept as a full matrix, if it is not larger than that many rows.
_FULL, _MOST_FULL = 0.02, 6000


# How far a step goes of the way to the nearest constraint, and how much of the products it must leave: brisk first; where powers
# far from 2 lead such steps astray, the second is slower and safe.
_PACES = ((0.995, 0.0), (0.9, 0.3))


class Costs(Protocol):
    """Convex functions of the weights of nodes, one each."""

    @property
    def keeps_slopes(self) -> bool:
        """Whether slopes, which must be positive then, are unknowns beside the weights."""

    def value(self, x: Floats) -> float:
        """Their sum."""

    def slope(self, x: Floats) -> Floats:
        """First derivatives."""

    def tangent(self, x: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """First and second derivatives at x by the model that is best for a step; ``slope`` is what the last step ended with."""

    def conjugate(self, v: Floats) -> float:
        """The largest ``v . x - value(x)``, over an x that may be anything for which the functions are defined."""


@dataclass(frozen=True)
class Powers:
    """``(least + x)^power``, with a power above 1."""

    least: float
    power: float

    @property
    def keeps_slopes(self) -> bool:
        """Below 2 slopes are steep near 0, and x is the better function of the slope: Newton's step is taken in that one."""
        return self.power < 2

    def value(self, x: Floats) -> float:
        """Their sum."""
        return float(((self.least + x) ** self.power).sum())

    def slope(self, x: Floats) -> Floats:
        """First derivatives."""
        return np.asarray(self.power * (self.least + x) ** (self.power - 1))

    def tangent(self, x: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """Of the powers, or of the inverse of their slopes."""
        if not self.keeps_slopes:
            return self.slope(x), np.asarray(self.power * (self.power - 1) * (self.least + x) ** (self.power - 2))
        at = (slope / self.power) ** (1 / (self.power - 1))
        bend = (self.power - 1) * slope / at
        return slope + (self.least + x - at) * bend, bend

    def conjugate(self, v: Floats) -> float:
        """Over all ``x >= -least``."""
        best = (np.maximum(v, 0.0) / self.power) ** (1 / (self.power - 1))
        return float((v * best - best**self.power - v * self.least).sum())


@dataclass(frozen=True)
class Reciprocals:
    """``squares / x``; 0 where the square is 0."""

    squares: Floats
    keeps_slopes = False

    def value(self, x: Floats) -> float:
        """Their sum."""
        return float((self.squares / x).sum())

    def slope(self, x: Floats) -> Floats:
        """First derivatives."""
        return -self.squares / x**2

    def tangent(self, x: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """First and second derivatives."""
        return self.slope(x), 2 * self.squares / x**3

    def conjugate(self, v: Floats) -> float:
        """Over all ``x > 0``."""
        return float(-2 * np.sqrt(self.squares * -v).sum()) if (v <= 0).all() else np.inf


class Minimum(NamedTuple):
    """Weights of nodes, the sum of their costs, and a lower bound of the sum of any, from the dual."""

    x: Floats
    value: float
    bound: float


@dataclass(frozen=True)
class Budgets:
    """What the weights of nodes must obey.

    Parameters
    ----------
    B : CSR matrix of shape (L, m)
        Nodes at or above each leaf; columns ordered so that ancestors come first.
    own : int array of shape (L,)
        The column of each leaf.
    lower, upper : arrays of shape (L,)
        Of ``B x``; ``0 <= lower <= upper``, ``0 < upper``.
    pairs : int array of shape (e, 2)
        Columns of parents and children, whose weights must not fall; empty if they may.
    """

    B: Any
    own: Ints
    lower: Floats
    upper: Floats
    pairs: Ints

    def start(self) -> Floats:
        """A point inside all of them: little for ancestors, more for later ones, the rest for leaves."""
        m = self.B.shape[1]
        sizes = np.asarray(self.B.sum(axis=1)).ravel()
        middle = np.where(self.lower == self.upper, self.upper, 0.5 * (self.lower + self.upper))
        # With at most half of a leaf's even part for each ancestor, the leaf has more than any of them.
        rank = (1 + np.arange(m)) / m
        limit = np.full(m, np.inf)
        np.minimum.at(limit, self.B.indices, np.repeat(0.5 * middle / sizes, np.diff(self.B.indptr)))
        x = rank * limit.min()
        x[self.own] = 0.0
        x[self.own] = middle - np.asarray(self.B @ x)
        return np.asarray(x)


def least_sum(costs: Costs, budgets: Budgets, tol: float = 1e-9, max_iter: int = 200) -> Minimum:
    """The weights of the least sum of costs, by Mehrotra's method from a point inside; relative gap at most ``tol``.

    Examples
    --------
    A root above two leaves, budgets of 1: halves would cost 3/4, two thirds for the root are best.

    >>> B = sparse.csr_array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    >>> found = least_sum(Powers(0.0, 2.0), Budgets(B, np.array([1, 2]), np.ones(2), np.ones(2), np.zeros((0, 2), int)))
    >>> found.x.round(9), round(found.value, 9)
    (array([0.66666667, 0.33333333, 0.33333333]), 0.666666667)
    """
    for pace in _PACES:
        step = _Steps(costs, budgets, *pace)
        best = step.minimum()
        if not len(step.order):
            # Every leaf has its budget for itself.
            return best._replace(bound=best.value)
        for _ in range(max_iter):
            if not step.advance():
                break
            best = min(best, step.minimum(), key=lambda own: own.value - own.bound if np.isfinite(own.bound) else np.inf)
        if best.value - best.bound <= tol * abs(best.value):
            return best
    raise RuntimeError(
        f"the weights of nodes were not found to {tol:g}: their costs are {best.value:g}, and at least {best.bound:g}; "
        "choose a rho nearer to 2, or relaxation > 1"
    )


class _Steps:
    """Where the method is: unknowns, distances to the constraints, and their multipliers."""

    def __init__(self, costs: Costs, budgets: Budgets, pace: float, leave: float) -> None:
        self.costs, self.budgets, self.pace, self.leave = costs, budgets, pace, leave
        B, own = budgets.B, budgets.own
        m = B.shape[1]
        self.equal = bool((budgets.lower == budgets.upper).all())
        # Children before parents; on graphs that are no trees leaves must go first, which is as good on trees.
        is_leaf = np.zeros(m, dtype=bool)
        is_leaf[own] = True
        inner = np.flatnonzero(~is_leaf)[::-1]
        self.order = inner if self.equal else np.concatenate([own, inner])
        pick = sparse.csr_array((np.ones(len(self.order)), (self.order, np.arange(len(self.order)))), shape=(m, len(self.order)))
        if self.equal:
            place = sparse.csr_array((np.ones(len(own)), (own, np.arange(len(own)))), shape=(m, len(own)))
            pick = pick - place @ (B @ pick)
        # x moves by `pick` times the unknowns; constraints are rows of [identity; rest] times x.
        self.pick: Any = sparse.csr_array(pick)
        parts, sides = [], []
        if len(budgets.pairs):
            rows = np.arange(len(budgets.pairs))
            ones = np.ones(len(rows))
            parts.append(
                sparse.csr_array((ones, (rows, budgets.pairs[:, 1])), shape=(len(rows), m))
                - sparse.csr_array((ones, (rows, budgets.pairs[:, 0])), shape=(len(rows), m))
            )
            sides.append(np.zeros(len(rows)))
        if not self.equal:
            parts += [B, -B]
            sides += [budgets.lower, -budgets.upper]
        self.rest: Any = sparse.csr_array(sparse.vstack(parts, format="csr")) if parts else sparse.csr_array((0, m))
        self.sides = np.concatenate([np.zeros(m), *sides])
        self.moved: Any = sparse.csr_array(sparse.vstack([self.pick, self.rest @ self.pick], format="csr"))
        self.turned: Any = sparse.csr_array(self.moved.T)
        self.x = budgets.start()
        self.distance = np.concatenate([self.x, self.rest @ self.x]) - self.sides
        # Those of the dual: where they are unknowns of their own, they are at the weights in the end only.
        self.slope = costs.slope(self.x)
        scale = float(np.abs(self.slope).max())
        self.multiplier = scale * self.distance.mean() / self.distance
        self.m = m

    def minimum(self) -> Minimum:
        """Where it is, and what any point costs at least; multipliers of equalities are those for which leaves are at rest."""
        pushed = self.multiplier[: self.m] + np.asarray(self.rest.T @ self.multiplier[self.m :])
        bound = float(self.sides @ self.multiplier)
        if self.equal:
            own = self.budgets.own
            y = self.slope[own] - pushed[own]
            pushed = pushed + np.asarray(self.budgets.B.T @ y)
            # So that rounding does not make it positive where it must not be.
            pushed[own] = self.slope[own]
            bound += float(self.budgets.upper @ y)
        return Minimum(self.x.copy(), self.costs.value(self.x), bound - self.costs.conjugate(pushed))

    def advance(self) -> bool:
        """One step; False where there is nothing left to gain."""
        s, z = self.distance, self.multiplier
        slope, bend = self.costs.tangent(self.x, self.slope)
        push = np.asarray(self.pick.T @ slope) - np.asarray(self.turned @ z)
        mu = float(s @ z) / len(s)
        scale = float(np.abs(slope).max())
        size = float(self.x.max())
        if mu <= 1e-18 * scale * size and np.abs(push).max() <= 1e-13 * scale:
            return False
        weights = z / s
        weights[: self.m] += bend
        try:
            solve = _factor(self.turned @ (self.moved * weights[:, None]))
        except (RuntimeError, linalg.LinAlgError):
            # Singular in floating point: as near as it gets, which the bound will tell.
            return False

        def direction(target: Floats) -> tuple[Floats, Floats, Floats]:
            dq = solve(-push + np.asarray(self.turned @ (target / s)))
            ds = np.asarray(self.moved @ dq)
            return np.asarray(self.pick @ dq), ds, (target - z * ds) / s

        _, ds, dz = direction(-s * z)
        ahead = float((s + self._longest(s, ds) * ds) @ (z + self._longest(z, dz) * dz)) / len(s)
        # Where functions bend much, steps leave a push behind, which takes more of them; products must not vanish meanwhile.
        aim = max((ahead / mu) ** 3 * mu, self.leave * mu, 1e-19 * scale * size)
        dx, ds, dz = direction(aim - s * z - ds * dz)
        if not (np.isfinite(dx).all() and np.isfinite(dz).all()):
            return False
        # One length for all: slopes are not linear.
        length = min(self._longest(s, ds), self._longest(z, dz))
        if self.costs.keeps_slopes:
            rise = slope + bend * dx - self.slope
            length = min(length, self._longest(self.slope, rise))
            self.slope = self.slope + length * rise
        self.x, self.distance, self.multiplier = self.x + length * dx, s + length * ds, z + length * dz
        if not self.costs.keeps_slopes:
            self.slope = self.costs.slope(self.x)
        return length > 1e-8

    def _longest(self, x: Floats, dx: Floats) -> float:
        down = dx < 0
        return float(min(1.0, self.pace * np.min(-x[down] / dx[down], initial=1 / self.pace)))


def _factor(matrix: Any) -> Any:
    """What solves ``matrix x = b``, for a positive definite one whose order is good."""
    n = matrix.shape[0]
    # The diagonal's scale differs by many orders between nodes near the root and leaves.
    root = 1.0 / np.sqrt(matrix.diagonal())
    scaled: Any = sparse.csc_array((matrix * root[:, None]) * root)
    if n <= _MOST_FULL and scaled.nnz > _FULL * n * n:
        factor = linalg.cho_factor(scaled.toarray(), check_finite=False)
        return lambda b: root * linalg.cho_solve(factor, root * b, check_finite=False)
    system = splu(scaled, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda b: root * system.solve(root * b)
