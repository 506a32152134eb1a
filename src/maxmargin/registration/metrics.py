"""What patches of the source cost at control points of the target: unary costs of displacements, by metric.

====== ================================= =====================================================================
metric cost                              of patches ``a`` and ``b``
====== ================================= =====================================================================
sad    mean ``|a - b|``                  intensities from 0 to 255
mi     ``log(bins) - I(a; b)``           mutual information of a joint histogram with equal bins
ncc    ``1 - correlation``               1 where a patch is flat
dwt    mean ``|W a - W b|``              one orthonormal Haar step along every axis, of intensities from 0 to 1
====== ================================= =====================================================================

All are dissimilarities, not negative. The kernels are in ``cpp/registration/patch_metrics.hpp``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import ArgumentError, Floats, Int32s, Ints, Setting, check_unmasked, thread_count
from maxmargin.registration.fields import Frame, sample
from maxmargin.registration.grid import ControlGrid, check_spacing

METRICS = ("sad", "mi", "ncc", "dwt")
# With these, the metrics are of one size.
DEFAULT_WEIGHTS = {"sad": 0.1, "mi": 10.0, "ncc": 10.0, "dwt": 10.0}
# So many voxels, with those around an image, need a gigabyte.
_MANY = 1.3e8


class Pair:
    """A source and a target, their intensities from 0 to 255, and where they are; checked.

    Parameters
    ----------
    source, target : arrays of 2 or 3 dimensions
    spacing : float or sequence of float
        Of the target's voxels.
    source_spacing : float or sequence of float, optional
        Of the source's, the same by default.
    offset : sequence of float, optional
        Place of the source's first voxel, seen from that of the target; 0 by default.
    segmentation : int array of the source's shape, optional
        A class for every voxel of the source.
    """

    def __init__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        spacing: ArrayLike | None,
        *,
        source_spacing: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        segmentation: ArrayLike | None = None,
    ) -> None:
        one, two = check_image(source, "source"), check_image(target, "target")
        if one.ndim != two.ndim:
            problem = f"source has {one.ndim} dimensions, but target has {two.ndim}"
            raise ArgumentError("source", problem, "both must be images, or both volumes; take a slice of the volume")
        ndim = two.ndim
        step = check_spacing(spacing, ndim)
        own = step.copy() if source_spacing is None else check_spacing(source_spacing, ndim, "source_spacing")
        first = check_offset(offset, ndim)
        self.target_frame = Frame(two.shape, step, np.zeros(ndim))
        self.source_frame = Frame(one.shape, own, first)
        for axis in range(ndim):
            end = first[axis] + own[axis] * (one.shape[axis] - 1)
            reach = step[axis] * (two.shape[axis] - 1)
            if end <= 0 or first[axis] >= reach:
                problem = (
                    f"source and target do not overlap: along axis {axis} the source goes from {first[axis]:g} to {end:g}, "
                    f"the target from 0 to {reach:g}"
                )
                raise ArgumentError("offset", problem, "check spacing and offset, or move one image to the other first")
        self.source, self.target = rescaled(one), rescaled(two)
        self.segmentation = None if segmentation is None else check_classes(segmentation, one.shape, "segmentation")

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return self.target.ndim


def check_offset(offset: ArrayLike | None, ndim: int) -> Floats:
    """Where the source's first voxel is, seen from that of the target."""
    if offset is None:
        return np.zeros(ndim)
    values = np.asarray(offset)
    if values.dtype.kind not in "fiu" or values.shape != (ndim,) or not np.isfinite(values).all():
        raise ArgumentError("offset", [Setting("offset", offset), f" must be {ndim} finite numbers"])
    return values.astype(np.float64)


def check_image(image: ArrayLike, name: str) -> Floats:
    """Finite numbers of 2 or 3 dimensions, with at least 4 voxels along every axis."""
    values = np.asarray(check_unmasked(image, name))
    if values.dtype.kind not in "fiub":
        raise ArgumentError(
            name, f"{name} must be an array of numbers, but has dtype {values.dtype}", "read files with read_volume"
        )
    if values.ndim not in (2, 3) or min(values.shape) < 4:
        remedy = "pass 2 or 3 dimensions with at least 4 voxels each" + (
            "; take the mean of the colours" if values.ndim == 3 and values.shape[-1] == 3 else ""
        )
        raise ArgumentError(name, f"{name} has shape {values.shape}", remedy)
    array = values.astype(np.float64)
    if not np.isfinite(array).all():
        at = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise ArgumentError(name, f"{name} is NaN or infinite at voxel {at}", "fill it in, with the background, say")
    return array


