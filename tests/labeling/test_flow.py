"""Flows on graphs and grids whose capacities change, against SciPy, enumeration and flows from scratch."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from maxmargin.labeling import GRID_STEPS, FlowGraph, minimum_cut


def scipy_value(n, edges, forward, backward, source, sink):
    """Value of a maximum flow with integer capacities."""
    nodes = np.arange(n)
    rows = np.concatenate([edges[:, 0], edges[:, 1], np.full(n, n), nodes])
    columns = np.concatenate([edges[:, 1], edges[:, 0], nodes, np.full(n, n + 1)])
    values = np.concatenate([forward, backward, source, sink]).astype(np.int32)
    graph = coo_array((values, (rows, columns)), shape=(n + 2, n + 2)).tocsr()
    return int(maximum_flow(graph, n, n + 1).flow_value)


def cut_value(edges, forward, backward, source, sink, side):
    """Capacity of a cut by definition."""
    a, b = side[edges[:, 0]], side[edges[:, 1]]
    return forward[a & ~b].sum() + backward[~a & b].sum() + source[~side].sum() + sink[side].sum()


def neighbours(shape, connectivity):
    """Edges of a grid and their numbers, one by one."""
    edges, numbers = [], []
    n = int(np.prod(shape))
    for k, step in enumerate(GRID_STEPS[connectivity]):
        for place in itertools.product(*map(range, shape)):
            there = tuple(p + s for p, s in zip(place, step, strict=True))
            if all(0 <= t < m for t, m in zip(there, shape, strict=True)):
                edges.append((np.ravel_multi_index(place, shape), np.ravel_multi_index(there, shape)))
                numbers.append(k * n + np.ravel_multi_index(place, shape))
    return np.array(edges, dtype=np.int32).reshape(-1, 2), np.array(numbers, dtype=np.int64)


def random_graph(rng, grid):
    if grid:
        edges, _ = neighbours(tuple(rng.integers(1, 6, 2)), int(rng.choice([4, 8])))
        flipped = rng.random(len(edges)) < 0.5
        edges[flipped] = edges[flipped][:, ::-1]
        return int(edges.max(initial=0)) + 1, edges
    n = int(rng.integers(2, 20))
    edges = rng.integers(0, n, (int(rng.integers(0, 50)), 2)).astype(np.int32)
    return n, edges[edges[:, 0] != edges[:, 1]]


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_changed_capacities_equal_scipy_and_a_fresh_flow(seed, grid):
    """Ten rounds of changes of nodes and edges; the same cut as from scratch, down to ties."""
    rng = np.random.default_rng(seed)
    n, edges = random_graph(rng, grid)
    dtype = rng.choice([np.int64, np.float64])
    values = [rng.integers(0, 6, size) * (rng.random(size) < 0.7) for size in (len(edges), len(edges), n, n)]
    if seed % 2:
        # So few sources that the trees of the sink wait for them.
        values[2] *= 9 * (rng.random(n) < 0.15)
    graph = FlowGraph(n, edges, dtype=dtype)
    graph.add_capacities(*values[:2])
    graph.add_terminals(*values[2:])
    for _ in range(10):
        cut = graph.solve()
        assert cut.value == scipy_value(n, edges, *values)
        assert cut.value == cut_value(edges, *values, cut.source_side)
        fresh = minimum_cut(n, edges, values[0], values[2], values[3], values[1])
        assert np.array_equal(cut.source_side, fresh.source_side)
        after = [array.copy() for array in values]
        nodes = np.unique(rng.integers(0, n, 3))
        some = np.unique(rng.integers(0, len(edges), 2)) if len(edges) else np.zeros(0, np.int64)
        for k, at in enumerate((some, some, nodes, nodes)):
            after[k][at] = rng.integers(0, 6, len(at)) * (rng.random(len(at)) < 0.7)
        change = [new - old for new, old in zip(after, values, strict=True)]
        graph.add_capacities(change[0][some], change[1][some], edges=some)
        graph.add_terminals(change[2][nodes], change[3][nodes], nodes=nodes)
        values = after


@pytest.mark.parametrize("seed", range(20))
def test_real_capacities_that_change(seed):
    rng = np.random.default_rng(seed)
    n, edges = random_graph(rng, grid=seed % 2 == 0)
    scale = 10.0 ** rng.integers(-200, 200)
    forward, backward, source, sink = (scale * rng.random(size) for size in (len(edges), len(edges), n, n))
    graph = FlowGraph(n, edges)
    graph.add_capacities(forward, backward)
    graph.add_terminals(source, sink)
    for _ in range(10):
        cut, fresh = graph.solve(), minimum_cut(n, edges, forward, source, sink, backward)
        assert cut.value == pytest.approx(fresh.value, rel=1e-12, abs=0)
        assert cut_value(edges, forward, backward, source, sink, cut.source_side) == pytest.approx(fresh.value, rel=1e-12, abs=0)
        new = scale * rng.random(n)
        graph.add_terminals(new - source, np.zeros(n))
        source = new
        if len(edges):
            one = int(rng.integers(len(edges)))
            new_capacity = scale * rng.random()
            graph.add_capacities([new_capacity - forward[one]], edges=[one])
            forward[one] = new_capacity


@pytest.mark.parametrize(
    ("shape", "connectivity"),
    [((1, 1), 4), ((1, 7), 8), ((7, 1), 8), ((5, 2), 8), ((4, 6), 4), ((6, 5), 8), ((3, 4, 2), 6), ((1, 1, 5), 6)],
)
def test_grids_equal_their_edge_lists(shape, connectivity):
    rng = np.random.default_rng(len(shape) + shape[0])
    edges, numbers = neighbours(shape, connectivity)
    n, size = int(np.prod(shape)), len(GRID_STEPS[connectivity]) * int(np.prod(shape))
    for dtype in (np.int64, np.float64):
        forward, backward, source, sink = (rng.integers(0, 9, k).astype(dtype) for k in (size, size, n, n))
        graph = FlowGraph.grid(shape, connectivity, dtype=dtype)
        graph.add_terminals(source.reshape(shape), sink.reshape(shape))
        steps = (len(GRID_STEPS[connectivity]), *shape)
        graph.add_capacities(forward.reshape(steps), backward.reshape(steps))
        cut = graph.solve()
        listed = minimum_cut(n, edges, forward[numbers], source, sink, backward[numbers])
        assert cut.value == listed.value and cut.source_side.shape == shape
        assert np.array_equal(cut.source_side.ravel(), listed.source_side)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_costs_of_the_other_side_equal_enumeration(seed):
    """Nodes forced, some more than once, by all cuts; the graph is as before afterwards and takes changes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    edges = rng.integers(0, n, (int(rng.integers(0, 12)), 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    forward, backward, source, sink = (rng.integers(0, 5, size) for size in (len(edges), len(edges), n, n))
    sides = np.array(list(itertools.product([False, True], repeat=n)))
    values = np.array([cut_value(edges, forward, backward, source, sink, side) for side in sides])
    graph = FlowGraph(n, edges, dtype=np.int64)
    graph.add_capacities(forward, backward)
    graph.add_terminals(source, sink)
    cut = graph.solve()
    asked = rng.integers(0, n, 2 * n)
    for i, cost in [*zip(asked, graph.costs_of_other_side(asked), strict=True), *enumerate(graph.costs_of_other_side())]:
        assert cost == values[sides[:, i] != cut.source_side[i]].min() - values.min()
    again = graph.solve()
    assert again.value == cut.value and np.array_equal(again.source_side, cut.source_side)
    more, wider = rng.integers(0, 5, n), rng.integers(0, 5, len(edges))
    graph.add_terminals(more, more[::-1])
    graph.add_capacities(wider)
    fresh = minimum_cut(n, edges, forward + wider, source + more, sink + more[::-1], backward)
    again = graph.solve()
    assert again.value == fresh.value and np.array_equal(again.source_side, fresh.source_side)


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_costs_of_the_other_side_equal_fresh_cuts(seed, grid):
    """Strong couplings: flow comes from far away, in many rounds, to nodes of either side in any order."""
    rng = np.random.default_rng(seed)
    n = 100
    edges = neighbours((10, 10), 4)[0] if grid else rng.integers(0, n, (250, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    forward, backward = rng.integers(0, 40, (2, len(edges)))
    source, sink = rng.integers(0, 21, (2, n))
    graph = FlowGraph(n, edges, dtype=np.int64)
    graph.add_terminals(source, sink)
    graph.add_capacities(forward, backward)
    cut = graph.solve()
    asked = rng.permutation(n)[:60]
    costs = graph.costs_of_other_side(asked)
    for i, cost in zip(asked, costs, strict=True):
        pull, side = np.where(np.arange(n) == i, 10**6, 0), cut.source_side[i]
        forced = minimum_cut(n, edges, forward, source + pull * (not side), sink + pull * side, backward)
        assert forced.value - cut.value == cost


@pytest.mark.parametrize("grid", [False, True])
def test_capacities_before_the_first_cut_add_up(grid):
    """In several calls, one way or both, some of them less than nothing: as if given at once."""
    rng = np.random.default_rng(2)
    edges, numbers = neighbours((5, 7), 8)
    graph, size = (FlowGraph.grid((5, 7), 8), 4 * 35) if grid else (FlowGraph(35, edges), len(edges))
    forward, backward, source, sink = np.zeros(size), np.zeros(size), np.zeros(35), np.zeros(35)
    for least in (0, 0, -3):
        # What is taken away was there before.
        more, back = (np.maximum(rng.integers(least, 9, size), -had) for had in (forward, backward))
        graph.add_capacities(more, None if least else back)
        forward, backward = forward + more, backward + (0 if least else back)
        terminals = rng.integers(5 * least, 9, (2, 35))
        graph.add_terminals(*terminals)
        source, sink = source + terminals[0], sink + terminals[1]
    inner = numbers if grid else np.arange(size)
    least = min(source.min(), sink.min())
    fresh = minimum_cut(35, edges, forward[inner], source - least, sink - least, backward[inner])
    cut = graph.solve()
    assert least < 0 and cut.value == fresh.value + 35 * least
    assert np.array_equal(cut.source_side.ravel(), fresh.source_side)


def _first_terminals_of_some(graph, forward, backward, source, sink):
    graph.add_terminals(source, sink, nodes=np.arange(graph.n_nodes))
    graph.add_capacities(forward, backward)


def _first_some_edges(graph, forward, backward, source, sink):
    graph.add_capacities(forward[::2], backward[::2], edges=np.arange(0, len(forward), 2))
    graph.add_capacities(forward[1::2], backward[1::2], edges=np.arange(1, len(forward), 2))
    graph.add_terminals(source, sink)


def _first_in_one_direction(graph, forward, backward, source, sink):
    graph.add_terminals(source, sink)
    graph.add_capacities(forward)
    graph.add_capacities(np.zeros_like(backward), backward)


def _first_less_than_nothing(graph, forward, backward, source, sink):
    graph.add_capacities(-forward, forward + backward)
    graph.add_capacities(2 * forward, -forward)
    graph.add_terminals(source, sink)


def _first_a_cut(graph, forward, backward, source, sink):
    graph.add_terminals(source, sink)
    assert graph.solve().value == np.minimum(source, sink).sum()
    graph.add_capacities(forward, backward)


def _first_cleared(graph, forward, backward, source, sink):
    graph.add_terminals(sink, source)
    graph.clear()
    graph.add_capacities(forward, backward)
    graph.add_terminals(source, sink)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize(
    "fill",
    [
        _first_terminals_of_some,
        _first_some_edges,
        _first_in_one_direction,
        _first_less_than_nothing,
        _first_a_cut,
        _first_cleared,
    ],
)
def test_whatever_a_general_graph_is_given_first(fill, dtype):
    """Arcs are laid out when they are needed, in most cases with all their capacities."""
    rng = np.random.default_rng(3)
    n = 40
    edges = rng.integers(0, n, (150, 2), dtype=np.int32)
    edges = edges[edges[:, 0] != edges[:, 1]]
    values = [rng.integers(0, 9, size) for size in (len(edges), len(edges), n, n)]
    graph = FlowGraph(n, edges, dtype=dtype)
    # The graph has its own edges.
    edges_then = edges.copy()
    edges[:] = 0
    fill(graph, *(array.astype(dtype) for array in values))
    cut = graph.solve()
    assert cut.value == scipy_value(n, edges_then, *values) == cut_value(edges_then, *values, cut.source_side)
    # The edges are not kept beside their arcs.
    assert 36 * len(edges) + 30 * n < graph.n_bytes < 36 * len(edges) + 45 * n


@pytest.mark.parametrize("edge", [(7, 7), (3, 40), (-1, 3)])
def test_a_bad_edge_after_many_good_ones_is_named(edge):
    rng = np.random.default_rng(0)
    good = [(a, b) for a, b in rng.integers(0, 40, (100, 2)).tolist() if a != b]
    with pytest.raises(ValueError, match=rf"edges\[{len(good)}\] = \({edge[0]}, {edge[1]}\)"):
        FlowGraph(40, [*good, edge, (5, 5)])


def test_costs_of_the_other_side_keep_small_numbers():
    """Nothing large is added on the way."""
    rng = np.random.default_rng(0)
    edges, _ = neighbours((6, 6), 4)
    weights, source, sink = 1e-200 * rng.random(len(edges)), 1e-200 * rng.random(36), 1e-200 * rng.random(36)
    graph = FlowGraph(36, edges)
    graph.add_capacities(weights, weights)
    graph.add_terminals(source, sink)
    cut, costs = graph.solve(), graph.costs_of_other_side()
    for i in range(36):
        pull = np.where(np.arange(36) == i, 1e-197, 0.0)
        side = cut.source_side[i]
        forced = minimum_cut(36, edges, weights, source + pull * (not side), sink + pull * side, weights)
        assert forced.value - cut.value == pytest.approx(costs[i], rel=1e-9)


def test_rewards_and_one_sided_capacities():
    """Less than nothing at a terminal, or in one direction of an edge, is a reward; both ways together it is refused."""
    graph = FlowGraph(2, [(0, 1)])
    graph.add_capacities([3.0], [2.0])
    graph.add_terminals([-1.0, 0.0], [0.0, 4.0])
    # Sides (0, 1): both with the sink cost -1.
    assert graph.solve().value == -1.0
    graph.add_capacities([-4.0], edges=[0])
    assert graph.solve().value == -1.0
    with pytest.raises(ValueError, match=r"forward\[0\] leaves edge 0 with a negative capacity"):
        graph.add_capacities([-2.0], edges=[0])
    assert graph.solve().value == -1.0


def test_clear_forgets_everything():
    graph = FlowGraph.grid((3, 3))
    for _ in range(2):
        graph.add_terminals(np.eye(3) * 2, np.ones((3, 3)))
        graph.add_capacities(np.ones((2, 3, 3)))
        assert graph.solve().value == 5.0
        graph.clear()
    assert graph.solve().value == 0.0


def test_a_grid_stores_no_arcs():
    """54 bytes per pixel and 4 neighbours, against 16 per stored arc alone."""
    graph = FlowGraph.grid((512, 512))
    graph.solve()
    assert 53 * 512 * 512 < graph.n_bytes < 56 * 512 * 512


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: FlowGraph.grid((2,)), ValueError, r"shape=\(2,\) must be"),
        (lambda g: FlowGraph.grid((2, 0)), ValueError, "all at least 1"),
        (lambda g: FlowGraph.grid((2, 2), 6), ValueError, "connectivity=6 must be 4 or 8"),
        (lambda g: FlowGraph.grid((70000, 70000)), ValueError, "n_nodes=4900000000"),
        (lambda g: FlowGraph(2, [(0, 1)], dtype=np.float32), ValueError, "must be float64 or int64"),
        (lambda g: FlowGraph(2, [(0, 1)], dtype=np.int64).add_capacities([0.5]), TypeError, "forward must be integers"),
        (lambda g: FlowGraph(2, [(0, 1)], dtype=np.int64).add_capacities([2**62]), ValueError, "more than can be counted"),
        (lambda g: g.add_capacities([np.nan]), ValueError, r"forward\[0\] = nan must be finite"),
        (lambda g: g.add_capacities([1.0, 2.0]), ValueError, "1 numbers are needed"),
        (lambda g: g.add_capacities([1.0], edges=[1]), ValueError, r"edges\[0\] = 1 is out of range"),
        (lambda g: g.add_terminals([1.0], [1.0], nodes=[2]), ValueError, r"nodes\[0\] = 2 is out of range"),
        (lambda g: g.add_terminals([1.0, 1.0], [1e308, 1e308]), ValueError, "sink is so large"),
        (lambda g: g.costs_of_other_side([0.5]), ValueError, "nodes must be one-dimensional integers"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(FlowGraph(2, [(0, 1)]))


def test_a_grid_names_the_edge_that_is_refused():
    graph = FlowGraph.grid((2, 3))
    less = np.zeros((2, 2, 3))
    less[1, 0, 2] = -1.0
    with pytest.raises(ValueError, match=r"forward\[8\] leaves edge 8 with a negative capacity"):
        graph.add_capacities(less)
    # What leaves the grid is not read.
    less[1, 0, 2], less[1, 1, 2] = 0.0, -1.0
    graph.add_capacities(less)


@pytest.mark.parametrize("seed", range(10))
def test_cuts_around_seeds_in_one_piece(seed):
    """A few sources inside of a shell of sinks: trees of both sides grow, and find what SciPy finds."""
    rng = np.random.default_rng(seed)
    shape, connectivity = [((12, 14), 4), ((11, 13), 8), ((6, 7, 8), 6)][seed % 3]
    edges, _ = neighbours(shape, connectivity)
    n = int(np.prod(shape))
    shell = np.ones(shape, dtype=bool)
    shell[(slice(1, -1),) * len(shape)] = False
    middle = np.zeros(shape, dtype=bool)
    middle[tuple(extent // 2 for extent in shape)] = True
    source, sink = (mask.ravel() * rng.integers(20, 200, n) for mask in (middle, shell))
    forward, backward = rng.integers(0, 6, (2, len(edges)))
    if seed % 2:
        # No fixed distances: another layout.
        order = rng.permutation(n)
        edges, source, sink = np.argsort(order)[edges].astype(np.int32), source[order], sink[order]
    for dtype in (np.int64, np.float64):
        graph = FlowGraph(n, edges, dtype=dtype)
        graph.add_capacities(forward, backward)
        graph.add_terminals(source, sink)
        cut = graph.solve()
        assert cut.value == scipy_value(n, edges, forward, backward, source, sink)
        assert cut.value == cut_value(edges, forward, backward, source, sink, cut.source_side)
        # The smallest source side, which also a flow from the other terminals finds.
        assert np.array_equal(cut.source_side, minimum_cut(n, edges, forward, source, sink, backward).source_side)
