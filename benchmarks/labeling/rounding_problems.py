"""Energies on small complete graphs whose relaxations are fractional: what roundings are compared on.

Nodes are the places of a 5 x 5 lattice, all pairs of them are joined, and there are 21 labels. Unary costs are uniform on [0, 1];
neighbours cost ``strength * exp(-distance^2 / width^2)`` times a truncated distance of their labels, at most 10 (for Potts 1).

- ``"heavy"``: as printed, with strength and width up to 1e5. Nothing but constant labelings matters then, of which the best costs
  9.8 or so and a random one 12.5.
- ``"balanced"``: width uniform on [1.5, 3], strength on [0.06, 0.14], divided by the limit, for linear distances by twice that.
  Linear relaxations are often fractional in this band; only energies where at least 5 nodes are fractional are kept.
"""

from __future__ import annotations

from itertools import count
from typing import Literal

import numpy as np

from maxmargin.labeling import Energy, Metric, relax

Kind = Literal["heavy", "balanced"]
KINDS: tuple[Kind, ...] = ("heavy", "balanced")
SIDE, LABELS, LIMIT = 5, 21, 10.0
METRICS = {
    "uniform": Metric("potts"),
    "truncated linear": Metric("linear", limit=LIMIT),
    "truncated quadratic": Metric("quadratic", limit=LIMIT),
}

# The band of strengths in which relaxations are fractional, and how many nodes must be.
BANDS = {"uniform": 1.0, "truncated linear": 2 * LIMIT, "truncated quadratic": LIMIT}
FRACTIONAL = 5


def rounding_problem(metric: str, kind: Kind, rng: np.random.Generator, side: int = SIDE, n_labels: int = LABELS) -> Energy:
    """One energy of ``side * side`` nodes; ``metric`` is a name in METRICS."""
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1).reshape(-1, 2).astype(float)
    a, b = np.triu_indices(len(places), 1)
    if kind == "heavy":
        strength, width = rng.uniform(1e-5, 1e5, size=2)
    else:
        strength = rng.uniform(0.06, 0.14) / BANDS[metric]
        width = rng.uniform(1.5, 3.0)
    weights = strength * np.exp(-np.sum((places[a] - places[b]) ** 2, axis=1) / width**2)
    unary = rng.random((len(places), n_labels))
    return Energy(unary, np.stack([a, b], axis=1), METRICS[metric], weights=weights)


def rounding_problems(metric: str, kind: Kind, n: int, seed: int, fractional: int | None = None, **size: int) -> list[Energy]:
    """``n`` energies; the same for the same seed, and the first ones do not depend on ``n``.

    ``fractional``: only those whose linear relaxation has so many fractional nodes; 5 for balanced ones unless given.
    """
    wanted = (FRACTIONAL if kind == "balanced" else 0) if fractional is None else fractional
    found: list[Energy] = []
    for k in count():
        if len(found) == n:
            break
        rng = np.random.default_rng([seed, list(METRICS).index(metric), KINDS.index(kind), k])
        energy = rounding_problem(metric, kind, rng, **size)
        if wanted == 0 or relax(energy, "first_order").n_fractional >= wanted:
            found.append(energy)
    return found
