"""Forests of labels against enumeration of all labelings, sparse against dense rows, compiled against plain block steps."""

import itertools
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.reference_averages import averages
from tests.cases.solver_cases import Hidden

from maxmargin import _core
from maxmargin.core.solvers import BCFW, ExponentiatedGradient, FrankWolfe, OneSlackCuttingPlane, PartialLinearization
from maxmargin.labeling import best_labeling
from maxmargin.sequences import ChainProblem, TreeProblem, TreeWeights

# A star, a path, a single node, two roots of which one is alone, only roots, a binary tree.
SHAPES = ([-1, 0, 0, 0], [-1, 0, 1], [-1], [-1, -1, 1, 1], [-1, -1], [-1, 0, 0, 1, 1])


def forests(seed=0, n_labels=3, shapes=SHAPES, n_inputs=2, normalize=True, empty=0.0, as_csr=False):
    rng = np.random.default_rng(seed)
    parent = np.concatenate([np.array(shape) for shape in shapes])
    offsets = np.concatenate([[0], np.cumsum([len(shape) for shape in shapes])])
    X = rng.normal(size=(len(parent), n_inputs)) * (rng.random((len(parent), n_inputs)) >= empty)
    y = rng.integers(0, n_labels, len(parent))
    return TreeProblem(sparse.csr_array(X) if as_csr else X, y, offsets, parent, n_labels, normalize=normalize)


def rows_of(problem, block):
    X = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    return X[problem.offsets[block] : problem.offsets[block + 1]], problem.y[problem.offsets[block] : problem.offsets[block + 1]]


def parents_of(problem, block):
    if problem.forests.parent is None:
        return list(range(-1, len(rows_of(problem, block)[1]) - 1))
    return problem.forests.parent[problem.offsets[block] : problem.offsets[block + 1]].tolist()


def feature(problem, block, labels):
    """By the definition, node after node."""
    total = np.zeros(problem.n_features)
    parts = TreeWeights(total, problem.n_labels, problem.n_inputs)
    x, _ = rows_of(problem, block)
    parent = parents_of(problem, block)
    for t, label in enumerate(labels):
        parts.emission[label] += x[t]
        if parent[t] < 0:
            parts.root[label] += 1
        else:
            parts.transition[labels[parent[t]], label] += 1
        if t not in parent:
            parts.leaf[label] += 1
    return total


def all_outputs(problem, block, normalize=True):
    _, truth = rows_of(problem, block)
    outputs = list(product(range(problem.n_labels), repeat=len(truth)))
    mine = feature(problem, block, truth)
    psi = np.array([mine - feature(problem, block, y) for y in outputs])
    loss = np.array([np.sum(truth != y) / (len(truth) if normalize else 1) for y in outputs])
    return psi, loss


@st.composite
def small_models(draw):
    """Forests of a few nodes with features and weights that make ties; the weights too."""
    n_labels = draw(st.integers(1, 4))
    shapes = [
        [draw(st.integers(-1, t - 1)) for t in range(size)]
        for size in draw(st.lists(st.integers(1, 5 if n_labels < 4 else 4), min_size=1, max_size=3))
    ]
    n, p = sum(map(len, shapes)), draw(st.integers(1, 2))
    values = st.sampled_from([-1.0, 0.0, 0.0, 0.5, 2.0])
    X = np.array(draw(st.lists(values, min_size=n * p, max_size=n * p))).reshape(n, p)
    y = np.array(draw(st.lists(st.integers(0, n_labels - 1), min_size=n, max_size=n)))
    offsets = np.concatenate([[0], np.cumsum([len(shape) for shape in shapes])])
    normalize = draw(st.booleans())
    rows = sparse.csr_array(X) if draw(st.booleans()) else X
    problem = TreeProblem(rows, y, offsets, np.concatenate(shapes), n_labels, normalize=normalize)
    d = problem.n_features
    weights = draw(st.one_of(st.just([0.0] * d), st.lists(values, min_size=d, max_size=d)))
    return problem, np.array(weights), normalize


