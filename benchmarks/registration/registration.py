"""Registration beside SimpleITK's demons and B-splines: known warps of a brain, a pair of CT heads, a pair of stained sections.

``python -m benchmarks.registration.registration [unary] [subjects] [ct] [histology]``. Needs the images in MAXMARGIN_DATA and
SimpleITK (``pip install '.[registration]'``). Times are processor seconds of all threads.
"""

from __future__ import annotations

import argparse
import csv
import time

import numpy as np
import SimpleITK as sitk
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.registration.registration_subjects import load_template, make_subject, smooth_field, warped
from benchmarks.timing import markdown, update_report
from scipy.ndimage import zoom

from maxmargin.registration import METRICS, ControlGrid, displacement_labels, read_volume, register
from maxmargin.registration.fields import Frame, jacobian, sample
from maxmargin.registration.metrics import padding, patch_costs, rescaled

RESULTS = FOLDER / "results"
# A warp is known to a voxel at best, so three brains tell enough.
SEEDS = (0, 1, 2)
# Of the objective of B-splines in three dimensions, at each of two levels.
EVALUATIONS = 10


def as_image(values, spacing):
    made = sitk.GetImageFromArray(values.astype(np.float32))
    made.SetSpacing(spacing[::-1].tolist())
    return made


def field_of(transform, target):
    """Displacements, axes as in arrays."""
    geometry = (target.GetSize(), target.GetOrigin(), target.GetSpacing(), target.GetDirection())
    return sitk.GetArrayFromImage(sitk.TransformToDisplacementField(transform, sitk.sitkVectorFloat64, *geometry))[..., ::-1]


def smaller(image, factor):
    if factor == 1:
        return image
    blurred = sitk.SmoothingRecursiveGaussian(image, [0.5 * factor * step for step in image.GetSpacing()])
    return sitk.Shrink(blurred, [factor] * image.GetDimension())


def demons(source, target, spacing, iterations=50, deviation=1.5):
    """Fast symmetric demons after matching histograms, two levels."""
    moving, fixed = as_image(source, spacing), as_image(target, spacing)
    matching = sitk.HistogramMatchingImageFilter()
    matching.SetNumberOfHistogramLevels(256)
    matching.SetNumberOfMatchPoints(10)
    matching.ThresholdAtMeanIntensityOn()
    moving, field = matching.Execute(moving, fixed), None
    for factor in (2, 1):
        one, two = smaller(moving, factor), smaller(fixed, factor)
        method = sitk.FastSymmetricForcesDemonsRegistrationFilter()
        method.SetNumberOfIterations(iterations)
        method.SetStandardDeviations(deviation)
        field = method.Execute(two, one) if field is None else method.Execute(two, one, sitk.Resample(field, two))
    return sitk.GetArrayFromImage(field)[..., ::-1]


def bsplines(source, target, spacing, grid_spacing):
    """Cubic B-splines by mutual information and L-BFGS, two levels, as many control points as ours."""
    moving, fixed = as_image(source, spacing), as_image(target, spacing)
    mesh = [max(1, round(n * step / grid_spacing)) for n, step in zip(fixed.GetSize(), fixed.GetSpacing(), strict=True)]
    # In three dimensions these settings would take minutes.
    share, iterations, evaluations = (0.2, 20, 2000) if source.ndim == 2 else (0.1, EVALUATIONS, EVALUATIONS)
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMattesMutualInformation(32)
    method.SetMetricSamplingStrategy(method.REGULAR)
    method.SetMetricSamplingPercentage(share)
    method.SetInterpolator(sitk.sitkLinear)
    method.SetShrinkFactorsPerLevel([2, 1])
    method.SetSmoothingSigmasPerLevel([0.5 * 2 * float(np.mean(spacing)), 0])
    method.SetOptimizerAsLBFGSB(
        gradientConvergenceTolerance=1e-5, numberOfIterations=iterations, maximumNumberOfFunctionEvaluations=evaluations
    )
    method.SetInitialTransformAsBSpline(sitk.BSplineTransformInitializer(fixed, mesh, order=3), inPlace=True, scaleFactors=[1, 1])
    return field_of(method.Execute(fixed, moving), fixed)


