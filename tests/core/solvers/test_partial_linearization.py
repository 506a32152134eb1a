"""Partial linearization and exponentiated gradients against their formulas, with all outputs written out.

The numbers are those of the verification plan of partial linearization: F1 to F16 for solvers, C1 to C9 for chains.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.reference_averages import averages, log_mix, log_normalize, tilt
from tests.cases.reference_programs import Cone, convex_program
from tests.cases.reference_steps import Dual, SoftSteps
from tests.cases.solver_cases import BOUNDS, LAM, MODELS, Averaging, chain, engine_of, listed, make_model, outputs_of, primal_of

from maxmargin import _core
from maxmargin.core.solvers import BCFW, PartialLinearization, check_bounds
from maxmargin.multiclass import MulticlassProblem

seeds = st.integers(0, 2**32 - 1)
NEVER = 10**9


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
    return averages(model).tilt(block, averages(model).interior(block, 0.9), rng.normal(size=model.n_features), 0.7)


def soft(temperature, rule="line_search", seed=0, mass=0.3):
    return _core.BlockSettings.partial_linearization(temperature, rule, mass, seed)


def start(model, temperature, rule="line_search", bounds=None, seed=0, lam=LAM):
    """An engine before its first step, at random distributions, and the problem that watches it."""
    problem = Averaging(model, seed)
    return problem, engine_of(problem, soft(temperature, rule, seed), lam, bounds)


def reference_of(problem, temperature, rule="line_search", bounds=None, lam=LAM):
    """The same point for steps by the formulas."""
    distributions = [problem.distributions[block] for block in range(problem.n_blocks)]
    return SoftSteps(problem.model, lam, check_bounds(bounds, problem.n_features), distributions, temperature, rule)


def visit(engine):
    engine.run(1, NEVER, NEVER, 0.0, 0.0)
    return engine.dual


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
            dual.put(i, a @ psi, a @ loss)
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
    """Entropy plus what is linear in the rest; against random distributions and a proved optimum."""
    model = small(name)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=model.n_features)
    for block in range(min(3, model.n_blocks)):
        psi, loss = outputs_of(model, block)
        hinges = loss - psi @ weights
        before = random_interior(model, block, rng)
        log_alpha = log_probabilities(model, block, before)
        s = np.exp(log_probabilities(model, block, averages(model).tilt(block, before, weights, temperature)))

        def value(a, log_alpha=log_alpha, hinges=hinges):
            a = np.maximum(a, 1e-300)
            return temperature * a @ (np.log(a) - log_alpha - 1) - hinges @ a

        assert s.sum() == pytest.approx(1, abs=1e-12)
        for size in (1e-3, 0.1, 1.0):
            other = (1 - size) * s + size * rng.dirichlet(np.ones(len(s)))
            assert value(s) <= value(other) + 1e-12
        if len(s) <= 9:
            # Variables: a, and t >= a log a as (-t, a, 1) in the exponential cone.
            m, unit = len(s), np.eye(2 * len(s))
            found = convex_program(
                np.append(-temperature * (log_alpha + 1) - hinges, np.full(m, temperature)),
                equal=([[1.0] * m + [0.0] * m], [1.0]), bounds=(np.repeat([0.0, -1.0], m), np.repeat([1.0, 0.0], m)),
                cones=[Cone("exp", [-unit[m + k], unit[k], 0 * unit[k]], [0, 0, 1]) for k in range(m)],
                objective=lambda v, m=m, value=value: value(v[:m]),
            )  # fmt: skip
            assert found.bound - 1e-12 <= value(s) <= found.value + 1e-12
            # Strong convexity of the entropy, Pinsker's inequality: the distance by the difference of the values.
            assert np.abs(found.x[:m] - s).sum() <= np.sqrt(2 * (found.value - found.bound + 1e-12) / temperature)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=st.sampled_from(MODELS), seed=seeds, temperature=st.sampled_from([0.03, 0.3, 3.0, 100.0]))
def test_f3_slope_is_a_divergence(name, seed, temperature):
    """<alpha - s, grad T> = tau/n (KL(s, alpha) + KL(alpha, s)) >= 0, for chains over all labelings."""
    model = small(name)
    rng = np.random.default_rng(seed)
    weights, block = rng.normal(size=model.n_features), int(rng.integers(model.n_blocks))
    before = random_interior(model, block, rng)
    after = averages(model).tilt(block, before, weights, temperature)
    log_alpha, log_s = (log_probabilities(model, block, d) for d in (before, after))
    divergence = np.sum((np.exp(log_s) - np.exp(log_alpha)) * (log_s - log_alpha))
    slope = averages(model).average(block, after).hinge(weights) - averages(model).average(block, before).hinge(weights)
    assert slope == pytest.approx(temperature * divergence, rel=1e-9, abs=1e-11) and slope >= -1e-12


@settings(max_examples=60, deadline=None, derandomize=True)
@given(name=st.sampled_from(MODELS), bounds=st.sampled_from(list(BOUNDS)), seed=seeds, temperature=st.sampled_from([0, 0.05, 1]))
def test_f4_step_is_that_of_a_line_search(name, bounds, seed, temperature):
    """A step of the engine against a general search along the direction of the formulas."""
    model = small(name)
    problem, engine = start(model, temperature, bounds=BOUNDS[bounds], seed=seed)
    dual = reference_of(problem, temperature, bounds=BOUNDS[bounds]).dual
    before = problem.distributions.copy()
    assert engine.dual == pytest.approx(dual.value, abs=1e-12)
    reached = visit(engine)
    (block,) = problem.visited
    tilted = averages(model).average(block, averages(model).tilt(block, before[block], dual.weights, temperature))
    v, loss = dual.corner(tilted.psi, tilted.loss)
    v, loss = v - dual.v_block[block], loss - dual.l_block[block]

    def fallen(at):
        return -dual.value_after(block, v, loss, at)

    # A convex function: the third of an interval next to the higher of two inner values cannot hold the minimum.
    low, high = 0.0, 1.0
    for _ in range(60):
        left, right = (2 * low + high) / 3, (low + 2 * high) / 3
        low, high = (low, right) if fallen(left) <= fallen(right) else (left, high)
    assert -reached <= fallen(low) + 1e-12 and reached >= dual.value - 1e-15
    # What a step is said to gain is what it gains.
    assert engine.gap_pass()[1] == pytest.approx(reached, abs=1e-11)


# ---- steps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(
    ("temperature", "rule"), [(0.0, "line_search"), (0.05, "line_search"), (1.0, "fixed"), (0.05, "backtracking")]
)
@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_every_single_step_is_that_of_the_formulas(name, temperature, rule, bounds):
    """Block by block and all at once: with the averages asked in Python, and compiled."""
    model = small(name)
    for batch in (False, True):
        problem, engine = start(model, temperature, rule, BOUNDS[bounds], seed=2)
        reference = reference_of(problem, temperature, rule, BOUNDS[bounds])
        # The compiled form begins close to the truth, and draws the same blocks.
        watched = Averaging(model)
        twins = [engine_of(m, soft(temperature, rule, 2), LAM, BOUNDS[bounds]) for m in (watched, model)]
        other = reference_of(watched, temperature, rule, BOUNDS[bounds])
        for _ in range(12):
            drawn = len(problem.visited)
            for walker in (engine, *twins):
                if batch:
                    walker.step_all()
                else:
                    visit(walker)
            for state in (reference, other):
                state.step(list(range(model.n_blocks)) if batch else problem.visited[drawn : drawn + 1])
            assert batch or problem.visited[drawn] == watched.visited[-1]
            for walker, state in ((engine, reference), *((twin, other) for twin in twins)):
                np.testing.assert_allclose(walker.weights(), state.dual.weights, atol=1e-7)
                # Within bounds a full step is known to gain at least what it would without; a gap pass finds the rest.
                if rule == "line_search" or bounds == "free":
                    assert walker.dual == pytest.approx(state.dual.value, rel=1e-8, abs=1e-10)
                assert walker.dual <= state.dual.value + 1e-10
        for walker, state in ((engine, reference), *((twin, other) for twin in twins)):
            assert walker.gap_pass()[1] == pytest.approx(state.dual.value, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("temperature", [0.0, 1e-3, 0.05, 1.0])
@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_f5_f6_f7_steps_raise_the_dual_and_keep_their_sums(name, temperature, bounds):
    model = small(name)
    for block in (True, False):
        problem, engine = start(model, temperature, bounds=BOUNDS[bounds])
        values = [engine.dual]
        for _ in range(40):
            if block:
                visit(engine)
            else:
                engine.step_all()
            values.append(engine.dual)
        assert (np.diff(values) >= -1e-12).all() and values[-1] > values[0]
        # F7: the weights and the dual value that were kept are those of the distributions.
        dual = reference_of(problem, temperature, bounds=BOUNDS[bounds]).dual
        np.testing.assert_allclose(engine.weights(), dual.weights, atol=1e-10)
        assert engine.dual == pytest.approx(dual.value, abs=1e-10)
        for b, distribution in problem.distributions.items():
            log_p = log_probabilities(model, b, distribution)
            assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-10)
            if temperature > 0:
                assert np.isfinite(log_p).all()
        # F6: the gap is that of the written-out problem, and not negative.
        primal, value, gap, _ = engine.gap_pass()
        assert primal == pytest.approx(primal_of(model, engine.weights(), LAM), rel=1e-10)
        assert gap == pytest.approx(primal - value, abs=1e-10) and primal - value >= -1e-10


@pytest.mark.parametrize("name", ["costs", "binary", "chain"])
def test_f8_cold_steps_are_frank_wolfe_steps(name):
    """From the same interior point, over the same blocks: at 1e-10, at 0, and with the oracle's corner."""
    model = small(name)
    runs = [start(model, temperature, seed=4) for temperature in (1e-10, 0.0)]
    dual = reference_of(runs[0][0], 0.0).dual
    for _ in range(6 * model.n_blocks):
        values = [visit(engine) for _, engine in runs]
        (block,) = {problem.visited[-1] for problem, _ in runs}
        cut = model.cut(block, dual.weights)
        v, loss = dual.corner(cut.psi, cut.loss)
        direction = v - dual.v_block[block]
        step = dual.step_size(dual.block_gap(block, dual.weights, v, loss), direction, 1.0)
        dual.shift(block, step * direction, step * (loss - dual.l_block[block]))
        assert values == pytest.approx([dual.value] * 2, abs=1e-9)
        for _, engine in runs:
            np.testing.assert_allclose(engine.weights(), dual.v, atol=1e-7)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(name=st.sampled_from(MODELS), seed=seeds, temperature=st.sampled_from([2.0, 20.0]))
