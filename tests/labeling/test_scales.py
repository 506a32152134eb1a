"""What is proved, and what is called converged, must not depend on the unit of costs, nor on what all labelings cost."""

import numpy as np
import pytest

from maxmargin.labeling import Cardinality, Cliques, Diameter, Energy, FunctionDiversity, Metric, PnPotts, minimize, trws
from maxmargin.labeling.spreads import Spreads

ALL_PAIRS = [(i, j) for i in range(5) for j in range(i)]


def any_tables(rng, scale=1.0):
    return scale * rng.normal(size=(5, 3)), ALL_PAIRS, scale * rng.normal(size=(10, 3, 3))


@pytest.mark.parametrize("scale", [1e-200, 1e-10, 1.0, 1e100])
def test_certificates_at_every_scale(scale):
    for seed in range(30):
        energy = Energy(*any_tables(np.random.default_rng(seed), scale))
        found, least = minimize(energy, "trws"), minimize(energy, "exhaustive").energy
        assert found.lower_bound <= least + 1e-12 * scale
        assert not found.certified or found.energy <= least + 1e-12 * scale
        assert found.certified == minimize(Energy(*any_tables(np.random.default_rng(seed))), "trws").certified


@pytest.mark.parametrize(("on_nodes", "on_edges"), [(1e9, 0.0), (-1e12, 0.0), (0.0, 1e9), (1e7, -1e10)])
def test_certificates_beside_large_constants(on_nodes, on_edges):
    n_certified = 0
    for seed in range(40):
        unary, edges, tables = any_tables(np.random.default_rng(seed))
        unary, tables = unary + on_nodes, tables + on_edges
        # What is left of the costs in this precision, exactly.
        plain = Energy(unary - on_nodes, edges, tables - on_edges)
        seen = []
        found = minimize(Energy(unary, edges, tables), "trws", callback=lambda *values, seen=seen: seen.append(values))
        least = minimize(plain, "exhaustive").energy
        assert not found.certified or plain.energy(found.labels) <= least + 1e-12
        assert found.gap >= plain.energy(found.labels) - least - 1e-12
        n_certified += found.certified
        constant = 5 * on_nodes + 10 * on_edges
        assert found.energy == pytest.approx(constant + plain.energy(found.labels), rel=1e-12)
        assert found.bounds[-1] == pytest.approx(constant, rel=1e-6) and seen[-1][0] == pytest.approx(found.energy, rel=1e-12)
    assert n_certified > 5


@pytest.mark.parametrize("method", ["expansion", "swap", "cooccurrence", "parsimonious"])
@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e6])
def test_moves_at_every_scale(method, scale):
    edges = [(i, (i + 1) % 7) for i in range(7)]
    start = {"init": "unary"} if method != "parsimonious" else {"refine": False}
    n_better = 0
    for seed in range(10):
        unary = np.random.default_rng(seed).random((7, 3))

        def energy(scale, constant, unary=unary):
            cliques = Cliques([[0, 1, 2, 3], [3, 4, 5]], PnPotts(0.3 * scale))
            costs = scale * unary + constant * np.arange(1, 8)[:, None]
            return Energy(costs, edges, "potts", weights=0.2 * scale, cliques=cliques)

        at_one = minimize(energy(1.0, 0.0), method, random_state=0, **start)
        n_better += at_one.energy < energy(1.0, 0.0).energy(unary.argmin(axis=1))
        np.testing.assert_array_equal(minimize(energy(scale, 0.0), method, random_state=0, **start).labels, at_one.labels)
        far = minimize(energy(1.0, 1e9), method, random_state=0, **start)
        np.testing.assert_allclose(far.energy, at_one.energy + 28e9, rtol=1e-14)
        assert energy(1.0, 0.0).energy(far.labels) <= at_one.energy + 1e-5
    assert n_better > 5


def test_expansion_keeps_its_guarantee_at_small_scales():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        edges = [(i, j) for i in range(7) for j in range(i)]
        energy = Energy(1e-12 * rng.random((7, 3)), edges, "potts", weights=1e-12 * rng.random())
        unary, pairs, _ = energy.parts(minimize(energy, "exhaustive").labels)
        found = minimize(energy, "expansion", init=rng.integers(0, 3, 7))
        assert found.energy <= (unary + found.guarantee * pairs) * (1 + 1e-9)


def test_guarantees_beside_negative_constants_of_edges():
    rng = np.random.default_rng(0)
    energy = Energy(rng.random((4, 3)), [(0, 1), (1, 2), (2, 3), (3, 0)], 1.0 - np.eye(3) - 1e6)
    assert minimize(energy, "expansion").guarantee is None


