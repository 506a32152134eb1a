"""The small QP and the ranking problem against general-purpose optimisation."""

import pickle
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.reference_programs import MarginProgram, convex_program
from tests.cases.solver_cases import Hidden

from maxmargin import _core
from maxmargin.core import Cut, SparseVector, Tangent, trace_path
from maxmargin.core.solvers import BCFW, KnownCuts, OneSlackCuttingPlane, SimplexQP
from maxmargin.core.solvers.base import Run
from maxmargin.core.solvers.cutting_plane import LinePoint, WorkingSet, _Line
from maxmargin.ranking import RankingProblem, average_precision, ranking_loss


def simplex_gap(qp):
    """How far the solution is from optimal: the Frank-Wolfe gap, a rigorous bound."""
    gradient = qp.gram @ qp.solution - qp.linear
    return float(gradient @ qp.solution - qp.total * gradient.min())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 40),
    rank=st.integers(1, 12),
    total=st.sampled_from([1e-3, 1.0, 1e4]),
    copies=st.booleans(),
)
def test_simplex_qp_is_optimal(seed, size, rank, total, copies):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(size, rank))
    if copies and size > 1:
        points[1:] = points[rng.integers(0, size, size - 1)]
    linear = rng.normal(size=size)
    if copies and size > 1:
        linear[-1] = linear[0]
    qp = SimplexQP(total)
    for k in range(size):
        qp.add(points[: k + 1] @ points[k], linear[k])
        qp.solve()
        alpha = qp.solution
        assert (alpha >= 0).all() and alpha.sum() == pytest.approx(total)
    assert simplex_gap(qp) <= 1e-9 * max(1.0, total**2) * (1 + np.abs(qp.gram).max())


def test_simplex_qp_against_a_proved_optimum():
    rng = np.random.default_rng(2)
    points, linear = rng.normal(size=(8, 4)), rng.normal(size=8)
    gram = points @ points.T
    qp = SimplexQP(2.0)
    for k in range(8):
        qp.add(gram[k, : k + 1], linear[k])
    qp.solve()
    # Variables: a, and points.T @ a, in which the program is separable.
    equal = np.block([[np.ones((1, 8)), np.zeros((1, 4))], [points.T, -np.eye(4)]]), [2, 0, 0, 0, 0]
    bounds = np.repeat([0.0, -np.inf], [8, 4]), np.repeat([2.0, np.inf], [8, 4])
    optimum = convex_program(
        np.append(-linear, np.zeros(4)), np.repeat([0.0, 1.0], [8, 4]), equal=equal, bounds=bounds, tol=1e-11
    )
    assert -qp.value == pytest.approx(optimum.value, abs=1e-11)
    kept = np.flatnonzero(qp.solution > 0)
    value = qp.value
    qp.keep(kept)
    assert len(qp) == len(kept) and qp.value == pytest.approx(value)


def all_cuts(X, relevant, loss):
    """Every ranking's (psi, loss), from the pairwise definition."""
    positives, negatives = X[relevant], X[~relevant]
    n_pos, n_neg = len(positives), len(negatives)
    psis, deltas = [], []
    # All matrices of inverted pairs that come from a ranking: permutations of signs and of both classes.
    for pattern in combinations(range(n_pos + n_neg), n_pos):
        above = np.array(pattern) - np.arange(n_pos)
        for order_pos in permutations(range(n_pos)):
            for order_neg in permutations(range(n_neg)):
                psi = np.zeros(X.shape[1])
                for i, a in enumerate(above):
                    psi += sum(positives[order_pos[i]] - negatives[order_neg[j]] for j in range(a))
                psis.append(2 * psi / (n_pos * n_neg))
                deltas.append(loss.value(above, n_neg))
    return np.array(psis), np.array(deltas)


