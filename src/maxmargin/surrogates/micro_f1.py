"""The surrogate of one minus the F1 of a set (spec 6.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import Cut, Structure, SupportsSetSize, difference, supports, why_not
from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.oracle import Candidate
from maxmargin.surrogates.result import ROUNDING
from maxmargin.surrogates.sample import Sample
from maxmargin.surrogates.structure_oracle import Known, SizedOracle

# Dinkelbach's algorithm converges faster than linearly.
_MOST_CALLS = 100
# Outputs of a sample that are kept to begin with.
_KEPT = 5


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

    def check_structure(self, structure: Structure) -> None:
        """It must know sizes."""
        if not supports(structure, SupportsSetSize):
            raise TypeError(
                f"MicroF1 is for outputs that are sets, but {type(structure).__name__} is a structure of others: "
                f"{why_not(structure, SupportsSetSize)}; write set_size(y) and decode_sized(x, weights, truth, a, b, c), or use "
                "another surrogate"
            )

    def cuts(self, structure: Structure, samples: Sequence[Sample], weights: Floats) -> list[Cut]:
        """By Dinkelbach's algorithm."""
        return [_cut(structure, sample, weights) for sample in samples]

    def worth(self, structure: Structure, sample: Sample, y: Any, cut: Cut, weights: Floats) -> float:
        """In the coordinates of the search."""
        point = SizedOracle(structure, sample, weights).known(None, Known(y, cut))
        return float(self.value(point.h, point.g))

    def points(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Where sizes are positive."""
        h, g = super().points(rng, n)
        return np.abs(h), -g


def dinkelbach(oracle: SizedOracle, known: Sequence[Candidate] = ()) -> tuple[Candidate, float, float]:
    """The best output, its ``h / -g``, and an upper bound of that of all outputs."""
    surrogate = MicroF1()
    best, value = oracle.truth, 0.0
    for point in known:
        if (there := surrogate.value(point.h, point.g)) > value:
            best, value = point, there
    # Whatever is not the truth has at least this size, together with it.
    least = max(1.0, -oracle.truth.g / 2.0)
    upper = np.inf
    for _ in range(_MOST_CALLS):
        found, top = oracle.ask(1.0, value)
        upper = min(upper, value + max(0.0, top) / least)
        there = 0.0 if found is None else surrogate.value(found.h, found.g)
        if found is None or there <= value + ROUNDING * value:
            break
        best, value = found, there
    return best, value, max(upper, value)


def _cut(structure: Structure, sample: Sample, weights: Floats) -> Cut:
    oracle = SizedOracle(structure, sample, weights)
    best, value, upper = dinkelbach(oracle, [oracle.known(key, entry) for key, entry in sample.warm.items()])
    entry = best.output
    if value <= 0:
        cut = Cut(difference(entry.cut.psi, entry.cut.psi), 0.0)
    else:
        sample.warm = {**dict(list(sample.warm.items())[-_KEPT:]), best.key: entry}
        sample.remember(entry.cut, entry.y)
        cut = entry.cut.times(-1.0 / best.g)
    return cut if upper <= value + ROUNDING * (1.0 + value) else Cut(cut.psi, cut.loss, upper)
