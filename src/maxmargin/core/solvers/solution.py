"""What solvers return: the weights, what is proved about them, and how they got there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from maxmargin._utils import Floats
from maxmargin.core import Certificate, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# ``(b, c)``: the optimum is at least ``b - c / lambda``.
Curve = tuple[float, float]


class ConvergenceWarning(UserWarning):
    """A solver stopped before the duality gap reached the tolerance."""


class InexactOracleWarning(UserWarning):
    """An oracle returned an output that violates the margin less than the truth does: nothing is certified."""


class Rows:
    """What a run leaves behind; the fields of a subclass are columns, equally long lists."""

    def record(self, *row: float) -> None:
        """Append a row."""
        for column, number in zip(vars(self).values(), row, strict=True):
            column.append(number)

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))


@dataclass
class History(Rows):
    """One row per check of a solver."""

    passes: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def gap(self) -> list[float]:
        """Duality gap at every row."""
        return [p - d for p, d in zip(self.primal, self.dual, strict=True)]

    def scaled(self, factor: float) -> History:
        """The same history with all objectives multiplied by ``factor``."""
        return History(list(self.passes), [factor * p for p in self.primal], [factor * d for d in self.dual], list(self.seconds))

    def __iter__(self) -> Iterator[dict[str, float]]:
        columns = zip(self.passes, self.primal, self.dual, self.gap, self.seconds, strict=True)
        return (dict(zip(("passes", "primal", "dual", "gap", "seconds"), row, strict=True)) for row in columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Primal and dual objective over the passes; needs matplotlib."""
        from maxmargin.core.solvers.figures import plot_history

        return plot_history(self, ax)


@dataclass
class Solution:
    """Weights with their certificate, in the form ``lambda/2 ||w||^2 + mean hinge``.

    Attributes
    ----------
    weights : array of shape (d,)
        The best weights found.
    certificate : Certificate
        What is proved of them; its ``primal``, ``dual``, ``gap``, ``oracle_gap`` and ``certified`` are also here.
    converged : bool
        Whether the gap reached the tolerance, the oracle's part of it aside.
    status : str
        Why the solver stopped: "converged", "max_passes", "time_limit", "callback" or "interrupted".
    passes : float
        Oracle calls divided by the number of blocks.
    oracle_calls : int
        All of them, those of gap checks included.
    seconds : float
    history : History
    regularization : float
        Lambda.
    state : object
        What a solver of the same kind needs for a warm start.
    dual_curve : pair of float, optional
        ``(b, c)``: the optimum is at least ``b - c / lambda`` for *every* lambda, says the dual point.
    problem : Problem, optional
        What was solved: a warm start is for this problem only. Pickled solutions keep its fingerprint instead, and leave a
        state behind that lives in the compiled engine.
    """

    weights: Floats
    certificate: Certificate
    converged: bool
    status: str
    passes: float
    oracle_calls: int
    seconds: float
    history: History
    regularization: float
    state: object = None
    dual_curve: Curve | None = None
    problem: Problem | None = None
    fingerprint: bytes | None = None

    @property
    def primal(self) -> float:
        """Objective at the weights, or an upper bound of it."""
        return self.certificate.primal

    @property
    def dual(self) -> float:
        """Lower bound of the optimum."""
        return self.certificate.dual

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.certificate.gap

    @property
    def oracle_gap(self) -> float:
        """The part of the gap that no solver can close."""
        return self.certificate.oracle_gap

    @property
    def certified(self) -> bool:
        """Whether the gap is proved."""
        return self.certificate.certified

    def curve_at(self, regularization: float) -> Curve | None:
        """A dual curve that is high at another lambda."""
        return self.state.curve_at(regularization) if hasattr(self.state, "curve_at") else self.dual_curve

    def lower_bound(self, regularization: float) -> float:
        """What the cuts of the run prove of the optimum at another lambda, if it kept any."""
        return float(self.state.lower_bound(regularization)) if hasattr(self.state, "lower_bound") else 0.0

    def belongs_to(self, problem: Problem) -> bool:
        """Whether it is a solution of this problem, or of one with the same data."""
        if self.problem is not None:
            return self.problem.same_as(problem)
        return self.state is None or (self.fingerprint is not None and self.fingerprint == problem.fingerprint())

    def __getstate__(self) -> dict[str, object]:
        mark = self.fingerprint if self.problem is None else self.problem.fingerprint()
        state = self.state if hasattr(self.state, "__getstate__") and not hasattr(self.state, "engine") else None
        return {**vars(self), "problem": None, "fingerprint": mark, "state": state}
