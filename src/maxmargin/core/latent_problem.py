"""Problems with hidden parts, made convex by imputing those of the truths (spec 9)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core.cuts import Cut
from maxmargin.core.problem import Problem


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
