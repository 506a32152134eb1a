"""Options of the commands about images and volumes: stereo, inpaint, segment, register."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxmargin.cli.options import (
    EXISTING,
    OUTPUT,
    POSITIVE,
    keep_apart,
    numbers,
    output_options,
    picture_options,
    with_exit_codes,
    words,
)


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
def stereo(left: Path, right: Path, output: Path, **options: Any) -> int:
    """Depth from two images: how far every pixel of LEFT has moved to the left in RIGHT, brighter is nearer.

    The images must be rectified and of one size. Colours that differ, steps between neighbours and
    superpixels that are not flat cost something; defaults are the published ones for tsukuba.

    \b
    Examples:
      maxmargin stereo left.png right.png -o disparity.png
      maxmargin stereo left.png right.png -d 60 --limit 1 --cost-limit 16 --figure compared.png
    """
    from maxmargin.cli.pictures import run_stereo

    keep_apart({"--output": output, "--figure": options["figure"]}, {"LEFT": left, "RIGHT": right})
    return run_stereo(left, right, output, **options)


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
def inpaint(image: Path, mask: Path, output: Path, **options: Any) -> int:
    """Take noise out of a grey IMAGE and fill in its holes, which are dark in MASK.

    \b
    Examples:
      maxmargin inpaint damaged.png mask.png -o repaired.png
      maxmargin inpaint damaged.png mask.png --levels 256 --figure compared.png
    """
    from maxmargin.cli.pictures import run_inpaint

    keep_apart({"--output": output, "--figure": options["figure"]}, {"IMAGE": image, "MASK": mask})
    return run_inpaint(image, mask, output, **options)


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
def segment(image: Path, output: Path, **options: Any) -> int:
    """Divide IMAGE into regions by colour, with smooth boundaries that follow contrast.

    \b
    Examples:
      maxmargin segment photo.jpg -o regions.png
      maxmargin segment photo.jpg -k 4 --figure compared.png
    """
    from maxmargin.cli.pictures import run_segment

    keep_apart({"--output": output, "--figure": options["figure"]}, {"IMAGE": image, "--seeds": options["seeds"]})
    return run_segment(image, output, **options)


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
def register(source: Path, target: Path, output: Path, **options: Any) -> int:
    """Move SOURCE onto TARGET: two images, or two volumes, that show the same thing in different shapes.

    Files are NIfTI, MetaImage, NRRD or pictures; sizes and places of voxels are read from them.

    \b
    Examples:
      maxmargin register patient.nii.gz atlas.nii.gz -o warped.nii.gz --figure compared.png
      maxmargin register moving.png fixed.png -o warped.png --metrics ncc --field field.mha
    """
    from maxmargin.cli.registration import run_register

    more = {"--field": options["field"], "--figure": options["figure"], "--labels-output": options["labels_output"]}
    keep_apart({"--output": output, **more}, {"SOURCE": source, "TARGET": target, "--segmentation": options["segmentation"]})
    return run_register(source, target, output, **options)
