"""Paths against quadratic programs with all outputs written out: everywhere within epsilon, and what is claimed is true.

Items of the verification plan of the solvers: 6, 8, 9, 10 and 12; item 7 is in test_path_transport.py.
"""

from functools import partial

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.path_cases import Reference, make_case, primal_at
from tests.cases.solver_cases import Hidden, ThreeClasses

from maxmargin.core import CheckedProblem, Cut, Problem, trace_path
from maxmargin.core.path_start import start_of_path
from maxmargin.core.solvers import (
    BCFW,
    FrankWolfe,
    InexactOracleWarning,
    OneSlackCuttingPlane,
    PartialLinearization,
    check_bounds,
)
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem
from maxmargin.surrogates import StructuredProblem

RULES = ("interpolate", "transport")
CASES = ("multiclass", "costs", "binary", "chain", "user", "ranking", "queries", "graph", "separable")
BOUNDS = {"free": None, "positive": (0.0, np.inf), "box": (-0.15, 0.3), "tight": (-0.001, 0.002), "off zero": (0.01, 0.08)}
SOLVERS = {
    "fw": BCFW(steps="fw", max_passes=1e5),
    "pairwise": BCFW(steps="pairwise", cache=10, max_passes=1e5),
    "exact": BCFW(steps="exact", max_passes=1e5),
    "hybrid": BCFW(steps="fw", hybrid=True, sampling="uniform", max_passes=1e5),
    "one slack": OneSlackCuttingPlane(),
    "batch": FrankWolfe(max_passes=1e5),
    "partial": PartialLinearization(temperature=0.05, max_passes=1e5),
}


def bounds_for(case, bounds):
    return make_case(case)[0].bounds if bounds == "own" else BOUNDS[bounds]


def trace(case, solver="pairwise", bounds="free", rule="interpolate", **settings):
    settings = {"epsilon": 0.1, "lambda_min": 0.02, "kappa": 0.5} | settings
    return trace_path(make_case(case)[0], solver=SOLVERS[solver], bounds=bounds_for(case, bounds), rule=rule, **settings)


def check_tiles(path, end):
    """Ranges without a hole, from the first lambda down to the end."""
    highs, lows = np.array([s.hi for s in path.segments]), np.array([s.lo for s in path.segments])
    assert highs[0] == path.lambdas[0] and (highs > lows).all() and (highs[1:] == lows[:-1]).all()
    assert lows[-1] == path.lambda_end and path.lambda_end in (0, end)
    assert (np.diff(path.lambdas) < 0).all() and (path.lambdas > 0).all()
    assert set(path.breakpoints) <= set(highs) and (np.diff(path.breakpoints) < 0).all()


def check_weights(path, reference, lams, precision=1e-9):
    """At every lambda: feasible, and no farther from the optimum than the bound, which is at most epsilon."""
    for lam in lams:
        weights, bound = path.weights(lam), path.gap_bound(lam)
        assert (weights >= reference.lower).all() and (weights <= reference.upper).all()
        assert 0 <= bound <= path.epsilon * (1 + 1e-9)
        behind = primal_at(reference.blocks, weights, lam) - reference.optimum(lam)
        assert -precision <= behind <= bound + precision


def check_points(path, reference):
    """What is said of the solved lambdas; where the closed form is not looked at its hinge is only bounded."""
    for k, lam in enumerate(path.lambdas):
        weights = path.store[k]
        hinge = primal_at(reference.blocks, weights, 0)
        assert path.squared_norms[k] == pytest.approx(weights @ weights, rel=1e-12)
        if k > 0 or path.rule == "interpolate" or not path.closed_form:
            assert path.hinges[k] == pytest.approx(hinge, abs=1e-11)
        assert path.hinges[k] >= hinge - 1e-11
        assert path.duals[k] <= reference.optimum(lam) + 1e-10
    assert len(path) == len(path.lambdas) == len(path.passes) and path.total_passes == pytest.approx(path.passes.sum())


