"""Compiled searches for slack rescaling against the same in Python, and the oracle of label sets against all sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.surrogate_cases import KINDS, generated

from maxmargin.core import Decoded
from maxmargin.multilabel import LabelSetOracle, LabelSetStructure, RelaxedLabelSets
from maxmargin.surrogates import Answer, Candidate, PointOracle, Slack, bisecting, hull_search, recover
from maxmargin.surrogates.oracle import Banned

points = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(1, 40))
few = settings(max_examples=60, deadline=None)


class InPython(Slack):
    """Slack rescaling that does not say that it is a product: the search in Python takes it."""

    @property
    def product(self):
        return False


class WithLosses(PointOracle):
    def losses(self):
        return np.unique(self.g)


def same(found, other):
    assert found.calls == other.calls
    assert [(step.a, step.b, step.found, step.upper) for step in found.trace] == [
        (step.a, step.b, step.found, step.upper) for step in other.trace
    ]
    assert found.incumbent == other.incumbent and found.best == other.best and found.vertices == other.vertices
    assert found.labels == other.labels or found.value == pytest.approx(other.value, rel=1e-7)
    assert found.value == pytest.approx(other.value, rel=1e-7, abs=1e-12)
    assert found.upper == pytest.approx(other.upper, rel=1e-6, abs=1e-9)


@few
@given(points, st.booleans(), st.data())
def test_the_compiled_hull_search_asks_what_the_one_in_python_asks(case, with_losses, data):
    kind, seed, n = case
    scale = data.draw(st.sampled_from([1e-8, 1.0, 1e8]))
    h, g = generated(kind, np.random.default_rng(seed), n)
    oracle = (WithLosses if with_losses else PointOracle)(scale * h, g)
    known = [p for p in oracle.points if data.draw(st.booleans())][:6] if data.draw(st.booleans()) else []
    if known and data.draw(st.booleans()):
        # Of earlier weights: the search corrects it when it comes there.
        known[0] = known[0]._replace(h=known[0].h + 1.0)
    options = {
        "first": data.draw(st.sampled_from([None, 0.0, 1.0, 10.0])),
        "with_truth": data.draw(st.booleans()),
        "enough": data.draw(st.sampled_from([-np.inf, 0.5, 5.0])),
        "tolerance": data.draw(st.sampled_from([0.0, 1e-3, 0.5])),
        "max_calls": data.draw(st.sampled_from([0, 1, 2, 500])),
    }
    same(hull_search(Slack(), oracle, known, **options), hull_search(InPython(), oracle, known, **options))


@few
@given(points, st.sampled_from([1e-6, 1e-3, 0.1]))
def test_a_tolerance_saves_questions_and_is_kept(case, tolerance):
    oracle = WithLosses(*generated(case[0], np.random.default_rng(case[1]), case[2]))
    whole, part = (hull_search(Slack(), oracle, tolerance=accepted) for accepted in (0.0, tolerance))
    assert [step[:2] for step in part.trace] == [step[:2] for step in whole.trace[: part.calls]]
    most = max((1 + point.h) * point.g for point in oracle.points)
    assert part.upper >= most * (1 - 1e-9) and part.best <= most
    if part.calls < whole.calls:
        # Among single outputs nothing is better by more than that, and so it is said.
        assert part.upper <= part.best * (1 + tolerance) * (1 + 1e-8)
        before = hull_search(Slack(), oracle, tolerance=tolerance, max_calls=part.calls - 1)
        assert before.upper > before.best * (1 + tolerance)


def test_a_tolerance_goes_by_answers_and_says_what_bounds_say():
    """An oracle that finds the best point, but cannot prove it: the search ends as early, and its bound is the oracle's."""

    class Unsure(WithLosses):
        def ask(self, a, b):
            found, upper = super().ask(a, b)
            return Answer(found, upper + 5.0)

    g = np.arange(1.0, 30.0)
    h = 4.0 - 4.0 * (g / 30.0) ** 2
    for psi in (Slack(), InPython()):
        sure, unsure = (hull_search(psi, kind(h, g), tolerance=0.01) for kind in (WithLosses, Unsure))
        assert sure.calls == unsure.calls < hull_search(psi, WithLosses(h, g)).calls and sure.incumbent == unsure.incumbent
        assert sure.upper <= 1.01 * sure.best and unsure.upper > 1.5 * unsure.best
    for wrong in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="tolerance"):
            hull_search(Slack(), WithLosses(h, g), tolerance=wrong)


