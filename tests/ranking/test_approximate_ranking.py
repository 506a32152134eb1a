"""AP-SVM with easy samples held by constraints: against a QP with everything written out, and scikit-learn's rules."""

import pickle
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.cases.brute_force import loss_by_definition
from tests.cases.reference_programs import MarginProgram
from tests.ranking.test_ranking_svm import of_queries_not_of_samples

from maxmargin import ApproximateRankingSVM, RankingSVM, most_violating_ranking
from maxmargin.core.solvers import ConstrainedCuttingPlane, ConvergenceWarning, Margins, SimplexQP
from maxmargin.ranking import Discounted, RankingProblem, ranking_loss

FRACTIONS = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.fixture(scope="module")
def data():
    return make_classification(400, 8, n_informative=5, weights=[0.8], flip_y=0.03, random_state=0)


@pytest.fixture(scope="module")
def queries():
    """Fifteen queries, not in order, some of one class only, with a weight each; one weighs nothing."""
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(15), rng.integers(3, 25, 15))
    X = rng.normal(size=(len(qid), 5))
    y = X @ [2, -1, 0, 0, 0] + 0.7 * rng.normal(size=len(qid)) > 0.5
    y[qid == 3] = False
    weight = rng.random(15)
    weight[6] = 0
    shuffled = rng.permutation(len(qid))
    return X[shuffled], y[shuffled], qid[shuffled], weight[qid[shuffled]]


@parametrize_with_checks(
    [ApproximateRankingSVM(), ApproximateRankingSVM("ndcg", C=10, easy_fraction=1)],
    expected_failed_checks=of_queries_not_of_samples,
)
def test_scikit_learn(estimator, check):
    check(estimator)


