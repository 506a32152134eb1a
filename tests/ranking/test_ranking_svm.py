"""The estimator: scikit-learn's rules, the certificate, and errors that help."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.cases.scikit_learn_versions import needs_1_9

from maxmargin import LatentRankingSVM, RankingSVM, _core, most_violating_ranking
from maxmargin.core import Tangent
from maxmargin.core.solvers import BCFW, ConvergenceWarning, InexactOracleWarning, OneSlackCuttingPlane
from maxmargin.ranking import NDCG, AveragePrecision, Discounted, RankingLoss, RankingProblem, gain_shares, metrics, ranking_loss


@pytest.fixture
def data():
    return make_classification(600, 12, n_informative=6, weights=[0.9], flip_y=0.03, random_state=0)


def of_queries_not_of_samples(estimator):
    """A weight belongs to a whole query, so it cannot stand for repeated or missing samples."""
    reason = "weights are those of queries"
    checks = ["equivalence_on_dense_data", "equivalence_on_sparse_data"]
    return {f"check_sample_weight_{check}": reason for check in checks} | {"check_sample_weights_not_overwritten": reason}


@parametrize_with_checks(
    [RankingSVM(), RankingSVM("ndcg", C=10), RankingSVM(grades=True)], expected_failed_checks=of_queries_not_of_samples
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def queries():
    """Forty queries of 3 to 20 documents with grades 0 to 3; some have only one grade."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 21, 40)
    qid = np.repeat(rng.permutation(1000)[:40], sizes)
    X = rng.normal(size=(len(qid), 6))
    y = np.clip(np.round(X @ [1, 0.5, 0, 0, -0.5, 0] + 0.7 * rng.normal(size=len(qid)) + 0.8), 0, 3)
    y[qid == qid[0]] = 0
    return X, y, qid


@pytest.mark.parametrize("solver", ["auto", "one_slack", BCFW(steps="pairwise", cache=20, tol=1e-4)])
@pytest.mark.parametrize("grades", [False, True])
def test_objective_of_many_queries(queries, solver, grades):
    X, y, qid = queries
    rng = np.random.default_rng(0)
    of_query = dict(zip(np.unique(qid), rng.random(40), strict=True))
    weight = np.array([of_query[q] for q in qid])
    shuffled = rng.permutation(len(y))
    model = RankingSVM("ap", C=3, grades=grades, solver=solver, tol=1e-4)
    model.fit(X[shuffled], y[shuffled], qid[shuffled], sample_weight=weight[shuffled])
    assert model.certified_ and model.dual_gap_ <= 1e-4 * model.primal_objective_
    # By definition, query by query and grade by grade.
    objective = 0.5 * model.coef_ @ model.coef_
    skipped = 0
    for q in np.unique(qid):
        rows = qid == q
        levels = [g for g in ((0, 1, 2) if grades else (0,)) if 0 < np.sum(y[rows] > g) < rows.sum()]
        skipped += not levels
        hinges = [most_violating_ranking(X[rows] @ model.coef_, y[rows] > g, "ap").hinge for g in levels]
        objective += 3 * of_query[q] * np.mean(hinges) if levels else 0
    assert model.n_skipped_queries_ == skipped >= 1
    assert objective == pytest.approx(model.primal_objective_, rel=1e-9)


def test_score_of_many_queries(queries):
    X, y, qid = queries
    model = RankingSVM("ap").fit(X, y, qid)
    assert model.score(X, y, qid) == metrics.average_precision(y > 0, model.decision_function(X), qid=qid)
    graded = RankingSVM("ndcg", grades=True).fit(X, y, qid)
    expected = np.mean([metrics.ndcg(y > g, graded.decision_function(X), qid=qid) for g in (0, 1, 2)])
    assert graded.score(X, y, qid) == pytest.approx(expected)
    custom = RankingSVM(NDCG(lambda p: 1 / np.log2(1 + p))).fit(X, y, qid)
    kept = np.isin(qid, [q for q in np.unique(qid) if 0 < np.sum(y[qid == q] > 0) < np.sum(qid == q)])
    assert custom.score(X[kept], y[kept], qid[kept]) == pytest.approx(
        metrics.ndcg(y[kept] > 0, custom.decision_function(X[kept]), qid=qid[kept])
    )


