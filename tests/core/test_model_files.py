"""Estimators in files: the same predictions, whatever can be saved."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.cases.model_file_cases import GRADES, MODELS, QID, SEQUENCES, WORDS, MyLoss, TwoSigns, X, public, same

import maxmargin
from maxmargin import RankingSVM, SavedFileError, StructuredSVM, load_model, save_model
from maxmargin.core import read_model
from maxmargin.core.model_files import _all_classes
from maxmargin.core.solvers import ConvergenceWarning, OneSlackCuttingPlane
from maxmargin.io import read_archive, write_archive
from maxmargin.ranking import NDCG


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(tmp_path, name):
    model, inputs, scored = MODELS[name]
    path = tmp_path / "m.model"
    save_model(model, path, about={"data": "x", "n": [1, 2.5]})
    objects = {key: value for key, value in model.get_params(deep=False).items() if key == "structure"}
    loaded, about, version = read_model(path, **objects)
    assert type(loaded) is type(model) and about == {"data": "x", "n": [1, 2.5]} and version == maxmargin.__version__
    same(loaded.predict(*inputs), model.predict(*inputs))
    if hasattr(model, "decision_function"):
        same(loaded.decision_function(*inputs), model.decision_function(*inputs))
    assert loaded.score(*scored) == model.score(*scored)
    assert public(loaded).keys() == public(model).keys() - model.not_saved
    for key, value in public(loaded).items():
        same(getattr(model, key), value)
    assert repr(loaded) == repr(model)
    assert loaded.history_ == model.history_
    again = tmp_path / "again.model"
    save_model(loaded, again, about=about)
    assert again.read_bytes() == path.read_bytes()
    with np.load(path) as opened:
        same(opened["coef_"], np.ascontiguousarray(model.coef_))


def test_every_class_is_tried():
    ours = _all_classes().keys() & set(maxmargin.__all__)
    assert {type(model).__name__ for model, *_ in MODELS.values()} == ours
    assert ours == {name for name in maxmargin.__all__ if hasattr(getattr(maxmargin, name), "holds")}


def test_a_loaded_model_trains_again(tmp_path):
    for name in ("grades", "dictionaries"):
        model, _, scored = MODELS[name]
        save_model(model, tmp_path / "m")
        loaded = load_model(tmp_path / "m")
        assert not hasattr(loaded, "_earlier")
        before = loaded.coef_.copy()
        np.testing.assert_array_equal(loaded.fit(*scored).coef_, before)
    # Arrays after dictionaries: no names are left behind.
    assert not hasattr(loaded.fit(SEQUENCES, WORDS), "feature_names_in_")
    loaded.predict(SEQUENCES)


def test_column_names(tmp_path):
    model = RankingSVM().fit(X, GRADES)
    model.feature_names_in_ = np.array(["a", "b", "c", "d", "äöü"], dtype=object)  # as scikit-learn takes them from a frame
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    same(loaded.feature_names_in_, model.feature_names_in_)


def test_what_was_not_reached_stays_honest(tmp_path):
    with pytest.warns(ConvergenceWarning):
        model = RankingSVM(C=1e4, max_iter=2).fit(X, GRADES, QID)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.dual_gap_ == model.dual_gap_ > 1e-3 * model.primal_objective_ and loaded.n_iter_ == 2


def test_objects_that_files_cannot_hold(tmp_path):
    path = tmp_path / "m"
    model = RankingSVM(MyLoss()).fit(X, GRADES)
    save_model(model, path)
    with pytest.raises(SavedFileError, match=r"m: was trained with loss=MyLoss\(\), an object.*load_model\(path, loss=\.\.\.\)"):
        load_model(path)
    assert load_model(path, loss=MyLoss()).score(X, GRADES) == model.score(X, GRADES)
    with pytest.raises(ValueError, match=r"C was passed, but .*m holds it already"):
        load_model(path, loss=MyLoss(), C=3)
    save_model(RankingSVM(solver=OneSlackCuttingPlane(callback=print, tol=0.5)).fit(X, GRADES), path)
    with pytest.raises(SavedFileError, match="was trained with solver=OneSlack"):
        load_model(path)
    save_model(RankingSVM(NDCG(lambda position: 1 / position)).fit(X, GRADES), path)
    with pytest.raises(SavedFileError, match="was trained with loss=NDCG"):
        load_model(path)


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(NotFittedError):
        save_model(RankingSVM(), path)

    class Own(RankingSVM):
        pass

    with pytest.raises(TypeError, match="Own cannot be saved; files hold ApproximateRankingSVM, "):
        save_model(Own().fit(X, GRADES), path)
    with pytest.raises(NotFittedError):
        save_model(StructuredSVM(TwoSigns()), path)
    model = RankingSVM().fit(X, GRADES)
    model.extra_ = object()
    with pytest.raises(TypeError, match="extra_ is a object, which model files cannot hold"):
        save_model(model, path)
    model.extra_ = np.array([1, "a"], dtype=object)
    with pytest.raises(TypeError, match="extra_ is an array of dtype object"):
        save_model(model, path)
    del model.extra_
    with pytest.raises((TypeError, ValueError)):
        save_model(model, path, about={"nan": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_callback_is_not_part_of_a_model(tmp_path):
    save_model(RankingSVM(callback=lambda history: None).fit(X, GRADES), tmp_path / "m")
    assert load_model(tmp_path / "m").callback is None


def test_loading_in_a_new_process(tmp_path):
    save_model(MODELS["ranking"][0], tmp_path / "m")
    code = f"import maxmargin; m = maxmargin.load_model({str(tmp_path / 'm')!r}); print(m.C, m.coef_.tolist(), m.loss)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    model = MODELS["ranking"][0]
    assert out.strip() == f"{model.C} {model.coef_.tolist()} ap"


# ---- files of earlier versions ------------------------------------------------------------------------------------------------


def without(model, path, *names, **parameters):
    """The file of a model without some attributes, and with other parameters."""
    save_model(model, path)
    archive = read_archive(path, "model")
    content = dict(archive.content)
    content["fitted"] = {name: value for name, value in content["fitted"].items() if name not in names}
    content["parameters"] = {
        name: value
        for name, value in (content["parameters"] | parameters).items()
        if name not in ("pairwise", "class_weight", "inference")
    }
    write_archive(path, "model", content, archive.arrays)


def test_graphs_from_before_there_were_classes(tmp_path):
    model, (inputs,), _ = MODELS["graph"]
    without(model, tmp_path / "old", "classes_", "n_edge_features_", "pairwise_", "certified_objective_", "oracle_gap_")
    loaded = load_model(tmp_path / "old")
    for name in ("classes_", "n_edge_features_", "pairwise_", "coef_", "edge_coef_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    same(loaded.predict(inputs), model.predict(inputs))
    assert loaded.certified_ == model.certified_
    # A file that is damaged, not old.
    without(model, tmp_path / "damaged", "classes_")
    with pytest.raises(SavedFileError, match="classes_ is missing; copy or write the file again"):
        load_model(tmp_path / "damaged")