@few
@given(points)
def test_recovery_is_the_same(case):
    oracle = PointOracle(*generated(case[0], np.random.default_rng(case[1]), case[2]))
    one, other = (recover(psi, oracle, hull_search(psi, oracle)) for psi in (Slack(), InPython()))
    assert one.incumbent == other.incumbent and one.upper == pytest.approx(other.upper, rel=1e-6, abs=1e-9)


def bisected(oracle, known, start, tolerance, max_calls):
    """Questions of bisecting, as printed with E7, and the bound."""
    best, upper, asked = max([oracle.truth, *known], key=lambda p: (1 + p.h) * p.g), np.inf, []

    def probe(a, b):
        nonlocal best, upper
        found, most = oracle.ask(a, b)
        asked.append((a, b, found.key))
        best = found if (1 + found.h) * found.g > (1 + best.h) * best.g else best
        upper = min(upper, (1 + most) ** 2 / (4 * b)) if a and b else upper
        return found, most

    if start is None:
        most_h, most_g = 1 + probe(1.0, 0.0)[1], probe(0.0, 1.0)[1]
        upper, start = max(0.0, most_h) * most_g, most_h / most_g if most_h > 0 and most_g > 0 else 1.0
    lam, low, high, ends = start, 0.0, np.inf, {}
    while len(asked) < max_calls and start / 1e12 <= lam <= start * 1e12:
        found = probe(1.0, lam)[0]
        if upper <= (1 + best.h) * best.g * (1 + tolerance):
            break
        side = lam * found.g <= 1 + found.h
        ends[side] = found[:2]
        low, high = (lam, high) if side else (low, lam)
        if (len(ends) == 2 and ends[True] == ends[False]) or high - low <= tolerance * high < np.inf:
            break
        lam = 2 * lam if high == np.inf else lam / 2 if low == 0 else float(np.sqrt(low * high))
    return asked, best, upper


@few
@given(points, st.sampled_from([None, 0.01, 1.0, 50.0]), st.sampled_from([1e-6, 1e-3]), st.sampled_from([2, 60]), st.booleans())
def test_compiled_bisecting_asks_what_is_printed(case, start, tolerance, max_calls, warm):
    oracle = PointOracle(*generated(case[0], np.random.default_rng(case[1]), case[2]))
    known = oracle.points[:3] if warm else []
    found = bisecting(oracle, known, start=start, tolerance=tolerance, max_calls=max_calls)
    asked, best, upper = bisected(oracle, known, start, tolerance, max_calls)
    assert [(step.a, step.b, step.found.key) for step in found.trace] == asked and found.calls == len(asked)
    assert found.best == (1 + best.h) * best.g and found.upper == pytest.approx(max(upper, found.best), rel=1e-12)
    met = {oracle.truth.key, *(point.key for point in known), *(key for *_, key in asked)}
    assert {point.key for point in found.vertices} == met and len(found.vertices) == len(met)


def test_what_goes_wrong_in_an_oracle_comes_out():
    class Broken(PointOracle):
        answer = None

        def ask(self, a, b):
            if self.answer is None:
                raise ArithmeticError("no answer")
            return self.answer

    oracle = Broken([1.0], [1.0])
    for search in (lambda: hull_search(Slack(), oracle), lambda: bisecting(oracle)):
        oracle.answer = None
        with pytest.raises(ArithmeticError, match="no answer"):
            search()
        oracle.answer = [Candidate(1.0, 1.0, 0), 2.0]
        with pytest.raises(TypeError, match="must return an Answer"):
            search()
        oracle.answer = Answer(Candidate("one", 1.0, 0), 2.0)
        with pytest.raises(TypeError):
            search()
        oracle.answer = Answer(Candidate(1.0, 1.0, []), 2.0)
        with pytest.raises(TypeError, match="unhashable"):
            search()
    oracle.answer = Answer(None, -np.inf)
    with pytest.raises(ValueError, match="found no output"):
        bisecting(oracle)
    nothing = hull_search(Slack(), Banned(PointOracle([], []), {"truth"}), with_truth=False)
    assert nothing.best == nothing.upper == 0 and nothing.vertices == []


# ---- label sets ------------------------------------------------------------------------------------------------------------


@st.composite
def samples(draw, most=6):
    """A structure with some pairs, an input, weights with ties and zeros, and a true set."""
    L, seed = draw(st.integers(1, most)), draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    pairs = [(j, k) for j in range(L) for k in range(j) if rng.random() < draw(st.sampled_from([0.0, 0.5, 1.0]))]
    structure = LabelSetStructure(L, 2, pairs)
    weights = np.round(rng.normal(size=structure.n_weights) * draw(st.sampled_from([0.0, 1.0, 3.0])), draw(st.integers(0, 3)))
    return structure, rng.normal(size=2), weights, rng.integers(0, 2, L)


