"""The verification plan of the solvers, item by item, where no other file has it.

Items 1, 2, 4, 5, 6, 7, 9, 11 and 12; item 3 is in test_block_engine.py and test_compiled_loop.py. A dual point is written
out here: a distribution over all outputs of every block.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.svm import LinearSVC
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.reference_steps import Dual
from tests.cases.solver_cases import BOUNDS, LAM, MODELS, Hidden, chain, engine_of, listed, make_model, outputs_of, primal_of

from maxmargin import _core
from maxmargin.core import CheckedProblem
from maxmargin.core.solvers import (
    BCFW,
    ExponentiatedGradient,
    FrankWolfe,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Subgradient,
    check_bounds,
)
from maxmargin.core.solvers.cutting_plane import WorkingSet
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem, RankingProblem, ranking_loss
from maxmargin.structured import LatentClasses
from maxmargin.surrogates import LatentStructuredProblem


def blocks_of(name):
    model = make_model(name)
    return [outputs_of(model, block) for block in range(model.n_blocks)]


def dual_at(blocks, alphas, lam, bounds):
    """The dual point of given distributions."""
    n, d = len(blocks), blocks[0][0].shape[1]
    dual = Dual(n, d, lam, check_bounds(bounds, d))
    for i, ((psi, loss), alpha) in enumerate(zip(blocks, alphas, strict=True)):
        dual.put(i, alpha @ psi, alpha @ loss)
    return dual


def block_gaps(blocks, dual):
    """By the best corner of every block."""
    w = dual.weights
    gaps = []
    for i, (psi, loss) in enumerate(blocks):
        best = int(np.argmax(loss - psi @ w))
        gaps.append(dual.block_gap(i, w, *dual.corner(psi[best], loss[best])))
    return np.array(gaps)


def omegas(blocks, alphas, weights):
    """Mean hinge under the distribution of every block, over n."""
    return np.array([a @ (loss - psi @ weights) for (psi, loss), a in zip(blocks, alphas, strict=True)]) / len(blocks)


def random_alphas(blocks, rng, concentration=1.0):
    return [rng.dirichlet(np.full(len(loss), concentration)) for _, loss in blocks]


def truth_of(psi, loss):
    return int(np.flatnonzero((loss == 0) & ~psi.any(axis=1))[0])


names = st.sampled_from(MODELS)
bounds_of = st.sampled_from(list(BOUNDS))
seeds = st.integers(0, 2**32 - 1)


# ---- item 1: oracles ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=names, seed=seeds, scale=st.sampled_from([0.0, 1.0, 30.0]))
def test_item_1_oracles_equal_enumeration(name, seed, scale):
    """Weights are whole numbers, so that there are ties: values are compared, not arguments."""
    model = make_model(name)
    weights = scale * np.random.default_rng(seed).integers(-2, 3, model.n_features)
    best = [np.max(loss - psi @ weights) for psi, loss in blocks_of(name)]
    cuts = model.cuts(range(model.n_blocks), weights)
    np.testing.assert_allclose([cut.hinge(weights) for cut in cuts], best, atol=1e-11)
    for block, cut in enumerate(cuts):
        alone = model.cut(block, weights)
        np.testing.assert_array_equal(alone.psi, cut.psi)
        assert alone.loss == cut.loss
    assert CheckedProblem(model).mean_cut(weights).hinge(weights) == pytest.approx(np.mean(best), abs=1e-11)
    for cut, (psi, loss) in zip(cuts, blocks_of(name), strict=True):
        assert np.min(np.abs(psi - cut.psi).sum(axis=1) + np.abs(loss - cut.loss)) < 1e-12


# ---- item 2: identities ---------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None, derandomize=True)
@given(name=names, bounds=bounds_of, seed=seeds, log_lam=st.integers(-3, 2), concentration=st.sampled_from([0.1, 1.0, 10.0]))
def test_item_2_identities_at_random_dual_points(name, bounds, seed, log_lam, concentration):
    blocks, rng, lam = blocks_of(name), np.random.default_rng(seed), 10.0**log_lam
    alphas = random_alphas(blocks, rng, concentration)
    dual = dual_at(blocks, alphas, lam, BOUNDS[bounds])
    w, v = dual.weights, dual.v
    scale = 1 + lam * (abs(v) @ abs(v) + w @ w)
    # w = sum of the blocks, l = sum of the blocks.
    np.testing.assert_allclose(v, dual.v_block.sum(axis=0), atol=1e-12 * scale)
    assert dual.l == pytest.approx(np.mean([a @ loss for (_, loss), a in zip(blocks, alphas, strict=True)]), abs=1e-13)
    gaps, omega = block_gaps(blocks, dual), omegas(blocks, alphas, w)
    worst = np.array([np.max(loss - psi @ w) for psi, loss in blocks]) / len(blocks)
    assert (gaps >= -1e-12 * scale).all()
    np.testing.assert_allclose(gaps, worst - omega, atol=1e-11 * scale)
    primal = primal_of(make_model(name), w, lam)
    assert gaps.sum() == pytest.approx(primal - dual.value, abs=1e-11 * scale)
    assert omega.sum() == pytest.approx(dual.l - lam * w @ v, abs=1e-11 * scale)
    # The gap and Omega add up to the mean hinge.
    assert gaps.sum() + omega.sum() == pytest.approx(worst.sum(), abs=1e-11 * scale)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(name=names, bounds=st.sampled_from(["positive", "box", "off zero"]), seed=seeds)
def test_item_2_closed_form_of_the_multipliers_is_the_best(name, bounds, seed):
    """The dual within bounds has multipliers for both sides; clipping stands for the best ones. Infinite bounds have none."""
    blocks, rng = blocks_of(name), np.random.default_rng(seed)
    dual = dual_at(blocks, random_alphas(blocks, rng), LAM, BOUNDS[bounds])
    lower, upper = dual.bounds
    bounded = np.isfinite(upper)

    def value(above, below):
        above = np.where(bounded, above, 0.0)
        reward = above @ np.where(bounded, upper, 0.0) - below @ lower
        return dual.l - LAM / 2 * np.sum((dual.v - above + below) ** 2) - LAM * reward

    above, below = np.maximum(dual.v - upper, 0), np.maximum(lower - dual.v, 0)
    assert value(above, below) == pytest.approx(dual.value, abs=1e-12)
    np.testing.assert_allclose(dual.v - above + below, dual.weights, atol=1e-14)
    for size in (1e-3, 0.1, 1.0):
        others = [np.maximum(b + size * rng.normal(size=len(b)), 0) for b in (above, below)]
        assert value(*others) <= dual.value + 1e-12
    assert value(0 * above, 0 * below) <= dual.value + 1e-12


# ---- item 4: relations between methods ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_item_4_subgradient_steps_are_fixed_frank_wolfe_steps(name):
    """eta = gamma / lambda, for steps that are not those of the solver as well."""
    model = CheckedProblem(make_model(name))
    rng = np.random.default_rng(0)
    for gammas in (2 / (np.arange(300) + 2), rng.random(100), np.full(50, 0.1)):
        w, dual = np.zeros(model.n_features), Dual(1, model.n_features, LAM, None)
        for gamma in gammas:
            cut = model.mean_cut(w)
            w = w - gamma / LAM * (LAM * w - cut.psi)
            (v, loss) = dual.corner(cut.psi, cut.loss)
            dual.shift(0, gamma * (v - dual.v_block[0]), gamma * (loss - dual.l_block[0]))
            # Both look at the same point, so that rounding cannot send them to different outputs.
            np.testing.assert_allclose(w, dual.weights, atol=1e-12)
            w = dual.weights.copy()


@pytest.mark.parametrize("lam", [1.0, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("name", ["costs", "chain"])
def test_item_4_cutting_planes_bound_the_optimum_from_below(name, lam):
    """The value of the working set rises with every cut, stays below the optimum, and ends there."""
    model = CheckedProblem(listed(make_model(name)))
    best = BCFW(steps="pairwise", tol=1e-8, max_passes=1e5).solve(make_model(name), lam)
    master = WorkingSet(model.n_features, lam)
    values = []
    for _ in range(400):
        cut = model.mean_cut(master.weights)
        # Not `master.value`, which remembers the largest; the quadratic program has everything times lambda.
        values.append(master._qp.value / lam)
        primal = lam / 2 * master.weights @ master.weights + cut.hinge(master.weights)
        if primal - values[-1] <= 1e-5 * primal:
            break
        master.append(cut)
        master.settle(10_000)
    assert (np.diff(values) >= -1e-10).all() and values[-1] <= best.primal + 1e-10
    assert primal - values[-1] <= 1e-5 * primal
    several = NSlackCuttingPlane(tol=1e-3).solve(listed(make_model(name)), lam)
    assert several.converged and several.dual <= best.primal + 1e-10 and best.dual <= several.primal + 1e-10
    assert several.primal == pytest.approx(best.primal, rel=2e-3)


# ---- item 5: reductions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [1.0, 0.03])
def test_item_5_binary_is_the_hinge_loss_svm(lam):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] - 0.7 * X[:, 1] + rng.normal(size=60) > 0, 1, -1)
    svc = LinearSVC(loss="hinge", C=1 / (lam * 60), fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(X, y)
    theirs = primal_of(BinaryProblem(X, y), svc.coef_.ravel(), lam)
    for problem in (BinaryProblem(X, y), Hidden(BinaryProblem(X, y))):
        steps = ("fw", "pairwise", "exact") if isinstance(problem, BinaryProblem) else ("pairwise",)
        for kind in steps:
            ours = BCFW(steps=kind, tol=1e-3, max_passes=10_000).solve(problem, lam)
            assert ours.dual <= theirs + 1e-12 and ours.primal - theirs <= ours.gap
            distance = np.linalg.norm(ours.weights - svc.coef_.ravel())
            assert distance <= np.sqrt(2 * ours.gap / lam) + 1e-3 / np.sqrt(lam)


@pytest.mark.parametrize("loss", ["ap", "ndcg"])
@pytest.mark.parametrize("C", [0.5, 5.0])
def test_item_5_one_ranking_is_the_one_slack_problem(loss, C):
    """n = 1 and lambda = 1 / C: every solver of blocks is a solver of the one list."""
    rng = np.random.default_rng(2)
    relevant = rng.random(30) < 0.3
    X = rng.normal(size=(30, 4)) + 0.5 * relevant[:, None]
    model = RankingProblem(X, relevant, ranking_loss(loss))
    best = OneSlackCuttingPlane(tol=1e-8).solve(model, 1 / C)
    exact = NSlackCuttingPlane(tol=1e-4), BCFW(steps="pairwise", tol=1e-4, max_passes=5000)
    for solver in (*exact, BCFW(tol=3e-2), FrankWolfe(tol=3e-2)):
        found = solver.solve(model, 1 / C)
        assert found.converged and found.dual <= best.primal + 1e-10
        assert 0 <= found.primal - best.dual <= found.gap + 2 * best.gap + 1e-12


# ---- items 6 and 7: what a regularization path rests on -------------------------------------------------------------------


def path_start(name, positive, kappa_epsilon):
    """The start of a path at a large lambda, from the definitions: every block at its most expensive output."""
    blocks = blocks_of(name)
    n = len(blocks)
    tops = [int(np.argmax(loss)) for _, loss in blocks]
    mean = np.mean([psi[top] for (psi, _), top in zip(blocks, tops, strict=True)], axis=0)
    projected = np.maximum(mean, 0) if positive else mean
    theta = np.array([np.max(-psi @ projected) for psi, _ in blocks])
    lam = (projected @ projected + theta.mean()) / kappa_epsilon
    alphas = [np.eye(len(loss))[top] for (_, loss), top in zip(blocks, tops, strict=True)]
    own = np.array([psi[top] @ projected for (psi, _), top in zip(blocks, tops, strict=True)])
    return blocks, alphas, lam, (theta + own) / (n * lam)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_item_6_start_of_a_path(name, positive):
    target = 0.05
    blocks, alphas, first, bounds = path_start(name, positive, target)
    assert bounds.sum() == pytest.approx(target, rel=1e-12) and (bounds >= -1e-15).all()
    # The expensive outputs are what the oracle finds at weights zero.
    cuts = make_model(name).cuts(range(len(blocks)), np.zeros(blocks[0][0].shape[1]))
    np.testing.assert_allclose([cut.loss for cut in cuts], [loss.max() for _, loss in blocks])
    for factor in (1, 2, 10, 1e3):
        dual = dual_at(blocks, alphas, factor * first, (0, np.inf) if positive else None)
        gaps = block_gaps(blocks, dual)
        assert (gaps >= -1e-15).all() and (gaps <= bounds / factor + 1e-14).all()
        assert gaps.sum() <= target / factor * (1 + 1e-12)
        # A solver agrees that nothing better is to be had.
        best = BCFW(steps="pairwise", epsilon=1e-9, max_passes=1e4).solve(
            make_model(name), factor * first, bounds=(0, np.inf) if positive else None
        )
        assert primal_of(make_model(name), dual.weights, factor * first) - best.primal <= target / factor + 1e-9


def test_item_6_degenerate_start():
    """Expensive outputs that cancel: zero weights are optimal at every lambda."""
    X = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, -3.0], [-0.5, 3.0]])
    for model in (BinaryProblem(X, np.ones(4)), MulticlassProblem(X, np.zeros(4, dtype=int), 2)):
        mean = CheckedProblem(model).mean_cut(np.zeros(model.n_features))
        assert not mean.psi.any()
        for lam in (1e-3, 1.0, 1e3):
            solution = BCFW(steps="pairwise", tol=1e-9, max_passes=1e4).solve(model, lam)
            assert solution.primal == pytest.approx(1) and np.abs(solution.weights).max() <= 1e-4 / np.sqrt(lam)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=names, bounds=bounds_of, seed=seeds, ratio=st.sampled_from([0.99, 0.7, 0.3, 0.01]))
def test_item_7_transport_to_a_smaller_lambda(name, bounds, seed, ratio):
    """Dual weights of wrong outputs shrink with lambda: the weights stay, and every gap grows by (1 - r) Omega_i."""
    blocks = blocks_of(name)
    alphas = random_alphas(blocks, np.random.default_rng(seed))
    moved = []
    for (psi, loss), alpha in zip(blocks, alphas, strict=True):
        other = ratio * alpha
        other[truth_of(psi, loss)] += 1 - ratio
        moved.append(other)
    before, after = (dual_at(blocks, a, lam, BOUNDS[bounds]) for a, lam in ((alphas, LAM), (moved, ratio * LAM)))
    np.testing.assert_allclose(after.v, before.v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.weights, before.weights, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(after.l_block, ratio * before.l_block, rtol=1e-12, atol=1e-15)
    w = before.weights
    omega = before.l_block - LAM * before.v_block @ w
    np.testing.assert_allclose(omega, omegas(blocks, alphas, w), atol=1e-12)
    np.testing.assert_allclose(block_gaps(blocks, after), block_gaps(blocks, before) + (1 - ratio) * omega, atol=1e-12)


# ---- item 9: a problem with a formula -------------------------------------------------------------------------------------


def one_number():
    """One sample, one weight, psi = loss = 1: the optimum is w = min(1, 1 / lambda)."""
    return BinaryProblem(np.ones((1, 1)), np.ones(1))


@pytest.mark.parametrize(
    ("solver", "precision"),
    [
        (BCFW(steps="fw", tol=1e-10), 1e-9),
        (BCFW(tol=1e-10, sampling="uniform", steps="pairwise"), 1e-9),
        (BCFW(tol=1e-10, steps="away"), 1e-9),
        (BCFW(tol=1e-10, steps="all", cache=3), 1e-9),
        (BCFW(tol=1e-10, steps="exact"), 1e-9),
        (BCFW(steps="fw", tol=1e-10, hybrid=True), 1e-9),
        (FrankWolfe(tol=1e-10), 1e-9),
        (OneSlackCuttingPlane(tol=1e-10), 1e-9),
        (NSlackCuttingPlane(tol=1e-10), 1e-9),
        (PartialLinearization(tol=1e-6, temperature=0.01), 1e-2),
        (PartialLinearization(tol=1e-10, temperature=0), 1e-9),
        (ExponentiatedGradient(tol=1e-4, temperature=0.5, max_passes=1e4), 3e-2),
        (Subgradient(average="rising", tol=1e-2, max_passes=5000), 0.2),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, float) else "",
)
@pytest.mark.parametrize("lam", [0.2, 0.9, 1.0, 4.0, 50.0])
def test_item_9_closed_form(solver, precision, lam):
    best = 1 - 1 / (2 * lam) if lam >= 1 else lam / 2
    for model in (one_number(), EnumeratedProblem([np.array([[0.0], [1.0]])], [np.array([0.0, 1.0])])):
        if getattr(solver, "steps", "") == "exact" and isinstance(model, EnumeratedProblem):
            continue
        solution = solver.solve(model, lam)
        assert solution.converged and solution.certified
        assert solution.weights[0] == pytest.approx(min(1, 1 / lam), rel=precision)
        assert solution.dual <= best + 1e-12 <= solution.primal + 2e-12
        assert solution.primal == pytest.approx(best, rel=max(1e-9, 2 * solver.tol))


def reference_path(model, epsilon, kappa, lowest, first=None):
    """Segments (high, low, weights, gap, Omega) of a path; every solve is a BCFW run to kappa * epsilon."""
    segments = []
    lam, weights, gap, omega = first
    while True:
        spare = epsilon - gap
        if omega <= spare:
            return [*segments, (lam, 0.0, weights, gap, omega)]
        low = lam * (1 - spare / omega)
        segments.append((lam, max(low, lowest), weights, gap, omega))
        if low <= lowest:
            return segments
        lam = low
        solution = BCFW(epsilon=kappa * epsilon, max_passes=1e5).solve(model, lam)
        assert solution.converged
        # A solution has the best weights and the best bound of its run; a segment needs both from one state.
        engine = solution.state.engine
        primal, dual, *_ = engine.gap_pass()
        while primal - dual > kappa * epsilon:
            engine.run(10 * model.n_blocks, 10**9, 10**9, 0.0, 0.0)
            primal, dual, *_ = engine.gap_pass()
        weights = engine.weights()
        gap, omega = primal - dual, dual - lam / 2 * weights @ weights


def test_item_9_breakpoints_of_the_closed_form():
    epsilon, kappa = 0.1, 0.5
    # The start of item 6: B = 1, so lambda_0 = 1 / (kappa epsilon) = 20, w = 1/20 and Omega = 1 - 20 w^2.
    first = (20.0, np.array([0.05]), kappa * epsilon, 0.95)
    segments = reference_path(one_number(), epsilon, kappa, 0.0, first)
    highs = [segment[0] for segment in segments]
    assert highs[:5] == pytest.approx([20, 18.947368, 16.947060, 15.146083, 13.524406], rel=1e-7)
    assert highs[-2:] == pytest.approx([1.259106, 0.647252], rel=1e-6)
    assert len(segments) == 22 and segments[-1][1] == 0 and segments[-1][4] == pytest.approx(0, abs=1e-12)
    for high, _, weights, gap, _ in segments[1:]:
        assert weights[0] == pytest.approx(min(1, 1 / high), rel=1e-12) and gap == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["multiclass", "binary", "chain"])
def test_a_path_of_the_reference_loop_is_within_its_tolerance(name):
    """Items 6, 7 and 9 together on other problems: between breakpoints the gap is affine and never above epsilon."""
    epsilon, kappa, lowest = 0.1, 0.5, 0.05
    model = make_model(name)
    blocks, alphas, lam, bounds = path_start(name, False, kappa * epsilon)
    dual = dual_at(blocks, alphas, lam, None)
    first = (lam, dual.weights, bounds.sum(), dual.l - lam * dual.weights @ dual.weights)
    segments = reference_path(model, epsilon, kappa, lowest, first)
    highs, lows = [s[0] for s in segments], [s[1] for s in segments]
    assert highs[1:] == lows[:-1] and (np.diff(highs) < 0).all() and lows[-1] in (0, lowest)
    for high, low, weights, gap, omega in segments:
        for at in np.linspace(max(low, lowest), high, 3):
            best = BCFW(steps="pairwise", tol=1e-3, max_passes=1e4).solve(model, at)
            allowed = gap + (1 - at / high) * omega
            assert allowed <= epsilon * (1 + 1e-9)
            assert primal_of(model, weights, at) - best.primal <= allowed + 1e-9
            assert best.dual <= primal_of(model, weights, at) + 1e-12


# ---- item 11: hidden parts ------------------------------------------------------------------------------------------------


def bags(n, rng, rows):
    y = rng.integers(0, 3, n)
    X = [0.7 * rng.normal(size=(rows, 4)) for _ in range(n)]
    for x, label in zip(X, y, strict=True):
        x[rng.integers(rows), :3] += 2 * np.eye(3)[label]
    return X, y


@pytest.mark.parametrize("seed", range(2))
def test_item_11_latent_objective_falls_and_bounds_the_risk(seed):
    rng = np.random.default_rng(seed)
    X, y = bags(15, rng, rows=4)
    model, lam, inner = LatentClasses(3), 0.1, 1e-3

    def hinges(weights):
        W = weights.reshape(3, -1)
        scores = [W @ x.T for x in X]
        return np.array([np.max(s + (np.arange(3) != k)[:, None]) - np.max(s[k]) for s, k in zip(scores, y, strict=True)])

    problem = LatentStructuredProblem(model, X, y)
    problem.start(rng)
    values = []
    for _ in range(5):
        solution = BCFW(epsilon=inner, steps="pairwise", max_passes=5000).solve(problem, lam)
        assert solution.converged and solution.certified
        weights = solution.weights
        values.append(lam / 2 * weights @ weights + hinges(weights).mean())
        # The convex problem lies above the latent objective, and touches it once the hidden parts are the best ones.
        assert values[-1] <= solution.primal + 1e-9
        problem.impute(weights)
        again = CheckedProblem(problem).mean_cut(weights)
        assert lam / 2 * weights @ weights + again.hinge(weights) == pytest.approx(values[-1], rel=1e-9)
        errors = np.array([model.decode(x, weights)[0] != k for x, k in zip(X, y, strict=True)])
        assert (hinges(weights) >= errors - 1e-9).all()
    assert (np.diff(values) <= inner + 1e-12).all() and values[-1] < values[0]


def test_item_11_single_rows_are_the_plain_problem():
    X, y = bags(20, np.random.default_rng(7), rows=1)
    problem = LatentStructuredProblem(LatentClasses(3), X, y)
    plain = MulticlassProblem(np.concatenate(X), y, 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights = rng.normal(size=12)
        ours, theirs = (CheckedProblem(p).mean_cut(weights) for p in (problem, plain))
        np.testing.assert_allclose(ours.psi, theirs.psi, atol=1e-12)
        assert ours.loss == theirs.loss


# ---- item 12: sampling ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hide", [False, True])
def test_item_12_gap_sampling_pays_on_uneven_blocks(hide):
    """Ten seeds of each; the hard blocks are few."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 6)) * np.where(np.arange(40) < 34, 0.05, 3.0)[:, None]
    model = MulticlassProblem(X, rng.integers(0, 3, 40), 3)
    problem = Hidden(model) if hide else model
    passes = {
        sampling: [BCFW(sampling=sampling, tol=3e-2, random_state=s).solve(problem, 0.02).passes for s in range(10)]
        for sampling in ("gap", "uniform")
    }
    assert np.mean(passes["gap"]) <= np.mean(passes["uniform"])
    assert np.median(passes["gap"]) <= np.median(passes["uniform"])


