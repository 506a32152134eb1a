"""How much each node of a hierarchy counts: weights that give every label the same norm.

``alpha >= 0`` with ``B alpha = 1``, one row of B per leaf: the attribute ``sqrt(alpha_n)`` on a leaf's ancestors then has unit
norm, however deep the leaf lies. Node n is at most worth what is left below its ancestors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.special import expit

from maxmargin._types import Floats
from maxmargin.hierarchies.hierarchy import Hierarchy


@dataclass(frozen=True)
class NodeWeights:
    """How the weights of nodes are chosen.

    Parameters
    ----------
    kind : {"rho", "max_min", "flat", "path"}
        ``"rho"``: the least ``sum alpha^rho``; ``"max_min"``: the largest smallest weight and, of the many solutions, that of the
        least sum of squares; ``"flat"``: leaves only; ``"path"``: one for every node, not normalised.
    rho : float, default=2.0
        Above 1.
    directional : bool, default=False
        No node counts less than a parent of it. ``"max_min"`` always has that.
    slack : float, default=1.0
        ``1 <= B alpha <= slack`` instead of an equality; 1.5 helps where a few leaves of a graph have very many ancestors.
    include_root : bool, default=True
        The root is above all labels and tells none apart, but has the largest weight; without it the others share what it had.
    invariant : bool, default=False
        Weights that do not depend on duplicates, nodes above exactly the same leaves: those of the minimal graph, in equal parts.

    Examples
    --------
    >>> tree = Hierarchy.from_parents([-1, 0, 0, 1, 1, 2, 2])
    >>> NodeWeights().of(tree).round(3)
    array([0.571, 0.286, 0.286, 0.143, 0.143, 0.143, 0.143])
    """

    kind: str = "rho"
    rho: float = 2.0
    directional: bool = False
    slack: float = 1.0
    include_root: bool = True
    invariant: bool = False

    def check(self) -> None:
        """Complain about settings without a meaning."""
        if self.kind not in ("rho", "max_min", "flat", "path"):
            raise ValueError(f"kind={self.kind!r} is unknown; choose 'rho', 'max_min', 'flat' or 'path'")
        if not self.rho > 1 or not np.isfinite(self.rho):
            raise ValueError(f"rho={self.rho!r} must be above 1; for the limit at 1 use kind='max_min'")
        if not 1 <= self.slack < np.inf:
            raise ValueError(f"slack={self.slack!r} must be at least 1: leaves need weight")

    def of(self, hierarchy: Hierarchy) -> Floats:
        """``alpha``, of shape (M,)."""
        self.check()
        alpha = np.zeros(len(hierarchy))
        if self.kind == "path":
            alpha[:] = 1.0
            if not self.include_root:
                alpha[0] = 0.0
        elif self.kind == "flat" or len(hierarchy) == 1:
            alpha[hierarchy.leaves] = 1.0
        elif self.invariant:
            # Computing them where no duplicates are is the same as minimising sum |F|^(rho - 1) alpha^rho. (That they vanish as
            # rho -> 1, as the source has it, is true in a degenerate sense only: the root takes all, and ratios of branches
            # tend to 1/|F|.)
            small, group, multiplicity = hierarchy.minimal_graph()
            if len(small) > 1:
                alpha = self._plain(small)[group] / multiplicity
            else:
                alpha[:] = 1.0 / multiplicity
        else:
            alpha = self._plain(hierarchy)
        return alpha

    def _plain(self, hierarchy: Hierarchy) -> Floats:
        if self.kind == "rho" and hierarchy.is_tree and not self.directional and self.slack == 1:
            return tree_weights(hierarchy, self.rho, include_root=self.include_root)
        return self._by_program(hierarchy)

    def _by_program(self, hierarchy: Hierarchy) -> Floats:
        """A convex program with few linear constraints, in ``beta = alpha - least >= 0``."""
        used = np.arange(len(hierarchy)) if self.include_root else np.arange(1, len(hierarchy))
        B: Any = hierarchy.membership()[:, used]
        sizes = np.asarray(B.sum(axis=1)).ravel()
        # The largest possible smallest weight: a leaf takes what the others leave, so only the leaf with most ancestors limits
        # it.
        least = self.slack / sizes.max() if self.kind == "max_min" else 0.0
        power = 2.0 if self.kind == "max_min" else self.rho
        lower, upper = 1.0 - least * sizes, self.slack - least * sizes
        # Where nothing is left the nodes are at the limit, and out of the program, which needs an interior.
        tight = upper <= 1e-12 * self.slack
        fixed = np.zeros(len(used), dtype=bool)
        fixed[B[np.flatnonzero(tight)].indices] = True
        free = np.flatnonzero(~fixed)
        alpha = np.zeros(len(hierarchy))
        alpha[used] = least
        if len(free):
            rows = np.flatnonzero(~tight)
            place = np.full(len(hierarchy), -1)
            place[used[free]] = np.arange(len(free))
            pairs = place[hierarchy.edges]
            pairs = pairs[(pairs >= 0).all(axis=1)] if self.directional or self.kind == "max_min" else pairs[:0]
            alpha[used[free]] += _least_powers(B[rows][:, free], lower[rows], upper[rows], pairs, least, power)
        return alpha


def tree_weights(hierarchy: Hierarchy, rho: float = 2.0, *, include_root: bool = True) -> Floats:
    """The weights of a tree with the least ``sum alpha^rho``, in closed form: once up, once down.

    Below a node with weight sums ``S`` of its children's subtrees, it keeps ``S^(1/(rho-1))`` parts to their one.
    """
    parent = hierarchy.parent
    n = len(parent)
    # log c of every subtree, c being its least sum of powers at a budget of 1; log S of the children.
    log_sum = np.full(n, -np.inf)
    share = np.ones(n)
    leaf = np.zeros(n, dtype=bool)
    leaf[hierarchy.leaves] = True
    for k in range(n - 1, -1, -1):
        log_c = 0.0
        if not leaf[k]:
            # Near rho = 1 the power overflows; its odds do not.
            odds = log_sum[k] / (rho - 1)
            share[k] = expit(odds) if k or include_root else 0.0
            log_c = -(rho - 1) * np.logaddexp(0.0, -odds)
        if parent[k] >= 0:
            log_sum[parent[k]] = np.logaddexp(log_sum[parent[k]], log_c)
    budget = np.ones(n)
    for k in range(1, n):
        budget[k] = budget[parent[k]] * (1 - share[parent[k]])
    return budget * share


def _least_powers(B: Any, lower: Floats, upper: Floats, pairs: Any, least: float, power: float) -> Floats:
    """The least ``sum (least + beta)^power``, ``beta >= 0``, ``lower <= B beta <= upper`` and ``beta_a <= beta_b`` for pairs.

    By an interior point method: all constraints become equalities ``G z = h`` with ``z = (beta, slacks) >= 0``.
    """
    m = B.shape[1]
    parts, sides = [], []
    if np.allclose(lower, upper):
        parts.append((B, 0.0, len(lower)))
        sides.append(upper)
    else:
        parts += [(B, -1.0, len(lower)), (B, 1.0, len(upper))]
        sides += [np.maximum(lower, 0.0), upper]
    if len(pairs):
        rows = np.arange(len(pairs))
        difference = sparse.csr_array((np.ones(len(pairs)), (rows, pairs[:, 1])), shape=(len(pairs), m)) - sparse.csr_array(
            (np.ones(len(pairs)), (rows, pairs[:, 0])), shape=(len(pairs), m)
        )
        parts.append((difference, -1.0, len(pairs)))
        sides.append(np.zeros(len(pairs)))
    slack_counts = [count if sign else 0 for _, sign, count in parts]
    blocks = [
        [matrix]
        + [
            sign * sparse.eye_array(count) if k == j else sparse.csr_array((count, size))
            for j, size in enumerate(slack_counts)
            if size
        ]
        for k, (matrix, sign, count) in enumerate(parts)
    ]
    G: Any = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    return interior_point(G, np.concatenate(sides), m, least, power)[:m]


def interior_point(G: Any, h: Floats, m: int, least: float, power: float, tol: float = 1e-12) -> Floats:
    """The z >= 0 with ``G z = h`` and the least ``sum over its first m entries of (least + z)^power``; by Mehrotra's method."""
    n = G.shape[1]
    z, u, y = np.ones(n), np.ones(n), np.zeros(G.shape[0])
    first = np.arange(n) < m

    def derivatives(z: Floats) -> tuple[Floats, Floats]:
        at = least + z[:m]
        slope, bend = np.zeros(n), np.zeros(n)
        slope[:m], bend[:m] = power * at ** (power - 1), power * (power - 1) * at ** (power - 2)
        return slope, bend

    def longest(x: Floats, dx: Floats) -> float:
        down = dx < 0
        return float(min(1.0, 0.995 * np.min(-x[down] / dx[down], initial=1 / 0.995)))

    for _ in range(200):
        slope, bend = derivatives(z)
        stationary, feasible, mu = slope - G.T @ y - u, h - G @ z, float(z @ u) / n
        scale = 1.0 + float(np.abs(slope[first]).max())
        done = np.abs(stationary).max() <= 1e-9 * scale and np.abs(feasible).max() <= tol and mu <= tol * scale
        if done or mu <= 1e-30:
            break
        # Not the normal equations: the root, above all leaves, would make them dense. The last block keeps weights that are too
        # small
        # to be seen beside others from making the matrix singular; that costs steps, no accuracy.
        diagonal = bend + u / z
        small = 1e-14 * (np.abs(G) @ (1.0 / diagonal))
        matrix = sparse.block_array([[sparse.diags_array(diagonal), -G.T], [G, sparse.diags_array(small)]], format="csc")
        system = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=1e-3, options={"SymmetricMode": True})

        dz, _, du = _direction(system, stationary, feasible, z, u, -z * u)
        ahead = float((z + longest(z, dz) * dz) @ (u + longest(u, du) * du)) / n
        dz, dy, du = _direction(system, stationary, feasible, z, u, (ahead / mu) ** 3 * mu - z * u - dz * du)
        # One length for all: slopes are not linear.
        step = min(longest(z, dz), longest(u, du))
        z, y, u = z + step * dz, y + step * dy, u + step * du
    return np.asarray(z)


def _direction(
    system: Any, stationary: Floats, feasible: Floats, z: Floats, u: Floats, target: Floats
) -> tuple[Floats, Floats, Floats]:
    """Newton's: ``bend dz - G'dy - du = -stationary``, ``G dz = feasible``, ``u dz + z du = target``."""
    found = system.solve(np.concatenate([-stationary + target / z, feasible]))
    return found[: len(z)], found[len(z) :], (target - u * found[: len(z)]) / z
