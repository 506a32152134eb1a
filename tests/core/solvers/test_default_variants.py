"""``BCFW()`` and ``Subgradient()`` are the variants that need the fewest passes; the published ones have to be asked for."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from tests.cases.reference_cases import QUERY, RELEVANT, X, problems

from maxmargin import MulticlassSVM
from maxmargin.core import SOLVERS
from maxmargin.core.solvers import BCFW, ConvergenceWarning, Subgradient
from maxmargin.ranking import RankingProblem, ranking_loss

IRIS, KINDS = load_iris(return_X_y=True)


def test_named_solvers_are_the_variants_that_win():
    assert SOLVERS["bcfw"]() == BCFW(steps="pairwise") != BCFW(steps="fw")
    assert SOLVERS["subgradient"]() == Subgradient(average="last_half") != Subgradient(average="rising")


@pytest.mark.parametrize("name", ["chains", "ranking"])
def test_default_bcfw_closes_the_gap_in_fewer_passes_than_the_published_one(name):
    problem = problems()[name]
    lam = 1.0 if name == "chains" else 0.05
    ours, published = (solver.solve(problem, lam) for solver in (BCFW(tol=1e-4), BCFW(tol=1e-4, steps="fw")))
    assert ours.converged and ours.certified and ours.passes < 0.7 * published.passes


def test_default_bcfw_leaves_a_smaller_gap_after_the_same_passes():
    ours, published = (MulticlassSVM(C=10, solver=solver) for solver in (BCFW(), BCFW(steps="fw")))
    for model in (ours, published):
        with pytest.warns(ConvergenceWarning):
            model.fit(IRIS, KINDS)
    assert ours.certified_ and ours.dual_gap_ < 0.3 * published.dual_gap_


def test_default_subgradient_trains_where_rising_averages_are_zero():
    lists = RankingProblem(X, RELEVANT > 0, ranking_loss("ap"), np.arange(0, len(X) + 1, QUERY))
    ours, published = (
        solver.solve(lists, 1e-3) for solver in (Subgradient(max_passes=50), Subgradient(average="rising", max_passes=50))
    )
    assert ours.certified and ours.primal < published.primal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MulticlassSVM(C=10, solver="subgradient", max_iter=200).fit(IRIS, KINDS)
    assert model.score(IRIS, KINDS) > 0.9 and model.dual_objective_ > 0


def test_variants_refuse_what_they_would_ignore():
    with pytest.raises(ValueError, match="hybrid=True needs steps='fw'"):
        BCFW(hybrid=True)
    with pytest.raises(ValueError, match=r"batch_size=2 needs average='rising'"):
        Subgradient(batch_size=2)
    assert BCFW(hybrid=True, steps="fw").hybrid and Subgradient(batch_size=2, average="rising").batch_size == 2