def inside(path, count=5):
    """Lambdas in every range, its ends among them; toward zero by orders of magnitude."""
    lams = []
    for hi, lo, *_ in path.segments:
        lams.extend(np.linspace(hi, lo, count) if lo > 0 else np.geomspace(hi, 1e-6 * hi, count))
    return lams


# ---- item 6: the closed form ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("bounds", ["free", "positive", "box", "tight"])
@pytest.mark.parametrize("case", CASES)
def test_item_6_closed_form(case, bounds, exact):
    problem, blocks = make_case(case)
    box, target = bounds_for(case, "own" if case == "graph" else bounds), 0.04
    limits = check_bounds(box, problem.n_features)
    start = start_of_path(CheckedProblem(problem), target, limits, exact)
    reference = Reference(blocks, box)
    # Dual points from the definition: every block at an output of the largest loss.
    cuts = problem.cuts(range(problem.n_blocks), np.zeros(problem.n_features))
    psi, loss = np.mean([cut.psi for cut in cuts], axis=0), np.mean([cut.loss for cut in cuts])
    assert loss == pytest.approx(np.mean([losses.max() for _, losses in blocks]))
    assert start.lam > 0 and 0 <= start.gap <= target * (1 + 1e-12)
    for factor in (1, 2, 10, 1e3):
        lam = factor * start.lam
        weights = start.direction / lam
        v = psi / lam
        np.testing.assert_allclose(weights, np.clip(v, reference.lower, reference.upper), rtol=1e-12, atol=1e-15)
        assert (weights >= reference.lower).all() and (weights <= reference.upper).all()
        primal = primal_at(blocks, weights, lam)
        gap = primal - (loss - lam * weights @ v + lam / 2 * weights @ weights)
        assert -1e-13 <= gap <= start.gap / factor + 1e-13
        assert -1e-9 <= primal - reference.optimum(lam) <= target / factor + 1e-9
        if factor == 1:
            # Omega of the published rule: the mean hinge under the dual point.
            assert start.hinge - start.gap == pytest.approx(loss - lam * weights @ v, abs=1e-12)
            hinge = primal - lam / 2 * weights @ weights
            assert start.hinge == pytest.approx(hinge, abs=1e-12) if exact else start.hinge >= hinge - 1e-12
            assert not exact or start.gap == pytest.approx(gap, abs=1e-12)
    if not exact and bounds != "tight":
        # Nothing is given away but for the boxes: the bound is the target.
        assert start.gap == pytest.approx(target, rel=1e-12) or bounds == "box"


