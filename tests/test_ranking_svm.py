"""The estimator: scikit-learn's rules, the certificate, and errors that help."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import RankingSVM, losses, metrics, most_violating_ranking
from maxmargin.solvers import ConvergenceWarning


@pytest.fixture
def data():
    return make_classification(600, 12, n_informative=6, weights=[0.9], flip_y=0.03, random_state=0)


@parametrize_with_checks([RankingSVM(), RankingSVM("ndcg", C=10)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", losses.Discounted(lambda p: 1 / p)])
def test_certificate(data, loss):
    X, y = data
    model = RankingSVM(loss, C=50, tol=1e-4).fit(X, y)
    assert model.certified_ and model.dual_gap_ <= 1e-4 * model.primal_objective_
    hinge = most_violating_ranking(X @ model.coef_, y == 1, loss, method="sort").hinge
    assert 0.5 * model.coef_ @ model.coef_ + 50 * hinge == pytest.approx(model.primal_objective_, rel=1e-10)
    assert model.dual_objective_ <= model.primal_objective_
    assert model.n_iter_ == len(model.history_)
    # No nearby or random weights are better than the bound allows.
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1e-1, 1.0):
        other = model.coef_ + scale * rng.normal(size=12)
        hinge = most_violating_ranking(X @ other, y == 1, loss).hinge
        assert 0.5 * other @ other + 50 * hinge >= model.dual_objective_


def test_score_is_the_trained_metric(data):
    X, y = data
    ap = RankingSVM("ap").fit(X, y)
    assert ap.score(X, y) == metrics.average_precision(y, ap.decision_function(X))
    assert RankingSVM("ndcg").fit(X, y).score(X, y) > 0.5
    assert RankingSVM("auc").fit(X, y).score(X, y) > 0.8
    assert 0 < RankingSVM("mrr").fit(X, y).score(X, y) <= 1
    # The logarithmic discount under another name has no metric of its own; 1 - loss is the same number.
    custom = RankingSVM(losses.NDCG(lambda p: 1 / np.log2(1 + p))).fit(X, y)
    assert custom.score(X, y) == pytest.approx(RankingSVM("ndcg").fit(X, y).score(X, y), abs=1e-9)


def test_training_for_ap_pays_in_ap(data):
    X, y = data
    weak = RankingSVM("ap", C=1e-3).fit(X, y).score(X, y)
    strong = RankingSVM("ap", C=1e3).fit(X, y).score(X, y)
    assert strong > weak


def test_sparse_equals_dense_and_labels_may_be_coded_freely(data):
    X, y = data
    X = np.where(np.abs(X) > 1, X, 0)
    dense = RankingSVM(C=10, tol=1e-6).fit(X, y)
    for matrix in (sparse.csr_array(X), sparse.csc_matrix(X)):
        other = RankingSVM(C=10, tol=1e-6).fit(matrix, y)
        np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(other.decision_function(matrix), other.decision_function(X), atol=1e-12)
    for labels in (y == 1, 2 * y - 1, y + 1, y * 3.0):
        np.testing.assert_array_equal(RankingSVM(C=10, tol=1e-6).fit(X, labels).coef_, dense.coef_)


def test_works_inside_scikit_learn(data):
    X, y = data
    search = GridSearchCV(
        make_pipeline(StandardScaler(), RankingSVM()),
        {"rankingsvm__C": [0.1, 10.0], "rankingsvm__loss": ["ap", "ndcg"]},
        cv=StratifiedKFold(3),
        scoring="average_precision",
    ).fit(X, y)
    assert search.best_score_ > 0.3
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_stops_early_with_a_warning_and_an_honest_gap(data):
    X, y = data
    with pytest.warns(ConvergenceWarning, match=r"stopped \(max_iter\).*raise max_iter"):
        model = RankingSVM(C=1e4, max_iter=3).fit(X, y)
    assert model.dual_gap_ > 1e-3 * model.primal_objective_ and model.certified_
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        RankingSVM(C=1e4, time_limit=1e-9).fit(X, y)


def test_history_draws_itself(data):
    X, y = data
    ax = RankingSVM().fit(X, y).history_.plot()
    assert [line.get_label() for line in ax.get_lines()] == ["primal (upper bound)", "dual (lower bound)"]


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"C": 0}, None, "C=0 must be a positive number"),
        ({"C": np.inf}, None, "C=inf must be"),
        ({"C": "1"}, None, "C='1' must be"),
        ({"tol": -1}, None, "tol=-1"),
        ({"max_iter": 0}, None, "max_iter=0"),
        ({"max_iter": 2.5}, None, "max_iter=2.5"),
        ({"time_limit": 0}, None, "time_limit=0"),
        ({"loss": "hinge"}, None, "loss='hinge' is unknown"),
        ({}, np.zeros(600), "only one class"),
        ({}, np.ones(600), "only one class"),
    ],
)
def test_bad_parameters(data, parameters, labels, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        RankingSVM(**parameters).fit(X, y if labels is None else labels)
