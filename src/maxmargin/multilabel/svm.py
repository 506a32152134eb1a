"""Sets of labels with scores of pairs, for margin and slack rescaling and whatever else bounds a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, Ints, check_matrix, warn, with_constant
from maxmargin.core import CERTIFICATE, SAMPLEWISE, Facility, Problem, SampleEstimator, row_norms
from maxmargin.core.solvers import BCFW, ConvergenceWarning, Solver
from maxmargin.multilabel.problem import MultilabelProblem
from maxmargin.multilabel.structure import LabelSetStructure
from maxmargin.surrogates import Margin, Surrogate, make_surrogate

# Of C times the squared norm of samples: standardised features, however many, are below it at the default C.
_LARGE = 1e4


@dataclass(eq=False, repr=False)
class MultilabelSVM(ClassifierMixin, SampleEstimator):
    """Sets of labels by the largest score ``sum_j y_j (W_j . x + b_j) + sum over pairs y_j y_k P_jk``.

    Minimises ``1/2 (||W||^2 + ||b||^2 + ||P||^2) + C * sum_i hinge_i``. With ``pairwise="none"`` and margin rescaling these are
    ordinary SVMs, one for every label, with the same ``C``.

    Samples are a matrix of shape (n, p), dense or sparse; labels an indicator matrix of shape (n, L), dense or sparse, as
    :class:`sklearn.preprocessing.MultiLabelBinarizer` makes it. A sample may have no label, and a label no sample.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the hinges, one per sample; ``"auto"`` is one over the mean of ``||x||^2``, the constant included, and ``C_``
        tells what that was.
    pairwise : {"none", "full", "attractive", "tree"} or sequence of pairs, default="none"
        Which pairs of labels have scores: none, all, all with scores that are not negative, or those of the tree of pairs that
        say most of each other in the training data (Chow and Liu 1968); or the pairs named by their columns. The best set is
        found for none, for trees, for attractive pairs and for up to 14 labels; elsewhere it comes with a bound.
    surrogate : str or Surrogate, default="margin"
        How the loss, the number of wrong labels, is bounded: ``"margin"``, ``"slack"``, ``"beta"``, ``"micro_f1"``, ``"log"``,
        ``"prob"``, or an object of :mod:`maxmargin.surrogates`.
    inference : {"labels", "relaxed"}, default="labels"
        What training maximises over where the best set cannot be found for sure: sets, with a bound of what was missed, or
        solutions of the linear relaxation, which have halves of labels. ``certified_objective_`` says which.
    fit_intercept : bool, default=True
        Add a constant feature; its weights are regularised like the others.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate. Bounds are those of the
        weights of all labels, row by row, each with that of the constant at the end, and then of pairs.

    Attributes
    ----------
    C_ : float
        The weight of the hinges that was used.
    classes_ : array of shape (L,)
        Numbers of the labels, as :class:`sklearn.multiclass.OneVsRestClassifier` has them.
    coef_, intercept_ : arrays of shape (L, p) and (L,)
    pairs_ : int array of shape (E, 2)
    pair_coef_ : array of shape (E,)
    n_queries_ : int
        How often training asked for a best set.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [0.1, 0.0]])
    >>> Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    >>> model = MultilabelSVM(C=10, pairwise="full", surrogate="slack").fit(X, Y)
    >>> model.predict(X).tolist(), model.certified_
    ([[1, 0], [0, 1], [1, 1], [0, 0]], True)
    """

    C: float | Literal["auto"] = "auto"
    _: KW_ONLY
    pairwise: str | Sequence[tuple[int, int]] = "none"
    surrogate: str | Surrogate = "margin"
    inference: str = "labels"
    fit_intercept: bool = True
    warm_start: bool = False

    scales_C = True
    lacks: ClassVar[Mapping[Facility, str]] = {**SAMPLEWISE, "class_weight": "labels of a sample share a hinge"}
    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "C_": float,
        "n_features_in_": int,
        "coef_": ("labels", "n_features_in_"),
        "intercept_": ("labels",),
        "pair_coef_": ("pairs",),
        "pairs_": ("pairs", 2),
        "n_queries_": int,
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.inference not in ("labels", "relaxed"):
            raise ValueError(f"inference={self.inference!r} is unknown; choose 'labels' or 'relaxed'")
        if isinstance(self.pairwise, str) and self.pairwise not in ("none", "full", "attractive", "tree"):
            raise ValueError(f"pairwise={self.pairwise!r} is unknown; use 'none', 'full', 'attractive', 'tree' or pairs")
        make_surrogate(self.surrogate)

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Problem:
        X, Y = self._check_matrix(X, fitting=True), check_indicator(y)
        if X.shape[0] != len(Y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(Y)} rows of labels; they must be equal")
        self.pairs_ = self._chosen_pairs(Y)
        self._size = float(np.sqrt(np.mean(row_norms(X) ** 2)))
        # Sparse features are not centred.
        self._scaler = "MaxAbsScaler" if sparse.issparse(X) else "StandardScaler"
        rows = with_constant(X) if self.fit_intercept else X
        problem = MultilabelProblem(
            rows,
            Y,
            self.pairs_,
            isinstance(self.pairwise, str) and self.pairwise == "attractive",
            self.inference == "relaxed",
            self.surrogate,
            sample_weight,
        )
        self.C_ = _usual_C(rows, sample_weight) if self._has_auto_C() else float(self.C)
        return problem

    def _supplement(self) -> None:
        if not hasattr(self, "C_") and not isinstance(self.C, str):
            self.C_ = float(self.C)

    def _chosen_pairs(self, Y: NDArray[np.int8]) -> Ints:
        pairs: Any = self.pairwise
        if isinstance(pairs, str):
            everything = np.array(list(combinations(range(Y.shape[1]), 2)), dtype=np.int64).reshape(-1, 2)
            pairs = {"none": everything[:0], "tree": dependence_tree(Y)}.get(pairs, everything)
        found = np.asarray(pairs, dtype=np.int64).reshape(-1, 2) if np.size(pairs) else np.zeros((0, 2), dtype=np.int64)
        if found.size and (found.min() < 0 or found.max() >= Y.shape[1]):
            raise ValueError(f"pairwise names a label outside of 0 to {Y.shape[1] - 1}; name pairs by the columns of y")
        return found

    def _solver(self, problem: Any, method: Solver | None = None) -> Solver:
        """Where labels of a sample know of each other, steps between remembered sets gain more than the best point of a block.

        Most of all for large C and small gaps. With many labels and small C passes are fewer too, but cost more, so that they may
        take longer together.
        """
        found = super()._solver(problem, method)
        apart = len(self.pairs_) == 0 and type(problem.surrogate) is Margin
        if method is None and self.solver == "auto" and isinstance(found, BCFW) and not apart:
            return replace(found, steps="pairwise", cache=10)
        return found

    def _warn(self, text: str) -> None:
        # Of large features a C of 1 asks for what no solver does quickly; neither more passes nor more time help then.
        size, C = self._size, self._weight_of_hinges()
        if C * size**2 > _LARGE:
            scaled = f"sklearn.pipeline.make_pipeline(sklearn.preprocessing.{self._scaler}(), MultilabelSVM(...))"
            text = (
                f"{text.partition(';')[0]}. The features are too large for C={C:g}: samples have a norm of about "
                f"{size:.2g}, so that it is what {C * size**2:.2g} is for samples of norm 1, and more passes hardly help. "
                f"Put a scaler in front, {scaled}, or use C={_float(1.0 / size**2)} if all columns are about as large"
            )
        warn(f"MultilabelSVM {text}", ConvergenceWarning)

    def _keep(self, weights: Floats) -> None:
        L = len(weights) - len(self.pairs_)
        width = self.n_features_in_ + (1 if self.fit_intercept else 0)
        W = weights[:L].reshape(-1, width)
        self.coef_ = W[:, : self.n_features_in_].copy()
        self.intercept_ = W[:, -1].copy() if self.fit_intercept else np.zeros(len(W))
        self.pair_coef_ = weights[L:].copy()

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Numbers of the labels."""
        if not hasattr(self, "coef_"):
            raise AttributeError("classes_ are known after fit")
        return np.arange(len(self.coef_))

    def _check_fitted(self) -> None:
        pairs = self.pairs_
        if pairs.dtype.kind not in "iu" and (pairs != np.rint(pairs)).any():
            raise ValueError("pairs_ must be whole numbers, the columns of labels")
        self.pairs_ = np.asarray(pairs, dtype=np.int64)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= len(self.coef_)):
            raise ValueError(f"pairs_ names labels outside of 0 to {len(self.coef_) - 1}")
        if isinstance(self.pairwise, str) and self.pairwise == "attractive" and (self.pair_coef_ < 0).any():
            raise ValueError("pair_coef_ has a negative score of a pair; attractive pairs must not have one")

    def decision_function(self, X: Any) -> Floats:
        """Scores of labels without those of pairs, shape (n, L)."""
        check_is_fitted(self, "coef_")
        return np.asarray(self._check_matrix(X) @ self.coef_.T) + self.intercept_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The best sets that inference finds, an indicator matrix of shape (n, L)."""
        scores = self.decision_function(X)
        structure = LabelSetStructure(len(self.coef_), 0, self.pairs_)
        return np.asarray(structure.pairs.best(scores, self.pair_coef_).labels, dtype=np.int64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _float(x: float) -> str:
    return f"{x:.0e}".replace("e-0", "e-").replace("e+0", "e")


def check_indicator(y: Any) -> NDArray[np.int8]:
    """Labels as zeros and ones, shape (n, L)."""
    if sparse.issparse(y):
        y = check_matrix(y).toarray()
    Y = np.asarray(y)
    if Y.ndim != 2:
        raise ValueError(
            f"y has shape {Y.shape}, but an indicator matrix with a row per sample and a column per label is needed; "
            "sklearn.preprocessing.MultiLabelBinarizer makes one of sets"
        )
    if 0 in Y.shape:
        raise ValueError(f"y has shape {Y.shape}; at least one sample and one label are needed")
    if Y.dtype.kind not in "biuf" or not np.isin(Y, (0, 1)).all():
        raise ValueError("Unknown label type: y must consist of zeros and ones, one column per label")
    return Y.astype(np.int8)


def dependence_tree(Y: NDArray[np.int8]) -> Ints:
    """The spanning tree of pairs of labels with the most mutual information (Chow and Liu 1968), shape (L - 1, 2)."""
    own = Y.astype(np.float64)
    n, L = own.shape
    both = own.T @ own
    on = own.sum(axis=0)
    information = np.zeros((L, L))
    for first, second, joint in (
        (on, on, both),
        (on, n - on, on[:, None] - both),
        (n - on, on, on[None] - both),
        (n - on, n - on, n - on[:, None] - on[None] + both),
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            term = joint / n * np.log(n * joint / (first[:, None] * second[None]))
        information += np.where(joint > 0, term, 0.0)
    # Prim's algorithm from the first label.
    inside, best, from_ = np.arange(L) == 0, information[0].copy(), np.zeros(L, dtype=np.int64)
    pairs = []
    for _ in range(L - 1):
        node = int(np.argmax(np.where(inside, -np.inf, best)))
        pairs.append(sorted((int(from_[node]), node)))
        inside[node] = True
        closer = information[node] > best
        best[closer], from_[closer] = information[node][closer], node
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _usual_C(X: Any, sample_weight: ArrayLike | None) -> float:
    """What ``C="auto"`` stands for: samples of weight 2 are there twice, and zeros have no size."""
    squared = float(np.average(row_norms(X) ** 2, weights=None if sample_weight is None else np.asarray(sample_weight)))
    return float(np.clip(1.0 / squared, 1e-30, 1e30)) if squared > 0 else 1.0
