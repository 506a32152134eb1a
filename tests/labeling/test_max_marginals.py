"""Max-marginals of binary graphs, against the enumeration of all labelings and cuts from scratch."""

import dataclasses
import itertools
import pickle

import numpy as np
import pytest

from maxmargin.labeling import Components, best_binary_labeling, binary_max_marginals


def random_model(rng, n, *, tables, integer, density=0.4):
    """Scores, edges and terms; integers make ties."""
    unary = rng.integers(-4, 5, (n, 2)).astype(float) if integer else 2 * rng.normal(size=(n, 2))
    pairs = np.array([pair for pair in itertools.combinations(range(n), 2) if rng.random() < density], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)
    pairs = np.concatenate([pairs, pairs[:1, ::-1]])  # one pair twice
    penalties = rng.integers(0, 4, len(pairs)).astype(float) if integer else rng.exponential(size=len(pairs))
    if not tables:
        return unary, pairs, penalties
    terms = rng.normal(size=(len(pairs), 2, 2))
    terms[:, 0, 0] = terms[:, 0, 1] + terms[:, 1, 0] - terms[:, 1, 1] + penalties
    return unary, pairs, terms


def scores_of(labelings, unary, edges, pairwise):
    """Of labelings in rows, by definition."""
    y = np.asarray(labelings, dtype=int)
    total = unary[np.arange(len(unary)), y].sum(axis=-1)
    for (a, b), term in zip(edges, pairwise, strict=True):
        total = total + (term[y[..., a], y[..., b]] if np.ndim(term) == 2 else -term * (y[..., a] != y[..., b]))
    return total


# Components of more than twelve nodes are cut, others enumerated.
@pytest.mark.parametrize(("n", "seeds"), [(1, 3), (4, 20), (8, 20), (13, 20)])
@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("integer", [False, True])
def test_equals_enumeration(n, seeds, tables, integer):
    every = np.array(list(itertools.product((0, 1), repeat=n)))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        model = random_model(rng, n, tables=tables, integer=integer, density=rng.choice([0.15, 0.5]))
        found = binary_max_marginals(*model, labelings=True)
        scores = scores_of(every, *model)
        expected = np.array([[scores[every[:, t] == label].max() for label in (0, 1)] for t in range(n)])
        np.testing.assert_allclose(found.values, expected, atol=1e-9)
        assert scores_of(found.labels, *model) == pytest.approx(scores.max())
        # That of the optimal label is the optimum.
        assert (found.values[np.arange(n), found.labels] == found.values.max()).all()
        for label in (0, 1):
            told = found.labelings[:, label]
            assert (np.diagonal(told) == label).all()
            np.testing.assert_allclose(scores_of(told, *model), expected[:, label], atol=1e-9)
        # Positive exactly if every optimum says 1.
        best = every[scores > scores.max() - 1e-9]
        np.testing.assert_array_equal(found.margins > 1e-9, best.all(axis=0))


def grid(rng, side, strength=1.0):
    index = np.arange(side * side).reshape(side, side)
    edges = np.concatenate([
        np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1),
        np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1),
    ])  # fmt: skip
    return rng.normal(size=(side * side, 2)), edges, strength * rng.exponential(size=len(edges))


@pytest.mark.parametrize("strength", [0.3, 1.0, 5.0])
def test_dynamic_equals_fresh_cuts(strength):
    rng = np.random.default_rng(int(10 * strength))
    unary, edges, penalties = grid(rng, 12, strength)
    found = binary_max_marginals(unary, edges, penalties)
    for t in range(len(unary)):
        for label in (0, 1):
            told = unary.copy()
            told[t, 1 - label] -= 1e4
            fresh = best_binary_labeling(told, edges, penalties)
            assert fresh.labels[t] == label and found.values[t, label] == pytest.approx(fresh.score, abs=1e-9)


def test_without_edges_nodes_speak_for_themselves():
    unary = np.random.default_rng(0).normal(size=(20, 2))
    found = binary_max_marginals(unary, [], [])
    np.testing.assert_allclose(found.margins, unary[:, 1] - unary[:, 0], atol=1e-12)


def test_an_isolated_node_without_preference_in_a_large_component():
    """Nothing holds it, so nothing pulls it over; its labelings must still have the label."""
    edges = np.column_stack([np.arange(15), np.arange(1, 16)])
    found = binary_max_marginals(np.zeros((16, 2)), edges, np.zeros(15), labelings=True)
    assert (found.values == 0).all()
    for t in range(16):
        assert not found.labelings[t, 0, t] and found.labelings[t, 1, t]


def dense(parts, labelings):
    """A labeling of all nodes per node: its own in its component, zeros in the others."""
    found = np.zeros((parts.n_nodes, parts.n_nodes), dtype=np.uint8)
    for begin, end in itertools.pairwise(parts.node_offsets):
        for t in range(begin, end):
            found[t, begin:end] = labelings.best[begin:end]
            found[t, labelings.of(t)] ^= 1
    return found


def several_components(rng, n=30):
    edges = np.array([(a, b) for a, b in itertools.combinations(range(n), 2) if rng.random() < (0.5 if b < 15 else 0.02)])
    parts = Components(n, edges.astype(np.int32))
    sizes = np.diff(parts.node_offsets)
    assert sizes.max() > 12 and sizes.min() < 12
    return parts, len(edges)


