"""Known warps are found again; energies fall; nothing folds; classes choose weights; what is saved comes back."""

import json
import sys

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from tests.cases.registration_cases import blobs, error, smooth_field, warped

from maxmargin.io import SavedFileError
from maxmargin.labeling import Energy, minimize, minkowski, why_no_metric
from maxmargin.registration import ControlGrid, Registration, displacement_labels, register, unary_costs
from maxmargin.registration.fields import Frame, compose, jacobian, least_jacobian, sample_field

IMAGE = blobs((72, 80), width=4.0)
FIELD = smooth_field(IMAGE.shape, 1, 5.0, 12.0)
TARGET = warped(IMAGE, FIELD)
VOLUME = blobs((24, 28, 26), width=2.0)


def assert_falling(found):
    """Energies never rise within a level, and steps go on where the last one ended."""
    assert found.history and found.energy == found.history[-1].after
    for step in found.history:
        assert step.after <= step.before and (step.taken > 0) == (step.after < step.before)
    for one, two in zip(found.history, found.history[1:], strict=False):
        if one.level == two.level:
            assert two.before == pytest.approx(one.after, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("metric", ["sad", "mi", "ncc", "dwt", ("sad", "mi", "ncc", "dwt")])
def test_equal_images_stay_where_they_are(metric):
    for image in (IMAGE, VOLUME):
        found = register(image, image, spacing=1.5, metrics=metric, grid_spacing=15.0, steps=2)
        # Finite samples may have more mutual information a little aside.
        assert np.abs(found.displacement).max() <= (0.5 if "mi" in metric else 0.0)
        assert_falling(found)


@pytest.mark.parametrize(
    ("metric", "most"), [("sad", 0.5), ("mi", 0.8), ("ncc", 0.6), ("dwt", 0.5), (("sad", "mi", "ncc", "dwt"), 0.6)]
)
def test_a_known_warp_is_found_again(metric, most):
    found = register(IMAGE, TARGET, spacing=2.0, metrics=metric)
    before = np.linalg.norm(FIELD, axis=-1).mean()
    assert before > 2.0 and error(found, FIELD) < most
    assert found.jacobian().min() > 0 and found.status == "converged" and not found.certified
    assert_falling(found)


def test_a_known_warp_of_a_volume_with_other_contrast_and_voxels_that_are_no_cubes():
    field = smooth_field(VOLUME.shape, 2, 2.5, 6.0)
    target = 255 - warped(VOLUME, field) ** 1.3 / 4
    spacing = np.array([2.0, 1.0, 1.5])
    found = register(VOLUME, target, spacing=spacing, metrics="mi", grid_spacing=12.0, levels=1)
    lengths = np.linalg.norm(field, axis=-1).mean()
    assert error(found, field) < 0.5 * lengths and found.jacobian().min() > 0
    assert_falling(found)


def test_units_do_not_matter():
    one = register(IMAGE, TARGET, spacing=1.0, metrics="sad", steps=2)
    other = register(IMAGE, TARGET, spacing=4.0, metrics="sad", steps=2)
    np.testing.assert_allclose(4 * one.displacement, other.displacement, atol=1e-9)
    # Nor does the number of threads, nor the unit of grey values.
    again = register(3 * IMAGE - 7, 10 * TARGET, spacing=1.0, metrics="sad", steps=2, n_jobs=1)
    np.testing.assert_allclose(one.displacement, again.displacement, atol=1e-6)


def test_large_steps_without_smoothness_do_not_fold():
    rng = np.random.default_rng(0)
    for image, other in ((rng.random((40, 50)), rng.random((40, 50))), (rng.random((16, 18, 20)), rng.random((16, 18, 20)))):
        found = register(image, other, spacing=1.0, metrics="sad", smoothness=0.0, grid_spacing=5.0, shrink=1.0)
        assert least_jacobian(found.displacement, found.spacing) > 0 and np.abs(found.displacement).max() > 1.0
        assert_falling(found)


def test_control_points_as_dense_as_pixels_do_not_fold():
    # Maps without folds are only sampled here: their composition has to be looked at.
    rng = np.random.default_rng(0)
    noise = rng.random((2, 24, 28))
    options = {"smoothness": 0.0, "grid_spacing": 2.0, "shrink": 1.0, "levels": 1, "steps": 8}
    for image, other in (noise, gaussian_filter(noise, (0, 1, 1))):
        found = register(image, other, spacing=1.0, metrics="sad", **options)
        # Between pixels, too.
        assert 0 < least_jacobian(found.displacement, found.spacing) <= found.jacobian().min()
        assert_falling(found)


def test_increments_at_the_limit_do_not_fold():
    # The bound of Choi and Lee: beyond it this one does.
    for shape in ((40, 40), (24, 24, 24)):
        grid = ControlGrid(shape, 1.0, 8.0)
        at = np.indices(grid.n_points).reshape(len(shape), -1)
        worst = np.where(at % 2 == 0, 1.0, -1.0).T
        assert jacobian(grid.spread(0.4 * 8.0 * worst), grid.spacing).min() > 0
        rng = np.random.default_rng(0)
        for _ in range(20):
            field = grid.spread(0.4 * 8.0 * rng.choice([-1.0, 1.0], (grid.n_nodes, len(shape))))
            assert jacobian(field, grid.spacing).min() > 0


def test_images_of_other_sizes_and_places():
    larger = np.pad(IMAGE, ((10, 4), (6, 8)), mode="reflect")
    found = register(larger, IMAGE, spacing=1.0, metrics="sad", offset=(-10.0, -6.0), steps=2)
    assert not found.displacement.any()
    np.testing.assert_allclose(found.warp(larger), IMAGE)
    # Half as many voxels, of twice the size.
    coarse = IMAGE[::2, ::2]
    found = register(coarse, IMAGE, spacing=1.0, source_spacing=2.0, metrics="ncc", steps=2)
    assert error(found, np.zeros_like(FIELD)) < 0.3 and found.warp(coarse).shape == IMAGE.shape


def test_a_field_to_begin_with():
    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad", initial=FIELD, levels=1, steps=2)
    assert error(found, FIELD) < 0.2


def test_maps_are_composed():
    frame = Frame((60, 60), np.array([1.0, 1.0]), np.zeros(2))
    one, two = smooth_field((60, 60), 3, 3.0, 8.0), smooth_field((60, 60), 4, 3.0, 8.0)
    both = compose(one, frame, two)
    at = np.array([[20.0, 31.0], [40.0, 25.0]])
    first = at + sample_field(two, frame, at)
    np.testing.assert_allclose(at + sample_field(both, frame, at), first + sample_field(one, frame, first), atol=1e-12)
    image = blobs((60, 60))
    inside = (slice(8, -8), slice(8, -8))
    # Interpolated once, and twice.
    assert np.abs(warped(image, both) - warped(warped(image, one), two))[inside].mean() < 1.0
    assert np.abs(warped(image, both) - warped(warped(image, two), one))[inside].mean() > 3.0


def test_the_jacobian_is_that_of_a_linear_map():
    matrix = np.array([[1.2, 0.1, 0.0], [-0.2, 0.9, 0.3], [0.05, 0.0, 1.1]])
    spacing = np.array([1.0, 2.0, 0.5])
    places = Frame((5, 6, 7), spacing, np.zeros(3)).places()
    np.testing.assert_allclose(jacobian(places @ (matrix - np.eye(3)).T, spacing), np.linalg.det(matrix))
    flat = Frame((5, 6), spacing[:2], np.zeros(2)).places()
    np.testing.assert_allclose(jacobian(flat @ (matrix[:2, :2] - np.eye(2)).T, spacing[:2]), np.linalg.det(matrix[:2, :2]))


def test_the_chosen_labels_are_those_of_the_energy():
    """One step, put together from the public parts."""
    grid = ControlGrid(IMAGE.shape, 1.0, 16.0)
    labels = displacement_labels(2, 6.4)
    costs = unary_costs(IMAGE, TARGET, grid, labels, metrics=("sad", "ncc"))
    table = minkowski(labels, 1)
    assert why_no_metric(table) is None  # so that expansions are exact
    energy = Energy(0.1 * costs[0] + 10 * costs[1], grid.edges, table, weights=0.05)
    chosen = minimize(energy, "expansion", np.full(grid.n_nodes, 12))
    field = grid.spread(labels[chosen.labels])
    found = register(
        IMAGE,
        TARGET,
        spacing=1.0,
        metrics=("sad", "ncc"),
        weights=(0.1, 10),
        smoothness=0.05,
        levels=1,
        steps=1,
        grid_spacing=16.0,
    )
    assert found.history[0].taken == 1.0
    np.testing.assert_allclose(found.displacement, field, atol=1e-9)
    price = 0.05 * np.abs(np.diff(labels[chosen.labels][grid.edges], axis=1)).sum()
    there = unary_costs(IMAGE, TARGET, grid, [(0, 0)], metrics=("sad", "ncc"), field=field)
    assert found.energy == pytest.approx(0.1 * there[0].sum() + 10 * there[1].sum() + price)
    assert found.history[0].before == pytest.approx(energy.energy(np.full(grid.n_nodes, 12)))


# ---- weights by class --------------------------------------------------------------------------------------------------------


def test_equal_weights_of_all_classes_are_weights_without_classes():
    classes = (IMAGE.mean() < IMAGE).astype(int)
    one = register(IMAGE, TARGET, spacing=1.0, metrics=("sad", "ncc"), weights=(0.2, 5.0), steps=2)
    other = register(IMAGE, TARGET, spacing=1.0, metrics=("sad", "ncc"), weights=[(0.2, 5.0)] * 2, segmentation=classes, steps=2)
    np.testing.assert_allclose(one.displacement, other.displacement, atol=1e-9)
    assert one.energy == pytest.approx(other.energy)


def test_classes_choose_the_metric():
    # Contrast is changed on the right, where only correlation is of use; on the left, shadows mislead it.
    classes = np.zeros(IMAGE.shape, dtype=int)
    classes[:, 40:] = 1
    target = np.where(classes == 1, 255 - TARGET, TARGET)
    weights = [(0.1, 0.0), (0.0, 0.0)]
    found = register(IMAGE, target, spacing=1.0, metrics=("sad", "ncc"), weights=weights, segmentation=classes)
    plain = register(IMAGE, target, spacing=1.0, metrics=("sad", "ncc"), weights=(0.1, 0.0))
    left = (slice(9, 63), slice(10, 24))
    wrong = [np.linalg.norm(one.displacement - FIELD, axis=-1)[left].mean() for one in (found, plain)]
    assert wrong[0] < wrong[1]


# ---- interruptions, files ----------------------------------------------------------------------------------------------------


def test_whatever_interrupts_leaves_the_field_so_far():
    kept = []

    def stop(step):
        kept.append(step)
        if len(kept) == 3:
            raise KeyboardInterrupt

    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad", callback=stop)
    assert found.status == "interrupted" and found.history == kept and found.energy == kept[-1].after
    assert found.displacement.shape == FIELD.shape and found.jacobian().min() > 0
    assert error(found, FIELD) < error(register(IMAGE, TARGET, spacing=1.0, metrics="sad", time_limit=0.0), FIELD)


def test_no_time_is_no_displacement():
    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad", time_limit=0.0)
    assert found.status == "time_limit" and not found.displacement.any() and found.history == []


def test_no_time_leaves_the_field_to_begin_with():
    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad", time_limit=0.0, initial=FIELD)
    np.testing.assert_array_equal(found.displacement, FIELD)


def test_a_field_of_a_coarse_level_does_not_fold_on_the_finest(monkeypatch):
    # Two steep steps, which splines make steeper.
    module = sys.modules["maxmargin.registration.alignment"]
    steep = np.zeros((36, 40, 2))
    steep[..., 0] = -0.95 * 2.0 * np.clip(np.arange(-16, 20), 0, 2)[:, None]
    monkeypatch.setattr(module, "compose", lambda field, *rest: steep if field.shape == steep.shape else field)
    monkeypatch.setattr(module._Level, "data", lambda self, field: 0.0)

    def stop(step):
        assert step.taken == 1.0
        raise KeyboardInterrupt

    coarse, fine = Frame((36, 40), np.full(2, 2.0), np.zeros(2)), Frame(IMAGE.shape, np.ones(2), np.zeros(2))
    splines = sample_field(steep, coarse, fine.places(), order=3)
    assert least_jacobian(steep, coarse.spacing) > 0 > jacobian(splines, fine.spacing).min()
    stopped = register(IMAGE, TARGET, spacing=1.0, metrics="sad", callback=stop)
    assert stopped.status == "interrupted" and stopped.displacement.any() and stopped.jacobian().min() > 0
    assert register(IMAGE, TARGET, spacing=1.0, metrics="sad", steps=1).jacobian().min() > 0


def test_interrupted_while_labels_are_chosen(monkeypatch):
    module, calls = sys.modules["maxmargin.registration.alignment"], []

    def stopped(*args, **options):
        found = minimize(*args, **options)
        calls.append(found)
        if len(calls) == 2:
            found.status = "interrupted"
        return found

    monkeypatch.setattr(module, "minimize", stopped)
    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad")
    assert found.status == "interrupted" and len(calls) == 2 and len(found.history) == 1


def test_what_is_saved_comes_back(tmp_path):
    found = register(IMAGE, TARGET, spacing=(1.0, 1.25), metrics=("sad", "mi"), steps=1, offset=(0.5, 0.0))
    found.save(tmp_path / "found.npz")
    again = Registration.load(tmp_path / "found.npz")
    for name in ("displacement", "spacing", "source_spacing", "offset", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(again, name))
    for name in ("source_shape", "energy", "history", "metrics", "smoothness", "status", "seconds"):
        assert getattr(found, name) == getattr(again, name)
    np.testing.assert_array_equal(found.warp(IMAGE), again.warp(IMAGE))
    assert "72 x 80" in repr(again)
    np.load(tmp_path / "found.npz", allow_pickle=False)["displacement"]


def test_broken_files_are_refused(tmp_path):
    from maxmargin.io import write_archive

    write_archive(tmp_path / "other", "example", {}, {})
    write_archive(tmp_path / "half", "registration", {"energy": 1.0}, {"displacement": np.zeros((4, 4, 2))})
    for name in ("other", "half"):
        with pytest.raises(SavedFileError, match=name):
            Registration.load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("displacement", np.nan, "not finite"), ("offset", np.inf, "not finite"), ("spacing", -1.0, "spacing is not positive")],
)
def test_numbers_that_can_be_none_are_refused(tmp_path, name, value, message):
    found = Registration(np.zeros((4, 5, 2)), np.ones(2), np.ones(2), np.zeros(2), (4, 5), 0.0)
    getattr(found, name)[...] = value
    found.save(tmp_path / "broken.npz")
    with pytest.raises(SavedFileError, match=message):
        Registration.load(tmp_path / "broken.npz")