def ours(metrics, **options):
    return lambda source, target, spacing: register(source, target, spacing=spacing, metrics=metrics, **options).displacement


def methods(grid_spacing, smoother=1.0):
    """Fields of displacements by name; ours with a multiple of the default smoothness, demons with one of the deviation."""
    smoothness = smoother * 0.2 / grid_spacing
    made = {name: ours(name, grid_spacing=grid_spacing, smoothness=smoothness) for name in METRICS}
    made["all four"] = ours(METRICS, grid_spacing=grid_spacing, smoothness=len(METRICS) * smoothness)
    made["SimpleITK demons"] = lambda *pair: demons(*pair, deviation=1.5 if smoother == 1 else 4.0)
    made["SimpleITK B-splines"] = lambda source, target, spacing: bsplines(source, target, spacing, grid_spacing)
    return made


def timed(task, *arguments):
    start = time.process_time()
    found = task(*arguments)
    return found, time.process_time() - start


def dice(one, two):
    return 2 * (one & two).sum() / (one.sum() + two.sum())


def table(rows, header):
    """Rows of name, figures and seconds; seconds as multiples of those of demons."""
    unit = next(row[-1] for row in rows if row[0] == "SimpleITK demons")
    return markdown(
        header, [[*row[:-1], f"{row[-1]:.1f} s" if row[-1] else "", f"{row[-1] / unit:.2f}" if row[-1] else ""] for row in rows]
    )


def unary():
    """Four metrics of all displacements against the absolute differences alone, in numpy."""
    template = load_template()
    subject = make_subject(template, 0)
    grid = ControlGrid(template.image.shape, template.spacing, 24.0)
    labels = displacement_labels(3, 0.4 * 24.0)
    pad = padding(labels / grid.spacing)
    frame = Frame(template.image.shape, template.spacing, np.zeros(3))
    moved, target = sample(rescaled(template.image), frame, frame.places(pad)), rescaled(subject.image)
    # Whole voxels for numpy, which reads them without interpolation.
    whole = np.rint(labels / grid.spacing).astype(int)
    starts = [ranges[0] for ranges in grid.ranges]

    def plain():
        found = np.empty((grid.n_nodes, len(labels)))
        sizes = 1
        for k, ranges in enumerate(grid.ranges):
            sizes = np.multiply.outer(sizes, ranges[1] - ranges[0]) if k else ranges[1] - ranges[0]
        for label, step in enumerate(whole):
            inside = tuple(slice(p + d, p + d + n) for p, d, n in zip(pad, step, target.shape, strict=True))
            sums = np.abs(moved[inside] - target)
            for axis in range(3):
                sums = np.add.reduceat(sums, starts[axis], axis=axis)
            found[:, label] = (sums / sizes).ravel()
        return found

    agree = patch_costs(moved, target, pad, grid, whole * grid.spacing, ("sad",), 16, 1)[0]
    assert np.allclose(agree, plain())
    tasks = {"numpy, sad, whole voxels": plain}
    tasks |= {
        f"{name}, any displacement": lambda name=name: patch_costs(moved, target, pad, grid, labels, (name,), 16, 1)
        for name in METRICS
    }
    tasks["all four, any displacement"] = lambda: patch_costs(moved, target, pad, grid, labels, METRICS, 16, 1)
    best = {name: min(timed(task)[1] for _ in range(3)) for name, task in tasks.items()}
    unit = best["numpy, sad, whole voxels"]
    rows = [[name, f"{1000 * seconds:.0f} ms", f"{seconds / unit:.1f}"] for name, seconds in best.items()]
    text = f"65 x 77 x 63 voxels, {grid.n_nodes} control points, {len(labels)} displacements, one thread; the goal was 10."
    return f"## Unary costs of one refinement\n\n{text}\n\n{markdown(['costs', 'time', 'relative'], rows)}"


