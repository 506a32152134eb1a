"""Moves are the best of all moves of their kind, and what is said about the result holds; all against enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maxmargin.labeling import Cliques, Energy, Metric, NotSubmodularError, PnPotts, minimize
from maxmargin.labeling.moves import kernel_of


def every(n_nodes, n_labels):
    return np.array(list(product(range(n_labels), repeat=n_nodes)))


def least(energy):
    """The least energy, and the parts of it that the bounds speak of."""
    return min((energy.parts(y) for y in every(energy.n_nodes, energy.n_labels)), key=sum)


def random_metric(rng, n_labels):
    """Distances of points, rounded up to what no detour shortens; now and then Potts."""
    if rng.random() < 0.3:
        return Metric("potts", scale=float(rng.integers(1, 5))).table(n_labels)
    points = rng.integers(0, 6, (n_labels, 2)) + rng.random((n_labels, 2))
    return np.abs(points[:, None] - points[None]).sum(axis=2)


def random_edges(rng, n):
    pairs = [(a, b) for a in range(n) for b in range(n) if a < b and rng.random() < 0.5]
    return np.array([pair if rng.random() < 0.5 else pair[::-1] for pair in pairs], dtype=int).reshape(-1, 2)


def random_cliques(rng, n, n_labels, sizes=(1, 2, 3, 4, 5)):
    """Overlapping ones of several sizes, whose uniform costs are not zero."""
    members = [rng.choice(n, min(n, int(rng.choice(sizes))), replace=False) for _ in range(rng.integers(1, 4))]
    uniform = rng.integers(-2, 4, (len(members), n_labels)) if rng.random() < 0.7 else None
    highest = 0 if uniform is None else uniform.max(axis=1)
    return Cliques(members, PnPotts(highest + rng.integers(0, 4, len(members)), uniform), rng.random(len(members)) * 3)


def random_energy(rng, n=None, n_labels=None, cliques=True, own=None, forbidden=0.0):
    n = int(rng.integers(1, 6)) if n is None else n
    n_labels = int(rng.integers(1, 5)) if n_labels is None else n_labels
    edges = random_edges(rng, n)
    own = rng.random() < 0.5 if own is None else own
    tables = np.array([random_metric(rng, n_labels) for _ in edges]).reshape(-1, n_labels, n_labels) if own else None
    unary = rng.integers(-5, 10, (n, n_labels)).astype(float)
    for i in range(n):
        unary[i, (rng.random(n_labels) < forbidden) & (np.arange(n_labels) != rng.integers(n_labels))] = np.inf
    some = [random_cliques(rng, n, n_labels) for _ in range(rng.integers(0, 3))] if cliques else ()
    return Energy(
        unary,
        edges,
        random_metric(rng, n_labels) if tables is None else tables,
        weights=rng.integers(0, 4, len(edges)),
        cliques=some,
    )


def kernel(energy):
    return kernel_of(energy, "expansion")


def allowed_start(rng, energy):
    return np.array([rng.choice(np.flatnonzero(np.isfinite(row))) for row in energy.unary], dtype=np.int32)


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_an_expansion_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, forbidden=0.2)
    labels = allowed_start(rng, energy)
    alpha = int(rng.integers(energy.n_labels))
    reach = [np.where(t, alpha, labels) for t in product([False, True], repeat=energy.n_nodes)]
    best = min(energy.energy(y) for y in reach)
    before = energy.energy(labels)
    moved = labels.copy()
    change = kernel(energy).expand(alpha, moved, 1e-9, False)
    assert energy.energy(moved) == pytest.approx(best, abs=1e-9)
    assert change == pytest.approx(best - before, abs=1e-9)
    assert ((moved == labels) | (moved == alpha)).all()


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_of_equally_good_expansions_the_largest_is_made(seed):
    """Also by labels that begin with a flow left behind, and where most nodes would rather stay: then the flow ends early."""
    rng = np.random.default_rng(seed)
    base = random_energy(rng, n=int(rng.integers(2, 7)), forbidden=0.2)
    # Few different costs: many ties.
    forbidden = np.isinf(base.unary)
    unary = np.where(forbidden, np.inf, np.where(forbidden, 0, base.unary) % 3)
    table = Metric("potts").table(base.n_labels)
    tables = np.broadcast_to(table, base.table.shape) * rng.integers(0, 2, base.table.shape[:-2] + (1, 1))
    energy = Energy(unary, base.edges, tables, weights=np.minimum(base.weights, 1))
    if energy.n_nodes > 3:
        members = rng.choice(energy.n_nodes, 3, replace=False)
        energy = energy.replaced(cliques=[Cliques([members], PnPotts(1.0))])
    n, n_alone = energy.n_nodes, int(rng.choice([0, 60]))
    alone = np.tile(np.minimum(np.arange(energy.n_labels), 1.0), (n_alone, 1))
    unary = np.concatenate([energy.unary, alone])
    moves = kernel(Energy(unary, energy.edges, energy.table, weights=energy.weights, cliques=energy.cliques))
    labels, quiet = allowed_start(rng, energy), np.zeros(n_alone, dtype=np.int32)
    for _ in range(8):
        alpha, before = int(rng.integers(energy.n_labels)), energy.energy(labels)
        reach = [np.where(t, alpha, labels) for t in product([False, True], repeat=energy.n_nodes)]
        best = min(energy.energy(y) for y in reach)
        largest = max((labels != y).sum() for y in reach if energy.energy(y) == best) if best < before else 0
        moved = np.concatenate([labels, quiet])
        moves.expand(alpha, moved, 1e-9, False)
        assert not moved[n:].any()
        assert (labels != moved[:n]).sum() == largest
        moves.expand(alpha, moved, 1e-9, False)
        labels = moved[:n].copy()
        other = rng.random(energy.n_nodes) < 0.4
        labels[other] = allowed_start(rng, energy)[other]


def own_tables(rng, n_edges, n_labels):
    """Tables that an expansion takes, of every kind: other costs in the other direction, costs of equal labels."""
    tables = np.array([random_metric(rng, n_labels) for _ in range(n_edges)]).reshape(-1, n_labels, n_labels)
    if rng.random() < 0.5:
        # Costs of nodes in disguise.
        tables = tables + rng.integers(-3, 4, (n_edges, n_labels, 1)) + rng.integers(-3, 4, (n_edges, 1, n_labels))
    if rng.random() < 0.5:
        tables = tables - rng.integers(0, 3, (n_edges, 1, 1)) * np.eye(n_labels)
    return tables


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_expansions_with_a_table_per_edge_follow_the_labels(seed):
    """One kernel makes many moves, and labels also change without it; some labels are forbidden."""
    rng = np.random.default_rng(seed)
    base = random_energy(rng, n=int(rng.integers(2, 7)), own=False, forbidden=0.2)
    tables = own_tables(rng, len(base.edges), base.n_labels)
    energy = Energy(base.unary, base.edges, tables, weights=base.weights, cliques=base.cliques)
    moves, labels = kernel(energy), allowed_start(rng, energy)
    for _ in range(8):
        alpha = int(rng.integers(energy.n_labels))
        reach = [np.where(t, alpha, labels) for t in product([False, True], repeat=energy.n_nodes)]
        best, before = min(energy.energy(y) for y in reach), energy.energy(labels)
        change = moves.expand(alpha, labels, 1e-9, False)
        assert energy.energy(labels) == pytest.approx(best, abs=1e-9)
        assert change == pytest.approx(best - before, abs=1e-9)
        other = rng.random(energy.n_nodes) < 0.2
        labels[other] = allowed_start(rng, energy)[other]


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_expansions_read_again_what_has_changed(seed):
    """Edges of many blocks, of which moves change some: a kernel of many moves makes those of a fresh one."""
    rng = np.random.default_rng(seed)
    n, n_labels = int(rng.integers(2, 400)), 4
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    # Labels depend on the place, so that a move stays in a part of the chain.
    unary = rng.integers(0, 6, (n, n_labels)) + 3.0 * np.abs(np.arange(n)[:, None] * n_labels // n - np.arange(n_labels))
    energy = Energy(unary, edges, own_tables(rng, n - 1, n_labels), weights=rng.integers(0, 4, n - 1))
    moves, labels = kernel(energy), allowed_start(rng, energy)
    for k in range(12):
        alpha = int(rng.integers(n_labels))
        before, fresh = energy.energy(labels), labels.copy()
        change = moves.expand(alpha, labels, 1e-9, False)
        assert change == kernel(energy).expand(alpha, fresh, 1e-9, False)
        assert (labels == fresh).all()
        assert change == pytest.approx(energy.energy(labels) - before, abs=1e-6)
        if k == 8:
            labels[rng.integers(n)] = rng.integers(n_labels)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_facts_of_tables(seed):
    rng = np.random.default_rng(seed)
    n_edges, n_labels = map(int, rng.integers(1, 8, 2))
    tables = rng.integers(-3, 4, (n_edges, n_labels, n_labels)).astype(float)
    kind = rng.integers(5)
    if kind == 1:
        tables = tables + tables.transpose(0, 2, 1)
    elif kind == 2:
        tables[:, np.arange(n_labels), np.arange(n_labels)] = 0
    elif kind >= 3:
        tables = rng.normal(size=(n_edges, 1, 1)) * rng.normal(size=(n_labels, n_labels))
        tables[rng.random(n_edges) < 0.2] = 0
    if kind == 4:
        # One entry that is not what it should be.
        tables[tuple(rng.integers(tables.shape))] += rng.choice([1e-14, 1.0])
    edges = np.stack([np.arange(n_edges), np.arange(1, n_edges + 1)], axis=1)
    energy = Energy(np.zeros((n_edges + 1, n_labels)), edges, tables)
    facts, flat = energy.table_facts, tables.reshape(n_edges, -1)
    different = np.where(np.eye(n_labels, dtype=bool), np.inf, tables)
    assert (facts.least == flat.min(axis=1)).all() and (facts.most == flat.max(axis=1)).all()
    assert (facts.apart == different.min(axis=(1, 2))).all()
    assert facts.zero_diagonals == (np.diagonal(tables, axis1=1, axis2=2) == 0).all()
    assert facts.symmetric == (tables == tables.transpose(0, 2, 1)).all()
    if facts.shared >= 0:
        assert np.allclose(tables, facts.factors[:, None, None] * tables[facts.shared], rtol=1e-15, atol=0)
    elif kind == 3:
        raise AssertionError("tables are multiples of one")
    if kind == 4 and np.linalg.matrix_rank(flat, tol=0.1) > 1:
        assert facts.shared == -1


def test_multiples_that_would_overflow_are_left_as_they_are():
    tables = np.array([1e-100, 1e100])[:, None, None] * (1 - np.eye(2))
    unary = np.array([[0, 3], [3, 0], [0, 3]]) * 1e280
    energy = Energy(unary, [(0, 1), (1, 2)], tables, weights=[1e180, 1e180])
    assert energy.table_facts.shared == 0
    assert minimize(energy, "expansion", init="constant").energy == sum(least(energy))


@given(seeds)
@settings(max_examples=150, deadline=None)
def test_a_swap_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, n_labels=int(rng.integers(2, 5)), forbidden=0.2)
    labels = allowed_start(rng, energy)
    alpha, beta = map(int, rng.choice(energy.n_labels, 2, replace=False))
    free = np.isin(labels, [alpha, beta])
    reach = [np.where(free, np.where(t, alpha, beta), labels) for t in product([False, True], repeat=energy.n_nodes)]
    best = min(energy.energy(y) for y in reach)
    moved = labels.copy()
    change = kernel(energy).swap(alpha, beta, moved, 1e-9, False)
    assert energy.energy(moved) == pytest.approx(best, abs=1e-9)
    assert change == pytest.approx(best - energy.energy(labels), abs=1e-9)


@given(seeds)
# Costs of cliques that are rewards for one label.
@example(2432)
@settings(max_examples=150, deadline=None)
def test_two_labels_are_solved_and_certified(seed):
    """Any submodular table, any signs, terms that are exactly modular, cliques, forbidden labels."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    edges = random_edges(rng, n)
    tables = rng.integers(-4, 5, (len(edges), 2, 2)).astype(float)
    surplus = tables[:, 0, 1] + tables[:, 1, 0] - tables[:, 0, 0] - tables[:, 1, 1]
    tables[:, 0, 1] += np.maximum(0, -surplus)
    base = random_energy(rng, n, 2, forbidden=0.2)
    energy = Energy(base.unary, edges, tables, cliques=base.cliques)
    found = minimize(energy, "mincut")
    assert found.energy == pytest.approx(sum(least(energy)), abs=1e-9)
    assert found.certified and found.energy == energy.energy(found.labels)
    assert found.lower_bound == pytest.approx(found.energy, abs=1e-9)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_expansion_descends_to_a_fixed_point_within_its_bound(seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, n=int(rng.integers(1, 6)), n_labels=int(rng.integers(1, 4)), forbidden=0.1)
    order = str(rng.choice(["natural", "random"]))
    found = minimize(energy, "expansion", init=str(rng.choice(["unary", "constant", "best"])), order=order, random_state=seed)
    assert found.status == "converged" and found.energy == energy.energy(found.labels)
    assert all(after < before for before, after in pairwise(found.history))
    assert found.history[-1] == pytest.approx(found.energy)
    for alpha in range(energy.n_labels):
        reach = [np.where(t, alpha, found.labels) for t in product([False, True], repeat=energy.n_nodes)]
        assert found.energy <= min(energy.energy(y) for y in reach) + 1e-8
    unary, *others = least(energy)
    if found.guarantee is not None:
        assert found.energy <= unary + found.guarantee * sum(others) + 1e-8
    assert found.energy >= unary + sum(others) - 1e-8


