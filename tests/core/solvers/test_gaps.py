"""No gap is negative: on problems of any scale, with sums in any order, and where solvers go on until rounding stops them."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import RankingSVM, regularization_path
from maxmargin.core import Certificate, Cut, Problem, cancellation_error
from maxmargin.core.path import Solved
from maxmargin.core.solvers import (
    BCFW,
    FrankWolfe,
    InexactOracleWarning,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Subgradient,
)
from maxmargin.core.solvers.base import Run
from maxmargin.multiclass import MulticlassProblem

# They go on until a budget ends: gaps are as small as rounding allows.
TO_THE_END = {
    "bcfw": BCFW(steps="fw", tol=0.0, max_passes=60),
    "pairwise": BCFW(tol=0.0, max_passes=60, steps="pairwise"),
    "exact": BCFW(tol=0.0, max_passes=60, steps="exact"),
    "cache": BCFW(tol=0.0, max_passes=60, steps="all", cache=10),
    "hybrid": BCFW(steps="fw", tol=0.0, max_passes=60, hybrid=True),
    "n-slack": NSlackCuttingPlane(tol=0.0, max_passes=40),
    "one-slack": OneSlackCuttingPlane(tol=0.0, max_passes=60),
    "fw": FrankWolfe(tol=0.0, max_passes=60),
    "subgradient": Subgradient(average="rising", tol=0.0, max_passes=60),
    "pegasos": Subgradient(tol=0.0, max_passes=20, average="last_half"),
    "pl": PartialLinearization(tol=0.0, max_passes=30, temperature=0.1),
}
COSTS = np.array([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 0.5, 0.0]])


def classes(seed, feature_scale=1.0, loss_scale=1.0, n=24, d=5):
    """Rows and columns in an order of their own for every seed; the problem itself is always the same, but for its scale."""
    fixed, order = np.random.default_rng(0), np.random.default_rng(seed)
    X, y = fixed.normal(size=(n, d)), fixed.integers(0, 3, n)
    X[np.arange(n), y] += 1.0
    rows, columns = order.permutation(n), order.permutation(d)
    return MulticlassProblem(X[rows][:, columns] * feature_scale, y[rows], 3, costs=COSTS * loss_scale)


def check_gaps(solution):
    """What is shown of a run: rows of the history, the solution, its certificate in any unit."""
    assert len(solution.history) and min(solution.history.gap) >= 0
    assert solution.gap >= 0 and solution.gap == solution.primal - solution.dual
    for factor in (1e-3, 1 / 3, 7e5):
        shown = solution.certificate.scaled(factor).attributes()
        assert shown["dual_gap_"] >= 0
        assert shown["dual_gap_"] == shown["primal_objective_"] - shown["dual_objective_"]
        assert min(solution.history.scaled(factor).gap) >= 0


@pytest.mark.parametrize("name", TO_THE_END)
@pytest.mark.parametrize("seed", range(4))
def test_gaps_are_not_negative_at_the_optimum(name, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", InexactOracleWarning)
        solution = TO_THE_END[name].solve(classes(seed), 0.05)
    check_gaps(solution)
    assert solution.certified


@pytest.mark.parametrize("exponent", [-498, -100, 100, 498])
@pytest.mark.parametrize("squared", [False, True], ids=["losses", "losses and features"])
@pytest.mark.parametrize("name", TO_THE_END)
def test_a_problem_in_another_unit_has_the_same_gaps(name, exponent, squared):
    # Powers of two (1e-150 to 1e150) change no digit, so whatever is not a part of the objective would show.
    loss_scale, feature_scale = 2.0**exponent, 2.0 ** (exponent // 2) if squared else 1.0
    lam = 0.05 * feature_scale**2 / loss_scale
    with warnings.catch_warnings():
        warnings.simplefilter("error", InexactOracleWarning)
        plain = TO_THE_END[name].solve(classes(0), 0.05)
        solver = TO_THE_END[name]
        if isinstance(solver, PartialLinearization):
            solver = dataclasses.replace(solver, temperature=solver.temperature * loss_scale)
        scaled = solver.solve(classes(0, feature_scale, loss_scale), lam)
    check_gaps(scaled)
    assert scaled.certified
    # Squares of weights of 1e-150 have fewer digits, which may lead to other steps; both are within their gaps of one optimum.
    assert abs(scaled.primal / loss_scale - plain.primal) <= max(plain.gap, scaled.gap / loss_scale) + 1e-12 * plain.primal
    assert scaled.certificate.noise == pytest.approx(loss_scale * plain.certificate.noise, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**20), scale=st.floats(-150, 150), part=st.floats(0, 1), lam=st.floats(-4, 2),
    name=st.sampled_from(["pairwise", "exact", "one-slack", "n-slack", "fw"]),
)  # fmt: skip
def test_gaps_are_not_negative_on_any_scale(seed, scale, part, lam, name):
    feature_scale, loss_scale = 10.0 ** (0.5 * part * scale), 10.0**scale
    problem = classes(seed, feature_scale, loss_scale)
    solution = TO_THE_END[name].solve(problem, 10.0**lam * feature_scale**2 / loss_scale)
    check_gaps(solution)
    assert not solution.certificate.crossed


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e6])
def test_estimators_show_no_negative_gap(C, offset):
    rng = np.random.default_rng(1)
    relevant = rng.random(60) < 0.3
    X = rng.normal(size=(60, 4)) + relevant[:, None] + offset
    model = RankingSVM(C=C, tol=1e-15, max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, relevant)
    assert model.dual_gap_ >= 0 and model.dual_gap_ == model.primal_objective_ - model.dual_objective_
    assert min(model.history_.gap) >= 0


def test_points_of_a_path_show_no_negative_gap():
    rng = np.random.default_rng(2)
    y = rng.random(80) < 0.4
    path = regularization_path(RankingSVM(), rng.normal(size=(80, 3)) + y[:, None], y, epsilon=1e-4, lambda_min=1e-2)
    objectives = 0.5 * path.lambdas * path.squared_norms + path.hinges
    assert (objectives >= path.duals).all()
    assert all(min(one.gap_lo, one.gap_hi) >= 0 for one in path.segments)


def test_a_dual_that_exceeds_the_primal_by_rounding_is_the_primal():
    for scale in (1e-150, 1.0, 1e150):
        met = Certificate(2.0 * scale, (2.0 + 1e-9) * scale, proved=True)
        assert met.dual == met.primal and met.gap == 0 and met.certified and not met.crossed
        far = Certificate(2.0 * scale, (2.0 + 1e-5) * scale, proved=True)
        assert far.gap < 0 and far.crossed and not far.certified


def test_the_bound_of_rounding_follows_from_magnitudes():
    # 1e-11 of what terms add up to: far more than what one sum can be wrong by, and in proportion to it.
    rng = np.random.default_rng(3)
    for scale in (1e-150, 1.0, 1e150):
        terms = rng.normal(size=50_000) * scale
        exact = math.fsum(terms)
        for _ in range(5):
            rng.shuffle(terms)
            in_turn = float(np.add.accumulate(terms)[-1])
            assert abs(in_turn - exact) <= cancellation_error(float(np.abs(terms).sum()))
    assert cancellation_error(3.0) == 3 * cancellation_error(1.0)


class Overstated(Problem):
    """``max(0, loss - w)``, by an oracle that is off by ``error`` everywhere but at zero."""

    n_blocks, n_features = 1, 1

    def __init__(self, loss, error):
        self.loss, self.error = loss, error

    def cut(self, block, weights):
        margin = self.loss - float(weights[0])
        return Cut(np.ones(1), self.loss + self.error * float(weights[0] != 0)) if margin > 0 else Cut(np.zeros(1), 0.0)


@pytest.mark.parametrize("scale", [1e-13, 1.0, 1e13])
def test_an_oracle_that_is_wrong_by_more_than_rounding_is_found_out_on_any_scale(scale):
    with pytest.warns(InexactOracleWarning, match="exceeds the primal"):
        solution = FrankWolfe(tol=0.0, max_passes=30).solve(Overstated(scale, 1e-5 * scale), 1e5 / scale)
    assert not solution.certified


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_rounding_is_that_of_losses_where_the_objective_is_a_small_part_of_them(scale):
    # A warm start may begin here, so that the run has seen no larger objective; it asks for the hinge of zero weights, once.
    run = Run(BCFW(tol=0.0), Overstated(scale, 0.0), 1.0 / scale, None)
    for part in (5e-12, 8e-12):
        run.check(np.ones(1), 1e-9 * scale, (1e-9 + part) * scale)
    assert run.history.gap == [0.0, 0.0] and run.problem.calls == 1
    run.check(np.ones(1), 1e-9 * scale, (1e-9 + 2e-11) * scale)
    assert run.history.gap[-1] < 0 and run.problem.calls == 1


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_points_of_a_path_take_rounding_from_their_dual(scale):
    weights = np.full(3, 0.1)
    objective = 0.5 * scale * float(weights @ weights) + 0.7 * scale
    point = Solved(scale, weights, 0.7 * scale, objective * (1 + 1e-15), 1.0)
    assert point.gap == 0 and point.dual == point.objective(scale)