def check_classes(segmentation: ArrayLike, shape: tuple[int, ...], name: str) -> Int32s:
    """Classes 0, 1, ... of every voxel."""
    values = np.asarray(segmentation)
    if values.shape != shape:
        raise ArgumentError(name, f"{name} has shape {values.shape}, but its image has {shape}", "they must have the same voxels")
    if values.dtype.kind not in "iub":
        remedy = f"pass {name}.astype(int)"
        raise ArgumentError(name, f"{name} must be integers, but has dtype {values.dtype}", remedy)
    if values.size and (values.min() < 0 or int(values.max()) > 65535):
        low = int(values.min()) if values.min() < 0 else int(values.max())
        raise ArgumentError(name, f"{name} has the class {low}", "number classes 0, 1, ...; 0 is usually the background")
    return np.ascontiguousarray(values, dtype=np.int32)


def rescaled(image: Floats) -> Floats:
    """Intensities from 0 to 255: half a percent of the voxels are below, as many above, and cut off.

    >>> rescaled(np.arange(6.0).reshape(2, 3)).round(1).tolist()
    [[0.0, 50.2, 101.7], [153.3, 204.8, 255.0]]
    """
    low, high = np.percentile(image, (0.5, 99.5))
    if not high > low:
        low, high = image.min(), image.max()
    # Differences of huge numbers may have no finite value.
    span = high / 2 - low / 2
    if not span > 0:
        return np.zeros_like(image)
    return np.asarray(np.clip(255.0 * ((image / 2 - low / 2) / span), 0, 255))


def check_metrics(metrics: Sequence[str] | str) -> tuple[str, ...]:
    """Names of metrics, each once."""
    if not isinstance(metrics, str | Iterable):
        raise ArgumentError("metrics", [Setting("metrics", metrics), " must be names"], f"such as {METRICS[:2]}")
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in names:
        if name not in METRICS:
            raise ArgumentError(
                "metrics", [Setting("metrics", name), " is unknown"], f"choose some of {', '.join(map(repr, METRICS))}"
            )
    if not names or len(set(names)) < len(names):
        raise ArgumentError("metrics", [Setting("metrics", metrics), " must name at least one, each once"])
    return names


def check_weights(weights: ArrayLike | None, metrics: tuple[str, ...], n_classes: int | None) -> Floats:
    """Weights of metrics, shape (n_metrics,), or (n_classes, n_metrics) if they differ by class; not negative."""
    if weights is None:
        return np.array([DEFAULT_WEIGHTS[name] for name in metrics])
    values, n = np.asarray(weights), len(metrics)
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise ArgumentError("weights", "weights must be finite numbers")
    if (values < 0).any():
        problem = f"weights has a negative one, {values.min():g}, which would look for patches that differ"
        raise ArgumentError("weights", problem, "0 leaves a metric out")
    if values.ndim == 2 and n_classes is None:
        remedy = "pass the classes of the source's voxels, or one weight for every metric"
        raise ArgumentError("weights", "weights has a row for every class, but segmentation is missing", remedy)
    if values.ndim not in (1, 2) or values.shape[-1] != n:
        wanted = f"({n},), or (n_classes, {n})"
        raise ArgumentError("weights", f"weights has shape {values.shape}, but must have shape {wanted}: one for every metric")
    if values.ndim == 2 and n_classes is not None and len(values) < n_classes:
        problem = f"weights has {len(values)} rows, but segmentation has classes up to {n_classes - 1}"
        raise ArgumentError("weights", problem, "pass a row for every class; the background is one")
    return values.astype(np.float64)