@pytest.mark.parametrize("name", ["ap", "ndcg", "auc", "mrr"])
@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
def test_optimum_equals_the_qp_over_all_rankings(name, C):
    rng = np.random.default_rng(11)
    X, relevant = rng.normal(size=(6, 3)), np.array([1, 0, 0, 1, 0, 0], dtype=bool)
    loss = ranking_loss(name)
    psis, deltas = all_cuts(X, relevant, loss)
    optimum = MarginProgram([(psis, deltas)]).optimum(1 / C, tol=1e-11)
    solution = OneSlackCuttingPlane(tol=1e-9).solve(RankingProblem(X, relevant, loss), 1 / C)
    assert solution.converged and solution.certified
    # 1e-9 is the solver's tolerance, 1e-11 rounding.
    assert optimum.bound - 1e-11 <= solution.primal <= optimum.value * (1 + 1e-9) + 1e-11
    assert solution.dual <= optimum.value + 1e-11 and solution.dual <= solution.primal * (1 + 1e-12)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_bounds_rise_below_an_objective_that_bounds_the_loss(C):
    rng = np.random.default_rng(7)
    relevant = rng.random(80) < 0.3
    X = rng.normal(size=(80, 5)) + 0.5 * relevant[:, None]
    problem = RankingProblem(X, relevant, ranking_loss("ap"))
    solution = OneSlackCuttingPlane(tol=1e-5).solve(problem, 1 / C)
    assert len(solution.history.dual) > 3 and (np.diff(solution.history.dual) >= -1e-12).all()
    assert solution.history.dual[-1] <= solution.primal and solution.primal - solution.dual <= 1e-5 * solution.primal
    for weights in (solution.weights, *rng.normal(size=(5, 5))):
        objective = 0.5 * weights @ weights / C + problem.mean_cut(weights).hinge(weights)
        assert objective >= solution.history.dual[-1]
        assert objective >= 1 - average_precision(relevant, X @ weights)


def lists(rng, n=60, d=4):
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + rng.normal(size=n) > 0.7).astype(int) + (X[:, 1] > 1)
    return X, y > np.array([[0], [1]]), np.array([0, 20, 45, n])


def test_scores_carry_the_whole_problem():
    """Inference on scores and the transposed map give the same cut as the model as a whole."""
    rng = np.random.default_rng(0)
    X, relevant, offsets = lists(rng)
    model = RankingProblem(X, relevant, ranking_loss("ndcg"), offsets, rng.random(3))
    weights, other = rng.normal(size=(2, 4))
    found = model.tangent(model.scores(weights))
    cut = model.mean_cut(weights)
    blocks = [model.cut(block, weights) for block in range(model.n_blocks)]
    assert found.hinge == pytest.approx(cut.hinge(weights), rel=1e-12)
    assert found.hinge == pytest.approx(np.mean([block.hinge(weights) for block in blocks]), rel=1e-12)
    np.testing.assert_allclose(cut.psi, np.mean([block.psi for block in blocks], axis=0), atol=1e-12)
    assert model.features(found.gradient) @ other == pytest.approx(found.gradient @ model.scores(other), rel=1e-12)


@pytest.mark.parametrize("bounds", [None, (0.0, 0.5)])
@pytest.mark.parametrize("lam", [1.0, 1e-3])
def test_line_search_with_and_without_scores(bounds, lam):
    X, relevant, offsets = lists(np.random.default_rng(1))
    model = RankingProblem(X, relevant, ranking_loss("ap"), offsets)
    solver = OneSlackCuttingPlane(tol=1e-6)
    scored, opaque = (solver.solve(problem, lam, bounds=bounds) for problem in (model, Hidden(model)))
    for solution in (scored, opaque):
        assert solution.certified and solution.converged
        assert (np.diff(solution.history.primal) <= 0).all()
        w = solution.weights
        assert bounds is None or ((w >= 0) & (w <= 0.5)).all()
        assert solution.primal == pytest.approx(lam / 2 * w @ w + model.mean_cut(w).hinge(w), rel=1e-12)
    assert scored.primal == pytest.approx(opaque.primal, rel=2e-6)
    assert scored.dual <= opaque.primal + 1e-12 and opaque.dual <= scored.primal + 1e-12


