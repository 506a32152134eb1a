"""Files through SimpleITK, the figure, and the command: what is written, what is said, what is refused."""

import gzip
import json
import signal
import sys
from itertools import pairwise

import numpy as np
import pytest
from tests.cases.command_runner import CliRunner
from tests.cases.registration_cases import blobs, smooth_field, warped

import maxmargin.registration as registration
from maxmargin.cli.main import main
from maxmargin.registration import Registration, Volume, plot_registration, read_volume, register, write_field, write_volume
from maxmargin.registration.figure import checkerboard
from maxmargin.vision import ImageError

sitk = pytest.importorskip("SimpleITK", reason="files of volumes need SimpleITK")

IMAGE = blobs((40, 48), width=4.0)
TARGET = warped(IMAGE, smooth_field(IMAGE.shape, 1, 4.0, 10.0))
VOLUME = blobs((16, 18, 20), width=2.0)
# Axes x and y are exchanged, and z is turned round.
TURNED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


def save(path, values, spacing=None, origin=None, direction=None):
    ndim = values.ndim
    like = Volume(
        values,
        np.ones(ndim) if spacing is None else np.array(spacing),
        np.zeros(ndim) if origin is None else np.array(origin),
        np.eye(ndim) if direction is None else direction,
    )
    write_volume(path, values, like)
    return like


def run(*words):
    return CliRunner().invoke(main, ["register", *map(str, words)])


# ---- files -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".nii", ".nii.gz", ".mha", ".nrrd"])
def test_volumes_come_back_with_their_places(tmp_path, ending):
    path = tmp_path / f"volume{ending}"
    like = save(path, VOLUME, spacing=(3.0, 2.0, 1.5), origin=(5.0, -7.0, 11.0), direction=TURNED)
    again = read_volume(path)
    np.testing.assert_allclose(again.values, VOLUME, rtol=1e-6)
    for name in ("spacing", "origin", "direction"):
        np.testing.assert_allclose(getattr(again, name), getattr(like, name), atol=1e-5)
    assert sitk.ReadImage(str(path)).GetSpacing() == pytest.approx((1.5, 2.0, 3.0))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_pictures_are_grey_and_classes_keep_their_numbers(tmp_path):
    colours = np.random.default_rng(0).integers(0, 256, (9, 12, 3)).astype(np.uint8)
    sitk.WriteImage(sitk.GetImageFromArray(colours, isVector=True), str(tmp_path / "colours.png"))
    found = read_volume(tmp_path / "colours.png")
    np.testing.assert_allclose(found.values, colours.mean(axis=2))
    assert found.spacing.tolist() == [1.0, 1.0]
    with pytest.raises(ImageError, match=r"colours.png has colours, but classes are numbers"):
        read_volume(tmp_path / "colours.png", labels=True)
    classes = np.arange(108).reshape(9, 12) * 5
    for name in ("classes.png", "classes.nii.gz", "classes.mha"):
        save(tmp_path / name, classes)
        np.testing.assert_array_equal(read_volume(tmp_path / name, labels=True).values, classes)
    save(tmp_path / "whole.mha", classes.astype(float))
    assert read_volume(tmp_path / "whole.mha", labels=True).values.dtype.kind == "i"
    save(tmp_path / "halves.mha", classes + 0.5)
    with pytest.raises(ImageError, match="no integers"):
        read_volume(tmp_path / "halves.mha", labels=True)


def test_one_slice_is_an_image(tmp_path):
    save(tmp_path / "slice.nii.gz", IMAGE[None], spacing=(5.0, 2.0, 1.5))
    found = read_volume(tmp_path / "slice.nii.gz")
    assert found.values.shape == IMAGE.shape and found.spacing == pytest.approx([2.0, 1.5])


