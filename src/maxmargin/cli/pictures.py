"""``maxmargin stereo``, ``inpaint`` and ``segment``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from maxmargin.cli.options import Printing
from maxmargin.labeling import Labeling
from maxmargin.pictures import inpaint, read_image, read_mask, segment, side_by_side, stereo, write_image
from maxmargin.progress import StatusLine


def run_stereo(
    left: Path,
    right: Path,
    output: Path,
    disparities: int,
    regions: bool,
    figure: Path | None,
    printing: Printing,
    **options: Any,
) -> None:
    """Disparities of two images."""
    one, two = read_image(left), read_image(right)
    with _watching(printing) as callback, _explaining():
        options["regions"] = "superpixels" if regions else None
        found = stereo(one, two, disparities, callback=callback, **options)
    pixels = found.labels * (255.0 / max(1, disparities - 1))
    _finish(found, pixels, output, figure, {"left": one, "right": two, "disparity": pixels}, printing)


def run_inpaint(
    image: Path, mask: Path, output: Path, levels: int, regions: bool, figure: Path | None, printing: Printing, **options: Any
) -> None:
    """An image repaired."""
    damaged, known = read_image(image, grey=True), read_mask(mask)
    with _watching(printing) as callback, _explaining():
        options["regions"] = "superpixels" if regions else None
        pixels, found = inpaint(damaged, known, levels, callback=callback, **options)
    shown = {"damaged": damaged, "known": known * 255.0, "repaired": pixels}
    _finish(found, pixels, output, figure, shown, printing)


def run_segment(
    image: Path,
    output: Path,
    n_labels: int,
    seeds: Path | None,
    seed: int,
    figure: Path | None,
    printing: Printing,
    **options: Any,
) -> None:
    """Regions of an image."""
    pixels = read_image(image)
    marks = None if seeds is None else read_image(seeds, grey=True).astype(np.int64)
    with _watching(printing) as callback, _explaining():
        found = segment(pixels, n_labels, seeds=marks, random_state=seed, callback=callback, **options)
    regions = found.labels * (255.0 / (n_labels - 1))
    _finish(found, regions, output, figure, {"image": pixels, "regions": regions}, printing)


@contextmanager
def _watching(printing: Printing) -> Iterator[Callable[[float, float | None], None]]:
    """A callback that shows energy and bound while somebody is looking."""
    with StatusLine(shown=printing.progress, transient=True) as line:

        def show(energy: float, bound: float | None) -> None:
            line.show(f"energy {energy:,.6g}" + ("" if bound is None else f", at least {bound:,.6g}"))

        yield show


@contextmanager
def _explaining() -> Iterator[None]:
    """Options that do not fit are errors of usage."""
    from maxmargin.pictures import ImageError

    try:
        yield
    except ImageError:
        raise
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


def _finish(
    found: Labeling,
    pixels: NDArray[Any],
    output: Path,
    figure: Path | None,
    shown: Mapping[str, NDArray[Any]],
    printing: Printing,
) -> None:
    write_image(output, pixels)
    answer = {
        "energy": found.energy,
        "lower_bound": found.lower_bound,
        "guarantee": found.guarantee,
        "certified": found.certified,
        "method": found.method,
        "status": found.status,
        "seconds": round(found.seconds, 3),
        "output": str(output),
    }
    if figure is not None:
        side_by_side(shown, figure, _proved(answer))
        answer["figure"] = str(figure)
    printing.tell(answer, lambda said: f"{_proved(said)} ({said['method']}, {said['seconds']:.1f} s); wrote {said['output']}")


def _proved(answer: Mapping[str, Any]) -> str:
    if answer["certified"]:
        return f"energy {answer['energy']:,.6g}, proved to be the least"
    bound = answer["lower_bound"]
    return f"energy {answer['energy']:,.6g}" + ("" if bound is None else f", the least is at least {bound:,.6g}")
