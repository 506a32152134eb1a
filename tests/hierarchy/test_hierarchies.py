"""Hierarchies, weights of their nodes, norms, and the best sets of labels, against enumeration and other solvers."""

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog
from tests.cases.reference_programs import Cone, convex_program

from maxmargin.hierarchy import (
    Hierarchy,
    LabelSets,
    NodeWeights,
    heaviest_antichain,
    node_norm,
    shared_norm,
    shared_weights,
    structured_shared_norm,
    tree_norm,
    tree_weights,
)
from maxmargin.hierarchy.interior_point import Budgets, Powers, least_sum
from maxmargin.hierarchy.norms import _shared_on_graph


def random_tree(rng, m):
    return Hierarchy.from_parents([-1] + [int(rng.integers(0, k)) for k in range(1, m)])


def random_dag(rng, m):
    return Hierarchy(
        [(int(a), k) for k in range(1, m) for a in rng.choice(k, size=min(k, int(rng.integers(1, 3))), replace=False)]
    )


# ---- the graph --------------------------------------------------------------------------------------------------------------


def test_all_forms_say_the_same():
    edges = [("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")]
    expected = Hierarchy(edges)
    assert Hierarchy.of(nx.DiGraph(edges)) == expected
    assert Hierarchy.of({"a": "r", "b": "r", "c": ["a"], "d": "a"}).nodes[1:] == expected.nodes[1:]
    assert Hierarchy.of(np.array([-1, 0, 0, 1, 1])).edges.tolist() == expected.edges.tolist()
    columns = Hierarchy.from_columns(np.array([["b", None], ["a", "c"], ["a", "d"]], dtype=object), root="r")
    assert columns.nodes == ("r", "a", "b", "a/c", "a/d") and columns.edges.tolist() == expected.edges.tolist()
    np.testing.assert_array_equal(expected.membership().toarray(), [[1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 0, 1]])


