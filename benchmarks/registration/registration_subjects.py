"""Subjects made from the MNI brain template: seeded smooth warps that are known, other contrast, bias fields and noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from benchmarks.datasets import find
from scipy.ndimage import gaussian_filter, map_coordinates

TISSUES = ("background", "CSF", "grey matter", "white matter")


class Template(NamedTuple):
    """Intensities, classes of tissue 0 to 3, and millimetres per voxel."""

    image: np.ndarray
    labels: np.ndarray
    spacing: np.ndarray


class Subject(NamedTuple):
    """A warped template; the voxel at x is at x + displacement(x) in the template, in millimetres."""

    image: np.ndarray
    labels: np.ndarray
    displacement: np.ndarray


def load_template() -> Template:
    with np.load(find("registration_mni152_3mm", "mni152_3mm.npz")) as file:
        return Template(file["t1"].astype(np.float64), file["labels"].astype(np.int64), file["spacing"])


def smooth_field(shape: tuple[int, ...], spacing: np.ndarray, rng: np.random.Generator, mean: float, width: float) -> np.ndarray:
    """Gaussian noise smoothed by ``width`` millimetres, of so many millimetres on average, shape (*shape, ndim)."""
    field = np.stack([gaussian_filter(rng.normal(size=shape), width / spacing, mode="reflect") for _ in shape], axis=-1)
    return field * (mean / np.sqrt((field**2).sum(axis=-1)).mean())


def warped(image: np.ndarray, spacing: np.ndarray, displacement: np.ndarray, labels: bool = False) -> np.ndarray:
    places = [np.arange(n) for n in image.shape]
    at = np.stack(np.meshgrid(*places, indexing="ij")) + np.moveaxis(displacement / spacing, -1, 0)
    return map_coordinates(image, at, order=0 if labels else 1, mode="nearest")


def make_subject(
    template: Template, seed: int, *, mean: float = 5.0, width: float = 24.0, contrast: bool = True, noise: float = 0.02
) -> Subject:
    """A subject of its own anatomy: displaced by ``mean`` millimetres on average; with ``contrast`` also another scanner's."""
    rng = np.random.default_rng(seed)
    field = smooth_field(template.image.shape, template.spacing, rng, mean, width)
    image = warped(template.image, template.spacing, field) / 255.0
    labels = warped(template.labels, template.spacing, field, labels=True)
    inside = np.clip(image / 0.2, 0, 1)  # the background stays dark
    if contrast:
        image = image ** rng.uniform(0.6, 1.6)
        bias = gaussian_filter(rng.normal(size=image.shape), 30.0 / template.spacing, mode="reflect")
        image = image * np.exp(0.2 * bias / np.abs(bias).max())
    image = np.clip(image + noise * inside * rng.normal(size=image.shape), 0, None)
    return Subject(255.0 * image, labels, field)
