"""Costs of sets of labels that grow with their spread: diversities, after Bryant and Tupper (2012).

A diversity is 0 for at most one label and positive for more, and going through a set never is a short cut:
``cost(A + C) <= cost(A + B) + cost(B + C)`` for every B that is not empty. On pairs of labels it is a metric.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.labeling.distances import Metric, MetricName, why_no_metric
from maxmargin.labeling.label_trees import HST

# The axioms are checked for all sets of so many labels.
MAX_CHECKED = 8
# A function that is not known to be submodular is minimised over all subsets of so many labels.
_MAX_ENUMERATED = 8
_ROUNDING = 1e-9


_REMEDY = "take lengths of shortest_paths, or pass validate=False and choose the method 'cooccurrence'"


class Diversity(ABC):
    """Costs of sets of labels; a subclass says what sets cost, as CliqueCost describes."""

    @abstractmethod
    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels, given as masks of shape (K, L)."""

    def check(self, n_labels: int, n_cliques: int) -> None:  # noqa: B027 (most diversities suit any number)
        """Complain if the diversity is one of another number of labels."""

    def is_proved(self, n_labels: int) -> bool:
        """Whether the axioms are known to hold, by the kind of the costs or from a look at all sets; guarantees need them."""
        return n_labels <= MAX_CHECKED and why_no_diversity(self, n_labels) is None

    def pairs(self, n_labels: int) -> Floats:
        """The metric on pairs of labels, shape (L, L)."""
        first, second = np.triu_indices(n_labels, 1)
        masks = np.zeros((len(first), n_labels), dtype=bool)
        rows = np.arange(len(first))
        masks[rows, first] = masks[rows, second] = True
        found = np.zeros((n_labels, n_labels))
        found[first, second] = found[second, first] = self.of(masks)
        return found

    def savings(self, present: Booleans, alpha: int) -> Floats:
        """What a clique saves for certain if a label leaves it for alpha, whatever else does so too.

        For a label l of the set A it is the least ``cost(S + l + alpha) - cost(S + alpha)`` over all S within A without l, or a
        lower bound of that; 0 for labels that do not occur and for alpha.

        Parameters
        ----------
        present : bool array of shape (K, L)
        alpha : int

        Returns
        -------
        array of shape (K, L)
        """
        found = np.zeros(present.shape)
        sets, back = np.unique(present, axis=0, return_inverse=True)
        for k, mask in enumerate(sets):
            labels = np.flatnonzero(mask & (np.arange(len(mask)) != alpha))
            if len(labels) <= _MAX_ENUMERATED:
                found[back.ravel() == k] = self._least_savings(labels, alpha, len(mask))
        return found

    def _least_savings(self, labels: Ints, alpha: int, n_labels: int) -> Floats:
        """Savings of one set, over all of its subsets."""
        codes = np.arange(2 ** len(labels))
        has = (codes[:, None] >> np.arange(len(labels))) & 1 > 0
        masks = np.zeros((len(codes), n_labels), dtype=bool)
        masks[:, labels] = has
        masks[:, alpha] = True
        costs, found = self.of(masks), np.zeros(n_labels)
        for k, label in enumerate(labels):
            without = codes[~has[:, k]]
            found[label] = max(0.0, float((costs[without | (1 << k)] - costs[without]).min()))
        return found


class _Submodular(Diversity):
    """A label adds the less, the more labels are there already, among sets that hold alpha."""

    def is_proved(self, n_labels: int) -> bool:
        """These are diversities for any number of labels."""
        return True

    def savings(self, present: Booleans, alpha: int) -> Floats:
        """The last label to leave saves least: the others are all there."""
        all_there = present.copy()
        all_there[:, alpha] = True
        whole, found = self.of(all_there), np.zeros(present.shape)
        for label in np.flatnonzero(present.any(axis=0)):
            if label != alpha:
                rows = np.flatnonzero(present[:, label])
                without = all_there[rows]
                without[:, label] = False
                found[rows, label] = np.maximum(0.0, whole[rows] - self.of(without))
        return found


