"""Problems of a structure with hidden parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import (
    Bounds,
    Cut,
    LatentProblem,
    LatentStructure,
    Problem,
    Structure,
    WeightedProblem,
    as_vector,
    dot,
    encoded,
)
from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.make import make_surrogate
from maxmargin.surrogates.structured_problem import StructuredProblem


class LatentStructuredProblem(LatentProblem):
    """A :class:`LatentStructure` with its data.

    Parameters
    ----------
    structure : LatentStructure
    X, y : sequences of equal length
        Inputs and the visible parts of the true outputs.
    weights : array of shape (n,), optional
        What the hinges of the samples are multiplied by.
    surrogate : str or Surrogate, default="margin"
        Which hinge. None of them decreases in the margin error, and the score of an imputed truth is at most that of the best
        one: hinges with imputed truths bound those of the problem that is not convex, whichever it is.

    Attributes
    ----------
    hidden : list
        Hidden parts of the true outputs, None before there are any.
    """

    def __init__(
        self,
        structure: LatentStructure,
        X: Sequence[Any],
        y: Sequence[Any],
        weights: Floats | None = None,
        surrogate: str | Surrogate = "margin",
    ) -> None:
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} samples, but y has {len(y)}; they must be equal")
        self.structure, self.surrogate = structure, make_surrogate(surrogate)
        samples = [encoded(structure, k, x, truth) for k, (x, truth) in enumerate(zip(X, y, strict=True))]
        self.X, self.y, self.weights = [x for x, _ in samples], [truth for _, truth in samples], weights
        self.hidden: list[Any] = [None] * len(X)
        self.start(np.random.default_rng(0))
        self.n_blocks, self.n_features, self.exact = len(X), self._completed.n_features, self._completed.exact
        self.convex = self.surrogate.convex

    @property
    def bounds(self) -> Bounds | None:
        """Those of the structure."""
        return self.structure.bounds

    def start(self, rng: np.random.Generator) -> None:
        """Hidden parts as the structure draws them."""
        self._complete([self.structure.start(x, truth, rng) for x, truth in zip(self.X, self.y, strict=True)])

    def impute(self, weights: Floats) -> bool:
        """The best hidden parts of the true outputs; where the search is not exact, never worse ones than before."""
        found = [self.structure.impute(x, truth, weights) for x, truth in zip(self.X, self.y, strict=True)]
        if not self.structure.exact:
            samples = zip(self.X, self.y, self.hidden, found, strict=True)
            found = [max(new, old, key=partial(self._score, x, truth, weights)) for x, truth, old, new in samples]
        return self._complete(found)

    def _score(self, x: Any, truth: Any, weights: Floats, hidden: Any) -> float:
        return dot(as_vector(self.structure.joint_feature(x, truth, hidden))[0], weights)

    def _complete(self, hidden: list[Any]) -> bool:
        before, self.hidden = self.hidden, hidden
        problem = StructuredProblem(_Pairs(self.structure), self.X, list(zip(self.y, hidden, strict=True)), self.surrogate)
        self._completed: Problem = problem if self.weights is None else WeightedProblem(problem, self.weights)
        return not all(np.array_equal(a, b) for a, b in zip(before, hidden, strict=True))

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating pair."""
        return self._completed.cut(block, weights)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> Sequence[Cut]:
        """Those of several samples."""
        return self._completed.cuts(blocks, weights)


class _Pairs(Structure):
    """A latent structure whose outputs are pairs ``(y, h)``."""

    def __init__(self, structure: LatentStructure) -> None:
        self.structure = structure
        self.exact = structure.exact

    @property
    def bounds(self) -> Bounds | None:
        return self.structure.bounds

    def joint_feature(self, x: Any, y: Any) -> Any:
        return self.structure.joint_feature(x, *y)

    def loss(self, truth: Any, y: Any) -> float:
        return self.structure.loss(truth[0], *y)

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        return self.structure.decode(x, weights, None if truth is None else truth[0], a, b)

    def loss_values(self, x: Any, truth: Any) -> Floats | None:
        known: Floats | None = self.structure.loss_values(x, truth[0])
        return known


def convex_surrogate(surrogate: str | Surrogate) -> Surrogate:
    """The surrogate behind a name; rounds of imputation solve convex problems."""
    chosen = make_surrogate(surrogate)
    if not chosen.convex:
        raise ValueError(f"{chosen} is not convex, but the problems between imputations must be; use the convex one")
    return chosen