def test_thresholds(queries):
    X, y, qid = queries
    assert RankingSVM(relevance_threshold=1).fit(X, y, qid).relevance_thresholds_ == [1]
    np.testing.assert_array_equal(RankingSVM(grades=True).fit(X, y, qid).relevance_thresholds_, [0, 1, 2])
    with pytest.raises(ValueError, match="leave relevance_threshold"):
        RankingSVM(grades=True, relevance_threshold=1).fit(X, y, qid)
    with pytest.raises(ValueError, match=r"only one class, irrelevant ones: .* those above 3 are relevant.*relevance_threshold"):
        RankingSVM(relevance_threshold=3).fit(X, y, qid)
    with pytest.raises(ValueError, match="samples of the same query, but no query has both"):
        RankingSVM().fit(X, np.unique(qid, return_inverse=True)[1] % 2, qid)
    for bad in (np.nan, "2", [2]):
        with pytest.raises(ValueError, match=r"relevance_threshold=.* must be a finite number"):
            RankingSVM(relevance_threshold=bad).fit(X, y, qid)
    with pytest.raises(ValueError, match="trains for every distinct label, and y has 1200"):
        RankingSVM(grades=True).fit(np.ones((1200, 2)), np.arange(1200))
    with pytest.raises(ValueError, match="the gain of the grade 1200 is too large"):
        RankingSVM("ndcg", grades="exponential").fit(X, y * 400, qid)


@pytest.mark.parametrize("labels", [np.array(["1", "0"] * 5), np.array([1, "0"] * 5, dtype=object)])
def test_labels_are_numbers(labels):
    X = np.arange(20.0).reshape(10, 2)
    with pytest.raises(ValueError, match="y must be numbers"):
        RankingSVM().fit(X, labels)
    model = RankingSVM().fit(X, np.arange(10) > 5)
    with pytest.raises(ValueError, match="y must be numbers"):
        model.score(X, labels)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.score(X, [np.nan] * 10)


@pytest.mark.parametrize(
    "qid",
    [
        np.array([1, None] * 5, dtype=object),
        np.array([1, "a"] * 5, dtype=object),
        np.array([1.0, np.nan] * 5, dtype=object),
        np.array([1.0, np.nan] * 5),
        np.array(["2001-01-01", "NaT"] * 5, dtype="datetime64[D]"),
    ],
)
def test_queries_are_known(qid):
    for loss in ("ap", "accuracy"):
        with pytest.raises(ValueError, match=r"qid (must be|contains)"):
            RankingSVM(loss).fit(np.ones((10, 1)), np.arange(10) % 3 == 0, qid)


class RankBiased(RankingLoss):
    """Rank-biased precision: suitable, and with a parameter that its name does not tell."""

    def __init__(self, patience):
        self.patience = patience

    def derivative(self, j, i, n_pos, n_neg):
        best = (1 - self.patience**n_pos) / (1 - self.patience)
        return -(1 - self.patience) * self.patience ** (i + j - 2.0) / best

    def value(self, negatives_above, n_neg):
        i = np.arange(len(negatives_above))
        best = (1 - self.patience ** len(i)) / (1 - self.patience)
        return 1 - np.sum(self.patience ** (i + np.asarray(negatives_above, dtype=float))) / best


def test_warm_start_with_another_loss(queries):
    X, y, qid = queries
    model = RankingSVM(RankBiased(0.3), tol=1e-6, warm_start=True).fit(X, y, qid)
    model.set_params(loss=RankBiased(0.9)).fit(X, y, qid)
    cold = RankingSVM(RankBiased(0.9), tol=1e-6).fit(X, y, qid)
    assert model.certified_ and model.dual_gap_ >= 0
    assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=1e-5)


