"""HighOrderRankingSVM: neighbours in all forms, both losses, budgets, and what neighbours are worth."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import HighOrderRankingSVM, RankingSVM, load_model, save_model
from maxmargin.core.solvers import ConvergenceWarning

OF_SAMPLES_ALONE = ("check_methods_subset_invariance",)


@pytest.mark.filterwarnings("default::maxmargin.core.solvers.ConvergenceWarning")
@parametrize_with_checks(
    [HighOrderRankingSVM(), HighOrderRankingSVM("accuracy", n_neighbors=2)],
    expected_failed_checks=lambda estimator: (
        dict.fromkeys(OF_SAMPLES_ALONE, "neighbours are those among the samples") if estimator.n_neighbors else {}
    ),
)
def test_scikit_learn(estimator, check):
    check(estimator)


def make(n, rng):
    """Groups of 1 to 4 samples that mostly share their label; two of ten features say something (spec 9.5)."""
    sizes = rng.integers(1, 5, n)
    y = np.repeat(rng.random(n) < 0.3, sizes)
    y = np.where(rng.random(len(y)) < 0.1, rng.random(len(y)) < 0.3, y)
    X = rng.normal(size=(len(y), 10))
    X[:, :2] += np.where(y, 0.6, -0.6)[:, None]
    return X, y, np.repeat(np.arange(n), sizes)


def fitted(data, *args, **parameters):
    X, y, groups = data
    return HighOrderRankingSVM(*args, **parameters).fit(X, y, groups=groups)


def test_neighbours_are_worth_five_points():
    """Spec 14, item 16."""
    gains = {"ap": [], "accuracy": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        train, test = make(120, rng), make(400, rng)
        for loss, found in gains.items():
            together, alone = fitted(train, loss), HighOrderRankingSVM(loss).fit(*train[:2])
            assert together.certified_ and alone.certified_ and together.edge_coef_.max() > 0 and not alone.edge_coef_.any()
            found.append(together.score(test[0], test[1], groups=test[2]) - alone.score(*test[:2]))
    assert np.mean(gains["ap"]) > 0.05 and np.mean(gains["accuracy"]) > 0.05


@pytest.mark.parametrize("loss", ["ap", "accuracy"])
def test_few_relevant_samples_are_not_outvoted(loss):
    """One group in twenty is relevant, and features have scales of their own; the published HOB-SVM reaches an AP of 0.5."""
    rng = np.random.default_rng(0)

    def rare(n):
        sizes = rng.integers(1, 9, n)
        y = np.repeat(rng.random(n) < 0.05, sizes)
        y = np.where(rng.random(len(y)) < 0.1, rng.random(len(y)) < 0.05, y)
        X = rng.normal(size=(len(y), 10)) + y[:, None] * (np.arange(10) < 3)
        return X * 10.0 ** np.arange(-4, 6) + 5, y, np.repeat(np.arange(n), sizes)

    train, (X, y, groups) = rare(300), rare(400)
    assert y.mean() < 0.07
    assert fitted(train, loss).score(X, y, groups=groups) > 0.75


@pytest.mark.parametrize("loss", ["ap", "accuracy"])
def test_scores_are_differences_of_max_marginals(loss):
    rng = np.random.default_rng(0)
    model = fitted(make(40, rng), loss, eta=2.0)
    X, _, groups = make(8, rng)
    scores = model.decision_function(X, groups=groups)
    np.testing.assert_array_equal(scores, model.predict(X, groups=groups))
    Z = (X - model.mean_) / model.scale_
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        best = np.full((len(rows), 2), -np.inf)
        for mask in range(2 ** len(rows)):
            y = mask >> np.arange(len(rows)) & 1
            value = y @ (X[rows] @ model.coef_ + model.intercept_)
            for a in range(len(rows)):
                for b in range(a):
                    if y[a] != y[b]:
                        value -= np.exp(-((Z[rows[a]] - Z[rows[b]]) ** 2)) @ model.edge_coef_
            for k, label in enumerate(y):
                best[k, label] = max(best[k, label], value)
        np.testing.assert_allclose(scores[rows], best[:, 1] - best[:, 0], atol=1e-9)


def test_groups_edges_and_features_of_edges_say_the_same():
    rng = np.random.default_rng(1)
    X, y, groups = train = make(30, rng)
    model = fitted(train)
    edges = np.array([(a, b) for a in range(len(y)) for b in range(len(y)) if groups[a] == groups[b]])  # also (a, a), both ways
    by_edges = HighOrderRankingSVM().fit(X, y, edges=edges)
    np.testing.assert_allclose(by_edges.coef_, model.coef_, atol=1e-9)
    Z = (X - model.mean_) / model.scale_
    features = np.exp(-((Z[edges[:, 0]] - Z[edges[:, 1]]) ** 2))
    own = HighOrderRankingSVM().fit(X, y, edges=edges, edge_features=features)
    np.testing.assert_allclose(own.edge_coef_, model.edge_coef_, atol=1e-9)
    np.testing.assert_allclose(own.decision_function(X, edges, features), model.decision_function(X, groups=groups), atol=1e-9)
    # Names of groups are only names.
    named = model.decision_function(X, groups=[f"image {g}" for g in groups])
    np.testing.assert_allclose(named, model.decision_function(X, groups=groups), atol=1e-12)
    # Whatever the order of the samples.
    shuffled = rng.permutation(len(y))
    np.testing.assert_allclose(
        model.decision_function(X[shuffled], groups=groups[shuffled]),
        model.decision_function(X, groups=groups)[shuffled],
        atol=1e-12,
    )


def test_nearest_neighbours():
    rng = np.random.default_rng(2)
    centres = 10 * rng.normal(size=(60, 20))
    y = np.repeat(rng.random(60) < 0.4, 5)
    X = np.hstack([np.repeat(centres, 5, axis=0) + 0.3 * rng.normal(size=(300, 20)), y[:, None] + rng.normal(size=(300, 1))])
    alone, together = HighOrderRankingSVM().fit(X, y), HighOrderRankingSVM(n_neighbors=4).fit(X, y)
    assert together.score(X, y) > alone.score(X, y) + 0.03
    # More neighbours than there are others.
    assert np.isfinite(HighOrderRankingSVM(n_neighbors=50).fit(X[:20], y[:20]).coef_).all()


def test_without_edges_it_is_the_ranking_svm():
    X, y, _ = make(60, np.random.default_rng(3))
    model = HighOrderRankingSVM(C=5.0, standardize=False, tol=1e-6).fit(X, y)
    linear = RankingSVM("ap", C=10.0, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.coef_, linear.coef_, atol=5e-3)
    assert model.objective_ == pytest.approx(0.5 * linear.primal_objective_, rel=1e-5)


def test_objectives_fall_and_bound_the_loss():
    train = make(60, np.random.default_rng(4))
    X, y, groups = train
    found = {}
    for start in ("best", "accuracy", "first_order"):
        for decomposition in ("component", "global"):
            model = fitted(train, "ap", 10.0, start=start, decomposition=decomposition)
            assert (np.diff(model.objectives_) <= 0).all() and model.objective_ == model.objectives_[-1]
            assert model.certified_ and model.n_rounds_ == len(model.histories_)
            # At the weights the convex problem and the other one may differ, but only in one direction.
            assert model.primal_objective_ >= model.objective_ - 1e-9
            assert model.objective_ >= 10.0 * (1 - model.score(X, y, groups=groups)) - 1e-9
            found[start, decomposition] = model.objective_
    # Not worse than the two it begins with, each scaled as well as can be.
    several = fitted(train, "ap", 10.0, n_starts=4, random_state=0)
    assert len(several.start_objectives_) == 4 and several.objective_ == min(several.start_objectives_)
    assert several.start_objectives_[0] == pytest.approx(found["best", "component"])
    again = fitted(train, "ap", 10.0, n_starts=4, random_state=0)
    np.testing.assert_array_equal(again.coef_, several.coef_)


def test_a_small_eta_leaves_the_first_order_ranking():
    X, y, groups = train = make(40, np.random.default_rng(5))
    alone = HighOrderRankingSVM(tol=1e-6).fit(X, y)
    nearly = fitted(train, eta=1e-4, tol=1e-6)
    np.testing.assert_allclose(nearly.decision_function(X, groups=groups), alone.decision_function(X), atol=1e-2)


def test_budgets_and_interruption():
    train = make(60, np.random.default_rng(6))
    full = fitted(train, "ap", 10.0)
    with pytest.warns(ConvergenceWarning):
        short = fitted(train, "ap", 10.0, time_limit=1e-9)
    with pytest.warns(ConvergenceWarning):
        few = fitted(train, "ap", 10.0, max_iter=1, tol=1e-9)
    for model in (short, few):
        assert (
            np.isfinite(model.coef_).all() and model.certified_ and model.dual_objective_ <= full.primal_objective_ * (1 + 1e-6)
        )

    calls = []

    def press_ctrl_c(history):
        calls.append(len(history))
        if len(calls) == stop:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted(train, "ap", 10.0, callback=lambda history: calls.append(1))
        n_calls = len(calls)
        for stop in (2, n_calls // 2, n_calls - 2):
            calls.clear()
            model = fitted(train, "ap", 10.0, callback=press_ctrl_c)
            # A pass or two to leave with a certificate, no more.
            assert len(calls) <= stop + 3 and np.isfinite(model.coef_).all() and model.certified_


@pytest.mark.parametrize("loss", ["ap", "accuracy"])
def test_files_keep_everything(loss, tmp_path):
    X, _, groups = train = make(30, np.random.default_rng(7))
    model = fitted(train, loss)
    save_model(model, tmp_path / "m")
    same = load_model(tmp_path / "m")
    np.testing.assert_array_equal(same.decision_function(X, groups=groups), model.decision_function(X, groups=groups))
    assert same.objective_ == model.objective_ and same.loss == loss


def test_bad_input():
    X, y, groups = make(20, np.random.default_rng(8))
    fit = HighOrderRankingSVM().fit
    for arguments, message in (
        ({"edges": [(0, 1)], "groups": groups}, "edges and groups were both given"),
        ({"edge_features": [[1.0]]}, "edge_features were given without edges"),
        ({"edges": [(0, len(y))]}, "out of range"),
        ({"edges": [(0, 1)], "edge_features": [[1.0], [2.0]]}, "there are 1 edges"),
        ({"edges": [(0, 1)], "edge_features": [[-1.0]]}, r"edge_features\[0, 0\] = -1 must be finite and not negative"),
        ({"edges": [(0, 1)], "edge_features": [[np.nan]]}, r"edge_features\[0, 0\] = nan"),
        ({"groups": groups[1:]}, "every sample needs the name of its group"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(X, y, **arguments)
    with pytest.raises(ValueError, match="only one class"):
        fit(X, np.zeros(len(y)))
    with pytest.raises(TypeError, match="sparse"):
        fit(sparse.csr_array(X), y)
    for parameters, message in (
        ({"loss": "auc"}, "loss='auc' is unknown"),
        ({"decomposition": "none"}, "decomposition='none' is unknown"),
        ({"start": "zero"}, "start='zero' is unknown"),
        ({"eta": 0}, "eta=0 must be a positive number"),
        ({"n_neighbors": 0}, "n_neighbors=0 must be a positive integer"),
    ):
        with pytest.raises(ValueError, match=message):
            HighOrderRankingSVM(**parameters).fit(X, y)
    model = fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="was trained without edge_features"):
        model.predict(X, [(0, 1)], [[1.0]])
    own = HighOrderRankingSVM().fit(X, y, edges=[(0, 1), (1, 2)], edge_features=np.ones((2, 3)))
    with pytest.raises(ValueError, match="was trained with edge_features"):
        own.predict(X, groups=groups)
    with pytest.raises(ValueError, match="edge_features have 2 columns"):
        own.predict(X, [(0, 1)], [[1.0, 1.0]])
    assert len(own.predict(X)) == len(y)
