"""Ranking with neighbours: HOB-SVM and HOAP-SVM."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, Int32s, check_choice, check_memory, with_constant
from maxmargin.core import CERTIFICATE, Estimator, Facility, LatentEstimator
from maxmargin.core.solvers import KnownCuts, OneSlackCuttingPlane, Solution, Solver
from maxmargin.labeling import Components, check_edges
from maxmargin.ranking.base import check_numbers, numeric_labels, relevant_labels
from maxmargin.ranking.high_order_problem import HighOrderBinaryProblem, HighOrderRankingProblem, LinkedSamples
from maxmargin.ranking.inference import most_violating_ranking
from maxmargin.ranking.losses import AveragePrecision
from maxmargin.ranking.metrics import average_precision
from maxmargin.ranking.problem import RankingProblem

# Weights of features that vary less would overflow.
_LEAST_SCALE = 1e-303


@dataclass(eq=False, repr=False)
class HighOrderRankingSVM(LatentEstimator):
    """Rank samples that inform each other: neighbours tend to be both relevant or both irrelevant.

    A labeling of all samples has the score ``sum of u . x_i + b over those that are relevant - sum of v . f_ij over neighbours
    with different labels``, with ``v >= 0`` and features ``f_ij >= 0`` of a pair, so that the best one is a minimum cut. The
    score of a sample is the difference of its two max-marginals: that of the best labeling in which it is relevant minus that
    of the best labeling in which it is not. Without neighbours it is ``u . x_i + b``.

    Parameters
    ----------
    loss : {"ap", "accuracy"}, default="ap"
        ``"accuracy"`` is HOB-SVM: a hinge of the balanced error of the labels in which both classes have the same weight, one
        convex problem with a certificate; see :class:`maxmargin.ranking.HighOrderBinaryProblem`.
        ``"ap"`` is HOAP-SVM: a bound of the loss (1 - AP) of the ranking by max-marginals. It is not convex; rounds of convex
        problems, each with a certificate, never raise it.
    C : float, default=10.0
        Weight of the hinge. It is that of the whole list, a mean and not a sum over samples, so that useful values do not depend
        on their number: try 1 to 100, and less where there are few samples for many features.
    eta : float, default=1.0
        What the features of pairs are multiplied by: the larger, the cheaper the influence of neighbours.
    decomposition : {"component", "global"}, default="component"
        Of max-marginals in HOAP-SVM, see :class:`maxmargin.ranking.high_order_problem.HighOrderRankingProblem`. The objective is
        the same; ``"global"``, as published, is slower and ends in worse minima.
    n_neighbors : int, optional
        Where neither ``edges`` nor ``groups`` are given, every sample is joined with so many nearest ones among those it is
        ranked with. By default there are no neighbours then.
    standardize : bool, default=True
        Shift and scale features to mean 0 and variance 1 first. The default features of pairs and useful values of ``C``
        depend on it.
    start : {"best", "accuracy", "first_order"}, default="best"
        What the rounds of HOAP-SVM begin with: HOB-SVM, the ranking SVM without neighbours, or whichever has the lower objective.
    n_starts : int, default=1
        With more than one the other beginning is tried as well, and random ones; the lowest objective wins.
    max_rounds, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.structured.latent.LatentEstimator`, which also tells the attributes of rounds and certificate.

    Attributes
    ----------
    coef_ : array of shape (d,)
    intercept_ : float
        Without neighbours the score of a sample is ``x . coef_ + intercept_``.
    edge_coef_ : array of shape (q,)
        Neighbours with different labels lose ``f . edge_coef_``; not negative.
    objective_ : float
        ``1/2 ||w||^2 + C * hinge``; for ``loss="ap"`` the one that is not convex.
    mean_, scale_ : arrays of shape (d,)
        By which features are standardised.
    edge_features_given_ : bool
        Whether features of pairs came from outside.
    relevance_threshold_ : float
        Labels above it count as relevant.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    maxmargin.RankingSVM : the same without neighbours.
    maxmargin.labeling.binary_max_marginals : the inference inside.

    Notes
    -----
    Neighbours are given as ``edges``, perhaps with ``edge_features``, as ``groups``, all pairs of which are joined, or by
    ``n_neighbors``. The default features of a pair are ``exp(-(x_i - x_j)^2)``, elementwise, of standardised features. Ranking
    new samples needs the edges among them.

    The regulariser is that of the published form, which has weights for both labels: ``1/4 (||u||^2 + b^2) + 1/2 ||v / eta||^2``,
    of standardised features. So without edges ``loss="ap"`` is :class:`maxmargin.RankingSVM` with twice the ``C``.

    The published HOB-SVM has no ``b``, and weighs the classes in the loss but not in the scores. Where few samples are relevant
    the many others outvote them then: on 1,888 samples in groups of 1 to 8, 51 of them relevant, its AP is 0.57, and here 0.79.

    Examples
    --------
    Samples in groups of four, which share their label:

    >>> rng = np.random.default_rng(0)
    >>> def groups(n):
    ...     y = np.repeat(rng.random(n) < 0.3, 4)
    ...     return rng.normal(size=(4 * n, 5)) + 0.7 * y[:, None], y, np.repeat(np.arange(n), 4)
    >>> (X, y, group), (X_new, y_new, new_group) = groups(50), groups(200)
    >>> model = HighOrderRankingSVM().fit(X, y, groups=group)
    >>> alone = HighOrderRankingSVM().fit(X, y)
    >>> print(f"{alone.score(X_new, y_new):.1f} alone, {model.score(X_new, y_new, groups=new_group):.1f} together")
    0.7 alone, 0.9 together
    >>> model.certified_, bool((model.edge_coef_ >= 0).all())
    (True, True)
    """

    loss: Literal["ap", "accuracy"] = "ap"
    C: float = 10.0
    _: KW_ONLY
    eta: float = 1.0
    decomposition: Literal["component", "global"] = "component"
    n_neighbors: int | None = None
    standardize: bool = True
    start: Literal["best", "accuracy", "first_order"] = "best"

    of_blocks = False
    lacks: ClassVar[Mapping[Facility, str]] = {
        "path": "the objective of AP is not convex, so no bound holds between two solutions",
        "bounds": "weights belong to features as they are standardised inside, and those of pairs have the sign that cuts need",
        "sample_weight": "there is one list, whose weight is C",
        "class_weight": "the balanced error and AP weigh the classes already",
        "n_jobs": "one list is one thread",
        "surrogate": "scores are differences of max-marginals, whose concave part is made linear for margin rescaling only",
        "warm_start": "rounds begin with the solution of a convex problem",
    }
    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "n_features_in_": int,
        "coef_": ("n_features_in_",),
        "intercept_": (),
        "edge_coef_": ("edge features",),
        "mean_": ("n_features_in_",),
        "scale_": ("n_features_in_",),
        "edge_features_given_": bool,
        "relevance_threshold_": float,
        "objective_": float,
    }
    _METHOD = OneSlackCuttingPlane()

    # ---- training -----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        edges: ArrayLike | None = None,
        edge_features: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train on one list.

        Parameters
        ----------
        X : array of shape (n, d)
            Features.
        y : array of shape (n,)
            Relevance, coded as for :class:`maxmargin.RankingSVM`.
        edges : int array of shape (E, 2), optional
            Pairs of samples that are neighbours. A pair counts once, whatever its order; of several features the first ones
            count.
        edge_features : array of shape (E, q), optional
            Not negative; the larger, the more different labels may cost.
        groups : array of shape (n,), optional
            Numbers or strings; all samples of a group are neighbours. Not together with ``edges``.

        Returns
        -------
        self
        """
        return self._fit(X, y, edges=edges, edge_features=edge_features, groups=groups)

    def _takes_any_size(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("loss", self.loss, ("ap", "accuracy"))
        check_choice("decomposition", self.decomposition, ("component", "global"))
        check_choice("start", self.start, ("best", "accuracy", "first_order"))
        self._check_positive("eta")
        if self.n_neighbors is not None:
            self._check_count("n_neighbors")

    def _prepare(self, X: Any, y: ArrayLike, **neighbours: Any) -> HighOrderBinaryProblem | HighOrderRankingProblem:
        check_numbers(y)
        X, labels = self._check_matrix(_dense(X), y, fitting=True, y_numeric=True)
        self.relevance_threshold_, relevant = relevant_labels(labels, "samples")
        self.mean_, self.scale_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            self.mean_, spread = _moments(X)
            # Rounding gives constant features a spread too.
            self.scale_ = np.where(spread > 1e-12 * np.abs(self.mean_), spread, 1.0)
            if (self.scale_ < _LEAST_SCALE).any():
                column = int(np.argmin(self.scale_))
                raise ValueError(
                    f"feature {column} of X varies by {self.scale_[column]:.3g} only, too little for weights that are finite; "
                    "multiply it by a large number"
                )
        self.edge_features_given_ = neighbours.get("edge_features") is not None
        values = (X - self.mean_) / self.scale_
        pairs, features = self._neighbours(values, **neighbours)
        samples = LinkedSamples(with_constant(values), relevant, pairs, self.eta * features)
        if self.loss == "accuracy":
            return HighOrderBinaryProblem(samples)
        return HighOrderRankingProblem(samples, AveragePrecision(), self.decomposition)

    def _train(self, problem: Any) -> Floats:
        if isinstance(problem, HighOrderRankingProblem):
            self._stopped = ""
            try:
                return super()._train(problem)
            finally:
                del self._stopped
        weights = Estimator._train(self, problem)
        self.objective_, self.histories_, self.n_rounds_ = self.primal_objective_, [self.history_], 1
        self.objectives_, self.start_objectives_ = [self.objective_], [self.objective_]
        return weights

    def _first_weights(self, problem: HighOrderRankingProblem, start: int, rng: np.random.Generator) -> Floats | None:
        if start > 1:
            return None
        began = time.perf_counter()
        found: dict[str, Floats] = {}
        wanted = ("accuracy", "first_order") if self.start == "best" or start > 0 else (self.start,)
        for name in wanted:
            left = None if self.time_limit is None else max(1e-9, self.time_limit - (time.perf_counter() - began))
            # The ranking without edges knows the first of the weights only.
            alone = RankingProblem(problem.samples.X, problem.samples.relevant, problem.loss)
            first = HighOrderBinaryProblem(problem.samples) if name == "accuracy" else alone
            if not self._stopped:
                solution = super()._solve(first, self._limited(first, left))
                weights = np.zeros(problem.n_features)
                weights[: len(solution.weights)] = solution.weights
                found[name] = weights
                self._stopped = solution.status if solution.status in ("interrupted", "callback") else ""
        scaled = {name: _best_multiple(problem, weights, self.C) for name, weights in found.items()}
        order = sorted(scaled, key=lambda name: scaled[name][0])
        if self.start != "best" and start > 0:
            order.sort(key=lambda name: name != self.start)
        return scaled[order[min(start, len(order) - 1)]][1]

    def _solve(self, problem: Any, solver: Solver, start: Solution | KnownCuts | None = None) -> Solution:
        if not isinstance(problem, HighOrderRankingProblem):
            return super()._solve(problem, solver, start)
        # With the weights of the last round among those that are compared, the objective cannot rise, however short a round is.
        cuts = start.cuts if isinstance(start, KnownCuts) else ()
        if self._stopped:
            solver = dataclasses.replace(solver, max_passes=1)
        solution = super()._solve(problem, solver, KnownCuts(cuts, problem.imputed_at))
        return dataclasses.replace(solution, status=self._stopped) if self._stopped else solution

    def _keep(self, weights: Floats) -> None:
        d = self.n_features_in_
        self.coef_ = np.sqrt(2.0) * weights[:d] / self.scale_
        self.intercept_ = float(np.sqrt(2.0) * weights[d] - self.mean_ @ self.coef_)
        # Without the sign of a zero.
        self.edge_coef_ = np.abs(self.eta * weights[d + 1 :])

    def _check_fitted(self) -> None:
        if (self.edge_coef_ < 0).any():
            raise ValueError(f"edge_coef_ holds {self.edge_coef_.min():g}, but must not be negative: cuts need the sign")
        if not (self.scale_ > 0).all():
            raise ValueError(f"scale_ holds {self.scale_.min():g}, but must be positive")
        if not self.edge_features_given_ and len(self.edge_coef_) != self.n_features_in_:
            raise ValueError(f"edge_coef_ has {len(self.edge_coef_)} entries, but pairs have {self.n_features_in_} features")

    # ---- neighbours ---------------------------------------------------------------------------------------------------------

    def _neighbours(
        self, values: Floats, edges: ArrayLike | None = None, edge_features: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> tuple[Int32s, Floats]:  # fmt: skip
        """Every pair of neighbours once, and its features."""
        n = len(values)
        if edges is not None and groups is not None:
            raise ValueError(
                "edges and groups were both given; groups stand for the edges of all pairs in them, so leave one out"
            )
        if edge_features is not None and edges is None:
            raise ValueError("edge_features were given without edges; they belong to pairs of samples, so pass these too")
        if groups is not None:
            pairs = _pairs_in_groups(groups, n, values.shape[1])
        elif edges is not None:
            pairs = check_edges(edges, n)
        elif self.n_neighbors is not None and n > 1:
            near = kneighbors_graph(values, min(self.n_neighbors, n - 1)).tocoo()
            pairs = np.column_stack([near.row, near.col]).astype(np.int32)
        else:
            pairs = np.zeros((0, 2), dtype=np.int32)
        low, high = np.minimum(pairs[:, 0], pairs[:, 1]), np.maximum(pairs[:, 0], pairs[:, 1])
        _, first = np.unique(low * np.int64(n) + high, return_index=True)
        kept = np.sort(first[low[first] != high[first]])
        chosen = pairs[kept]
        if edge_features is None:
            check_memory(chosen.shape[0] * values.shape[1] * 8, "the features of all pairs of neighbours")
            return chosen, np.exp(-((values[chosen[:, 0]] - values[chosen[:, 1]]) ** 2))
        return chosen, _check_edge_features(edge_features, len(pairs))[kept]

    # ---- prediction ---------------------------------------------------------------------------------------------------------

    def decision_function(
        self, X: Any, edges: ArrayLike | None = None, edge_features: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Floats:
        """Differences of max-marginals, shape (n,), from samples and the edges among them, as in :meth:`fit`.

        Sort in descending order to rank; positive where the best labeling says that a sample is relevant.
        """
        check_is_fitted(self)
        X = self._check_matrix(_dense(X))
        pairs, features = self._neighbours((X - self.mean_) / self.scale_, edges, edge_features, groups)
        if len(pairs) and (edge_features is not None) != self.edge_features_given_:
            trained = "with edge_features" if self.edge_features_given_ else "without edge_features"
            raise ValueError(f"{type(self).__name__} was trained {trained}; pass edges of the same kind")
        if len(pairs) and features.shape[1] != len(self.edge_coef_):
            wanted = len(self.edge_coef_)
            raise ValueError(
                f"edge_features have {features.shape[1]} columns, but {type(self).__name__} was trained with {wanted}"
            )
        parts = Components(len(X), pairs)
        penalties = features @ self.edge_coef_ if len(pairs) else np.zeros(0)
        gains = X @ self.coef_ + self.intercept_
        labels, costs = parts.costs_of_other_labels(gains[parts.order], penalties[parts.edge_order])
        scores = np.empty(len(X))
        scores[parts.order] = np.where(labels == 1, costs, -costs)
        return scores

    def predict(
        self, X: Any, edges: ArrayLike | None = None, edge_features: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Floats:
        """The same scores: as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X, edges, edge_features, groups)

    def score(
        self, X: Any, y: ArrayLike, edges: ArrayLike | None = None, edge_features: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:  # fmt: skip
        """Average precision on new data, whatever the loss."""
        scores = self.decision_function(X, edges, edge_features, groups)
        return float(average_precision(numeric_labels(y, scores) > self.relevance_threshold_, scores))

    def report(
        self, X: Any, y: ArrayLike, edges: ArrayLike | None = None, edge_features: ArrayLike | None = None,
        groups: ArrayLike | None = None, *, path: str | os.PathLike[str] = "report.html", **options: Any,
    ) -> Path:  # fmt: skip
        """Write one HTML page about the model, judged on labelled samples; see :func:`maxmargin.report.write_report`."""
        scores = self.decision_function(X, edges, edge_features, groups)
        return self._write_report(X, y, path=path, scores=scores, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Features of pairs are dense in any case.
        tags.input_tags.sparse = False
        return tags


def _moments(X: Floats) -> tuple[Floats, Floats]:
    """Means and standard deviations of columns, also where squares of their numbers would overflow or vanish."""
    # Powers of two change no digits.
    exponents = np.frexp(np.abs(X).max(axis=0))[1]
    scaled = np.ldexp(X, -exponents)
    return np.ldexp(scaled.mean(axis=0), exponents), np.ldexp(scaled.std(axis=0), exponents)


def _dense(X: Any) -> Any:
    if sparse.issparse(X):
        raise TypeError("X is a sparse matrix, but pairs of neighbours have dense features; pass X.toarray(), or fewer features")
    return X


def _pairs_in_groups(groups: ArrayLike, n: int, width: int) -> Int32s:
    names = np.asarray(groups)
    if names.shape != (n,):
        raise ValueError(f"groups has shape {names.shape}, but X has {n} samples; every sample needs the name of its group")
    _, codes = np.unique(names, return_inverse=True)
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    check_memory(int((sizes * (sizes - 1) // 2).sum()) * (width + 1) * 8, "all pairs of samples in a group")
    found = [np.zeros((0, 2), dtype=np.int64)]
    for members in np.split(order, np.cumsum(sizes)[:-1]):
        if len(members) > 1:
            first, second = np.triu_indices(len(members), 1)
            found.append(np.column_stack([members[first], members[second]]))
    return np.concatenate(found).astype(np.int32)


def _check_edge_features(features: ArrayLike, n_edges: int) -> Floats:
    values = np.asarray(features, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != n_edges:
        raise ValueError(f"edge_features has shape {values.shape}, but there are {n_edges} edges; it must be ({n_edges}, q)")
    # NaN fails the comparison too.
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        at, column = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"edge_features[{at}, {column}] = {values[at, column]:g} must be finite and not negative")
    return values


def _best_multiple(problem: HighOrderRankingProblem, weights: Floats, C: float) -> tuple[float, Floats]:
    """The lowest objective on the ray of weights, and where: what is imputed is the same everywhere on it."""
    margins, squared = problem.samples.margins(weights), float(weights @ weights)
    relevant, loss = problem.samples.relevant, problem.checked

    def objective(size: float) -> float:
        return 0.5 * size * size * squared + C * most_violating_ranking(size * margins, relevant, loss).hinge

    if squared == 0:
        return objective(0.0), weights
    # The objective at zero bounds how long the weights may be.
    most = np.sqrt(2 * objective(0.0) / squared)
    size = float(minimize_scalar(objective, bounds=(0.0, most), method="bounded", options={"xatol": 1e-4 * most}).x)
    return min((objective(size), size * weights), (objective(1.0), weights), key=lambda pair: pair[0])
