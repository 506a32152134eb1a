"""Control points over an image: their patches, their neighbours, and the cubic B-splines that spread their displacements."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import ArgumentError, Floats, Int32s, Ints, Setting
from maxmargin.labeling import grid_edges

# A free-form deformation by cubic B-splines is one to one in three dimensions if no displacement has a component of more than
# 1 / 2.48 of the spacing of control points (Choi and Lee, "Injectivity conditions of 2D and 3D uniform cubic B-spline functions",
# Graphical Models 2000); in two dimensions more would be allowed.
FOLD_FREE = 0.4


class ControlGrid:
    """Control points that cover an image, a fixed distance apart and as far beyond one side as beyond the other.

    Parameters
    ----------
    shape : tuple of int
        Voxels of the target image, along 2 or 3 axes.
    spacing : float or sequence of float
        Of the voxels, in millimetres, say.
    grid_spacing : float
        Of the control points, in the same unit; at least two voxels.
    patch_size : float
        A side of a patch in units of ``grid_spacing``; with 1, every voxel is in one patch.

    Attributes
    ----------
    n_points : tuple of int
        Control points along every axis.
    n_nodes : int
    points : array of shape (n_nodes, ndim)
        Their places; the first voxel is at 0.
    edges : int array of shape (E, 2)
        Neighbours along the axes.
    ranges : list of int arrays of shape (2, n)
        First voxel and end of the patches along every axis.

    Examples
    --------
    >>> grid = ControlGrid((41, 61), 1.0, 20.0)
    >>> grid.n_points, grid.points[0].tolist(), len(grid.edges)
    ((3, 4), [0.0, 0.0], 17)
    >>> grid.ranges[0].T.tolist()
    [[0, 10], [10, 30], [30, 41]]
    """

    def __init__(self, shape: tuple[int, ...], spacing: ArrayLike, grid_spacing: float, patch_size: float = 1.0) -> None:
        self.shape = tuple(map(int, shape))
        if len(self.shape) not in (2, 3) or min(self.shape) < 1:
            raise ArgumentError("shape", [Setting("shape", shape), " must be the voxels along 2 or 3 axes"])
        for name, value in (("grid_spacing", grid_spacing), ("patch_size", patch_size)):
            if not isinstance(value, int | float | np.number):
                raise ArgumentError(name, [Setting(name, value), " must be a number"])
        self.spacing = check_spacing(spacing, len(self.shape))
        self.grid_spacing, self.patch_size = float(grid_spacing), float(patch_size)
        least = 2 * float(self.spacing.max())
        if not least * (1 - 1e-9) <= self.grid_spacing < np.inf:
            raise ArgumentError(
                "grid_spacing",
                [Setting("grid_spacing", grid_spacing), f" must be at least two voxels, {least:g}"],
                "make it larger, or give the spacing of the voxels in the same unit",
            )
        if not 0.5 <= self.patch_size <= 4:
            raise ArgumentError("patch_size", [Setting("patch_size", patch_size), " must be between 0.5 and 4"])
        extent = self.spacing * (np.array(self.shape) - 1)
        counts = np.ceil(extent / self.grid_spacing - 1e-9).astype(int) + 1
        self.n_points: tuple[int, ...] = tuple(counts.tolist())
        self.first: Floats = (extent - (counts - 1) * self.grid_spacing) / 2

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def n_nodes(self) -> int:
        """Control points."""
        return int(np.prod(self.n_points))

    @property
    def points(self) -> Floats:
        """Places of the control points, row by row."""
        lines = [first + self.grid_spacing * np.arange(n) for first, n in zip(self.first, self.n_points, strict=True)]
        return np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)

    @cached_property
    def edges(self) -> Int32s:
        """Neighbours."""
        return grid_edges(self.n_points, {2: 4, 3: 6}[self.ndim])[0]

    @cached_property
    def ranges(self) -> list[Ints]:
        """First voxel and end of patches along every axis."""
        found = []
        for first, n, size, step in zip(self.first, self.n_points, self.shape, self.spacing, strict=True):
            at, half = np.arange(n), self.patch_size / 2
            begin, end = (
                np.clip(np.ceil((first + (at + side) * self.grid_spacing) / step - 1e-9), 0, size) for side in (-half, half)
            )
            # A patch that reaches no voxel has the nearest one.
            begin = np.minimum(begin, size - 1)
            found.append(np.stack([begin, np.maximum(end, begin + 1)]).astype(np.int64))
        return found

    @cached_property
    def _splines(self) -> list[Floats]:
        """What every control point contributes to every voxel, shape (N, n) for every axis."""
        made = []
        for first, n, size, step in zip(self.first, self.n_points, self.shape, self.spacing, strict=True):
            made.append(spline_weights((step * np.arange(size) - first) / self.grid_spacing, n))
        return made

    def spread(self, displacements: ArrayLike) -> Floats:
        """The displacement of every voxel, shape (*shape, ndim), from those of the control points, shape (n_nodes, ndim).

        Cubic B-splines whose coefficients are the displacements; those of the border go on outside.

        >>> grid = ControlGrid((9, 9), 1.0, 4.0)
        >>> grid.spread(np.full((9, 2), 1.5))[3, 7]
        array([1.5, 1.5])
        """
        values = np.asarray(displacements, dtype=np.float64)
        if values.shape != (self.n_nodes, self.ndim):
            problem = f"displacements has shape {values.shape}, but must have {(self.n_nodes, self.ndim)}"
            raise ArgumentError("displacements", problem, "pass one for every control point, row by row")
        values = values.reshape(*self.n_points, -1)
        for axis, weights in enumerate(self._splines):
            values = np.moveaxis(np.tensordot(weights, values, axes=(1, axis)), 0, axis)
        return np.ascontiguousarray(values)


def spline_weights(at: Floats, n: int) -> Floats:
    """Cubic B-splines around the points 0 to n - 1 of a line, those outside added to the border: shape (len(at), n).

    >>> spline_weights(np.array([1.0, 1.5]), 4).round(3)
    array([[0.167, 0.667, 0.167, 0.   ],
           [0.021, 0.479, 0.479, 0.021]])
    """
    whole = np.floor(at).astype(np.int64)
    t = at - whole
    parts = ((1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3)
    weights = np.zeros((len(at), n))
    for shift, part in zip((-1, 0, 1, 2), parts, strict=True):
        np.add.at(weights, (np.arange(len(at)), np.clip(whole + shift, 0, n - 1)), part / 6)
    return weights


def displacement_labels(ndim: int, largest: float, per_axis: int = 5) -> Floats:
    """Displacements to choose from, shape (per_axis^ndim, ndim): a regular grid of which the one in the middle is zero.

    Parameters
    ----------
    ndim : {2, 3}
    largest : float
        Along every axis.
    per_axis : int
        Odd.

    Examples
    --------
    >>> displacement_labels(2, 4.0, 3)[:4].tolist()
    [[-4.0, -4.0], [-4.0, 0.0], [-4.0, 4.0], [0.0, -4.0]]
    >>> len(displacement_labels(3, 10.0))
    125
    """
    if not isinstance(per_axis, int | np.integer) or per_axis < 3 or per_axis % 2 == 0 or per_axis**ndim > 20_000:
        raise ArgumentError(
            "per_axis",
            [Setting("per_axis", per_axis), " must be an odd integer, at least 3, for at most 20,000 displacements"],
            "5 is usual",
        )
    if ndim not in (2, 3):
        raise ArgumentError("ndim", [Setting("ndim", ndim), " must be 2 or 3"])
    if not isinstance(largest, int | float | np.number) or not 0 <= float(largest) < np.inf:
        raise ArgumentError("largest", [Setting("largest", largest), " must be a finite number, not negative"])
    line = largest * np.linspace(-1, 1, per_axis)
    line[per_axis // 2] = 0.0
    return np.stack([axis.ravel() for axis in np.meshgrid(*[line] * ndim, indexing="ij")], axis=1)


def check_spacing(spacing: ArrayLike | None, ndim: int, name: str = "spacing") -> Floats:
    """One positive number for every axis, from one for all or one for each."""
    if spacing is None:
        raise ArgumentError(
            name,
            f"{name} is missing",
            f"pass the size of a voxel along every axis, such as {name}={(1.0,) * ndim}, or 1 for pixels",
        )
    values = np.asarray(spacing)
    if values.dtype.kind not in "fiu" or values.shape not in ((), (ndim,)):
        remedy = f"pass {ndim} positive numbers, or one"
        raise ArgumentError(name, [Setting(name, spacing), f" does not fit an image of {ndim} dimensions"], remedy)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ArgumentError(name, [Setting(name, spacing), " must be positive"], "pass the size of a voxel along every axis")
    return np.broadcast_to(values.astype(np.float64), (ndim,)).copy()
