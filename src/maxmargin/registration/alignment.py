"""Deformable registration by labels: control points choose among displacements, from coarse to fine.

The energy of Glocker et al., "Dense image registration through MRFs and efficient linear programming" (MedIA 2008), with several
metrics and weights that may depend on the class of the tissue. Every refinement chooses one of a few displacements for each
control point: patches should look alike, and neighbours should go the same way,
``sum_i w . U_i(d_i) + smoothness * sum_ij |d_i - d_j|_1``. The L1 distance of displacements is a metric, so expansion moves are
exact. Cubic B-splines spread the chosen displacements over the image. They are smaller than what could make a fold, and are put
in front of the field so far: a composition of maps without folds has none. A refinement is taken only if it makes the energy of
the images as they are then smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import ArgumentError, Floats, Int32s, Ints, Setting, thread_count
from maxmargin.labeling import Energy, minimize, minkowski
from maxmargin.registration.fields import (
    Frame,
    coarser,
    compose,
    jacobian,
    least_jacobian,
    sample,
    sample_field,
    smoothed,
    through,
    unfolded,
)
from maxmargin.registration.grid import FOLD_FREE, ControlGrid, displacement_labels
from maxmargin.registration.metrics import (
    METRICS,
    Pair,
    check_bins,
    check_metrics,
    check_weights,
    count_classes,
    leads_too_far,
    padded_field,
    padding,
    patch_costs,
)
from maxmargin.registration.result import Registration, Step

# Parts of the chosen displacements that are tried, one after the other, until the energy falls.
_PARTS = (1.0, 0.5, 0.25)


@dataclass(frozen=True)
class _Settings:
    metrics: tuple[str, ...]
    weights: Floats
    smoothness: float
    grid_spacing: float
    patch_size: float
    levels: int
    steps: int
    per_axis: int
    max_displacement: float
    shrink: float
    bins: int
    n_threads: int


def register(
    source: ArrayLike,
    target: ArrayLike,
    *,
    spacing: ArrayLike | None = None,
    metrics: Sequence[str] | str = METRICS,
    weights: ArrayLike | None = None,
    segmentation: ArrayLike | None = None,
    smoothness: float | None = None,
    source_spacing: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    grid_spacing: float | None = None,
    patch_size: float = 1.0,
    levels: int = 2,
    steps: int = 5,
    per_axis: int = 5,
    max_displacement: float = FOLD_FREE,
    shrink: float = 0.66,
    bins: int = 16,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[Step], object] | None = None,
) -> Registration:
    """Move the source onto the target.

    Parameters
    ----------
    source, target : arrays of 2 or 3 dimensions
        Grey values, in any unit: both are rescaled to 0 to 255, half a percent cut off at either end. They may have different
        numbers of voxels.
    spacing : float or sequence of float
        Size of the target's voxels along every axis, in millimetres, say; 1 for pixels. Needed.
    metrics : names, or one of them
        Of "sad", "mi", "ncc" and "dwt": see :func:`unary_costs`.
    weights : array of shape (n_metrics,) or (n_classes, n_metrics), optional
        Of the metrics, not negative; by class, that which most voxels of the source's patch have. By default 0.1 for "sad" and
        10 for the others.
    segmentation : int array of the source's shape, optional
        Classes 0, 1, ... of the source's voxels, for weights by class.
    smoothness : float
        Price of a difference of one millimetre between displacements of neighbouring control points; by default 0.2 for every
        metric if that difference is ``grid_spacing``.
    source_spacing, offset : optional
        Size of the source's voxels if it is another one, and place of its first voxel, seen from that of the target.
    initial : array of shape (*target.shape, ndim), optional
        Displacements to begin with, without folds.
    grid_spacing : float, optional
        Of the control points at the finest level, twice that at the next one. By default 8 voxels, in images of two dimensions
        16.
    patch_size : float
        Side of the patches in units of the spacing of control points.
    levels, steps : int
        Levels of the pyramid, each with half the voxels per axis of the one before, and refinements at each.
    per_axis : int
        Displacements to choose from along every axis, odd: 5 are 25 in two dimensions, 125 in three.
    max_displacement : float
        The largest one of a level's first refinement, in units of the spacing of its control points; at most 0.4, beyond which
        cubic B-splines may fold.
    shrink : float
        The next refinement has displacements smaller by this factor.
    bins : int
        Of every intensity, for "mi".
    n_jobs : int, optional
        Threads, all cores by default. The result does not depend on it.
    time_limit : float, optional
        Seconds; after that, or after Ctrl-C, the field so far is returned.
    callback : function, optional
        Called with every :class:`Step`.

    Examples
    --------
    >>> y, x = np.mgrid[:48, :64]
    >>> target = np.exp(-((y - 24) ** 2 + (x - 30) ** 2) / 90.0)
    >>> source = np.exp(-((y - 24) ** 2 + (x - 33) ** 2) / 90.0)
    >>> found = register(source, target, spacing=1.0, metrics="sad")
    >>> before, after = (np.abs(image - target).max() for image in (source, found.warp(source)))
    >>> bool(after < 0.2 * before and found.jacobian().min() > 0)
    True
    """
    began = time.perf_counter()
    pair = Pair(source, target, spacing, source_spacing=source_spacing, offset=offset, segmentation=segmentation)
    names = check_metrics(metrics)
    n_classes = None if pair.segmentation is None else int(pair.segmentation.max()) + 1
    distance = default_grid_spacing(pair) if grid_spacing is None else _check_number("grid_spacing", grid_spacing, 0.0, np.inf)
    settings = _Settings(
        names,
        check_weights(weights, names, n_classes),
        default_smoothness(len(names), distance) if smoothness is None else _check_number("smoothness", smoothness, 0.0, np.inf),
        distance,
        _check_number("patch_size", patch_size, 0.5, 4.0),
        _check_count("levels", levels, 1, 12),
        _check_count("steps", steps, 1, 1000),
        per_axis,
        _check_range(max_displacement),
        _check_number("shrink", shrink, 0.01, 1.0),
        check_bins(bins),
        thread_count(n_jobs),
    )
    displacement_labels(pair.ndim, 1.0, per_axis)
    field = _check_initial(initial, pair.target_frame)
    limit = np.inf if time_limit is None else _check_limit(time_limit)
    run = _Run(pair, settings, field, began + limit, callback)
    for level in range(settings.levels):
        run.check_level(level)
    run.go()
    return Registration(
        run.whole_field(),
        pair.target_frame.spacing,
        pair.source_frame.spacing,
        pair.source_frame.first,
        pair.source_frame.shape,
        run.energy,
        run.history,
        names,
        settings.weights,
        settings.smoothness,
        run.status,
        time.perf_counter() - began,
    )


class _Run:
    """All levels, and the field so far, on the voxels of the level it has come to."""

    def __init__(
        self, pair: Pair, settings: _Settings, field: Floats, until: float, callback: Callable[[Step], object] | None
    ) -> None:
        self.pair, self.settings, self.until, self.callback = pair, settings, until, callback
        self.initial, self.field, self.frame = field, field, pair.target_frame
        self.moved, self.energy, self.status = False, 0.0, "converged"
        self.history: list[Step] = []

    def check_level(self, level: int) -> ControlGrid:
        """The control points of a level; complains if there can be none."""
        frame, _ = coarser(self.pair.target_frame, level)
        own = self.settings
        # Images of few voxels have no coarser ones, but control points are farther apart all the same.
        grid = ControlGrid(frame.shape, frame.spacing, own.grid_spacing * 2**level, own.patch_size)
        reach = own.max_displacement * grid.grid_spacing
        if leads_too_far(frame.shape, reach / frame.spacing):
            problem = f"displacements of {reach:g}, at level {level}, lead far beyond the image"
            remedy: list[str | Setting] = ["lower ", Setting("grid_spacing"), " or ", Setting("levels")]
            remedy += [", or check ", Setting("spacing")]
            raise ArgumentError("grid_spacing", problem, remedy)
        return grid

    def go(self) -> None:
        try:
            for level in range(self.settings.levels - 1, -1, -1):
                images = _Level(self.pair, self.settings, level, self.check_level(level))
                self.field, self.frame = self._field_on(images.frame), images.frame
                if not self._refine(images):
                    self.status = "time_limit"
                    return
        except KeyboardInterrupt:
            self.status = "interrupted"

    def _refine(self, images: _Level) -> bool:
        own = self.settings
        largest, paid = own.max_displacement * images.grid.grid_spacing, 0.0
        for number in range(own.steps):
            if time.perf_counter() >= self.until:
                return False
            labels = displacement_labels(self.pair.ndim, largest, own.per_axis)
            unary = images.unary(self.field, labels)
            zero = len(labels) // 2
            data = float(unary[:, zero].sum())
            chosen, price = images.choose(unary, labels, zero, self.until - time.perf_counter())
            field, after, taken = self._advance(images, labels[chosen], data, price)
            if taken:
                # In one step: whatever interrupts, field and energy belong together.
                self.field, self.moved, paid = field, True, paid + taken * price
            self.energy = after + paid
            step = Step(images.level, number, largest, data + paid - taken * price, self.energy, taken)
            self.history.append(step)
            if self.callback is not None:
                self.callback(step)
            largest *= own.shrink
        return True

    def _advance(self, images: _Level, chosen: Floats, data: float, price: float) -> tuple[Floats, float, float]:
        """The field with as much of the chosen displacements as helps, its costs, and how much that is."""
        if not chosen.any():
            return self.field, data, 0.0
        increment = images.grid.spread(chosen)
        for part in _PARTS:
            field = compose(self.field, images.frame, part * increment, self.settings.n_threads)
            if not least_jacobian(field, images.frame.spacing, self.settings.n_threads) > 0:
                continue
            after = images.data(field)
            if after + part * price < data - 1e-9 * max(1.0, abs(data)):
                return field, after, part
        return self.field, data, 0.0

    def whole_field(self) -> Floats:
        """The field on the target's voxels."""
        return self._field_on(self.pair.target_frame)

    def _field_on(self, frame: Frame) -> Floats:
        """The field on the voxels of another level; as it was given as long as no displacement has been taken."""
        if not self.moved:
            return resampled(self.initial, self.pair.target_frame, frame, self.settings.n_threads)
        return resampled(self.field, self.frame, frame, self.settings.n_threads)


