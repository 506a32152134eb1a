"""Picture of docs/registration.md: A sample of scikit-image, warped; 5 seconds."""

from __future__ import annotations

import numpy as np
from benchmarks import FOLDER
from benchmarks.montage import COLOURS
from benchmarks.registration.registration_subjects import smooth_field, warped
from PIL import Image

from maxmargin.registration import plot_registration, register

IMAGES = FOLDER.parent / "docs" / "images"


def scene() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A photographer, and the same displaced by 4 pixels on average under another light."""
    from skimage import data

    source = data.camera().astype(float).reshape(256, 2, 256, 2).mean(axis=(1, 3))
    known = smooth_field(source.shape, np.ones(2), np.random.default_rng(3), 4.0, 24.0)
    target = 255 * (warped(source, np.ones(2), known) / 255) ** 0.6
    return source, target, known


def main() -> None:
    source, target, known = scene()
    found = register(source, target, spacing=1.0)
    wrong = np.linalg.norm(found.displacement - known, axis=-1)
    print(f"{np.linalg.norm(known, axis=-1).mean():.2f} pixels before, {wrong.mean():.2f} after, median {np.median(wrong):.2f}")
    path = IMAGES / "registration.png"
    plot_registration(found, source, target, path)
    with Image.open(path) as large:
        small = large.convert("RGB").resize((large.width * 2 // 3, large.height * 2 // 3), Image.Resampling.LANCZOS)
    small.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
