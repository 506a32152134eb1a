"""``minimum_cut`` with integers: 32 bits where the sum of all capacities fits, 64 where it does not, real numbers above."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from maxmargin import _core
from maxmargin.labeling import FlowGraph, minimum_cut

LARGEST = 2**31 - 1


def cut_value(edges, forward, backward, source, sink, side):
    """Capacity of a cut by definition, in Python's integers."""
    value = 0
    for (a, b), there, back in zip(edges.tolist(), forward, backward, strict=True):
        value += there if side[a] and not side[b] else back if side[b] and not side[a] else 0
    return value + sum(to if inside else of for inside, of, to in zip(side, source, sink, strict=True))


def scipy_value(n, edges, forward, backward, source, sink):
    """By SciPy, whose capacities have 32 bits; edges between the same nodes must be added up before."""
    nodes = np.arange(n)
    rows = np.concatenate([edges[:, 0], edges[:, 1], np.full(n, n), nodes])
    columns = np.concatenate([edges[:, 1], edges[:, 0], nodes, np.full(n, n + 1)])
    values = np.concatenate([forward, backward, source, sink])
    graph = coo_array((values, (rows, columns)), shape=(n + 2, n + 2)).tocsr()
    graph.sum_duplicates()
    return int(maximum_flow(graph.astype(np.int32), n, n + 1).flow_value)


def by_all_kernels(n, edges, forward, backward, source, sink):
    """The cut of ``minimum_cut``, equal to those of the kernels of 64-bit integers and of real numbers, and to itself."""
    forward, backward, source, sink = (np.array(values, dtype=np.int64) for values in (forward, backward, source, sink))
    cut = minimum_cut(n, edges, forward, source, sink, backward)
    graph = FlowGraph(n, edges, dtype=np.int64)
    graph.add_capacities(forward, backward)
    graph.add_terminals(source, sink)
    expected = graph.solve()
    assert isinstance(cut.value, int) and cut.value == expected.value
    assert np.array_equal(cut.source_side, expected.source_side)
    total = sum(int(values.sum()) for values in (forward, backward, source, sink))
    arguments = (forward, backward, source, sink)
    for dtype, limit in ((np.int32, LARGEST), (np.int64, 2**62), (np.float64, 2**53)):
        if total > limit:
            continue
        value, side = _core.minimum_cut(n, edges, *(values.astype(dtype) for values in arguments))
        assert value == expected.value and np.array_equal(side.astype(bool), expected.source_side)
    return cut


def graph_of(draw, n, n_edges, grid):
    if grid:
        rows = max(2, int(np.sqrt(n)))
        index = np.arange(rows * rows).reshape(rows, rows)
        edges = np.concatenate(
            [np.stack([index[:, :-1], index[:, 1:]], 2).reshape(-1, 2), np.stack([index[:-1], index[1:]], 2).reshape(-1, 2)]
        )
        return rows * rows, edges.astype(np.int32)
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(1, n - 1)), max_size=n_edges))
    return n, np.array([(a, (a + step) % n) for a, step in pairs], dtype=np.int32).reshape(-1, 2)