class _Level:
    """Images and control points of a level of the pyramid."""

    def __init__(self, pair: Pair, settings: _Settings, level: int, grid: ControlGrid) -> None:
        self.settings, self.level, self.grid = settings, level, grid
        self.frame, factors = coarser(pair.target_frame, level)
        # Half a voxel of the level is smoothed away, in both images.
        blur = np.where(np.array(factors) > 1, 0.5 * np.array(factors), 0.0)
        every = tuple(slice(None, None, factor) for factor in factors)
        self.target: Floats = np.ascontiguousarray(smoothed(pair.target, blur)[every])
        self.source_frame = pair.source_frame
        self.source = smoothed(pair.source, blur * pair.target_frame.spacing / pair.source_frame.spacing)
        self.segmentation: Int32s | None = pair.segmentation if settings.weights.ndim == 2 else None

    def unary(self, field: Floats, labels: Floats) -> Floats:
        """Weighted costs of displacements of the control points, after the field: shape (n_nodes, n_labels)."""
        own, grid = self.settings, self.grid
        pad = padding(labels / grid.spacing)
        moved = through(self.source, self.source_frame, field, self.frame, pad, own.n_threads)
        costs = patch_costs(moved, self.target, pad, grid, labels, own.metrics, own.bins, own.n_threads)
        if self.segmentation is None:
            return np.asarray(np.tensordot(own.weights, costs, axes=1))
        places = self.frame.places(pad) + padded_field(field, pad)
        classes = sample(self.segmentation, self.source_frame, places, order=0)
        counts, _ = count_classes(classes, None, pad, grid, labels, len(own.weights), own.n_threads)
        # The smallest of several classes.
        most: Ints = counts.argmax(axis=0)
        return np.asarray((own.weights[most] * np.moveaxis(costs, 0, -1)).sum(axis=-1))

    def data(self, field: Floats) -> float:
        """Costs of the patches where the field has them."""
        return float(self.unary(field, np.zeros((1, len(self.grid.shape)))).sum())

    def choose(self, unary: Floats, labels: Floats, zero: int, seconds: float) -> tuple[Ints, float]:
        """A displacement for every control point, no worse than none at all, and the price of their differences."""
        energy = Energy(unary, self.grid.edges, minkowski(labels, 1), weights=self.settings.smoothness)
        limit = max(0.0, seconds) if np.isfinite(seconds) else None
        found = minimize(energy, "expansion", np.full(len(unary), zero), time_limit=limit)
        if found.status == "interrupted":
            # It has caught what is meant for all of us.
            raise KeyboardInterrupt
        return found.labels, energy.parts(found.labels)[1]