def test_guarantees_are_those_of_the_theorem():
    line = {"edges": [(0, 1), (1, 2)], "pairwise": "potts"}
    assert minimize(Energy(np.eye(3), **line), "expansion").guarantee == 2.0
    linear = Energy(np.eye(3, 4), edges=[(0, 1)], pairwise=Metric("linear", limit=3))
    assert minimize(linear, "expansion").guarantee == 6.0
    clique = Cliques([range(5)], PnPotts(2.0, [0, 1, 2]))
    assert minimize(Energy(np.eye(5, 3), cliques=clique), "expansion").guarantee == 3.0
    assert minimize(Energy(np.zeros((3, 1)), **line), "expansion").guarantee == 1.0
    # Rewards are outside of the theorem.
    assert minimize(Energy(np.eye(5, 3), cliques=Cliques([range(5)], PnPotts(2.0, [-1, 1, 2]))), "expansion").guarantee is None
    assert minimize(Energy(np.eye(3), edges=[(0, 1)], pairwise=np.zeros((3, 3))), "expansion").guarantee == 1.0


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_two_labels_and_potts_end_at_the_optimum(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    energy = Energy(rng.normal(size=(n, 2)), random_edges(rng, n), "potts", weights=rng.random())
    for method in ("expansion", "swap", "mincut", "exhaustive", "auto"):
        assert minimize(energy, method).energy == pytest.approx(sum(least(energy)), abs=1e-9)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_swap_descends_to_a_fixed_point(seed):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(1, 4))
    energy = Energy(rng.normal(size=(5, n_labels)), random_edges(rng, 5), Metric("quadratic"), weights=rng.random())
    found = minimize(energy, "swap", order="random", random_state=seed)
    assert all(after < before for before, after in pairwise(found.history))
    assert found.guarantee is None
    for alpha, beta in product(range(n_labels), repeat=2):
        free = np.isin(found.labels, [alpha, beta])
        reach = [np.where(free, np.where(t, alpha, beta), found.labels) for t in product([False, True], repeat=5)]
        assert found.energy <= min(energy.energy(y) for y in reach) + 1e-8


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_truncated_moves_never_raise_the_energy(seed):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 5))
    energy = Energy(
        rng.normal(size=(6, n_labels)), random_edges(rng, 6), rng.normal(size=(n_labels, n_labels)), weights=rng.normal()
    )
    for method in ("expansion", "swap"):
        found = minimize(energy, method, truncate=True)
        assert all(after < before for before, after in pairwise(found.history))
        assert found.energy <= energy.energy(energy.unary.argmin(axis=1)) and found.energy == energy.energy(found.labels)
        assert not found.certified


