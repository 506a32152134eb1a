"""Messages and descents on energies of either sign: never behind other searches, and near the least energy."""

import numpy as np
import pytest

from maxmargin import _core
from maxmargin.labeling import Cliques, Energy, PnPotts, bp, minimize, trws
from maxmargin.labeling.descents import ForestSearch, _Changes, descent
from maxmargin.labeling.elimination import elimination
from maxmargin.labeling.messages import table_shape


def grid(rng, side, n_labels):
    return Energy.grid(rng.normal(size=(side, side, n_labels)), "potts", weights=rng.choice([-3.0, 3.0], size=(2, side, side)))


def sparse(rng, n_nodes, n_labels, degree=4):
    edges = rng.integers(0, n_nodes, size=(degree * n_nodes // 2, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return Energy(rng.normal(size=(n_nodes, n_labels)), edges, rng.normal(size=(len(edges), n_labels, n_labels)))


def colouring(rng, n_nodes, n_labels, degree=4):
    edges = sparse(rng, n_nodes, n_labels, degree).edges
    return Energy(0.1 * rng.random((n_nodes, n_labels)), edges, np.eye(n_labels))


def search_of_decoding(energy):
    graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
    search = ForestSearch(graph, energy.unary, energy.table, energy.weights, table_shape(energy.table))
    search.run()
    return search.energy


def iterated_modes(energy, n_starts):
    graph, rng = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, False), np.random.default_rng(0)
    starts = rng.integers(0, energy.n_labels, size=(n_starts, energy.n_nodes)).astype(np.int32)
    return min(graph.descend(energy.unary, energy.table, energy.weights, start, 0, 0)[0] for start in starts)


CASES = [
    (grid, 6, 2),
    (grid, 12, 3),
    (grid, 25, 4),
    (grid, 40, 2),
    (sparse, 20, 4),
    (sparse, 300, 3),
    (colouring, 60, 3),
    (colouring, 500, 4),
]


@pytest.mark.parametrize(("make", "size", "n_labels"), CASES)
def test_never_behind_other_searches(make, size, n_labels):
    rng = np.random.default_rng(0)
    for _ in range(2 if size < 100 else 1):
        energy = make(rng, size, n_labels)
        found = minimize(energy)
        others = [search_of_decoding(energy), bp(energy).energy, iterated_modes(energy, 20), trws(energy).energy]
        assert found.method in ("exhaustive", "elimination", "descent")
        assert found.energy <= min(others) + 1e-9
        assert found.energy == energy.energy(found.labels) and found.lower_bound <= found.energy


@pytest.mark.parametrize(
    ("make", "size", "n_labels"), [(grid, 10, 2), (grid, 9, 3), (grid, 6, 5), (sparse, 30, 3), (colouring, 30, 3)]
)
def test_within_two_percent_of_the_least_energy(make, size, n_labels):
    rng = np.random.default_rng(1)
    for _ in range(3):
        energy = make(rng, size, n_labels)
        least = elimination(energy)
        found = descent(energy)
        assert least.certified
        assert least.energy - 1e-9 <= found.energy <= least.energy + 0.02 * abs(least.energy)
        assert found.lower_bound <= least.energy + 1e-9


def test_small_energies_equal_enumeration():
    rng = np.random.default_rng(2)
    for trial in range(30):
        energy = (sparse, colouring)[trial % 2](rng, 7, 3)
        unary = np.where(rng.random(energy.unary.shape) < 0.2, np.inf, energy.unary)
        unary[np.isinf(unary).all(axis=1), 1] = 0.5
        energy = energy.replaced(unary=unary)
        found, least = descent(energy), minimize(energy, "exhaustive")
        assert found.energy == pytest.approx(least.energy, abs=1e-9)
        assert found.lower_bound <= least.energy + least.rounding


def test_parts_of_two_labelings_are_chosen_apart():
    rng = np.random.default_rng(3)
    mixed = 0
    for trial in range(20):
        energy = (sparse(rng, 60, 3), grid(rng, 8, 3))[trial % 2]
        changes = _Changes(energy, rng)
        labels = rng.integers(0, 3, energy.n_nodes).astype(np.int32)
        other = np.where(rng.random(energy.n_nodes) < 0.15, rng.integers(0, 3, energy.n_nodes), labels).astype(np.int32)
        best = changes.best_parts(labels, other)
        if best is None:
            continue
        assert energy.energy(best) < energy.energy(labels) and energy.energy(best) <= energy.energy(other) + 1e-9
        mixed += energy.energy(best) < energy.energy(other) - 1e-9
    assert mixed > 10
    assert changes.best_parts(labels, labels.copy()) is None


def test_changed_labels_are_allowed_ones():
    rng = np.random.default_rng(4)
    energy = sparse(rng, 50, 4)
    energy = energy.replaced(unary=np.where(np.arange(4) == rng.integers(0, 4, (50, 1)), np.inf, energy.unary))
    changes, labels = _Changes(energy, rng), energy.unary.argmin(axis=1).astype(np.int32)
    shares = []
    for _ in range(200):
        new = changes.changed(labels)
        assert np.isfinite(energy.energy(new))
        shares.append(np.mean(new != labels))
    assert min(shares) < 0.1 and max(shares) > 0.5


def test_budgets_starts_and_refusals():
    rng = np.random.default_rng(5)
    energy = grid(rng, 16, 5)
    start = energy.unary.argmin(axis=1)
    late = minimize(energy, time_limit=1e-9)
    assert late.method == "descent" and late.status == "time_limit"
    assert late.energy == energy.energy(late.labels) <= energy.energy(start) and late.lower_bound <= late.energy
    assert minimize(energy, max_sweeps=1).status == "max_sweeps"
    seen = []

    def stop(value, bound):
        seen.append(value)
        if len(seen) == 5:
            raise KeyboardInterrupt

    stopped = minimize(energy, callback=stop)
    assert stopped.status == "interrupted" and stopped.energy == min(seen) == energy.energy(stopped.labels)
    assert stopped.history == sorted(stopped.history, reverse=True)
    best = minimize(energy)
    assert best.status == "converged" and not best.certified
    np.testing.assert_array_equal(minimize(energy).labels, best.labels)
    assert minimize(energy, init=best.labels, time_limit=1e-9).energy <= best.energy
    assert minimize(energy, random_state=7, patience=3).energy <= search_of_decoding(energy) + 1e-9
    with pytest.raises(ValueError, match="patience=0 must be an integer of at least 1"):
        minimize(energy, patience=0)
    with pytest.raises(ValueError, match="'descent' knows costs of nodes and edges, but the energy has 1 cliques"):
        descent(Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts())))


@pytest.mark.parametrize("scale", [1e-150, 1e6, 1e150])
def test_descents_at_every_scale(scale):
    rng = np.random.default_rng(6)
    plain = sparse(rng, 25, 3)
    least = elimination(plain).energy
    for offset in (0.0, 1e9):
        energy = Energy(scale * (plain.unary + offset), plain.edges, scale * plain.table, weights=plain.weights)
        found = descent(energy)
        assert plain.energy(found.labels) == pytest.approx(least, abs=1e-5)
        assert found.lower_bound <= found.energy


def test_metrics_keep_their_moves():
    rng = np.random.default_rng(7)
    unary = rng.random((12, 12, 4))
    attractive = np.broadcast_to(1.0 - np.eye(4), (264, 4, 4)).copy()
    assert minimize(Energy.grid(unary, "potts")).method == "expansion"
    assert minimize(Energy.grid(unary, attractive)).method == "expansion"
    attractive[263] *= -1.0
    assert minimize(Energy.grid(unary, attractive)).method == "descent"
