"""Labeling of sequences by a chain-structured SVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils.validation import check_is_fitted

from maxmargin import _core
from maxmargin.estimators.multiclass import with_constant
from maxmargin.estimators.training import ListEstimator, check_budgets, train
from maxmargin.models import ChainModel, ChainWeights, chain_scores
from maxmargin.solvers import Solver

Floats = NDArray[np.float64]


class ChainSVM(ListEstimator):
    """Structured SVM for sequences: emissions, first and last labels, transitions; Hamming loss per position.

    A data set is a list with one entry per sequence: an array of shape (L, p), or a list of L dictionaries of features as
    CRF packages take them. Labels are a list of sequences of length L, of numbers or strings.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per sequence.
    normalize : bool, default=True
        Divide the loss of a sequence by its length.
    fit_intercept : bool, default=True
        Add a constant feature to every position.
    solver, tol, max_iter, time_limit, random_state, verbose
        As in :class:`maxmargin.MulticlassSVM`.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p)
    intercept_, first_, last_ : arrays of shape (K,)
    transition_ : array of shape (K, K)
        Score of the row's label followed by the column's.
    primal_objective_, dual_objective_, dual_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.RankingSVM`.

    Examples
    --------
    Labels that repeat the sign of the input, unless it is unclear:

    >>> import numpy as np
    >>> X = [np.array([[1.0], [0.9], [-0.1], [-1.0]]), np.array([[-1.0], [0.1], [1.0]])]
    >>> y = [["up", "up", "down", "down"], ["down", "up", "up"]]
    >>> model = ChainSVM(C=10).fit(X, y)
    >>> [list(map(str, labels)) for labels in model.predict([np.array([[0.8], [-0.9]])])]
    [['up', 'down']]
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        normalize: bool = True,
        fit_intercept: bool = True,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.normalize = normalize
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> Self:
        """Train on sequences X with labels y."""
        check_budgets(self)
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} sequences, but y has {len(y)}; they must be equal")
        if len(X) == 0:
            raise ValueError("X is empty; at least one sequence is needed")
        self._vectorizer = DictVectorizer(sparse=False) if _are_dictionaries(X) else None
        if self._vectorizer is not None:
            self._vectorizer.fit([position for sequence in X for position in sequence])
        inputs, offsets = self._stack(X)
        for k, (begin, end) in enumerate(pairwise(offsets)):
            if end - begin != len(y[k]):
                raise ValueError(f"sequence {k} has {end - begin} positions in X, but {len(y[k])} labels in y")
        self.classes_, labels = np.unique(np.concatenate([np.asarray(sequence) for sequence in y]), return_inverse=True)
        self.n_features_in_ = inputs.shape[1] - self.fit_intercept
        problem = ChainModel(inputs, labels.astype(np.int64), offsets, len(self.classes_), normalize=self.normalize)
        weights = ChainWeights(train(self, problem).weights, len(self.classes_), inputs.shape[1])
        self._weights = weights
        self.coef_ = weights.emission[:, : self.n_features_in_].copy()
        self.intercept_ = weights.emission[:, -1].copy() if self.fit_intercept else np.zeros(len(self.classes_))
        self.first_, self.last_, self.transition_ = weights.first.copy(), weights.last.copy(), weights.transition.copy()
        return self

    def _stack(self, X: Sequence[Any]) -> tuple[Floats, NDArray[np.int64]]:
        """All positions below each other, and where sequences begin and end."""
        arrays: list[Floats] = []
        for k, sequence in enumerate(X):
            if len(sequence) == 0:
                raise ValueError(f"sequence {k} of X is empty; drop sequences without positions")
            rows = self._vectorizer.transform(sequence) if self._vectorizer is not None else sequence
            array = np.asarray(rows, dtype=np.float64)
            if array.ndim != 2:
                raise ValueError(f"sequence {k} of X has shape {array.shape}; (length, features) is needed")
            if arrays and array.shape[1] != arrays[0].shape[1]:
                raise ValueError(f"sequence {k} of X has {array.shape[1]} features, but the first has {arrays[0].shape[1]}")
            arrays.append(array)
        inputs = np.concatenate(arrays)
        if not np.isfinite(inputs).all():
            raise ValueError("X contains NaN or infinite values; remove or replace them")
        offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
        return (with_constant(inputs) if self.fit_intercept else inputs), offsets

    def _scores(self, X: Sequence[Any]) -> tuple[Floats, NDArray[np.int64]]:
        check_is_fitted(self)
        if len(X) == 0:
            raise ValueError("X is empty; at least one sequence is needed")
        inputs, offsets = self._stack(X)
        if inputs.shape[1] - self.fit_intercept != self.n_features_in_:
            found = inputs.shape[1] - self.fit_intercept
            raise ValueError(f"X has {found} features, but ChainSVM was trained with {self.n_features_in_}")
        return chain_scores(self._weights, inputs, offsets), offsets

    def decision_function(self, X: Sequence[Any]) -> list[Floats]:
        """Scores of the labels at every position, shape (L, K) each, without transitions."""
        scores, offsets = self._scores(X)
        return np.split(scores, offsets[1:-1])

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """The best labels of every sequence, shape (L,) each."""
        scores, offsets = self._scores(X)
        labels, _ = _core.chain_best_many(scores, np.ascontiguousarray(self.transition_), offsets)
        return np.split(self.classes_[labels], offsets[1:-1])

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """Mean over the sequences of the fraction of right labels."""
        found = self.predict(X)
        if len(found) != len(y):
            raise ValueError(f"X has {len(found)} sequences, but y has {len(y)}; they must be equal")
        return float(np.mean([np.mean(a == np.asarray(b)) for a, b in zip(found, y, strict=True)]))


def _are_dictionaries(X: Sequence[Any]) -> bool:
    return len(X[0]) > 0 and isinstance(X[0][0], Mapping)
