"""The currency between problems and solvers: a problem hands out cuts, a solver eats them; neither knows the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin._utils import Floats, Int32s

Bounds = tuple[Floats, Floats]


class SparseVector(NamedTuple):
    """The entries of a vector that are not zero; ``indices`` rise."""

    indices: Int32s
    values: Floats


Vector = Floats | SparseVector


def entries(vector: Vector) -> tuple[slice[None] | Int32s, Floats]:
    """Where a vector has entries, and what they are: all of them if it is dense."""
    return vector if isinstance(vector, SparseVector) else (slice(None), vector)


def dot(vector: Vector, weights: Floats) -> float:
    """Inner product with dense weights."""
    if isinstance(vector, SparseVector):
        return float(vector.values.dot(weights[vector.indices]))
    return float(vector.dot(weights))


def size(vector: Vector, weights: Floats) -> float:
    """The sum of the absolute values that `dot` adds up: what its rounding is measured by."""
    at, values = entries(vector)
    return float(np.abs(values) @ np.abs(weights[at]))


@dataclass(frozen=True)
class Cut:
    """A linear lower bound of a hinge: ``hinge(w) >= loss - psi . w`` for all w, with equality where an exact oracle made it.

    Attributes
    ----------
    psi : array of shape (d,) or SparseVector
        Joint feature of the truth minus that of the most violating output.
    loss : float
        ``delta`` of the most violating output.
    bound : float, optional
        Upper bound of the hinge where the cut was made, from an oracle that is not exact but knows what it may have missed;
        None if the cut's own value there is the hinge.
    """

    psi: Vector
    loss: float
    bound: float | None = None

    def hinge(self, weights: Floats) -> float:
        """Value of the lower bound at ``weights``."""
        return self.loss - dot(self.psi, weights)

    def upper(self, weights: Floats) -> float:
        """The hinge at the weights where the cut was made, or the oracle's upper bound of it."""
        return self.hinge(weights) if self.bound is None else self.bound

    def add_to(self, total: Floats) -> None:
        """Add ``psi`` to a dense vector."""
        at, values = entries(self.psi)
        total[at] += values

    def dense(self, n_features: int) -> Floats:
        """``psi`` as an array of shape (d,)."""
        if not isinstance(self.psi, SparseVector):
            return self.psi
        psi = np.zeros(n_features)
        self.add_to(psi)
        return psi

    def times(self, factor: float) -> Cut:
        """The cut of the hinge times a factor that is not negative."""
        psi = self.psi
        psi = SparseVector(psi.indices, factor * psi.values) if isinstance(psi, SparseVector) else factor * psi
        return Cut(psi, factor * self.loss, None if self.bound is None else factor * self.bound)
