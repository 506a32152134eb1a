"""Structures with hidden parts: outputs are pairs of what is asked for and what nobody annotated (spec 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.core.cuts import Bounds


class LatentStructure(ABC):
    """What a structure with hidden parts must answer; ``h`` is the hidden part."""

    # Set to False if `decode` and `impute` do not always find the maximum: results are then not certified, unless `decode`
    # returns `Decoded((y, h), upper)` with a bound of it.
    exact: bool = True

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        # What an earlier class knows of its losses does not hold for another one.
        if "loss" in vars(cls) and "loss_values" not in vars(cls):
            type.__setattr__(cls, "loss_values", LatentStructure.loss_values)

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the weights without which `decode` would not be exact."""
        return None

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """Input and visible part, checked and in the form that the other methods get; ``y`` is None in prediction."""
        return x, y

    @abstractmethod
    def joint_feature(self, x: Any, y: Any, h: Any) -> ArrayLike:
        """``Phi(x, y, h)``, shape (d,)."""

    @abstractmethod
    def loss(self, truth: Any, y: Any, h: Any) -> float:
        """``delta(truth, y, h)``; zero for the true ``y``, whatever ``h``."""

    @abstractmethod
    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The pair ``(y, h)`` with the largest ``a * weights . Phi(x, y, h) + b * loss(truth, y, h)``."""

    @abstractmethod
    def impute(self, x: Any, y: Any, weights: Floats) -> Any:
        """The ``h`` with the largest ``weights . Phi(x, y, h)`` for a given ``y``."""

    @abstractmethod
    def start(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """An ``h`` at random, before there are weights."""

    def loss_values(self, x: Any, truth: Any) -> Floats | None:
        """Every loss that an output can have, which tightens the bounds of surrogates; None if that is not known."""
        return None

    def coarse(self, x: Any) -> Any:
        """An input of the same kind that leaves nothing to guess, such as the mean of a bag; None if there is none.

        Training begins with the weights that are best for such inputs; without them it begins at random.
        """
        return None