@pytest.mark.parametrize("bounds", [None, (-0.1, 0.5)])
def test_warm_start_keeps_the_cuts(bounds):
    X, relevant, offsets = lists(np.random.default_rng(2))
    model = RankingProblem(X, relevant, ranking_loss("ap"), offsets)
    solver = OneSlackCuttingPlane(tol=1e-5)
    first = solver.solve(model, 1e-2, bounds=bounds)
    cold, warm = (solver.solve(model, 8e-3, bounds=bounds, start=start) for start in (None, first))
    assert warm.converged and warm.passes < cold.passes
    assert warm.primal == pytest.approx(cold.primal, rel=2e-5)


@pytest.mark.parametrize("hide", [False, True])
def test_slopes_of_a_line_are_differences_of_the_objective(hide):
    X, relevant, offsets = lists(np.random.default_rng(3))
    model = RankingProblem(X, relevant, ranking_loss("ap"), offsets)
    run = Run(OneSlackCuttingPlane(), Hidden(model) if hide else model, 0.7, None)
    rng = np.random.default_rng(4)
    for _ in range(5):
        weights, target = 0.3 * rng.normal(size=(2, model.n_features))
        line = _Line(run, LinePoint.at(run, weights, run.problem.scores(weights), 0.0), target)
        for place in (0.0, 0.4, 1.0):
            before, point, after = (line._look(place + h) for h in (-1e-6, 0.0, 1e-6))
            w = (1 - place) * weights + place * target
            assert point.primal == pytest.approx(0.35 * w @ w + model.mean_cut(w).hinge(w), rel=1e-12)
            # Between the slopes on both sides, should there be a kink just here.
            ends = sorted([point.primal - before.primal, after.primal - point.primal])
            assert ends[0] / 1e-6 - 1e-6 <= line._slope(point) <= ends[1] / 1e-6 + 1e-6


def test_tiny_C_still_ranks():
    """The gap is below the tolerance at once; the weights are small, but not zero."""
    X, relevant, offsets = lists(np.random.default_rng(3))
    model = RankingProblem(X, relevant, ranking_loss("ap"), offsets)
    solution = OneSlackCuttingPlane().solve(model, 1e9)
    assert solution.converged and 0 < np.abs(solution.weights).max() < 1e-8


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12, 1e18])
def test_variables_of_any_size(size):
    """Features of any size make multipliers of any size, next to a total of one."""
    rng = np.random.default_rng(0)
    psi, losses = rng.normal(size=(6, 4)), rng.random(6)

    def solved(gram, losses):
        qp = SimplexQP(1.0)
        qp.add(np.zeros(1), 0.0)
        rows = np.zeros((7, 7))
        rows[1:, 1:] = gram
        for k in range(1, 7):
            qp.add(np.ascontiguousarray(rows[k, : k + 1]), float(losses[k - 1]))
            qp.solve()
        return qp

    # So small that the sum is far from one also for small features.
    plain, scaled = solved(psi @ psi.T, 1e-2 * losses), solved(size * (psi @ psi.T), 1e-2 * min(1.0, size) * losses)
    factor = max(1.0, size)
    np.testing.assert_allclose(factor * scaled.solution[1:], plain.solution[1:], rtol=1e-6, atol=1e-12)


def bounds_of(rows, losses, alpha, weights, lam):
    """Objective at the weights under all cuts, and the dual objective, in numbers of 64 bits of mantissa."""
    rows, losses, weights = (np.asarray(array, dtype=np.longdouble) for array in (rows, losses, weights))
    ridge = lam * (weights @ weights) / 2
    return float(ridge + (losses - rows @ weights).max()), float(losses @ alpha - ridge)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(2, 30),
    d=st.integers(1, 6),
    sizes=st.sampled_from([(1e-3, 1.0), (1.0, 1e3), (1.0, 1e9), (1e4, 1e6), (3e7, 1.0), (1e10, 1.0)]),
    copies=st.booleans(),
)
def test_cuts_of_any_size_are_solved(seed, size, d, sizes, copies):
    """The minimiser of the cuts is as good as the multipliers say, however large cuts and however different columns are."""
    scale, spread = sizes
    rng = np.random.default_rng(seed)
    rows = scale * rng.normal(size=(size, d)) * spread ** rng.random(d)
    rows[0], losses = 0, np.append(0.0, rng.random(size - 1))
    if copies and size > 2:
        which = rng.integers(1, size, size - 1)
        rows[1:], losses[1:] = rows[which], losses[which]
    cuts = WorkingSet(d, 1.0)
    for row, loss in zip(rows[1:], losses[1:], strict=True):
        cuts.append(Cut(row, loss))
        cuts.settle()
    primal, dual = bounds_of(rows, losses, cuts._qp.solution, cuts.weights, 1.0)
    # Weights are doubles, whatever the multipliers are.
    rounding = 1e-14 * (1 + (np.abs(rows) @ np.abs(cuts.weights)).max())
    assert dual <= primal + rounding and primal - cuts.value <= 1e-6 * primal + rounding


