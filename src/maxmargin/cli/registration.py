"""``maxmargin register``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin._utils import ArgumentError, StatusLine, check_writable
from maxmargin.cli.options import Printing, spelt
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.registration import (
    Registration,
    Step,
    Volume,
    check_field_name,
    check_fits,
    check_volume_name,
    is_picture,
    plot_registration,
    read_volume,
    register,
    write_field,
    write_volume,
)
from maxmargin.vision import ImageError, check_figure_name

_EARLY = {"interrupted": "interrupted", "time_limit": "stopped by the time limit"}


def run_register(
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
    """A source moved onto a target."""
    check_volume_name(output)
    if field is not None:
        check_field_name(field)
    if figure is not None:
        check_figure_name(figure)
    if (segmentation is None) != (labels_output is None):
        raise click.UsageError(
            "--segmentation and --labels-output go together: classes of the source, and where to write them moved"
        )
    if labels_output is not None:
        check_volume_name(labels_output)
    for path in (output, field, labels_output):
        if path is not None:
            check_writable(path)
    one, two = read_volume(source), read_volume(target)
    classes = None if segmentation is None else read_volume(segmentation, labels=True)
    if classes is not None and classes.values.shape != one.values.shape:
        problem = f"{segmentation}: has {_size(classes.values)} voxels, but {source} has {_size(one.values)}"
        raise ImageError(f"{problem}; they must have the same voxels")
    if classes is not None and spacing is None and not is_picture(segmentation or "") and not _same_places(classes, one):
        problem = f"{segmentation}: its header places its voxels elsewhere than {source} does"
        raise ImageError(f"{problem}; resample it onto the voxels of the source")
    # Before the work rather than after it: what is interpolated is within the range of the source.
    check_fits(output, one.values)
    if classes is not None and labels_output is not None:
        check_fits(labels_output, classes.values)
    if spacing is None:
        where: dict[str, Any] = {"spacing": two.spacing, "source_spacing": one.spacing, "offset": one.offset_from(two)}
    else:
        where = {"spacing": spacing[0] if len(spacing) == 1 else tuple(spacing)}
    with noting_signals() as signals, _watching(printing, options) as callback, _explaining():
        found = register(one.values, two.values, callback=callback, **where, **options)
    # Displacements are in the unit of the spacing that was given, and so must be the files.
    two = dataclasses.replace(two, spacing=found.spacing)
    write_volume(output, found.warp(one.values), two)
    if classes is not None and labels_output is not None:
        write_volume(labels_output, found.warp(classes.values, labels=True), two)
    if field is not None:
        write_field(field, found, two)
    if figure is not None:
        plot_registration(found, one.values, two.values, figure)
    _tell(found, output, printing)
    return exit_code(signals)


def _same_places(one: Volume, two: Volume) -> bool:
    """Whether voxels of two files are in the same places, but for a small part of them."""
    return (
        np.allclose(one.spacing, two.spacing, rtol=1e-2)
        and np.allclose(one.direction, two.direction, atol=1e-2)
        and bool((np.abs(one.origin - two.origin) < 0.1 * two.spacing.min()).all())
    )


def _tell(found: Registration, output: Path, printing: Printing) -> None:
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

        def show(step: Step) -> None:
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
