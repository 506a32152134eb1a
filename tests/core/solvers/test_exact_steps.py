"""Exact steps of classes under affine surrogates: the best point of a block against the quadratic program by its supports."""

from itertools import combinations

import numpy as np
import pytest

from maxmargin import MulticlassSVM, _core
from maxmargin.core import SupportsExactSteps, supports
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.multiclass import SurrogateMulticlassProblem
from maxmargin.surrogates import BetaScaling, GeneralizedScaling, LogLoss, Slack, make_surrogate

AFFINE = [Slack(), BetaScaling(0.3), GeneralizedScaling(alpha=1.5, beta=0.7)]


def best_dual(gains, factors, truth, squared, lam):
    """The largest dual objective of one sample: of every support the stationary point, if it is a distribution."""
    K = len(gains)
    features = np.diag(-factors)
    features[:, truth] += factors
    gram = features @ features.T * squared / lam
    best = -np.inf
    for size in range(1, K + 1):
        for support in map(list, combinations(range(K), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = gram[np.ix_(support, support)], 0.0
            point = np.linalg.lstsq(system, np.append(gains[support], 1.0), rcond=None)[0][:size]
            if point.min() >= -1e-12 and abs(point.sum() - 1) < 1e-9:
                best = max(best, gains[support] @ point - 0.5 * point @ gram[np.ix_(support, support)] @ point)
    return best


def engine(problem, lam, steps="exact"):
    settings = _core.BlockSettings.frank_wolfe("permutation", steps, 0, 0)
    return _core.BlockEngine(problem.block_data, lam, None, None, settings, None, False)


@pytest.mark.parametrize("surrogate", AFFINE, ids=str)
def test_one_step_solves_one_block(surrogate):
    rng = np.random.default_rng(0)
    for trial in range(80):
        K = int(rng.integers(2, 6))
        # With ties and costs of nothing, or without.
        costs = rng.choice([0.0, 0.5, 1.0, 7.0], (K, K)) if trial % 2 else rng.exponential(3.0, (K, K))
        np.fill_diagonal(costs, 0.0)
        x, truth, lam = rng.normal(size=(1, 3)), int(rng.integers(K)), 10.0 ** rng.uniform(-5, 5)
        problem = SurrogateMulticlassProblem(x, np.array([truth]), K, costs, surrogate=surrogate)
        blocks = engine(problem, lam)
        blocks.run(1, 1, 2**60, 0.0, 0.0)
        primal, dual, _, _ = blocks.gap_pass()
        factors, gains = (part[truth] for part in problem._affine)
        expected = best_dual(gains, factors, truth, float((x**2).sum()), lam)
        assert dual == pytest.approx(expected, rel=1e-9, abs=1e-13)
        assert primal - dual <= 1e-7 * primal + 1e-13


@pytest.mark.parametrize("surrogate", AFFINE, ids=str)
def test_a_step_from_anywhere_leaves_a_block_nothing_to_gain(surrogate):
    rng = np.random.default_rng(1)
    X, y, costs = rng.normal(size=(20, 3)), rng.integers(0, 5, 20), rng.exponential(2.0, (5, 5))
    np.fill_diagonal(costs, 0.0)
    problem = SurrogateMulticlassProblem(X, y, 5, costs, rng.uniform(0.5, 2.0, 20), surrogate=surrogate)
    blocks = engine(problem, 0.05)
    for calls in (1, 7, 20, 40):
        # Of the block moved last, all labels in use have the same hinge, and no other has more: it has no gap any more.
        blocks.run(calls, calls, 2**60, 0.0, 0.0)
        before = blocks.dual
        blocks.gap_pass()
        assert np.min(blocks.gaps()) <= 1e-12
        assert blocks.dual == pytest.approx(before, rel=1e-12)


def test_exact_steps_come_to_the_optimum_of_cutting_planes():
    rng = np.random.default_rng(2)
    X, y, costs = rng.normal(size=(40, 4)), rng.integers(0, 4, 40), rng.exponential(2.0, (4, 4))
    np.fill_diagonal(costs, 0.0)
    counts = rng.integers(0, 3, 40).astype(float)
    for surrogate in AFFINE:
        problem = SurrogateMulticlassProblem(X, y, 4, costs, counts, surrogate=surrogate)
        for bounds in (None, (-0.3, 0.2)):
            found = BCFW(steps="exact", tol=1e-5, max_passes=2000).solve(problem, 0.05, bounds=bounds)
            other = OneSlackCuttingPlane(tol=1e-5).solve(problem, 0.05, bounds=bounds)
            assert found.certified and found.converged and other.converged
            assert max(found.dual, other.dual) <= min(found.primal, other.primal) * (1 + 1e-9)


def test_who_has_exact_steps():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 3
    for name in ("slack", "beta"):
        problem = SurrogateMulticlassProblem(X, y, 3, surrogate=make_surrogate(name))
        assert supports(problem, SupportsExactSteps)
        assert MulticlassSVM(surrogate=name).fit(X, y).certified_
    curved = SurrogateMulticlassProblem(X, y, 3, surrogate=LogLoss())
    with pytest.raises(TypeError, match="does not support what BCFW needs"):
        BCFW(steps="exact").solve(curved, 0.1)
