"""Outputs that can be listed: features and losses as arrays. Slow for large output sets, and the reference for all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import ArrayProblem, Cut


class EnumeratedProblem(ArrayProblem):
    """Blocks given by the features and losses of all their outputs.

    Distributions over the outputs of a block are log-probabilities: nothing underflows to a zero that could not grow.

    Parameters
    ----------
    psi : sequence of arrays of shape (c_i, d)
        Joint feature of the truth minus that of each output.
    loss : sequence of arrays of shape (c_i,)
        Losses, not negative; one output, the truth, has zero loss and zero ``psi``.
    """

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

    def _contents(self) -> tuple[object, ...]:
        return *self.psi, *self.loss

    def hinges(self, block: int, weights: Floats) -> Floats:
        """Hinge of every output of a block."""
        return np.asarray(self.loss[block] - self.psi[block] @ weights)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating output, the first of several."""
        y = int(np.argmax(self.hinges(block, weights)))
        return Cut(self.psi[block][y], float(self.loss[block][y]))

    def interior(self, block: int, mass: float) -> Floats:
        """All but ``mass`` on the truth, the rest spread evenly."""
        n = len(self.loss[block])
        result = np.full(n, np.log(mass / n))
        result[self._truth[block]] = np.log1p(-mass * (n - 1) / n)
        return result

    def tilt(self, block: int, distribution: Floats, weights: Floats, temperature: float) -> Floats:
        """The distribution times ``exp(hinges / temperature)``, normalised; at temperature 0 the first best output alone."""
        hinges = self.hinges(block, weights)
        if temperature == 0:
            return np.where(np.arange(len(hinges)) == np.argmax(hinges), 0.0, -np.inf)
        tilted = distribution + hinges / temperature
        top = tilted.max()
        return np.asarray(tilted - (top + np.log(np.sum(np.exp(tilted - top)))))

    def mix(self, distribution: Floats, other: Floats, step: float) -> Floats:
        """Mixture of two distributions."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-step) + distribution, np.log(step) + other))

    def average(self, block: int, distribution: Floats) -> Cut:
        """Average of all cuts."""
        p = np.exp(distribution)
        return Cut(p @ self.psi[block], float(p @ self.loss[block]))

    def diameter(self) -> float:
        """Largest norm of ``psi``."""
        return max(float(np.sqrt((p * p).sum(axis=1).max())) for p in self.psi)
