"""The problem behind learned metrics: weights whose energies prefer displacements that carry one segmentation onto another.

With costs ``phi(D)`` of a displacement ``D`` of all control points, weights ``v >= 0`` and a loss ``delta(D)`` of patches, the
hinge of a pair of images is ::

    xi(v) = min_D [v . phi(D) + eta * delta(D)] - min_D [v . phi(D) - delta(D)]

The first minimum is a segmentation-consistent registration, the hidden part that is imputed; the second is the most violating
displacement. For every ``eta >= 0`` the hinge is at least the loss of the displacement with the least energy ``v . phi``:
the first minimum is at least that energy, and the displacement itself may stand in the second one. With the imputed displacement
held fixed the hinge is convex, above, and touches where it was imputed: rounds of imputing and solving cannot raise

    F(v) = 1/2 |v|^2 + alpha |v - v0|^2 + C * mean of xi.

Solvers know ``lambda/2 |u|^2`` only: ``F = (1 + 2 alpha)/2 |v - s|^2 + constant + C * mean of xi`` with
``s = 2 alpha / (1 + 2 alpha) v0``, so ``u = v - s`` it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from maxmargin._utils import Floats, Int32s, Ints, seconds_left
from maxmargin.core import Bounds, Cut, LatentProblem
from maxmargin.labeling import Energy, minimize

Inference = Literal["trws", "expansion"]

# Sweeps of TRW-S at most; what is left open is in the bound.
_SWEEPS = 50
# Displacements of a pair that are kept, to begin with and to compare with.
_KEPT = 40
# Cuts that are handed on to the next round.
_HANDED_ON = 60


@dataclass(frozen=True)
class Comparison:
    """What every displacement costs in a pair of images, by metric, and what it loses.

    Attributes
    ----------
    costs : array of shape (n_metrics, n_nodes, n_labels)
        Times the weights learning begins with.
    edges : int array of shape (E, 2)
    distances : array of shape (n_labels, n_labels)
        Between displacements, times the smoothness learning begins with.
    losses : array of shape (n_nodes, n_labels)
        From 0 to 1.
    rows : int array of shape (n_nodes, n_labels), optional
        Which row of weights counts: the class of the source's patch. There is one row by default.
    """

    costs: Floats
    edges: Int32s
    distances: Floats
    losses: Floats
    rows: Ints | None = None

    @property
    def n_nodes(self) -> int:
        """Control points."""
        return int(self.losses.shape[0])

    def energy(self, weights: Floats, loss: float) -> Energy:
        """``n_nodes * (v . phi + loss * delta)``, as an energy of labels."""
        n_metrics = len(self.costs)
        table = weights[:-1].reshape(-1, n_metrics)
        if self.rows is None:
            unary = np.tensordot(table[0], self.costs, axes=1)
        else:
            unary = sum(table[self.rows, k] * self.costs[k] for k in range(n_metrics))
        return Energy(unary + loss * self.losses, self.edges, self.distances, weights=float(weights[-1]))

    def describe(self, labels: Ints, n_rows: int) -> tuple[Floats, float]:
        """``phi`` of a displacement, shape (n_rows * n_metrics + 1,), and its loss: means over the control points."""
        nodes = np.arange(self.n_nodes)
        chosen = self.costs[:, nodes, labels]
        found = np.zeros((n_rows, len(chosen)))
        if self.rows is None:
            found[0] = chosen.sum(axis=1)
        else:
            np.add.at(found, self.rows[nodes, labels], chosen.T)
        far = self.distances[labels[self.edges[:, 0]], labels[self.edges[:, 1]]].sum()
        return np.append(found.ravel(), far) / self.n_nodes, float(self.losses[nodes, labels].mean())


class Displacement(NamedTuple):
    """Labels of all control points, their costs and their loss."""

    labels: Ints
    costs: Floats
    loss: float

    def value(self, weights: Floats, loss: float) -> float:
        """``v . phi + loss * delta``."""
        return float(self.costs @ weights) + loss * self.loss


class MetricProblem(LatentProblem):
    """Hinges of pairs of images, with imputed displacements.

    Parameters
    ----------
    pairs : sequence of Comparison
    n_rows : int
        Rows of weights, 1 unless they depend on the class of a patch.
    alpha : float
        Price of the squared distance from weights that are all 1.
    eta : float
        Price of the loss in the imputation.
    inference : {"trws", "expansion"}
        TRW-S bounds the minima it may miss, so that results are certified; expansion moves do not.

    Attributes
    ----------
    shift : float
        ``s``: weights of solvers are ``v - s``.
    imputed : list of Displacement
        None before :meth:`start`.
    imputed_at : array of shape (n_features,)
        The solver's weights of the last imputation.
    """

    def __init__(
        self,
        pairs: Sequence[Comparison],
        *,
        n_rows: int = 1,
        alpha: float = 1.0,
        eta: float = 50.0,
        inference: Inference = "trws",
    ) -> None:
        self.pairs, self.n_rows, self.alpha, self.eta, self.inference = list(pairs), n_rows, alpha, eta, inference
        self.n_blocks = len(self.pairs)
        self.n_features = n_rows * len(self.pairs[0].costs) + 1
        self.exact = inference == "trws"
        self.shift = 2 * alpha / (1 + 2 * alpha)
        self._known: list[deque[Displacement]] = [deque(maxlen=_KEPT) for _ in self.pairs]
        self._planes: deque[tuple[Floats, float]] = deque(maxlen=_HANDED_ON)
        self.imputed: list[Displacement] = []
        self.imputed_at = np.full(self.n_features, 1.0 - self.shift)

    @property
    def constant(self) -> float:
        """What the shift leaves of the regulariser."""
        return self.n_features * self.alpha / (1 + 2 * self.alpha)

    @property
    def bounds(self) -> Bounds:
        """No weight is negative: dissimilarities are none otherwise, and searches need it of the smoothness."""
        return np.full(self.n_features, -self.shift), np.full(self.n_features, np.inf)

    def natural(self, weights: Floats) -> Floats:
        """``v``, without what rounding leaves below zero."""
        return np.maximum(weights + self.shift, 0.0)

    def objective(self, weights: Floats, C: float) -> float:
        """``F``, an upper bound of it where the searches are not exact, for weights that were used for the imputation."""
        v = self.natural(weights)
        far = v - 1.0
        return 0.5 * float(v @ v) + self.alpha * float(far @ far) + C * self.hinge(weights)

    # ---- searches -----------------------------------------------------------------------------------------------------------

    def search(self, pair: int, v: Floats, loss: float) -> tuple[Displacement, float]:
        """The best displacement that is found for ``v . phi + loss * delta``, none known is better; a lower bound, or -inf."""
        comparison, known = self.pairs[pair], self._known[pair]
        energy = comparison.energy(v, loss)
        first: str | Ints = min(known, key=lambda one: one.value(v, loss)).labels if known else "unary"
        left = seconds_left()
        options: dict[str, object] = {"time_limit": max(1e-3, left) if np.isfinite(left) else None}
        if self.inference == "trws":
            options["max_sweeps"] = _SWEEPS
        found = minimize(energy, self.inference, first, **options)  # type: ignore[arg-type]
        if found.status != "interrupted" and self.inference == "trws" and not found.certified and left > 0:
            # Moves often find better labels than messages; they never find worse ones.
            bound = found.lower_bound
            found = minimize(energy, "expansion", found.labels, **{**options, "max_sweeps": 3})  # type: ignore[arg-type]
            found.lower_bound = bound
        if found.status == "interrupted":
            raise KeyboardInterrupt
        labels = np.asarray(found.labels, dtype=np.int64)
        best = Displacement(labels, *comparison.describe(labels, self.n_rows))
        if not any(np.array_equal(labels, one.labels) for one in known):
            known.append(best)
        bound = -np.inf if found.lower_bound is None else found.lower_bound / comparison.n_nodes
        return best, bound

    def predictions(self, weights: Floats) -> list[Displacement]:
        """The displacement of the least energy for every pair; no worse than any that is known."""
        return [self.search(pair, self.natural(weights), 0.0)[0] for pair in range(self.n_blocks)]

    # ---- hidden parts -------------------------------------------------------------------------------------------------------

    def start(self, rng: np.random.Generator) -> None:
        """Before there are weights, those that are all 1."""
        self.impute(np.full(self.n_features, 1.0 - self.shift))

    def impute(self, weights: Floats) -> bool:
        """Segmentation-consistent registrations, never worse ones than those before."""
        v = self.natural(weights)
        found = []
        for pair in range(self.n_blocks):
            best, _ = self.search(pair, v, self.eta)
            if self.imputed:
                # Of equal ones the old one, or rounds would not settle.
                old = self.imputed[pair]
                best = old if old.value(v, self.eta) <= best.value(v, self.eta) else best
            found.append(best)
        changed = not self.imputed or any(a is not b for a, b in zip(found, self.imputed, strict=True))
        # Together, whatever interrupts.
        self.imputed, self.imputed_at = found, weights.copy()
        return changed

    def known_cuts(self) -> list[Cut]:
        """Cuts of earlier imputations: what was violating then is a displacement now."""
        return [self._as_cut(costs, loss, self._mean_of_imputed()) for costs, loss in self._planes]

    def _mean_of_imputed(self) -> tuple[Floats, float]:
        return np.mean([one.costs for one in self.imputed], axis=0), float(np.mean([one.loss for one in self.imputed]))

    def _as_cut(self, costs: Floats, loss: float, imputed: tuple[Floats, float], bound: float | None = None) -> Cut:
        psi = costs - imputed[0]
        return Cut(psi, loss + self.eta * imputed[1] - self.shift * float(psi.sum()), bound)

    # ---- cuts ---------------------------------------------------------------------------------------------------------------

    def cut(self, block: int, weights: Floats) -> Cut:
        """That of the most violating displacement, with what may have been missed."""
        v, own = self.natural(weights), self.imputed[block]
        worst, least = self.search(block, v, -1.0)
        bound = None
        if np.isfinite(least):
            found = worst.value(v, -1.0)
            rounding = 1e-12 * (abs(found) + abs(own.value(v, self.eta)))
            bound = own.value(v, self.eta) - least if least < found - rounding else None
        return self._as_cut(worst.costs, worst.loss, (own.costs, own.loss), bound)

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over the pairs, which is kept."""
        cuts = [self.cut(block, weights) for block in range(self.n_blocks)]
        psi, loss = np.mean([cut.psi for cut in cuts], axis=0), float(np.mean([cut.loss for cut in cuts]))
        imputed = self._mean_of_imputed()
        self._planes.append((psi + imputed[0], loss - self.eta * imputed[1] + self.shift * float(psi.sum())))
        exact = all(cut.bound is None for cut in cuts)
        return Cut(psi, loss, None if exact else float(np.mean([cut.upper(weights) for cut in cuts])))
