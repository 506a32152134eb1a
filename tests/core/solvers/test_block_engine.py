"""The compiled engine of block-coordinate Frank-Wolfe, driven by hand: what it keeps is what a gap pass finds.

Items of the verification plan of the solvers: 3 (monotone dual, sums of blocks, fresh certificates) and the edge cases of
section 12.
"""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.cases.solver_cases import BOUNDS, LAM, MODELS, Hidden, chain, engine_of, make_model, optimum, primal_of

from maxmargin import _core
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem

NEVER = 10**9


def engine_for(model, lam=LAM, bounds=None, sampling="gap", steps="fw", cache=0, seed=0, start=None):
    return engine_of(model, _core.BlockSettings.frank_wolfe(sampling, steps, cache, seed), lam, bounds, start)


def walk(engine, visits):
    """Dual objective at the start and after every single visit."""
    duals = [engine.dual]
    for _ in range(visits):
        engine.run(1, NEVER, NEVER, 0.0, 0.0)
        duals.append(engine.dual)
    return np.array(duals)


def settle(engine, rounds, visits):
    """Walks with gap passes in between, as solvers do: without one, gap sampling ends when all old estimates are zero."""
    duals = []
    for _ in range(rounds):
        duals.extend(walk(engine, visits))
        engine.gap_pass()
    return np.array(duals)


def check_gap_pass(model, engine, lam, scale=1.0):
    """The certificate of a gap pass, against outputs that are written out; nothing moves by it."""
    kept = engine.dual
    primal, dual, gap, _ = engine.gap_pass()
    assert kept == pytest.approx(dual, abs=1e-11 * scale)
    assert primal == pytest.approx(primal_of(model, engine.weights(), lam), rel=1e-10, abs=1e-12 * scale)
    assert gap == pytest.approx(primal - dual, abs=1e-11 * scale)
    assert engine.gaps().sum() == pytest.approx(gap, abs=1e-12 * scale) and (engine.gaps() >= 0).all()
    assert engine.known_gap == pytest.approx(gap, abs=1e-12 * scale) and engine.all_seen
    assert engine.gap_pass() == pytest.approx((primal, dual, gap, 0), abs=1e-11 * scale) and engine.worse_than_truth == 0
    return primal, dual


def kinds(name):
    return ("fw", "pairwise", "away", "all") if name == "chain" else ("fw", "pairwise", "away", "all", "exact")


@pytest.mark.parametrize("cache", [0, 20])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", MODELS)
def test_dual_rises_at_every_visit(name, bounds, cache):
    """Item 3; the optimum is never passed."""
    model = make_model(name)
    for steps in kinds(name):
        for seed, sampling in enumerate(("uniform", "permutation", "gap")):
            engine = engine_for(model, LAM, BOUNDS[bounds], sampling, steps, cache, seed)
            for _ in range(3):
                duals = walk(engine, 7 * model.n_blocks)
                assert (np.diff(duals) >= -1e-14).all()
                primal, dual = check_gap_pass(model, engine, LAM)
                assert dual <= optimum(name, bounds).primal + 1e-12 and optimum(name, bounds).dual <= primal + 1e-12
            assert duals[-1] > duals[0] or engine.known_gap < 1e-12


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", MODELS)
def test_batch_steps_raise_the_dual_and_keep_it(name, bounds):
    """Item 3, hybrid: after the step of all blocks the kept dual is still that of a fresh gap pass."""
    model = make_model(name)
    for cache in (0, 20):
        engine = engine_for(model, LAM, BOUNDS[bounds], cache=cache)
        for _ in range(5):
            engine.run(model.n_blocks, NEVER, NEVER, 0.0, 0.0)
            _, before = check_gap_pass(model, engine, LAM)
            engine.step_all()
            assert engine.dual >= before - 1e-14
            check_gap_pass(model, engine, LAM)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4)),
    log_lam=st.integers(-4, 4),
    kind=st.sampled_from(["dense", "csr", "binary", "chain"]),
    bounds=st.sampled_from(list(BOUNDS)),
    steps=st.sampled_from(["fw", "pairwise", "away", "all", "exact"]),
    cache=st.sampled_from([0, 2, 20]),
)
@example(seed=0, shape=(1, 1, 1), log_lam=0, kind="chain", bounds="free", steps="all", cache=2)
@example(seed=0, shape=(1, 1, 1), log_lam=0, kind="dense", bounds="box", steps="exact", cache=0)
def test_any_small_problem(seed, shape, log_lam, kind, bounds, steps, cache):
    """Item 3 as a property: monotone, and what is kept is what a gap pass finds, whatever the problem."""
    n, p, k = shape
    rng = np.random.default_rng(seed)
    # Rounded, so that there are zeros, duplicates and ties.
    X, y = rng.normal(size=(n, p)).round(), rng.integers(0, k, n)
    if kind == "chain":
        model = chain(rng.integers(1, 4, n), n_labels=min(k, 3), n_inputs=p, seed=seed)
        model.X = model.X.round()
        steps = "all" if steps == "exact" else steps
    elif kind == "binary":
        model = BinaryProblem(X, np.where(y > 0, 1, -1))
    else:
        costs = rng.integers(0, 3, (k, k)) * (1.0 - np.eye(k))
        model = MulticlassProblem(sparse.csr_array(X) if kind == "csr" else X, y, k, costs)
    lam = 10.0**log_lam
    engine = engine_for(model, lam, BOUNDS[bounds], steps=steps, cache=cache, seed=seed)
    # With little regularization the first steps go far, and rounding is that of what they make.
    scale = max(1.0, 1.0 / lam)
    assert (np.diff(walk(engine, 12 * n)) >= -1e-13 * scale).all()
    check_gap_pass(model, engine, lam, scale)


