"""Structured SVMs of whatever a user's structure describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats
from maxmargin.core import BLOCKWISE, CERTIFICATE, Facility, Problem, SampleEstimator, Structure, encoded, predict, weighted
from maxmargin.surrogates import Surrogate, make_problem


@dataclass(eq=False, repr=False)
class StructuredSVM(SampleEstimator):
    """Train any :class:`maxmargin.core.Structure` by any solver; inputs and outputs are what the structure understands.

    Parameters
    ----------
    structure : Structure
        Joint features, loss and decoder.
    C : float, default=1.0
        Weight of the hinges, one per sample.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, ``"micro_f1"``, or an object of
        :mod:`maxmargin.surrogates`.
    bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate.

    Attributes
    ----------
    coef_ : array of shape (d,)
    n_queries_ : int
        Questions to the decoder during training; a search of a surrogate may ask several for one cut.
    """

    structure: Structure
    C: float = 1.0
    surrogate: str | Surrogate = "margin"

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = {**BLOCKWISE, "warm_start": "users' inputs cannot be told apart"}
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, "coef_": ("weights",)}

    def _prepare(self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> Problem:
        return weighted(make_problem(self.structure, X, y, self.surrogate), sample_weight)

    def _train(self, problem: Any) -> Floats:
        weights = super()._train(problem)
        counted = getattr(problem, "queries", None)
        self.n_queries_ = round(self.n_iter_ * problem.n_blocks) if counted is None else int(counted)
        return weights

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
