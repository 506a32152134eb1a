"""Costs of patches against plain numpy; B-splines against scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.ndimage import map_coordinates

from maxmargin import _core
from maxmargin.registration import METRICS, ControlGrid, class_counts, displacement_labels, patch_classes, unary_costs
from maxmargin.registration.grid import spline_weights
from maxmargin.registration.metrics import rescaled


def haar(values):
    for axis in range(values.ndim):
        v = np.moveaxis(values, axis, 0)
        pairs = len(v) // 2 * 2
        a, b = v[0:pairs:2], v[1:pairs:2]
        values = np.moveaxis(np.concatenate([(a + b) / np.sqrt(2), (a - b) / np.sqrt(2), v[pairs:]]), 0, axis)
    return values


def reference(a, b, bins):
    """Costs of two patches by the four metrics."""
    sad, dwt = np.abs(a - b).mean(), np.abs(haar(a) - haar(b)).mean() / 255
    ncc = 0.0 if min(a.var(), b.var()) < 1e-8 else ((a - a.mean()) * (b - b.mean())).mean() / np.sqrt(a.var() * b.var())
    places = [np.minimum((x.ravel() * (bins / 255.0)).astype(int), bins - 1) for x in (a, b)]
    joint = np.zeros((bins, bins))
    np.add.at(joint, tuple(places), 1 / a.size)
    outer = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    some = joint > 0
    mi = np.log(bins) - (joint[some] * np.log(joint[some] / outer[some])).sum()
    return {"sad": sad, "mi": mi, "ncc": 1 - ncc, "dwt": dwt}


def plain_costs(source, target, grid, labels, bins):
    """Patches one after the other, read by scipy."""
    found = np.zeros((4, grid.n_nodes, len(labels)))
    for node, at in enumerate(np.ndindex(grid.n_points)):
        box = tuple(slice(*grid.ranges[k][:, i]) for k, i in enumerate(at))
        places = np.stack(np.meshgrid(*[np.arange(s.start, s.stop) for s in box], indexing="ij")).astype(float)
        for label, d in enumerate(labels):
            steps = (d / grid.spacing).reshape(-1, *[1] * grid.ndim)
            a = map_coordinates(source, places + steps, order=1, mode="nearest")
            costs = reference(a, target[box], bins)
            found[:, node, label] = [costs[name] for name in METRICS]
    return found


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_costs_are_those_of_plain_numpy(data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = tuple(data.draw(st.integers(4, 11)) for _ in range(ndim))
    spacing = np.array([data.draw(st.sampled_from([0.5, 1.0, 2.5])) for _ in range(ndim)])
    levels = data.draw(st.sampled_from([2, 5, 10_000]))  # grey values: many ties, or none
    source, target = (np.floor(rng.random(shape) * levels) * data.draw(st.sampled_from([1e-6, 1.0, 1e9])) for _ in range(2))
    if data.draw(st.booleans()):
        target[:] = 7.0  # flat
    grid = ControlGrid(shape, spacing, 2 * spacing.max() * data.draw(st.floats(1.0, 3.0)), data.draw(st.sampled_from([1.0, 1.7])))
    # Whole voxels, where ties of grey values must come out alike, or anything.
    labels = (rng.integers(-6, 7, (3, ndim)) if levels < 100 else 3 * rng.normal(size=(3, ndim))) * spacing
    bins = data.draw(st.sampled_from([2, 16, 37]))
    one, two = rescaled(source), rescaled(target)
    # Bins that a value is at the border of are chosen by rounding.
    if any(np.abs(np.mod(x * bins / 255 + 0.5, 1) - 0.5)[(x > 0) & (x < 255)].min(initial=1) < 1e-9 for x in (one, two)):
        return
    found = unary_costs(source, target, grid, labels, bins=bins)
    np.testing.assert_allclose(found, plain_costs(one, two, grid, labels, bins), atol=1e-8)
    assert (found >= 0).all()
    np.testing.assert_array_equal(found, unary_costs(source, target, grid, labels, bins=bins, n_jobs=1))
    assert (found[::-1] == unary_costs(source, target, grid, labels, metrics=METRICS[::-1], bins=bins)).all()
    for k, name in enumerate(METRICS):
        np.testing.assert_array_equal(found[k : k + 1], unary_costs(source, target, grid, labels, metrics=name, bins=bins))


def test_equal_patches_cost_nothing_but_what_histograms_do():
    image = np.random.default_rng(0).random((20, 24))
    costs = unary_costs(image, image, ControlGrid(image.shape, 1.0, 8.0), [(0, 0)])
    np.testing.assert_allclose(costs[[0, 2, 3]], 0, atol=1e-12)
    assert (costs[1] > 0).all() and (costs[1] < np.log(16)).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]))
def test_classes_are_counted(seed, ndim):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(4, 10, ndim))
    one, two = rng.integers(0, 4, shape), rng.integers(0, 4, shape)
    grid = ControlGrid(shape, 2.0, 4.0 + 6 * rng.random())
    labels = rng.integers(-4, 5, (4, ndim)) * 2.0
    counts, shared = class_counts(one, two, grid, labels, n_classes=5)
    for node, at in enumerate(np.ndindex(grid.n_points)):
        box = tuple(slice(*grid.ranges[k][:, i]) for k, i in enumerate(at))
        for label, d in enumerate(labels):
            index = [np.clip(np.arange(s.start, s.stop) + int(d[k] / 2), 0, shape[k] - 1) for k, s in enumerate(box)]
            a, b = one[np.ix_(*index)], two[box]
            assert counts[:, node, label].tolist() == [(a == c).sum() for c in range(5)]
            assert shared[:, node, label].tolist() == [((a == c) & (b == c)).sum() for c in range(5)]
    classes = patch_classes(one, grid, labels)
    np.testing.assert_array_equal(classes, counts.argmax(axis=0))


def test_a_field_is_gone_through_before_displacements():
    rng = np.random.default_rng(1)
    source, target = rng.random((16, 20)), rng.random((16, 20))
    grid = ControlGrid(target.shape, 1.0, 6.0)
    field = np.broadcast_to([2.0, -1.0], (16, 20, 2))
    there = unary_costs(source, target, grid, [(3.0, 0.0)], field=field)
    np.testing.assert_allclose(there, unary_costs(source, target, grid, [(5.0, -1.0)]), atol=1e-9)


def test_the_kernel_reads_nothing_outside():
    image, ranges = np.zeros((1, 8, 8)), [np.array([[0], [n]]) for n in (1, 8, 8)]
    good = np.zeros((1, 3))
    for pad, labels in (([0, 0, 0], np.array([[0, 1.0, 0]])), ([0, 0, 0], np.array([[0, 0, -0.5]])), ([0, 9, 0], good)):
        with pytest.raises(ValueError, match=r"lead out of the padded source|pad must be"):
            _core.patch_costs(image, pad, image, ranges, labels, ["sad"], 16, 1)
    with pytest.raises(ValueError, match="ranges must be inside"):
        _core.patch_costs(image, [0, 0, 0], image, [ranges[0], ranges[1], np.array([[0], [9]])], good, ["sad"], 16, 1)
    with pytest.raises(ValueError, match="lead out of the padded source"):
        _core.patch_costs(image, [0, 0, 0], image, ranges, np.array([[0, np.nan, 0]]), ["sad"], 16, 1)
    with pytest.raises(ValueError, match="numbered from 0"):
        _core.class_counts(np.full((1, 8, 8), 3, np.int32), [0, 0, 0], np.zeros((1, 8, 8), np.int32), ranges, good, 3, True, 1)


# ---- control points ----------------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(4, 70), st.sampled_from([0.3, 1.0, 3.75]), st.floats(2.0, 40.0))
def test_patches_of_size_one_divide_the_image(n, spacing, voxels):
    grid = ControlGrid((n, 5), spacing, voxels * spacing)
    first, end = grid.ranges[0]
    assert first[0] == 0 and end[-1] == n and (first[1:] == end[:-1]).all() and (end > first).all()
    line = grid.points.reshape(*grid.n_points, 2)[:, 0, 0]
    assert line[0] <= 1e-9 and line[-1] >= spacing * (n - 1) - 1e-9
    np.testing.assert_allclose(line[0] + line[-1], spacing * (n - 1), atol=1e-9)


def test_splines_are_those_of_scipy():
    rng = np.random.default_rng(0)
    n, at = 7, np.linspace(-0.4, 6.4, 101)
    coefficients = rng.normal(size=n)
    # The border's coefficients go on outside.
    spline = BSpline(np.arange(-5, n + 5.0), np.pad(coefficients, (3, 3), mode="edge"), 3)
    np.testing.assert_allclose(spline_weights(at, n) @ coefficients, spline(at), atol=1e-12)
    np.testing.assert_allclose(spline_weights(at, n).sum(axis=1), 1)


def test_displacements_spread_along_every_axis():
    grid = ControlGrid((9, 12, 10), (1.0, 2.0, 1.5), 6.0)
    rng = np.random.default_rng(0)
    chosen = rng.normal(size=(grid.n_nodes, 3))
    dense = grid.spread(chosen)
    voxel = (4, 7, 2)
    weights = [
        spline_weights((np.array([voxel[k] * grid.spacing[k]]) - grid.first[k]) / 6.0, grid.n_points[k])[0] for k in range(3)
    ]
    expected = np.einsum("a,b,c,abck->k", *weights, chosen.reshape(*grid.n_points, 3))
    np.testing.assert_allclose(dense[voxel], expected)


def test_labels_have_zero_in_the_middle():
    labels = displacement_labels(3, 7.0, 5)
    assert labels.shape == (125, 3) and not labels[62].any() and np.abs(labels).max() == 7.0
    assert len(np.unique(labels, axis=0)) == 125


@pytest.mark.parametrize("far", [(1e9, 0.0), (1e5, 1e5), (0.0, -1e300)])
def test_displacements_that_lead_nowhere(far):
    image = np.add.outer(np.arange(20.0), np.arange(24.0))
    grid = ControlGrid(image.shape, 1.0, 8.0)
    for read in (lambda: unary_costs(image, image, grid, [far]), lambda: patch_classes(image.astype(int), grid, [far])):
        with pytest.raises(ValueError, match="lead far beyond the image; give them in the unit of the grid's spacing"):
            read()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ControlGrid((5,), 1.0, 8.0), r"shape=\(5,\) must be the voxels along 2 or 3 axes"),
        (lambda: ControlGrid((0, 5), 1.0, 8.0), "must be the voxels along 2 or 3 axes"),
        (lambda: ControlGrid((5, 6), 1.0, "8"), "grid_spacing='8' must be a number"),
        (lambda: ControlGrid((5, 6), 1.0, 8.0, None), "patch_size=None must be a number"),
        (lambda: ControlGrid((9, 9), 1.0, 4.0).spread(np.zeros((3, 2))), r"displacements has shape \(3, 2\), .* \(9, 2\)"),
        (lambda: displacement_labels(4, 1.0), "ndim=4 must be 2 or 3"),
        (lambda: displacement_labels(2, np.nan), "largest=nan must be a finite number"),
        (lambda: displacement_labels(2, -1.0), "largest=-1.0 must be a finite number, not negative"),
    ],
)
def test_bad_grids(make, message):
    with pytest.raises(ValueError, match=message):
        make()
