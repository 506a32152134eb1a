"""Oracles of structured problems against enumeration of all outputs, and training on them against a reference."""

from itertools import pairwise, product

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.reference_averages import averages

from maxmargin.core import CheckedProblem
from maxmargin.core.solvers import BCFW, ExponentiatedGradient, FrankWolfe, OneSlackCuttingPlane, PartialLinearization
from maxmargin.graphs import Graph, GraphProblem
from maxmargin.sequences import ChainProblem, ChainWeights


def chains(seed=0, n_labels=3, lengths=(1, 2, 4, 3), normalize=True):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(offsets[-1], 2))
    return ChainProblem(X, rng.integers(0, n_labels, len(X)), offsets, n_labels, normalize=normalize)


def chain_feature(problem, block, labels):
    """By the definition, position after position."""
    K, p = problem.n_labels, problem.n_inputs
    feature = np.zeros(problem.n_features)
    parts = ChainWeights(feature, K, p)
    x = problem.X[problem.offsets[block] : problem.offsets[block + 1]]
    for t, label in enumerate(labels):
        parts.emission[label] += x[t]
    parts.first[labels[0]] += 1
    parts.last[labels[-1]] += 1
    for a, b in pairwise(labels):
        parts.transition[a, b] += 1
    return feature


def all_chain_outputs(problem, block, normalize=True):
    truth = problem.y[problem.offsets[block] : problem.offsets[block + 1]]
    outputs = list(product(range(problem.n_labels), repeat=len(truth)))
    mine = chain_feature(problem, block, truth)
    psi = np.array([mine - chain_feature(problem, block, y) for y in outputs])
    loss = np.array([np.sum(truth != y) / (len(truth) if normalize else 1) for y in outputs])
    return psi, loss


def graphs(seed=0, sizes=(1, 4, 6)):
    rng = np.random.default_rng(seed)
    result, labels = [], []
    for size in sizes:
        edges = np.array([(a, b) for a in range(size) for b in range(a) if rng.random() < 0.6], dtype=np.int32).reshape(-1, 2)
        result.append(Graph(rng.normal(size=(size, 2)), edges, rng.random((len(edges), 2))))
        labels.append(rng.integers(0, 2, size))
    return GraphProblem(result, labels)


def all_graph_outputs(problem, block):
    graph, truth = problem.samples[block].x, problem.samples[block].truth

    def feature(y):
        total = np.zeros(problem.n_features)
        for t, label in enumerate(y):
            total[label * 2 : label * 2 + 2] += graph.nodes[t]
        for (a, b), f in zip(graph.edges, graph.edge_features, strict=True):
            if y[a] != y[b]:
                total[4:] -= f
        return total

    outputs = list(product((0, 1), repeat=len(truth)))
    psi = np.array([feature(truth) - feature(y) for y in outputs])
    return psi, np.array([np.mean(truth != np.array(y)) for y in outputs])


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("scale", [0.0, 0.3, 10.0])
def test_chain_oracle_equals_enumeration(normalize, scale):
    problem = chains(normalize=normalize)
    rng = np.random.default_rng(1)
    for _ in range(5):
        weights = scale * rng.normal(size=problem.n_features).round(1)
        expected = []
        for block in range(problem.n_blocks):
            psi, loss = all_chain_outputs(problem, block, normalize)
            cut = problem.cut(block, weights)
            expected.append(np.max(loss - psi @ weights))
            assert cut.hinge(weights) == pytest.approx(expected[-1], abs=1e-9)
            # The cut is one of the outputs.
            assert np.min(np.abs(psi - cut.psi).sum(axis=1) + np.abs(loss - cut.loss)) < 1e-9
        assert problem.mean_cut(weights).hinge(weights) == pytest.approx(np.mean(expected), abs=1e-9)
        together = problem.cuts([2, 0], weights)
        assert [c.hinge(weights) for c in together] == pytest.approx([expected[2], expected[0]], abs=1e-9)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 5.0])
def test_chain_distributions_equal_enumeration(temperature):
    problem = chains()
    rng = np.random.default_rng(2)
    weights = rng.normal(size=problem.n_features)
    for block in range(problem.n_blocks):
        psi, loss = all_chain_outputs(problem, block)
        start = averages(problem).interior(block, 0.3)
        # Probabilities of all outputs: independent positions, times exp(hinge / temperature).
        outputs = list(product(range(3), repeat=len(start[0])))
        log_p = np.array([sum(start[0][t, label] for t, label in enumerate(y)) for y in outputs])
        log_p = log_p + (loss - psi @ weights) / temperature
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        tilted = averages(problem).average(block, averages(problem).tilt(block, start, weights, temperature))
        np.testing.assert_allclose(tilted.psi, p @ psi, atol=1e-9)
        assert tilted.loss == pytest.approx(p @ loss, abs=1e-9)
        cold = averages(problem).average(block, averages(problem).tilt(block, start, weights, 0.0))
        assert cold.hinge(weights) == pytest.approx(np.max(loss - psi @ weights), abs=1e-9)
    assert problem.diameter() >= max(np.linalg.norm(all_chain_outputs(problem, b)[0], axis=1).max() for b in range(4))


