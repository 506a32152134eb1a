"""What solvers return: the weights, what is proved about them, and how they got there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificate import Certificate
from maxmargin.cuts import Cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        Why the solver stopped: "converged", "max_passes", "time_limit", "callback" or "interrupted".
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

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.primal - self.dual

    @property
    def certificate(self) -> Certificate:
        """What is proved."""
        noise = 1e-11 * max(1.0, *map(abs, self.history.primal))
        return Certificate(self.primal, self.dual, self.certified, noise=noise)


@dataclass(frozen=True)
class KnownCuts:
    """What is known of a problem before it is solved, from one that is like it.

    Attributes
    ----------
    cuts : sequence of Cut
        Valid lower bounds of the mean hinge.
    """

    cuts: Sequence[Cut]
