"""Minimum cuts equal maximum flows, and binary labellings the best of all labellings."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from maxmargin import _core
from maxmargin.labeling import best_binary_labeling, minimum_cut


def cut_value(side, edges, forward, backward, source, sink):
    """Capacity from the source side to the sink side, by definition."""
    a, b = np.asarray(edges, dtype=int).reshape(-1, 2).T
    crossing = [source[~side], sink[side], np.asarray(forward)[side[a] & ~side[b]], np.asarray(backward)[side[b] & ~side[a]]]
    return float(np.concatenate(crossing).sum())


def peer_flow(n, edges, forward, backward, source, sink):
    """SciPy's maximum flow; integer capacities only."""
    a, b = np.asarray(edges, dtype=int).reshape(-1, 2).T
    nodes = np.arange(n)
    rows = np.concatenate([a, b, np.full(n, n), nodes])
    columns = np.concatenate([b, a, nodes, np.full(n, n + 1)])
    values = np.concatenate([forward, backward, source, sink]).astype(np.int32)
    graph = coo_array((values, (rows, columns)), shape=(n + 2, n + 2)).tocsr()
    graph.sum_duplicates()
    return maximum_flow(graph, n, n + 1).flow_value


def tables_of(penalties):
    """The (E, 2, 2) form of penalties."""
    return np.asarray(penalties, dtype=float)[:, None, None] * np.array([[0.0, -1.0], [-1.0, 0.0]])


def score_of(labels, unary, edges, tables):
    """Score of one labelling, by definition."""
    pairs = sum(tables[e][labels[a]][labels[b]] for e, (a, b) in enumerate(edges))
    return sum(row[y] for row, y in zip(unary, labels, strict=True)) + pairs


def enumerate_best(unary, edges, tables):
    """Best score and, of the labellings that reach it, the one with the fewest ones."""
    scored = [(score_of(y, unary, edges, tables), -sum(y), y) for y in product((0, 1), repeat=len(unary))]
    best = max(scored)
    return best[0], np.array(best[2])


def grid_edges(height, width):
    index = np.arange(height * width).reshape(height, width)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    return np.concatenate([across, down])


def random_edges(rng, n, count):
    """Pairs of different nodes, some of them parallel."""
    a = rng.integers(0, n, count)
    return np.stack([a, (a + rng.integers(1, n, count)) % n], axis=1) if n > 1 else np.zeros((0, 2), dtype=int)


@st.composite
def networks(draw, max_nodes, values):
    """(n, edges, forward, backward, source, sink)."""
    n = draw(st.integers(1, max_nodes))
    pair = st.tuples(st.integers(0, n - 1), st.integers(1, max(1, n - 1))).map(lambda p: (p[0], (p[0] + p[1]) % n))
    edges = draw(st.lists(pair, max_size=4 * n)) if n > 1 else []
    numbers = [draw(st.lists(values, min_size=k, max_size=k)) for k in (len(edges), len(edges), n, n)]
    return n, edges, *(np.array(v, dtype=float) for v in numbers)


few = st.integers(0, 3)
wide = st.one_of(st.just(0.0), st.builds(lambda m, e: m * 10.0**e, st.floats(1, 10), st.integers(-12, 12)))


@settings(max_examples=300, deadline=None)
@given(networks(12, few))
def test_ties_zeros_and_parallel_edges_equal_the_peer(network):
    n, edges, forward, backward, source, sink = network
    cut = minimum_cut(n, edges, forward, source, sink, backward)
    assert cut.value == peer_flow(*network)
    assert cut.value == cut_value(cut.source_side, *network[1:])
    # The source sides of minimum cuts are closed under intersection; ours is the smallest.
    if n <= 6:
        sides = [np.array(s, dtype=bool) for s in product((0, 1), repeat=n)]
        minimal = [s for s in sides if cut_value(s, *network[1:]) == cut.value]
        np.testing.assert_array_equal(cut.source_side, np.logical_and.reduce(minimal))


@settings(max_examples=300, deadline=None)
@given(networks(15, wide))
def test_mixed_scales(network):
    n, edges, forward, backward, source, sink = network
    cut = minimum_cut(n, edges, forward, source, sink, backward)
    assert cut_value(cut.source_side, *network[1:]) == pytest.approx(cut.value, rel=1e-9, abs=0)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_equal_the_peer(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 400))
    edges = random_edges(rng, n, int(rng.integers(0, 6 * n)))
    forward, backward = rng.integers(0, 100, (2, len(edges))) * (rng.random((2, len(edges))) < 0.8)
    source, sink = rng.integers(0, 200, (2, n)) * (rng.random((2, n)) < 0.3)
    network = (edges, forward, backward, source, sink)
    cut = minimum_cut(n, edges, forward, source, sink, backward)
    assert cut.value == peer_flow(n, *network) == cut_value(cut.source_side, *network)
    one_way = minimum_cut(n, edges, forward, source, sink)
    assert one_way.value == peer_flow(n, edges, forward, 0 * backward, source, sink)


