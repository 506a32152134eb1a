"""Outputs that can be listed: features and losses as arrays. Slow for large output sets, and the reference for all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.cuts import Cut
from maxmargin.problems.distributions import ListedOutputs


class EnumeratedProblem(ListedOutputs):
    """Blocks given by the features and losses of all their outputs.

    Parameters
    ----------
    psi : sequence of arrays of shape (c_i, d)
        Joint feature of the truth minus that of each output.
    loss : sequence of arrays of shape (c_i,)
        Losses, not negative; one output, the truth, has zero loss and zero ``psi``.
    """

    offers = frozenset({"expectations"})

    def __init__(self, psi: Sequence[Floats], loss: Sequence[Floats]) -> None:
        if len(psi) != len(loss) or len(psi) == 0:
            raise ValueError(f"psi has {len(psi)} blocks and loss has {len(loss)}; they must be equal and not zero")
        self.psi = [np.asarray(p, dtype=np.float64) for p in psi]
        self.loss = [np.asarray(values, dtype=np.float64) for values in loss]
        self.n_blocks = len(self.psi)
        self.n_features = int(self.psi[0].shape[1])
        self._truth = []
        for block, (p, values) in enumerate(zip(self.psi, self.loss, strict=True)):
            if p.ndim != 2 or p.shape[1] != self.n_features or values.shape != (len(p),):
                raise ValueError(f"psi[{block}] has shape {p.shape} and loss[{block}] {values.shape}; (c, d) and (c,) are needed")
            if not np.isfinite(p).all() or not np.isfinite(values).all() or (values < 0).any():
                raise ValueError(f"psi[{block}] and loss[{block}] must be finite, and losses not negative")
            truth = np.flatnonzero((values == 0) & ~p.any(axis=1))
            if len(truth) == 0:
                raise ValueError(f"block {block} has no output with zero psi and zero loss; the truth must be among the outputs")
            self._truth.append(int(truth[0]))

    def _contents(self) -> tuple[Any, ...]:
        return *self.psi, *self.loss

    def _vertex(self, block: int) -> tuple[int, int]:
        return len(self.loss[block]), self._truth[block]

    def hinges(self, block: int, weights: Floats) -> Floats:
        """Hinge of every output of a block."""
        return np.asarray(self.loss[block] - self.psi[block] @ weights)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating output, the first of several."""
        y = int(np.argmax(self.hinges(block, weights)))
        return Cut(self.psi[block][y], float(self.loss[block][y]))

    def average(self, block: int, distribution: Floats) -> Cut:
        """Average of all cuts."""
        p = np.exp(distribution)
        return Cut(p @ self.psi[block], float(p @ self.loss[block]))

    def diameter(self) -> float:
        """Largest norm of ``psi``."""
        return max(float(np.sqrt((p * p).sum(axis=1).max())) for p in self.psi)
