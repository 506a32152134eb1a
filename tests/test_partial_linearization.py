"""Partial linearization and exponentiated gradients against their formulas, with all outputs written out.

The numbers are those of the verification plan of partial linearization: F1 to F16 for solvers, C1 to C9 for chains.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maxmargin.solvers.dual import Dual
from scipy.optimize import minimize, minimize_scalar
from solver_cases import BOUNDS, LAM, MODELS, chain, listed, make_model, outputs_of, primal_of

from maxmargin.cuts import Cut
from maxmargin.problems import MulticlassProblem
from maxmargin.problems.distributions import log_mix, log_normalize, tilt
from maxmargin.solvers import BCFW, ExponentiatedGradient, PartialLinearization
from maxmargin.solvers.base import Run, check_bounds
from maxmargin.solvers.partial_linearization import _DistributionState

seeds = st.integers(0, 2**32 - 1)


def small(name):
    """A model with few outputs per block; chains of at most three positions."""
    return chain((1, 2, 3), seed=8) if name == "chain" else make_model(name)


def labelings(model, block):
    length = int(model.offsets[block + 1] - model.offsets[block])
    return np.array(np.meshgrid(*[range(model.n_labels)] * length, indexing="ij")).reshape(length, -1).T


def log_probabilities(model, block, distribution):
    """Of all outputs, in the order of `outputs_of`; a chain's are prod of pairs over prod of inner positions."""
    if not hasattr(model, "offsets"):
        return np.asarray(distribution)
    nodes, edges = distribution
    result = np.zeros(len(labelings(model, block)))
    for k, labels in enumerate(labelings(model, block)):
        if len(labels) == 1:
            result[k] = nodes[0, labels[0]]
            continue
        result[k] = sum(edges[t, a, b] for t, (a, b) in enumerate(pairwise(labels)))
        result[k] -= sum(nodes[t, labels[t]] for t in range(1, len(labels) - 1))
    return result


def random_interior(model, block, rng):
    """A distribution in the interior, reached by a tilt from a vertex that is not sharp."""
    return model.tilt(block, model.interior(block, 0.9), rng.normal(size=model.n_features), 0.7)


def start(model, solver, bounds=None, seed=0, lam=LAM):
    """A run of a solver, stopped before its first step, at random distributions."""
    rng = np.random.default_rng(seed)
    run = Run(solver, model, lam, check_bounds(bounds, model.n_features))
    state = _DistributionState(
        model, Dual(run.n, model.n_features, lam, run.bounds), [random_interior(model, b, rng) for b in range(run.n)]
    )
    state.refresh()
    return run, state


# ---- the objective and its directions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_f1_gradient_of_the_dual_is_the_hinges(name):
    model = small(name)
    rng = np.random.default_rng(0)
    blocks = [outputs_of(model, b) for b in range(model.n_blocks)]
    alphas = [rng.dirichlet(np.ones(len(loss))) for _, loss in blocks]

    def objective(alphas):
        """T = -b.a + lambda/2 |A a|^2, to be minimised."""
        dual = Dual(len(blocks), model.n_features, LAM, None)
        for i, ((psi, loss), a) in enumerate(zip(blocks, alphas, strict=True)):
            dual.shift(i, *dual.corner(Cut(a @ psi, float(a @ loss))))
        return -dual.value, dual.weights

    weights = objective(alphas)[1]
    for i, (psi, loss) in enumerate(blocks):
        for y in range(len(loss)):
            moved = [list(alphas), list(alphas)]
            step = 1e-4
            for sign, other in zip((1, -1), moved, strict=True):
                other[i] = alphas[i] + sign * step * np.eye(len(loss))[y]
            slope = (objective(moved[0])[0] - objective(moved[1])[0]) / (2 * step)
            assert slope == pytest.approx(-(loss[y] - psi[y] @ weights) / len(blocks), abs=1e-6)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("name", MODELS)
def test_f2_direction_minimises_the_partly_linear_function(name, temperature):
    """Entropy plus what is linear in the rest; against random distributions and a general solver."""
    model = small(name)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=model.n_features)
    for block in range(min(3, model.n_blocks)):
        psi, loss = outputs_of(model, block)
        hinges = loss - psi @ weights
        before = random_interior(model, block, rng)
        log_alpha = log_probabilities(model, block, before)
        s = np.exp(log_probabilities(model, block, model.tilt(block, before, weights, temperature)))

        def value(a, log_alpha=log_alpha, hinges=hinges):
            a = np.maximum(a, 1e-300)
            return temperature * a @ (np.log(a) - log_alpha - 1) - hinges @ a

        assert s.sum() == pytest.approx(1, abs=1e-12)
        for size in (1e-3, 0.1, 1.0):
            other = (1 - size) * s + size * rng.dirichlet(np.ones(len(s)))
            assert value(s) <= value(other) + 1e-12
        if len(s) <= 9:
            found = minimize(
                value, np.full(len(s), 1 / len(s)), bounds=[(1e-12, 1)] * len(s),
                constraints={"type": "eq", "fun": lambda a: a.sum() - 1}, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
            )  # fmt: skip
            assert value(s) <= found.fun + 1e-9
            if temperature >= 0.5:
                np.testing.assert_allclose(found.x, s, atol=1e-3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=st.sampled_from(MODELS), seed=seeds, temperature=st.sampled_from([0.03, 0.3, 3.0, 100.0]))
