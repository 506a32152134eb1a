"""What all estimators do alike: check parameters, run a solver, keep the certificate."""

from __future__ import annotations

import dataclasses
import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from maxmargin.cuts import Problem
from maxmargin.progress import StatusLine
from maxmargin.queries import query_offsets
from maxmargin.solvers import (
    BCFW,
    ConvergenceWarning,
    ExponentiatedGradient,
    FrankWolfe,
    History,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Solution,
    Solver,
    Subgradient,
)

_BY_NAME: dict[str, type[Solver]] = {
    "bcfw": BCFW,
    "eg": ExponentiatedGradient,
    "fw": FrankWolfe,
    "n_slack": NSlackCuttingPlane,
    "one_slack": OneSlackCuttingPlane,
    "pl": PartialLinearization,
    "subgradient": Subgradient,
}


def choose_solver(solver: str | Solver, problem: Problem) -> Solver:
    """The solver behind a name.

    ``"auto"`` takes cutting planes where there is one block or few weights, and where whole passes are cheap but the model has
    no compiled form; block-coordinate Frank-Wolfe elsewhere.
    """
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        data = problem.block_data
        whole_passes = "whole passes" in problem.capabilities
        # Few weights need few cuts, unless a pass means asking every block in Python where a compiled loop would do.
        few = problem.n_features <= 100 and (data is None or whole_passes)
        if problem.n_blocks == 1 or few or (data is None and whole_passes):
            return OneSlackCuttingPlane()
        exact_steps = data is not None and "exact steps" in problem.capabilities
        return BCFW(steps="exact") if exact_steps else BCFW(steps="pairwise", cache=20)
    try:
        chosen = _BY_NAME[solver]()
    except (KeyError, TypeError):
        known = ", ".join(map(repr, ["auto", *sorted(_BY_NAME)]))
        raise ValueError(f"solver={solver!r} is unknown; choose one of {known}, or pass a Solver object") from None
    averaging = (ExponentiatedGradient, PartialLinearization)
    if isinstance(chosen, averaging) and "expectations" not in problem.capabilities:
        others = ", ".join(repr(name) for name, kind in sorted(_BY_NAME.items()) if not issubclass(kind, averaging))
        raise ValueError(f"solver={solver!r} averages over outputs, which cannot be done for this model; choose one of {others}")
    return chosen


def check_positive(estimator: Any, *names: str) -> None:
    """Complain about parameters that are not positive numbers."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name}={value!r} must be a positive number")


def check_budgets(estimator: Any) -> None:
    """Complain about ``C``, ``tol``, ``max_iter`` and ``time_limit``."""
    check_positive(estimator, "C", "tol")
    if not isinstance(estimator.max_iter, numbers.Integral) or estimator.max_iter < 1:
        raise ValueError(f"max_iter={estimator.max_iter!r} must be a positive integer")
    limit = estimator.time_limit
    if limit is not None and not (isinstance(limit, numbers.Real) and float(limit) > 0):
        raise ValueError(f"time_limit={limit!r} must be a positive number of seconds, or None")


def check_list_weights(sample_weight: ArrayLike | None, qid: ArrayLike) -> NDArray[np.float64] | None:
    """One weight per query, in order of first appearance, from one per sample."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    _, offsets, order = query_offsets(qid, len(np.asarray(qid)))
    if weights.shape != (offsets[-1],):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but one weight for each of the {offsets[-1]} samples is needed"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if order is not None:
        weights = weights[order]
    first = weights[offsets[:-1]]
    if (weights != np.repeat(first, np.diff(offsets))).any():
        raise ValueError("sample_weight is the weight of a query, so all samples of a query must have the same; they differ")
    if not first.any():
        raise ValueError("sample_weight is zero everywhere; at least one query must count")
    return np.asarray(first)


def train(
    estimator: Any,
    problem: Problem,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    start: Solution | None = None,
    method: Solver | None = None,
) -> Solution:
    """Solve for ``1/2 ||w||^2 + C * sum of hinges`` and set the fitted attributes that speak of the certificate.

    A solver that users give as an object keeps its own tolerance and budgets; otherwise those of the estimator apply, and an
    attribute ``_callback``, if there is one, is that of the solver. An estimator whose problem needs one particular ``method``
    gives it here.
    """
    chosen = method if method is not None else getattr(estimator, "solver", "auto")
    solver = choose_solver(chosen, problem)
    line = StatusLine()

    def show(history: History) -> None:
        gap = history.gap[-1] / max(history.primal[-1], 1e-300)
        line.show(f"{type(estimator).__name__}: pass {history.passes[-1]:.0f}, relative gap {gap:.2e}")

    if method is not None or not isinstance(chosen, Solver):
        solver = dataclasses.replace(
            solver,
            tol=estimator.tol,
            max_passes=estimator.max_iter,
            time_limit=estimator.time_limit,
            random_state=getattr(estimator, "random_state", None) or 0,
            callback=getattr(estimator, "_callback", show if estimator.verbose else None),
        )
    factor = estimator.C * problem.n_blocks
    with line:
        solution = solver.solve(problem, 1.0 / factor, bounds=bounds, start=start)
    if not solution.converged:
        budget = "max_iter" if solution.status == "max_passes" else solution.status
        warnings.warn(
            f"{type(estimator).__name__} stopped ({budget}) after {solution.passes:.0f} passes with a relative duality gap of "
            f"{solution.gap / max(solution.primal, 1e-300):.3g}; raise max_iter or time_limit, or lower C",
            ConvergenceWarning,
            stacklevel=3,
        )
    estimator.primal_objective_ = factor * solution.primal
    estimator.dual_objective_ = factor * solution.dual
    estimator.dual_gap_ = factor * solution.gap
    estimator.certified_ = solution.certified
    estimator.n_iter_ = max(1, round(solution.passes))
    estimator.history_ = solution.history.scaled(factor)
    return solution


class ListEstimator(BaseEstimator):
    """An estimator whose data are lists of structures, not a matrix."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.no_validation = True
        return tags
