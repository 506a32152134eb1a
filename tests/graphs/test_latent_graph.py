"""Hidden states and hidden nodes: imputation and search against enumeration, the bound of the loss, the fall of the objective."""

from itertools import product

import numpy as np
import pytest

from maxmargin import GraphSVM, LatentGraphSVM, LatentGridSVM, LatentStructuredSVM
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.graphs import LatentGraphProblem, LatentGraphStructure
from maxmargin.surrogates import LatentStructuredProblem

pytestmark = pytest.mark.filterwarnings("ignore::maxmargin.core.solvers.ConvergenceWarning")
CYCLES = [(0, 1), (2, 1), (2, 3), (3, 4), (0, 4), (1, 3)]
TREE = [(0, 1), (2, 1), (3, 1), (3, 4)]


def raw_graph(rng, edges, n_hidden=0):
    return rng.normal(size=(5, 2)), edges, rng.random((len(edges), 1)), n_hidden


def possible(structure, x):
    """All states, with the labels of visible nodes, from the meaning of the numbers."""
    n_states = len(structure.label_of)
    for h in map(np.array, product(range(n_states), repeat=5)):
        labels = structure.label_of[h]
        if (labels[: 5 - x.n_hidden] >= 0).all() and (labels[5 - x.n_hidden :] == -1).all():
            yield labels[: 5 - x.n_hidden], h


@pytest.mark.parametrize("n_hidden", [0, 2])
@pytest.mark.parametrize("pairwise", ["attractive", "symmetric", "free"])
@pytest.mark.parametrize("edges", [CYCLES, TREE], ids=["cycles", "tree"])
def test_search_and_imputation_against_enumeration(n_hidden, pairwise, edges):
    rng = np.random.default_rng(0)
    structure = LatentGraphStructure(2, 1, 2, [1, 2], 2 if n_hidden else 0, pairwise, costs=[1.0, 3.0])
    assert list(structure.label_of) == [0, 1, 1, -1, -1][: 3 + n_hidden]
    best_found = 0
    for _ in range(4):
        truth = rng.integers(0, 2, 5 - n_hidden)
        x, _ = structure.encode(raw_graph(rng, edges, n_hidden), truth)
        weights, a, b = rng.normal(size=structure.states.n_weights), 0.7, 1.3
        weights = weights if structure.bounds is None else np.clip(weights, *structure.bounds)
        outputs = list(possible(structure, x))
        scores = np.array([structure.joint_feature(x, y, h) @ weights for y, h in outputs])
        losses = np.array([np.mean(np.array([1.0, 3.0])[truth] * (y != truth)) for y, _ in outputs])
        for given in (truth, None):
            values = a * scores + (0 if given is None else b * losses)
            (y, h), upper = structure.decode(x, weights, given, a, b)
            np.testing.assert_array_equal(structure.label_of[h[: len(y)]], y)
            assert any((h == other).all() for _, other in outputs)
            found = a * structure.joint_feature(x, y, h) @ weights + (0 if given is None else b * structure.loss(truth, y, h))
            assert found <= values.max() + 1e-9 <= upper + 2e-9
            best_found += found >= values.max() - 1e-9
            assert edges is CYCLES or found == pytest.approx(values.max()) == pytest.approx(upper)
        best = max(score for score, (y, _) in zip(scores, outputs, strict=True) if (y == truth).all())
        imputed = structure.impute(x, truth, weights)
        np.testing.assert_array_equal(structure.label_of[imputed[: len(truth)]], truth)
        assert structure.joint_feature(x, truth, imputed) @ weights <= best + 1e-9
        assert edges is CYCLES or structure.joint_feature(x, truth, imputed) @ weights == pytest.approx(best)
        drawn = structure.start(x, truth, rng)
        assert any((drawn == h).all() and (y == truth).all() for y, h in outputs)
    assert best_found >= 6


def ends_of_a_line(rng, n, n_nodes=4):
    """Label 1 at both ends of a line, label 0 in the middle."""
    places = [rng.uniform(-2, 2, n_nodes) for _ in range(n)]
    edges = [(k, k + 1) for k in range(n_nodes - 1)]
    return [(np.column_stack([p, np.ones(n_nodes)]), edges) for p in places], [(np.abs(p) > 1).astype(int) for p in places]


