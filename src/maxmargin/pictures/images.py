"""Files of images: arrays of numbers from 0 to 255, and errors that name the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin._types import Booleans, Floats
from maxmargin.data import DataError
from maxmargin.figures import save_figure
from maxmargin.storage import replacing


class ImageError(DataError):
    """A file that is no image, or images that do not fit together."""


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need scikit-image and Pillow; install them with: pip install 'maxmargin[vision]'") from error
    return Image


def read_image(path: str | os.PathLike[str], grey: bool = False) -> Floats:
    """Pixels of an image file, shape (H, W, 3), or (H, W) if grey, numbers from 0 to 255."""
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            pixels = np.asarray(image.convert("L" if grey else "RGB"), dtype=np.float64)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, SyntaxError) as error:
        raise ImageError(f"{Path(path).name} is no image that can be read ({error}); use PNG, JPEG or TIFF") from error
    if pixels.ndim < 2 or 0 in pixels.shape:
        raise ImageError(f"{Path(path).name} has no pixels")
    return pixels


def read_mask(path: str | os.PathLike[str]) -> Booleans:
    """True where a mask file is bright, shape (H, W)."""
    return np.asarray(read_image(path, grey=True) >= 128)


def write_image(path: str | os.PathLike[str], pixels: NDArray[Any]) -> None:
    """Write pixels from 0 to 255, shape (H, W) or (H, W, 3), in one step: an interrupted run leaves no broken file."""
    pillow, target = _pillow(), Path(path)
    kinds = pillow.registered_extensions()
    if target.suffix.lower() not in kinds:
        raise ImageError(f"{target.name} has no ending of an image; use .png, say")
    target.parent.mkdir(parents=True, exist_ok=True)
    image = pillow.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    with replacing(target) as file:
        image.save(file, format=kinds[target.suffix.lower()])


def side_by_side(pictures: Mapping[str, NDArray[Any]], path: str | os.PathLike[str], title: str = "") -> None:
    """A figure of pictures of equal size, each below its name; grey ones from their darkest to their brightest pixel."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib; install it with: pip install 'maxmargin[plot]'") from error
    height, width = next(iter(pictures.values())).shape[:2]
    figure = Figure(figsize=(4.2 * len(pictures), 4.0 * height / width + 0.5), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(pictures)))
    for ax, (name, pixels) in zip(axes, pictures.items(), strict=True):
        colours = np.clip(pixels / 255.0, 0, 1) if pixels.ndim == 3 else pixels
        ax.imshow(colours, cmap="gray" if pixels.ndim == 2 else None, interpolation="nearest")
        ax.set_title(name, fontsize=10)
        ax.set_axis_off()
    if title:
        figure.suptitle(title, fontsize=10)
    save_figure(axes[0], Path(path))


def contrast(pixels: Floats) -> Floats:
    """Grey differences to the right and down, shape (2, H, W); zero where the step leaves the image."""
    grey = pixels.mean(axis=2) if pixels.ndim == 3 else pixels
    steps = np.zeros((2, *grey.shape))
    steps[0, :, :-1] = np.abs(np.diff(grey, axis=1))
    steps[1, :-1] = np.abs(np.diff(grey, axis=0))
    return steps
