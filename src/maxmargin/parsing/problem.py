"""Dependency trees, as in :mod:`maxmargin.parsing.structure`, with data; scores, search and features in one compiled step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, Ints
from maxmargin.core import ArrayProblem, Cut, in_order
from maxmargin.parsing.structure import SentenceArcs
from maxmargin.surrogates import Surrogate, compiled_search


@dataclass(frozen=True, eq=False)
class Treebank:
    """Arcs of many sentences, all features 1: where they are, and how many there can be.

    Attributes
    ----------
    offsets : int array of shape (n + 1,)
        Sentence i has the words ``offsets[i]:offsets[i + 1]`` of all.
    begin, columns : int arrays
        Compressed rows, ``(n_i + 1)**2`` for sentence i, as in :class:`maxmargin.parsing.SentenceArcs`.
    n_features : int
        p.
    label_begin, label_columns : int arrays, optional
        The same for the features that labels depend on.
    n_label_features, n_labels : int
        q and L; 0 without labels.
    """

    offsets: Ints
    begin: Ints
    columns: Int32s
    n_features: int
    label_begin: Ints | None = None
    label_columns: Int32s | None = None
    n_label_features: int = 0
    n_labels: int = 0

    @cached_property
    def rows(self) -> _core.ArcRows:
        """For the compiled searches."""
        return _core.ArcRows(
            self.offsets, self.begin, self.columns, None, self.n_features, max(1, self.n_labels), self.label_begin,
            self.label_columns, None, self.n_label_features,
        )  # fmt: skip

    @property
    def n_weights(self) -> int:
        """P + q L."""
        return self.n_features + self.n_label_features * self.n_labels

    def sentences(self) -> list[SentenceArcs]:
        """What the general structure takes, without copies."""
        sizes = (self.n_features, max(1, self.n_labels), self.n_label_features)
        return [SentenceArcs.view(self.rows, k, int(n), sizes) for k, n in enumerate(np.diff(self.offsets))]

    def __getstate__(self) -> dict[str, Any]:
        # Compiled forms belong to the process.
        return {name: value for name, value in vars(self).items() if name != "rows"}


class ParseProblem(ArrayProblem):
    """Sentences with their true trees and margin rescaling; the loss is the number of words with a wrong head, or label.

    Parameters
    ----------
    treebank : Treebank
        The features.
    heads : int array of shape (N,)
        The head of every word of all sentences, counted within its sentence; 0 for the root.
    labels : int array of shape (N,), optional
        Labels 0 to L - 1, if arcs have labels.
    projective, single_root : bool
        As in :class:`maxmargin.parsing.DependencyStructure`.
    """

    def __init__(
        self,
        treebank: Treebank,
        heads: Int32s,
        labels: Int32s | None = None,
        *,
        projective: bool = True,
        single_root: bool = True,
    ) -> None:
        self.treebank, self.heads, self.labels = treebank, heads, labels
        self.projective, self.single_root = projective, single_root
        self.n_blocks, self.n_features = len(treebank.offsets) - 1, treebank.n_weights

    @cached_property
    def _data(self) -> _core.ParseData:
        return _core.ParseData(self.treebank.rows, self.heads, self.labels, self.projective, self.single_root)

    def make_block_data(self) -> _core.ParseData:
        """Return the compiled form of this problem."""
        return self._data

    def _contents(self) -> tuple[Any, ...]:
        own = self.treebank
        return (
            own.offsets, own.begin, own.columns, own.n_features, own.label_begin, own.label_columns, own.n_label_features,
            own.n_labels, self.heads, self.labels, self.projective, self.single_root,
        )  # fmt: skip

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The most violating trees."""
        point = np.ascontiguousarray(weights, dtype=np.float64)
        answers = [self._data.ask(int(block), point) for block in blocks]
        return [Cut(in_order(at, values), loss) for at, values, loss in answers]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all sentences, in one compiled pass."""
        psi, loss = self._data.total(np.ascontiguousarray(weights, dtype=np.float64))
        return Cut(psi / self.n_blocks, loss / self.n_blocks)

    def perceptron(self, order: Ints, weights: Floats, late: Floats, steps: float) -> float:
        """Perceptron steps on sentences in this order, in place; the number of words that were wrong.

        ``late`` gets every step times the number of steps before it: the average of all weights so far is
        ``weights - late / steps``.
        """
        return self._data.perceptron(order, weights, late, float(steps))


class SurrogateParseProblem(ParseProblem):
    """Sentences as in :class:`ParseProblem`, whose hinge is the largest ``psi(score - score of the truth, loss)`` of a tree.

    The most violating tree is looked for on the convex hull of all trees in the plane of the two (spec 10). Losses are whole
    numbers, which settles most of what the hull leaves open; with ``search="auto"`` the next best trees along the last question
    settle the rest. What a cut cannot prove it carries as a bound.

    Parameters
    ----------
    treebank, heads, labels, projective, single_root
        As in :class:`ParseProblem`.
    surrogate : Surrogate
        One that has a compiled form: slack, beta or generalized scaling with ``alpha > 0``, the log loss, or the ProbLoss. Of the
        raw ProbLoss, ``convex=False``, cuts are gradients, and nothing is certified.

    Attributes
    ----------
    queries : int
        Questions that were put to the decoder.
    """

    def __init__(
        self,
        treebank: Treebank,
        heads: Int32s,
        labels: Int32s | None = None,
        *,
        surrogate: Surrogate,
        projective: bool = True,
        single_root: bool = True,
    ) -> None:
        super().__init__(treebank, heads, labels, projective=projective, single_root=single_root)
        form = compiled_search(surrogate)
        if form is None:
            raise ValueError(f"{surrogate} has no compiled form; use StructuredProblem with a DependencyStructure")
        self.surrogate, self._form, self.queries = surrogate, form, 0
        # Tangents of a function that is not convex are no lower bounds of it.
        self.convex = self.exact = surrogate.convex

    def make_block_data(self) -> _core.ParseData:
        """Return the compiled form of this problem."""
        data = _core.ParseData(self.treebank.rows, self.heads, self.labels, self.projective, self.single_root)
        data.set_surrogate(*self._form, self.surrogate.search == "auto")
        return data

    def _contents(self) -> tuple[Any, ...]:
        return *super()._contents(), *self._form

    @cached_property
    def _data(self) -> Any:
        # Remembers where the search of every sentence has ended.
        return _core.ParseSearch(self.make_block_data())

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The tangents at the most violating trees, and what no tree exceeds."""
        point, before = np.ascontiguousarray(weights, dtype=np.float64), self._data.queries
        answers = [self._data.ask(int(block), point) for block in blocks]
        self.queries += self._data.queries - before
        return [Cut(in_order(at, values), loss, bound) for at, values, loss, bound in answers]

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all sentences, in one compiled pass."""
        before = self._data.queries
        psi, loss, bound = self._data.total(np.ascontiguousarray(weights, dtype=np.float64))
        self.queries += self._data.queries - before
        return Cut(psi / self.n_blocks, loss / self.n_blocks, bound / self.n_blocks)
