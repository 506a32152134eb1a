"""Mixtures of trees: chosen by the energy itself, better with more trees, within the proved factor, the same in threads."""

import numpy as np
import pytest
from tests.cases.clique_cases import COSTS, keeps_promise, least, random_cliques, random_cost, random_edges, random_energy

from maxmargin.labeling import Cardinality, Cliques, Diameter, Energy, Metric, cooccurrence, minimize, parsimonious
from maxmargin.labeling.clique_moves import Clock
from maxmargin.labeling.cooccurrence_moves import Expander
from maxmargin.labeling.hierarchical_moves import fuse_tree
from maxmargin.labeling.parsimonious_moves import Surrogate, sample_trees


def lattice(seed, side=9, n_labels=8, limit=4.0, weight=1.0, window=3, pairwise=0.0):
    rng = np.random.default_rng(seed)
    cliques = Cliques.windows((side, side), window, Diameter(Metric("linear", limit=limit)), weight)
    return Energy.grid(
        rng.uniform(0, 20, (side, side, n_labels)), Metric("linear", limit=limit), weights=pairwise, cliques=cliques
    )


@pytest.mark.parametrize("tree", ["refitted", "rhst"])
def test_the_least_energy_is_chosen(tree):
    energy = lattice(0)
    found = parsimonious(energy, random_state=0, n_trees=4, tree=tree, costs="tree", refine=False)
    by_hand = []
    for one in sample_trees(energy, 4, random_state=0):
        substitute = Surrogate.of(energy, one, refit=tree == "refitted")
        by_hand.append(energy.energy(fuse_tree(substitute.energy, substitute.tree, clock=Clock()).labels))
    assert found.energies == pytest.approx(by_hand)
    assert found.energy == found.unrefined == pytest.approx(min(by_hand))
    assert found.history == pytest.approx(np.minimum.accumulate(by_hand).tolist())


def test_more_trees_are_never_worse():
    energy = lattice(1)
    for refine in (True, False):
        values = [parsimonious(energy, random_state=3, n_trees=k, refine=refine).energy for k in (1, 2, 4, 8)]
        assert (np.diff(values) <= 0).all()


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("seed", range(4))
def test_against_enumeration(kind, seed):
    """Energies are right, polishing never harms, what is proved holds."""
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, kind, n_nodes=5, n_labels=4)
    rough = parsimonious(energy, random_state=seed, refine=False, n_trees=3)
    found = parsimonious(energy, random_state=seed, n_trees=3)
    best = energy.energy(least(energy))
    assert found.unrefined == rough.energy
    assert best - 1e-9 <= found.energy <= rough.energy
    assert found.energy == pytest.approx(energy.energy(found.labels))
    assert found.energy <= 1.3 * best
    if kind != "potts" and len(energy.cliques) == 1:
        assert found.guarantee is not None
    if found.guarantee is not None:
        assert keeps_promise(energy, rough.labels, rough.guarantee)


@pytest.mark.parametrize("kind", ["cardinality", "l1", "tree length"])
@pytest.mark.parametrize("seed", range(6))
def test_scaled_substitute_of_general_diversities(kind, seed):
    """With the largest scale the substitute costs at least as much, and the factor is proved; with less it is not."""
    rng = np.random.default_rng(seed)
    energy = Energy(rng.uniform(0, 3, (5, 4)), cliques=random_cliques(rng, 5, random_cost(rng, 4, kind)))
    largest = int(np.diff(energy.cliques[0].offsets).max())
    scale = max(1.0, min(largest, 4) - 1.0)
    for tree in sample_trees(energy, 2, random_state=seed):
        for refit in (True, False):
            substitute = Surrogate.of(energy, tree, refit=refit, scale=scale)
            for labels in rng.integers(0, 4, (30, 5)):
                assert substitute.energy.energy(labels) >= energy.energy(labels) - 1e-9
            found = fuse_tree(substitute.energy, substitute.tree, clock=Clock())
            assert keeps_promise(energy, found.labels, substitute.guarantee())
            if scale > 1:
                assert Surrogate.of(energy, tree, refit=refit, scale=0.9 * scale).guarantee() is None


def test_scales_are_tried():
    energy = Energy(np.random.default_rng(0).uniform(0, 3, (6, 5)), cliques=Cliques([range(6)], Cardinality(), 0.5))
    assert len(parsimonious(energy, n_trees=2, random_state=0).energies) == 10
    assert len(parsimonious(energy, n_trees=2, random_state=0, scales=[1.0]).energies) == 4
    assert parsimonious(energy, n_trees=2, random_state=0, scales=[1.0]).guarantee is None


