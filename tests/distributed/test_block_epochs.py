"""Compiled epochs of every kind of block against plain steps, and what is left after a part of them was taken back."""

import numpy as np
import pytest
from reference_epochs import ReferenceEpochs, order_of
from scipy import sparse
from solver_cases import Hidden, frank_wolfe, make_model

from maxmargin import _core
from maxmargin.cuts import CheckedProblem, Cut, Problem, SparseVector, compiled_blocks
from maxmargin.hierarchies import Hierarchy
from maxmargin.problems import (
    ChainProblem,
    HierarchyProblem,
    HierarchySetProblem,
    MulticlassProblem,
    MultilabelProblem,
    SurrogateMulticlassProblem,
    SurrogateTreeProblem,
    TreeProblem,
)
from maxmargin.structures import HierarchySetStructure, HierarchyStructure
from maxmargin.surrogates import LogLoss, MicroF1, Slack

LAM = 0.02
NEVER = 10**9


def made(name):
    rng = np.random.default_rng(3)
    n = 24
    X, y = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.7), rng.integers(0, 4, n)
    weights, costs = rng.uniform(0, 2, n), rng.uniform(0.5, 2, (4, 4)) * (1 - np.eye(4))
    if name in ("multiclass", "sparse", "costs", "binary", "chain"):
        return make_model(name)
    if name == "python":
        return Hidden(MulticlassProblem(X, y, 4, costs))
    if name == "python, many outputs":
        return Hidden(make_model("chain"))
    if name == "classes that count":
        return MulticlassProblem(X, y, 4, costs, sample_weight=weights)
    if name == "classes, slack":
        return SurrogateMulticlassProblem(X, y, 4, costs, weights, surrogate=Slack())
    offsets = np.array([0, 1, 4, 9, 15, 18, n])
    if name in ("tree", "tree, slack", "tree, log"):
        parent = np.concatenate([[-1, *(int(rng.integers(0, k)) for k in range(1, m))] for m in np.diff(offsets)])
        if name == "tree":
            return TreeProblem(sparse.csr_array(X), y, offsets, parent, 4)
        surrogate = Slack() if name == "tree, slack" else LogLoss()
        return SurrogateTreeProblem(X, y, offsets, parent, 4, surrogate=surrogate)
    if name == "long chain":
        # Longer than blocks whose inner products are kept.
        rows = rng.normal(size=(420, 3))
        return ChainProblem(rows, rng.integers(0, 3, 420), np.array([0, 10, 160, 420]), 3)
    hierarchy = Hierarchy.from_parents([-1, 0, 0, 1, 1, 2, 2])
    if name == "hierarchy":
        structure = HierarchyStructure(hierarchy, X.shape[1], np.ones(7))
        return HierarchyProblem(structure, X, y, sample_weight=weights)
    if name == "closed sets":
        structure = HierarchySetStructure(hierarchy, X.shape[1], np.ones(7))
        Y = np.zeros((n, 7), dtype=bool)
        for row, leaf in zip(Y, y, strict=True):
            row[[0, 1 + leaf // 2, 3 + leaf]] = True
        return HierarchySetProblem(structure, X, Y, weights)
    Y = (X @ rng.normal(size=(5, 4)) + rng.normal(size=(n, 4)) > 0.3).astype(int)
    pairs = [] if name == "separate labels" else [(0, 1), (1, 2), (1, 3)]
    surrogate = MicroF1() if name == "label sets, F1" else None
    settings = {} if surrogate is None else {"surrogate": surrogate}
    return MultilabelProblem(X, Y, pairs, sample_weight=None if surrogate else weights, **settings)


# Searches of steps that find what whole passes find; others may stop at a violating output that is not the most violating one.
EXACT = (
    "multiclass", "sparse", "costs", "binary", "chain", "python", "python, many outputs", "classes that count", "classes, slack",
    "tree", "long chain", "hierarchy", "separate labels",
)  # fmt: skip
# Searches that begin with what they have found before; so do the exact steps of all label sets with pairs.
REMEMBERING = ("tree, slack", "tree, log", "closed sets", "label sets, F1")
ALL = (*EXACT, "tree, slack", "tree, log", "closed sets", "label sets", "label sets, F1")


def epochs_of(problem, n_all=None, lam=LAM):
    return _core.BlockEpochs(compiled_blocks(problem), lam, problem.n_blocks if n_all is None else n_all)


@pytest.mark.parametrize("curvature", [1.0, 3.0])
@pytest.mark.parametrize("name", EXACT)
def test_the_steps_of_the_formulas(name, curvature):
    problem = made(name)
    n_all = 3 * problem.n_blocks
    outside = 0.1 * np.random.default_rng(0).normal(size=problem.n_features)
    compiled, plain = epochs_of(problem, n_all), ReferenceEpochs(problem, LAM, n_all)
    own = np.zeros(problem.n_features)
    for number, part in enumerate((1.0, 0.3, 0.0, 0.7, 0.5)):
        change, gain = compiled.run(outside + own, 2, "fw", curvature, number)
        order = order_of(problem.n_blocks, 2, number)
        expected = plain.run(outside + own, order, curvature)
        size = np.abs(expected[0]).max()
        np.testing.assert_allclose(change, expected[0], atol=1e-10 * size)
        assert gain == pytest.approx(expected[1], rel=1e-9, abs=1e-13) and size > 0
        compiled.keep(part)
        plain.keep(part)
        own = own + part * change
    assert compiled.worse_than_truth == 0


def test_every_block_comes_once():
    order = order_of(7, 3, 5)
    assert all(sorted(order[k : k + 7]) == list(range(7)) for k in (0, 7, 14)) and order[:7] != order[7:14]
    assert order_of(7, 1, 5) == order[:7] and order_of(7, 1, 6) != order[:7]


@pytest.mark.parametrize("steps", ["fw", "exact"])
@pytest.mark.parametrize("name", ALL)
def test_points_stay_convex_combinations(name, steps):
    """Whatever part is kept: sums of what was kept are what the points say, and no hinge lies below the dual's cut anywhere."""
    problem = made(name)
    rng = np.random.default_rng(1)
    n_all = 2 * problem.n_blocks
    epochs = epochs_of(problem, n_all)
    outside = 0.05 * rng.normal(size=problem.n_features)
    own, linear, duals = np.zeros(problem.n_features), 0.0, [-LAM / 2 * outside @ outside]
    checked = CheckedProblem(problem)
    for number in range(12):
        change, gain = epochs.run(outside + own, int(rng.integers(1, 4)), steps, 1.0, number)
        part = float(rng.choice([0.0, 1.0, rng.random()]))
        epochs.keep(part)
        own, linear = own + part * change, linear + part * gain
        duals.append(linear - LAM / 2 * (outside + own) @ (outside + own))
    weights, loss = epochs.part()
    np.testing.assert_allclose(weights, own, atol=1e-12 * np.abs(own).max())
    assert loss == pytest.approx(linear, rel=1e-12)
    # Steps with the rest fixed raise the dual, and by concavity so does any part of them.
    assert (np.diff(duals) >= -1e-12).all() and duals[-1] > duals[0]
    share = problem.n_blocks / n_all
    for scale in (0, 0.3, 3, 100):
        u = scale * rng.normal(size=problem.n_features)
        # The mean over the blocks of what the largest hinge can be.
        cut = checked.mean_cut(u)
        assert loss - LAM * u @ weights <= share * cut.upper(u) + 1e-9 * (1 + abs(LAM * u @ weights))


@pytest.mark.parametrize("steps", ["fw", "exact"])
@pytest.mark.parametrize("name", ALL)
def test_what_is_taken_back_never_was(name, steps):
    problem = made(name)
    w = np.full(problem.n_features, 0.01)
    epochs, other = epochs_of(problem), epochs_of(problem)
    for one in (epochs, other):
        first, _ = one.run(np.zeros(problem.n_features), 1, steps, 1.0, 0)
        one.keep(0.6)
    before = epochs.part()
    other.part()
    change, gain = epochs.run(w, 2, steps, 1.0, 1)
    expected, expected_gain = other.run(w, 2, steps, 1.0, 1)
    scale = np.abs(first).max()
    np.testing.assert_array_equal(change, expected)
    assert gain == expected_gain
    # Nobody has taken any of it: the next one begins where it did.
    again, _ = epochs.run(w, 2, steps, 1.0, 1)
    if name not in REMEMBERING and (name, steps) != ("label sets", "exact"):
        np.testing.assert_allclose(again, change, atol=1e-12 * scale)
    epochs.keep(0.0)
    np.testing.assert_allclose(epochs.part()[0], before[0], atol=1e-14 * scale)
    # Nothing is left to be taken back.
    epochs.keep(0.5)
    np.testing.assert_allclose(epochs.part()[0], before[0], atol=1e-14 * scale)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        *((name, "fw") for name in ("multiclass", "chain", "python", "hierarchy", "separate labels")),
        *((name, "exact") for name in ("multiclass", "costs", "separate labels")),
    ],
)
def test_one_place_makes_the_steps_of_the_engine(name, steps):
    problem = made(name)
    settings = frank_wolfe(steps, sampling="permutation", seed=9)
    engine = _core.BlockEngine(compiled_blocks(problem), LAM, None, None, settings, None)
    engine.run(3 * problem.n_blocks, NEVER, NEVER, 0.0, 0.0)
    epochs = epochs_of(problem)
    change, gain = epochs.run(np.zeros(problem.n_features), 3, steps, 1.0, 9)
    if "python" in name:
        # Outputs are put together later, which is other rounding.
        np.testing.assert_allclose(change, engine.weights(), atol=1e-13)
    else:
        np.testing.assert_array_equal(change, engine.weights())
    assert gain - LAM / 2 * change @ change == pytest.approx(engine.dual, rel=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_a_look_is_a_share_of_the_mean_hinge(name):
    """At any weights, in the middle of an epoch too; at those of the points the rest of the dual is the gap."""
    problem = made(name)
    rng = np.random.default_rng(5)
    epochs, share = epochs_of(problem, 4 * problem.n_blocks), 0.25
    change, _ = epochs.run(np.zeros(problem.n_features), 1, "fw", 1.0, 0)
    for scale in (0.0, 0.1, 1.0):
        u = scale * rng.normal(size=problem.n_features)
        hinge, missed = epochs.look(u)
        cut = CheckedProblem(problem).mean_cut(u)
        assert hinge == pytest.approx(share * cut.upper(u), rel=1e-9, abs=1e-12)
        assert 0 <= missed <= hinge + 1e-12 and (missed < 1e-12 or cut.bound is not None)
    epochs.keep(0.5)
    np.testing.assert_allclose(epochs.part()[0], 0.5 * change, atol=1e-12 * np.abs(change).max())


def test_steps_of_a_larger_curvature_may_be_added_up():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(30, 4)), rng.integers(0, 3, 30), np.zeros(12)
    parts = [epochs_of(MulticlassProblem(X[k::3], y[k::3], 3), 30) for k in range(3)]
    linear = dual = 0.0
    for number in range(5):
        steps = [part.run(w, 1, "fw", 3.0, number) for part in parts]
        w, linear = w + sum(change for change, _ in steps), linear + sum(gain for _, gain in steps)
        for part in parts:
            part.keep(1.0)
        assert linear - LAM / 2 * w @ w > dual
        dual = linear - LAM / 2 * w @ w