def test_a_loss_that_is_not_suitable_is_certified(queries):
    X, y, qid = queries
    # Positions after the k-th do not count; tiny lists cannot tell the second, nor can these queries the others.
    for k, lists in ((3, (X, y, qid)), (10, (X, y, qid)), (40, (X, y)), (303, (X, y))):
        loss = Discounted(lambda position, k=k: (np.asarray(position) <= k) * 1.0)
        model = RankingSVM(loss, tol=1e-4).fit(*lists)
        assert model.certified_ and model.dual_gap_ >= 0
    hinge = most_violating_ranking(X @ model.coef_, y > 0, loss, method="table").hinge
    assert model.primal_objective_ == pytest.approx(0.5 * model.coef_ @ model.coef_ + model.C * hinge, rel=1e-9)
    bags = LatentRankingSVM(Discounted(lambda position: (np.asarray(position) <= 3) * 1.0)).fit(X[:30, None], y[:30])
    assert bags.certified_


def test_a_loss_that_is_suitable_at_all_places_but_one():
    """1 unless the 20th relevant sample is in the top 100; it was certified with an objective of 0."""

    class Twentieth(RankingLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return -1.0 * ((i == 20) & (i + j - 1 == 100))

    X, y = np.random.default_rng(0).normal(size=(2000, 5)), np.arange(2000) < 50
    assert most_violating_ranking(np.zeros(2000), y, Twentieth()).hinge == 1.0
    model = RankingSVM(Twentieth(), C=10.0).fit(X, y)
    assert model.certified_
    # No weights do better than none: noise ranks nobody.
    assert model.primal_objective_ == pytest.approx(10.0, rel=1e-3)


class Scaled(RankingLoss):
    """Average precision in other units, or computed in float32."""

    def __init__(self, factor, dtype=np.float64):
        self.factor, self.dtype = factor, dtype

    def derivative(self, j, i, n_pos, n_neg):
        return (self.factor * AveragePrecision().derivative(j, i, n_pos, n_neg)).astype(self.dtype)

    def value(self, negatives_above, n_neg):
        return self.factor * AveragePrecision().value(negatives_above, n_neg)


@pytest.mark.parametrize("loss", [Scaled(1e6), Scaled(1e-6), Scaled(1.0, np.float32)])
def test_units_and_rounding_do_not_matter(queries, loss):
    X, y, qid = queries
    assert RankingSVM(loss, C=loss.factor).fit(X, y, qid).certified_


def test_a_dual_above_the_primal_is_no_certificate(queries):
    """The last line of defence against inference that is not exact."""
    X, y, qid = queries

    class Trusted(RankingProblem):
        def tangent(self, scores):
            # Every negative finds its place alone, which is not enough for this loss.
            lists = [(scores[rows], self.relevant[0, rows]) for rows in map(slice, self.offsets, self.offsets[1:])]
            found = [_core.solve_list(*one, self.checked, "sort", 1.0)[:3] for one in lists]
            losses, hinges, gradients = zip(*found, strict=True)
            return Tangent(sum(hinges) / self.n_blocks, sum(losses) / self.n_blocks, np.concatenate(gradients) / self.n_blocks)

    loss = Discounted(lambda position: (np.asarray(position) <= 3) * 1.0)
    offsets = np.append(np.flatnonzero(np.append(True, qid[1:] != qid[:-1])), len(qid)).astype(np.int64)
    with pytest.warns(InexactOracleWarning, match="dual objective exceeds the primal"):
        solution = OneSlackCuttingPlane(tol=1e-6).solve(Trusted(X, y > 0, loss, offsets), 1e-2)
    assert not solution.certified


def test_a_copy_forgets_the_warm_start(queries):
    X, y, qid = queries
    model = RankingSVM(warm_start=True).fit(X, y, qid)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert other.fit(X, y, qid).certified_


def test_score_with_weights(queries):
    X, y, qid = queries
    model = RankingSVM().fit(X, y, qid)
    heavy = np.where(qid == qid[0], 3.0, 1.0)
    values, ids = metrics.per_query(y > 0, model.predict(X), qid=qid, metrics=["ap"])
    expected = np.average(values["ap"], weights=np.where(ids == qid[0], 3, 1))
    assert model.score(X, y, qid, sample_weight=heavy) == pytest.approx(expected)
    # The first query has nothing relevant.
    with pytest.raises(ValueError, match="sample_weight is zero for every query"):
        RankingSVM().fit(X, y, qid, sample_weight=(qid == qid[0]).astype(float))


@needs_1_9
def test_queries_in_a_search(queries):
    """With metadata routing, a search over a pipeline scores query by query."""
    X, y, qid = queries
    expected = []
    for train, test in GroupKFold(3).split(X, y, qid):
        model = make_pipeline(StandardScaler(), RankingSVM(C=0.1)).fit(X[train], y[train], rankingsvm__qid=qid[train])
        expected.append(metrics.average_precision(y[test], model.predict(X[test]), qid=qid[test]))
    with config_context(enable_metadata_routing=True):
        ranker = RankingSVM().set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(make_pipeline(StandardScaler(), ranker), {"rankingsvm__C": [0.1, 1]}, cv=GroupKFold(3))
        search.fit(X, y, groups=qid, qid=qid)
        assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(expected))
        assert 0 < search.best_estimator_.score(X, y, qid=qid) <= 1


