"""Direct loss minimisation with linear scores: its gradient, what it promises about its start, scikit-learn's rules."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.cases.brute_force import loss_by_definition
from tests.ranking.test_ranking_svm import of_queries_not_of_samples

from maxmargin import DirectLossMinimizer, RankingSVM
from maxmargin.core import feature_scale
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.ranking import DirectRanking, Discounted, RankingProblem, losses_by_score, metrics, ranking_loss

NAMES = ["ap", "ndcg", "auc", "mrr"]
# Far, to the end.
LONG = {"step": 0.3, "epsilon": 1.0, "max_iter": 1000}


@pytest.fixture(scope="module")
def noisy():
    """A clean direction, and ten wrong labels far out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] > 1
    wrong = rng.permutation(np.flatnonzero(~y))[:10]
    X[wrong] *= 5
    y[wrong] = True
    return X, y


@pytest.fixture(scope="module")
def queries():
    """Twenty queries with grades 0 to 2, some of one grade only, and a weight for every query."""
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(20), rng.integers(2, 12, 20))
    X = rng.normal(size=(len(qid), 4))
    y = np.clip(np.round(X @ [1, -0.5, 0, 0] + 0.8 * rng.normal(size=len(qid)) + 0.5), 0, 2)
    y[qid == 4] = 0
    return X, y, qid, rng.random(20)[qid]


@parametrize_with_checks(
    [DirectLossMinimizer(), DirectLossMinimizer("ndcg", sign=-1, grades=True, start="zeros")],
    expected_failed_checks=of_queries_not_of_samples,
)
def test_scikit_learn(estimator, check):
    check(estimator)


# ---- value and gradient ---------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_loss_of_the_ranking_by_score(data):
    """Ties included: the positives of a group of equal scores come last."""
    n = data.draw(st.integers(2, 12))
    scores = np.array(data.draw(st.lists(st.sampled_from([-1e300, -1.0, 0.0, 5e-324, 1.0, 2.0]), min_size=n, max_size=n)))
    truth = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    name = data.draw(st.sampled_from(NAMES))
    found = losses_by_score(scores, truth.view(np.uint8), np.array([0, n]), ranking_loss(name), 1)[0]
    if truth.all() or not truth.any():
        assert found == 0
    else:
        assert found == pytest.approx(loss_by_definition(name, truth[np.lexsort((truth, -scores))]), abs=1e-12)


@pytest.mark.parametrize("name", [*NAMES, Discounted(lambda p: 1 / p)])
@pytest.mark.parametrize("sign", [1, -1])
def test_gradient_is_that_of_the_value(queries, name, sign):
    X, y, qid, weight = queries
    offsets = np.append(np.unique(qid, return_index=True)[1], len(qid))
    model = RankingProblem(X, y > np.array([[0], [1]]), ranking_loss(name), offsets, weight[offsets[:-1]])
    problem = DirectRanking(model, sign)
    rng = np.random.default_rng(0)
    for epsilon in (0.1, 2.0):
        weights = rng.normal(size=4)
        slope = [
            (problem.at(weights + h, epsilon).value - problem.at(weights - h, epsilon).value) / 2e-7 for h in 1e-7 * np.eye(4)
        ]
        np.testing.assert_allclose(problem.at(weights, epsilon).gradient, slope, atol=1e-6)
        at = problem.at(weights, epsilon)
        assert sign * at.value >= sign * at.loss - 1e-12
        as_sparse = RankingProblem(sparse.csr_array(X), model.relevant, model.loss, offsets, weight[offsets[:-1]])
        np.testing.assert_allclose(DirectRanking(as_sparse, sign).at(weights, epsilon).gradient, at.gradient, atol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_same_as_the_torch_module(queries, sign):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from maxmargin.nn import DirectLoss

    X, y, qid, weight = queries
    offsets = np.append(np.unique(qid, return_index=True)[1], len(qid))
    rows = [slice(b, e) for b, e in pairwise(offsets)]
    mixed = [0 < (y[r] > 0).sum() < r.stop - r.start for r in rows]
    assert not all(mixed)
    problem = DirectRanking(RankingProblem(X, y > 0, ranking_loss("ndcg"), offsets, weight[offsets[:-1]]), sign)
    weights = torch.tensor([1.0, -2, 0.5, 0.1], dtype=torch.float64, requires_grad=True)
    module = DirectLoss("ndcg", 0.3, sign)
    total = sum(weight[r.start] * module(torch.tensor(X[r]) @ weights, torch.tensor(y[r] > 0)) for r in rows)
    value = total / sum(weight[r.start] for r, m in zip(rows, mixed, strict=True) if m)
    value.backward()
    point = problem.at(weights.detach().numpy(), 0.3)
    assert point.value == pytest.approx(value.item(), abs=1e-12)
    np.testing.assert_allclose(point.gradient, weights.grad.numpy(), atol=1e-12)


def test_scale_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.4) * [1, 1e150, 1e-150, 1, 1, 1]
    X[:, 3], X[:, 4] = 0.1, 0
    X[:, 5] = 1e9 + rng.random(50)
    expected = np.append(np.std(X[:, :3] / [1, 1e150, 1e-150], axis=0) * [1, 1e150, 1e-150], [0.1, 1.0])
    for matrix in (X, sparse.csr_array(X), sparse.csr_matrix(X)):
        scale = feature_scale(matrix)
        np.testing.assert_allclose(scale[:5], expected, rtol=1e-12)
        assert scale[5] == pytest.approx(X[:, 5].std(), rel=1e-6)


