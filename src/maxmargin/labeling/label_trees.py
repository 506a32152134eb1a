"""Trees whose leaves are labels: hierarchically separated trees, random ones that stand for a metric, and clusterings.

A tree either has lengths of edges, and labels are as far apart as the path between them is long; or its nodes have heights, and
two labels are twice the height of their lowest common ancestor apart, which is an ultrametric.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, Ints
from maxmargin.labeling.distances import why_no_metric

# Heights closer than this part of the highest are one.
_ROUNDING = 1e-12


class HST:
    """A tree over labels.

    Parameters
    ----------
    parents : int array of shape (P,)
        Parent of every node, -1 for the root. Nodes 0 to L - 1 are the leaves, which are the labels; all others have children.
    heights : array of shape (P,), optional
        Of the nodes: 0 for leaves, never less than those of the children. Distances are ``2 * heights[lowest common ancestor]``.
    lengths : array of shape (P,), optional
        Of the edges to the parents (that of the root is not read), as an alternative to heights. The edges below a node have one
        length. Distances are lengths of paths.

    Attributes
    ----------
    distances : array of shape (L, L)
    order : int array of shape (L,)
        The labels from left to right, so that those of a subtree are neighbours.

    Examples
    --------
    Two pairs of labels, 3 below their parents, which are 6 below the root:

    >>> tree = HST([4, 4, 5, 5, 6, 6, -1], lengths=[3, 3, 3, 3, 6, 6, 0])
    >>> tree.distances[0]
    array([ 0.,  6., 18., 18.])
    >>> tree.diameter([2, 3]), tree.labels(5), tree.children(6)
    (6.0, array([2, 3]), (4, 5))
    >>> tree.ratio
    2.0
    """

    def __init__(self, parents: ArrayLike, *, heights: ArrayLike | None = None, lengths: ArrayLike | None = None) -> None:
        given = np.asarray(parents)
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"parents must be numbers of nodes, but has dtype {given.dtype}")
        self.parents: Ints = given.astype(np.int64)
        if self.parents.ndim != 1 or self.parents.size == 0:
            raise ValueError("parents must be one-dimensional and not empty")
        if (heights is None) == (lengths is None):
            raise ValueError("a tree has either heights of nodes or lengths of edges; pass one of the two")
        n = len(self.parents)
        roots = np.flatnonzero(self.parents < 0)
        if len(roots) != 1 or self.parents.max(initial=-1) >= n:
            raise ValueError(f"parents must name one root (-1) and otherwise nodes 0 to {n - 1}; it has {len(roots)} roots")
        self.root = int(roots[0])
        inner = np.unique(self.parents[self.parents >= 0])
        self.n_labels = n - len(inner)
        if inner.size and inner[0] < self.n_labels:
            raise ValueError(f"node {inner[0]} has children, but nodes 0 to {self.n_labels - 1} are the labels, which have none")
        children: list[list[int]] = [[] for _ in range(n)]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                children[parent].append(node)
        self._children = [tuple(some) for some in children]
        self._downwards = self._from_root()
        self.heights = None if heights is None else self._check(heights, "heights")
        self.lengths = None if lengths is None else self._check(lengths, "lengths")
        if self.heights is not None:
            slack = _ROUNDING * float(self.heights.max())
            for node, parent in enumerate(self.parents):
                if parent >= 0 and self.heights[node] > self.heights[parent] + slack:
                    raise ValueError(f"heights[{node}] = {self.heights[node]:g} is above its parent's {self.heights[parent]:g}")
            if (np.abs(self.heights[: self.n_labels]) > slack).any():
                raise ValueError("heights of leaves must be 0")

    def _check(self, values: ArrayLike, name: str) -> Floats:
        array = np.array(values, dtype=np.float64)
        if array.shape != self.parents.shape:
            raise ValueError(f"{name} has shape {array.shape}, but must have shape {self.parents.shape}")
        if not ((array >= 0) & (array < np.inf)).all():
            at = int(np.flatnonzero(~((array >= 0) & (array < np.inf)))[0])
            raise ValueError(f"{name}[{at}] = {array[at]:g} must be finite and not negative")
        return array

    def _from_root(self) -> list[int]:
        """All nodes, parents before children, subtrees side by side."""
        found, stack = [], [self.root]
        while stack:
            node = stack.pop()
            found.append(node)
            stack.extend(reversed(self._children[node]))
        if len(found) != len(self.parents):
            missing = min(set(range(len(self.parents))) - set(found))
            raise ValueError(f"parents has a cycle: node {missing} never reaches the root")
        return found

    def __repr__(self) -> str:
        kind = "heights" if self.heights is not None else "lengths"
        return f"HST({self.n_labels} labels, {len(self.parents) - self.n_labels} inner nodes, {kind})"

    def children(self, node: int) -> tuple[int, ...]:
        """Children of a node; none for a leaf."""
        return self._children[node]

    def labels(self, node: int) -> Ints:
        """Labels below a node, sorted."""
        return np.sort(self._below[node])

    @cached_property
    def _below(self) -> list[Ints]:
        below: list[Ints] = [np.array([node]) for node in range(len(self.parents))]
        for node in reversed(self._downwards):
            if self._children[node]:
                below[node] = np.concatenate([below[child] for child in self._children[node]])
        return below

    @property
    def order(self) -> Ints:
        """The labels from left to right."""
        return self._below[self.root]

    @cached_property
    def levels(self) -> list[list[int]]:
        """Inner nodes, in lists whose nodes need only those of earlier lists: a node comes after its children."""
        level = np.zeros(len(self.parents), dtype=np.int64)
        for node in reversed(self._downwards):
            level[node] = 1 + max((level[child] for child in self._children[node]), default=-1)
        return [[node for node in self._downwards if level[node] == k] for k in range(1, int(level.max()) + 1)]

    @cached_property
    def distances(self) -> Floats:
        """Distances of all labels, shape (L, L)."""
        found = np.zeros((self.n_labels, self.n_labels))
        depths = self.depths
        for node in self._downwards:
            for k, child in enumerate(self._children[node]):
                for other in self._children[node][:k]:
                    here, there = self._below[child], self._below[other]
                    if self.heights is not None:
                        apart: Any = 2 * self.heights[node]
                    else:
                        apart = (depths[here][:, None] - depths[node]) + (depths[there][None, :] - depths[node])
                    found[np.ix_(here, there)] = apart
                    found[np.ix_(there, here)] = np.transpose(apart)
        return found

    @cached_property
    def depths(self) -> Floats:
        """How far every node is below the root along edges, shape (P,); of trees with lengths."""
        depths = np.zeros(len(self.parents))
        if self.lengths is not None:
            for node in self._downwards[1:]:
                depths[node] = depths[self.parents[node]] + self.lengths[node]
        return depths

    def diameter(self, labels: Iterable[int]) -> float:
        """The largest distance within a set of labels."""
        some = np.fromiter(labels, dtype=np.int64)
        return float(self.distances[np.ix_(some, some)].max(initial=0.0))

    @property
    def n_children(self) -> int:
        """The largest number of children of a node."""
        return max(map(len, self._children))

    @property
    def ratio(self) -> float:
        """``r``: by which factor, at least, lengths shrink from an edge to the next one below; of trees with lengths.

        1 or less if the tree is no hierarchically separated one; infinite if no path has two edges.
        """
        if self.lengths is None:
            raise ValueError("a tree with heights has no lengths of edges, hence no ratio")
        least = np.inf
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mates = self.lengths[list(self._children[parent])]
                if np.ptp(mates) > _ROUNDING * mates.max():
                    return 0.0
                below = self.lengths[list(self._children[node])]
                least = min(least, float(self.lengths[node] / below.max()) if below.size else np.inf)
        return least

    def scaled(self, factor: float) -> HST:
        """The same tree with all distances multiplied."""
        if self.heights is not None:
            return HST(self.parents, heights=factor * self.heights)
        assert self.lengths is not None
        return HST(self.parents, lengths=factor * self.lengths)

    def contracted(self) -> HST:
        """Without inner nodes that have one child or are as high as their parents, which no distance depends on."""
        if self.heights is None:
            raise ValueError("a tree with lengths of edges cannot be contracted; refit_heights gives it heights")
        slack = _ROUNDING * float(self.heights.max())
        # Which node that is kept stands for another one: itself, or the next above it; -1 above the new root.
        stands, kept = np.append(np.arange(len(self.parents)), -1), np.ones(len(self.parents), dtype=bool)
        for node in self._downwards:
            above = stands[self.parents[node]]
            alike = above >= 0 and self.heights[above] - self.heights[node] <= slack
            if node >= self.n_labels and (alike or len(self._children[node]) == 1):
                kept[node] = False
                stands[node] = above
        numbers = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
        return HST(numbers[stands[self.parents[kept]]], heights=self.heights[kept])


def refit_heights(tree: HST, distances: ArrayLike) -> HST:
    """The lowest heights on a hierarchy with which its distances are nowhere shorter than the given ones.

    Parameters
    ----------
    tree : HST
        Only who is below whom matters. Nodes that turn out as high as their parents, or have one child, are left out.
    distances : array of shape (L, L)

    Examples
    --------
    >>> from maxmargin.labeling import Metric
    >>> tree = random_tree(Metric("linear").table(4), random_state=0)
    >>> refit_heights(tree, Metric("potts").table(4)).distances[0]
    array([0., 1., 1., 1.])
    """
    return fit_heights(tree, distances).contracted()


def fit_heights(tree: HST, distances: ArrayLike) -> HST:
    """As refit_heights, with all nodes of the hierarchy kept."""
    d = np.asarray(distances, dtype=np.float64)
    if d.shape != (tree.n_labels, tree.n_labels):
        raise ValueError(f"distances has shape {d.shape}, but the tree has {tree.n_labels} labels")
    heights = np.zeros(len(tree.parents))
    for level in tree.levels:
        for node in level:
            below = [tree._below[child] for child in tree.children(node)]
            cross = max((float(d[np.ix_(one, other)].max()) for k, one in enumerate(below) for other in below[:k]), default=0.0)
            heights[node] = max([cross / 2, *(heights[child] for child in tree.children(node))])
    return HST(tree.parents, heights=heights)


def star(n_labels: int, distance: float = 1.0) -> HST:
    """All labels equally far apart, below one root.

    >>> star(3, 2.0).distances[0]
    array([0., 2., 2.])
    """
    if n_labels == 1:
        return HST([-1], heights=[0.0])
    return HST([n_labels] * n_labels + [-1], heights=[0.0] * n_labels + [distance / 2])


def random_hst(
    n_labels: int,
    r: float = 2.0,
    *,
    parts: tuple[int, int] = (2, 4),
    root_length: float = 8.0,
    random_state: int | np.random.Generator | None = None,
) -> HST:
    """A random r-HST: labels are parted at random into 2 to 4, again and again.

    Parameters
    ----------
    n_labels : int
    r : float
        Lengths shrink from level to level by ``r`` times a random factor from 1 to 1.5.
    parts : (int, int)
        Least and largest number of children.
    root_length : float
        Of the edges at the root.
    random_state : int or Generator, optional

    Examples
    --------
    >>> tree = random_hst(5, r=3, random_state=0)
    >>> tree.ratio >= 3
    True
    """
    _check_r(r)
    if n_labels < 1:
        raise ValueError(f"n_labels={n_labels!r} must be at least 1")
    if not 2 <= parts[0] <= parts[1]:
        raise ValueError(f"parts={parts!r} must be two numbers, 2 or more, the first not larger")
    rng = np.random.default_rng(random_state)
    parents, lengths = [-1] * n_labels, [0.0] * n_labels
    # Sets of labels, their parents, the edges above them and below them.
    queue: list[tuple[Ints, int, float, float]] = [(np.arange(n_labels), -1, 0.0, root_length)]
    while queue:
        some, parent, above, below = queue.pop(0)
        if len(some) == 1:
            parents[some[0]], lengths[some[0]] = parent, above
            continue
        node = len(parents)
        parents.append(parent)
        lengths.append(above)
        count = min(len(some), int(rng.integers(parts[0], parts[1] + 1)))
        cuts = np.sort(rng.choice(np.arange(1, len(some)), size=count - 1, replace=False))
        for piece in np.split(rng.permutation(some), cuts):
            queue.append((piece, node, below, below / (r * rng.uniform(1.0, 1.5))))
    return HST(parents, lengths=lengths)


def random_tree(distances: ArrayLike, r: float = 2.0, *, random_state: int | np.random.Generator | None = None) -> HST:
    """A random r-HST for a metric, after Fakcharoenphol, Rao and Talwar (STOC 2003).

    No distance in the tree is shorter than that of the metric, and none is longer than O(log L) times that in expectation.

    Parameters
    ----------
    distances : array of shape (L, L)
        A metric.
    r : float
        Lengths of edges shrink by this factor from level to level.
    random_state : int or Generator, optional

    Examples
    --------
    >>> from maxmargin.labeling import Metric
    >>> tree = random_tree(Metric("linear").table(6), random_state=1)
    >>> bool((tree.distances >= Metric("linear").table(6)).all())
    True
    """
    _check_r(r)
    d = check_metric(distances)
    n_labels = len(d)
    if n_labels == 1:
        return HST([-1], lengths=[0.0])
    rng = np.random.default_rng(random_state)
    unit = float(d[~np.eye(n_labels, dtype=bool)].min())
    order, beta = rng.permutation(n_labels), r ** rng.uniform()
    near = d[order] / unit
    top = 0
    while beta * r**top < near.max():
        top += 1
    parents, lengths = [-1] * n_labels, [0.0] * n_labels
    level = top
    sets: list[tuple[Ints, int]] = [(np.arange(n_labels), -1)]
    while sets:
        below: list[tuple[Ints, int]] = []
        radius = beta * r**level
        # The first centre, in the random order, within whose reach a label is.
        owner = (near <= radius / r).argmax(axis=0)
        lonely = bool(radius / r < 1)
        for some, parent in sets:
            node = len(parents)
            parents.append(parent)
            lengths.append(0.0 if parent < 0 else radius * r * unit)
            for centre in np.unique(owner[some]):
                piece = some[owner[some] == centre]
                if lonely:
                    parents[piece[0]], lengths[piece[0]] = node, radius * unit
                else:
                    below.append((piece, node))
        sets, level = below, level - 1
    return HST(parents, lengths=lengths)


def linkage_tree(distances: ArrayLike) -> HST:
    """The tree of complete-linkage clustering, its heights the lowest that dominate the distances.

    Examples
    --------
    >>> linkage_tree([[0, 1, 4], [1, 0, 4], [4, 4, 0]]).distances
    array([[0., 1., 4.],
           [1., 0., 4.],
           [4., 4., 0.]])
    """
    d = check_metric(distances)
    n_labels = len(d)
    if n_labels == 1:
        return HST([-1], heights=[0.0])
    apart = d + np.diag(np.full(n_labels, np.inf))
    parents, node_of = np.full(2 * n_labels - 1, -1), np.arange(n_labels)
    for node in range(n_labels, 2 * n_labels - 1):
        a, b = np.unravel_index(int(np.argmin(apart)), apart.shape)
        parents[node_of[[a, b]]] = node
        node_of[a] = node
        # Two clusters are as far apart as the farthest of their labels; the second one is gone.
        apart[a] = apart[:, a] = np.maximum(apart[a], apart[b])
        apart[b] = apart[:, b] = apart[a, a] = np.inf
    return refit_heights(HST(parents, lengths=np.ones(len(parents))), d)


def check_metric(distances: ArrayLike) -> Floats:
    """The table, if it is one of a metric."""
    d = np.asarray(distances, dtype=np.float64)
    why = why_no_metric(d)
    if why is not None:
        raise ValueError(f"distances must be a metric, but {why}; lengths of shortest_paths are one")
    return d


def _check_r(r: float) -> None:
    if not 1 < r < np.inf:
        raise ValueError(f"r={r!r} must be greater than 1")
