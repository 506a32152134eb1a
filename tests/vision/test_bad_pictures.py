"""Pictures of other depths, and what is refused: with words that name the argument, the value and the pixel."""

import json
import signal

import numpy as np
import pytest
from tests.cases.command_runner import CliRunner

from maxmargin import vision
from maxmargin.cli.main import main
from maxmargin.vision import (
    ImageError,
    inpaint,
    inpainting_energy,
    read_image,
    read_mask,
    read_seeds,
    segment,
    segmentation_energy,
    side_by_side,
    stereo,
    stereo_energy,
    write_image,
)

pytest.importorskip("skimage", reason="pictures need scikit-image")
Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (12, 15, 3)).astype(float)
GREY = COLOURS[:, :, 0]
MASK = RNG.random((12, 15)) < 0.8


@pytest.mark.parametrize("name", ["deep.png", "deep.tif", "deep.pgm"])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, name):
    values = np.linspace(0, 65535, 1200).reshape(30, 40).astype(np.uint16)
    if name.endswith(".pgm"):  # which Pillow cannot write in every version
        (tmp_path / name).write_bytes(b"P5 40 30 65535\n" + values.astype(">u2").tobytes())
    else:
        Image.fromarray(values).save(tmp_path / name)
    np.testing.assert_allclose(read_image(tmp_path / name, grey=True), values / 257.0)
    np.testing.assert_allclose(read_image(tmp_path / name), np.repeat(values[:, :, None], 3, axis=2) / 257.0)
    assert (read_mask(tmp_path / name) == (values >= 128 * 257)).all()


@pytest.mark.parametrize(("dtype", "kind"), [(np.int32, "32-bit integers"), (np.float32, "32-bit numbers")])
def test_files_whose_white_is_not_known_are_refused(tmp_path, dtype, kind):
    Image.fromarray(np.linspace(0, 1000, 12).reshape(3, 4).astype(dtype)).save(tmp_path / "raw.tif")
    for read in (read_image, read_mask):
        with pytest.raises(ImageError, match=f"raw.tif holds {kind}.*save it with 8 or 16 bits"):
            read(tmp_path / "raw.tif")


@pytest.mark.parametrize(
    ("name", "dtype"), [("s.png", np.uint8), ("s.png", np.uint16), ("s.tif", np.uint16), ("s.tif", np.int32), ("s.png", bool)]
)
def test_seeds_are_numbers_at_any_depth(tmp_path, name, dtype):
    numbers = (np.arange(12).reshape(3, 4) % 3).astype(dtype)
    Image.fromarray(numbers).save(tmp_path / name)
    np.testing.assert_array_equal(read_seeds(tmp_path / name), numbers.astype(int))


def test_seeds_that_are_no_numbers(tmp_path):
    Image.fromarray(np.ones((3, 4), np.float32)).save(tmp_path / "seeds.tif")
    with pytest.raises(ImageError, match=r"seeds.tif holds 32-bit numbers, but seeds are integers"):
        read_seeds(tmp_path / "seeds.tif")


# ---- seeds -------------------------------------------------------------------------------------------------------------------


def test_one_seed_pixel_per_region_is_enough():
    image = np.where(np.arange(20) < 8, 40.0, 190.0) + RNG.normal(0, 5, (12, 20))
    seeds = np.zeros((12, 20), dtype=int)
    seeds[3, 2], seeds[3, 15] = 1, 2
    found = segment(image, seeds=seeds)
    assert found.certified and (found.labels == (np.arange(20) >= 8)).all()


@pytest.mark.parametrize("value", [3, 7, -1, -2, -3])
def test_seeds_out_of_range_are_named(tmp_path, value):
    seeds = np.zeros((12, 15), dtype=int)
    seeds[0, 0], seeds[5, 5], seeds[3, 4] = 1, 2, value
    with pytest.raises(ImageError, match=rf"seeds has the value {value} at pixel \(3, 4\), but there are 2 regions"):
        segmentation_energy(COLOURS, seeds=seeds)


