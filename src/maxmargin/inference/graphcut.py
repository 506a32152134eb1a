"""Minimum cuts, and the best labelling with two labels where neighbours attract each other; both exact.

A score ``sum_t u_t(y_t) + sum_e t_e(y_a, y_b)`` over ``y`` in {0, 1}^L with ``t(0,0) + t(1,1) >= t(0,1) + t(1,0)`` on every
edge is a constant minus the value of a cut, so its maximum is a minimum cut (Kolmogorov and Zabih, PAMI 2004). Cuts are
found by the augmenting paths of Boykov and Kolmogorov (PAMI 2004); see ``cpp/structures/maxflow.hpp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._types import Booleans, Floats, Ints

# The kernel numbers nodes with 32-bit integers.
MAX_NODES = 2**31 - 2


@dataclass(frozen=True, eq=False)
class MinimumCut:
    """A minimum cut between source and sink.

    Attributes
    ----------
    value : float
        Capacity of the cut, which is the maximum flow.
    source_side : boolean array of shape (n_nodes,)
        Nodes that stay with the source. Of all minimum cuts it is the one with the fewest such nodes: a node is on the
        source side only if the source still reaches it, everything else is on the sink side.
    """

    value: float
    source_side: Booleans

    def __repr__(self) -> str:
        with_source = int(self.source_side.sum())
        return f"MinimumCut(value={self.value:.6g}, {with_source} of {len(self.source_side)} nodes with the source)"


def minimum_cut(
    n_nodes: int,
    edges: ArrayLike,
    capacities: ArrayLike,
    source: ArrayLike,
    sink: ArrayLike,
    reverse_capacities: ArrayLike | None = None,
) -> MinimumCut:
    """Find a minimum cut between source and sink, exactly.

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
    if isinstance(n_nodes, bool) or not isinstance(n_nodes, int | np.integer):
        raise TypeError(f"n_nodes must be an integer, but is {n_nodes!r}")
    if not 1 <= n_nodes <= MAX_NODES:
        raise ValueError(f"n_nodes={n_nodes} must be between 1 and {MAX_NODES}")
    pairs = check_edges(edges, int(n_nodes))
    forward = _check_capacities(capacities, len(pairs), "capacities")
    if reverse_capacities is None:
        backward = np.zeros(len(pairs))
    else:
        backward = _check_capacities(reverse_capacities, len(pairs), "reverse_capacities")
    from_source = _check_capacities(source, int(n_nodes), "source")
    to_sink = _check_capacities(sink, int(n_nodes), "sink")
    with np.errstate(over="ignore"):
        total = sum(float(values.sum()) for values in (forward, backward, from_source, to_sink))
    if not np.isfinite(total):
        raise ValueError("capacities, source and sink are so large that their sum overflows; scale all of them down")
    value, side = _core.max_flow(int(n_nodes), pairs, forward, backward, from_source, to_sink)
    return MinimumCut(value, side.view(np.bool_))


@dataclass(frozen=True, eq=False)
class BinaryLabeling:
    """The best labelling with two labels.

    Attributes
    ----------
    labels : int array of shape (L,)
        0 or 1 for every node; of equally good labellings the one with the fewest ones.
    score : float
        Its score, the maximum.
    """

    labels: Ints
    score: float

    def __repr__(self) -> str:
        return f"BinaryLabeling(score={self.score:.6g}, {int(self.labels.sum())} ones of {len(self.labels)})"


def best_binary_labeling(unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike) -> BinaryLabeling:
    """Find the labels ``y`` that maximise ``sum_t unary[t, y_t] + sum_e pairwise[e][y_a, y_b]``, exactly.

    Parameters
    ----------
    unary : array of shape (L, 2)
        Finite scores of label 0 and label 1 for every node.
    edges : int array of shape (E, 2)
        Pairs ``(a, b)`` of different nodes; terms of equal pairs add up. May be empty.
    pairwise : array of shape (E,) or (E, 2, 2)
        Penalties ``p >= 0``, which stand for the score ``-p`` where ``y_a != y_b``, or tables ``t`` of scores with
        ``t[0, 0] + t[1, 1] >= t[0, 1] + t[1, 0]`` (up to rounding).

    Notes
    -----
    The labelling is optimal up to the rounding of sums of scores. Tables that reward different labels make the problem
    NP-hard in general and are refused.

    Examples
    --------
    >>> unary = [[0, 3], [1, 0], [0, 2], [5, 0]]
    >>> found = best_binary_labeling(unary, [(0, 1), (1, 2), (2, 3)], [1, 1, 1])
    >>> found.labels, found.score
    (array([1, 1, 1, 0]), 9.0)
    >>> prefers_one_then_zero = [[[0, -1], [2, 1]]]
    >>> best_binary_labeling([[0, 0], [0, 0]], [(0, 1)], prefers_one_then_zero).labels
    array([1, 0])
    """
    scores = real_array(unary, "unary")
    if scores.ndim != 2 or scores.shape[1] != 2:
        raise ValueError(f"unary must have shape (L, 2), the scores of label 0 and label 1, but has shape {scores.shape}")
    if not 1 <= len(scores) <= MAX_NODES:
        raise ValueError(f"unary has {len(scores)} rows; between 1 and {MAX_NODES} nodes are possible")
    pairs = check_edges(edges, len(scores))
    terms = real_array(pairwise, "pairwise")
    if terms.size == 0 and len(pairs) == 0:
        terms = np.zeros(0)
    if terms.shape not in ((len(pairs),), (len(pairs), 2, 2)):
        raise ValueError(
            f"pairwise has shape {terms.shape}, but for {len(pairs)} edges it must be ({len(pairs)},), penalties of "
            f"different labels, or ({len(pairs)}, 2, 2), tables of scores"
        )
    score, labels = _core.GraphCut(len(scores), pairs).solve(scores, terms)
    return BinaryLabeling(labels.astype(np.int64), score)


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
