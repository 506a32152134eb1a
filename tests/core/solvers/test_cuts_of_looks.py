"""Which of the looks of a line search become cuts."""

import numpy as np
import pytest

from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.core.solvers.cutting_plane import WorkingSet
from maxmargin.graphs import GraphProblem
from maxmargin.ranking import AveragePrecision, RankingProblem


def graphs(rng, n=6, scale=1.0):
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    y = [rng.integers(0, 3, 4) for _ in range(n)]
    return GraphProblem([(scale * (np.eye(3)[own] + rng.normal(size=(4, 3))), edges) for own in y], y, 3)


@pytest.fixture
def appended(monkeypatch):
    rows, append = [], WorkingSet.append

    def counting(self, cut, *name):
        rows.append(cut)
        append(self, cut, *name)

    monkeypatch.setattr(WorkingSet, "append", counting)
    return rows


@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_every_look_that_has_features_is_a_cut(appended, scale):
    problem = graphs(np.random.default_rng(0), scale=scale)
    found = OneSlackCuttingPlane(tol=1e-4).solve(problem, 0.01, bounds=problem.bounds)
    assert found.certified and len(appended) == found.oracle_calls / problem.n_blocks > 10
    # They are cuts: nowhere above the mean hinge.
    rng = np.random.default_rng(1)
    for _ in range(5):
        weights = rng.normal(size=problem.n_features)
        weights[-1] = abs(weights[-1])
        upper = problem.mean_cut(weights).upper(weights)
        assert all(cut.hinge(weights) <= upper + 1e-9 for cut in appended)


def test_looks_at_scores_alone_stay_cheap(appended):
    rng = np.random.default_rng(0)
    relevant = rng.random(60) < 0.3
    problem = RankingProblem(rng.normal(size=(60, 5)) + 0.5 * relevant[:, None], relevant, AveragePrecision())
    found = OneSlackCuttingPlane(tol=1e-5).solve(problem, 1e-3)
    assert found.certified and 10 < len(appended) < 0.9 * found.oracle_calls