def test_objective_falls_bounds_the_loss_and_is_that_of_enumeration():
    rng = np.random.default_rng(1)
    X, y = ends_of_a_line(rng, 25)
    # States drawn at random leave more to do than clusters.
    model = LatentStructuredSVM(LatentGraphStructure(2, n_states=[1, 2]), C=1.0, tol=1e-4, random_state=0).fit(X, y)
    assert len(model.objectives_) >= 2 and (np.diff(model.objectives_) < 0).all() and model.certified_
    weights, structure = model.coef_, model.structure
    hinges = []
    for x, truth in zip(X, y, strict=True):
        coded, truth = structure.encode(x, truth)
        outputs = [(structure.label_of[np.array(h)], np.array(h)) for h in product(range(3), repeat=4)]
        values = [structure.joint_feature(coded, *pair) @ weights for pair in outputs]
        own = max(value for value, (labels, _) in zip(values, outputs, strict=True) if (labels == truth).all())
        hinges.append(max(value + np.mean(labels != truth) for value, (labels, _) in zip(values, outputs, strict=True)) - own)
    assert model.objective_ == pytest.approx(0.5 * weights @ weights + sum(hinges), rel=1e-6)
    # Mean hinges are not below mean losses of the predictions.
    assert np.mean(hinges) >= 1 - model.score(X, y) - 1e-9


def test_states_tell_what_one_linear_score_cannot():
    rng = np.random.default_rng(2)
    (X, y), (X_new, y_new) = ends_of_a_line(rng, 40), ends_of_a_line(rng, 60)
    plain = GraphSVM(C=10, pairwise="symmetric", tol=1e-2).fit(X, y)
    latent = LatentGraphSVM(C=10, n_states=[1, 2], tol=1e-2, random_state=0, n_starts=2).fit(X, y)
    assert latent.score(X_new, y_new) > 0.9 > plain.score(X_new, y_new) + 0.15
    states = np.concatenate(latent.predict_states(X_new))
    place = np.concatenate([x[:, 0] for x, _ in X_new])
    means = [place[states == k].mean() for k in (1, 2)]
    assert min(means) < -1 < 1 < max(means)


def test_one_state_without_hidden_nodes_is_the_plain_model():
    rng = np.random.default_rng(3)
    X, y = ends_of_a_line(rng, 12)
    settings = {"C": 1.0, "pairwise": "free", "tol": 1e-5, "solver": OneSlackCuttingPlane(tol=1e-5)}
    latent, plain = LatentGraphSVM(n_states=1, **settings).fit(X, y), GraphSVM(**settings).fit(X, y)
    assert latent.objective_ == pytest.approx(plain.primal_objective_, rel=1e-4)
    np.testing.assert_allclose(latent.pairwise_, plain.pairwise_, atol=0.02)


def test_hidden_nodes_carry_what_visible_ones_share():
    # All visible nodes of a star have the same label, but features of one alone say little.
    rng = np.random.default_rng(4)

    def stars(n):
        y = [np.full(5, rng.integers(2)) for _ in range(n)]
        edges = [(k, 5) for k in range(5)]
        rows = [np.vstack([np.column_stack([t - 0.5 + rng.normal(size=5), np.ones(5)]), np.zeros((1, 2))]) for t in y]
        return [(x, edges, np.ones((5, 1)), 1) for x in rows], y

    (X, y), (X_new, y_new) = stars(40), stars(60)
    latent = LatentGraphSVM(C=1, n_states=1, n_hidden_states=2, tol=1e-2, random_state=0).fit(X, y)
    alone = GraphSVM(C=1, tol=1e-2).fit([(x[0][:5], []) for x in X], y)
    assert latent.score(X_new, y_new) > alone.score([(x[0][:5], []) for x in X_new], y_new) + 0.1
    assert list(latent.state_labels_) == [0, 1, -1, -1] and latent.predict(X_new)[0].shape == (5,)
    assert all(states[-1] in (2, 3) and (states[:-1] < 2).all() for states in latent.predict_states(X_new))


