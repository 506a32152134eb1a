"""Bags over shards against the same bags in one piece."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.distributed import ArrayRows, Fault, LocalEngine, ShardedLatentRanking, ShardOf, split_rows
from maxmargin.latent.cccp import concave_convex
from maxmargin.losses import ranking_loss
from maxmargin.problems import Bags, LatentRankingProblem
from maxmargin.solvers import OneSlackCuttingPlane


def bags(seed=0, n=60, columns=6, rounded=None):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.normal(size=(offsets[-1], columns))
    relevant = rng.random(n) < 0.3
    relevant[:2] = [True, False]
    # One candidate of every positive has what others have not.
    X[offsets[:-1][relevant], 0] += 2
    X = X if rounded is None else X.round(rounded)
    return X, offsets, relevant


def parts_of(X, offsets, relevant, n_shards):
    bag = np.repeat(np.arange(len(relevant)), np.diff(offsets))
    return split_rows(X, relevant[bag].astype(float), n_shards, bag)


def sharded(parts, loss="ap", **settings):
    return ShardedLatentRanking(LocalEngine([ShardOf(part, "bags") for part in parts], **settings), loss)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc"])
def test_cuts(n_shards, loss):
    X, offsets, relevant = bags()
    expected = LatentRankingProblem(Bags(X, offsets), relevant, ranking_loss(loss))
    found = sharded(parts_of(X, offsets, relevant, n_shards), loss)
    rng = np.random.default_rng(1)
    for _ in range(3):
        impute = rng.normal(size=6)
        expected.impute(impute)
        found.impute(impute)
        for scale in (0.0, 0.3, 3.0):
            weights = scale * rng.normal(size=6)
            one, other = found.mean_cut(weights), expected.mean_cut(weights)
            assert one.loss == pytest.approx(other.loss, rel=1e-12) and np.allclose(one.psi, other.psi, rtol=1e-10, atol=1e-13)
            assert found.hinge(weights) == pytest.approx(expected.hinge(weights), rel=1e-10, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_ties(seed, n_shards):
    X, offsets, relevant = bags(seed % 1000, n=12, columns=2, rounded=0)
    expected = LatentRankingProblem(Bags(X, offsets), relevant, ranking_loss("ap"))
    found = sharded(parts_of(X, offsets, relevant, n_shards))
    rng = np.random.default_rng(seed)
    impute, weights = rng.integers(-1, 2, size=(2, 2)).astype(float)
    expected.impute(impute)
    found.impute(impute)
    assert found.hinge(weights) == pytest.approx(expected.hinge(weights), rel=1e-11, abs=1e-13)
    cut = found.mean_cut(weights)
    assert cut.hinge(weights) == pytest.approx(expected.hinge(weights), rel=1e-11, abs=1e-13)
    for other in rng.normal(size=(5, 2)):
        assert cut.hinge(other) <= expected.hinge(other) + 1e-12


@pytest.mark.parametrize("n_shards", [1, 3])
def test_cuts_are_handed_on(n_shards):
    X, offsets, relevant = bags(5)
    expected = LatentRankingProblem(Bags(X, offsets), relevant, ranking_loss("ap"))
    found, rng = sharded(parts_of(X, offsets, relevant, n_shards)), np.random.default_rng(0)
    for problem in (expected, found):
        problem.impute(np.ones(6))
    for weights in rng.normal(size=(4, 6)):
        expected.cut(0, weights)
        found.mean_cut(weights)
    for impute in rng.normal(size=(2, 6)):
        expected.impute(impute)
        found.impute(impute)
        one, other = found.known_cuts(), expected.known_cuts()
        assert len(one) == len(other) == 4
        for mine, theirs in zip(one, other, strict=True):
            assert mine.loss == pytest.approx(theirs.loss) and np.allclose(mine.psi, theirs.psi, rtol=1e-10, atol=1e-13)
        for weights in rng.normal(size=(5, 6)):
            assert max(cut.hinge(weights) for cut in one) <= expected.hinge(weights) + 1e-12
    found.start(rng)
    assert found.known_cuts() == []


def descend(problem, n_rounds=6):
    # Some distance from where it settles.
    def solve(own, known, seconds):
        return OneSlackCuttingPlane(tol=1e-6).solve(own, 1e-2, start=known)

    return concave_convex(problem, 1e2, solve, lambda number, rng: np.ones(problem.n_features), max_rounds=n_rounds, tol=1e-9)


def test_the_concave_convex_procedure():
    X, offsets, relevant = bags(2)
    expected = LatentRankingProblem(Bags(X, offsets), relevant, ranking_loss("ap"))
    (one, _), (other, _) = (descend(problem) for problem in (sharded(parts_of(X, offsets, relevant, 3)), expected))
    assert len(one.objectives) == len(other.objectives) > 1
    # The first rounds end where the tolerance lets them, at other weights and so at other imputations of a few.
    assert np.allclose(one.objectives, other.objectives, rtol=1e-3)
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    assert one.solution.certified
    assert (np.diff(one.objectives) < 0).all()


def test_random_starts_are_the_same_after_a_loss():
    X, offsets, relevant = bags(3)
    parts = parts_of(X, offsets, relevant, 3)
    clean, lossy = sharded(parts), sharded(parts, faults=[Fault("lost before", 3, 1)])
    for problem in (clean, lossy):
        problem.start(np.random.default_rng(5))
    assert clean._marks == lossy._marks and clean._marks != sharded(parts)._marks
    assert clean.mean_cut(np.ones(6)).psi.tolist() == lossy.mean_cut(np.ones(6)).psi.tolist()


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
def test_every_operation_and_every_fault(kind):
    X, offsets, relevant = bags(4, n=30, columns=3)
    parts = parts_of(X, offsets, relevant, 3)

    def run(faults=()):
        problem = sharded(parts, faults=faults)
        problem.impute(np.ones(3))
        problem.mean_cut(np.ones(3))
        problem.impute(-np.ones(3))
        assert len(problem.known_cuts()) == 1
        found = OneSlackCuttingPlane(max_passes=4).solve(problem, 1e-2)
        known = [number for cut in problem.known_cuts() for number in cut.psi]
        return [*found.weights, found.primal, found.dual, problem.hinge(found.weights), *known], problem

    clean, problem = run()
    for number in range(problem.engine.rounds):
        assert run([Fault(kind, number, number % 3)])[0] == clean


def test_bad_bags():
    X, y = np.ones((4, 2)), np.array([1.0, 1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="the query of every row is its bag"):
        sharded([ArrayRows(X, y)])
    with pytest.raises(ValueError, match="all rows of a bag must have the same"):
        sharded([ArrayRows(X, y, np.array([0, 1, 4]))])
    with pytest.raises(ValueError, match="bags have no weights"):
        sharded([ArrayRows(X, y, np.array([0, 2, 4]), weights=np.ones(2))])
    with pytest.raises(ValueError, match="holds only one class"):
        sharded([ArrayRows(X, 0 * y, np.array([0, 2, 4]))])
