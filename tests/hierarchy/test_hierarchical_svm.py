"""HierarchicalSVM: norms against each other, a generic minimiser, and what it says about bad input."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from tests.cases.reference_programs import Cone, MarginProgram, convex_program

from maxmargin import HierarchicalSVM, MulticlassSVM, load_model, save_model
from maxmargin.core.solvers import BCFW, InexactOracleWarning, OneSlackCuttingPlane
from maxmargin.hierarchy import (
    Hierarchy,
    HierarchyProblem,
    HierarchySetStructure,
    HierarchyStructure,
    NodeWeights,
    node_norm,
    tree_norm,
)
from maxmargin.surrogates import BetaScaling, LogLoss, Slack, StructuredProblem

TREE = Hierarchy.from_parents([-1, 0, 0, 1, 1, 2, 2, 5, 5])
DAG = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5), (3, 6), (3, 7)])


def samples(hierarchy, n=60, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    scores = hierarchy.membership() @ (rng.normal(size=(len(hierarchy), p)) @ X.T)
    return X, np.array([hierarchy.nodes[k] for k in hierarchy.leaves[np.argmax(scores + rng.normal(size=scores.shape), axis=0)]])


def test_flat_is_the_multiclass_svm():
    X, y = samples(TREE)
    own = HierarchicalSVM(TREE, norm="flat", tol=1e-6).fit(X, y)
    other = MulticlassSVM(tol=1e-6).fit(X, y)
    assert own.primal_objective_ == pytest.approx(other.primal_objective_, rel=1e-5)
    np.testing.assert_allclose(own.coef_[own.labels_], other.coef_, atol=1e-2 * np.abs(other.coef_).max())
    np.testing.assert_array_equal(own.predict(X), other.predict(X))
    assert own.score(X, y) == other.score(X, y)


@pytest.mark.parametrize("loss", ["zero_one", "hamming", "sqrt_hamming", "normalized", "tree"])
@pytest.mark.parametrize("surrogate", [None, Slack(), BetaScaling(0.5), "fully normalized", LogLoss()])
def test_compiled_blocks_and_cutting_planes_agree(loss, surrogate):
    if surrogate == "fully normalized" and loss != "normalized":
        pytest.skip("a variant of the normalised loss")
    X, y = samples(TREE)
    structure = HierarchyStructure(TREE, 4, NodeWeights().of(TREE), loss=loss)
    options = {"fully_normalized": True} if surrogate == "fully normalized" else {"surrogate": surrogate}
    problem = HierarchyProblem(structure, X, np.searchsorted(TREE.leaves, y), **options)
    planes = OneSlackCuttingPlane(tol=1e-3, max_passes=3000).solve(problem, 0.02)
    assert planes.certificate.certified
    steps = ["pairwise"] if problem.powers is None else ["exact", "pairwise", "fw"]
    for step in steps:
        blocks = BCFW(steps=step, tol=1e-3, max_passes=3000).solve(problem, 0.02)
        assert blocks.certificate.certified and blocks.converged
        assert blocks.dual <= planes.primal * (1 + 1e-9) and planes.dual <= blocks.primal * (1 + 1e-9)


def test_normalized_objective_by_definition():
    # (6.10) = (6.11) = (6.12) under the change of variables, and the certificate is of it.
    X, y = samples(TREE)
    model = HierarchicalSVM(TREE, C=0.5, fit_intercept=False).fit(X, y)
    B, alpha = TREE.membership().toarray(), model.alpha_
    truth = np.searchsorted(TREE.leaves, y)
    delta = np.sqrt((np.abs(B[:, None] - B[None]) * alpha).sum(axis=2))
    assert delta.max() <= np.sqrt(2) + 1e-12
    U = np.sqrt(alpha)[:, None] * model.coef_
    for norm, scores in (
        ((model.coef_**2).sum(), X @ (B * np.sqrt(alpha) @ model.coef_).T),
        (((U**2).sum(axis=1) / alpha).sum(), X @ (B @ U).T),
    ):
        hinges = (delta[truth] + scores - scores[np.arange(len(y)), truth][:, None]).max(axis=1)
        assert 0.5 * norm + 0.5 * hinges.sum() == pytest.approx(model.primal_objective_, rel=1e-9)


def test_deep_labels_are_cheap_in_the_path_norm_only():
    # Figure 6-1: halves of a weight on a node and its only child score the same and cost half.
    W = np.random.default_rng(0).normal(size=(2, 3))
    short, long = Hierarchy([("r", "a"), ("r", "b")]), Hierarchy([("r", "a"), ("r", "b"), ("a", "a2")])
    split = np.array([W[0] / 2, W[1], W[0] / 2])
    np.testing.assert_allclose((long.membership()[:, 1:] @ split)[[1, 0]], short.membership()[:, 1:] @ W)
    assert (split**2).sum() == pytest.approx((W[0] ** 2).sum() / 2 + (W[1] ** 2).sum())


def test_duplicates_do_not_matter():
    chained = Hierarchy([(0, 1), (1, 11), (11, 12), (12, 3), (12, 4), (0, 2), (2, 5), (2, 6), (5, 7), (5, 8)])
    X, y = samples(TREE)
    scores = {}
    for name, hierarchy in (("plain", TREE), ("chained", chained)):
        for invariant in (False, True):
            model = HierarchicalSVM(hierarchy, invariant=invariant, tol=1e-7).fit(X, y)
            order = np.argsort(model.classes_)
            scores[name, invariant] = model.decision_function(X)[:, order]
    np.testing.assert_allclose(scores["plain", True], scores["chained", True], atol=2e-3)
    assert np.abs(scores["plain", False] - scores["chained", False]).max() > 0.02


def shared_optimum(hierarchy, X, truth):
    """(6.17) as a program in U and alpha together, with a slack for every hinge; the loss is zero-one, and C is 1.

    Variables: U, alpha, t and slacks, with ``|U_n|^2 <= alpha_n t_n`` as (alpha_n + t_n, alpha_n - t_n, 2 U_n) in the norm cone.
    """
    B, n, k = hierarchy.membership().toarray(), len(truth), len(hierarchy)
    size, d = k * X.shape[1], X.shape[1]
    unit = np.eye(size + 2 * k + n)
    U, alpha, t, slack = np.split(unit, [size, size + k, size + 2 * k])
    # Linear in U: the scores' differences to the true leaf's.
    scores = np.einsum("ij,ln->ilnj", X, B).reshape(n, len(B), size)
    hinges = scores - scores[np.arange(n), truth][:, None]
    wrong = (np.arange(len(B)) != truth[:, None]).astype(float)

    def objective(v):
        # A little of equal weights, so that none is zero.
        shares = (1 - 1e-12) * v[size : size + k] + 1e-12 / B.sum(axis=1).max()
        norms = (v[:size].reshape(k, d) ** 2).sum(axis=1)
        return 0.5 * (norms / shares).sum() + (wrong + hinges @ v[:size]).max(axis=1).sum()

    rows = np.vstack([-B @ alpha, (slack[:, None] - hinges @ U).reshape(-1, len(unit))])
    least = np.concatenate([-np.ones(len(B)), wrong.ravel()])
    # U = 0 has the objective n, which bounds every term at the optimum; alpha is at most 1.
    most = np.repeat([np.sqrt(2 * n), 1.0, 2.0 * n, n], [size, k, k, n])
    return convex_program(
        np.repeat([0.0, 0.5, 1.0], [size + k, k, n]), rows=(rows, least),
        bounds=(np.where(np.arange(len(unit)) < size, -most, 0.0), most),
        cones=[
            Cone("norm", np.vstack([alpha[m] + t[m], alpha[m] - t[m], 2 * U[m * d : (m + 1) * d]]), np.zeros(2 + d))
            for m in range(k)
        ],
        objective=objective,
    )  # fmt: skip


def test_shared_norm_against_a_proved_optimum():
    X, y = samples(TREE, n=25, p=2)
    model = HierarchicalSVM(TREE, norm="shared", loss="zero_one", fit_intercept=False, tol=1e-3).fit(X, y)
    assert model.certified_ and model.dual_gap_ <= 0.02 * model.primal_objective_
    B, truth = TREE.membership().toarray(), np.searchsorted(TREE.leaves, y)

    def objective(flat):
        U = flat.reshape(len(TREE), -1)
        scores = X @ (B @ U).T
        hinges = ((np.arange(B.shape[0]) != truth[:, None]) + scores - scores[np.arange(len(y)), truth][:, None]).max(axis=1)
        return 0.5 * tree_norm(TREE, U) ** 2 + hinges.sum()

    U = np.sqrt(model.alpha_)[:, None] * model.coef_
    assert objective(U.ravel()) == pytest.approx(model.primal_objective_, rel=1e-6)
    optimum = shared_optimum(TREE, X, truth)
    assert model.dual_objective_ <= optimum.value * (1 + 1e-9)
    assert optimum.bound * (1 - 1e-9) <= model.primal_objective_ <= optimum.value * 1.002
    # No fixed alpha with the same loss is better.
    fixed = HierarchicalSVM(TREE, norm="normalized", loss="zero_one", fit_intercept=False).fit(X, y)
    assert model.primal_objective_ <= fixed.primal_objective_ * (1 + 1e-3)
    gaps = np.diff(model.history_.primal)
    assert (gaps <= 1e-12).all()


def test_shared_norm_on_a_graph():
    X, y = samples(DAG, n=25, p=2)
    model = HierarchicalSVM(DAG, norm="shared", loss="zero_one", fit_intercept=False, tol=1e-3).fit(X, y)
    assert model.certified_ and model.dual_gap_ <= 0.02 * model.primal_objective_
    assert (DAG.membership() @ model.alpha_ <= 1 + 1e-9).all()
    B, truth = DAG.membership().toarray(), np.searchsorted(DAG.leaves, DAG.numbers(y.tolist()))
    U = np.sqrt(model.alpha_)[:, None] * model.coef_
    scores = X @ (B @ U).T
    hinges = (np.arange(len(B)) != truth[:, None]) + scores - scores[np.arange(len(y)), truth][:, None]
    value = 0.5 * node_norm(DAG, U) ** 2 + hinges.max(axis=1).sum()
    assert value == pytest.approx(model.primal_objective_, rel=1e-6)
    optimum = shared_optimum(DAG, X, truth)
    assert model.dual_objective_ <= optimum.value * (1 + 1e-9)
    assert optimum.bound * (1 - 1e-9) <= model.primal_objective_ <= optimum.value * 1.002
    fixed = HierarchicalSVM(DAG, norm="normalized", loss="zero_one", fit_intercept=False).fit(X, y)
    assert model.primal_objective_ <= fixed.primal_objective_ * (1 + 1e-3)
    assert (np.diff(model.history_.primal) <= 1e-12).all() and len(model.history_.primal) > 2


@pytest.mark.parametrize("hierarchy", [TREE, DAG])
def test_recursive_against_a_quadratic_program(hierarchy):
    # sum_n 1/2 |W_n - W_parent|^2 + C sum over labels of hinges, with slacks; on a graph a node is near the sum of what is above.
    X, y = samples(hierarchy, n=20, p=2)
    weights = np.random.default_rng(0).random(20) + 0.5
    model = HierarchicalSVM(hierarchy, C=0.5, norm="recursive", fit_intercept=False, tol=1e-4).fit(X, y, sample_weight=weights)
    assert model.certified_
    B, k = hierarchy.membership().toarray(), len(hierarchy)
    signs = np.where(hierarchy.leaves == hierarchy.numbers(y.tolist())[:, None], 1.0, -1.0)
    # In V, the differences of a node's weights to those above; the root has none above.
    rows = np.einsum("il,ln,ij->ilnj", signs, B, X).reshape(-1, 2 * k)
    hinges = [(np.array([0 * row, row]), np.array([0.0, 1.0])) for row in rows]
    optimum = MarginProgram(hinges, np.repeat(0.5 * weights, signs.shape[1])).optimum()
    if hierarchy.is_tree:
        # As published, in W.
        V = optimum.x.reshape(k, 2)
        W = hierarchy.ancestors @ V
        difference = W.copy()
        difference[1:] -= W[hierarchy.parent[1:]]
        np.testing.assert_allclose(difference, V, atol=1e-9)
    assert model.primal_objective_ <= optimum.value * (1 + 2e-4) and optimum.bound <= model.primal_objective_ * (1 + 1e-9)
    assert model.dual_objective_ <= optimum.value * (1 + 1e-9)
    blocks = HierarchicalSVM(hierarchy, C=0.5, norm="recursive", fit_intercept=False, solver="bcfw", tol=1e-3)
    assert blocks.fit(X, y, sample_weight=weights).primal_objective_ == pytest.approx(optimum.value, rel=2e-3)
    best = hierarchy.leaves[np.argmax(X @ (B @ model.coef_).T, axis=1)]
    np.testing.assert_array_equal(model.predict(X), [hierarchy.nodes[k] for k in best])


@pytest.mark.parametrize("hierarchy", [TREE, DAG])
@pytest.mark.parametrize("relaxed", [False, True])
def test_sets_of_labels(hierarchy, relaxed):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 2))
    Y = [[hierarchy.nodes[k] for k in rng.choice(hierarchy.leaves, size=rng.integers(1, 3), replace=False)] for _ in X]
    model = HierarchicalSVM(hierarchy, multilabel=True, relaxed=relaxed, tol=5e-2).fit(X, Y)
    assert model.certified_
    assert model.certified_objective_ == ("relaxed" if relaxed and hierarchy is DAG else "exact")
    chosen = hierarchy.indicators(model.predict(X))
    matrix = HierarchicalSVM(hierarchy, multilabel=True, relaxed=relaxed, tol=5e-2).fit(X, hierarchy.indicators(Y).astype(int))
    np.testing.assert_array_equal(matrix.predict(X), chosen)
    assert matrix.score(X, hierarchy.indicators(Y)) == model.score(X, Y)
    assert model.decision_function(X).shape == (15, len(hierarchy))


def test_joint_features_are_products():
    rng = np.random.default_rng(2)
    x, alpha = rng.normal(size=3) * [1, 0, 1], rng.random(len(DAG)) * (np.arange(len(DAG)) != 4)
    one, several = HierarchyStructure(DAG, 3, alpha), HierarchySetStructure(DAG, 3, alpha)
    for own in (x, sparse.csr_array(x[None])):
        for label, members in enumerate(DAG.membership().toarray()):
            for found in (one.joint_feature(own, label), several.joint_feature(own, members)):
                np.testing.assert_array_equal(found.toarray(), np.kron(np.sqrt(alpha) * members, x)[None])


def test_constrained_search_of_sets():
    rng = np.random.default_rng(3)
    for hierarchy in (TREE, DAG):
        sets = HierarchySetStructure(hierarchy, 2, np.ones(len(hierarchy)), loss="hamming")
        x, weights = rng.normal(size=2), rng.normal(size=2 * len(hierarchy))
        outputs = sets.all_outputs(x)
        truth = outputs[3]
        h = np.array([1 + (sets.joint_feature(x, y) - sets.joint_feature(x, truth)).toarray().ravel() @ weights for y in outputs])
        g = np.array([sets.loss(truth, y) for y in outputs])
        for low, high in ((0.2, 1.5), (0.5, 4.0), (0.0, np.inf), (30.0, np.inf)):
            # Of the open quadrant: the truth, which has no loss, is never inside.
            inside = (h > 0) & (g > 0) & (low * h <= g) & (g < high * h)
            found = sets.decode_within(x, weights, truth, 0.7, low, high)
            if not inside.any():
                assert found is None
                continue
            k = next(k for k, y in enumerate(outputs) if (y == found).all())
            assert h[k] + 0.7 * g[k] == pytest.approx((h + 0.7 * g)[inside].max())
        # The best one is not in a cone that ends at it, however near: an angle must not find its own end again.
        inside = (h > 0) & (g > 0)
        best = max(np.flatnonzero(inside), key=lambda k: h[k] + 0.7 * g[k])
        slope = g[best] / h[best]
        for low, high in ((0.0, slope), (slope * (1 + 1e-9), np.inf)):
            found = sets.decode_within(x, weights, truth, 0.7, low, high)
            assert found is None or (found != outputs[best]).any()
            rest = inside & (low * h <= g * (1 + 1e-12)) & (g < high * h * (1 - 1e-12)) & (np.arange(len(h)) != best)
            if rest.any():
                assert (h + 0.7 * g)[[(y == found).all() for y in outputs]][0] == pytest.approx((h + 0.7 * g)[rest].max())


@pytest.mark.parametrize(
    ("search", "loss"), [("auto", "leaves"), ("angular", "leaves"), ("hull", "hamming"), ("auto", "weighted")]
)
@pytest.mark.parametrize("hierarchy", [TREE, DAG])
def test_slack_rescaling_of_sets_against_enumeration(hierarchy, search, loss):
    # S20: the lambda-oracle is the dynamic program or the integer program, with the loss of nodes in their scores.
    rng = np.random.default_rng(6)
    sets = HierarchySetStructure(hierarchy, 2, NodeWeights().of(hierarchy), loss=loss)
    xs, outputs = list(rng.normal(size=(2, 2))), sets.all_outputs(None)
    truths = [outputs[k] for k in rng.choice(len(outputs), size=2)]
    problem = StructuredProblem(sets, xs, truths, Slack(search=search))
    for scale in (0.3, 1.5):
        weights = scale * rng.normal(size=2 * len(hierarchy))
        for cut, x, truth in zip(problem.cuts(range(2), weights), xs, truths, strict=True):
            own = sets.joint_feature(x, truth).toarray().ravel()
            h = [(sets.joint_feature(x, y).toarray().ravel() - own) @ weights for y in outputs]
            best = max((1 + a) * sets.loss(truth, y) for a, y in zip(h, outputs, strict=True))
            assert cut.hinge(weights) <= best + 1e-7 <= cut.upper(weights) + 2e-7
            if search != "hull":
                assert cut.hinge(weights) == pytest.approx(best) and cut.upper(weights) == pytest.approx(best)


@pytest.mark.parametrize("hierarchy", [TREE, DAG])
def test_training_sets_with_slack_rescaling(hierarchy):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 1))
    Y = [[hierarchy.nodes[k] for k in rng.choice(hierarchy.leaves, size=rng.integers(1, 3), replace=False)] for _ in X]
    settings = {"multilabel": True, "C": 0.1, "tol": 5e-2}
    model = HierarchicalSVM(hierarchy, surrogate="slack", **settings).fit(X, Y)
    listed = HierarchicalSVM(hierarchy, surrogate=Slack(search="enumerate"), **settings).fit(X, Y)
    assert model.certified_ and listed.certified_ and model.certified_objective_ == "exact"
    assert model.dual_objective_ <= listed.primal_objective_ * (1 + 1e-9)
    assert listed.dual_objective_ <= model.primal_objective_ * (1 + 1e-9)


def test_columns_inner_labels_and_files(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, :1] > 0, [["dog", ""]], np.where(X[:, 1:] > 0, [["cat", "lion"]], [["cat", ""]]))
    model = HierarchicalSVM(C=10).fit(X, y)
    assert sorted(model.classes_) == ["cat", "cat/lion", "dog"] and model.score(X, y) > 0.9
    assert model.predict(X).shape == y.shape
    for own in (model, HierarchicalSVM(nx.DiGraph(TREE.edges.tolist()), norm="shared").fit(*samples(TREE))):
        save_model(own, tmp_path / "m")
        same = load_model(tmp_path / "m")
        assert same.hierarchy_ == own.hierarchy_
        inputs = X if own is model else samples(TREE)[0]
        np.testing.assert_array_equal(same.predict(inputs), own.predict(inputs))


def test_sparse_is_dense():
    X, y = samples(TREE)
    X[np.abs(X) < 0.8] = 0
    dense, thin = (HierarchicalSVM(TREE, tol=1e-5).fit(own, y) for own in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=1e-3)


def test_what_is_wrong_is_told():
    X, y = samples(TREE)
    for parameters, labels, message in (
        ({}, np.where(y == y[0], 99, y), "sample .*: label 99 is not a node"),
        ({"labels": "leaves"}, np.where(y == y[0], 1, y), "no leaf"),
        ({"norm": "l1"}, y, "norm='l1'"),
        ({"relaxation": 0.5}, y, "relaxation=0.5 must be at least 1"),
        ({"hierarchy": [(0, 1), (1, 2), (2, 1)]}, y, "cycle: 2 -> 1 -> 2"),
        ({"hierarchy": [(0, 1), (2, 3)]}, y, "2 roots, 0, 2"),
        ({"hierarchy": DAG, "loss": "tree"}, np.array([6, 7] * 30), "use 'hamming'"),
        ({"multilabel": True}, [[3], [99]] * 30, "sample 1: label 99 is not a node"),
        ({"multilabel": True}, [[3], []] * 30, "sample 1: its label set is empty"),
        ({"multilabel": True}, [[3]] * 7, "60 samples, but y has 7"),
        ({"rho": 1.0}, y, "above 1"),
        ({"norm": "recursive", "surrogate": "slack"}, y, "hinge of its own"),
        ({"norm": "recursive", "multilabel": True}, y, "hinge of its own"),
        ({"norm": "shared", "bounds": (-1, 1)}, y, "bounds"),
        ({"multilabel": True}, y.tolist(), "list or a set"),
        ({"multilabel": True}, np.eye(9)[np.ones(60, dtype=int)], "above it; hierarchy.closed"),
        ({"loss": "leaves"}, y, "loss='leaves'"),
    ):
        with pytest.raises(ValueError, match=message):
            HierarchicalSVM(**({"hierarchy": TREE} | parameters)).fit(X, labels)


def test_a_lower_bound_that_is_too_high_is_noticed_with_learned_weights_of_nodes(monkeypatch):
    monkeypatch.setattr(HierarchicalSVM, "_joint_bound", lambda self, solution, lam: 2 * solution.primal)
    with pytest.warns(InexactOracleWarning, match="the dual objective exceeds the primal one"):
        model = HierarchicalSVM(TREE, norm="shared").fit(*samples(TREE))
    assert not model.certified_
