"""Parsimonious labeling: cliques that prefer few labels, and labels that are alike, by mixtures of trees.

Algorithms 8 and 9 of Dokania's thesis (2016). Random trees stand for the metric of a diversity; the labeling of each is found by
hierarchical moves, and the one with the least energy is kept. Heights of the trees are refitted, and expansion moves on the energy
itself polish what was found; both can only help, see the documentation of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._types import Floats, Ints
from maxmargin.labeling.clique_moves import Callback, Clock
from maxmargin.labeling.cliques import Cliques, PnPotts
from maxmargin.labeling.cooccurrence import Expander
from maxmargin.labeling.diversities import Diameter, Diversity, diameter_ratio
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.hierarchical import fuse_tree
from maxmargin.labeling.metrics import why_no_metric
from maxmargin.labeling.result import Labeling
from maxmargin.labeling.trees import HST, fit_heights, linkage_tree, random_tree, refit_heights


@dataclass(eq=False, repr=False)
class ParsimoniousLabeling(Labeling):
    """The best labeling of several trees.

    Attributes
    ----------
    energies : list of float
        Energies of the labelings of the trees, before polishing; the random trees first, then that of complete linkage. With several
        scales there is one for each scale of a tree.
    unrefined : float
        Energy of the best of them: what polishing began with.
    """

    energies: list[float] = field(default_factory=list)
    unrefined: float = np.inf


def parsimonious(
    energy: Energy,
    *,
    init: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    n_trees: int = 10,
    linkage: bool = True,
    r: float = 2.0,
    tree: Literal["refitted", "rhst"] = "refitted",
    pairwise: Literal["tree", "exact"] = "tree",
    scales: Sequence[float] | None = None,
    refine: bool = True,
    n_jobs: int = 1,
) -> ParsimoniousLabeling:
    """Minimise an energy whose cliques cost by diversities.

    Parameters
    ----------
    energy : Energy
        With cliques that cost by a Diversity or PnPotts; pairwise costs are welcome too.
    init : array of labels, optional
        A labeling that competes with those of the trees.
    random_state : int or Generator, optional
        Every tree has a seed of its own, so that the first trees are the same whatever ``n_trees`` is.
    max_sweeps : int, optional
        Of expansion moves, in every fusion and in polishing.
    time_limit : float, optional
        Seconds.
    callback : callable, optional
        Told the least energy whenever a tree is done, and after every accepted move of polishing.
    n_trees : int
        Random trees.
    linkage : bool
        Whether to add the tree of complete-linkage clustering.
    r : float
        By which factor edges of the random trees shrink from level to level.
    tree : {"refitted", "rhst"}
        Whether the trees get the lowest heights that dominate the metric, or keep the lengths they were drawn with, as in the thesis.
    pairwise : {"tree", "exact"}
        Whether edges cost what the tree says too, or what the energy says, made submodular where a move needs it. The guarantee is
        one for trees.
    scales : sequence of float, optional
        What the diameters of trees are multiplied with where the diversity is not a diameter, one after the other. By default 1, a
        typical ratio of diversity and diameter, and the largest possible one, for which a guarantee is known.
    refine : bool
        Whether to go on from the best labeling by expansion moves on the energy itself.
    n_jobs : int
        Threads; the result is the same for any number.

    Examples
    --------
    >>> from maxmargin.labeling import Metric
    >>> cliques = Cliques([[0, 1, 2]], Diameter(Metric("linear")), weights=2.0)
    >>> found = parsimonious(Energy([[0, 3, 9], [3, 0, 9], [9, 9, 8]], cliques=cliques), random_state=0)
    >>> found.labels, found.energy
    (array([0, 1, 1]), 11.0)
    """
    clock = Clock(time_limit)
    if tree not in ("refitted", "rhst") or pairwise not in ("tree", "exact"):
        raise ValueError(f"tree={tree!r} must be 'refitted' or 'rhst', pairwise={pairwise!r} must be 'tree' or 'exact'")
    if n_trees < 0 or (n_trees == 0 and not linkage):
        raise ValueError(f"n_trees={n_trees!r} must be positive, or 0 with linkage=True")
    if n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs!r} must be at least 1")
    given = None if init is None else energy.check_labels(init, "init")
    expander = Expander(energy)
    trees = sample_trees(energy, n_trees, r, random_state, linkage)
    factors = _scales(energy, scales)
    tasks = [(one, factor) for one in trees for factor in factors]
    result = _Best(energy, len(tasks), given, callback)

    def work(k: int) -> None:
        hierarchy, factor = tasks[k]
        substitute = surrogate(energy, hierarchy, refit=tree == "refitted", scale=factor, pairwise=pairwise)
        shape = _common_tree(substitute, hierarchy, tree == "refitted")
        found = fuse_tree(substitute, shape, clock=clock, max_sweeps=max_sweeps)
        result.add(k, found.labels, found.n_cuts, found.finished)

    try:
        if n_jobs == 1:
            for k in range(len(tasks)):
                # One tree at least, so that there is a labeling; it ends soon when time is over.
                if k == 0 or not clock.over():
                    work(k)
        else:
            _in_threads(work, len(tasks), n_jobs, clock)
    except KeyboardInterrupt:
        clock.interrupt()
    labels, unrefined, which = result.best()
    history, n_cuts, finished = result.history(), result.n_cuts, result.finished
    if refine and not clock.over():
        try:
            polished = expander.descend(labels, clock=clock, max_sweeps=max_sweeps, callback=callback)
            labels, n_cuts, finished = polished.labels, n_cuts + polished.n_cuts, finished and polished.finished
            history += polished.history[1:]
        except KeyboardInterrupt:
            clock.interrupt()
            labels = min(labels, expander.current, key=energy.energy)
    del which
    status = "interrupted" if clock.interrupted else "time_limit" if clock.over() else "converged" if finished else "max_sweeps"
    return ParsimoniousLabeling(
        labels.reshape(energy.shape),
        energy.energy(labels),
        "parsimonious",
        history=history,
        n_cuts=n_cuts,
        seconds=clock.seconds,
        status=status,
        energies=[value for value in result.energies if np.isfinite(value)],
        unrefined=unrefined,
    )