OPPOSITES = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, -3.0], [-0.5, 3.0]])
TRIVIAL = {
    "outputs that cancel": lambda: (BinaryProblem(OPPOSITES, np.ones(4)), None),
    "classes that cancel": lambda: (MulticlassProblem(OPPOSITES, np.zeros(4, dtype=int), 2), None),
    "a direction that is not allowed": lambda: (BinaryProblem(-np.abs(OPPOSITES), np.ones(4)), (0.0, np.inf)),
    "no weight may move": lambda: (BinaryProblem(OPPOSITES, np.array([1, 1, -1, 1])), (0.0, 0.0)),
    "no losses": lambda: (MulticlassProblem(OPPOSITES, np.array([0, 1, 2, 0]), 3, np.zeros((3, 3))), None),
    "only the truth": lambda: (MulticlassProblem(OPPOSITES, np.zeros(4, dtype=int), 1), None),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", TRIVIAL)
def test_item_6_zero_weights_for_every_lambda(name, rule):
    problem, bounds = TRIVIAL[name]()
    path = trace_path(problem, epsilon=0.01, lambda_min=1e-3, solver=BCFW(), bounds=bounds, rule=rule)
    assert path.complete and path.certified and path.reached_zero and path.closed_form and len(path) == 1 and not path.segments
    for lam in (1e-9, 1e-3, 1.0, 1e6):
        assert not path.weights(lam).any() and path.gap_bound(lam) == 0 and path.model_at(lam) == 0
        best = BCFW(steps="pairwise", tol=1e-9, max_passes=1e4).solve(problem, max(lam, 1e-3), bounds=bounds)
        assert best.dual <= path.hinges[0] + 1e-12 and path.hinges[0] <= best.primal + 1e-12 + 1e-9 * abs(best.primal)
    assert path.total_passes <= 3


# ---- item 8: the path -------------------------------------------------------------------------------------------------------

RUNS = [
    *[("multiclass", solver, "free") for solver in SOLVERS],
    *[("multiclass", "exact", bounds) for bounds in ("positive", "box", "tight")],
    *[("binary", solver, "box") for solver in ("exact", "one slack", "batch")],
    *[("chain", "pairwise", "free"), ("chain", "fw", "positive"), ("costs", "pairwise", "box")],
    *[(case, "one slack", bounds) for case in ("ranking", "queries") for bounds in ("free", "positive")],
    *[("queries", "pairwise", "box"), ("queries", "fw", "free")],
    *[("graph", "pairwise", "own"), ("graph", "one slack", "own")],
    *[("user", "pairwise", "free"), ("user", "fw", "box"), ("user", "one slack", "positive")],
    *[("separable", "exact", "free"), ("separable", "one slack", "free")],
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("case", "solver", "bounds"), RUNS)
def test_item_8_every_range_is_within_epsilon(case, solver, bounds, rule):
    path = trace(case, solver, bounds, rule)
    reference = Reference(make_case(case)[1], bounds_for(case, bounds))
    assert path.certified and path.complete and path.closed_form
    check_tiles(path, 0.02)
    check_points(path, reference)
    check_weights(path, reference, inside(path))
    if rule == "interpolate":
        return
    # The bound of a range is the published one, and a range ends where that reaches epsilon.
    for hi, lo, model, gap_hi, gap_lo in path.segments:
        gap, hinge = hi / 2 * path.squared_norms[model] + path.hinges[model] - path.duals[model], path.hinges[model]
        assert gap_hi == pytest.approx(gap, abs=1e-13) and gap <= 0.5 * path.epsilon * (1 + 1e-9)
        for lam in np.linspace(hi, max(lo, 1e-9), 5)[1:-1]:
            assert path.gap_bound(lam) == pytest.approx(gap + (1 - lam / hi) * (hinge - gap), abs=1e-12)
        if lo not in (0, 0.02):
            assert gap_lo == pytest.approx(path.epsilon, rel=1e-9)
    largest = np.mean([losses.max() for _, losses in make_case(case)[1]])
    ranges = np.log(path.lambdas[0] / 0.02) / -np.log(1 - 0.5 * path.epsilon / largest)
    assert len(path) == len(path.segments) <= 1 + ranges
    # The second rule needs fewer solves.
    assert len(trace(case, solver, bounds)) < len(path)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("case", "bounds"), [("binary", "free"), ("queries", "positive"), ("graph", "own")])
