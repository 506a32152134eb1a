"""Hierarchical move making: labelings of the subtrees of a tree over labels, fused from the leaves to the root.

Algorithm 7 of Dokania's thesis (2016). The labelings found below the children of a node are fused by expansion moves: every node
of the graph takes over its label from one of them. A clique that takes everything from one child costs what it cost there, any
other is charged for all labels that the children would put into it. For the diameter of a tree that is exact where all labels
below a node are equally far from it, and otherwise never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, Ints
from maxmargin.labeling.clique_moves import Clock, Terms, starts, sweep
from maxmargin.labeling.diversities import Diameter
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.label_trees import HST, fit_heights
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import offset_free

_ROUNDING = 1e-9


@offset_free
def hierarchical(
    energy: Energy,
    tree: HST | None = None,
    *,
    init: str | ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    n_jobs: int = 1,
) -> Labeling:
    """Minimise an energy whose cliques cost by the diameter of a tree (hierarchical P^n Potts).

    Parameters
    ----------
    energy : Energy
        Clique costs must not shrink when a label joins. The guarantee holds for diameters of the tree and pairwise costs that are
        its distances.
    tree : HST, optional
        That of the cliques by default.
    init : {"unary", "constant", "best"} or labels, optional
        Returned if nothing better is found; fusions start from their own labelings.
    random_state : int or Generator, optional
        Not used; there is nothing random.
    max_sweeps : int, optional
        Of the expansion moves in every fusion.
    time_limit : float, optional
        Seconds; after that, fusions keep the best of their children.
    callback : callable, optional
        Called with the least energy of all labelings of subtrees after every level of the tree, and None.
    n_jobs : int
        Threads that fuse below different nodes; the result is the same for any number.

    Examples
    --------
    >>> from maxmargin.labeling import Cliques
    >>> tree = HST([4, 4, 5, 5, 6, 6, -1], lengths=[3, 3, 3, 3, 6, 6, 0])
    >>> cliques = Cliques([[0, 1, 2]], Diameter(tree))
    >>> unary = [[0, 9, 9, 9], [9, 9, 0, 9], [9, 9, 9, 0]]
    >>> hierarchical(Energy(unary, cliques=cliques))
    Labeling(energy=15, method='hierarchical', converged)
    """
    clock = Clock(time_limit)
    tree = _tree_of(energy) if tree is None else tree
    if not isinstance(tree, HST):
        kind = type(tree).__name__
        raise TypeError(f"tree must be an HST, but is a {kind}; make one by linkage_tree(distances) or random_tree(distances)")
    if tree.n_labels != energy.n_labels:
        raise ValueError(f"tree has {tree.n_labels} labels, but the energy has {energy.n_labels}")
    given = min(starts(energy, "unary" if init is None else init), key=energy.energy)
    try:
        found = fuse_tree(energy, tree, clock=clock, max_sweeps=max_sweeps, n_jobs=n_jobs, callback=callback)
        labels, n_cuts, history, finished = found.labels, found.n_cuts, found.history, found.finished
    except KeyboardInterrupt:
        clock.interrupt()
        labels, n_cuts, history, finished = given, 0, [], False
    value = energy.energy(labels)
    if init is not None and energy.energy(given) < value:
        labels, value = given, energy.energy(given)
    return Labeling(
        labels.reshape(energy.shape),
        value,
        "hierarchical",
        guarantee=guarantee(energy, tree) if finished else None,
        history=history,
        n_cuts=n_cuts,
        seconds=clock.seconds,
        status=clock.status(finished),
    )


@dataclass
class Fused:
    """A labeling with the labels below one node of a tree.

    Attributes
    ----------
    labels : int array of shape (N,)
    energy : float
    n_cuts : int
        Of this fusion; in the result for a tree, of all of them.
    finished : bool
        Whether no expansion in it lowers the energy of the fusion any more.
    """

    labels: Ints
    energy: float
    n_cuts: int = 0
    finished: bool = True


@dataclass
class TreeResult:
    """What comes out at the root.

    Attributes
    ----------
    labels : int array of shape (N,)
    energy : float
    n_cuts : int
    finished : bool
    history : list of float
        Least energies of the levels, from the leaves to the root.
    """

    labels: Ints
    energy: float
    n_cuts: int
    finished: bool
    history: list[float]


def fuse_tree(
    energy: Energy, tree: HST, *, clock: Clock, max_sweeps: int | None = None, n_jobs: int = 1, callback: Callback | None = None
) -> TreeResult:
    """Fuse from the leaves to the root."""
    terms = Terms.of(energy)
    energy = terms.energy
    done: dict[int, Fused] = {}
    for label in range(tree.n_labels):
        constant = np.full(energy.n_nodes, label)
        done[label] = Fused(constant, energy.energy(constant))
    history = [min(one.energy for one in done.values())]
    n_cuts, finished = 0, True
    with _Pool(n_jobs, clock) as pool:
        for level in tree.levels:
            jobs = [[done[child] for child in tree.children(node)] for node in level]
            for node, fused in zip(level, pool.map(lambda some: fuse(terms, some, clock, max_sweeps), jobs), strict=True):
                done[node] = fused
                for child in tree.children(node):
                    del done[child]
                n_cuts, finished = n_cuts + fused.n_cuts, finished and fused.finished
            history.append(min(one.energy for one in done.values()))
            if callback is not None:
                callback(history[-1], None)
    root = done[tree.root]
    return TreeResult(root.labels, root.energy, n_cuts, finished, history)


class _Pool:
    """Maps in one thread or several; whoever is interrupted asks the others to stop."""

    def __init__(self, n_jobs: int, clock: Clock) -> None:
        if n_jobs < 1:
            raise ValueError(f"n_jobs={n_jobs!r} must be at least 1")
        self._clock = clock
        self._threads = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._clock.interrupt()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=kind is not None)

    def map(self, work: Callable[[list[Fused]], Fused], jobs: list[list[Fused]]) -> Iterable[Fused]:
        """Results in the order of the jobs."""
        return map(work, jobs) if self._threads is None or len(jobs) == 1 else self._threads.map(work, jobs)


def fuse(terms: Terms, children: list[Fused], clock: Clock, max_sweeps: int | None = None) -> Fused:
    """The labeling in which every node takes its label from one of several, found by expansion moves from the best of them.

    Parameters
    ----------
    terms : Terms
    children : list of Fused
        Labelings without common labels.
    """
    if len(children) == 1:
        return Fused(children[0].labels, children[0].energy)
    fusion = Fusion(terms, np.stack([one.labels for one in children]))
    start = int(np.argmin([one.energy for one in children]))
    found = sweep(
        np.full(fusion.proposals.shape[1], start),
        fusion.value,
        fusion.expand,
        len(children),
        clock=clock,
        least_gain=terms.rounding,
        max_sweeps=max_sweeps,
    )
    labels = fusion.labels(found.labels)
    return Fused(labels, terms.energy.energy(labels), found.n_cuts, found.finished)


class Fusion:
    """Choices between labelings: node i takes ``proposals[t_i, i]``.

    Parameters
    ----------
    terms : Terms
    proposals : int array of shape (T, N)
        No label occurs in two of them.

    Attributes
    ----------
    mixed : array of shape (K,)
        What cliques cost that take labels from several proposals.
    uniform : array of shape (K, T)
        What they cost that take all from one.
    """

    def __init__(self, terms: Terms, proposals: Ints) -> None:
        self.terms, self.proposals = terms, proposals
        energy = terms.energy
        self._bare = energy.replaced(cliques=())
        costs, unions = [], []
        for some in energy.cliques:
            present = [some.present(labels, energy.n_labels) for labels in proposals]
            costs.append(np.stack([some.cost.of(mask) for mask in present], axis=1))
            unions.append(some.cost.of(np.logical_or.reduce(present)))
        self.uniform: Floats = np.concatenate(costs) if costs else np.zeros((0, len(proposals)))
        union: Floats = np.concatenate(unions) if unions else np.zeros(0)
        self._check(union)
        # Rounding aside, a union costs most.
        self.mixed: Floats = np.maximum(union, self.uniform.max(axis=1, initial=-np.inf))
        self._everybody = np.arange(energy.n_nodes)
        self._choice: Ints | None = None
        self._now: Floats = np.zeros(0)

    def _check(self, union: Floats) -> None:
        lack = self.uniform.max(axis=1, initial=-np.inf) - union
        if (lack > _ROUNDING * np.abs(union)).any():
            k = int(np.argmax(lack))
            raise ValueError(
                f"clique {k} costs {union[k]:g} for a set of labels, but {union[k] + lack[k]:g} for a part of it; "
                "fusing labelings needs costs that do not shrink when labels join, as those of diversities"
            )

    def labels(self, choice: Ints) -> Ints:
        """The labels that were chosen."""
        return np.asarray(self.proposals[choice, self._everybody])

    def clique_costs(self, choice: Ints) -> Floats:
        """What cliques are charged, before their weights, shape (K,)."""
        terms = self.terms
        if len(self.mixed) == 0:
            return np.zeros(0)
        chosen = choice[terms.nodes]
        starts = terms.offsets[:-1]
        low, high = np.minimum.reduceat(chosen, starts), np.maximum.reduceat(chosen, starts)
        return np.where(low == high, self.uniform[np.arange(len(low)), low], self.mixed)

    def value(self, choice: Ints) -> float:
        """Energy of the fusion: not less than that of the labels, and the same where all nodes choose alike."""
        labels = self.labels(choice)
        unary, pairs, _ = self._bare.parts(labels)
        return unary + pairs + float(self.terms.weights @ self.clique_costs(choice))

    def expand(self, choice: Ints, alpha: int) -> tuple[float, Ints]:
        """The best move of some nodes to one proposal."""
        if choice is not self._choice:
            self._choice, self._now = choice, self.clique_costs(choice)
        some_stay = self.mixed - self.uniform[:, alpha]
        proposal = self.proposals[alpha]
        change, moved = self.terms.best_move(self.labels(choice), proposal, self.mixed - self._now, some_stay, None)
        return change, np.where(moved, alpha, choice)


def _tree_of(energy: Energy) -> HST:
    """The tree whose diameters the cliques cost."""
    for some in energy.cliques:
        if isinstance(some.cost, Diameter) and some.cost.tree is not None:
            return some.cost.tree
    raise ValueError("no clique costs by the diameter of a tree; pass tree=, or use the method 'parsimonious'")


def guarantee(energy: Energy, tree: HST) -> float | None:
    """The factor for cliques and pairs that is proved of hierarchical moves on a tree, or None.

    It is ``min(M, C)`` for a tree with heights, where M is the size of the largest clique (2 for edges) and C the largest number
    of children, and ``r / (r - 1)`` times that for one with lengths that shrink by r.
    """
    sizes = [int(np.diff(some.offsets).max(initial=1)) for some in energy.cliques]
    for some in energy.cliques:
        if not (isinstance(some.cost, Diameter) and _is_of_tree(some.cost.pairs(energy.n_labels), tree)):
            return None
    if len(energy.edges):
        if energy.table.ndim == 3 or (energy.weights < 0).any() or not _is_of_tree(energy.table, tree):
            return None
        sizes.append(2)
    if max(sizes, default=1) < 2:
        return 1.0
    count = float(min(max(sizes), max(tree.n_children, 1)))
    if tree.heights is not None:
        return count
    r = tree.ratio
    return count if np.isinf(r) else count * r / (r - 1) if r > 1 else None


def _is_of_tree(table: Floats, tree: HST) -> bool:
    """Whether distances are those of the tree up to a factor, or of other heights on it."""
    own, slack = tree.distances, _ROUNDING * float(np.abs(table).max(initial=0.0))
    if own.max(initial=0.0) > 0 and np.allclose(table, own * (table.max() / own.max()), rtol=0, atol=slack):
        return True
    return tree.heights is not None and bool(np.allclose(fit_heights(tree, table).distances, table, rtol=0, atol=slack))