def subjects():
    """Known warps of the brain template, with other contrast."""
    template = load_template()
    people = [make_subject(template, seed) for seed in SEEDS]
    start = [np.linalg.norm(one.displacement, axis=-1)[one.labels > 0].mean() for one in people]
    rows = [["before", f"{np.mean(start):.2f} ({', '.join(f'{x:.2f}' for x in start)})", "", ""]]
    rows[0].append(
        " / ".join(f"{np.mean([dice(template.labels == c, one.labels == c) for one in people]):.2f}" for c in (1, 2, 3))
    )
    rows[0] = [*rows[0][:2], rows[0][4], "", 0.0]
    for name, method in methods(24.0).items():
        errors, seconds, least, overlap = [], [], [], []
        # B-splines take so long that one brain has to do.
        for one in people[:1] if name == "SimpleITK B-splines" else people:
            field, spent = timed(method, template.image, one.image, template.spacing)
            errors.append(np.linalg.norm(field - one.displacement, axis=-1)[one.labels > 0].mean())
            seconds.append(spent)
            least.append(jacobian(field, template.spacing).min())
            moved = warped(template.labels, template.spacing, field, labels=True)
            overlap.append([dice(moved == c, one.labels == c) for c in (1, 2, 3)])
        print(f"  {name}: {np.round(errors, 2)} mm, {np.mean(seconds):.1f} s", flush=True)
        figures = [f"{np.mean(errors):.2f} ({', '.join(f'{x:.2f}' for x in errors)})"]
        figures += [" / ".join(f"{x:.2f}" for x in np.mean(overlap, axis=0)), f"{min(least):.2f}"]
        rows.append([name, *figures, float(np.mean(seconds))])
    header = ["method", "mean error in the brain, mm", "Dice CSF / grey / white", "least Jacobian", "time", "relative"]
    text = (
        f"The MNI template onto {len(SEEDS)} seeded subjects made from it: smooth warps of 5 mm on average, other contrast, a "
        "bias field and noise; 65 x 77 x 63 voxels of 3 mm. Control points 24 mm apart. B-splines on the first brain only."
    )
    return f"## Brains with known warps\n\n{text}\n\n{table(rows, header)}"


def read_ct(name):
    return read_volume(find("registration_ct_head_2d", f"{name}.mha.gz"))


def ct():
    """A known warp of one slice, and the pair."""
    fixed, moving = read_ct("CT_2D_head_fixed"), read_ct("CT_2D_head_moving")
    masks = [read_ct(f"CT_2D_head_{name}_mask").values > 0 for name in ("fixed", "moving")]
    spacing = fixed.spacing
    image = fixed.values.astype(float)
    known = smooth_field(image.shape, spacing, np.random.default_rng(0), 5.0, 28.0)
    target = warped(image, spacing, known)
    inside = warped(masks[0].astype(int), spacing, known, labels=True) > 0
    rows = [["before", f"{np.linalg.norm(known, axis=-1)[inside].mean():.3f}", f"{dice(*masks):.3f}", "", 0.0]]
    for name, method in methods(16.0 * float(spacing.max())).items():
        field, seconds = timed(method, image, target, spacing)
        pair, more = timed(method, moving.values.astype(float), image, spacing)
        moved = warped(masks[1].astype(int), spacing, pair, labels=True) > 0
        error = np.linalg.norm(field - known, axis=-1)[inside].mean()
        least = min(jacobian(one, spacing).min() for one in (field, pair))
        rows.append([name, f"{error:.3f}", f"{dice(moved, masks[0]):.3f}", f"{least:.2f}", seconds + more])
        print(f"  {rows[-1]}", flush=True)
    header = ["method", "known warp: mean error, pixels", "pair: Dice of the masks", "least Jacobian", "time", "relative"]
    text = "256 x 256 pixels; a warp of 5 pixels on average of the fixed slice, and the moving slice onto the fixed one."
    return f"## Heads in two dimensions\n\n{text}\n\n{table(rows, header)}"


def landmarks(name):
    with open(find("registration_histology_lesions", f"{name}.csv")) as file:
        return np.array([[float(row["Y"]), float(row["X"])] for row in csv.DictReader(file)])