def test_item_8_a_dense_grid(case, bounds, rule):
    """Also above the closed form, with a small kappa and a large one, and at a smaller epsilon."""
    reference = Reference(make_case(case)[1], bounds_for(case, bounds))
    for kappa, epsilon in ((0.05, 0.1), (0.95, 0.1), (0.6, 0.02)):
        path = trace(case, "pairwise", bounds, rule, kappa=kappa, epsilon=epsilon)
        assert path.complete and path.start_gap <= kappa * epsilon * (1 + 1e-12)
        check_weights(path, reference, np.geomspace(100 * path.lambdas[0], max(path.lambda_end, 1e-4), 60))
        for factor in (1, 3, 1e4):
            assert path.gap_bound(factor * path.lambdas[0]) == pytest.approx(path.start_gap / factor, rel=1e-12)
            np.testing.assert_allclose(path.weights(factor * path.lambdas[0]), path.store[0] / factor, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("solver", ["fw", "exact", "one slack"])
def test_item_8_separable_data_end_at_zero(solver, rule):
    path = trace("separable", solver, "free", rule, lambda_min=1e-12)
    assert path.reached_zero and path.lambda_end == 0 and path.complete and path.lambdas[-1] > 1e-3
    last = path.segments[-1]
    # At zero only the hinge is left, and the optimum is zero.
    hinge = primal_at(make_case("separable")[1], path.weights(1e-300), 0)
    assert hinge <= last.gap_lo + 1e-12 and last.gap_lo <= path.epsilon and path.hinges[-1] == pytest.approx(hinge, abs=1e-12)
    check_weights(path, Reference(make_case("separable")[1]), np.geomspace(path.lambdas[-1], 1e-4, 10))
    # Other data never come that far.
    assert not trace("multiclass", solver, "free", rule).reached_zero


@pytest.mark.parametrize("rule", RULES)
def test_a_beginning_of_ones_own(rule):
    """A box without zero has no closed form; with lambda_max it needs none."""
    for case, bounds in (("multiclass", "off zero"), ("multiclass", "free"), ("queries", "off zero")):
        path = trace(case, "pairwise", bounds, rule, lambda_max=3.0)
        assert path.complete and not path.closed_form and path.lambdas[0] == 3 and path.certified
        check_tiles(path, 0.02)
        reference = Reference(make_case(case)[1], BOUNDS[bounds])
        check_points(path, reference)
        check_weights(path, reference, inside(path))
        assert path.gap_bound(3.0) == path.start_gap <= 0.05 and path.model_at(3.0) == 0
        for question in (path.weights, path.gap_bound, path.model_at):
            with pytest.raises(ValueError, match=r"lambda=3\.1 is above the beginning of the path, 3; raise lambda_max"):
                question(3.1)
    with pytest.raises(ValueError, match=r"bounds exclude the weight 0 \(lower\[0\]=0.01, upper\[0\]=0.08\); pass lambda_max"):
        trace("multiclass", "pairwise", "off zero", rule)


# ---- item 9: a problem with a formula -----------------------------------------------------------------------------------------


def one_number():
    """One sample, one weight, psi = loss = 1: w = min(1, 1 / lambda)."""
    return BinaryProblem(np.ones((1, 1)), np.ones(1)), EnumeratedProblem([np.array([[0.0], [1.0]])], [np.array([0.0, 1.0])])


@pytest.mark.parametrize("solver", [BCFW(steps="fw"), BCFW(steps="pairwise"), FrankWolfe()], ids=["fw", "pairwise", "batch"])
def test_item_9_breakpoints_of_the_closed_form(solver):
    for problem in (*one_number(), Hidden(one_number()[0])):
        path = trace_path(problem, epsilon=0.1, kappa=0.5, lambda_min=1e-6, solver=solver, rule="transport")
        assert path.breakpoints[:5] == pytest.approx([20, 18.947368, 16.947060, 15.146083, 13.524406], rel=1e-7)
        assert path.breakpoints[-2:] == pytest.approx([1.259106, 0.647252], rel=1e-6)
        assert len(path.segments) == 22 and path.reached_zero and path.hinges[-1] == pytest.approx(0, abs=1e-12)
        assert path.weights(20.0)[0] == pytest.approx(0.05) and path.hinges[0] - path.start_gap == pytest.approx(0.95)
        np.testing.assert_allclose([path.store[k][0] for k in range(1, 22)], np.minimum(1, 1 / path.lambdas[1:]), rtol=1e-9)
        above, below = path.lambdas[1:-1], path.lambdas[2:]
        np.testing.assert_allclose(below, above * (1 - 0.1 / (1 - np.minimum(1, 1 / above) ** 2 * above)), rtol=1e-9)


def test_item_9_interpolation_of_the_closed_form():
    """The optimum is known, so the bounds are compared with it everywhere."""
    for problem in one_number():
        path = trace_path(problem, epsilon=0.1, kappa=0.5, lambda_min=1e-6, solver=BCFW())
        assert path.reached_zero and len(path) <= 8
        for lam in np.geomspace(100, 1e-9, 300):
            weight, best = path.weights(lam)[0], (1 - 1 / (2 * lam) if lam >= 1 else lam / 2)
            behind = lam / 2 * weight**2 + max(0.0, 1 - weight) - best
            assert -1e-12 <= behind <= path.gap_bound(lam) + 1e-12 <= 0.1 + 2e-12


# ---- item 10: what is not certified -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("hide", [False, True])
def test_item_10_estimates_certify_nothing(hide, rule):
    model, blocks = make_case("multiclass")
    trace_ = partial(trace_path, Hidden(model) if hide else model, epsilon=0.1, lambda_min=0.02, kappa=0.9, rule=rule)
    with pytest.raises(ValueError, match=r"BCFW\(stop='heuristic'\) certifies nothing; use stop='exact', or pass"):
        trace_(solver=BCFW(stop="heuristic"))
    path = trace_(solver=BCFW(stop="heuristic"), certified=False)
    assert path.complete and not path.certified
    assert trace_(solver=BCFW(), certified=False).certified
    # The weights are those of a path, if no more than that.
    reference = Reference(blocks)
    for lam in np.geomspace(path.lambdas[0], 0.02, 20):
        assert primal_at(blocks, path.weights(lam), lam) - reference.optimum(lam) <= 1.0


def test_item_10_oracles_that_are_not_exact():
    class Modest(ThreeClasses):
        exact = False

    model, _ = make_case("multiclass")
    problem = StructuredProblem(Modest(), list(model.X), model.y.tolist())
    with pytest.raises(ValueError, match="the oracle is not exact, so that no path can be certified; pass certified=False"):
        trace_path(problem, epsilon=0.1, lambda_min=0.05, solver=BCFW())
    path = trace_path(problem, epsilon=0.1, lambda_min=0.05, solver=BCFW(), certified=False)
    assert path.complete and not path.certified

    class Wrong(ThreeClasses):
        """Says that it is exact, and is caught."""

        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return int(np.argmin(weights.reshape(3, -1) @ x)) if weights.any() else super().decode(x, weights, truth, a, b)

    problem = StructuredProblem(Wrong(), list(model.X), model.y.tolist())
    with pytest.warns(InexactOracleWarning):
        assert not trace_path(problem, epsilon=0.1, lambda_min=0.05, solver=BCFW(max_passes=50)).certified


class Bounding(Problem):
    """A problem whose oracle knows its maxima up to a number only."""

    def __init__(self, problem, missed):
        self.n_blocks, self.n_features = problem.n_blocks, problem.n_features
        self.problem, self.missed = problem, missed

    def cut(self, block, weights):
        cut = self.problem.cut(block, weights)
        return Cut(cut.psi, cut.loss, cut.hinge(weights) + self.missed)


@pytest.mark.parametrize("rule", RULES)
def test_oracles_that_know_a_bound(rule):
    """The path is certified with their part in the gap, or does not begin."""
    problem, blocks = make_case("multiclass")
    settings_ = {"epsilon": 0.1, "kappa": 0.7, "lambda_min": 0.05, "solver": OneSlackCuttingPlane(), "rule": rule}
    path = trace_path(Bounding(problem, 0.02), **settings_)
    assert path.complete and path.certified and not path.closed_form
    check_weights(path, Reference(blocks), inside(path))
    assert min(path.gap_bound(lam) for lam in inside(path)) >= 0.02 - 1e-9
    with pytest.raises(
        ValueError, match=r"the oracle's bound at weights of zero leaves a gap of 0\.08, and solves .* raise epsilon"
    ):
        trace_path(Bounding(problem, 0.08), **settings_)


# ---- item 12: statistics -------------------------------------------------------------------------------------------------------


def test_item_12_gap_sampling_needs_no_more_passes():
    """On blocks of very different difficulty, over ten seeds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)) * np.where(np.arange(60) < 6, 5.0, 0.2)[:, None]
    model = MulticlassProblem(X, rng.integers(0, 3, 60), 3)
    passes = {
        sampling: sum(
            trace_path(model, epsilon=0.05, lambda_min=0.02, solver=BCFW(sampling=sampling, random_state=100 * seed)).total_passes
            for seed in range(10)
        )
        for sampling in ("gap", "uniform")
    }
    assert passes["gap"] <= passes["uniform"]
