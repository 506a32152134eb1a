"""How much each node of a hierarchy counts: weights that give every label the same norm.

``alpha >= 0`` with ``B alpha = 1``, one row of B per leaf: the attribute ``sqrt(alpha_n)`` on a leaf's ancestors then has unit
norm, however deep the leaf lies. Node n is at most worth what is left below its ancestors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from maxmargin._utils import Floats
from maxmargin.hierarchy.hierarchy import Hierarchy
from maxmargin.hierarchy.interior_point import Budgets, Powers, least_sum


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
            # Computing them where no duplicates are is the same as minimising sum |F|^(rho - 1) alpha^rho (E22). (That they
            # vanish as rho -> 1, as the source has it, is true in a degenerate sense only, E23: the root takes all, and ratios
            # of branches tend to 1/|F|.)
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
        """A convex program with linear constraints, in ``beta = alpha - least >= 0``; to a gap that its dual proves."""
        used = np.arange(len(hierarchy)) if self.include_root else np.arange(1, len(hierarchy))
        B: Any = hierarchy.membership()[:, used]
        sizes = np.asarray(B.sum(axis=1)).ravel()
        # The largest possible smallest weight: a leaf takes what the others leave, so only the leaf with most ancestors limits
        # it.
        least = self.slack / sizes.max() if self.kind == "max_min" else 0.0
        power = 2.0 if self.kind == "max_min" else self.rho
        upper = self.slack - least * sizes
        lower = upper if self.slack == 1 else np.maximum(1.0 - least * sizes, 0.0)
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
            budgets = Budgets(B[rows][:, free], place[hierarchy.leaves[rows]], lower[rows], upper[rows], pairs)
            alpha[used[free]] += least_sum(Powers(least, power), budgets).x
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
