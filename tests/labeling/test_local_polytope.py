"""The linear relaxation of energies against one large linear program, and against enumeration."""

import numpy as np
import pytest
from tests.cases.polytope_cases import CYCLES, TREE, by_enumeration, by_one_program, frustrated

from maxmargin import GraphSVM, _core
from maxmargin._utils import time_limit
from maxmargin.labeling import Marginals, local_polytope, minimize_relaxation


def assert_in_polytope(marginals, edges):
    nodes, pairs = marginals
    assert (nodes >= 0).all() and (pairs >= 0).all()
    np.testing.assert_allclose(nodes.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=2), nodes[edges[:, 0]], atol=1e-12)
    np.testing.assert_allclose(pairs.sum(axis=1), nodes[edges[:, 1]], atol=1e-12)


def relaxation(edges, unary, tables, weights=None, shape=("dense", 0.0, 0.0)):
    messages = _core.MessagePassing(len(unary), unary.shape[1], edges, True)
    return minimize_relaxation(messages, edges, unary, tables, np.ones(len(edges)) if weights is None else weights, shape)


@pytest.mark.parametrize("n_labels", [2, 3, 4])
def test_value_bound_and_point_against_one_program(n_labels):
    rng = np.random.default_rng(0)
    fractional = 0
    for _ in range(8):
        unary, tables = frustrated(rng, n_labels)
        found = relaxation(CYCLES, unary, tables)
        expected = by_one_program(CYCLES, unary, tables)
        assert_in_polytope(found.marginals, CYCLES)
        own = np.vdot(found.marginals.nodes, unary) + np.vdot(found.marginals.pairs, tables)
        assert found.value == pytest.approx(own, abs=1e-12) and found.value == pytest.approx(expected, abs=1e-5)
        assert found.bound <= expected + 1e-9 and found.value - found.bound <= 1e-5
        assert expected <= by_enumeration(CYCLES, unary, tables) + 1e-9
        fractional += ((found.marginals.nodes > 0.01) & (found.marginals.nodes < 0.99)).any()
    assert fractional >= 4


def test_trees_have_the_labels_of_enumeration():
    rng = np.random.default_rng(1)
    for _ in range(10):
        unary, tables = rng.normal(size=(6, 3)), 2 * rng.normal(size=(len(TREE), 3, 3))
        found = relaxation(TREE, unary, tables)
        assert set(np.unique(found.marginals.nodes)) <= {0.0, 1.0}
        assert found.value == pytest.approx(by_enumeration(TREE, unary, tables)) == pytest.approx(found.bound)


def test_shared_table_with_weights_of_any_sign():
    rng = np.random.default_rng(2)
    for _ in range(10):
        unary, weights, potts = rng.normal(size=(6, 3)), 2 * rng.normal(size=len(CYCLES)), 1.0 - np.eye(3)
        found = relaxation(CYCLES, unary, potts, weights, ("potts", 1.0, 1.0))
        expected = by_one_program(CYCLES, unary, weights[:, None, None] * potts)
        assert found.value == pytest.approx(expected, abs=1e-5) and found.bound <= expected + 1e-9


def test_every_price_gives_a_bound_and_high_ones_the_optimum():
    rng = np.random.default_rng(3)
    unary, tables = frustrated(rng, 3)
    expected = by_one_program(CYCLES, unary, tables)
    messages = _core.MessagePassing(6, 3, CYCLES, True)
    costs = unary, tables, np.ones(len(CYCLES)), "dense", 0.0, 0.0
    # A single sweep leaves much to do.
    labels, energies, bounds, _ = messages.run(*costs, 1, 0.0)
    start = local_polytope.Relaxation(Marginals.of_labels(labels, CYCLES, 3), float(energies[0]), float(bounds[0]))
    handed = messages.hand_over(*costs).reshape(len(CYCLES), 2, 3)
    reached = []
    for price in (1e-3, 0.03, 0.1, 30.0):
        search = local_polytope._Search(CYCLES, Marginals(unary, tables), start, handed)
        assert search.best.bound <= expected + 1e-9
        search.at_price(price)
        assert start.bound - 1e-9 <= search.best.bound <= expected + 1e-9 <= search.best.value + 2e-9
        reached.append(search.best.bound)
        # What is left out because of its cost would have changed nothing.
        whole = local_polytope._Search(CYCLES, Marginals(unary, tables), start, handed)
        whole._solve(np.ones(unary.shape, bool), np.ones(tables.shape, bool), price)
        assert whole.best.bound == pytest.approx(search.best.bound, abs=1e-6)
    assert reached[0] < expected - 1e-3 and (np.diff(reached) >= -1e-9).all()
    assert search.best.value == pytest.approx(expected) == pytest.approx(search.best.bound)


