"""The multi-class SVM of Crammer and Singer with any cost matrix, and a certified gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, with_constant
from maxmargin.core import CERTIFICATE, SampleEstimator, check_weights
from maxmargin.multiclass.problem import MulticlassProblem
from maxmargin.multiclass.surrogate_problem import SurrogateMulticlassProblem
from maxmargin.surrogates import Margin, Surrogate, check_convex, make_surrogate


@dataclass(eq=False, repr=False)
class MulticlassSVM(ClassifierMixin, SampleEstimator):
    """Linear classifier that minimises ``1/2 ||W||^2 + C * sum_i max_k (cost[y_i, k] + (W_k - W_{y_i}) . x_i)``.

    Samples are a matrix of shape (n, p), dense or sparse; labels have the shape (n,).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges.
    costs : array of shape (K, K), optional
        ``costs[truth, answer]`` in the order of ``classes_``; 0-1 by default.
    fit_intercept : bool, default=True
        Add a constant feature; its weights are regularised like the others.
    class_weight : "balanced" or mapping of class to number, optional
        What the hinges of a class are multiplied by, besides ``sample_weight``; as in scikit-learn.
    surrogate : str or Surrogate, default="margin"
        Which bound of the costs is minimised: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, or an object of
        :mod:`maxmargin.surrogates`. With costs of 0 and 1 the first three are the same.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate. Bounds are those of
        the (K, p) weights of all classes, row by row, each with that of the constant at the end.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p), or (1, p) for two classes
    intercept_ : array of shape (K,) or (1,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVM(C=1.0).fit(X, y)
    >>> round(model.score(X, y), 2), model.certified_
    (0.98, True)
    """

    C: float = 1.0
    _: KW_ONLY
    costs: ArrayLike | None = None
    fit_intercept: bool = True
    class_weight: Mapping[Any, float] | str | None = None
    surrogate: str | Surrogate = "margin"
    max_iter: int = 10_000
    warm_start: bool = False

    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "n_features_in_": int,
        "classes_": ("classes",),
        "coef_": ("rows", "n_features_in_"),
        "intercept_": ("rows",),
    }

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> MulticlassProblem:
        X, y = self._check_matrix(X, y, fitting=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y holds only one class; at least two are needed")
        weights = check_weights(sample_weight, len(y))
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, y)
            weights = own if weights is None else own * weights
        inputs = with_constant(X) if self.fit_intercept else X
        surrogate, labels = make_surrogate(self.surrogate), labels.astype(np.int64)
        check_convex(surrogate, self.solver)
        if type(surrogate) is Margin:
            return MulticlassProblem(inputs, labels, len(self.classes_), self.costs, weights)
        return SurrogateMulticlassProblem(inputs, labels, len(self.classes_), self.costs, weights, surrogate=surrogate)

    def _keep(self, weights: Floats) -> None:
        W = weights.reshape(len(self.classes_), -1)
        if len(self.classes_) == 2:
            W = W[1:] - W[:1]
        self.coef_ = W[:, : self.n_features_in_].copy()
        self.intercept_ = W[:, -1].copy() if self.fit_intercept else np.zeros(len(W))

    def decision_function(self, X: Any) -> Floats:
        """Scores of shape (n, K), or (n,) for two classes, where positive means the second."""
        check_is_fitted(self)
        X = self._check_matrix(X)
        scores = np.asarray(X @ self.coef_.T) + self.intercept_
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of the largest score, the first of several."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes_[index])
