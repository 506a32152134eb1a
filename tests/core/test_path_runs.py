"""Runs of the path tracer: budgets, interruption and resumption, stored weights, bad input and edge cases."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.path_cases import Reference, make_case, primal_at
from tests.cases.solver_cases import Hidden, ThreeClasses, chain, outputs_of

from maxmargin.core import trace_path
from maxmargin.core.path import Solved
from maxmargin.core.path_weights import WeightStore
from maxmargin.core.solvers import BCFW, FrankWolfe, OneSlackCuttingPlane
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem
from maxmargin.surrogates import StructuredProblem

RULES = ("interpolate", "transport")
PAIRWISE = BCFW(steps="pairwise", cache=10, max_passes=1e4)


def trace(problem=None, rule="interpolate", **settings):
    settings = {"epsilon": 0.05, "lambda_min": 0.02, "kappa": 0.5, "solver": PAIRWISE} | settings
    return trace_path(make_case("multiclass")[0] if problem is None else problem, rule=rule, **settings)


def check_covered(path, blocks=None, bounds=None, count=25):
    """All that is covered is right: from the end of the path to far above its beginning."""
    reference = Reference(make_case("multiclass")[1] if blocks is None else blocks, bounds)
    highs, lows = [s.hi for s in path.segments], [s.lo for s in path.segments]
    assert highs[1:] == lows[:-1] and highs[:1] == ([path.lambdas[0]] if highs else [])
    top = 10 * path.lambdas[0] if path.closed_form else path.lambdas[0]
    for lam in np.geomspace(top, max(path.lambda_end, 1e-4), count):
        lam = max(lam, path.lambda_end)
        bound, behind = path.gap_bound(lam), primal_at(reference.blocks, path.weights(lam), lam) - reference.optimum(lam)
        assert -1e-9 <= behind <= bound + 1e-9 and bound <= path.epsilon * (1 + 1e-9)
    if path.lambda_end > 0:
        with pytest.raises(ValueError, match=r"is below the end of the path, .*; trace it with a smaller lambda_min"):
            path.weights(0.999 * path.lambda_end)


# ---- budgets ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("hide", [False, True])
def test_too_few_passes(hide, rule):
    problem = Hidden(make_case("multiclass")[0]) if hide else None
    ends = []
    for passes in (1, 2, 4, 8, 16, 40):
        path = trace(problem, rule, solver=BCFW(max_passes=passes, check_every=2), epsilon=0.02)
        check_covered(path)
        assert path.complete == (path.lambda_end <= 0.02) and path.certified
        ends.append(path.lambda_end)
    # More passes come farther; the first were too few.
    assert ends[0] > ends[-1] and ends[0] > 0.02


@pytest.mark.parametrize("rule", RULES)
def test_a_hole_in_the_middle_ends_the_path(rule):
    """Solves that are not good enough for the ranges between them: nothing below the first hole counts."""
    seen = []

    def stop(progress):
        seen.append(progress.lam)
        if len(seen) == 3:
            raise KeyboardInterrupt

    path = trace(rule=rule, epsilon=2e-3, lambda_max=1.0, callback=stop)
    assert not path.complete and len(path) == (1 if rule == "interpolate" else 3)
    check_covered(path)
    # Interpolation needs more than three solves between the first two, transport has covered three ranges.
    assert len(path.segments) == (0 if rule == "interpolate" else 3)
    assert path.lambdas[-1] >= path.lambda_end


@pytest.mark.parametrize("rule", RULES)
def test_no_time(rule):
    path = trace(rule=rule, time_limit=1e-9)
    assert not path.complete and path.closed_form and path.certified and len(path) == 1
    check_covered(path)
    assert trace(rule=rule, time_limit=1e6).complete
    # A limit of the solver is one as well.
    solver = dataclasses.replace(PAIRWISE, time_limit=1e-9, max_passes=1e9)
    check_covered(trace(rule=rule, solver=solver))
    with pytest.raises(ValueError, match=r"no weights within epsilon=0\.05 were found at lambda_max=1; raise epsilon, or"):
        trace(rule=rule, time_limit=1e-9, lambda_max=1.0)
    with pytest.raises(ValueError, match=r"no weights within epsilon=1e-07 were found at lambda_max=0\.1"):
        trace(rule=rule, epsilon=1e-7, lambda_max=0.1, solver=BCFW(max_passes=1))


class Interrupted(ThreeClasses):
    """Ctrl-C after so many oracle calls."""

    def __init__(self, most):
        self.most = most

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        self.most -= 1
        if self.most < 0:
            raise KeyboardInterrupt
        return super().decode(x, weights, truth, a, b)


@pytest.mark.parametrize("rule", RULES)
def test_interruption_keeps_what_was_found(rule):
    model = make_case("multiclass")[0]
    ends = []
    for most in (18, 19, 24, 31, 60, 100, 150, 222, 300, 450, 10**9):
        problem = StructuredProblem(Interrupted(most), list(model.X), model.y.tolist())
        path = trace(problem, rule)
        assert path.complete == (problem.structure.most >= 0) and path.certified
        check_covered(path, count=8)
        ends.append(path.lambda_end)
    assert (np.diff(ends) <= 0).all() and len(set(ends)) > 2
    # Nothing at all to keep.
    for settings_ in ({}, {"lambda_max": 1.0}):
        with pytest.raises(KeyboardInterrupt):
            trace(StructuredProblem(Interrupted(5), list(model.X), model.y.tolist()), rule, **settings_)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("stop_after", [1, 2, 4, 5])
def test_resumption(stop_after, rule):
    """With the points that were written down the path is completed; they are not solved again."""
    whole = trace(rule=rule)
    kept = []

    def keep(points, last):
        kept[:] = [dataclasses.replace(point, weights=point.weights.copy(), solution=None) for point in points]
        if len(points) == stop_after and not last:
            raise KeyboardInterrupt

    partial = trace(rule=rule, keep=keep)
    assert not partial.complete and len(kept) == stop_after
    solved = []
    again = trace(rule=rule, known=kept, callback=lambda progress: solved.append(progress.lam))
    assert again.complete and again.certified and again.lambda_end == whole.lambda_end
    check_covered(again)
    assert set(partial.lambdas) <= set(again.lambdas)
    assert not set(solved[1:]) & {point.lam for point in kept}
    assert len(solved) - 1 == len(again) - stop_after
    # A finished path needs no more solves, and is the same.
    points = []
    whole = trace(rule=rule, keep=lambda found, last: points.__setitem__(slice(None), found))
    same = trace(rule=rule, known=points, solver=BCFW(max_passes=0))
    assert same.complete
    np.testing.assert_allclose(same.segments, whole.segments, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("rule", RULES)
def test_points_of_other_runs(rule):
    """Of another rule, another epsilon, another beginning: used where they help."""
    others = []
    for settings_ in (
        {"rule": "transport", "epsilon": 0.2},
        {"rule": "interpolate", "epsilon": 0.01},
        {"rule": "interpolate", "epsilon": 0.05, "lambda_max": 50.0},
        {"rule": "transport", "epsilon": 0.05, "kappa": 0.05, "lambda_min": 0.005},
    ):
        others.append([])
        trace(**settings_, keep=lambda points, last, found=others[-1]: found.__setitem__(slice(None), points))
    for known in others:
        path = trace(rule=rule, known=known)
        assert path.complete and path.closed_form and path.lambdas[0] == trace(rule=rule).lambdas[0]
        check_covered(path)
    path = trace(rule=rule, known=others[2], lambda_max=50.0)
    assert path.complete and path.lambdas[0] == 50 and not path.closed_form
    # What was left out in the middle is solved again.
    check_covered(trace(rule=rule, known=others[1][::4]))
    # Interrupted at once, known points are still good for what they cover.
    path = trace(rule=rule, known=others[1][::4], time_limit=1e-9)
    assert not path.complete
    check_covered(path)
    with pytest.raises(ValueError, match="known has points of 2 weights, but the problem has 6 features"):
        trace(rule=rule, known=[Solved(1.0, np.zeros(2), 1.0, 1.0, 1.0)])


@pytest.mark.parametrize("rule", RULES)
def test_what_callbacks_are_told(rule):
    kept, told = [], []
    path = trace(rule=rule, keep=lambda points, last: last or kept.append([p.lam for p in points]), callback=told.append)
    assert len(kept) == len(told) == len(path)
    assert [len(lams) for lams in kept] == [progress.n_solved for progress in told] == list(range(1, len(path) + 1))
    assert all(lams == sorted(lams, reverse=True) for lams in kept) and kept[-1] == path.lambdas.tolist()
    assert {progress.lam for progress in told} == set(path.lambdas)
    assert told[-1].passes == pytest.approx(path.total_passes)
    assert (np.diff([progress.seconds for progress in told]) >= 0).all()
    # The same run twice is the same path; numbers of other types are numbers.
    again = trace(rule=rule, lambda_min=np.float64(0.02), epsilon=np.float64(0.05))
    assert again.segments == path.segments
    begun = trace(rule=rule, lambda_max=np.float64(2.0))
    assert begun.complete and trace(rule=rule, lambda_max=2).segments == begun.segments


def test_finished_solves_are_not_held_in_memory():
    held = []
    trace(epsilon=0.005, keep=lambda points, last: held.append(sum(p.solution is not None for p in points)))
    assert len(held) > 10 and held[-1] <= 3 and max(held) <= 6


# ---- looking things up ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_weights_at_breakpoints_are_copies(rule):
    path = trace(rule=rule)
    for segment in path.segments:
        for lam in (segment.hi, segment.lo):
            weights, bound = path.weights(lam), path.gap_bound(lam)
            assert bound <= path.epsilon * (1 + 1e-9)
            weights += 1e9
            assert np.abs(path.weights(lam)).max() < 1e3
        # The lower end belongs to the range.
        assert path.segment_at(segment.lo) == segment and path.model_at(segment.lo) == segment.model
        np.testing.assert_array_equal(path.weights(segment.lo), path.store[segment.model])
        assert path.gap_bound(segment.lo) == pytest.approx(segment.gap_lo, rel=1e-12)
    lams, coef = path.coef_path()
    assert coef.shape == (len(path), 6) and lams.tolist() == path.lambdas.tolist()
    np.testing.assert_array_equal(path.coef_path([2, 0])[1], coef[:, [2, 0]])
    lams[:], coef[:] = 0, 0
    assert path.lambdas.all() and path.weights(path.lambdas[0]).any()
    ranges = path.ranges()
    assert len(ranges) == len(path) and ranges[0][0] == np.inf
    for (hi, lo), segment in ((ranges[s.model], s) for s in path.segments):
        assert hi >= segment.hi > segment.lo >= lo
    for lam in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="must be a positive number"):
            path.weights(lam)


# ---- stored weights -----------------------------------------------------------------------------------------------------------

numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data(), n_features=st.integers(1, 12), dtype=st.sampled_from([np.float64, np.float32]), count=st.integers(0, 5))
def test_store_round_trip(data, n_features, dtype, count):
    store = WeightStore(n_features, dtype)
    vectors = [data.draw(arrays(np.float64, n_features, elements=st.one_of(st.just(0.0), numbers))) for _ in range(count)]
    assert [store.append(vector) for vector in vectors] == list(range(count)) and len(store) == count
    again = WeightStore.of(n_features, store.arrays())
    for own in (store, again):
        assert len(own) == count and own.dtype == dtype
        for k, vector in enumerate(vectors):
            np.testing.assert_array_equal(own[k], vector)
            own[k][:] = 7
            np.testing.assert_array_equal(own[k], vector)
    # The smaller of both forms.
    size = np.dtype(dtype).itemsize
    assert store.nbytes == sum(min(n_features * size, np.count_nonzero(v) * (size + 4)) for v in vectors) == again.nbytes


def test_store_rounds_to_float32():
    store = WeightStore(3, np.float32)
    weights = np.array([0.1, 1 / 3, -1e-50])
    store.append(weights)
    np.testing.assert_array_equal(store[0], weights.astype(np.float32).astype(np.float64))
    assert store[0].dtype == np.float64


def broken(**changes):
    store = WeightStore(5)
    for vector in ([0, 1.5, 0, 0, 2.5], [1.0, 2, 3, 4, 5], [0, 0, 0, 0, 9.0]):
        store.append(np.array(vector))
    parts = {name.removeprefix("weights_"): values for name, values in store.arrays().items()} | changes
    return {f"weights_{name}": values for name, values in parts.items() if values is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": None}, "'weights_values' is missing"),
        ({"dense": None}, "'weights_dense' is missing"),
        ({"values": np.arange(8)}, "other types"),
        ({"values": np.ones(8, dtype=np.complex128)}, "other types"),
        ({"values": np.ones(8, dtype=np.float16)}, "other types"),
        ({"indices": np.array([1, 4, 4])}, "other types"),
        ({"sizes": np.array([2, 5, 1], dtype=np.int32)}, "other types"),
        ({"sizes": np.array([2.0, 5.0, 1.0])}, "other types"),
        ({"dense": np.array([0, 1, 0])}, "other shapes"),
        ({"dense": np.array([False, True])}, "other shapes"),
        ({"dense": np.array([[False, True, False]]), "sizes": np.array([[2, 5, 1]])}, "other shapes"),
        ({"values": np.ones((8, 1))}, "other shapes"),
        ({"indices": np.ones((3, 1), dtype=np.int32)}, "other shapes"),
        ({"sizes": np.array([2, -5, 1])}, "not as many as there are features"),
        ({"sizes": np.array([3, 5, 0]), "dense": np.array([False, False, True])}, "not as many as there are features"),
        # Sizes whose sum overflows to zero.
        (
            {"sizes": np.array([2**63 - 1, 2**63 - 1, 2]), "dense": np.zeros(3, dtype=bool)}
            | {"values": np.zeros(0), "indices": np.zeros(0, dtype=np.int32)},
            "not as many as there are features",
        ),
        ({"sizes": np.array([2, 5, 2])}, "not as many as were written"),
        ({"values": np.ones(7)}, "not as many as were written"),
        ({"indices": np.array([1, 4], dtype=np.int32)}, "not as many as were written"),
        ({"dense": np.array([False, False, False])}, "not as many as were written"),
        ({"indices": np.array([1, 5, 4], dtype=np.int32)}, "belongs to no feature"),
        ({"indices": np.array([-1, 4, 4], dtype=np.int32)}, "belongs to no feature"),
        ({"indices": np.array([4, 4, 4], dtype=np.int32)}, "two weights"),
        ({"indices": np.array([4, 1, 4], dtype=np.int32)}, "out of order"),
        ({"values": np.array([1.0, np.nan, 1, 1, 1, 1, 1, 1])}, "not finite"),
        ({"values": np.array([1.0, 1, 1, 1, 1, 1, 1, np.inf])}, "not finite"),
    ],
)
def test_broken_stores_are_refused(changes, message):
    assert len(WeightStore.of(5, broken())) == 3
    with pytest.raises(ValueError, match=message):
        WeightStore.of(5, broken(**changes))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bounds", [None, (0.0, np.inf), (-0.15, 0.3), (0.01, 0.08)])
def test_float32_certificates_are_those_of_rounded_weights(bounds, rule):
    """Also at the beginning, and within bounds that are no float32."""
    first = 5.0 if bounds == (0.01, 0.08) else None
    path = trace(rule=rule, bounds=bounds, dtype=np.float32, lambda_max=first)
    blocks = make_case("multiclass")[1]
    assert path.complete and path.certified and path.store.dtype == np.float32
    lower, upper = (-np.inf, np.inf) if bounds is None else bounds
    for k, lam in enumerate(path.lambdas):
        weights = path.store[k]
        np.testing.assert_array_equal(weights, weights.astype(np.float32))
        assert (weights >= lower).all() and (weights <= upper).all()
        assert path.squared_norms[k] == weights @ weights
        assert path.hinges[k] == pytest.approx(primal_at(blocks, weights, 0), abs=1e-14)
        assert path.duals[k] <= Reference(blocks, bounds).optimum(lam) + 1e-10
    primal = path.lambdas[0] / 2 * path.squared_norms[0] + path.hinges[0]
    assert path.start_gap == pytest.approx(primal - path.duals[0], abs=1e-15)
    check_covered(path, bounds=bounds)
    # One more look per solve; and points that are not rounded are solved again.
    kept = []
    exact = trace(rule=rule, bounds=bounds, lambda_max=first, keep=lambda points, last: kept.__setitem__(slice(None), points))
    if rule == "transport" or bounds is None:
        np.testing.assert_allclose(path.passes[:2], exact.passes[:2] + 1)
    again = trace(rule=rule, bounds=bounds, dtype=np.float32, lambda_max=first, known=kept)
    np.testing.assert_array_equal(again.squared_norms, [again.store[k] @ again.store[k] for k in range(len(again))])


# ---- bad input ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *[({"epsilon": value}, f"epsilon={value!r} must be a positive number") for value in (0, -0.1, np.nan, np.inf)],
        *[({"lambda_min": value}, f"lambda_min={value!r} must be a positive number") for value in (0, -1.0, np.nan, np.inf)],
        *[({"lambda_max": value}, f"lambda_max={value!r} must be a positive number") for value in (0, -1.0, np.nan, np.inf)],
        *[({"kappa": value}, f"kappa={value!r} must be between 0 and 1") for value in (0, 1, -0.5, 2.0, np.nan)],
        *[({"lambda_max": value}, f"lambda_max={value!r} must be greater than lambda_min=0.02") for value in (0.02, 0.01)],
        ({"rule": "guess"}, "rule='guess' is unknown; choose 'interpolate' or 'transport'"),
        *[({"dtype": value}, "dtype=.* must be float64 or float32") for value in (np.int32, np.float16, complex, "U5")],
        ({"bounds": (1.0, 0.0)}, "bounds are contradictory"),
        ({"bounds": (np.nan, 0.0)}, "bounds must not contain NaN"),
        ({"bounds": (np.zeros(3), 1.0)}, "bounds must be numbers or arrays of shape"),
        ({"bounds": (0.1, 0.2)}, "bounds exclude the weight 0"),
        ({"bounds": (0.3, 0.3), "dtype": np.float32, "lambda_max": 1.0}, r"float32 has no number between lower\[0\]=0.3"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        trace(**arguments)


# ---- edge cases ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_one_block(rule):
    rng = np.random.default_rng(1)
    for problem in (
        MulticlassProblem(np.array([[1.0, -2.0]]), np.array([1]), 3, [[0, 1, 2], [0.5, 0, 1.7], [3, 0.1, 0]]),
        BinaryProblem(np.ones((1, 1)), np.ones(1)),
        chain((3,), n_inputs=1),
        # A single block that no weights can mend.
        EnumeratedProblem([np.array([[0.0, 0], [0, 0], *rng.normal(size=(4, 2))])], [np.array([0, 0.7, 1, 1, 0.5, 1])]),
    ):
        for solver in (PAIRWISE, FrankWolfe(max_passes=1e4), OneSlackCuttingPlane()):
            path = trace(problem, rule, solver=solver)
            assert path.complete and path.n_blocks == 1
            check_covered(path, [outputs_of(problem, 0)], count=12)


@pytest.mark.parametrize("rule", RULES)
def test_blocks_without_a_choice(rule):
    """One output only, no features, no loss: such blocks add constants."""
    rng = np.random.default_rng(2)
    zero = np.zeros(3)
    psi = [np.zeros((1, 3)), np.vstack([zero, rng.normal(size=(3, 3))]), np.zeros((2, 3)), np.vstack([zero, zero + 1])]
    loss = [np.zeros(1), np.array([0, 1.0, 0.5, 2.0]), np.array([0, 1.0]), np.zeros(2)]
    path = trace(EnumeratedProblem(psi, loss), rule)
    assert path.complete and not path.reached_zero
    check_covered(path, list(zip(psi, loss, strict=True)))


@pytest.mark.parametrize("rule", RULES)
def test_only_the_closed_form_is_needed(rule):
    path = trace(rule=rule, lambda_min=1e3)
    assert path.complete and len(path) == 1 and not path.segments and path.lambda_end == path.lambdas[0] < 1e3
    assert path.breakpoints.shape == (0,) and path.ranges() == [(np.inf, path.lambdas[0])] and path.total_passes <= 3
    check_covered(path)
    # With an epsilon above all losses zero weights would do.
    path = trace(rule=rule, epsilon=2.0)
    assert path.complete and path.reached_zero and len(path) <= 2
    check_covered(path)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_features_of_any_size(scale, rule):
    """With features times s and lambda times s^2 it is the same problem with weights over s."""
    model, blocks = make_case("multiclass")
    scaled = MulticlassProblem(scale * model.X, model.y, 3)
    path, other = trace(rule=rule), trace(scaled, rule, lambda_min=0.02 * scale**2)
    assert other.complete and other.lambdas[0] == pytest.approx(scale**2 * path.lambdas[0], rel=1e-9)
    reference = Reference(blocks)
    for lam in np.geomspace(10 * path.lambdas[0], 0.02 * (1 + 1e-9), 20):
        weights = scale * other.weights(scale**2 * lam)
        bound = other.gap_bound(scale**2 * lam)
        assert -1e-9 <= primal_at(blocks, weights, lam) - reference.optimum(lam) <= bound + 1e-9 <= 0.05 + 2e-9


@pytest.mark.parametrize("rule", RULES)
def test_duplicate_data_are_the_same_problem(rule):
    model, blocks = make_case("multiclass")
    twice = MulticlassProblem(np.repeat(model.X, 3, axis=0), np.repeat(model.y, 3), 3)
    path = trace(twice, rule)
    assert path.complete and path.lambdas[0] == pytest.approx(trace(rule=rule).lambdas[0], rel=1e-9)
    check_covered(path, blocks)
    # Features that are twice there halve the weights of each.
    wide = MulticlassProblem(np.repeat(model.X, 2, axis=1), model.y, 3)
    check_covered(trace(wide, rule), [outputs_of(wide, block) for block in range(6)], count=12)


@pytest.mark.parametrize("rule", RULES)
def test_small_epsilon_and_extreme_kappa(rule):
    """Hardly any room for the solver, or for the path."""
    binary = BinaryProblem(make_case("binary")[0].X, make_case("binary")[0].y)
    for epsilon, kappa, end in ((0.05, 0.999, 0.3), (0.05, 1e-3, 0.05), (1e-3, 0.5, 0.5)):
        path = trace(binary, rule, epsilon=epsilon, kappa=kappa, lambda_min=end, solver=BCFW(steps="pairwise", max_passes=1e5))
        assert path.complete
        check_covered(path, make_case("binary")[1], count=12)
    # Less than numbers can tell apart: it stops, and says so.
    path = trace(binary, rule, epsilon=1e-17, lambda_min=1e-3, solver=BCFW(steps="pairwise", max_passes=50))
    assert not path.complete
