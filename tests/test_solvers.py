"""The small QP and the cutting plane against general-purpose optimisation."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from maxmargin.cuts import Cut
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
    solution = OneSlackCuttingPlane(tol=1e-9).solve(RankingModel(X, relevant, loss), C)
    assert solution.converged and solution.certified
    assert solution.primal == pytest.approx(C * reference.fun, rel=1e-6)
    assert solution.dual <= solution.primal * (1 + 1e-12)


class Distance:
    """max_k |w - c_k|_1 style hinge: max over a fixed set of cuts."""

    exact = True

    def __init__(self, psis, losses):
        self.psis, self.losses, self.n_features = psis, losses, psis.shape[1]

    def cut(self, weights):
        values = self.losses - self.psis @ weights
        k = int(np.argmax(values))
        return Cut(self.psis[k], float(self.losses[k]), float(values[k]))


def make_problem(seed=0, cuts=400, d=10):
    rng = np.random.default_rng(seed)
    return Distance(rng.normal(size=(cuts, d)), np.abs(rng.normal(size=cuts)))


def test_history_is_monotone_and_bounds_cross():
    solution = OneSlackCuttingPlane(tol=1e-8).solve(make_problem(), 5.0)
    history = solution.history
    assert solution.converged and len(history) == solution.iterations == solution.oracle_calls
    assert (np.diff(history.primal) <= 0).all() and (np.diff(history.dual) >= -1e-12).all()
    assert min(history.gap) >= -1e-9 and solution.gap == pytest.approx(history.gap[-1])
    rows = list(history)
    assert rows[-1]["primal"] == solution.primal and set(rows[0]) == {"iteration", "primal", "dual", "gap", "seconds"}


def test_budgets_callbacks_and_interruption():
    problem = make_problem()
    assert OneSlackCuttingPlane(max_iter=3).solve(problem, 5.0).status == "max_iter"
    assert OneSlackCuttingPlane(time_limit=1e-9).solve(problem, 5.0).status == "time_limit"
    stopped = OneSlackCuttingPlane(callback=lambda history: len(history) >= 4).solve(problem, 5.0)
    assert stopped.status == "callback" and stopped.iterations == 4 and not stopped.converged

    class Interrupted(Distance):
        calls = 0

        def cut(self, weights):
            self.calls += 1
            if self.calls == 5:
                raise KeyboardInterrupt
            return super().cut(weights)

    solution = OneSlackCuttingPlane(tol=1e-9).solve(Interrupted(problem.psis, problem.losses), 5.0)
    assert solution.status == "interrupted" and solution.iterations == 4
    assert solution.dual <= OneSlackCuttingPlane(tol=1e-9).solve(problem, 5.0).primal <= solution.primal


def test_forgetting_idle_cuts_keeps_the_answer(monkeypatch):
    full = OneSlackCuttingPlane(tol=1e-7).solve(make_problem(3, 2000, 15), 20.0)
    monkeypatch.setattr(OneSlackCuttingPlane, "_PATIENCE", 3)
    lean = OneSlackCuttingPlane(tol=1e-7, max_iter=5000).solve(make_problem(3, 2000, 15), 20.0)
    assert lean.converged and lean.primal == pytest.approx(full.primal, rel=1e-6)
