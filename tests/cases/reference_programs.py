"""Small convex programs with a proof of their optimum: the references that tests compare solvers with.

Clarabel, an interior-point solver, finds a point and multipliers. Nothing else is taken from it, not even its status. The point
is moved to where it satisfies all constraints, so that its objective is an upper bound of the optimum. The multipliers are moved
to where they are feasible for the dual program, so that the least value of the Lagrangian is a lower bound. Both bounds hold
whatever the point and the multipliers are. If they are close to each other they prove the optimum; otherwise AssertionError is
raised.
"""

from typing import NamedTuple

import clarabel
import numpy as np
from scipy import sparse

# Rounding: how far constraints may be violated, and how far bounds may be on the wrong side, relative to the numbers involved.
_VIOLATION, _CROSSING = 1e-13, 1e-11
# Precision and regularisation that Clarabel is asked for, until the proof is complete. A precision that rounding puts out of
# reach may end far from the optimum; which regularisation comes nearest differs from program to program.
_SETTINGS = ((1e-13, 1e-11), (1e-12, 1e-12), (1e-12, 1e-13), (1e-12, 1e-8), (1e-11, 1e-10), (1e-9, 1e-8))


class Optimum(NamedTuple):
    """Bounds of the least value, and a point.

    Attributes
    ----------
    value : float
        Objective at ``x``; at least the optimum.
    x : ndarray
        A point that satisfies all constraints.
    bound : float
        A lower bound of the objective; at most the optimum.
    """

    value: float
    x: np.ndarray
    bound: float


class Cone(NamedTuple):
    """The constraint that ``s = matrix @ x + offset`` is in a cone.

    Attributes
    ----------
    kind : str or float
        ``"norm"``: ``s[0] >= |s[1:]|``. ``"exp"``: ``s[2] >= s[1] exp(s[0] / s[1])`` with ``s[1] > 0``. A number ``a`` between 0
        and 1: ``s[0]**a * s[1]**(1 - a) >= |s[2]|`` with ``s[0], s[1] >= 0``.
    matrix, offset : array-like
    """

    kind: str | float
    matrix: np.ndarray
    offset: np.ndarray


def proved(found, tol):
    """The optimum, as soon as the least of some values and the largest of their bounds prove it.

    Parameters
    ----------
    found : iterable of (value, x, bound)
    tol : float
        ``value - bound`` may be ``tol * (1 + |value|)``.
    """
    best, x, bound, scale = np.inf, None, -np.inf, 1.0
    for value, point, below in found:
        if value < best:
            best, x, scale = value, point, 1 + abs(value)
        bound = max(bound, below)
        if best - bound <= tol * scale:
            break
    # Written so that numbers that are not finite prove nothing.
    if not (x is not None and -_CROSSING * scale <= best - bound <= tol * scale):
        raise AssertionError(f"no proof of an optimum: value {best:.17g}, bound {bound:.17g}, difference {best - bound:.3g}")
    return Optimum(float(best), x, float(bound))


def _solutions(curvature, linear, matrix, right, cones):
    """Points and multipliers for ``min sum(curvature x^2) / 2 + linear x`` where ``right - matrix @ x`` is in the cones."""
    n = len(linear)
    squares = sparse.csc_matrix((curvature, np.arange(n), np.arange(n + 1)), shape=(n, n))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for precision, regularisation in _SETTINGS:
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = precision
        settings.static_regularization_constant = regularisation
        found = clarabel.DefaultSolver(squares, linear, matrix, right, cones, settings).solve()
        yield np.array(found.x), np.array(found.z)