def test_the_command_names_the_seed(tmp_path):
    seeds = np.zeros((12, 15))
    seeds[0, 0], seeds[5, 5], seeds[3, 4] = 1, 2, 7
    write_image(tmp_path / "image.png", COLOURS)
    write_image(tmp_path / "seeds.png", seeds)
    words = ["segment", str(tmp_path / "image.png"), "--seeds", str(tmp_path / "seeds.png"), "-o", str(tmp_path / "new.png")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1 and "seeds has the value 7 at pixel (3, 4)" in result.output
    assert not (tmp_path / "new.png").exists()


# ---- arguments ---------------------------------------------------------------------------------------------------------------

FOUR = np.dstack([COLOURS, GREY])
HOLES = np.where(MASK, 1.0, np.nan)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: segment(FOUR), ImageError, r"image has shape \(12, 15, 4\).*leave out the opacity, image\[:, :, :3\]"),
        (lambda: stereo(FOUR, FOUR, 4), ImageError, r"left has shape \(12, 15, 4\)"),
        (lambda: stereo(COLOURS, FOUR, 4), ImageError, r"right has shape \(12, 15, 4\)"),
        (lambda: inpaint(FOUR, MASK), ImageError, r"image has shape \(12, 15, 4\)"),
        (lambda: segment(COLOURS[:, :, :2]), ImageError, r"image has shape \(12, 15, 2\)"),
        (lambda: segment("photo.png"), ImageError, "image must be an array of numbers.*read_image"),
        (lambda: segment(COLOURS[:1, :1]), ValueError, "n_labels=2 is more than the image has pixels, 1"),
        (lambda: segment(COLOURS[:2, :2], 5), ValueError, "n_labels=5 is more than the image has pixels, 4"),
        (lambda: segment(COLOURS > 128, 9), ValueError, "n_labels=9 is more than the image has different colours, [2-8]$"),
        (lambda: segment(COLOURS, seeds=1.0 * MASK), ImageError, "seeds must be integers of .* but has dtype float64"),
        (lambda: segment(COLOURS, smoothness=-3), ValueError, "smoothness=-3 must be a finite number that is not negative"),
        (lambda: segment(np.where(COLOURS > 3, COLOURS, np.nan)), ImageError, r"image is NaN or infinite at pixel \(\d+, \d+\)"),
        (lambda: stereo(COLOURS, COLOURS, 4, regions="foo"), ValueError, "regions='foo' is unknown; pass 'superpixels'"),
        (lambda: stereo(COLOURS, COLOURS, 4, cost_limit=-1), ValueError, "cost_limit=-1 must be a positive number"),
        (lambda: stereo(COLOURS, COLOURS, 4, cost_limit=np.nan), ValueError, "cost_limit=nan must be a positive number"),
        (lambda: stereo(COLOURS, COLOURS, 4, sigma=0), ValueError, "sigma=0 must be a positive number"),
        (lambda: stereo(COLOURS, COLOURS, 4, smoothness=np.inf), ValueError, "smoothness=inf must be a finite number"),
        (lambda: stereo(COLOURS, COLOURS, 4, edge_factor=-1), ValueError, "edge_factor=-1 must be a finite number"),
        (lambda: inpaint(GREY, MASK, 3.5), ValueError, "n_levels=3.5 must be an integer between 2 and 256"),
        (lambda: inpaint(GREY, MASK, regions="foo"), ValueError, "regions='foo' is unknown"),
        (lambda: inpaint(GREY, HOLES), ImageError, "mask must be booleans or numbers, none of them NaN"),
        (
            lambda: inpaint(np.where(MASK, np.nan, GREY), MASK),
            ImageError,
            r"image is NaN or infinite at pixel \(\d+, \d+\), which mask",
        ),
        (lambda: write_image("new.png", np.full((3, 4), np.nan)), ImageError, "none of them NaN"),
        (lambda: write_image("new.png", np.zeros((3, 4, 5))), ImageError, r"pixels have shape \(3, 4, 5\)"),
        (lambda: write_image("new.foo", GREY), ImageError, "new.foo has no ending of an image"),
        (lambda: side_by_side({}, "new.png"), ValueError, "pictures is empty"),
        (lambda: side_by_side({"a": GREY}, "new.foo"), ImageError, r"new.foo has no ending of a figure; use one of .*\.png"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, call, error, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        call()
    assert not list(tmp_path.iterdir())


def test_images_from_zero_to_one_are_mentioned():
    for call in (
        lambda: stereo_energy(COLOURS / 255, COLOURS, 4),
        lambda: inpainting_energy(np.where(MASK, GREY / 255, np.nan), MASK),
        lambda: segmentation_energy(GREY / 255),
    ):
        with pytest.warns(UserWarning, match=r"(left|image) has no values above [01].*white is 255 here; multiply it by 255"):
            call()


@pytest.mark.parametrize("method", ["expansion", "swap", "bp", "trws", "cooccurrence", "parsimonious"])
def test_every_method_of_the_help_ends_with_an_image(folder, method):
    words = ["stereo", "a.png", "b.png", "-d", "8", "--no-regions", "--method", method, "--json"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0 and f'"method": "{method}"' in result.output, result.output
    assert (folder / "disparity.png").exists()


def test_one_channel_is_grey():
    one = GREY[:, :, None]
    np.testing.assert_array_equal(segmentation_energy(one).unary, segmentation_energy(GREY).unary)
    np.testing.assert_array_equal(stereo_energy(one, one, 4).unary, stereo_energy(GREY, GREY, 4).unary)
    np.testing.assert_array_equal(inpainting_energy(one, MASK).unary, inpainting_energy(GREY, MASK).unary)


def test_what_is_under_holes_does_not_count():
    blank = np.where(MASK, GREY, np.nan)
    for regions in (None, "superpixels"):
        assert np.isfinite(inpaint(blank, MASK, 8, regions=regions)[0]).all()
    np.testing.assert_array_equal(inpainting_energy(blank, MASK).unary, inpainting_energy(GREY, MASK).unary)


def test_without_smoothness_regions_cost_nothing():
    assert stereo(COLOURS, COLOURS, 4, smoothness=0).energy == 0
    assert not inpainting_energy(GREY, MASK, smoothness=0, regions="superpixels").cliques


# ---- commands ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", COLOURS)
    write_image(tmp_path / "b.png", np.roll(COLOURS, -6, axis=1))
    write_image(tmp_path / "mask.png", 255 * MASK)
    write_image(tmp_path / "flat.png", np.full((12, 15), 90))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["stereo", "a.png", "a.png", "-o", "out.xyz"], 1, "out.xyz has no ending of an image"),
        (["stereo", "a.png", "a.png", "-o", "out.png", "--figure", "f.foo"], 1, "f.foo has no ending of a figure"),
        (["inpaint", "a.png", "mask.png", "--figure", "f.foo"], 1, "f.foo has no ending of a figure"),
        (["segment", "a.png", "--figure", "f.foo"], 1, "f.foo has no ending of a figure"),
        (["stereo", "a.png", "a.png", "-d", "400"], 2, "--disparities 400 must be between 1 and the width of the images, 15"),
        (["stereo", "a.png", "a.png", "-d", "4", "--smoothness", "nan"], 2, "--smoothness nan must be a finite number"),
        (["stereo", "a.png", "a.png", "-d", "4", "--cost-limit", "-1"], 2, "--cost-limit -1.0 must be a positive number"),
        (["stereo", "a.png", "b.png", "-d", "4", "--method", "trws"], 2, "--method trws knows no superpixels; add --no-regions"),
        (["inpaint", "a.png", "mask.png", "--regions", "--method", "swap"], 2, "--method swap knows no superpixels"),
        (["segment", "a.png", "--method", "magic"], 2, "'magic' is not one of 'expansion', 'swap'"),
        (["segment", "flat.png"], 2, "-k 2 is more than the image has different colours, 1"),
        (["segment", "a.png", "-k", "181"], 2, "-k 181 is more than the image has pixels, 180"),
        (["segment", "a.png", "-k", "300"], 2, "300 is not in the range 2<=x<=256"),
        (["segment", "a.png", "-k", "1"], 2, "'-k'"),
        (["inpaint", "a.png", "mask.png", "--levels", "1"], 2, "'--levels'"),
    ],
)
def test_commands_refuse_before_the_work(folder, monkeypatch, words, code, message):
    before = sorted(folder.iterdir())
    if code == 1:  # names of files are looked at before anything else
        for name in ("stereo", "inpaint", "segment"):
            monkeypatch.setattr(vision, name, lambda *args, **options: pytest.fail("the work began"))
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code and message in result.output, result.output
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("stereo", ["a.png", "b.png", "-d", "4"]),
        ("stereo", ["a.png", "b.png", "-d", "4", "--method", "parsimonious"]),
        ("inpaint", ["a.png", "mask.png", "--levels", "8"]),
        ("segment", ["a.png", "-k", "3"]),
    ],
)
def test_signals_end_the_work_and_keep_what_there_is(folder, monkeypatch, command, words, number, code):
    ordinary = getattr(vision, command)

    def interrupted(*args, callback, **options):
        return ordinary(*args, callback=lambda energy, bound: signal.raise_signal(number), **options)

    monkeypatch.setattr(vision, command, interrupted)
    result = CliRunner().invoke(main, [command, *words, "-o", "new.png", "--json"])
    assert result.exit_code == code, result.output
    assert (
        json.loads(result.stdout)["status"] == "interrupted" and "interrupted; the image is the best one so far" in result.stderr
    )
    assert read_image("new.png").shape == COLOURS.shape


def test_a_time_limit_is_mentioned(folder):
    result = CliRunner().invoke(main, ["stereo", "a.png", "a.png", "-d", "4", "-o", "new.png", "--time-limit", "1e-6"])
    assert result.exit_code == 0 and "stopped by the time limit" in result.stderr


def test_too_few_disparities_are_mentioned(folder):

    few = CliRunner().invoke(main, ["stereo", "a.png", "b.png", "-d", "7", "-o", "new.png", "--no-regions"])
    assert few.exit_code == 0 and "of the pixels have the largest disparity, 6; if things are nearer, raise -d" in few.stderr
    enough = CliRunner().invoke(main, ["stereo", "a.png", "b.png", "-d", "10", "-o", "new.png", "--no-regions"])
    assert enough.exit_code == 0 and "largest disparity" not in enough.stderr
