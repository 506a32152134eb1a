"""What solvers return: the weights, what is proved about them, and how they got there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ConvergenceWarning(UserWarning):
    """A solver stopped before the duality gap reached the tolerance."""


@dataclass
class History:
    """One row per iteration of a solver; columns are equally long lists."""

    iteration: list[int] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def record(self, iteration: int, primal: float, dual: float, seconds: float) -> None:
        """Append a row."""
        self.iteration.append(iteration)
        self.primal.append(primal)
        self.dual.append(dual)
        self.seconds.append(seconds)

    @property
    def gap(self) -> list[float]:
        """Duality gap at every row."""
        return [p - d for p, d in zip(self.primal, self.dual, strict=True)]

    def __len__(self) -> int:
        return len(self.iteration)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = zip(self.iteration, self.primal, self.dual, self.gap, self.seconds, strict=True)
        return (dict(zip(("iteration", "primal", "dual", "gap", "seconds"), row, strict=True)) for row in columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Primal and dual objective over the iterations; needs matplotlib."""
        from maxmargin.figures import plot_history

        return plot_history(self, ax)


@dataclass
class Solution:
    """Weights with their certificate.

    Attributes
    ----------
    weights : array of shape (d,)
        The best weights found.
    primal, dual, gap : float
        Objective at ``weights``, a lower bound of the optimum, and their difference.
    certified : bool
        Whether the gap is proved: the oracle was exact.
    converged : bool
        Whether the gap reached the tolerance.
    status : str
        Why the solver stopped.
    iterations, oracle_calls : int
        How long it took,
    seconds : float
        also in wall time.
    history : History
        One row per iteration.
    """

    weights: NDArray[np.float64]
    primal: float
    dual: float
    certified: bool
    converged: bool
    status: str
    iterations: int
    oracle_calls: int
    seconds: float
    history: History

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.primal - self.dual
