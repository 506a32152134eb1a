"""The small QP and the ranking problem against general-purpose optimisation."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from maxmargin.losses import ranking_loss
from maxmargin.models import RankingModel
from maxmargin.solvers import OneSlackCuttingPlane, SimplexQP


def simplex_gap(qp):
    """How far the solution is from optimal: the Frank-Wolfe gap, a rigorous bound."""
    gradient = qp.gram @ qp.solution - qp.linear
    return float(gradient @ qp.solution - qp.total * gradient.min())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 40),
    rank=st.integers(1, 12),
    total=st.sampled_from([1e-3, 1.0, 1e4]),
    copies=st.booleans(),
)
def test_simplex_qp_is_optimal(seed, size, rank, total, copies):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(size, rank))
    if copies and size > 1:
        points[1:] = points[rng.integers(0, size, size - 1)]
    linear = rng.normal(size=size)
    if copies and size > 1:
        linear[-1] = linear[0]
    qp = SimplexQP(total)
    for k in range(size):
        qp.add(points[: k + 1] @ points[k], linear[k])
        alpha = qp.solve()
        assert (alpha >= 0).all() and alpha.sum() == pytest.approx(total)
    assert simplex_gap(qp) <= 1e-9 * max(1.0, total**2) * (1 + np.abs(qp.gram).max())


def test_simplex_qp_against_slsqp():
    rng = np.random.default_rng(2)
    points, linear = rng.normal(size=(8, 4)), rng.normal(size=8)
    gram = points @ points.T
    qp = SimplexQP(2.0)
    for k in range(8):
        qp.add(gram[k, : k + 1], linear[k])
    qp.solve()
    reference = minimize(
        lambda a: 0.5 * a @ gram @ a - linear @ a,
        np.full(8, 0.25),
        jac=lambda a: gram @ a - linear,
        bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 2},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert -qp.value == pytest.approx(reference.fun, abs=1e-9)
    kept = np.flatnonzero(qp.solution > 0)
    value = qp.value
    qp.keep(kept)
    assert len(qp) == len(kept) and qp.value == pytest.approx(value)


def all_cuts(X, relevant, loss):
    """Every ranking's (psi, loss), from the pairwise definition."""
    positives, negatives = X[relevant], X[~relevant]
    n_pos, n_neg = len(positives), len(negatives)
    psis, deltas = [], []
    # All matrices of inverted pairs that come from a ranking: permutations of signs and of both classes.
    for pattern in combinations(range(n_pos + n_neg), n_pos):
        above = np.array(pattern) - np.arange(n_pos)
        for order_pos in permutations(range(n_pos)):
            for order_neg in permutations(range(n_neg)):
                psi = np.zeros(X.shape[1])
                for i, a in enumerate(above):
                    psi += sum(positives[order_pos[i]] - negatives[order_neg[j]] for j in range(a))
                psis.append(2 * psi / (n_pos * n_neg))
                deltas.append(loss.value(above, n_neg))
    return np.array(psis), np.array(deltas)


@pytest.mark.parametrize("name", ["ap", "ndcg", "auc", "mrr"])
@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
def test_optimum_equals_the_qp_over_all_rankings(name, C):
    rng = np.random.default_rng(11)
    X, relevant = rng.normal(size=(6, 3)), np.array([1, 0, 0, 1, 0, 0], dtype=bool)
    loss = ranking_loss(name)
    psis, deltas = all_cuts(X, relevant, loss)
    table = np.column_stack([psis, np.ones(len(psis))])
    # Reference: minimise 1/2 |w|^2 + C xi subject to every constraint, in (w, xi).
    reference = minimize(
        lambda z: 0.5 * z[:3] @ z[:3] / C + z[3],
        np.array([0, 0, 0, deltas.max()]),
        jac=lambda z: np.append(z[:3] / C, 1.0),
        constraints={"type": "ineq", "fun": lambda z: table @ z - deltas, "jac": lambda z: table},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert reference.success
    solution = OneSlackCuttingPlane(tol=1e-9).solve(RankingModel(X, relevant, loss), 1 / C)
    assert solution.converged and solution.certified
    assert solution.primal == pytest.approx(reference.fun, rel=1e-6)
    assert solution.dual <= solution.primal * (1 + 1e-12)