@settings(deadline=None, max_examples=150)
@given(small_models())
def test_oracle_equals_enumeration(case):
    problem, weights, normalize = case
    expected = []
    for block in range(problem.n_blocks):
        psi, loss = all_outputs(problem, block, normalize)
        cut = problem.cut(block, weights)
        expected.append(np.max(loss - psi @ weights))
        assert cut.hinge(weights) == pytest.approx(expected[-1], abs=1e-10)
        # The cut is one of the outputs.
        assert np.min(np.abs(psi - cut.psi).max(axis=1) + np.abs(loss - cut.loss)) < 1e-12
    mean = problem.mean_cut(weights)
    assert mean.hinge(weights) == pytest.approx(np.mean(expected), abs=1e-10)
    together = problem.cuts(range(problem.n_blocks)[::-1], weights)
    assert [cut.hinge(weights) for cut in together] == pytest.approx(expected[::-1], abs=1e-10)
    np.testing.assert_allclose(mean.psi, np.mean([cut.psi for cut in together], axis=0), atol=1e-12)
    assert problem.cuts([], weights) == []
    longest = max(np.linalg.norm(all_outputs(problem, b)[0], axis=1).max() for b in range(problem.n_blocks))
    assert problem.diameter() >= longest - 1e-12


def tree_log_probabilities(problem, block, distribution):
    """Of every labeling, from the marginals of nodes and edges, by conditioning every node on its parent."""
    nodes, edges = distribution
    parent = parents_of(problem, block)
    edge_of = {t: e for e, t in enumerate(np.flatnonzero(np.array(parent) >= 0))}
    result = []
    for y in product(range(problem.n_labels), repeat=len(parent)):
        total = 0.0
        for t, label in enumerate(y):
            if parent[t] < 0:
                total += nodes[t, label]
            else:
                above = y[parent[t]]
                total += edges[edge_of[t]][above, label] - nodes[parent[t], above]
        result.append(total)
    return np.array(result)


@settings(deadline=None, max_examples=80)
@given(small_models(), st.sampled_from([0.1, 1.0, 6.0]), st.floats(0.05, 0.95))
def test_distributions_equal_enumeration(case, temperature, step):
    problem, weights, normalize = case
    over = averages(problem)
    for block in range(problem.n_blocks):
        psi, loss = all_outputs(problem, block, normalize)
        hinges = loss - psi @ weights
        point = over.interior(block, 0.3)
        # Twice: independent nodes first, then a tree distribution with other marginals.
        for _ in range(2):
            log_p = tree_log_probabilities(problem, block, point)
            assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-9)
            average = over.average(block, point)
            np.testing.assert_allclose(average.psi, np.exp(log_p) @ psi, atol=1e-9)
            assert average.loss == pytest.approx(np.exp(log_p) @ loss, abs=1e-9)
            log_p = log_p + hinges / temperature
            p = np.exp(log_p - log_p.max())
            p /= p.sum()
            tilted = over.tilt(block, point, weights, temperature)
            moved = over.average(block, tilted)
            np.testing.assert_allclose(moved.psi, p @ psi, atol=1e-9)
            assert moved.loss == pytest.approx(p @ loss, abs=1e-9)
            point = over.mix(point, tilted, step)
            np.testing.assert_allclose(over.average(block, point).psi, (1 - step) * average.psi + step * moved.psi, atol=1e-9)
        cold = over.average(block, over.tilt(block, point, weights, 0.0))
        assert cold.hinge(weights) == pytest.approx(hinges.max(), abs=1e-10)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 5), st.booleans())
def test_many_forests_equal_one_by_one(seed, n_labels, shared):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, 5)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    parent = np.concatenate([[rng.integers(-1, t) for t in range(length)] for length in lengths]).astype(np.int32)
    unary = rng.integers(-2, 3, (offsets[-1], n_labels)).astype(float)
    pairwise = rng.integers(-2, 3, (n_labels, n_labels) if shared else (offsets[-1], n_labels, n_labels)).astype(float)
    labels, scores = _core.forest_best_many(unary, pairwise, offsets, parent)
    for q, (a, b) in enumerate(itertools.pairwise(offsets)):
        tables, whole = pairwise if shared else pairwise[a:b], np.array([0, b - a])
        own, score = _core.forest_best_many(unary[a:b], tables, whole, parent[a:b])
        assert score[0] == scores[q]
        np.testing.assert_array_equal(own, labels[a:b])
    chains = np.concatenate([np.arange(-1, length - 1) for length in lengths]).astype(np.int32)
    found = (_core.forest_best_many(unary, pairwise, offsets, above)[0] for above in (None, chains))
    np.testing.assert_array_equal(*found)


