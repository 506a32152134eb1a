"""Relaxations against one large linear program, enumeration, and what is proved of each."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.rounding_cases import potts_example
from tests.labeling.test_messages import KINDS, least_energy, random_energy, relaxed_energy

from maxmargin import _core
from maxmargin._utils import time_limit
from maxmargin.labeling import (
    Cliques,
    Energy,
    FractionalLabeling,
    Metric,
    PnPotts,
    expected_energy,
    local_polytope,
    minimize,
    potts_program,
    primal_dual,
    relax,
    round_labeling,
    trws,
)
from maxmargin.labeling.relaxations import RELAXATIONS

METHODS = [name for name in RELAXATIONS if name != "auto"]
ENTRIES = st.floats(-1e6, 1e6) | st.floats(-1e20, 1e20) | st.just(-np.inf) | st.sampled_from([0.0, 0.5, 1.0])


def frustrated(rng, kind="potts", n=6):
    """No node wants its own label; the relaxation is better than any labeling."""
    edges = [(a, b) for a in range(n) for b in range(a)]
    pairwise = {"potts": "potts", "linear": Metric("linear", limit=1.2), "quadratic": Metric("quadratic", limit=1.2)}[kind]
    unary = 2.0 * np.eye(n) + 0.05 * rng.random((n, n))
    return Energy(unary, edges, pairwise, weights=0.5 + 0.1 * rng.random(len(edges)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.integers(1, 4), st.booleans())
def test_linear_relaxation_against_one_program(seed, kind, n_labels, forest):
    energy = random_energy(np.random.default_rng(seed), kind, n_nodes=5, n_labels=n_labels, forest=forest)
    wanted, least = relaxed_energy(energy), least_energy(energy)
    for method, tol in (("lp", 1e-6), ("first_order", 1e-4)):
        found = relax(energy, method)
        assert found.certified and found.status == "converged"
        assert found.lower_bound - 1e-6 <= wanted <= found.value + 1e-6
        assert found.value == pytest.approx(wanted, rel=2 * tol, abs=20 * tol)
        assert found.lower_bound <= least + 1e-9
        assert (found.marginals[np.isinf(energy.unary)] == 0).all()
        assert (np.diff(found.bounds) >= 0).all() and (np.diff(found.history) <= 1e-9).all()
        if forest:
            assert found.value == pytest.approx(least) and found.is_integral


@pytest.mark.parametrize("kind", ["potts", "linear", "quadratic"])
def test_fractional_points(kind):
    rng = np.random.default_rng(0)
    for _ in range(2):
        energy = frustrated(rng, kind)
        wanted, least = relaxed_energy(energy), minimize(energy, "exhaustive").energy
        exact, steps = relax(energy, "lp"), relax(energy, "first_order", tol=1e-5)
        assert wanted < least - 0.01 and exact.n_fractional > 0 and steps.n_fractional > 0
        assert exact.value == pytest.approx(wanted, abs=1e-6) == pytest.approx(exact.lower_bound, abs=1e-6)
        assert wanted - 1e-9 <= steps.value <= wanted * (1 + 2e-5) and steps.lower_bound <= wanted + 1e-9
        # TRW-S is stuck below, or at best there.
        assert trws(energy).lower_bound <= exact.value + 1e-9


def test_values_are_those_of_the_marginals():
    rng = np.random.default_rng(1)
    energy = frustrated(rng)
    for method in ("lp", "first_order"):
        found = relax(energy, method)
        y, ends = found.marginals, found.marginals[energy.edges]
        own = np.vdot(energy.unary, y) + 0.5 * energy.weights @ np.abs(ends[:, 0] - ends[:, 1]).sum(axis=1)
        assert found.value == pytest.approx(own, rel=1e-12)
    # With linear distances complete rounding's pairs are the best ones.
    energy = Energy.grid(rng.random((4, 5, 6)), "linear", weights=0.1)
    found = relax(energy, "first_order", tol=1e-6)
    assert found.value == pytest.approx(expected_energy(found, energy), rel=1e-9)
    found = relax(energy, "qp")
    assert found.value == pytest.approx(expected_energy(found, energy, method="independent"), rel=1e-12)


def test_potts_example():
    energy, y = potts_example(5)
    found = relax(energy)
    assert found.method == "lp" and found.value == pytest.approx(2.5) == pytest.approx(found.lower_bound)
    ends = y[energy.edges]
    assert 0.5 * np.abs(ends[:, 0] - ends[:, 1]).sum() == pytest.approx(2.5)
    assert np.diag(found.marginals).max() == 0


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.integers(1, 4))
def test_quadratic_relaxations_never_rise(seed, kind, n_labels):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, kind, n_nodes=5, n_labels=n_labels)
    least = least_energy(energy)
    for init in ("unary", "uniform", "random"):
        found = relax(energy, "qp", init=init, random_state=seed)
        slack = 1e-9 * (1 + abs(found.history[0]))
        assert (np.diff(found.history) <= slack).all()
        # The best point of this relaxation is a labeling.
        assert found.value >= least - slack
        assert found.lower_bound is None and not found.certified
        assert found.value == pytest.approx(expected_energy(found, energy, method="independent"))
        assert (found.marginals[np.isinf(energy.unary)] == 0).all()
    convex = relax(energy, "convex_qp", tol=0.01, max_iter=200)
    assert convex.lower_bound <= least + 1e-9 and (np.diff(convex.history) <= slack).all() and (np.diff(convex.bounds) >= 0).all()


def test_convex_relaxation_is_convex_and_exact_for_labelings():
    rng = np.random.default_rng(2)
    energy = random_energy(rng, "own", n_nodes=4, n_labels=3)
    energy = energy.replaced(unary=np.where(np.isinf(energy.unary), 0.5, energy.unary))
    for x in product(range(3), repeat=4):
        at = relax(energy, "convex_qp", init=np.eye(3)[list(x)], max_iter=0)
        assert at.value == pytest.approx(energy.energy(x))

    def value(y):
        return relax(energy, "convex_qp", init=y, max_iter=0).value

    for _ in range(50):
        a, b = rng.dirichlet(np.ones(3), size=(2, 4))
        assert value(0.5 * (a + b)) <= 0.5 * (value(a) + value(b)) + 1e-9


def test_exact_line_search():
    """The first step ends at the lowest of many points on its way."""
    rng = np.random.default_rng(3)
    for convex in ("qp", "convex_qp"):
        for _ in range(10):
            energy = random_energy(rng, "own", n_nodes=5, n_labels=3)
            start = relax(energy, convex, max_iter=0).marginals
            step = relax(energy, convex, max_iter=1, tol=0).marginals
            if np.allclose(step, start):
                continue
            direction = (step - start) / np.abs(step - start).max()
            lengths = np.linspace(0, 1, 41)
            points = [start + t * direction for t in lengths if (start + t * direction >= 0).all()]
            values = [relax(energy, convex, init=np.maximum(y, 0), max_iter=0).value for y in points]
            reached = relax(energy, convex, init=step, max_iter=0).value
            assert reached <= min(values) + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_trws_min_marginals_are_exact_on_trees(kind):
    rng = np.random.default_rng(4)
    for _ in range(6):
        energy = random_energy(rng, kind, n_nodes=6, n_labels=3, forest=True)
        all_labels = list(product(range(3), repeat=6))
        costs = np.array([energy.energy(x) for x in all_labels])
        exact = np.array([[min(costs[[x[a] == i for x in all_labels]]) for i in range(3)] for a in range(6)]) - costs.min()
        found = relax(energy, "trws", temperature=0.5)
        shares = np.exp(-exact / 0.5)
        np.testing.assert_allclose(found.marginals, shares / shares.sum(axis=1, keepdims=True), atol=1e-10)
        assert found.lower_bound == pytest.approx(costs.min())


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KINDS))
def test_trws_bounds(seed, kind):
    energy = random_energy(np.random.default_rng(seed), kind)
    found = relax(energy, "trws")
    assert (np.diff(found.bounds) >= 0).all() and found.lower_bound == found.bounds[-1] <= found.value
    assert found.lower_bound <= relaxed_energy(energy) + 1e-8
    assert found.value == pytest.approx(expected_energy(found, energy)) and found.value >= relaxed_energy(energy) - 1e-8
    assert (found.marginals[np.isinf(energy.unary)] == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_single_nodes_labels_and_no_edges(method):
    rng = np.random.default_rng(5)
    unary = rng.random((4, 3))
    unary[1, 2] = np.inf
    found = relax(Energy(unary), method)
    assert method == "trws" or found.value == pytest.approx(unary.min(axis=1).sum(), abs=1e-6)
    assert method == "qp" or found.lower_bound == pytest.approx(unary.min(axis=1).sum(), abs=2e-3)
    assert relax(Energy(np.full((3, 1), 2.0), [(0, 1)], [[5.0]], weights=2.0), method).value == pytest.approx(16.0)
    tied = relax(Energy(np.zeros((3, 2)), [(0, 1), (1, 2)], "potts"), method)
    assert tied.marginals.sum(axis=1) == pytest.approx(1.0) and tied.value >= -1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e7), (1.0, -1e7)])
def test_units_and_offsets_do_not_matter(method, scale, offset):
    rng = np.random.default_rng(6)
    plain = frustrated(rng)
    other = Energy(scale * plain.unary + offset, plain.edges, plain.table, weights=scale * plain.weights)
    # Softmax of unary costs knows their unit.
    more = {"init": "uniform"} if method in ("qp", "convex_qp") else {"temperature": scale} if method == "trws" else {}
    one, two = relax(plain, method, **({**more, "temperature": 1.0} if method == "trws" else more)), relax(other, method, **more)
    within = 2e-3 if method == "convex_qp" else 2e-4
    assert two.value - 6 * offset == pytest.approx(scale * one.value, rel=within, abs=1e-7 if offset else 0)
    assert (two.lower_bound is None) == (one.lower_bound is None)
    if one.lower_bound is not None:
        assert two.lower_bound - 6 * offset == pytest.approx(scale * one.lower_bound, rel=within, abs=1e-7 if offset else 0)
    assert two.certified == one.certified


def test_grids_and_automatic_choice():
    rng = np.random.default_rng(7)
    small = relax(Energy.grid(rng.random((5, 4, 3)), "potts", weights=0.2))
    assert small.method == "lp" and small.shape == (5, 4) and small.certified
    large = relax(Energy.grid(rng.random((40, 40, 6)), Metric("linear", limit=2), weights=0.1), tol=1e-3)
    assert large.method == "first_order" and large.certified and large.value - large.lower_bound <= 1e-3 * large.value


@pytest.mark.parametrize("method", METHODS)
def test_time_limits_and_interrupts(method):
    rng = np.random.default_rng(8)
    energy = frustrated(rng)
    stopped = relax(energy, method, time_limit=0.0, tol=0)
    assert stopped.value is not None and stopped.marginals.shape == (6, 6)
    assert (
        stopped.status in ("time_limit", "converged")
        and (stopped.lower_bound or -np.inf) <= minimize(energy, "exhaustive").energy
    )
    if method == "lp":
        return
    seen = []

    def stop(value, bound):
        seen.append((value, bound))
        if len(seen) == (1 if method == "trws" else 2):
            raise KeyboardInterrupt

    found = relax(energy, method, tol=0, callback=stop)
    assert found.status == "interrupted" and seen
    assert found.value == pytest.approx(seen[-1][0]) or method == "trws"


def test_progress(capsys):
    relax(frustrated(np.random.default_rng(9)), "first_order", verbose=True)
    assert "relax first_order: value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "sdp"}, "method='sdp' is unknown; choose one of 'auto', 'lp', 'first_order'"),
        ({"tol": -1.0}, "tol=-1.0 must be a number that is not negative"),
        ({"tol": float("nan")}, "tol=nan must be a number that is not negative"),
        ({"time_limit": -1.0}, "time_limit=-1.0 must be a number that is not negative"),
        ({"max_iter": -1}, "max_iter=-1 must be a whole number that is not negative"),
        ({"time_limit": "1"}, "time_limit='1' must be a number that is not negative"),
        ({"max_iter": 2.5}, "max_iter=2.5 must be a whole number that is not negative"),
        ({"method": "qp", "init": "random", "random_state": -1}, "random_state=-1 must be an integer that is not negative"),
        ({"method": "trws", "temperature": "hot"}, "temperature='hot' must be a positive number"),
        ({"method": "trws", "temperature": 0.0}, "temperature=0.0 must be a positive number"),
        ({"method": "lp", "init": "unary"}, "init is where 'qp' and 'convex_qp' start, but method='lp'"),
        ({"method": "qp", "init": "best"}, "init='best' is unknown; choose one of 'unary', 'uniform', 'random'"),
        ({"method": "qp", "init": [[0.5, 0.5]]}, r"init has shape \(1, 2\), but the energy needs \(2, 2\)"),
        ({"method": "qp", "init": [[0.5, 0.6], [1, 0]]}, r"init\[0\] add up to 1.1, not to 1; divide every row by its sum"),
        ({"method": "qp", "init": [[0.5, 0.5], [1, 0]]}, "init has 0.5 of label 1 at node 0, which unary forbids; set it to 0"),
    ],
)
def test_bad_arguments(arguments, message):
    energy = Energy([[0.0, np.inf], [1.0, 0.0]], [(0, 1)], "potts")
    with pytest.raises(ValueError, match=message):
        relax(energy, **arguments)


def test_energies_without_a_fractional_part():
    with pytest.raises(ValueError, match="1 cliques, which have no fractional part here; leave them out"):
        relax(Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts())))
    with pytest.raises(TypeError, match="energy must be an Energy, but is a FractionalLabeling"):
        relax(FractionalLabeling(np.ones((1, 1))))


@settings(max_examples=100, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=8))
def test_steps_stay_in_the_simplex(values):
    """One step of length one from a uniform start, without edges, is a projection of what it starts from less the costs."""
    costs = -np.array(values)
    if np.isinf(costs).all():
        costs[0] = 0.0
    start = np.where(np.isinf(costs), 0.0, 1.0)
    start /= start.sum()
    method = _core.PrimalDual(
        costs[None], np.zeros((0, 2), np.int32), np.zeros((len(costs),) * 2), np.zeros(0), False, 0.0, start[None], np.zeros(0)
    )
    method.run(1, 1.0)
    y = method.nodes(False)
    assert (y >= 0).all() and y.sum() == pytest.approx(1.0, abs=1e-12) and (y[np.isinf(costs)] == 0).all()
    # The nearest point: all labels it has are above what they came from by the same amount, the others by more.
    wanted = start - costs
    shift = (wanted - y)[y > 0]
    slack = 1e-9 * (1 + np.abs(shift).max())
    assert np.ptp(shift) <= slack and (wanted[y == 0] <= shift.max() + slack).all()


@pytest.mark.parametrize("method", ["lp", "first_order"])
@pytest.mark.parametrize("dear", [1e6, 1e9])
def test_pairs_that_are_all_but_forbidden_do_not_blur_the_gap(method, dear):
    """Beside their costs the whole gap of TRW-S is tiny, and yet it is one."""
    rng = np.random.default_rng(10)
    for _ in range(3):
        edges = [(a, b) for a in range(6) for b in range(a)]
        table = np.eye(3) + 0.3 * rng.random((3, 3))
        table[0, 1] = table[2, 0] = 1e3
        energy = Energy(rng.random((6, 3)), edges, table)
        wanted = relaxed_energy(energy)
        found = relax(energy.replaced(table=np.where(table == 1e3, dear, table)), method)
        assert found.lower_bound - 1e-6 <= wanted <= found.value + 1e-6
        assert found.certified and found.value == pytest.approx(wanted, rel=2e-4)


@pytest.mark.parametrize("kind", ["potts", "linear"])
def test_an_interrupted_program_leaves_the_best_point_so_far(kind, monkeypatch):
    """Ctrl-C is seen once HiGHS is back."""
    energy = frustrated(np.random.default_rng(0), kind)

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(potts_program if kind == "potts" else local_polytope, "linprog", interrupted)
    found = relax(energy, "lp")
    assert found.status == "interrupted" and not found.certified and found.is_integral
    assert (
        found.lower_bound <= relaxed_energy(energy) <= found.value == pytest.approx(energy.energy(found.marginals.argmax(axis=1)))
    )


@pytest.mark.parametrize("kind", ["potts", "linear"])
def test_image_sized_steps_look_at_the_clock(kind, monkeypatch):
    """One sweep, or one step, at once, and nothing else changes."""
    energy = frustrated(np.random.default_rng(0), kind)
    at_once = relax(energy, "first_order", tol=1e-5)
    monkeypatch.setattr(primal_dual, "_WORK", 1)
    one_by_one = relax(energy, "first_order", tol=1e-5)
    assert one_by_one.certified and one_by_one.value == pytest.approx(at_once.value, rel=2e-5)
    assert (np.diff(one_by_one.history) <= 1e-12).all() and (np.diff(one_by_one.bounds) >= 0).all()
    stopped = relax(energy, "first_order", time_limit=0.0)
    assert stopped.status == "time_limit" and len(stopped.history) == 1 and stopped.lower_bound <= at_once.lower_bound


def test_sums_that_are_rounded_down_are_not_below_their_bound():
    for seed in range(120, 150):
        rng = np.random.default_rng(seed)
        edges = rng.permutation([(a, b) for a in range(5) for b in range(a)])
        unary, table = 1e3 * rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
        found = relax(Energy(unary, edges, table, weights=10.0 ** rng.integers(-6, 7, size=10)), "trws")
        assert found.lower_bound <= found.value


@pytest.mark.parametrize("method", ["lp", "first_order"])
def test_pairs_that_do_not_fit(method, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    energy = Energy.grid(np.zeros((10, 10, 3)), np.arange(9.0).reshape(3, 3))
    with pytest.raises(
        MemoryError, match=r"marginals of all pairs of labels are more than .* machine; use method='trws' or 'qp'"
    ):
        relax(energy, method)
    assert relax(energy, "trws").lower_bound == pytest.approx(0.0)


@pytest.mark.parametrize("method", ["first_order", "trws", "qp", "convex_qp"])
def test_limits_of_whoever_asks(method):
    with time_limit(0.0):
        found = relax(frustrated(np.random.default_rng(0)), method, tol=0)
    assert found.status == "time_limit" and len(found.history) == 1


def test_large_trees_are_exact_whatever_is_chosen():
    rng = np.random.default_rng(11)
    energy = Energy(rng.random((5000, 4)), [(k, k + 1) for k in range(4999)], rng.random((4, 4)))
    found = relax(energy)
    assert found.method == "first_order" and found.certified and found.is_integral and found.value == found.lower_bound
    assert found.value == pytest.approx(trws(energy).energy)


@pytest.mark.parametrize("size", [1e308, -1e308])
def test_costs_whose_sums_overflow(size):
    energy, half = Energy(np.full((4, 2), size), [(0, 1)], "potts"), np.full((4, 2), 0.5)
    doors = [partial(relax, energy, method) for method in METHODS]
    doors += [partial(expected_energy, half, energy, method=method) for method in ("complete", "independent")]
    doors += [partial(expected_energy, half, energy, gradient=True), partial(round_labeling, half, energy, random_state=0)]
    for door in doors:
        with pytest.raises(ValueError, match="so large that sums of them overflow; divide all of them by a number"):
            door()