@pytest.mark.parametrize("largest", [1, 40, 1000])
@pytest.mark.parametrize(("height", "width"), [(1, 200), (30, 30), (7, 90)])
def test_grids_equal_the_peer(height, width, largest):
    rng = np.random.default_rng(height * largest)
    edges, n = grid_edges(height, width), height * width
    forward, backward = rng.integers(0, largest + 1, (2, len(edges)))
    source, sink = rng.integers(0, 101, (2, n))
    network = (edges, forward, backward, source, sink)
    cut = minimum_cut(n, edges, forward, source, sink, backward)
    assert cut.value == peer_flow(n, *network) == cut_value(cut.source_side, *network)


def test_long_chains_and_hubs():
    """Terminals far apart, and one node with very many arcs."""
    n = 20_000
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    ends = np.zeros((2, n))
    ends[0, 0] = ends[1, -1] = 10.0
    capacity = np.full(n - 1, 4.0)
    capacity[777] = 3.5
    cut = minimum_cut(n, chain, capacity, *ends)
    assert cut.value == 3.5 and cut.source_side.sum() == 778
    rng = np.random.default_rng(0)
    star = np.stack([np.zeros(n - 1, dtype=int), np.arange(1, n)], axis=1)
    source, sink = rng.integers(0, 50, (2, n))
    source[0] = 10 * n
    forward, backward = rng.integers(0, 50, (2, n - 1))
    network = (star, forward, backward, source, sink)
    cut = minimum_cut(n, star, forward, source, sink, backward)
    assert cut.value == peer_flow(n, *network) == cut_value(cut.source_side, *network)


@pytest.mark.parametrize("seed", range(4))
def test_mixed_scales_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    edges, n = grid_edges(40, 40), 1600
    forward, backward = 10.0 ** rng.uniform(-12, 12, (2, len(edges)))
    source, sink = 10.0 ** rng.uniform(-12, 12, (2, n))
    cut = minimum_cut(n, edges, forward, source, sink, backward)
    assert cut_value(cut.source_side, edges, forward, backward, source, sink) == pytest.approx(cut.value, rel=1e-9, abs=0)


@st.composite
def labelings(draw, max_nodes, values):
    """(unary, edges, attractive tables)."""
    n = draw(st.integers(1, max_nodes))
    pair = st.tuples(st.integers(0, n - 1), st.integers(1, max(1, n - 1))).map(lambda p: (p[0], (p[0] + p[1]) % n))
    edges = draw(st.lists(pair, max_size=2 * n)) if n > 1 else []
    unary = np.array(draw(st.lists(st.tuples(values, values), min_size=n, max_size=n)), dtype=float)
    tables = np.zeros((len(edges), 2, 2))
    for table in tables:
        table.flat = draw(st.tuples(values, values, values, values))
        lacking = table[0, 1] + table[1, 0] - table[0, 0] - table[1, 1]
        i = draw(st.integers(0, 1))
        table[i, i] += max(0, lacking)
    return unary, edges, tables


@settings(max_examples=150, deadline=None)
@given(labelings(8, st.integers(-3, 3)))
def test_tables_equal_enumeration_with_ties(problem):
    unary, edges, tables = problem
    found = best_binary_labeling(unary, edges, tables)
    score, labels = enumerate_best(unary.tolist(), edges, tables.tolist())
    assert found.score == score == score_of(found.labels, unary, edges, tables)
    np.testing.assert_array_equal(found.labels, labels)