@pytest.mark.parametrize("solver", ["eg", "pl"])
def test_solvers_that_average_over_outputs(queries, solver):
    X, y, qid = queries
    with pytest.raises(
        TypeError, match=r"RankingProblem does not support what .* needs \(SupportsExpectations\): it has no .*use BCFW"
    ):
        RankingSVM(solver=solver).fit(X, y, qid)


@pytest.mark.parametrize("scale", [1e-8, 1e-9, 1e-10, 1e-12, 1e-100])
def test_tiny_features_rank_all_the_same(queries, scale):
    """What they gain is lost in rounding, but the direction is not."""
    X, y, qid = queries
    first = RankingSVM(C=1e-8).fit(X, y, qid)
    np.testing.assert_allclose(RankingSVM().fit(X * scale, y, qid).score(X * scale, y, qid), first.score(X, y, qid), atol=0.01)


def test_weights_are_checked(queries):
    X, y, qid = queries
    for weight, message in [
        (np.arange(len(y)), "must have the same"),
        (np.ones(3), "one weight for each"),
        (-np.ones(len(y)), "not negative"),
        (np.zeros(len(y)), "zero everywhere"),
    ]:
        with pytest.raises(ValueError, match=message):
            RankingSVM().fit(X, y, qid, sample_weight=weight)


def test_warm_start_goes_on_only_with_the_same_data(queries):
    X, y, qid = queries
    model = RankingSVM(C=5, tol=1e-5, warm_start=True).fit(X, y, qid)
    first = model.n_iter_
    again = model.fit(X, y, qid)
    assert again.n_iter_ < first
    model.set_params(C=6).fit(X, y, qid)
    assert model.primal_objective_ == pytest.approx(RankingSVM(C=6, tol=1e-5).fit(X, y, qid).primal_objective_, rel=2e-5)
    other = model.fit(-X, y, qid)
    assert other.primal_objective_ == pytest.approx(RankingSVM(C=6, tol=1e-5).fit(-X, y, qid).primal_objective_, rel=2e-5)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_accuracy_is_an_ordinary_svm(data, as_sparse):
    X, y = data
    model = RankingSVM("accuracy", C=0.1, tol=1e-5).fit(sparse.csr_matrix(X) if as_sparse else X, y)
    reference = LinearSVC(loss="hinge", C=0.1, tol=1e-8, max_iter=1_000_000).fit(X, y)
    hinge = np.maximum(0, 1 - np.where(y == 1, 1, -1) * reference.decision_function(X)).sum()
    norm = np.sum(reference.coef_**2) + reference.intercept_[0] ** 2
    assert model.primal_objective_ == pytest.approx(0.5 * norm + 0.1 * hinge, rel=1e-4)
    assert model.score(X, y) == metrics.average_precision(y, model.decision_function(X))
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(len(y)))


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", Discounted(lambda p: 1 / p)])
def test_certificate(data, loss):
    X, y = data
    model = RankingSVM(loss, C=50, tol=1e-4).fit(X, y)
    assert model.certified_ and model.dual_gap_ <= 1e-4 * model.primal_objective_
    hinge = most_violating_ranking(X @ model.coef_, y == 1, loss, method="sort").hinge
    assert 0.5 * model.coef_ @ model.coef_ + 50 * hinge == pytest.approx(model.primal_objective_, rel=1e-10)
    assert model.dual_objective_ <= model.primal_objective_
    assert model.n_iter_ == model.history_.passes[-1] >= len(model.history_)
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
    custom = RankingSVM(NDCG(lambda p: 1 / np.log2(1 + p))).fit(X, y)
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


