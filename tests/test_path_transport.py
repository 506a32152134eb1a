"""Solver states at a smaller lambda: the weights stay, gaps and dual values follow (item 7 of the verification plan).

Every distribution keeps the part ``r`` of itself and puts the rest on the truth, so that block gaps grow by ``1 - r`` times the
block's mean hinge, and the dual value is multiplied by ``r``.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maxmargin.solvers.compiled import SoftState, make_engine
from maxmargin.solvers.corners import Corners
from maxmargin.solvers.dual import Dual
from native_oracles import COMPILER, c_library
from path_cases import Reference
from solver_cases import BOUNDS, LAM, MODELS, Hidden, chain, make_model, optimum, outputs_of

from maxmargin import _core
from maxmargin.cuts import Cut
from maxmargin.problems import ChainProblem, DecodedProblem, MulticlassProblem, NativeProblem, TreeProblem
from maxmargin.solvers import BCFW, ExponentiatedGradient, FrankWolfe, OneSlackCuttingPlane, PartialLinearization
from maxmargin.solvers.base import Run, check_bounds

RATIOS = (0.99, 0.7, 0.3, 0.01)
NEVER = 10**9
COMPILED = (*MODELS, "tree", "long chain", "native", "many outputs", "decoder")


@cache
def labelled(n_labels, n=6, p=3):
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, p)), rng.integers(0, n_labels, n), n_labels


@pytest.fixture(scope="session")
def compiled_models(tmp_path_factory):
    """All models with a compiled form; those that need a C compiler are left out where there is none."""
    models = {name: make_model(name) for name in MODELS}
    rng = np.random.default_rng(2)
    parent = np.array([-1, 0, 0, 1, -1, -1, 0, -1, -1, 1])
    offsets = np.array([0, 4, 5, 7, 10])
    models["tree"] = TreeProblem(rng.normal(size=(10, 2)), rng.integers(0, 3, 10), offsets, parent, 3)
    models["long chain"] = chain((70, 3), seed=3)
    if COMPILER is not None:
        library = c_library(tmp_path_factory.mktemp("oracles"))
        for name, n_labels in (("native", 3), ("many outputs", 40)):
            X, y, K = labelled(n_labels)
            models[name] = NativeProblem(library.classes, len(y), K * X.shape[1], X, [K, X.shape[1], *y], max_entries=6)
        chains = ChainProblem(rng.normal(size=(9, 2)), rng.integers(0, 3, 9), np.array([0, 3, 4, 9]), 3)
        models["decoder"] = DecodedProblem(library.viterbi, chains.X, chains.y, chains.offsets, None, 3)
    return models


@pytest.fixture
def compiled_model(compiled_models, request):
    if request.param not in compiled_models:
        pytest.skip("no C compiler (gcc or cc) is installed")
    return compiled_models[request.param]


def engine_for(model, lam, bounds, settings, start=None, transport=False):
    lower, upper = (None, None) if bounds is None else (np.full(model.n_features, float(b)) for b in bounds)
    return _core.BlockEngine(model.block_data, lam, lower, upper, settings, start, transport)


def frank_wolfe(steps="fw", cache=0, sampling="gap", seed=0):
    return _core.BlockSettings.frank_wolfe(sampling, steps, cache, seed)


def hinges_of(model, weights):
    """The largest hinge of every block over n, by the model's oracle."""
    return np.array([cut.hinge(weights) for cut in model.cuts(range(model.n_blocks), weights)]) / model.n_blocks