@pytest.mark.parametrize("connectivity", [4, 8])
def test_grids_and_lists_of_their_edges_in_any_order_agree(connectivity):
    """Offsets and lists of arcs are two programs."""
    rng = np.random.default_rng(connectivity)
    unary, weights = rng.integers(0, 50, (9, 8, 5)), rng.integers(0, 20, (connectivity // 2, 9, 8))
    grid = Energy.grid(unary, Metric("linear", limit=3), weights=weights, connectivity=connectivity)
    renumber = rng.permutation(72)
    shuffled = rng.permutation(len(grid.edges))
    scattered = Energy(
        grid.unary[np.argsort(renumber)],
        renumber[grid.edges][shuffled],
        Metric("linear", limit=3),
        weights=grid.weights[shuffled],
    )
    ours = minimize(grid, "expansion")
    assert ours.labels.shape == (9, 8)
    other = minimize(scattered, "expansion", init=grid.unary.argmin(axis=1)[np.argsort(renumber)])
    # Equally good cuts are told apart by the fewest nodes that move, whatever the layout.
    np.testing.assert_array_equal(other.labels[renumber].reshape(9, 8), ours.labels)
    repeated = Energy.grid(
        unary,
        np.broadcast_to(Metric("linear", limit=3).table(5), (len(grid.edges), 5, 5)),
        weights=weights,
        connectivity=connectivity,
    )
    np.testing.assert_array_equal(minimize(repeated, "expansion").labels, ours.labels)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_clique_of_two_is_an_edge(seed):
    rng = np.random.default_rng(seed)
    unary, uniform = rng.normal(size=(4, 3)), rng.random(3)
    table = np.where(np.eye(3, dtype=bool), np.diag(uniform), 1.5)
    edges = [(0, 1), (1, 2), (3, 1)]
    as_edges = minimize(Energy(unary, edges, table), "expansion", init="unary")
    as_cliques = minimize(Energy(unary, cliques=Cliques(edges, PnPotts(1.5, uniform))), "expansion", init="unary")
    assert as_cliques.energy == pytest.approx(as_edges.energy, abs=1e-9)


def test_a_heavy_clique_over_everything_makes_one_label():
    rng = np.random.default_rng(0)
    unary = rng.random((30, 6))
    found = minimize(Energy(unary, cliques=Cliques([range(30)], PnPotts(100.0))), "expansion", init="unary")
    assert (found.labels == unary.sum(axis=0).argmin()).all()
    # Half of the nodes may not have the best label of all.
    unary[:15, unary.sum(axis=0).argmin()] = np.inf
    found = minimize(Energy(unary, cliques=Cliques([range(30)], PnPotts(100.0))), "expansion")
    assert (found.labels == unary.sum(axis=0).argmin()).all()


def test_nothing_to_do():
    assert minimize(Energy([[1.0], [2.0]], edges=[(0, 1)], pairwise="potts"), "expansion").certified
    alone = minimize(Energy([[3, 1, 2]] * 4), "expansion")
    assert (alone.labels == 1).all() and alone.energy == 4
    assert minimize(Energy([[1.0], [2.0]]), "swap").energy == 3


@pytest.mark.parametrize(
    ("energy", "method", "message"),
    [
        (Energy(np.zeros((2, 3)), [(0, 1)], Metric("quadratic")), "expansion",
         r"d\(0, 2\) = 4 is more than d\(0, 1\) \+ d\(1, 2\) = 2"),
        (Energy(np.eye(2), [(0, 1)], "potts", weights=-1.0), "expansion", r"weights\[0\] = -1 is negative"),
        (Energy(np.zeros((3, 2)), [(0, 1), (1, 2)], [np.eye(2)[::-1], np.eye(2)]), "mincut",
         r"edges\[1\] = \(1, 2\) are not submodular"),
        (Energy([[0, 9, 2], [9, 0, 2]], [(0, 1)], [Metric("quadratic").table(3)[[0, 2, 1]][:, [0, 2, 1]]]), "expansion",
         r"edges\[0\] = \(0, 1\) are not submodular: d\(0, 1\) \+ d\(2, 2\) = 4 is more than d\(0, 2\) \+ d\(2, 1\) = 2; "),
        (Energy([[0, 1], [1, 0]], [(0, 1)], -1 + np.eye(2)), "swap", r"edges\[0\] = \(0, 1\) are not submodular"),
        (Energy(np.zeros((2, 3))), "mincut", "two labels, but the energy has 3"),
        (Energy(np.zeros((60, 3))), "exhaustive", "3\\^60 labelings are too many"),
        (Energy(np.zeros((2, 2))), "magic", "method='magic' is unknown; choose one of 'auto', 'mincut'"),
    ],
)  # fmt: skip
def test_errors_name_the_term(energy, method, message):
    with pytest.raises(ValueError, match=message):
        minimize(energy, method)


def test_errors_of_arguments():
    energy = Energy([[0.0, np.inf], [1.0, 2.0]], [(0, 1)], "potts")
    for arguments, message in (
        ({"init": [1, 0]}, "init has label 1 at node 0, where unary forbids it"),
        ({"init": [0, 2]}, "init has label 2 at node 1"),
        ({"init": "middle"}, "init='middle' is unknown"),
        ({"order": "sorted"}, "order='sorted' is unknown"),
        ({"max_sweeps": 0}, "max_sweeps=0 must be an integer of at least 1"),
        ({"time_limit": 0}, "time_limit=0 must be a positive number"),
    ):
        with pytest.raises(ValueError, match=message):
            minimize(energy, "expansion", **arguments)
    with pytest.raises(TypeError, match="'orders' is no option of method 'expansion'; it takes 'order', 'truncate'"):
        minimize(energy, "expansion", orders="random")
    with pytest.raises(TypeError, match="must be an Energy"):
        minimize(energy.unary)

    class Other:
        def check(self, n_labels, n_cliques):
            pass

        def of(self, present):
            return np.zeros(len(present))

    with pytest.raises(TypeError, match=r"cliques\[0\] has costs of kind Other; method 'expansion' takes PnPotts"):
        minimize(Energy(np.eye(2), cliques=Cliques([[0, 1]], Other())), "expansion")


def test_automatic_choice():
    rng = np.random.default_rng(0)
    grid = rng.random((6, 6, 4))
    assert minimize(Energy.grid(grid[..., :2], "potts")).method == "mincut"
    assert minimize(Energy.grid(grid, "potts")).method == "expansion"
    assert minimize(Energy.grid(grid, "potts"), order="random").method == "expansion"
    assert minimize(Energy(rng.random((4, 3)), [(0, 1), (1, 2), (2, 0)], rng.random((3, 3)))).method == "exhaustive"
    repelling = Energy.grid(grid[..., :2], -np.eye(2)[::-1])
    assert minimize(repelling).energy <= repelling.energy(repelling.unary.argmin(axis=1))
    with pytest.raises(ValueError, match="takes the options 'colour'"):
        minimize(Energy.grid(grid, "potts"), colour="blue")


def test_runs_that_are_stopped_keep_the_best_so_far():
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((20, 20, 6)), "potts", weights=0.2)
    whole = minimize(energy, "expansion")
    assert len(whole.history) > 3

    seen = []

    def stop(value, bound):
        seen.append(value)
        if len(seen) == 2:
            raise KeyboardInterrupt

    stopped = minimize(energy, "expansion", callback=stop)
    assert stopped.status == "interrupted" and stopped.guarantee is None
    assert stopped.energy == pytest.approx(seen[-1]) and stopped.history == whole.history[:3]
    assert minimize(energy, "expansion", max_sweeps=1).status == "max_sweeps"
    late = minimize(energy, "expansion", time_limit=1e-9)
    assert late.status == "time_limit" and late.energy == energy.energy(energy.unary.argmin(axis=1))
    assert minimize(Energy(rng.random((12, 3))), "exhaustive", time_limit=1e-9).lower_bound is None


def test_error_of_a_move_is_one_of_values():
    assert issubclass(NotSubmodularError, ValueError)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_exhaustive_search_is_enumeration(seed):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, forbidden=0.2)
    found = minimize(energy, "exhaustive")
    assert found.energy == pytest.approx(sum(least(energy)), abs=1e-9) and found.certified