@needs_1_9
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


@pytest.mark.parametrize("scale", [1e-9, 1e-12, 1e-15])
def test_features_far_below_the_loss(scale):
    """The quadratic part of the dual is then below the rounding of the linear one."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.random(60) < 0.3
    model = RankingSVM("ap", C=100).fit(scale * X, y)
    assert model.dual_gap_ <= 1e-3 * model.primal_objective_ and np.isfinite(model.coef_).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    gains=st.sampled_from(["linear", "exponential"]),
    lowest=st.sampled_from([-1, 0, 1]),
    at=st.sampled_from([None, 1, 2, 5, 15, 99]),
)
def test_graded_ndcg_is_a_sum_over_thresholds(seed, gains, lowest, at):
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(lowest, lowest + 4, 40).astype(float), rng.normal(size=40)
    offsets = np.array([0, 7, 8, 25, 40])
    qid = np.repeat(np.arange(4), np.diff(offsets))
    thresholds = np.unique(y)[:-1]
    shares = gain_shares(y, offsets, thresholds, gains, at)
    name = "ndcg" if at is None else f"ndcg@{at}"
    graded = metrics.per_query(y, scores, qid=qid, metrics=[name], gains=gains)[0][name]
    for q, (begin, end) in enumerate(itertools.pairwise(offsets)):
        rows = slice(begin, end)
        binary = [metrics.ndcg(y[rows] > t, scores[rows], k=at) if (y[rows] > t).any() else 1.0 for t in thresholds]
        if (y[rows] > 0).any():
            assert shares[:, q] @ (1 - np.array(binary)) == pytest.approx(1 - graded[q], abs=1e-12)
    model = RankingProblem(scores[:, None], y > thresholds[:, None], ranking_loss(name), offsets, shares=shares)
    bound = model.n_blocks * model.mean_cut(np.ones(1)).hinge(np.ones(1))
    useful = np.maximum.reduceat(y, offsets[:-1]) > 0
    assert bound >= np.sum(1 - graded[useful]) - 1e-9


@pytest.mark.parametrize("at", [None, 3])
@pytest.mark.parametrize("gains", ["linear", "exponential"])
def test_training_for_graded_ndcg(queries, gains, at):
    X, y, qid = queries
    model = RankingSVM(NDCG(at=at), C=10, grades=gains, tol=1e-5).fit(X, y, qid)
    assert model.certified_ and model.score(X, y, qid) == metrics.ndcg(y, model.predict(X), qid=qid, gains=gains, k=at)
    for loss in ("ap", "p@5", "ap@5", NDCG(lambda p: 1 / p)):
        with pytest.raises(ValueError, match=r"are the gains of NDCG, and .* knows none; use them with"):
            RankingSVM(loss, grades=gains).fit(X, y, qid)
    with pytest.raises(ValueError, match="grades='quadratic' must be"):
        RankingSVM("ndcg", grades="quadratic").fit(X, y, qid)
