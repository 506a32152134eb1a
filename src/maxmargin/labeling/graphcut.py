"""The best labelling with two labels where neighbours attract each other, and what every other label would cost.

A score ``sum_t u_t(y_t) + sum_e t_e(y_a, y_b)`` over ``y`` in {0, 1}^L with ``t(0,0) + t(1,1) >= t(0,1) + t(1,0)`` on every
edge is a constant minus the value of a cut, so its maximum is a minimum cut (Kolmogorov and Zabih, PAMI 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, Ints
from maxmargin.labeling.flow import MAX_NODES, check_edges, real_array


@dataclass(frozen=True, eq=False)
class BinaryLabeling:
    """The best labelling with two labels.

    Attributes
    ----------
    labels : int array of shape (L,)
        0 or 1 for every node; of equally good labellings the one with the fewest ones.
    score : float
        Its score, the maximum.
    """

    labels: Ints
    score: float

    def __repr__(self) -> str:
        return f"BinaryLabeling(score={self.score:.6g}, {int(self.labels.sum())} ones of {len(self.labels)})"


def best_binary_labeling(unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike) -> BinaryLabeling:
    """Find the labels ``y`` that maximise ``sum_t unary[t, y_t] + sum_e pairwise[e][y_a, y_b]``.

    Parameters
    ----------
    unary : array of shape (L, 2)
        Finite scores of label 0 and label 1 for every node.
    edges : int array of shape (E, 2)
        Pairs ``(a, b)`` of different nodes; terms of equal pairs add up. May be empty.
    pairwise : array of shape (E,) or (E, 2, 2)
        Penalties ``p >= 0``, which stand for the score ``-p`` where ``y_a != y_b``, or tables ``t`` of scores with
        ``t[0, 0] + t[1, 1] >= t[0, 1] + t[1, 0]`` (up to rounding).

    Notes
    -----
    The labelling is optimal up to the rounding of sums of scores. Tables that reward different labels make the problem
    NP-hard in general and are refused.

    Examples
    --------
    >>> unary = [[0, 3], [1, 0], [0, 2], [5, 0]]
    >>> found = best_binary_labeling(unary, [(0, 1), (1, 2), (2, 3)], [1, 1, 1])
    >>> found.labels, found.score
    (array([1, 1, 1, 0]), 9.0)
    >>> prefers_one_then_zero = [[[0, -1], [2, 1]]]
    >>> best_binary_labeling([[0, 0], [0, 0]], [(0, 1)], prefers_one_then_zero).labels
    array([1, 0])
    """
    scores, pairs, terms = check_binary_terms(unary, edges, pairwise)
    score, labels = _core.GraphCut(len(scores), pairs).solve(scores, terms)
    return BinaryLabeling(labels.astype(np.int64), score)


def check_binary_terms(unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike) -> tuple[Floats, Int32s, Floats]:
    """Scores of nodes (L, 2), edges (E, 2) and terms (E,) or (E, 2, 2) as contiguous arrays of the right shapes."""
    scores = real_array(unary, "unary")
    if scores.ndim != 2 or scores.shape[1] != 2:
        raise ValueError(f"unary must have shape (L, 2), the scores of label 0 and label 1, but has shape {scores.shape}")
    if not 1 <= len(scores) <= MAX_NODES:
        raise ValueError(f"unary has {len(scores)} rows; between 1 and {MAX_NODES} nodes are possible")
    pairs = check_edges(edges, len(scores))
    terms = real_array(pairwise, "pairwise")
    if terms.size == 0 and len(pairs) == 0:
        terms = np.zeros(0)
    if terms.shape not in ((len(pairs),), (len(pairs), 2, 2)):
        raise ValueError(
            f"pairwise has shape {terms.shape}, but for {len(pairs)} edges it must be ({len(pairs)},), penalties of "
            f"different labels, or ({len(pairs)}, 2, 2), tables of scores"
        )
    return scores, pairs, terms
