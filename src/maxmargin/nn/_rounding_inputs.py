"""What a rounding network sees of a problem, and by what its energies are measured.

Neither changes if all costs are multiplied by a number, or if a number is added to all costs of a node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin._utils import Floats, Ints
from maxmargin.labeling import Energy, marginals_for, pairwise_slopes

# Added to marginals before their logarithm is taken, as in the prototype of the specification.
_LEAST = 1e-3
# Numbers of a node and label: marginal; with costs also its logarithm, the costs, those of neighbours, and how both compare.
N_PLAIN, N_WITH_COSTS = 1, 5
# Thresholds of complete rounding that are tried to know what a good energy is.
_TRIED = 32
# Numbers that are held at once meanwhile.
_NUMBERS = 4_000_000
_CLIP = 10.0


@dataclass(frozen=True, eq=False)
class RoundingInput:
    """A problem with its fractional solution, ready for a network.

    Attributes
    ----------
    energy : Energy
    marginals : array of shape (N, L)
    allowed : bool tensor of shape (N, L)
        Whether a label has a finite cost.
    offset, scale : float
        ``(energy - offset) / scale`` is 0 for a trivial lower bound and 1 for the best that simple rounding finds.
    """

    energy: Energy
    marginals: Floats
    allowed: torch.Tensor
    offset: float
    scale: float

    @cached_property
    def start(self) -> torch.Tensor:
        """Logits of the fractional solution, shape (N, L)."""
        return torch.from_numpy(np.log(self.marginals + _LEAST))

    @cached_property
    def plain(self) -> torch.Tensor:
        """Features without costs, float32 of shape (N, L, 1)."""
        return torch.from_numpy(self.marginals[:, :, None].astype(np.float32))

    @cached_property
    def features(self) -> torch.Tensor:
        """Features with costs, float32 of shape (N, L, 5)."""
        own, own_size = _relative(self.energy.unary)
        others, others_size = _relative(pairwise_slopes(self.marginals, self.energy))
        # The logarithm of one size less that of the other: neither overflows, as their quotient may.
        tiny = np.finfo(float).tiny
        ratio = np.clip((math.log10(others_size + tiny) - math.log10(own_size + tiny)) / 5, -2, 2)
        logarithm = 1 + np.log(self.marginals + _LEAST) / -math.log(_LEAST)
        parts = [self.marginals, logarithm, own, others, np.full_like(own, ratio)]
        return torch.from_numpy(np.stack(parts, axis=-1).astype(np.float32))

    @cached_property
    def couplings(self) -> torch.Tensor:
        """Strengths of edges, at most about 1 for all edges of a node together, float32 of shape (E,)."""
        energy = self.energy
        low, high = energy.table_facts.least, energy.table_facts.most
        strengths = energy.weights * np.broadcast_to(high - low, energy.weights.shape)
        around = np.bincount(energy.edges.ravel(), np.repeat(np.abs(strengths), 2), energy.n_nodes)
        return torch.from_numpy((strengths / (around.max(initial=0.0) or 1.0)).astype(np.float32))

    @cached_property
    def tables(self) -> torch.Tensor:
        """Tables from 0 to 1, then divided by the mean sum of their rows: float32 of shape (L, L) or (E, L, L)."""
        energy = self.energy
        shape = energy.table.shape[:-2] + (1, 1)
        low, high = energy.table_facts.least.reshape(shape), energy.table_facts.most.reshape(shape)
        table = (energy.table - low) / np.where(high > low, high - low, 1.0)
        rows = table.sum(axis=-1).mean(axis=-1)[..., None, None]
        return torch.from_numpy((table / np.where(rows > 0, rows, 1.0)).astype(np.float32))


def prepare(fractional: Any, energy: Energy, name: str) -> RoundingInput:
    """A problem for a network; what is wrong is said of ``name``."""
    y = marginals_for(fractional, energy, name)
    allowed = np.isfinite(energy.unary)
    if (gone := np.flatnonzero((y * allowed).sum(axis=1) < 1e-3)).size:
        raise ValueError(f"{name}[{gone[0]}] has forbidden labels only; give marginals that the energy allows")
    # Solvers leave traces on forbidden labels.
    y = np.where(allowed, y, 0.0)
    y /= y.sum(axis=1, keepdims=True)
    low, high = energy.table_facts.least, energy.table_facts.most
    bound = float(energy.unary.min(axis=1).sum() + np.minimum(energy.weights * low, energy.weights * high).sum())
    best = float(energies_of(energy, y.argmax(axis=1)[None])[0])
    at_once = max(1, _NUMBERS // (y.size + len(energy.edges)))
    for first in range(0, _TRIED, at_once):
        some = _thresholds()[first : first + at_once]
        drawn = complete_labels(np.broadcast_to(y, (len(some), *y.shape)), some)
        best = min(best, float(energies_of(energy, drawn).min()))
    spread = float(np.where(allowed, energy.unary - energy.unary.min(axis=1, keepdims=True), 0.0).max())
    spread = max(spread, float((np.abs(energy.weights) * (high - low)).max(initial=0.0)))
    # A labeling that meets the bound is the best; then the largest single cost is the unit.
    scale = best - bound if best - bound > 1e-9 * spread else spread
    return RoundingInput(energy, y, torch.from_numpy(allowed), bound, scale or 1.0)


def complete_labels(marginals: Floats, thresholds: Floats) -> Ints:
    """Complete rounding: labels of shape (K, N) from marginals (K, N, L) and one number of [0, 1) for each of the K."""
    sums = np.cumsum(marginals, axis=-1)
    labels = (sums <= thresholds[:, None, None] * sums[..., -1:]).sum(axis=-1)
    # Never behind the last label that a node has any of, whatever sums were rounded to.
    last = marginals.shape[-1] - 1 - (marginals[..., ::-1] > 0).argmax(axis=-1)
    return np.asarray(np.minimum(labels, last), dtype=np.int64)


def energies_of(energy: Energy, labels: Ints) -> Floats:
    """Energies of labelings, shape (K,), given as (K, N)."""
    nodes = np.arange(energy.n_nodes)
    a, b = labels[:, energy.edges[:, 0]], labels[:, energy.edges[:, 1]]
    costs = energy.table[a, b] if energy.table.ndim == 2 else energy.table[np.arange(a.shape[1]), a, b]
    return np.asarray(energy.unary[nodes, labels].sum(axis=1) + costs @ energy.weights)


def groups(inputs: Sequence[RoundingInput], kind: str) -> list[list[int]]:
    """Numbers of problems that one pass of a network can take together."""
    found: dict[Any, list[int]] = {}
    for k, one in enumerate(inputs):
        key = {"dense": None, "grid": one.energy.shape, "graph": one.energy.n_labels}[kind]
        found.setdefault(key, []).append(k)
    return list(found.values())


def _thresholds() -> NDArray[Any]:
    return (np.arange(_TRIED) + 0.5) / _TRIED


def _relative(costs: Floats) -> tuple[Floats, float]:
    """Costs above the least of the node, in units of their mean; and that mean."""
    above = costs - costs.min(axis=1, keepdims=True)
    finite = np.isfinite(above)
    size = float(above[finite].mean())
    return np.minimum(np.where(finite, above, np.inf) / (size or 1.0), _CLIP), size
