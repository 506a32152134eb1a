"""Block-coordinate Frank-Wolfe with oracles compiled and in Python: the same steps, the same optimum, true certificates.

Items of the verification plan of the solvers: 3 (all samplings and step types).
"""

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.reference_steps import OutputSteps
from tests.cases.solver_cases import BOUNDS, LAM, MODELS, Hidden, chain, engine_of, make_model, optimum, outputs_of, primal_of

from maxmargin import _core
from maxmargin.core import CheckedProblem
from maxmargin.core.solvers import BCFW, FrankWolfe, OneSlackCuttingPlane, PartialLinearization, check_bounds
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem
from maxmargin.sequences import ChainProblem

SAMPLINGS = ("uniform", "permutation", "gap")
# Plain and away steps converge slowly at small tolerances, the others fast.
TOLERANCE = {"fw": 3e-3, "away": 1e-3, "pairwise": 1e-7, "all": 1e-7, "exact": 1e-7}


def check_certificate(solution, name, bounds, *, certified=True):
    """What the solver says about its weights, against outputs that are written out and an optimum from elsewhere."""
    model, best = make_model(name), optimum(name, bounds)
    assert solution.converged and solution.certified == certified
    mean = CheckedProblem(model).mean_cut(solution.weights)
    primal = LAM / 2 * solution.weights @ solution.weights + mean.hinge(solution.weights)
    assert primal == pytest.approx(primal_of(model, solution.weights, LAM), rel=1e-12)
    if BOUNDS[bounds] is not None:
        lower, upper = BOUNDS[bounds]
        assert (solution.weights >= lower).all() and (solution.weights <= upper).all()
    if not certified:
        return
    assert solution.primal == pytest.approx(primal, rel=1e-9)
    # The optimum itself is known to 1e-10 of its value.
    slack = 2 * abs(best.gap) + 1e-13
    assert solution.dual <= best.primal + slack
    assert solution.primal - best.dual <= solution.gap + slack
    distance = np.linalg.norm(solution.weights - best.weights)
    assert distance <= np.sqrt(2 * max(0.0, solution.gap) / LAM) + np.sqrt(2 * slack / LAM)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("steps", TOLERANCE)
@pytest.mark.parametrize("name", MODELS)
def test_compiled_loop_reaches_the_optimum(name, steps, bounds):
    """Item 3: every sampling, step, cache and bound."""
    model = make_model(name)
    if steps == "exact" and name == "chain":
        return
    for sampling in SAMPLINGS:
        for cache in (0, 20):
            for hybrid in (False, True) if steps == "fw" else (False,):
                solver = BCFW(tol=TOLERANCE[steps], sampling=sampling, steps=steps, cache=cache, hybrid=hybrid, max_passes=1e5)
                solution = solver.solve(model, LAM, bounds=BOUNDS[bounds])
                check_certificate(solution, name, bounds)
                # At the last gap pass, which may not have been the best, the gap is the sum over the blocks.
                engine = solution.state.engine
                gaps, weights = engine.gaps(), engine.weights()
                assert (gaps >= 0).all() and gaps.sum() == pytest.approx(engine.known_gap, rel=1e-9, abs=1e-15)
                assert primal_of(model, weights, LAM) - engine.dual == pytest.approx(gaps.sum(), abs=1e-12)
                assert solution.dual == pytest.approx(engine.dual, rel=1e-12)
                assert solution.gap <= gaps.sum() + 1e-12


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_both_oracles_reach_the_same_optimum(name, steps, bounds):
    """Item 3: an oracle in Python, with samplings, caches and batch steps in turn."""
    turn = MODELS.index(name) + list(BOUNDS).index(bounds)
    settings = {"sampling": SAMPLINGS[turn % 3], "cache": 20 * (turn % 2), "hybrid": steps == "fw" and turn % 4 > 1}
    tolerance = TOLERANCE[steps]
    solver = BCFW(tol=tolerance, steps=steps, max_passes=20_000, **settings)
    slow = solver.solve(Hidden(make_model(name)), LAM, bounds=BOUNDS[bounds])
    check_certificate(slow, name, bounds)
    fast = solver.solve(make_model(name), LAM, bounds=BOUNDS[bounds])
    assert fast.primal == pytest.approx(slow.primal, rel=2 * tolerance)
    # Both are that close to the one optimum.
    assert np.linalg.norm(fast.weights - slow.weights) <= 2 * np.sqrt(2 * tolerance * fast.primal / LAM)


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_heuristic_stop_is_never_called_certified(name, hide):
    """Item 3: unless the estimates do not come down in time and an exact check ends the run."""
    model = make_model(name)
    uncertified = 0
    for sampling in SAMPLINGS:
        for settings in ({"steps": "fw"}, {"steps": "fw", "hybrid": True}, {"steps": "pairwise"}, {"steps": "all", "cache": 20}):
            solver = BCFW(tol=2e-2, stop="heuristic", sampling=sampling, **settings)
            solution = solver.solve(Hidden(model) if hide else model, LAM)
            check_certificate(solution, name, "free", certified=solution.certified)
            uncertified += not solution.certified
            # The estimated objective is dual value plus estimated gap; the dual value is true in any case.
            assert solution.dual <= optimum(name, "free").primal + 1e-12 <= primal_of(model, solution.weights, LAM) + 2e-12
    assert uncertified >= 2


