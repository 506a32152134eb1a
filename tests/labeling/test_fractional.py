"""Fractional labelings and their mean energy: closed forms, all numbers that may be drawn, finite differences."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases.rounding_cases import complete_mean, marginals, potts_example
from tests.labeling.test_messages import KINDS, random_energy

from maxmargin.labeling import Cliques, Energy, FractionalLabeling, Metric, PnPotts, expected_energy


def random_case(seed, kind, n_labels, ties):
    rng = np.random.default_rng(seed)
    energy = random_energy(rng, kind, n_nodes=5, n_labels=n_labels)
    energy = energy.replaced(unary=np.where(np.isinf(energy.unary), 0.5, energy.unary))
    return rng, energy, marginals(rng, 5, n_labels, ties)


def closed_form(a, b, table):
    """Summation by parts, for any table; the gradient with respect to the cumulative sums, the sign of zero being zero."""
    one, two = np.cumsum(a)[:-1], np.cumsum(b)[:-1]
    first = 0.5 * (table[:-1, 0] + table[:-1, -1] - table[1:, 0] - table[1:, -1])
    second = 0.5 * (table[0, :-1] + table[-1, :-1] - table[0, 1:] - table[-1, 1:])
    both = 0.5 * (table[:-1, 1:] + table[1:, :-1] - table[:-1, :-1] - table[1:, 1:])
    apart = np.subtract.outer(one, two)
    apart[np.abs(apart) < 1e-12] = 0.0
    value = table[-1, -1] + one @ first + two @ second + np.sum(np.abs(apart) * both)
    return value, first + (np.sign(apart) * both).sum(axis=1), second - (np.sign(apart) * both).sum(axis=0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.integers(1, 5), st.booleans())
def test_mean_energy_is_the_integral_over_all_numbers(seed, kind, n_labels, ties):
    _, energy, y = random_case(seed, kind, n_labels, ties)
    value, gradient = expected_energy(y, energy, gradient=True)
    assert value == pytest.approx(complete_mean(y, energy), abs=1e-11)
    assert value == expected_energy(y, energy) and gradient.shape == y.shape


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.booleans())
def test_closed_form_and_gradient_with_and_without_ties(seed, n_labels, ties):
    rng = np.random.default_rng(seed)
    y, table = marginals(rng, 2, n_labels, ties), rng.normal(size=(n_labels, n_labels))
    value, gradient = expected_energy(y, Energy(np.zeros((2, n_labels)), [(0, 1)], table, weights=1.5), gradient=True)
    wanted, first, second = closed_form(*y, table)
    assert value == pytest.approx(1.5 * wanted, abs=1e-12)
    # Steps of cumulative sums are differences of neighbouring labels; that of the last label is fixed.
    np.testing.assert_allclose(-np.diff(gradient, axis=1), 1.5 * np.stack([first, second]), atol=1e-11)
    assert (gradient[:, -1] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["complete", "independent"])
def test_gradient_against_finite_differences(kind, method):
    for seed in range(5):
        rng, energy, y = random_case(seed, kind, 4, False)
        change = rng.normal(size=y.shape)
        change -= change.mean(axis=1, keepdims=True)
        # Means are linear between ties, so a step that reaches none is exact.
        step = 1e-7 * y.min()
        _, gradient = expected_energy(y, energy, gradient=True, method=method)
        ahead, behind = (expected_energy(y + sign * step * change, energy, method=method) for sign in (1, -1))
        assert np.vdot(gradient, change) == pytest.approx((ahead - behind) / (2 * step), abs=1e-4)


def test_at_a_kink_the_gradient_is_the_mean_of_both_sides():
    rng = np.random.default_rng(3)
    for _ in range(20):
        y, table = marginals(rng, 2, 4, ties=True) * 0.5 + 0.125, rng.normal(size=(4, 4))
        energy, change = Energy(np.zeros((2, 4)), [(0, 1)], table), rng.normal(size=(2, 4))
        change -= change.mean(axis=1, keepdims=True)
        _, gradient = expected_energy(y, energy, gradient=True)
        ahead, here, behind = (expected_energy(y + s * 1e-8 * change, energy) for s in (1, 0, -1))
        sides = (ahead - here) / 1e-8, (here - behind) / 1e-8
        assert np.vdot(gradient, change) == pytest.approx(np.mean(sides), abs=1e-5)


def test_independent_draws_against_enumeration():
    for seed, kind in enumerate(KINDS):
        _, energy, y = random_case(seed, kind, 3, False)
        wanted = sum(np.prod(y[range(5), x]) * energy.energy(x) for x in product(range(3), repeat=5))
        assert expected_energy(y, energy, method="independent") == pytest.approx(wanted)


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_potts_example(n):
    energy, y = potts_example(n)
    slots = np.arange(1, n)
    assert expected_energy(y, energy) == pytest.approx(np.sum(slots * (n - slots)) / (n - 1))
    assert {3: 2.0, 5: 5.0, 8: 12.0}.get(n, expected_energy(y, energy)) == pytest.approx(expected_energy(y, energy))


def test_labels_cost_their_energy_and_forbidden_ones_that_are_absent_nothing():
    rng = np.random.default_rng(4)
    energy = random_energy(rng, "own", n_labels=4)
    assert np.isinf(energy.unary).any()
    labels = energy.unary.argmin(axis=1)
    y = np.eye(4)[labels]
    value, gradient = expected_energy(y, energy, gradient=True)
    assert value == pytest.approx(energy.energy(labels)) == pytest.approx(expected_energy(y, energy, method="independent"))
    np.testing.assert_array_equal(np.isinf(gradient), np.isinf(energy.unary))
    node, label = np.argwhere(np.isinf(energy.unary))[0]
    y[node] = np.eye(4)[label]
    assert expected_energy(y, energy) == np.inf


def test_one_label_no_edges_and_grids():
    assert expected_energy(np.ones((3, 1)), Energy(np.full((3, 1), 2.0), [(0, 1)], [[5.0]], weights=2.0)) == 16.0
    value, gradient = expected_energy([[0.5, 0.5]], Energy([[1.0, 3.0]]), gradient=True)
    assert value == 2.0 and gradient.tolist() == [[1.0, 3.0]]
    rng = np.random.default_rng(5)
    energy, y = Energy.grid(rng.random((3, 4, 5)), Metric("linear", limit=2)), marginals(rng, 12, 5)
    assert (
        expected_energy(y.reshape(3, 4, 5), energy)
        == expected_energy(y, energy)
        == expected_energy(FractionalLabeling(y), energy)
    )


def test_a_sum_just_below_one_gives_nothing_to_labels_that_are_absent():
    energy = Energy([[0.0, np.inf]])
    assert expected_energy([[1 - 1e-6, 0.0]], energy) < 1e-12
    big = Energy(np.zeros((2, 2)), [(0, 1)], [[0, 1e9], [1e9, 1e9]])
    assert expected_energy([[1 - 1e-6, 0.0], [1.0, 0.0]], big) == 0.0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.5, 0.6]], r"marginals\[0\] add up to 1.1, not to 1; divide every row by its sum"),
        ([[1.0, 0.0], [1.2, -0.2]], r"marginals\[1, 1\] = -0.2; set what rounding made negative to 0"),
        ([[np.nan, 1.0]], r"marginals\[0, 0\] = nan; every entry must be a number from 0 to 1"),
        ([[np.inf, 1.0]], r"marginals\[0, 0\] = inf"),
        ([0.5, 0.5], r"marginals must have shape \(N, L\)"),
        (np.zeros((0, 3)), r"marginals must have shape \(N, L\)"),
    ],
)
def test_bad_marginals(rows, message):
    with pytest.raises(ValueError, match=message):
        FractionalLabeling(rows)


def test_bad_arguments():
    energy = Energy.grid(np.zeros((2, 3, 2)), "potts")
    half = np.full((2, 3, 2), 0.5)
    half[1, 2] = 0.7
    with pytest.raises(ValueError, match=r"fractional\[1, 2\] add up to 1.4"):
        expected_energy(half, energy)
    with pytest.raises(ValueError, match=r"fractional has shape \(5, 2\), but the energy needs \(6, 2\) or \(2, 3, 2\)"):
        expected_energy(np.full((5, 2), 0.5), energy)
    with pytest.raises(ValueError, match=r"fractional has shape \(6, 4\)"):
        expected_energy(FractionalLabeling(np.full((6, 4), 0.25)), energy)
    with pytest.raises(ValueError, match="1 cliques, which have no fractional part here; leave them out"):
        expected_energy(half, Energy(np.zeros((3, 2)), cliques=Cliques([[0, 1, 2]], PnPotts())))
    with pytest.raises(ValueError, match="method='max' is unknown; choose one of 'complete', 'independent'"):
        expected_energy(half, energy, method="max")
    with pytest.raises(TypeError, match="energy must be an Energy, but is a list"):
        expected_energy(half, [])
    with pytest.raises(TypeError, match="marginals must be real numbers"):
        FractionalLabeling([["a", "b"]])
    with pytest.raises(ValueError, match=r"shape=\(4,\) is not that of the 3 nodes"):
        FractionalLabeling(np.ones((3, 1)), shape=(4,))


def test_pairs_that_are_never_drawn_do_not_matter_however_dear():
    y = marginals(np.random.default_rng(6), 1, 3).repeat(4, axis=0)
    for dear in (1e9, 1e12, 1e15):
        table = np.full((3, 3), dear)
        np.fill_diagonal(table, [0.0, 1.0, 0.0])
        energy = Energy(np.zeros((4, 3)), [(0, 1), (1, 2), (2, 3)], table)
        assert expected_energy(y, energy) == pytest.approx(3 * y[0, 1], rel=1e-14)


@pytest.mark.parametrize("method", ["complete", "independent"])
def test_sums_in_single_precision_do_not_count_beside_large_costs(method):
    energy = Energy(np.full((4, 2), 1e6), [(0, 1)], "potts")
    y = np.full((4, 2), 0.5) + [9e-6, 0.0]
    assert expected_energy(y, energy, method=method) == pytest.approx(4e6 + (method == "independent") * 0.5, abs=1e-3)
    assert FractionalLabeling(y).marginals.sum(axis=1) == pytest.approx(1.0, abs=1e-15)


def test_grids_of_as_many_nodes_are_told_apart():
    energy, turned = Energy.grid(np.zeros((2, 3, 2)), "potts"), np.full((3, 2, 2), 0.5)
    for given_one in (turned, FractionalLabeling(turned)):
        with pytest.raises(ValueError, match=r"fractional has shape \(3, 2, 2\), but the energy needs \(6, 2\) or \(2, 3, 2\)"):
            expected_energy(given_one, energy)
    assert expected_energy(FractionalLabeling(turned), Energy(np.zeros((6, 2)))) == 0.0
