"""What solvers return: the weights, what is proved about them, and how they got there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# ``(b, c)``: the optimum is at least ``b - c / lambda`` for every lambda.
Curve = tuple[float, float]


class ConvergenceWarning(UserWarning):
    """A solver stopped before the duality gap reached the tolerance."""


class InexactOracleWarning(UserWarning):
    """An oracle returned an output that violates the margin less than the truth does: nothing is certified."""


@dataclass
class History:
    """One row per check of a solver; columns are equally long lists."""

    passes: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def record(self, passes: float, primal: float, dual: float, seconds: float) -> None:
        """Append a row."""
        self.passes.append(passes)
        self.primal.append(primal)
        self.dual.append(dual)
        self.seconds.append(seconds)

    @property
    def gap(self) -> list[float]:
        """Duality gap at every row."""
        return [p - d for p, d in zip(self.primal, self.dual, strict=True)]

    def scaled(self, factor: float) -> History:
        """The same history with all objectives multiplied by ``factor``."""
        return History(list(self.passes), [factor * p for p in self.primal], [factor * d for d in self.dual], list(self.seconds))

    def __len__(self) -> int:
        return len(self.passes)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = zip(self.passes, self.primal, self.dual, self.gap, self.seconds, strict=True)
        return (dict(zip(("passes", "primal", "dual", "gap", "seconds"), row, strict=True)) for row in columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Primal and dual objective over the passes; needs matplotlib."""
        from maxmargin.figures import plot_history

        return plot_history(self, ax)


@dataclass
class Solution:
    """Weights with their certificate, in the form ``lambda/2 ||w||^2 + mean hinge``.

    Attributes
    ----------
    weights : array of shape (d,)
        The best weights found.
    primal, dual, gap : float
        Objective at ``weights``, a lower bound of the optimum, and their difference.
    certified : bool
        Whether the gap is proved: the oracle was exact and every part of the bound was computed with it.
    converged : bool
        Whether the gap reached the tolerance.
    status : str
        Why the solver stopped: "converged", "oracle" (the rest of the gap is the oracle's), "max_passes", "time_limit",
        "callback" or "interrupted".
    passes : float
        Oracle calls divided by the number of blocks.
    oracle_calls : int
        All of them, those of gap checks included.
    seconds : float
        Wall time.
    history : History
        One row per check.
    regularization : float
        Lambda.
    state : object
        What a solver of the same kind needs for a warm start.
    oracle_gap : float
        The part of the gap that is the oracle's.
    dual_curve : pair of float, optional
        ``(b, c)``: the optimum is at least ``b - c / lambda`` for *every* lambda, says the dual point.
    """

    weights: NDArray[np.float64]
    primal: float
    dual: float
    certified: bool
    converged: bool
    status: str
    passes: float
    oracle_calls: int
    seconds: float
    history: History
    regularization: float
    state: Any = None
    oracle_gap: float = 0.0
    dual_curve: Curve | None = None

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.primal - self.dual

    def curve_at(self, regularization: float) -> Curve | None:
        """A dual curve that is high at another lambda."""
        return self.state.curve_at(regularization) if hasattr(self.state, "curve_at") else self.dual_curve

    def lower_bound(self, regularization: float) -> float:
        """What the cuts of the run prove of the optimum at another lambda, if it kept any."""
        return float(self.state.lower_bound(regularization)) if hasattr(self.state, "lower_bound") else 0.0