# ---- what it promises -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, Discounted(lambda p: 1 / p)])
@pytest.mark.parametrize("sign", [1, -1])
def test_training_loss_is_what_it_says(noisy, name, sign):
    X, y = noisy
    model = DirectLossMinimizer(name, C=10, sign=sign, tol=0.02).fit(X, y)
    scores = X @ model.coef_
    assert model.training_loss_ == pytest.approx(1 - model.score(X, y), abs=1e-12)
    assert model.training_loss_ <= model.start_loss_
    assert model.certified_ is False and model.intercept_ == 0 and not hasattr(model, "dual_gap_")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from maxmargin.nn import DirectLoss

    value = DirectLoss(ranking_loss(name), model.epsilon_, sign)(torch.tensor(scores), torch.tensor(y))
    assert model.objective_ == pytest.approx(value.item(), abs=1e-12)


@pytest.mark.parametrize("name", ["ap", "ndcg", "auc"])
@pytest.mark.parametrize("sign", [1, -1])
def test_better_than_the_hinge_on_wrong_labels(noisy, name, sign):
    X, y = noisy
    hinge = RankingSVM(name, C=100).fit(X, y)
    model = DirectLossMinimizer(name, sign=sign, start=hinge.coef_).fit(X, y)
    assert model.start_loss_ == pytest.approx(1 - hinge.score(X, y), abs=1e-12)
    assert model.training_loss_ < 0.9 * model.start_loss_
    own = DirectLossMinimizer(name, C=100, sign=sign).fit(X, y)
    assert own.training_loss_ < 0.9 * own.start_loss_
    # The direction that made the labels is at most as good.
    truth = loss_by_definition(name, y[np.lexsort((y, -X[:, 0]))])
    assert max(model.training_loss_, own.training_loss_) <= truth + 1e-12


def test_hinge_start_is_the_ranking_svm_of_standardised_features(noisy):
    X, y = noisy
    hinge = RankingSVM(C=7).fit(X / X.std(axis=0), y)
    model = DirectLossMinimizer(C=7).fit(X, y)
    assert model.start_loss_ == pytest.approx(1 - hinge.score(X / X.std(axis=0), y), abs=1e-12)


def test_history(noisy):
    X, y = noisy
    model = DirectLossMinimizer(C=100).fit(X, y)
    history = model.history_
    assert model.n_iter_ == len(history) == len(history.seconds) == len(history.epsilon) == len(history.value)
    np.testing.assert_array_equal(history.best_loss, np.minimum.accumulate([model.start_loss_, *history.loss])[1:])
    assert history.best_loss[-1] == model.training_loss_
    assert (np.diff(history.step) <= 0).all() and history.step[-1] >= model.tol / 2
    np.testing.assert_allclose(np.array(history.epsilon) / history.step, model.epsilon / history.step[0])
    assert np.linalg.norm(model.coef_ * X.std(axis=0)) == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(NAMES), st.sampled_from([1, -1]), st.booleans())
