"""``maxmargin register``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin import registration
from maxmargin._utils import ArgumentError, StatusLine, check_writable
from maxmargin.cli.options import (
    EXISTING,
    OUTPUT,
    POSITIVE,
    Printing,
    keep_apart,
    numbers,
    output_options,
    spelt,
    with_exit_codes,
    words,
)
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.vision import ImageError, check_figure_name

_EARLY = {"interrupted": "interrupted", "time_limit": "stopped by the time limit"}


@click.command()
@click.argument("source", type=EXISTING)
@click.argument("target", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, required=True, help="Where to write the source, moved onto the target.")
@click.option("--field", type=OUTPUT, help="Where to write displacements: .nii.gz or .mha for SimpleITK, .npz for Python.")
@click.option("--figure", type=OUTPUT, help="Where to write a figure: before and after, deformed grid, Jacobian.")
@click.option("--segmentation", type=EXISTING, help="Classes of the source's voxels, to be moved too.")
@click.option("--labels-output", type=OUTPUT, help="Where to write the moved classes.")
@click.option("--metrics", default="sad,mi,ncc,dwt", show_default=True, callback=words, help="Which, separated by commas.")
@click.option("--weights", callback=numbers, help="Weights of the metrics, separated by commas.")
@click.option("--smoothness", type=float, help="Price of a millimetre between neighbouring control points.")
@click.option("--spacing", callback=numbers, help="Size of voxels, slices first, of both, whatever the files say.")
@click.option("--grid-spacing", type=POSITIVE, help="Of control points; by default 8 voxels, of images 16.")
@click.option("--levels", type=click.IntRange(1, 12), default=2, show_default=True, help="Of the pyramid.")
@click.option("--steps", type=click.IntRange(1, 1000), default=5, show_default=True, help="Refinements at every level.")
@click.option("--max-displacement", default=0.4, show_default=True, help="Of a refinement, in spacings of control points.")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds to search.")
@output_options
@with_exit_codes
def register(
    source: Path,
    target: Path,
    output: Path,
    field: Path | None,
    figure: Path | None,
    segmentation: Path | None,
    labels_output: Path | None,
    spacing: list[float] | None,
    printing: Printing,
    **options: Any,
) -> int:
    """Move SOURCE onto TARGET: two images, or two volumes, that show the same thing in different shapes.

    Files are NIfTI, MetaImage, NRRD or pictures; sizes and places of voxels are read from them.

    \b
    Examples:
      maxmargin register patient.nii.gz atlas.nii.gz -o warped.nii.gz --figure compared.png
      maxmargin register moving.png fixed.png -o warped.png --metrics ncc --field field.mha
    """
    more = {"--field": field, "--figure": figure, "--labels-output": labels_output}
    keep_apart({"--output": output, **more}, {"SOURCE": source, "TARGET": target, "--segmentation": segmentation})
    registration.check_volume_name(output)
    if field is not None:
        registration.check_field_name(field)
    if figure is not None:
        check_figure_name(figure)
    if (segmentation is None) != (labels_output is None):
        raise click.UsageError(
            "--segmentation and --labels-output go together: classes of the source, and where to write them moved"
        )
    if labels_output is not None:
        registration.check_volume_name(labels_output)
    for path in (output, field, labels_output):
        if path is not None:
            check_writable(path)
    one, two = registration.read_volume(source), registration.read_volume(target)
    classes = None if segmentation is None else registration.read_volume(segmentation, labels=True)
    if classes is not None and classes.values.shape != one.values.shape:
        problem = f"{segmentation}: has {_size(classes.values)} voxels, but {source} has {_size(one.values)}"
        raise ImageError(f"{problem}; they must have the same voxels")
    has_places = spacing is None and not registration.is_picture(segmentation or "")
    if classes is not None and has_places and not _same_places(classes, one):
        problem = f"{segmentation}: its header places its voxels elsewhere than {source} does"
        raise ImageError(f"{problem}; resample it onto the voxels of the source")
    # Before the work rather than after it: what is interpolated is within the range of the source.
    registration.check_fits(output, one.values)
    if classes is not None and labels_output is not None:
        registration.check_fits(labels_output, classes.values)
    if spacing is None:
        where: dict[str, Any] = {"spacing": two.spacing, "source_spacing": one.spacing, "offset": one.offset_from(two)}
    else:
        where = {"spacing": spacing[0] if len(spacing) == 1 else tuple(spacing)}
    with noting_signals() as signals, _watching(printing, options) as callback, _explaining():
        found = registration.register(one.values, two.values, callback=callback, **where, **options)
    # Displacements are in the unit of the spacing that was given, and so must be the files.
    two = dataclasses.replace(two, spacing=found.spacing)
    registration.write_volume(output, found.warp(one.values), two)
    if classes is not None and labels_output is not None:
        registration.write_volume(labels_output, found.warp(classes.values, labels=True), two)
    if field is not None:
        registration.write_field(field, found, two)
    if figure is not None:
        registration.plot_registration(found, one.values, two.values, figure)
    _tell(found, output, printing)
    return exit_code(signals)


def _same_places(one: registration.Volume, two: registration.Volume) -> bool:
    """Whether voxels of two files are in the same places, but for a small part of them."""
    return (
        np.allclose(one.spacing, two.spacing, rtol=1e-2)
        and np.allclose(one.direction, two.direction, atol=1e-2)
        and bool((np.abs(one.origin - two.origin) < 0.1 * two.spacing.min()).all())
    )


def _tell(found: registration.Registration, output: Path, printing: Printing) -> None:
    lengths = np.sqrt((found.displacement**2).sum(axis=-1))
    answer = {
        "energy": found.energy,
        "mean_displacement": float(lengths.mean()),
        "largest_displacement": float(lengths.max()),
        "least_jacobian": float(found.jacobian().min()),
        "certified": found.certified,
        "status": found.status,
        "seconds": round(found.seconds, 3),
        "output": str(output),
    }
    if found.status in _EARLY:
        click.echo(f"Warning: {_EARLY[found.status]}; the displacements are the best ones so far", err=True)
    printing.tell(
        answer,
        lambda said: (
            f"moved by {said['mean_displacement']:.2f} on average, at most {said['largest_displacement']:.2f}; "
            f"Jacobian at least {said['least_jacobian']:.2f} ({said['seconds']:.1f} s); wrote {said['output']}"
        ),
    )


def _size(values: Any) -> str:
    return " x ".join(map(str, values.shape))


@contextmanager
def _watching(printing: Printing, options: dict[str, Any]) -> Iterator[Any]:
    """A callback that shows the step while somebody is looking."""
    levels, steps = options["levels"], options["steps"]
    with StatusLine(shown=printing.progress, transient=True) as line:

        def show(step: registration.Step) -> None:
            done = (levels - 1 - step.level) * steps + step.step + 1
            line.show(f"refinement {done} of {levels * steps}, level {step.level}, energy {step.after:,.6g}")

        yield show


# Options whose names are not those of the arguments.
_OPTIONS = {"per_axis": "--labels-per-axis"}


def _spelt(setting: Any) -> str:
    return f"{_OPTIONS[setting.name]} {setting.value}" if setting.name in _OPTIONS else spelt(setting)


@contextmanager
def _explaining() -> Iterator[None]:
    """Options that do not fit are errors of usage; images that do not, of data."""
    try:
        yield
    except ArgumentError as error:
        if error.argument in ("source", "target", "offset", "segmentation"):
            raise ImageError(error.sentence(_spelt)) from error
        raise click.UsageError(error.sentence(_spelt)) from error