def test_f9_full_steps_are_exponentiated_gradients(name, seed, temperature):
    """alpha exp(-(n / tau) grad T) / Z, with the gradient of all blocks at the same weights and of one after the other."""
    model = small(name)
    n = model.n_blocks
    for online in (True, False):
        problem, engine = start(model, temperature, "fixed", seed=seed % 1000)
        expected = {b: log_probabilities(model, b, d) for b, d in problem.distributions.items()}
        for _ in range(3 * n if online else 3):
            weights = engine.weights()
            if online:
                visit(engine)
            else:
                engine.step_all()
            for b in problem.visited[-1:] if online else range(n):
                psi, loss = outputs_of(model, b)
                gradient = -(loss - psi @ weights) / n
                # Steps are almost full, so that nothing becomes zero.
                full = log_normalize(expected[b] - n / temperature * gradient)
                expected[b] = log_mix(expected[b], full, 1 - 2.0**-52)
        # Also C5: with full steps a chain's marginals are those of the distribution over all labelings.
        for b, distribution in problem.distributions.items():
            np.testing.assert_allclose(np.exp(log_probabilities(model, b, distribution)), np.exp(expected[b]), atol=1e-8)


@pytest.mark.parametrize("name", ["multiclass", "chain"])
def test_f10_above_a_temperature_both_methods_walk_together(name):
    model = small(name)
    hot = model.diameter() ** 2 / (LAM * model.n_blocks)
    for make in (lambda rule: start(model, hot, rule, seed=6)[1], lambda rule: engine_of(model, soft(hot, rule, 6), LAM)):
        one, other = make("line_search"), make("fixed")
        for _ in range(30):
            assert visit(one) == pytest.approx(visit(other), abs=1e-12)


