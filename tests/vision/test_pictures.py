"""Pictures in, pictures out: known scenes, real files, the commands, and what they refuse."""

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from tests.cases.command_runner import CliRunner

from maxmargin.cli.main import main
from maxmargin.labeling import Cliques, Energy, Metric, PnPotts, minimize
from maxmargin.vision import (
    ImageError,
    inpaint,
    inpainting_energy,
    read_image,
    read_mask,
    segment,
    segmentation_energy,
    stereo,
    stereo_energy,
    superpixels,
    write_image,
)
from maxmargin.vision.mean_shift import region_cliques
from maxmargin.vision.stereo_matching import merged, region_of_pixels

pytest.importorskip("skimage", reason="pictures need scikit-image")

# The function of the same name hides the module.
SEARCH = importlib.import_module("maxmargin.vision.stereo_matching")


@pytest.fixture
def scene():
    """A square that is nearer than what is behind it: left image, right image, disparities."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, 256, (40, 60, 3)).astype(float)
    depth = np.full((40, 60), 2)
    depth[10:30, 20:40] = 5
    rows, columns = np.indices(depth.shape)
    return right[rows, np.maximum(columns - depth, 0)], right, depth


def test_disparities_of_a_known_scene(scene):
    left, right, depth = scene
    for regions in (None, "superpixels"):
        found = stereo(left, right, 8, regions=regions)
        wrong = (found.labels != depth)[:, 8:]
        assert wrong.mean() < 0.02
        assert found.energy <= stereo_energy(left, right, 8, regions=regions).energy(depth) + 1e-6


def test_the_stereo_energy_is_what_the_documents_say(scene):
    """Colours in L1, steps by contrast, regions by their variance; term by term."""
    left, right, depth = scene
    regions = np.arange(left[:, :, 0].size).reshape(depth.shape) // 300
    energy = stereo_energy(left, right, 8, regions=regions, limit=2, smoothness=3.0, sigma=50.0, edge=30.0, edge_factor=4.0)
    unary, pairwise, cliques = energy.parts(depth)
    grey = left.mean(axis=2)
    steps = 0.0
    for y in range(40):
        for x in range(60):
            for dy, dx in ((0, 1), (1, 0)):
                if y + dy < 40 and x + dx < 60:
                    factor = 4.0 if abs(grey[y, x] - grey[y + dy, x + dx]) < 30 else 1.0
                    steps += factor * 3.0 * min(2, abs(depth[y, x] - depth[y + dy, x + dx]))
    of_regions = sum(
        np.exp(-grey[regions == k].var() / 2500) * 3.0 * min(2, np.ptp(depth[regions == k])) for k in range(regions.max() + 1)
    )
    assert unary >= 0 and pairwise == pytest.approx(steps) and cliques == pytest.approx(of_regions)
    assert energy.unary.reshape(40, 60, 8)[5, 20, 3] == np.abs(left[5, 20] - right[5, 17]).sum()
    assert energy.unary.reshape(40, 60, 8)[5, 1, 3] == np.abs(left[5, 3] - right[5, 0]).sum()


def test_holes_are_filled_from_their_border():
    rng = np.random.default_rng(0)
    clean = np.repeat(np.repeat([[50.0, 200.0]], 20, axis=1), 30, axis=0)
    mask = np.ones(clean.shape, dtype=bool)
    mask[10:16, 5:35] = False
    noisy = np.where(mask, clean + rng.normal(0, 10, clean.shape), 0.0)
    pixels, found = inpaint(noisy, mask, 52)
    assert np.abs(pixels - clean).mean() < 5
    assert np.abs(pixels - clean)[~mask].mean() < 10
    assert (np.diff(found.history) < 0).all()
    # A hole costs nothing by itself.
    assert (inpainting_energy(noisy, mask).unary[~mask.ravel()] == 0).all()


def test_two_regions_are_proved_and_seeds_are_kept():
    rng = np.random.default_rng(0)
    image = np.where(np.arange(40)[:, None] < 17, 60.0, 180.0) + rng.normal(0, 25, (40, 30))
    found = segment(image)
    assert found.certified and found.method == "mincut"
    top = found.labels[0, 0]
    assert ((found.labels == top) == (np.arange(40)[:, None] < 17)).mean() > 0.99
    seeds = np.zeros((40, 30), dtype=int)
    seeds[2, 3:20], seeds[35, 3:20] = 1, 2
    marked = segment(image, seeds=seeds)
    assert (marked.labels[2, 3:20] == 0).all() and (marked.labels[35, 3:20] == 1).all()
    # Also against all colours around it.
    seeds[36, 25] = 1
    assert segment(image, seeds=seeds).labels[36, 25] == 0
    with pytest.raises(ImageError, match="seeds mark no pixel of region 3"):
        segmentation_energy(image, 3, seeds=seeds)


def test_files_and_commands(tmp_path, scene):
    left, right, depth = scene
    for name, pixels in (("left.png", left), ("right.png", right), ("mask.png", 255.0 * (depth == 2))):
        write_image(tmp_path / name, pixels)
    np.testing.assert_array_equal(read_image(tmp_path / "left.png"), left)
    assert (read_mask(tmp_path / "mask.png") == (depth == 2)).all()
    calls = {
        "disparity.png": ["stereo", "left.png", "right.png", "-d", "8"],
        "filled.png": ["inpaint", "left.png", "mask.png", "--levels", "16", "--regions"],
        "regions.png": ["segment", "left.png", "-k", "3", "--method", "swap"],
    }
    for output, (command, *rest) in calls.items():
        files = [str(tmp_path / word) if word.endswith(".png") else word for word in rest]
        more = ["-o", str(tmp_path / output), "--figure", str(tmp_path / f"figure_{output}"), "--json"]
        result = CliRunner().invoke(main, [command, *files, *more])
        assert result.exit_code == 0, result.output
        answer = json.loads(result.stdout)
        assert answer["energy"] > 0 and answer["output"].endswith(output)
        assert read_image(tmp_path / output).shape == (40, 60, 3)
        assert read_image(tmp_path / f"figure_{output}").shape[1] > 300
    disparity = read_image(tmp_path / "disparity.png", grey=True) * 7 / 255
    assert (np.rint(disparity) == depth)[:, 8:].mean() > 0.98


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["stereo", "a.png", "small.png"], 1, "left has 30 x 20 pixels, but right has 10 x 10"),
        (["stereo", "a.png", "a.png", "-d", "31"], 2, "must be between 1 and the width of the images, 30"),
        (["stereo", "a.png", "text.png"], 1, "text.png is no image"),
        (["stereo", "a.png", "a.png", "--method", "magic"], 2, "'magic' is not one of 'expansion'"),
        (["inpaint", "a.png", "bright.png"], 1, "mask has no holes"),
        (["inpaint", "a.png", "small.png"], 1, "mask has shape (10, 10), but the image has shape (20, 30)"),
        (["inpaint", "a.png", "dark.png", "--levels", "2"], 1, "mask knows no pixel at all"),
        (["segment", "a.png", "-k", "1"], 2, "1 is not in the range 2<=x<=256"),
        (["segment", "a.png", "-o", "regions.txt"], 1, "regions.txt has no ending of an image"),
        (["segment", "a.png", "-o", "a.png"], 2, "a.png"),
    ],
)
def test_bad_pictures_leave_nothing_behind(tmp_path, words, code, message):
    for name, pixels in {
        "a.png": np.full((20, 30), 90),
        "small.png": np.zeros((10, 10)),
        "bright.png": np.full((20, 30), 255),
        "dark.png": np.zeros((20, 30)),
    }.items():
        write_image(tmp_path / name, pixels)
    (tmp_path / "text.png").write_text("no image")
    before = sorted(tmp_path.iterdir())
    words = [str(tmp_path / word) if "." in word and word[0] != "-" else word for word in words]
    if "-o" not in words:
        words += ["-o", str(tmp_path / "new.png")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code and message in result.output, result.output
    assert sorted(tmp_path.iterdir()) == before


def test_regions_do_not_make_the_energy_of_the_rest_other(scene):
    """Moves that know the regions start where moves that do not have ended, and only go down."""
    left, right, _ = scene
    energy = stereo_energy(left, right, 8, region_scale=50.0)
    without = minimize(stereo_energy(left, right, 8, regions=None), "expansion")
    assert stereo(left, right, 8, region_scale=50.0).energy <= energy.energy(without.labels) + 1e-9


def test_regions_are_merged_to_nodes_of_the_same_energy():
    """One label for each region costs the same, before and after; pixels in no region are their own, regions may overlap."""
    rng = np.random.default_rng(0)
    members = [[0, 1, 4], [2, 3, 6, 7], [9, 10], [10, 11]]
    cliques = [Cliques(members[:2], PnPotts(5.0)), Cliques(members[2:], PnPotts(3.0))]
    energy = Energy.grid(rng.integers(0, 9, (3, 4, 3)), "linear", weights=rng.random((2, 3, 4)), cliques=cliques)
    owners = region_of_pixels(energy)
    assert len({owners[i] for i in (0, 1, 4)}) == 1 and owners[2] == owners[7] and owners[10] == owners[11] != owners[9]
    assert len(set(owners)) == owners.max() + 1 == 6
    small = merged(energy, owners)
    assert len(small.edges) < len(energy.edges) and (small.edges[:, 0] != small.edges[:, 1]).all()
    for _ in range(20):
        labels = rng.integers(0, 3, small.n_nodes)
        assert small.energy(labels) == pytest.approx(sum(energy.parts(labels[owners])[:2]))


def test_regions_that_count_much_are_moved_as_a_whole():
    """The search ends no higher than the best labels that are the same in every region; without these it does."""
    left, right = np.random.default_rng(1).integers(0, 256, (2, 16, 24, 3))
    regions = np.arange(16)[:, None] // 8 * 4 + np.arange(24) // 6
    energy = stereo_energy(left, right, 8, regions=regions, region_scale=50.0)
    owners = region_of_pixels(energy)
    flat = energy.energy(minimize(merged(energy, owners), "expansion").labels[owners])
    first = minimize(energy.replaced(cliques=()), "expansion").labels
    assert minimize(energy, "cooccurrence", init=first).energy > flat
    assert stereo(left, right, 8, regions=regions, region_scale=50.0).energy <= flat


def test_a_time_limit_is_for_the_whole_search(scene):
    left, right, _ = scene
    energy = stereo_energy(left, right, 8)
    found = stereo(left, right, 8, time_limit=1e-6)
    assert found.status == "time_limit" and found.method == "expansion"
    assert found.energy == energy.energy(found.labels) and found.guarantee is None and found.labels.shape == (40, 60)


@pytest.mark.parametrize("what", ["stereo", "inpaint"])
def test_the_second_half_of_a_search_gets_what_is_left_of_the_time(scene, monkeypatch, what):
    """The first two of three searches say that they took 4 of 10 seconds each."""
    left, right, depth = scene
    calls = []

    def slow(energy, method, **options):
        calls.append((method, options.get("time_limit")))
        found = minimize(energy, method, **options)
        return replace(found, seconds=4.0)

    monkeypatch.setattr(SEARCH, "minimize", slow)
    if what == "stereo":
        found = stereo(left, right, 8, time_limit=10.0)
    else:
        _, found = inpaint(left[:, :, 0], depth == 2, 8, regions="superpixels", time_limit=10.0)
    assert found.method == "cooccurrence"
    assert calls == [("expansion", 10.0), ("expansion", pytest.approx(6.0)), ("cooccurrence", pytest.approx(2.0))]
    calls.clear()
    stereo(left, right, 8, time_limit=5.0)
    # Nothing is left, but no time at all would be refused.
    assert calls[:2] == [("expansion", 5.0), ("expansion", pytest.approx(1.0))] and 0 < calls[2][1] < 0.01
    calls.clear()
    found = stereo(left, right, 8)
    assert calls == [("expansion", None), ("expansion", None), ("cooccurrence", None)] and found.status == "converged"


def test_segments_have_the_whole_time(scene, monkeypatch):
    """One search has all of it."""
    calls = []

    def watched(energy, method, **options):
        calls.append((method, options.get("time_limit")))
        return minimize(energy, method, **options)

    monkeypatch.setattr(SEARCH, "minimize", watched)
    assert segment(scene[0], 3, time_limit=10.0).status == "converged"
    assert calls == [("auto", 10.0)]


def test_names_of_regions(scene):
    left, right, _ = scene
    for name, method in (("superpixels", "mean_shift"), ("felzenszwalb", "felzenszwalb")):
        by_name, given = (stereo_energy(left, right, 8, regions=regions) for regions in (name, superpixels(left, method)))
        np.testing.assert_array_equal(by_name.cliques[0].nodes, given.cliques[0].nodes)
    with pytest.raises(ValueError, match="regions='slic' is unknown; pass 'superpixels', 'felzenszwalb'"):
        stereo_energy(left, right, 8, regions="slic")


def test_regions_of_which_nothing_is_known_are_cliques_too():
    regions = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
    found = region_cliques(np.arange(8.0).reshape(2, 4), regions, Metric("linear"), 10.0, known=regions == 0)
    np.testing.assert_allclose(found.weights, [np.exp(-4.25 / 100), 1.0])