def test_one_slice_of_any_plane(tmp_path):
    # A sagittal slice: its axes are y and z of the patient.
    sagittal = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    save(tmp_path / "a.nii.gz", IMAGE[None], spacing=(5.0, 2.0, 1.5), origin=(9.0, 4.0, 7.0), direction=sagittal)
    save(tmp_path / "b.nii.gz", TARGET[None], spacing=(5.0, 2.0, 1.5), origin=(9.0, 5.5, 7.0), direction=sagittal)
    one, two = read_volume(tmp_path / "a.nii.gz"), read_volume(tmp_path / "b.nii.gz")
    np.testing.assert_allclose(one.offset_from(two), (0.0, -1.5), atol=1e-5)
    result = run(tmp_path / "a.nii.gz", tmp_path / "b.nii.gz", "-o", tmp_path / "c.nii.gz", "--steps", 1)
    assert result.exit_code == 0, result.output
    assert read_volume(tmp_path / "c.nii.gz").values.shape == IMAGE.shape


@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_files_that_were_cut_off(tmp_path, ending):
    noise = np.random.default_rng(0).normal(size=(5, 6, 7))
    for name, values in (("floats", noise), ("bytes", (40 * noise).astype(np.int16))):
        path = tmp_path / f"{name}{ending}"
        save(path, values)
        np.testing.assert_allclose(read_volume(path).values, values, rtol=1e-6)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(ImageError, match=f"{name}{ending} has been cut off"):
            read_volume(path)


def test_packed_files(tmp_path):
    save(tmp_path / "a.mha", VOLUME, spacing=(1.0, 2.0, 3.0))
    packed = tmp_path / "b.mha.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.mha").read_bytes()))
    plain, found = read_volume(tmp_path / "a.mha"), read_volume(packed)
    np.testing.assert_array_equal(found.values, plain.values)
    np.testing.assert_array_equal(found.spacing, plain.spacing)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ImageError, match=r"b\.mha\.gz has been cut off"):
        read_volume(packed)


def test_offsets_are_seen_along_the_axes():
    there, here = (Volume(VOLUME, np.ones(3), np.array(first), TURNED) for first in ((5.0, 1.0, 2.0), (1.0, -1.0, 3.0)))
    # x, y, z of the patient are y, x, -z of the file, whose slices come first.
    np.testing.assert_allclose(there.offset_from(here), (1.0, 4.0, 2.0))
    with pytest.raises(ImageError, match="different directions"):
        there.offset_from(Volume(VOLUME, np.ones(3), np.zeros(3), np.eye(3)))


def test_the_field_is_one_for_simpleitk(tmp_path):
    """SimpleITK warps the source by the written field as we do."""
    like = Volume(VOLUME, np.array([3.0, 2.0, 2.5]), np.array([4.0, 5.0, 6.0]), TURNED)
    field = smooth_field(VOLUME.shape, 3, 5.0, 5.0)
    found = Registration(field, like.spacing, np.array([3.0, 2.0, 2.5]), np.zeros(3), VOLUME.shape, 0.0)
    write_field(tmp_path / "field.mha", found, like)
    write_volume(tmp_path / "source.mha", VOLUME, like)
    source, moves = (sitk.ReadImage(str(tmp_path / f"{name}.mha")) for name in ("source", "field"))
    transform = sitk.DisplacementFieldTransform(sitk.Cast(moves, sitk.sitkVectorFloat64))
    theirs = sitk.GetArrayFromImage(sitk.Resample(source, source, transform, sitk.sitkLinear, -1.0))
    inside = theirs >= 0
    assert inside.mean() > 0.6
    np.testing.assert_allclose(found.warp(VOLUME)[inside], theirs[inside], atol=0.01)