def test_a_wide_model_and_many_labels():
    """Rows longer than the registers, odd numbers of labels, more labels than features."""
    rng = np.random.default_rng(0)
    for n_labels, p in ((2, 37), (5, 16), (7, 1), (33, 3)):
        X = rng.normal(size=(12, p)) * (rng.random((12, p)) < 0.7)
        y = rng.integers(0, n_labels, 12)
        models = [MulticlassProblem(X, y, n_labels), MulticlassProblem(sparse.csr_array(X), y, n_labels)]
        duals = []
        for model in models:
            engine = engine_for(model, steps="pairwise")
            duals.append(walk(engine, 100))
            check_gap_pass(model, engine, LAM)
        # Dense and sparse rows hold the same numbers.
        np.testing.assert_allclose(duals[0], duals[1], rtol=1e-12, atol=1e-14)


# ---- runs -----------------------------------------------------------------------------------------------------------------


def test_limits_of_a_run():
    model = make_model("multiclass")
    n = model.n_blocks
    engine = engine_for(model, sampling="permutation")
    assert engine.dual == 0 and not engine.all_seen and np.isinf(engine.gaps()).all()
    assert engine.run(5, NEVER, NEVER, 0.0, 0.0) == (5, 5, False, False)
    assert engine.run(NEVER, n - 5, NEVER, 0.0, 0.0) == (n - 5, n - 5, False, False)
    # A permutation visits every block once.
    assert engine.all_seen and np.isfinite(engine.gaps()).all()
    # A goal that is met already stops at once, unless calls must be made first.
    assert engine.run(NEVER, NEVER, 0, 1e9, 0.0) == (0, 0, False, True)
    assert engine.run(NEVER, NEVER, 7, 1e9, 0.0) == (7, 7, False, True)
    assert engine.run(0, NEVER, 0, 0.0, 0.0) == (0, 0, False, False)


def test_gap_sampling_visits_everybody_first_and_rests_when_nothing_is_left():
    model = make_model("multiclass")
    engine = engine_for(model, steps="pairwise", sampling="gap")
    for visited in range(1, model.n_blocks + 1):
        engine.run(1, NEVER, NEVER, 0.0, 0.0)
        assert np.isfinite(engine.gaps()).sum() == visited
    zero = MulticlassProblem(model.X, model.y, 3, np.zeros((3, 3)))
    engine = engine_for(zero, sampling="gap")
    visits, calls, idle, reached = engine.run(NEVER, NEVER, NEVER, 0.0, 0.0)
    assert (visits, calls, idle, reached) == (zero.n_blocks, zero.n_blocks, True, False)
    assert engine.run(NEVER, NEVER, NEVER, 0.0, 0.0) == (0, 0, True, False)


def test_remembered_outputs_save_calls():
    model = chain((3, 4, 2, 5), seed=1)
    plain, remembering = (engine_for(model, steps="pairwise", cache=cache) for cache in (0, 20))
    calls = [sum(engine.run(50, NEVER, NEVER, 0.0, 0.0)[1] for _ in range(4)) for engine in (plain, remembering)]
    assert calls[0] == 200 and calls[1] < 150
    assert plain.gap_pass()[0] == pytest.approx(remembering.gap_pass()[0], rel=0.05)
    # A short memory holds as well: what is in use is never forgotten.
    short = engine_for(model, steps="pairwise", cache=1)
    assert (np.diff(walk(short, 150)) >= -1e-14).all()
    check_gap_pass(model, short, LAM)