def walked(model, bounds, settings, visits=7):
    engine = engine_for(model, LAM, bounds, settings)
    engine.run(visits * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    return engine


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("steps", "cache"), [("fw", 0), ("pairwise", 0), ("fw", 20), ("all", 20), ("exact", 0)])
@pytest.mark.parametrize("compiled_model", COMPILED, indirect=True)
def test_item_7_compiled_states(compiled_model, steps, cache, bounds):
    model, box = compiled_model, BOUNDS[bounds]
    if steps == "exact" and not isinstance(model.block_data, _core.ClassData):
        return
    first = walked(model, box, frank_wolfe(steps, cache))
    _, dual, *_ = first.gap_pass()
    weights, gaps = first.weights(), first.gaps()
    worst = hinges_of(model, weights)
    scale = 1 + abs(dual)
    for ratio in RATIOS:
        second = engine_for(model, ratio * LAM, box, frank_wolfe(steps, cache, seed=1), first, True)
        assert second.lam == ratio * LAM
        # What rounding takes from a distribution is divided by lambda.
        np.testing.assert_allclose(second.weights(), weights, rtol=1e-12, atol=5e-14 / second.lam)
        assert second.dual == pytest.approx(ratio * dual, abs=1e-13 * scale)
        # Before any oracle call; the oracle of the model agrees, and so does a look.
        assert second.all_seen
        carried = second.gaps()
        np.testing.assert_allclose(carried, worst - ratio * (worst - gaps), rtol=0, atol=2e-10 * scale)
        primal, fresh, *_ = second.gap_pass()
        np.testing.assert_allclose(second.gaps(), carried, rtol=0, atol=2e-10 * scale)
        assert fresh == pytest.approx(ratio * dual, abs=1e-13 * scale)
        assert primal - fresh == pytest.approx(carried.sum(), abs=2e-10 * scale)
        # It is a state like any other: it goes on, and the dual value rises.
        duals = [second.dual]
        for _ in range(2 * model.n_blocks):
            second.run(1, NEVER, NEVER, 0.0, 0.0)
            duals.append(second.dual)
        assert (np.diff(duals) >= -1e-12 * scale).all() and (duals[-1] > duals[0] or carried.sum() < 1e-11)
        kept = second.dual
        assert second.gap_pass()[1] == pytest.approx(kept, abs=1e-9 * scale)
    # The first state is as it was.
    assert first.lam == LAM and first.dual == dual
    np.testing.assert_array_equal(first.weights(), weights)
    np.testing.assert_array_equal(first.gaps(), gaps)


@pytest.mark.parametrize("compiled_model", COMPILED, indirect=True)
def test_gaps_that_are_not_exact_are_not_carried_along(compiled_model):
    """Without a look, or after steps, estimates belong to other weights; only the weights and the dual value are transported."""
    model = compiled_model
    for look in (False, True):
        first = walked(model, None, frank_wolfe(), 3)
        if look:
            first.gap_pass()
            first.run(1, NEVER, NEVER, 0.0, 0.0)
        weights, dual = first.weights(), first.dual
        second = engine_for(model, 0.5 * LAM, None, frank_wolfe(), first, True)
        assert np.isinf(second.gaps()).all() and not second.all_seen
        np.testing.assert_allclose(second.weights(), weights, rtol=1e-11, atol=1e-13)
        assert second.dual == pytest.approx(0.5 * dual, abs=1e-12)
    # Nor those of outputs that are forgotten: remembering begins at the truth, where a labeling's memory was not kept.
    first.gap_pass()
    second = engine_for(model, 0.5 * LAM, None, frank_wolfe("pairwise", 5), first, True)
    assert not second.all_seen
    kept = second.dual
    primal, dual, gap, _ = second.gap_pass()
    assert dual == pytest.approx(kept, abs=1e-12) and gap == pytest.approx(primal - dual, abs=1e-12)
    # After a step of all blocks at once as well.
    first.step_all()
    assert np.isinf(engine_for(model, 0.5 * LAM, None, frank_wolfe(), first, True).gaps()).all()


@pytest.mark.parametrize("rule", ["line_search", "backtracking"])
@pytest.mark.parametrize("bounds", ["free", "box"])
@pytest.mark.parametrize("name", [*MODELS, "tree"])
def test_item_7_states_in_the_interior(compiled_models, name, bounds, rule):
    model, box = compiled_models[name], BOUNDS[bounds]
    soft = _core.BlockSettings.partial_linearization(0.05, rule, 1e-3, 0)
    first = walked(model, box, soft, 10)
    weights, (_, dual, *_) = first.weights(), first.gap_pass()
    for ratio in RATIOS:
        second = engine_for(model, ratio * LAM, box, soft, first, True)
        np.testing.assert_allclose(second.weights(), weights, rtol=1e-9, atol=1e-12)
        assert second.dual == pytest.approx(ratio * dual, abs=1e-11)
        assert second.gap_pass()[1] == pytest.approx(ratio * dual, abs=1e-11)
    # Through many small lambdas at once every output can still come back.
    engine = first
    for _ in range(12):
        engine = engine_for(model, 0.1 * engine.lam, box, soft, engine, True)
        assert np.isfinite(engine.gap_pass()).all()
    engine = engine_for(model, LAM, box, soft, engine)
    for _ in range(300):
        engine.run(model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    primal, dual, gap = engine.gap_pass()
    assert np.isfinite([primal, dual]).all() and gap <= 0.05 * primal


# ---- in Python --------------------------------------------------------------------------------------------------------------


def fresh_gaps(model, dual):
    """Block gaps by all outputs, from the definition."""
    w, gaps = dual.weights, []
    for block in range(model.n_blocks):
        psi, loss = outputs_of(model, block)
        best = int(np.argmax(loss - psi @ w))
        gaps.append(dual.block_gap(block, w, *dual.corner(Cut(psi[best], float(loss[best])))))
    return np.array(gaps)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("steps", "cache"), [("fw", 0), ("pairwise", 0), ("all", 20)])
