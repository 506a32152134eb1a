"""Structured SVMs with hidden parts, by the concave-convex procedure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.training import ListEstimator, check_budgets, train
from maxmargin.models import ImputedModel, LatentModel
from maxmargin.problems import StructuredProblem
from maxmargin.solvers import Solver


class LatentStructuredSVM(ListEstimator):
    """Train a :class:`maxmargin.models.LatentModel`: guess the hidden parts, solve the convex problem, guess again.

    The objective ``1/2 ||w||^2 + C * sum_i [max over (y, h) of loss + score - max over h of the true y's score]`` is not
    convex. It falls from round to round; the result depends on the start and is certified only for the last convex problem.

    Parameters
    ----------
    model : LatentModel
        For example :class:`maxmargin.models.LatentMulticlass`.
    C : float, default=1.0
        Weight of the hinges, one per sample.
    n_starts : int, default=1
        Runs from different first guesses; the lowest objective wins.
    max_rounds : int, default=50
        Most rounds of guessing.
    bounds, solver, tol, max_iter, time_limit, random_state, verbose
        Of the convex problems, as in :class:`maxmargin.StructuredSVM`. Rounds end when the objective falls by less than twice
        ``tol`` of itself.

    Attributes
    ----------
    coef_ : array of shape (d,)
    hidden_ : list
        The hidden parts of the training data.
    objective_ : float
        The non-convex objective at ``coef_``.
    objectives_ : list of float
        After every round of the best run.
    primal_objective_, dual_objective_, dual_gap_, certified_, n_iter_, history_
        Of the last convex problem; see :class:`maxmargin.RankingSVM`.
    """

    def __init__(
        self,
        model: LatentModel,
        C: float = 1.0,
        *,
        n_starts: int = 1,
        max_rounds: int = 50,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.C = C
        self.n_starts = n_starts
        self.max_rounds = max_rounds
        self.bounds = bounds
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Train on inputs X with the visible parts y of the true outputs."""
        check_budgets(self)
        for name in ("n_starts", "max_rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} samples, but y has {len(y)}; they must be equal")
        rng = np.random.default_rng(self.random_state)
        best: dict[str, Any] | None = None
        for _ in range(self.n_starts):
            self._run(X, y, rng)
            if best is None or self.objective_ < best["objective_"]:
                best = {name: value for name, value in vars(self).items() if name.endswith("_")}
        assert best is not None
        for name, value in best.items():
            setattr(self, name, value)
        return self

    def _run(self, X: Sequence[Any], y: Sequence[Any], rng: np.random.Generator) -> None:
        hidden = [self.model.start(x, truth, rng) for x, truth in zip(X, y, strict=True)]
        self.objectives_: list[float] = []
        for _ in range(self.max_rounds):
            problem = StructuredProblem(ImputedModel(self.model), X, list(zip(y, hidden, strict=True)))
            weights = train(self, problem, self.bounds).weights
            hidden = [self.model.impute(x, truth, weights) for x, truth in zip(X, y, strict=True)]
            objective = self._objective(X, y, hidden, weights)
            before = self.objectives_[-1] if self.objectives_ else np.inf
            if objective < before:
                self.coef_, self.hidden_, self.objective_ = weights, hidden, objective
            self.objectives_.append(min(objective, before))
            if before - objective <= 2 * self.tol * abs(objective):
                break

    def _objective(self, X: Sequence[Any], y: Sequence[Any], hidden: list[Any], weights: NDArray[np.float64]) -> float:
        total = 0.0
        for x, truth, h in zip(X, y, hidden, strict=True):
            answer = self.model.loss_augmented(x, truth, weights)
            difference = np.asarray(self.model.joint_feature(x, *answer)) - np.asarray(self.model.joint_feature(x, truth, h))
            total += self.model.loss(truth, *answer) + float(difference @ weights)
        return float(0.5 * weights @ weights + self.C * total)

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The visible part of the best output for every input."""
        return [y for y, _ in self.predict_pairs(X)]

    def predict_pairs(self, X: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Visible and hidden part."""
        check_is_fitted(self)
        return [self.model.predict(x, self.coef_) for x in X]

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """One minus the mean loss of the predictions."""
        pairs = self.predict_pairs(X)
        return 1.0 - float(np.mean([self.model.loss(truth, *pair) for truth, pair in zip(y, pairs, strict=True)]))