def unary_costs(
    source: ArrayLike,
    target: ArrayLike,
    grid: ControlGrid,
    displacements: ArrayLike,
    *,
    metrics: Sequence[str] | str = METRICS,
    source_spacing: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    field: ArrayLike | None = None,
    bins: int = 16,
    n_jobs: int | None = None,
) -> Floats:
    """What every displacement costs at every control point by every metric, shape (n_metrics, n_nodes, n_labels).

    The patch of the source around ``p + d`` is compared with that of the target around ``p``, over the voxels of the target's
    patch; outside its volume the source goes on with its nearest voxels. Intensities are rescaled to 0 to 255, half a percent cut
    off at either end.

    Parameters
    ----------
    source, target : arrays of 2 or 3 dimensions
    grid : ControlGrid
        Over the target, with its spacing.
    displacements : array of shape (n_labels, ndim)
        In the unit of the spacing.
    metrics : names, or one of them
        Of "sad", "mi", "ncc", "dwt", in any order.
    source_spacing, offset : optional
        As in :func:`register`.
    field : array of shape (*target.shape, ndim), optional
        Displacements so far: the source is read through them, then displaced.
    bins : int
        Of every intensity, for mutual information.
    n_jobs : int, optional
        Threads, all cores by default; the costs do not depend on it.

    Examples
    --------
    >>> image = np.add.outer(np.arange(20.0), np.arange(24.0)) ** 2
    >>> grid = ControlGrid(image.shape, 1.0, 8.0)
    >>> costs = unary_costs(np.roll(image, 2, axis=0), image, grid, [(0, 0), (2, 0)], metrics=("sad", "ncc"))
    >>> costs.shape, bool(costs[0, 5, 1] < 1e-12 < costs[0, 5, 0])
    ((2, 16, 2), True)
    """
    pair = Pair(source, target, grid.spacing, source_spacing=source_spacing, offset=offset)
    _check_grid(grid, pair)
    labels = _check_displacements(displacements, grid)
    names, n_bins = check_metrics(metrics), check_bins(bins)
    pad = padding(labels / grid.spacing)
    moved = sample(pair.source, pair.source_frame, _places(pair.target_frame, field, pad))
    return patch_costs(moved, pair.target, pad, grid, labels, names, n_bins, thread_count(n_jobs))