def test_warping():
    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad", steps=2)
    classes = (IMAGE.mean() < IMAGE).astype(np.int16) * 7
    moved = found.warp(classes, labels=True)
    assert moved.dtype == np.int16 and set(np.unique(moved)) == {0, 7}
    at = np.argwhere(np.ones(IMAGE.shape))[::97].astype(float)
    np.testing.assert_allclose(found.transform_points(at), at + found.displacement.reshape(-1, 2)[::97])
    with pytest.raises(ValueError, match=r"image has shape \(3, 4\), but the source has \(72, 80\)"):
        found.warp(np.zeros((3, 4)))
    for names in (np.full(IMAGE.shape, "bone"), IMAGE + 1j):
        with pytest.raises(ValueError, match=r"image must be numbers.*labels=True"):
            found.warp(names)
    assert set(np.unique(found.warp(np.where(classes, "bone", "skin"), labels=True))) == {"bone", "skin"}
    with pytest.raises(ValueError, match="points has shape"):
        found.transform_points([1.0, 2.0])


# ---- bad input ---------------------------------------------------------------------------------------------------------------

CLASSES = np.zeros(IMAGE.shape, dtype=int)
ZIGZAG = np.zeros_like(FIELD)
ZIGZAG[2:-2, :, 0] = 0.8 * (-1.0) ** np.arange(2, len(FIELD) - 2)[:, None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spacing": None}, "spacing is missing; pass the size of a voxel"),
        ({"spacing": -1.0}, "spacing=-1.0 must be positive"),
        ({"spacing": (1.0, 0.0)}, "must be positive"),
        ({"spacing": (1.0, np.nan)}, "must be positive"),
        ({"spacing": (1.0, 1.0, 1.0)}, "does not fit an image of 2 dimensions; pass 2 positive numbers"),
        ({"source_spacing": -2.0}, "source_spacing=-2.0 must be positive"),
        ({"source": VOLUME}, "source has 3 dimensions, but target has 2"),
        ({"target": VOLUME}, "source has 2 dimensions, but target has 3"),
        ({"source": IMAGE[:2]}, r"source has shape \(2, 80\); pass 2 or 3 dimensions with at least 4"),
        ({"source": np.where(IMAGE > 200, np.nan, IMAGE)}, r"source is NaN or infinite at voxel \(\d+, \d+\)"),
        ({"source": IMAGE.astype(str)}, "source must be an array of numbers.*read_volume"),
        ({"offset": (0.0, 500.0)}, "do not overlap: along axis 1 the source goes from 500 to 579, the target from 0 to 79"),
        ({"offset": (-71.0, 0.0)}, "do not overlap: along axis 0"),
        ({"offset": 3.0}, "offset=3.0 must be 2 finite numbers"),
        ({"segmentation": CLASSES[:5]}, r"segmentation has shape \(5, 80\), but its image has \(72, 80\)"),
        ({"segmentation": 1.0 * CLASSES}, "segmentation must be integers"),
        ({"segmentation": CLASSES - 1}, "segmentation has the class -1"),
        ({"metrics": "ssd"}, "metrics='ssd' is unknown; choose some of 'sad', 'mi', 'ncc', 'dwt'"),
        ({"metrics": ()}, "must name at least one"),
        ({"metrics": ("sad", "sad")}, "each once"),
        ({"weights": (1.0, 2.0)}, r"weights has shape \(2,\), but must have shape \(4,\)"),
        ({"weights": np.ones((2, 4))}, "a row for every class, but segmentation is missing"),
        ({"weights": np.ones((2, 4)), "segmentation": CLASSES + 2}, "weights has 2 rows, but segmentation has classes up to 2"),
        ({"weights": (1, 2, 3, np.nan)}, "weights must be finite"),
        (
            {"max_displacement": 0.5},
            "max_displacement=0.5 of the spacing of control points could fold the image; take at most 0.4",
        ),
        ({"max_displacement": 0}, "must be positive"),
        ({"smoothness": -1.0}, "smoothness=-1.0 must be a finite number"),
        ({"grid_spacing": 1.5, "levels": 1}, "grid_spacing=1.5 must be at least two voxels, 2"),
        ({"levels": 0}, "levels=0 must be an integer between 1 and 12"),
        ({"steps": 2.5}, "steps=2.5 must be an integer"),
        ({"per_axis": 4}, "per_axis=4 must be an odd integer"),
        ({"patch_size": 9}, "patch_size=9 must be a number between 0.5 and 4"),
        ({"shrink": 1.5}, "shrink=1.5 must be a number between"),
        ({"bins": 1}, "bins=1 must be an integer between 2 and 256"),
        ({"initial": FIELD[:3]}, "initial has shape"),
        ({"initial": "field"}, "initial must be numbers"),
        ({"initial": ZIGZAG}, "initial folds between voxels: it goes forth and back; smooth it"),
        ({"source": np.ma.masked_greater(IMAGE, 200)}, "source.*mask"),
        ({"weights": (1, 2, 3, -0.5)}, "weights has a negative one, -0.5, .*0 leaves a metric out"),
        ({"metrics": 3}, "metrics=3 must be names"),
        ({"offset": "ab"}, "offset='ab' must be 2 finite numbers"),
        ({"patch_size": "a"}, "patch_size='a' must be a number"),
        ({"time_limit": np.nan}, "time_limit=nan must be a number of seconds"),
        ({"time_limit": -1.0}, "time_limit=-1.0 must be a number of seconds"),
        ({"time_limit": "5"}, "time_limit='5' must be a number of seconds"),
        ({"grid_spacing": 1e6}, "displacements of 400000, at level 0, lead far beyond the image; lower grid_spacing"),
        ({"grid_spacing": -1.0}, "grid_spacing=-1.0 must be a finite number, at least 0"),
        ({"spacing": (1.0, 1e-6)}, "lead far beyond the image; lower grid_spacing or levels, or check spacing"),
        ({"initial": 30 * FIELD}, r"initial folds at voxel \(\d+, \d+\)"),
    ],
)
def test_what_is_refused(change, message, monkeypatch):
    monkeypatch.setattr(sys.modules["maxmargin.registration.alignment"], "minimize", None)  # before any work
    with pytest.raises(ValueError, match=message):
        register(**{"source": IMAGE, "target": TARGET, "spacing": 1.0, **change})


def test_flat_images_stay():
    found = register(np.ones((20, 20)), np.full((20, 20), 3), spacing=1.0, steps=1)
    assert not found.displacement.any() and np.isfinite(found.energy)


def test_history_is_plain():
    found = register(IMAGE, TARGET, spacing=1.0, metrics="sad", steps=1, levels=1)
    assert json.dumps([vars(step) for step in found.history])