def test_f3_slope_is_a_divergence(name, seed, temperature):
    """<alpha - s, grad T> = tau/n (KL(s, alpha) + KL(alpha, s)) >= 0, for chains over all labelings."""
    model = small(name)
    rng = np.random.default_rng(seed)
    weights, block = rng.normal(size=model.n_features), int(rng.integers(model.n_blocks))
    before = random_interior(model, block, rng)
    after = model.tilt(block, before, weights, temperature)
    log_alpha, log_s = (log_probabilities(model, block, d) for d in (before, after))
    divergence = np.sum((np.exp(log_s) - np.exp(log_alpha)) * (log_s - log_alpha))
    slope = model.average(block, after).hinge(weights) - model.average(block, before).hinge(weights)
    assert slope == pytest.approx(temperature * divergence, rel=1e-9, abs=1e-11) and slope >= -1e-12


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=st.sampled_from(MODELS), bounds=st.sampled_from(list(BOUNDS)), seed=seeds, temperature=st.sampled_from([0, 0.05, 1]))
def test_f4_step_is_that_of_a_line_search(name, bounds, seed, temperature):
    model = small(name)
    _, state = start(model, PartialLinearization(), BOUNDS[bounds], seed)
    dual, block = state.dual, seed % model.n_blocks
    _, v, loss = state.direction(block, dual.weights, temperature)
    slope = dual.block_gap(block, dual.weights, v, loss)
    step = dual.step_size(slope, v - dual.v_block[block], 1.0)
    assert 0 <= step <= 1

    def fallen(at):
        other = dual.rescaled(LAM, dual.bounds)
        other.move(block, v, loss, at)
        return -other.value

    best = minimize_scalar(fallen, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    grid = min(fallen(at) for at in np.linspace(0, 1, 21))
    assert fallen(step) <= min(best.fun, grid) + 1e-10
    # What a step is said to gain is what it gains.
    assert dual.gain(slope, v - dual.v_block[block], step) == pytest.approx(-fallen(step) - dual.value, abs=1e-11)


# ---- steps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("temperature", [0.0, 1e-3, 0.05, 1.0])
@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_f5_f6_f7_steps_raise_the_dual_and_keep_their_sums(name, temperature, bounds):
    model = small(name)
    for block in (True, False):
        solver = PartialLinearization(temperature=temperature, block=block)
        run, state = start(model, solver, BOUNDS[bounds])
        order = np.random.default_rng(3)
        values = [state.dual.value]
        for _ in range(40):
            if block:
                solver._block_step(run, state, int(order.integers(run.n)))
            else:
                solver._batch_step(run, state)
            values.append(state.dual.value)
        assert (np.diff(values) >= -1e-12).all() and values[-1] > values[0]
        # F7: the sums that were kept are those of the distributions.
        v, loss = state.dual.v.copy(), state.dual.l
        state.refresh()
        np.testing.assert_allclose(state.dual.v, v, atol=1e-10)
        assert state.dual.l == pytest.approx(loss, abs=1e-10)
        for b, distribution in enumerate(state.distributions):
            log_p = log_probabilities(model, b, distribution)
            assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-10)
            if temperature > 0:
                assert np.isfinite(log_p).all()
        # F6: the gap of the check is that of the written-out problem, and not negative.
        state.check(run)
        assert run.primal == pytest.approx(primal_of(model, state.dual.weights, LAM), rel=1e-10)
        assert run.primal - run.dual >= -1e-10


@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_f8_cold_steps_are_frank_wolfe_steps(name):
    """From the same interior point, over the same blocks: at 1e-10, at 0, and with the oracle's corner."""
    model = small(name)
    solvers = [PartialLinearization(temperature=t) for t in (1e-10, 0.0)]
    runs = [start(model, solver, seed=4) for solver in solvers]
    dual = start(model, solvers[0], seed=4)[1].dual
    order = np.random.default_rng(5)
    for _ in range(6):
        for block in order.permutation(model.n_blocks):
            cut = model.cut(int(block), dual.weights)
            v, loss = dual.corner(cut)
            gap = dual.block_gap(int(block), dual.weights, v, loss)
            dual.move(int(block), v, loss, dual.step_size(gap, v - dual.v_block[block], 1.0))
            for solver, (run, state) in zip(solvers, runs, strict=True):
                solver._block_step(run, state, int(block))
                assert state.dual.value == pytest.approx(dual.value, abs=1e-9)
                np.testing.assert_allclose(state.dual.v, dual.v, atol=1e-7)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(name=st.sampled_from(MODELS), seed=seeds, temperature=st.sampled_from([2.0, 20.0]))
