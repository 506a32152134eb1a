"""More than the best labeling of a graph: lists, cones, losses and surrogates against enumeration, with ties."""

from itertools import product

import numpy as np
import pytest

from maxmargin.core import Decoded, SupportsCone, SupportsKBest, SupportsListing, SupportsLossValues, dot, supports
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.graphs import GraphProblem, GraphSetStructure, GraphStructure
from maxmargin.graphs import structure as graph_module
from maxmargin.labeling import Listed, listed_by_parts
from maxmargin.surrogates import BetaScaling, LogLoss, MicroF1, ProbLoss, Slack, StructuredProblem

CYCLE = np.array([(0, 1), (2, 1), (2, 3), (3, 4), (0, 4), (1, 3)], dtype=np.int32)
TREE = np.array([(0, 1), (2, 1), (4, 3)], dtype=np.int32)
# Two labels that attract each other by minimum cuts; forests by lists; and what only TRW-S knows.
CASES = {
    "cut": (2, "attractive", CYCLE), "table cut": (2, "symmetric", CYCLE), "forest": (3, "free", TREE),
    "binary forest": (2, "attractive", TREE), "messages": (3, "symmetric", CYCLE), "no edges": (3, "free", CYCLE[:0]),
}  # fmt: skip


def case(name, rng, ties=False):
    n_labels, kind, edges = CASES[name]
    structure = GraphStructure(2, 2, n_labels, kind, costs=None if ties else 1 + np.arange(n_labels), normalize=ties)
    draw = (lambda *shape: rng.integers(-1, 2, shape).astype(float)) if ties else lambda *shape: rng.normal(size=shape)
    x, truth = structure.encode((draw(5, 2), edges, np.abs(draw(len(edges), 2))), rng.integers(0, n_labels, 5))
    weights = draw(structure.n_weights)
    if name == "table cut":
        # Agreement is worth more than a difference.
        tables = weights[4:].reshape(2, 3)
        tables[:, [0, 2]] = np.abs(tables[:, [0, 2]])
        tables[:, 1] = -np.abs(tables[:, 1])
    lower, upper = structure.bounds or (-np.inf, np.inf)
    return structure, x, truth, np.clip(weights, lower, upper)


def everything(structure, x, truth, weights, a, b):
    """``a * score + b * loss`` of every labeling."""
    found = {}
    for y in product(range(structure.n_labels), repeat=5):
        feature = structure.joint_feature(x, np.array(y))
        feature = feature if isinstance(feature, np.ndarray) else feature.toarray().ravel()
        found[y] = a * float(feature @ weights) + b * structure.loss(truth, np.array(y))
    return found


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_k_best_is_the_sorted_list_of_all_labelings(name, ties, small, monkeypatch):
    monkeypatch.setattr(graph_module, "is_small", lambda *shape: small)
    rng = np.random.default_rng(0)
    tight = 0
    for a, b in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.3, 2.0)):
        structure, x, truth, weights = case(name, rng, ties)
        assert structure.can_list(x) == (small or name != "messages") or name == "table cut"
        values = everything(structure, x, truth, weights, a, b)
        order = sorted(values.values(), reverse=True)
        for k in (1, 9, 300) if (a, b) == (1.0, 1.0) else (2, 9):
            if name == "messages" and not small and k > 9:
                continue
            answers = structure.k_best(x, weights, truth, a, b, k)
            assert all(isinstance(answer, Decoded) != structure.exact for answer in answers)
            found = [tuple((one.output if isinstance(one, Decoded) else one).tolist()) for one in answers]
            assert len(set(found)) == len(found) == min(k, len(values))
            own = [values[y] for y in found]
            uppers = own if structure.exact else [one.upper for one in answers]
            for n, upper in enumerate(uppers):
                rest = max(value for y, value in values.items() if y not in found[:n])
                assert own[n] - 1e-9 <= rest <= upper + 1e-9
                tight += upper <= own[n] + 1e-9
            if name != "messages" or small:
                np.testing.assert_allclose(own, order[: len(own)], atol=1e-9)
                np.testing.assert_allclose(uppers, own, atol=1e-9)
    assert tight > 0


