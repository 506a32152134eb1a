"""Stratified folds of samples that nobody has in one place: one number for every sample, from counts of the classes alone."""

from __future__ import annotations

import numpy as np

from maxmargin._types import Bytes

# The number of samples that no fold holds out.
NEVER = 255
MOST_FOLDS = NEVER


def stratified_folds(sizes: tuple[int, int], n_folds: int, seed: int) -> tuple[Bytes, Bytes]:
    """Which fold holds out the samples of two classes, each in the order of its rows; uint8 arrays of shape ``sizes``.

    They are those of ``StratifiedKFold(n_folds, shuffle=True, random_state=seed)`` of scikit-learn, for which only the numbers of
    samples count, and which class the first sample has.

    Parameters
    ----------
    sizes : tuple of int
        Samples of the class of the first row, and of the other one.
    n_folds : int
        Not more than samples of either class.
    seed : int

    Examples
    --------
    >>> common, rare = stratified_folds((7, 3), 3, seed=0)
    >>> np.bincount(common), np.bincount(rare)
    (array([3, 2, 2]), array([1, 1, 1]))
    """
    rng = np.random.RandomState(seed)  # that of scikit-learn
    ends = (sizes[0], sum(sizes))
    # Samples sorted by class are dealt out one by one.
    dealt = [[len(range(fold, end, n_folds)) for fold in range(n_folds)] for end in ends]
    found = []
    for counts in (dealt[0], [after - before for before, after in zip(*dealt, strict=True)]):
        own = np.repeat(np.arange(n_folds, dtype=np.uint8), counts)
        rng.shuffle(own)
        found.append(own)
    return found[0], found[1]
