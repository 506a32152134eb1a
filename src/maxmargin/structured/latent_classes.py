"""Classes whose evidence is one row of a bag."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import LatentStructure


class LatentClasses(LatentStructure):
    """Classes whose evidence is one row of a bag: the score of class k is ``max_h W[k] . x[h]``.

    Parameters
    ----------
    n_classes : int
        K; labels are 0 to K - 1 and inputs arrays of shape (rows, p).

    Examples
    --------
    >>> bag = np.array([[0.0, 3.0], [2.0, 1.0]])
    >>> LatentClasses(2).decode(bag, np.array([1.0, 0.0, 0.0, 1.0]))
    (1, 0)
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def joint_feature(self, x: Any, y: Any, h: Any) -> Floats:
        """The row, in the place of the class."""
        feature = np.zeros((self.n_classes, x.shape[1]))
        feature[int(y)] = x[h]
        return feature.ravel()

    def loss(self, truth: Any, y: Any, h: Any) -> float:
        """0-1."""
        return float(truth != y)

    def loss_values(self, x: Any, truth: Any) -> Floats:
        """0 and 1."""
        return np.array([0.0, 1.0])

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> tuple[int, int]:
        """By looking at all pairs."""
        scores = a * np.asarray(weights.reshape(self.n_classes, -1) @ x.T)
        if b:
            scores += b * (np.arange(self.n_classes) != truth)[:, None]
        y, h = np.unravel_index(int(np.argmax(scores)), scores.shape)
        return int(y), int(h)

    def impute(self, x: Any, y: Any, weights: Floats) -> int:
        """The best row for the class."""
        return int(np.argmax(x @ weights.reshape(self.n_classes, -1)[int(y)]))

    def start(self, x: Any, y: Any, rng: np.random.Generator) -> int:
        """Any row."""
        return int(rng.integers(len(x)))

    def coarse(self, x: Any) -> Floats:
        """One row, the mean of all."""
        return np.asarray(np.mean(x, axis=0, keepdims=True))
