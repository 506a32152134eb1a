"""Structures with hidden parts: outputs are pairs of what is asked for and what nobody annotated (spec 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from maxmargin._utils import Floats, Input, JointFeature, Output
from maxmargin.core.cuts import Bounds
from maxmargin.core.structure import Decoded


class LatentStructure(ABC):
    """What a structure with hidden parts must answer; ``h`` is the hidden part."""

    # Set to False if `decode` and `impute` do not always find the maximum: results are then not certified, unless `decode`
    # returns `Decoded((y, h), upper)` with a bound of it.
    exact: bool = True

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        # What an earlier class knows of its losses does not hold for another one.
        if "loss" in vars(cls) and "loss_values" not in vars(cls):
            type.__setattr__(cls, "loss_values", LatentStructure.loss_values)

    @property
    def bounds(self) -> Bounds | None:
        """Bounds of the weights without which `decode` would not be exact."""
        return None

    def encode(self, x: Input, y: Output | None = None) -> tuple[Input, Output]:
        """Input and visible part, checked and in the form that the other methods get; ``y`` is None in prediction."""
        return x, y

    @abstractmethod
    def joint_feature(self, x: Input, y: Output, h: Output) -> JointFeature:
        """``Phi(x, y, h)``, shape (d,)."""

    @abstractmethod
    def loss(self, truth: Output, y: Output, h: Output) -> float:
        """``delta(truth, y, h)``; zero for the true ``y``, whatever ``h``."""

    @abstractmethod
    def decode(
        self, x: Input, weights: Floats, truth: Output | None = None, a: float = 1.0, b: float = 0.0
    ) -> tuple[Output, Output] | Decoded:
        """The pair ``(y, h)`` with the largest ``a * weights . Phi(x, y, h) + b * loss(truth, y, h)``."""

    @abstractmethod
    def impute(self, x: Input, y: Output, weights: Floats) -> Output:
        """The ``h`` with the largest ``weights . Phi(x, y, h)`` for a given ``y``."""

    @abstractmethod
    def start(self, x: Input, y: Output, rng: np.random.Generator) -> Output:
        """An ``h`` at random, before there are weights."""

    def loss_values(self, x: Input, truth: Output) -> Floats | None:
        """Every loss that an output can have, which tightens the bounds of surrogates; None if that is not known."""
        return None

    def coarse(self, x: Input) -> Input | None:
        """An input of the same kind that leaves nothing to guess, such as the mean of a bag; None if there is none.

        Training begins with the weights that are best for such inputs; without them it begins at random.
        """
        return None
