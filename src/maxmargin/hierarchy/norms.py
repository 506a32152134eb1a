"""Norms of weights of labels that share: how little it takes to write them as sums over a hierarchy's nodes, or anything.

Node level, U of shape (M, p), and leaf level, ``Theta = B U`` of shape (L, p), are kept apart (E24).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linprog

from maxmargin._utils import Floats
from maxmargin.hierarchy.hierarchy import Hierarchy
from maxmargin.hierarchy.interior_point import Budgets, Reciprocals, least_sum


def shared_weights(hierarchy: Hierarchy, norms: Floats, epsilon: float = 0.0) -> Floats:
    """The ``alpha >= 0`` with ``B alpha <= 1`` of the least ``sum norms^2 / alpha``; in closed form on trees.

    Parameters
    ----------
    norms : array of shape (M,)
        Of the nodes' weights U.
    epsilon : float, default=0.0
        Part of the mean squared norm that is added to each: a weight of zero would stay zero for ever.

    Examples
    --------
    >>> shared_weights(Hierarchy.from_parents([-1, 0, 0]), np.array([1.0, 3.0, 4.0])).round(3)
    array([0.167, 0.833, 0.833])
    >>> graph = Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("a", "d")])
    >>> shared_weights(graph, np.array([0.0, 1.0, 1.0, 1.0, 1.0])).round(3)
    array([0.   , 0.309, 0.345, 0.691, 0.345])
    """
    squares = hierarchy.check_per_node(norms, "norms") ** 2
    own = np.sqrt(squares + epsilon * squares.mean())
    return _algorithm_5(hierarchy, own) if hierarchy.is_tree else _shared_on_graph(hierarchy, own)[0]


def _algorithm_5(hierarchy: Hierarchy, own: Floats) -> Floats:
    """The weights on a tree, with corrections E27 and E28 of the source's Algorithm 5.

    Leaves take all that is left; an inner node takes ``a / (a + b)`` of its budget, with its own norm a and what its children's
    subtrees need, ``b = sqrt(sum s(c)^2)``; the root keeps its share.
    """
    parent = hierarchy.parent
    leaf = np.zeros(len(own), dtype=bool)
    leaf[hierarchy.leaves] = True
    below, share = np.zeros(len(own)), np.ones(len(own))
    for n in range(len(own) - 1, -1, -1):
        rest = np.sqrt(below[n])
        if not leaf[n]:
            share[n] = own[n] / (own[n] + rest) if own[n] + rest > 0 else 0.0
        if parent[n] >= 0:
            below[parent[n]] += (own[n] + rest) ** 2
    budget = np.ones(len(own))
    for n in range(1, len(own)):
        budget[n] = budget[parent[n]] * (1 - share[parent[n]])
    return budget * share


def _shared_on_graph(hierarchy: Hierarchy, own: Floats) -> tuple[Floats, float]:
    """The weights on any graph by a convex program, and the least sum; leaves take what their ancestors leave.

    Any ``d >= 0`` of leaves that adds up to one proves that no sum is less than ``(sum_n norms_n sqrt((B'd)_n))^2``.
    """
    alpha = np.zeros(len(own))
    leaves = hierarchy.leaves
    if not own.any():
        alpha[leaves] = 1.0
        return alpha, 0.0
    # A node without norm needs no weight, unless it is a leaf, which gets what nobody else needs.
    used = np.union1d(np.flatnonzero(own > 1e-12 * own.max()), leaves)
    place = np.full(len(own), -1)
    place[used] = np.arange(len(used))
    ones = np.ones(len(leaves))
    scaled = (own[used] / own.max()) ** 2
    budgets = Budgets(hierarchy.membership()[:, used], place[leaves], ones, ones, np.zeros((0, 2), dtype=np.int64))
    found = least_sum(Reciprocals(scaled), budgets)
    alpha[used] = found.x
    return alpha, found.value * float(own.max()) ** 2


def _sizes(hierarchy: Hierarchy, U: Floats) -> Floats:
    rows = np.asarray(U, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(hierarchy):
        raise ValueError(f"U has shape {rows.shape}, but the hierarchy has {len(hierarchy)} nodes, one row of weights for each")
    return np.asarray(np.linalg.norm(rows, axis=1))


def node_norm(hierarchy: Hierarchy, U: Floats) -> float:
    """The root of ``min sum |U_n|^2 / alpha_n`` over ``B alpha <= 1``; :func:`tree_norm` on trees.

    Examples
    --------
    >>> graph = Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("a", "d")])
    >>> round(node_norm(graph, np.array([[0.0], [1.0], [1.0], [1.0], [1.0]])), 3)
    3.236
    """
    if hierarchy.is_tree:
        return tree_norm(hierarchy, U)
    sizes = _sizes(hierarchy, U)
    return float(np.sqrt(_shared_on_graph(hierarchy, sizes)[1]))


def tree_norm(hierarchy: Hierarchy, U: Floats) -> float:
    """``s(root)`` with ``s(n) = |U_n| + sqrt(sum of s(c)^2 over children)``: its square is ``min sum |U_n|^2 / alpha_n``.

    Examples
    --------
    >>> tree = Hierarchy.from_parents([-1, 0, 0])
    >>> tree_norm(tree, np.array([[1.0], [3.0], [4.0]]))
    6.0
    """
    sizes = _sizes(hierarchy, U)
    below = np.zeros(len(hierarchy))
    for n in range(len(hierarchy) - 1, 0, -1):
        below[hierarchy.parent[n]] += (sizes[n] + np.sqrt(below[n])) ** 2
    return float(sizes[0] + np.sqrt(below[0]))


def heaviest_antichain(hierarchy: Hierarchy, gains: Floats) -> float:
    """The largest ``gains . alpha`` with ``B alpha <= 1``, ``alpha >= 0``; on graphs that are no trees not less than that.

    On a tree, nodes of which none is above another. Elsewhere by HiGHS: prices of leaves that pay for every node, made to do so
    in floating point too, so that their sum is a bound.

    Examples
    --------
    >>> heaviest_antichain(Hierarchy.from_parents([-1, 0, 0]), np.array([3.0, 1.0, 2.5]))
    3.5
    """
    gains = np.maximum(hierarchy.check_per_node(gains, "gains"), 0.0)
    if not hierarchy.is_tree:
        return _prices(hierarchy, gains)
    parent, best = hierarchy.parent, np.zeros(len(hierarchy))
    for n in range(len(hierarchy) - 1, -1, -1):
        best[n] = max(best[n], float(gains[n]))
        if parent[n] >= 0:
            best[parent[n]] += best[n]
    return float(best[0])


def _prices(hierarchy: Hierarchy, gains: Floats) -> float:
    if not gains.any():
        return 0.0
    B: Any = hierarchy.membership()
    scale = float(gains.max())
    found = linprog(np.ones(B.shape[0]), A_ub=-B.T, b_ub=-gains / scale, bounds=(0, None), method="highs")
    if found.x is None:
        raise RuntimeError(f"the bound of the shared norm was not found: {found.message}")
    # A leaf that is short of its own gain pays it; others that are short raise all prices.
    prices = np.maximum(found.x, gains[hierarchy.leaves] / scale)
    paid = np.asarray(B.T @ prices)
    short = gains > 0
    return float(scale * prices.sum() * max(1.0, float((gains[short] / scale / np.maximum(paid[short], 1e-300)).max())))


def structured_shared_norm(hierarchy: Hierarchy, Theta: Floats, tol: float = 1e-4, max_iter: int = 20_000) -> tuple[float, float]:
    """Upper and lower bound of the norm of leaf weights that are sums over nodes, ``min node_norm(U), B U = Theta``.

    Alternates between the best U for alpha, ``diag(alpha) B' (B diag(alpha) B')^-1 Theta``, and the best alpha for U; the lower
    bound is that of the convex function of alpha along its tangent.

    Examples
    --------
    >>> tree = Hierarchy.from_parents([-1, 0, 0])
    >>> [round(bound, 3) for bound in structured_shared_norm(tree, np.array([[1.0, 2.0], [1.0, 2.0]]))]
    [2.236, 2.236]
    """
    B = hierarchy.membership().toarray()
    Theta = np.asarray(Theta, dtype=np.float64).reshape(len(B), -1)
    if not Theta.any():
        return 0.0, 0.0
    alpha = np.zeros(len(hierarchy))
    alpha[:] = shared_weights(hierarchy, np.ones(len(hierarchy)))
    upper, lower = np.inf, 0.0
    for _ in range(max_iter):
        # d/dalpha_n of tr(Theta' (B diag(alpha) B')^-1 Theta) is -|G_n|^2.
        G = B.T @ np.linalg.solve((B * alpha) @ B.T, Theta)
        squares = np.einsum("nj,nj->n", G, G)
        value = float(squares @ alpha)
        lower = max(lower, 2 * value - heaviest_antichain(hierarchy, squares))
        U = alpha[:, None] * G
        upper = min(upper, node_norm(hierarchy, U) ** 2)
        if upper - lower <= tol * upper:
            break
        alpha = shared_weights(hierarchy, np.linalg.norm(U, axis=1), 1e-9)
    return float(np.sqrt(upper)), float(np.sqrt(max(lower, 0.0)))


def shared_norm(Theta: Floats, tol: float = 1e-4, max_iter: int = 20_000) -> tuple[float, float]:
    """Upper and lower bound of ``min |A|_(2 -> inf) |V|_F`` over all ``A V = Theta``, rows of which are labels.

    By its dual, the largest trace norm of ``diag(sqrt(d)) Theta`` over distributions d, which is concave in d.

    Examples
    --------
    >>> [round(bound, 3) for bound in shared_norm(np.array([[3.0, 0.0], [0.0, 4.0]]))]
    [5.0, 5.0]
    """
    Theta = np.asarray(Theta, dtype=np.float64)
    if not Theta.any():
        return 0.0, 0.0
    d = np.full(len(Theta), 1.0 / len(Theta))
    upper, lower = np.inf, 0.0
    for _ in range(max_iter):
        _, singular, right = np.linalg.svd(np.sqrt(d)[:, None] * Theta, full_matrices=False)
        kept = singular > 1e-12 * singular[0]
        value = float(singular.sum())
        # Twice the derivative, theta_l (Theta' D Theta)^(-1/2) theta_l'; it is the value itself at the best d, where d is not
        # zero.
        slopes = ((Theta @ right[kept].T) ** 2 / singular[kept]).sum(axis=1)
        lower = max(lower, value)
        upper = min(upper, 0.5 * (value + float(slopes.max())))
        if upper - lower <= tol * upper:
            break
        d *= slopes / value
        d /= d.sum()
    return upper, lower
