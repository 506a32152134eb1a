"""Depth from two views: how far every pixel of the left image has moved in the right one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Floats, Ints
from maxmargin.labeling import Cliques, Energy, Labeling, Metric, minimize
from maxmargin.vision.checks import bad_option, check_not_negative, check_positive, split_options
from maxmargin.vision.images import ImageError, colours, contrast
from maxmargin.vision.mean_shift import region_cliques, superpixels

# Names of regions: mean shift, and region merging.
REGIONS = ("superpixels", "felzenszwalb")


def stereo_energy(
    left: ArrayLike,
    right: ArrayLike,
    n_disparities: int = 16,
    *,
    smoothness: float = 20.0,
    limit: float = 5.0,
    cost_limit: float = np.inf,
    edge: float = 8.0,
    edge_factor: float = 2.0,
    regions: Any = "superpixels",
    sigma: float = 100.0,
    region_scale: float = 1.0,
) -> Energy:
    """The energy of disparities: colours that differ, neighbours that differ, regions that are not flat.

    Parameters
    ----------
    left, right : arrays of shape (H, W, 3)
        From 0 to 255, rectified: pixel (y, x) of the left image is pixel (y, x - d) of the right one.
    n_disparities : int
        Disparities 0 to ``n_disparities - 1``.
    smoothness, limit : float
        Neighbours cost ``smoothness * min(|difference|, limit)``.
    cost_limit : float
        Colours of a pixel cost no more than this; the thesis takes 16 for teddy.
    edge, edge_factor : float
        Neighbours whose grey values differ by less than ``edge`` count ``edge_factor`` times: 8 and 2 for tsukuba, 10 and 3 for
        teddy.
    regions : int array of shape (H, W), "superpixels", "felzenszwalb" or None
        Sets of pixels that should have similar disparities; the names are those of mean shift and of region merging, with the
        defaults of :func:`superpixels`.
    sigma, region_scale : float
        A region counts ``region_scale * exp(-variance / sigma^2)`` times.
    """
    one, two = colours(left, "left"), colours(right, "right")
    if one.shape != two.shape:
        raise ImageError(f"left has {_size(one)} pixels, but right has {_size(two)}; both must be of one size")
    height, width = one.shape[:2]
    if not isinstance(n_disparities, int | np.integer) or not 1 <= n_disparities <= width:
        raise bad_option("n_disparities", n_disparities, f"must be between 1 and the width of the images, {width}")
    check_positive(limit=limit, cost_limit=cost_limit, sigma=sigma)
    check_not_negative(smoothness=smoothness, edge=edge, edge_factor=edge_factor, region_scale=region_scale)
    costs = np.empty((height, width, int(n_disparities)))
    for shift in range(int(n_disparities)):
        moved = np.abs(one[:, shift:] - two[:, : width - shift]).sum(axis=2)
        costs[:, shift:, shift] = moved
        # Where there is nothing to compare with: as at the nearest place where there is.
        costs[:, :shift, shift] = moved[:, :1]
    np.minimum(costs, cost_limit, out=costs)
    metric = Metric("linear", limit, smoothness)
    weights = np.where(contrast(one) < edge, edge_factor, 1.0)
    cliques: list[Cliques] = []
    # Steps that cost nothing cost nothing in regions either.
    if regions is not None and n_disparities > 1 and smoothness > 0:
        found = _regions(regions, one)
        cliques.append(region_cliques(one, found, metric, sigma, region_scale))
    return Energy.grid(costs, metric, weights=weights, cliques=cliques)


def stereo(left: ArrayLike, right: ArrayLike, n_disparities: int = 16, *, method: str | None = None, **options: Any) -> Labeling:
    """Disparities of the left image of a rectified pair, as labels of shape (H, W).

    Parameters
    ----------
    left, right, n_disparities
        As for :func:`stereo_energy`, whose other parameters are taken too.
    method : str, optional
        Of :func:`maxmargin.labeling.minimization`; by default ``"cooccurrence"`` from expansion moves where regions count, and
        ``"expansion"`` where they do not.
    **options
        Of the energy or of ``minimize`` (``time_limit``, ``callback``, ``random_state``, ``max_sweeps``); with a method also
        ``init`` and those of its own, such as ``method="parsimonious", n_trees=2``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> right = rng.integers(0, 256, (20, 30, 3))
    >>> left = np.roll(right, 3, axis=1)
    >>> found = stereo(left, right, 6, regions=None)
    >>> int((found.labels[:, 6:] == 3).sum()), found.labels[:, 6:].size
    (480, 480)
    """
    of_energy, how = split_options(stereo_energy, method, options)
    return find_labels(stereo_energy(left, right, n_disparities, **of_energy), method, how)


def find_labels(energy: Energy, method: str | None, how: dict[str, Any]) -> Labeling:
    """Labels by the method, or by one that is fast and good for images.

    With regions these are moves that know them, from the better of two starts: labels that are good without regions, and one
    label for each region, which is better where regions count much.
    """
    if method is not None or not energy.cliques:
        return minimize(energy, method or "auto", **how)
    limit, spent = how.get("time_limit"), 0.0
    first = minimize(energy.replaced(cliques=()), "expansion", **how)
    best = replace(first, energy=energy.energy(first.labels), guarantee=None)
    if first.status in ("time_limit", "interrupted"):
        return best
    owners = region_of_pixels(energy)
    spent += first.seconds
    second = minimize(merged(energy, owners), "expansion", **{**how, "callback": None, "time_limit": _rest(limit, spent)})
    spent += second.seconds
    start = second.labels[owners].reshape(energy.shape)
    if energy.energy(start) < best.energy:
        best = replace(best, labels=start, energy=energy.energy(start))
    if second.status in ("time_limit", "interrupted"):
        return replace(best, status=second.status)
    return minimize(energy, "cooccurrence", init=best.labels, **{**how, "time_limit": _rest(limit, spent)})


def _rest(limit: float | None, spent: float) -> float | None:
    """No time at all would be refused."""
    return None if limit is None else max(limit - spent, 1e-3)


def region_of_pixels(energy: Energy) -> Ints:
    """The clique of every node, and a number of its own for those in none; of several cliques the last."""
    owners = np.full(energy.n_nodes, -1, dtype=np.int64)
    so_far = 0
    for some in energy.cliques:
        owners[some.nodes] = so_far + np.repeat(np.arange(len(some)), np.diff(some.offsets))
        so_far += len(some)
    alone = np.flatnonzero(owners < 0)
    owners[alone] = so_far + np.arange(len(alone))
    # Cliques may have lost all their nodes to others.
    return np.unique(owners, return_inverse=True)[1].reshape(-1)


def merged(energy: Energy, owners: Ints) -> Energy:
    """The energy of one label for each region, without cliques: these pay nothing then.

    Tables must be shared and symmetric.
    """
    n = int(owners.max()) + 1
    unary = np.stack([np.bincount(owners, column, n) for column in energy.unary.T], axis=1)
    ends = np.sort(owners[energy.edges], axis=1)
    across = ends[:, 0] != ends[:, 1]
    pairs, place = np.unique(ends[across] @ [n, 1], return_inverse=True)
    edges = np.stack(np.divmod(pairs, n), axis=1)
    return Energy(unary, edges, energy.table, weights=np.bincount(place.reshape(-1), energy.weights[across], len(pairs)))


def _regions(regions: Any, pixels: Floats) -> NDArray[Any]:
    """Given ones, or those that a name stands for."""
    if isinstance(regions, str):
        if regions not in REGIONS:
            raise bad_option("regions", regions, f"is unknown; pass {', '.join(map(repr, REGIONS))}, numbers of regions, or None")
        return superpixels(pixels, "mean_shift" if regions == "superpixels" else "felzenszwalb")
    numbers, shape = np.asarray(regions), pixels.shape[:2]
    if numbers.shape != shape or numbers.dtype.kind not in "iub":
        raise ImageError(f"regions must be integers of shape {shape}, but has dtype {numbers.dtype} and shape {numbers.shape}")
    return numbers


def _size(pixels: Floats) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]}"