class Diameter(Diversity):
    """The largest distance between two labels of the set.

    Parameters
    ----------
    distances : Metric, its name, HST, or array of shape (L, L)
        A metric; with a tree the cost is the hierarchical P^n Potts model.
    validate : bool
        Whether a table is checked to be a metric.

    Examples
    --------
    >>> cost = Diameter(Metric("linear", limit=3))
    >>> cost.of(np.array([[True, False, True, False, False], [True, True, False, False, True]]))
    array([2., 3.])
    """

    def __init__(self, distances: Metric | MetricName | HST | ArrayLike, *, validate: bool = True) -> None:
        self._tables: dict[int, tuple[Floats, Ints | None]] = {}
        self.tree = distances if isinstance(distances, HST) else None
        self.metric: Metric | None = None
        if isinstance(distances, HST):
            self._table: Floats | None = distances.distances
        elif isinstance(distances, Metric | str):
            self.metric, self._table = distances if isinstance(distances, Metric) else Metric(cast(MetricName, distances)), None
        else:
            self._table = np.ascontiguousarray(distances, dtype=np.float64)
            if validate and (why := why_no_metric(self._table)) is not None:
                raise ValueError(f"distances must be a metric, but {why}; {_REMEDY}")
        self._validate = validate

    def check(self, n_labels: int, n_cliques: int) -> None:
        """One row per label; a metric that depends on the number of labels is checked here."""
        if self._table is not None and len(self._table) != n_labels:
            raise ValueError(f"the diameter is that of {len(self._table)} labels, but the energy has {n_labels}")
        if self.metric is not None and self._validate and (why := why_no_metric(self.metric.table(n_labels))) is not None:
            raise ValueError(f"the distances of a diameter must be a metric, but {why}; {_REMEDY}")

    def is_proved(self, n_labels: int) -> bool:
        """What is proved of diameters needs no more than distances that are not negative."""
        return True

    def pairs(self, n_labels: int) -> Floats:
        """The distances themselves."""
        return self._distances(n_labels)[0].copy()

    def _distances(self, n_labels: int) -> tuple[Floats, Ints | None]:
        """The table, and an order of the labels in which any two are at most as far apart as two around them, if there is one.

        Then the diameter of a set is the distance of its first and its last label.
        """
        if n_labels not in self._tables:
            table = self._table if self.metric is None else self.metric.table(n_labels)
            assert table is not None
            table = np.ascontiguousarray(table[:n_labels, :n_labels])
            orders = [np.arange(n_labels)]
            if self.tree is not None:
                orders.append(self.tree.order[self.tree.order < n_labels])
            fit = [order for order in orders if _widens(table[np.ix_(order, order)])]
            self._tables[n_labels] = table, fit[0] if fit else None
        return self._tables[n_labels]

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels."""
        table, order = self._distances(present.shape[1])
        if order is not None:
            first, last = _ends(present[:, order])
            return np.asarray(np.where(first <= last, table[order[first], order[last]], 0.0))
        found = np.zeros(len(present))
        for label in range(present.shape[1]):
            rows = np.flatnonzero(present[:, label])
            found[rows] = np.maximum(
                found[rows], np.where(present[rows, :label], table[label, :label], 0.0).max(axis=1, initial=0.0)
            )
        return found

    def savings(self, present: Booleans, alpha: int) -> Floats:
        """What a clique saves for certain if a label leaves it for alpha."""
        table, order = self._distances(present.shape[1])
        if order is None:
            return np.asarray(_core.diameter_savings(table, np.ascontiguousarray(present, dtype=np.uint8), int(alpha)))
        return self._savings_in_order(present, int(alpha), table, order)

    @staticmethod
    def _savings_in_order(present: Booleans, alpha: int, table: Floats, order: Ints) -> Floats:
        """Only the outermost labels can save anything, and each saves least beside the next one on its side.

        The other end of the set matters too: it is tried with every label on the other side of alpha.
        """
        n_labels = len(order)
        masks, d = present[:, order], table[np.ix_(order, order)]
        at = int(np.flatnonzero(order == alpha)[0])
        found = np.zeros(masks.shape)
        for side in (1, -1):
            # Labels counted away from alpha, the second time to the left.
            own = masks[:, at + 1 :] if side == 1 else masks[:, :at][:, ::-1]
            if own.shape[1] == 0:
                continue
            rows = np.flatnonzero(own.any(axis=1))
            steps = own.shape[1] - own[rows][:, ::-1].argmax(axis=1)
            inner = own[rows].copy()
            inner[np.arange(len(rows)), steps - 1] = False
            next_steps = np.where(inner.any(axis=1), inner.shape[1] - inner[:, ::-1].argmax(axis=1), 0)
            outermost, second = at + side * steps, at + side * next_steps
            across = masks[rows].copy()
            if side == 1:
                across[:, at + 1 :] = False
            else:
                across[:, :at] = False
            across[:, at] = True
            gain = np.where(across, d[outermost] - d[second], np.inf)
            found[rows, outermost] = np.maximum(0.0, gain.min(axis=1))
        back = np.empty(n_labels, dtype=np.int64)
        back[order] = np.arange(n_labels)
        return np.ascontiguousarray(found[:, back])


def _ends(present: Booleans) -> tuple[Ints, Ints]:
    """First and last label of every set; the first is after the last where there is none."""
    n_labels = present.shape[1]
    some = present.any(axis=1)
    first = np.where(some, present.argmax(axis=1), n_labels - 1)
    return first, np.where(some, n_labels - 1 - present[:, ::-1].argmax(axis=1), 0)


def _widens(table: Floats) -> bool:
    """Whether two labels are never farther apart than two around them, so that ends of a set tell its diameter."""
    slack = _ROUNDING * float(np.abs(table).max(initial=0.0))
    plain = np.array_equal(table, table.T) and not np.diag(table).any()
    falls, rises = np.triu(np.diff(table, axis=1) < -slack), np.triu(np.diff(table, axis=0) > slack, 1)
    return plain and not falls.any() and not rises.any()


class Cardinality(_Submodular):
    """One less than the number of labels.

    >>> Cardinality().of(np.array([[True, False, True], [False, True, False], [True, True, True]]))
    array([1., 0., 2.])
    """

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels."""
        return np.asarray(np.maximum(present.sum(axis=1) - 1.0, 0.0))