def test_f9_full_steps_are_exponentiated_gradients(name, seed, temperature):
    """alpha exp(-(n / tau) grad T) / Z, with the gradient of all blocks at the same weights and of one after the other."""
    model = small(name)
    for online in (True, False):
        solver = ExponentiatedGradient(temperature=temperature, step="fixed", online=online)
        run, state = start(model, solver, seed=seed % 1000)
        expected = [log_probabilities(model, b, d) for b, d in enumerate(state.distributions)]
        for _ in range(3):
            groups = [[b] for b in range(run.n)] if online else [list(range(run.n))]
            for blocks in groups:
                weights = state.dual.weights.copy()
                solver._update(run, state, blocks)
                for b in blocks:
                    psi, loss = outputs_of(model, b)
                    gradient = -(loss - psi @ weights) / run.n
                    # Steps are almost full, so that nothing becomes zero.
                    full = log_normalize(expected[b] - run.n / temperature * gradient)
                    expected[b] = log_mix(expected[b], full, 1 - 2.0**-52)
        # Also C5: with full steps a chain's marginals are those of the distribution over all labelings.
        for b, distribution in enumerate(state.distributions):
            np.testing.assert_allclose(np.exp(log_probabilities(model, b, distribution)), np.exp(expected[b]), atol=1e-8)


@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_f10_above_a_temperature_both_methods_walk_together(name):
    model = small(name)
    hot = model.diameter() ** 2 / (LAM * model.n_blocks)
    solvers = PartialLinearization(temperature=hot), ExponentiatedGradient(temperature=hot, step="fixed")
    (run, state), (other_run, other) = (start(model, solver, seed=6) for solver in solvers)
    for block in np.random.default_rng(6).integers(0, model.n_blocks, 30):
        solvers[0]._block_step(run, state, int(block))
        solvers[1]._update(other_run, other, [int(block)])
        assert state.dual.value == pytest.approx(other.dual.value, abs=1e-12)


def test_f10_below_it_fixed_steps_may_fail_and_backtracking_does_not():
    model = make_model("multiclass")
    values = {}
    for step in ("fixed", "backtracking"):
        solver = ExponentiatedGradient(temperature=0.02, step=step)
        run, state = start(model, solver, seed=1, lam=1e-3)
        values[step] = [state.dual.value]
        for block in np.random.default_rng(0).integers(0, model.n_blocks, 60):
            solver._update(run, state, [int(block)])
            values[step].append(state.dual.value)
    assert np.diff(values["fixed"]).min() < -1e-3
    assert (np.diff(values["backtracking"]) >= -1e-12).all() and values["backtracking"][-1] > values["fixed"][-1]


def test_f15_constants_do_not_matter():
    rng = np.random.default_rng(0)
    for temperature in (0.0, 1e-3, 1.0):
        values, hinges = log_normalize(rng.normal(size=6)), rng.normal(size=6)
        for constant in (-1e3, 0.1, 1e3):
            shifted = tilt(values, hinges + constant, temperature)
            np.testing.assert_allclose(np.exp(shifted), np.exp(tilt(values, hinges, temperature)), atol=1e-9)


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 0.05])
def test_f16_edge_cases(temperature, block):
    solver = PartialLinearization(temperature=temperature, block=block, tol=1e-2, max_passes=5000)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 2)), rng.integers(0, 3, 5)
    # No features: the whole dual weight goes to the most expensive outputs, by steps that are full.
    empty = solver.solve(MulticlassProblem(0 * X, y, 3), LAM)
    assert empty.converged and empty.primal == pytest.approx(1) and not empty.weights.any()
    # One class: nothing to learn.
    single = solver.solve(MulticlassProblem(X, 0 * y, 1), LAM)
    assert single.converged and single.primal == 0
    # One sample; a sample without features among others; every sample twice.
    for model in (
        MulticlassProblem(X[:1], y[:1], 3),
        MulticlassProblem(np.vstack([X, 0 * X[:1]]), np.append(y, 0), 3),
        MulticlassProblem(np.vstack([X, X]), np.append(y, y), 3),
    ):
        best = BCFW(steps="pairwise", tol=1e-7, max_passes=1e5).solve(model, LAM)
        solution = solver.solve(model, LAM)
        assert solution.converged and solution.dual - 1e-9 <= best.primal <= solution.primal + 1e-7


