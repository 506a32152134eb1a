"""Energies of labelings: what every label of a node, every pair of labels on an edge, every set of labels in a clique costs."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, Ints
from maxmargin.labeling.cliques import Cliques
from maxmargin.labeling.distances import Metric, named_metric
from maxmargin.labeling.flow import GRID_STEPS, check_edges

# Labels are numbered with 16 bits in kernels.
MAX_LABELS = 2**15 - 1


class TableFacts(NamedTuple):
    """What one look at all tables tells: they may be most of the memory.

    Attributes
    ----------
    least, most, apart : arrays of shape (E,), or (1,) of one table
        The least and the largest cost, and the least of two different labels.
    zero_diagonals, symmetric : bool
    shared : int
        All tables are multiples of this one, but for the rounding of products; -1 if there is none.
    factors : array of shape (E,)
        These multiples.
    """

    least: Floats
    most: Floats
    apart: Floats
    zero_diagonals: bool
    symmetric: bool
    shared: int
    factors: Floats


class Energy:
    """``sum_i unary[i, y_i] + sum_e weight_e * table_e[y_a, y_b] + sum_c cost_c(labels in c)``, to be made small.

    Parameters
    ----------
    unary : array of shape (N, L)
        What label l costs at node i. ``inf`` forbids it.
    edges : int array of shape (E, 2), optional
        Pairs ``(a, b)`` of different nodes; terms of equal pairs add up.
    pairwise : Metric, its name, array of shape (L, L) or (E, L, L), optional
        What two labels cost, the same on all edges or one table for each.
    weights : float or array of shape (E,), optional
        Factors of the tables, 1 by default.
    cliques : Cliques, or sequence of them, optional
        Costs of the labels that occur in sets of nodes.

    Attributes
    ----------
    unary : array of shape (N, L)
    edges : int array of shape (E, 2)
    table : array of shape (L, L) or (E, L, L)
    weights : array of shape (E,)
    cliques : tuple of Cliques
        Those that are not empty.
    shape : tuple
        Of labelings: ``(N,)``, or that of the grid.

    Examples
    --------
    >>> energy = Energy([[0, 2], [1, 1], [3, 0]], edges=[(0, 1), (1, 2)], pairwise="potts")
    >>> energy.energy([0, 0, 1])
    2.0
    >>> energy
    Energy(3 nodes, 2 labels, 2 edges)
    """

    def __init__(
        self,
        unary: ArrayLike,
        edges: ArrayLike | None = None,
        pairwise: Metric | str | ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        cliques: Cliques | Sequence[Cliques] = (),
    ) -> None:
        self.unary = _check_unary(np.asarray(unary))
        self.shape: tuple[int, ...] = (len(self.unary),)
        self.edges: Int32s = check_edges(np.zeros((0, 2), np.int32) if edges is None else edges, self.n_nodes)
        loops = np.flatnonzero(self.edges[:, 0] == self.edges[:, 1])
        if loops.size:
            at, node = int(loops[0]), int(self.edges[loops[0], 0])
            raise ValueError(f"edges[{at}] = ({node}, {node}) joins a node to itself; add its cost to unary")
        if len(self.edges) and pairwise is None:
            raise ValueError("edges are given, but no pairwise costs; pass pairwise='potts', a Metric or tables")
        self._take_table(pairwise)
        self.weights = _check_weights(weights, len(self.edges))
        self.cliques = (cliques,) if isinstance(cliques, Cliques) else tuple(cliques)
        for k, some in enumerate(self.cliques):
            if not isinstance(some, Cliques):
                raise TypeError(f"cliques[{k}] is a {type(some).__name__}; make it by Cliques(members, cost)")
            try:
                some.check(self.n_nodes, self.n_labels)
            except ValueError as error:
                raise ValueError(f"cliques[{k}]: {error}") from None
        # Lists without cliques must not keep methods away that know none.
        self.cliques = tuple(some for some in self.cliques if len(some))
        self.connectivity: int | None = None

    @classmethod
    def grid(
        cls,
        unary: ArrayLike,
        pairwise: Metric | str | ArrayLike,
        *,
        weights: ArrayLike | None = None,
        connectivity: int | None = None,
        cliques: Cliques | Sequence[Cliques] = (),
    ) -> Energy:
        """An energy on the pixels of an image, or the voxels of a volume.

        Parameters
        ----------
        unary : array of shape (H, W, L) or (D, H, W, L)
        pairwise : Metric, its name, or array of shape (L, L) or (E, L, L)
            What two labels of neighbours cost, the same everywhere or one table for each of ``edges``: all steps to the right,
            row by row, then all steps down, and so on.
        weights : float, or array of shape (S, H, W) or (S, D, H, W), optional
            One factor for every pixel and step: for 4 neighbours to the right and down, for 8 also down right and down left, in
            volumes to the next column, row and layer. Entries whose step leaves the grid are not read.
        connectivity : {4, 8, 6}, optional
            Neighbours of a pixel: 4 by default, 6 in volumes.
        cliques : Cliques, or sequence of them, optional
            Of pixels numbered row by row.

        Examples
        --------
        >>> energy = Energy.grid(np.zeros((2, 3, 4)), "potts", weights=2.0)
        >>> energy.energy([[0, 0, 1], [0, 0, 1]])
        4.0
        """
        costs = np.asarray(unary)
        if costs.ndim not in (3, 4):
            raise ValueError(f"unary must have shape (H, W, L) or (D, H, W, L), but has shape {costs.shape}")
        connectivity = {3: 4, 4: 6}[costs.ndim] if connectivity is None else connectivity
        if connectivity not in GRID_STEPS or len(GRID_STEPS[connectivity][0]) != costs.ndim - 1:
            choices = "4 or 8" if costs.ndim == 3 else "6"
            raise ValueError(f"connectivity={connectivity!r} must be {choices} for unary of shape {costs.shape}")
        shape = costs.shape[:-1]
        edges, inside = grid_edges(shape, connectivity)
        factors = weights
        if weights is not None and np.ndim(weights) > 0:
            values, wanted = np.asarray(weights), (len(GRID_STEPS[connectivity]), *shape)
            if values.shape != wanted:
                raise ValueError(f"weights has shape {values.shape}, but must have shape {wanted}: a step, then a pixel")
            factors = values.ravel()[inside]
        try:
            made = cls(costs.reshape(-1, costs.shape[-1]), edges, pairwise, weights=factors, cliques=cliques)
        except ValueError:
            _name_pixels(costs, None if factors is weights else np.asarray(weights), inside)
            raise
        made.shape, made.connectivity = shape, connectivity
        return made

    def _take_table(self, pairwise: Any) -> None:
        self.table = _check_table(pairwise, self.n_labels, len(self.edges))
        self.__dict__.pop("table_facts", None)
        # Complains about costs that are none.
        _ = self.table_facts

    @property
    def n_nodes(self) -> int:
        """Nodes."""
        return len(self.unary)

    @property
    def n_labels(self) -> int:
        """Labels."""
        return int(self.unary.shape[1])

    def __repr__(self) -> str:
        n_cliques = sum(map(len, self.cliques))
        parts = [f"{self.n_nodes} nodes", f"{self.n_labels} labels", f"{len(self.edges)} edges"]
        return f"Energy({', '.join(parts + [f'{n_cliques} cliques'] * (n_cliques > 0))})"

    def replaced(
        self, *, unary: Floats | None = None, table: Floats | None = None, cliques: Sequence[Cliques] | None = None
    ) -> Energy:
        """The same energy with other unary costs, another table of pairwise costs or other cliques; what is not given stays."""
        made = copy(self)
        if unary is not None:
            made.unary = _check_unary(np.asarray(unary).reshape(self.unary.shape))
        if cliques is not None:
            made.cliques = tuple(cliques)
            for some in made.cliques:
                some.check(self.n_nodes, self.n_labels)
        if table is not None:
            made._take_table(table)
        return made

    @cached_property
    def table_facts(self) -> TableFacts:
        """Looked for once."""
        found = _core.look_at_tables(self.table.reshape(-1, self.n_labels, self.n_labels))
        if found is None:
            at = tuple(map(int, np.argwhere(~np.isfinite(self.table))[0]))
            raise ValueError(
                f"pairwise[{', '.join(map(str, at))}] = {self.table[at]:g} must be finite; use a large number to forbid a pair"
            )
        return TableFacts(*found)

    @property
    def table_range(self) -> tuple[Floats, Floats]:
        """The least and the largest cost of the table, or of every edge's."""
        if len(self.edges) == 0:
            return np.zeros(0), np.zeros(0)
        shape = self.table.shape[:-2]
        return self.table_facts.least.reshape(shape), self.table_facts.most.reshape(shape)

    def check_labels(self, labels: ArrayLike, name: str = "labels") -> Ints:
        """Labels as an int64 array of shape (N,)."""
        array = np.asarray(labels)
        if array.dtype.kind not in "iub":
            raise TypeError(f"{name} must be integers, but has dtype {array.dtype}; pass {name}.astype(int)")
        if array.shape not in (self.shape, (self.n_nodes,)):
            raise ValueError(f"{name} has shape {array.shape}, but must have shape {self.shape}")
        flat = np.ascontiguousarray(array, dtype=np.int64).ravel()
        if flat.size and (flat.min() < 0 or flat.max() >= self.n_labels):
            at = int(np.flatnonzero((flat < 0) | (flat >= self.n_labels))[0])
            raise ValueError(f"{name} has label {flat[at]} at node {at}; labels are numbered 0 to {self.n_labels - 1}")
        return flat

    def energy(self, labels: ArrayLike) -> float:
        """Energy of a labeling."""
        return float(sum(self.parts(labels)))

    def parts(self, labels: ArrayLike) -> tuple[float, float, float]:
        """Unary, pairwise and clique part of the energy of a labeling."""
        y = self.check_labels(labels)
        unary = float(np.take_along_axis(self.unary, y[:, None], axis=1).sum())
        a, b = y[self.edges[:, 0]], y[self.edges[:, 1]]
        # One index into all tables, which numpy follows faster than three.
        own = 0 if self.table.ndim == 2 else np.arange(len(a)) * self.n_labels
        costs = self.table.ravel().take((own + a) * self.n_labels + b)
        cliques = sum(float(some.costs(y) @ some.weights) for some in self.cliques)
        return unary, float(self.weights @ costs), cliques


