"""Solver states at a smaller lambda: the weights stay, gaps and dual values follow (item 7 of the verification plan).

Every distribution keeps the part ``r`` of itself and puts the rest on the truth, so that block gaps grow by ``1 - r`` times the
block's mean hinge, and the dual value is multiplied by ``r``.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.native_oracles import COMPILER, c_library
from tests.cases.path_cases import Reference
from tests.cases.reference_steps import OutputSteps
from tests.cases.solver_cases import BOUNDS, LAM, MODELS, Averaging, Hidden, chain, engine_of, make_model, optimum, outputs_of

from maxmargin import _core
from maxmargin.core.solvers import (
    BCFW,
    ExponentiatedGradient,
    FrankWolfe,
    OneSlackCuttingPlane,
    PartialLinearization,
    check_bounds,
)
from maxmargin.core.solvers.base import Run
from maxmargin.core.solvers.engine import EngineRun
from maxmargin.multiclass import MulticlassProblem
from maxmargin.sequences import ChainProblem, DecodedProblem, TreeProblem
from maxmargin.structured import NativeProblem

RATIOS = (0.99, 0.7, 0.3, 0.01)
NEVER = 10**9
IN_PYTHON = ("costs in python", "binary in python", "chain in python")
ALL = (*MODELS, "tree", "long chain", "native", "many outputs", "decoder", *IN_PYTHON)


@cache
def labelled(n_labels, n=6, p=3):
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, p)), rng.integers(0, n_labels, n), n_labels


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """All models with a compiled form, and some without; those that need a C compiler are left out where there is none."""
    models = {name: make_model(name) for name in MODELS}
    rng = np.random.default_rng(2)
    parent = np.array([-1, 0, 0, 1, -1, -1, 0, -1, -1, 1])
    offsets = np.array([0, 4, 5, 7, 10])
    models["tree"] = TreeProblem(rng.normal(size=(10, 2)), rng.integers(0, 3, 10), offsets, parent, 3)
    for name in IN_PYTHON:
        models[name] = Hidden(models[name.split()[0]])
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
def model(models, request):
    if request.param not in models:
        pytest.skip("no C compiler (gcc or cc) is installed")
    return models[request.param]


def frank_wolfe(steps="fw", cache=0, sampling="gap", seed=0):
    return _core.BlockSettings.frank_wolfe(sampling, steps, cache, seed)


def hinges_of(model, weights):
    """The largest hinge of every block over n, by the model's oracle."""
    return np.array([cut.hinge(weights) for cut in model.cuts(range(model.n_blocks), weights)]) / model.n_blocks


def walked(model, bounds, settings, visits=7):
    engine = engine_of(model, settings, LAM, bounds)
    engine.run(visits * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    return engine


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("steps", "cache"), [("fw", 0), ("pairwise", 0), ("fw", 20), ("all", 20), ("exact", 0)])
@pytest.mark.parametrize("model", ALL, indirect=True)
def test_item_7_states(model, steps, cache, bounds):
    box = BOUNDS[bounds]
    if steps == "exact" and not isinstance(model.block_data, _core.ClassData):
        return
    first = walked(model, box, frank_wolfe(steps, cache))
    _, dual, *_ = first.gap_pass()
    weights, gaps = first.weights(), first.gaps()
    worst = hinges_of(model, weights)
    scale = 1 + abs(dual)
    for ratio in RATIOS:
        second = engine_of(model, frank_wolfe(steps, cache, seed=1), ratio * LAM, box, first, True)
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


@pytest.mark.parametrize("model", ALL, indirect=True)
def test_gaps_that_are_not_exact_are_not_carried_along(model):
    """Without a look, or after steps, estimates belong to other weights; only the weights and the dual value are transported."""
    for look in (False, True):
        first = walked(model, None, frank_wolfe(), 3)
        if look:
            first.gap_pass()
            first.run(1, NEVER, NEVER, 0.0, 0.0)
        weights, dual = first.weights(), first.dual
        second = engine_of(model, frank_wolfe(), 0.5 * LAM, None, first, True)
        assert np.isinf(second.gaps()).all() and not second.all_seen
        np.testing.assert_allclose(second.weights(), weights, rtol=1e-11, atol=1e-13)
        assert second.dual == pytest.approx(0.5 * dual, abs=1e-12)
    # Nor those of outputs that are forgotten: remembering begins at the truth, where a labeling's memory was not kept.
    first.gap_pass()
    second = engine_of(model, frank_wolfe("pairwise", 5), 0.5 * LAM, None, first, True)
    assert not second.all_seen
    kept = second.dual
    primal, dual, gap, _ = second.gap_pass()
    assert dual == pytest.approx(kept, abs=1e-12) and gap == pytest.approx(primal - dual, abs=1e-12)
    # After a step of all blocks at once as well.
    first.step_all()
    assert np.isinf(engine_of(model, frank_wolfe(), 0.5 * LAM, None, first, True).gaps()).all()


