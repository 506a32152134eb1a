"""Expansion moves with bounds for cliques: bounds hold for every move, moves are the best of the bounds, energies fall."""

import itertools

import numpy as np
import pytest
from tests.cases.clique_cases import COSTS, all_labelings, least, random_edges, random_energy

from maxmargin.labeling import Cardinality, Cliques, Diameter, Energy, Metric, PnPotts, cooccurrence
from maxmargin.labeling.clique_moves import Terms
from maxmargin.labeling.cooccurrence_moves import Expander


def bounded(expander, labels, alpha, moved):
    """Change of the bound by a move, term by term from its definition, pairs that are not submodular aside."""
    energy = expander.energy
    after = np.where(moved, alpha, labels)
    bare = energy.replaced(cliques=())
    total = bare.energy(after) - bare.energy(labels)
    some_move, some_stay, label_stays = expander.bounds(alpha)
    row = 0
    for some in energy.cliques:
        for k in range(len(some)):
            nodes = some[k]
            movable = nodes[labels[nodes] != alpha]
            cost = some_move[row] if moved[movable].any() else 0.0
            if len(movable) and moved[movable].all():
                cost -= some_stay[row]
            for label in set(labels[movable].tolist()) if label_stays is not None else ():
                if moved[nodes[labels[nodes] == label]].all():
                    cost -= label_stays[row, label]
            total += some.weights[k] * cost
            row += 1
    return total


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("seed", range(15))
def test_moves_are_the_best_of_a_bound_that_holds(kind, seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, kind)
    expander = Expander(energy)
    labels = rng.integers(0, energy.n_labels, energy.n_nodes)
    now = energy.energy(labels)
    for alpha in range(energy.n_labels):
        change, after = expander.expand(labels, alpha)
        moves = [np.array(t) & (labels != alpha) for t in itertools.product([False, True], repeat=energy.n_nodes)]
        bounds = np.array([bounded(expander, labels, alpha, t) for t in moves])
        truths = np.array([energy.energy(np.where(t, alpha, labels)) - now for t in moves])
        assert (bounds >= truths - 1e-9).all()
        assert bounds[0] == 0
        assert change == pytest.approx(bounds.min(), abs=1e-9)
        assert energy.energy(after) - now <= change + 1e-9
        if kind == "potts":
            assert change == pytest.approx(truths.min(), abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_moves_of_any_tables_are_bounded(seed):
    """Tables of every edge that are no metric: what is not submodular is bounded, the rest is exact."""
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, "linear", pairwise="any").replaced(cliques=())
    labels = rng.integers(0, energy.n_labels, energy.n_nodes)
    proposal = rng.integers(0, energy.n_labels, energy.n_nodes)
    change, moved = Terms.of(energy).best_move(labels, proposal, np.zeros(0), np.zeros(0), None)

    def bound(t):
        total = energy.unary[np.arange(len(t)), np.where(t, proposal, labels)].sum()
        for e, (a, b) in enumerate(energy.edges):
            cost = [
                [energy.weights[e] * energy.table[e, i, j] for j in (labels[b], proposal[b])] for i in (labels[a], proposal[a])
            ]
            if labels[a] != proposal[a] and labels[b] != proposal[b]:
                lack = max(0.0, cost[0][0] + cost[1][1] - cost[0][1] - cost[1][0])
                cost[0][1] += lack / 2
                cost[1][0] += lack / 2
            total += cost[int(t[a])][int(t[b])]
        return total

    moves = [np.array(t) for t in itertools.product([False, True], repeat=energy.n_nodes)]
    assert change == pytest.approx(min(map(bound, moves)) - bound(moves[0]), abs=1e-9)
    assert energy.energy(np.where(moved, proposal, labels)) <= energy.energy(labels) + 1e-9


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("seed", range(5))
def test_energies_fall_to_a_fixed_point(kind, seed):
    rng = np.random.default_rng(100 + seed)
    energy = random_energy(rng, kind)
    found = cooccurrence(energy, random_state=seed)
    assert found.energy == pytest.approx(energy.energy(found.labels))
    assert (np.diff(found.history) < 0).all()
    assert found.status == "converged"
    assert not found.certified
    assert found.guarantee is None
    assert energy.energy(least(energy)) <= found.energy + 1e-9
    again = cooccurrence(energy, init=found.labels)
    assert again.history == [found.energy]


def test_two_labels_and_pairs_are_exact():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        energy = Energy(rng.uniform(0, 2, (6, 2)), random_edges(rng, 6), "potts")
        assert cooccurrence(energy).energy == pytest.approx(energy.energy(least(energy)))


def test_both_starts_are_tried():
    """Heavy cliques need the best constant labeling, light ones the cheapest labels."""
    rng = np.random.default_rng(0)
    unary = rng.uniform(0, 1, (8, 8, 5))
    for weight, start in ((10.0, "constant"), (0.01, "unary"), (0.01, unary.argmin(axis=2))):
        energy = Energy.grid(unary, "potts", weights=0.0, cliques=Cliques.windows((8, 8), 4, Diameter("linear"), weight))
        found = cooccurrence(energy)
        assert found.labels.shape == (8, 8)
        assert found.energy <= cooccurrence(energy, init=start).energy


def test_forbidden_labels():
    unary = np.array([[0.0, np.inf, 5], [np.inf, 0, 5], [1, 1, 9]])
    energy = Energy(unary, cliques=Cliques([[0, 1, 2]], Cardinality(), 3.0))
    assert cooccurrence(energy).energy == energy.energy(least(energy)) == 4.0
    energy = Energy(unary, cliques=Cliques([[0, 1, 2]], Cardinality(), 20.0))
    assert cooccurrence(energy).energy == energy.energy(least(energy)) == 19.0


def test_single_nodes_labels_and_no_cliques():
    assert cooccurrence(Energy([[3.0]])).energy == 3
    energy = Energy([[3.0, 1.0]], cliques=Cliques([[0]], PnPotts(2.0, [0.0, 2.0])))
    assert cooccurrence(energy).energy == 3


def test_limits():
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.uniform(0, 1, (8, 8, 5)), "potts", cliques=Cliques.windows((8, 8), 3, Cardinality(), 0.1))
    assert cooccurrence(energy, time_limit=1e-9).status == "time_limit"
    assert cooccurrence(energy, max_sweeps=1).status == "max_sweeps"
    seen = []

    def stop(value, bound):
        seen.append(value)
        if len(seen) == 2:
            raise KeyboardInterrupt

    found = cooccurrence(energy, callback=stop)
    assert found.status == "interrupted"
    assert found.energy == pytest.approx(min(seen))


def test_bad_input_is_named():
    class Odd:
        def check(self, n_labels, n_cliques):
            pass

        def of(self, present):
            return np.zeros(len(present))

    with pytest.raises(TypeError, match=r"cliques\[0\] costs by Odd"):
        cooccurrence(Energy(np.zeros((2, 2)), cliques=Cliques([[0, 1]], Odd())))
    with pytest.raises(ValueError, match="init has label 7"):
        cooccurrence(Energy(np.zeros((2, 2))), init=[0, 7])
    with pytest.raises(ValueError, match="time_limit=0"):
        cooccurrence(Energy(np.zeros((2, 2))), time_limit=0)


def test_enumeration_agrees_on_a_line():
    energy = Energy([[0, 3, 9], [3, 0, 9], [9, 7, 8]], cliques=Cliques([[0, 1, 2]], Diameter(Metric("linear")), 2.0))
    assert min(map(energy.energy, all_labelings(3, 3))) == cooccurrence(energy).energy == 9
