"""Terms over sets of nodes: one cost for every set of labels that occurs in a clique."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Booleans, Floats, Int32s, Ints


class CliqueCost(Protocol):
    """What the labels of a clique cost, before its weight."""

    def check(self, n_labels: int, n_cliques: int) -> None:
        """Complain if the cost does not fit the number of labels or cliques."""

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels.

        Parameters
        ----------
        present : bool array of shape (K, L)
            Which labels occur in each of K cliques.

        Returns
        -------
        array of shape (K,)
        """


class Cliques:
    """Sets of nodes that share one kind of cost.

    Parameters
    ----------
    members : sequence of sequences of int
        Nodes of every clique; none twice in one clique.
    cost : PnPotts or Diversity
        Of the set of labels in a clique.
    weights : float or array of shape (K,), optional
        Factors of the costs, not negative; 1 by default.

    Attributes
    ----------
    nodes : int array
        Members of all cliques, one clique after the other.
    offsets : int array of shape (K + 1,)
        Where each one begins.
    """

    def __init__(self, members: Iterable[ArrayLike], cost: CliqueCost, weights: ArrayLike | None = None) -> None:
        lists = [np.asarray(one) for one in members]
        for k, one in enumerate(lists):
            if one.ndim != 1 or one.size == 0 or one.dtype.kind not in "iu":
                raise ValueError(f"members[{k}] must be a list of node numbers that is not empty")
            if one.min() < -(2**31) or one.max() >= 2**31:
                far = one.max() if one.max() >= 2**31 else one.min()
                raise ValueError(f"members[{k}] has node {far}; no graph has so many nodes")
            values, counts = np.unique(one, return_counts=True)
            if (counts > 1).any():
                raise ValueError(f"members[{k}] names node {values[counts > 1][0]} twice; a clique is a set of nodes")
        self.offsets: Ints = np.concatenate([[0], np.cumsum([one.size for one in lists], dtype=np.int64)]).astype(np.int64)
        self.nodes: Int32s = np.concatenate(lists).astype(np.int32) if lists else np.zeros(0, np.int32)
        self._extremes = (min((int(one.min()) for one in lists), default=0), max((int(one.max()) for one in lists), default=-1))
        if isinstance(cost, type) or not all(callable(getattr(cost, name, None)) for name in ("check", "of")):
            raise TypeError(f"cost must be PnPotts or a Diversity (Diameter, Cardinality, ...), but is {cost!r}")
        self.cost = cost
        given = np.asarray(1.0 if weights is None else weights)
        if given.dtype.kind not in "fiub":
            raise TypeError(f"weights must be real numbers, but has dtype {given.dtype}")
        values = given.astype(np.float64)
        if values.shape not in ((), (len(self),)):
            raise ValueError(f"weights has shape {values.shape}, but must be a number or have shape ({len(self)},)")
        self.weights: Floats = np.array(np.broadcast_to(values, (len(self),)))
        bad = ~((self.weights >= 0) & (self.weights < np.inf))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            wrong = f"weights[{at}] = {self.weights[at]:g} of a clique"
            raise ValueError(f"{wrong} must be finite and not negative; 0 leaves the clique out")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, k: int) -> Int32s:
        if not 0 <= k < len(self):
            raise IndexError(f"clique {k} does not exist; there are {len(self)}")
        return self.nodes[self.offsets[k] : self.offsets[k + 1]]

    @classmethod
    def of_segments(cls, segments: ArrayLike, cost: CliqueCost, weights: ArrayLike | None = None, min_size: int = 2) -> Cliques:
        """One clique per segment of an image, for example a superpixel; segments of fewer than ``min_size`` pixels have none.

        Parameters
        ----------
        segments : int array
            A number for every node (pixel).
        """
        numbers = np.asarray(segments).ravel()
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.concatenate([[True], np.diff(numbers[order]) != 0]))
        groups = [group for group in np.split(order, starts[1:]) if len(group) >= min_size]
        return cls(groups, cost, weights)

    @classmethod
    def windows(
        cls, shape: tuple[int, int], size: int, cost: CliqueCost, weights: ArrayLike | None = None, stride: int = 1
    ) -> Cliques:
        """All square windows of a grid with ``size`` x ``size`` pixels, ``stride`` pixels apart."""
        nodes = np.arange(shape[0] * shape[1]).reshape(shape)
        rows, columns = (range(0, extent - size + 1, stride) for extent in shape)
        return cls([nodes[r : r + size, c : c + size].ravel() for r in rows for c in columns], cost, weights)

    def with_cost(self, cost: CliqueCost, factor: float = 1.0) -> Cliques:
        """The same sets of nodes with another cost, their weights multiplied."""
        made = copy(self)
        made.cost, made.weights = cost, factor * self.weights
        return made

    def check(self, n_nodes: int, n_labels: int) -> None:
        """Complain about members out of range and about costs of another number of labels."""
        low, high = self._extremes
        if low < 0 or high >= n_nodes:
            at = int(np.flatnonzero((self.nodes < 0) | (self.nodes >= n_nodes))[0])
            clique = int(np.searchsorted(self.offsets, at, side="right") - 1)
            raise ValueError(f"members[{clique}] has node {self.nodes[at]}; nodes are numbered 0 to {n_nodes - 1}")
        self.cost.check(n_labels, len(self))

    def present(self, labels: Ints, n_labels: int) -> Booleans:
        """Which labels occur in each clique, bool of shape (K, L)."""
        found = np.zeros((len(self), n_labels), dtype=bool)
        found[np.repeat(np.arange(len(self)), np.diff(self.offsets)), labels[self.nodes]] = True
        return found

    def costs(self, labels: Ints) -> Floats:
        """Cost of every clique, before its weight."""
        n_labels = int(labels.max(initial=0)) + 1
        return self.cost.of(self.present(labels, n_labels))


