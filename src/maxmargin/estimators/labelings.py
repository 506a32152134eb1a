"""Labeling of sequences and of the nodes of trees: lists of blocks in, one stack of rows inside, lists of labels out."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils.validation import check_is_fitted

from maxmargin._types import Floats, Ints
from maxmargin._validation import with_constant
from maxmargin.cuts import Problem
from maxmargin.estimators.base import BLOCKWISE, CERTIFICATE, Facility, SampleEstimator, check_convex
from maxmargin.estimators.node_labels import outside_label
from maxmargin.problems import StructuredProblem, SurrogateTreeProblem, TreeProblem
from maxmargin.problems.compiled_surrogates import compiled_surrogate
from maxmargin.problems.weighted import weighted
from maxmargin.structures import ChainStructure, Structure, Tree, TreeStructure, TreeWeights
from maxmargin.structures.forest import CHAINS, TREES, Forests, Words, best_labels, label_scores
from maxmargin.structures.rows import bad_row, is_sparse, stack
from maxmargin.surrogates import Margin, MicroF1, Surrogate, make_surrogate

# What files hold, besides the weights of the ends.
LABELING: dict[str, Any] = {
    **CERTIFICATE,
    "n_features_in_": int,
    "classes_": ("classes",),
    "coef_": ("classes", "n_features_in_"),
    "intercept_": ("classes",),
    "transition_": ("classes", "classes"),
}


class Stack(NamedTuple):
    """All blocks below each other: rows of features, where blocks begin and end, and parents unless they are chains."""

    X: Any
    offsets: Ints
    parent: NDArray[Any] | None


@dataclass(eq=False, repr=False)
class LabelingSVM(SampleEstimator):
    """Labels of nodes that depend on the labels of their parents; Hamming loss per node. A subclass says what a block is.

    Features of a block are an array or a sparse matrix of shape (L, p), or a list of L dictionaries as CRF packages take them;
    sparse matrices and dictionaries stay sparse. Labels are a list of sequences of length L, of numbers or strings.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per block.
    normalize : bool, default=True
        Divide the loss of a block by its number of nodes.
    fit_intercept : bool, default=True
        Add a constant feature to every node.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss is minimised: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, ``"micro_f1"``, or an
        object of :mod:`maxmargin.surrogates`. ``"prob"`` is made for counts of wrong labels, ``normalize=False``.
    outside : label, default="O"
        For ``surrogate="micro_f1"``: the label of nodes that are nothing. One minus the F1 of all other labels is bounded, block
        by block.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`, which also tells the attributes of the certificate.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p)
    intercept_ : array of shape (K,)
    transition_ : array of shape (K, K)
        Score of the row's label at the parent and the column's at the child: one and the next of a sequence.
    n_queries_ : int
        Questions to the decoder, if the surrogate is not the margin, which needs one per call of the oracle.
    n_features_in_, feature_names_in_
        Number of features and, if they come as dictionaries, their names, in the order of the columns of ``coef_``.
    """

    words: ClassVar[Words]
    # Names of the fitted weights of the labels of roots and leaves.
    ends: ClassVar[tuple[str, str]]

    C: float = 1.0
    _: KW_ONLY
    normalize: bool = True
    fit_intercept: bool = True
    surrogate: str | Surrogate = "margin"
    outside: Any = "O"
    max_iter: int = 10_000
    warm_start: bool = False

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = BLOCKWISE

    @abstractmethod
    def _blocks(self, X: Sequence[Any]) -> tuple[list[Any], list[NDArray[Any]] | None]:
        """Features and parents of every block; no parents if blocks are chains."""

    def _prepare(self, X: Sequence[Any], y: Sequence[Sequence[Any]], sample_weight: ArrayLike | None = None) -> Problem:
        stack = self._stack(X, fitting=True)
        truth = np.concatenate(self._labels_of(y, np.diff(stack.offsets)))
        self.classes_, labels = np.unique(truth, return_inverse=True)
        self.n_features_in_ = stack.X.shape[1] - self.fit_intercept
        if self._vectorizer is not None:
            self.feature_names_in_: NDArray[Any] = np.array(self._vectorizer.feature_names_, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return weighted(self._problem(stack, labels), sample_weight)

    def _problem(self, stack: Stack, labels: Ints) -> Problem:
        surrogate, K = make_surrogate(self.surrogate), len(self.classes_)
        check_convex(surrogate, self.solver)
        if type(surrogate) is Margin:
            return TreeProblem(stack.X, labels, stack.offsets, stack.parent, K, normalize=self.normalize)
        if compiled_surrogate(surrogate) is not None:
            outside = outside_label(self.classes_, self.outside, self.words.node) if isinstance(surrogate, MicroF1) else None
            return SurrogateTreeProblem(
                stack.X, labels, stack.offsets, stack.parent, K, surrogate=surrogate, normalize=self.normalize, outside=outside
            )
        # Any other is asked in Python, block by block.
        if isinstance(surrogate, MicroF1):
            raise ValueError(f"{surrogate} is searched in one way only; use search='auto'")
        rows = [slice(first, end) for first, end in itertools.pairwise(stack.offsets.tolist())]
        if stack.parent is None:
            chains = [stack.X[own] for own in rows]
            structure: Structure = ChainStructure(K, stack.X.shape[1], self.normalize)
            return StructuredProblem(structure, chains, [labels[own] for own in rows], surrogate)
        trees = [Tree(stack.X[own], stack.parent[own]) for own in rows]
        structure = TreeStructure(K, stack.X.shape[1], self.normalize)
        return StructuredProblem(structure, trees, [labels[own] for own in rows], surrogate)

    def _keep(self, weights: Floats) -> None:
        n_labels = len(self.classes_)
        parts = TreeWeights(weights, n_labels, self.n_features_in_ + self.fit_intercept)
        self.coef_ = parts.emission[:, : self.n_features_in_].copy()
        self.intercept_ = parts.emission[:, -1].copy() if self.fit_intercept else np.zeros(n_labels)
        for name, values in zip(self.ends, (parts.root, parts.leaf), strict=True):
            setattr(self, name, values.copy())
        self.transition_ = parts.transition.copy()

    def _restore(self) -> None:
        emission = np.hstack([self.coef_, self.intercept_[:, None]]) if self.fit_intercept else self.coef_
        parts = [emission, *(getattr(self, name) for name in self.ends), self.transition_]
        self._weights = TreeWeights(np.concatenate([part.ravel() for part in parts]), *emission.shape)
        self._vectorizer = DictVectorizer(sparse=True) if hasattr(self, "feature_names_in_") else None
        if self._vectorizer is not None:
            self._vectorizer.feature_names_ = list(self.feature_names_in_)
            self._vectorizer.vocabulary_ = {name: k for k, name in enumerate(self.feature_names_in_)}

    def decision_function(self, X: Sequence[Any]) -> list[Floats]:
        """Scores of the labels at every node, shape (L, K) each, without transitions."""
        scores, forests = self._scores(X)
        return np.split(scores, forests.offsets[1:-1])

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """The best labels of every block, shape (L,) each."""
        scores, forests = self._scores(X)
        labels = best_labels(scores, self._weights, forests.offsets, forests.parent)
        return np.split(self.classes_[labels], forests.offsets[1:-1])

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Mean over the blocks of the fraction of right labels; a label that was not there in training is never right."""
        found = self.predict(X)
        truth = self._labels_of(y, [len(labels) for labels in found])
        return float(np.mean([np.mean(a == b) for a, b in zip(found, truth, strict=True)]))

    def _scores(self, X: Sequence[Any]) -> tuple[Floats, Forests]:
        check_is_fitted(self)
        stack = self._stack(X, fitting=False)
        self._check_width(stack.X.shape[1] - self.fit_intercept)
        forests = Forests(stack.offsets, stack.parent, self.words)
        return label_scores(self._weights, stack.X, forests.is_root, forests.is_leaf), forests

    # ---- checks and conversions -------------------------------------------------------------------------------------------

    def _stack(self, X: Sequence[Any], *, fitting: bool) -> Stack:
        block, node = self.words
        if is_sparse(X):
            raise TypeError(f"X is a single sparse matrix; pass a list with one matrix per {block}")
        if len(X) == 0:
            raise ValueError(f"X is empty; at least one {block} is needed")
        features, parents = self._blocks(X)
        if fitting:
            # Most names are absent from most nodes, so rows of dictionaries are sparse, and stay so.
            self._vectorizer = DictVectorizer(sparse=True) if _are_dictionaries(features[0]) else None
        for k, rows in enumerate(features):
            if _length(rows) == 0:
                raise ValueError(f"{block} {k} of X is empty; drop {block}s without {node}s")
            if _are_dictionaries(rows) != (self._vectorizer is not None):
                kinds = ("arrays", "dictionaries") if self._vectorizer is not None else ("dictionaries", "arrays")
                raise ValueError(
                    f"{block} {k} of X holds {kinds[0]}, but the {block}s before it, or those of training, hold {kinds[1]}; "
                    "use one kind for all"
                )
        if self._vectorizer is not None:
            dictionaries = [entry for rows in features for entry in rows]
            if fitting:
                self._vectorizer.fit(dictionaries)
            inputs: Any = self._vectorizer.transform(dictionaries)
        else:
            inputs = self._below_each_other(features)
        lengths = [_length(rows) for rows in features]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        bad = bad_row(inputs)
        if bad is not None:
            k = int(np.searchsorted(offsets, bad, side="right")) - 1
            raise ValueError(f"{node} {bad - offsets[k]} of {block} {k} of X has NaN or infinite values; remove or replace them")
        for k, (length, parent) in enumerate(zip(lengths, parents or (), strict=False)):
            if parent.shape != (length,):
                raise ValueError(f"{block} {k} of X has {length} {node}s, but parents of shape {parent.shape}; each needs one")
        return Stack(
            with_constant(inputs) if self.fit_intercept else inputs, offsets, np.concatenate(parents) if parents else None
        )

    def _below_each_other(self, features: list[Any]) -> Any:
        """Arrays and sparse matrices in one matrix, CSR if any of them is sparse."""
        matrices: list[Any] = []
        for k, rows in enumerate(features):
            matrix = sparse.csr_array(rows, dtype=np.float64) if is_sparse(rows) else np.asarray(rows, dtype=np.float64)
            if matrix.ndim != 2:
                raise ValueError(
                    f"{self.words.block} {k} of X has shape {matrix.shape}; ({self.words.node}s, features) is needed"
                )
            if matrices and matrix.shape[1] != matrices[0].shape[1]:
                raise ValueError(
                    f"{self.words.block} {k} of X has {matrix.shape[1]} features, but the first has {matrices[0].shape[1]}"
                )
            matrices.append(matrix)
        return stack(matrices)

    def _labels_of(self, y: Sequence[Sequence[Any]], lengths: Sequence[int] | Ints) -> list[NDArray[Any]]:
        """An array of labels for each block."""
        block, node = self.words
        if len(y) != len(lengths):
            raise ValueError(f"X has {len(lengths)} {block}s, but y has {len(y)}; they must be equal")
        labels = [np.asarray(own) for own in y]
        for k, (own, length) in enumerate(zip(labels, lengths, strict=True)):
            if own.ndim != 1:
                raise ValueError(f"labels of {block} {k} have shape {own.shape}, but a list with one label per {node} is needed")
            if len(own) != length:
                raise ValueError(f"{block} {k} has {length} {node}s in X, but {len(own)} labels in y")
            if own.dtype.kind == "f" and np.isnan(own).any():
                raise ValueError(f"labels of {block} {k} contain NaN; every {node} needs a label")
        return labels


def _length(rows: Any) -> int:
    return int(rows.shape[0]) if is_sparse(rows) else len(rows)


def _are_dictionaries(rows: Any) -> bool:
    is_list = isinstance(rows, Sequence) or (isinstance(rows, np.ndarray) and rows.dtype == object)
    return is_list and all(isinstance(entry, Mapping) for entry in rows)


class ChainSVM(LabelingSVM):
    """Structured SVM for sequences: emissions, first and last labels, transitions.

    A data set is a list with the features of every sequence; all else is described in
    :class:`maxmargin.estimators.labelings.LabelingSVM`. The weights of the ends are ``first_`` and ``last_``, of shape (K,).

    Examples
    --------
    Labels that repeat the sign of the input, unless it is unclear:

    >>> X = [np.array([[1.0], [0.9], [-0.1], [-1.0]]), np.array([[-1.0], [0.1], [1.0]])]
    >>> y = [["up", "up", "down", "down"], ["down", "up", "up"]]
    >>> model = ChainSVM(C=10).fit(X, y)
    >>> [list(map(str, labels)) for labels in model.predict([np.array([[0.8], [-0.9]])])]
    [['up', 'down']]
    """

    words = CHAINS
    ends = ("first_", "last_")
    holds: ClassVar[Mapping[str, Any]] = {**LABELING, **dict.fromkeys(ends, ("classes",))}

    def _blocks(self, X: Sequence[Any]) -> tuple[list[Any], list[NDArray[Any]] | None]:
        return list(X), None


class TreeSVM(LabelingSVM):
    """Structured SVM for trees: emissions, labels of roots and leaves, pairs of parent and child.

    A data set is a list of :class:`maxmargin.structures.Tree`, or of pairs ``(features, parent)``, where ``parent`` has for every
    node the number of its parent, which comes before it, or -1 for a root; there may be several roots. All else is described in
    :class:`maxmargin.estimators.labelings.LabelingSVM`. The weights of the ends are ``root_`` and ``leaf_``, of shape (K,); a
    node that is a root and a leaf gets both.

    Examples
    --------
    Children that agree with their parent, unless the input says otherwise:

    >>> from maxmargin.structures import Tree
    >>> X = [Tree(np.array([[1.0], [0.8], [-0.1]]), [-1, 0, 0]), Tree(np.array([[-1.0], [0.1], [1.0], [-0.9]]), [-1, 0, 0, 1])]
    >>> y = [["yes", "yes", "yes"], ["no", "no", "yes", "no"]]
    >>> model = TreeSVM(C=10).fit(X, y)
    >>> [list(map(str, labels)) for labels in model.predict([Tree(np.array([[0.7], [-0.05], [-1.0]]), [-1, 0, 0])])]
    [['yes', 'yes', 'no']]
    """

    words = TREES
    ends = ("root_", "leaf_")
    holds: ClassVar[Mapping[str, Any]] = {**LABELING, **dict.fromkeys(ends, ("classes",))}

    def _blocks(self, X: Sequence[Any]) -> tuple[list[Any], list[NDArray[Any]] | None]:
        features, parents = [], []
        for k, tree in enumerate(X):
            if not isinstance(tree, tuple | list) or len(tree) != 2:
                raise ValueError(f"tree {k} of X must be a pair (features, parent), such as maxmargin.structures.Tree")
            parent = np.asarray(tree[1])
            if parent.size and parent.dtype.kind not in "iu":
                raise TypeError(f"parents of tree {k} of X must be integers, -1 for a root, but have dtype {parent.dtype}")
            features.append(tree[0])
            parents.append(parent)
        return features, parents