def first_visits(sampling, seeds_, losses):
    """Which block is visited first after a gap pass over blocks with these gaps (times n)."""
    n = len(losses)
    model = EnumeratedProblem([np.array([np.zeros(n), row]) for row in np.eye(n)], [np.array([0.0, loss]) for loss in losses])
    counts = np.zeros(n)
    for seed in seeds_:
        engine = engine_of(model, _core.BlockSettings.frank_wolfe(sampling, "fw", 0, seed), LAM)
        engine.gap_pass()
        np.testing.assert_allclose(engine.gaps(), losses / n)
        engine.run(1, 1, 10**9, 0.0, 0.0)
        engine.gap_pass()
        counts[np.flatnonzero(engine.gaps() < 0.9 * losses / n)[0]] += 1
    return counts


def test_item_12_equal_gaps_are_uniform_draws():
    equal, uneven = np.ones(8), np.arange(1.0, 9.0)
    counts = [first_visits("gap", range(600), equal), first_visits("uniform", range(10_000, 10_600), equal)]
    assert stats.chi2_contingency(counts).pvalue > 1e-3
    # With gaps that are not equal the same test tells the two apart.
    draws = first_visits("gap", range(600), uneven)
    assert stats.chi2_contingency([draws, counts[1]]).pvalue < 1e-6
    assert stats.chisquare(draws, 600 * uneven / uneven.sum()).pvalue > 1e-3
    assert stats.chisquare(first_visits("uniform", range(600), uneven)).pvalue > 1e-3


