"""The surrogate of one minus the F1 of a set (spec 6.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.surrogates.base import Surrogate


@dataclass(frozen=True)
class MicroF1(Surrogate):
    """``(loss + margin error) / (size of the output + size of the truth)``, at least ``1 - F1`` of what is predicted.

    Outputs are sets and the loss is the number of elements in which two of them differ; ``F1 = 2 |y & truth| / (|y| + |truth|)``
    (E4). A structure says the size of an output by ``set_size(y)`` and finds the largest ``a * score + b * loss - c * size`` by
    ``decode_sized(x, weights, truth, a, b, c)``.

    In the plane of the searches it is ``h / -g`` with ``h = loss + margin error`` and ``g = -size of output - size of truth``;
    these are the arguments of its methods. Contours are straight, so that the best output is at a corner of the hull and the
    search, which is Dinkelbach's, is exact.

    Examples
    --------
    >>> MicroF1().value(3.0, -4.0)
    0.75
    """

    def value(self, h: Any, g: Any) -> Any:
        """``h / -g``; zero for an empty set that is the truth."""
        sizes = -np.asarray(g, dtype=np.float64)
        found = np.where(sizes > 0, np.divide(h, np.where(sizes > 0, sizes, 1.0)), 0.0)
        return found if found.ndim else float(found)

    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """``(1 / -g, h / g^2)``."""
        return np.divide(-1.0, g) + 0.0 * np.asarray(h), np.divide(h, np.square(g))

    def tangent(self, h: Any, g: Any) -> Any:
        """``h / -g``, psi itself."""
        return self.value(h, g)

    def affine(self, g: Any) -> tuple[Any, Any]:
        """``(1 / -g, 0)``, in the coordinates of the search."""
        return np.divide(-1.0, g), 0.0 * np.asarray(g)

    def points(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Where sizes are positive."""
        h, g = super().points(rng, n)
        return np.abs(h), -g
