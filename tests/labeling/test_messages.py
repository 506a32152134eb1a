"""TRW-S and belief propagation against enumeration and against the linear program they bound."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from maxmargin import _core
from maxmargin.labeling import Cliques, Energy, Metric, PnPotts, bp, trws
from maxmargin.labeling.messages import table_shape

KINDS = ["potts", "linear", "truncated", "shared", "own"]


def tables(rng, kind, n_labels, n_edges):
    if kind == "shared":
        return rng.normal(size=(n_labels, n_labels))
    if kind == "own":
        return rng.normal(size=(n_edges, n_labels, n_labels))
    if kind == "truncated":
        return Metric("linear", limit=1.5, scale=0.7)
    return kind


def random_energy(rng, kind, n_nodes=6, n_labels=3, forest=False):
    if forest:
        # Parents in any order, some nodes without one.
        names = rng.permutation(n_nodes)
        edges = [(names[k], names[rng.integers(k)])[:: rng.choice([-1, 1])] for k in range(1, n_nodes) if rng.random() < 0.85]
    else:
        edges = [(a, b)[:: rng.choice([-1, 1])] for a in range(n_nodes) for b in range(a) if rng.random() < 0.6]
    edges = np.array(edges, dtype=np.int32).reshape(-1, 2)
    unary = 2 * rng.normal(size=(n_nodes, n_labels))
    unary[rng.random(unary.shape) < 0.1] = np.inf
    unary[np.isinf(unary).all(axis=1), 0] = 0.5
    signs = rng.normal(size=len(edges)) if kind in ("shared", "own") or rng.random() < 0.3 else rng.random(len(edges))
    return Energy(unary, edges, tables(rng, kind, n_labels, len(edges)), weights=signs)


def least_energy(energy):
    return min(energy.energy(y) for y in product(range(energy.n_labels), repeat=energy.n_nodes))


def relaxed_energy(energy):
    """The least energy over the local polytope, by linear programming."""
    N, L, E = energy.n_nodes, energy.n_labels, len(energy.edges)
    costs = np.concatenate([
        energy.unary.ravel(),
        (energy.weights[:, None, None] * np.broadcast_to(energy.table, (E, L, L))).ravel(),
    ])  # fmt: skip
    forbidden = np.isinf(costs)
    rows, columns, values, right = [], [], [], []

    def equal(entries, value):
        for column, factor in entries:
            rows.append(len(right))
            columns.append(column)
            values.append(factor)
        right.append(value)

    for i in range(N):
        equal([(i * L + k, 1.0) for k in range(L)], 1.0)
    for e, (a, b) in enumerate(energy.edges):
        at = N * L + e * L * L
        for k in range(L):
            equal([(at + k * L + m, 1.0) for m in range(L)] + [(a * L + k, -1.0)], 0.0)
            equal([(at + m * L + k, 1.0) for m in range(L)] + [(b * L + k, -1.0)], 0.0)
    matrix = coo_array((values, (rows, columns)), shape=(len(right), len(costs))).tocsr()
    limits = [(0.0, 0.0 if shut else None) for shut in forbidden]
    return linprog(np.where(forbidden, 0.0, costs), A_eq=matrix, b_eq=right, bounds=limits, method="highs").fun


@pytest.mark.parametrize("kind", KINDS)
def test_bound_below_the_optimum_and_labels_above(kind):
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(25):
        energy = random_energy(rng, kind)
        best = least_energy(energy)
        found = trws(energy, tol=0.0, max_sweeps=300)
        assert found.lower_bound <= best + 1e-9 <= found.energy + 2e-9
        assert found.energy == energy.energy(found.labels) == pytest.approx(min(found.history))
        assert (np.diff(found.bounds) >= 0).all()
        solved += found.energy <= best + 1e-9
        loopy = bp(energy)
        assert loopy.energy >= best - 1e-9 and (loopy.lower_bound is None or loopy.certified)
    assert solved >= 15


def test_the_bound_does_not_fall_before_it_is_mended():
    # The result shows running maxima; the sums themselves rise too.
    rng = np.random.default_rng(1)
    risen = 0
    for k in range(12):
        energy = random_energy(rng, KINDS[k % 5], n_nodes=12, n_labels=4)
        graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
        _, _, bounds, _ = graph.run(energy.unary, energy.table, 3 * energy.weights, *table_shape(energy.table), 60, 0.0)
        assert (np.diff(bounds) >= -1e-9).all()
        risen += bounds[-1] > bounds[0] + 1e-3
    assert risen >= 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [bp, trws])
def test_forests_are_solved_in_one_sweep(kind, method):
    rng = np.random.default_rng(2)
    for _ in range(20):
        energy = random_energy(rng, kind, n_nodes=7, forest=True)
        found = method(energy)
        assert found.certified and len(found.history) == 1 and found.status == "converged"
        assert found.energy == pytest.approx(least_energy(energy), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bound_against_the_linear_program(kind):
    rng = np.random.default_rng(3)
    tight = 0
    for _ in range(12):
        shape = (3, 4)
        unary = rng.normal(size=(*shape, 3))
        unary[0, 0, 1] = np.inf
        pairwise = rng.normal(size=(17, 3, 3)) if kind == "own" else tables(rng, kind, 3, 17)
        plain = Energy.grid(unary, "potts")
        energy = Energy(plain.unary, plain.edges, pairwise, weights=0.6 * rng.random(17))
        relaxed = relaxed_energy(energy)
        found = trws(energy, max_sweeps=3000, tol=1e-12)
        assert found.lower_bound <= relaxed + 1e-7
        if found.energy <= relaxed + 1e-7:
            tight += 1
            assert found.lower_bound == pytest.approx(relaxed, abs=1e-6)
    assert tight >= 6


def test_attractive_pairs_of_labels_are_solved():
    # Two labels with submodular terms: the relaxation has no gap, and TRW-S closes it.
    rng = np.random.default_rng(4)
    for _ in range(10):
        energy = Energy.grid(rng.normal(size=(3, 4, 2)), "potts", weights=rng.random((2, 3, 4)))
        found = trws(energy, max_sweeps=2000, tol=1e-12)
        assert found.energy == pytest.approx(least_energy(energy)) and found.gap < 1e-6
        assert found.labels.shape == (3, 4)


def test_fast_tables_send_the_same_messages():
    rng = np.random.default_rng(5)
    for metric in (Metric("potts", scale=0.8), Metric("linear"), Metric("linear", limit=2.5, scale=0.3)):
        fast = Energy.grid(rng.normal(size=(5, 6, 7)), metric, weights=rng.random((2, 5, 6)))
        assert table_shape(fast.table).kind == metric.kind
        slow = Energy(fast.unary, fast.edges, np.broadcast_to(fast.table, (len(fast.edges), 7, 7)), weights=fast.weights)
        assert table_shape(slow.table).kind == "dense"
        a, b = trws(fast, max_sweeps=20, tol=0.0), trws(slow, max_sweeps=20, tol=0.0)
        np.testing.assert_allclose(a.bounds, b.bounds, atol=1e-9)
    bent = Metric("linear").table(5)
    bent[1, 3] += 1e-3
    assert table_shape(bent).kind == table_shape(-Metric("potts").table(4)).kind == "dense"


def test_edges_turned_around_and_parallel_edges():
    rng = np.random.default_rng(6)
    energy = random_energy(rng, "own", n_nodes=6)
    turned = Energy(energy.unary, energy.edges[:, ::-1].copy(), energy.table.transpose(0, 2, 1), weights=energy.weights)
    np.testing.assert_allclose(trws(energy).bounds, trws(turned).bounds, atol=1e-9)
    twice = Energy(
        energy.unary,
        np.concatenate([energy.edges] * 2),
        np.concatenate([energy.table] * 2),
        weights=np.tile(energy.weights / 2, 2),
    )
    found = trws(twice, max_sweeps=300)
    assert found.lower_bound <= least_energy(energy) + 1e-9 <= found.energy + 2e-9


def test_components_do_not_know_of_each_other():
    # A tree beside a graph with cycles, their nodes in turns.
    rng = np.random.default_rng(9)
    for _ in range(10):
        tree, loopy = random_energy(rng, "own", n_nodes=6, forest=True), random_energy(rng, "own", n_nodes=6)
        both = Energy(
            np.stack([tree.unary, loopy.unary], axis=1).reshape(12, 3),
            np.concatenate([2 * tree.edges, 2 * loopy.edges + 1]),
            np.concatenate([tree.table, loopy.table]),
            weights=np.concatenate([tree.weights, loopy.weights]),
        )
        alone, found = trws(loopy, max_sweeps=50, tol=0.0), trws(both, max_sweeps=50, tol=0.0)
        expected = np.array(alone.bounds) + least_energy(tree)
        shared = min(len(expected), len(found.bounds))
        np.testing.assert_allclose(found.bounds[:shared], expected[:shared], atol=1e-9)
        assert found.energy == pytest.approx(alone.energy + least_energy(tree))


def test_moves_of_forests():
    rng = np.random.default_rng(8)
    solved = 0
    for trial in range(20):
        energy = random_energy(rng, KINDS[trial % 5], n_nodes=7, forest=trial % 4 == 0)
        graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
        start = np.array([rng.choice(np.flatnonzero(np.isfinite(row))) for row in energy.unary], dtype=np.int32)
        kept = start.copy()
        costs = energy.unary, energy.table, energy.weights
        value, labels = graph.descend(*costs, start, 10, 0)
        assert value == pytest.approx(energy.energy(labels)) and value <= energy.energy(start) + 1e-9
        np.testing.assert_array_equal(start, kept)
        best = least_energy(energy)
        solved += value <= best + 1e-9
        if graph.is_forest:
            # All nodes at once.
            assert graph.descend(*costs, start, 1, 0)[0] == pytest.approx(best)
    assert solved >= 17


def test_budgets_starts_and_refusals():
    rng = np.random.default_rng(7)
    energy = Energy.grid(rng.normal(size=(20, 20, 5)), rng.normal(size=(5, 5)))
    assert trws(energy, max_sweeps=2, tol=0.0).status == "max_sweeps"
    assert trws(energy, time_limit=1e-9, tol=0.0).status == "time_limit"

    def stop(energy, bound):
        raise KeyboardInterrupt

    stopped = trws(energy, callback=stop, tol=0.0)
    assert stopped.status == "interrupted" and stopped.energy == energy.energy(stopped.labels) < np.inf
    best = trws(energy)
    again = trws(energy, init=best.labels, max_sweeps=1)
    assert again.energy <= best.energy and again.lower_bound < best.lower_bound
    assert trws(Energy([[3.0, 1.0]])).energy == 1.0 and bp(Energy([[3.0, 1.0]])).certified
    with pytest.raises(ValueError, match="'trws' knows costs of nodes and edges, but the energy has 1 cliques"):
        trws(Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts())))
    for wrong in ({"max_sweeps": 0}, {"tol": -1.0}, {"time_limit": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            bp(energy, **wrong)
