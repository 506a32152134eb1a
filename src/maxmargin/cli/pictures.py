"""``maxmargin stereo``, ``inpaint`` and ``segment``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import StatusLine
from maxmargin.cli.options import PICTURE_METHODS, Printing, spelt
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.labeling import Labeling
from maxmargin.vision import (
    check_figure_name,
    format_of,
    inpaint,
    read_image,
    read_mask,
    read_seeds,
    segment,
    side_by_side,
    stereo,
    write_image,
)


def run_stereo(
    left: Path,
    right: Path,
    output: Path,
    disparities: int,
    regions: bool,
    figure: Path | None,
    printing: Printing,
    **options: Any,
) -> int:
    """Disparities of two images."""
    _check_names(output, figure)
    _check_method(options["method"], regions)
    one, two = read_image(left), read_image(right)
    with noting_signals() as signals, _watching(printing) as callback, _explaining():
        options["regions"] = "superpixels" if regions else None
        found = stereo(one, two, disparities, callback=callback, **options)
    pixels = found.labels * (255.0 / max(1, disparities - 1))
    _finish(found, pixels, output, figure, {"left": one, "right": two, "disparity": pixels}, printing)
    _hint_at_larger_disparities(found, disparities)
    return exit_code(signals)


def run_inpaint(
    image: Path, mask: Path, output: Path, levels: int, regions: bool, figure: Path | None, printing: Printing, **options: Any
) -> int:
    """An image repaired."""
    _check_names(output, figure)
    _check_method(options["method"], regions)
    damaged, known = read_image(image, grey=True), read_mask(mask)
    with noting_signals() as signals, _watching(printing) as callback, _explaining():
        options["regions"] = "superpixels" if regions else None
        pixels, found = inpaint(damaged, known, levels, callback=callback, **options)
    shown = {"damaged": damaged, "known": known * 255.0, "repaired": pixels}
    _finish(found, pixels, output, figure, shown, printing)
    return exit_code(signals)


def run_segment(
    image: Path,
    output: Path,
    n_labels: int,
    seeds: Path | None,
    seed: int,
    figure: Path | None,
    printing: Printing,
    **options: Any,
) -> int:
    """Regions of an image."""
    _check_names(output, figure)
    pixels = read_image(image)
    marks = None if seeds is None else read_seeds(seeds)
    with noting_signals() as signals, _watching(printing) as callback, _explaining():
        found = segment(pixels, n_labels, seeds=marks, random_state=seed, callback=callback, **options)
    regions = found.labels * (255.0 / (n_labels - 1))
    _finish(found, regions, output, figure, {"image": pixels, "regions": regions}, printing)
    return exit_code(signals)


def _check_names(output: Path, figure: Path | None) -> None:
    """Names that cannot be written to are found before the work."""
    format_of(output)
    if figure is not None:
        check_figure_name(figure)


def _check_method(method: str | None, regions: bool) -> None:
    """Methods that do not know the cliques of superpixels are found before the work."""
    if regions and method is not None and method not in PICTURE_METHODS[-2:]:
        raise click.UsageError(f"--method {method} knows no superpixels; add --no-regions, or choose another method")


# Options whose names are not those of the arguments.
_OPTIONS = {"n_disparities": "--disparities", "n_labels": "-k", "n_levels": "--levels"}


def _spelt(setting: Any) -> str:
    return f"{_OPTIONS[setting.name]} {setting.value}" if setting.name in _OPTIONS else spelt(setting)


def _hint_at_larger_disparities(found: Labeling, disparities: int) -> None:
    """Pixels that would move farther end at the largest disparity, which is more than a few only if there are such pixels."""
    share = float(np.mean(found.labels == disparities - 1))
    if share > 0.2 and disparities > 1:
        text = f"Warning: {share:.0%} of the pixels have the largest disparity, {disparities - 1}; if things are nearer, raise -d"
        click.echo(text, err=True)


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
    from maxmargin._utils import ArgumentError
    from maxmargin.vision import ImageError

    try:
        yield
    except ImageError:
        raise
    except ArgumentError as error:
        raise click.UsageError(error.sentence(_spelt)) from error
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error


_EARLY = {"interrupted": "interrupted", "time_limit": "stopped by the time limit"}


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
    if found.status in _EARLY:
        click.echo(f"Warning: {_EARLY[found.status]}; the image is the best one so far", err=True)
    printing.tell(answer, lambda said: f"{_proved(said)} ({said['method']}, {said['seconds']:.1f} s); wrote {said['output']}")


def _proved(answer: Mapping[str, Any]) -> str:
    if answer["certified"]:
        return f"energy {answer['energy']:,.6g}, proved to be the least"
    bound = answer["lower_bound"]
    return f"energy {answer['energy']:,.6g}" + ("" if bound is None else f", the least is at least {bound:,.6g}")