def test_twice_the_digits_are_needed():
    """Weights that are the difference of large cuts are lost in doubles, and exact to rounding with twice the digits."""
    rng = np.random.default_rng(0)
    rows = np.vstack([np.zeros(4), 3e7 * rng.normal(size=(20, 4))])
    losses = np.append(0.0, rng.random(20))
    start = np.append(1.0, np.zeros(20))
    qp = SimplexQP.of(1.0, rows @ rows.T, losses, start)
    qp.solve()
    alpha, weights = _core.solve_precisely(rows, losses, np.ones(21, dtype=bool), start)
    rough, fine = (bounds_of(rows, losses, *found, 1.0) for found in ((qp.solution, qp.solution @ rows), (alpha, weights)))
    assert rough[0] - rough[1] > 1e-3 * rough[0]
    assert 0 <= fine[0] - fine[1] <= 1e-9 * fine[0]
    with pytest.raises(ValueError, match="one entry for each row"):
        _core.solve_precisely(rows, losses[1:], np.ones(21, dtype=bool), start)
    with pytest.raises(ValueError, match="first variable must be in the sum"):
        _core.solve_precisely(rows, losses, np.zeros(21, dtype=bool), start)


# ---- warm starts --------------------------------------------------------------------------------------------------------------


def one_list(n=2000, d=10, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    relevant = X @ rng.normal(size=d) + 2 * np.sqrt(d) * rng.normal(size=n) > 2.5 * np.sqrt(d)
    return RankingProblem(X, relevant, ranking_loss("ap"))


def test_warm_starts_help():
    """Counts of passes; distributed.md 18.1 has those of a start at the minimiser of the old cuts."""
    model, solver = one_list(), OneSlackCuttingPlane(tol=1e-4)
    cold = solver.solve(model, 1e-3)
    assert solver.solve(model, 1e-3, start=cold).passes <= 1
    half = OneSlackCuttingPlane(tol=1e-4, max_passes=cold.passes // 2).solve(model, 1e-3)
    assert half.passes + solver.solve(model, 1e-3, start=half).passes <= cold.passes + 5
    for factor in (0.01, 0.1, 0.5, 2, 10, 100):
        from_nothing, warm = (solver.solve(model, factor * 1e-3, start=start) for start in (None, cold))
        assert warm.converged and warm.certified and warm.passes <= 0.3 * from_nothing.passes
        assert warm.primal == pytest.approx(model_primal(model, warm.weights, factor * 1e-3), rel=1e-12)
        assert warm.dual <= from_nothing.primal and from_nothing.dual <= warm.primal


def model_primal(model, weights, lam):
    return lam / 2 * weights @ weights + model.mean_cut(weights).hinge(weights)


def test_counts_of_passes_and_cuts():
    """A wrong slope on the line, and cuts that are dropped too early or never, change no optimum, only these."""
    assert OneSlackCuttingPlane(tol=1e-5).solve(one_list(), 1e-1).passes <= 70
    long = OneSlackCuttingPlane(tol=1e-9).solve(one_list(1000, 20), 1e-3)
    assert long.passes <= 550 and 110 <= len(long.state.cuts) <= 165


@pytest.mark.parametrize("bounds", [None, (-0.1, 0.5)])
def test_solutions_can_be_pickled(bounds):
    model, solver = one_list(300, 4), OneSlackCuttingPlane(tol=1e-5)
    first = solver.solve(model, 1e-2, bounds=bounds)
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.weights, first.weights)
    direct, carried = (solver.solve(model, 8e-3, bounds=bounds, start=start) for start in (first, again))
    cold = solver.solve(model, 8e-3, bounds=bounds)
    assert carried.converged and carried.certified and carried.passes <= direct.passes + 3 < cold.passes
    assert carried.dual <= cold.primal and cold.dual <= carried.primal
    qp = pickle.loads(pickle.dumps(first.state.cuts._qp))
    np.testing.assert_array_equal(qp.gram, first.state.cuts._qp.gram)
    assert qp.value == pytest.approx(first.state.cuts._qp.value, rel=1e-12)


def test_an_oracle_that_was_caught_is_asked_again():
    """What it said of the best weights is not believed in a second run."""
    model, solver = one_list(300, 4), OneSlackCuttingPlane(tol=1e-5)
    first = solver.solve(model, 1e-2)
    first.certificate = replace(first.certificate, proved=False)
    assert solver.solve(model, 1e-2, start=first).passes >= 1


def test_known_cuts():
    model, solver = one_list(300, 4), OneSlackCuttingPlane(tol=1e-5)
    cold = solver.solve(model, 1e-2)
    rng = np.random.default_rng(0)
    cuts = [model.mean_cut(cold.weights + 0.05 * rng.normal(size=4)) for _ in range(30)]
    for start in (KnownCuts(cuts), KnownCuts(cuts, cold.weights)):
        warm = solver.solve(model, 1e-2, start=start)
        assert warm.certified and warm.converged and warm.passes < cold.passes
        assert warm.dual <= cold.primal and cold.dual <= warm.primal
    with pytest.raises(TypeError, match="start must be a Solution, since BCFW cannot begin with cuts"):
        BCFW().solve(model, 1e-2, start=KnownCuts(cuts))


# ---- the working set ----------------------------------------------------------------------------------------------------------


def random_set(rng, lam, bounds, m=12, d=5):
    cuts = [Cut(psi, float(loss)) for psi, loss in zip(rng.normal(size=(m, d)), rng.random(m), strict=True)]
    cuts.append(Cut(SparseVector(np.array([1, 3], dtype=np.int32), np.array([0.5, -2.0])), 0.7))
    known = WorkingSet(d, lam, bounds)
    for cut in cuts:
        known.append(cut)
        known.settle()
    return known, cuts


def reference_value(cuts, lam, bounds, d=5):
    # No hinge is below zero.
    table, losses = [np.zeros(d), *(cut.dense(d) for cut in cuts)], [0.0, *(cut.loss for cut in cuts)]
    return MarginProgram([(np.array(table), np.array(losses))], bounds=bounds).optimum(lam, tol=1e-11).value


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("width", [None, 0.02, 0.2, 1.0])
def test_working_set_against_a_proved_optimum(seed, width):
    """With many and with few weights at their bounds, at other lambda, and within other bounds."""
    rng = np.random.default_rng(seed)
    boxes = [None if width is None else (centre - width, centre + width) for centre in rng.normal(scale=0.1, size=(2, 5))]
    known, cuts = random_set(rng, 0.1, boxes[0])
    for found, lam, bounds in (
        (known, 0.1, boxes[0]),
        (known.at(0.003, boxes[0]), 0.003, boxes[0]),
        (known.at(2.0, boxes[1]), 2.0, boxes[1]),
        (known.at(0.1, None), 0.1, None),
    ):
        best = reference_value(cuts, lam, bounds)
        assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9)
        w = found.weights
        assert bounds is None or ((bounds[0] <= w) & (w <= bounds[1])).all()
        hinge = max(0.0, *(cut.hinge(w) for cut in cuts))
        assert lam / 2 * w @ w + hinge == pytest.approx(best, rel=1e-9, abs=1e-9)
        if found.curve is not None:
            b, c = found.curve
            assert b - c / lam == pytest.approx(found.value)
            for other in (0.01 * lam, 0.5 * lam, 3 * lam):
                assert b - c / other <= reference_value(cuts, other, bounds) + 1e-11


