"""Compiled blocks of label sets: every kind of step against cutting planes, whose cuts come from whole passes."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from tests.cases.solver_cases import SET_SOLVERS

from maxmargin.core import SupportsExactSteps, supports
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.multilabel import MultilabelProblem
from maxmargin.surrogates import BetaScaling, LogLoss, Margin, MicroF1, Slack

LAM = 0.05


def data(n=25, L=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.7)
    Y = (X @ rng.normal(size=(4, L)) + 0.7 * rng.normal(size=(n, L)) > 0.4).astype(int)
    Y[0] = 0
    return X, Y


def pairs_of(kind, L):
    chosen = {"none": [], "tree": [(k // 2, k) for k in range(1, L)]}
    return chosen.get(kind, list(combinations(range(L), 2)))


def problem_of(kind, surrogate, L=5, **settings):
    X, Y = data(L=L)
    rows = sparse.csr_array(X) if kind == "tree" else X
    return MultilabelProblem(rows, Y, pairs_of(kind, L), kind == "attractive", surrogate=surrogate, **settings)


def objective(problem, weights):
    return 0.5 * LAM * weights @ weights + problem.mean_cut(weights).hinge(weights)


KINDS = ("none", "tree", "full", "attractive")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "surrogate", [Margin(), Slack(), BetaScaling(0.5), MicroF1(), LogLoss()], ids=lambda own: type(own).__name__
)
def test_exact_steps_find_the_optimum_of_cutting_planes(kind, surrogate):
    problem = problem_of(kind, surrogate, sample_weight=np.linspace(0.0, 2.0, 25))
    assert supports(problem, SupportsExactSteps)
    # Of a curve that is no line there are as many cuts as anybody wants.
    tol = 1e-3 if isinstance(surrogate, LogLoss) else 1e-4
    reference = OneSlackCuttingPlane(tol=tol, max_passes=3000).solve(problem, LAM, bounds=problem.bounds)
    found = BCFW(steps="exact", tol=tol, max_passes=3000).solve(problem, LAM, bounds=problem.bounds)
    assert found.certified and found.converged and reference.converged
    np.testing.assert_allclose(found.primal, reference.primal, rtol=2 * tol)
    # What the engine says of its weights is what whole passes say.
    np.testing.assert_allclose(found.primal, objective(problem, found.weights), rtol=1e-9)
    assert found.dual <= reference.primal * (1 + 1e-9)
    if kind == "attractive":
        assert (found.weights[problem.structure.n_labels * 4 :] >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "solver", SET_SOLVERS, ids=lambda own: f"{type(own).__name__}-{getattr(own, 'steps', '')}{getattr(own, 'cache', '')}"
)
def test_all_other_steps_agree(kind, solver):
    for surrogate in (Margin(), Slack()):
        problem = problem_of(kind, surrogate)
        reference = BCFW(steps="exact", tol=1e-4, max_passes=3000).solve(problem, LAM, bounds=problem.bounds)
        found = solver.solve(problem, LAM, bounds=problem.bounds)
        assert found.certified and found.converged
        np.testing.assert_allclose(found.primal, reference.primal, rtol=3 * solver.tol)
        np.testing.assert_allclose(found.primal, objective(problem, found.weights), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_warm_starts_at_a_smaller_lambda_keep_the_weights(kind):
    for surrogate in (Margin(), Slack()):
        problem = problem_of(kind, surrogate)
        solver = BCFW(steps="exact", tol=1e-3, max_passes=3000)
        first = solver.solve(problem, LAM, bounds=problem.bounds)
        then = solver.solve(problem, LAM / 3, bounds=problem.bounds, start=first)
        cold = solver.solve(problem, LAM / 3, bounds=problem.bounds)
        assert then.certified and then.converged
        np.testing.assert_allclose(then.primal, cold.primal, rtol=3e-3)


@pytest.mark.parametrize("surrogate", [Slack(), BetaScaling(0.5)], ids=lambda own: type(own).__name__)
def test_steps_along_the_hull_and_proofs_by_counting_meet(surrogate):
    # Too many labels to list their sets: steps look along the hull alone, and a proof counts wrong labels.
    X, Y = data(n=40, L=12, seed=1)
    problem = MultilabelProblem(X, Y, pairs_of("tree", 12), surrogate=surrogate)
    reference = OneSlackCuttingPlane(tol=1e-3, max_passes=3000).solve(problem, 1e-2)
    for solver in (BCFW(steps="exact", tol=5e-3, max_passes=3000), BCFW(steps="pairwise", cache=20, tol=1e-3, max_passes=3000)):
        found = solver.solve(problem, 1e-2)
        assert found.converged and found.certified and found.certificate.objective == "exact"
        np.testing.assert_allclose(found.primal, reference.primal, rtol=solver.tol + 1e-3)


@pytest.mark.parametrize("seed", [2, 3])
def test_steps_without_memory_learn_from_proofs_what_lies_inside_the_hull(seed):
    # Steps look along the hull, and sets that violate most are inside: without those of proofs a gap of 20 % is left.
    X, Y = data(n=12, L=9, seed=seed)
    problem = MultilabelProblem(X, Y, pairs_of("full", 9), surrogate=Slack())
    assert BCFW(steps="exact", tol=0.05, max_passes=500).solve(problem, 1e-2).converged


def test_relaxed_blocks_are_those_of_relaxed_cutting_planes():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(25, 2)), np.eye(5, dtype=int)[rng.integers(0, 5, 25)]
    for surrogate in (Margin(), MicroF1()):
        problem = MultilabelProblem(X, Y, pairs_of("full", 5), relaxed=True, surrogate=surrogate)
        reference = OneSlackCuttingPlane(tol=1e-4, max_passes=3000).solve(problem, 0.01)
        found = BCFW(steps="exact", tol=1e-3, max_passes=3000).solve(problem, 0.01)
        assert found.certified and found.certificate.objective == "relaxed"
        np.testing.assert_allclose(found.primal, reference.primal, rtol=2e-3)
        # The relaxation is loose here, so this has met halves.
        sets = MultilabelProblem(X, Y, pairs_of("full", 5), surrogate=surrogate)
        assert problem.mean_cut(found.weights).hinge(found.weights) > sets.mean_cut(found.weights).hinge(found.weights)


def test_what_a_decoder_may_miss_is_in_the_certificate():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(20, 3)), np.eye(17, dtype=int)[rng.integers(0, 17, 20)]
    for surrogate in (Margin(), Slack()):
        problem = MultilabelProblem(X, Y, pairs_of("full", 17), surrogate=surrogate)
        found = BCFW(steps="exact", tol=1e-3, max_passes=60).solve(problem, 1e-3)
        assert found.certificate.objective == "bounded" and found.certificate.oracle_gap > 0
        assert found.primal >= objective_at(problem, found.weights, 1e-3) - 1e-9


def objective_at(problem, weights, lam):
    return 0.5 * lam * weights @ weights + problem.mean_cut(weights).hinge(weights)


def test_many_pairs_and_own_surrogates_are_left_to_whole_passes():
    class Own(Slack):
        """With a psi of its own, for all that anybody knows."""

    X, Y = data()
    assert MultilabelProblem(X, Y, surrogate=Own()).block_data is None
    wide = np.zeros((25, 95), dtype=int)
    problem = MultilabelProblem(X, wide, pairs_of("full", 95))
    assert problem.block_data is None and not supports(problem, SupportsExactSteps)
