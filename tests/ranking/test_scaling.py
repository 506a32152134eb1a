"""Features standardised by RankingSVM: over all samples and within queries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.preprocessing import StandardScaler

from maxmargin import RankingSVM, load_model, regularization_path, save_model
from maxmargin.core import standardized_within


@pytest.fixture
def lists():
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat(np.arange(12), 9))
    X = rng.normal(size=(len(qid), 4)) * [1, 1e4, 1e-3, 1] + [0, 5e5, 0, 7]
    y = (X[:, 1] / 1e4 + X[:, 2] * 1e3 + rng.normal(size=len(qid)) > 50).astype(int)
    return X, y, qid


def _slowly(X, qid):
    out = np.zeros(X.shape)
    for q in set(qid.tolist()):
        rows = np.flatnonzero(qid == q)
        for j in range(X.shape[1]):
            column = X[rows, j]
            if column.max() > column.min():
                out[rows, j] = (column - column.mean()) / column.std()
    return out


@pytest.mark.parametrize("loss", ["ap", "ndcg@3", "accuracy"])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_standard_is_a_scaler_folded_into_the_weights(lists, loss, form):
    X, y, qid = lists
    scaler = StandardScaler(with_mean=form is np.asarray).fit(X)
    ours = RankingSVM(loss, C=3, scale="standard", random_state=0).fit(form(X), y, qid)
    theirs = RankingSVM(loss, C=3, random_state=0).fit(form(scaler.transform(X)), y, qid)
    assert ours.primal_objective_ == pytest.approx(theirs.primal_objective_, rel=1e-9)
    expected = theirs.decision_function(form(scaler.transform(X)))
    found = ours.decision_function(form(X))
    if loss != "accuracy":  # constants are free
        expected, found = expected - expected.mean(), found - found.mean()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert ours.score(form(X), y, qid) == theirs.score(form(scaler.transform(X)), y, qid)


def test_query_scaling_is_that_of_every_query(lists):
    X, y, qid = lists
    Z = _slowly(X, qid)
    np.testing.assert_allclose(standardized_within(X, qid), Z, atol=1e-9)
    ours = RankingSVM(C=3, scale="query").fit(X, y, qid)
    theirs = RankingSVM(C=3).fit(Z, y, qid)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.decision_function(X, qid), theirs.decision_function(Z), atol=1e-6)
    assert ours.score(X, y, qid) == theirs.score(Z, y, qid)
    # Another unit, query by query, changes nothing.
    other = X * (1.0 + qid[:, None]) + 10.0 * qid[:, None]
    np.testing.assert_allclose(ours.predict(other, qid), ours.predict(X, qid), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (7, 2), elements=st.sampled_from([0.0, 1.0, -2.0, 1e-200, 1e200, 3.5, 1e8 + 1])),
    arrays(np.int64, 7, elements=st.integers(0, 3)),
)
def test_sparse_queries_differ_by_a_shift(X, qid):
    dense, sparse = standardized_within(X, qid), standardized_within(csr_array(X), qid).toarray()
    assert np.isfinite(dense).all()
    assert np.isfinite(sparse).all()
    assert np.abs(dense).max() <= np.sqrt(7)
    for q in set(qid.tolist()):
        rows = qid == q
        spread = np.ptp(X[rows], axis=0) > 1e-9 * np.abs(X[rows]).max(axis=0)
        shift = (sparse - dense)[rows]
        assert (np.ptp(shift, axis=0)[spread] <= 1e-6 * (1 + np.abs(sparse[rows]).max())).all()


def test_files_and_paths_know_the_scale(lists, tmp_path):
    X, y, qid = lists
    for scale in ("standard", "query"):
        model = RankingSVM(C=3, scale=scale).fit(X, y, qid)
        save_model(model, tmp_path / "m")
        same = load_model(tmp_path / "m")
        assert same.scale == scale
        np.testing.assert_array_equal(same.predict(X, qid), model.predict(X, qid))
        path = regularization_path(RankingSVM(scale=scale), X, y, epsilon=0.01, lambda_min=1e-3, qid=qid)
        at = path.estimator(1 / (3 * path.n_blocks))
        assert at.primal_objective_ <= model.primal_objective_ + 0.01 * 3 * path.n_blocks
        np.testing.assert_allclose(at.score(X, y, qid), model.score(X, y, qid), atol=0.05)


def test_errors_say_what_to_do(lists):
    X, y, qid = lists
    with pytest.raises(ValueError, match="scale='both' is unknown"):
        RankingSVM(scale="both").fit(X, y)
    with pytest.raises(ValueError, match="scale='standard'"):
        RankingSVM(scale="query").fit(X, y)
    model = RankingSVM(scale="query").fit(X, y, qid)
    with pytest.raises(ValueError, match="give queries with qid"):
        model.predict(X)
