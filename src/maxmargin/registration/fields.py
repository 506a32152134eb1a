"""Fields of displacements: images and other fields read through them, how much they stretch, and coarser levels of images.

A field ``u`` says for every voxel of the target where it is in the source, ``x + u(x)``, in millimetres, say. The first voxel of
the target is at 0.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Floats, Ints


class Frame(NamedTuple):
    """Where the voxels of an image are: their number, their size, and the place of the first one."""

    shape: tuple[int, ...]
    spacing: Floats
    first: Floats

    def voxels(self, places: Floats) -> Floats:
        """Voxel coordinates of places, shape (..., ndim)."""
        return np.asarray((places - self.first) / self.spacing)

    def places(self, pad: ArrayLike = 0) -> Floats:
        """Places of all voxels, shape (*shape, ndim), with more of them around."""
        pads = np.broadcast_to(np.asarray(pad, dtype=np.int64), (len(self.shape),))
        lines = [
            first + step * np.arange(-more, n + more)
            for first, step, n, more in zip(self.first, self.spacing, self.shape, pads.tolist(), strict=True)
        ]
        return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)


def sample(image: NDArray[Any], frame: Frame, places: Floats, order: Literal[0, 1, 3] = 1) -> NDArray[Any]:
    """An image at places, shape (..., ndim): linear, or that of the nearest voxel (order 0), as everywhere outside."""
    from scipy.ndimage import map_coordinates

    at = np.moveaxis(frame.voxels(places), -1, 0)
    if order == 0:
        nearest = [np.clip(np.floor(k + 0.5).astype(np.int64), 0, n - 1) for k, n in zip(at, frame.shape, strict=True)]
        return np.asarray(image[tuple(nearest)])
    return np.asarray(map_coordinates(image, at, order=order, mode="nearest"))


def sample_field(field: Floats, frame: Frame, places: Floats, order: Literal[0, 1, 3] = 1) -> Floats:
    """Displacements at places."""
    return np.stack([sample(field[..., k], frame, places, order) for k in range(field.shape[-1])], axis=-1)


def through(values: Floats, own: Frame, field: Floats, frame: Frame, pad: Ints, n_threads: int = 1) -> Floats:
    """What voxels of a padded frame see through its field: values of shape (*own.shape,), or with channels in the end.

    Linear; outside that of the nearest voxel. Around its frame the field goes on.
    """
    ndim = len(frame.shape)
    channels = values if values.ndim > ndim else values[..., None]
    first, step = (frame.first - own.first) / own.spacing, frame.spacing / own.spacing
    missing, flat = 3 - ndim, np.zeros(3 - ndim).tolist()
    if missing:
        # An image is one slice, which no displacement leaves.
        channels, field = channels[None], np.concatenate([np.zeros((*frame.shape, 1)), field], axis=-1)[None]
    found = _core.warp(
        np.ascontiguousarray(channels), np.ascontiguousarray(field), [0] * missing + pad.tolist(), flat + first.tolist(),
        flat + step.tolist(), flat + (1 / own.spacing).tolist(), n_threads,
    )  # fmt: skip
    found = found[0] if missing else found
    return found if values.ndim > ndim else found[..., 0]


def compose(field: Floats, frame: Frame, increment: Floats, n_threads: int = 1) -> Floats:
    """First the increment, then the field: ``u(x + d(x)) + d(x)``. Maps without folds have a composition without folds."""
    none = np.zeros(len(frame.shape), dtype=np.int64)
    return np.asarray(increment + through(field, frame, increment, frame, none, n_threads))


def least_jacobian(field: Floats, spacing: Floats, n_threads: int = 1) -> float:
    """The least determinant of ``x + u(x)`` by differences to either side along every axis.

    Linear interpolation between pixels has its extremes there. Those of :func:`jacobian` are means of them, so none is smaller.

    >>> zigzag = np.zeros((9, 9, 2))
    >>> zigzag[1::2, :, 0] = 1.5                                 # forth and back
    >>> float(jacobian(zigzag, np.ones(2))[1:-1].min()), least_jacobian(zigzag, np.ones(2))
    (1.0, -0.5)
    """
    if field.shape[-1] == 2:
        field, spacing = np.concatenate([np.zeros((*field.shape[:-1], 1)), field], axis=-1)[None], np.array([1.0, *spacing])
    return _core.least_jacobian(np.ascontiguousarray(field), spacing.tolist(), n_threads)


def jacobian(field: Floats, spacing: Floats) -> Floats:
    """Determinants of ``x + u(x)``, shape (*shape,): 1 keeps volumes, 0 and less is a fold. Central differences."""
    ndim = field.shape[-1]
    matrix = np.zeros((*field.shape[:-1], ndim, ndim))
    for k in range(ndim):
        for axis in range(ndim):
            matrix[..., k, axis] = np.gradient(field[..., k], spacing[axis], axis=axis)
        matrix[..., k, k] += 1
    if ndim == 2:
        return np.asarray(matrix[..., 0, 0] * matrix[..., 1, 1] - matrix[..., 0, 1] * matrix[..., 1, 0])
    a, b, c = (matrix[..., 0, k] for k in range(3))
    d, e, f = (matrix[..., 1, k] for k in range(3))
    g, h, i = (matrix[..., 2, k] for k in range(3))
    return np.asarray(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g))


def unfolded(field: Floats, spacing: Floats, n_threads: int = 1) -> Floats:
    """A field without folds: the same one if it has none, else as little smoothed as it takes.

    Splines between the voxels of a map without folds may have some.

    >>> steep = np.zeros((9, 9, 2))
    >>> steep[5:, :, 0] = -3.0                                   # four rows go where others are
    >>> bool(jacobian(steep, np.ones(2)).min() < 0 < jacobian(unfolded(steep, np.ones(2)), np.ones(2)).min())
    True
    """
    found, width = field, 0.5
    # Wider than the image only the mean is left, nearly.
    while not least_jacobian(found, spacing, n_threads) > 0:
        if width > 2 * max(field.shape[:-1]):
            return np.broadcast_to(field.mean(axis=tuple(range(field.ndim - 1))), field.shape).copy()
        found = smoothed(field, np.array([width] * (field.ndim - 1) + [0.0]))
        width *= 1.5
    return found


def coarser(frame: Frame, level: int, least: int = 16) -> tuple[Frame, tuple[int, ...]]:
    """The frame of every second voxel, ``level`` times, and the factor of every axis; an axis keeps about ``least`` voxels."""
    factors = []
    for n in frame.shape:
        factor = 1
        while factor < 2**level and n // (2 * factor) >= least:
            factor *= 2
        factors.append(factor)
    shape = tuple((n - 1) // factor + 1 for n, factor in zip(frame.shape, factors, strict=True))
    return Frame(shape, frame.spacing * factors, frame.first), tuple(factors)


def smoothed(image: Floats, sigma: Floats) -> Floats:
    """Gaussian smoothing, in voxels along every axis."""
    from scipy.ndimage import gaussian_filter

    return (
        image
        if not (sigma > 0).any()
        else np.asarray(gaussian_filter(image, tuple(sigma.tolist()), mode="nearest", truncate=3.0))
    )
