"""Files of images: arrays of numbers from 0 to 255, and errors that name the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Booleans, Floats, Ints, replacing, save_figure, warn
from maxmargin.io import DataError


class ImageError(DataError):
    """A file that is no image, or images that do not fit together."""


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need scikit-image and Pillow; install them with: pip install 'maxmargin[vision]'") from error
    return Image


def read_image(path: str | os.PathLike[str], grey: bool = False) -> Floats:
    """Pixels of an image file, shape (H, W, 3), or (H, W) if grey, numbers from 0 to 255; 16 bits are scaled down to that."""
    with _opened(path) as image:
        if not _is_deep(image):
            return np.asarray(image.convert("L" if grey else "RGB"), dtype=np.float64)
        # Pillow would clip instead. Files of these kinds have 16 bits, whatever Pillow keeps them in.
        if not (image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))):
            kind = "32-bit numbers" if image.mode == "F" else "32-bit integers"
            raise ImageError(
                f"{Path(path).name} holds {kind}, whose black and white are not known; save it with 8 or 16 bits per channel"
            )
        pixels = np.asarray(image, dtype=np.float64) / 257.0
    return pixels if grey else np.repeat(pixels[:, :, None], 3, axis=2)


def read_seeds(path: str | os.PathLike[str]) -> Ints:
    """Grey values of an image file as they are, also those of 16 or 32 bits, shape (H, W); for numbers of regions."""
    with _opened(path) as image:
        if image.mode == "F":
            raise ImageError(f"{Path(path).name} holds 32-bit numbers, but seeds are integers; save it with 8 or 16 bits")
        # A bit is 1, not white.
        return np.asarray(image if _is_deep(image) or image.mode == "1" else image.convert("L")).astype(np.int64)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """An image that has been read; what Pillow finds wrong with it names the file."""
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            image.load()
            if 0 in image.size:
                raise ImageError(f"{Path(path).name} has no pixels")
            yield image
    except (FileNotFoundError, ImageError):
        raise
    except (OSError, ValueError, SyntaxError) as error:
        raise ImageError(f"{Path(path).name} is no image that can be read ({error}); use PNG, JPEG or TIFF") from error


def _is_deep(image: Any) -> bool:
    """Whether pixels have more than 8 bits per channel."""
    return str(image.mode)[0] in "FI"


def read_mask(path: str | os.PathLike[str]) -> Booleans:
    """True where a mask file is bright, shape (H, W)."""
    return np.asarray(read_image(path, grey=True) >= 128)


def write_image(path: str | os.PathLike[str], pixels: NDArray[Any]) -> None:
    """Write pixels from 0 to 255, shape (H, W) or (H, W, 3), in one step: an interrupted run leaves no broken file."""
    target, kind, values = Path(path), format_of(path), np.asarray(pixels)
    if values.ndim not in (2, 3) or values.shape[2:] not in ((), (3,)) or 0 in values.shape:
        raise ImageError(f"pixels have shape {values.shape}, but must have (H, W) or (H, W, 3)")
    if values.dtype.kind not in "fiub" or np.isnan(values).any():
        raise ImageError("pixels must be real numbers from 0 to 255, none of them NaN")
    target.parent.mkdir(parents=True, exist_ok=True)
    image = _pillow().fromarray(np.clip(np.rint(values.astype(np.float64)), 0, 255).astype(np.uint8))
    with replacing(target) as file:
        image.save(file, format=kind)


def format_of(path: str | os.PathLike[str]) -> str:
    """The kind of image that the name of a file asks for."""
    pillow, target = _pillow(), Path(path)
    kind = pillow.registered_extensions().get(target.suffix.lower())
    if kind is None or kind not in pillow.SAVE:
        raise ImageError(f"{target.name} has no ending of an image that can be written; use .png, say")
    return str(kind)


def check_figure_name(path: str | os.PathLike[str]) -> None:
    """Complain about the name of a figure that matplotlib cannot write."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        raise ImportError("figures need matplotlib; install it with: pip install 'maxmargin[plot]'") from error
    known = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix[1:].lower() not in known:
        raise ImageError(
            f"{Path(path).name} has no ending of a figure; use one of {', '.join(f'.{kind}' for kind in sorted(known))}"
        )


def side_by_side(pictures: Mapping[str, NDArray[Any]], path: str | os.PathLike[str], title: str = "") -> None:
    """A figure of pictures of equal size, each below its name; grey ones from their darkest to their brightest pixel."""
    if not pictures:
        raise ValueError("pictures is empty; a figure needs at least one")
    check_figure_name(path)
    from matplotlib.figure import Figure

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


def colours(image: ArrayLike, name: str) -> Floats:
    """Finite pixels of shape (H, W, 3), from grey ones too."""
    pixels = _real(image, name)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or 0 in pixels.shape or pixels.shape[2] not in (1, 3):
        remedy = f"; leave out the opacity, {name}[:, :, :3]" if pixels.ndim == 3 and pixels.shape[2] == 4 else ""
        raise ImageError(f"{name} has shape {np.shape(image)}, but must have (H, W, 3) or (H, W){remedy}")
    if not np.isfinite(pixels).all():
        at = tuple(np.argwhere(~np.isfinite(pixels))[0][:2].tolist())
        raise ImageError(f"{name} is NaN or infinite at pixel {at}; all pixels must be finite, from 0 to 255")
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def grey_values(image: ArrayLike, name: str) -> Floats:
    """Pixels of shape (H, W), means of colours; whether they are finite is for the caller to see."""
    pixels = _real(image, name)
    if pixels.ndim == 3 and pixels.shape[2] in (1, 3):
        pixels = pixels.mean(axis=2)
    if pixels.ndim != 2 or 0 in pixels.shape:
        raise ImageError(f"{name} has shape {np.shape(image)}, but must have (H, W), or (H, W, 3), whose mean is taken")
    return pixels


def _real(image: ArrayLike, name: str) -> Floats:
    pixels = np.asarray(image)
    if pixels.dtype.kind not in "fiub":
        raise ImageError(f"{name} must be an array of numbers, but has dtype {pixels.dtype}; read files with read_image")
    if pixels.dtype.kind == "f":
        _check_white(pixels[np.isfinite(pixels)], name)
    return pixels.astype(np.float64)


def _check_white(values: NDArray[Any], name: str) -> None:
    """Other libraries have images from 0 to 1, which would look all black."""
    if values.size and values.min() >= 0 and 0 < values.max() <= 1:
        text = f"{name} has no values above {values.max():g}, but black is 0 and white is 255 here; multiply it by 255"
        warn(text)
