"""Trees of labels under other surrogates than margin rescaling: the compiled convex hull search, by blocks and whole passes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.core import Cut
from maxmargin.sequences.problem import TreeProblem
from maxmargin.surrogates import MicroF1, Surrogate, compiled_surrogate


class SurrogateTreeProblem(TreeProblem):
    """Forests as in :class:`TreeProblem`, whose hinge is the largest ``psi(score - score of the truth, loss)`` of a labeling.

    The most violating labeling is looked for on the convex hull of all labelings in the plane of the two (spec 10). What the hull
    has above the best labeling found is the cut's bound, so gaps are those of the true problem; with ``search="auto"`` the best
    labelings for every number of wrong labels close that (spec 7.4) in blocks of up to 256 nodes, and the search is exact.

    Parameters
    ----------
    X, y, offsets, parent, n_labels, normalize
        As in :class:`LabelingProblem`.
    surrogate : Surrogate
        One that has a compiled form: slack, beta or generalized scaling with ``alpha > 0``, the log loss, the convex ProbLoss, or
        the micro F1 of the nodes that are not ``outside``.
    outside : int, optional
        The label of nodes that are in no set, for the micro F1; Hamming losses have no use for it.

    Attributes
    ----------
    queries : int
        Questions that were put to the decoder.

    Examples
    --------
    >>> from maxmargin.surrogates import Slack
    >>> problem = SurrogateTreeProblem(np.array([[1.0], [-1.0]]), [0, 1], [0, 2], None, 2, surrogate=Slack())
    >>> problem.mean_cut(np.zeros(10)).loss
    1.0
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        offsets: ArrayLike,
        parent: ArrayLike | None,
        n_labels: int,
        *,
        surrogate: Surrogate,
        normalize: bool = True,
        outside: int | None = None,
    ) -> None:
        super().__init__(X, y, offsets, parent, n_labels, normalize=normalize)
        form = compiled_surrogate(surrogate)
        if form is None:
            raise ValueError(f"{surrogate} has no compiled form; use StructuredProblem with a ChainStructure or TreeStructure")
        if form.kind == "micro_f1" and (outside is None or not 0 <= outside < n_labels):
            raise ValueError(f"outside={outside} must be the label, 0 to {n_labels - 1}, of nodes that are in no set")
        self.surrogate, self._form, self.outside, self.queries = surrogate, form, outside, 0

    def make_block_data(self) -> _core.LabelingData:
        """Return the compiled form of this problem."""
        data = self._forest_data()
        outside, recover = -1 if self.outside is None else self.outside, self.surrogate.search == "auto"
        data.set_surrogate(*self._form, outside, recover)
        return data

    def _contents(self) -> tuple[Any, ...]:
        cost = None if isinstance(self.surrogate, MicroF1) else self.cost
        return self.X, self.y, cost, self.offsets, self.forests.parent, self.n_labels, *self._form, self.outside

    @cached_property
    def _data(self) -> _core.LabelSearch:
        # Remembers where the search of every block has ended.
        return _core.LabelSearch(self.make_block_data())

    def _search(self, blocks: Ints, weights: Floats) -> tuple[Ints, Floats, Floats, Floats]:
        """Labels of some blocks one after the other, and of each block a and b of its cut, and an upper bound of its hinge."""
        before = self._data.queries
        labels, a, b, _, bound = self._data.search(np.ascontiguousarray(weights, dtype=np.float64), blocks)
        self.queries += self._data.queries - before
        return labels.astype(np.int64), a, b, bound

    def _scaled_difference(self, rows: Ints | slice, edges: tuple[Ints, Ints], labels: Ints, scale: Floats) -> Floats:
        """Features of the truth minus those of a labeling, where nodes count ``scale``, and edges what their child does."""
        truth, K = self.y[rows], self.n_labels
        at = np.arange(len(truth))
        nodes = sparse.csr_array(
            (np.concatenate([scale, -scale]), (np.concatenate([at, at]), np.concatenate([truth, labels]))), shape=(len(truth), K)
        )
        children, parents = edges
        pairs = np.zeros(K * K)
        for own, sign in ((truth, 1.0), (labels, -1.0)):
            pairs += sign * np.bincount(own[parents] * K + own[children], weights=scale[children], minlength=K * K)
        emission: Any = nodes.T @ self.X[rows]
        ends = [np.asarray(nodes[flags[rows]].sum(axis=0)).ravel() for flags in (self.forests.is_root, self.forests.is_leaf)]
        dense = emission.toarray() if hasattr(emission, "toarray") else np.asarray(emission)
        return np.concatenate([dense.ravel(), *ends, pairs])

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The most violating labelings, and what no labeling exceeds."""
        if len(blocks) == 0:
            return []
        chosen = np.asarray(list(blocks), dtype=np.int64)
        labels, a, b, bound = self._search(chosen, weights)
        lengths = self.forests.lengths[chosen]
        found = []
        for k, own in enumerate(np.split(labels, np.cumsum(lengths)[:-1])):
            rows, edges = self.forests.rows(int(chosen[k])), self.forests.edges(int(chosen[k]))
            psi = self._scaled_difference(rows, edges, own, np.full(len(own), a[k]))
            found.append(Cut(psi, float(b[k]), float(bound[k])))
        return found

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all forests, without a feature vector for each."""
        labels, a, b, bound = self._search(np.arange(self.n_blocks), weights)
        scale, forests = np.repeat(a, self.forests.lengths), self.forests
        psi = self._scaled_difference(slice(None), (forests.child, forests.above), labels, scale)
        return Cut(psi / self.n_blocks, float(np.mean(b)), float(np.mean(bound)))