@pytest.mark.parametrize("rule", ["line_search", "backtracking"])
@pytest.mark.parametrize("bounds", ["free", "box"])
@pytest.mark.parametrize("name", [*MODELS, "tree"])
def test_item_7_states_in_the_interior(models, name, bounds, rule):
    model, box = models[name], BOUNDS[bounds]
    soft = _core.BlockSettings.partial_linearization(0.05, rule, 1e-3, 0)
    first = walked(model, box, soft, 10)
    weights, (_, dual, *_) = first.weights(), first.gap_pass()
    for ratio in RATIOS:
        second = engine_of(model, soft, ratio * LAM, box, first, True)
        np.testing.assert_allclose(second.weights(), weights, rtol=1e-9, atol=1e-12)
        assert second.dual == pytest.approx(ratio * dual, abs=1e-11)
        assert second.gap_pass()[1] == pytest.approx(ratio * dual, abs=1e-11)
    # Through many small lambdas at once every output can still come back.
    engine = first
    for _ in range(12):
        engine = engine_of(model, soft, 0.1 * engine.lam, box, engine, True)
        assert np.isfinite(engine.gap_pass()).all()
    engine = engine_of(model, soft, LAM, box, engine)
    for _ in range(300):
        engine.run(model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    primal, dual, gap, _ = engine.gap_pass()
    assert np.isfinite([primal, dual]).all() and gap <= 0.05 * primal


# ---- against the formulas -------------------------------------------------------------------------------------------------


def fresh_gaps(problem, dual):
    """Block gaps by all outputs, from the definition."""
    w, gaps = dual.weights, []
    for block in range(problem.n_blocks):
        psi, loss = outputs_of(problem, block)
        best = int(np.argmax(loss - psi @ w))
        gaps.append(dual.block_gap(block, w, *dual.corner(psi[best], loss[best])))
    return np.array(gaps)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    ratio=st.floats(1e-6, 1.0, exclude_max=True),
    steps=st.sampled_from(["fw", "pairwise", "all"]),
    bounded=st.booleans(),
)
def test_item_7_is_what_the_formulas_do(seed, ratio, steps, bounded):
    """Any distributions over any outputs: engine and reference walk and shrink together."""
    rng = np.random.default_rng(seed)
    outputs = [rng.normal(size=(rng.integers(0, 5), 3)) for _ in range(rng.integers(1, 4))]
    psi = [np.vstack([np.zeros((1, 3)), p]) for p in outputs]
    problem = EnumeratedProblem(psi, [np.append(0.0, rng.random(len(p))) for p in outputs])
    bounds = (-0.1, 0.2) if bounded else None
    settings_ = _core.BlockSettings.frank_wolfe("permutation", steps, 0, seed % 2**32)
    engine = engine_of(problem, settings_, LAM, bounds)
    reference = OutputSteps(problem, LAM, check_bounds(bounds, 3), steps)

    # One pass: a second step may find outputs that tie.
    for _ in range(problem.n_blocks):
        before = engine.gaps()
        engine.run(1, 1, NEVER, 0.0, 0.0)
        (block,) = np.flatnonzero(engine.gaps() != before)
        reference.step(int(block))
    engine.gap_pass()
    np.testing.assert_allclose(engine.gaps(), fresh_gaps(problem, reference.dual), atol=1e-7)
    smaller = engine_of(problem, settings_, ratio * LAM, bounds, engine, True)
    np.testing.assert_allclose(smaller.weights(), engine.weights(), rtol=1e-9, atol=1e-9)
    reference.transport(ratio * LAM)
    np.testing.assert_allclose(smaller.weights(), reference.dual.weights, rtol=1e-6, atol=1e-6)
    assert smaller.dual == pytest.approx(ratio * engine.dual, abs=1e-12)
    assert smaller.dual == pytest.approx(reference.dual.value, abs=1e-8)
    np.testing.assert_allclose(smaller.gaps(), fresh_gaps(problem, reference.dual), atol=1e-7)


# ---- through solvers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("bounds", ["free", "positive", "off zero"])
@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_a_solver_begins_where_it_ended(name, bounds, hide):
    """At a smaller lambda the first weights looked at are the last ones, with the dual value times the ratio."""
    model = Hidden(make_model(name)) if hide else make_model(name)
    for solver in (BCFW(tol=1e-2), BCFW(tol=1e-2, steps="pairwise", cache=10), FrankWolfe(tol=1e-2, max_passes=1e4)):
        first = solver.solve(model, LAM, bounds=BOUNDS[bounds])
        weights, value = first.state.engine.weights(), first.state.engine.dual
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


@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize(
    "solver", [PartialLinearization(tol=1e-2, temperature=0.05), ExponentiatedGradient(tol=1e-2)], ids=["pl", "eg"]
)
def test_solvers_in_the_interior_begin_where_they_ended(solver, hide):
    model = Averaging(make_model("chain")) if hide else make_model("chain")
    first = solver.solve(model, LAM)
    weights, dual = first.state.engine.weights(), first.state.engine.dual
    settings_ = _core.BlockSettings.partial_linearization(0.05, "line_search", 1e-3, 0)
    engine = EngineRun(Run(solver, model, 0.3 * LAM, None), settings_, first, kind="interior").engine
    np.testing.assert_allclose(engine.weights(), weights, rtol=1e-9, atol=1e-12)
    assert engine.dual == pytest.approx(0.3 * dual, abs=1e-11)
    second = solver.solve(model, 0.3 * LAM, start=first)
    assert second.converged and second.dual <= optimum("chain", "free", 0.3 * LAM).primal + 1e-12 <= second.primal + 2e-12
    # A larger lambda keeps the distributions.
    larger = EngineRun(Run(solver, model, 2 * LAM, None), settings_, first, kind="interior").engine
    np.testing.assert_allclose(larger.weights(), weights / 2, rtol=1e-9, atol=1e-12)
    # A state of outputs cannot go on from one in the interior, and begins at the truth.
    assert not EngineRun(Run(solver, model, 2 * LAM, None), frank_wolfe(), first).engine.weights().any()


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
    problem = Hidden(model) if hide else model
    blocks = [outputs_of(model, block) for block in range(6)]
    for bounds in (None, (-0.4, 0.2)):
        reference, solution = Reference(blocks, bounds), None
        for lam in np.geomspace(3, 0.02, 7):
            solution = solver.solve(problem, lam, bounds=bounds, start=solution)
            best = reference.optimum(lam)
            assert solution.converged and solution.dual <= best + 1e-10 <= solution.primal + 2e-10
