"""Parsimonious labeling: cliques that prefer few labels, and labels that are alike, by mixtures of trees.

Algorithms 8 and 9 of Dokania's thesis (2016). Random trees stand for the metric of a diversity; the labeling of each is found by
hierarchical moves, and the one with the least energy is kept. Heights of the trees are refitted before, and expansion moves on
the energy itself polish what was found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats, Ints
from maxmargin.labeling.clique_moves import Clock, starts
from maxmargin.labeling.cliques import Cliques
from maxmargin.labeling.cooccurrence_moves import Expander
from maxmargin.labeling.distances import why_no_metric
from maxmargin.labeling.diversities import Diameter, Diversity, diameter_ratio
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.hierarchical_moves import fuse_tree, guarantee
from maxmargin.labeling.label_trees import HST, fit_heights, linkage_tree, random_tree, refit_heights
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import offset_free


@dataclass(eq=False, repr=False)
class ParsimoniousLabeling(Labeling):
    """The best labeling of several trees.

    Attributes
    ----------
    energies : list of float
        Energies of the labelings of the trees, before polishing; the random trees first, then that of complete linkage, at last
        those found with the energy's own costs. With several scales there is one for each scale of a tree.
    unrefined : float
        Energy of the best of them: what there was before polishing.
    """

    energies: list[float] = field(default_factory=list)
    unrefined: float = np.inf


@offset_free
def parsimonious(
    energy: Energy,
    *,
    init: str | ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    n_trees: int = 10,
    linkage: bool = True,
    r: float = 2.0,
    tree: Literal["refitted", "rhst"] = "refitted",
    costs: Literal["tree", "own", "mixed"] = "mixed",
    scales: Sequence[float] | None = None,
    refine: bool = True,
    n_jobs: int = 1,
) -> ParsimoniousLabeling:
    """Minimise an energy whose cliques cost by diversities.

    Parameters
    ----------
    energy : Energy
        With cliques that cost by a Diversity or PnPotts; pairwise costs are welcome too.
    init : {"unary", "constant", "best"} or labels, optional
        A labeling that competes with those of the trees.
    random_state : int or Generator, optional
        Every tree has a seed of its own, so that the first trees are the same whatever ``n_trees`` is.
    max_sweeps : int, optional
        Of expansion moves, in every fusion and in polishing.
    time_limit : float, optional
        Seconds.
    callback : callable, optional
        Called with the least energy, and None, whenever a tree is done and whenever its labeling is polished.
    n_trees : int
        Random trees.
    linkage : bool
        Whether to add the tree of complete-linkage clustering.
    r : float
        By which factor edges of the random trees shrink from level to level.
    tree : {"refitted", "rhst"}
        Whether the trees get the lowest heights that dominate the metric, or keep the lengths they were drawn with, as in the
        thesis.
    costs : {"tree", "own", "mixed"}
        What fusions minimise: the diameters and distances of their tree, for which there is a guarantee; or the energy's own
        costs, bounded where a move needs it, for which the tree is nothing but an order of fusions. By default the first, and
        once more the second for one of the trees, that of complete linkage if any. With edges the second is often better.
    scales : sequence of float, optional
        What the diameters of trees are multiplied with where the diversity is not a diameter, one after the other. By default 1,
        a typical ratio of diversity and diameter, and the largest possible one, for which a guarantee is known.
    refine : bool
        Whether to go on from the labelings of all trees by expansion moves on the energy itself (see `cooccurrence`).
    n_jobs : int
        Threads; the result is the same for any number.

    Examples
    --------
    >>> from maxmargin.labeling import Metric
    >>> cliques = Cliques([[0, 1, 2]], Diameter(Metric("linear")), weights=2.0)
    >>> found = parsimonious(Energy([[0, 3, 9], [3, 0, 9], [9, 7, 8]], cliques=cliques), random_state=0)
    >>> found.labels, found.energy
    (array([0, 1, 1]), 9.0)
    """
    clock = Clock(time_limit)
    if tree not in ("refitted", "rhst"):
        raise ValueError(f"tree={tree!r} must be 'refitted' or 'rhst'")
    if costs not in ("tree", "own", "mixed"):
        raise ValueError(f"costs={costs!r} must be 'tree', 'own' or 'mixed'")
    if n_trees < 0 or (n_trees == 0 and not linkage):
        raise ValueError(f"n_trees={n_trees!r} must be positive, or 0 with linkage=True")
    if n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs!r} must be at least 1")
    given = min(starts(energy, init), key=energy.energy, default=None)
    Expander(energy)  # complains about costs that no move suits
    trees = sample_trees(energy, n_trees, r=r, linkage=linkage, random_state=random_state)
    # A tree and a scale of its diameters, or None for the costs of the energy.
    tasks: list[tuple[HST, float | None]] = []
    if costs != "own":
        tasks += [(one, factor) for one in trees for factor in _scales(energy, scales)]
    if costs != "tree":
        tasks += [(one, None) for one in (trees if costs == "own" else trees[-1:])]
    best = _Best(energy, given, callback)

    def fuse(k: int) -> None:
        # One tree at least, so that there is a labeling; it ends soon when time is over.
        if k > 0 and clock.over():
            return
        hierarchy, scale = tasks[k]
        if scale is None:
            substitute = Surrogate(energy, refit_heights(hierarchy, reference_metric(energy)), None)
        else:
            substitute = Surrogate.of(energy, hierarchy, refit=tree == "refitted", scale=scale)
        found = fuse_tree(substitute.energy, substitute.tree, clock=clock, max_sweeps=max_sweeps)
        best.add(k, found.labels, found.n_cuts, found.finished)
        if found.finished:
            best.guarantees.append(substitute.guarantee() or np.inf)

    unrefined: list[float] = []
    try:
        _run(fuse, len(tasks), n_jobs, clock)
        best.finished = best.finished and len(best.energies) == len(tasks)
        unrefined = best.energies
        if refine:
            ends = best.distinct()

            def polish(k: int) -> None:
                if clock.over():
                    best.finished = False
                    return
                found = Expander(energy).descend(ends[k], clock=clock, max_sweeps=max_sweeps)
                best.add(len(tasks) + k, found.labels, found.n_cuts, found.finished)

            _run(polish, len(ends), n_jobs, clock)
    except KeyboardInterrupt:
        clock.interrupt()
    labels = best.labels()
    unrefined = unrefined or best.energies
    return ParsimoniousLabeling(
        labels.reshape(energy.shape),
        energy.energy(labels),
        "parsimonious",
        guarantee=best.guarantee,
        history=best.history,
        n_cuts=best.n_cuts,
        seconds=clock.seconds,
        status=clock.status(best.finished),
        energies=unrefined,
        unrefined=min(unrefined, default=np.inf),
    )


def sample_trees(
    energy: Energy, n_trees: int, *, r: float = 2.0, linkage: bool = True, random_state: int | np.random.Generator | None = None
) -> list[HST]:
    """Random trees for the metric of an energy, and that of complete-linkage clustering."""
    d = reference_metric(energy)
    seeds = _seeds(random_state).spawn(n_trees)
    trees = [random_tree(d, r, random_state=np.random.default_rng(seed)) for seed in seeds]
    return [*trees, linkage_tree(d)] if linkage else trees


def _seeds(random_state: int | np.random.Generator | None) -> np.random.SeedSequence:
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63)))
    return np.random.SeedSequence(random_state)


def reference_metric(energy: Energy) -> Floats:
    """Distances of labels that trees are drawn for, shape (L, L): the mean metric of diversities and pairs, by their weights."""
    n_labels = energy.n_labels
    parts = [
        (float(some.weights.sum()), some.cost.pairs(n_labels)) for some in energy.cliques if isinstance(some.cost, Diversity)
    ]
    if len(energy.edges) and _has_metric(energy):
        parts.append((float(energy.weights.sum()), energy.table))
    if not parts:
        return 1.0 - np.eye(n_labels)
    total = sum(weight for weight, _ in parts)
    mean: Floats = np.zeros((n_labels, n_labels))
    for weight, table in parts:
        mean += (weight / total if total > 0 else 1.0) * table
    return mean


def _has_metric(energy: Energy) -> bool:
    """Whether the pairwise costs are one metric."""
    return energy.table.ndim == 2 and bool((energy.weights >= 0).all()) and why_no_metric(energy.table) is None


@dataclass
class Surrogate:
    """An energy whose diversities are replaced by diameters of a tree.

    Attributes
    ----------
    energy : Energy
    tree : HST
        The hierarchy to fuse along.
    stretch : float or None
        How many times larger the costs of cliques and pairs are than those of the original, at most; they are never smaller, or
        this is None.
    """

    energy: Energy
    tree: HST
    stretch: float | None

    @classmethod
    def of(cls, energy: Energy, hierarchy: HST, *, refit: bool, scale: float = 1.0) -> Surrogate:
        """Every kind of cliques gets the hierarchy with distances that dominate its own metric.

        Parameters
        ----------
        energy : Energy
        hierarchy : HST
        refit : bool
            Whether by the lowest heights that do, or by scaling all lengths of the tree.
        scale : float
            Factor of diameters that replace other diversities.
        """
        n_labels = energy.n_labels
        tree = refit_heights(hierarchy, reference_metric(energy)) if refit else hierarchy
        stretch: float | None = 1.0
        cliques: list[Cliques] = []
        for some in energy.cliques:
            if not isinstance(some.cost, Diversity):
                cliques.append(some)
                continue
            metric = some.cost.pairs(n_labels)
            own = _dominating(tree, metric, refit)
            factor = 1.0 if isinstance(some.cost, Diameter) else scale
            least = 1.0 if isinstance(some.cost, Diameter) else _largest_ratio(some, n_labels)
            if stretch is not None:
                proved = factor >= least and some.cost.is_proved(n_labels)
                stretch = max(stretch, factor * _stretch(own.distances, metric)) if proved else None
            cliques.append(some.with_cost(Diameter(own), factor))
        table = None
        if len(energy.edges) and _has_metric(energy):
            table = _dominating(tree, energy.table, refit).distances
            stretch = None if stretch is None else max(stretch, _stretch(table, energy.table))
        return cls(energy.replaced(cliques=cliques, table=table), tree, stretch)

    def guarantee(self) -> float | None:
        """What is proved of labels found by fusing along the tree, for the original energy."""
        of_tree = guarantee(self.energy, self.tree)
        return None if of_tree is None or self.stretch is None else of_tree * self.stretch


def _dominating(tree: HST, metric: Floats, refit: bool) -> HST:
    if refit:
        return fit_heights(tree, metric)
    apart = metric > 0
    return tree.scaled(float((metric[apart] / tree.distances[apart]).max(initial=0.0))) if apart.any() else tree


def _stretch(table: Floats, metric: Floats) -> float:
    apart = metric > 0
    return float((table[apart] / metric[apart]).max(initial=1.0))


def _largest_ratio(cliques: Cliques, n_labels: int) -> float:
    """No set of labels in a clique costs more than so many times its diameter."""
    largest = min(int(np.diff(cliques.offsets).max(initial=1)), n_labels)
    return float(max(1, largest - 1))


def _scales(energy: Energy, scales: Sequence[float] | None) -> list[float]:
    """Factors of the diameters that stand for other diversities."""
    if scales is not None:
        if not scales or not all(0 < scale < np.inf for scale in scales):
            raise ValueError(f"scales={scales!r} must be positive numbers, one at least")
        return sorted({float(scale) for scale in scales})
    found = {1.0}
    for some in energy.cliques:
        if isinstance(some.cost, Diversity) and not isinstance(some.cost, Diameter):
            largest = _largest_ratio(some, energy.n_labels)
            # Which sets are looked at does not matter much; the same ones every time make runs with more trees comparable.
            typical = diameter_ratio(some.cost, energy.n_labels, int(largest) + 1, np.random.default_rng(0))
            found |= {typical, largest}
    return sorted(found)


class _Best:
    """Labelings of trees as they come in, from whichever thread."""

    def __init__(self, energy: Energy, given: Ints | None, callback: Callback | None) -> None:
        self._energy, self._callback = energy, callback
        self._start = energy.unary.argmin(axis=1) if given is None else given
        self._given = given is not None
        self._found: dict[int, tuple[float, Ints]] = {}
        self._lock = threading.Lock()
        self.n_cuts, self.finished = 0, True
        self.guarantees: list[float] = []

    def add(self, k: int, labels: Ints, n_cuts: int, finished: bool) -> None:
        """The labeling of task k."""
        value = self._energy.energy(labels)
        with self._lock:
            self._found[k] = value, labels
            self.n_cuts += n_cuts
            self.finished = self.finished and finished
            if self._callback is not None:
                self._callback(min(self.energies), None)

    @property
    def energies(self) -> list[float]:
        """Of the tasks that are done, in their order."""
        return [self._found[k][0] for k in sorted(self._found)]

    @property
    def history(self) -> list[float]:
        """The least energy after every task."""
        return np.minimum.accumulate(self.energies).tolist() if self._found else []

    @property
    def guarantee(self) -> float | None:
        """The labels are at least as good as those of every tree, so the best of the guarantees holds."""
        least = min(self.guarantees, default=np.inf)
        return least if np.isfinite(least) else None

    def distinct(self) -> list[Ints]:
        """All labelings so far, each once."""
        known = {labels.tobytes(): labels for _, (_, labels) in sorted(self._found.items())}
        return list(known.values())

    def labels(self) -> Ints:
        """The best labels; of equally good ones those of the first tree, whichever was done first."""
        candidates = [self._found[k] for k in sorted(self._found)]
        if self._given or not candidates:
            candidates.append((self._energy.energy(self._start), self._start))
        return min(candidates, key=lambda one: one[0])[1]


def _run(work: Callable[[int], None], n_tasks: int, n_jobs: int, clock: Clock) -> None:
    """All tasks, in threads if there are several; an error or Ctrl-C ends them all soon."""
    if n_jobs == 1:
        for k in range(n_tasks):
            work(k)
        return
    with ThreadPoolExecutor(n_jobs) as threads:
        jobs = [threads.submit(work, k) for k in range(n_tasks)]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            clock.interrupt()
            threads.shutdown(cancel_futures=True)
            raise