# Ties and zeros; numbers whose sums pass the limits of 32 bits; and those that double precision does not hold.
SIZES = [st.integers(0, 3), st.integers(0, 2**27), st.integers(LARGEST - 3, LARGEST + 3), st.integers(0, 2**55)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_all_kernels_agree(data):
    n, edges = graph_of(data.draw, data.draw(st.integers(2, 12)), 40, data.draw(st.booleans()))
    capacity = data.draw(st.sampled_from(SIZES)) | st.just(0)
    values = [data.draw(st.lists(capacity, min_size=size, max_size=size)) for size in (len(edges), len(edges), n, n)]
    cut = by_all_kernels(n, edges, *values)
    assert cut.value == cut_value(edges, *values, cut.source_side.tolist())
    if sum(map(sum, values)) <= LARGEST:
        assert cut.value == scipy_value(n, edges, *values)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("more", [-1, 0, 1, 2**31])
def test_sums_at_the_border_of_32_bits(seed, more):
    """Capacities that add up to the largest 32-bit integer or a little more, almost all of them at a few edges and nodes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    if seed % 2:
        edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    else:
        edges = rng.integers(0, n, (3 * n, 2)).astype(np.int32)
        edges = edges[edges[:, 0] != edges[:, 1]]
    values = [rng.integers(0, 4, size) for size in (len(edges), len(edges), n, n)]
    for k in rng.permutation(4):
        if len(values[k]):
            rest = LARGEST + more - sum(int(array.sum()) for array in values)
            values[k][int(rng.integers(len(values[k])))] += rest if rng.random() < 0.5 else rest // 2
    rest = LARGEST + more - sum(int(array.sum()) for array in values)
    values[2][0] += rest
    assert sum(int(array.sum()) for array in values) == LARGEST + more
    cut = by_all_kernels(n, edges, *values)
    assert cut.value == cut_value(edges, *values, cut.source_side.tolist())


@pytest.mark.parametrize("capacity", [LARGEST // 3, LARGEST // 3 + 1, LARGEST, LARGEST + 1, 2**40])
def test_all_flow_through_one_path(capacity):
    """Source, edge and sink have the same capacity, and the flow is all of it, whatever the three add up to."""
    for back in (None, [0], [capacity]):
        cut = minimum_cut(2, [(0, 1)], [capacity], [capacity, 0], [0, capacity], back)
        assert cut.value == capacity and not cut.source_side.any()


def test_the_same_edges_many_times():
    edges = np.tile(np.array([(0, 1), (1, 0)], dtype=np.int32), (50, 1))
    each = LARGEST // 300
    cut = by_all_kernels(2, edges, [each] * 100, [each] * 100, [LARGEST // 3, 0], [0, LARGEST // 3])
    assert cut.value == min(100 * each, LARGEST // 3)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint32, np.int32, np.uint64, np.int64])
def test_any_integers_and_strides(dtype):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 9, (40, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    forward, backward = rng.integers(0, 2, (len(edges), 2)).T.astype(dtype)
    source, sink = rng.integers(0, 2, (9, 2)).T.astype(dtype)
    cut = minimum_cut(9, edges, forward, source, sink, backward)
    real = minimum_cut(9, edges, *(array.astype(float) for array in (forward, source, sink, backward)))
    assert type(cut.value) is int and cut.value == real.value and np.array_equal(cut.source_side, real.source_side)


def test_undirected_edges_count_twice():
    """The same array for both directions is looked at once: its sum fits into 32 bits, twice its sum does not."""
    capacities = np.array([2**30 - 1, 2**30 - 1])
    cut = minimum_cut(3, [(0, 1), (0, 2)], capacities, [2**31 - 5, 0, 0], [0, 2**30, 2**30], capacities)
    assert cut.value == 2**31 - 5
    copied = minimum_cut(3, [(0, 1), (0, 2)], capacities, [2**31 - 5, 0, 0], [0, 2**30, 2**30], capacities.copy())
    assert copied.value == cut.value and np.array_equal(cut.source_side, copied.source_side)
    reals = capacities.astype(float)
    assert minimum_cut(3, [(0, 1), (0, 2)], reals, [2**31 - 5, 0, 0], [0, 2**30, 2**30], reals).value == cut.value


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("capacities", [-1, 2], r"capacities\[0\] = -1 is no capacity"),
        ("reverse_capacities", [1, -2], r"reverse_capacities\[1\] = -2 is no capacity"),
        ("source", [1, 2], r"source has shape \(2,\), but must have shape \(3,\)"),
        ("sink", [[1, 2, 3]], r"sink has shape \(1, 3\), but must have shape \(3,\)"),
    ],
)
def test_integers_are_checked(name, values, message):
    given = {"capacities": [1, 2], "reverse_capacities": [1, 2], "source": [1, 2, 3], "sink": [3, 2, 1], name: values}
    with pytest.raises(ValueError, match=message):
        minimum_cut(3, [(0, 1), (1, 2)], **given)


def test_kernel_checks_sizes():
    edges, one, two = np.array([[0, 1]], dtype=np.int32), np.ones(1, np.int32), np.ones(2, np.int32)
    for arguments in ((two, None, two, two), (one, two, two, two), (one, None, one, two), (one, None, two, one)):
        with pytest.raises(ValueError, match="rows, but"):
            _core.minimum_cut(2, edges, *arguments)
