"""Estimators of classes, sequences, graphs and users' structures."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import ChainSVM, GraphSVM, HierarchicalSVM, MulticlassSVM, StructuredSVM
from maxmargin.core import Structure
from maxmargin.core.solvers import BCFW, ConvergenceWarning


# One check weighs classes by 1000 and 0.0001 and allows few passes.
@pytest.mark.filterwarnings("default::maxmargin.core.solvers.ConvergenceWarning")
@parametrize_with_checks(
    [MulticlassSVM(), HierarchicalSVM()],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "weights agree as closely as the gap is small, not to the last digit"
        for kind in ("dense", "sparse")
        if isinstance(estimator, HierarchicalSVM)
    },
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_multiclass_equals_liblinear_and_all_solvers_agree():
    X, y = load_iris(return_X_y=True)
    reference = LinearSVC(multi_class="crammer_singer", C=0.1, fit_intercept=False, tol=1e-8, max_iter=1_000_000).fit(X, y)
    model = MulticlassSVM(C=0.1, fit_intercept=False, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=5e-3)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    objective = model.primal_objective_
    named = [{"solver": name, "tol": 5e-2, "max_iter": 500} for name in ("bcfw", "fw", "pl", "n_slack")]
    for settings in (*named, {"solver": BCFW(steps="fw", tol=5e-2, max_passes=500)}):
        other = MulticlassSVM(C=0.1, fit_intercept=False, **settings).fit(X, y)
        assert other.certified_ and other.dual_objective_ <= objective * 1.000001
        assert other.primal_objective_ >= objective * 0.999999
    sparse_model = MulticlassSVM(C=0.1, fit_intercept=False, tol=1e-6).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(sparse_model.coef_, model.coef_, atol=1e-6)


def test_costs_move_decisions():
    X, y = load_digits(return_X_y=True)
    keep = (y == 3) | (y == 8)
    X, y = X[keep] / 16, np.where(y[keep] == 8, "eight", "three")
    plain = MulticlassSVM(C=0.01).fit(X, y)
    # Calling an eight a three is ten times as bad.
    careful = MulticlassSVM(C=0.01, costs=[[0, 10], [1, 0]]).fit(X, y)
    assert list(plain.classes_) == ["eight", "three"] and plain.coef_.shape == (1, 64)
    assert np.mean(careful.predict(X) == "eight") > np.mean(plain.predict(X) == "eight")
    with pytest.raises(ValueError, match=r"costs has shape"):
        MulticlassSVM(costs=np.zeros((3, 3))).fit(X, y)
    with pytest.raises(ValueError, match="solver='sgd' is unknown"):
        MulticlassSVM(solver="sgd").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="MulticlassSVM stopped"):
        MulticlassSVM(C=100, max_iter=2).fit(X, y)


def sequences(n, rng):
    labels = [np.cumsum(rng.random(rng.integers(1, 15)) < 0.2) % 2 for _ in range(n)]
    return [y[:, None] + 0.7 * rng.normal(size=(len(y), 1)) for y in labels], labels


def test_chain_uses_the_neighbours():
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = sequences(60, rng), sequences(200, rng)
    chain = ChainSVM(C=10).fit(X, y)
    single = MulticlassSVM(C=1).fit(np.concatenate(X), np.concatenate(y))
    alone = np.mean([np.mean(single.predict(x) == t) for x, t in zip(X_test, y_test, strict=True)])
    assert chain.score(X_test, y_test) > alone
    assert chain.transition_[0, 0] > chain.transition_[0, 1]
    assert chain.certified_ and chain.dual_gap_ <= 0.05 * chain.primal_objective_
    assert [len(p) for p in chain.predict(X_test)] == [len(x) for x in X_test]
    assert chain.decision_function(X_test)[3].shape == (len(X_test[3]), 2)


def test_chain_takes_names_and_dictionaries_of_features():
    X = [[{"word": "the"}, {"word": "dog", "length": 3}, {"word": "runs"}], [{"word": "a"}, {"word": "cat"}]]
    y = [["DET", "NOUN", "VERB"], ["DET", "NOUN"]]
    model = ChainSVM(C=100).fit(X, y)
    assert [list(labels) for labels in model.predict(X)] == y
    assert next(iter(model.predict([[{"word": "unseen"}]])[0])) in ("DET", "NOUN", "VERB")
    assert model.score(X, y) == 1.0


def test_chain_bad_input():
    X, y = sequences(3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="X has 3 sequences, but y has 2"):
        ChainSVM().fit(X, y[:2])
    with pytest.raises(ValueError, match="sequence 1 has"):
        ChainSVM().fit(X, [y[0], y[1][:-1], y[2]] if len(y[1]) > 1 else [y[0], np.append(y[1], 0), y[2]])
    with pytest.raises(ValueError, match="sequence 1 of X is empty"):
        ChainSVM().fit([X[0], np.zeros((0, 1)), X[2]], y)
    with pytest.raises(ValueError, match="NaN or infinite"):
        ChainSVM().fit([X[0] * np.nan, X[1], X[2]], y)
    with pytest.raises(ValueError, match="sequence 0 of X has shape"):
        ChainSVM().fit([X[0].ravel(), X[1], X[2]], y)
    with pytest.raises(ValueError, match="has 2 features, but the first has 1"):
        ChainSVM().fit([X[0], np.hstack([X[1], X[1]]), X[2]], y)
    model = ChainSVM().fit(X, y)
    with pytest.raises(ValueError, match="X has 2 features, but ChainSVM was trained with 1"):
        model.predict([np.zeros((3, 2))])


def grids(n, rng, size=6):
    index = np.arange(size * size).reshape(size, size)
    edges = np.concatenate([
        np.stack([index[:, 1:].ravel(), index[:, :-1].ravel()], axis=1),
        np.stack([index[1:].ravel(), index[:-1].ravel()], axis=1),
    ])  # fmt: skip
    graphs, labels = [], []
    for _ in range(n):
        y = np.zeros((size, size), dtype=int)
        a, b = np.sort(rng.integers(0, size, 2))
        y[a : b + 1, rng.integers(0, 3) :] = 1
        x = y.ravel()[:, None] + rng.normal(size=(size * size, 1))
        graphs.append((np.hstack([x, np.ones_like(x)]), edges))
        labels.append(y.ravel())
    return graphs, labels


def test_graph_uses_the_neighbours():
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = grids(15, rng), grids(40, rng)
    model = GraphSVM(C=1, tol=2e-2).fit(X, y)
    assert model.certified_ and model.edge_coef_.shape == (1,) and model.edge_coef_[0] > 0
    single = MulticlassSVM(C=1, fit_intercept=False).fit(np.concatenate([x for x, _ in X]), np.concatenate(y))
    alone = np.mean([np.mean(single.predict(x) == t) for (x, _), t in zip(X_test, y_test, strict=True)])
    assert model.score(X_test, y_test) > alone + 0.03
    with pytest.raises(ValueError, match="sample 0: a graph must be"):
        GraphSVM().fit([(1,)], [np.zeros(1)])
    with pytest.raises(ValueError, match="sample 0: edge features must be"):
        GraphSVM().fit([(*X[0], np.ones(3))], y[:1])


class Threshold(Structure):
    def joint_feature(self, x, y):
        return np.array([x * y, y], dtype=float)

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return max((0, 1), key=lambda y: b * self.loss(truth, y) + a * weights @ self.joint_feature(x, y))


def test_structured_svm_with_a_users_model():
    x = np.linspace(-1, 1, 20)
    y = (x > 0.3).astype(int)
    model = StructuredSVM(Threshold(), C=10).fit(x, y)
    assert model.certified_ and -model.coef_[1] / model.coef_[0] == pytest.approx(0.3, abs=0.1)
    assert model.predict(x) == y.tolist() and model.score(x, y) == 1
    positive = StructuredSVM(Threshold(), C=10, bounds=(0, np.inf)).fit(x, y)
    assert (positive.coef_ >= 0).all() and positive.primal_objective_ >= model.primal_objective_ * (1 - 2e-3)
