"""Images that are warped by known fields."""

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates


def blobs(shape, seed=0, width=3.0):
    """A smooth random texture, with enough black and white that parts of it have the same range."""
    image = gaussian_filter(np.random.default_rng(seed).normal(size=shape), width, mode="reflect")
    low, high = np.percentile(image, (8, 92))
    return np.clip(255 * (image - low) / (high - low), 0, 255)


def smooth_field(shape, seed, largest, width):
    """Displacements in voxels, at most ``largest`` along an axis."""
    rng = np.random.default_rng(seed)
    field = np.stack([gaussian_filter(rng.normal(size=shape), width, mode="reflect") for _ in shape], axis=-1)
    return field * (largest / np.abs(field).max())


def warped(image, field):
    """The image seen through a field, in voxels."""
    places = np.stack(np.meshgrid(*[np.arange(n) for n in image.shape], indexing="ij"))
    return map_coordinates(image, places + np.moveaxis(field, -1, 0), order=1, mode="nearest")


def error(found, field):
    """Mean length of what a registration is wrong by, in voxels, away from the border."""
    inside = tuple(slice(n // 8, n - n // 8) for n in field.shape[:-1])
    return np.linalg.norm(found.displacement / found.spacing - field, axis=-1)[inside].mean()