# ---- chains ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.05, 0.7, 10.0])
def test_c4_direction_of_any_tree_distribution_equals_enumeration(temperature):
    """Not only from independent positions: from marginals that were tilted before, alpha exp(H / tau)."""
    model = small("chain")
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights = rng.normal(size=model.n_features)
        for block in range(model.n_blocks):
            psi, loss = outputs_of(model, block)
            before = random_interior(model, block, rng)
            expected = log_normalize(log_probabilities(model, block, before) + (loss - psi @ weights) / temperature)
            found = model.tilt(block, before, weights, temperature)
            np.testing.assert_allclose(np.exp(log_probabilities(model, block, found)), np.exp(expected), atol=1e-12)
            # C2: positions are sums of their pairs.
            nodes, edges = np.exp(found[0]), np.exp(found[1])
            np.testing.assert_allclose(edges.sum(axis=2), nodes[:-1], atol=1e-12)
            np.testing.assert_allclose(edges.sum(axis=1), nodes[1:], atol=1e-12)


def test_c5_mixtures_are_replaced_by_tree_distributions():
    """Half-way steps: the same average and so the same dual as over all labelings, but not the same distribution."""
    model = chain((3,), seed=8)
    rng = np.random.default_rng(1)
    # A tilt whose pairs are far from independent, mixed with one of the opposite sign.
    psi, loss = outputs_of(model, 0)
    weights = 3 * rng.normal(size=model.n_features)
    ends = [model.tilt(0, model.interior(0, 0.9), sign * weights, 1.0) for sign in (1, -1)]
    mixed = model.mix(*ends, 0.5)
    explicit = log_mix(*(log_probabilities(model, 0, end) for end in ends), 0.5)
    average = model.average(0, mixed)
    np.testing.assert_allclose(average.psi, np.exp(explicit) @ psi, atol=1e-12)
    assert average.loss == pytest.approx(np.exp(explicit) @ loss, abs=1e-12)
    assert np.abs(np.exp(log_probabilities(model, 0, mixed)) - np.exp(explicit)).max() > 1e-3


def test_c5_marginals_and_labelings_have_the_same_optimum():
    model = chain((1, 2, 3), seed=8)
    solver = PartialLinearization(temperature=0.05, tol=1e-3, max_passes=5000)
    ours, theirs = solver.solve(model, 0.2), solver.solve(listed(model), 0.2)
    assert ours.converged and theirs.converged
    assert max(ours.dual, theirs.dual) <= min(ours.primal, theirs.primal) + 1e-12


@pytest.mark.parametrize("scale", [1e4, 1e10])
def test_c6_huge_scores_leave_no_nan(scale):
    """Potentials of 1e10, from the weights or from a temperature near zero; a constant on top changes nothing."""
    model = small("chain")
    rng = np.random.default_rng(2)
    weights = rng.normal(size=model.n_features)
    for block in range(model.n_blocks):
        before = random_interior(model, block, rng)
        best = model.cut(block, weights)
        for found in (model.tilt(block, before, scale * weights, 1.0), model.tilt(block, before, weights, 1 / scale)):
            nodes, edges = found
            assert np.isfinite(nodes).all() and np.isfinite(edges).all()
            np.testing.assert_allclose(np.exp(nodes).sum(axis=1), 1, atol=1e-12)
            assert np.isfinite(model.average(block, found).psi).all()
        # C7: this is the most violating labeling, alone.
        np.testing.assert_allclose(model.average(block, found).psi, best.psi, atol=1e-9)
        # Weights of the first position add a constant to all labels; so do those of all labels' emissions.
        shifted = weights.copy()
        shifted[model.n_labels * model.n_inputs :][: model.n_labels] += 1e3
        for temperature in (0.3, 1e-4):
            one, two = (model.tilt(block, before, w, temperature) for w in (weights, shifted))
            np.testing.assert_allclose(np.exp(one[0]), np.exp(two[0]), atol=1e-8)


def test_mixing_never_loses_an_output():
    """Logarithms of probabilities far below the smallest float survive a step that is almost full."""
    values = np.array([0.0, -5000.0])
    mixed = log_mix(values, np.array([-5000.0, 0.0]), 1 - 2.0**-52)
    assert np.isfinite(mixed).all() and mixed[1] == pytest.approx(0) and mixed[0] == pytest.approx(np.log(2.0**-52))
    for _ in range(50):
        mixed = log_mix(mixed, np.array([-5000.0, 0.0]), 1 - 2.0**-52)
    assert np.isfinite(mixed).all() and np.exp(mixed[0]) < 1e-300
