"""Means over shards against the same problem in one piece."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits

from maxmargin.core import Cut, Problem, Structure
from maxmargin.core.solvers import BCFW, InexactOracleWarning, OneSlackCuttingPlane
from maxmargin.distributed import ArrayRows, Fault, LocalEngine, ProblemSource, ShardedMean, ShardError, ShardOf, split_rows
from maxmargin.multiclass import MulticlassProblem
from maxmargin.sequences import ChainProblem
from maxmargin.surrogates import StructuredProblem


def digits(n=300):
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n]


def class_engine(X, y, n_shards, **faults):
    return LocalEngine([ShardOf(part, "classes") for part in split_rows(X, y, n_shards)], **faults)


def chains(rng, n=40, labels=3, columns=4):
    lengths = rng.integers(1, 7, size=n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    y = rng.integers(0, labels, size=offsets[-1])
    X = rng.normal(size=(offsets[-1], columns)) + np.eye(labels, columns)[y]
    return X, y, offsets


def chain_engine(X, y, offsets, n_shards):
    qid = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return LocalEngine([ShardOf(part, "chains") for part in split_rows(X, y, n_shards, qid)])


def assert_same_cut(found, expected, tol=1e-9):
    size = np.abs(expected.psi).max() + 1e-12
    assert np.abs(found.psi - expected.psi).max() <= tol * size
    assert found.loss == pytest.approx(expected.loss, rel=tol)
    assert (found.bound is None) == (expected.bound is None)
    if found.bound is not None:
        assert found.bound == pytest.approx(expected.bound, rel=tol)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, np.float32])
def test_classes(n_shards, kind):
    X, y = digits(100)
    X = kind(X)
    rng = np.random.default_rng(0)
    single, sharded = MulticlassProblem(X, y, 10), ShardedMean.classes(class_engine(X, y, n_shards))
    assert (sharded.n_blocks, sharded.n_features, sharded.labels.tolist()) == (100, 640, list(range(10)))
    for weights in (np.zeros(640), rng.normal(size=640)):
        assert_same_cut(sharded.mean_cut(weights), single.mean_cut(weights), 1e-6 if kind is np.float32 else 1e-12)


@pytest.mark.parametrize("n_shards", [2, 5])
def test_training_on_classes_is_certified_and_the_same(n_shards):
    X, y = digits()
    single = OneSlackCuttingPlane(tol=1e-3).solve(MulticlassProblem(X, y, 10), 0.02)
    found = OneSlackCuttingPlane(tol=1e-3).solve(ShardedMean.classes(class_engine(X, y, n_shards)), 0.02)
    assert found.certified and found.converged and single.certified
    assert found.passes == single.passes
    assert found.primal == pytest.approx(single.primal, rel=1e-9)
    # Of another solver's bounds too.
    other = BCFW(tol=1e-3).solve(MulticlassProblem(X, y, 10), 0.02)
    assert other.dual <= found.primal and found.dual <= other.primal


def test_labels_may_be_text_and_columns_may_be_short():
    X, y = digits(60)
    names = np.array([f"digit {label}" for label in y])
    rows = sparse.csr_array(X)
    rows.resize(60, 70)
    short = [sparse.csr_array(X[:30]), rows[30:]]
    sources = [ShardOf(ArrayRows(part, names[at]), "classes") for part, at in zip(short, (slice(30), slice(30, 60)), strict=True)]
    sharded = ShardedMean.classes(LocalEngine(sources))
    assert sharded.labels.tolist() == sorted(set(names))
    weights = np.random.default_rng(1).normal(size=700)
    assert_same_cut(sharded.mean_cut(weights), MulticlassProblem(rows, y, 10).mean_cut(weights), 1e-12)


def test_costs_and_weights_of_samples():
    X, y = digits(50)
    rng = np.random.default_rng(2)
    costs = rng.random((10, 10)) * (1 - np.eye(10))
    weight = rng.random(50)
    sources = [ShardOf(ArrayRows(X[at], y[at], weights=weight[at]), "classes") for at in (slice(20), slice(20, 50))]
    sharded = ShardedMean.classes(LocalEngine(sources), costs)
    weights = rng.normal(size=640)
    assert_same_cut(sharded.mean_cut(weights), MulticlassProblem(X, y, 10, costs, weight).mean_cut(weights), 1e-12)


@pytest.mark.parametrize("normalize", [True, False])
def test_chains(normalize):
    rng = np.random.default_rng(3)
    X, y, offsets = chains(rng)
    single = ChainProblem(X, y, offsets, 3, normalize=normalize)
    sharded = ShardedMean.chains(chain_engine(X, y, offsets, 3), normalize=normalize)
    for _ in range(3):
        weights = rng.normal(size=single.n_features)
        assert_same_cut(sharded.mean_cut(weights), single.mean_cut(weights), 1e-12)
    found, expected = (OneSlackCuttingPlane().solve(problem, 0.05) for problem in (sharded, single))
    assert found.certified and found.passes == expected.passes and found.primal == pytest.approx(expected.primal, rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 12), max_size=6))
def test_any_split_even_empty_shards(seed, edges):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, size=(12, 3)).astype(float), rng.integers(0, 3, size=12)
    y[:2] = [0, 2]
    n_classes = len(np.unique(y))
    ends = [0, *sorted(edges), 12]
    sources = [ShardOf(ArrayRows(X[a:b], y[a:b]), "classes") for a, b in pairwise(ends)]
    sharded = ShardedMean.classes(LocalEngine(sources))
    single = MulticlassProblem(X, np.unique(y, return_inverse=True)[1], n_classes)
    weights = rng.integers(-1, 2, size=3 * n_classes).astype(float)  # many ties
    assert_same_cut(sharded.mean_cut(weights), single.mean_cut(weights), 1e-12)
    for block in range(12):
        assert_same_cut(sharded.cut(block, weights), single.cut(block, weights), 1e-12)


class Lazy(Structure):
    """Two labels; for inputs below zero the search finds the worse one, once weights are not zero."""

    n_features = 2

    def joint_feature(self, x, y):
        return np.array([x, 1.0]) * (1 if y else -1)

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        values = [a * float(weights @ self.joint_feature(x, y)) + (0.0 if truth is None else b * (y != truth)) for y in (0, 1)]
        best = int(np.argmax(values))
        return 1 - best if x < 0 and weights.any() else best


def test_an_output_worse_than_the_truth_does_not_hide_in_a_mean():
    x, y = [1.0, 2.0, -1.0, 3.0], [1, 1, 1, 0]
    sources = [ProblemSource(StructuredProblem, (Lazy(), x[at], y[at])) for at in (slice(2), slice(2, 4))]
    sharded = ShardedMean(LocalEngine(sources))
    with pytest.warns(InexactOracleWarning, match="less than the truth"):
        found = OneSlackCuttingPlane(max_passes=20).solve(sharded, 0.1)
    assert sharded.worse_than_truth > 0 and not found.certified


class Bounded(Problem):
    """One block with the hinge max(0, loss - w[at]), of which the oracle knows an upper bound only."""

    n_blocks, n_features = 1, 2

    def __init__(self, at, loss, lower, missed=0.25):
        self.at, self.loss, self.lower, self.missed = at, loss, lower, missed

    @property
    def bounds(self):
        return np.array([self.lower, -np.inf]), np.full(2, np.inf)

    def cut(self, block, weights):
        psi = np.eye(2)[self.at]
        cut = Cut(psi, self.loss) if self.loss > psi @ weights else Cut(np.zeros(2), 0.0)
        return Cut(cut.psi, cut.loss, cut.hinge(weights) + self.missed) if self.missed else cut


def test_bounds_and_claims_are_those_of_all_oracles():
    first, second = Bounded(0, 1.0, -3.0), Bounded(1, 2.0, -2.0, missed=0.0)
    second.relaxed = True
    sharded = ShardedMean(LocalEngine([ProblemSource(lambda: first), ProblemSource(lambda: second)]))
    assert sharded.exact and sharded.convex and sharded.relaxed
    lower, upper = sharded.bounds
    assert lower.tolist() == [-2.0, -np.inf] and upper.tolist() == [np.inf, np.inf]
    assert_same_cut(sharded.mean_cut(np.zeros(2)), Cut(np.array([0.5, 0.5]), 1.5, 1.625))
    second.exact = False
    assert not ShardedMean(LocalEngine([ProblemSource(lambda: first), ProblemSource(lambda: second)])).exact


def test_problems_of_different_size_are_refused():
    sources = [ProblemSource(MulticlassProblem, (np.ones((2, d)), np.array([0, 1]), 2), text=f"{d}.txt") for d in (2, 3)]
    with pytest.raises(ShardError, match=r"\[4, 6\] weights, .* shard 1 \(3.txt\) differs"):
        ShardedMean(LocalEngine(sources))
    rows = [ShardOf(ArrayRows(np.ones((2, d)), np.array([0, 1]), text=f"{d}.txt"), "classes") for d in (2, 3)]
    with pytest.raises(ValueError, match=r"X has 2 columns in shard 0 \(2.txt\), but 3 elsewhere"):
        ShardedMean.classes(LocalEngine(rows))


def test_bad_labels():
    with pytest.raises(ValueError, match="at least two different labels"):
        ShardedMean.classes(class_engine(np.ones((4, 1)), np.zeros(4), 2))
    with pytest.raises(ValueError, match="the 2 shards hold no data"):
        ShardedMean.classes(class_engine(np.ones((0, 1)), np.zeros(0), 2))


def test_warm_starts_know_their_problem():
    X, y = digits(60)
    first, same, other = (ShardedMean.classes(class_engine(X, labels, 2)) for labels in (y, y, y[::-1]))
    assert first.same_as(same) and not first.same_as(other)
    solver = OneSlackCuttingPlane(tol=1e-2)
    start = solver.solve(first, 0.1)
    assert solver.solve(same, 0.1, start=start).passes <= 1
    with pytest.raises(ValueError, match="other data"):
        solver.solve(other, 0.1, start=start)


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan", "delay"])
def test_every_operation_and_every_fault(kind):
    X, y = digits(60)
    solver = OneSlackCuttingPlane(tol=1e-2, max_passes=12)
    engine = class_engine(X, y, 3)
    clean = solver.solve(ShardedMean.classes(engine), 0.1)
    for number in range(engine.rounds):
        broken = class_engine(X, y, 3, faults=[Fault(kind, number, shard=number % 3)])
        problem = ShardedMean.classes(broken)
        found = solver.solve(problem, 0.1)
        assert np.array_equal(found.weights, clean.weights) and found.primal == clean.primal and found.dual == clean.dual
        assert (found.history.primal, found.history.dual) == (clean.history.primal, clean.history.dual)
        assert problem.shards.repeats <= 2 and broken.moves <= 2
        if kind == "nan" and broken.log[number] in ("mean_cut", "info"):
            assert broken.moves == 1
