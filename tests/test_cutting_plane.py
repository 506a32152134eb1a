"""The small QP and the ranking problem against general-purpose optimisation."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from solver_cases import Hidden

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
        qp.solve()
        alpha = qp.solution
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


def lists(rng, n=60, d=4):
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + rng.normal(size=n) > 0.7).astype(int) + (X[:, 1] > 1)
    return X, y > np.array([[0], [1]]), np.array([0, 20, 45, n])


def test_scores_carry_the_whole_problem():
    """Inference on scores and the transposed map give the same cut as the model as a whole."""
    rng = np.random.default_rng(0)
    X, relevant, offsets = lists(rng)
    model = RankingModel(X, relevant, ranking_loss("ndcg"), offsets, rng.random(3))
    weights, other = rng.normal(size=(2, 4))
    found = model.tangent(model.scores(weights))
    cut = model.mean_cut(weights)
    blocks = [model.cut(block, weights) for block in range(model.n_blocks)]
    assert found.hinge == pytest.approx(cut.hinge(weights), rel=1e-12)
    assert found.hinge == pytest.approx(np.mean([block.hinge(weights) for block in blocks]), rel=1e-12)
    np.testing.assert_allclose(cut.psi, np.mean([block.psi for block in blocks], axis=0), atol=1e-12)
    assert model.features(found.gradient) @ other == pytest.approx(found.gradient @ model.scores(other), rel=1e-12)


@pytest.mark.parametrize("bounds", [None, (0.0, 0.5)])
@pytest.mark.parametrize("lam", [1.0, 1e-3])
def test_line_search_with_and_without_scores(bounds, lam):
    X, relevant, offsets = lists(np.random.default_rng(1))
    model = RankingModel(X, relevant, ranking_loss("ap"), offsets)
    solver = OneSlackCuttingPlane(tol=1e-6)
    scored, opaque = (solver.solve(problem, lam, bounds=bounds) for problem in (model, Hidden(model)))
    for solution in (scored, opaque):
        assert solution.certified and solution.converged
        assert (np.diff(solution.history.primal) <= 0).all()
        w = solution.weights
        assert bounds is None or ((w >= 0) & (w <= 0.5)).all()
        assert solution.primal == pytest.approx(lam / 2 * w @ w + model.mean_cut(w).hinge(w), rel=1e-12)
    assert scored.primal == pytest.approx(opaque.primal, rel=2e-6)
    assert scored.dual <= opaque.primal and opaque.dual <= scored.primal


@pytest.mark.parametrize("bounds", [None, (-0.1, 0.5)])
def test_warm_start_keeps_the_cuts(bounds):
    X, relevant, offsets = lists(np.random.default_rng(2))
    model = RankingModel(X, relevant, ranking_loss("ap"), offsets)
    solver = OneSlackCuttingPlane(tol=1e-5)
    first = solver.solve(model, 1e-2, bounds=bounds)
    cold, warm = (solver.solve(model, 8e-3, bounds=bounds, start=start) for start in (None, first))
    assert warm.converged and warm.passes < cold.passes
    assert warm.primal == pytest.approx(cold.primal, rel=2e-5)


def test_tiny_C_still_ranks():
    """The gap is below the tolerance at once; the weights are small, but not zero."""
    X, relevant, offsets = lists(np.random.default_rng(3))
    model = RankingModel(X, relevant, ranking_loss("ap"), offsets)
    solution = OneSlackCuttingPlane().solve(model, 1e9)
    assert solution.converged and 0 < np.abs(solution.weights).max() < 1e-8