def test_exhaustive_search_with_many_labels():
    rng = np.random.default_rng(0)
    energy = Energy(rng.random((2, 14)), cliques=Cliques([[0, 1]], PnPotts(0.3)))
    assert minimize(energy, "exhaustive").energy == pytest.approx(sum(least(energy)))


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_moves_that_begin_with_an_earlier_flow_are_the_best_too(seed):
    """The labels may be anything since; costs are no round numbers, of any size."""
    rng = np.random.default_rng(seed)
    base = random_energy(rng, n=5, n_labels=3, forbidden=0.1)
    scale = 10.0 ** rng.integers(-6, 7)
    unary = scale * (base.unary + rng.normal(size=base.unary.shape))
    energy = Energy(unary, base.edges, scale * base.table, weights=base.weights * rng.random(), cliques=base.cliques)
    moves = kernel(energy)
    for _ in range(12):
        labels, alpha = allowed_start(rng, energy), int(rng.integers(3))
        best = min(energy.energy(np.where(t, alpha, labels)) for t in product([False, True], repeat=5))
        moves.expand(alpha, labels, 0.0, False)
        assert energy.energy(labels) == pytest.approx(best, rel=1e-9, abs=1e-9 * scale)


def test_a_wrong_name_of_a_metric_is_that_of_the_argument():
    with pytest.raises(ValueError, match="pairwise='pots' is unknown; choose one of 'potts', 'linear', 'quadratic', or pass"):
        Energy([[0, 1], [1, 0]], [(0, 1)], "pots")


