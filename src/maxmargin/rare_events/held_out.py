"""Scores of held-out samples by models of folds, on the scale of the model of all samples.

A model of fewer samples has other scores: under strong regularisation its weights are shorter, and its intercept moves with the
share of positives, at times by more than scores differ. What the two models make of the *same* samples, those of the fold's own
training, which both have seen, says by how much: their means and spreads are made equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints

# Scores that differ by less than this, relative to their size, differ by rounding.
_ROUNDING = 1e-12


def on_scale_of(scores: Floats, own: Floats, other: Floats) -> Floats:
    """Scores of a model, moved and stretched as its ``own`` ones are to get mean and spread of the ``other`` ones.

    Parameters
    ----------
    scores : array of shape (m,)
        Of a model, for any samples.
    own, other : arrays of shape (n,)
        Scores of the same samples by this model and by the one with the wanted scale.

    Returns
    -------
    array of shape (m,)
        In the same order as ``scores``. Where all of ``own`` are equal they are only moved; where all of ``other`` are equal, all
        are, as the other model tells no samples apart.

    Examples
    --------
    >>> on_scale_of(np.array([1.0, 4.0]), own=np.array([0.0, 2.0]), other=np.array([10.0, 30.0]))
    array([20., 50.])
    """
    center, spread = _center_and_spread(own)
    wanted_center, wanted_spread = _center_and_spread(other)
    stretch = wanted_spread / spread if spread > 0 else 1.0 if wanted_spread > 0 else 0.0
    return np.asarray((scores - center) * stretch + wanted_center)


def pooled_scores(by_fold: Sequence[Floats], whole: Floats, folds: Sequence[tuple[Ints, Ints]]) -> tuple[Floats, Booleans]:
    """Held-out scores of all folds on one scale, and which samples have one.

    Parameters
    ----------
    by_fold : sequence of arrays of shape (n,)
        Scores of all samples by the model of each fold.
    whole : array of shape (n,)
        Scores by the model of all samples.
    folds : sequence of (train, test)
        Numbers of samples.

    Returns
    -------
    scores, seen : arrays of shape (n,)
        A sample that several folds hold out has the score of the last of them; one that none holds out has 0.
    """
    scores, seen = np.zeros(len(whole)), np.zeros(len(whole), dtype=bool)
    for own, (train, test) in zip(by_fold, folds, strict=True):
        scores[test], seen[test] = on_scale_of(own[test], own[train], whole[train]), True
    return scores, seen


def _center_and_spread(scores: Floats) -> tuple[float, float]:
    """Mean and standard deviation, which is zero if it is rounding only."""
    peak = float(np.abs(scores).max())
    if peak == 0:
        return 0.0, 0.0
    # Squares of large and of tiny scores are no numbers.
    center, spread = float((scores / peak).mean()), float((scores / peak).std())
    return center * peak, spread * peak if spread > _ROUNDING else 0.0