@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_item_7_python_states(name, steps, cache, bounds):
    model, solver = make_model(name), BCFW(steps=steps, cache=cache, max_passes=12, tol=1e-9)
    first = solver.solve(Hidden(model), LAM, bounds=BOUNDS[bounds]).state
    np.testing.assert_allclose(first.gaps, fresh_gaps(model, first.dual), rtol=0, atol=1e-12)
    for ratio in RATIOS:
        run = Run(solver, Hidden(model), ratio * LAM, check_bounds(BOUNDS[bounds], model.n_features))
        second = first.rescaled(run)
        assert second.dual.lam == ratio * LAM
        np.testing.assert_array_equal(second.dual.weights, first.dual.weights)
        np.testing.assert_allclose(second.dual.l_block, ratio * first.dual.l_block, rtol=1e-14)
        assert second.dual.value == pytest.approx(ratio * first.dual.value, abs=1e-14)
        np.testing.assert_allclose(second.gaps, fresh_gaps(model, second.dual), rtol=0, atol=1e-12)
        assert (second.gaps >= 0).all() and second.last_gap == pytest.approx(second.gaps.sum())
        for block, known in enumerate(second.corners or []):
            assert known.alpha.sum() == pytest.approx(1, abs=1e-14) and (known.alpha >= 0).all()
            v, loss = second.dual.v_block[block].copy(), second.dual.l_block[block]
            known.restore(second.dual, block)
            np.testing.assert_allclose(second.dual.v_block[block], v, rtol=1e-10, atol=1e-12)
            assert second.dual.l_block[block] == pytest.approx(loss, abs=1e-13)
            # The distribution of the first state is another object.
            assert len(known) == len(first.corners[block]) and known.alpha is not first.corners[block].alpha
    # At the same or a larger lambda the distributions stay, and nothing is known of the gaps.
    for factor in (1.0, 3.0):
        run = Run(solver, Hidden(model), factor * LAM, check_bounds(BOUNDS[bounds], model.n_features))
        second = first.rescaled(run)
        np.testing.assert_allclose(second.dual.v, first.dual.v / factor, rtol=1e-14)
        assert second.dual.l == first.dual.l and second.gaps is None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    ratio=st.floats(1e-6, 1.0, exclude_max=True),
    count=st.integers(0, 6),
    bounded=st.booleans(),
)
def test_item_7_distributions_and_duals(seed, ratio, count, bounded):
    """Corners and sums shrink together, for any distribution over any outputs."""
    rng = np.random.default_rng(seed)
    known = Corners(3)
    for _ in range(count):
        known.add(Cut(rng.normal(size=3), float(rng.random())))
    known.alpha[:] = rng.dirichlet(np.full(len(known), 0.5))
    dual = Dual(1, 3, LAM, check_bounds((-0.1, 0.2), 3) if bounded else None)
    known.restore(dual, 0)
    dual.refresh()
    smaller, copy = dual.rescaled(ratio * LAM, dual.bounds), known.copy()
    copy.shrink(ratio)
    assert copy.alpha.sum() == pytest.approx(1) and (copy.alpha >= 0).all()
    again = Dual(1, 3, ratio * LAM, dual.bounds)
    copy.restore(again, 0)
    again.refresh()
    np.testing.assert_allclose(again.v, smaller.v, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(again.l, smaller.l, rtol=1e-12, atol=1e-15)
    assert smaller.value == pytest.approx(ratio * dual.value, abs=1e-13)
    np.testing.assert_array_equal(smaller.weights, dual.weights)
    hinges = known.hinges(dual.weights)
    for state, alpha in ((dual, known.alpha), (smaller, copy.alpha)):
        best = int(np.argmax(hinges))
        gap = state.block_gap(0, state.weights, *state.corner(Cut(known.psi[best], float(known.loss[best]))))
        assert gap == pytest.approx(hinges[best] - alpha @ hinges, abs=1e-10)


# ---- through solvers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("bounds", ["free", "positive", "off zero"])
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_a_solver_begins_where_it_ended(name, bounds, hide):
    """At a smaller lambda the first weights looked at are the last ones, with the dual value times the ratio."""
    model = Hidden(make_model(name)) if hide else make_model(name)
    for solver in (BCFW(tol=1e-2), BCFW(tol=1e-2, steps="pairwise", cache=10), FrankWolfe(tol=1e-2, max_passes=1e4)):
        first = solver.solve(model, LAM, bounds=BOUNDS[bounds])
        state = first.state.dual if hasattr(first.state, "corners") else first.state
        weights = state.weights() if callable(state.weights) else state.weights
        value = state.dual if isinstance(state, _core.BlockEngine) else state.value
        look = (
            type(solver)(max_passes=0, tol=0)
            if isinstance(solver, FrankWolfe)
            else BCFW(max_passes=0, tol=0, steps=solver.steps, cache=solver.cache)
        )
        for ratio in RATIOS:
            second = look.solve(model, ratio * LAM, bounds=BOUNDS[bounds], start=first)
            np.testing.assert_allclose(second.weights, weights, rtol=1e-11, atol=1e-13)
            assert second.dual == pytest.approx(ratio * value, abs=1e-12)
            hinge = second.primal - ratio * LAM / 2 * weights @ weights
            assert second.gap == pytest.approx(hinge + ratio * (LAM / 2 * weights @ weights - value), abs=1e-11)


@pytest.mark.parametrize(
    "solver", [PartialLinearization(tol=1e-2, temperature=0.05), ExponentiatedGradient(tol=1e-2)], ids=["pl", "eg"]
)
def test_solvers_in_the_interior_begin_where_they_ended(solver):
    model = make_model("chain")
    first = solver.solve(model, LAM)
    assert isinstance(first.state, SoftState)
    weights, dual = first.state.engine.weights(), first.state.engine.dual
    run = Run(solver, model, 0.3 * LAM, None)
    engine = make_engine(
        run, model.block_data, _core.BlockSettings.partial_linearization(0.05, "line_search", 1e-3, 0), first.state.engine
    )
    np.testing.assert_allclose(engine.weights(), weights, rtol=1e-9, atol=1e-12)
    assert engine.dual == pytest.approx(0.3 * dual, abs=1e-11)
    second = solver.solve(model, 0.3 * LAM, start=first)
    assert second.converged and second.dual <= optimum("chain", "free", 0.3 * LAM).primal + 1e-12 <= second.primal + 2e-12
    # A larger lambda keeps the distributions.
    larger = make_engine(Run(solver, model, 2 * LAM, None), model.block_data, frank_wolfe(), first.state.engine)
    np.testing.assert_allclose(larger.weights(), weights / 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize(
    "solver",
    [BCFW(tol=1e-3, max_passes=1e5), BCFW(tol=1e-6, steps="pairwise", cache=10), OneSlackCuttingPlane(tol=1e-6)],
    ids=["fw", "pairwise", "one slack"],
)
def test_a_chain_of_starts_ends_at_the_optimum(solver, hide):
    """One lambda after another, each from the one before, against the quadratic program."""
    rng = np.random.default_rng(4)
    model = MulticlassProblem(rng.normal(size=(6, 2)), rng.integers(0, 3, 6), 3)
    blocks = [outputs_of(model, block) for block in range(6)]
    for bounds in (None, (-0.4, 0.2)):
        reference, solution = Reference(blocks, bounds), None
        for lam in np.geomspace(3, 0.02, 7):
            solution = solver.solve(Hidden(model) if hide else model, lam, bounds=bounds, start=solution)
            best = reference.optimum(lam)
            assert solution.converged and solution.dual <= best + 1e-10 <= solution.primal + 2e-10
