"""Model files that somebody edited: what training would never have left is refused when they are loaded."""

import numpy as np
import pytest

from maxmargin import GridSVM, HighOrderRankingSVM, MulticlassSVM, SavedFileError, load_model, save_model
from maxmargin.io import read_archive, write_archive

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
RANKER = HighOrderRankingSVM().fit(X, X[:, 0] > 0, groups=np.repeat(np.arange(10), 4))
IMAGES = [RNG.random((4, 5, 2)) for _ in range(5)]
LABELS = [(image[..., 0] > 0.5).astype(int) + (image[..., 1] > 0.5) for image in IMAGES]
GRID = GridSVM(C=5, tol=1e-2).fit(IMAGES, LABELS)


def edited(path, model, parameters, fitted):
    """The model as saved, with other parameters and other arrays or numbers."""
    save_model(model, path)
    archive = read_archive(path, "model")
    archive.content["parameters"].update(parameters)
    arrays = dict(archive.arrays)
    for name, value in fitted.items():
        if isinstance(value, np.ndarray):
            arrays[archive.content["fitted"][name]["array"]] = value
        else:
            archive.content["fitted"][name] = value
    write_archive(path, "model", archive.content, arrays)


@pytest.mark.parametrize(
    ("model", "parameters", "fitted", "message"),
    [
        (RANKER, {}, {"edge_coef_": -np.ones(3)}, "edge_coef_ holds -1, but must not be negative"),
        (RANKER, {}, {"edge_coef_": np.ones(5)}, "edge_coef_ has 5 entries, but pairs have 3 features"),
        (RANKER, {}, {"scale_": np.zeros(3)}, "scale_ holds 0, but must be positive"),
        (RANKER, {"C": -1}, {}, "C=-1 must be a positive number"),
        (RANKER, {"loss": "foo"}, {}, "loss"),
        (GRID, {"connectivity": 5}, {}, "connectivity=5 must be 4 or 8"),
        (GRID, {"pairwise": "free"}, {}, "edge_coef_ has 1 entries, but pairwise='free' needs 9"),
        (GRID, {"pairwise": "foo"}, {}, "pairwise='foo' is unknown"),
        (GRID, {"edge_features": "steps"}, {}, "n_edge_features_ is 1, but connectivity=4 and edge_features='steps' make 2"),
        (GRID, {}, {"edge_coef_": np.ones(4)}, "edge_coef_ has 4 entries"),
        (GRID, {}, {"edge_coef_": -np.ones(1)}, "edge_coef_ has a negative penalty"),
        (GRID, {}, {"pairwise_": np.full((1, 3, 3), 5.0)}, "pairwise_ is not what edge_coef_ says"),
        (GRID, {}, {"classes_": np.array([0, 1, 1])}, "classes_ holds a label twice"),
        (GRID, {"class_weight": {"mapping": [[[1], 2.0]]}}, {}, "class_weight has a key that is neither number nor text"),
        (GRID, {"class_weight": {"mapping": [[1, 2.0, 3]]}}, {}, "class_weight is not of a form"),
    ],
)
def test_what_training_would_not_have_left_is_refused(tmp_path, model, parameters, fitted, message):
    path = tmp_path / "edited.model"
    edited(path, model, parameters, fitted)
    with pytest.raises(SavedFileError, match=r"edited\.model") as caught:
        load_model(path)
    assert message in str(caught.value)


@pytest.mark.parametrize("model", [RANKER, GRID])
def test_a_gap_below_zero_by_rounding_is_none(tmp_path, model):
    """As files of earlier versions may hold."""
    path, dual = tmp_path / "edited.model", np.nextafter(model.primal_objective_, np.inf)
    edited(path, model, {}, {"dual_objective_": float(dual), "dual_gap_": float(model.primal_objective_ - dual)})
    found = load_model(path)
    assert found.dual_gap_ == 0 and found.dual_objective_ == found.primal_objective_ and found.certified_


@pytest.mark.parametrize("model", [RANKER, GRID])
def test_untouched_files_load(tmp_path, model):
    edited(tmp_path / "same.model", model, {}, {})
    same = load_model(tmp_path / "same.model")
    np.testing.assert_array_equal(same.edge_coef_, model.edge_coef_)


@pytest.mark.parametrize("weights", [{0: 1.0, 1: 2.0, 2: 1.0}, {np.int64(0): np.float64(1), 1: 2, 2: 0.5}])
def test_weights_of_classes_are_kept(tmp_path, weights):
    model = GridSVM(class_weight=weights, tol=1e-2).fit(IMAGES, LABELS)
    save_model(model, tmp_path / "grid.model")
    same = load_model(tmp_path / "grid.model")
    assert same.class_weight == weights and all(type(key) is int for key in same.class_weight)
    for a, b in zip(same.predict(IMAGES), model.predict(IMAGES), strict=True):
        np.testing.assert_array_equal(a, b)


def test_weights_of_named_classes_are_kept(tmp_path):
    names = np.where(X[:, 0] > 0, "up", "down")
    save_model(MulticlassSVM(class_weight={"up": 2.0, "down": 1.0}).fit(X, names), tmp_path / "named.model")
    assert load_model(tmp_path / "named.model").class_weight == {"up": 2.0, "down": 1.0}