def test_kernel_refuses_parents_of_other_forests():
    unary, pairwise, offsets = np.zeros((4, 2)), np.zeros((2, 2)), np.array([0, 2, 4])
    for bad in ([-1, 0, -1, 1], [-1, 1, -1, 0], [-2, 0, -1, 0], [-1, 0, -1, 2]):
        with pytest.raises(ValueError, match="number every node after its parent"):
            _core.forest_best_many(unary, pairwise, offsets, np.array(bad, dtype=np.int32))
    with pytest.raises(ValueError, match="one entry for each row"):
        _core.forest_best_many(unary, pairwise, offsets, np.array([-1], dtype=np.int32))


@pytest.mark.parametrize("empty", [0.0, 0.8])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_array])
def test_sparse_rows_equal_dense_ones(kind, empty):
    dense = forests(n_inputs=6, empty=empty)
    problem = TreeProblem(kind(dense.X), dense.y, dense.offsets, dense.forests.parent, 3)
    chain, sparse_chain = (ChainProblem(X, dense.y, dense.offsets, 3) for X in (dense.X, kind(dense.X)))
    rng = np.random.default_rng(0)
    for a, b in ((dense, problem), (chain, sparse_chain)):
        assert sparse.issparse(b.X) and b.X.format == "csr"
        assert a.diameter() == pytest.approx(b.diameter(), rel=1e-12)
        for scale in (0.0, 1.0):
            w = scale * rng.normal(size=a.n_features)
            for block in range(a.n_blocks):
                one, other = a.cut(block, w), b.cut(block, w)
                assert one.loss == other.loss
                np.testing.assert_allclose(one.psi, other.psi, atol=1e-12)
                start = averages(a).interior(block, 0.4)
                for temperature in (0.0, 0.7):
                    mine, yours = (averages(m).average(block, averages(m).tilt(block, start, w, temperature)) for m in (a, b))
                    np.testing.assert_allclose(mine.psi, yours.psi, atol=1e-12)
            np.testing.assert_allclose(a.mean_cut(w).psi, b.mean_cut(w).psi, atol=1e-12)
        for solver in (BCFW(steps="pairwise", tol=1e-6), OneSlackCuttingPlane(tol=1e-6)):
            assert solver.solve(a, 0.1).primal == pytest.approx(solver.solve(b, 0.1).primal, rel=3e-6)


def test_duplicate_entries_of_sparse_rows_add_up():
    dense = forests(n_inputs=1)
    n = len(dense.y)
    halves = sparse.csr_array((np.repeat(dense.X.ravel() / 2, 2), np.zeros(2 * n, int), 2 * np.arange(n + 1)), shape=(n, 1))
    problem = TreeProblem(halves, dense.y, dense.offsets, dense.forests.parent, 3)
    w = np.random.default_rng(0).normal(size=problem.n_features)
    np.testing.assert_allclose(problem.mean_cut(w).psi, dense.mean_cut(w).psi, atol=1e-12)
    assert problem.diameter() == pytest.approx(dense.diameter())
    solver = BCFW(tol=1e-3)
    np.testing.assert_allclose(solver.solve(problem, 0.3).weights, solver.solve(dense, 0.3).weights, atol=1e-9)
    assert halves.nnz == 2 * n  # the caller's matrix stays as it was


def test_chain_is_the_tree_without_branches():
    rng = np.random.default_rng(1)
    lengths = np.array([1, 4, 2, 5])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X, y = rng.normal(size=(offsets[-1], 3)), rng.integers(0, 3, offsets[-1])
    chain = ChainProblem(X, y, offsets, 3)
    tree = TreeProblem(X, y, offsets, np.concatenate([np.arange(-1, n - 1) for n in lengths]), 3)
    for _ in range(5):
        w = rng.normal(size=chain.n_features)
        for a, b in zip(chain.cuts(range(4), w), tree.cuts(range(4), w), strict=True):
            assert a.loss == b.loss
            np.testing.assert_array_equal(a.psi, b.psi)
        np.testing.assert_array_equal(chain.mean_cut(w).psi, tree.mean_cut(w).psi)
        point = averages(chain).interior(1, 0.3)
        for t in (0.0, 0.5):
            for mine, yours in zip(*(averages(p).tilt(1, point, w, t) for p in (chain, tree)), strict=True):
                np.testing.assert_array_equal(mine, yours)
    assert chain.diameter() == tree.diameter()
    for solver in (BCFW(tol=1e-3), BCFW(tol=1e-3, steps="all", cache=20), OneSlackCuttingPlane(), PartialLinearization()):
        np.testing.assert_allclose(solver.solve(chain, 0.1).weights, solver.solve(tree, 0.1).weights, rtol=0, atol=1e-12)


