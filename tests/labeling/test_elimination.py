"""Elimination of nodes against enumeration, a dynamic program over grids, and an integer program."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from maxmargin.labeling import Cliques, Energy, PnPotts, minimize
from maxmargin.labeling import elimination as module
from maxmargin.labeling.elimination import elimination, elimination_order


def least_energy(energy):
    return min(energy.energy(y) for y in product(range(energy.n_labels), repeat=energy.n_nodes))


def random_energy(rng, n_nodes, n_labels, kind="own", density=0.5):
    edges = [(a, b)[:: rng.choice([-1, 1])] for a in range(n_nodes) for b in range(a) if rng.random() < density]
    edges += edges[:1]  # parallel
    unary = rng.normal(size=(n_nodes, n_labels))
    table = {
        "own": lambda: rng.normal(size=(len(edges), n_labels, n_labels)),
        "shared": lambda: rng.normal(size=(n_labels, n_labels)),
        "ties": lambda: rng.integers(-1, 2, size=(len(edges), n_labels, n_labels)),
        "zero": lambda: np.zeros((n_labels, n_labels)),
    }[kind]()
    if kind == "ties":
        unary = rng.integers(0, 2, size=unary.shape)
    return Energy(unary, np.array(edges).reshape(-1, 2), table, weights=rng.choice([-1.0, 0.5, 2.0], size=len(edges)))


def frontier(energy, weights):
    """Least energy of a grid, pixel by pixel: costs of the labels of the last row's length of pixels."""
    (height, width), L = energy.shape, energy.n_labels
    unary, differs = energy.unary.reshape(height, width, L), 1.0 - np.eye(L)
    costs = np.zeros((L,) * width)
    for r, c in product(range(height), range(width)):
        costs = np.moveaxis(costs, c, -1)
        up = weights[1, r - 1, c] if r else 0.0
        costs = np.stack([(costs + up * differs[:, k]).min(axis=-1) for k in range(L)], axis=-1) + unary[r, c]
        costs = np.moveaxis(costs, -1, c)
        if c:
            shape = [1] * width
            shape[c - 1] = shape[c] = L
            costs = costs + (weights[0, r, c - 1] * differs).reshape(shape)
    return float(costs.min())


def integer_program(energy):
    """Least energy by branch and bound over the local polytope."""
    N, L, E = energy.n_nodes, energy.n_labels, len(energy.edges)
    tables = energy.weights[:, None, None] * np.broadcast_to(energy.table, (E, L, L))
    rows, columns, values, right = [], [], [], []
    for s in range(N):
        for k in range(L):
            rows, columns, values = [*rows, len(right)], [*columns, s * L + k], [*values, 1.0]
        right.append(1.0)
    for e, ends in enumerate(energy.edges.tolist()):
        for side, k in product(range(2), range(L)):
            entries = [N * L + (e * L + (k if side == 0 else j)) * L + (j if side == 0 else k) for j in range(L)]
            rows += [len(right)] * (L + 1)
            columns += [*entries, ends[side] * L + k]
            values += [1.0] * L + [-1.0]
            right.append(0.0)
    size = N * L + E * L * L
    matrix = coo_array((values, (rows, columns)), shape=(len(right), size)).tocsr()
    integral = np.zeros(size)
    integral[: N * L] = 1
    costs = np.concatenate([energy.unary.ravel(), tables.ravel()])
    return milp(costs, constraints=LinearConstraint(matrix, right, right), integrality=integral, bounds=Bounds(0, 1)).fun


@pytest.mark.parametrize("kind", ["own", "shared", "ties", "zero"])
def test_elimination_equals_enumeration(kind):
    rng = np.random.default_rng(0)
    for trial in range(25):
        n_labels = int(rng.integers(1, 4))
        # Sparse ones have isolated nodes and several components.
        energy = random_energy(rng, int(rng.integers(1, 7)), n_labels, kind, density=[0.2, 0.6, 1.0][trial % 3])
        found = elimination(energy)
        assert found.energy == pytest.approx(least_energy(energy), abs=1e-9)
        assert found.certified and found.lower_bound == found.energy == energy.energy(found.labels)
        assert found.guarantee == 1.0 and found.status == "converged"


