"""``maxmargin stereo``, ``inpaint`` and ``segment``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from maxmargin import vision
from maxmargin._utils import ArgumentError, StatusLine
from maxmargin.cli.options import (
    EXISTING,
    OUTPUT,
    PICTURE_METHODS,
    Printing,
    keep_apart,
    output_options,
    picture_options,
    spelt,
    with_exit_codes,
)
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.labeling import Labeling


@click.command()
@click.argument("left", type=EXISTING)
@click.argument("right", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, default=Path("disparity.png"), show_default=True, help="Where to write disparities.")
@click.option(
    "-d", "--disparities", type=click.IntRange(min=1), default=16, show_default=True, help="Disparities 0 to one less than this."
)
@click.option("--smoothness", default=20.0, show_default=True, help="Price of a step of one between neighbours.")
@click.option("--limit", default=5.0, show_default=True, help="A step costs no more than one of so many disparities.")
@click.option("--cost-limit", default=float("inf"), show_default=True, help="Colours of a pixel cost no more than this.")
@click.option("--regions/--no-regions", default=True, show_default=True, help="Superpixels prefer similar disparities.")
@picture_options
@output_options
@with_exit_codes
def stereo(
    left: Path,
    right: Path,
    output: Path,
    disparities: int,
    regions: bool,
    figure: Path | None,
    printing: Printing,
    **options: Any,
) -> int:
    """Depth from two images: how far every pixel of LEFT has moved to the left in RIGHT, brighter is nearer.

    The images must be rectified and of one size. Colours that differ, steps between neighbours and
    superpixels that are not flat cost something; defaults are the published ones for tsukuba.

    \b
    Examples:
      maxmargin stereo left.png right.png -o disparity.png
      maxmargin stereo left.png right.png -d 60 --limit 1 --cost-limit 16 --figure compared.png
    """
    keep_apart({"--output": output, "--figure": figure}, {"LEFT": left, "RIGHT": right})
    _check_names(output, figure)
    _check_method(options["method"], regions)
    one, two = vision.read_image(left), vision.read_image(right)
    with noting_signals() as signals, _watching(printing) as callback, _explaining():
        options["regions"] = "superpixels" if regions else None
        found = vision.stereo(one, two, disparities, callback=callback, **options)
    pixels = found.labels * (255.0 / max(1, disparities - 1))
    _finish(found, pixels, output, figure, {"left": one, "right": two, "disparity": pixels}, printing)
    _hint_at_larger_disparities(found, disparities)
    return exit_code(signals)


@click.command()
@click.argument("image", type=EXISTING)
@click.argument("mask", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, default=Path("inpainted.png"), show_default=True, help="Where to write the image.")
@click.option("--levels", type=click.IntRange(2, 256), default=64, show_default=True, help="Grey values, at most 256.")
@click.option("--smoothness", default=50.0, show_default=True, help="Price of a difference of one grey value between neighbours.")
@click.option("--limit", default=50.0, show_default=True, help="A difference costs no more than one of so many grey values.")
@click.option("--regions/--no-regions", default=False, show_default=True, help="Superpixels prefer similar grey values.")
@picture_options
@output_options
@with_exit_codes
def inpaint(
    image: Path, mask: Path, output: Path, levels: int, regions: bool, figure: Path | None, printing: Printing, **options: Any
) -> int:
    """Take noise out of a grey IMAGE and fill in its holes, which are dark in MASK.

    \b
    Examples:
      maxmargin inpaint damaged.png mask.png -o repaired.png
      maxmargin inpaint damaged.png mask.png --levels 256 --figure compared.png
    """
    keep_apart({"--output": output, "--figure": figure}, {"IMAGE": image, "MASK": mask})
    _check_names(output, figure)
    _check_method(options["method"], regions)
    damaged, known = vision.read_image(image, grey=True), vision.read_mask(mask)
    with noting_signals() as signals, _watching(printing) as callback, _explaining():
        options["regions"] = "superpixels" if regions else None
        pixels, found = vision.inpaint(damaged, known, levels, callback=callback, **options)
    shown = {"damaged": damaged, "known": known * 255.0, "repaired": pixels}
    _finish(found, pixels, output, figure, shown, printing)
    return exit_code(signals)


@click.command()
@click.argument("image", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, default=Path("regions.png"), show_default=True, help="Where to write the regions.")
@click.option(
    "-k",
    "--regions",
    "n_labels",
    type=click.IntRange(2, 256),
    default=2,
    show_default=True,
    help="How many; two are found exactly.",
)
@click.option("--smoothness", default=8.0, show_default=True, help="Price of a boundary where there is no contrast.")
@click.option("--seeds", type=EXISTING, help="An image with grey value k where a pixel belongs to region k, 0 elsewhere.")
@click.option("--seed", default=0, show_default=True, help="Seed of the colours' mixture.")
@picture_options
@output_options
@with_exit_codes
def segment(
    image: Path,
    output: Path,
    n_labels: int,
    seeds: Path | None,
    seed: int,
    figure: Path | None,
    printing: Printing,
    **options: Any,
) -> int:
    """Divide IMAGE into regions by colour, with smooth boundaries that follow contrast.

    \b
    Examples:
      maxmargin segment photo.jpg -o regions.png
      maxmargin segment photo.jpg -k 4 --figure compared.png
    """
    keep_apart({"--output": output, "--figure": figure}, {"IMAGE": image, "--seeds": seeds})
    _check_names(output, figure)
    pixels = vision.read_image(image)
    marks = None if seeds is None else vision.read_seeds(seeds)
    with noting_signals() as signals, _watching(printing) as callback, _explaining():
        found = vision.segment(pixels, n_labels, seeds=marks, random_state=seed, callback=callback, **options)
    regions = found.labels * (255.0 / (n_labels - 1))
    _finish(found, regions, output, figure, {"image": pixels, "regions": regions}, printing)
    return exit_code(signals)


def _check_names(output: Path, figure: Path | None) -> None:
    """Names that cannot be written to are found before the work."""
    vision.format_of(output)
    if figure is not None:
        vision.check_figure_name(figure)


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
    try:
        yield
    except vision.ImageError:
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
    vision.write_image(output, pixels)
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
        vision.side_by_side(shown, figure, _proved(answer))
        answer["figure"] = str(figure)
    if found.status in _EARLY:
        click.echo(f"Warning: {_EARLY[found.status]}; the image is the best one so far", err=True)
    printing.tell(answer, lambda said: f"{_proved(said)} ({said['method']}, {said['seconds']:.1f} s); wrote {said['output']}")


def _proved(answer: Mapping[str, Any]) -> str:
    if answer["certified"]:
        return f"energy {answer['energy']:,.6g}, proved to be the least"
    bound = answer["lower_bound"]
    return f"energy {answer['energy']:,.6g}" + ("" if bound is None else f", the least is at least {bound:,.6g}")