def test_labels_that_are_listed_must_be_different_even_if_all_are_as_good(monkeypatch):
    monkeypatch.setattr(graph_module, "is_small", lambda *shape: False)
    structure = GraphStructure(1)
    x, truth = structure.encode((np.zeros((4, 1)), [(0, 1), (1, 2), (2, 3), (3, 0)]), [0, 1, 0, 1])
    found = structure.k_best(x, np.zeros(3), truth, 1.0, 0.0, 100)
    assert len({y.tobytes() for y in found}) == 16


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_best_labeling_in_a_cone(name, small, monkeypatch):
    monkeypatch.setattr(graph_module, "is_small", lambda *shape: small)
    rng = np.random.default_rng(1)
    empty = 0
    for low, high in ((0.0, np.inf), (0.5, 2.0), (2.0, np.inf), (0.0, 0.3), (50.0, 51.0)):
        structure, x, truth, weights = case(name, rng)
        score, lam = everything(structure, x, truth, weights, 1.0, 0.0), 0.7
        own, best = score[tuple(truth.tolist())], -np.inf
        for y, value in score.items():
            error, loss = 1 + value - own, structure.loss(truth, np.array(y))
            if error > 0 and loss > 0 and low <= loss / error < high:
                best = max(best, value + lam * loss)
        answer = structure.decode_within(x, weights, truth, lam, low, high)
        empty += answer is None
        assert (answer is None) == (best == -np.inf)
        if answer is not None:
            value = score[tuple(answer.output.tolist())] + lam * structure.loss(truth, answer.output)
            assert value == pytest.approx(best, abs=1e-6) and best - 1e-7 <= answer.upper <= best + 1e-5
    assert empty < 5


@pytest.mark.parametrize("costs", [None, [1.0, 0.0, 2.5]])
@pytest.mark.parametrize("normalize", [True, False])
def test_losses_that_are_possible(costs, normalize):
    rng = np.random.default_rng(2)
    structure = GraphStructure(1, n_labels=3, costs=costs, normalize=normalize)
    x, truth = structure.encode((np.ones((5, 1)), CYCLE), rng.integers(0, 3, 5))
    seen = {round(structure.loss(truth, np.array(y)), 9) for y in product(range(3), repeat=5)}
    assert seen == set(np.round(structure.loss_values(x, truth), 9))
    assert GraphStructure(1, n_labels=3).loss(truth, (truth + 1) % 3) == 1
    assert GraphStructure(1, n_labels=3, normalize=False).loss(truth, (truth + 1) % 3) == 5
    # Too many sums of costs.
    many = GraphStructure(1, n_labels=3, costs=[1.0, np.pi, np.e])
    x, truth = many.encode((np.ones((60, 1)), CYCLE), np.arange(60) % 3)
    assert many.loss_values(x, truth) is None
    with pytest.raises(ValueError, match="60 nodes with 3 labels have too many labelings"):
        many.all_outputs(x)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("surrogate", [Slack(), Slack(search="angular"), BetaScaling(0.5), LogLoss(), ProbLoss()], ids=str)
@pytest.mark.parametrize("name", ["cut", "forest", "messages"])
def test_cuts_are_tangents_of_the_best_labeling_or_have_a_bound(name, surrogate, small, monkeypatch):
    monkeypatch.setattr(graph_module, "is_small", lambda *shape: small)
    rng = np.random.default_rng(3)
    exact = 0
    if surrogate.search == "angular" and not small and name != "cut":
        pytest.skip("integer programs take long; one kind is enough")
    for trial in range(1 if surrogate.search == "angular" and not small else 6):
        structure, x, truth, weights = case(name, rng)
        weights *= 0.3 * (1 + trial % 3)
        problem = StructuredProblem(structure, [x], [truth], surrogate)
        sample = problem.samples[0]
        [cut] = problem.cuts([0], weights)
        values = [0.0]
        for y in product(range(structure.n_labels), repeat=5):
            own = sample.cut(structure, np.array(y))
            values.append(float(surrogate.value(-dot(own.psi, weights), own.loss)) if own.loss else 0.0)
        best = max(values)
        assert cut.hinge(weights) <= best + 1e-8 and cut.upper(weights) >= best - 1e-7
        closed = cut.upper(weights) <= best * (1 + 1e-7) + 1e-8
        exact += closed
        if name != "messages" or small:
            assert closed and cut.hinge(weights) == pytest.approx(best, rel=1e-6, abs=1e-7)
    assert exact > 0