class L1(_Submodular):
    """For labels that are points: the sum over coordinates of the largest less the smallest.

    Parameters
    ----------
    points : array of shape (L, k) or (L,)
        All different.

    Examples
    --------
    >>> L1([[0, 0], [2, 1], [1, 5]]).of(np.array([[True, True, False], [True, True, True]]))
    array([3., 7.])
    """

    def __init__(self, points: ArrayLike) -> None:
        given = np.asarray(points, dtype=np.float64)
        self.points: Floats = given[:, None] if given.ndim == 1 else given
        if self.points.ndim != 2 or not np.isfinite(self.points).all():
            raise ValueError(f"points must be finite numbers of shape (L, k), but has shape {given.shape}")
        if len(np.unique(self.points, axis=0)) < len(self.points):
            raise ValueError("points must all be different; equal ones would be different labels at no cost")

    def check(self, n_labels: int, n_cliques: int) -> None:
        """One point per label."""
        if len(self.points) != n_labels:
            raise ValueError(f"points has {len(self.points)} rows, but the energy has {n_labels} labels")

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels."""
        found = np.zeros(len(present))
        for values in self.points[: present.shape[1]].T:
            high, low = np.where(present, values, -np.inf).max(axis=1), np.where(present, values, np.inf).min(axis=1)
            found += np.where(high >= low, high - low, 0.0)
        return found


class TreeLength(_Submodular):
    """The length of the smallest subtree that joins the labels (phylogenetic diversity).

    Parameters
    ----------
    tree : HST
        With lengths of edges, all positive below nodes with several children. With heights, an edge is as long as they differ.

    Examples
    --------
    >>> tree = HST([4, 4, 5, 5, 6, 6, -1], lengths=[3, 3, 3, 3, 6, 6, 0])
    >>> TreeLength(tree).of(np.array([[True, True, False, False], [True, True, True, False]]))
    array([ 6., 21.])
    """

    def __init__(self, tree: HST) -> None:
        self.tree = tree
        if tree.lengths is not None:
            lengths = tree.lengths
        else:
            assert tree.heights is not None
            lengths = tree.heights[tree.parents] - tree.heights
        edges = [node for node in range(len(tree.parents)) if tree.parents[node] >= 0]
        self._lengths: Floats = lengths[edges]
        self._below: Booleans = np.zeros((len(edges), tree.n_labels), dtype=bool)
        for k, node in enumerate(edges):
            self._below[k, tree.labels(node)] = True

    def check(self, n_labels: int, n_cliques: int) -> None:
        """One leaf per label."""
        if self.tree.n_labels != n_labels:
            raise ValueError(f"the tree has {self.tree.n_labels} labels, but the energy has {n_labels}")

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels: edges with some of them below, and some not."""
        below = present.astype(np.float64) @ self._below[:, : present.shape[1]].T.astype(np.float64)
        parted = (below > 0) & (below < present.sum(axis=1)[:, None])
        return np.asarray(parted @ self._lengths)