class PnPotts:
    """The P^n Potts cost: ``uniform[l]`` if all nodes of the clique have label l, ``mixed`` otherwise.

    Parameters
    ----------
    mixed : float or array of shape (K,)
        Not less than any of ``uniform``; the same for all cliques or one for each.
    uniform : array of shape (L,) or (K, L), optional
        Zeros by default.

    Examples
    --------
    >>> PnPotts(3.0, [0, 1]).of(np.array([[True, False], [False, True], [True, True]]))
    array([0., 1., 3.])
    """

    def __init__(self, mixed: ArrayLike = 1.0, uniform: ArrayLike | None = None) -> None:
        self.mixed = np.asarray(mixed, dtype=np.float64)
        self.uniform = None if uniform is None else np.asarray(uniform, dtype=np.float64)
        if self.mixed.ndim > 1 or (self.uniform is not None and self.uniform.ndim not in (1, 2)):
            raise ValueError("mixed must be a number or have shape (K,), uniform must have shape (L,) or (K, L)")
        if not np.isfinite(self.mixed).all() or (self.uniform is not None and not np.isfinite(self.uniform).all()):
            raise ValueError("mixed and uniform must be finite")
        highest = np.zeros(1) if self.uniform is None else np.atleast_2d(self.uniform).max(axis=1, initial=-np.inf)
        if (self.mixed < highest).any():
            k = int(np.argmax(np.broadcast_to(highest - self.mixed, np.broadcast_shapes(highest.shape, self.mixed.shape))))
            least, most = np.broadcast_arrays(np.atleast_1d(self.mixed), highest)
            raise ValueError(f"mixed={least[k]:g} is less than uniform={most[k]:g} of a label; mixed cliques must cost most")

    def check(self, n_labels: int, n_cliques: int) -> None:
        """One entry per label, and per clique where they have their own."""
        shapes = ((n_labels,), (n_cliques, n_labels))
        if self.uniform is not None and self.uniform.shape not in shapes:
            raise ValueError(f"uniform has shape {self.uniform.shape}, but must have shape {shapes[0]} or {shapes[1]}")
        if self.mixed.shape not in ((), (n_cliques,)):
            raise ValueError(f"mixed has shape {self.mixed.shape}, but must be a number or have shape ({n_cliques},)")

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels."""
        single, label = present.sum(axis=1) == 1, present.argmax(axis=1)
        if self.uniform is None:
            own = np.zeros(len(present))
        else:
            own = self.uniform[label] if self.uniform.ndim == 1 else self.uniform[np.arange(len(present)), label]
        return np.where(single, own, self.mixed)
