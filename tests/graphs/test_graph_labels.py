"""Graphs with many labels: features, losses, and the search against enumeration, with its bound."""

from itertools import product

import numpy as np
import pytest

from maxmargin.core import Decoded
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.graphs import Graph, GraphProblem, GraphStructure
from maxmargin.surrogates import make_problem

KINDS = ["attractive", "symmetric", "antisymmetric", "free"]
CYCLE = np.array([(0, 1), (2, 1), (2, 3), (3, 4), (0, 4), (1, 3)], dtype=np.int32)
TREE = np.array([(0, 1), (2, 1), (3, 1), (3, 4)], dtype=np.int32)


def graph(rng, edges, q=2):
    return Graph(rng.normal(size=(5, 2)), edges, rng.random((len(edges), q)))


def allowed(structure, weights):
    lower, upper = structure.bounds or (-np.inf, np.inf)
    return np.clip(weights, lower, upper)


def every_labeling(n_labels):
    return [np.array(y) for y in product(range(n_labels), repeat=5)]


def dense(feature):
    return feature if isinstance(feature, np.ndarray) else feature.toarray().ravel()


def test_joint_feature_and_tables_from_the_definition():
    rng = np.random.default_rng(0)
    structure = GraphStructure(2, 4, 3, KINDS)
    x = graph(rng, CYCLE, q=4)
    weights = rng.normal(size=structure.n_weights)
    assert structure.n_weights == 3 * 2 + 1 + 6 + 3 + 9
    W, V = weights[:6].reshape(3, 2), structure.tables(weights[6:])
    v, symmetric, anti, free = weights[6], weights[7:13], weights[13:16], weights[16:].reshape(3, 3)
    np.testing.assert_array_equal(V[0], -v * (1 - np.eye(3)))
    expected = np.zeros((3, 3))
    expected[np.triu_indices(3)] = symmetric
    np.testing.assert_array_equal(V[1], expected + np.triu(expected, 1).T)
    expected = np.zeros((3, 3))
    expected[np.triu_indices(3, 1)] = anti
    np.testing.assert_array_equal(V[2], expected - expected.T)
    np.testing.assert_array_equal(V[3], free)
    for y in every_labeling(3)[::17]:
        score = sum(W[k] @ row for k, row in zip(y, x.nodes, strict=True))
        score += sum(f @ V[:, y[a], y[b]] for (a, b), f in zip(x.edges, x.edge_features, strict=True))
        assert dense(structure.joint_feature(x, y)) @ weights == pytest.approx(score)


@pytest.mark.parametrize("kind", [*KINDS, ("attractive", "free")])
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("edges", [CYCLE, TREE], ids=["cycle", "tree"])
def test_search_against_enumeration(kind, n_labels, edges):
    rng = np.random.default_rng(1)
    structure = GraphStructure(2, 2, n_labels, kind, costs=1 + np.arange(n_labels))
    tight = 0
    for trial in range(15):
        x, truth = graph(rng, edges), rng.integers(0, n_labels, 5) if trial % 3 else None
        weights, a, b = allowed(structure, 2 * rng.normal(size=structure.n_weights)), *(0.5 + rng.random(2))
        values = [
            a * dense(structure.joint_feature(x, y)) @ weights + (0 if truth is None else b * structure.loss(truth, y))
            for y in every_labeling(n_labels)
        ]
        answer = structure.decode(x, weights, truth, a, b)
        assert isinstance(answer, Decoded) != structure.exact
        output, upper = answer if isinstance(answer, Decoded) else (answer, max(values))
        found = values[int(np.ravel_multi_index(output, (n_labels,) * 5))]
        assert found <= max(values) + 1e-12 <= upper + 1e-9
        tight += abs(upper - found) < 1e-9
        if edges is TREE or structure.exact:
            assert found == pytest.approx(max(values)) == pytest.approx(upper)
    assert tight >= 8


def test_costs_weigh_wrong_labels():
    structure = GraphStructure(1, n_labels=3, costs=[1.0, 10.0, 0.0])
    assert structure.loss(np.array([0, 1, 2, 1]), np.array([1, 1, 0, 2])) == pytest.approx((1 + 0 + 10) / 4)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"pairwise": "repulsive"}, "pairwise='repulsive' is unknown"),
        ({"pairwise": ["free", "free"]}, "pairwise has 2 entries, but edges have 1 features"),
        ({"costs": [1.0, -1.0]}, "costs must be 2 finite numbers"),
    ],
)
def test_bad_settings(arguments, match):
    with pytest.raises(ValueError, match=match):
        GraphStructure(1, **arguments)


@pytest.mark.parametrize(
    ("edges", "labels", "match"),
    [
        ([(0, 2)], [0, 1], "edge 0 joins 0 and 2; nodes are numbered 0 to 1"),
        ([(1, 1)], [0, 1], "an edge joins node 1 to itself"),
        ([(0, 1)], [0, 3], "labels must be 0 to 2"),
        ([(0, 1)], [0, 1, 2], "there are 2 nodes and 3 labels"),
    ],
)
def test_bad_graphs(edges, labels, match):
    with pytest.raises(ValueError, match=match):
        GraphStructure(1, n_labels=3).encode((np.ones((2, 1)), edges), labels)


def test_certificate_of_an_inexact_oracle_holds():
    # The primal is made of bounds, so it must not lie below the objective by enumeration, nor the dual above its optimum.
    rng = np.random.default_rng(2)
    structure = GraphStructure(2, 2, 3, "free")
    xs = [graph(rng, CYCLE) for _ in range(6)]
    ys = [rng.integers(0, 3, 5) for _ in xs]
    problem = make_problem(structure, xs, ys)
    assert isinstance(problem, GraphProblem) and problem.exact and not structure.exact
    solution = OneSlackCuttingPlane(tol=1e-6, max_passes=300).solve(problem, 0.05)
    features = [np.array([dense(structure.joint_feature(x, y)) for y in every_labeling(3)]) for x in xs]
    losses = [np.array([structure.loss(truth, y) for y in every_labeling(3)]) for truth in ys]

    def objective(w):
        own = [f[int(np.ravel_multi_index(t, (3,) * 5))] for f, t in zip(features, ys, strict=True)]
        hinges = [np.max(delta + f @ w - o @ w) for delta, f, o in zip(losses, features, own, strict=True)]
        return 0.025 * w @ w + np.mean(hinges)

    certificate = solution.certificate
    true = objective(solution.weights)
    assert certificate.certified and certificate.primal >= true - 1e-9 and certificate.dual <= true + 1e-9
    assert certificate.oracle_gap <= certificate.gap + 1e-9
    for _ in range(50):
        assert certificate.dual <= objective(solution.weights + 0.1 * rng.normal(size=problem.n_features)) + 1e-9


def test_settings_are_part_of_the_fingerprint():
    rng = np.random.default_rng(3)
    xs, ys = [graph(rng, CYCLE)], [np.array([0, 1, 0, 1, 1])]
    marks = {
        GraphProblem(xs, ys, *settings).fingerprint()
        for settings in ((2,), (3,), (2, "free"), (2, "symmetric"), (2, "attractive", [1.0, 2.0]))
    }
    assert len(marks) == 5 and None not in marks
    assert GraphProblem(xs, ys).fingerprint() == GraphProblem(xs, ys, 2, "attractive").fingerprint()