@pytest.mark.parametrize("cache", [2, 3, 5])
def test_the_same_is_forgotten_as_with_oracles_in_python(cache):
    """Which outputs go is seen by the steps that remain; those of oracles in Python are tested one by one."""
    model = chain((4, 5, 6, 5), seed=1)
    for seed in range(4):
        # Pairwise steps would leave ties, for rounding to decide.
        settings = {"sampling": "permutation", "steps": "away", "cache": cache, "seed": seed}
        engines = [engine_for(each, **settings) for each in (model, Hidden(model))]
        walks = [[(engine.run(1, NEVER, NEVER, 0.0, 0.0)[1], engine.dual) for _ in range(200)] for engine in engines]
        np.testing.assert_allclose(*walks, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sampling", ["uniform", "permutation", "gap"])
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_the_seed_decides_everything(name, sampling):
    model = make_model(name)
    walks = [walk(engine_for(model, sampling=sampling, seed=seed), 40) for seed in (5, 5, 6)]
    np.testing.assert_array_equal(walks[0], walks[1])
    assert not np.array_equal(walks[0], walks[2])


@pytest.mark.parametrize("sampling", ["uniform", "permutation"])
def test_blocks_are_drawn_evenly(sampling):
    """The first block that a new engine visits is the one whose gap is known afterwards."""
    rng = np.random.default_rng(0)
    model = MulticlassProblem(rng.normal(size=(10, 3)), rng.integers(0, 3, 10), 3)
    firsts = np.zeros(10)
    for seed in range(400):
        engine = engine_for(model, sampling=sampling, seed=seed)
        engine.run(1, NEVER, NEVER, 0.0, 0.0)
        firsts[np.flatnonzero(np.isfinite(engine.gaps()))[0]] += 1
    # Chi-square with 9 degrees of freedom; 27.9 is passed once in a thousand times.
    assert np.sum((firsts - 40) ** 2 / 40) < 27.9


def test_gap_sampling_draws_in_proportion():
    """Blocks without features keep their gaps apart: the costs are the gaps, and a visit takes one away."""
    costs = np.array([[0, 1.0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2.0], [5.0, 0, 0, 0]])
    model = MulticlassProblem(np.zeros((4, 1)), np.arange(4), 4, costs)
    counts = np.zeros(4)
    for seed in range(800):
        engine = engine_for(model, sampling="gap", seed=seed)
        engine.gap_pass()
        np.testing.assert_allclose(engine.gaps(), [0.25, 0, 0.5, 1.25])
        # The order of the first pass is used up by blocks that the gap pass has seen.
        engine.run(1, NEVER, NEVER, 0.0, 0.0)
        engine.gap_pass()
        counts[np.flatnonzero(engine.gaps() != [0.25, 0, 0.5, 1.25])[0]] += 1
    expected = 800 * np.array([1, 2, 5]) / 8
    assert counts[1] == 0 and np.sum((counts[[0, 2, 3]] - expected) ** 2 / expected) < 13.8


# ---- starts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", [0, 20])
@pytest.mark.parametrize("steps", ["fw", "all"])
@pytest.mark.parametrize("name", MODELS)
def test_a_copy_goes_its_own_way(name, steps, cache):
    model = make_model(name)
    first = engine_for(model, steps=steps, cache=cache)
    first.run(5 * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    first.gap_pass()
    weights, gaps, dual = first.weights(), first.gaps(), first.dual
    second = engine_for(model, steps=steps, cache=cache, seed=1, start=first)
    # The same distributions give the same point.
    np.testing.assert_allclose(second.weights(), weights, rtol=1e-13, atol=1e-15)
    assert second.dual == pytest.approx(dual, rel=1e-13)
    duals = walk(second, 3 * model.n_blocks)
    assert (np.diff(duals) >= -1e-14).all() and duals[-1] > dual
    second.gap_pass()
    if steps == "fw":
        second.step_all()
    np.testing.assert_array_equal(first.weights(), weights)
    np.testing.assert_array_equal(first.gaps(), gaps)
    assert first.dual == dual
    # And the first one goes on as if nothing had happened.
    alone = engine_for(model, steps=steps, cache=cache)
    alone.run(5 * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    alone.gap_pass()
    np.testing.assert_array_equal(walk(first, 20), walk(alone, 20))


@pytest.mark.parametrize("name", MODELS)
def test_a_start_at_another_regularization_keeps_the_distributions(name):
    """Weights scale by the ratio of the lambdas, losses stay: 'keep dual' of section 5.10."""
    model = make_model(name)
    first = engine_for(model, LAM, steps="pairwise")
    first.run(10 * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    _, dual, *_ = first.gap_pass()
    loss = dual + LAM / 2 * first.weights() @ first.weights()
    for factor in (0.01, 0.5, 3.0, 1e4):
        second = engine_for(model, factor * LAM, steps="pairwise", start=first)
        assert second.lam == factor * LAM and first.lam == LAM
        np.testing.assert_allclose(second.weights(), first.weights() / factor, rtol=1e-12, atol=1e-15)
        norm = second.weights() @ second.weights()
        assert second.dual == pytest.approx(loss - factor * LAM / 2 * norm, rel=1e-12)
        assert (np.diff(walk(second, 5 * model.n_blocks)) >= -1e-13 / factor).all()
        check_gap_pass(model, second, factor * LAM, max(1.0, 1 / factor))


@pytest.mark.parametrize("name", MODELS)
def test_a_start_within_other_bounds(name):
    model = make_model(name)
    first = engine_for(model, steps="pairwise")
    first.run(10 * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    free = first.weights()
    for bounds in ("positive", "box", "off zero"):
        second = engine_for(model, bounds=BOUNDS[bounds], steps="pairwise", start=first)
        np.testing.assert_allclose(second.weights(), np.clip(free, *BOUNDS[bounds]), rtol=1e-12, atol=1e-14)
        walk(second, 5 * model.n_blocks)
        check_gap_pass(model, second, LAM)
        # And back.
        third = engine_for(model, steps="pairwise", start=second)
        assert (np.diff(walk(third, 5 * model.n_blocks)) >= -1e-14).all()
        check_gap_pass(model, third, LAM)


def test_what_does_not_fit_is_refused():
    model = make_model("multiclass")
    with pytest.raises(ValueError, match="bounds must have one entry per weight"):
        _core.BlockEngine(
            model.block_data, LAM, np.zeros(2), np.ones(2), _core.BlockSettings.frank_wolfe("gap", "fw", 0, 0), None
        )
    with pytest.raises(ValueError, match="both bounds or none"):
        _core.BlockEngine(
            model.block_data, LAM, np.zeros(model.n_features), None, _core.BlockSettings.frank_wolfe("gap", "fw", 0, 0), None
        )
    for sampling, steps in (("some", "fw"), ("gap", "big")):
        with pytest.raises(ValueError, match="unknown"):
            _core.BlockEngine(model.block_data, LAM, None, None, _core.BlockSettings.frank_wolfe(sampling, steps, 0, 0), None)


# ---- sizes ----------------------------------------------------------------------------------------------------------------


def few(n=6):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.integers(0, 3, n)


@pytest.mark.parametrize("bounds", [None, (-1.0, 2.0)])
def test_samples_of_very_different_sizes(bounds):
    """A tiny sample has almost no curvature: its best point is a corner, and no mass may be lost on the way there."""
    X, y = few(8)
    for tiny in (1e-6, 1e-9, 1e-12, 1e-100):
        Z = X.copy()
        Z[::2] *= tiny
        model = MulticlassProblem(Z, y, 3)
        for steps in kinds("multiclass"):
            engine = engine_for(model, LAM, bounds, steps=steps)
            duals = walk(engine, 60)
            assert (np.diff(duals) >= -1e-14).all() and duals[-1] <= 1
            check_gap_pass(model, engine, LAM)


@pytest.mark.parametrize("scale", [1e-150, 1e-75, 1e75, 1e150])
def test_features_of_extreme_sizes(scale):
    """One class against the others by a single feature: separable, so that large features need only small weights."""
    X, y = scale * np.array([[1.0], [2.0], [-1.0], [-3.0]]), np.array([1, 1, -1, -1])
    for model in (BinaryProblem(X, y), MulticlassProblem(X, (y > 0).astype(int), 2)):
        for steps in kinds("binary"):
            engine = engine_for(model, 1.0, steps=steps)
            duals = settle(engine, 10, 20)
            # At 1e150 squares of dual variables underflow; only pairwise steps do without these squares.
            fine = scale < 1e150 or steps == "pairwise"
            assert np.isfinite(duals).all() and ((np.diff(duals) >= -1e-14 * duals[-1]).all() or not fine)
            primal, dual, gap, _ = engine.gap_pass()
            assert np.isfinite(engine.weights()).all()
            assert primal == pytest.approx(primal_of(model, engine.weights(), 1.0), rel=1e-9)
            # Large: a margin of one costs |w|^2/2 with |w| = 1 / scale, or half of that with two vectors. Small: nothing helps.
            two = isinstance(model, MulticlassProblem)
            best = (0.25 if two else 0.5) / scale**2 if scale > 1 else 1.0
            assert dual <= best * (1 + 1e-9) <= primal * (1 + 2e-9)
            assert gap <= 1e-6 * primal or not fine


def test_chains_of_extreme_sizes():
    for scale in (1e-150, 1e-10, 1e10):
        model = chain((2, 1, 3, 1), scale=scale)
        for steps in kinds("chain"):
            engine = engine_for(model, 1.0, steps=steps)
            duals = walk(engine, 60)
            # The constant features remain at their size; rounding is that of the largest scores.
            assert np.isfinite(duals).all() and (np.diff(duals) >= -1e-12).all()
            primal, dual, *_ = engine.gap_pass()
            assert primal == pytest.approx(primal_of(model, engine.weights(), 1.0), rel=1e-6)
            assert dual <= primal * (1 + 1e-9)


@pytest.mark.parametrize("bounds", [None, (-0.5, 1.0)])
@pytest.mark.parametrize("lengths", [(64, 65), (100, 1, 200)])
def test_long_chains(lengths, bounds):
    """More than 64 nodes take another way to the length of a step; outputs are too many to list, so the oracle is asked."""
    model = chain(lengths, seed=4)
    for steps in kinds("chain"):
        engine = engine_for(model, LAM, bounds, steps=steps, cache=10 if steps == "all" else 0)
        assert (np.diff(walk(engine, 40)) >= -1e-13).all()
        kept = engine.dual
        primal, dual, gap, _ = engine.gap_pass()
        assert kept == pytest.approx(dual, abs=1e-11) and gap == pytest.approx(primal - dual, abs=1e-11)
        weights = engine.weights()
        hinge = np.mean([model.cut(block, weights).hinge(weights) for block in range(model.n_blocks)])
        assert primal == pytest.approx(LAM / 2 * weights @ weights + hinge, rel=1e-11)


def test_one_block_never_leaves_it():
    X, y = few(1)
    for model in (MulticlassProblem(X, y, 3), BinaryProblem(X, np.ones(1)), chain((1,)), chain((4,))):
        for sampling in ("uniform", "permutation", "gap"):
            engine = engine_for(model, steps="pairwise", sampling=sampling)
            settle(engine, 5, 60)
            primal, dual = check_gap_pass(model, engine, LAM)
            assert primal - dual <= 1e-3 * primal


def test_one_label_is_always_right():
    X, y = few()
    for model in (MulticlassProblem(X, 0 * y, 1), chain((1, 3, 70), n_labels=1)):
        for steps in kinds("chain"):
            engine = engine_for(model, steps=steps)
            assert not walk(engine, 20).any() and engine.gap_pass() == (0, 0, 0, 0) and not engine.weights().any()


@pytest.mark.parametrize("lam", [1e-8, 1e8])
def test_extreme_regularization(lam):
    X, y = few()
    for model in (MulticlassProblem(X, y, 3), BinaryProblem(X, np.where(y > 0, 1, -1)), chain((2, 1, 3))):
        for steps in ("fw", "pairwise", "away", "all"):
            engine = engine_for(model, lam, steps=steps)
            duals = settle(engine, 5, 40)
            # Marginals of chains are rounded next to those of the truth, which are almost one.
            precision = 1e-13 if model.n_blocks == 6 else 1e-7
            assert (np.diff(duals) >= -precision * duals[-1]).all()
            primal, dual, gap, _ = engine.gap_pass()
            assert primal == pytest.approx(primal_of(model, engine.weights(), lam), rel=1e-9)
            assert gap == pytest.approx(primal - dual, abs=precision * primal)
            if lam > 1:
                # No weights worth mentioning: the dual is at the largest losses.
                assert gap <= 1e-6 * primal