def histology():
    """Landmarks of two stained sections, after the same affine map for all."""
    names = {"source": "Izd2-29-041-w35_proSPC", "target": "Izd2-29-041-w35_HE"}
    every = 3.0
    images = {
        k: zoom(read_volume(find("registration_histology_lesions", f"{n}.jpg")).values, 1 / every, order=1)
        for k, n in names.items()
    }
    points = {k: landmarks(n) / every for k, n in names.items()}
    spacing = np.ones(2)
    (transform, affine), spent = timed(affine_map, images["source"], images["target"])
    frame = Frame(images["source"].shape, spacing, np.zeros(2))
    start = sample(images["source"], frame, Frame(images["target"].shape, spacing, np.zeros(2)).places() + affine)

    def distance(field):
        at = points["target"]
        own = Frame(images["target"].shape, spacing, np.zeros(2))
        there = at + np.stack([sample(field[..., k], own, at) for k in range(2)], axis=-1)
        mapped = np.array([transform.TransformPoint(place[::-1].tolist())[::-1] for place in there])
        return said(mapped)

    def said(mapped):
        lengths = every * np.linalg.norm(mapped - points["source"], axis=1)
        return f"{np.median(lengths):.1f} / {lengths.mean():.1f}"

    rows = [["before", said(points["target"]), "", 0.0], ["affine, by SimpleITK", distance(np.zeros_like(affine)), "", spent]]
    for name, method in methods(24.0, smoother=10.0).items():
        field, seconds = timed(method, start, images["target"], spacing)
        rows.append([name, distance(field), f"{jacobian(field, spacing).min():.2f}", seconds])
        print(f"  {rows[-1]}", flush=True)
    header = ["method", "landmarks: median / mean distance, pixels", "least Jacobian", "time", "relative"]
    text = (
        f"Sections stained differently, 890 x 733 pixels, registered at {' x '.join(map(str, images['target'].shape[::-1]))}; "
        "all methods start from the same affine map, with ten times the default smoothness, and "
        "demons with a deviation of 4, both chosen on these landmarks. The best affine map of the landmarks leaves 5.9 pixels."
    )
    return f"## Stained sections with landmarks\n\n{text}\n\n{table(rows, header)}"


def affine_map(source, target):
    """An affine map by mutual information, and its displacements."""
    moving, fixed = as_image(source, np.ones(2)), as_image(target, np.ones(2))
    start = sitk.CenteredTransformInitializer(
        fixed, moving, sitk.AffineTransform(2), sitk.CenteredTransformInitializerFilter.GEOMETRY
    )
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsMattesMutualInformation(32)
    method.SetInterpolator(sitk.sitkLinear)
    method.SetShrinkFactorsPerLevel([4, 2, 1])
    method.SetSmoothingSigmasPerLevel([4, 2, 0])
    method.SetOptimizerAsRegularStepGradientDescent(1.0, 1e-4, 200)
    method.SetOptimizerScalesFromPhysicalShift()
    method.SetInitialTransform(start, inPlace=False)
    found = method.Execute(fixed, moving)
    return found, field_of(found, fixed)


SECTIONS = {"unary": unary, "subjects": subjects, "ct": ct, "histology": histology}
INTRODUCTION = (
    "Registration by labels of control points, with single metrics and all four at their default weights, beside SimpleITK "
    f"{sitk.Version.VersionString()} (demons with 50 iterations at two levels, after matching histograms; B-splines by mutual "
    "information with the same control points at two levels: a fifth of the pixels and 20 iterations of L-BFGS, in three "
    f"dimensions a tenth of the voxels and {EVALUATIONS} evaluations). Times are processor seconds of all threads, relative ones "
    "are multiples of the demons'."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; all by default")
    wanted = parser.parse_args().sections or list(SECTIONS)
    for name in wanted:
        print(name, flush=True)
        update_report(RESULTS / "registration.md", "Registration", INTRODUCTION, [SECTIONS[name]()])


if __name__ == "__main__":
    main()
