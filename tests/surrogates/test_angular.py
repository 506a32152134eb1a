"""Angular search: exact, within its rates, and what no search can do (spec 9)."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.cases.surrogate_cases import KINDS, Adversary, best_point, generated, rational_root

from maxmargin.surrogates import Answer, Candidate, PointOracle, Slack, angular

points = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(1, 60))
few = settings(max_examples=60, deadline=None)


def made(case):
    kind, seed, n = case
    return PointOracle(*generated(kind, np.random.default_rng(seed), n))


@pytest.mark.parametrize("order", ["priority", "fifo"])
@few
@given(points, st.booleans())
def test_angular_search_is_exact(order, case, cached):
    oracle = made(case)
    known = oracle.points[:3] if cached else []
    found = angular(oracle, known, order=order)
    best = max(0.0, best_point(Slack(), oracle))
    assert found.best == pytest.approx(best, rel=1e-12) and found.exact
    positive = sum(p.h > -1 and p.g > 0 for p in oracle.points)
    assert found.calls <= 2 * positive + 1 + 2
    cones = [step for step in found.trace if step.cone is not None]
    keys = [step.found.key for step in cones if step.found is not None]
    # E5: no label comes twice, not even one on the ray where an angle was split.
    assert len(keys) == len(set(keys))


@few
@given(points)
def test_rates_of_first_in_first_out(case):
    """E11 and E12: theorem 4 with the corrected v_1, in the order for which it is proved; also in the sharper form."""
    oracle = made(case)
    best = best_point(Slack(), oracle)
    first = oracle.ask(1.0, 0.0), oracle.ask(0.0, 1.0)
    lam = (1 + first[0].upper) / first[1].upper if first[1].upper > 0 else 0.0
    if best <= 0 or lam <= 0:
        return
    found = angular(oracle, order="fifo", start=lam)
    cones = [step for step in found.trace if step.cone is not None]
    if not cones:
        return
    start = cones[0].found
    if start is None or start.g <= 0:
        return
    slope = start.g / (1 + start.h)
    v = max(lam * slope, 1 / (lam * slope))
    value = 0.0
    for t, step in enumerate(cones, 1):
        if step.found is not None:
            value = max(value, (1 + step.found.h) * step.found.g)
        assert best / value <= v ** (4 / (t + 1)) * (1 + 1e-9)
        assert best / value <= np.cosh(np.log(v) / 2 ** np.floor(np.log2(t + 1))) ** 2 * (1 + 1e-9)


@few
@given(points)
def test_incumbents_rise_and_bounds_fall(case):
    oracle = made(case)
    results = [angular(oracle, max_calls=k) for k in range(8)]
    for before, after in pairwise(results):
        assert after.best >= before.best and after.upper <= before.upper * (1 + 1e-12)
    assert all(r.upper >= max(0.0, best_point(Slack(), oracle)) * (1 - 1e-12) for r in results)


def test_the_counter_example_is_no_match():
    oracle = PointOracle(np.array([1e-3, 8.0, 3.9]) - 1, [6.0, 1e-3, 2.9])
    found = angular(oracle)
    assert found.incumbent.key == 2 and found.exact


def test_an_angle_that_is_exhausted_is_not_the_only_one():
    """E10: the label (4, 8) is on the middle ray of the upper angle, but (8, 6) in the lower one is better."""
    H, g = np.array([3.0, 8.0, 4.0, 14.0, 0.5]), np.array([12.0, 6.0, 8.0, 0.5, 14.0])
    for order in ("fifo", "priority"):
        found = angular(PointOracle(H - 1, g), order=order, start=1.0)
        assert found.incumbent.key == 1 and found.exact
    cones = [step for step in angular(PointOracle(H - 1, g), order="fifo").trace if step.cone]
    assert cones[1].found.key == 2 and cones[1].b == pytest.approx(0.5)


@few
@given(points, st.floats(0.05, 20), st.floats(1.05, 50))
def test_lemmas_9_and_10_of_cones(case, lam, width):
    """E13: in the cone around 1 / lam nothing exceeds B(sqrt(v)) times the answer, v its capacity, and its parts are smaller."""
    oracle, capacity = made(case), width
    low, high = 1 / (lam * width), width / lam
    found = oracle.within(lam, low, high).found
    inside = [p for p in oracle.points if p.h > -1 and p.g > 0 and low <= p.g / (1 + p.h) < high]
    assert (found is None) == (not inside)
    if found is None:
        return
    best, value = max((1 + p.h) * p.g for p in inside), (1 + found.h) * found.g
    assert best <= 0.25 * (np.sqrt(capacity) + 1 / np.sqrt(capacity)) ** 2 * value * (1 + 1e-9)
    slope = found.g / (1 + found.h)
    steep, flat = max(slope, 1 / (lam * lam * slope)), min(slope, 1 / (lam * lam * slope))
    for part in (np.sqrt(steep * lam), np.sqrt(1 / (lam * flat))):
        assert part == pytest.approx(np.sqrt(np.sqrt(steep / flat))) and part <= np.sqrt(capacity) * (1 + 1e-9)


def test_a_good_label_is_worth_remembering():
    rng = np.random.default_rng(0)
    cold = warm = 0
    for _ in range(50):
        oracle = PointOracle(*generated("gaussian", rng, 60))
        # The best angle first needs no incumbent: whatever it looks into could be better than the best label.
        found = angular(oracle, order="fifo")
        cold += found.calls
        warm += angular(oracle, [found.incumbent], order="fifo").calls
    assert warm <= cold


class RelaxedBox(PointOracle):
    """Labelings of d parts by numbers in [0, 1]: h and g are linear, and cones are rows of a linear program."""

    def __init__(self, rng, d):
        super().__init__([], [])
        self.dh, self.dg = rng.normal(scale=0.7, size=d), rng.uniform(0.1, 1.0, d)

    def _best(self, objective, rows=(), right=()):
        self.calls += 1
        solved = linprog(-objective, A_ub=np.array(rows) if len(rows) else None, b_ub=right if len(rows) else None, bounds=(0, 1))
        if not solved.success:
            return Answer(None, -np.inf)
        y = solved.x
        return Answer(Candidate(float(self.dh @ y), float(self.dg @ y), y.tobytes(), y), float(-solved.fun))

    def ask(self, a, b):
        return self._best(a * self.dh + b * self.dg)

    def within(self, lam, low, high):
        # low H <= g <= high H with H = 1 + h.
        return self._best(self.dh + lam * self.dg, [low * self.dh - self.dg, self.dg - high * self.dh], [-low, high])


def test_the_version_for_linear_programs():
    for seed in range(5):
        oracle = RelaxedBox(np.random.default_rng(seed), 6)
        found = angular(oracle, cone=True, ratio=0.999, shrink=1e-9, max_calls=100)
        # The optimum over the relaxation, whose lines K^2 / (4 lam) meet it.
        bound = min((1 + oracle.ask(1.0, lam).upper) ** 2 / (4 * lam) for lam in np.geomspace(0.05, 20, 100))
        assert 0.997 * bound <= found.best <= bound * (1 + 1e-9)
        assert found.upper >= found.best and found.calls < 60


@pytest.mark.parametrize("M", [4, 8, 12])
def test_no_search_is_exact_with_fewer_questions_than_labels(M):
    """Theorem 3: after M - 1 questions of any kind to its cones the adversary holds back a label that beats all it has shown."""
    adversary = Adversary()
    queue = [(Fraction(1, 8), Fraction(8))]
    while len(adversary.questions) < M - 1:
        low, high = queue.pop(0)
        middle = rational_root(low * high)
        adversary.ask(1 / middle, low, high)
        queue += [(middle, high), (low, middle)]
    hidden = adversary.final()
    assert all(h * g < hidden[0] * hidden[1] for h, g in adversary.seen)
    # All answers are right for the labels shown and the one held back.
    for lam, low, high, answer in adversary.questions:
        labels = [*adversary.seen, hidden]
        inside = [k for k, (h, g) in enumerate(labels) if low * h <= g <= high * h]
        if answer is None:
            assert not [k for k in inside if k == len(labels) - 1]
        else:
            assert labels[answer][0] + lam * labels[answer][1] == max(labels[k][0] + lam * labels[k][1] for k in inside)
