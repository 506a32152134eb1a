"""Searches against brute force on sets of points (spec 8, 10 and 14.2)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.surrogate_cases import KINDS, best_point, generated, hull_optimum

from maxmargin.surrogates import (
    ROUNDING,
    Answer,
    BetaScaling,
    Candidate,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    PointOracle,
    ProbLoss,
    Slack,
    binary_search,
    bisecting,
    hull_search,
    recover,
    sarawagi,
)
from maxmargin.surrogates.geometry import best_between, upper_right_hull

SURROGATES = [
    Margin(), Slack(), BetaScaling(0.25), BetaScaling(0.5), BetaScaling(0.75), GeneralizedScaling(0.6, 0.3), LogLoss(),
    ProbLoss(), ProbLoss(convex=False),
]  # fmt: skip

points = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(1, 60))
few = settings(max_examples=25, deadline=None)


def made(case):
    kind, seed, n = case
    return PointOracle(*generated(kind, np.random.default_rng(seed), n))


# ---- the oracle (spec 7.1) -------------------------------------------------------------------------------------------------


@few
@given(points)
def test_answers_move_one_way_with_the_weight_of_the_loss(case):
    oracle = made(case)
    lams = np.concatenate([[0], np.geomspace(1e-3, 1e3, 12)])
    found = [oracle.ask(1.0, lam) for lam in lams]
    corners = {point[:2] for point in upper_right_hull(oracle.points)}
    for before, after in pairwise(found):
        assert after.found.g >= before.found.g and after.found.h <= before.found.h
    tops = [answer.upper for answer in found]
    for k in range(1, len(lams) - 1):
        share = (lams[k] - lams[k - 1]) / (lams[k + 1] - lams[k - 1])
        assert tops[k] <= (1 - share) * tops[k - 1] + share * tops[k + 1] + 1e-9
    if case[0] not in ("collinear", "grid", "arc"):
        assert all(answer.found[:2] in corners for answer in found[1:])
    assert oracle.ask(0.0, 1.0).found[:2] == max(oracle.points, key=lambda p: (p.g, p.h))[:2]
    assert oracle.ask(1.0, 0.0).found[:2] == max(oracle.points, key=lambda p: (p.h, p.g))[:2]
    best = oracle.k_best(1.0, 2.0, 7)
    values = [point.along(1.0, 2.0) for point in best]
    assert values == sorted(values, reverse=True) and len({point.key for point in best}) == len(best)


# ---- hull search (spec 10) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", SURROGATES, ids=repr)
@few
@given(points, st.data())
def test_hull_search_finds_the_optimum_of_the_hull(surrogate, case, data):
    """E15: as printed, along the edge to a neighbour *below* the tangent, many of these are missed."""
    oracle = made(case)
    known = [p for p in oracle.points if data.draw(st.booleans())][:6] if data.draw(st.booleans()) else []
    first = data.draw(st.sampled_from([None, 0.0, 1.0, 10.0]))
    found = hull_search(surrogate, oracle, known, first=first)
    optimum = hull_optimum(surrogate, oracle)
    assert found.value == pytest.approx(optimum, rel=1e-7, abs=1e-9)
    assert found.best <= found.value * (1 + ROUNDING) and found.upper >= best_point(surrogate, oracle) - 1e-9
    assert found.upper == pytest.approx(found.value, rel=1e-7, abs=1e-9)
    corners = len(upper_right_hull(oracle.points))
    assert found.calls <= corners + 1 + (first is not None and not known)
    mixed_h, mixed_g = (sum(w * getattr(p, axis) for w, p in zip(found.weights, found.labels, strict=True)) for axis in "hg")
    assert surrogate.value(mixed_h, mixed_g) == pytest.approx(found.value, rel=1e-9, abs=1e-12)
    # A perfect warm start needs the certificate only.
    again = hull_search(surrogate, oracle, found.vertices)
    assert again.calls == 1 and again.value == pytest.approx(found.value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=repr)
def test_the_best_place_between_two_points(surrogate):
    """Against many places, dense near both ends; from the better of the two points, which may be the truth, as in searches."""
    rng, dense = np.random.default_rng(5), np.geomspace(1e-9, 0.5, 4000)
    places = np.concatenate([[0.0], dense, 1.0 - dense[::-1], [1.0]])
    moved = 0
    # From where psi is next to nothing, and flat, to where it is large.
    cases = [([-8.5, 53.0], [0.73, 0.0]), ([-14.4, 87.3], [1.0, 0.0]), ([-25.0, -88.0], [1.0, 8.0]), ([-16.1, -44.4], [0.5, 3.0])]
    for k in range(300):
        h, g = rng.normal(size=2) * 10.0 ** rng.uniform(-2, 2, 2), rng.choice([0.0, 0.7, 1.0, 2.0, 8.0], 2)
        cases.append((h.tolist(), g.tolist()) if k % 3 else ([0.0, h[1].item()], [0.0, g[1].item()]))
    for h, g in cases:
        p, q = sorted(map(Candidate, h, g), key=lambda point: -float(surrogate.value(point.h, point.g)))
        with np.errstate(all="ignore"):
            place, value = best_between(surrogate, p, q)
            values = np.asarray(surrogate.value(p.h + places * (q.h - p.h), p.g + places * (q.g - p.g)))
        if values.max() >= 0 and (p.g > 0 or q.g > 0):
            assert 0 <= place <= 1 and value >= values.max() * (1 - 1e-9)
            assert value == pytest.approx(float(surrogate.value(p.h + place * (q.h - p.h), p.g + place * (q.g - p.g))), rel=1e-12)
            moved += 0 < place < 1
    assert moved > 30 or isinstance(surrogate, Margin)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=repr)
@few
@given(points)
def test_recovery_finds_the_best_single_output(surrogate, case):
    oracle = made(case)
    found = recover(surrogate, oracle, hull_search(surrogate, oracle))
    assert found.best == pytest.approx(max(0.0, best_point(surrogate, oracle)), rel=1e-9, abs=1e-12)
    assert found.upper == pytest.approx(found.best, rel=1e-6, abs=1e-8)
    assert surrogate.value(found.incumbent.h, found.incumbent.g) == found.best


@few
@given(points, st.integers(0, 2**31))
def test_micro_f1_never_is_a_mixture(case, seed):
    """In its own coordinates: h = loss + margin error, g = minus the sizes; the truth is at (0, -size)."""
    h, g = generated(*case[:1], np.random.default_rng(case[1]), case[2])
    oracle = PointOracle(h, -g)
    size = float(np.random.default_rng(seed).integers(1, 5))
    oracle.points.remove(oracle.truth)
    oracle.truth = Candidate(0.0, -size, "truth")
    oracle.points.append(oracle.truth)
    found = hull_search(MicroF1(), oracle)
    assert len(found.labels) == 1 and found.best == pytest.approx(best_point(MicroF1(), oracle), rel=1e-9, abs=1e-12)


def test_lemma_13_in_four_questions():
    for eps in (1e-2, 1e-4, 1e-6):
        oracle = PointOracle([1.0, 3.0, 2.0 + eps], [4.0, 2.0, 3.0])
        found = hull_search(Slack(), oracle)
        assert found.calls == 4 and found.exact and found.incumbent.key == 2
        assert [step.found.key for step in found.trace] == [0, 1, 2, 2]
        # Any other weight of the loss finds the other two only.
        assert oracle.ask(1.0, 1 + 2 * eps).found.key == 0 and oracle.ask(1.0, 1 - 2 * eps).found.key == 1


def test_stop_is_by_value_not_by_label():
    """Three labels on one line: the decoder may return any of them."""
    oracle = PointOracle([3.0, 2.0, 1.0], [1.0, 2.0, 3.0])
    found = hull_search(Slack(), oracle)
    assert found.value == pytest.approx(6.25) and found.calls <= 5


@few
@given(points, st.integers(0, 2**31))
def test_order_of_labels_does_not_matter(case, seed):
    oracle = made(case)
    shuffled = np.random.default_rng(seed).permutation(len(oracle.h))
    other = PointOracle(oracle.h[shuffled], oracle.g[shuffled])
    assert hull_search(Slack(), oracle).value == pytest.approx(hull_search(Slack(), other).value, rel=1e-9)
    assert recover(Slack(), oracle, hull_search(Slack(), oracle)).best == pytest.approx(
        recover(Slack(), other, hull_search(Slack(), other)).best, rel=1e-9
    )


@few
@given(points, st.floats(0.1, 10), st.floats(0.1, 10))
def test_slack_rescaling_does_not_mind_scales(case, scale_h, scale_g):
    oracle = made(case)
    other = PointOracle(scale_h * (1 + oracle.h) - 1, scale_g * oracle.g)
    # The truth at H = 1 is worth nothing at any scale, but would be a corner.
    for search in (lambda o: recover(Slack(), o, hull_search(Slack(), o)).best,):
        assert search(other) == pytest.approx(scale_h * scale_g * search(oracle), rel=1e-7, abs=1e-9)


# ---- searches of slack rescaling by the plain oracle (spec 8) -----------------------------------------------------------------


@pytest.mark.parametrize("search", [bisecting, binary_search, sarawagi])
@few
@given(points)
def test_plain_searches_are_sandwiched(search, case):
    oracle = made(case)
    found = search(oracle)
    best, optimum = max(0.0, best_point(Slack(), oracle)), hull_optimum(Slack(), oracle)
    assert found.best <= best + 1e-9
    assert found.upper >= best * (1 - 1e-9)
    assert found.calls <= 60 and found.calls == len(found.trace)
    assert Slack().value(found.incumbent.h, found.incumbent.g) == pytest.approx(found.best)
    if search is not sarawagi and found.best > 1e-4 * optimum:
        # The bound is that of the hull, and the output the best that any question finds.
        corners = upper_right_hull(oracle.points)
        reachable = max(max(0.0, float(Slack().value(p.h, p.g))) for p in corners)
        assert found.best >= reachable * (1 - 1e-5)
        assert found.upper >= optimum * (1 - 1e-9)


@few
@given(points, st.floats(0.01, 20))
def test_lemmas_of_the_plane(case, lam):
    oracle = made(case)
    found, upper = oracle.ask(1.0, lam)
    products = (1 + oracle.h) * oracle.g
    best = products.max(initial=0.0)
    K = 1 + upper
    assert best <= K * K / (4 * lam) * (1 + 1e-12)
    if best > 0:
        k = int(products.argmax())
        H, g = 1 + found.h, found.g
        assert min(H, lam * g) - 1e-9 <= 1 + oracle.h[k] <= max(H, lam * g) + 1e-9
        assert min(g, H / lam) - 1e-9 <= oracle.g[k] <= max(g, H / lam) + 1e-9


@few
@given(points)
def test_golden_sections_certify_that_nothing_exceeds_the_slack(case):
    oracle = made(case)
    best = max(0.0, best_point(Slack(), oracle))
    found = sarawagi(oracle, slack=hull_optimum(Slack(), oracle) * 1.01 + 1e-6)
    assert found.upper >= best * (1 - 1e-9)


def test_bisecting_ends():
    """E7: the printed loop does not."""
    rng = np.random.default_rng(0)
    calls = []
    for _ in range(200):
        oracle = PointOracle(*generated("gaussian", rng, 20))
        calls.append(bisecting(oracle, start=1.0).calls)
    assert max(calls) <= 60 and np.mean(calls) < 25


# ---- where the plain oracle fails (spec 8.5) -----------------------------------------------------------------------------------


def counter_example(eps=1e-3, most_h=8.0, most_g=6.0):
    """A = (eps, G), B = (H, eps), C = (H/2, G/2) in coordinates with H = 1 + h: C is below the line of A and B."""
    return PointOracle(np.array([eps, most_h, most_h / 2 - eps]) - 1, [most_g, eps, most_g / 2 - eps])


def test_the_plain_oracle_cannot_find_what_is_below_a_segment():
    eps, most_h, most_g = 1e-3, 8.0, 6.0
    oracle = counter_example(eps, most_h, most_g)
    for lam in np.geomspace(1e-6, 1e6, 500):
        assert oracle.ask(1.0, lam).found.key != 2
    best = best_point(Slack(), oracle)
    for search in (bisecting, binary_search, sarawagi):
        found = search(oracle)
        assert found.best < 0.1 * best and found.upper >= best and not found.exact
    found = hull_search(Slack(), oracle)
    assert {label.key for label in found.labels} == {0, 1} and found.value == pytest.approx((most_h + eps) * (most_g + eps) / 4)
    assert found.best < 0.1 * best
    recovered = recover(Slack(), oracle, found)
    assert recovered.incumbent.key == 2 and recovered.exact


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.5), st.floats(0.01, 100))
def test_a_point_below_a_segment_is_never_the_only_best(share, depth, lam):
    """E9: the corrected lemma 6."""
    oracle = PointOracle([0.0, 4.0, 4 * share - depth], [3.0, 1.0, 3 - 2 * share - depth])
    assert oracle.ask(1.0, lam).found.key != 2


def test_rounding_on_an_edge_from_the_truth_ends_the_search():
    """The sum along the edge is zero at both ends but for rounding."""
    rng = np.random.default_rng(0)
    for h in -rng.uniform(0.5, 5, 300):
        for surrogate in (Slack(), GeneralizedScaling(0.6, 0.3)):
            assert hull_search(surrogate, PointOracle([h], [3.0])).calls <= 3


def test_single_labels_and_nothing_to_find():
    for surrogate in SURROGATES:
        alone = PointOracle([], [])
        assert hull_search(surrogate, alone).best == 0 and hull_search(surrogate, alone).exact
        one = PointOracle([0.5], [2.0])
        assert hull_search(surrogate, one).incumbent.key == 0
    for search in (bisecting, binary_search, sarawagi):
        assert search(PointOracle([], [])).best == 0
        assert search(PointOracle([-3.0, -2.0], [1.0, 2.0])).best == 0


# ---- oracles that are not exact ------------------------------------------------------------------------------------------------


class Sloppy(PointOracle):
    """Returns the second best, and a bound above the best."""

    def ask(self, a, b):
        self.calls += 1
        ordered = self._sorted(self.points, a, b)
        return Answer(ordered[min(1, len(ordered) - 1)], ordered[0].along(a, b) + 0.1)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=repr)
@few
@given(points)
def test_bounds_hold_for_oracles_that_are_not_exact(surrogate, case):
    kind, seed, n = case
    oracle = Sloppy(*generated(kind, np.random.default_rng(seed), n))
    best = best_point(surrogate, oracle)
    found = hull_search(surrogate, oracle)
    assert found.upper >= best * (1 - 1e-9) and found.best <= best + 1e-12
    if surrogate.product:
        for search in (bisecting, binary_search, sarawagi):
            assert search(oracle).upper >= best * (1 - 1e-9)


class Graded(PointOracle):
    def losses(self):
        return np.arange(8.0)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=repr)
@few
@given(st.integers(0, 2**31), st.integers(1, 40))
def test_known_losses_make_bounds_tighter(surrogate, seed, n):
    h, g = generated("integer", np.random.default_rng(seed), n)
    found, plain = hull_search(surrogate, Graded(h, g)), hull_search(surrogate, PointOracle(h, g))
    assert best_point(surrogate, PointOracle(h, g)) <= found.upper * (1 + 1e-12) + 1e-12
    assert found.upper <= plain.upper * (1 + 1e-8)
