"""A figure of a registration: both images in the squares of a checkerboard before and after, the deformed grid, the Jacobian."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import ArgumentError, Floats, save_figure
from maxmargin.registration.fields import sample
from maxmargin.registration.metrics import check_image, rescaled
from maxmargin.registration.result import Registration
from maxmargin.vision import check_figure_name


def checkerboard(one: Floats, two: Floats, squares: int = 8) -> Floats:
    """Squares of one image and of another by turns, shape (H, W); ``squares`` along the longer side."""
    side = max(1, -(-max(one.shape) // squares))
    rows, columns = (np.arange(n) // side for n in one.shape)
    return np.where((rows[:, None] + columns[None, :]) % 2 == 0, one, two)


def plot_registration(found: Registration, source: ArrayLike, target: ArrayLike, path: str | os.PathLike[str]) -> None:
    """Write a figure of four pictures; of volumes the slice in the middle of the first axis.

    Parameters
    ----------
    found : Registration
    source, target : arrays
        Those that were registered.
    path : path
        Its ending says which kind of file.
    """
    check_figure_name(path)
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    one, two = rescaled(check_image(source, "source")), rescaled(check_image(target, "target"))
    if one.shape != found.source_shape or two.shape != found.shape:
        shapes = f"{one.shape} and {two.shape}"
        raise ArgumentError(
            "source", f"source and target have shapes {shapes}, but {found.source_shape} and {found.shape} were registered"
        )
    frame, own = found._frames()
    before, after = sample(one, own, frame.places()), found.warp(one)
    stretched, field = found.jacobian(), found.displacement
    spacing = found.spacing
    if two.ndim == 3:
        middle = two.shape[0] // 2
        before, after, two, stretched, field = (
            before[middle],
            after[middle],
            two[middle],
            stretched[middle],
            field[middle, ..., 1:],
        )
        spacing = spacing[1:]
    height, width = two.shape
    sides = spacing * (height, width)
    box = (-0.5 * spacing[1], sides[1] - 0.5 * spacing[1], sides[0] - 0.5 * spacing[0], -0.5 * spacing[0])
    scale = 3.6 / max(sides)
    # Titles need some width, however slim the images are.
    figure = Figure(figsize=(4 * max(2.7, scale * sides[1]) + 1.2, scale * sides[0] + 0.75), layout="constrained")
    axes = figure.subplots(1, 4)
    grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 255, "extent": box, "interpolation": "nearest"}
    axes[0].imshow(checkerboard(before, two), **grey)
    axes[0].set_title("before: source and target", fontsize=9)
    axes[1].imshow(checkerboard(after, two), **grey)
    axes[1].set_title("after: warped source and target", fontsize=9)
    # Dimmed, so that the lines are seen.
    axes[2].imshow(0.55 * before, **grey)
    _draw_grid(axes[2], field, spacing)
    axes[2].set_title("where the target's grid is in the source", fontsize=9)
    # White keeps its size, blue shrinks to nothing, red grows.
    norm = TwoSlopeNorm(1.0, min(0.0, float(stretched.min())), max(2.0, float(stretched.max())))
    shown = axes[3].imshow(stretched, cmap="RdBu_r", norm=norm, extent=box, interpolation="nearest")
    axes[3].set_title(f"Jacobian, at least {found.jacobian().min():.2f}", fontsize=9)
    figure.colorbar(shown, ax=axes[3], shrink=0.8)
    for ax in axes:
        ax.set(xlim=box[:2], ylim=box[2:])
        ax.set_axis_off()
    save_figure(axes[0], Path(path))


def _draw_grid(ax: Any, field: Floats, spacing: Floats, lines: int = 20) -> None:
    """Lines of a regular grid, moved."""
    height, width = field.shape[:2]
    every = max(1, round(max(height, width) / lines))
    rows, columns = np.mgrid[:height, :width]
    y, x = rows * spacing[0] + field[..., 0], columns * spacing[1] + field[..., 1]
    for k in range(0, height, every):
        ax.plot(x[k], y[k], color="tab:orange", linewidth=0.7)
    for k in range(0, width, every):
        ax.plot(x[:, k], y[:, k], color="tab:orange", linewidth=0.7)
