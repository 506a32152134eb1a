"""Sequences of labels: trees in which every position is the parent of the next.

The joint feature of a sequence has four parts: for every label the sum of the features of its positions (with a constant,
if asked for), the label of the first position, that of the last, and the counts of pairs of neighbours; for the OCR data of
the literature 26 x 129 + 26 + 26 + 26 x 26 = 4082 numbers (spec A9).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.models.forest import CHAINS, TreeWeights
from maxmargin.models.tree import TreeModel


class ChainWeights(TreeWeights):
    """The parts of a weight vector of a chain, as views: ``emission`` (K, p), ``first`` and ``last`` (K,), ``transition`` (K, K).

    Transitions go from the row's label to the column's.
    """

    @property
    def first(self) -> NDArray[np.float64]:
        """Weights of the label of the first position: the root of the chain."""
        return self.root

    @property
    def last(self) -> NDArray[np.float64]:
        """Weights of the label of the last position: its leaf."""
        return self.leaf


class ChainModel(TreeModel):
    """Chains with Hamming loss.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, p)
        Features of all positions of all sequences, one sequence after the other.
    y : int array of shape (N,)
        Labels 0 to K - 1.
    offsets : int array of shape (n + 1,)
        Sequence i has the rows ``offsets[i]:offsets[i + 1]``; none is empty.
    n_labels : int
        K.
    normalize : bool
        Divide the Hamming loss by the length of the sequence.
    """

    words = CHAINS

    def __init__(self, X: Any, y: ArrayLike, offsets: ArrayLike, n_labels: int, *, normalize: bool = True) -> None:
        super().__init__(X, y, offsets, None, n_labels, normalize=normalize)