class FunctionDiversity(Diversity):
    """A diversity given by a function.

    Parameters
    ----------
    function : callable
        Cost of a tuple of label numbers, in rising order. It is asked once for every set.
    n_labels : int, optional
        If given, and at most 8, the axioms are checked at once; otherwise when an energy with so few labels is made. With more
        labels nothing is checked, and nothing guaranteed.

    Examples
    --------
    >>> cost = FunctionDiversity(lambda labels: (len(labels) - 1) ** 0.5, n_labels=4)
    >>> cost.of(np.array([[True, True, True, False]])).round(3)
    array([1.414])
    """

    def __init__(self, function: Callable[[tuple[int, ...]], float], n_labels: int | None = None) -> None:
        self.function, self.n_labels = function, n_labels
        self._known: dict[tuple[int, ...], float] = {}
        self._checked: set[int] = set()
        if n_labels is not None:
            self._check_axioms(n_labels)

    def check(self, n_labels: int, n_cliques: int) -> None:
        """As many labels as were said; for few labels the axioms are checked here."""
        if self.n_labels is not None and self.n_labels != n_labels:
            raise ValueError(f"the function is one of {self.n_labels} labels, but the energy has {n_labels}")
        self._check_axioms(n_labels)

    def _check_axioms(self, n_labels: int) -> None:
        if n_labels > MAX_CHECKED or n_labels in self._checked:
            return
        if (why := why_no_diversity(self, n_labels)) is not None:
            raise ValueError(f"the function is no diversity: {why}; Cardinality, Diameter, L1 and TreeLength are some")
        self._checked.add(n_labels)

    def of(self, present: Booleans) -> Floats:
        """Costs of sets of labels."""
        return np.array([self._cost(tuple(np.flatnonzero(mask).tolist())) for mask in present], dtype=np.float64)

    def _cost(self, labels: tuple[int, ...]) -> float:
        if labels not in self._known:
            cost = float(self.function(labels)) if len(labels) > 1 else 0.0
            if not 0 <= cost < np.inf:
                raise ValueError(f"the function costs {cost:g} for labels {labels}; it must be finite and not negative")
            self._known[labels] = cost
        return self._known[labels]


def why_no_diversity(cost: Diversity, n_labels: int) -> str | None:
    """What keeps costs of sets of labels from being a diversity, or None if nothing does; by looking at all sets.

    Parameters
    ----------
    cost : Diversity
    n_labels : int
        At most 8.

    Examples
    --------
    >>> why_no_diversity(FunctionDiversity(lambda labels: float((max(labels) - min(labels)) ** 2)), 3)
    'cost({0, 2}) = 4 is more than cost({0, 1}) + cost({1, 2}) = 2'
    >>> why_no_diversity(Cardinality(), 5)
    """
    if not 1 <= n_labels <= MAX_CHECKED:
        raise ValueError(f"n_labels={n_labels!r} must be 1 to {MAX_CHECKED}; all triples of sets are looked at")
    codes = np.arange(2**n_labels)
    masks = (codes[:, None] >> np.arange(n_labels)) & 1 > 0
    costs, sizes = cost.of(masks), masks.sum(axis=1)
    slack = _ROUNDING * float(np.abs(costs).max(initial=0.0))

    def named(code: int) -> str:
        return f"cost({{{', '.join(str(label) for label in np.flatnonzero(masks[code]))}}})"

    for wrong, why in (
        ((sizes <= 1) & (np.abs(costs) > slack), "must be 0 for a single label"),
        ((sizes > 1) & (costs <= 0), "must be positive for several labels"),
    ):
        if wrong.any():
            code = int(np.flatnonzero(wrong)[0])
            return f"{named(code)} = {costs[code]:g}, but {why}"
    # Middles of one label suffice: a larger one makes both sets on the way larger, and costs rise with sets.
    for code in codes:
        for label in np.flatnonzero(~masks[code]):
            if costs[code] > costs[code | 1 << label] + slack:
                larger = int(code | 1 << label)
                return f"{named(int(code))} = {costs[code]:g} is more than {named(larger)} = {costs[larger]:g}"
    for middle in range(n_labels):
        through = costs[codes | 1 << middle]
        excess = costs[codes[:, None] | codes[None, :]] - (through[:, None] + through[None, :])
        excess[0, :] = excess[:, 0] = -np.inf
        if excess.max() > slack:
            one, other = np.unravel_index(int(np.argmax(excess)), excess.shape)
            ways = (int(one | 1 << middle), int(other | 1 << middle))
            return (
                f"{named(int(one | other))} = {costs[one | other]:g} is more than "
                f"{named(ways[0])} + {named(ways[1])} = {costs[list(ways)].sum():g}"
            )
    return None


def diameter_ratio(cost: Diversity, n_labels: int, largest: int, rng: np.random.Generator, n_sets: int = 200) -> float:
    """The median, over random sets of at most ``largest`` labels, of the cost divided by the largest cost of two of them."""
    size = min(largest, n_labels)
    if size < 2:
        return 1.0
    masks = np.zeros((n_sets, n_labels), dtype=bool)
    for mask in masks:
        mask[rng.choice(n_labels, size=int(rng.integers(2, size + 1)), replace=False)] = True
    return float(np.median(cost.of(masks) / Diameter(cost.pairs(n_labels), validate=False).of(masks)))
