"""What may call itself certified."""

import math

import pytest

from maxmargin.core import Certificate

GOOD = Certificate(2.0, 1.9, proved=True, oracle_gap=0.05)


def test_a_good_one():
    assert GOOD.certified and not GOOD.crossed and GOOD.gap == pytest.approx(0.1)
    # Rounding may have it that the bounds meet, or pass each other by a hair.
    assert Certificate(2.0, 2.0, proved=True).certified
    assert Certificate(2.0, 2.0 + 1e-9, proved=True).certified
    assert Certificate(-2.0, -2.0 + 1e-9, proved=True).certified
    # Sums of numbers that nearly cancel have rounding of their own size.
    assert not Certificate(1e-12, 1e-10, proved=True).certified
    assert Certificate(1e-12, 1e-10, proved=True, noise=1e-9).certified


@pytest.mark.parametrize(
    "bad",
    [
        Certificate(2.0, 1.9, proved=False),
        Certificate(2.0, 2.1, proved=True),
        Certificate(0.0, 1e-9, proved=True),
        Certificate(math.inf, 1.9, proved=True),
        Certificate(2.0, -math.inf, proved=True),
        Certificate(math.nan, 1.9, proved=True),
        Certificate(2.0, math.nan, proved=True),
        Certificate(2.0, 1.9, proved=True, oracle_gap=math.nan),
        Certificate(2.0, 1.9, proved=True, oracle_gap=-0.01),
        Certificate(2.0, 1.9, proved=True, oracle_gap=0.2),
    ],
    ids=str,
)
def test_bad_ones(bad):
    assert not bad.certified and bad.attributes()["certified_"] is False
    assert not Certificate.of_attributes(bad.attributes()).certified


def test_only_a_dual_above_the_primal_is_crossed():
    assert Certificate(2.0, 2.1, proved=True).crossed and not Certificate(2.0, 1.9, proved=False).crossed
    assert not Certificate(2.0, 2.0 + 1e-9, proved=True).crossed


def test_another_unit_changes_nothing():
    for factor in (1e-6, 3.0, 1e6):
        scaled = GOOD.scaled(factor)
        assert scaled.certified and scaled.gap == pytest.approx(factor * GOOD.gap) and scaled.oracle_gap == factor * 0.05
        assert Certificate(1e-12, 1e-10, proved=True, noise=1e-9).scaled(factor).certified


def test_attributes_that_contradict_each_other():
    found = GOOD.attributes()
    assert Certificate.of_attributes(found).certified and Certificate.of_attributes(found) == GOOD
    for gap in (0.0, 0.2, math.nan):
        assert not Certificate.of_attributes({**found, "dual_gap_": gap}).certified
    for change in ({"dual_objective_": 1.0}, {"certified_": False}):
        assert not Certificate.of_attributes({**found, **change}).certified
