"""Superpixels: modes as a slow loop finds them, regions that are connected and large enough."""

import numpy as np
import pytest

pytest.importorskip("skimage", reason="superpixels need scikit-image")

from skimage.measure import label

from maxmargin.vision import ImageError, superpixels
from maxmargin.vision.mean_shift import mean_shift


def slow_mode(colours, y, x, radius, colour_radius):
    """The way of one pixel, from the definition."""
    rows, columns = np.indices(colours.shape[:2])
    points = np.column_stack([rows.ravel(), columns.ravel(), colours.reshape(-1, 3)])
    at = np.array([y, x, *colours[y, x]], dtype=float)
    for _ in range(100):
        near = ((points[:, :2] - at[:2]) ** 2).sum(axis=1) <= radius**2
        alike = ((points[:, 2:] - at[2:]) ** 2).sum(axis=1) <= colour_radius**2
        mean = points[near & alike].mean(axis=0)
        moved = ((mean[:2] - at[:2]) ** 2).sum() / radius**2 + ((mean[2:] - at[2:]) ** 2).sum() / colour_radius**2
        at = mean
        if moved < 1e-4:
            break
    return at


@pytest.mark.parametrize(("radius", "colour_radius"), [(1.0, 30.0), (3.0, 12.0), (4.5, 40.0), (50.0, 20.0)])
def test_modes_are_those_of_the_definition(radius, colour_radius):
    rng = np.random.default_rng(0)
    colours = rng.uniform(0, 60, (19, 11, 3))
    modes = mean_shift(colours, radius, colour_radius)
    assert modes.shape == (19, 11, 5)
    # Row 16 is the first of the second part.
    for y, x in ((0, 0), (0, 10), (18, 0), (9, 5), (15, 3), (16, 7)):
        np.testing.assert_allclose(modes[y, x], slow_mode(colours, y, x, radius, colour_radius))


@pytest.mark.parametrize("method", ["mean_shift", "felzenszwalb"])
def test_as_large_as_asked(method):
    rng = np.random.default_rng(0)
    image = np.kron(rng.integers(0, 256, (6, 6)), np.ones((10, 10)))
    regions = superpixels(image, method, min_size=130)
    assert regions.shape == image.shape and np.bincount(regions.ravel()).min() >= 130


def test_connected_and_along_edges():
    """Noise within a square does not divide it, and a border between squares is never crossed."""
    rng = np.random.default_rng(1)
    truth = np.kron([[0, 1, 2], [1, 2, 0]], np.ones((16, 16), dtype=int))
    colours = np.array([[200.0, 60, 60], [60, 200, 60], [60, 60, 200]])
    regions = superpixels(colours[truth] + rng.normal(0, 3, (32, 48, 3)))
    assert regions.max() == 5
    assert (label(regions + 1, connectivity=1) == label(truth + 1, connectivity=1)).all()


def test_the_only_region_may_be_small():
    assert superpixels(np.zeros((3, 4))).tolist() == [[0] * 4] * 3


@pytest.mark.parametrize(
    ("pixels", "options", "error", "message"),
    [
        (np.zeros((4, 4, 2)), {}, ImageError, "of shape"),
        (np.full((4, 4), np.nan), {}, ImageError, "finite"),
        (np.zeros((4, 4)), {"radius": 0}, ValueError, "radius=0"),
        (np.zeros((4, 4)), {"colour_radius": np.nan}, ValueError, "colour_radius=nan"),
        (np.zeros((4, 4)), {"min_size": 0}, ValueError, "min_size=0 must be"),
        (np.zeros((4, 4)), {"method": "slic"}, ValueError, "method='slic' must be"),
    ],
)
def test_refused(pixels, options, error, message):
    with pytest.raises(error, match=message):
        superpixels(pixels, **options)
