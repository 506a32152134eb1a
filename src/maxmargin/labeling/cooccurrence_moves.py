"""Expansion moves for cliques that cost by the set of their labels, after Ladicky, Russell, Kohli and Torr (ECCV 2010).

What a clique costs after a move of some nodes to label alpha is bounded from above, exactly where nobody moves, by a function
that a cut minimises: alpha joins the set as soon as one node moves, and a label saves what it saves for certain when all its
nodes have left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.labeling.clique_moves import Clock, Descent, Terms, present_labels, starts, sweep
from maxmargin.labeling.cliques import Cliques, PnPotts
from maxmargin.labeling.diversities import Diversity
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.result import Callback, Labeling
from maxmargin.labeling.spreads import offset_free


@offset_free
def cooccurrence(
    energy: Energy,
    *,
    init: str | ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
    max_sweeps: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Labeling:
    """Minimise an energy with diversity or P^n Potts cliques by expansion moves that bound what cliques cost.

    Every accepted move lowers the energy; nothing is proved of where they end.

    Parameters
    ----------
    energy : Energy
    init : {"unary", "constant", "best"} or labels, optional
        Where to start: from labels of least unary cost, from the best single label for all nodes, or from one after the other,
        which is the default; the better result is kept. The first is good for light cliques, the second for heavy ones.
    random_state : int or Generator, optional
        Labels are tried in the order of their numbers, or in a random one if given.
    max_sweeps : int, optional
        Tries per label.
    time_limit : float, optional
        Seconds.
    callback : callable, optional
        Called with the energy after every accepted move, and None.

    Examples
    --------
    >>> from maxmargin.labeling import Diameter
    >>> cliques = Cliques([[0, 1, 2]], Diameter("linear"), weights=2.0)
    >>> cooccurrence(Energy([[0, 3, 9], [3, 0, 9], [9, 7, 8]], cliques=cliques)).labels
    array([0, 1, 1])
    """
    clock = Clock(time_limit)
    expander = Expander(energy)
    order = None if random_state is None else np.random.default_rng(random_state).permutation(energy.n_labels)
    ends = [
        expander.descend(one, clock=clock, max_sweeps=max_sweeps, order=order, callback=callback)
        for one in starts(energy, "best" if init is None else init)
    ]
    best = min(ends, key=lambda end: end.energy)
    finished = all(end.finished for end in ends)
    return Labeling(
        best.labels.reshape(energy.shape),
        energy.energy(best.labels),
        "cooccurrence",
        rounding=expander.terms.rounding,
        history=best.history,
        n_cuts=sum(end.n_cuts for end in ends),
        seconds=clock.seconds,
        status=clock.status(finished),
    )


class Expander:
    """Expansion moves on one energy.

    Parameters
    ----------
    energy : Energy
        With cliques that cost by a Diversity or PnPotts.
    """

    def __init__(self, energy: Energy) -> None:
        for k, some in enumerate(energy.cliques):
            if not isinstance(some.cost, Diversity | PnPotts):
                kind = type(some.cost).__name__
                raise TypeError(f"cliques[{k}] costs by {kind}; these moves need a Diversity (say FunctionDiversity) or PnPotts")
        self.energy = energy
        self.terms = Terms.of(energy)
        self._labels: Ints | None = None
        self._present: list[Booleans] = []

    def descend(
        self,
        start: Ints,
        *,
        clock: Clock,
        max_sweeps: int | None = None,
        order: Ints | None = None,
        callback: Callback | None = None,
    ) -> Descent:
        """Expand all labels until none lowers the energy."""
        return sweep(
            start,
            self.terms.energy.energy,
            self.expand,
            self.energy.n_labels,
            clock=clock,
            least_gain=self.terms.rounding,
            max_sweeps=max_sweeps,
            order=order,
            callback=callback,
        )

    def expand(self, labels: Ints, alpha: int) -> tuple[float, Ints]:
        """The best move of some nodes to alpha: a bound of the change of the energy, and the labels then."""
        if labels is not self._labels:
            self._labels = labels
            self._present = present_labels(self.energy.cliques, labels, self.energy.n_labels)
        change, moved = self.terms.best_move(labels, np.full(len(labels), alpha), *self.bounds(alpha))
        return change, np.where(moved, alpha, labels)

    def bounds(self, alpha: int) -> tuple[Floats, Floats, Floats | None]:
        """Costs of some node moving, some staying, the nodes of a label staying; for all cliques."""
        parts = [_bound(some, present, alpha) for some, present in zip(self.energy.cliques, self._present, strict=True)]
        if not parts:
            return np.zeros(0), np.zeros(0), None
        some_move, some_stay, label_stays = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return some_move, some_stay, label_stays if label_stays.any() else None


def _bound(cliques: Cliques, present: Booleans, alpha: int) -> tuple[Floats, Floats, Floats]:
    joined = present.copy()
    joined[:, alpha] = True
    cost = cliques.cost
    now = cost.of(present)
    some_move = np.where(present[:, alpha], 0.0, cost.of(joined) - now)
    if isinstance(cost, PnPotts):
        alone = np.zeros_like(present)
        alone[:, alpha] = True
        # Those that are alpha already have nothing left to save.
        some_stay = np.where((present & ~alone).any(axis=1), cost.mixed - cost.of(alone), 0.0)
        return some_move, some_stay, np.zeros(present.shape)
    assert isinstance(cost, Diversity)
    return np.maximum(some_move, 0.0), np.zeros(len(present)), cost.savings(present, alpha)
