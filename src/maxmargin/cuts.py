"""The currency between models and solvers: a model hands out cuts, a solver eats them; neither knows the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Cut:
    """A linear lower bound of the hinge: ``hinge(w) >= loss - psi . w`` for all w, with equality where it was made.

    Attributes
    ----------
    psi : array of shape (d,)
        Joint feature of the truth minus that of the most violating output.
    loss : float
        ``delta`` of the most violating output.
    hinge : float
        Value of the hinge at the weights the cut was made for.
    """

    psi: NDArray[np.float64]
    loss: float
    hinge: float


class Problem(Protocol):
    """A convex hinge over d weights, known through its cuts."""

    n_features: int
    # True if `cut` finds the maximum; only then is a duality gap a certificate.
    exact: bool

    def cut(self, weights: NDArray[np.float64]) -> Cut:
        """The tangent cut at ``weights``."""
        ...
