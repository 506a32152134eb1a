"""Lists to be ranked by a linear score: the structured hinge of a rank loss as a function of the weights, one per query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Cut
from maxmargin.inference import most_violating_ranking
from maxmargin.losses import RankingLoss

Floats = NDArray[np.float64]


class RankingModel:
    """The hinges ``J(X w)`` of one or more lists.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Features.
    relevant : array of shape (n,)
        Booleans, the positives.
    loss : RankingLoss
        A QS-suitable loss.
    offsets : int array of shape (q + 1,), optional
        List k has the rows ``offsets[k]:offsets[k + 1]``, with positives and negatives in each; one list by default.
    """

    exact = True

    def __init__(self, X: Any, relevant: NDArray[np.bool_], loss: RankingLoss, offsets: NDArray[np.int64] | None = None) -> None:
        self.X = X
        self.relevant = relevant
        self.loss = loss
        self.offsets = np.array([0, len(relevant)]) if offsets is None else offsets
        self.n_blocks = len(self.offsets) - 1
        self.n_features: int = X.shape[1]

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut at ``weights``: the most violating ranking of the scores."""
        begin, end = int(self.offsets[block]), int(self.offsets[block + 1])
        X = self.X if self.n_blocks == 1 else self.X[begin:end]
        found = most_violating_ranking(np.asarray(X @ weights), self.relevant[begin:end], self.loss)
        # Only samples that the most violating ranking misplaces have a share in it.
        misplaced = np.flatnonzero(found.gradient)
        few = 4 * len(misplaced) < len(found.gradient)
        gradient = found.gradient[misplaced] @ X[misplaced] if few else found.gradient @ X
        return Cut(-np.asarray(gradient, dtype=np.float64).ravel(), found.loss)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several lists."""
        return [self.cut(block, weights) for block in blocks]