def resampled(field: Floats, frame: Frame, other: Frame, n_threads: int = 1) -> Floats:
    """A field on other voxels of the same places, by cubic splines, and without folds."""
    if frame.shape == other.shape:
        return field
    return unfolded(sample_field(field, frame, other.places(), order=3), other.spacing, n_threads)


def default_smoothness(n_metrics: int, grid_spacing: float) -> float:
    """As learning has it, too."""
    return 0.2 * n_metrics / grid_spacing


def default_grid_spacing(pair: Pair) -> float:
    """As learning has it, too."""
    return float({2: 16, 3: 8}[pair.ndim] * pair.target_frame.spacing.max())


def _check_number(name: str, value: float, low: float, high: float) -> float:
    if not isinstance(value, int | float | np.number) or not low <= float(value) <= high or not np.isfinite(float(value)):
        words = (
            f" must be a number between {low:g} and {high:g}"
            if np.isfinite(high)
            else f" must be a finite number, at least {low:g}"
        )
        raise ArgumentError(name, [Setting(name, value), words])
    return float(value)


def _check_count(name: str, value: int, low: int, high: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
        raise ArgumentError(name, [Setting(name, value), f" must be an integer between {low} and {high}"])
    return int(value)


def _check_limit(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not float(value) >= 0:
        raise ArgumentError("time_limit", [Setting("time_limit", value), " must be a number of seconds, not negative, or None"])
    return float(value)


def _check_range(value: float) -> float:
    if not isinstance(value, int | float | np.number) or not float(value) > 0:
        raise ArgumentError("max_displacement", [Setting("max_displacement", value), " must be positive"])
    if float(value) > FOLD_FREE:
        raise ArgumentError(
            "max_displacement",
            [Setting("max_displacement", value), " of the spacing of control points could fold the image"],
            f"take at most {FOLD_FREE:g}, and more levels or a larger grid_spacing for larger displacements",
        )
    return float(value)


def _check_initial(initial: ArrayLike | None, frame: Frame) -> Floats:
    ndim = len(frame.shape)
    if initial is None:
        return np.zeros((*frame.shape, ndim))
    field = np.asarray(initial)
    if field.dtype.kind not in "fiu":
        raise ArgumentError("initial", f"initial must be numbers, but has dtype {field.dtype}")
    field = field.astype(np.float64)
    if field.shape != (*frame.shape, ndim):
        raise ArgumentError("initial", f"initial has shape {field.shape}, but must have {(*frame.shape, ndim)}")
    if not np.isfinite(field).all():
        raise ArgumentError("initial", "initial must be finite")
    stretched = jacobian(field, frame.spacing)
    if not stretched.min() > 0:
        at = tuple(np.argwhere(~(stretched > 0))[0].tolist())
        raise ArgumentError("initial", f"initial folds at voxel {at}", "smooth it")
    if not least_jacobian(field, frame.spacing) > 0:
        raise ArgumentError("initial", "initial folds between voxels: it goes forth and back", "smooth it")
    return field
