"""Labeling of sequences and of the nodes of trees: lists of blocks in, one stack of rows inside, lists of labels out."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, Ints, thread_count, with_constant
from maxmargin.core import (
    BLOCKWISE,
    CERTIFICATE,
    Facility,
    Problem,
    SampleEstimator,
    Structure,
    bad_row,
    compiled_features,
    is_sparse,
    outside_label,
    row_norms,
    stack,
    weighted,
)
from maxmargin.sequences.forest import CHAINS, TREES, Forests, PackedWeights, TreeWeights, Words, best_labels, log_marginals
from maxmargin.sequences.named_features import FeatureNames, are_named, hold_names
from maxmargin.sequences.problem import TreeProblem
from maxmargin.sequences.structure import ChainStructure, Tree, TreeStructure
from maxmargin.sequences.surrogate_problem import SurrogateTreeProblem
from maxmargin.surrogates import (
    BetaScaling,
    Margin,
    MicroF1,
    ProbLoss,
    Slack,
    StructuredProblem,
    Surrogate,
    check_convex,
    compiled_surrogate,
    make_surrogate,
)

# What files hold, besides the weights of the ends.
LABELING: dict[str, Any] = {
    **CERTIFICATE,
    "C_": float,
    "n_features_in_": int,
    "classes_": ("classes",),
    "coef_": ("classes", "n_features_in_"),
    "intercept_": ("classes",),
    "transition_": ("classes", "classes"),
}

# The weight of hinges that count wrong labels is about this over the mean of ||x||^2, whatever the number of blocks: measured on
# chunks, part-of-speech tags and letters (benchmarks/results/defaults.md).
AUTO_C = 2.5
# Other surrogates than the margin have another scale (benchmarks/results/chunking.md).
_AUTO_FACTORS: dict[type[Surrogate], float] = {Slack: 0.1, BetaScaling: 0.3, ProbLoss: 3.0, MicroF1: 100.0}
# Threads cost more than they save below so many nodes.
_FEW_NODES = 2000
# Weights of which fewer than this part are not zero are pickled without the zeros.
_SPARSE_PART = 0.3


class Stack(NamedTuple):
    """All blocks below each other: rows of features, where blocks begin and end, and parents unless they are chains."""

    X: Any
    offsets: Ints
    parent: NDArray[Any] | None


@dataclass(eq=False, repr=False)
class LabelingSVM(SampleEstimator):
    """Labels of nodes that depend on the labels of their parents; Hamming loss per node. A subclass says what a block is.

    Features of a block are an array or a sparse matrix of shape (L, p); or a list of L dictionaries or of L lists of names, as
    CRF packages take them. Sparse matrices and named features stay sparse. A number in a dictionary is the value of that feature,
    text is an indicator of ``name=text``, a list of text one of each. ``X`` is gone through once, so a sequence that makes the
    features of a block when it is asked for them saves the memory of all. Labels are a list of sequences of length L, of numbers
    or strings.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the hinges, one per block. ``"auto"`` is 2.5 over the mean of ``||x||^2`` of all nodes, the constant included:
        the best C hardly depends on the number of blocks, but on the size of the features. Where losses are divided by the number
        of nodes, it is divided by the mean of these; surrogates other than the margin have a factor. ``C_`` tells what it was.
    normalize : bool, default=False
        Divide the loss of a block by its number of nodes. By default wrong labels are counted, so that a long block has as much
        to say as its nodes.
    fit_intercept : bool, default=True
        Add a constant feature to every node.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss is minimised: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, ``"micro_f1"``, or an
        object of :mod:`maxmargin.surrogates`. ``"prob"`` is made for counts of wrong labels, as they are without ``normalize``.
    outside : label, default="O"
        For ``surrogate="micro_f1"``: the label of nodes that are nothing. One minus the F1 of all other labels is bounded, block
        by block.
    tol : float, default=0.05
        Stop when the objective is proved to be at most this part above the optimum, ``gap <= tol * primal``. Predictions hardly
        change below 0.05; ``tol=1e-3`` takes about five times as long.
    n_jobs : int, optional
        Threads that predict; all cores by default. Training has one. Results do not depend on it.
    bounds, solver, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate.

    Attributes
    ----------
    C_ : float
        The weight of the hinges that was used.
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p)
    intercept_ : array of shape (K,)
    transition_ : array of shape (K, K)
        Score of the row's label at the parent and the column's at the child: one and the next of a sequence.
    n_queries_ : int
        Questions to the decoder, if the surrogate is not the margin, which needs one per call of the oracle.
    n_features_in_, feature_names_in_
        Number of features and, if they have names, these in the order of the columns of ``coef_``: as they first came.
    """

    words: ClassVar[Words]
    # Names of the fitted weights of the labels of roots and leaves.
    ends: ClassVar[tuple[str, str]]

    C: float | Literal["auto"] = "auto"
    _: KW_ONLY
    normalize: bool = False
    fit_intercept: bool = True
    surrogate: str | Surrogate = "margin"
    outside: Any = "O"
    tol: float = 0.05
    max_iter: int = 10_000
    warm_start: bool = False
    n_jobs: int | None = None

    of_blocks = True
    scales_C = True
    lacks: ClassVar[Mapping[Facility, str]] = {name: reason for name, reason in BLOCKWISE.items() if name != "n_jobs"}

    @abstractmethod
    def _blocks(self, X: Sequence[Any]) -> tuple[Sequence[Any], list[NDArray[Any]] | None]:
        """Features and parents of every block; no parents if blocks are chains."""

    def _prepare(self, X: Sequence[Any], y: Sequence[Sequence[Any]], sample_weight: ArrayLike | None = None) -> Problem:
        stack = self._stack(X, fitting=True)
        truth = np.concatenate(self._labels_of(y, np.diff(stack.offsets)))
        self.classes_, labels = np.unique(truth, return_inverse=True)
        self.n_features_in_ = stack.X.shape[1] - self.fit_intercept
        # Names take as much room as the data; they are shown when the solver has no more need of it.
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        problem = weighted(self._problem(stack, labels), sample_weight)
        self.C_ = self._usual_C(stack, sample_weight) if self._has_auto_C() else float(self.C)
        return problem

    def _usual_C(self, stack: Stack, sample_weight: ArrayLike | None) -> float:
        """What ``C="auto"`` stands for."""
        X, lengths = stack.X, np.diff(stack.offsets)
        squares = np.diff(X.indptr).astype(np.float64) if X.dtype == np.bool_ else row_norms(X) ** 2
        # A block of weight 2 is there twice.
        weights = np.ones(len(lengths)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        squared = float(np.average(squares, weights=np.repeat(weights, lengths)))
        kind = type(make_surrogate(self.surrogate))
        factor = AUTO_C * _AUTO_FACTORS.get(kind, 1.0)
        if self.normalize and kind is not MicroF1:
            factor /= float(np.average(lengths, weights=weights))
        # Features of zeros have no scale.
        return float(np.clip(factor / squared, 1e-30, 1e30)) if squared > 0 else factor

    def _check_parameters(self) -> None:
        super()._check_parameters()
        thread_count(self.n_jobs)

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
        self.coef_ = parts.emission[:, : self.n_features_in_]
        self.intercept_ = parts.emission[:, -1].copy() if self.fit_intercept else np.zeros(n_labels)
        for name, values in zip(self.ends, (parts.root, parts.leaf), strict=True):
            setattr(self, name, values.copy())
        self.transition_ = parts.transition.copy()

    def _supplement(self) -> None:
        if not hasattr(self, "C_") and not isinstance(self.C, str):
            self.C_ = float(self.C)
        names: FeatureNames | None = getattr(self, "_names", None)
        if names is not None and not hasattr(self, "feature_names_in_"):
            self.feature_names_in_: NDArray[Any] = names.array()

    def _check_fitted(self) -> None:
        if hasattr(self, "feature_names_in_"):
            FeatureNames(self.feature_names_in_)

    def _restore(self) -> None:
        first, last = (getattr(self, name) for name in self.ends)
        constant = self.intercept_ if self.fit_intercept else None
        self._weights = PackedWeights(self.coef_, constant, first, last, self.transition_)
        # There may be many of them: what users see is what predictions read.
        self.coef_ = self._weights.emission[:, : self.n_features_in_]
        self._supplement()
        if getattr(self, "_names", None) is None:
            self._names = FeatureNames(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None

    def __getstate__(self) -> Any:
        # Weights once, and without zeros if most of them are; the rest is made again.
        state = {key: value for key, value in super().__getstate__().items() if key not in ("_weights", "_names")}
        coef = state.get("coef_")
        if coef is not None:
            compact = sparse.csc_array(coef)
            state["coef_"] = compact if compact.nnz < _SPARSE_PART * coef.size else np.asfortranarray(coef)
        return state

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if hasattr(self, "coef_"):
            kept: Any = self.coef_
            if is_sparse(kept):
                self.coef_ = kept.toarray(order="F")
            self._restore()

    def decision_function(self, X: Sequence[Any]) -> list[Floats]:
        """Scores of the labels at every node, shape (L, K) each, without transitions."""
        scores, forests, _ = self._scores(X)
        return np.split(scores, forests.offsets[1:-1])

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """The best labels of every block, shape (L,) each."""
        scores, forests, n_threads = self._scores(X)
        labels = best_labels(scores, self._weights, forests.offsets, forests.parent, n_threads)
        return np.split(self.classes_[labels], forests.offsets[1:-1])

    def predict_marginals(self, X: Sequence[Any], *, temperature: float = 1.0) -> list[Floats]:
        """Probabilities of the labels of every node, shape (L, K) each, in the order of ``classes_``.

        They are exact marginals of ``P(y) ~ exp(score(y) / temperature)`` over all labelings of the block. A hinge is not fitted
        to probabilities: these order nodes by how sure the model is, and a temperature chosen on held-out data makes them fit.
        At 0 all probability is on the labels of :meth:`predict`.
        """
        if not isinstance(temperature, Real) or not 0 <= float(temperature) < np.inf:
            raise ValueError(f"temperature={temperature!r} must be a finite number, 0 or greater")
        scores, forests, n_threads = self._scores(X)
        largest = float(np.abs(scores).max()) + float(np.abs(self.transition_).max())
        if temperature > 0 and not 2 * len(scores) * largest < 1e300 * min(1.0, float(temperature)):
            raise ValueError(f"temperature={temperature} is too small for scores of this size; use 0 for the best labels alone")
        found = log_marginals(scores, self._weights, forests.offsets, forests.parent, temperature, n_threads)
        return np.split(np.exp(found), forests.offsets[1:-1])

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Mean over the blocks of the fraction of right labels; a label that was not there in training is never right."""
        found = self.predict(X)
        truth = self._labels_of(y, [len(labels) for labels in found])
        return float(np.mean([np.mean(a == b) for a, b in zip(found, truth, strict=True)]))

    def _scores(self, X: Sequence[Any]) -> tuple[Floats, Forests, int]:
        """Scores of labels, which nodes belong together, and how many threads are worth their while."""
        check_is_fitted(self)
        stack = self._stack(X, fitting=False)
        self._check_width(stack.X.shape[1] - self.fit_intercept)
        forests = Forests(stack.offsets, stack.parent, self.words)
        n_threads = thread_count(self.n_jobs) if forests.n_nodes > _FEW_NODES else 1
        features = compiled_features(stack.X) if is_sparse(stack.X) else None
        return self._weights.scores(stack.X, features, forests, n_threads), forests, n_threads

    # ---- checks and conversions -------------------------------------------------------------------------------------------

    def _stack(self, X: Sequence[Any], *, fitting: bool) -> Stack:
        block, node = self.words
        if is_sparse(X):
            raise TypeError(f"X is a single sparse matrix; pass a list with one matrix per {block}")
        if len(X) == 0:
            raise ValueError(f"X is empty; at least one {block} is needed")
        features, parents = self._blocks(X)
        if fitting:
            self._names = FeatureNames() if hold_names(features) else None
        if self._names is not None:
            inputs, offsets = self._encoded(features, fitting)
        else:
            for k, rows in enumerate(features):
                if are_named(rows):
                    raise ValueError(self._mixed(k, "dictionaries", "arrays"))
            inputs = self._below_each_other(list(features))
            offsets = np.concatenate([[0], np.cumsum([_length(rows) for rows in features])]).astype(np.int64)
        empty = np.flatnonzero(np.diff(offsets) == 0)
        if len(empty):
            raise ValueError(f"{block} {empty[0]} of X is empty; drop {block}s without {node}s")
        bad = bad_row(inputs)
        if bad is not None:
            k = int(np.searchsorted(offsets, bad, side="right")) - 1
            raise ValueError(f"{node} {bad - offsets[k]} of {block} {k} of X has NaN or infinite values; remove or replace them")
        for k, (length, parent) in enumerate(zip(np.diff(offsets), parents or (), strict=False)):
            if parent.shape != (length,):
                raise ValueError(f"{block} {k} of X has {length} {node}s, but parents of shape {parent.shape}; each needs one")
        if self._names is None and self.fit_intercept:
            inputs = with_constant(inputs)
        return Stack(inputs, offsets, np.concatenate(parents) if parents else None)

    def _encoded(self, features: Sequence[Any], fitting: bool) -> tuple[Any, Ints]:
        """Named features as sparse rows, with the constant."""
        assert self._names is not None
        try:
            return self._names.encode(features, growing=fitting, constant=self.fit_intercept)
        except TypeError as error:
            number, _, text = str(error).partition(" ")
            if not number.isdigit():
                raise
            rows = features[int(number)]
            if hasattr(rows, "shape") and not (isinstance(rows, np.ndarray) and rows.dtype == object):
                raise ValueError(self._mixed(int(number), "arrays", "dictionaries")) from None
            raise TypeError(f"{self.words.block} {number} of X {text}") from None

    def _mixed(self, k: int, here: str, before: str) -> str:
        block = self.words.block
        others = f"the {block}s before it, or those of training, hold {before}"
        return f"{block} {k} of X holds {here}, but {others}; use one kind for all"

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


