"""What minimising an energy ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maxmargin._types import Ints

# Called while a method runs, with the best energy so far and the lower bound, if the method has one.
Callback = Callable[[float, float | None], object]

# What rounding may do to the difference of an energy and its bound, as a part of the energy.
_ROUNDING = 1e-9


@dataclass(eq=False)
class Labeling:
    """Labels, their energy, and what is proved of it.

    Attributes
    ----------
    labels : int array of shape (N,), or of the grid's shape
        A label for every node.
    energy : float
        Of these labels, evaluated from scratch.
    lower_bound : float or None
        No labels have less energy; None if the method knows no bound.
    guarantee : float or None
        ``B`` such that the energy is at most the unary part of the best labels plus ``B`` times their other parts (for random
        trees in expectation); None if nothing is proved.
    method : str
        How they were found.
    history : list of float
        Energies on the way, one per accepted move or sweep.
    bounds : list of float
        Lower bounds on the way, for methods that have any.
    n_cuts : int
        Minimum cuts that were computed.
    seconds : float
    status : {"converged", "max_sweeps", "time_limit", "interrupted"}
    """

    labels: Ints
    energy: float
    method: str
    lower_bound: float | None = None
    guarantee: float | None = None
    history: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    n_cuts: int = 0
    seconds: float = 0.0
    status: str = "converged"

    @property
    def gap(self) -> float | None:
        """How far the energy can be above the least one."""
        return None if self.lower_bound is None else max(0.0, self.energy - self.lower_bound)

    @property
    def certified(self) -> bool:
        """Whether no labels are better, but for rounding, and that is proved."""
        return self.gap is not None and self.gap <= _ROUNDING * max(1.0, abs(self.energy))

    def __repr__(self) -> str:
        bound = "" if self.lower_bound is None else f", at least {self.lower_bound:.6g}"
        best = ", the least" if self.certified else bound
        return f"Labeling(energy={self.energy:.6g}{best}, method={self.method!r}, {self.status})"
