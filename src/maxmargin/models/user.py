"""A user's own structure: three Python methods are enough, a batch method makes them faster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.cuts import Cut, Problem

Floats = NDArray[np.float64]


class StructuredModel(ABC):
    """What a structured model must answer. Inputs ``x`` and outputs ``y`` are whatever the user likes.

    Examples
    --------
    A classifier of three classes, written out:

    >>> import numpy as np
    >>> class ThreeClasses(StructuredModel):
    ...     def joint_feature(self, x, y):
    ...         return np.outer(np.eye(3)[y], x).ravel()
    ...     def loss(self, truth, y):
    ...         return float(truth != y)
    ...     def loss_augmented(self, x, truth, weights):
    ...         return int(np.argmax(weights.reshape(3, -1) @ x + (np.arange(3) != truth)))
    ...     def predict(self, x, weights):
    ...         return int(np.argmax(weights.reshape(3, -1) @ x))
    """

    # Set to False if `loss_augmented` does not always find the maximum: results are then not certified.
    exact: bool = True

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> ArrayLike:
        """``Phi(x, y)``, shape (d,); the score of ``y`` is ``weights . Phi(x, y)``."""

    @abstractmethod
    def loss(self, truth: Any, y: Any) -> float:
        """``delta(truth, y)``: not negative, zero for the truth."""

    @abstractmethod
    def loss_augmented(self, x: Any, truth: Any, weights: Floats) -> Any:
        """The output with the largest ``loss(truth, y) + weights . Phi(x, y)``."""

    def loss_augmented_batch(self, xs: Sequence[Any], truths: Sequence[Any], weights: Floats) -> Sequence[Any]:
        """The same for many samples; override it where that is faster than one by one."""
        return [self.loss_augmented(x, truth, weights) for x, truth in zip(xs, truths, strict=True)]

    def predict(self, x: Any, weights: Floats) -> Any:
        """The output with the largest score. Needed for predictions only."""
        raise TypeError(f"{type(self).__name__} has no predict(x, weights), which predictions need; define it")


class UserProblem(Problem):
    """A :class:`StructuredModel` with its data.

    Parameters
    ----------
    model : StructuredModel
        Any object with its methods.
    X, Y : sequences of equal length
        Inputs and true outputs.
    """

    def __init__(self, model: StructuredModel, X: Sequence[Any], Y: Sequence[Any]) -> None:
        if len(X) != len(Y):
            raise ValueError(f"X has {len(X)} samples, but Y has {len(Y)}; they must be equal")
        if len(X) == 0:
            raise ValueError("X is empty; at least one sample is needed")
        self.model = model
        self.X, self.Y = X, Y
        self.n_blocks = len(X)
        self.exact = model.exact
        self._truth = [self._feature(x, y) for x, y in zip(X, Y, strict=True)]
        self.n_features = len(self._truth[0])
        for k, (y, feature) in enumerate(zip(Y, self._truth, strict=True)):
            if len(feature) != self.n_features:
                raise ValueError(f"joint_feature has length {len(feature)} for sample {k}, but {self.n_features} for the first")
            loss = model.loss(y, y)
            if loss != 0:
                raise ValueError(f"loss(y, y) must be zero, but is {loss} for sample {k}")

    def _feature(self, x: Any, y: Any) -> Floats:
        feature = np.asarray(self.model.joint_feature(x, y), dtype=np.float64)
        if feature.ndim != 1:
            raise ValueError(f"joint_feature must be one-dimensional, but has shape {feature.shape}")
        return feature

    def _cut(self, block: int, y: Any) -> Cut:
        loss = float(self.model.loss(self.Y[block], y))
        if not loss >= 0:
            raise ValueError(f"loss must not be negative or NaN, but is {loss} for sample {block}")
        return Cut(self._truth[block] - self._feature(self.X[block], y), loss)

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating output."""
        return self._cut(block, self.model.loss_augmented(self.X[block], self.Y[block], weights))

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several samples, by the batch method."""
        outputs = self.model.loss_augmented_batch([self.X[b] for b in blocks], [self.Y[b] for b in blocks], weights)
        return [self._cut(block, y) for block, y in zip(blocks, outputs, strict=True)]
