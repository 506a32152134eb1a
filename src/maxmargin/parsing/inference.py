"""The best dependency trees of a sentence from the scores of its arcs, exactly.

A sentence of n words has the nodes 0 to n; node 0 is the root, above all words. In a tree every word has one head, another word
or the root, and following heads leads to the root. The score of a tree is the sum of the scores of its arcs. Projective trees, in
which no arcs cross, are found by Eisner's dynamic program in O(n^3), trees of any kind by Edmonds' algorithm in O(n^2); see
``cpp/parsing/eisner.hpp`` and ``cpp/parsing/arborescence.hpp``, also for the k best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Int32s
from maxmargin.labeling import real_array


@dataclass(frozen=True, eq=False)
class ScoredTree:
    """A dependency tree.

    Attributes
    ----------
    heads : int32 array of shape (n,)
        The head of every word, 1 to n, or 0 for the root.
    labels : int32 array of shape (n,), or None
        The label of every word's arc, in ``0 .. L-1``, if arcs have labels.
    score : float
        The sum of the scores of its arcs.
    """

    heads: Int32s
    labels: Int32s | None
    score: float


def best_tree(scores: ArrayLike, *, projective: bool = True, single_root: bool = True) -> ScoredTree:
    """Find the dependency tree of the largest score.

    Parameters
    ----------
    scores : array of shape (n + 1, n + 1) or (n + 1, n + 1, L)
        ``scores[h, m]`` is that of the arc from head ``h`` to word ``m``, perhaps one for each of L labels; ``-inf`` forbids it.
        The root is node 0. The first column and the diagonal are not read.
    projective : bool, default=True
        Only trees in which no arcs cross.
    single_root : bool, default=True
        Only trees in which one word has the root for its head, as in Universal Dependencies.

    Examples
    --------
    "We ate rice": the verb is the root, and the other words are its own.

    >>> scores = np.zeros((4, 4))
    >>> scores[0, 2], scores[2, 1], scores[2, 3], scores[1, 2] = 3.0, 2.0, 1.0, 4.0
    >>> best_tree(scores)
    ScoredTree(heads=array([2, 0, 2], dtype=int32), labels=None, score=6.0)
    """
    return best_trees([scores], projective=projective, single_root=single_root)[0]


def best_trees(scores: Sequence[ArrayLike], *, projective: bool = True, single_root: bool = True) -> list[ScoredTree]:
    """The same for many sentences, each with an array as in :func:`best_tree`; with the same labels, if there are any.

    Examples
    --------
    >>> [tree.heads.tolist() for tree in best_trees([np.zeros((2, 2)), np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]])])]
    [[0], [0, 1]]
    """
    tables = [_check_scores(own, f"scores of sentence {k}" if len(scores) > 1 else "scores") for k, own in enumerate(scores)]
    if not tables:
        return []
    n_labels = {table.shape[2:] for table in tables}
    if len(n_labels) > 1:
        raise ValueError(f"scores have different numbers of labels, {sorted(n_labels)}; all sentences need the same")
    lengths = [len(table) - 1 for table in tables]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.concatenate([table.ravel() for table in tables])
    labelled = tables[0].ndim == 3
    heads, labels, totals = _core.best_trees(flat, offsets, tables[0].shape[2] if labelled else 1, projective, single_root)
    for k in np.flatnonzero(totals == -np.inf):
        raise ValueError(
            f"scores of sentence {k} forbid so many arcs that no tree is left; let every word have a head that leads to the root"
        )
    parts = [slice(begin, end) for begin, end in pairwise(offsets.tolist())]
    return [ScoredTree(heads[own], labels[own] if labelled else None, float(totals[k])) for k, own in enumerate(parts)]


def k_best_trees(scores: ArrayLike, k: int, *, projective: bool = True, single_root: bool = True) -> list[ScoredTree]:
    """Find the k trees of the largest scores, all different, best first; fewer if there are no more.

    Trees that differ in a label are different.

    Parameters
    ----------
    scores, projective, single_root
        As in :func:`best_tree`.
    k : int
        How many.

    Notes
    -----
    Projective trees come from a lazy search for the next best of every span, of which each further tree costs O(n) or so. Trees
    of any kind come from Lawler's partition, at O(n^3) each.

    Examples
    --------
    >>> scores = np.array([[0, 5, 2], [0, 0, 4], [0, 1, 0]])
    >>> [(tree.heads.tolist(), tree.score) for tree in k_best_trees(scores, 5)]
    [([0, 1], 9.0), ([2, 0], 3.0)]
    """
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(f"k={k!r} must be a positive integer")
    table = _check_scores(scores, "scores")
    labelled = table.ndim == 3
    found = _core.k_best_trees(table.ravel(), len(table) - 1, table.shape[2] if labelled else 1, int(k), projective, single_root)
    return [ScoredTree(heads, labels if labelled else None, float(total)) for heads, labels, total in zip(*found, strict=True)]


def _check_scores(scores: ArrayLike, name: str) -> Floats:
    """A contiguous copy with the entries that are not used set to zero."""
    table = np.array(real_array(scores, name), dtype=np.float64)
    if table.ndim not in (2, 3) or table.shape[0] != table.shape[1] or len(table) < 2 or 0 in table.shape:
        raise ValueError(
            f"{name} must have shape (n + 1, n + 1), or (n + 1, n + 1, L) with labels, for at least one word and the root, but "
            f"have {table.shape}"
        )
    table[:, 0] = 0
    table[np.arange(len(table)), np.arange(len(table))] = 0
    if np.isnan(table).any() or (table == np.inf).any():
        place = ", ".join(map(str, np.argwhere(np.isnan(table) | (table == np.inf))[0]))
        raise ValueError(f"{name} must be finite or -inf, but the one at [{place}] is not; forbid arcs by -inf")
    finite = np.abs(table[np.isfinite(table)])
    if float(finite.max(initial=0.0)) > 1e300 / len(table):
        raise ValueError(f"{name} are so large that their sums overflow; scale them down")
    return table
