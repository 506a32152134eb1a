"""Maximum flows and minimum cuts: one call for one cut, and graphs whose capacities change between cuts.

Cuts are found by the augmenting trees of Boykov and Kolmogorov (PAMI 2004), and found again from the last flow and trees (Kohli
and Torr, PAMI 2007); see ``cpp/labeling/maxflow.hpp``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Booleans, Floats

# The kernel numbers nodes with 32-bit integers.
MAX_NODES = 2**31 - 2
# Integer capacities are added up without overflow below this sum.
_LARGEST_SUM = 2**62
# From a pixel to one of each pair of opposite neighbours.
GRID_STEPS: dict[int, tuple[tuple[int, ...], ...]] = {
    4: ((0, 1), (1, 0)),
    8: ((0, 1), (1, 0), (1, 1), (1, -1)),
    6: ((0, 0, 1), (0, 1, 0), (1, 0, 0)),
}


@dataclass(frozen=True, eq=False)
class MinimumCut:
    """A minimum cut between source and sink.

    Attributes
    ----------
    value : float
        Capacity of the cut, which is the maximum flow.
    source_side : boolean array of shape (n_nodes,), or of the grid's shape
        Nodes that stay with the source. Of all minimum cuts it is the one with the fewest such nodes: a node is on the
        source side only if the source still reaches it, everything else is on the sink side.
    """

    value: float | int
    source_side: Booleans

    def __repr__(self) -> str:
        with_source = int(self.source_side.sum())
        return f"MinimumCut(value={self.value:.6g}, {with_source} of {self.source_side.size} nodes with the source)"


def minimum_cut(
    n_nodes: int,
    edges: ArrayLike,
    capacities: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    reverse_capacities: ArrayLike | None = None,
) -> MinimumCut:
    """Find a minimum cut between source and sink: exactly if all capacities are integers, otherwise up to rounding.

    Parameters
    ----------
    n_nodes : int
        Number of nodes without the two terminals, which have no number.
    edges : int array of shape (E, 2)
        Pairs ``(a, b)`` of nodes 0 to ``n_nodes - 1``; the same pair may occur more than once.
    capacities : array of shape (E,)
        Finite capacities ``>= 0`` from a to b.
    source, sink : arrays of shape (n_nodes,)
        Capacities from the source to each node and from each node to the sink. To separate two particular nodes give
        them more than the sum of all capacities, and 0 to the others.
    reverse_capacities : array of shape (E,), optional
        Capacities from b to a; 0 by default. Pass ``capacities`` again for undirected edges.

    Examples
    --------
    >>> cut = minimum_cut(3, [(0, 1), (1, 2)], [5.0, 2.0], source=[4, 0, 0], sink=[0, 1, 9])
    >>> cut.value, cut.source_side
    (3.0, array([ True,  True, False]))
    """
    _check_n_nodes(n_nodes)
    pairs = check_edges(edges, int(n_nodes))
    sizes = {"capacities": len(pairs), "reverse_capacities": len(pairs), "source": int(n_nodes), "sink": int(n_nodes)}
    given: dict[str, NDArray[Any]] = {
        "capacities": np.asarray(capacities),
        "source": np.asarray(source),
        "sink": np.asarray(sink),
    }
    # Undirected edges: the same array is looked at once.
    same = reverse_capacities is capacities
    if reverse_capacities is not None and not same:
        given["reverse_capacities"] = np.asarray(reverse_capacities)
    arrays = _whole_capacities(given, sizes, twice=("capacities",) if same else ())
    if arrays is None:
        arrays = {name: _check_capacities(given[name], size, name) for name, size in sizes.items() if name in given}
        with np.errstate(over="ignore"):
            total = sum(float(values.sum()) for values in (*arrays.values(), *([arrays["capacities"]] if same else [])))
        if not np.isfinite(total):
            raise ValueError("capacities, source and sink are so large that their sum overflows; scale all of them down")
    forward = arrays["capacities"]
    backward = forward if same else arrays.get("reverse_capacities")
    value, side = _core.minimum_cut(int(n_nodes), pairs, forward, backward, arrays["source"], arrays["sink"])
    return MinimumCut(value, side.view(np.bool_))


def _whole_capacities(
    given: Mapping[str, NDArray[Any]], sizes: Mapping[str, int], twice: Sequence[str]
) -> dict[str, NDArray[Any]] | None:
    """Integer capacities as 32-bit integers if their sum fits, else as 64-bit ones; those in `twice` count twice.

    None if some are no integers, add up to too much or must be refused. Integers stay what they are; as real numbers those above
    2^53 would not.
    """
    total = 0.0
    for name, values in given.items():
        if values.size == 0:
            # An empty list has no integer type.
            if values.shape != (sizes[name],) or values.dtype.kind not in "fiub":
                return None
            continue
        if values.dtype.kind not in "iub" or values.shape != (sizes[name],) or values.min() < 0:
            return None
        # Exact below 2^53, and rounded far less than to half of the largest sum above.
        total += float(values.sum(dtype=np.float64)) * (2 if name in twice else 1)
    if not total < _LARGEST_SUM:
        return None
    # No number in the kernel is larger than the sum of all capacities.
    narrow = total <= np.iinfo(np.int32).max
    return {name: np.ascontiguousarray(values, np.int32 if narrow else np.int64) for name, values in given.items()}


class FlowGraph:
    """A graph between source and sink whose capacities may change; every cut after the first one goes on from the last flow.

    Parameters
    ----------
    n_nodes : int
        Number of nodes without the two terminals.
    edges : int array of shape (E, 2)
        Pairs of different nodes. If they join nodes at four distances or less, as in grids, no arcs are stored.
    dtype : float64 or int64
        Of the capacities; with integers values are exact.

    Examples
    --------
    >>> graph = FlowGraph(3, [(0, 1), (1, 2)])
    >>> graph.add_terminals(source=[4, 0, 0], sink=[0, 1, 9])
    >>> graph.add_capacities([5, 2])
    >>> graph.solve()
    MinimumCut(value=3, 2 of 3 nodes with the source)
    >>> graph.add_terminals(source=[0], sink=[4], nodes=[1])
    >>> graph.solve()
    MinimumCut(value=4, 0 of 3 nodes with the source)
    """

    def __init__(self, n_nodes: int, edges: ArrayLike, dtype: Any = np.float64) -> None:
        _check_n_nodes(n_nodes)
        self._set_up((int(n_nodes),), len(pairs := check_edges(edges, int(n_nodes))), dtype)
        self._flow = self._kind()(int(n_nodes), pairs)

    @classmethod
    def grid(cls, shape: Sequence[int], connectivity: int | None = None, dtype: Any = np.float64) -> FlowGraph:
        """A graph of the pixels of an image or the voxels of a volume, numbered row by row; no list of its edges is needed.

        Capacities of its edges are given as arrays of shape ``(S, *shape)``: for ``S`` steps to one of each pair of opposite
        neighbours, what leads from a pixel along the step. With 4 neighbours these are right and down, with 8 also down right and
        down left, in volumes the next column, row and layer. Entries whose step leaves the grid are not read.

        Parameters
        ----------
        shape : (H, W) or (D, H, W)
        connectivity : {4, 8, 6}, optional
            4 by default, 6 in volumes.
        dtype : float64 or int64

        Examples
        --------
        >>> graph = FlowGraph.grid((2, 2))
        >>> graph.add_terminals(source=[[3, 0], [0, 0]], sink=[[0, 0], [0, 3]])
        >>> graph.add_capacities(np.ones((2, 2, 2)), np.ones((2, 2, 2)))
        >>> graph.solve().source_side
        array([[ True, False],
               [False, False]])
        """
        extents = tuple(int(extent) for extent in shape)
        choices = {2: (4, 8), 3: (6,)}.get(len(extents))
        if choices is None or min(extents) < 1 or extents != tuple(shape):
            raise ValueError(f"shape={tuple(shape)!r} must be (H, W) or (D, H, W), integers, all at least 1")
        connectivity = choices[0] if connectivity is None else connectivity
        if connectivity not in choices:
            raise ValueError(f"connectivity={connectivity!r} must be {' or '.join(map(str, choices))} for shape={extents}")
        _check_n_nodes(int(np.prod(extents, dtype=object)))
        graph = cls.__new__(cls)
        steps = GRID_STEPS[connectivity]
        graph._set_up(extents, len(steps) * int(np.prod(extents)), dtype)
        graph._steps = steps
        missing = 3 - len(extents)
        graph._flow = graph._kind()((1,) * missing + extents, [(0,) * missing + step for step in steps])
        return graph

    def _set_up(self, shape: tuple[int, ...], n_edges: int, dtype: Any) -> None:
        self.shape, self.n_edges = shape, n_edges
        self.n_nodes = int(np.prod(shape))
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float64, np.int64):
            raise ValueError(f"dtype={dtype!r} must be float64 or int64")
        # Of grids: what the numbers of edges stand for.
        self._steps: tuple[tuple[int, ...], ...] = ()
        # No less than the sum of the capacities as they are now.
        self._total = 0.0

    def _kind(self) -> Any:
        return _core.IntegerFlow if self.dtype == np.int64 else _core.RealFlow

    def __repr__(self) -> str:
        return f"FlowGraph({self.n_nodes} nodes, {self.n_edges} edges, {self.dtype})"

    @property
    def n_bytes(self) -> int:
        """Memory of graph and flow."""
        return int(self._flow.n_bytes)

    def add_terminals(self, source: ArrayLike, sink: ArrayLike, nodes: ArrayLike | None = None) -> None:
        """More capacity, or with negative numbers less, from the source to nodes and from nodes to the sink.

        Parameters
        ----------
        source, sink : arrays of shape (K,), or of the grid's shape
            A node that has less than nothing in the end is rewarded for the side.
        nodes : int array of shape (K,), optional
            All nodes by default.
        """
        which = None if nodes is None else self._numbers(nodes, self.n_nodes, "nodes").astype(np.int32)
        size = self.n_nodes if which is None else len(which)
        values = {name: self._capacities(given, size, name) for name, given in (("source", source), ("sink", sink))}
        self._count(values)
        self._flow.add_terminals(which, *values.values())

    def add_capacities(self, forward: ArrayLike, backward: ArrayLike | None = None, edges: ArrayLike | None = None) -> None:
        """More capacity, or with negative numbers less, along edges and back.

        Parameters
        ----------
        forward, backward : arrays of shape (K,), of a grid (S, H, W) or (S, D, H, W)
            From the first node of an edge to the second, and back; nothing by default. What an edge has in both directions
            together must not become negative.
        edges : int array of shape (K,), optional
            Numbers of edges; all of them by default. In grids these are ``step * n_nodes + node``.
        """
        which = None if edges is None else self._numbers(edges, self.n_edges, "edges")
        size = self.n_edges if which is None else len(which)
        given = {"forward": forward} if backward is None else {"forward": forward, "backward": backward}
        values = {name: self._capacities(capacities, size, name) for name, capacities in given.items()}
        self._count(values, (lambda: self._stays_inside(which)) if self._steps else None)
        refused = self._flow.add_capacities(which, values["forward"], values.get("backward"))
        if refused >= 0:
            edge = refused if which is None else int(which[refused])
            raise ValueError(f"forward[{refused}] leaves edge {edge} with a negative capacity in both directions together")

    def solve(self) -> MinimumCut:
        """Find the minimum cut for the capacities as they are now."""
        value, side = self._flow.solve()
        return MinimumCut(value, side.view(np.bool_).reshape(self.shape))

    def costs_of_other_side(self, nodes: ArrayLike | None = None) -> NDArray[Any]:
        """By how much the minimum cut grows if a node is forced to the side where it is not; one at a time.

        Parameters
        ----------
        nodes : int array of shape (K,), optional
            All nodes by default.

        Returns
        -------
        array of shape (K,)
        """
        which = np.arange(self.n_nodes) if nodes is None else self._numbers(nodes, self.n_nodes, "nodes")
        costs: NDArray[Any] = self._flow.costs_of_other_sides(which.astype(np.int32))
        return costs

    def clear(self) -> None:
        """Back to no capacities at all."""
        self._flow.clear()
        self._total = 0.0

    def _numbers(self, values: ArrayLike, end: int, name: str) -> NDArray[np.int64]:
        array = np.asarray(values)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError(f"{name} must be one-dimensional integers, but has dtype {array.dtype} and shape {array.shape}")
        if array.size and (array.min() < 0 or array.max() >= end):
            at = int(np.flatnonzero((array < 0) | (array >= end))[0])
            raise ValueError(f"{name}[{at}] = {array[at]} is out of range; they are numbered 0 to {end - 1}")
        return np.ascontiguousarray(array, dtype=np.int64)

    def _capacities(self, values: ArrayLike, size: int, name: str) -> NDArray[Any]:
        array = np.asarray(values)
        if array.dtype.kind not in ("iub" if self.dtype == np.int64 else "fiub"):
            raise TypeError(
                f"{name} must be {'integers' if self.dtype == np.int64 else 'real numbers'}, but has dtype {array.dtype}"
            )
        if array.size != size or (array.ndim > 1 and array.shape[-len(self.shape) :] != self.shape):
            raise ValueError(f"{name} has shape {array.shape}, but {size} numbers are needed")
        if self.dtype == np.int64 and array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name} holds {array.max()}, which is too large for a capacity; scale all capacities down")
        return np.ascontiguousarray(array, dtype=self.dtype).ravel()

    def _stays_inside(self, edges: NDArray[np.int64] | None) -> Booleans:
        """Of a grid: which edges do not leave it."""
        numbers = np.arange(self.n_edges) if edges is None else edges
        step, node = np.divmod(numbers, self.n_nodes)
        ends = np.array(np.unravel_index(node, self.shape)) + np.array(self._steps)[step].T
        return np.asarray(((ends >= 0) & (ends < np.array(self.shape)[:, None])).all(axis=0))

    def _count(self, changes: Mapping[str, NDArray[Any]], read: Callable[[], Booleans] | None = None) -> None:
        """Refuse changes after which capacities could not be added up; of some only a part is read."""
        limit = _LARGEST_SUM if self.dtype == np.int64 else np.inf
        more = sum(map(_sum, changes.values()))
        if not self._total + more < limit:
            if read is not None:
                inside = read()
                changes = {name: np.where(inside, array, 0) for name, array in changes.items()}
                more = sum(map(_sum, changes.values()))
            for name, array in changes.items():
                _check_finite(array, name)
            # Every change was taken for an increase; now see what is there.
            self._flow.solve()
            self._total = self._flow.total()
        if not self._total + more < limit:
            raise ValueError("the capacities add up to more than can be counted; scale all of them down")
        self._total += more


def _sum(capacities: NDArray[Any]) -> float:
    values = capacities.astype(np.float64, copy=False)
    # Mostly nothing is negative, and then no copy is needed.
    with np.errstate(over="ignore"):
        return float(values.sum() if values.min(initial=0) >= 0 else np.abs(values).sum())


def _check_finite(capacities: NDArray[Any], name: str) -> None:
    if np.isfinite(_sum(capacities)):
        return
    finite = np.isfinite(capacities)
    if finite.all():
        raise ValueError(f"{name} is so large that its sum overflows; scale all capacities down")
    at = int(np.flatnonzero(~finite)[0])
    raise ValueError(
        f"{name}[{at}] = {capacities[at]:g} must be finite (for what is never cut, take more than the sum of the others)"
    )


def _check_n_nodes(n_nodes: Any) -> None:
    if isinstance(n_nodes, bool) or not isinstance(n_nodes, int | np.integer):
        raise TypeError(f"n_nodes must be an integer, but is {n_nodes!r}")
    if not 1 <= n_nodes <= MAX_NODES:
        raise ValueError(f"n_nodes={n_nodes} must be between 1 and {MAX_NODES}")


def real_array(values: ArrayLike, name: str) -> Floats:
    """Contiguous float64 from any real numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, but has dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _check_capacities(values: ArrayLike, size: int, name: str) -> Floats:
    """An array of shape (size,) of finite numbers that are not negative."""
    array = real_array(values, name)
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}, but must have shape ({size},)")
    # NaN fails the comparison too.
    if not ((array >= 0) & (array < np.inf)).all():
        at = int(np.flatnonzero(~((array >= 0) & (array < np.inf)))[0])
        raise ValueError(
            f"{name}[{at}] = {array[at]:g} is no capacity; all must be >= 0 and finite "
            "(for an edge that is never cut, take more than the sum of the others)"
        )
    return array


def check_edges(edges: ArrayLike, n_nodes: int) -> NDArray[np.int32]:
    """Contiguous (E, 2) pairs of node numbers in range."""
    array: NDArray[Any] = np.asarray(edges)
    if array.size == 0:
        return np.zeros((0, 2), dtype=np.int32)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"edges must have shape (E, 2), one pair of nodes per row, but has shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"edges must be integers, but has dtype {array.dtype}")
    # Before the numbers are made narrower, lest they wrap around into the range.
    if array.min() < 0 or array.max() >= n_nodes:
        at = int(np.flatnonzero(((array < 0) | (array >= n_nodes)).any(axis=1))[0])
        a, b = array[at].tolist()
        raise ValueError(f"edges[{at}] = ({a}, {b}) is out of range; nodes are numbered 0 to {n_nodes - 1}")
    return np.ascontiguousarray(array, dtype=np.int32)
