"""Structured SVMs on graphs, and on whatever a user's structure describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.cuts import Problem
from maxmargin.estimators.training import ListEstimator, check_budgets, train
from maxmargin.problems import GraphProblem, make_problem
from maxmargin.solvers import Solver
from maxmargin.structures import GraphStructure, Structure, predict
from maxmargin.structures.base import encoded


class GraphSVM(ListEstimator):
    """Two labels on the nodes of graphs, with learned attraction between neighbours; exact by minimum cuts.

    A data set is a list of ``(features (L, p), edges (E, 2))`` or ``(features, edges, edge_features (E, q))`` with edge
    features ``>= 0`` (a single 1 by default); labels are a list of arrays of 0 and 1 of shape (L,).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per graph.
    solver, tol, max_iter, time_limit, random_state, verbose
        As in :class:`maxmargin.MulticlassSVM`.

    Attributes
    ----------
    coef_ : array of shape (2, p)
        Weights of the node features for each label.
    n_features_in_ : int
        p.
    edge_coef_ : array of shape (q,)
        Penalties for different labels on an edge; never negative.
    primal_objective_, dual_objective_, dual_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.RankingSVM`.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> Self:
        """Train on graphs X with labels y."""
        check_budgets(self)
        problem, bounds = self._prepare(X, y)
        self._keep(train(self, problem, bounds).weights)
        return self

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> tuple[GraphProblem, tuple[ArrayLike, ArrayLike] | None]:
        """The problem to solve, and the bounds of its weights."""
        problem = GraphProblem(X, y)
        self.n_features_in_ = problem.structure.n_inputs
        return problem, problem.bounds

    def _keep(self, weights: NDArray[np.float64]) -> None:
        """Weights of the problem as fitted attributes."""
        self.coef_ = weights[: 2 * self.n_features_in_].reshape(2, -1).copy()
        self.edge_coef_ = weights[2 * self.n_features_in_ :].copy()

    def predict(self, X: Sequence[Any]) -> list[NDArray[np.int64]]:
        """The best labels of every graph."""
        check_is_fitted(self)
        weights = np.concatenate([self.coef_.ravel(), self.edge_coef_])
        return predict(GraphStructure(self.n_features_in_, len(self.edge_coef_)), X, weights)

    def score(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> float:
        """Mean over the graphs of the fraction of right labels."""
        return float(np.mean([np.mean(a == np.asarray(b)) for a, b in zip(self.predict(X), y, strict=True)]))


class StructuredSVM(ListEstimator):
    """Train any :class:`maxmargin.structures.Structure` by any solver.

    Parameters
    ----------
    structure : Structure
        Joint features, loss and decoder.
    C : float, default=1.0
        Weight of the hinges, one per sample.
    bounds : pair of arrays or numbers, optional
        ``lower <= w <= upper``.
    solver, tol, max_iter, time_limit, random_state, verbose
        As in :class:`maxmargin.MulticlassSVM`.

    Attributes
    ----------
    coef_ : array of shape (d,)
    primal_objective_, dual_objective_, dual_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.RankingSVM`.
    """

    def __init__(
        self,
        structure: Structure,
        C: float = 1.0,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.structure = structure
        self.C = C
        self.bounds = bounds
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Train on inputs X with true outputs y, both as the structure understands them."""
        check_budgets(self)
        problem, bounds = self._prepare(X, y)
        self._keep(train(self, problem, bounds).weights)
        return self

    def _prepare(self, X: Sequence[Any], y: Sequence[Any]) -> tuple[Problem, tuple[ArrayLike, ArrayLike] | None]:
        """The problem to solve, and the bounds of its weights."""
        problem = make_problem(self.structure, X, y)
        return problem, problem.bounds if self.bounds is None else self.bounds

    def _keep(self, weights: NDArray[np.float64]) -> None:
        """Weights of the problem as fitted attributes."""
        self.coef_ = weights.copy()

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The best output for every input."""
        check_is_fitted(self)
        return predict(self.structure, X, self.coef_)

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """One minus the mean loss of the predictions."""
        truths = [encoded(self.structure, k, x, truth)[1] for k, (x, truth) in enumerate(zip(X, y, strict=True))]
        return 1.0 - float(np.mean([self.structure.loss(*pair) for pair in zip(truths, self.predict(X), strict=True)]))