def test_exact_steps_need_a_problem_that_offers_them():
    """One sentence: what is missing, and what would do."""
    for problem in (make_model("chain"), Hidden(make_model("multiclass"))):
        sentence = (
            rf"^{type(problem).__name__} does not support what BCFW needs \(SupportsExactSteps\): it has no .*exact_steps\. "
            "BinaryProblem, .* do; for others use steps='pairwise'$"
        )
        with pytest.raises(TypeError, match=sentence):
            BCFW(steps="exact").solve(problem, LAM)
        assert BCFW(steps="pairwise").solve(problem, LAM).converged


# ---- step by step ---------------------------------------------------------------------------------------------------------


def shadow(model, steps, bounds, visits, seed=0):
    """Dual objectives of the engine and of the reference after every visit, over the blocks that the engine draws.

    Only for some passes: steps make outputs tie, and some day rounding decides between them.
    """
    reference = OutputSteps(model, LAM, check_bounds(bounds, model.n_features), steps)
    engine = engine_of(model, _core.BlockSettings.frank_wolfe("permutation", steps, 0, seed), LAM, bounds)
    pairs = []
    before = engine.gaps()
    for _ in range(visits):
        assert engine.run(1, 1, 10**9, 0.0, 0.0)[:2] == (1, 1)
        after = engine.gaps()
        # A visit that leaves all gaps as they were found a gap of zero again, and took no step.
        for block in np.flatnonzero(before != after):
            assert after[block] == pytest.approx(reference.step(int(block)), rel=1e-5, abs=1e-7)
        before = after
        pairs.append((engine.dual, reference.dual.value))
    return engine, reference.dual, np.array(pairs)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all"])
@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_every_single_step_is_that_of_the_formulas(name, hide, steps, bounds):
    """Item 3: from the same start, with the same blocks, engine and reference walk through the same dual points."""
    model = Hidden(make_model(name)) if hide else make_model(name)
    engine, dual, pairs = shadow(model, steps, BOUNDS[bounds], 5 * model.n_blocks)
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(engine.weights(), dual.weights, atol=1e-7)


@pytest.mark.parametrize("bounds", ["free", "box"])
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all"])
@pytest.mark.parametrize("hide", [False, True])
def test_every_single_step_is_that_of_the_formulas_on_long_chains(hide, steps, bounds):
    """More than 64 nodes: compiled chains then have no inner products of nodes and go another way."""
    model = chain((65, 130, 3, 70), seed=3)
    model = Hidden(model) if hide else model
    engine, dual, pairs = shadow(model, steps, BOUNDS[bounds], 24)
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(engine.weights(), dual.weights, atol=1e-7)


@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_one_block_is_batch_frank_wolfe(name):
    """With n = 1 the block is the whole problem, so the engine's duals are those of batch Frank-Wolfe."""
    if name == "chain":
        model = chain((5,), seed=2)
    else:
        model = MulticlassProblem(np.array([[1.0, -2.0, 0.5]]), np.array([1]), 3, [[0, 1, 2], [0.5, 0, 1.7], [3, 0.1, 0]])
    engine = engine_of(model, _core.BlockSettings.frank_wolfe("gap", "fw", 0, 0), LAM)
    duals = [engine.dual]
    for _ in range(30):
        engine.run(1, 1, 10**9, 0.0, 0.0)
        duals.append(engine.dual)
    batch = FrankWolfe(tol=0, max_passes=31).solve(Hidden(model), LAM).history.dual
    np.testing.assert_allclose(np.maximum.accumulate(duals)[: len(batch)], np.maximum.accumulate(batch), rtol=1e-9, atol=1e-13)


# ---- edge cases, with compiled oracles and in Python ----------------------------------------------------------------------


def both(model, lam, **settings):
    solver = BCFW(**{"steps": "pairwise", "tol": 1e-6, "max_passes": 20_000} | settings)
    fast, slow = solver.solve(model, lam), solver.solve(Hidden(model), lam)
    assert fast.converged and slow.converged and fast.certified and slow.certified
    assert fast.primal == pytest.approx(slow.primal, rel=2e-6)
    for solution in (fast, slow):
        assert solution.primal == pytest.approx(primal_of(model, solution.weights, lam), rel=1e-9, abs=1e-300)
    return fast, slow