def test_never_worse_than_the_start(seed, name, sign, tied):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 15)), int(rng.integers(1, 4))
    X = rng.integers(-2, 3, (n, d)).astype(float) if tied else rng.normal(size=(n, d)) * 10.0 ** rng.integers(-8, 9, d)
    y = np.arange(n) < rng.integers(1, n)
    start = rng.normal(size=d) if seed % 3 else np.zeros(d)
    model = DirectLossMinimizer(name, sign=sign, start=start, tol=0.05, epsilon=10.0 ** rng.integers(-3, 3)).fit(X, y)
    before = losses_by_score(X @ start, y.view(np.uint8), np.array([0, n]), ranking_loss(name), 1)[0]
    after = losses_by_score(X @ model.coef_, y.view(np.uint8), np.array([0, n]), ranking_loss(name), 1)[0]
    assert model.start_loss_ == before and model.training_loss_ == after <= before


def test_a_perfect_start_is_kept():
    X, y = np.arange(10.0)[:, None], np.arange(10) >= 6
    model = DirectLossMinimizer(start=[3.0]).fit(X, y)
    assert model.coef_ == [3.0] and model.training_loss_ == 0 and model.n_iter_ == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_from_zeros(noisy, sign):
    X, y = noisy
    model = DirectLossMinimizer(start="zeros", sign=sign).fit(X, y)
    # All scores are tied at first, and stand in the least favourable order.
    assert model.start_loss_ == pytest.approx(loss_by_definition("ap", np.sort(y)))
    assert model.training_loss_ < 0.15
    # Nothing to go by: features that are the same for everybody.
    flat = DirectLossMinimizer(start="zeros", sign=sign).fit(np.ones((6, 2)), [1, 1, 0, 0, 0, 0])
    assert not flat.coef_.any() and flat.training_loss_ == flat.start_loss_


@pytest.mark.parametrize("start", ["hinge", "zeros"])
@pytest.mark.parametrize("sign", [1, -1])
def test_scale_of_features_does_not_matter(noisy, start, sign):
    """Powers of two are exact, so every step is the same to the last bit."""
    X, y = noisy
    model = DirectLossMinimizer(start=start, sign=sign, tol=0.03).fit(X, y)
    for scale in (2.0**-400, np.array([2.0**-300, 1.0, 2.0**300])):
        other = DirectLossMinimizer(start=start, sign=sign, tol=0.03).fit(X * scale, y)
        np.testing.assert_array_equal(other.coef_ * scale, model.coef_)
        assert other.history_.loss == model.history_.loss


def test_many_queries(queries):
    X, y, qid, weight = queries
    shuffled = np.random.default_rng(0).permutation(len(y))
    for grades in (False, True):
        model = DirectLossMinimizer("ap", C=10, grades=grades, **LONG)
        model.fit(X[shuffled], y[shuffled], qid[shuffled], sample_weight=weight[shuffled])
        total = counted = skipped = 0
        for q in np.unique(qid):
            rows = qid == q
            levels = [g for g in ((0, 1) if grades else (0,)) if 0 < np.sum(y[rows] > g) < rows.sum()]
            skipped += not levels
            if levels:
                of_levels = [1 - metrics.average_precision(y[rows] > g, X[rows] @ model.coef_) for g in levels]
                total += weight[rows][0] * np.mean(of_levels)
                counted += weight[rows][0]
        assert model.training_loss_ == pytest.approx(total / counted, abs=1e-12)
        assert model.n_skipped_queries_ == skipped >= 1
        assert model.training_loss_ < model.start_loss_
        np.testing.assert_array_equal(model.relevance_thresholds_, [0, 1] if grades else [0])
    kept = np.isin(qid, [q for q in np.unique(qid) if 0 < np.sum(y[qid == q] > 0) < np.sum(qid == q)])
    plain = DirectLossMinimizer("ndcg").fit(X, y, qid)
    assert plain.training_loss_ == pytest.approx(1 - plain.score(X[kept], y[kept], qid[kept]), abs=1e-12)


def test_starts(noisy):
    X, y = noisy
    one = DirectLossMinimizer(C=100).fit(X, y)
    several = DirectLossMinimizer(C=100, n_starts=4, random_state=1).fit(X, y)
    assert len(several.training_losses_) == 4 and several.training_losses_[0] == one.training_loss_
    assert several.training_loss_ == min(several.training_losses_)
    again = DirectLossMinimizer(C=100, n_starts=4, random_state=1).fit(X, y)
    np.testing.assert_array_equal(again.coef_, several.coef_)
    short = [DirectLossMinimizer(tol=0.2, n_starts=4, random_state=seed).fit(X, y).training_losses_ for seed in (1, 2)]
    assert short[0] != short[1]


