"""Samples that have sets of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats
from maxmargin.core import ArrayProblem, Bounds, Cut, SparseVector, Tangent, check_weights, compiled_features, is_sparse
from maxmargin.multilabel.inference import pair_values
from maxmargin.multilabel.label_set_search import SetSearch, Violations
from maxmargin.multilabel.structure import LabelSetStructure, RelaxedLabelSets
from maxmargin.surrogates import Surrogate, make_surrogate

# Blocks whose pairs are looked at together: their number times that of pairs stays below this.
_ENTRIES = 4_000_000
# Blocks keep the pairs of their sets; more of them than this are left to solvers that make whole passes.
_MOST_PAIRS = 4096


class MultilabelProblem(ArrayProblem):
    """Label sets with scores of pairs and Hamming loss, for any surrogate; all samples are searched at once.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
        Features.
    Y : array of shape (n, L)
        A one where a sample has a label.
    pairs : int array of shape (E, 2)
        Pairs of labels that have scores.
    attractive : bool
        Whether these are never negative.
    relaxed : bool
        Whether hinges are maxima over the relaxation, where the best set cannot be found for sure.
    surrogate : str or Surrogate
        Which hinge; margin rescaling by default.
    sample_weight : array of shape (n,), optional
        The hinge of every sample is multiplied by its weight.

    Attributes
    ----------
    queries : int
        How often a best set was asked for.

    Examples
    --------
    >>> problem = MultilabelProblem(np.array([[1.0], [-1.0]]), np.array([[1, 1], [0, 0]]), [(0, 1)])
    >>> problem.mean_cut(np.zeros(3)).loss, problem.queries
    (2.0, 2)
    """

    exact_steps = True

    def __init__(
        self,
        X: Any,
        Y: ArrayLike,
        pairs: ArrayLike = (),
        attractive: bool = False,
        relaxed: bool = False,
        surrogate: str | Surrogate = "margin",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        self.X, self.Y = X, np.asarray(Y, dtype=np.int8)
        if self.Y.ndim != 2 or X.shape[0] != len(self.Y) or len(self.Y) == 0:
            raise ValueError(f"X has {X.shape[0]} samples, but Y has shape {self.Y.shape}; a row of labels per sample is needed")
        if not np.isin(self.Y, (0, 1)).all():
            raise ValueError("Y must consist of zeros and ones")
        kind = RelaxedLabelSets if relaxed else LabelSetStructure
        self.structure: LabelSetStructure = kind(self.Y.shape[1], X.shape[1], pairs, attractive)
        self.surrogate = make_surrogate(surrogate)
        if self.surrogate.search not in ("auto", "hull"):
            raise ValueError(
                f"search={self.surrogate.search!r} is not for label sets, which are searched all at once by the convex hull; use "
                "'auto', 'hull', or StructuredSVM(LabelSetStructure(...))"
            )
        self.sample_weight = check_weights(sample_weight, len(self.Y))
        self._counts = np.ones(len(self.Y)) if self.sample_weight is None else self.sample_weight
        self.n_blocks, self.n_features = len(self.Y), self.structure.n_weights
        # Whatever is not found is bounded; but tangents of what is not convex are no bounds.
        self.exact, self.relaxed = self.surrogate.convex, self.structure.relaxed
        self.convex = self.surrogate.convex
        self._search = SetSearch(self.structure.pairs, self.surrogate, self.relaxed)
        self.queries = 0

    def make_block_data(self) -> _core.BlockData | None:
        """Return the compiled form of this problem."""
        if self._search.form is None or len(self.structure.pairs.pairs) > _MOST_PAIRS:
            return None
        truth = np.ascontiguousarray(self.Y).view(np.uint8)
        return _core.LabelSetData(
            compiled_features(self.X), truth, self.sample_weight, self.structure.pairs.graph, *self._search.form
        )

    def _contents(self) -> tuple[Any, ...] | None:
        # A surrogate of a user may have settings that it does not show.
        if not type(self.surrogate).__module__.startswith("maxmargin."):
            return None
        own = self.structure
        settings = own.attractive, self.relaxed, repr(self.surrogate)
        return self.X, self.Y, own.pairs.pairs, *settings, self.sample_weight

    @property
    def bounds(self) -> Bounds | None:
        """Those of the structure."""
        return self.structure.bounds

    def _found(self, scores: Floats, pair_scores: Floats, truth: Any) -> Violations:
        found = self._search.search(scores, pair_scores, truth)
        self.queries += found.queries
        return found

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The most violating sets of several samples."""
        chosen = np.asarray(blocks, dtype=np.int64)
        if len(chosen) == 0:
            return []
        own, pair_scores = self.structure.split(weights)
        rows, truth, counts = self.X[chosen], self.Y[chosen], self._counts[chosen]
        found = self._found(_scores_of(rows, own), pair_scores, truth)
        factors = found.slope * counts
        turned = factors[:, None] * (truth - found.labels)
        # What a cut is worth at the weights is psi.
        losses = counts * (found.value - found.slope * found.error)
        cuts = []
        for k in range(len(chosen)):
            one = slice(k, k + 1)
            pairs = factors[k] * (self._pairs_of(truth[one], pair_scores) - self._pairs_of(found.labels[one], pair_scores))
            bound = None if found.bound is None or found.bound[k] <= found.value[k] else float(counts[k] * found.bound[k])
            cuts.append(Cut(self._feature(rows, k, turned[k], pairs[0]), float(losses[k]), bound))
        return cuts

    def _feature(self, rows: Any, k: int, labels: Floats, pairs: Floats) -> Any:
        """A combination of the labels' features of one row, and of pairs; sparse where most of it is zero."""
        p, on, both = self.X.shape[1], np.flatnonzero(labels), np.flatnonzero(pairs)
        if is_sparse(rows):
            row = slice(rows.indptr[k], rows.indptr[k + 1])
            columns, values = rows.indices[row], rows.data[row]
        else:
            columns, values = np.arange(p), rows[k]
        indices = np.concatenate([(on[:, None] * p + columns).ravel(), len(labels) * p + both]).astype(np.int32)
        entries = np.concatenate([np.outer(labels[on], values).ravel(), pairs[both]])
        if 3 * len(indices) < self.n_features:
            return SparseVector(indices, entries)
        psi = np.zeros(self.n_features)
        psi[indices] = entries
        return psi

    def _pairs_of(self, labels: Any, pair_scores: Floats) -> Floats:
        """What every pair has, shape (n, E)."""
        first, second = self.structure.pairs.pairs.T
        own = labels.astype(np.float64, copy=False)
        return pair_values(own[:, first], own[:, second], pair_scores)

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        found = self.tangent(self.scores(weights))
        return Cut(-self.features(found.gradient), found.loss, found.bound)

    # ---- as a function of scores ----------------------------------------------------------------------------------------------

    def scores(self, weights: Floats) -> Floats:
        """Of all labels of all samples, and of pairs, one after the other."""
        own, pair_scores = self.structure.split(weights)
        return np.concatenate([np.asarray(self.X @ own.T).ravel(), pair_scores])

    def tangent(self, scores: Floats) -> Tangent:
        """The mean hinge."""
        end = self.Y.size
        own, pair_scores = scores[:end].reshape(self.Y.shape), scores[end:]
        found = self._found(own, pair_scores, self.Y)
        counts = self._counts / self.n_blocks
        factors = counts * found.slope
        turned = factors[:, None] * (found.labels - self.Y)
        gradient = np.concatenate([turned.ravel(), self._pair_sums(factors, found, pair_scores)])
        hinge = float(counts @ found.value)
        bound = None if found.bound is None else float(counts @ found.bound)
        return Tangent(hinge, hinge - float(factors @ found.error), gradient, None if bound == hinge else bound)

    def features(self, coefficients: Floats) -> Floats:
        """From scores back to weights."""
        end = self.Y.size
        own: Any = coefficients[:end].reshape(self.Y.shape)
        return np.concatenate([np.asarray((self.X.T @ own).T).ravel(), coefficients[end:]])

    def _pair_sums(self, factors: Floats, found: Violations, pair_scores: Floats) -> Floats:
        """Pairs of the sets minus those of the truths, summed up over samples times ``factors``."""
        if len(pair_scores) == 0:
            return np.zeros(0)
        at, total = np.flatnonzero(factors), np.zeros(len(pair_scores))
        size = max(1, _ENTRIES // len(pair_scores))
        for start in range(0, len(at), size):
            rows = at[start : start + size]
            total += factors[rows] @ (self._pairs_of(found.labels[rows], pair_scores) - self._pairs_of(self.Y[rows], pair_scores))
        return total


def _scores_of(rows: Any, weights: Floats) -> Floats:
    """``rows @ weights.T``; for few sparse rows without touching weights that they do not use."""
    if not is_sparse(rows) or rows.shape[0] > 8:
        return np.asarray(rows @ weights.T)
    parts = [slice(rows.indptr[k], rows.indptr[k + 1]) for k in range(rows.shape[0])]
    return np.array([weights[:, rows.indices[part]] @ rows.data[part] for part in parts])
