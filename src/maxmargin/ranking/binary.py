"""Binary classification, one block per sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._utils import Floats
from maxmargin.core import ArrayProblem, Cut, compiled_features, row_norms, row_of


class BinaryProblem(ArrayProblem):
    """Two classes and one weight vector: the ordinary hinge ``max(0, 1 - y w.x)``.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
        Features.
    y : array of shape (n,)
        Labels -1 and +1.
    """

    exact_steps = True
    compiled_expectations = True

    def __init__(self, X: Any, y: NDArray[Any]) -> None:
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(y)}; they must be equal")
        if not np.isin(y, (-1, 1)).all():
            raise ValueError("y must contain only -1 and +1")
        self.X = X
        self.y = np.asarray(y, dtype=np.float64)
        self.n_blocks, self.n_features = X.shape

    def _contents(self) -> tuple[Any, ...]:
        return self.X, self.y

    def make_block_data(self) -> _core.BlockData:
        """Return the compiled form of this problem."""
        return _core.ClassData(compiled_features(self.X), (self.y > 0).astype(np.int32), None, 2)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The other labels, unless the margins are met."""
        margins = self.y[list(blocks)] * np.asarray(self.X[list(blocks)] @ weights)
        # psi of the other label is y x: half of it would be the joint feature y x / 2 on either side. A margin that is not a
        # number goes the same way, for the solver to see.
        return [
            Cut(self.y[block] * row_of(self.X, block), 1.0) if not margin >= 1 else Cut(np.zeros(self.n_features), 0.0)
            for block, margin in zip(blocks, margins, strict=True)
        ]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        # A margin that is not a number goes the same way as above.
        wrong = ~(self.y * np.asarray(self.X @ weights) >= 1)
        psi = np.asarray(self.X.T @ np.where(wrong, self.y, 0.0)).ravel() / self.n_blocks
        return Cut(psi, float(wrong.mean()))

    def diameter(self) -> float:
        """Largest norm of a sample."""
        return float(row_norms(self.X).max(initial=0.0))