def test_memory_of_the_points():
    """Of classes 2 K numbers a sample, of chains 2 K numbers a node and the pairs that occur: not one for every weight."""
    rng = np.random.default_rng(0)
    n, p, K = 200, 500, 4
    X, y = sparse.random_array((n, p), density=0.05, rng=rng, format="csr"), rng.integers(0, K, n)
    classes = epochs_of(MulticlassProblem(X, y, K))
    chains = epochs_of(ChainProblem(X, y, np.arange(0, n + 1, 5), K))
    oracle = epochs_of(_Sparse(MulticlassProblem(X, y, K)))
    for number in range(4):
        for epochs, d in ((classes, p * K), (chains, p * K + 2 * K + K * K), (oracle, p * K)):
            epochs.run(np.zeros(d), 2, "fw", 1.0, number)
            epochs.keep(0.5)
    assert classes.n_bytes <= 8 * n * (2 * K + 1)
    assert chains.n_bytes <= 8 * n * 2 * K + n // 5 * (16 * K * K + 8 * K * K + 15 * 8 + 32)
    # Features of a few outputs, 25 pairs each of a place and a value, and their inner products.
    assert oracle.n_bytes <= n * 3000 < n * 8 * p * K


class _Sparse(Problem):
    """Cuts with the places of their features."""

    def __init__(self, model):
        self.model, self.n_blocks, self.n_features = model, model.n_blocks, model.n_features

    def cut(self, block, weights):
        cut = self.model.cut(block, weights)
        psi = cut.dense(self.n_features)
        at = np.flatnonzero(psi)
        return Cut(SparseVector(at.astype(np.int32), psi[at]), cut.loss)


