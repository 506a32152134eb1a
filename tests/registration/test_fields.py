"""Images read through fields, and Jacobians, compiled and by scipy and numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import _core
from maxmargin.registration.alignment import resampled
from maxmargin.registration.fields import Frame, coarser, jacobian, least_jacobian, sample, sample_field, through, unfolded
from maxmargin.registration.metrics import padded_field


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.sampled_from([0.0, 0.3, 5.0, 1e6]))
def test_reading_through_a_field_is_that_of_scipy(seed, ndim, size):
    rng = np.random.default_rng(seed)
    own = Frame(tuple(rng.integers(1, 8, ndim)), rng.uniform(0.3, 3, ndim), rng.normal(size=ndim))
    frame = Frame(tuple(rng.integers(1, 8, ndim)), rng.uniform(0.3, 3, ndim), np.zeros(ndim))
    values, pad = rng.normal(size=own.shape), rng.integers(0, 4, ndim)
    field = size * rng.normal(size=(*frame.shape, ndim))
    expected = sample(values, own, frame.places(pad) + padded_field(field, pad))
    found = through(values, own, field, frame, pad)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_array_equal(found, through(values, own, field, frame, pad, n_threads=3))
    two = np.stack([values, -values], axis=-1)
    np.testing.assert_array_equal(through(two, own, field, frame, pad), np.stack([found, -found], axis=-1))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]))
def test_the_least_jacobian_is_the_least_jacobian(seed, ndim):
    rng = np.random.default_rng(seed)
    shape, spacing = tuple(rng.integers(2, 7, ndim)), rng.uniform(0.3, 3, ndim)
    field = 0.5 * rng.normal(size=(*shape, ndim))
    expected = np.inf
    for cell in np.ndindex(*(n - 1 for n in shape)):
        for corner in np.ndindex(*[2] * ndim):
            at, matrix = np.add(cell, corner), np.eye(ndim)
            for axis in range(ndim):
                low, high = at.copy(), at.copy()
                low[axis], high[axis] = cell[axis], cell[axis] + 1
                matrix[:, axis] += (field[tuple(high)] - field[tuple(low)]) / spacing[axis]
            expected = min(expected, np.linalg.det(matrix))
    assert least_jacobian(field, spacing) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert jacobian(field, spacing).min() >= expected - 1e-9
    assert least_jacobian(field, spacing, 3) == least_jacobian(field, spacing)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_pixel_stretches_less_anywhere(seed):
    """Linear interpolation between pixels: no place within has a smaller determinant."""
    rng = np.random.default_rng(seed)
    frame = Frame((5, 6), rng.uniform(0.3, 3, 2), np.zeros(2))
    field = rng.normal(size=(5, 6, 2))
    # Inside of cells, with room for a small step.
    at = (rng.integers(0, (4, 5), (200, 2)) + rng.uniform(0.01, 0.99, (200, 2))) * frame.spacing
    step = 1e-4 * np.eye(2)
    columns = [(sample_field(field, frame, at + d) - sample_field(field, frame, at - d)) / 2e-4 + d / 1e-4 for d in step]
    inside = columns[0][:, 0] * columns[1][:, 1] - columns[0][:, 1] * columns[1][:, 0]
    assert inside.min() >= least_jacobian(field, frame.spacing) - 1e-6


def test_no_number_is_a_fold():
    field = np.zeros((4, 5, 2))
    assert least_jacobian(field, np.ones(2)) == 1.0
    field[1, 2, 0] = np.nan
    assert least_jacobian(field, np.ones(2)) == -np.inf
    with pytest.raises(ValueError, match="field must be finite"):
        _core.warp(np.zeros((1, 4, 5, 1)), np.full((1, 4, 5, 3), np.nan), [0] * 3, [0.0] * 3, [1.0] * 3, [1.0] * 3, 1)


def test_levels_keep_small_axes():
    frame = Frame((65, 40, 20), np.array([1.0, 2.0, 3.0]), np.zeros(3))
    made, factors = coarser(frame, 2)
    assert factors == (4, 2, 1) and made.shape == (17, 20, 20) and made.spacing.tolist() == [4.0, 4.0, 3.0]


@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.sampled_from([1e-3, 0.3, 3.0, 1e6]))
@settings(max_examples=30, deadline=None)
def test_folds_are_smoothed_away(seed, ndim, size):
    rng = np.random.default_rng(seed)
    spacing = rng.uniform(0.5, 2, ndim)
    field = size * rng.normal(size=(*rng.integers(4, 12, ndim), ndim))
    found = unfolded(field, spacing)
    assert least_jacobian(found, spacing) > 0
    if least_jacobian(field, spacing) > 0:
        assert found is field
    np.testing.assert_allclose(unfolded(field + 50.0, spacing) - 50, found, atol=1e-6 * max(1, size))


@pytest.mark.parametrize("ndim", [2, 3])
def test_folds_between_voxels_are_seen_on_finer_ones(ndim):
    fine = Frame((40, 33, 36)[:ndim], np.array([1.0, 2.0, 1.5])[:ndim], np.zeros(ndim))
    coarse, _ = coarser(fine, 1)
    # Two steep steps, which splines make steeper.
    field = np.zeros((*coarse.shape, ndim))
    field[..., 0] = -0.95 * coarse.spacing[0] * np.clip(np.arange(-9, coarse.shape[0] - 9), 0, 2).reshape([-1] + [1] * (ndim - 1))
    assert least_jacobian(field, coarse.spacing) > 0
    assert jacobian(sample_field(field, coarse, fine.places(), order=3), fine.spacing).min() < 0
    found = resampled(field, coarse, fine)
    assert least_jacobian(found, fine.spacing) > 0 and found.any()
    # What does not fold is left as the splines have it.
    np.testing.assert_array_equal(resampled(0.1 * field, coarse, fine), sample_field(0.1 * field, coarse, fine.places(), order=3))
