"""Trees and directed acyclic graphs of labels: who is above whom, and which labels there are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maxmargin._utils import Floats, Ints

# How many names a message shows.
_SHOWN = 5


class MinimalGraph(NamedTuple):
    """A hierarchy without duplicates, the node that each of the old ones became, and how many became one (by old node)."""

    hierarchy: Hierarchy
    group: Ints
    multiplicity: Ints


class Hierarchy:
    """Labels with edges from the general to the special: a tree, or a directed acyclic graph, with one root.

    Nodes are numbered so that parents come before their children; the root is node 0.

    Parameters
    ----------
    edges : iterable of pairs
        ``(parent, child)``, names of any hashable kind.
    nodes : iterable, optional
        All names, in the order in which nodes of equal rank are to be numbered; those of the edges by default.
    root : hashable, optional
        A name for one more node above all that have no parent; needed where there are several.

    Attributes
    ----------
    nodes : tuple of length M
        Names.
    edges : int array of shape (E, 2)
        Parent and child, by number.

    Examples
    --------
    >>> tree = Hierarchy([("animal", "dog"), ("animal", "cat"), ("cat", "lion"), ("cat", "tiger")])
    >>> tree
    Hierarchy(5 nodes, 3 leaves, a tree)
    >>> [tree.nodes[leaf] for leaf in tree.leaves]
    ['dog', 'lion', 'tiger']
    >>> tree.ancestors_of("lion")
    ('animal', 'cat', 'lion')
    """

    def __init__(self, edges: Iterable[Any], nodes: Iterable[Hashable] | None = None, root: Hashable | None = None) -> None:
        pairs = [_pair(edge) for edge in edges]
        names: dict[Hashable, int] = {}
        for name in [] if nodes is None else nodes:
            names.setdefault(name, len(names))
        for pair in pairs:
            for name in pair:
                if nodes is not None and name not in names:
                    raise ValueError(f"edge {pair!r} has the node {name!r}, which is not in nodes; add it, or leave nodes out")
                names.setdefault(name, len(names))
        if not names:
            raise ValueError("edges is empty; a hierarchy has at least one node, name it in nodes")
        with_parent = {child for _, child in pairs}
        tops = [name for name in names if name not in with_parent]
        if root is not None:
            if root in names:
                raise ValueError(f"root={root!r} is a node already; choose a new name for the node above all others")
            names = {root: 0, **{name: k + 1 for name, k in names.items()}}
            pairs = [(root, top) for top in tops] + pairs
        elif len(tops) > 1:
            raise ValueError(
                f"there are {len(tops)} roots, {_named(tops)}, but one is needed; pass root='a new name' to Hierarchy "
                "for a node above them"
            )
        self._build(list(names), np.array([(names[a], names[b]) for a, b in pairs], dtype=np.int64).reshape(-1, 2))

    def _build(self, names: list[Hashable], edges: Ints) -> None:
        edges = np.unique(edges, axis=0)
        order = _parents_first(names, edges)
        place = np.empty(len(names), dtype=np.int64)
        place[order] = np.arange(len(names))
        self.nodes: tuple[Hashable, ...] = tuple(names[k] for k in order)
        numbered = place[edges]
        self.edges: Ints = numbered[np.lexsort((numbered[:, 1], numbered[:, 0]))]
        self._number = {name: k for k, name in enumerate(self.nodes)}

    # ---- other forms --------------------------------------------------------------------------------------------------------

    @classmethod
    def from_graph(cls, graph: Any, root: Hashable | None = None) -> Hierarchy:
        """A directed graph of networkx, with edges from parents to children."""
        if not graph.is_directed():
            raise ValueError("graph has no directions, so nobody knows who is above; pass a networkx.DiGraph, parent -> child")
        return cls(graph.edges(), graph.nodes(), root)

    @classmethod
    def from_parents(cls, parents: ArrayLike | Mapping[Any, Any], root: Hashable | None = None) -> Hierarchy:
        """The number of each node's parent, -1 for none; or a mapping of a name to its parent, to several, or to None.

        Examples
        --------
        >>> Hierarchy.from_parents([-1, 0, 0, 1, 1]).leaves
        array([2, 3, 4])
        """
        if isinstance(parents, Mapping):
            above = {child: _several(own) for child, own in parents.items()}
            named = [*dict.fromkeys([*above, *(name for own in above.values() for name in own)])]
            return cls([(name, child) for child, own in above.items() for name in own], named, root)
        array = np.asarray(parents)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"parents has shape {array.shape} and dtype {array.dtype}, but must be one integer per node")
        if len(array) and (array.min() < -1 or array.max() >= len(array)):
            raise ValueError(
                f"parents must lie between -1 (no parent) and {len(array) - 1}, but has {array.min()} to {array.max()}"
            )
        return cls([(int(p), k) for k, p in enumerate(array) if p >= 0], range(len(array)), root)

    @classmethod
    def from_columns(cls, columns: Any, root: Hashable = "root", separator: str = "/") -> Hierarchy:
        """One column per level, from the general to the special, one row per sample: what HiClass takes as ``y``.

        A node is named by its way from the top, ``"cat/lion"``, so that equal names in different places stay apart; entries that
        are empty text, None or NaN end a row early.

        Examples
        --------
        >>> Hierarchy.from_columns([["dog", ""], ["cat", "lion"], ["cat", "tiger"]]).nodes
        ('root', 'cat', 'dog', 'cat/lion', 'cat/tiger')
        """
        return cls.from_paths(sorted({*paths_of(columns, separator)}), root, separator)

    @classmethod
    def from_paths(cls, paths: Iterable[str], root: Hashable = "root", separator: str = "/") -> Hierarchy:
        """Nodes as ways from the top, ``"01/01/03"``: the class attribute of the Clus system's ARFF files.

        Clus writes graphs that are no trees as ``"parent/child"`` with the whole list being edges; use ``Hierarchy(edges)`` then.

        Examples
        --------
        >>> Hierarchy.from_paths(["01", "01/01", "01/02", "02"]).ancestors_of("01/02")
        ('root', '01', '01/02')
        """
        edges = []
        for path in paths:
            parts = path.split(separator)
            if not all(parts):
                raise ValueError(f"path {path!r} has an empty part; write it without {separator!r} at its ends or twice in a row")
            steps = [root, *(separator.join(parts[: k + 1]) for k in range(len(parts)))]
            edges += list(pairwise(steps))
        return cls(dict.fromkeys(edges), [root, *dict.fromkeys(child for _, child in edges)])

    @classmethod
    def of(cls, source: Any, root: Hashable | None = None) -> Hierarchy:
        """A hierarchy from any of the forms: itself, a networkx graph, a list of edges, parents, or a mapping to parents."""
        if isinstance(source, Hierarchy):
            return source
        if hasattr(source, "is_directed") and hasattr(source, "edges"):
            return cls.from_graph(source, root)
        if isinstance(source, Mapping):
            return cls.from_parents(source, root)
        if isinstance(source, str) or not isinstance(source, Iterable):
            raise TypeError(
                f"hierarchy={source!r} is none of a Hierarchy, a networkx.DiGraph, pairs of (parent, child), an array of "
                "parents, or a mapping of names to parents"
            )
        listed = source if isinstance(source, np.ndarray) else list(source)
        if len(listed) and np.ndim(listed[0]) == 0 and not isinstance(listed[0], str):
            return cls.from_parents(np.asarray(listed), root)
        return cls(listed, None, root)

    # ---- what it is ---------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        kind = "a tree" if self.is_tree else "not a tree"
        return f"Hierarchy({len(self)} nodes, {len(self.leaves)} leaves, {kind})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hierarchy) and self.nodes == other.nodes and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash(self.nodes)

    @cached_property
    def is_tree(self) -> bool:
        """Whether every node but the root has one parent."""
        return len(self.edges) == len(self) - 1

    @cached_property
    def parent(self) -> Ints:
        """Of a tree: the number of every node's parent, shape (M,); -1 for the root."""
        if not self.is_tree:
            child = int(np.flatnonzero(np.bincount(self.edges[:, 1]) > 1)[0])
            raise ValueError(f"{self.nodes[child]!r} has several parents, but a tree is needed here")
        parent = np.full(len(self), -1, dtype=np.int64)
        parent[self.edges[:, 1]] = self.edges[:, 0]
        return parent

    @cached_property
    def leaves(self) -> Ints:
        """Numbers of the nodes without children."""
        return np.setdiff1d(np.arange(len(self)), self.edges[:, 0])

    @cached_property
    def children(self) -> list[Ints]:
        """Numbers of the children of every node."""
        return np.split(self.edges[:, 1], np.cumsum(np.bincount(self.edges[:, 0], minlength=len(self)))[:-1])

    @cached_property
    def ancestors(self) -> Any:
        """CSR matrix of shape (M, M): entry (n, m) is 1 if m is n or above it, through any parent."""
        above: list[Ints] = [np.zeros(1, dtype=np.int64)] * len(self)
        parents: list[list[int]] = [[] for _ in self.nodes]
        for a, b in self.edges.tolist():
            parents[b].append(a)
        for n, own in enumerate(parents):
            if len(own) == 1:
                above[n] = np.append(above[own[0]], n)
            elif own:
                above[n] = np.append(np.unique(np.concatenate([above[p] for p in own])), n)
        begin = np.concatenate([[0], np.cumsum([len(row) for row in above])])
        return sparse.csr_array((np.ones(begin[-1]), np.concatenate(above), begin), shape=(len(self), len(self)))

    def membership(self, labels: ArrayLike | None = None) -> Any:
        """The matrix B of the theory: CSR of shape (K, M), 1 where a node is a label or above it. Labels are leaves by default.

        Examples
        --------
        >>> Hierarchy.from_parents([-1, 0, 0, 1, 1]).membership().toarray()
        array([[1., 0., 1., 0., 0.],
               [1., 1., 0., 1., 0.],
               [1., 1., 0., 0., 1.]])
        """
        return self.ancestors[self.leaves if labels is None else np.asarray(labels, dtype=np.int64)]

    def number(self, name: Any) -> int:
        """The number of a node."""
        try:
            return self._number[name]
        except (KeyError, TypeError):
            raise ValueError(
                f"label {name!r} is not a node of the hierarchy, which has {_named(self.nodes)}; add it, or correct the label"
            ) from None

    def numbers(self, names: Iterable[Any]) -> Ints:
        """The numbers of several nodes."""
        return np.array([self.number(name) for name in names], dtype=np.int64)

    def numbers_of_samples(self, names: Iterable[Any]) -> Ints:
        """The numbers of the labels of samples; one that is no node is told with the sample that has it."""
        found = []
        for k, name in enumerate(names):
            try:
                found.append(self.number(name))
            except ValueError as error:
                raise ValueError(f"sample {k}: {error}") from None
        return np.array(found, dtype=np.int64)

    def check_per_node(self, values: Any, what: str) -> Floats:
        """An array whose last axis is one entry per node."""
        array = np.asarray(values, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] != len(self):
            raise ValueError(f"{what} has shape {array.shape}, but the hierarchy has {len(self)} nodes, one entry for each")
        return array

    def ancestors_of(self, name: Any) -> tuple[Hashable, ...]:
        """The node and all nodes above it, the root first."""
        row = self.ancestors[[self.number(name)]]
        return tuple(self.nodes[k] for k in np.sort(row.indices))

    # ---- sets of labels -----------------------------------------------------------------------------------------------------

    def indicators(self, labels: Sequence[Any]) -> NDArray[np.bool_]:
        """Sets of names as a matrix of shape (n, M), with everything above them.

        Examples
        --------
        >>> tree = Hierarchy.from_parents([-1, 0, 0, 1, 1])
        >>> tree.indicators([[3], [2, 4]]).astype(int)
        array([[1, 1, 0, 1, 0],
               [1, 1, 1, 0, 1]])
        """
        found = np.zeros((len(labels), len(self)), dtype=bool)
        for k, names in enumerate(labels):
            if isinstance(names, str) or not isinstance(names, Iterable):
                raise ValueError(f"sample {k}: labels {names!r} must be a list or a set of names, even if it is one")
            try:
                own = self.numbers(names)
            except ValueError as error:
                raise ValueError(f"sample {k}: {error}") from None
            if not len(own):
                raise ValueError(f"sample {k}: its label set is empty; give it the root {self.nodes[0]!r}, or leave it out")
            found[k, self.ancestors[own].indices] = True
        return found

    def check_indicators(self, Y: Any, ends: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """A matrix of 0 and 1 of shape (n, M) in which nobody is without those above; and, if asked, ends where it may."""
        matrix = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
        if matrix.ndim != 2 or matrix.shape[1] != len(self):
            raise ValueError(f"Y has shape {matrix.shape}, but the hierarchy has {len(self)} nodes, one column for each")
        if not np.isin(matrix, (0, 1)).all():
            raise ValueError("Y must hold 0 and 1 only")
        chosen = matrix.astype(bool)
        empty = ~chosen.any(axis=1)
        if empty.any():
            raise ValueError(f"sample {int(empty.argmax())}: its label set is empty; give it the root, or leave it out")
        above, below = self.edges.T
        for first in range(0, len(chosen), 4096):
            orphan = chosen[first : first + 4096, below] & ~chosen[first : first + 4096, above]
            if orphan.any():
                k, e = np.argwhere(orphan)[0]
                raise ValueError(
                    f"sample {first + k}: has the label {self.nodes[below[e]]!r}, but not {self.nodes[above[e]]!r} above it; "
                    "hierarchy.closed(Y) adds what is missing"
                )
        if ends is not None:
            stops = chosen & ~ends & ~self._has_child(chosen)
            if stops.any():
                k, n = np.argwhere(stops)[0]
                raise ValueError(f'sample {k}: ends at {self.nodes[n]!r}, which is no leaf; use labels="all" to allow that')
        return chosen

    def _has_child(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        above, below = self.edges.T
        edges: Any = sparse.csr_array((np.ones(len(above)), (below, above)), shape=(len(self), len(self)))
        return np.asarray(chosen @ edges) > 0

    def closed(self, Y: Any) -> NDArray[np.bool_]:
        """The matrix with everything above what it has."""
        matrix: Any = sparse.csr_array(Y, dtype=np.float64)
        return np.asarray((matrix @ self.ancestors).toarray() > 0)

    def most_specific(self, chosen: NDArray[np.bool_]) -> list[tuple[Hashable, ...]]:
        """The names in each row of a closed matrix that have none of their children in it."""
        ends = chosen & ~self._has_child(chosen)
        return [tuple(self.nodes[n] for n in np.flatnonzero(row)) for row in ends]

    # ---- duplicates ---------------------------------------------------------------------------------------------------------

    def duplicates(self, labels: ArrayLike | None = None) -> Ints:
        """Groups of nodes that belong to the same labels, leaves by default, numbered by their first node; shape (M,)."""
        B: Any = self.membership(labels).tocsc()
        seen: dict[bytes, int] = {}
        groups = np.empty(len(self), dtype=np.int64)
        for n in range(len(self)):
            own = np.sort(B.indices[B.indptr[n] : B.indptr[n + 1]]).astype(np.int64).tobytes()
            groups[n] = seen.setdefault(own, len(seen))
        return groups

    def minimal_graph(self) -> MinimalGraph:
        """Without duplicates: nodes above exactly the same leaves are merged, so a chain of only children becomes one node.

        Examples
        --------
        >>> tree = Hierarchy.from_parents([-1, 0, 0, 1, 3, 3])
        >>> small = tree.minimal_graph()
        >>> small.hierarchy, small.group, small.multiplicity
        (Hierarchy(5 nodes, 3 leaves, a tree), array([0, 1, 2, 1, 3, 4]), array([1, 2, 1, 2, 1, 1]))
        """
        groups = self.duplicates()
        names = [self.nodes[int(np.argmax(groups == g))] for g in range(groups.max() + 1)]
        merged = groups[self.edges]
        merged = merged[merged[:, 0] != merged[:, 1]]
        small = Hierarchy([(names[a], names[b]) for a, b in merged.tolist()], names)
        group = small.numbers(names)[groups]
        return MinimalGraph(small, group, np.bincount(group)[group])


def paths_of(columns: Any, separator: str = "/") -> list[str]:
    """The rows of HiClass-style columns as paths; empty text, None and NaN end a row."""
    found = []
    for k, row in enumerate(columns):
        entries = ["" if entry is None or entry != entry else str(entry) for entry in row]
        length = next((j for j, entry in enumerate(entries) if not entry), len(entries))
        if length == 0 or any(entries[length:]):
            what = "is empty" if length == 0 else "goes on after an empty entry"
            raise ValueError(f"row {k} of y {what}; levels go from left to right, with empty entries at the end only")
        if any(separator in entry for entry in entries):
            raise ValueError(f"row {k} of y has a name with {separator!r} in it; pass another separator, or rename it")
        found.append(separator.join(entries[:length]))
    return found


def _pair(edge: Any) -> tuple[Hashable, Hashable]:
    pair = tuple(entry.item() if isinstance(entry, np.generic) else entry for entry in edge) if not isinstance(edge, str) else ()
    if len(pair) != 2:
        raise ValueError(f"edge {edge!r} must be a pair (parent, child)")
    if pair[0] == pair[1]:
        raise ValueError(f"edge {pair!r} leads from a node to itself; remove it, a hierarchy has no cycles")
    return pair


def _several(parents: Any) -> list[Any]:
    if parents is None:
        return []
    return list(parents) if isinstance(parents, list | tuple | set | frozenset) else [parents]


def _named(names: Sequence[Hashable]) -> str:
    shown = ", ".join(map(repr, list(names)[:_SHOWN]))
    return f"{shown}, ... ({len(names)} in all)" if len(names) > _SHOWN else shown


def _parents_first(names: list[Hashable], edges: Ints) -> Ints:
    """An order in which parents come before children; by Kahn's algorithm, level by level, stable within a level."""
    n = len(names)
    waiting = np.bincount(edges[:, 1], minlength=n)
    children: list[list[int]] = [[] for _ in names]
    for a, b in edges.tolist():
        children[a].append(b)
    order: list[int] = [k for k in range(n) if waiting[k] == 0]
    for k in order:
        for child in children[k]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    if len(order) < n:
        raise ValueError(f"the edges have a cycle: {_cycle(names, edges, set(order))}; remove one of them")
    return np.array(order, dtype=np.int64)


def _cycle(names: list[Hashable], edges: Ints, fine: set[int]) -> str:
    above: dict[int, int] = {b: a for a, b in edges.tolist() if a not in fine}
    at = next(b for b in above if b not in fine)
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        at = above[at]
    way = [*seen[seen.index(at) :], at][::-1]
    return " -> ".join(repr(names[k]) for k in way)
