"""Labelings of chains, trees and forests against the enumeration of all labelings."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp

from maxmargin import _core
from maxmargin.labeling import best_labeling, label_marginals

TEMPERATURES = [0.1, 1.0, 7.0]


def tables(pairwise, n_edges):
    return np.broadcast_to(pairwise, (n_edges, *np.shape(pairwise)[-2:]))


def edges_of(edges, n):
    return np.array([(t, t + 1) for t in range(n - 1)]).reshape(-1, 2) if edges is None else np.array(edges).reshape(-1, 2)


def enumerate_all(unary, pairwise, edges):
    """All labelings (K^L, L) in lexicographic order and their scores."""
    n, k = unary.shape
    pairs = edges_of(edges, n)
    labelings = np.array(list(product(range(k), repeat=n)))
    scores = unary[np.arange(n), labelings].sum(axis=1)
    for table, (q, r) in zip(tables(pairwise, len(pairs)), pairs, strict=True):
        scores = scores + table[labelings[:, q], labelings[:, r]]
    return labelings, scores


def marginals_by_enumeration(unary, pairwise, edges, temperature):
    """Node and edge marginals and temperature * log Z, by definition."""
    n, k = unary.shape
    labelings, scores = enumerate_all(unary, pairwise, edges)
    total = logsumexp(scores / temperature)
    probability = np.exp(scores / temperature - total)
    nodes = np.array([[probability[labelings[:, t] == a].sum() for a in range(k)] for t in range(n)])
    blocks = np.array(
        [
            [[probability[(labelings[:, q] == a) & (labelings[:, r] == b)].sum() for b in range(k)] for a in range(k)]
            for q, r in edges_of(edges, n)
        ]
    ).reshape(-1, k, k)
    return nodes, blocks, temperature * total


def random_forest(n, n_edges, rng):
    """A random forest: nodes, edges and directions in any order."""
    names = rng.permutation(n)
    children = rng.permutation(np.arange(1, n))[:n_edges]
    pairs = np.array([(names[rng.integers(t)], names[t]) for t in children]).reshape(-1, 2)
    flip = rng.random(len(pairs)) < 0.5
    return np.where(flip[:, None], pairs[:, ::-1], pairs).astype(int)


GRAPHS = {
    "chain": (6, 4, None),
    "chain of two": (2, 9, None),
    "one node": (1, 5, None),
    "one label": (4, 1, None),
    "star": (6, 4, [(0, t) for t in range(1, 6)]),
    "star around the last": (5, 4, [(4, t) for t in range(4)]),
    "chain backwards": (5, 3, [(4, 3), (3, 2), (2, 1), (1, 0)]),
    "isolated nodes": (4, 3, []),
    "many labels": (2, 37, None),
    **{f"tree {seed}": (7, 3, random_forest(7, 6, np.random.default_rng(seed))) for seed in range(4)},
    **{f"forest {seed}": (8, 3, random_forest(8, 3 + seed, np.random.default_rng(seed))) for seed in range(4)},
}


def problem(name, own_tables, seed=0):
    n, k, edges = GRAPHS[name]
    rng = np.random.default_rng(seed)
    n_edges = len(edges_of(edges, n))
    return 2 * rng.normal(size=(n, k)), 2 * rng.normal(size=(n_edges, k, k) if own_tables else (k, k)), edges


def score_of(labels, unary, pairwise, edges):
    pairs = edges_of(edges, len(unary))
    own = unary[np.arange(len(unary)), labels].sum()
    return own + sum(table[labels[q], labels[r]] for table, (q, r) in zip(tables(pairwise, len(pairs)), pairs, strict=True))


@pytest.mark.parametrize("own_tables", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_best_labeling_equals_enumeration(name, own_tables):
    for seed in range(5):
        unary, pairwise, edges = problem(name, own_tables, seed)
        labelings, scores = enumerate_all(unary, pairwise, edges)
        found = best_labeling(unary, pairwise, edges=edges)
        assert found.labels.dtype == np.int32
        np.testing.assert_array_equal(found.labels, labelings[scores.argmax()])
        assert found.score == pytest.approx(scores.max(), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("own_tables", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_equal_enumeration(name, own_tables, temperature):
    unary, pairwise, edges = problem(name, own_tables)
    nodes, blocks, total = marginals_by_enumeration(unary, pairwise, edges, temperature)
    found = label_marginals(unary, pairwise, edges=edges, temperature=temperature)
    np.testing.assert_allclose(found.nodes, nodes, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(found.edges, blocks, rtol=1e-11, atol=1e-300)
    assert found.edges.shape == blocks.shape
    assert found.log_partition == pytest.approx(total, rel=1e-13, abs=1e-13)


@st.composite
def forests(draw, elements, size=5, labels=3):
    """(unary, pairwise, edges) with shared or own tables; None for a chain."""
    n, k = draw(st.integers(1, size)), draw(st.integers(1, labels))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = draw(st.sampled_from([None, random_forest(n, draw(st.integers(0, n - 1)), rng)]))
    n_edges = len(edges_of(edges, n))
    shape = draw(st.sampled_from([(k, k), (n_edges, k, k)]))
    return draw(arrays(np.float64, (n, k), elements=elements)), draw(arrays(np.float64, shape, elements=elements)), edges


tied = st.integers(-2, 2).map(float)
wide = st.floats(-1e10, 1e10)


@settings(max_examples=150, deadline=None)
@given(data=forests(tied))
def test_ties_go_to_the_lowest_labels(data):
    unary, pairwise, edges = data
    labelings, scores = enumerate_all(unary, pairwise, edges)
    found = best_labeling(unary, pairwise, edges=edges)
    assert found.score == scores.max() == score_of(found.labels, unary, pairwise, edges)
    if edges is None:
        np.testing.assert_array_equal(found.labels, labelings[scores.argmax()])
    # A component's lowest node has the lowest label of any best labeling.
    assert found.labels[0] == labelings[scores == scores.max(), 0].min()
    np.testing.assert_array_equal(label_marginals(unary, pairwise, edges=edges, temperature=0).nodes.argmax(axis=1), found.labels)


@settings(max_examples=100, deadline=None)
@given(data=forests(tied), temperature=st.sampled_from(TEMPERATURES))
def test_marginals_with_ties(data, temperature):
    nodes, blocks, total = marginals_by_enumeration(*data, temperature)
    found = label_marginals(data[0], data[1], edges=data[2], temperature=temperature)
    np.testing.assert_allclose(found.nodes, nodes, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(found.edges, blocks, rtol=1e-11, atol=1e-300)
    assert found.log_partition == pytest.approx(total, rel=1e-12, abs=1e-12)


def check_sums(found, edges):
    """Probabilities add up to one, and those of edges to those of nodes."""
    for values in (found.log_nodes, found.log_edges, found.log_partition):
        assert np.isfinite(values).all()
    np.testing.assert_allclose(found.nodes.sum(axis=1), 1, rtol=1e-12)
    for block, (q, r) in zip(found.edges, edges_of(edges, len(found.nodes)), strict=True):
        np.testing.assert_allclose(block.sum(axis=1), found.nodes[q], rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(block.sum(axis=0), found.nodes[r], rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0, 3000.0, 1e10])
@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_hang_together_at_every_scale(name, scale):
    for own_tables in (False, True):
        unary, pairwise, edges = problem(name, own_tables)
        check_sums(label_marginals(scale * unary, scale * pairwise, edges=edges), edges)
        check_sums(label_marginals(unary, pairwise, edges=edges, temperature=1 / scale), edges)


@settings(max_examples=100, deadline=None)
@given(data=st.one_of(forests(wide), forests(st.sampled_from([-1e10, -1e5, -800.0, 0.0, 1.0, 800.0, 1e10]))))
def test_huge_scores(data):
    unary, pairwise, edges = data
    found = label_marginals(unary, pairwise, edges=edges)
    check_sums(found, edges)
    _, scores = enumerate_all(unary, pairwise, edges)
    assert best_labeling(unary, pairwise, edges=edges).score == pytest.approx(scores.max(), rel=1e-14, abs=1e-5)
    assert found.log_partition == pytest.approx(logsumexp(scores), rel=1e-14, abs=1e-5)


def test_log_marginals_of_improbable_labels():
    """Logarithms are right far below the smallest float, in whichever order scores become large."""
    for scale in (1.0, 100.0, 1000.0):
        rng = np.random.default_rng(0)
        unary, pairwise = scale * rng.normal(size=(5, 3)), scale * rng.normal(size=(4, 3, 3))
        labelings, scores = enumerate_all(unary, pairwise, None)
        found = label_marginals(unary, pairwise)
        for t, a in np.ndindex(5, 3):
            expected = logsumexp(scores[labelings[:, t] == a]) - logsumexp(scores)
            assert found.log_nodes[t, a] == pytest.approx(expected, rel=1e-12, abs=1e-11)
        for t, a, b in np.ndindex(4, 3, 3):
            expected = logsumexp(scores[(labelings[:, t] == a) & (labelings[:, t + 1] == b)]) - logsumexp(scores)
            assert found.log_edges[t, a, b] == pytest.approx(expected, rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("name", GRAPHS)
def test_marginals_to_potentials_and_back(name):
    """The maximum-entropy distribution of given marginals, prod mu_q^(1 - deg q) prod mu_qr, has these marginals."""
    unary, pairwise, edges = problem(name, own_tables=True)
    first = label_marginals(unary, pairwise, edges=edges, temperature=0.3)
    degree = np.bincount(edges_of(edges, len(unary)).ravel().astype(int), minlength=len(unary))
    again = label_marginals((1 - degree)[:, None] * first.log_nodes, first.log_edges, edges=edges)
    np.testing.assert_allclose(again.log_nodes, first.log_nodes, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(again.log_edges, first.log_edges, rtol=1e-10, atol=1e-11)
    assert again.log_partition == pytest.approx(0, abs=1e-11)


@pytest.mark.parametrize("temperature", [0.0, *TEMPERATURES])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_constant_changes_the_partition_function_alone(name, temperature):
    unary, pairwise, edges = problem(name, own_tables=True)
    plain = label_marginals(unary, pairwise, edges=edges, temperature=temperature)
    shifted = unary.copy()
    shifted[len(unary) // 2] += 100
    moved = label_marginals(shifted, pairwise, edges=edges, temperature=temperature)
    np.testing.assert_allclose(moved.nodes, plain.nodes, rtol=1e-10)
    np.testing.assert_allclose(moved.edges, plain.edges, rtol=1e-10)
    assert moved.log_partition == pytest.approx(plain.log_partition + 100, rel=1e-13)


@pytest.mark.parametrize("own_tables", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_low_temperatures_end_in_the_best_labeling(name, own_tables):
    unary, pairwise, edges = problem(name, own_tables)
    best = best_labeling(unary, pairwise, edges=edges)
    one_hot = np.eye(unary.shape[1])[best.labels]
    for temperature, tolerance in [(0.0, 0), (1e-10, 1e-12), (1e-4, 1e-12)]:
        found = label_marginals(unary, pairwise, edges=edges, temperature=temperature)
        np.testing.assert_allclose(found.nodes, one_hot, atol=tolerance)
        for block, (q, r) in zip(found.edges, edges_of(edges, len(unary)), strict=True):
            np.testing.assert_allclose(block, np.outer(one_hot[q], one_hot[r]), atol=tolerance)
        assert found.log_partition == pytest.approx(best.score, rel=1e-9)


def test_partition_function_is_convex_and_its_gradient_is_the_marginals():
    unary, pairwise, edges = problem("tree 0", own_tables=True)
    found = label_marginals(unary, pairwise, edges=edges, temperature=0.5)
    rng = np.random.default_rng(1)
    du, dp = rng.normal(size=unary.shape), rng.normal(size=pairwise.shape)
    step = 1e-5
    up, down = (
        label_marginals(unary + s * du, pairwise + s * dp, edges=edges, temperature=0.5).log_partition for s in (step, -step)
    )
    assert (up - down) / (2 * step) == pytest.approx((found.nodes * du).sum() + (found.edges * dp).sum(), rel=1e-8)
    assert up + down >= 2 * found.log_partition


def test_long_chains():
    """Messages do not grow: the end of a chain of 20000 nodes knows as much as that of a short one."""
    rng = np.random.default_rng(2)
    unary, pairwise = rng.normal(size=(20_000, 4)), rng.normal(size=(4, 4))
    found, tail = label_marginals(unary, pairwise), label_marginals(unary[-60:], pairwise)
    check_sums(found, None)
    np.testing.assert_allclose(found.nodes[-5:], tail.nodes[-5:], rtol=1e-12)
    np.testing.assert_allclose(found.nodes[:5], label_marginals(unary[:60], pairwise).nodes[:5], rtol=1e-12)
    backwards = label_marginals(unary[::-1], pairwise.T)
    np.testing.assert_allclose(backwards.nodes[::-1], found.nodes, rtol=1e-10)
    assert backwards.log_partition == pytest.approx(found.log_partition, rel=1e-13)
    np.testing.assert_array_equal(best_labeling(unary[::-1], pairwise.T).labels[::-1], best_labeling(unary, pairwise).labels)


def test_an_edge_list_of_the_chain_is_the_chain():
    unary, pairwise, _ = problem("chain", own_tables=True)
    chain = np.array([(t, t + 1) for t in range(5)])
    order, flip = [3, 0, 4, 2, 1], np.array([True, False, True, True, False])
    edges = np.where(flip[:, None], chain[order][:, ::-1], chain[order])
    own = np.where(flip[:, None, None], pairwise[order].transpose(0, 2, 1), pairwise[order])
    found, plain = label_marginals(unary, own, edges=edges), label_marginals(unary, pairwise)
    np.testing.assert_array_equal(found.nodes, plain.nodes)
    np.testing.assert_array_equal(np.where(flip[:, None, None], found.edges.transpose(0, 2, 1), found.edges), plain.edges[order])
    np.testing.assert_array_equal(best_labeling(unary, own, edges=edges).labels, best_labeling(unary, pairwise).labels)


@pytest.mark.parametrize("k", [1, 2, 5, 26, 39])
@pytest.mark.parametrize("own_tables", [False, True])
def test_many_chains_equal_one_at_a_time(k, own_tables):
    rng = np.random.default_rng(k)
    lengths = np.array([1, 8, 3, 0, 12, 1, 2])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    unary, pairwise = rng.normal(size=(n, k)), rng.normal(size=(n, k, k) if own_tables else (k, k))
    labels, scores = _core.forest_best_many(unary, pairwise, offsets, None)
    for q, length in enumerate(lengths):
        part = slice(offsets[q], offsets[q + 1])
        if length == 0:
            assert scores[q] == 0
            continue
        inner = pairwise[offsets[q] + 1 : offsets[q + 1]] if own_tables else pairwise
        best = best_labeling(unary[part], inner)
        np.testing.assert_array_equal(labels[part], best.labels)
        assert scores[q] == best.score


def test_callers_arrays_are_left_alone():
    unary, pairwise, edges = problem("tree 1", own_tables=True)
    integers = (10 * unary).astype(np.int16)
    kept = unary.copy(), pairwise.copy()
    wide_unary = np.repeat(unary, 2, axis=1)[:, ::2]
    for values in (unary, pairwise):
        values.flags.writeable = False
    plain = label_marginals(unary, pairwise, edges=edges)
    strided = label_marginals(wide_unary, np.asfortranarray(pairwise), edges=np.asarray(edges, dtype=np.uint8))
    np.testing.assert_array_equal(strided.nodes, plain.nodes)
    np.testing.assert_array_equal(unary, kept[0])
    np.testing.assert_array_equal(pairwise, kept[1])
    as_float = best_labeling(integers.astype(float), pairwise, edges=edges)
    np.testing.assert_array_equal(best_labeling(integers, pairwise, edges=edges).labels, as_float.labels)


Z = np.zeros


@pytest.mark.parametrize(
    ("unary", "pairwise", "edges", "error", "message"),
    [
        (Z(3), Z((3, 3)), None, ValueError, r"unary has shape \(3,\), but \(L, K\) is needed"),
        (Z((0, 3)), Z((3, 3)), None, ValueError, "at least one node"),
        (Z((3, 0)), Z((0, 0)), None, ValueError, "at least one label"),
        (Z((3, 2)), Z((3, 3)), None, ValueError, r"pairwise has shape \(3, 3\), but unary has 2 labels"),
        (Z((3, 2)), Z((3, 2, 2)), None, ValueError, r"or \(2, 2, 2\), one for each of the 2 edges"),
        (Z((3, 2)), Z((2, 2, 2)), [[0, 1]], ValueError, "one for each of the 1 edges"),
        (Z((3, 2)), Z(4), None, ValueError, "pairwise has shape"),
        ([[0.0, np.nan]], Z((2, 2)), None, ValueError, r"unary\[0, 1\] is NaN or infinite"),
        ([[0.0, 1.0]], [[0, 0], [-np.inf, 0]], None, ValueError, r"pairwise\[1, 0\] is NaN or infinite; forbid labels"),
        ([["a", "b"]], Z((2, 2)), None, TypeError, "unary must be real numbers"),
        ([[1.0, 2.0]], [[1j, 0], [0, 0]], None, TypeError, "pairwise must be real numbers"),
        (np.full((3, 2), 1e308), Z((2, 2)), None, ValueError, "unary and pairwise are so large"),
        (Z((3, 2)), Z((2, 2)), [0, 1], ValueError, r"edges must have shape \(E, 2\), one pair of nodes per row"),
        (Z((3, 2)), Z((2, 2)), [[0.0, 1.0]], TypeError, "edges must be integers"),
        (Z((3, 2)), Z((2, 2)), [[0, 1], [1, 3]], ValueError, r"edges\[1\] = \(1, 3\) is out of range; nodes are numbered 0 to 2"),
        (Z((3, 2)), Z((2, 2)), [[0, -1]], ValueError, r"edges\[0\] = \(0, -1\) is out of range"),
        (Z((3, 2)), Z((2, 2)), [[0, 1], [2, 2]], ValueError, r"edges\[1\] = \[2, 2\] joins a node to itself"),
        (Z((3, 2)), Z((2, 2)), [[0, 1], [1, 2], [1, 0]], ValueError, r"edges\[2\] = \[1, 0\] is there twice"),
        (Z((5, 2)), Z((2, 2)), [[0, 1], [4, 2], [2, 3], [3, 4]], ValueError, "edges has a cycle"),
    ],
)
def test_bad_input(unary, pairwise, edges, error, message):
    for function in (best_labeling, label_marginals):
        with pytest.raises(error, match=message):
            function(unary, pairwise, edges=edges)


@pytest.mark.parametrize("temperature", [-1.0, np.nan, np.inf])
def test_bad_temperature(temperature):
    with pytest.raises(ValueError, match=r"temperature=.* must be a finite number, 0 or greater"):
        label_marginals(Z((2, 2)), Z((2, 2)), temperature=temperature)
    with pytest.raises(ValueError, match="temperature must be finite and not negative"):
        _core.tree_marginals(Z((1, 2)), Z((2, 2)), np.array([-1], np.int32), temperature)


def test_a_temperature_too_small_for_the_scores():
    unary = np.array([[0.0, 1e10]])
    with pytest.raises(ValueError, match=r"temperature=1e-300 is too small .* use 0"):
        label_marginals(unary, Z((2, 2)), temperature=1e-300)
    assert label_marginals(unary, Z((2, 2)), temperature=1e-280).log_nodes[0, 0] == pytest.approx(-1e290)


def test_kernels_refuse_what_would_read_foreign_memory():
    unary, pairwise, parent, whole = Z((3, 2)), Z((2, 2)), np.array([-1, 0, 1], np.int32), np.array([0, 3])
    for bad in ([-1, 0], [-1, 1, 0], [-1, 0, -2], [0, 0, 1]):
        with pytest.raises(ValueError, match="parent"):
            _core.forest_best_many(unary, pairwise, whole, np.array(bad, np.int32))
    for bad in (Z((2, 3)), Z((2, 2, 2)), Z(4), Z((3, 2, 1))):
        with pytest.raises(ValueError, match="pairwise must be of shape"):
            _core.forest_best_many(unary, bad, whole, parent)
    for bad in ([], [0], [0, 2], [1, 3], [0, 4, 3], [0, -1, 3]):
        with pytest.raises(ValueError, match="offsets must rise"):
            _core.forest_best_many(unary, pairwise, np.array(bad, np.int64), None)