# ---- the small QP ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.integers(1, 15),
    held=st.integers(0, 25),
    rank=st.integers(1, 10),
    copies=st.booleans(),
)
def test_qp_with_variables_beside_the_simplex(seed, cuts, held, rank, copies):
    """The conditions of optimality, which are sufficient; constraints are feasible, so that there is a solution."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(cuts + held, rank))
    if copies and held > 1:
        points[cuts:] = points[cuts + rng.integers(0, held, held)]
    linear = np.append(rng.normal(size=cuts), points[cuts:] @ rng.normal(size=rank) - rng.random(held) * (rng.random(held) < 0.5))
    order = np.append(0, 1 + rng.permutation(cuts + held - 1))
    points, linear, in_sum = points[order], linear[order], (np.arange(cuts + held) < cuts)[order]
    qp = SimplexQP(1.0)
    for k in range(cuts + held):
        qp.add(points[: k + 1] @ points[k], linear[k], bool(in_sum[k]))
        if k % 3 == 0:
            qp.solve()
    qp.solve()
    a = qp.solution
    assert (a >= 0).all() and a[in_sum].sum() == pytest.approx(1)
    gradient = qp.gram @ a - linear
    scale = 1e-8 * (1 + np.abs(qp.gram).max()) * (1 + a.sum())
    gradient[in_sum] -= gradient[in_sum].min()
    assert gradient.min() >= -scale
    assert abs(gradient @ a) <= scale * (1 + a.sum())


# ---- the whole problem ----------------------------------------------------------------------------------------------------


def reference(name, X, relevant, rows, signs, C):
    """Optimum of the constrained problem with all rankings and all constraints written out."""
    n, d = X.shape
    n_pos, n_neg = int(relevant.sum()), int((~relevant).sum())
    psi, delta = np.zeros((0, d)), np.zeros(0)
    if n_pos and n_neg:
        positives, negatives = np.flatnonzero(relevant), np.flatnonzero(~relevant)
        cuts = {}
        for order in permutations(range(n)):
            place = np.argsort(order)
            inverted = [(i, j) for i in positives for j in negatives if place[j] < place[i]]
            row = sum((2 / (n_pos * n_neg) * (X[i] - X[j]) for i, j in inverted), np.zeros(d))
            cuts[tuple(sorted(inverted)), loss_by_definition(name, relevant[list(order)])] = row
        psi, delta = np.array(list(cuts.values())), np.array([loss for _, loss in cuts])
    # No hinge is below zero.
    block = np.vstack([psi, np.zeros((1, d))]), np.append(delta, 0.0)
    return MarginProgram([block], [C], rows=(signs[:, None] * rows, np.ones(len(rows)))).optimum(tol=1e-10)


@pytest.mark.parametrize("name", ["ap", "ndcg", "auc", "mrr"])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_against_a_qp_with_all_rankings_and_constraints(name, C):
    seen = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(11, 2))
        y = X[:, 0] + 0.6 * rng.normal(size=11) > 0.3
        for fraction in FRACTIONS[1:]:
            model = ApproximateRankingSVM(name, C, easy_fraction=fraction, binary_C=10.0, tol=1e-9).fit(X, y)
            hard, easy = ~model.easy_, model.easy_
            if hard.sum() > 6:
                continue
            rows, signs = np.hstack([X, np.ones((11, 1))]), np.where(y, 1.0, -1.0)
            optimum = reference(name, rows[hard], y[hard], rows[easy], signs[easy], C)
            # Weights may violate a constraint by 1e-9.
            assert model.primal_objective_ == pytest.approx(optimum.value, rel=1e-8, abs=1e-9)
            assert model.dual_objective_ <= optimum.value * (1 + 1e-9)
            assert model.certified_ and model.n_easy_ == easy.sum() and model.n_difficult_ == hard.sum()
            # A ranking to learn, and constraints that matter.
            margins = signs[easy] * model.decision_function(X[easy])
            seen += 0 < y[hard].sum() < hard.sum() and margins.min() < 1 + 1e-6
    assert seen >= 3


@pytest.mark.parametrize("loss", ["ap", "ndcg", Discounted(lambda p: 1 / p)])
def test_no_easy_samples_is_the_exact_problem(data, loss):
    X, y = data
    exact = RankingSVM(loss, C=50, tol=1e-6).fit(X, y)
    model = ApproximateRankingSVM(loss, C=50, easy_fraction=0, tol=1e-6).fit(X, y)
    assert model.primal_objective_ == pytest.approx(exact.primal_objective_, rel=2e-6)
    assert model.n_easy_ == 0 and not model.easy_.any() and model.largest_violation_ == 0
    assert abs(model.intercept_) < 1e-9
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=0.02 * np.abs(exact.coef_).max())


@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("C", [0.1, 1e3])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_certificate_and_constraints(data, fraction, C, as_sparse):
    X, y = data
    model = ApproximateRankingSVM(C=C, easy_fraction=fraction, tol=1e-4).fit(sparse.csr_array(X) if as_sparse else X, y)
    assert model.certified_ and -1e-9 <= model.dual_gap_ <= 1e-4 * model.primal_objective_
    signs, easy = np.where(y == 1, 1, -1), model.easy_
    # The first stage satisfies the constraints, and so does the result.
    first = signs * (X @ model.binary_coef_ + model.binary_intercept_)
    assert (first[easy] >= 1 - 1e-9).all()
    margins = signs * model.decision_function(X)
    assert (margins[easy] >= 1 - 1e-6).all()
    assert model.largest_violation_ <= 1e-9
    assert model.largest_violation_ == pytest.approx((1 - margins[easy]).max(initial=0.0), abs=1e-12)
    # The right share, and those with the largest margins.
    assert model.n_easy_ == easy.sum() == int(fraction * (first >= 1).sum() + 1e-9) and model.n_difficult_ == (~easy).sum()
    if model.n_easy_ > 0:
        assert first[easy].min() >= first[~easy & (first >= 1)].max(initial=1.0) - 1e-9
    # The objective by its definition.
    hinge = most_violating_ranking(model.decision_function(X)[~easy], y[~easy] == 1, "ap").hinge
    norm = model.coef_ @ model.coef_ + model.intercept_**2
    assert model.primal_objective_ == pytest.approx(0.5 * norm + C * hinge, rel=1e-9)
    # No feasible weights are better than the bound allows: those of the first stage, and others next to them.
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.01, 0.1):
        weights = np.append(model.binary_coef_, model.binary_intercept_) * 1.2 + scale * rng.normal(size=X.shape[1] + 1)
        scores = X @ weights[:-1] + weights[-1]
        if (signs[easy] * scores[easy] >= 1).all():
            hinge = most_violating_ranking(scores[~easy], y[~easy] == 1, "ap").hinge
            assert 0.5 * weights @ weights + C * hinge >= model.dual_objective_ - 1e-9


def test_sparse_equals_dense(data):
    X, y = data
    X = np.where(np.abs(X) > 0.7, X, 0)
    dense = ApproximateRankingSVM(C=10, tol=1e-6).fit(X, y)
    for matrix in (sparse.csr_array(X), sparse.csc_matrix(X)):
        other = ApproximateRankingSVM(C=10, tol=1e-6).fit(matrix, y)
        np.testing.assert_array_equal(other.easy_, dense.easy_)
        assert other.primal_objective_ == pytest.approx(dense.primal_objective_, rel=2e-6)
        np.testing.assert_allclose(other.decision_function(matrix), other.decision_function(X), atol=1e-12)


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_separable_data(fraction):
    rng = np.random.default_rng(0)
    X, y = np.vstack([rng.normal(size=(80, 3)), rng.normal(size=(20, 3)) + [8, 0, 0]]), np.arange(100) >= 80
    model = ApproximateRankingSVM(C=1e4, easy_fraction=fraction, binary_C=100.0).fit(X, y)
    assert model.score(X, y) == 1 and model.certified_ and model.largest_violation_ <= 1e-9
    # Not more than the first stage, which is feasible.
    first = X @ model.binary_coef_ + model.binary_intercept_
    norm = model.binary_coef_ @ model.binary_coef_ + model.binary_intercept_**2
    hard = ~model.easy_
    hinge = most_violating_ranking(first[hard], y[hard], "ap").hinge if y[hard].any() and not y[hard].all() else 0.0
    assert model.primal_objective_ <= (0.5 * norm + 1e4 * hinge) * (1 + 1e-9)


def test_nothing_difficult_left_of_one_class():
    """If the positive next to the negatives is not a rounding error short of its margin, all positives are easy."""
    seen = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = np.vstack([rng.normal(size=(12, 2)), rng.normal(size=(4, 2)) + [6, 0]]), np.arange(16) >= 12
        for binary_C in (0.1, 100.0):
            model = ApproximateRankingSVM(C=100, easy_fraction=1, binary_C=binary_C, tol=1e-8).fit(X, y)
            hard = ~model.easy_
            if y[hard].any():
                continue
            seen += 1
            rows, signs = np.hstack([X, np.ones((16, 1))]), np.where(y, 1.0, -1.0)
            optimum = reference("ap", rows[hard], y[hard], rows[~hard], signs[~hard], 100.0)
            assert model.primal_objective_ == pytest.approx(optimum.value, rel=2e-8)
            assert model.primal_objective_ == pytest.approx(0.5 * (model.coef_ @ model.coef_ + model.intercept_**2))
            assert model.certified_ and model.dual_gap_ <= 1e-8 * model.primal_objective_
    assert seen >= 3


def test_many_queries(queries):
    X, y, qid, weight = queries
    model = ApproximateRankingSVM("ap", C=5, easy_fraction=0.5, tol=1e-5).fit(X, y, qid, sample_weight=weight)
    assert model.certified_ and model.dual_gap_ <= 1e-5 * model.primal_objective_ and model.n_easy_ > 10
    objective, difficult, skipped = 0.5 * (model.coef_ @ model.coef_ + model.intercept_**2), 0, 0
    for q in np.unique(qid):
        mixed = 0 < y[qid == q].sum() < (qid == q).sum()
        skipped += not mixed
        rows = (qid == q) & ~model.easy_
        if not mixed or not weight[qid == q][0]:
            # Not in either stage.
            assert not model.easy_[qid == q].any()
            continue
        difficult += rows.sum()
        if 0 < y[rows].sum() < rows.sum():
            objective += 5 * weight[rows][0] * most_violating_ranking(model.decision_function(X[rows]), y[rows], "ap").hinge
    assert objective == pytest.approx(model.primal_objective_, rel=1e-9)
    assert model.n_difficult_ == difficult and model.n_skipped_queries_ == skipped >= 1
    assert (np.where(y, 1, -1) * model.decision_function(X))[model.easy_].min() >= 1 - 1e-9
    exact = RankingSVM("ap", C=5, tol=1e-5).fit(X, y, qid, sample_weight=weight)
    same = ApproximateRankingSVM("ap", C=5, easy_fraction=0, tol=1e-5).fit(X, y, qid, sample_weight=weight)
    assert same.primal_objective_ == pytest.approx(exact.primal_objective_, rel=2e-5)
    assert model.score(X, y, qid) > 0.5


def test_a_query_without_weight_or_classes_does_not_matter(queries):
    X, y, qid, weight = queries
    kept = (weight > 0) & (qid != 3)
    model = ApproximateRankingSVM(C=5, tol=1e-6).fit(X, y, qid, sample_weight=weight)
    other = ApproximateRankingSVM(C=5, tol=1e-6).fit(X[kept], y[kept], qid[kept], sample_weight=weight[kept])
    np.testing.assert_array_equal(model.easy_[kept], other.easy_)
    assert model.primal_objective_ == pytest.approx(other.primal_objective_, rel=2e-6)
    with pytest.raises(ValueError, match="sample_weight is zero for every query with"):
        ApproximateRankingSVM().fit(X, y, qid, sample_weight=(qid == 3).astype(float))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_extreme_scales(data, scale):
    """With the constant scaled as well it would be the same problem; here the constant becomes huge or tiny beside the rest."""
    X, y = data
    model = ApproximateRankingSVM(C=100 / scale**2, binary_C=1 / scale**2, tol=1e-4).fit(X * scale, y)
    assert model.certified_ and model.dual_gap_ <= 1e-4 * model.primal_objective_
    assert model.largest_violation_ <= 1e-9 and model.n_easy_ > 0


def test_duplicates(data):
    X, y = data
    twice = ApproximateRankingSVM(C=10, easy_fraction=1, tol=1e-5).fit(np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3))
    assert twice.certified_ and twice.dual_gap_ <= 1e-5 * twice.primal_objective_ and twice.largest_violation_ <= 1e-9


def test_solver_asks_for_feasible_weights_and_no_bounds(data):
    X, y = data
    problem = RankingProblem(X, y == 1, ranking_loss("ap"))
    margins = Margins(X[:1], np.ones(1))
    right = X[0] / (X[0] @ X[0])
    for wrong in (0.9 * right, np.full(8, np.nan)):
        with pytest.raises(ValueError, match="feasible violates a constraint"):
            ConstrainedCuttingPlane(margins=margins, feasible=wrong).solve(problem, 0.1)
    with pytest.raises(ValueError, match="knows no bounds"):
        ConstrainedCuttingPlane(margins=margins, feasible=right).solve(problem, 0.1, bounds=(-1, 1))
    solution = ConstrainedCuttingPlane(margins=margins, feasible=right).solve(problem, 0.1)
    assert solution.converged and margins.violation(solution.weights) <= 1e-12


def test_warm_start_goes_on_only_with_the_same_data(data):
    X, y = data
    model = ApproximateRankingSVM(C=5, tol=1e-5, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first
    model.set_params(C=50).fit(X, y)
    for changes in ({"C": 50}, {"easy_fraction": 0.2}, {"binary_C": 0.1}):
        model.set_params(**changes).fit(X, y)
        cold = ApproximateRankingSVM(**{**model.get_params(), "warm_start": False}).fit(X, y)
        assert model.primal_objective_ == pytest.approx(cold.primal_objective_, rel=2e-5)
        np.testing.assert_array_equal(model.easy_, cold.easy_)
    other = model.fit(-X, y)
    cold = ApproximateRankingSVM(**{**model.get_params(), "warm_start": False}).fit(-X, y)
    assert other.primal_objective_ == pytest.approx(cold.primal_objective_, rel=2e-5)


def test_stops_early_with_a_warning_a_feasible_point_and_an_honest_gap(data):
    X, y = data
    optimum = ApproximateRankingSVM(C=1e3, easy_fraction=1, tol=1e-6).fit(X, y)
    for budget in ({"max_iter": 3}, {"time_limit": 1e-9}):
        with pytest.warns(ConvergenceWarning, match=r"stopped \("):
            model = ApproximateRankingSVM(C=1e3, easy_fraction=1, tol=1e-6, **budget).fit(X, y)
        assert model.certified_ and model.largest_violation_ <= 1e-9
        if "max_iter" in budget:
            assert model.dual_objective_ <= optimum.dual_objective_ <= optimum.primal_objective_ <= model.primal_objective_
            assert model.dual_gap_ > 1e-6 * model.primal_objective_


def test_pickle_and_history(data):
    X, y = data
    model = ApproximateRankingSVM().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert model.n_iter_ == model.history_.passes[-1] >= len(model.history_) and np.isfinite(model.history_.primal).all()
    assert (np.diff(model.history_.dual) >= 0).all()


@pytest.mark.parametrize(
    ("parameters", "labels", "message"),
    [
        ({"C": 0}, None, "C=0 must be a positive number"),
        ({"binary_C": -1}, None, "binary_C=-1 must be a positive number"),
        ({"easy_fraction": 25}, None, "easy_fraction=25 must be a number from 0 to 1"),
        ({"easy_fraction": np.nan}, None, "easy_fraction=nan"),
        ({"easy_fraction": "all"}, None, "easy_fraction='all'"),
        ({"tol": -1}, None, "tol=-1"),
        ({"max_iter": 0}, None, "max_iter=0"),
        ({"time_limit": 0}, None, "time_limit=0"),
        ({"loss": "accuracy"}, None, "loss='accuracy' is unknown"),
        ({}, np.zeros(400), "only one class"),
    ],
)
def test_bad_parameters(data, parameters, labels, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        ApproximateRankingSVM(**parameters).fit(X, y if labels is None else labels)
