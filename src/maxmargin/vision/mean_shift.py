"""Regions of similar pixels, and the cliques they make."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.labeling import Cliques, Diameter, Metric
from maxmargin.vision.images import ImageError


def superpixels(
    pixels: Floats,
    method: Literal["mean_shift", "felzenszwalb"] = "mean_shift",
    *,
    radius: float = 7.0,
    colour_radius: float = 6.5,
    min_size: int = 20,
    scale: float = 30.0,
) -> NDArray[Any]:
    """A number for every pixel, the same within connected regions of similar colour.

    Parameters
    ----------
    pixels : array of shape (H, W) or (H, W, 3)
        From 0 to 255.
    method : {"mean_shift", "felzenszwalb"}
        Mean shift in places and CIE Luv colours (Comaniciu and Meer, PAMI 2002), which the thesis took, or the region merging of
        Felzenszwalb and Huttenlocher (IJCV 2004).
    radius, colour_radius : float
        Of mean shift: how far apart pixels count as near, in pixels and in Luv, where 100 is from black to white. The thesis does
        not give its own; 7, 6.5 and a ``min_size`` of 20 are usual.
    min_size : int
        Smaller regions join a neighbour: that of the nearest colour by mean shift.
    scale : float
        Of region merging: larger ones make larger regions.

    Examples
    --------
    >>> image = np.zeros((20, 30))
    >>> image[:, 12:] = 200.0
    >>> regions = superpixels(image)
    >>> np.bincount(regions.ravel()).tolist()
    [240, 360]
    """
    try:
        from skimage.color.colorconv import rgb2luv
        from skimage.segmentation import felzenszwalb
    except ImportError as error:
        raise ImportError("superpixels need scikit-image; install it with: pip install 'maxmargin[vision]'") from error
    colours = np.asarray(pixels, dtype=np.float64)
    if colours.ndim == 2:
        colours = np.repeat(colours[:, :, None], 3, axis=2)
    if colours.ndim != 3 or colours.shape[2] != 3 or 0 in colours.shape or not np.isfinite(colours).all():
        raise ImageError(f"pixels must be finite, of shape (H, W) or (H, W, 3), but has shape {np.shape(pixels)}")
    if not min_size >= 1:
        raise ValueError(f"min_size={min_size!r} must be at least 1 pixel")
    if method == "felzenszwalb":
        return np.asarray(felzenszwalb(colours / 255.0, scale=scale, sigma=0.5, min_size=min_size, channel_axis=-1))
    if method != "mean_shift":
        raise ValueError(f"method={method!r} must be 'mean_shift' or 'felzenszwalb'")
    if not 0 < radius < 1e6 or not 0 < colour_radius < np.inf:
        raise ValueError(f"radius={radius!r} and colour_radius={colour_radius!r} must be positive")
    luv = np.ascontiguousarray(rgb2luv(np.clip(colours / 255.0, 0, 1)))
    modes = mean_shift(luv, radius, colour_radius)
    return _without_small(_joined(modes, radius, colour_radius), modes[:, :, 2:], min_size)


def mean_shift(colours: Floats, radius: float, colour_radius: float) -> Floats:
    """Where pixels end that go to the mean of those around them: row, column and colour, shape (H, W, 5)."""
    # A few rows at a time, so that Ctrl-C is heard between them.
    rows = 16
    parts = [
        _core.mean_shift(colours, first, min(first + rows, len(colours)), float(radius), float(colour_radius))
        for first in range(0, len(colours), rows)
    ]
    return np.concatenate(parts)


def _joined(modes: Floats, radius: float, colour_radius: float) -> Ints:
    """Regions of neighbours that end near each other."""
    nodes = np.arange(modes[:, :, 0].size).reshape(modes.shape[:2])
    units = np.array([radius, radius, colour_radius, colour_radius, colour_radius])
    pairs = []
    for one, two in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        apart = ((modes[one] - modes[two]) / units) ** 2
        near = (apart[:, :, :2].sum(axis=2) < 1) & (apart[:, :, 2:].sum(axis=2) < 1)
        pairs.append(np.stack([nodes[one][near], nodes[two][near]]))
    return _components(nodes.size, np.concatenate(pairs, axis=1)).reshape(nodes.shape)


def _components(n: int, pairs: Ints) -> Ints:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(pairs.shape[1], dtype=bool), (pairs[0], pairs[1])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _without_small(regions: Ints, colours: Floats, min_size: int) -> Ints:
    """Regions of fewer pixels join the neighbour whose mean colour is nearest, until there are none."""
    while True:
        flat = regions.ravel()
        sizes = np.bincount(flat)
        if len(sizes) == 1 or sizes.min() >= min_size:
            return regions
        means = np.stack([np.bincount(flat, channel) for channel in colours.reshape(-1, 3).T], axis=1) / sizes[:, None]
        across = np.concatenate(
            [np.stack([regions[:, :-1], regions[:, 1:]]).reshape(2, -1), np.stack([regions[:-1], regions[1:]]).reshape(2, -1)],
            axis=1,
        )
        across = np.unique(across[:, across[0] != across[1]], axis=1)
        both = np.concatenate([across, across[::-1]], axis=1)
        both = both[:, sizes[both[0]] < min_size]
        distance = ((means[both[0]] - means[both[1]]) ** 2).sum(axis=1)
        order = np.lexsort((distance, both[0]))
        nearest = order[np.unique(both[0][order], return_index=True)[1]]
        regions = _components(len(sizes), both[:, nearest])[regions]


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