def test_f10_below_it_fixed_steps_may_fail_and_backtracking_does_not():
    model = make_model("multiclass")
    for make in (
        lambda rule: start(model, 0.02, rule, seed=1, lam=1e-3)[1],
        lambda rule: engine_of(model, soft(0.02, rule, 1, 0.7), 1e-3),
    ):
        values = {}
        for rule in ("fixed", "backtracking"):
            engine = make(rule)
            values[rule] = [engine.dual, *(visit(engine) for _ in range(60))]
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
            found = averages(model).tilt(block, before, weights, temperature)
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
    ends = [averages(model).tilt(0, averages(model).interior(0, 0.9), sign * weights, 1.0) for sign in (1, -1)]
    mixed = averages(model).mix(*ends, 0.5)
    explicit = log_mix(*(log_probabilities(model, 0, end) for end in ends), 0.5)
    average = averages(model).average(0, mixed)
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
        for factor, temperature in ((scale, 1.0), (1.0, 1 / scale)):
            found = averages(model).tilt(block, before, factor * weights, temperature)
            nodes, edges = found
            assert np.isfinite(nodes).all() and np.isfinite(edges).all()
            np.testing.assert_allclose(np.exp(nodes).sum(axis=1), 1, atol=1e-12)
            assert np.isfinite(averages(model).average(block, found).psi).all()
        # C7: this is the most violating labeling, alone.
        np.testing.assert_allclose(averages(model).average(block, found).psi, best.psi, atol=1e-9)
        # Weights of the first position add a constant to all labels; so do those of all labels' emissions.
        shifted = weights.copy()
        shifted[model.n_labels * model.n_inputs :][: model.n_labels] += 1e3
        for temperature in (0.3, 1e-4):
            one, two = (averages(model).tilt(block, before, w, temperature) for w in (weights, shifted))
            np.testing.assert_allclose(np.exp(one[0]), np.exp(two[0]), atol=1e-8)


def test_mixing_never_loses_an_output():
    """Logarithms of probabilities far below the smallest float survive a step that is almost full."""
    values = np.array([0.0, -5000.0])
    mixed = log_mix(values, np.array([-5000.0, 0.0]), 1 - 2.0**-52)
    assert np.isfinite(mixed).all() and mixed[1] == pytest.approx(0) and mixed[0] == pytest.approx(np.log(2.0**-52))
    for _ in range(50):
        mixed = log_mix(mixed, np.array([-5000.0, 0.0]), 1 - 2.0**-52)
    assert np.isfinite(mixed).all() and np.exp(mixed[0]) < 1e-300
