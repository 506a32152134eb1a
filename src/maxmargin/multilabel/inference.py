"""The best set of labels for scores of labels and of pairs of them (spec 11.1).

The score of a set ``y`` in {0, 1}^L is ``sum_j unary_j y_j + sum over pairs (j, k) of pairs_jk y_j y_k``. Without pairs every
label decides for itself; pairs that form a forest take a dynamic program. Elsewhere labels whose value is the same whatever the
others are get it, and if few are left these are searched by branch and bound; pairs that all attract take a minimum cut. For
anything else the linear relaxation over ``mu_j`` and ``mu_jk`` with ``mu_jk <= mu_j``, ``mu_jk <= mu_k`` and
``mu_jk >= mu_j + mu_k - 1`` has a solution of halves and whole numbers, which a minimum cut finds in a graph where every label is
there twice, as itself and as its opposite (roof duality; Hammer, Hansen and Simeone 1984). Labels that are whole in it are those
of some best set, so that only the others, if they are few, remain to be searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, threads_for
from maxmargin.labeling import check_edges

Sets = NDArray[np.int8]

# So many labels that are left open are searched; see cpp/multilabel/label_sets.hpp.
_OPEN = 14


class BestSets(NamedTuple):
    """For n samples the best sets found, shape (n, L), and upper bounds (n,) of the best scores; None where these were found."""

    labels: Sets
    upper: Floats | None


class RelaxedSets(NamedTuple):
    """For n samples a solution of the relaxation: zeros, halves and ones of labels (n, L) and pairs (n, E); its value (n,)."""

    labels: Floats
    pairs: Floats
    value: Floats


class LabelPairs:
    """L labels with E pairs of them, and the search for the best set.

    Parameters
    ----------
    n_labels : int
        L.
    pairs : int array of shape (E, 2)
        Different labels, no pair twice. May be empty.

    Examples
    --------
    >>> pairs = LabelPairs(3, [(0, 1), (1, 2), (0, 2)])
    >>> pairs.best([[1.0, -0.5, -2.0]], [1.0, 1.0, -3.0]).labels
    array([[1, 1, 0]], dtype=int8)
    """

    def __init__(self, n_labels: int, pairs: ArrayLike) -> None:
        self.n_labels = n_labels
        self.pairs: Int32s = check_edges(pairs, n_labels)
        low, high = self.pairs.min(axis=1, initial=n_labels), self.pairs.max(axis=1, initial=-1)
        if (low == high).any():
            raise ValueError(f"label {low[(low == high).argmax()]} is paired with itself; its own score says that already")
        codes, counts = np.unique(low.astype(np.int64) * n_labels + high, return_counts=True)
        if (counts > 1).any():
            twice = int(codes[(counts > 1).argmax()])
            raise ValueError(f"the pair of labels {divmod(twice, n_labels)} is there {counts.max()} times; name every pair once")

    @property
    def is_forest(self) -> bool:
        """Whether the pairs have no circle."""
        return self.graph.is_forest

    @property
    def exact(self) -> bool:
        """Whether the best set is always found, whatever the scores."""
        return self.is_forest or self.n_labels <= _OPEN

    def __getstate__(self) -> dict[str, object]:
        # Graphs belong to the process.
        return {name: value for name, value in vars(self).items() if name not in ("graph", "_listed_pairs")}

    @cached_property
    def graph(self) -> _core.LabelGraph:
        """The compiled form."""
        return _core.LabelGraph(self.n_labels, self.pairs)

    def scores(self, labels: ArrayLike, unary: Floats, pairs: Floats) -> Floats:
        """Of one set per row, shape (n,)."""
        own = np.asarray(labels, dtype=np.float64)
        j, k = self.pairs.T
        return np.asarray((own * unary).sum(axis=-1) + (own[..., j] * own[..., k] * pairs).sum(axis=-1))

    @cached_property
    def _listed_pairs(self) -> Floats:
        sets = all_sets(self.n_labels)
        return sets[:, self.pairs[:, 0]] * sets[:, self.pairs[:, 1]]

    def listed_scores(self, unary: Floats, pairs: Floats) -> Floats:
        """Of all sets, in the order of `all_sets`, shape (2^L,)."""
        return np.asarray(all_sets(self.n_labels) @ unary + self._listed_pairs @ pairs)

    def best(self, unary: ArrayLike, pairs: ArrayLike, relaxed_only: bool = False) -> BestSets:
        """The best set of every sample; of equally good ones that which the search comes to, without labels of no use.

        Parameters
        ----------
        unary : array of shape (n, L)
            Scores of the labels.
        pairs : array of shape (E,) or (n, E)
            Scores of pairs, the same for all samples or their own.
        relaxed_only : bool
            Decide nothing before the relaxation; for tests.
        """
        own, own_pairs = self._checked(unary, pairs)
        labels, excess = self.graph.best(own, own_pairs, False, not relaxed_only, threads_for(len(own)))
        sets = labels.astype(np.int8)
        if not excess.any():
            return BestSets(sets, None)
        return BestSets(sets, self.scores(sets, own, own_pairs) + excess)

    def relaxed(self, unary: ArrayLike, pairs: ArrayLike) -> RelaxedSets:
        """The best point of the relaxation, a set where that is tight."""
        own, own_pairs = self._checked(unary, pairs)
        labels, _ = self.graph.best(own, own_pairs, True, True, threads_for(len(own)))
        both = pair_values(labels[:, self.pairs[:, 0]], labels[:, self.pairs[:, 1]], own_pairs)
        return RelaxedSets(labels, both, (labels * own).sum(axis=1) + (both * own_pairs).sum(axis=1))

    def k_best(self, unary: ArrayLike, pairs: ArrayLike, k: int) -> Iterator[tuple[Sets, float]]:
        """Up to k different sets of one sample with their scores, best first.

        After every set the rest is divided by where it first differs from that set (Lawler 1972), and the best set of each part
        is found with the labels before that place fixed. Exact where `best` is.
        """
        own, shared = self._checked(np.asarray(unary)[None], pairs)
        own_pairs = np.atleast_2d(shared)
        # More than all scores together, so that a label that is worth this much is fixed.
        wall = 1.0 + 2.0 * float(np.abs(own).sum() + np.abs(own_pairs).sum())
        L = self.n_labels
        labels = self.best(own, own_pairs).labels[0]
        waiting: list[tuple[float, Sets, int]] = [(float(self.scores(labels, own[0], own_pairs[0])), labels, 0)]
        for _ in range(k):
            if not waiting:
                return
            place = max(range(len(waiting)), key=lambda at: waiting[at][0])
            value, labels, fixed = waiting.pop(place)
            yield labels, value
            if fixed == L:
                continue
            # Part t has the first labels as they are, up to t, and label t turned.
            turns = np.arange(fixed, L)
            signs = np.where(np.arange(L) < turns[:, None], 1.0, 0.0) - (np.arange(L) == turns[:, None])
            walls = wall * signs * (2.0 * labels - 1.0)
            parts = self.best(own + walls, own_pairs[0]).labels
            values = self.scores(parts, own, own_pairs)
            waiting += [(float(score), part, int(turn) + 1) for score, part, turn in zip(values, parts, turns, strict=True)]

    def _checked(self, unary: ArrayLike, pairs: ArrayLike) -> tuple[Floats, Floats]:
        own, own_pairs = (np.ascontiguousarray(part, dtype=np.float64) for part in (unary, pairs))
        if own.ndim != 2 or own.shape[1] != self.n_labels:
            raise ValueError(f"unary has shape {own.shape}, but a row of {self.n_labels} scores per sample is needed")
        if own_pairs.shape not in ((len(self.pairs),), (len(own), len(self.pairs))):
            raise ValueError(f"pairs has shape {own_pairs.shape}, but {len(self.pairs)} are needed, for all samples or each")
        if not np.isfinite(own).all() or not np.isfinite(own_pairs).all():
            raise ValueError("scores of labels and pairs must be finite numbers; check the features and the weights")
        return own, own_pairs


@cache
def all_sets(n_labels: int) -> Floats:
    """Every set of labels, shape (2^L, L): the binary numbers, the last label counting least."""
    numbers = np.arange(2**n_labels)
    sets = (numbers[:, None] >> np.arange(n_labels - 1, -1, -1)) & 1
    found = sets.astype(np.float64)
    found.setflags(write=False)
    return found


def pair_values(first: Floats, second: Floats, scores: Floats) -> Floats:
    """What a pair has, by what its labels have: both or neither for sets, and for halves as much of a good pair as its labels
    allow, and as little of a bad one.
    """
    return np.where(scores > 0, np.minimum(first, second), np.maximum(first + second - 1.0, 0.0))
