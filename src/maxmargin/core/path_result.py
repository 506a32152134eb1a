"""What tracing a path returns: weights for every lambda, and how far from optimal they can be."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.core.path_weights import WeightStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxmargin.core.path_estimators import Selection


class Segment(NamedTuple):
    """A range of lambda with the same weights; the bound of their gap is affine in lambda.

    Attributes
    ----------
    hi, lo : float
        Ends of the range, ``hi > lo``.
    model : int
        Number of the weights.
    gap_hi, gap_lo : float
        Bounds of the gap at the ends.
    """

    hi: float
    lo: float
    model: int
    gap_hi: float
    gap_lo: float


@dataclass(eq=False)
class TracedPath:
    """Weights for every lambda down to ``lambda_end``.

    Attributes
    ----------
    epsilon, kappa : float
        Largest gap anywhere, and the part of it that solvers were asked for.
    rule : {"interpolate", "transport"}
        How breakpoints were chosen.
    lambdas : array of shape (m,)
        Where the problem was solved, in descending order. The first one is where the closed form for large lambda ends.
    hinges, squared_norms, duals : arrays of shape (m,)
        Mean hinge and squared norm of the weights, and the lower bound of the optimum, at each of them. With
        ``rule="transport"`` the first hinge is an upper bound, which saves a pass.
    passes : array of shape (m,)
        Oracle calls spent on each, in units of the number of blocks.
    segments : list of Segment
        Ranges below ``lambdas[0]``, in descending order, without a gap between them.
    certified : bool
        Whether the bounds are proved.
    complete : bool
        False if tracing was interrupted or ran out of a budget before ``lambda_min``.
    interrupted : bool
        Whether Ctrl-C ended the run; not kept in files.
    closed_form : bool
        Whether weights at ``lambda >= lambdas[0]`` are ``direction / lambda``, which has the gap of ``lambdas[0]`` or less.
    """

    epsilon: float
    kappa: float
    rule: str
    n_blocks: int
    lambdas: Floats
    hinges: Floats
    squared_norms: Floats
    duals: Floats
    passes: Floats
    store: WeightStore
    segments: list[Segment]
    certified: bool
    complete: bool
    closed_form: bool
    start_gap: float
    interrupted: bool = False

    @property
    def breakpoints(self) -> Floats:
        """Where the weights change, in descending order; the first one is where they begin to differ from the closed form."""
        changes = [s.hi for k, s in enumerate(self.segments) if k == 0 or s.model != self.segments[k - 1].model]
        return np.array(changes)

    @property
    def lambda_end(self) -> float:
        """The smallest lambda that is covered; 0 if all are."""
        return self.segments[-1].lo if self.segments else float(self.lambdas[0])

    @property
    def reached_zero(self) -> bool:
        """Whether the last weights are within epsilon for every smaller lambda: their mean hinge is at most epsilon."""
        return self.lambda_end == 0

    @property
    def total_passes(self) -> float:
        """Oracle calls of the whole path over the number of blocks."""
        return float(self.passes.sum())

    def __len__(self) -> int:
        """Number of distinct weights."""
        return len(self.store)

    def _above(self, lam: float) -> bool:
        """Whether the closed form applies; complains about lambdas that are not covered."""
        if np.ndim(lam) > 0:
            raise ValueError("lambda must be one number; ask once for each lambda")
        if not isinstance(lam, numbers.Real | np.ndarray) or not 0 < lam < np.inf:
            raise ValueError(f"lambda={lam!r} must be a positive number")
        if lam >= self.lambdas[0]:
            if lam > self.lambdas[0] and not self.closed_form:
                raise ValueError(f"lambda={lam:g} is above the beginning of the path, {self.lambdas[0]:g}; raise lambda_max")
            return True
        if lam < self.lambda_end:
            end = f"the end of the path, {self.lambda_end:g}"
            raise ValueError(f"lambda={lam:g} is below {end}; trace it with a smaller lambda_min")
        return False

    def segment_at(self, lam: float) -> Segment:
        """The range that holds ``lam``, which must be below ``lambdas[0]``."""
        ends = np.array([segment.lo for segment in self.segments])
        # The first range, from above, whose lower end is not above lambda.
        return self.segments[int(np.searchsorted(-ends, -lam, side="left"))]

    def model_at(self, lam: float) -> int:
        """Number of the weights used at ``lam``."""
        return 0 if self._above(lam) else self.segment_at(lam).model

    def weights(self, lam: float) -> Floats:
        """Weights at ``lam``, shape (d,)."""
        if not self._above(lam):
            return self.store[self.segment_at(lam).model]
        return self.store[0] * (self.lambdas[0] / lam) if lam > self.lambdas[0] else self.store[0]

    def gap_bound(self, lam: float) -> float:
        """How far the objective at ``weights(lam)`` can be from the optimum, in the form ``lambda/2 ||w||^2 + mean hinge``."""
        if self._above(lam):
            return float(self.start_gap * self.lambdas[0] / lam) if self.lambdas[0] > 0 else 0.0
        segment = self.segment_at(lam)
        share = (segment.hi - lam) / (segment.hi - segment.lo)
        return float((1.0 - share) * segment.gap_hi + share * segment.gap_lo)

    def ranges(self) -> list[tuple[float, float]]:
        """For every distinct weights, the range ``(hi, lo)`` of lambda they are used in; empty ranges have ``hi == lo``."""
        found = [(float(lam), float(lam)) for lam in self.lambdas]
        if self.closed_form:
            found[0] = (np.inf, found[0][1])
        for segment in self.segments:
            hi, lo = found[segment.model]
            found[segment.model] = (max(hi, segment.hi), min(lo, segment.lo))
        return found

    def coef_path(self, features: Sequence[int] | Ints | Booleans | slice[int | None] | None = None) -> tuple[Floats, Floats]:
        """All weights: lambdas of shape (m,) and an array of shape (m, d), or only the columns ``features`` of it."""
        columns = slice(None) if features is None else features
        return self.lambdas.copy(), np.array([self.store[k][columns] for k in range(len(self.store))])

    def plot(
        self,
        ax: Axes | None = None,
        *,
        selection: Selection | None = None,
        training: Selection | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Axes:
        """Scores, bounds of the objective and the largest weights over C, one above the other; needs matplotlib.

        Scores are those of ``selection`` and ``training``, which ``select`` returns for validation and training data; the C that
        is best on validation data is marked. With ``ax``, only the weights are drawn, there. Returns the axes of the weights.
        """
        from maxmargin.core.path_figures import plot_path

        return plot_path(self, ax, selection=selection, training=training, feature_names=feature_names)
