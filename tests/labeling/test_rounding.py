"""Roundings: probabilities by integrals over all numbers that may be drawn, proved factors, the same draws everywhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.rounding_cases import complete_mean, interval_joint, interval_mean, marginals, potts_example, steps
from tests.labeling.test_messages import KINDS, random_energy

from maxmargin import _core
from maxmargin.labeling import Energy, FractionalLabeling, Metric, expected_energy, relax, round_labeling
from maxmargin.labeling.rounding import ROUNDINGS, metric_of

DRAWN = [name for name in ROUNDINGS if name != "max"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.booleans())
def test_a_window_gives_every_label_in_proportion(seed, n_labels, length, ties):
    y = marginals(np.random.default_rng(seed), 4, n_labels, ties)
    given_labels = np.zeros(y.shape)
    for first in range(1 - length, n_labels):
        for share, labels in steps(y, first, length):
            inside = labels >= 0
            given_labels[np.flatnonzero(inside), labels[inside]] += share
            assert (labels[inside] >= max(0, first)).all() and (labels < first + length).all()
            # Equal numbers, or none at all, for nodes with equal marginals.
            assert labels[0] == labels[1] or not np.array_equal(y[0], y[1])
    np.testing.assert_allclose(given_labels, length * y, atol=1e-10)


def test_joint_probabilities_have_the_marginals():
    y = marginals(np.random.default_rng(1), 4, 5)
    for length in (1, 2, 5, 7):
        joint = interval_joint(y, length)
        np.testing.assert_allclose(joint.sum(axis=3), np.broadcast_to(y[:, None], (4, 4, 5)), atol=1e-12)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_potts_example(n):
    energy, y = potts_example(n)
    drawn = round_labeling(y, energy, "kleinberg_tardos", 200, random_state=0)
    assert (drawn.energies == n - 1).all() and drawn.energy == drawn.mean == drawn.minimum == n - 1
    assert interval_mean(y, energy, 1) == pytest.approx(n - 1)
    # One number for all: the first i nodes get label i + 1, the others label i.
    complete = list(steps(y, 0, n))
    best = sum(share for share, labels in complete if energy.energy(labels) == n - 1)
    assert best == pytest.approx(2 / (n - 1)) and best == pytest.approx({3: 1.0, 5: 0.5, 8: 2 / 7}[n])
    drawn = round_labeling(y, energy, "complete", 4000, random_state=0)
    assert drawn.mean == pytest.approx(expected_energy(y, energy), abs=4 * drawn.standard_error + 1e-12)
    assert set(drawn.energies) <= {i * (n - i) for i in range(1, n)}


@pytest.mark.parametrize("kind", KINDS)
def test_means_of_draws_against_exact_ones(kind):
    rng = np.random.default_rng(2)
    energy = random_energy(rng, kind, n_labels=4)
    energy = energy.replaced(unary=np.where(np.isinf(energy.unary), 0.5, energy.unary))
    y = marginals(rng, energy.n_nodes, 4)
    exact = {
        "complete": complete_mean(y, energy),
        "independent": expected_energy(y, energy, method="independent"),
        "kleinberg_tardos": interval_mean(y, energy, 1),
        "interval": interval_mean(y, energy, 3),
    }
    for method, wanted in exact.items():
        drawn = round_labeling(y, energy, method, 4000, 7, interval=3 if method == "interval" else None)
        assert abs(drawn.mean - wanted) <= 4.5 * drawn.standard_error, method
        assert drawn.energies.shape == (4000,) and drawn.minimum == drawn.energies.min()


@pytest.mark.parametrize("method", DRAWN)
def test_drawn_labels_have_the_marginals(method):
    y = marginals(np.random.default_rng(3), 3, 4)
    y[0] = [0.5, 0.0, 0.5, 0.0]
    kernel, length = ("interval", 1) if method == "kleinberg_tardos" else (method, 3)
    rounder = _core.Rounder(y)
    counts = sum(np.eye(4)[rounder.labels(kernel, length, 11, k)] for k in range(5000))
    assert (np.abs(counts / 5000 - y) <= 4.5 * np.sqrt(y * (1 - y) / 5000)).all()


@pytest.mark.parametrize("method", ROUNDINGS)
def test_labelings_stay_as_they_are(method):
    rng = np.random.default_rng(4)
    energy = random_energy(rng, "truncated", n_labels=5)
    labels = np.where(np.isinf(energy.unary), np.inf, rng.random(energy.unary.shape)).argmin(axis=1)
    drawn = round_labeling(np.eye(5)[labels], energy, method, 20, random_state=1)
    np.testing.assert_array_equal(drawn.labels, labels)
    np.testing.assert_allclose(drawn.energies, energy.energy(labels), rtol=1e-12)


@pytest.mark.parametrize("method", DRAWN)
def test_the_same_for_any_number_of_threads_and_in_any_portions(method, monkeypatch):
    rng = np.random.default_rng(5)
    energy = Energy.grid(rng.random((9, 7, 6)), Metric("linear", limit=2), weights=rng.random((2, 9, 7)))
    y = marginals(rng, 63, 6)
    one = round_labeling(y, energy, method, 101, 3, n_jobs=1)
    many = round_labeling(y.reshape(9, 7, 6), energy, method, 101, 3, n_jobs=5)
    monkeypatch.setattr("maxmargin.labeling.rounding._WORK", 7 * y.size)
    portions = round_labeling(y, energy, method, 101, 3, n_jobs=2)
    for other in (many, portions):
        np.testing.assert_array_equal(one.energies, other.energies)
        np.testing.assert_array_equal(one.labels, other.labels)
    assert one.labels.shape == (9, 7)
    assert one.energy == pytest.approx(one.minimum, rel=1e-12) == pytest.approx(energy.energy(one.labels))
    assert not np.array_equal(one.energies, round_labeling(y, energy, method, 101, 4).energies)
    np.testing.assert_array_equal(one.energies[:10], round_labeling(y, energy, method, 10, 3).energies)
    assert len(np.unique(one.energies)) > 20


def test_factors_that_are_proved():
    rng = np.random.default_rng(6)
    fractional = 0
    for seed in range(6):
        # No node wants its own label, so that no two agree on what to avoid.
        edges = [(a, b) for a in range(6) for b in range(a)]
        unary = 2.0 * np.eye(6) + 0.05 * rng.random((6, 6))
        for metric, length, factor in ((Metric("potts"), 1, 2.0), (Metric("linear", limit=3), 4, 2 + np.sqrt(2) + 0.1)):
            energy = Energy(unary, edges, metric, weights=0.5 + 0.1 * rng.random(len(edges)))
            point = relax(energy, "lp")
            fractional += not point.is_integral
            assert point.certified
            mean = interval_mean(point.marginals, energy, length)
            assert point.value - 1e-6 <= mean <= factor * point.value + 1e-6, seed
            drawn = round_labeling(point, energy, "interval", 50, seed, interval=length)
            assert drawn.minimum >= point.lower_bound - 1e-9
    assert fractional >= 3


def test_default_windows():
    def window(metric, n_labels=21):
        energy = Energy(np.zeros((2, n_labels)), [(0, 1)], metric, weights=3.0)
        return round_labeling(np.full((2, n_labels), 1 / n_labels), energy, "interval", 1, 0).interval

    assert window(Metric("potts")) == 1
    assert window(Metric("linear", limit=10, scale=5.0)) == 14
    assert window(Metric("quadratic", limit=10)) == 3
    assert window(Metric("linear"), 4) == 4
    own = Energy(np.zeros((3, 3)), [(0, 1), (1, 2)], np.array([1.0, 2.0])[:, None, None] * Metric("linear").table(3))
    assert metric_of(own) == Metric("linear", limit=2.0) or metric_of(own).kind == "linear"


def test_max_draws_nothing():
    energy = Energy([[0, 2.0], [1, 1.0]], [(0, 1)], "potts")
    found = round_labeling([[0.4, 0.6], [0.5, 0.5]], energy, "max")
    assert found.labels.tolist() == [1, 0] and found.energies.tolist() == [4.0] == [found.energy]
    assert found.standard_error == 0.0
    assert np.isnan(round_labeling([[0.4, 0.6], [0.5, 0.5]], energy, draws=1).standard_error)


def test_time_limit_and_single_label():
    energy = Energy(np.full((3, 1), 2.0), [(0, 1)], [[5.0]])
    for method in ROUNDINGS:
        assert round_labeling(np.ones((3, 1)), energy, method, 3).energy == 11.0
    rng = np.random.default_rng(8)
    grid = Energy.grid(rng.random((200, 200, 16)), "potts")
    stopped = round_labeling(marginals(rng, 40_000, 16), grid, draws=10**6, time_limit=0.05)
    assert stopped.status == "time_limit" and 1 <= len(stopped.energies) < 10**6


def test_an_interrupt_keeps_what_was_drawn(monkeypatch):
    class Line:
        def __init__(self, *_, **__): ...
        def __enter__(self):
            return self

        def __exit__(self, *_): ...
        def show(self, _):
            raise KeyboardInterrupt

    monkeypatch.setattr("maxmargin.labeling.rounding.StatusLine", Line)
    monkeypatch.setattr("maxmargin.labeling.rounding._WORK", 40)
    energy = Energy(np.zeros((2, 2)), [(0, 1)], "potts")
    found = round_labeling([[0.5, 0.5], [0.2, 0.8]], energy, draws=100, n_jobs=1)
    assert found.status == "interrupted" and len(found.energies) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "best"}, "method='best' is unknown; choose one of 'max', 'complete', 'interval'"),
        ({"draws": 0}, "draws=0 must be a positive whole number"),
        ({"draws": 2.5}, "draws=2.5 must be a positive whole number"),
        ({"method": "interval", "interval": 0}, "interval=0 must be a positive whole number of labels"),
        ({"interval": 2}, "interval=2 is for method='interval', but method='complete'"),
        ({"n_jobs": 0}, "n_jobs=0 must be a positive number of threads"),
        ({"time_limit": -1}, "time_limit=-1 must be a number that is not negative"),
    ],
)
def test_bad_arguments(arguments, message):
    energy = Energy(np.zeros((2, 2)), [(0, 1)], "potts")
    with pytest.raises(ValueError, match=message):
        round_labeling([[0.5, 0.5], [0.2, 0.8]], energy, **arguments)


def test_tables_without_a_default_window():
    energy = Energy(np.zeros((2, 3)), [(0, 1)], np.arange(9.0).reshape(3, 3))
    with pytest.raises(ValueError, match="interval has no default for tables that are no truncated distances; pass interval="):
        round_labeling(np.full((2, 3), 1 / 3), energy, "interval")
    with pytest.raises(ValueError, match=r"fractional has shape \(3, 3\), but the energy needs \(2, 3\)"):
        round_labeling(FractionalLabeling(np.eye(3)), energy)


def test_draws_of_forbidden_labels_have_no_standard_error(recwarn):
    drawn = round_labeling([[0.5, 0.5], [0.5, 0.5]], Energy([[0.0, np.inf], [0.0, 1.0]], [(0, 1)], "potts"), random_state=0)
    assert drawn.energy == 0.0 and drawn.mean == np.inf and np.isnan(drawn.standard_error) and not recwarn.list


def test_bad_lots_are_named():
    with pytest.raises(ValueError, match="random_state='a' must be an integer that is not negative, a Generator, or None"):
        round_labeling([[0.5, 0.5]], Energy([[0.0, 1.0]]), random_state="a")
