"""Regions of similar pixels, and the cliques they make."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._types import Booleans, Floats
from maxmargin.labeling import Cliques, Diameter, Metric


def superpixels(pixels: Floats, min_size: int = 20, scale: float = 30.0) -> NDArray[Any]:
    """A number for every pixel, the same within regions of similar colour (Felzenszwalb and Huttenlocher, IJCV 2004).

    The thesis took mean shift, with parameters it does not give; this is scikit-image's region merging, which is as local and has
    the same ``min_size``.

    Parameters
    ----------
    pixels : array of shape (H, W) or (H, W, 3)
        From 0 to 255.
    min_size : int
        Smaller regions join a neighbour.
    scale : float
        Larger ones make larger regions.
    """
    try:
        from skimage.segmentation import felzenszwalb
    except ImportError as error:
        raise ImportError("superpixels need scikit-image; install it with: pip install 'maxmargin[vision]'") from error
    colours = pixels if pixels.ndim == 3 else pixels[:, :, None]
    return np.asarray(felzenszwalb(colours / 255.0, scale=scale, sigma=0.5, min_size=min_size, channel_axis=-1))


def region_cliques(
    pixels: Floats, regions: ArrayLike, metric: Metric, sigma: float, scale: float = 1.0, known: Booleans | None = None
) -> Cliques:
    """One clique per region, with the diameter of its labels as its cost, and ``scale * exp(-variance / sigma^2)`` as its weight.

    Parameters
    ----------
    pixels : array of shape (H, W) or (H, W, 3)
        Variances are of their grey values.
    regions : int array of shape (H, W)
    metric : Metric
        Distances of labels.
    sigma : float
        Regions of a variance far above its square hardly count.
    known : bool array of shape (H, W), optional
        Which pixels count for the variance; all by default.
    """
    grey = pixels.mean(axis=2) if pixels.ndim == 3 else pixels
    numbers = np.unique(np.asarray(regions), return_inverse=True)[1].ravel()
    count = np.ones(grey.size) if known is None else known.ravel().astype(np.float64)
    n = np.maximum(np.bincount(numbers, count), 1.0)
    mean = np.bincount(numbers, count * grey.ravel()) / n
    variance = np.bincount(numbers, count * (grey.ravel() - mean[numbers]) ** 2) / n
    large = np.bincount(numbers) >= 2
    return Cliques.of_segments(numbers, Diameter(metric), scale * np.exp(-variance[large] / sigma**2))