def test_files_that_are_none(tmp_path):
    (tmp_path / "text.nii.gz").write_text("nothing")
    with pytest.raises(ImageError, match=r"text.nii.gz is no image that can be read .*use NIfTI, MetaImage or PNG"):
        read_volume(tmp_path / "text.nii.gz")
    with pytest.raises(FileNotFoundError):
        read_volume(tmp_path / "missing.mha")
    for name in ("warped.xyz", "warped.mhd"):
        with pytest.raises(ImageError, match=f"{name} has no ending of an image that can be written"):
            save(tmp_path / name, IMAGE)
    with pytest.raises(ImageError, match=r"volume.png cannot hold a volume"):
        save(tmp_path / "volume.png", VOLUME)
    with pytest.raises(ImageError, match=r"do not fit into a .png file"):
        save(tmp_path / "large.png", np.full((4, 4), 70_000))
    with pytest.raises(ImageError, match=r"do not fit into a .jpg file"):
        save(tmp_path / "large.jpg", np.full((4, 4), 300))
    with pytest.raises(ImageError, match=r"values from nan to nan do not fit into a .png file"):
        save(tmp_path / "none.png", np.full((4, 4), np.nan))
    like = Volume(VOLUME, np.ones(3), np.zeros(3), np.eye(3))
    with pytest.raises(ImageError, match=r"flat.mha: values have shape \(4, 4\), but like has 3 dimensions"):
        write_volume(tmp_path / "flat.mha", np.zeros((4, 4)), like)
    flat = Registration(np.zeros((4, 4, 2)), np.ones(2), np.ones(2), np.zeros(2), (4, 4), 0.0)
    with pytest.raises(ImageError, match=r"flat.mha: values have shape \(4, 4\), but like has 3 dimensions"):
        write_field(tmp_path / "flat.mha", flat, like)
    assert [path.name for path in tmp_path.iterdir()] == ["text.nii.gz"]


def test_without_simpleitk_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[registration\]'"):
        read_volume(tmp_path / "a.mha")


# ---- figure ------------------------------------------------------------------------------------------------------------------


def test_checkerboards_have_squares_of_both():
    board = checkerboard(np.zeros((16, 24)), np.ones((16, 24)), 8)
    assert board[0, 0] == 0 and board[0, 3] == 1 and board[3, 3] == 0 and board.mean() == pytest.approx(0.5, abs=0.05)


def test_figures_of_images_and_volumes(tmp_path):
    flat = register(IMAGE, TARGET, spacing=(1.0, 2.0), steps=1)
    deep = register(VOLUME, VOLUME[:, ::-1], spacing=1.0, steps=1, levels=1)
    plot_registration(flat, IMAGE, TARGET, tmp_path / "flat.png")
    plot_registration(deep, VOLUME, VOLUME[:, ::-1], tmp_path / "deep.svg")
    assert (tmp_path / "flat.png").stat().st_size > 10_000 and "Jacobian" in (tmp_path / "deep.svg").read_text()
    with pytest.raises(ValueError, match="were registered"):
        plot_registration(flat, TARGET, IMAGE[:, ::2], tmp_path / "wrong.png")
    with pytest.raises(ImageError, match=r"wrong.xyz has no ending of a figure"):
        plot_registration(flat, IMAGE, TARGET, tmp_path / "wrong.xyz")


# ---- the command -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 12), (12, 60), (20, 20)])
def test_titles_do_not_overlap(tmp_path, monkeypatch, shape):
    made = []
    module = sys.modules["maxmargin.registration.figure"]
    monkeypatch.setattr(module, "save_figure", lambda ax, path: made.append(ax.figure))
    found = Registration(np.zeros((*shape, 2)), np.ones(2), np.ones(2), np.zeros(2), shape, 0.0)
    plot_registration(found, np.eye(*shape), np.eye(*shape), tmp_path / "f.png")
    made[0].draw_without_rendering()
    boxes = [ax.title.get_window_extent() for ax in made[0].axes[:4]]
    assert all(one.x1 < two.x0 for one, two in pairwise(boxes))


