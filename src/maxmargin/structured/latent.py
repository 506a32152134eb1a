"""Structured SVMs with hidden parts, by the concave-convex procedure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats
from maxmargin.core import (
    BLOCKWISE,
    CERTIFICATE,
    Decoded,
    Facility,
    LatentEstimator,
    LatentStructure,
    SampleEstimator,
    check_weights,
    encoded,
)
from maxmargin.surrogates import LatentStructuredProblem, Surrogate, convex_surrogate


@dataclass(eq=False, repr=False)
class LatentStructuredSVM(LatentEstimator, SampleEstimator):
    """Train a :class:`maxmargin.core.LatentStructure`: guess the hidden parts, solve the convex problem, guess again.

    What is given are inputs and the visible parts of the true outputs.
    The objective ``1/2 ||w||^2 + C * sum_i [max over (y, h) of loss + score - max over h of the true y's score]`` is not
    convex. It falls from round to round; the result depends on the start and is certified only for the last convex problem.

    Parameters
    ----------
    structure : LatentStructure
        For example :class:`maxmargin.structured.LatentClasses`.
    C : float, default=1.0
        Weight of the hinges, one per sample.
    n_starts : int, default=1
        Runs from different first guesses; the lowest objective wins. The first begins with the weights that are best for
        coarse inputs, if the structure knows any (the means of bags, say), the others with those for the same inputs under
        random sample weights. Without coarse inputs all are random.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss, a convex one: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, or an object of
        :mod:`maxmargin.surrogates`. The objective falls from round to round under all of them.
    max_rounds, bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.structured.latent.LatentEstimator`, which also tells the attributes of rounds and certificate.

    Attributes
    ----------
    coef_ : array of shape (d,)
    hidden_ : list
        The hidden parts of the training data, at ``coef_``. Files do not keep them.

    Examples
    --------
    Bags of five rows; one of them, nobody says which, is near the mean of the class:

    >>> from maxmargin.structured import LatentClasses
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 100)
    >>> X = rng.normal(size=(100, 5, 6))
    >>> X[np.arange(100), rng.integers(0, 5, 100)] += 4 * np.eye(3, 6)[y]
    >>> model = LatentStructuredSVM(LatentClasses(3), C=0.1).fit(X, y)
    >>> round(model.score(X, y), 1), model.certified_
    (1.0, True)
    """

    structure: LatentStructure
    C: float = 1.0
    surrogate: str | Surrogate = "margin"

    lacks: ClassVar[Mapping[Facility, str]] = {
        **BLOCKWISE,
        "path": "the objective is not convex, so no bound holds between two solutions",
        "warm_start": "users' inputs cannot be told apart",
    }
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, "coef_": ("weights",), "objective_": float}
    not_saved = frozenset({"hidden_"})

    def _prepare(self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None) -> LatentStructuredProblem:
        counts = check_weights(sample_weight, len(X))
        return LatentStructuredProblem(self.structure, X, y, counts, convex_surrogate(self.surrogate))

    def _first_weights(self, problem: LatentStructuredProblem, start: int, rng: np.random.Generator) -> Floats | None:
        inputs = [self.structure.coarse(x) for x in problem.X]
        if any(x is None for x in inputs):
            return None
        # Other starts see the same inputs, but not all of them alike.
        counts = np.ones(len(inputs)) if problem.weights is None else problem.weights
        counts = counts if start == 0 else counts * rng.exponential(size=len(inputs))
        coarse = LatentStructuredProblem(self.structure, inputs, problem.y, counts, problem.surrogate)
        return self._limited(coarse, self.time_limit).solve(coarse, 1.0 / (self.C * coarse.n_blocks)).weights

    def _train(self, problem: Any) -> Floats:
        weights = super()._train(problem)
        self.hidden_ = problem.hidden
        return weights

    def _keep(self, weights: Floats) -> None:
        self.coef_ = weights.copy()

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The visible part of the best output for every input."""
        return [y for y, _ in self.predict_pairs(X)]

    def predict_pairs(self, X: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Visible and hidden part."""
        check_is_fitted(self)
        found = [self.structure.decode(encoded(self.structure, k, x, None)[0], self.coef_) for k, x in enumerate(X)]
        return [answer.output if isinstance(answer, Decoded) else answer for answer in found]

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """One minus the mean loss of the predictions."""
        pairs = self.predict_pairs(X)
        truths = [encoded(self.structure, k, x, truth)[1] for k, (x, truth) in enumerate(zip(X, y, strict=True))]
        return 1.0 - float(np.mean([self.structure.loss(truth, *pair) for truth, pair in zip(truths, pairs, strict=True)]))