@pytest.mark.parametrize("seed", range(4))
def test_graph_oracle_equals_enumeration(seed):
    problem = graphs(seed)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        weights = rng.normal(size=problem.n_features)
        weights[4:] = np.abs(weights[4:])
        for block in range(problem.n_blocks):
            psi, loss = all_graph_outputs(problem, block)
            assert problem.cut(block, weights).hinge(weights) == pytest.approx(np.max(loss - psi @ weights), abs=1e-9)
    with pytest.raises(ValueError, match="solve with the problem's bounds"):
        problem.cut(2, np.concatenate([np.zeros(4), [-1.0, -1.0]]))


@pytest.mark.parametrize(
    "solver",
    [
        OneSlackCuttingPlane(tol=1e-5),
        BCFW(steps="fw", tol=1e-2),
        BCFW(tol=1e-4, steps="pairwise"),
        BCFW(tol=1e-3, steps="all", cache=20),
        FrankWolfe(tol=2e-2, max_passes=5000),
        PartialLinearization(tol=1e-3, temperature=0.1, max_passes=5000),
        ExponentiatedGradient(tol=1e-2, temperature=2.0, max_passes=5000),
    ],
    ids=lambda solver: type(solver).__name__ + getattr(solver, "steps", ""),
)
@pytest.mark.parametrize("bounded", [False, True])
def test_training_reaches_the_optimum_of_the_enumerated_problem(solver, bounded):
    chain = chains(lengths=(1, 2, 3, 2))
    listed = EnumeratedProblem(*zip(*(all_chain_outputs(chain, b) for b in range(4)), strict=True))
    bounds = (-0.2, 0.3) if bounded else None
    optimum = OneSlackCuttingPlane(tol=1e-7).solve(listed, 0.2, bounds=bounds)
    solution = solver.solve(chain, 0.2, bounds=bounds)
    assert solution.converged and solution.certified
    assert solution.dual - 1e-6 <= optimum.primal <= solution.primal + 1e-6
    if isinstance(solver, PartialLinearization | ExponentiatedGradient):
        return
    graph = graphs()
    listed = EnumeratedProblem(*zip(*(all_graph_outputs(graph, b) for b in range(3)), strict=True))
    optimum = OneSlackCuttingPlane(tol=1e-7).solve(listed, 0.2, bounds=graph.bounds)
    solution = solver.solve(graph, 0.2, bounds=graph.bounds)
    assert solution.converged and (solution.weights[4:] >= 0).all()
    assert solution.dual - 1e-6 <= optimum.primal <= solution.primal + 1e-6


def test_layout_of_the_ocr_features():
    assert ChainWeights.size(26, 129) == 4082


def test_oracle_calls_are_counted():
    problem = CheckedProblem(chains())
    problem.mean_cut(np.zeros(problem.n_features))
    problem.cuts([0, 1], np.zeros(problem.n_features))
    assert problem.calls == 6


def test_bad_input():
    X = np.ones((3, 2))
    with pytest.raises(ValueError, match="sequence 1 is empty"):
        ChainProblem(X, np.zeros(3, int), np.array([0, 2, 2, 3]), 2)
    with pytest.raises(ValueError, match="X has 3 positions, y has 2"):
        ChainProblem(X, np.zeros(2, int), np.array([0, 2]), 2)
    with pytest.raises(ValueError, match="y must lie between 0 and 1"):
        ChainProblem(X, np.array([0, 1, 2]), np.array([0, 3]), 2)
    edge = Graph(X, np.array([[0, 1]], dtype=np.int32), np.array([[-1.0]]))
    with pytest.raises(ValueError, match="sample 0: edge features must not be negative"):
        GraphProblem([edge], [np.zeros(3, int)])
    with pytest.raises(ValueError, match="sample 0: labels must be 0 or 1"):
        GraphProblem([edge._replace(edge_features=np.ones((1, 1)))], [np.full(3, 2)])
    with pytest.raises(ValueError, match="sample 0: there are 3 nodes and 2 labels"):
        GraphProblem([edge._replace(edge_features=np.ones((1, 1)))], [np.zeros(2, int)])