def test_forbidden_labels_take_no_memory(monkeypatch):
    rng = np.random.default_rng(1)
    for _ in range(20):
        energy = random_energy(rng, 6, 3)
        unary = np.where(rng.random((6, 3)) < 0.4, np.inf, energy.unary)
        unary[np.isinf(unary).all(axis=1), 0] = 1.0
        energy = energy.replaced(unary=unary)
        assert elimination(energy).energy == pytest.approx(least_energy(energy), abs=1e-9)
    # A complete graph in which only three nodes have a choice.
    unary = np.full((60, 40), np.inf)
    unary[:, 7] = 0.0
    unary[:3, :2] = rng.random((3, 2))
    edges = np.stack(np.triu_indices(60, 1), axis=1)
    energy = Energy(unary, edges, rng.normal(size=(40, 40)))
    assert elimination(energy).certified
    monkeypatch.setattr(module, "MAX_ENTRIES", 3**3 - 1)
    assert elimination_order(energy) is None


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_elimination_at_every_scale(scale, offset):
    rng = np.random.default_rng(2)
    for _ in range(5):
        plain = random_energy(rng, 6, 3)
        best = minimize(plain, "exhaustive").labels
        energy = Energy(scale * (plain.unary + offset), plain.edges, scale * plain.table, weights=plain.weights)
        found = elimination(energy)
        np.testing.assert_array_equal(found.labels, best)
        assert found.certified and found.lower_bound <= found.energy


def test_one_huge_cost_loses_no_digits():
    rng = np.random.default_rng(3)
    for huge in (1e9, 1e15):
        plain = random_energy(rng, 6, 3)
        unary = plain.unary.copy()
        unary[2, 1] += huge
        energy = plain.replaced(unary=unary)
        assert plain.energy(elimination(energy).labels) == pytest.approx(plain.energy(minimize(energy, "exhaustive").labels))


@pytest.mark.parametrize("n_labels", [2, 3])
def test_grids_of_either_sign_are_solved(n_labels):
    rng = np.random.default_rng(4)
    for _ in range(3 if n_labels == 2 else 2):
        weights = rng.choice([-3.0, 3.0], size=(2, 10, 10))
        energy = Energy.grid(rng.normal(size=(10, 10, n_labels)), "potts", weights=weights)
        found = minimize(energy)
        assert found.method == "elimination" and found.certified and found.labels.shape == (10, 10)
        assert found.energy == pytest.approx(frontier(energy, weights), abs=1e-9)


def test_sparse_graphs_equal_an_integer_program():
    rng = np.random.default_rng(5)
    for _ in range(3):
        edges = rng.integers(0, 20, size=(30, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
        energy = Energy(rng.normal(size=(20, 3)), edges, rng.normal(size=(len(edges), 3, 3)))
        found = minimize(energy)
        assert found.method == "elimination"
        assert found.energy == pytest.approx(integer_program(energy), abs=1e-6)


def test_orders_keep_the_bounds(monkeypatch):
    strip = Energy.grid(np.zeros((200, 4, 2)), "potts")
    for entries, solvable in ((2**5, True), (2**4, False)):
        monkeypatch.setattr(module, "MAX_ENTRIES", entries)
        assert (elimination_order(strip) is not None) == solvable
    monkeypatch.setattr(module, "MAX_ENTRIES", 2**22)
    monkeypatch.setattr(module, "_MAX_TOTAL", 2000)
    assert elimination_order(strip) is None
    with pytest.raises(ValueError, match="small tree-width, choose 'descent' or 'trws'"):
        minimize(strip, "elimination")


def test_stopped_eliminations_claim_nothing(monkeypatch):
    rng = np.random.default_rng(6)
    energy = Energy.grid(rng.normal(size=(9, 9, 3)), "potts", weights=rng.normal(size=(2, 9, 9)))
    late = minimize(energy, time_limit=1e-9)
    assert late.status == "time_limit" and late.lower_bound is None and not late.certified and late.guarantee is None
    assert late.energy == energy.energy(late.labels) <= energy.energy(energy.unary.argmin(axis=1))
    best = minimize(energy)
    assert minimize(energy, init=best.labels, time_limit=1e-9).energy <= best.energy

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_eliminate", stop)
    stopped = minimize(energy)
    assert stopped.status == "interrupted" and not stopped.certified
    with pytest.raises(ValueError, match="'elimination' knows costs of nodes and edges, but the energy has 1 cliques"):
        minimize(Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts())), "elimination")
