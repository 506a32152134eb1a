"""Hull search and bisecting for slack rescaling of sets of labels, of many samples at once: one call into compiled code.

They ask what `hull_search` and `bisecting` ask a `LabelSetOracle`, without an object for every question, which costs more than
the decoder where labels are few.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._utils import Floats, Ints, thread_count
from maxmargin.core import as_rows, check_rows, is_sparse
from maxmargin.multilabel.structure import LabelSetStructure
from maxmargin.surrogates import MOST_CALLS, MOST_HULL_CALLS, ROUNDING, TOLERANCE


class FoundSets(NamedTuple):
    """What searches have found of n samples, and what the next searches of the same samples may begin with.

    Attributes
    ----------
    labels : int8 array of shape (n, L)
        The best set of each that was met; the truth where nothing is worth more than zero.
    h, g : arrays of shape (n,)
        Its margin error and its loss.
    best, upper : arrays of shape (n,)
        ``(1 + h) g``, and an upper bound of it over all sets.
    calls : int array of shape (n,)
        Questions to the decoder.
    lam : array of shape (n,)
        The weight of the loss in the last question; nan if there was none.
    sets, offsets : int8 array of shape (m, L), int array of shape (n + 1,)
        Up to ten sets of each sample: those of sample i are ``sets[offsets[i] : offsets[i + 1]]``.
    """

    labels: NDArray[np.int8]
    h: Floats
    g: Floats
    best: Floats
    upper: Floats
    calls: Ints
    lam: Floats
    sets: NDArray[np.int8]
    offsets: Ints

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Whether nothing better than the set found exists, but for rounding."""
        return self.upper <= self.best + ROUNDING * (1.0 + np.abs(self.best))


class LabelSetSearches:
    """Searches for the most violating sets of some samples at some weights, under slack rescaling.

    Parameters
    ----------
    structure : LabelSetStructure
        One whose outputs are sets; halves of labels (`RelaxedLabelSets`) are none.
    X : array or sparse matrix of shape (n, p)
    weights : array of shape (L p + E,)
    truths : array of shape (n, L)
        Zeros and ones.
    n_jobs : int
        Threads; -1 for all cores.

    Examples
    --------
    >>> structure = LabelSetStructure(3, 1, [(0, 1)])
    >>> X, truths = [[1.0], [-1.0]], [[1, 0, 0], [0, 1, 1]]
    >>> found = LabelSetSearches(structure, X, np.array([1.0, -0.5, -1.0, 0.75]), truths).hull()
    >>> found.labels.tolist(), found.best, found.exact
    ([[1, 1, 0], [1, 1, 1]], array([1.25, 0.75]), array([ True,  True]))
    >>> LabelSetSearches(structure, X, np.array([1.0, -0.5, -1.0, 0.5]), truths).hull(found).best
    array([1. , 0.5])
    """

    def __init__(self, structure: LabelSetStructure, X: Any, weights: Floats, truths: Any, n_jobs: int | None = 1) -> None:
        if structure.relaxed:
            raise TypeError("RelaxedLabelSets may have halves of labels, but these searches know sets; use LabelSetStructure")
        rows, weights, self.n_threads = check_rows(as_rows(X)), np.asarray(weights, dtype=np.float64), thread_count(n_jobs)
        if rows.shape[1] != structure.n_inputs:
            raise ValueError(f"X has {rows.shape[1]} columns, but the structure has {structure.n_inputs} inputs")
        if weights.shape != (structure.n_weights,):
            raise ValueError(f"weights has shape {weights.shape}, but the structure has {structure.n_weights} weights")
        labels = np.asarray(truths.toarray() if is_sparse(truths) else truths)
        shape = rows.shape[0], structure.n_labels
        if labels.shape != shape or not np.isin(labels, (0, 1)).all():
            raise ValueError(
                f"truths must be zeros and ones of shape {shape}, a row for each of X and a column for each label; it has "
                f"shape {labels.shape}"
            )
        self._scores = np.ascontiguousarray(structure.unary(rows, weights))
        self._pairs = np.ascontiguousarray(structure.split(weights)[1])
        if not (np.isfinite(self._scores).all() and np.isfinite(self._pairs).all()):
            raise ValueError("scores of labels and pairs must be finite numbers; check X and weights")
        self._truths = np.ascontiguousarray(labels, dtype=np.uint8)
        self._searches = _core.ProductSetSearch(structure.pairs.graph)

    def hull(self, known: FoundSets | None = None, *, tolerance: float = 0.0, max_calls: int = MOST_HULL_CALLS) -> FoundSets:
        """Hull search (`hull_search`) from the sets of an earlier search, else from the set that is wrong in every label.

        Parameters
        ----------
        known : FoundSets, optional
            Of the same samples, at other weights.
        tolerance : float
            See `hull_search`.
        max_calls : int
            Questions per sample.
        """
        return self._run(known, False, tolerance, max_calls)

    def bisecting(
        self, known: FoundSets | None = None, *, tolerance: float = TOLERANCE, max_calls: int = MOST_CALLS
    ) -> FoundSets:
        """`bisecting` from the sets and the last weight of the loss of an earlier search, else from anywhere."""
        return self._run(known, True, tolerance, max_calls)

    def _run(self, known: FoundSets | None, bisects: bool, tolerance: float, max_calls: int) -> FoundSets:
        if not 0 <= tolerance < np.inf:
            raise ValueError(f"tolerance must be a number, not negative, such as 0.001; it is {tolerance}")
        if max_calls < 0:
            raise ValueError(f"max_calls must not be negative; it is {max_calls}")
        n, L = self._truths.shape
        if known is None:
            sets, offsets, last = np.zeros((0, L), np.uint8), np.zeros(n + 1, np.int64), np.full(n, np.nan)
        elif known.labels.shape != (n, L):
            raise ValueError(f"known has labels of shape {known.labels.shape}, but here it is {(n, L)}; use the same samples")
        else:
            sets, offsets, last = known.sets.view(np.uint8), known.offsets, known.lam
        found = self._searches.search(
            self._scores, self._pairs, self._truths, sets, offsets, last, bisects, tolerance, max_calls, self.n_threads
        )
        labels, h, g, best, upper, calls, lam, kept, begin = found
        return FoundSets(labels.view(np.int8), h, g, best, upper, calls, lam, kept.view(np.int8), begin)