def test_numbers_of_nodes_do_not_matter_to_the_best_labeling():
    """The library's labeling of an undirected forest finds the same score."""
    problem = forests(seed=5)
    rng = np.random.default_rng(5)
    w = rng.normal(size=problem.n_features)
    parts = TreeWeights(w, 3, 2)
    for block in range(problem.n_blocks):
        x, truth = rows_of(problem, block)
        parent = np.array(parents_of(problem, block))
        unary = x @ parts.emission.T + (np.arange(3) != truth[:, None]) / len(truth)
        unary[parent < 0] += parts.root
        unary[~np.isin(np.arange(len(truth)), parent)] += parts.leaf
        children = np.flatnonzero(parent >= 0)
        found = best_labeling(unary, parts.transition, edges=np.stack([parent[children], children], axis=1))
        assert problem.cut(block, w).hinge(w) == pytest.approx(found.score - w @ feature(problem, block, truth), abs=1e-10)


@pytest.mark.parametrize("cache", [0, 20])
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all"])
@pytest.mark.parametrize("bounds", [None, (-0.15, 0.3)])
def test_compiled_oracles_reach_the_objective_of_those_in_python(steps, cache, bounds):
    problem = forests(seed=2, shapes=SHAPES[1:4], n_inputs=3, as_csr=cache > 0)
    listed = EnumeratedProblem(*zip(*(all_outputs(problem, b) for b in range(problem.n_blocks)), strict=True))
    optimum = OneSlackCuttingPlane(tol=1e-9, max_passes=5000).solve(listed, 0.5, bounds=bounds)
    assert optimum.converged
    # Plain Frank-Wolfe steps converge like 1/k: they stop early and certify by how much.
    solver = BCFW(steps=steps, cache=cache, epsilon=2e-3 if steps == "fw" else 8e-7, max_passes=20_000)
    compiled, plain = solver.solve(problem, 0.5, bounds=bounds), solver.solve(Hidden(problem), 0.5, bounds=bounds)
    for solution in (compiled, plain):
        assert solution.certified and solution.converged
        assert solution.dual - 1e-8 <= optimum.primal <= solution.primal + 1e-8
        if steps != "fw":
            assert solution.primal == pytest.approx(optimum.primal, abs=1e-6)
    hinges = [np.max(loss - psi @ compiled.weights) for psi, loss in zip(listed.psi, listed.loss, strict=True)]
    assert compiled.primal == pytest.approx(0.25 * compiled.weights @ compiled.weights + np.mean(hinges), rel=1e-12)
    if bounds is not None:
        assert compiled.weights.min() >= bounds[0] and compiled.weights.max() <= bounds[1]


@pytest.mark.parametrize("bounds", [None, (-0.15, 0.3)])
@pytest.mark.parametrize("n_labels", [1, 2, 5])
@pytest.mark.parametrize("length", [5, 70])
def test_compiled_oracles_and_those_in_python_walk_together(bounds, n_labels, length):
    """With one block nothing is random. Above 64 nodes the compiled form keeps no inner products of nodes."""
    rng = np.random.default_rng(length)
    problem = forests(seed=3, n_labels=n_labels, shapes=[[rng.integers(max(-1, t - 3), t) for t in range(length)]])
    # A pairwise step makes two outputs equally bad, and rounding decides which is next; the others leave no such ties.
    for steps in ("fw", "away"):
        solver = BCFW(steps=steps, tol=1e-9, max_passes=40, check_every=1)
        compiled, plain = (solver.solve(each, 0.5, bounds=bounds) for each in (problem, Hidden(problem)))
        assert compiled.primal == pytest.approx(plain.primal, abs=1e-9)
        assert compiled.dual == pytest.approx(plain.dual, abs=1e-9)
        np.testing.assert_allclose(compiled.weights, plain.weights, atol=1e-8)
    if length < 10:
        for steps in ("pairwise", "all"):
            solver = BCFW(steps=steps, cache=20, epsilon=5e-7, max_passes=5000)
            compiled, plain = (solver.solve(each, 0.5, bounds=bounds) for each in (problem, Hidden(problem)))
            assert compiled.converged and plain.converged
            assert compiled.primal == pytest.approx(plain.primal, abs=1e-6)