@pytest.mark.parametrize(("shape", "connectivity"), [((5, 7), 4), ((5, 7), 8), ((4, 2), 8), ((6, 1), 4), ((3, 4, 5), 6)])
def test_grids_move_as_their_edge_lists(shape, connectivity):
    rng = np.random.default_rng(0)
    grid = Energy.grid(rng.integers(0, 9, (*shape, 4)), "potts", weights=2.0, connectivity=connectivity)
    tables = np.stack([random_metric(rng, 4) for _ in grid.edges])
    own = Energy.grid(grid.unary.reshape(*shape, 4), tables, weights=2.0, connectivity=connectivity)
    for energy, costs in ((grid, "potts"), (own, tables)):
        listed = Energy(grid.unary, grid.edges, costs, weights=grid.weights)
        for method in ("expansion", "swap"):
            ours, theirs = minimize(energy, method), minimize(listed, method)
            assert ours.energy == theirs.energy and np.array_equal(ours.labels.ravel(), theirs.labels)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("diagonal", [0.0, -1.0])
def test_equal_tables_of_every_edge_move_as_one(symmetric, diagonal):
    rng = np.random.default_rng(0)
    table = rng.integers(6, 10, (4, 4)).astype(float)
    table = np.triu(table) + np.triu(table).T if symmetric else table
    np.fill_diagonal(table, diagonal)
    one = Energy.grid(rng.integers(0, 30, (6, 6, 4)), table)
    every = Energy(one.unary, one.edges, np.repeat(table[None], len(one.edges), axis=0))
    ours, theirs = minimize(every, "swap"), minimize(one, "swap")
    assert ours.energy == theirs.energy and np.array_equal(ours.labels, theirs.labels.ravel())
