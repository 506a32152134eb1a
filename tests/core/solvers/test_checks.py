"""How often exact gaps are measured, and where paths end: counts on real data, the same in every run."""

import numpy as np
from sklearn.datasets import load_digits

from maxmargin.core import trace_path
from maxmargin.core.solvers import BCFW
from maxmargin.multiclass import MulticlassProblem


def digits():
    X, y = load_digits(return_X_y=True)
    return MulticlassProblem(X / 16, y, 10)


def test_checks_that_must_fail_are_not_made():
    """Once a check has shown how stale estimates are, they must be far below the goal; before, it took 26 checks."""
    solution = BCFW(steps="exact", epsilon=0.005).solve(digits(), 1e-4)
    assert solution.certified and len(solution.history.passes) <= 24


def test_the_last_solve_of_a_path_is_above_its_end():
    path = trace_path(digits(), epsilon=0.02, lambda_min=1e-4, solver=BCFW(steps="exact"))
    assert path.complete and path.certified and np.max([segment.gap_lo for segment in path.segments]) <= 0.02
    assert path.lambdas[-1] > 1.2e-4
