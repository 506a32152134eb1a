"""One list to be ranked by a linear score: the structured hinge of a rank loss as a function of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut
from maxmargin.inference import most_violating_ranking
from maxmargin.losses import RankingLoss


class RankingModel:
    """The hinge ``J(X w)`` of one list.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Features.
    relevant : array of shape (n,)
        Booleans, the positives.
    loss : RankingLoss
        A QS-suitable loss.
    """

    exact = True

    def __init__(self, X: Any, relevant: NDArray[np.bool_], loss: RankingLoss) -> None:
        self.X = X
        self.relevant = relevant
        self.loss = loss
        self.n_features: int = X.shape[1]

    def cut(self, weights: NDArray[np.float64]) -> Cut:
        """The tangent cut at ``weights``: the most violating ranking of the scores."""
        found = most_violating_ranking(np.asarray(self.X @ weights), self.relevant, self.loss)
        # Only samples that the most violating ranking misplaces have a share in it.
        misplaced = np.flatnonzero(found.gradient)
        if 4 * len(misplaced) < len(found.gradient):
            psi = -(found.gradient[misplaced] @ self.X[misplaced])
        else:
            psi = -(found.gradient @ self.X)
        return Cut(np.asarray(psi, dtype=np.float64).ravel(), found.loss, found.hinge)