@settings(max_examples=100, deadline=None)
@given(labelings(7, st.integers(-(2**30), 2**30).map(lambda k: k / 1024)))
def test_tables_equal_enumeration_with_floats(problem):
    unary, edges, tables = problem
    found = best_binary_labeling(unary, edges, tables)
    score, _ = enumerate_best(unary.tolist(), edges, tables.tolist())
    scale = np.abs(unary).sum() + np.abs(tables).sum()
    assert found.score == pytest.approx(score, rel=1e-12, abs=1e-14 * scale)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_penalties_equal_enumeration_and_tables(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        edges = random_edges(rng, n, 2 * n)
        unary, penalties = rng.normal(size=(n, 2)) * 3, rng.exponential(size=len(edges))
        found = best_binary_labeling(unary, edges, penalties)
        score, labels = enumerate_best(unary.tolist(), edges.tolist(), tables_of(penalties).tolist())
        assert found.score == pytest.approx(score, rel=1e-13, abs=1e-13)
        np.testing.assert_array_equal(found.labels, labels)
        assert found.labels.dtype == np.int64
        same = best_binary_labeling(unary, edges, tables_of(penalties))
        np.testing.assert_array_equal(same.labels, found.labels)
        assert same.score == found.score


@pytest.mark.parametrize("none", [[], np.zeros((0, 2), dtype=int)])
@pytest.mark.parametrize("pairwise", [[], np.zeros((0, 2, 2))])
def test_without_edges_every_node_decides_for_itself(none, pairwise):
    found = best_binary_labeling([[1, 2], [2, 1], [3, 3]], none, pairwise)
    assert found.labels.tolist() == [1, 0, 0] and found.score == 7
    assert best_binary_labeling([[0.0, 4.0]], none, pairwise).labels.tolist() == [1]
    assert minimum_cut(2, none, [], [3, 1], [2, 5]).source_side.tolist() == [True, False]


def test_tables_that_attract_nothing_may_carry_rounding():
    rng = np.random.default_rng(0)
    n, edges = 50, [(t, t + 1) for t in range(49)]
    own, left, right = rng.normal(size=(n, 2)), rng.normal(size=(49, 2, 1)), rng.normal(size=(49, 1, 2))
    tables = 1e3 * (left + right)
    found = best_binary_labeling(own, edges, tables)
    single = own.copy()
    single[:-1] += 1e3 * left[:, :, 0]
    single[1:] += 1e3 * right[:, 0]
    np.testing.assert_array_equal(found.labels, single.argmax(axis=1))


def test_repeated_solves_equal_fresh_ones():
    rng = np.random.default_rng(1)
    edges, n = grid_edges(20, 25), 500
    graph = _core.GraphCut(n, edges.astype(np.int32))
    problems = []
    for turn in range(12):
        unary = rng.normal(size=(n, 2)) * rng.choice([0.01, 1, 100])
        penalties = rng.exponential(size=len(edges)) * (rng.random(len(edges)) < 0.9)
        terms = penalties if turn % 2 else tables_of(penalties) + rng.normal(size=(len(edges), 1, 2))
        problems.append((unary, terms))
    fresh = [best_binary_labeling(unary, edges, terms) for unary, terms in problems]
    for (unary, terms), expected in zip(problems, fresh, strict=True):
        score, labels = graph.solve(unary, terms)
        assert score == expected.score
        np.testing.assert_array_equal(labels, expected.labels)
    # A failed call leaves no trace, and threads may share a graph.
    with pytest.raises(ValueError, match="attractive"):
        graph.solve(unary, -np.ones(len(edges)))
    with ThreadPoolExecutor(4) as pool:
        shared = list(pool.map(lambda p: graph.solve(*p), problems * 5))
    for (score, labels), expected in zip(shared, fresh * 5, strict=True):
        assert score == expected.score
        np.testing.assert_array_equal(labels, expected.labels)


def test_layout_types_and_caller_arrays():
    rng = np.random.default_rng(2)
    edges, unary, penalties = grid_edges(5, 6), rng.normal(size=(2, 30)), rng.random(49)
    before = unary.copy(), edges.copy(), penalties.copy()
    plain = best_binary_labeling(np.ascontiguousarray(unary.T), edges, penalties)
    for kind in (np.uint8, np.int16, np.uint64, ">i4"):
        odd = best_binary_labeling(unary.T, np.asfortranarray(edges.astype(kind)), penalties.astype(">f8"))
        assert odd.score == plain.score and (odd.labels == plain.labels).all()
    for array, copy in zip((unary, edges, penalties), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert "ones of 30" in repr(plain)
    assert repr(minimum_cut(2, [], [], [1, 0], [0, 1])) == "MinimumCut(value=0, 1 of 2 nodes with the source)"


@pytest.mark.parametrize(
    ("unary", "edges", "pairwise", "error", "message"),
    [
        ([[0, 1], [0, 1]], [(0, 1)], [-1.0], ValueError, r"pairwise\[0\] of edge \(0, 1\) is negative.*attractive"),
        ([[0, 1], [0, 1]], [(1, 0)], [[[0, 1], [0, 0]]], ValueError, r"pairwise\[0\] of edge \(1, 0\) has t\[0, 0\].*attractive"),
        ([[0, 1], [0, 1]], [(0, 1)], [np.nan], ValueError, r"pairwise\[0\] of edge \(0, 1\) must be finite"),
        ([[0, 1], [0, 1]], [(0, 1)], [np.inf], ValueError, "so large|must be finite"),
        ([[0, 1], [0, 1]], [(0, 1)], [[[0, -np.inf], [0, 0]]], ValueError, "must be finite"),
        ([[0, 1], [0, 1]], [(0, 1)], [[[0, np.nan], [0, 0]]], ValueError, "must be finite"),
        ([[0, 1], [np.nan, 1]], [], [], ValueError, r"unary\[1\] has NaN or infinity"),
        ([[0, 1], [0, -np.inf]], [], [], ValueError, r"unary\[1\] has NaN or infinity"),
        ([[0, 1e308], [1e308, 1]], [], [], ValueError, "sum overflows; scale both down"),
        ([[0, 1], [0, 1]], [(0, 0)], [1.0], ValueError, r"edges\[0\] = \(0, 0\) joins a node to itself"),
        ([[0, 1], [0, 1]], [(0, 1), (0, 2)], [1, 1], ValueError, r"edges\[1\] = \(0, 2\) is out of range; nodes.*0 to 1"),
        ([[0, 1], [0, 1]], [(-1, 1)], [1.0], ValueError, "out of range"),
        ([[0, 1], [0, 1]], [(0, 2**32 + 1)], [1.0], ValueError, "out of range"),
        ([[0, 1], [0, 1]], [0, 1], [1.0], ValueError, r"edges must have shape \(E, 2\)"),
        ([[0, 1], [0, 1]], [(0.0, 1.0)], [1.0], TypeError, "edges must be integers"),
        ([[0, 1], [0, 1]], [(0, 1)], [1.0, 2.0], ValueError, r"pairwise has shape \(2,\), but for 1 edges"),
        ([[0, 1], [0, 1]], [(0, 1)], np.zeros((1, 2)), ValueError, r"pairwise has shape \(1, 2\)"),
        ([[0, 1], [0, 1]], [(0, 1)], ["a"], TypeError, "pairwise must be real numbers"),
        ([0, 1], [], [], ValueError, r"unary must have shape \(L, 2\)"),
        (np.zeros((0, 2)), [], [], ValueError, "unary has 0 rows"),
        ([[0, 1j]], [], [], TypeError, "unary must be real numbers"),
    ],
)  # fmt: skip
def test_bad_labeling_input(unary, edges, pairwise, error, message):
    with pytest.raises(error, match=message):
        best_binary_labeling(unary, edges, pairwise)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_nodes": 0}, ValueError, "n_nodes=0 must be between 1"),
        ({"n_nodes": 2.0}, TypeError, "n_nodes must be an integer"),
        ({"n_nodes": 2**31}, ValueError, "n_nodes=2147483648 must be between 1"),
        ({"edges": [(0, 0)]}, ValueError, "joins a node to itself"),
        ({"edges": [(0, 3)]}, ValueError, "out of range"),
        ({"capacities": [-1]}, ValueError, r"capacities\[0\] = -1 is no capacity"),
        ({"capacities": [np.inf]}, ValueError, r"capacities\[0\] = inf is no capacity"),
        ({"capacities": [1, 2]}, ValueError, r"capacities has shape \(2,\), but must have shape \(1,\)"),
        ({"reverse_capacities": [np.nan]}, ValueError, r"reverse_capacities\[0\] = nan"),
        ({"source": [1, 2, 3]}, ValueError, "source has shape"),
        ({"source": 0}, ValueError, "source has shape"),
        ({"sink": [0, -2]}, ValueError, r"sink\[1\] = -2"),
        ({"source": [1e308, 1e308]}, ValueError, "sum overflows"),
    ],
)
def test_bad_network(change, error, message):
    network = {"n_nodes": 2, "edges": [(0, 1)], "capacities": [1.0], "source": [1, 0], "sink": [0, 1]}
    with pytest.raises(error, match=message):
        minimum_cut(**(network | change))


def test_the_kernel_guards_its_memory():
    edges = np.array([[0, 1]], dtype=np.int32)
    graph = _core.GraphCut(2, edges)
    with pytest.raises(ValueError, match="unary has 3 rows, but 2 are needed"):
        graph.solve(np.zeros((3, 2)), np.zeros(1))
    with pytest.raises(ValueError, match="pairwise has 2 rows, but 1 are needed"):
        graph.solve(np.zeros((2, 2)), np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="out of range"):
        _core.GraphCut(1, edges)
    with pytest.raises(ValueError, match="backward has 0 rows"):
        _core.RealFlow(2, edges).add_capacities(None, np.zeros(1), np.zeros(0))