def test_two_labels_are_certified_over_many_decades():
    """Infinite costs leave few of the others, so that rounding to a part of the largest would be seen."""
    for seed in range(300):
        rng = np.random.default_rng(seed)
        unary = 10.0 ** rng.uniform(-6, 6, (6, 2))
        unary[rng.random(6) < 0.4, rng.integers(2)] = np.inf
        edges = [(i, j) for i in range(6) for j in range(i) if rng.random() < 0.6]
        weights = 10.0 ** rng.uniform(-6, 6, len(edges))
        energy = Energy(unary, edges, "potts", weights=weights)
        found = minimize(energy, "mincut")
        assert found.certified and found.energy == pytest.approx(minimize(energy, "exhaustive").energy, rel=1e-14)
        bound = minimize(energy, "trws").lower_bound
        assert bound <= found.energy


def test_one_huge_cost_does_not_blur_the_others():
    rng = np.random.default_rng(0)
    unary = rng.random((400, 2)).reshape(20, 20, 2)
    unary[0, 0] = [0, 1e15]
    found = minimize(Energy.grid(unary, "potts", weights=0.3), "mincut")
    unary[0, 0] = [0, 1e3]
    np.testing.assert_array_equal(found.labels, minimize(Energy.grid(unary, "potts", weights=0.3), "mincut").labels)
    assert found.certified


@pytest.mark.parametrize("low", [0.0, 14.0])
@pytest.mark.parametrize("faint", [1e-18, 1e-40, 1e-300])
def test_nodes_with_next_to_nothing_around_them(low, faint):
    """Pixels of a strong contrast to all neighbours: their cheapest labels are not to be taken for ties."""
    rng = np.random.default_rng(0)
    unary = 10 * rng.random((8, 9, 2))
    unary[3, 4], unary[6, 2] = [low + 5, low], [low, low + 7]
    weights = rng.random((2, 8, 9))
    for r, c in ((3, 4), (6, 2)):
        weights[:, r, c] = weights[0, r, c - 1] = weights[1, r - 1, c] = faint
    energy = Energy.grid(unary, "potts", weights=weights)
    found = minimize(energy, "mincut")
    assert found.labels[3, 4] == 1 and found.labels[6, 2] == 0
    assert found.certified and found.energy <= minimize(energy, "expansion").energy + 1e-9


@pytest.mark.parametrize("huge", [1e9, 1e15, np.inf])
def test_moves_beside_one_huge_cost(huge):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        unary = rng.random((6, 3))
        node, label = rng.integers(6), rng.integers(3)
        unary[node, label] = huge
        edges = [(i, j) for i in range(6) for j in range(i) if rng.random() < 0.6]
        energy = Energy(unary, edges, "potts", weights=rng.random(len(edges)))
        parts = energy.parts(minimize(energy, "exhaustive").labels)
        for method in ("expansion", "parsimonious"):
            found = minimize(energy, method, random_state=0)
            assert found.energy <= parts[0] + found.guarantee * parts[1] + 1e-9
        if huge < np.inf:
            start = unary.argmin(axis=1)
            start[node] = label
            assert minimize(energy, "expansion", init=start).history[0] > huge / 2


def test_costs_whose_sums_overflow():
    for energy in (Energy(np.full((4, 3), 1e308), [(0, 1)], "potts"), Energy(np.eye(3), [(0, 1)], "potts", weights=1.5e308)):
        for method in ("auto", "expansion", "trws", "exhaustive", "cooccurrence"):
            with pytest.raises(ValueError, match="so large that sums of them overflow"):
                minimize(energy, method)


def test_functions_that_are_no_diversities():
    steep = FunctionDiversity(lambda labels: float(len(labels) - 1) ** 4)
    with pytest.raises(ValueError, match="the function is no diversity: cost"):
        Energy(np.zeros((4, 4)), cliques=Cliques([[0, 1, 2, 3]], steep))
    # Too many labels to look at all sets: nothing is promised, but for kinds that are known.
    unary = np.random.default_rng(0).random((4, 9))
    for cost, known in ((steep, False), (Cardinality(), True), (Diameter(Metric("linear", limit=2)), True)):
        energy = Energy(unary, cliques=Cliques([[0, 1, 2, 3]], cost, weights=0.3))
        assert (minimize(energy, "parsimonious", random_state=0).guarantee is not None) == known
    flat = FunctionDiversity(lambda labels: float(len(labels) - 1))
    energy = Energy(unary[:, :4], cliques=Cliques([[0, 1, 2, 3]], flat, weights=0.3))
    assert minimize(energy, "parsimonious", random_state=0).guarantee is not None


def test_the_range_of_costs_follows_the_table():
    energy = Energy(np.zeros((2, 2)), [(0, 1)], np.array([[0.0, 3.0], [2.0, -1.0]]))
    assert [float(end) for end in energy.table_range] == [-1.0, 3.0]
    other = energy.replaced(table=np.array([[0.0, 50.0], [40.0, 0.0]]))
    assert [float(end) for end in other.table_range] == [0.0, 50.0]
    assert Spreads.of(other).edges == [50.0]


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_no_bound_exceeds_an_energy(offset):
    """Trees, whose bounds meet the energy up to rounding."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        unary = rng.normal(size=(8, 3)) + offset * rng.random((8, 1))
        found = trws(Energy(unary, [(i, i + 1) for i in range(7)], rng.random((3, 3))))
        assert max(found.bounds) <= min(found.energy, *found.history)