def test_large_graphs_are_bounded_by_the_losses_that_are_possible():
    rng = np.random.default_rng(4)
    n = 90
    edges = np.column_stack([np.arange(n), np.roll(np.arange(n), -1)])
    structure = GraphStructure(2, normalize=False)
    truths = [rng.integers(0, 2, n) for _ in range(3)]
    problem = GraphProblem([(rng.normal(size=(n, 2)), edges) for _ in truths], truths, surrogate="slack", normalize=False)
    assert not structure.can_list(problem.samples[0].x)
    for scale in (0.05, 0.2):
        weights = np.abs(scale * rng.normal(size=problem.n_features))
        for cut in problem.cuts(range(3), weights):
            assert cut.hinge(weights) <= cut.upper(weights) <= cut.hinge(weights) * 1.02
    found = OneSlackCuttingPlane(tol=0.05).solve(problem, 1.0, bounds=problem.bounds)
    assert found.certified


@pytest.mark.parametrize("kind", ["attractive", "symmetric"])
def test_micro_f1_of_nodes_against_enumeration(kind):
    rng = np.random.default_rng(5)
    structure = GraphSetStructure(2, 1, 3 if kind == "symmetric" else 2, kind, outside=1)
    for trial in range(6):
        truth = rng.integers(0, structure.n_labels, 5) if trial else np.ones(5, dtype=int)
        weights = (0.3 + trial) * rng.normal(size=structure.n_weights)
        if kind == "attractive":
            weights[4:] = np.abs(weights[4:])
        problem = StructuredProblem(structure, [(rng.normal(size=(5, 2)), TREE)], [truth], MicroF1())
        sample, values = problem.samples[0], [0.0]
        for y in map(np.array, product(range(structure.n_labels), repeat=5)):
            truths, own = ({(n, k) for n, k in enumerate(z.tolist()) if k != 1} for z in (truth, y))
            assert structure.loss(truth, y) == len(truths ^ own) and structure.set_size(y) == len(own)
            if truths or own:
                cut = sample.cut(structure, y)
                values.append((cut.loss - dot(cut.psi, weights)) / (len(truths) + len(own)))
        [cut] = problem.cuts([0], weights)
        assert cut.hinge(weights) == pytest.approx(max(values), abs=1e-8) == pytest.approx(cut.upper(weights), abs=1e-6)


def test_who_replaces_a_loss_of_graphs_loses_their_lists():
    class Twice(GraphStructure):
        def loss(self, truth, y):
            return 2 * super().loss(truth, y)

    protocols = SupportsKBest, SupportsCone, SupportsListing, SupportsLossValues
    assert not supports(Twice(2, 3), protocols) and all(supports(GraphStructure(2, 3), one) for one in protocols)


def test_bounds_of_a_list_hold_for_a_search_that_finds_little():
    # Of every part the worst labeling is found, and the best one is known as a bound.
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(4, 3))

    def best(allowed):
        low, high = np.where(allowed, scores, np.inf), np.where(allowed, scores, -np.inf)
        return Listed(low.argmin(axis=1), float(low.min(axis=1).sum()), float(high.max(axis=1).sum()))

    found = list(listed_by_parts(best, 4, 3, 100))
    values = {y: sum(row[k] for row, k in zip(scores, y, strict=True)) for y in product(range(3), repeat=4)}
    listed = [tuple(one.labels.tolist()) for one in found]
    assert sorted(listed) == sorted(values)
    for n, one in enumerate(found):
        assert one.upper == pytest.approx(max(value for y, value in values.items() if y not in listed[:n]))