class _Box:
    """Bounds of variables, and their form as ``rows @ x >= least``."""

    def __init__(self, bounds, n):
        self.lower, self.upper = (np.broadcast_to(np.asarray(limit, dtype=float), n) for limit in bounds)
        eye, below, above = np.eye(n), np.isfinite(self.lower), np.isfinite(self.upper)
        self.rows, self.least = np.vstack([eye[below], -eye[above]]), np.concatenate([self.lower[below], -self.upper[above]])

    def lowest(self, curvature, slope):
        """Minimum of ``sum(curvature x^2) / 2 + slope x`` within the bounds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(curvature > 0, -slope / curvature, np.where(slope > 0, -np.inf, np.inf))
            x = np.where((curvature == 0) & (slope == 0), 0.0, np.clip(free, self.lower, self.upper))
        return curvature @ x**2 / 2 + slope @ x

    def nearby(self, x, rows, equal):
        """A point that satisfies all constraints: projections on those that are violated, one after the other."""
        (rows, least), (equal, right) = rows, equal
        size = [1 + np.abs(limits) + np.abs(matrix).sum(axis=1) for matrix, limits in ((rows, least), (equal, right))]
        for _ in range(1000):
            x = np.clip(x, self.lower, self.upper)
            short, off = least - rows @ x, right - equal @ x
            if (short <= _VIOLATION * size[0]).all() and (np.abs(off) <= _VIOLATION * size[1]).all():
                return x
            wrong, free = short > 0, (x > self.lower) & (x < self.upper)
            table, wanted = np.vstack([equal, rows[wrong]])[:, free], np.concatenate([off, short[wrong]])
            x[free] += np.linalg.lstsq(table, wanted, rcond=None)[0]
        raise AssertionError(f"no point satisfies the constraints: {np.abs(np.append(off, short.clip(0))).max():.3g} are missing")


def _in_dual_cone(kind, z):
    """A point of the dual cone, near to z if z is near to the cone."""
    if kind == "norm":
        return np.append(max(z[0], np.linalg.norm(z[1:])), z[1:])
    u, v, w = z
    if kind == "exp":
        return np.array([u, v, max(w, -u * np.exp(v / u - 1))] if u < 0 else [0.0, max(v, 0.0), max(w, 0.0)])
    u, v = max(u, 0.0), max(v, 0.0)
    most = (u / kind) ** kind * (v / (1 - kind)) ** (1 - kind)
    return np.array([u, v, np.clip(w, -most, most)])


def _clarabel_cone(kind, size):
    if kind == "norm":
        return clarabel.SecondOrderConeT(size)
    return clarabel.ExponentialConeT() if kind == "exp" else clarabel.PowerConeT(kind)


def _pair(constraints, n):
    """Matrix and right side as arrays, of no rows by default."""
    matrix, limits = (np.zeros((0, n)), np.zeros(0)) if constraints is None else constraints
    return np.asarray(matrix, dtype=float), np.asarray(limits, dtype=float)


def convex_program(linear, curvature=0.0, *, rows=None, equal=None, bounds=(-np.inf, np.inf), cones=(), objective=None, tol=1e-8):
    """Minimise ``sum(curvature x^2) / 2 + linear x``.

    Parameters
    ----------
    linear, curvature : array-like
    rows, equal : pair of a matrix and an array, optional
        ``rows[0] @ x >= rows[1]`` and ``equal[0] @ x == equal[1]``.
    bounds : pair of array-like
        The proof needs bounds of every variable without curvature. Any that hold at the optimum will do.
    cones : list of Cone
    objective : callable, optional
        The objective as a function of ``x``. It is needed with cones, and must compute the convex functions that variables bound
        by means of cones, instead of using these variables.
    tol : float
        See `proved`.
    """
    linear = np.asarray(linear, dtype=float)
    n = len(linear)
    curvature, box = np.broadcast_to(np.asarray(curvature, dtype=float), n), _Box(bounds, n)
    rows, equal = _pair(rows, n), _pair(equal, n)
    if not ((curvature > 0) | np.isfinite(box.lower) & np.isfinite(box.upper)).all():
        raise ValueError("every variable without curvature needs bounds")
    if objective is None and cones:
        raise ValueError("cones need objective=")
    # What must be in the cones: matrix @ x - limits.
    conic = [(np.asarray(matrix, dtype=float), -np.asarray(offset, dtype=float)) for _, matrix, offset in cones]
    parts = [equal, rows, (box.rows, box.least), *conic]
    matrix, limits = np.vstack([part for part, _ in parts]), np.concatenate([part for _, part in parts])
    cuts = np.cumsum([len(part) for _, part in parts])[:-1]
    kinds = [clarabel.ZeroConeT(len(equal[1])), clarabel.NonnegativeConeT(len(rows[1]) + len(box.least))]
    kinds += [_clarabel_cone(cone.kind, len(cone.offset)) for cone in cones]

    def bound(z):
        free, positive, _, *others = np.split(z, cuts)
        # Bounds need no multipliers: the Lagrangian is minimised within them.
        z = [free, np.maximum(positive, 0), 0 * box.least]
        z = np.concatenate([*z, *(_in_dual_cone(cone.kind, own) for cone, own in zip(cones, others, strict=True))])
        return z @ limits + box.lowest(curvature, linear - z @ matrix)

    def found():
        for x, z in _solutions(curvature, linear, sparse.csc_matrix(-matrix), -limits, kinds):
            x = box.nearby(x, rows, equal)
            yield curvature @ x**2 / 2 + linear @ x if objective is None else objective(x), x, bound(z)

    return proved(found(), tol)


class MarginProgram:
    """Minimise ``lam / 2 |w|^2 + sum_i shares[i] max(loss - psi @ w)``, the maximum over all outputs of a block ``(psi, loss)``.

    The value of weights is computed by this formula. The multipliers of the outputs of a block are scaled to the block's share.

    Parameters
    ----------
    blocks : list of (ndarray of shape (n_outputs, n_features), ndarray of shape (n_outputs,))
    shares : array-like, optional
        By default the mean over blocks.
    bounds : pair of array-like, optional
    rows : pair of a matrix and an array, optional
        Weights must satisfy ``rows[0] @ w >= rows[1]``.
    """

    def __init__(self, blocks, shares=None, bounds=None, rows=None):
        shares = np.full(len(blocks), 1 / len(blocks)) if shares is None else np.asarray(shares, dtype=float)
        # Without a share a block would have multipliers of zero, and nothing to scale.
        blocks, self.shares = [block for block, share in zip(blocks, shares, strict=True) if share > 0], shares[shares > 0]
        sizes = [len(loss) for _, loss in blocks]
        self.starts, self.block_of = np.cumsum([0, *sizes[:-1]]), np.repeat(np.arange(len(blocks)), sizes)
        self.psi, self.losses = np.vstack([psi for psi, _ in blocks]), np.concatenate([loss for _, loss in blocks])
        d, n = self.psi.shape[1], len(blocks)
        self.box, self.rows = _Box((-np.inf, np.inf) if bounds is None else bounds, d), _pair(rows, d)
        # Variables of Clarabel's program: the weights, and a hinge for each block.
        hard = np.vstack([self.rows[0], self.box.rows])
        table = np.block([[self.psi, np.eye(n)[self.block_of]], [hard, np.zeros((len(hard), n))]])
        self.matrix = sparse.csc_matrix(-table)
        self.right = -np.concatenate([self.losses, self.rows[1], self.box.least])
        self.linear, self.cones = np.concatenate([np.zeros(d), self.shares]), [clarabel.NonnegativeConeT(len(table))]

    def value(self, weights, lam):
        """The objective."""
        return lam / 2 * weights @ weights + self.shares @ np.maximum.reduceat(self.losses - self.psi @ weights, self.starts)

    def bound(self, alpha, beta, lam):
        """The dual objective for multipliers of outputs and of rows, after they are made feasible."""
        alpha, beta = np.maximum(alpha, 0), np.maximum(beta, 0)
        sums = np.add.reduceat(alpha, self.starts)
        if not (sums > 0).all():
            return -np.inf
        alpha *= (self.shares / sums)[self.block_of]
        slope = -(alpha @ self.psi + beta @ self.rows[0])
        return alpha @ self.losses + beta @ self.rows[1] + self.box.lowest(np.full(len(slope), float(lam)), slope)

    def optimum(self, lam=1.0, tol=1e-8):
        """The best weights; see `proved` for tol."""
        d, m, k = self.psi.shape[1], len(self.losses), len(self.rows[1])
        # In units in which the curvature is at most one.
        unit, matrix = 1 / np.sqrt(max(1.0, lam)), self.matrix.copy()
        matrix.data[: matrix.indptr[d]] *= unit
        curvature = np.repeat([min(1.0, lam), 0.0], [d, len(self.shares)])

        def found():
            for x, z in _solutions(curvature, self.linear, matrix, self.right, self.cones):
                weights = self.box.nearby(unit * x[:d], self.rows, _pair(None, d))
                yield self.value(weights, lam), weights, self.bound(z[:m], z[m : m + k], lam)

        return proved(found(), tol)


def tangent_program(tangents, n_features, shares, lam=1.0, tol=1e-8, max_rounds=200):
    """Minimise ``lam / 2 |w|^2 + sum_i shares[i] hinge_i(w)`` for hinges that are maxima of convex functions.

    A `MarginProgram` of tangents bounds the objective from below. Tangents at its optimum are added until the proof is complete.

    Parameters
    ----------
    tangents : callable
        ``tangents(w)`` is a list of ``(psi, loss)``, one for each block: ``loss - psi @ v`` is at most the block's hinge at every
        ``v``, and its maximum is the hinge at ``v = w``.
    n_features : int
    shares : array-like
    """

    def found():
        weights, bound, known = np.zeros(n_features), -np.inf, [[] for _ in shares]
        for _ in range(max_rounds):
            new = tangents(weights)
            yield MarginProgram(new, shares).value(weights, lam), weights, bound
            for own, more in zip(known, new, strict=True):
                own.append(more)
            program = MarginProgram([[np.concatenate(part) for part in zip(*own, strict=True)] for own in known], shares)
            _, weights, bound = program.optimum(lam)

    return proved(found(), tol)