def test_combination_is_the_derivative_of_values():
    rng = np.random.default_rng(3)
    n = 30
    parts, n_edges = several_components(rng, n)
    scores, penalties = rng.normal(size=n), rng.exponential(size=n_edges)
    labelings = parts.forced(scores, penalties, rng.integers(0, 2, n).astype(np.uint8))
    best = labelings.best
    np.testing.assert_array_equal(best, parts.best(scores, penalties))
    coefficients = rng.exponential(size=n) * (rng.random(n) < 0.7)
    ones, differ = parts.combine(labelings, coefficients)
    values = parts.values(labelings, scores, penalties)
    assert ones @ scores - differ @ penalties == pytest.approx(coefficients @ values)
    same = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(same.best(scores, penalties), best)
    for k in range(parts.n_parts):
        own, its = slice(*parts.node_offsets[k : k + 2]), slice(*parts.edge_offsets[k : k + 2])
        np.testing.assert_array_equal(parts.best(scores[own].copy(), penalties[its].copy(), k, k + 1), best[own])


# From nodes that go alone to components that go over as a whole.
@pytest.mark.parametrize("strength", [0.05, 0.5, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_differences_equal_dense_labelings(strength, seed):
    rng = np.random.default_rng(seed)
    n = 30
    parts, n_edges = several_components(rng, n)
    scores, penalties = rng.normal(size=n), strength * rng.exponential(size=n_edges)
    wanted = rng.integers(0, 2, n).astype(np.uint8)
    labelings = parts.forced(scores, penalties, wanted)
    table = dense(parts, labelings)
    np.testing.assert_array_equal(np.diagonal(table), wanted)
    sizes = np.diff(labelings.offsets)
    assert sizes[0] == 0 and (sizes[1:] > 0).all() and (sizes.max() >= 12 if strength > 1 else sizes.max() < 30)
    # Of other scores than those that they are best for.
    scores, penalties = rng.normal(size=n), rng.exponential(size=n_edges)
    differ = table[:, parts.edges[:, 0]] != table[:, parts.edges[:, 1]]
    np.testing.assert_allclose(parts.values(labelings, scores, penalties), table @ scores - differ @ penalties, atol=1e-12)
    coefficients = rng.exponential(size=n) * (rng.random(n) < 0.7)
    ones, different = parts.combine(labelings, coefficients)
    np.testing.assert_allclose(ones, coefficients @ table, atol=1e-12)
    np.testing.assert_allclose(different, coefficients @ differ, atol=1e-12)


def test_only_differences_are_stored():
    """Nodes that go alone are one entry each; those that go over together share theirs; others have none."""
    n = 2000
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)]).astype(np.int32)
    parts = Components(n, edges)
    scores = np.where(np.arange(n) % 2, 1.0, 2.0)
    weak = parts.forced(scores, np.full(n - 1, 0.1), np.zeros(n, dtype=np.uint8))
    assert weak.best.all() and len(weak.nodes) == n
    together = parts.forced(scores, np.full(n - 1, 1e6), np.zeros(n, dtype=np.uint8))
    assert together.best.all() and len(together.nodes) == n and (dense(parts, together) == 0).all()
    content = parts.forced(scores, np.full(n - 1, 0.1), np.ones(n, dtype=np.uint8))
    assert len(content.nodes) == 0 and (dense(parts, content) == 1).all()


def test_same_labelings_are_recognised_whatever_is_best():
    rng = np.random.default_rng(0)
    n, agreements = 16, 0
    for _ in range(300):
        # A single node, a pair, and a chain that is cut.
        edges = np.array([(1, 2), *((t, t + 1) for t in range(3, n - 1))], dtype=np.int32)
        parts = Components(n, edges)
        wanted = rng.integers(0, 2, n).astype(np.uint8)
        strength = rng.choice([0.0, 1.0, 50.0])
        scores = rng.integers(-3, 4, n).astype(float) + 0.5
        others = np.where(rng.random(n) < 0.1, -scores, scores)
        first, second = (parts.forced(own, np.full(len(edges), strength), wanted) for own in (scores, others))
        equal = np.array_equal(dense(parts, first), dense(parts, second))
        assert parts.same(first, second) == parts.same(second, first) == equal and parts.same(first, first)
        agreements += equal and not np.array_equal(first.best, second.best)
    assert agreements > 10


def test_kernel_refuses_sets_that_are_none():
    parts = Components(3, np.array([(0, 1)], dtype=np.int32))
    known = parts.forced(np.ones(3), np.ones(1), np.zeros(3, dtype=np.uint8))
    for change, message in (
        ({"nodes": known.nodes + 3}, "out of range"),
        ({"nodes": known.nodes[:-1]}, "offsets must rise"),
        ({"set_of": known.set_of + 5}, "set_of must number the sets"),
        ({"set_of": known.set_of - 5}, "set_of must number the sets"),
        ({"best": known.best[1:]}, "an entry for every node"),
    ):
        with pytest.raises(ValueError, match=message):
            parts.combine(dataclasses.replace(known, **change), np.ones(3))


def test_bad_input():
    unary = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"pairwise\[1\] of edge \(1, 2\) rewards different labels"):
        binary_max_marginals(unary, [(0, 1), (1, 2)], [1, -1])
    with pytest.raises(ValueError, match=r"pairwise\[0\] of edge \(0, 1\) rewards different labels"):
        binary_max_marginals(unary, [(0, 1)], [[[0, 1], [0, 0]]])
    with pytest.raises(ValueError, match=r"unary\[1\] has NaN"):
        binary_max_marginals([[0, 0], [np.nan, 0]], [], [])
    with pytest.raises(ValueError, match="must be finite"):
        binary_max_marginals(unary, [(0, 1)], [np.inf])
    with pytest.raises(ValueError, match="joins a node to itself"):
        binary_max_marginals(unary, [(1, 1)], [1])
    with pytest.raises(ValueError, match="out of range"):
        binary_max_marginals(unary, [(0, 3)], [1])
    with pytest.raises(ValueError, match="sum overflows"):
        binary_max_marginals(unary + 1e308, [(0, 1)], [1e308])
