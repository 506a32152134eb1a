"""Structured SVMs on graphs, and on whatever a user's structure describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin._types import Floats, Ints
from maxmargin.cuts import Problem
from maxmargin.estimators.base import BLOCKWISE, CERTIFICATE, Facility, SampleEstimator
from maxmargin.problems import GraphProblem, make_problem
from maxmargin.problems.weighted import weighted
from maxmargin.structures import GraphStructure, Structure, predict
from maxmargin.structures.base import encoded


@dataclass(eq=False, repr=False)
class GraphSVM(SampleEstimator):
    """Two labels on the nodes of graphs, with learned attraction between neighbours; exact by minimum cuts.

    A data set is a list of ``(features (L, p), edges (E, 2))`` or ``(features, edges, edge_features (E, q))`` with edge
    features ``>= 0`` (a single 1 by default); labels are a list of arrays of 0 and 1 of shape (L,).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per graph.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`, which also tells the attributes of the certificate. Bounds are those of
        ``coef_``, row by row, and of ``edge_coef_``.

    Attributes
    ----------
    coef_ : array of shape (2, p)
        Weights of the node features for each label.
    n_features_in_ : int
        p.
    edge_coef_ : array of shape (q,)
        Penalties for different labels on an edge; never negative.
    """

    C: float = 1.0
    _: KW_ONLY
    warm_start: bool = False

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = BLOCKWISE
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, "coef_": (2, "features"), "edge_coef_": ("edge features",)}

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> Problem:
        problem = GraphProblem(X, y)
        self.n_features_in_ = problem.structure.n_inputs
        return weighted(problem, sample_weight)

    def _keep(self, weights: Floats) -> None:
        self.coef_ = weights[: 2 * self.n_features_in_].reshape(2, -1).copy()
        self.edge_coef_ = weights[2 * self.n_features_in_ :].copy()

    def predict(self, X: Sequence[Any]) -> list[Ints]:
        """The best labels of every graph."""
        check_is_fitted(self)
        weights = np.concatenate([self.coef_.ravel(), self.edge_coef_])
        return predict(GraphStructure(self.n_features_in_, len(self.edge_coef_)), X, weights)

    def score(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> float:
        """Mean over the graphs of the fraction of right labels."""
        return float(np.mean([np.mean(a == np.asarray(b)) for a, b in zip(self.predict(X), y, strict=True)]))


@dataclass(eq=False, repr=False)
class StructuredSVM(SampleEstimator):
    """Train any :class:`maxmargin.structures.Structure` by any solver; inputs and outputs are what the structure understands.

    Parameters
    ----------
    structure : Structure
        Joint features, loss and decoder.
    C : float, default=1.0
        Weight of the hinges, one per sample.
    bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`, which also tells the attributes of the certificate.

    Attributes
    ----------
    coef_ : array of shape (d,)
    """

    structure: Structure
    C: float = 1.0

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = {**BLOCKWISE, "warm_start": "users' inputs cannot be told apart"}
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, "coef_": ("weights",)}

    def _prepare(self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> Problem:
        return weighted(make_problem(self.structure, X, y), sample_weight)

    def _keep(self, weights: Floats) -> None:
        self.coef_ = weights.copy()

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The structure's best output for every input."""
        check_is_fitted(self)
        return predict(self.structure, X, self.coef_)

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """One minus the mean loss of the predictions."""
        truths = [encoded(self.structure, k, x, truth)[1] for k, (x, truth) in enumerate(zip(X, y, strict=True))]
        return 1.0 - float(np.mean([self.structure.loss(*pair) for pair in zip(truths, self.predict(X), strict=True)]))
