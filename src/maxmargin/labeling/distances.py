"""Distances between labels, as functions of two label numbers and as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats

MetricName = Literal["potts", "linear", "quadratic"]
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)
# Tables are compared with themselves up to this part of their largest entry.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Metric:
    """Distances ``scale * f(|a - b|)`` between label numbers, at most ``scale * limit``.

    Parameters
    ----------
    kind : {"potts", "linear", "quadratic"}
        1 for different labels; ``|a - b|``; ``(a - b)^2``. The last is no metric, since going half the way twice is shorter,
        unless the limit is 1.
    limit : float
        No distance exceeds it, before scaling.
    scale : float
        Not negative.

    Examples
    --------
    >>> Metric("linear", limit=2).table(4)
    array([[0., 1., 2., 2.],
           [1., 0., 1., 2.],
           [2., 1., 0., 1.],
           [2., 2., 1., 0.]])
    """

    kind: MetricName = "potts"
    limit: float = np.inf
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in METRIC_NAMES:
            raise ValueError(f"kind={self.kind!r} is unknown; choose one of {', '.join(map(repr, METRIC_NAMES))}")
        if not self.limit > 0:
            raise ValueError(f"limit={self.limit!r} must be positive")
        if not 0 <= self.scale < np.inf:
            raise ValueError(f"scale={self.scale!r} must be a finite number that is not negative")

    def table(self, n_labels: int) -> Floats:
        """All distances, shape (L, L)."""
        labels = np.arange(n_labels, dtype=np.float64)
        apart = np.abs(labels[:, None] - labels[None, :])
        powers = {"potts": (apart > 0).astype(np.float64), "linear": apart, "quadratic": apart**2}
        return np.asarray(self.scale * np.minimum(powers[self.kind], self.limit))


def named_metric(name: str, argument: str) -> Metric:
    """The metric of a name that was given for an argument."""
    for known in METRIC_NAMES:
        if name == known:
            return Metric(known)
    raise ValueError(f"{argument}={name!r} is unknown; choose one of {', '.join(map(repr, METRIC_NAMES))}, or pass a table")


def shortest_paths(n_labels: int, edges: ArrayLike, lengths: ArrayLike) -> Floats:
    """Distances of labels along the edges of a graph, shape (L, L); infinite where there is no way.

    Parameters
    ----------
    n_labels : int
    edges : int array of shape (E, 2)
        Pairs of labels; of equal pairs the shortest counts.
    lengths : array of shape (E,)
        Not negative.

    Examples
    --------
    >>> shortest_paths(3, [(0, 1), (1, 2)], [1.0, 2.0])
    array([[0., 1., 3.],
           [1., 0., 2.],
           [3., 2., 0.]])
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    pairs = np.asarray(edges)
    pairs = np.zeros((0, 2), np.int64) if pairs.size == 0 else pairs
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"edges must be integers of shape (E, 2), but has dtype {pairs.dtype} and shape {pairs.shape}")
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n_labels)).any(axis=1))
    if outside.size:
        a, b = pairs[outside[0]].tolist()
        raise ValueError(f"edges[{outside[0]}] = ({a}, {b}) is out of range; labels are numbered 0 to {n_labels - 1}")
    values = np.asarray(lengths, dtype=np.float64)
    if values.shape != (len(pairs),):
        raise ValueError(f"lengths has shape {values.shape}, but must have shape ({len(pairs)},): one for every edge")
    bad = np.flatnonzero(~(values >= 0))
    if bad.size:
        raise ValueError(f"lengths[{bad[0]}] = {values[bad[0]]:g} must not be negative")
    # A sparse matrix would add up the lengths of equal pairs.
    kept, place = np.unique(np.sort(pairs.astype(np.int64), axis=1), axis=0, return_inverse=True)
    shortest = np.full(len(kept), np.inf)
    np.minimum.at(shortest, place.ravel(), values)
    graph = csr_array((shortest, (kept[:, 0], kept[:, 1])), shape=(n_labels, n_labels))
    return np.asarray(shortest_path(graph, directed=False))


def minkowski(points: ArrayLike, p: float = 2.0) -> Floats:
    """Distances of labels that are points, shape (L, k), in the norm ``p >= 1``.

    >>> minkowski([[0, 0], [3, 4]])
    array([[0., 5.],
           [5., 0.]])
    """
    from scipy.spatial.distance import cdist

    if not p >= 1:
        raise ValueError(f"p={p!r} must be at least 1; below that the triangle inequality does not hold")
    places = np.atleast_2d(np.asarray(points, dtype=np.float64))
    return np.asarray(cdist(places, places, "minkowski", p=p) if np.isfinite(p) else cdist(places, places, "chebyshev"))


def why_no_metric(table: ArrayLike) -> str | None:
    """What keeps a table of distances from being a metric, or None if nothing does.

    Parameters
    ----------
    table : array of shape (L, L)

    Examples
    --------
    >>> why_no_metric(Metric("quadratic").table(3))
    'd(0, 2) = 4 is longer than d(0, 1) + d(1, 2) = 2'
    >>> why_no_metric(Metric("linear", limit=2).table(5))
    """
    d = np.asarray(table, dtype=np.float64)
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        return f"it has shape {d.shape}, which is not square"
    if not np.isfinite(d).all():
        a, b = np.argwhere(~np.isfinite(d))[0]
        return f"d({a}, {b}) = {d[a, b]:g} is not finite"
    slack = _ROUNDING * float(np.abs(d).max(initial=0.0))
    for found, why in ((np.abs(d - d.T) > slack, "differs from"), (d < 0, "is negative")):
        if found.any():
            a, b = np.argwhere(found)[0]
            other = f" d({b}, {a}) = {d[b, a]:g}" if why == "differs from" else ""
            return f"d({a}, {b}) = {d[a, b]:g} {why}{other}"
    if (np.diag(d) > slack).any():
        a = int(np.argmax(np.diag(d)))
        return f"d({a}, {a}) = {d[a, a]:g} is not zero"
    apart = ~np.eye(len(d), dtype=bool)
    if (d[apart] <= 0).any():
        a, b = np.argwhere(apart & (d <= 0))[0]
        return f"d({a}, {b}) = 0 for different labels"
    for middle in range(len(d)):
        around = d[:, middle, None] + d[None, middle, :]
        if (d > around + slack).any():
            a, b = np.unravel_index(int(np.argmax(d - around)), d.shape)
            return f"d({a}, {b}) = {d[a, b]:g} is longer than d({a}, {middle}) + d({middle}, {b}) = {around[a, b]:g}"
    return None
