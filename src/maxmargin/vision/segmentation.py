"""Regions of an image by colour, with smooth boundaries that follow contrast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.labeling import Energy, Labeling
from maxmargin.vision.checks import bad_option, check_not_negative, split_options
from maxmargin.vision.images import ImageError, colours, contrast
from maxmargin.vision.stereo_matching import find_labels


def segmentation_energy(
    image: ArrayLike, n_labels: int = 2, *, smoothness: float = 8.0, seeds: ArrayLike | None = None, random_state: int = 0
) -> Energy:
    """The energy of regions: how unlikely a colour is in its region, and boundaries where there is no contrast.

    Parameters
    ----------
    image : array of shape (H, W, 3) or (H, W)
        From 0 to 255.
    n_labels : int
        Regions. Without seeds their colours are a mixture of so many normal distributions.
    smoothness : float
        Price of a boundary; it is less where neighbours differ more than usual.
    seeds : int array of shape (H, W), optional
        Pixels whose region is known: its number plus one; 0 elsewhere. Their colours make those of the regions.
    random_state : int
        Of the mixture.
    """
    from sklearn.mixture import GaussianMixture

    pixels = colours(image, "image")
    if not isinstance(n_labels, int | np.integer) or n_labels < 2:
        raise bad_option("n_labels", n_labels, "must be an integer of at least 2")
    check_not_negative(smoothness=smoothness)
    samples = pixels.reshape(-1, 3)
    if n_labels > len(samples):
        raise bad_option("n_labels", n_labels, f"is more than the image has pixels, {len(samples)}")
    if seeds is None:
        n_colours = _count_colours(samples, n_labels)
        if n_labels > n_colours:
            raise bad_option("n_labels", n_labels, f"is more than the image has different colours, {n_colours}")
        mixture = GaussianMixture(n_labels, reg_covar=10.0, random_state=random_state).fit(samples)
        shares = np.maximum(mixture.predict_proba(samples), 1e-300)
        costs = -(mixture.score_samples(samples)[:, None] + np.log(shares))
    else:
        known = np.asarray(seeds)
        if known.shape != pixels.shape[:2] or known.dtype.kind not in "iu":
            given = f"dtype {known.dtype} and shape {known.shape}"
            raise ImageError(f"seeds must be integers of shape {pixels.shape[:2]}, but has {given}")
        if known.min() < 0 or known.max() > n_labels:
            at = tuple(np.argwhere((known < 0) | (known > n_labels))[0].tolist())
            raise ImageError(
                f"seeds has the value {known[at]} at pixel {at}, but there are {n_labels} regions; seeds are numbers "
                "of regions, from 1, and 0 elsewhere"
            )
        marked = known.ravel()
        costs = np.empty((len(samples), n_labels))
        for label in range(n_labels):
            own = samples[marked == label + 1]
            if not len(own):
                raise ImageError(f"seeds mark no pixel of region {label + 1}; all {n_labels} regions need some")
            # A mixture of fewer colours than parts has empty ones, and scikit-learn wants two samples.
            parts = min(3, len(np.unique(own, axis=0)))
            own = np.repeat(own, 2, axis=0) if len(own) == 1 else own
            own_mixture = GaussianMixture(parts, reg_covar=10.0, random_state=random_state).fit(own)
            costs[:, label] = -own_mixture.score_samples(samples)
        fixed = np.flatnonzero(marked)
        costs[fixed] = np.inf
        costs[fixed, marked[fixed] - 1] = 0.0
    steps = contrast(pixels) ** 2
    usual = max(2.0 * float(steps.mean()), 1e-9)
    return Energy.grid(costs.reshape(*pixels.shape[:2], n_labels), "potts", weights=smoothness * np.exp(-steps / usual))


def _count_colours(samples: Floats, most: int) -> int:
    """Different colours, counted up to as many as are wanted."""
    count = 0
    while len(samples) and count < most:
        samples = samples[(samples != samples[0]).any(axis=1)]
        count += 1
    return count


def segment(image: ArrayLike, n_labels: int = 2, *, method: str | None = None, **options: Any) -> Labeling:
    """Regions of an image, as labels of shape (H, W); parameters as for :func:`segmentation_energy` and ``minimize``.

    Two regions are found exactly. ``random_state`` is that of the energy; a method's own options are passed as to :func:`stereo`.

    Examples
    --------
    >>> image = np.zeros((10, 12, 3))
    >>> image[:, 6:] = 200
    >>> found = segment(image)
    >>> found.certified, sorted(np.bincount(found.labels.ravel()).tolist())
    (True, [60, 60])
    """
    of_energy, how = split_options(segmentation_energy, method, options)
    return find_labels(segmentation_energy(image, n_labels, **of_energy), method, how)