def test_a_set_that_is_borrowed_from_does_not_change_its_copies():
    rng = np.random.default_rng(0)
    known, cuts = random_set(rng, 0.1, None)
    other = known.at(0.05, None)
    value = other.value
    for _ in range(3):
        known.settle(0)
    known.append(Cut(rng.normal(size=5), 3.0))
    known.settle(0)
    assert value == pytest.approx(reference_value(cuts, 0.05, None), rel=1e-9)
    assert other.at(0.05, None).value == pytest.approx(value, rel=1e-12)


def test_a_late_set_still_bounds_from_below():
    rng = np.random.default_rng(1)
    bounds = (np.full(5, -0.1), np.full(5, 0.1))
    known = WorkingSet(5, 0.01, bounds)
    cuts = [Cut(psi, float(loss)) for psi, loss in zip(rng.normal(size=(12, 5)), rng.random(12), strict=True)]
    for cut in cuts:
        known.append(cut)
    known.settle(late=lambda: True)
    early = known.value
    known.settle()
    assert 0 < early <= known.value + 1e-15 and known.value == pytest.approx(reference_value(cuts, 0.01, bounds), rel=1e-9)


# ---- opaque scores, and oracles that know bounds ------------------------------------------------------------------------------


class Handle:
    """Scores as a solver may know them: no array, and no way to the numbers."""

    __array_ufunc__ = None

    def __init__(self, values):
        self._values = values

    def __add__(self, other):
        return Handle(self._values + other._values)

    def __sub__(self, other):
        return Handle(self._values - other._values)

    def __mul__(self, factor):
        return Handle(self._values * float(factor))

    def __neg__(self):
        return Handle(-self._values)

    def __matmul__(self, other):
        return float(self._values @ other._values)

    def ravel(self):
        return self


