"""What minimising an energy ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maxmargin._utils import Ints

# Called while a method runs, with the best energy so far and the lower bound, if the method has one.
Callback = Callable[[float, float | None], object]


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
        No labels have less energy, but for rounding; None if the method knows no bound.
    gap : float or None
        How far the energy can be above the least one. It is known better than the difference of energy and bound where all
        labelings have large costs in common.
    rounding : float
        What sums of these costs may be wrong by: a part of the sum, over all terms, of how much they differ between labels.
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
    gap: float | None = None
    rounding: float = 0.0
    guarantee: float | None = None
    history: list[float] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    n_cuts: int = 0
    seconds: float = 0.0
    status: str = "converged"

    def bounded(self, bound: float) -> None:
        """Set lower bound and gap from a bound that is right up to rounding."""
        self.gap = max(0.0, self.energy - bound)
        # Rounding may have made it too high, which does no harm where it is met.
        self.lower_bound = min(self.energy, bound if self.certified else bound - self.rounding)
        self.gap = self.gap if self.certified else self.energy - self.lower_bound

    @property
    def certified(self) -> bool:
        """Whether no labels are better, but for rounding, and that is proved."""
        return self.gap is not None and self.gap <= self.rounding

    def __repr__(self) -> str:
        bound = "" if self.lower_bound is None else f", at least {self.lower_bound:.6g}"
        best = ", the least" if self.certified else bound
        return f"Labeling(energy={self.energy:.6g}{best}, method={self.method!r}, {self.status})"
