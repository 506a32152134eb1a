"""Problems with hidden parts, made convex by imputing those of the truths (spec 9)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.cuts import Bounds, Cut, Problem, dot
from maxmargin.problems.structured import StructuredProblem
from maxmargin.problems.weighted import WeightedProblem
from maxmargin.structures.base import Structure, encoded
from maxmargin.structures.latent import LatentStructure
from maxmargin.structures.vectors import as_vector
from maxmargin.surrogates import Surrogate, make_surrogate


class LatentProblem(Problem):
    """A convex problem in place of one that is not: hidden parts of the truths are imputed, and may be imputed anew.

    Its hinges lie above those of the latter, and touch them at the weights of the last imputation.
    """

    # Whether imputing and solving in turn cannot raise the objective.
    descends: bool = True

    @abstractmethod
    def start(self, rng: np.random.Generator) -> None:
        """Impute at random."""

    @abstractmethod
    def impute(self, weights: Floats) -> bool:
        """The hidden parts that are best for ``weights``; whether any changed."""

    def revise(self, weights: Floats) -> bool:
        """Whatever else changes after a round that ended at ``weights``; whether anything did."""
        return False

    def hinge(self, weights: Floats) -> float:
        """The mean hinge: that of the problem that is not convex, if ``weights`` were used for the imputation."""
        return self.mean_cut(weights).upper(weights)

    def known_cuts(self) -> list[Cut]:
        """Cuts of earlier imputations, made valid for this one."""
        return []


@dataclass(frozen=True)
class Plane:
    """A cut in a form that outlives the imputation it was made with."""

    loss: float
    shares: Floats  # coefficients of what is imputed
    rest: Floats  # the part of the derivative that does not depend on it


class OneBlockLatentProblem(LatentProblem):
    """A latent problem of one block whose cuts can be made valid for other imputations, so that rounds need not begin anew."""

    n_blocks = 1
    # Cuts kept within a round and for the next one, at most.
    _KEPT, _HANDED_ON = 100, 30

    def __init__(self) -> None:
        self._planes: deque[Plane] = deque(maxlen=self._KEPT)

    @abstractmethod
    def _as_cut(self, plane: Plane) -> Cut:
        """The cut for what is imputed now."""

    def known_cuts(self) -> list[Cut]:
        """Cuts of earlier imputations, made valid for this one."""
        return [self._as_cut(plane) for plane in self._planes]

    def _forget(self, weights: Floats) -> None:
        """Keep the cuts that are highest at ``weights``: only these have a say in the next solution nearby."""
        heights = [cut.hinge(weights) for cut in self.known_cuts()]
        kept = np.sort(np.argsort(heights, kind="stable")[-self._HANDED_ON :])
        self._planes = deque((self._planes[k] for k in kept), maxlen=self._KEPT)


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