def patch_classes(
    segmentation: ArrayLike,
    grid: ControlGrid,
    displacements: ArrayLike,
    *,
    source_spacing: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    field: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Ints:
    """The class most voxels of the source's patch around ``p + d`` have, the smallest of several, shape (n_nodes, n_labels).

    Parameters are those of :func:`unary_costs`, with classes 0, 1, ... of the source's voxels.

    Examples
    --------
    >>> halves = np.repeat([[0, 1]], 10, axis=1).repeat(20, axis=0)
    >>> patch_classes(halves, ControlGrid((20, 20), 1.0, 10.0), [(0, 0), (0, 7)])[:3].tolist()
    [[0, 0], [0, 1], [1, 1]]
    """
    counts, _ = class_counts(
        segmentation, None, grid, displacements, source_spacing=source_spacing, offset=offset, field=field, n_jobs=n_jobs
    )
    return np.asarray(counts.argmax(axis=0))


def class_counts(
    source: ArrayLike,
    target: ArrayLike | None,
    grid: ControlGrid,
    displacements: ArrayLike,
    *,
    n_classes: int | None = None,
    source_spacing: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    field: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> tuple[Ints, Ints | None]:
    """Voxels of every class in the source's patches around ``p + d``, and those of them that have it in the target too.

    Two arrays of shape (n_classes, n_nodes, n_labels), the second None without a target. Voxels of the nearest place are counted.

    Parameters
    ----------
    source, target : int arrays
        Segmentations with classes 0, 1, ...
    n_classes : int, optional
        One more than the largest class by default.
    """
    ndim = grid.ndim
    shape = np.shape(source)
    if len(shape) != ndim:
        raise ArgumentError("segmentation", f"segmentation has {len(shape)} dimensions, but grid has {ndim}")
    one = check_classes(source, shape, "segmentation")
    two = None if target is None else check_classes(target, grid.shape, "target")
    found = 1 + max(int(one.max()), -1 if two is None else int(two.max()))
    if n_classes is not None and n_classes < found:
        raise ArgumentError("n_classes", [Setting("n_classes", n_classes), f" is too few for class {found - 1}"])
    labels = _check_displacements(displacements, grid)
    own = grid.spacing if source_spacing is None else check_spacing(source_spacing, ndim, "source_spacing")
    first = check_offset(offset, ndim)
    pad = padding(labels / grid.spacing)
    places = _places(Frame(grid.shape, grid.spacing, np.zeros(ndim)), field, pad)
    moved = sample(one, Frame(shape, own, first), places, order=0)
    counts, shared = count_classes(moved, two, pad, grid, labels, n_classes or found, thread_count(n_jobs))
    return counts.astype(np.int64), None if two is None else shared.astype(np.int64)


def check_bins(bins: int) -> int:
    """Bins of histograms."""
    if not isinstance(bins, int | np.integer) or not 2 <= bins <= 256:
        raise ArgumentError("bins", [Setting("bins", bins), " must be an integer between 2 and 256"])
    return int(bins)


def leads_too_far(shape: tuple[int, ...], voxels: Floats) -> bool:
    """Whether so many voxels around an image are a burden, and many times those of the image itself."""
    return float(np.prod(np.array(shape) + 2.0 * voxels)) > max(_MANY, 100 * float(np.prod(shape)))


def padding(displacements: Floats) -> Ints:
    """Voxels around the target that displacements, in voxels, may reach."""
    return np.asarray(np.ceil(np.abs(displacements).max(axis=0, initial=0.0)).astype(np.int64) + 1)


def patch_costs(
    moved: Floats, target: Floats, pad: Ints, grid: ControlGrid, labels: Floats, metrics: Sequence[str], bins: int, n_threads: int
) -> Floats:
    """Costs of a padded source that has been read on the target's voxels."""
    one, two, more, ranges, steps = _as_volumes(moved, target, pad, grid, labels)
    return _core.patch_costs(one, more, two, ranges, steps, list(metrics), bins, n_threads)


def count_classes(
    moved: Int32s, target: Int32s | None, pad: Ints, grid: ControlGrid, labels: Floats, n_classes: int, n_threads: int
) -> tuple[Int32s, Int32s]:
    """Classes of a padded source that has been read on the target's voxels."""
    inside = tuple(slice(int(p), int(p) + n) for p, n in zip(pad, grid.shape, strict=True))
    one, two, more, ranges, steps = _as_volumes(moved, moved[inside] if target is None else target, pad, grid, labels)
    return _core.class_counts(one, more, two, ranges, steps, n_classes, target is not None, n_threads)


def _as_volumes(
    moved: NDArray[Any], target: NDArray[Any], pad: Ints, grid: ControlGrid, labels: Floats
) -> tuple[NDArray[Any], NDArray[Any], list[int], list[Ints], Floats]:
    """Three dimensions, displacements in voxels; an image is one slice."""
    steps = labels / grid.spacing
    if grid.ndim == 3:
        return np.ascontiguousarray(moved), np.ascontiguousarray(target), pad.tolist(), grid.ranges, np.ascontiguousarray(steps)
    steps = np.hstack([np.zeros((len(steps), 1)), steps])
    ranges = [np.array([[0], [1]], dtype=np.int64), *grid.ranges]
    return np.ascontiguousarray(moved[None]), np.ascontiguousarray(target[None]), [0, *pad.tolist()], ranges, steps


def _places(frame: Frame, field: ArrayLike | None, pad: Ints) -> Floats:
    """Where the padded target's voxels are in the source; around it the field goes on."""
    places = frame.places(pad)
    if field is None:
        return places
    values = np.asarray(field, dtype=np.float64)
    if values.shape != (*frame.shape, len(frame.shape)):
        raise ArgumentError("field", f"field has shape {values.shape}, but must have {(*frame.shape, len(frame.shape))}")
    if not np.isfinite(values).all():
        raise ArgumentError("field", "field must be finite")
    return places + padded_field(values, pad)


def padded_field(field: Floats, pad: Ints) -> Floats:
    """A field that goes on around its image."""
    return np.pad(field, [(int(p), int(p)) for p in pad] + [(0, 0)], mode="edge")


def _check_displacements(displacements: ArrayLike, grid: ControlGrid) -> Floats:
    labels, ndim = np.asarray(displacements), grid.ndim
    if labels.dtype.kind not in "fiu" or labels.ndim != 2 or labels.shape[1] != ndim or not len(labels):
        problem = f"displacements must be numbers of shape (n_labels, {ndim}), but has shape {labels.shape}"
        raise ArgumentError("displacements", problem, "make them by displacement_labels")
    if not np.isfinite(labels).all():
        raise ArgumentError("displacements", "displacements must be finite")
    if leads_too_far(grid.shape, np.abs(labels).max(axis=0) / grid.spacing):
        problem = f"displacements of {np.abs(labels).max():g} lead far beyond the image"
        raise ArgumentError("displacements", problem, "give them in the unit of the grid's spacing")
    return labels.astype(np.float64)


def _check_grid(grid: ControlGrid, pair: Pair) -> None:
    if grid.shape != pair.target_frame.shape:
        raise ArgumentError("grid", f"grid is made for shape {grid.shape}, but target has {pair.target_frame.shape}")