def grid_edges(shape: Sequence[int], connectivity: int) -> tuple[Int32s, Ints]:
    """Edges of a grid, step by step, and their numbers among all steps from all nodes."""
    nodes = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    edges, inside = [], []
    for k, step in enumerate(GRID_STEPS[connectivity]):
        here = tuple(slice(max(0, -s), min(n, n - s)) for s, n in zip(step, shape, strict=True))
        there = tuple(slice(max(0, s), min(n, n + s)) for s, n in zip(step, shape, strict=True))
        edges.append(np.stack([nodes[here].ravel(), nodes[there].ravel()], axis=1))
        inside.append(k * nodes.size + nodes[here].ravel().astype(np.int64))
    return np.ascontiguousarray(np.concatenate(edges)), np.concatenate(inside)


def _name_pixels(costs: Any, weights: Any, inside: Ints) -> None:
    """Complain about numbers of a grid that are none, in its own coordinates."""
    if costs.dtype.kind == "f" and 0 not in costs.shape:
        shut = np.isinf(costs).all(axis=-1)
        bad = np.isnan(costs) | (costs == -np.inf)
        if bad.any():
            at = tuple(np.argwhere(bad)[0].tolist())
            raise ValueError(f"unary[{_place(at)}] = {costs[at]:g} is no cost; use numbers, or inf to forbid a label") from None
        if shut.any():
            raise ValueError(
                f"unary[{_place(np.argwhere(shut)[0])}] forbids every label of the pixel; leave at least one finite"
            ) from None
    if weights is not None and weights.dtype.kind == "f":
        wrong = inside[~np.isfinite(weights.ravel()[inside])]
        if wrong.size:
            place = np.unravel_index(int(wrong[0]), weights.shape)
            raise ValueError(f"weights[{_place(place)}] = {weights[place]:g} must be finite; 0 leaves the edge out") from None


