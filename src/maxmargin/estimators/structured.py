"""Structured SVMs on graphs, and on whatever a user's model describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.cuts import Problem
from maxmargin.estimators.base import BLOCKWISE, CERTIFICATE, Estimator, Facility, weighted
from maxmargin.models import Graph, GraphModel, StructuredModel, UserProblem
from maxmargin.solvers import Solver


@dataclass(eq=False, repr=False)
class GraphSVM(Estimator):
    """Two labels on the nodes of graphs, with learned attraction between neighbours; exact by minimum cuts.

    A data set is a list of ``(features (L, p), edges (E, 2))`` or ``(features, edges, edge_features (E, q))`` with edge
    features ``>= 0`` (a single 1 by default); labels are a list of arrays of 0 and 1 of shape (L,).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per graph.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`. Bounds are those of ``coef_``, row by row, and of ``edge_coef_``.

    Attributes
    ----------
    coef_ : array of shape (2, p)
        Weights of the node features for each label.
    n_features_in_ : int
        p.
    edge_coef_ : array of shape (q,)
        Penalties for different labels on an edge; never negative.
    primal_objective_, dual_objective_, dual_gap_, oracle_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.estimators.Estimator`.
    """

    C: float = 1.0
    _: KW_ONLY
    bounds: tuple[ArrayLike, ArrayLike] | None = None
    solver: str | Solver = "auto"
    warm_start: bool = False

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = BLOCKWISE
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, "coef_": (2, "features"), "edge_coef_": ("edge features",)}

    def fit(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> Self:
        """Train on graphs X with labels y; the hinges of graphs are multiplied by ``sample_weight``."""
        return self._fit(X, y, sample_weight=sample_weight)

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> Problem:
        problem = GraphModel([_graph(k, x) for k, x in enumerate(X)], [np.asarray(labels).astype(np.int64) for labels in y])
        self.n_features_in_ = problem.n_inputs
        return weighted(problem, sample_weight)

    def _keep(self, weights: NDArray[np.float64]) -> None:
        self.coef_ = weights[: 2 * self.n_features_in_].reshape(2, -1).copy()
        self.edge_coef_ = weights[2 * self.n_features_in_ :].copy()

    def predict(self, X: Sequence[Any]) -> list[NDArray[np.int64]]:
        """The best labels of every graph."""
        check_is_fitted(self)
        weights = np.concatenate([self.coef_.ravel(), self.edge_coef_])
        graphs = [_graph(k, x) for k, x in enumerate(X)]
        problem = GraphModel(graphs, [np.zeros(len(graph.nodes), dtype=np.int64) for graph in graphs])
        return [problem.best(k, graph, np.zeros((len(graph.nodes), 2)), weights) for k, graph in enumerate(graphs)]

    def score(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> float:
        """Mean over the graphs of the fraction of right labels."""
        return float(np.mean([np.mean(a == np.asarray(b)) for a, b in zip(self.predict(X), y, strict=True)]))


def _graph(k: int, x: Any) -> Graph:
    if len(x) not in (2, 3):
        raise ValueError(f"graph {k} must be (features, edges) or (features, edges, edge_features), but has {len(x)} parts")
    nodes, edges = np.asarray(x[0], dtype=np.float64), np.asarray(x[1], dtype=np.int32).reshape(-1, 2)
    if nodes.ndim != 2 or not np.isfinite(nodes).all():
        raise ValueError(f"features of graph {k} must be a finite array of shape (nodes, features), but have shape {nodes.shape}")
    features = np.asarray(x[2], dtype=np.float64) if len(x) == 3 else np.ones((len(edges), 1))
    if features.shape[:1] != (len(edges),) or features.ndim != 2 or not np.isfinite(features).all():
        raise ValueError(f"edge features of graph {k} must be a finite array of shape ({len(edges)}, q)")
    return Graph(nodes, edges, features)


@dataclass(eq=False, repr=False)
class StructuredSVM(Estimator):
    """Train any :class:`maxmargin.models.StructuredModel` by any solver.

    Parameters
    ----------
    structure : StructuredModel
        Joint features, loss and loss-augmented inference.
    C : float, default=1.0
        Weight of the hinges, one per sample.
    bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`.

    Attributes
    ----------
    coef_ : array of shape (d,)
    primal_objective_, dual_objective_, dual_gap_, oracle_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.estimators.Estimator`.
    """

    structure: StructuredModel
    C: float = 1.0
    _: KW_ONLY
    bounds: tuple[ArrayLike, ArrayLike] | None = None
    solver: str | Solver = "auto"

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = {**BLOCKWISE, "warm_start": "users' inputs cannot be told apart"}
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, "coef_": ("weights",)}

    def fit(self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> Self:
        """Train on inputs X with true outputs y, both as the structure understands them.

        The hinges of samples are multiplied by ``sample_weight``.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    def _prepare(self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> Problem:
        return weighted(UserProblem(self.structure, X, y), sample_weight)

    def _keep(self, weights: NDArray[np.float64]) -> None:
        self.coef_ = weights.copy()

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The structure's best output for every input."""
        check_is_fitted(self)
        return [self.structure.predict(x, self.coef_) for x in X]

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """One minus the mean loss of the predictions."""
        return 1.0 - float(np.mean([self.structure.loss(truth, found) for truth, found in zip(y, self.predict(X), strict=True)]))