def test_item_12_first_pass_of_gap_sampling_is_a_permutation():
    """Before anything is known the two draw alike: the dual after one pass has the same distribution."""
    model = make_model("costs")
    duals = {}
    for sampling, shift in (("gap", 0), ("permutation", 5000), ("uniform", 10_000)):
        values = []
        for seed in range(shift, shift + 200):
            engine = engine_of(model, _core.BlockSettings.frank_wolfe(sampling, "fw", 0, seed), LAM)
            engine.run(model.n_blocks, 10**9, 10**9, 0.0, 0.0)
            values.append(engine.dual)
        duals[sampling] = values
    assert stats.ks_2samp(duals["gap"], duals["permutation"]).pvalue > 1e-3
    # Drawing with replacement leaves blocks out; the test would see such a difference.
    assert stats.ks_2samp(duals["gap"], duals["uniform"]).pvalue < 1e-6


def test_long_and_short_chains_in_one_problem():
    """Chains F9: sequences of one position are among the others, in every solver that averages."""
    model = chain((1, 4, 1, 2), seed=5)
    best = BCFW(steps="pairwise", tol=1e-7, max_passes=1e5).solve(model, 0.2)
    for solver in (PartialLinearization(tol=1e-2, temperature=0.1), ExponentiatedGradient(tol=3e-2, temperature=1.0)):
        solution = solver.solve(model, 0.2)
        assert solution.converged and solution.dual - 1e-9 <= best.primal <= solution.primal + 1e-7
