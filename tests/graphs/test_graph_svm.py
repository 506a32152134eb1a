"""Learned energies with many labels, on graphs and images."""

from itertools import product

import numpy as np
import pytest

from maxmargin import GraphSVM, GridSVM, LatentGraphSVM, LatentGridSVM, MulticlassSVM
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.graphs import GraphStructure
from maxmargin.surrogates import ProbLoss, make_surrogate

pytestmark = pytest.mark.filterwarnings("ignore::maxmargin.core.solvers.ConvergenceWarning")


def images(n, rng, noise=0.8):
    """Stripes of three labels that follow each other to the right, 0 1 2 0 1 2, with features that say little."""
    labels = [(np.arange(6)[None, :] // 2 + rng.integers(3) + np.zeros((5, 1), int)) % 3 for _ in range(n)]
    return [np.dstack([np.eye(3)[y] + noise * rng.normal(size=(*y.shape, 3)), np.ones(y.shape)]) for y in labels], labels


def test_grid_learns_which_labels_follow_each_other():
    rng = np.random.default_rng(0)
    (X, y), (X_test, y_test) = images(12, rng), images(20, rng)
    single = MulticlassSVM(C=1).fit(np.concatenate([x.reshape(-1, 4) for x in X]), np.concatenate([t.ravel() for t in y]))
    alone = np.mean([np.mean(single.predict(x.reshape(-1, 4)) == t.ravel()) for x, t in zip(X_test, y_test, strict=True)])
    scores = {}
    for kind, features in (("attractive", "constant"), ("symmetric", "steps"), ("free", "steps"), ("free", "ends")):
        model = GridSVM(C=10, pairwise=kind, edge_features=features, tol=0.05, max_iter=60).fit(X, y)
        assert model.certified_ and model.primal_objective_ >= model.dual_objective_
        assert 0 <= model.oracle_gap_ <= model.dual_gap_ + 1e-9
        scores[kind, features] = model.score(X_test, y_test)
        assert [found.shape for found in model.predict(X_test)] == [t.shape for t in y_test]
    assert min(scores.values()) > alone
    assert scores["free", "steps"] > scores["attractive", "constant"] and scores["free", "steps"] > 0.92
    # To the right labels rise by one or stay, and never fall by one.
    right = GridSVM(C=10, pairwise="free", edge_features="steps", tol=0.05, max_iter=60).fit(X, y).pairwise_[0]
    assert all(right[k, (k + 1) % 3] > right[(k + 1) % 3, k] for k in range(3))


def test_trees_leave_no_gap_of_inference():
    rng = np.random.default_rng(1)
    edges = [(0, 1), (1, 2), (1, 3), (3, 4)]
    y = [rng.integers(0, 3, 5) for _ in range(10)]
    X = [(np.eye(3)[t] + rng.normal(size=(5, 3)), edges) for t in y]
    names = np.array(["x", "y", "z"])
    model = GraphSVM(pairwise="free", tol=1e-3).fit(X, [names[t] for t in y])
    assert model.certified_ and model.oracle_gap_ <= 1e-9 * model.primal_objective_
    assert model.dual_gap_ <= 1e-3 * model.primal_objective_ and list(model.classes_) == ["x", "y", "z"]
    assert model.pairwise_.shape == (1, 3, 3) and model.edge_coef_.shape == (9,) and model.coef_.shape == (3, 3)


def test_cuts_for_two_labels_in_free_tables():
    rng = np.random.default_rng(2)
    X, y = images(6, rng)
    y = [np.minimum(t, 1) for t in y]
    attractive = GridSVM(C=1, tol=1e-3).fit(X, y)
    symmetric = GridSVM(C=1, pairwise="symmetric", tol=1e-3).fit(X, y)
    # Neighbours agree in training, so cuts remain exact although nothing makes them so.
    assert attractive.oracle_gap_ == 0 and symmetric.oracle_gap_ <= 1e-3 * symmetric.primal_objective_
    assert symmetric.certified_ and symmetric.primal_objective_ <= attractive.primal_objective_ * 1.01


def test_class_weights_of_strings_and_balanced():
    rng = np.random.default_rng(3)
    y = [np.array(["plain", "mid", "rare", "rare", "plain", "plain"]) for _ in range(20)]
    X = [(np.column_stack([2.0 * (t == "rare") + rng.normal(size=6), np.ones(6)]), [(k, k + 1) for k in range(5)]) for t in y]
    shares = [
        np.mean(np.concatenate(GraphSVM(class_weight=weight).fit(X, y).predict(X)) == "rare")
        for weight in (None, "balanced", {"plain": 1, "mid": 1, "rare": 20})
    ]
    assert shares[0] <= shares[1] <= shares[2] and shares[2] > shares[0]


@pytest.mark.parametrize(
    ("parameters", "X", "y", "match"),
    [
        ({"connectivity": 6}, [np.ones((2, 2, 1))], [np.eye(2, dtype=int)], "connectivity=6 must be 4 or 8"),
        ({"edge_features": "none"}, [np.ones((2, 2, 1))], [np.eye(2, dtype=int)], "edge_features='none' is unknown"),
        ({"pairwise": "any"}, [np.ones((2, 2, 1))], [np.eye(2, dtype=int)], "pairwise='any' is unknown"),
        ({"class_weight": "even"}, [np.ones((2, 2, 1))], [np.eye(2, dtype=int)], "class_weight='even' is unknown"),
        ({"class_weight": {0: 1, 1: -2}}, [np.ones((2, 2, 1))], [np.eye(2, dtype=int)], r"class_weight\[1\] = -2 must be"),
        ({"class_weight": {"b": np.nan}}, [np.ones((1, 2, 1))], [np.array([["a", "b"]])], r"class_weight\['b'\] = nan must be"),
        ({}, [np.ones((2, 2))], [np.eye(2, dtype=int)], "image 0 must have shape"),
        ({}, [np.ones((2, 2, 1))], [np.zeros((2, 3), int)], "image 0 has shape"),
        ({}, [np.ones((2, 2, 1))], [np.full((2, 2), np.nan)], "y contains NaN"),
        ({}, [np.ones((2, 2, 1))], [np.full((2, 2), 7)], "y holds the label"),
        ({}, [np.full((2, 2, 1), np.nan)], [np.eye(2, dtype=int)], "sample 0: features must be a finite array"),
        ({}, [np.ones((2, 2, 1))] * 2, [np.eye(2, dtype=int)], "there are 2 graphs and 1 labelings"),
    ],
)
def test_bad_input(parameters, X, y, match):
    with pytest.raises(ValueError, match=match):
        GridSVM(**parameters).fit(X, y)
    with pytest.raises(ValueError, match=match):
        LatentGridSVM(**{"n_states": 1} | parameters).fit(X, y)


def test_budget_is_told():
    rng = np.random.default_rng(4)
    X, y = images(4, rng)
    with pytest.warns(ConvergenceWarning, match="GridSVM stopped"):
        GridSVM(C=100, pairwise="free", max_iter=1, tol=1e-9).fit(X, y)


# ---- surrogates ----------------------------------------------------------------------------------------------------------------


def labelled_rings(n=12, size=5, seed=0):
    rng = np.random.default_rng(seed)
    edges = np.column_stack([np.arange(size), np.roll(np.arange(size), -1)])
    y = [np.where(np.arange(size) < rng.integers(1, size), "sea", "land") for _ in range(n)]
    return [(np.column_stack([(own == "sea") + 0.7 * rng.normal(size=size), np.ones(size)]), edges) for own in y], y


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", ["slack", "beta", "log", "prob", "micro_f1"])
def test_surrogates_of_graphs_against_all_labelings(name, normalize):
    X, y = labelled_rings()
    model = GraphSVM(C=0.1, surrogate=name, normalize=normalize, outside="land", tol=1e-3).fit(X, y)
    assert model.certified_ and model.certified_objective_ == "exact" and model.n_queries_ > len(X)
    # The objective at the weights, by looking at every labeling.
    psi, weights = make_surrogate(name), np.concatenate([model.coef_.ravel(), model.edge_coef_])
    structure = GraphStructure(2, normalize=normalize)
    hinges = 0.0
    for x, own in zip(X, y, strict=True):
        graph, truth = structure.encode(x, (own == "sea").astype(int))
        score = structure.joint_feature(graph, truth) @ weights
        best = 0.0
        for labels in map(np.array, product((0, 1), repeat=5)):
            h = structure.joint_feature(graph, labels) @ weights - score
            wrong = float((labels != truth).sum())
            if name == "micro_f1":
                best = max(best, (wrong + h) / max(1, labels.sum() + truth.sum()) if wrong else 0.0)
            elif wrong:
                best = max(best, float(psi.value(h, wrong / 5 if normalize else wrong)))
        hinges += best
    assert model.primal_objective_ == pytest.approx(0.5 * weights @ weights + 0.1 * hinges, rel=1e-6)


def test_counts_and_shares_are_different_surrogates_of_probability():
    # Slack rescaling of shares is that of counts divided by their number; the probability of an error is not.
    X, y = labelled_rings()
    share, count = (GraphSVM(C=c, surrogate="slack", normalize=n, tol=1e-4).fit(X, y) for c, n in ((0.5, True), (0.1, False)))
    np.testing.assert_allclose(share.coef_, count.coef_, atol=2e-2)
    share, count = (GraphSVM(C=c, surrogate="prob", normalize=n, tol=1e-2).fit(X, y) for c, n in ((0.5, True), (0.1, False)))
    assert np.abs(share.coef_ - count.coef_).max() > 0.05


def test_surrogates_where_inference_is_not_exact():
    rng = np.random.default_rng(1)
    y = [rng.integers(0, 3, 16) for _ in range(5)]
    edges = np.argwhere(np.triu(rng.random((16, 16)) < 0.3, 1))
    X = [(np.eye(3)[own] + 0.7 * rng.normal(size=(16, 3)), edges) for own in y]
    settings = {"C": 10.0, "pairwise": "symmetric", "surrogate": "slack", "solver": "one_slack", "tol": 0.1}
    bounded = GraphSVM(**settings, max_iter=80).fit(X, y)
    assert bounded.certified_ and bounded.certified_objective_ == "bounded" and bounded.oracle_gap_ > 0
    relaxed = GraphSVM(**settings, inference="relaxed", max_iter=15).fit(X, y)
    assert relaxed.certified_ and relaxed.certified_objective_ == "relaxed"
    # Marginals are worth at least as much as labels.
    assert relaxed.primal_objective_ >= bounded.dual_objective_


def test_bad_surrogates_of_graphs():
    X, y = labelled_rings(4)
    with pytest.raises(ValueError, match="outside='sky' is no label of y"):
        GraphSVM(surrogate="micro_f1", outside="sky").fit(X, y)
    with pytest.raises(ValueError, match="knows no class_weight"):
        GraphSVM(surrogate="micro_f1", outside="sea", class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="use solver='subgradient'"):
        GraphSVM(surrogate=ProbLoss(convex=False)).fit(X, y)
    with pytest.raises(ValueError, match="not convex, but the problems between imputations"):
        LatentGraphSVM(surrogate=ProbLoss(convex=False)).fit(X, y)


def test_rounds_of_hidden_states_fall_under_every_surrogate():
    rng = np.random.default_rng(2)
    places = [rng.uniform(-2, 2, 4) for _ in range(15)]
    X = [(np.column_stack([place, np.ones(4)]), [(0, 1), (1, 2), (2, 3)]) for place in places]
    y = [(np.abs(place) > 1).astype(int) for place in places]
    for name in ("slack", "log"):
        model = LatentGraphSVM(C=1, n_states=[1, 2], surrogate=name, normalize=False, tol=5e-2, random_state=0).fit(X, y)
        assert model.certified_ and (np.diff(model.objectives_) <= 1e-9).all() and model.score(X, y) > 0.8