def test_features_as_they_are(noisy):
    """Standardization is nothing but dividing the features, and multiplying the start."""
    X, y = noisy
    scale = np.array([1, 1e-3, *np.ones(X.shape[1] - 2)])
    start = np.ones(X.shape[1])
    plain = DirectLossMinimizer(start=start, standardize=False).fit(X * scale, y)
    assert np.linalg.norm(plain.coef_) == pytest.approx(1) and plain.training_loss_ < plain.start_loss_
    deviations = feature_scale(X * scale)
    same = DirectLossMinimizer(start=start / deviations).fit(X * scale, y)
    other = DirectLossMinimizer(start=start, standardize=False).fit(X * scale / deviations, y)
    np.testing.assert_allclose(same.coef_ * deviations, other.coef_, rtol=1e-9)
    assert np.abs(same.coef_ - plain.coef_).max() > 1e-3


def test_first_steps(noisy):
    """A step of so many radians."""
    X, y = noisy
    start = np.ones(X.shape[1])
    model = DirectLossMinimizer(start=start, standardize=False, step=0.01, max_iter=2).fit(X, y)
    assert model.history_.step == [0.01, 0.01]
    cosine = model.coef_ @ start / np.linalg.norm(start)
    assert np.arccos(cosine) == pytest.approx(0.01, rel=1e-6)


def test_warm_start_goes_on_only_with_the_same_data(noisy):
    X, y = noisy
    model = DirectLossMinimizer(C=100, start="zeros", max_iter=3, warm_start=True).fit(X, y)
    first = model.training_loss_
    model.set_params(max_iter=1000).fit(X, y)
    assert model.start_loss_ == first > model.training_loss_
    other = model.fit(X[:200], y[:200])
    assert other.start_loss_ == DirectLossMinimizer(start="zeros").fit(X[:200], y[:200]).start_loss_


def test_sparse_and_pickle(noisy):
    X, y = noisy
    X = np.where(np.abs(X) > 0.5, X, 0)
    dense, other = DirectLossMinimizer(C=100).fit(X, y), DirectLossMinimizer(C=100).fit(sparse.csc_matrix(X), y)
    assert other.start_loss_ == pytest.approx(dense.start_loss_, abs=1e-3)
    assert other.training_loss_ == pytest.approx(1 - other.score(X, y), abs=1e-9) and other.training_loss_ < other.start_loss_
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(again.predict(X), other.predict(X))


def test_time_limit(noisy):
    X, y = noisy
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps"):
        model = DirectLossMinimizer(time_limit=1e-9, n_starts=5).fit(X, y)
    assert model.training_loss_ <= model.start_loss_ and len(model.training_losses_) == 1


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"C": 0}, None, "C=0 must be a positive number"),
        ({"step": -1}, None, "step=-1 must be a positive number"),
        ({"step": 2}, None, "step=2 must be at most a right angle"),
        ({"epsilon": 0}, None, "epsilon=0 must be a positive number"),
        ({"epsilon": np.inf}, None, "epsilon=inf must be"),
        ({"sign": 0}, None, "sign=0 must be 1 or -1"),
        ({"start": "svm"}, None, "start='svm' is unknown"),
        ({"start": [1.0]}, None, "start must be 3 finite weights"),
        ({"start": [1.0, np.nan, 0]}, None, "start must be 3 finite weights"),
        ({"n_starts": 0}, None, "n_starts=0"),
        ({"tol": -1}, None, "tol=-1"),
        ({"max_iter": 2.5}, None, "max_iter=2.5"),
        ({"time_limit": 0}, None, "time_limit=0"),
        ({"loss": "accuracy"}, None, "loss='accuracy' is unknown"),
        ({"grades": True, "relevance_threshold": 1}, None, "leave relevance_threshold"),
        ({}, np.zeros(400), "only one class"),
    ],
)
def test_bad_parameters(noisy, parameters, labels, message):
    X, y = noisy
    with pytest.raises(ValueError, match=message):
        DirectLossMinimizer(**parameters).fit(X, y if labels is None else labels)