@pytest.mark.parametrize("seed", range(5))
def test_pairs_with_the_uniform_metric_are_potts_expansion(seed):
    rng = np.random.default_rng(seed)
    unary, edges = rng.uniform(0, 2, (6, 4)), random_edges(rng, 6)
    as_pairs = Energy(unary, edges, "potts")
    as_cliques = Energy(unary, cliques=Cliques(edges, Diameter("potts")))
    start = min((np.full(6, k) for k in range(4)), key=as_pairs.energy)
    expanded = Expander(as_pairs).descend(start, clock=Clock()).energy
    for energy in (as_pairs, as_cliques):
        found = parsimonious(energy, n_trees=2, random_state=0, refine=False)
        assert found.energy == pytest.approx(expanded)
        assert found.guarantee == 2


def test_pairs_and_cliques_of_different_metrics():
    """Both are dominated by heights of their own on one hierarchy."""
    rng = np.random.default_rng(0)
    cliques = Cliques.windows((4, 4), 2, Diameter(Metric("linear", limit=2)), 1.0)
    energy = Energy.grid(rng.uniform(0, 5, (4, 4, 6)), Metric("linear", limit=5), weights=0.5, cliques=cliques)
    for tree in sample_trees(energy, 3, random_state=0):
        for refit in (True, False):
            substitute = Surrogate.of(energy, tree, refit=refit)
            assert substitute.guarantee() is not None
            for labels in rng.integers(0, 6, (20, 16)):
                for mine, theirs in zip(substitute.energy.parts(labels), energy.parts(labels), strict=True):
                    assert mine >= theirs - 1e-9
    own, mixed, tree = (parsimonious(energy, costs=costs, random_state=0, n_trees=2) for costs in ("own", "mixed", "tree"))
    assert own.guarantee is None
    assert len(own.energies) == len(tree.energies) == len(mixed.energies) - 1 == 3
    assert own.energies[-1] == mixed.energies[-1]
    assert own.energy == pytest.approx(energy.energy(own.labels))
    assert mixed.energy <= tree.energy
    assert mixed.guarantee == tree.guarantee


@pytest.mark.parametrize("refine", [True, False])
def test_threads_change_nothing(refine):
    energy = lattice(2, pairwise=0.2)
    one, two = (parsimonious(energy, random_state=1, n_trees=4, n_jobs=n, refine=refine) for n in (1, 3))
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.energies == two.energies
    assert one.history == two.history


def test_polished_trees_are_near_the_best_of_all():
    for seed in range(3):
        for weight in (0.5, 2.0, 50.0):
            energy = lattice(seed, weight=weight)
            assert parsimonious(energy, random_state=0).energy <= 1.03 * cooccurrence(energy).energy


def test_the_one_door():
    """Cliques of diversities go to trees by themselves, with options; exhaustive search agrees where it is possible."""
    energy = lattice(4, side=5, n_labels=4)
    found = minimize(energy, random_state=1, n_trees=2)
    assert found.method == "parsimonious"
    np.testing.assert_array_equal(found.labels, parsimonious(energy, random_state=1, n_trees=2).labels)
    small = lattice(4, side=3, n_labels=2, window=2)
    assert minimize(small, "cooccurrence").energy == pytest.approx(minimize(small, "exhaustive").energy)
    assert minimize(small, "parsimonious").energy == pytest.approx(minimize(small, "exhaustive").energy)


def test_limits_and_init():
    energy = lattice(3)
    full = parsimonious(energy, random_state=0, n_trees=2)
    stopped = parsimonious(energy, random_state=0, time_limit=1e-9)
    assert stopped.status == "time_limit"
    assert stopped.guarantee is None
    assert np.isfinite(stopped.energy)
    assert parsimonious(energy, init=full.labels, time_limit=1e-9).energy == full.energy
    for n_jobs in (1, 2):
        seen = []

        def stop(value, bound, seen=seen):
            seen.append(value)
            if len(seen) == 2:
                raise KeyboardInterrupt

        found = parsimonious(energy, random_state=0, callback=stop, n_jobs=n_jobs)
        assert found.status == "interrupted"
        assert found.energy <= min(seen) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree": "oak"}, "tree='oak'"),
        ({"costs": "no"}, "costs='no'"),
        ({"n_trees": 0, "linkage": False}, "n_trees=0"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"scales": [0.0]}, "scales"),
        ({"r": 1.0}, "r=1.0"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        parsimonious(lattice(0, side=3, window=2), **arguments)