class _Broken(Hidden):
    """Answers badly, once in a while."""

    wrong = None

    def cut(self, block, weights):
        if self.wrong == "raises" and block == 3:
            raise RuntimeError("out of order")
        cut = self.model.cut(block, weights)
        if self.wrong == "worse":
            return Cut(10 * np.ones(self.n_features), 0.0)
        return Cut(cut.dense(self.n_features) * np.nan, cut.loss) if self.wrong == "NaN" else cut


def test_oracles_that_fail():
    problem = _Broken(make_model("multiclass"))
    epochs = epochs_of(problem)
    w = np.full(9, 0.1)
    first, _ = epochs.run(w, 1, "fw", 1.0, 0)
    epochs.keep(0.5)
    before = epochs.part()[0]
    problem.wrong = "raises"
    with pytest.raises(RuntimeError, match="out of order"):
        epochs.run(w, 1, "fw", 1.0, 1)
    problem.wrong = "NaN"
    with pytest.raises(ValueError, match="not finite"):
        epochs.run(w, 1, "fw", 1.0, 1)
    problem.wrong = "worse"
    epochs.run(w, 1, "fw", 1.0, 1)
    assert epochs.worse_than_truth == problem.n_blocks
    epochs.keep(0.0)
    np.testing.assert_allclose(epochs.part()[0], before, atol=1e-14)
    assert np.abs(first).max() > 0


def test_what_cannot_be():
    problem = make_model("multiclass")
    with pytest.raises(ValueError, match="n_all must be at least the number of blocks"):
        epochs_of(problem, problem.n_blocks - 1)
    with pytest.raises(ValueError, match="weights must have one entry per weight"):
        epochs_of(problem).run(np.zeros(3), 1, "fw", 1.0, 0)
    with pytest.raises(ValueError, match="scores or losses are NaN"):
        epochs_of(problem).run(np.full(problem.n_features, np.nan), 1, "fw", 1.0, 0)
