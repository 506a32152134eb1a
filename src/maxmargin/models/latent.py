"""Models with hidden parts: outputs are pairs of what is asked for and what nobody annotated (spec 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.structures.base import Structure

Floats = NDArray[np.float64]


class LatentModel(ABC):
    """What a latent structured model must answer; ``h`` is the hidden part."""

    exact: bool = True

    @abstractmethod
    def joint_feature(self, x: Any, y: Any, h: Any) -> ArrayLike:
        """``Phi(x, y, h)``, shape (d,)."""

    @abstractmethod
    def loss(self, truth: Any, y: Any, h: Any) -> float:
        """``delta(truth, y, h)``; zero for the true ``y``, whatever ``h``."""

    @abstractmethod
    def loss_augmented(self, x: Any, truth: Any, weights: Floats) -> tuple[Any, Any]:
        """The pair ``(y, h)`` with the largest ``loss(truth, y, h) + weights . Phi(x, y, h)``."""

    @abstractmethod
    def impute(self, x: Any, y: Any, weights: Floats) -> Any:
        """The ``h`` with the largest ``weights . Phi(x, y, h)`` for a given ``y``."""

    @abstractmethod
    def predict(self, x: Any, weights: Floats) -> tuple[Any, Any]:
        """The pair ``(y, h)`` of the largest score."""

    @abstractmethod
    def start(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """A first guess of ``h``, before there are weights; it may be random, for several starts."""


class ImputedModel(Structure):
    """A latent model whose truth has been completed: outputs are pairs ``(y, h)``."""

    def __init__(self, model: LatentModel) -> None:
        self.model = model
        self.exact = model.exact

    def joint_feature(self, x: Any, y: Any) -> ArrayLike:
        """Of the pair."""
        return self.model.joint_feature(x, *y)

    def loss(self, truth: Any, y: Any) -> float:
        """Of the pair against the true first part."""
        return self.model.loss(truth[0], *y)

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The best pair."""
        if b == 0:
            return self.model.predict(x, a * weights)
        return self.model.loss_augmented(x, truth[0], (a / b) * weights)


class LatentMulticlass(LatentModel):
    """Classes whose evidence is one row of a bag: the score of class k is ``max_h W[k] . x[h]``.

    Parameters
    ----------
    n_classes : int
        K; labels are 0 to K - 1 and inputs arrays of shape (rows, p).
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def joint_feature(self, x: Any, y: Any, h: Any) -> Floats:
        """The row, in the place of the class."""
        feature = np.zeros((self.n_classes, x.shape[1]))
        feature[y] = x[h]
        return feature.ravel()

    def loss(self, truth: Any, y: Any, h: Any) -> float:
        """0-1."""
        return float(truth != y)

    def _scores(self, x: Any, weights: Floats) -> Floats:
        return np.asarray(weights.reshape(self.n_classes, -1) @ x.T)

    def loss_augmented(self, x: Any, truth: Any, weights: Floats) -> tuple[int, int]:
        """By looking at all pairs."""
        scores = self._scores(x, weights) + (np.arange(self.n_classes) != truth)[:, None]
        y, h = np.unravel_index(int(np.argmax(scores)), scores.shape)
        return int(y), int(h)

    def impute(self, x: Any, y: Any, weights: Floats) -> int:
        """The best row for the class."""
        return int(np.argmax(x @ weights.reshape(self.n_classes, -1)[y]))

    def predict(self, x: Any, weights: Floats) -> tuple[int, int]:
        """The best pair."""
        scores = self._scores(x, weights)
        y, h = np.unravel_index(int(np.argmax(scores)), scores.shape)
        return int(y), int(h)

    def start(self, x: Any, y: Any, rng: np.random.Generator) -> int:
        """The row in the middle."""
        return len(x) // 2