class ChainSVM(LabelingSVM):
    """Structured SVM for sequences: emissions, first and last labels, transitions.

    A data set is a list with the features of every sequence; all else is described in
    :class:`maxmargin.sequences.svm.LabelingSVM`. The weights of the ends are ``first_`` and ``last_``, of shape (K,).

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

    def _blocks(self, X: Sequence[Any]) -> tuple[Sequence[Any], list[NDArray[Any]] | None]:
        return X, None


class TreeSVM(LabelingSVM):
    """Structured SVM for trees: emissions, labels of roots and leaves, pairs of parent and child.

    A data set is a list of :class:`maxmargin.sequences.Tree`, or of pairs ``(features, parent)``, where ``parent`` has for every
    node the number of its parent, which comes before it, or -1 for a root; there may be several roots. All else is described in
    :class:`maxmargin.sequences.svm.LabelingSVM`. The weights of the ends are ``root_`` and ``leaf_``, of shape (K,); a
    node that is a root and a leaf gets both.

    Examples
    --------
    Children that agree with their parent, unless the input says otherwise:

    >>> from maxmargin.sequences import Tree
    >>> X = [Tree(np.array([[1.0], [0.8], [-0.1]]), [-1, 0, 0]), Tree(np.array([[-1.0], [0.1], [1.0], [-0.9]]), [-1, 0, 0, 1])]
    >>> y = [["yes", "yes", "yes"], ["no", "no", "yes", "no"]]
    >>> model = TreeSVM(C=10).fit(X, y)
    >>> [list(map(str, labels)) for labels in model.predict([Tree(np.array([[0.7], [-0.05], [-1.0]]), [-1, 0, 0])])]
    [['yes', 'yes', 'no']]
    """

    words = TREES
    ends = ("root_", "leaf_")
    holds: ClassVar[Mapping[str, Any]] = {**LABELING, **dict.fromkeys(ends, ("classes",))}

    def _blocks(self, X: Sequence[Any]) -> tuple[Sequence[Any], list[NDArray[Any]] | None]:
        features, parents = [], []
        for k, tree in enumerate(X):
            if not isinstance(tree, tuple | list) or len(tree) != 2:
                raise ValueError(f"tree {k} of X must be a pair (features, parent), such as maxmargin.sequences.Tree")
            parent = np.asarray(tree[1])
            if parent.size and parent.dtype.kind not in "iu":
                raise TypeError(f"parents of tree {k} of X must be integers, -1 for a root, but have dtype {parent.dtype}")
            features.append(tree[0])
            parents.append(parent)
        return features, parents
