"""Pictures side by side in small files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLOURS = 128


def montage(pictures: Mapping[str, NDArray[Any]], path: Path, columns: int = 3, width: float = 3.0, zoom: bool = False) -> None:
    """Images with their names above them.

    Parameters
    ----------
    pictures : mapping of str to arrays
        Shape (H, W, 3), colours from 0 to 255; or (H, W), grey values from 0 to 255, or from 0 to 1 to be coloured.
    path : Path
    columns : int
    width : float
        Inches of a picture.
    zoom : bool
        Whether to show pixels as squares.
    """
    from matplotlib.figure import Figure

    height, across = next(iter(pictures.values())).shape[:2]
    rows = -(-len(pictures) // columns)
    figure = Figure(figsize=(columns * width, rows * (width * height / across + 0.3)), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for ax in axes:
        ax.set_axis_off()
    for ax, (name, pixels) in zip(axes, pictures.items(), strict=False):
        how: dict[str, Any] = {"interpolation": "nearest" if zoom else "antialiased"}
        if pixels.ndim == 3:
            pixels = np.clip(pixels / 255.0, 0, 1)
        elif pixels.max() > 1:
            how |= {"cmap": "gray", "vmin": 0, "vmax": 255}
        else:
            how |= {"cmap": "viridis", "vmin": 0, "vmax": 1}
        ax.imshow(pixels, **how)
        ax.set_title(name, fontsize=9)
    save_small(figure, path)


def save_small(figure: Any, path: Path) -> None:
    """A figure as PNG with a palette, which is a third of the size of true colours."""
    from PIL import Image

    memory = io.BytesIO()
    figure.savefig(memory, format="png", dpi=100)
    with Image.open(memory) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1000} kB", flush=True)