def test_what_is_handed_over_changes_no_energy_and_keeps_the_bound():
    rng = np.random.default_rng(4)
    # A component with cycles, a tree, and a node alone.
    edges = np.concatenate([CYCLES, [(6, 7), (8, 7), (7, 9)]]).astype(np.int32)
    unary, tables = rng.normal(size=(11, 3)), rng.normal(size=(len(edges), 3, 3))
    messages = _core.MessagePassing(11, 3, edges, True)
    costs = unary, tables, np.ones(len(edges)), "dense", 0.0, 0.0
    before = messages.run(*costs, 20, 0.0)[2].max()
    handed = messages.hand_over(*costs).reshape(len(edges), 2, 3)
    nodes, pairs = unary.copy(), tables + handed[:, 0, :, None] + handed[:, 1, None, :]
    for (a, b), (first, second) in zip(edges, handed, strict=True):
        nodes[a] -= first
        nodes[b] -= second
    for y in rng.integers(0, 3, (20, 11)):
        old = unary[np.arange(11), y].sum() + tables[np.arange(len(edges)), y[edges[:, 0]], y[edges[:, 1]]].sum()
        new = nodes[np.arange(11), y].sum() + pairs[np.arange(len(edges)), y[edges[:, 0]], y[edges[:, 1]]].sum()
        assert new == pytest.approx(old)
    bound = nodes.min(axis=1).sum() + pairs.min(axis=(1, 2)).sum()
    assert before - 1e-9 <= bound <= by_one_program(edges, unary, tables) + 1e-9


def test_repair_moves_little_and_ends_in_the_polytope():
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 6), rng.integers(0, 3, 6)
    ends = [Marginals.of_labels(labels, CYCLES, 3) for labels in y]
    point = Marginals(*(0.3 * a + 0.7 * b for a, b in zip(*ends, strict=True)))
    noisy = Marginals(*(part + 1e-6 * rng.normal(size=part.shape) for part in point))
    mended = noisy.repaired(CYCLES)
    assert_in_polytope(mended, CYCLES)
    assert all(np.abs(a - b).max() < 1e-4 for a, b in zip(mended, point, strict=True))
    assert all(np.abs(a - b).max() < 1e-15 for a, b in zip(point.repaired(CYCLES), point, strict=True))


def test_programs_end_when_the_run_does(monkeypatch):
    """They get what is left of its time; without any there is a bound that holds, and a point, all the same."""
    unary, tables = frustrated(np.random.default_rng(0), 3)
    asked, solve = [], local_polytope.linprog

    def watched(*args, options, **others):
        asked.append(options.get("time_limit"))
        return solve(*args, options=options, **others)

    monkeypatch.setattr(local_polytope, "linprog", watched)
    expected = relaxation(CYCLES, unary, tables)
    assert asked and set(asked) == {None}
    asked.clear()
    with time_limit(50.0):
        assert relaxation(CYCLES, unary, tables).value == expected.value
    assert asked and all(40 < one <= 50 for one in asked)
    asked.clear()
    with time_limit(1e-9):
        found = relaxation(CYCLES, unary, tables)
    assert not asked
    assert_in_polytope(found.marginals, CYCLES)
    assert found.bound < expected.bound + 1e-9 and expected.value - 1e-9 < found.value


def test_training_tells_programs_when_to_end(monkeypatch):
    rng, asked, solve = np.random.default_rng(0), [], local_polytope.linprog

    def watched(*args, options, **others):
        asked.append(options.get("time_limit"))
        return solve(*args, options=options, **others)

    monkeypatch.setattr(local_polytope, "linprog", watched)
    X = [(rng.normal(size=(6, 2)), CYCLES, np.ones((len(CYCLES), 1))) for _ in range(4)]
    y = [rng.integers(0, 3, 6) for _ in X]
    GraphSVM(C=10, pairwise="symmetric", inference="relaxed", time_limit=100.0).fit(X, y)
    assert asked and all(one is not None and 0 < one <= 100 for one in asked[:1])
    asked.clear()
    GraphSVM(C=10, pairwise="symmetric", inference="relaxed").fit(X, y)
    assert asked and set(asked) == {None}