@few
@given(samples(), st.sampled_from([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.3), (0.25, 1.0)]))
def test_answers_about_label_sets_are_the_best_of_all(sample, question):
    structure, x, weights, truth = sample
    oracle, (a, b) = LabelSetOracle(structure, x, weights, truth), question
    own = np.sum(structure.joint_feature(x, truth) @ weights)
    everything = list(oracle.everything())
    for point in everything:
        assert point.h == pytest.approx(np.sum(structure.joint_feature(x, point.output) @ weights) - own, abs=1e-9)
        assert point.g == structure.loss(truth, point.output) and point.key == point.output.tobytes()
    found, upper = oracle.ask(a, b)
    best = max(point.along(a, b) for point in everything)
    assert upper == pytest.approx(best, abs=1e-9) and upper == found.along(a, b)
    assert found is oracle.candidate(found.output) and not found.output.flags.writeable
    assert oracle.truth[:2] == (0.0, 0.0) and oracle.opposite().g == oracle.most_loss() == max(oracle.losses()) == len(truth)
    ranked = sorted((point.along(a, b) for point in everything), reverse=True)
    assert [answer.upper for answer in oracle.listed(a, b, 3)] == pytest.approx(ranked[:3], abs=1e-9)
    assert oracle.calls == 3


@few
@given(samples(), st.booleans())
def test_searches_for_label_sets(sample, warm):
    structure, x, weights, truth = sample
    one, other = (LabelSetOracle(structure, x, weights, truth) for _ in range(2))
    best = max((1 + point.h) * point.g for point in one.everything())
    known = [one.opposite()] if warm else []
    found = hull_search(Slack(), one, known)
    one.calls = 0
    same_keys = hull_search(InPython(), other, known)
    assert [step[:2] for step in found.trace] == [step[:2] for step in same_keys.trace] and found.best == same_keys.best
    # What is best lies between what was found and the bound.
    for result in (found, bisecting(other, tolerance=1e-3)):
        assert result.best <= best + 1e-9 and result.upper >= best - 1e-9 * (1 + best)
    assert recover(Slack(), one, found).best == pytest.approx(max(best, 0.0), rel=1e-9, abs=1e-9)


def test_bounds_where_the_best_set_may_be_missed():
    """Many labels in frustrated pairs: whatever the decoder finds, its bound is that of the structure."""
    rng, L = np.random.default_rng(0), 24
    structure = LabelSetStructure(L, 1, [(j, k) for j in range(L) for k in range(j)])
    loose = 0
    for _ in range(20):
        weights = np.concatenate([rng.normal(size=L) * 0.1, rng.normal(size=L * (L - 1) // 2)])
        truth, lam = rng.integers(0, 2, L), float(np.exp(rng.normal()))
        oracle = LabelSetOracle(structure, [1.0], weights, truth)
        found, upper = oracle.ask(1.0, lam)
        other = structure.decode(np.array([1.0]), weights, truth, 1.0, lam)
        assert isinstance(other, Decoded) and (found.output == other.output).all()
        own = np.sum(structure.joint_feature([1.0], truth) @ weights)
        assert upper == pytest.approx(other.upper - own, rel=1e-9) and upper >= found.along(1.0, lam)
        loose += upper > found.along(1.0, lam) + 1e-6
        assert oracle.listed(1.0, lam, 1)[0].upper == np.inf
    assert loose > 5


def test_bad_input_of_the_oracle_of_label_sets():
    structure, weights = LabelSetStructure(3, 1, [(0, 1), (1, 2), (0, 2)]), np.ones(6)
    with pytest.raises(TypeError, match="halves of labels"):
        LabelSetOracle(RelaxedLabelSets(3, 1, [(0, 1), (1, 2), (0, 2)]), [1.0], weights, [0, 1, 0])
    with pytest.raises(ValueError, match="weights has shape"):
        LabelSetOracle(structure, [1.0], weights[:5], [0, 1, 0])
    with pytest.raises(ValueError, match="finite"):
        LabelSetOracle(structure, [1.0], weights * np.nan, [0, 1, 0])
    with pytest.raises(ValueError, match="zeros and ones"):
        LabelSetOracle(structure, [1.0], weights, [0, 2, 0])
    oracle = LabelSetOracle(structure, [1.0], weights, [0, 1, 0])
    for wrong in ([0, 1], [0, 2, 0]):
        with pytest.raises(ValueError, match="set"):
            oracle.candidate(wrong)
