"""What capacities may add up to, as they are now and not as they ever were; and what of a grid is read."""

import numpy as np
import pytest

from maxmargin.labeling import FlowGraph

LARGE = 2**56


def test_capacities_that_come_and_go_are_no_sum():
    graph = FlowGraph(2, [(0, 1)], dtype=np.int64)
    for _ in range(100):
        graph.add_terminals([LARGE, 0], [0, LARGE])
        graph.add_capacities([LARGE // 2])
        assert graph.solve().value == LARGE // 2
        graph.add_terminals([-LARGE, 0], [0, -LARGE])
        graph.add_capacities([-(LARGE // 2)])
    assert graph.solve().value == 0


@pytest.mark.parametrize("edges", [[(0, 1), (1, 2)], [(0, k) for k in range(1, 8)]])
def test_large_changes_keep_cuts_exact(edges):
    """Against a graph made anew, with numbers that double precision cannot hold."""
    rng = np.random.default_rng(0)
    n = 1 + max(map(max, edges))
    source, sink, there = (np.zeros(size, dtype=np.int64) for size in (n, n, len(edges)))
    graph = FlowGraph(n, edges, dtype=np.int64)
    for _ in range(200):
        new = [rng.integers(0, LARGE, size) for size in (n, n, len(edges))]
        graph.add_terminals(new[0] - source, new[1] - sink)
        graph.add_capacities(new[2] - there)
        source, sink, there = new
        fresh = FlowGraph(n, edges, dtype=np.int64)
        fresh.add_terminals(source, sink)
        fresh.add_capacities(there)
        value, expected = graph.solve(), fresh.solve()
        assert value.value == expected.value and (value.source_side == expected.source_side).all()


def test_sums_that_are_too_large_are_still_refused():
    graph = FlowGraph(2, [(0, 1)], dtype=np.int64)
    graph.add_terminals([2**61, 0], [0, 0])
    for _ in range(3):
        with pytest.raises(ValueError, match="the capacities add up to more than can be counted"):
            graph.add_terminals([2**61, 0], [0, 0])
    # What was refused does not count.
    graph.add_terminals([0, 0], [0, 2**60])
    graph.add_capacities([2**59])
    assert graph.solve().value == 2**59


def test_real_capacities_that_come_and_go():
    graph = FlowGraph(1, [])
    for _ in range(40):
        graph.add_terminals([1e307], [1e307])
        assert graph.solve().value == 1e307
        graph.add_terminals([-1e307], [-1e307])


def test_unsigned_capacities_do_not_wrap():
    graph = FlowGraph(1, [], dtype=np.int64)
    with pytest.raises(ValueError, match="source holds 18446744073709551615, which is too large for a capacity"):
        graph.add_terminals(np.array([2**64 - 1], np.uint64), [5])
    graph.add_terminals(np.array([7], np.uint64), [5])
    assert graph.solve().value == 5


@pytest.mark.parametrize("connectivity", [4, 8])
def test_what_leaves_a_grid_is_not_read(connectivity):
    rng = np.random.default_rng(0)
    steps = ((0, 1), (1, 0), (1, 1), (1, -1))[: connectivity // 2]
    capacities = rng.random((len(steps), 4, 5))
    marked = capacities.copy()
    for k, (down, right) in enumerate(steps):
        for y, x in np.ndindex(4, 5):
            if not (0 <= y + down < 4 and 0 <= x + right < 5):
                marked[k, y, x] = np.nan
    source, sink = rng.random((2, 4, 5))
    values = []
    for given in (capacities, marked):
        graph = FlowGraph.grid((4, 5), connectivity)
        graph.add_terminals(source, sink)
        graph.add_capacities(given, given)
        # The same by numbers of edges.
        graph.add_capacities(given.ravel()[::-1], edges=np.arange(given.size)[::-1])
        values.append(graph.solve().value)
    assert values[0] == values[1]
    marked[0, 2, 2] = np.nan
    with pytest.raises(ValueError, match=r"forward\[12\] = nan must be finite"):
        graph.add_capacities(marked)


def test_extents_of_grids_are_integers():
    with pytest.raises(ValueError, match=r"shape=\(2.7, 3\) must be .* integers, all at least 1"):
        FlowGraph.grid((2.7, 3))
    assert FlowGraph.grid(np.array([2, 3])).n_nodes == 6
