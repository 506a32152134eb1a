"""One layer of a network as a structured SVM: the hinge of its output, made convex in the weights of that layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from maxmargin._utils import Floats
from maxmargin.core import Cut, Problem
from maxmargin.nn._piecewise import Affine, Layer
from maxmargin.nn._score_hinges import ScoreHinge

# Samples that go through the network together: enough to keep it busy, few enough to stay in the cache.
_ROWS = 256


def _chunks(n: int) -> Iterator[slice]:
    return (slice(first, last) for first, last in pairwise([*range(0, n, _ROWS), n]))


def forward(layers: Sequence[Layer], x: Tensor) -> Tensor:
    """The output for all samples, some at a time."""
    if not layers:
        return x

    def through(part: Tensor) -> Tensor:
        for layer in layers:
            part = layer.forward(part)
        return part

    with torch.no_grad():
        return torch.cat([through(x[rows]) for rows in _chunks(len(x))])


def as_table(scores: Tensor) -> Tensor:
    """Scores of shape (n,) or (n, k) as (n, k)."""
    return scores[:, None] if scores.ndim == 1 else scores


class LayerProblem(Problem):
    """``hinge(v)``: a convex upper bound of the hinge of the network with the weights of ``layer``, whose input is ``x`` of shape
    (n, ...), at ``centre + v``; tight at its weights of now. ``centre`` has shape (d,) and is zero by default.

    For the solvers it is a convex function with one block.
    """

    n_blocks = 1

    def __init__(
        self, layer: Affine, following: Sequence[Layer], x: Tensor, hinge: ScoreHinge, centre: Floats | None = None
    ) -> None:
        self.layer = layer
        self.following = following
        self.x = x
        self.hinge = hinge
        self.n_features = len(layer.weights)
        self.centre = np.zeros(self.n_features) if centre is None else centre
        self._relevant = torch.from_numpy(hinge.relevant)
        self._patterns = self._find_patterns()

    def _find_patterns(self) -> list[Tensor | None]:
        found: list[list[Tensor]] = [[] for _ in self.following]
        with torch.no_grad():
            for rows in _chunks(len(self.x)):
                z = self.layer.forward(self.x[rows])
                for layer, parts in zip(self.following, found, strict=True):
                    pattern = layer.pattern(z)
                    if pattern is not None:
                        parts.append(pattern)
                    z = layer.forward(z)
        return [torch.cat(parts) if parts else None for parts in found]

    def _bound(self, weights: Tensor, rows: slice | Tensor) -> Tensor:
        """Upper bounds of irrelevant and lower bounds of relevant scores, shape (rows, k)."""
        upper = lower = self.layer.forward_with(self.x[rows], weights)
        for layer, pattern in zip(self.following, self._patterns, strict=True):
            upper, lower = layer.bounds(upper, lower, None if pattern is None else pattern[rows])
        return torch.where(self._relevant[rows], as_table(lower), as_table(upper))

    def bound_and_gradient(self, weights: Floats) -> tuple[float, Floats]:
        """The convex bound and a subgradient, shape (d,), at weights of the layer."""
        with torch.no_grad():
            fixed = torch.from_numpy(weights)
            scores = torch.cat([self._bound(fixed, rows) for rows in _chunks(len(self.x))])
        value, outer = self.hinge(scores.numpy())
        coefficients = torch.from_numpy(np.ascontiguousarray(outer))
        moving = torch.tensor(weights, requires_grad=True)
        gradient = torch.zeros_like(moving)
        # Only samples that the most violating output misplaces have a share in the gradient.
        misplaced = torch.nonzero(coefficients.any(dim=1)).squeeze(1)
        for part in _chunks(len(misplaced)):
            rows = misplaced[part]
            gradient += torch.autograd.grad(torch.sum(coefficients[rows] * self._bound(moving, rows)), moving)[0]
        return value, gradient.numpy()

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent plane at ``centre + weights``."""
        value, gradient = self.bound_and_gradient(self.centre + weights)
        size = float(np.abs(gradient) @ np.abs(weights))
        if value <= 1e-12 * size:
            # Zero up to the rounding of the plane's two terms; the plane at zero is a valid cut as well.
            return Cut(np.zeros(self.n_features), 0.0)
        return Cut(-gradient, value - float(gradient @ weights))