class FarAway(RankingProblem):
    """A ranking problem whose scores stay elsewhere; its oracle may only know a bound."""

    missed = 0.0

    def scores(self, weights):
        return Handle(super().scores(weights))

    def tangent(self, scores):
        found = super().tangent(scores._values)
        bound = found.hinge + self.missed if self.missed else None
        return Tangent(found.hinge, found.loss, Handle(found.gradient), bound)

    def features(self, coefficients):
        return super().features(coefficients._values)


def test_scores_may_be_opaque():
    X, relevant, offsets = lists(np.random.default_rng(1))
    near, far = (kind(X, relevant, ranking_loss("ap"), offsets) for kind in (RankingProblem, FarAway))
    for bounds in (None, (0.0, 0.5)):
        one, other = (OneSlackCuttingPlane(tol=1e-6).solve(model, 1e-2, bounds=bounds) for model in (near, far))
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.passes == other.passes and other.certified


def test_an_oracle_that_knows_a_bound():
    """The rest of the gap is the oracle's, and the run ends when nothing else is left."""
    X, relevant, offsets = lists(np.random.default_rng(1))
    near, far = (kind(X, relevant, ranking_loss("ap"), offsets) for kind in (RankingProblem, FarAway))
    far.missed = 0.01
    exact, bounded = (OneSlackCuttingPlane(tol=1e-6).solve(model, 1e-2) for model in (near, far))
    assert exact.oracle_gap == 0 and exact.status == "converged"
    assert bounded.status == "converged" and bounded.certified and bounded.oracle_gap == pytest.approx(0.01, rel=1e-3)
    assert bounded.gap - bounded.oracle_gap <= 1e-6 * bounded.primal
    assert bounded.primal == pytest.approx(model_primal(near, bounded.weights, 1e-2) + 0.01, rel=1e-12)
    assert bounded.dual <= exact.primal
    loose = OneSlackCuttingPlane(epsilon=0.02).solve(far, 1e-2)
    assert loose.status == "converged" and loose.gap <= 0.02


def test_a_path_costs_less_than_a_grid():
    """Passes: solves in between begin between two solutions, and cuts bound the optimum between solves."""
    model, solver = one_list(), OneSlackCuttingPlane(epsilon=0.002)
    path = trace_path(model, epsilon=0.002, lambda_min=1e-4, solver=solver)
    grid = sum(solver.solve(model, lam).passes for lam in np.geomspace(1, 1e-4, 20))
    assert path.complete and path.certified and path.total_passes <= min(40, 0.1 * grid) and len(path) <= 12