@pytest.mark.parametrize(
    "solver",
    [
        OneSlackCuttingPlane(tol=1e-5),
        BCFW(steps="fw", tol=1e-2, hybrid=True),
        FrankWolfe(tol=2e-2, max_passes=5000),
        PartialLinearization(tol=1e-3, temperature=0.1, max_passes=5000),
        ExponentiatedGradient(tol=1e-2, temperature=2.0, max_passes=5000),
    ],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("bounded", [False, True])
def test_every_solver_reaches_the_optimum(solver, bounded):
    problem = forests(seed=4)
    listed = EnumeratedProblem(*zip(*(all_outputs(problem, b) for b in range(problem.n_blocks)), strict=True))
    bounds = (-0.2, 0.3) if bounded else None
    optimum = OneSlackCuttingPlane(tol=1e-7).solve(listed, 0.2, bounds=bounds)
    solution = solver.solve(problem, 0.2, bounds=bounds)
    assert solution.converged and solution.certified
    assert solution.dual - 1e-6 <= optimum.primal <= solution.primal + 1e-6


def test_subclass_with_its_own_oracle_is_asked():
    class Careful(TreeProblem):
        asked = 0

        def cuts(self, blocks, weights):
            self.asked += len(blocks)
            return super().cuts(blocks, weights)

    base = forests()
    problem = Careful(base.X, base.y, base.offsets, base.forests.parent, 3)
    assert problem.block_data is None and base.block_data is not None
    BCFW(steps="fw", tol=1e-2).solve(problem, 0.5)
    assert problem.asked > 0


X3 = np.ones((3, 2))
TREE = np.array([-1, 0, 0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X3, [0, 1, 0], [0, 3], [-1, 2, 0]), ValueError, "node 1 of tree 0 has the parent 2; .* a node before 1: number"),
        ((X3, [0, 1, 0], [0, 1, 3], [-1, -1, 1]), ValueError, "node 1 of tree 1 has the parent 1; it must be -1 for a root"),
        ((X3, [0, 1, 0], [0, 3], [-1, 0, -2]), ValueError, "node 2 of tree 0 has the parent -2"),
        ((X3, [0, 1, 0], [0, 3], [0, 0, 0]), ValueError, "node 0 of tree 0 has the parent 0"),
        ((X3, [0, 1, 0], [0, 3], [-1, 0]), ValueError, r"parent has shape \(2,\), but one entry for each of the 3 nodes"),
        ((X3, [0, 1, 0], [0, 3], [-1.0, 0.0, 0.0]), TypeError, "parent must be integers"),
        ((X3, [0, 1, 0], [0, 2, 2, 3], TREE), ValueError, "tree 1 is empty; drop trees without nodes"),
        ((X3, [0, 1], [0, 3], TREE), ValueError, "X has 3 nodes, y has 2 and offsets end at 3; they must be equal"),
        ((X3, [0, 1, 0], [0, 4], TREE), ValueError, "offsets end at 4"),
        ((X3, [0, 1, 0], [1, 3], TREE), ValueError, "offsets must begin with 0 .* begins with 1"),
        ((X3[:0], np.zeros(0, int), [0], TREE[:0]), ValueError, "at least one"),
        ((X3, [0, 1, 2], [0, 3], TREE), ValueError, "y must lie between 0 and 1, but ranges from 0 to 2"),
        ((X3, [0, -1, 1], [0, 3], TREE), ValueError, "y must lie between 0 and 1, but ranges from -1 to 1"),
        ((X3, [0.0, 1.0, 1.0], [0, 3], TREE), ValueError, "y must be a one-dimensional array of integers"),
        ((X3 * [[1, 1], [np.nan, 1], [1, 1]], [0, 1, 0], [0, 3], TREE), ValueError, "NaN or infinite values, first in row 1"),
        ((sparse.csr_array(X3 * [[1], [1], [np.inf]]), [0, 1, 0], [0, 3], TREE), ValueError, "first in row 2"),
        ((X3.ravel(), [0] * 6, [0, 6], [-1] * 6), ValueError, r"X has shape \(6,\)"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        TreeProblem(*arguments, 2)
