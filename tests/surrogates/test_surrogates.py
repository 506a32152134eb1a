"""The functions psi(h, g): values, derivatives, and the conditions of their class (spec 6 and 14.2)."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erfc

from maxmargin.surrogates import (
    SURROGATES,
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    ProbLoss,
    Slack,
    Surrogate,
    make_surrogate,
)

OF_LOSSES = [
    Margin(), Slack(), BetaScaling(0.25), BetaScaling(0.5), BetaScaling(0.75), GeneralizedScaling(0.7, 0.3),
    GeneralizedScaling(1.5, 1.0), GeneralizedScaling(0.0, 0.0), LogLoss(), LogLoss(base=np.e), ProbLoss(),
    ProbLoss(convex=False), ProbLoss(tau=0.3),
]  # fmt: skip
ALL = [*OF_LOSSES, MicroF1()]


@pytest.mark.parametrize("surrogate", ALL, ids=repr)
def test_every_surrogate_is_of_the_class(surrogate):
    surrogate.check()
    assert make_surrogate(surrogate) is surrogate


@pytest.mark.parametrize("surrogate", ALL, ids=repr)
def test_gradients_are_those_of_the_values(surrogate):
    rng = np.random.default_rng(1)
    h, g = surrogate.points(rng, 500)
    (psi_h, psi_g), step = surrogate.gradient(h, g), 1e-6
    by_h = (surrogate.value(h + step, g) - surrogate.value(h - step, g)) / (2 * step)
    by_g = (surrogate.value(h, g + step * abs(g)) - surrogate.value(h, g - step * abs(g))) / (2 * step * abs(g))
    scale = 1 + np.abs(surrogate.value(h, g)) + np.abs(h)
    assert np.max(np.abs(by_h - psi_h) / scale) < 1e-6
    assert np.max(np.abs(by_g - psi_g) / (scale / abs(g) + abs(psi_g))) < 1e-6
    seen = psi_h > 1e-150
    np.testing.assert_allclose(surrogate.tangent(h, g)[seen], psi_g[seen] / psi_h[seen], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("surrogate", ALL, ids=repr)
def test_numbers_and_arrays_agree_and_the_truth_is_worth_nothing(surrogate):
    h, g = surrogate.points(np.random.default_rng(2), 5)
    for k in range(5):
        assert surrogate.value(h[k], g[k]) == pytest.approx(surrogate.value(h, g)[k], rel=1e-14)
        assert np.ndim(surrogate.value(float(h[k]), float(g[k]))) == 0
        assert surrogate.tangent(h[k], g[k]) == pytest.approx(surrogate.tangent(h, g)[k], rel=1e-14)
        assert [*surrogate.gradient(h[k], g[k])] == pytest.approx([part[k] for part in surrogate.gradient(h, g)], rel=1e-14)
    assert surrogate.value(0.0, 0.0) == 0


@pytest.mark.parametrize("surrogate", OF_LOSSES, ids=repr)
def test_floats_have_formulas_of_their_own_that_agree_with_those_of_arrays(surrogate):
    h, g = surrogate.points(np.random.default_rng(2), 200)
    h, g = np.append(h, [0.0, -40.0, 40.0]), np.append(g, [3.0, 3.0, 3.0])
    with np.errstate(all="ignore"):
        whole = [surrogate.value(h, g), *surrogate.gradient(h, g), surrogate.tangent(h, g)]
        at_truth = np.asarray(surrogate.tangent(np.zeros(1), np.zeros(1)))
    for k, (one, other) in enumerate(zip(h.tolist(), g.tolist(), strict=True)):
        own = [surrogate.value(one, other), *surrogate.gradient(one, other), surrogate.tangent(one, other)]
        # Near where they are zero, value and derivative by g are differences.
        np.testing.assert_allclose(own, [column[k] for column in whole], rtol=1e-11, atol=1e-12 * (1 + abs(one)) * (1 + other))
        if surrogate.by_numbers:
            assert {type(number) for number in own} == {float}
    if surrogate.by_numbers:
        np.testing.assert_equal(surrogate.tangent(0.0, 0.0), at_truth[0])


def test_whoever_replaces_a_formula_loses_that_of_floats():
    class Other(LogLoss):
        def tangent(self, h, g):
            return np.divide(np.logaddexp(0.0, h), g)

    class Renamed(LogLoss):
        pass

    class Quick(Other):
        by_numbers = True

    assert [kind.by_numbers for kind in (LogLoss, Other, Renamed, Quick, Surrogate)] == [True, False, True, True, False]


@pytest.mark.parametrize("surrogate", OF_LOSSES, ids=repr)
@given(g=st.floats(1e-3, 1e3), better=st.floats(0, 100))
def test_bounds_of_the_loss(surrogate, g, better):
    """A prediction has h >= 0; what bounds its loss there says so, and what does not (E31: natural logarithms) says that."""
    if surrogate.bounds_loss:
        assert surrogate.value(better, g) >= g * (1 - 1e-12)
    elif isinstance(surrogate, LogLoss):
        assert surrogate.value(0.0, g) == pytest.approx(np.log(2) * g)


def test_slopes_at_zero():
    g = np.array([1.0, 4.0, 9.0])
    for surrogate, slope in (
        (Margin(), g**0),
        (Slack(), g),
        (BetaScaling(0.5), g**0.5),
        (ProbLoss(), g**0.5),
        (ProbLoss(convex=False), g**0.5),
    ):
        np.testing.assert_allclose(surrogate.gradient(0.0 * g, g)[0], slope)
        np.testing.assert_allclose(surrogate.value(0.0 * g, g), g)


def test_special_cases_coincide():
    h, g = Slack().points(np.random.default_rng(3), 100)
    np.testing.assert_allclose(BetaScaling(0.0).value(h, g), Margin().value(h, g))
    np.testing.assert_allclose(BetaScaling(1.0).value(h, g), Slack().value(h, g))
    np.testing.assert_allclose(BetaScaling(1.0).tangent(h, g), Slack().tangent(h, g))
    # E3: margin rescaling is in the region.
    GeneralizedScaling(1.0, 0.0).check()
    above = np.abs(h)
    np.testing.assert_allclose(ProbLoss().value(above, g), BetaScaling(0.5).value(above, g))
    # The two forms of the probability.
    np.testing.assert_allclose(
        ProbLoss(convex=False).value(h, g), g * erfc(-np.sqrt(np.pi) / 2 * h / np.sqrt(g)), rtol=1e-10, atol=0
    )


def test_the_example_of_slack_and_margin():
    """E1 and E2: margin errors come first, and slack rescaling adds the one to them."""
    h, g = np.array([-10.0, 1.0]), np.array([100.0, 2.0])
    assert Margin().value(h, g).tolist() == [90, 3]
    assert Slack().value(h, g).tolist() == [-900, 4]


@pytest.mark.parametrize("surrogate", ALL, ids=repr)
def test_nothing_overflows(surrogate):
    g = -1.0 if isinstance(surrogate, MicroF1) else 1.0
    for h in (1e4, -1e4, 0.0):
        with np.errstate(all="raise", under="ignore"):
            value, gradient, tangent = surrogate.value(h, g), surrogate.gradient(h, g), surrogate.tangent(h, g)
        assert np.isfinite(value) and np.isfinite(gradient).all() and not np.isnan(tangent)
        if surrogate.value(h, g) >= 0:
            assert tangent >= 0
    if not isinstance(surrogate, MicroF1):
        with np.errstate(all="ignore"):
            assert not np.isnan(surrogate.order(np.array([-1e4, 0.0, 1e4]), np.array([1.0, 0.0, 2.0]))).any()


def test_limits_of_tangents():
    assert ProbLoss().tangent(-1e4, 2.0) == pytest.approx(1e4 / 4, rel=1e-3)
    assert LogLoss().tangent(-1e4, 2.0) == pytest.approx(0.5)
    assert LogLoss().tangent(-29.999, 1.0) == pytest.approx(LogLoss().tangent(-30.001, 1.0), rel=1e-12)


def test_order_does_not_underflow():
    for surrogate in (LogLoss(), ProbLoss(), ProbLoss(convex=False)):
        assert surrogate.order(-900.0, 1.0) < surrogate.order(-890.0, 1.0) < surrogate.order(-1.0, 1.0)
        h, g = surrogate.points(np.random.default_rng(4), 200)
        values, order = surrogate.value(h, g), surrogate.order(h, g)
        kept = values > 1e-200
        assert (np.argsort(values[kept]) == np.argsort(order[kept])).all()


@given(st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8)))
def test_micro_f1_is_one_minus_f1_at_zero(y, truth):
    """E4: F1 is 2 / (1 / P + 1 / R)."""
    value = MicroF1().value(float(len(y ^ truth)), -float(len(y) + len(truth)))
    if y & truth:
        precision, recall = len(y & truth) / len(y), len(y & truth) / len(truth)
        assert value == pytest.approx(1 - 2 / (1 / precision + 1 / recall))
    else:
        assert value == (1.0 if y | truth else 0.0)


@pytest.mark.parametrize(
    ("alpha", "beta", "condition"),
    [(0.0, 1.0, "between 0 and 1"), (2.0, 0.5, "between 0 and 1"), (-1.0, -1.5, "not be negative"), (np.nan, 0.0, "finite")],
)
def test_the_region_of_generalized_scaling(alpha, beta, condition):
    """E3: roles of alpha and beta are exchanged in print."""
    with pytest.raises(ValueError, match=condition):
        make_surrogate(GeneralizedScaling(alpha, beta))


@dataclass(frozen=True)
class _Own(Surrogate):
    kind: str = "fine"

    def value(self, h, g):
        return {
            "fine": h + 2 * g, "decreasing in h": g - h, "decreasing in g": h - g + 10,
            "quasi-concave": np.maximum(h, 0) ** 2 + g**2,
            "gradient": h + 2 * g, "convex": 1 - np.exp(-h) + 2 * g, "truth": h + g + 1, "affine": np.logaddexp(0, h) * g,
            "bound": h + g / 2,
            "tangent": h + 2 * g,
        }[self.kind]  # fmt: skip

    def gradient(self, h, g):
        one = np.ones_like(h)
        return {
            "fine": (one, 2 * one), "decreasing in h": (-one, one), "decreasing in g": (one, -one),
            "quasi-concave": (2 * np.maximum(h, 0), 2 * g), "gradient": (one, one), "convex": (np.exp(-h), 2 * one),
            "truth": (one, one),
            "affine": (g / (1 + np.exp(-h)), np.logaddexp(0, h)), "bound": (one, one / 2), "tangent": (one, 2 * one),
        }[self.kind]  # fmt: skip

    def tangent(self, h, g):
        return np.ones_like(h) if self.kind == "tangent" else super().tangent(h, g)

    def affine(self, g):
        return (g, g) if self.kind == "affine" else None


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("decreasing in h", "not decrease in h"), ("decreasing in g", "not decrease in g"), ("quasi-concave", "quasi-concave"),
        ("gradient", "derivatives of gradient"), ("convex", "not convex in h"), ("truth", "value of the truth"),
        ("affine", "affine must be"), ("bound", "bounds the loss"), ("tangent", "tangent must be"),
    ],
)  # fmt: skip
def test_broken_conditions_are_named(kind, condition):
    make_surrogate(_Own())
    with pytest.raises(ValueError, match=condition):
        make_surrogate(_Own(kind))


def test_names_and_parameters():
    for name in SURROGATES:
        made = make_surrogate(name)
        made.check()
    for wrong, message in (
        ("slak", "unknown"),
        (LogLoss(base=1.0), "base"),
        (ProbLoss(tau=0), "tau"),
        (Slack(search="best"), "search"),
    ):
        with pytest.raises(ValueError, match=message):
            make_surrogate(wrong)
    with pytest.raises(ValueError, match="is for slack rescaling"):
        make_surrogate(LogLoss(search="angular"))
    make_surrogate(BetaScaling(1.0, search="angular"))
    with pytest.raises(TypeError, match="name or an object"):
        make_surrogate(3)
    assert not ProbLoss(convex=False).convex and ProbLoss().convex