def _place(at: Any) -> str:
    return ", ".join(str(int(one)) for one in at)


def _check_unary(array: Any) -> Floats:
    if array.dtype.kind not in "fiub":
        raise TypeError(f"unary must be real numbers, but has dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"unary must have shape (N, L), a cost for every node and label, but has shape {array.shape}")
    if array.shape[1] > MAX_LABELS:
        raise ValueError(f"unary has {array.shape[1]} labels; at most {MAX_LABELS} are possible")
    costs = np.array(array, dtype=np.float64, order="C")
    bad = np.isnan(costs) | (costs == -np.inf)
    if bad.any():
        i, label = np.argwhere(bad)[0]
        raise ValueError(f"unary[{i}, {label}] = {costs[i, label]:g} is no cost; use numbers, or inf to forbid a label")
    shut = np.flatnonzero(np.isinf(costs).all(axis=1))
    if shut.size:
        raise ValueError(f"unary[{shut[0]}] forbids every label of the node; leave at least one finite")
    return costs


def _check_table(pairwise: Any, n_labels: int, n_edges: int) -> Floats:
    if pairwise is None:
        return np.zeros((n_labels, n_labels))
    if isinstance(pairwise, str):
        pairwise = named_metric(pairwise, "pairwise")
    table = pairwise.table(n_labels) if isinstance(pairwise, Metric) else np.asarray(pairwise)
    if table.dtype.kind not in "fiub":
        raise TypeError(f"pairwise must be a Metric, its name, or real numbers, but has dtype {table.dtype}")
    shared, own = (n_labels, n_labels), (n_edges, n_labels, n_labels)
    if table.shape not in (shared, own):
        raise ValueError(f"pairwise has shape {table.shape}, but must have shape {shared}, or {own} for tables of every edge")
    return np.array(table, dtype=np.float64, order="C")


def _check_weights(weights: ArrayLike | None, n_edges: int) -> Floats:
    values = np.asarray(1.0 if weights is None else weights)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"weights must be real numbers, but has dtype {values.dtype}")
    if values.shape not in ((), (n_edges,)):
        raise ValueError(f"weights has shape {values.shape}, but must be a number or have shape ({n_edges},)")
    values = np.array(np.broadcast_to(values, (n_edges,)), dtype=np.float64)
    if not np.isfinite(values).all():
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"weights[{at}] = {values[at]:g} must be finite; 0 leaves the edge out")
    return values