def few(seed=0, n=6, p=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.integers(0, 3, n)


@pytest.mark.parametrize("lam", [1e-2, 1.0, 1e8])
def test_regularization_of_any_size(lam):
    X, y = few()
    for model in (MulticlassProblem(X, y, 3), BinaryProblem(X, np.where(y > 0, 1, -1)), chain((2, 1, 3))):
        best = OneSlackCuttingPlane(tol=1e-9, max_passes=5000).solve(Hidden(model), lam)
        for solution in both(model, lam):
            assert solution.primal == pytest.approx(best.primal, rel=1e-5)


@pytest.mark.parametrize("steps", ["pairwise", "all"])
def test_almost_no_regularization(steps):
    """At lambda = 1e-8 dual variables are of the size 1e-8 too, next to those of the truth; the certificate must survive."""
    X, y = few()
    for labels in (np.argmax(X, axis=1), y):
        for model in (MulticlassProblem(X, labels, 3), BinaryProblem(X, np.where(labels > 0, 1, -1))):
            good = BCFW(steps=steps, tol=1e-3, max_passes=1e5).solve(model, 1e-8)
            better = BCFW(steps=steps, tol=1e-6, max_passes=1e5).solve(model, 1e-8)
            for solution in (good, better):
                assert solution.converged and solution.certified and solution.gap >= -1e-13 * solution.primal
                assert solution.primal == pytest.approx(primal_of(model, solution.weights, 1e-8), rel=1e-9)
            assert good.dual <= better.primal and better.dual <= good.primal


def test_one_block_one_class_one_node():
    X, y = few()
    for model in (
        MulticlassProblem(X[:1], y[:1], 3),
        BinaryProblem(X[:1], np.array([-1])),
        chain((1,)),
        chain((4,)),
        chain((1, 1, 1)),
        chain((2, 3), n_labels=2),
    ):
        both(model, LAM)
    # A single label is always right.
    for model in (MulticlassProblem(X, 0 * y, 1), chain((1, 2, 4), n_labels=1)):
        for solution in both(model, LAM):
            assert solution.primal == solution.dual == 0 and not solution.weights.any()


def test_losses_that_are_all_zero_leave_the_weights_at_zero():
    X, y = few()
    free = chain((2, 3, 1))
    free.cost = 0 * free.cost
    for model in (MulticlassProblem(X, y, 3, np.zeros((3, 3))), free):
        for lam in (1e-8, 1.0):
            for solution in both(model, lam):
                assert solution.primal == 0 and not solution.weights.any()


def test_features_that_are_all_zero():
    """Psi = 0 with a loss is a hinge that no weights can mend: all dual weight goes to the most expensive output."""
    X, y = few()
    costs = np.array([[0, 1, 2], [0.5, 0, 1.7], [3, 0.1, 0]])
    for steps in ("fw", "pairwise", "away", "all"):
        for solution in both(MulticlassProblem(0 * X, y, 3, costs), LAM, steps=steps):
            assert solution.primal == pytest.approx(costs[y].max(axis=1).mean())
            assert solution.dual == pytest.approx(solution.primal, rel=1e-12) and not solution.weights.any()
        for solution in both(BinaryProblem(0 * X, np.ones(6)), LAM, steps=steps):
            assert solution.primal == pytest.approx(1) and solution.dual == pytest.approx(1)
    # One such sample among others adds its loss and changes nothing else.
    mended = MulticlassProblem(X[:5], y[:5], 3, costs)
    spoilt = MulticlassProblem(np.vstack([X[:5], np.zeros(3)]), y, 3, costs)
    alone = BCFW(steps="pairwise", tol=1e-8, max_passes=5000).solve(mended, 6 / 5 * LAM)
    for solution in both(spoilt, LAM, tol=1e-8):
        assert solution.primal == pytest.approx(5 / 6 * alone.primal + costs[y[5]].max() / 6, rel=1e-6)
        np.testing.assert_allclose(solution.weights, alone.weights, atol=1e-3)


def test_duplicates_change_nothing():
    X, y = few()
    twice = np.repeat(np.arange(6), 2)
    for one, two in [
        (MulticlassProblem(X, y, 3), MulticlassProblem(X[twice], y[twice], 3)),
        (BinaryProblem(X, np.where(y > 0, 1, -1)), BinaryProblem(X[twice], np.where(y > 0, 1, -1)[twice])),
    ]:
        expected = both(one, LAM)[0]
        for solution in both(two, LAM):
            assert solution.primal == pytest.approx(expected.primal, rel=3e-6)
            np.testing.assert_allclose(solution.weights, expected.weights, atol=1e-2)
    # Within a chain too: all positions look alike, so only the ends and the pairs tell them apart.
    alike = chain((3, 3, 4))
    alike.X = np.ones_like(alike.X)
    both(alike, LAM)


@pytest.mark.parametrize("power", [-200, -60, 60, 200])
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all", "exact"])
def test_units_of_the_features_do_not_matter(steps, power):
    """Features times s and lambda times s^2 is the same problem; with s a power of two it is the same run, bit by bit."""
    X, y = few(n=20)
    s = 2.0**power
    for make in (lambda X: MulticlassProblem(X, y, 3), lambda X: BinaryProblem(X, np.where(y > 0, 1, -1))):
        plain = BCFW(steps=steps, tol=1e-2).solve(make(X), LAM)
        scaled = BCFW(steps=steps, tol=1e-2).solve(make(s * X), s * s * LAM)
        np.testing.assert_array_equal(s * scaled.weights, plain.weights)
        assert scaled.primal == plain.primal and scaled.dual == plain.dual and scaled.passes == plain.passes


@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all", "exact"])
def test_features_too_small_to_matter(steps):
    """At 1e-150 the hinge cannot be moved by more than 1e-300: the optimum is the mean of the largest losses."""
    X, y = few()
    for lam in (1e-8, 1.0, 1e8):
        solution = BCFW(steps=steps, tol=1e-9).solve(MulticlassProblem(1e-150 * X, y, 3), lam)
        assert solution.converged and solution.primal == pytest.approx(1) and solution.dual == pytest.approx(1)
        assert np.isfinite(solution.weights).all()
    if steps != "exact":
        small = chain((1, 1, 1), scale=1e-150)
        assert BCFW(steps=steps, tol=1e-2).solve(small, 1.0).converged


# ---- an oracle of one's own, and bad numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("hide", [False, True])
def test_nan_fails_fast(hide):
    """Section 12: scores that are not numbers must not look like a solved problem."""
    X, y = few()
    X[2, 1] = np.nan
    chains = chain((2, 1))
    chains.X = chains.X.copy()
    chains.X[0, 0] = np.nan
    for model in (MulticlassProblem(X, y, 3), BinaryProblem(X, np.where(y > 0, 1, -1)), chains):
        with pytest.raises(ValueError, match="NaN"):
            BCFW(steps="fw", max_passes=20).solve(Hidden(model) if hide else model, LAM)


@pytest.mark.parametrize("base", [MulticlassProblem, BinaryProblem, ChainProblem])
def test_a_subclass_with_its_own_oracle_is_asked(base):
    asked = []

    class Own(base):
        def cuts(self, blocks, weights):
            asked.extend(blocks)
            return super().cuts(blocks, weights)

    original = make_model({MulticlassProblem: "multiclass", BinaryProblem: "binary", ChainProblem: "chain"}[base])
    if base is ChainProblem:
        model = Own(original.X, original.y, original.offsets, 3)
    else:
        model = Own(original.X, original.y, *([3] if base is MulticlassProblem else []))
    assert BCFW(tol=1e-2).solve(model, LAM).converged and asked


# ---- warm starts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "solver",
    [
        BCFW(steps="fw", tol=1e-2),
        BCFW(tol=1e-4, steps="pairwise"),
        BCFW(steps="fw", tol=1e-2, cache=5),
        FrankWolfe(tol=1e-2, max_passes=5000),
        OneSlackCuttingPlane(tol=1e-6),
        PartialLinearization(tol=3e-2, temperature=0.1),
    ],
    ids=lambda solver: type(solver).__name__ + getattr(solver, "steps", "") + str(getattr(solver, "cache", "")),
)
@pytest.mark.parametrize("name", ["multiclass", "chain", "enumerated"])
def test_a_warm_start_leaves_the_earlier_result_alone(solver, name):
    """The same start twice gives the same run twice, at the same lambda and at another."""
    model = make_model("costs" if name == "enumerated" else name)
    if name == "enumerated":
        model = EnumeratedProblem(*zip(*(outputs_of(model, block) for block in range(model.n_blocks)), strict=True))
    first = solver.solve(model, LAM)
    runs = [solver.solve(model, lam, start=first) for lam in (0.3 * LAM, 0.3 * LAM, LAM)]
    np.testing.assert_array_equal(runs[0].weights, runs[1].weights)
    assert runs[0].history.dual == runs[1].history.dual and runs[0].passes == runs[1].passes
    # At the same lambda there is nothing left to do.
    assert runs[2].converged and runs[2].passes < first.passes and runs[2].primal == pytest.approx(first.primal, rel=solver.tol)
    cold = solver.solve(model, 0.3 * LAM)
    assert runs[0].converged and runs[0].primal == pytest.approx(cold.primal, rel=3 * solver.tol)