def test_loopy_imputation_never_gets_worse():
    rng = np.random.default_rng(5)
    structure = LatentGraphStructure(2, 1, 2, 2, pairwise="free")
    X, y = [raw_graph(rng, CYCLES) for _ in range(5)], [rng.integers(0, 2, 5) for _ in range(5)]
    problem = LatentGraphProblem(structure, X, y)
    assert problem.exact and not structure.exact
    weights = 3 * rng.normal(size=problem.n_features)
    problem.impute(weights)
    best = [structure.joint_feature(x, t, h) @ weights for x, t, h in zip(problem.X, problem.y, problem.hidden, strict=True)]
    # A search that has become bad is not believed.
    structure.impute = lambda x, truth, weights: structure.start(x, truth, np.random.default_rng(0))
    assert not problem.impute(weights)
    again = [structure.joint_feature(x, t, h) @ weights for x, t, h in zip(problem.X, problem.y, problem.hidden, strict=True)]
    assert again == best


def test_structure_in_the_general_estimator_and_class_weights():
    rng = np.random.default_rng(6)
    X, y = ends_of_a_line(rng, 20)
    general = LatentStructuredSVM(LatentGraphStructure(2, n_states=[1, 2]), C=10, tol=0.05, random_state=0).fit(X, y)
    assert general.certified_ and 0.5 < general.score(X, y) <= 1 and general.predict(X)[0].shape == (4,)
    with pytest.raises(ValueError, match="sample 1: there are 4 nodes that are not hidden, but labels of shape"):
        LatentStructuredProblem(LatentGraphStructure(2), X[:2], [y[0], y[1][:2]])
    shares = [
        np.mean(np.concatenate(LatentGraphSVM(C=0.1, tol=1e-2, class_weight=weight).fit(X, y).predict(X)))
        for weight in ({0: 10, 1: 1}, {0: 1, 1: 10})
    ]
    assert shares[0] < shares[1]


def test_many_weights_choose_a_solver_that_cannot_begin_with_cuts():
    rng = np.random.default_rng(8)
    y = [rng.integers(0, 2, 2) for _ in range(8)]
    X = [(np.hstack([np.eye(2)[t], rng.normal(size=(2, 40))]), [(0, 1)]) for t in y]
    model = LatentGraphSVM(tol=0.05, random_state=0).fit(X, y)
    assert model.coef_.size > 100 and model.certified_ and model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("parameters", "x", "match"),
    [
        ({"n_states": 0}, (np.ones((2, 1)), [(0, 1)]), "n_states=0 must be a positive integer"),
        ({"n_states": [1, 2, 3]}, (np.ones((2, 1)), [(0, 1)]), "or one for each of the 2 labels"),
        ({"n_hidden_states": -1}, (np.ones((2, 1)), [(0, 1)]), "n_hidden_states=-1 must not be negative"),
        ({}, (np.ones((3, 1)), [(0, 2)], np.ones((1, 1)), 1), "1 nodes are hidden, but n_hidden_states=0"),
        ({"n_hidden_states": 2}, (np.ones((2, 1)), [(0, 1)], np.ones((1, 1)), 2), "n_hidden=2 must be an integer"),
        ({}, (np.ones((2, 1)), [(1, 1)]), "an edge joins"),
    ],
)
def test_bad_input(parameters, x, match):
    with pytest.raises(ValueError, match=match):
        LatentGraphSVM(**parameters).fit([x], [[0, 1]])


def test_images_in_and_out():
    rng = np.random.default_rng(7)
    y = [np.kron(rng.integers(0, 2, (2, 2)), np.ones((2, 2), dtype=int)) for _ in range(10)]
    X = [np.dstack([t * rng.choice([-2, 2]), t == 0]) + 0.1 * rng.normal(size=(4, 4, 2)) for t in y]
    model = LatentGridSVM(C=10, n_states=[1, 2], edge_features="steps", tol=0.05, random_state=0).fit(X, y)
    assert model.pairwise_.shape == (2, 3, 3) and model.predict_states(X)[0].shape == (4, 4) and model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="edge_features='none' is unknown"):
        LatentGridSVM(edge_features="none").fit(X, y)
    with pytest.raises(ValueError, match="image 0 has shape"):
        LatentGridSVM().fit(X, [t[:2] for t in y])