def test_the_command_does_what_python_does(tmp_path):
    source = save(tmp_path / "source.nii.gz", IMAGE, spacing=(1.0, 1.25), origin=(2.0, 3.0))
    target = save(tmp_path / "target.mha", TARGET, spacing=(1.0, 1.25), origin=(2.5, 3.0))
    save(tmp_path / "classes.nii.gz", (IMAGE > 128).astype(int), spacing=(1.0, 1.25), origin=(2.0, 3.0))
    result = run(
        *(tmp_path / name for name in ("source.nii.gz", "target.mha")), "-o", tmp_path / "warped.nii.gz",
        "--field", tmp_path / "field.npz", "--figure", tmp_path / "figure.png", "--segmentation", tmp_path / "classes.nii.gz",
        "--labels-output", tmp_path / "moved.png", "--metrics", "sad,ncc", "--weights", "0.1,5", "--smoothness", "0.02",
        "--grid-spacing", "12", "--steps", "2", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    # As the files have it, in single precision.
    one, two = read_volume(tmp_path / "source.nii.gz"), read_volume(tmp_path / "target.mha")
    assert one.offset_from(two) == pytest.approx([0.0, -0.5])
    where = {"spacing": two.spacing, "source_spacing": one.spacing, "offset": one.offset_from(two)}
    found = register(
        one.values, two.values, metrics=("sad", "ncc"), weights=(0.1, 5), smoothness=0.02, grid_spacing=12.0, steps=2, **where
    )
    assert said["energy"] == pytest.approx(found.energy) and said["certified"] is False and said["status"] == "converged"
    warped_file = read_volume(tmp_path / "warped.nii.gz")
    np.testing.assert_allclose(warped_file.values, found.warp(one.values), atol=1e-3)
    np.testing.assert_allclose(warped_file.origin, target.origin, atol=1e-5)
    np.testing.assert_array_equal(Registration.load(tmp_path / "field.npz").displacement, found.displacement)
    moved = read_volume(tmp_path / "moved.png", labels=True).values
    np.testing.assert_array_equal(moved, found.warp((source.values > 128).astype(int), labels=True))
    assert (tmp_path / "figure.png").exists()


def test_pictures_and_words(tmp_path):
    save(tmp_path / "a.png", IMAGE)
    save(tmp_path / "b.png", TARGET)
    result = run(tmp_path / "a.png", tmp_path / "b.png", "-o", tmp_path / "c.png", "--steps", 1)
    assert result.exit_code == 0 and "moved by" in result.output and "wrote" in result.output
    assert read_volume(tmp_path / "c.png").values.dtype == np.uint8


def test_pictures_keep_the_range_of_the_source(tmp_path):
    for name, image in (("a", IMAGE), ("b", TARGET)):
        save(tmp_path / f"{name}.png", (200 * image).astype(np.uint16))
        save(tmp_path / f"{name}.tif", image / 1000)
    high = (200 * IMAGE).astype(np.uint16).max()
    for ending, top in ((".png", high), (".tif", IMAGE.max() / 1000)):
        words = [tmp_path / f"{name}{ending}" for name in "ab"]
        result = run(*words, "-o", tmp_path / f"c{ending}", "--steps", 1)
        assert result.exit_code == 0, result.output
        found = read_volume(tmp_path / f"c{ending}").values
        assert 0.8 * top < found.max() <= top * (1 + 1e-6) and len(np.unique(found)) > 500


def test_one_spacing_for_all_axes_and_for_the_files(tmp_path):
    save(tmp_path / "a.mha", IMAGE)
    save(tmp_path / "b.mha", TARGET)
    result = run(
        tmp_path / "a.mha", tmp_path / "b.mha", "-o", tmp_path / "c.mha", "--field", tmp_path / "f.mha", "--spacing", "2"
    )
    assert result.exit_code == 0, result.output
    moves, warped_file = (sitk.ReadImage(str(tmp_path / f"{name}.mha")) for name in "fc")
    assert moves.GetSpacing() == warped_file.GetSpacing() == (2.0, 2.0)
    source = sitk.ReadImage(str(tmp_path / "a.mha"))
    source.SetSpacing((2.0, 2.0))
    transform = sitk.DisplacementFieldTransform(sitk.Cast(moves, sitk.sitkVectorFloat64))
    theirs = sitk.GetArrayFromImage(sitk.Resample(source, warped_file, transform, sitk.sitkLinear, -1.0))
    inside = theirs >= 0
    np.testing.assert_allclose(sitk.GetArrayFromImage(warped_file)[inside], theirs[inside], atol=0.01)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["flat.mha", "deep.mha", "-o", "new.mha"], 1, "source has 2 dimensions, but target has 3"),
        (["flat.mha", "far.mha", "-o", "new.mha"], 1, "source and target do not overlap"),
        (["flat.mha", "flat.mha", "-o", "new.xyz"], 1, "new.xyz has no ending of an image"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--field", "f.png"], 1, "f.png cannot hold displacements"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--figure", "f.xyz"], 1, "f.xyz has no ending of a figure"),
        (
            ["flat.mha", "flat.mha", "-o", "new.mha", "--segmentation", "deep.mha"],
            2,
            "--segmentation and --labels-output go together",
        ),
        (
            ["flat.mha", "flat.mha", "-o", "new.mha", "--segmentation", "small.mha", "--labels-output", "l.mha"],
            1,
            "has 4 x 5 voxels, but flat.mha has 40 x 48",
        ),
        (
            ["flat.mha", "flat.mha", "-o", "new.mha", "--segmentation", "aside.mha", "--labels-output", "l.mha"],
            1,
            "aside.mha: its header places its voxels elsewhere than flat.mha does; resample it",
        ),
        (["flat.mha", "flat.mha", "-o", "flat.mha"], 2, "--output and SOURCE are the same file"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--metrics", "sad,ssd"], 2, "--metrics ssd is unknown"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--spacing", "-1,1"], 2, "must be positive numbers"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--spacing", "1,1,1"], 2, "does not fit an image of 2 dimensions"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--max-displacement", "0.6"], 2, "--max-displacement 0.6 of the spacing"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--grid-spacing", "1"], 2, "--grid-spacing 1.0 must be at least two voxels"),
        (["flat.mha", "text.mha", "-o", "new.mha"], 1, "text.mha is no image that can be read"),
        (["flat.mha", "flat.mha", "-o", "none/new.mha"], 1, "its folder does not exist"),
        (["flat.mha", "flat.mha", "-o", "new.mha", "--field", "none/f.npz"], 1, "its folder does not exist"),
        (["negative.mha", "flat.mha", "-o", "new.png"], 1, "do not fit into a .png file; use .nii.gz or .mha"),
        (["part.mha", "flat.mha", "-o", "new.png"], 1, "values from 0 to 1 do not fit into a .png file"),
        (["deep.mha", "deep.mha", "-o", "new.png"], 1, "new.png cannot hold a volume"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, words, code, message):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "flat.mha", IMAGE)
    save(tmp_path / "far.mha", IMAGE, origin=(500.0, 0.0))
    save(tmp_path / "deep.mha", VOLUME)
    save(tmp_path / "small.mha", np.zeros((4, 5), dtype=int))
    (tmp_path / "text.mha").write_text("nothing")
    save(tmp_path / "aside.mha", np.zeros(IMAGE.shape, dtype=int), origin=(3.0, 0.0))
    save(tmp_path / "negative.mha", IMAGE - 1000)
    save(tmp_path / "part.mha", IMAGE / IMAGE.max())
    if code == 1 and "overlap" not in message and "dimensions" not in message:
        # Before any work is done.
        monkeypatch.setattr(registration, "register", None)
    result = run(*words, "--levels", 1)
    assert result.exit_code == code and message in " ".join(result.output.split()), result.output
    assert not (tmp_path / "new.mha").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_leave_what_was_found(tmp_path, monkeypatch, number, code):
    save(tmp_path / "a.mha", IMAGE)
    save(tmp_path / "b.mha", TARGET)

    def interrupted(*args, callback, **options):
        def stop(step):
            callback(step)
            signal.raise_signal(number)

        return register(*args, callback=stop, **options)

    monkeypatch.setattr(registration, "register", interrupted)
    result = run(tmp_path / "a.mha", tmp_path / "b.mha", "-o", tmp_path / "c.mha", "--field", tmp_path / "f.npz", "--json")
    assert result.exit_code == code and json.loads(result.stdout)["status"] == "interrupted"
    assert "interrupted; the displacements are the best ones so far" in result.stderr
    found = Registration.load(tmp_path / "f.npz")
    assert len(found.history) == 1 and (tmp_path / "c.mha").exists()