@pytest.mark.parametrize("seed", range(5))
def test_ancestors_are_those_of_networkx(seed):
    hierarchy = random_dag(np.random.default_rng(seed), 15)
    graph = nx.DiGraph(hierarchy.edges.tolist())
    for n, row in enumerate(hierarchy.ancestors.toarray()):
        assert set(np.flatnonzero(row)) == nx.ancestors(graph, n) | {n}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hierarchy([("a", "b"), ("b", "c"), ("c", "b")]), "cycle: 'c' -> 'b' -> 'c'"),
        (lambda: Hierarchy([("a", "a")]), "itself"),
        (lambda: Hierarchy([("a", "b"), ("c", "d")]), "2 roots, 'a', 'c', but one is needed; pass root="),
        (lambda: Hierarchy([("a", "b")], nodes=["a"]), "not in nodes"),
        (lambda: Hierarchy([]), "at least one node"),
        (lambda: Hierarchy.from_parents([-1, 5]), "between -1"),
        (lambda: Hierarchy.from_graph(nx.Graph([(0, 1)])), "no directions"),
        (lambda: Hierarchy.from_columns([["a", "", "c"]]), "row 0 of y goes on after an empty entry"),
        (lambda: Hierarchy([("a", "b")]).number("z"), "'z' is not a node"),
        (lambda: Hierarchy([("a", "b")]).check_indicators([[0, 1]]), "has the label 'b', but not 'a' above it; hierarchy.closed"),
        (lambda: Hierarchy([("a", "b")]).check_indicators([[0, 0]]), "empty"),
        (lambda: Hierarchy([("a", "b")]).indicators([[]]), "empty"),
        (lambda: Hierarchy.of(3), "none of a Hierarchy"),
        (lambda: Hierarchy.of({"a": "r", "r": "a"}), "cycle: 'r' -> 'a' -> 'r'; remove one"),
        (lambda: Hierarchy.of(nx.DiGraph([(0, 1), (1, 2), (2, 1)])), "cycle: 2 -> 1 -> 2"),
        (lambda: Hierarchy.of([-1, 0, -1]), "2 roots, 0, 2, but one is needed; pass root='a new name' to Hierarchy"),
        (lambda: Hierarchy([("a", "b", "c")]), "must be a pair"),
        (lambda: Hierarchy([("a", "b")], root="a"), "is a node already"),
        (lambda: Hierarchy([("a", "b")]).indicators([["b"], ["z"]]), "sample 1: label 'z' is not a node"),
        (lambda: Hierarchy([("a", "b")]).indicators(["b"]), "sample 0: labels 'b' must be a list"),
        (lambda: Hierarchy([("a", "b")]).check_indicators([[1, 1], [1, 2]]), "0 and 1 only"),
        (lambda: Hierarchy([("a", "b")]).check_indicators([[1]]), "2 nodes, one column for each"),
        (lambda: Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c")]).parent, "'c' has several parents"),
        (lambda: LabelSets(Hierarchy([("a", "b")])).best(np.ones(3)), "scores has shape .* one entry for each"),
        (lambda: shared_weights(Hierarchy([("a", "b")]), np.ones(3)), "norms has shape"),
        (lambda: heaviest_antichain(Hierarchy([("a", "b")]), np.ones(3)), "gains has shape"),
        (lambda: node_norm(Hierarchy([("a", "b")]), np.ones((3, 1))), "U has shape"),
    ],
)
def test_what_is_wrong_is_told(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


# ---- weights of nodes (E22, E23) --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1.2, 2.0, 3.0])
@pytest.mark.parametrize("kind", ["tree", "dag"])
@pytest.mark.parametrize("directional", [False, True])
def test_weights_against_a_proved_optimum(rho, kind, directional):
    rng = np.random.default_rng(3)
    for _ in range(2):
        hierarchy = (random_tree if kind == "tree" else random_dag)(rng, 11)
        B = hierarchy.membership().toarray()
        # Variables: alpha, and t >= alpha^rho as (t, 1, alpha) in the power cone of 1 / rho.
        k, unit, (above, below) = len(hierarchy), np.eye(2 * len(hierarchy)), hierarchy.edges.T
        optimum = convex_program(
            np.repeat([0.0, 1.0], k), equal=(np.hstack([B, 0 * B]), np.ones(len(B))), bounds=(0, 1),
            rows=(unit[below] - unit[above], np.zeros(len(below))) if directional else None,
            cones=[Cone(1 / rho, [unit[k + n], 0 * unit[n], unit[n]], [0, 1, 0]) for n in range(k)],
            objective=lambda v, k=k: (v[:k] ** rho).sum(), tol=5e-10,
        )  # fmt: skip
        own = NodeWeights(rho=rho, directional=directional)
        for alpha in (own.of(hierarchy), own._by_program(hierarchy)):
            np.testing.assert_allclose(B @ alpha, 1, atol=1e-9)
            assert (alpha >= 0).all() and (alpha**rho).sum() == pytest.approx(optimum.value, rel=5e-9)
            # Unit norm of every label's attributes.
            np.testing.assert_allclose(np.linalg.norm(B * np.sqrt(alpha), axis=1), 1, atol=1e-9)


@pytest.mark.parametrize("slack", [1.0, 1.4])
@pytest.mark.parametrize("kind", ["rho", "max_min"])
@pytest.mark.parametrize("make", [random_tree, random_dag])
def test_ranges_and_second_stages_against_a_proved_optimum(make, kind, slack):
    rng = np.random.default_rng(11)
    for include_root in (True, False):
        hierarchy = make(rng, 12)
        own = NodeWeights(kind, 2.0, slack=slack, include_root=include_root, directional=include_root)
        alpha = own._by_program(hierarchy)
        B, (above, below) = hierarchy.membership().toarray(), hierarchy.edges.T
        kept = np.arange(0 if include_root else 1, 12)
        least = slack / B[:, kept].sum(axis=1).max() if kind == "max_min" else 0.0
        ordered = np.isin(above, kept) & (own.directional or kind == "max_min")
        rows, ones = np.eye(12)[below[ordered]] - np.eye(12)[above[ordered]], np.ones(len(B))
        rows, equal = (rows, np.zeros(len(rows))), (B, ones)
        if slack > 1:
            rows, equal = (np.vstack([rows[0], B, -B]), np.concatenate([rows[1], ones, -slack * ones])), None
        bounds = np.isin(range(12), kept) * np.array([[least], [slack]])
        optimum = convex_program(np.zeros(12), 2.0, rows=rows, equal=equal, bounds=bounds, tol=1e-11)
        sums = B @ alpha
        assert sums.min() >= 1 - 1e-9 and sums.max() <= slack + 1e-9 and alpha[kept].min() >= least - 1e-12
        assert (alpha**2).sum() == pytest.approx(optimum.value, rel=5e-9)
        np.testing.assert_allclose(alpha, optimum.x, atol=2e-5)


def test_large_trees_and_graphs_take_seconds():
    # Newton's equations in the nodes stay sparse; those in the leaves, or a bad order of elimination, would not end here.
    rng = np.random.default_rng(0)
    tree = Hierarchy.from_parents([-1] + [(k - 1) // 10 for k in range(1, 11_111)])
    closed = NodeWeights(rho=2.0).of(tree)
    np.testing.assert_allclose(NodeWeights(rho=2.0)._by_program(tree), closed, atol=1e-9)
    # Whoever may not count less than a parent counts alike in a complete tree.
    np.testing.assert_allclose(NodeWeights(directional=True).of(tree), 0.2, atol=1e-6)
    uneven = random_tree(rng, 2000)
    for hierarchy, kind in ((uneven, "max_min"), (random_dag(rng, 300), "rho")):
        alpha = NodeWeights(kind, directional=True).of(hierarchy)
        np.testing.assert_allclose(hierarchy.membership() @ alpha, 1, atol=1e-9)
        assert (alpha[hierarchy.edges[:, 1]] >= alpha[hierarchy.edges[:, 0]] - 1e-9).all()


@pytest.mark.parametrize("rho", [1.05, 1.1, 1.5, 2.0, 4.0, 8.0])
def test_programs_prove_their_answer(rho):
    rng = np.random.default_rng(2)
    for make in (random_tree, random_dag):
        hierarchy = make(rng, 25)
        B, ones = hierarchy.membership(), np.ones(len(hierarchy.leaves))
        for lower, pairs in ((ones, np.zeros((0, 2), dtype=int)), (ones, hierarchy.edges), (0.7 * ones, hierarchy.edges)):
            found = least_sum(Powers(0.0, rho), Budgets(B, hierarchy.leaves, lower, ones, pairs))
            assert abs(found.value - found.bound) <= 1e-9 * found.value
            assert found.value == pytest.approx((found.x**rho).sum())
            # No random point that obeys is better, nor below the bound.
            for _ in range(10):
                other = np.full(len(hierarchy), 0.0)
                other[:] = rng.random() * rng.random(len(hierarchy)) if not len(pairs) else rng.random() / 25
                other[hierarchy.leaves] = 0
                other[hierarchy.leaves] = 1 - B @ other
                if other.min() >= 0:
                    assert (other**rho).sum() >= found.bound - 1e-12
    with pytest.raises(RuntimeError, match="choose a rho nearer to 2"):
        least_sum(Powers(0.0, rho), Budgets(B, hierarchy.leaves, ones, ones, hierarchy.edges), max_iter=1)


def test_weights_in_closed_form():
    complete = Hierarchy.from_parents([-1] + [(k - 1) // 2 for k in range(1, 15)])
    np.testing.assert_allclose(tree_weights(complete)[[0, 1, 3, 7]], np.array([8, 4, 2, 1]) / 15)
    # Near 1 nothing overflows, and the root takes all.
    assert tree_weights(complete, 1.001)[0] == pytest.approx(1.0)
    rootless = NodeWeights(include_root=False).of(complete)
    assert rootless[0] == 0
    np.testing.assert_allclose(complete.membership() @ rootless, 1)


@pytest.mark.parametrize("make", [random_tree, random_dag])
def test_max_min(make):
    hierarchy = make(np.random.default_rng(5), 14)
    B = hierarchy.membership()
    alpha = NodeWeights("max_min").of(hierarchy)
    np.testing.assert_allclose(B @ alpha, 1, atol=1e-9)
    assert alpha.min() == pytest.approx(1 / B.sum(axis=1).max())
    assert (alpha[hierarchy.edges[:, 1]] >= alpha[hierarchy.edges[:, 0]] - 1e-7).all()
    sums = B @ NodeWeights(slack=1.5).of(hierarchy)
    assert sums.min() >= 1 - 1e-9 and sums.max() <= 1.5 + 1e-9


def test_duplicates():
    # Two branches alike, but one has a chain of three instead of a node.
    plain = Hierarchy.from_parents([-1, 0, 0, 1, 1, 2, 2])
    chained = Hierarchy([("r", "a"), ("a", "a2"), ("a2", "a3"), ("a3", "c"), ("a3", "d"), ("r", "b"), ("b", "e"), ("b", "f")])
    assert len(chained.minimal_graph().hierarchy) == len(plain)
    for rho in (1.1, 1.5, 2.0):
        own, safe = NodeWeights(rho=rho).of(chained), NodeWeights(rho=rho, invariant=True).of(chained)
        leaf = {name: own[chained.number(name)] for name in "ce"}
        # E23: the limit rho -> 1 does not make the branches equal, their ratio tends to 1 / 3.
        assert leaf["c"] / leaf["e"] < 0.45
        assert safe[chained.number("c")] == pytest.approx(safe[chained.number("e")])
        # The least sum of |F|^(rho - 1) alpha^rho, E22: equal parts.
        np.testing.assert_allclose(safe[chained.numbers(["a", "a2", "a3"])], tree_weights(plain, rho)[1] / 3, rtol=1e-9)
    with pytest.raises(ValueError, match="above 1"):
        NodeWeights(rho=1.0).of(plain)


# ---- norms (E24, E25, E27, E28) ---------------------------------------------------------------------------------------------


def least_shared_norm(B, norms):
    """Optimum of ``sum norms^2 / alpha`` with ``B alpha <= 1``.

    Variables: alpha, and t with ``norms^2 <= alpha t`` as (alpha + t, alpha - t, 2 norms) in the norm cone.
    """
    k, unit = len(norms), np.eye(2 * len(norms))
    # Equal weights are feasible: no t is larger at the optimum than all of them together.
    most = B.sum(axis=1).max() * norms @ norms
    return convex_program(
        np.repeat([0.0, 1.0], k), rows=(np.hstack([-B, 0 * B]), -np.ones(len(B))), bounds=(0, np.repeat([1.0, most], k)),
        cones=[
            Cone("norm", [unit[n] + unit[k + n], unit[n] - unit[k + n], 0 * unit[n]], [0, 0, 2 * norms[n]]) for n in range(k)
        ],
        objective=lambda v: (norms**2 / v[:k]).sum(), tol=5e-10,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_algorithm_5_against_a_proved_optimum(seed):
    rng = np.random.default_rng(seed)
    tree, norms = random_tree(rng, 9), rng.exponential(size=9)
    B, alpha = tree.membership().toarray(), None
    alpha = shared_weights(tree, norms)
    assert (B @ alpha <= 1 + 1e-12).all()
    value = (norms**2 / alpha).sum()
    assert value == pytest.approx(tree_norm(tree, norms[:, None]) ** 2)
    assert value == pytest.approx(least_shared_norm(B, norms).value, rel=5e-9)
    for _ in range(20):
        other = rng.random(9)
        other /= (B @ other).max()
        assert value <= (norms**2 / other).sum() + 1e-9
    assert heaviest_antichain(tree, norms) >= norms @ alpha - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_shared_weights_of_graphs_against_a_proved_optimum(seed):
    rng = np.random.default_rng(seed)
    graph, norms = random_dag(rng, 10), rng.exponential(size=10)
    # What has no norm needs no weight.
    norms[rng.random(10) < 0.2] = 0
    assert not graph.is_tree
    B, kept = graph.membership().toarray(), norms > 0
    alpha = shared_weights(graph, norms)
    assert (alpha >= 0).all() and (B @ alpha <= 1 + 1e-9).all()
    value = (norms[kept] ** 2 / alpha[kept]).sum()
    assert value == pytest.approx(node_norm(graph, norms[:, None]) ** 2)
    assert value == pytest.approx(least_shared_norm(B[:, kept], norms[kept]).value, rel=5e-9)
    # Its dual: any distribution over leaves is a bound.
    d = rng.dirichlet(np.ones(len(B)))
    assert (norms * np.sqrt(B.T @ d)).sum() ** 2 <= value * (1 + 1e-9)
    gains = rng.exponential(size=10)
    best = -linprog(-gains, A_ub=B, b_ub=np.ones(len(B))).fun
    assert best - 1e-9 <= heaviest_antichain(graph, gains) <= best * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_program_of_graphs_is_algorithm_5_on_trees(seed):
    rng = np.random.default_rng(seed)
    tree, norms = random_tree(rng, 30), rng.exponential(size=30)
    alpha, value = _shared_on_graph(tree, norms)
    assert value == pytest.approx(tree_norm(tree, norms[:, None]) ** 2, rel=1e-9)
    np.testing.assert_allclose(alpha, shared_weights(tree, norms), atol=1e-5)


def test_norm_of_leaves_on_a_graph():
    graph, rng = random_dag(np.random.default_rng(4), 9), np.random.default_rng(5)
    Theta = rng.normal(size=(len(graph.leaves), 2))
    upper, lower = structured_shared_norm(graph, Theta, tol=1e-3)
    assert lower <= upper * (1 + 1e-9) and upper**2 - lower**2 <= 1.1e-3 * upper**2
    B = graph.membership().toarray()
    for _ in range(20):
        alpha = rng.random(9)
        alpha /= (B @ alpha).max()
        assert np.trace(Theta.T @ np.linalg.solve((B * alpha) @ B.T, Theta)) >= lower**2 * (1 - 1e-9)
    assert upper <= np.linalg.norm(Theta) * 1.001


def test_table_6_1():
    rng = np.random.default_rng(0)
    star, u = Hierarchy.from_parents([-1, 0, 0, 0, 0]), rng.normal(size=5)
    length = np.linalg.norm(u)
    same = np.tile(u, (4, 1))
    for norm, factor in (
        (shared_norm(same)[0], 1), (structured_shared_norm(star, same)[0], 1), (np.linalg.norm(same), 2),
        (np.linalg.norm(same, "nuc"), 2),
    ):  # fmt: skip
        assert norm == pytest.approx(factor * length, rel=1e-3)
    # Disjoint supports: nothing to share.
    apart = np.diag(rng.normal(size=4))
    for norm in (shared_norm(apart)[0], structured_shared_norm(star, apart)[0]):
        assert norm == pytest.approx(np.linalg.norm(apart), rel=1e-3)
    scaled = np.outer(a := rng.normal(size=4), u)
    assert shared_norm(scaled)[0] == pytest.approx(np.abs(a).max() * length, rel=1e-3)


def test_root_takes_part_and_budgets_are_of_paths():
    # E28: the root keeps its share, leaves all that is left, and weights are not square roots; E27: the node itself counts.
    tree = Hierarchy.from_parents([-1, 0, 0, 1, 1])
    np.testing.assert_allclose(shared_weights(tree, np.array([1.0, 0, 1, 1, 1]))[[0, 1]], [1 / (1 + np.sqrt(3)), 0.0])
    np.testing.assert_allclose(tree.membership() @ shared_weights(tree, np.array([1.0, 2, 3, 4, 5])), 1)


def test_order_of_norms_and_their_axioms():
    rng = np.random.default_rng(1)
    tree = Hierarchy.from_parents([-1, 0, 0, 1, 1, 2, 2])
    for _ in range(2):
        A, B = rng.normal(size=(2, 4, 3))
        shared, structured = shared_norm(A), structured_shared_norm(tree, A)
        assert shared[1] <= shared[0] * (1 + 1e-9) and structured[1] <= structured[0] * (1 + 1e-9)
        # Without a square on the left, E25.
        assert np.linalg.norm(A, axis=1).max() <= shared[0] * 1.001 <= structured[0] * 1.002
        assert structured[1] <= np.linalg.norm(A) * 1.001
        for norm in (lambda T: shared_norm(T)[0], lambda T: structured_shared_norm(tree, T)[0]):
            assert norm(A + B) <= (norm(A) + norm(B)) * 1.001
            assert norm(-3 * A) == pytest.approx(3 * norm(A), rel=1e-3)


# ---- sets of labels (E26) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_best_sets_against_enumeration(seed, inner):
    rng = np.random.default_rng(seed)
    for hierarchy in (random_tree(rng, 8), random_dag(rng, 8)):
        sets = LabelSets(hierarchy, rng.random(8) < 0.4 if inner else None)
        everything = list(sets.all())
        for _ in range(4):
            scores = rng.normal(size=8) - 0.3
            values = np.sort([scores @ chosen for chosen in everything])[::-1]
            best = sets.best(scores[None])[0]
            assert scores @ best == pytest.approx(values[0]) and any((best == chosen).all() for chosen in everything)
            exact, relaxed = sets.solve(scores), sets.solve(scores, relaxed=True)
            assert exact.value == pytest.approx(values[0]) and relaxed.value >= values[0] - 1e-7
            if hierarchy.is_tree:
                # With the root in, the relaxation is as good as the program.
                assert relaxed.value == pytest.approx(values[0])
            # Also where two nodes have the same one below them.
            found = sets.k_best(scores, 5)
            np.testing.assert_allclose([value for value, _ in found], values[:5])
            assert len({chosen.tobytes() for _, chosen in found}) == len(found)
            assert all(any((chosen == own).all() for own in everything) for _, chosen in found)


def test_sets_are_the_unions_of_paths():
    hierarchy = random_dag(np.random.default_rng(2), 9)
    B = hierarchy.membership().toarray().astype(bool)
    unions = {B[[bool(code >> k & 1) for k in range(len(B))]].any(axis=0).tobytes() for code in range(1, 1 << len(B))}
    assert {chosen.tobytes() for chosen in LabelSets(hierarchy).all()} == unions
