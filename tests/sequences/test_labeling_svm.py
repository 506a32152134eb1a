"""ChainSVM and TreeSVM on dense, sparse and named features, and TreeSVM on trees."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from maxmargin import ChainSVM, MulticlassSVM, TreeSVM
from maxmargin.core.solvers import BCFW, ConvergenceWarning, OneSlackCuttingPlane
from maxmargin.sequences import Tree


def trees(n, rng, noise=0.7):
    """Labels that children mostly inherit, seen through noise."""
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(1, 15))
        parent = np.array([rng.integers(-1 if t % 7 == 0 else 0, max(t, 1)) if t else -1 for t in range(size)])
        labels = rng.integers(0, 2, size)
        for t in range(size):
            if parent[t] >= 0 and rng.random() < 0.9:
                labels[t] = labels[parent[t]]
        X.append(Tree(labels[:, None] + noise * rng.normal(size=(size, 1)), parent))
        y.append(labels)
    return X, y


def test_tree_uses_the_parents():
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = trees(60, rng), trees(200, rng)
    model = TreeSVM(C=10).fit(X, y)
    single = MulticlassSVM(C=1).fit(np.concatenate([tree.features for tree in X]), np.concatenate(y))
    alone = np.mean([np.mean(single.predict(tree.features) == t) for tree, t in zip(X_test, y_test, strict=True)])
    assert model.score(X_test, y_test) > alone + 0.02
    assert model.transition_[0, 0] > model.transition_[0, 1]
    assert model.root_.shape == model.leaf_.shape == model.intercept_.shape == (2,) and model.coef_.shape == (2, 1)
    assert model.certified_ and model.dual_gap_ <= 0.05 * model.primal_objective_
    scores = model.decision_function(X_test)
    assert [len(p) for p in model.predict(X_test)] == [len(t.parent) for t in X_test] == [len(s) for s in scores]
    # A single node is a root and a leaf.
    alone = model.decision_function([Tree([[0.5]], [-1])])[0][0]
    np.testing.assert_allclose(alone, 0.5 * model.coef_[:, 0] + model.intercept_ + model.root_ + model.leaf_)


@pytest.mark.parametrize("solver", ["bcfw", "pl", "n_slack", BCFW(steps="pairwise", cache=20, tol=1e-3)])
def test_all_solvers_agree_on_trees(solver):
    X, y = trees(8, np.random.default_rng(1))
    best = TreeSVM(C=0.3, tol=1e-5).fit(X, y)
    other = TreeSVM(C=0.3, solver=solver, tol=5e-2).fit(X, y)
    assert other.certified_
    assert other.dual_objective_ <= best.primal_objective_ * 1.00001
    assert other.primal_objective_ >= best.dual_objective_ * 0.99999


def test_a_chain_is_a_tree():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(length, 3)) for length in (1, 4, 6, 2, 5)]
    y = [rng.choice(["a", "b", "c"], len(x)) for x in X]
    as_trees = [Tree(x, np.arange(-1, len(x) - 1)) for x in X]
    chain, tree = ChainSVM().fit(X, y), TreeSVM().fit(as_trees, y)
    np.testing.assert_allclose(chain.coef_, tree.coef_, atol=1e-12)
    np.testing.assert_allclose(chain.first_, tree.root_, atol=1e-12)
    np.testing.assert_allclose(chain.last_, tree.leaf_, atol=1e-12)
    np.testing.assert_allclose(chain.transition_, tree.transition_, atol=1e-12)
    assert all((a == b).all() for a, b in zip(chain.predict(X), tree.predict(as_trees), strict=True))
    assert chain.score(X, y) == tree.score(as_trees, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_sparse_features_equal_dense_ones(kind, fit_intercept):
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(length, 8)) * (rng.random((length, 8)) < 0.3) for length in (1, 4, 6, 2, 5)]
    y = [rng.integers(0, 3, len(x)) for x in X]
    parents = [[rng.integers(-1, t) for t in range(len(x))] for x in X]
    forms = [X, [kind(x) for x in X], [kind(x) if k % 2 else x for k, x in enumerate(X)]]
    chains = [ChainSVM(fit_intercept=fit_intercept, tol=1e-6).fit(form, y) for form in forms]
    as_trees = [[Tree(x, p) for x, p in zip(form, parents, strict=True)] for form in forms]
    models = [TreeSVM(fit_intercept=fit_intercept, tol=1e-6).fit(form, y) for form in as_trees]
    for family, data in ((chains, forms), (models, as_trees)):
        for model, form in zip(family[1:], data[1:], strict=True):
            assert model.n_features_in_ == 8
            # Rounding may send the solver elsewhere, but not the answers of one model to two forms of the same data.
            assert model.primal_objective_ == pytest.approx(family[0].primal_objective_, rel=2e-6)
            for mine, yours in zip(model.decision_function(form), model.decision_function(data[0]), strict=True):
                np.testing.assert_allclose(mine, yours, atol=1e-12)
            assert model.score(form, y) == model.score(data[0], y)


def test_dictionaries_stay_sparse_and_equal_the_dense_encoding():
    rng = np.random.default_rng(4)
    words = [f"w{k}" for k in range(50)]
    X = [[{"word": str(rng.choice(words)), "length": float(rng.integers(1, 9))} for _ in range(n)] for n in (3, 5, 1, 4)]
    y = [rng.choice(["N", "V"], len(x)) for x in X]
    seen = []

    class Watching(OneSlackCuttingPlane):
        def solve(self, problem, *args, **kwargs):
            seen.append(problem.X)
            return super().solve(problem, *args, **kwargs)

    model = ChainSVM(solver=Watching(tol=1e-6)).fit(X, y)
    assert sparse.issparse(seen[0]) and seen[0].nnz == 3 * 13
    names = list(model.feature_names_in_)
    dense = [np.zeros((len(x), len(names))) for x in X]
    for rows, x in zip(dense, X, strict=True):
        for row, own in zip(rows, x, strict=True):
            row[names.index(f"word={own['word']}")], row[names.index("length")] = 1.0, own["length"]
    same = ChainSVM(tol=1e-6, solver="one_slack").fit(dense, y)
    assert same.primal_objective_ == pytest.approx(model.primal_objective_, rel=2e-6)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-2)
    as_trees = [Tree(x, [-1] + [0] * (len(x) - 1)) for x in X]
    tree = TreeSVM(C=100).fit(as_trees, y)
    assert tree.score(as_trees, y) > 0.9
    # Names that training did not see count for nothing.
    a, b = tree.decision_function([Tree([{"word": "new", "length": 2.0}], [-1]), Tree([{"length": 2.0}], [-1])])
    np.testing.assert_array_equal(a, b)
    # An array of objects will do as a list.
    assert (model.predict([np.array(X[0], dtype=object)])[0] == model.predict([X[0]])[0]).all()


def test_conventions_of_scikit_learn():
    rng = np.random.default_rng(5)
    X, y = trees(20, rng)
    model = TreeSVM(C=2.0, normalize=False)
    assert clone(model).get_params() == model.get_params() and "C=2.0" in repr(model)
    assert set(TreeSVM().get_params()) == set(ChainSVM().get_params()) >= {"C", "normalize", "fit_intercept", "solver", "tol"}
    search = GridSearchCV(TreeSVM(tol=1e-2), {"C": [0.01, 10]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.5
    fitted = model.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert all((a == b).all() for a, b in zip(fitted.predict(X), again.predict(X), strict=True))
    with pytest.warns(ConvergenceWarning, match="TreeSVM stopped") as caught:
        TreeSVM(C=100, max_iter=2).fit(X, y)
    assert caught[0].filename == __file__


def test_one_label_and_labels_that_training_did_not_see():
    X = [Tree(np.ones((3, 1)), [-1, 0, 0]), Tree(np.zeros((1, 1)), [-1])]
    model = TreeSVM().fit(X, [["x"] * 3, ["x"]])
    assert [list(labels) for labels in model.predict(X)] == [["x"] * 3, ["x"]]
    assert model.score(X, [["x", "new", "x"], ["x"]]) == pytest.approx((2 / 3 + 1) / 2)
    assert model.score(X, [["new"] * 3, ["new"]]) == 0.0
    chain = ChainSVM().fit([np.array([[1.0], [-1.0]])], [[1, 0]])
    assert chain.score([np.array([[1.0], [-1.0]])], [[1, 7]]) == 0.5


CHAIN = [np.ones((2, 2)), np.ones((3, 2))]
TREES = [Tree(np.ones((2, 2)), [-1, 0]), Tree(np.ones((3, 2)), [-1, 0, 0])]
LABELS = [[0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ([], [], ValueError, "X is empty; at least one tree is needed"),
        (TREES, LABELS[:1], ValueError, "X has 2 trees, but y has 1; they must be equal"),
        (TREES, [[0, 1], [0, 1]], ValueError, "tree 1 has 3 nodes in X, but 2 labels in y"),
        (TREES, [[0, 1], [[0], [1], [1]]], ValueError, r"labels of tree 1 have shape \(3, 1\)"),
        (TREES, [[0, 1], [0, np.nan, 1]], ValueError, "labels of tree 1 contain NaN"),
        ([TREES[0], Tree(np.ones((3, 2)), [-1, 0])], LABELS, ValueError, r"tree 1 of X has 3 nodes, but parents of shape \(2,\)"),
        ([TREES[0], Tree(np.ones((3, 2)), [-1, 2, 0])], LABELS, ValueError, "node 1 of tree 1 has the parent 2; it must be"),
        ([TREES[0], Tree(np.ones((3, 2)), [-1, 0, -5])], LABELS, ValueError, "node 2 of tree 1 has the parent -5"),
        ([TREES[0], Tree(np.ones((3, 2)), [-1.0, 0.0, 0.0])], LABELS, TypeError, "parents of tree 1 of X must be integers"),
        ([TREES[0], Tree(np.ones((0, 2)), [])], LABELS, ValueError, "tree 1 of X is empty; drop trees without nodes"),
        ([TREES[0], Tree(np.ones((3, 4)), [-1, 0, 0])], LABELS, ValueError, "tree 1 of X has 4 features, but the first has 2"),
        ([TREES[0], Tree(np.ones(3), [-1, 0, 0])], LABELS, ValueError, r"tree 1 of X has shape \(3,\); \(nodes, features\)"),
        ([TREES[0], Tree([[1, 1], [1, np.nan], [1, 1]], [-1, 0, 0])], LABELS, ValueError, "node 1 of tree 1 of X has NaN"),
        ([TREES[0], np.ones((3, 2))], LABELS, ValueError, r"tree 1 of X must be a pair \(features, parent\)"),
        ([TREES[0], Tree([{"a": 1}] * 3, [-1, 0, 0])], LABELS, ValueError, "tree 1 of X holds dictionaries, but"),
        ([Tree([{"a": 1}] * 2, [-1, 0]), TREES[1]], LABELS, ValueError, "tree 1 of X holds arrays, but"),
    ],
)
def test_bad_trees(X, y, error, message):
    with pytest.raises(error, match=message):
        TreeSVM().fit(X, y)


def test_bad_sequences_and_bad_input_after_training():
    bad = sparse.csr_array([[0.0, 1.0], [0.0, 0.0], [np.inf, 0.0]])
    with pytest.raises(ValueError, match="position 2 of sequence 1 of X has NaN or infinite values; remove or replace them"):
        ChainSVM().fit([CHAIN[0], bad], LABELS)
    with pytest.raises(ValueError, match="sequence 1 of X is empty"):
        ChainSVM().fit([CHAIN[0], sparse.csr_array((0, 2))], LABELS)
    with pytest.raises(TypeError, match="X is a single sparse matrix; pass a list with one matrix per sequence"):
        ChainSVM().fit(bad, LABELS)
    with pytest.raises(ValueError, match="position 0 of sequence 0 of X has NaN"):
        ChainSVM().fit([[{"a": np.nan}, {"a": 1.0}]], LABELS[:1])
    chain, tree = ChainSVM().fit(CHAIN, LABELS), TreeSVM().fit(TREES, LABELS)
    with pytest.raises(ValueError, match="X has 3 features, but ChainSVM was trained with 2"):
        chain.predict([sparse.csr_array((2, 3))])
    with pytest.raises(ValueError, match="X is empty"):
        chain.predict([])
    with pytest.raises(ValueError, match=r"sequence 0 of X holds dictionaries, but .* those of training, hold arrays; use one"):
        chain.predict([[{"a": 1.0}]])
    with pytest.raises(ValueError, match="sequence 1 has 3 positions in X, but 2 labels in y"):
        chain.score(CHAIN, [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="X has 2 trees, but y has 1"):
        tree.score(TREES, LABELS[:1])
    with pytest.raises(ValueError, match="node 1 of tree 0 has the parent 1; it must be -1 for a root"):
        tree.predict([Tree(np.ones((2, 2)), [-1, 1])])
