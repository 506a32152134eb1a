"""Estimators in files: the same predictions, and a clear refusal of every file that is not one."""

import io
import json
import os
import pickle
import stat
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import maxmargin
from maxmargin import (
    ApproximateRankingSVM,
    ChainSVM,
    DirectLossMinimizer,
    GraphSVM,
    GridSVM,
    HighOrderRankingSVM,
    LatentGraphSVM,
    LatentGridSVM,
    LatentRankingSVM,
    LatentStructuredSVM,
    MulticlassSVM,
    RankingSVM,
    SavedFileError,
    StructuredSVM,
    TreeSVM,
    load_model,
    save_model,
)
from maxmargin.estimators.model_files import _classes, read_model
from maxmargin.losses import NDCG, AveragePrecision
from maxmargin.solvers import BCFW, ConvergenceWarning, OneSlackCuttingPlane
from maxmargin.storage import read_archive, replacing, write_archive
from maxmargin.structures import LatentClasses, Structure, Tree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
GRADES = (X[:, 0] + 0.5 * RNG.normal(size=60) > 0).astype(int) + (X[:, 1] > 1)
QID = np.repeat(np.arange(6), 10)
SEQUENCES = [RNG.normal(size=(n, 3)) for n in (4, 1, 6, 5)]
WORDS = [np.where(x[:, 0] > 0, "up", "down") for x in SEQUENCES]
DICTIONARIES = [[{"word": f"w{k}", "size": float(v)} for k, v in enumerate(x[:, 0])] for x in SEQUENCES]
TREES = [Tree(x, np.arange(-1, len(x) - 1)) for x in SEQUENCES]
GRAPHS = [(x, np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in SEQUENCES]


class MyLoss(AveragePrecision):
    def __repr__(self):
        return "MyLoss()"


class TwoSigns(Structure):
    """The sign of one number, written out."""

    def joint_feature(self, x, y):
        return y * x

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return max((-1, 1), key=lambda y: b * self.loss(truth, y) + a * weights @ self.joint_feature(x, y))


def fitted_models():
    """Name, estimator, arguments of predict, arguments of score."""
    yield "ranking", RankingSVM("ap", 10).fit(X, GRADES, QID), (X,), (X, GRADES, QID)
    yield "sparse", RankingSVM("mrr", 3).fit(sparse.csr_array(X), GRADES), (sparse.csr_array(X),), (X, GRADES)
    yield "grades", RankingSVM(NDCG(), grades=True, warm_start=True).fit(X, GRADES, QID), (X,), (X, GRADES, QID)
    yield "accuracy", RankingSVM("accuracy", relevance_threshold=1).fit(X, GRADES), (X,), (X, GRADES)
    yield "approximate", ApproximateRankingSVM("ap", 10).fit(X, GRADES), (X,), (X, GRADES)
    yield "direct", DirectLossMinimizer("ap").fit(X, GRADES, QID), (X,), (X, GRADES, QID)
    yield "neighbours", HighOrderRankingSVM(n_neighbors=2).fit(X, GRADES), (X,), (X, GRADES)
    bags = X.reshape(12, 5, 5)
    yield "latent", LatentRankingSVM(C=5, start=np.ones(5)).fit(bags, np.arange(12) % 3 == 0), (bags,), (bags, np.arange(12) % 3)
    yield "binary", MulticlassSVM(costs=[[0, 2], [1, 0]]).fit(X, GRADES > 0), (X,), (X, GRADES > 0)
    names = np.array(["none", "some", "all"])
    yield "strings", MulticlassSVM().fit(X, names[GRADES]), (X,), (X, names[GRADES])
    objects = names[GRADES].astype(object)
    yield "objects", MulticlassSVM(fit_intercept=False).fit(X, objects), (X,), (X, objects)
    yield "chain", ChainSVM(C=10).fit(SEQUENCES, WORDS), (SEQUENCES,), (SEQUENCES, WORDS)
    bare = ChainSVM(fit_intercept=False, solver=BCFW(steps="pairwise", tol=1e-2)).fit(SEQUENCES, WORDS)
    yield "no intercept", bare, (SEQUENCES,), (SEQUENCES, WORDS)
    yield "dictionaries", ChainSVM(C=10).fit(DICTIONARIES, WORDS), (DICTIONARIES,), (DICTIONARIES, WORDS)
    yield "tree", TreeSVM().fit(TREES, WORDS), (TREES,), (TREES, WORDS)
    signs = np.where(GRADES > 0, 1, -1)
    yield "structured", StructuredSVM(TwoSigns(), bounds=[-1, 1]).fit(X, signs), (X,), (X, signs)
    kinds = GRADES[:12] > 0
    yield "latent structured", LatentStructuredSVM(LatentClasses(2)).fit(bags, kinds), (bags,), (bags, kinds)
    labels = [(x[:, 0] > 0).astype(int) for x in SEQUENCES]
    yield "graph", GraphSVM(tol=1e-2).fit(GRAPHS, labels), (GRAPHS,), (GRAPHS, labels)
    free = GraphSVM(pairwise="free", tol=1e-2).fit(GRAPHS, WORDS)
    yield "free graph", free, (GRAPHS,), (GRAPHS, WORDS)
    masks = [np.array([["in", "out", "rim"], ["in", "in", "rim"]]), np.array([["rim", "out"], ["in", "out"]])]
    images = [(y[..., None] == ["in", "rim"]).astype(float) for y in masks]
    grid = GridSVM(edge_features="steps", pairwise=["symmetric", "antisymmetric"]).fit(images, masks)
    yield "grid", grid, (images,), (images, masks)
    hidden = [(*graph, np.ones((len(graph[1]), 1)), 1) for graph in GRAPHS if len(graph[0]) > 1]
    seen = [word[:-1] for word in WORDS if len(word) > 1]
    latent = LatentGraphSVM(n_states=1, n_hidden_states=2, tol=1e-2).fit(hidden, seen)
    yield "latent graph", latent, (hidden,), (hidden, seen)
    latent = LatentGridSVM(n_states=[1, 2, 1], edge_features="steps", tol=1e-2).fit(images, masks)
    yield "latent grid", latent, (images,), (images, masks)


MODELS = {name: rest for name, *rest in fitted_models()}


def same(a, b):
    """Equal in type and in every bit."""
    assert type(a) is type(b), (a, b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


def public(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


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
    ours = {name for name, cls in _classes().items() if cls.__module__.startswith("maxmargin.")}
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


# ---- writing ------------------------------------------------------------------------------------------------------------------


def test_writing_in_one_step(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)

    def fail():
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_was_left_behind_is_swept(tmp_path):
    """A run that was killed leaves a temporary behind; the next one takes it away, but not those that may be in use."""
    path, hour = tmp_path / "file", 3600
    kept = [".file.0123456789ab.tmp", ".file.other.tmp", ".file2.0123456789ab.tmp", "file.0123456789ab.tmp", ".file.mine.tmp.old"]
    swept = [".file.ba9876543210.tmp", ".file.000000000000.tmp"]
    for name, age in [(kept[0], hour // 2), *((name, 10 * hour) for name in kept[1:]), *((name, 2 * hour) for name in swept)]:
        (tmp_path / name).write_bytes(b"part")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with replacing(path) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "file"]) and path.read_bytes() == b"new"


def test_mode_links_and_places(tmp_path):
    before = os.umask(0o027)
    try:
        with replacing(tmp_path / "new") as file:
            file.write(b"x")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    finally:
        os.umask(before)
    (tmp_path / "link").symlink_to("new")
    with replacing(tmp_path / "link") as file:
        file.write(b"through the link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "new").read_bytes() == b"through the link"
    with replacing("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for place, error in (("none/file", FileNotFoundError), (".", IsADirectoryError)):
        with pytest.raises(error, match="folder"), replacing(tmp_path / place):
            pass
    with pytest.raises(FileNotFoundError, match="its folder does not exist; make it first"):
        save_model(MODELS["ranking"][0], tmp_path / "none" / "m")


def test_pipes_and_devices(tmp_path):
    """What is not an ordinary file is written to, not replaced, also where it has no name, as behind /dev/stdout."""
    path = tmp_path / "m"
    save_model(MODELS["ranking"][0], path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read, write = os.pipe()
    for source, place in ((pipe, pipe), (read, f"/dev/fd/{write}")):
        found = []
        reader = threading.Thread(target=lambda source=source, found=found: found.append(drained(source)))
        reader.start()
        save_model(MODELS["ranking"][0], place)
        if source == read:
            os.close(write)
        reader.join()
        assert found == [path.read_bytes()]
    assert stat.S_ISFIFO(pipe.stat().st_mode) and sorted(os.listdir(tmp_path)) == ["m", "pipe"]


def drained(source):
    with open(source, "rb") as file:
        return file.read()


def test_a_full_disk_is_named():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full, the disk that is always full")
    with pytest.raises(OSError, match=r"No space left on device; make room, or choose another place: '/dev/full'"):
        save_model(MODELS["ranking"][0], "/dev/full")


def test_relative_path_and_equal_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        save_model(MODELS["ranking"][0], name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert load_model("a").C == 10


# ---- reading ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.model"
    save_model(MODELS["ranking"][0], path)
    return path


def rewritten(path, change, compression=zipfile.ZIP_STORED):
    """The same zip file with some members changed, dropped (None) or added."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def with_header(path, change):
    def edit(members):
        header = json.loads(members["header.json"])
        change(header)
        members["header.json"] = json.dumps(header).encode()

    rewritten(path, edit)


def with_array(path, name, array, allow_pickle=False):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    rewritten(path, lambda members: members.update({f"{name}.npy": file.getvalue()}))


def refused(path, pattern, **objects):
    with pytest.raises(SavedFileError, match=pattern) as caught:
        load_model(path, **objects)
    assert str(path) in str(caught.value)


def test_foreign_files(tmp_path, saved):
    path = tmp_path / "other"
    path.write_bytes(b"")
    refused(path, "is empty; copy or write it again")
    path.write_bytes(b"2 qid:1 1:0.5\n")
    refused(path, "is not a file saved by maxmargin; name one that 'maxmargin train' or save_model wrote")
    path.write_bytes(pickle.dumps(MODELS["ranking"][0]))
    refused(path, "is not a file saved by maxmargin")
    np.savez(tmp_path / "arrays.npz", coef_=np.ones(3))
    refused(tmp_path / "arrays.npz", "is a zip file, but not one saved by maxmargin")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    refused(path, "is a zip file, but not one saved by maxmargin")
    write_archive(path, "path", {}, {})
    refused(path, "holds a path, not a model; name one that 'maxmargin train' or save_model wrote")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none")
    with pytest.raises(OSError, match="directory"):
        load_model(tmp_path)


def test_remedies_fit_what_is_asked_for(tmp_path, saved):
    path = tmp_path / "other"
    content = saved.read_bytes()
    written = "name one that 'maxmargin path --save' or RegularizationPath.save wrote"
    for kind, foreign, damaged in (
        ("path", written, "copy or write it again"),
        ("path checkpoint", "name another file for the checkpoint", "remove it to begin anew"),
        ("example", "name a file of the kind 'example'", "copy or write it again"),
    ):
        for data, remedy in ((b"1 1:2\n", foreign), (content, foreign), (content[:-9], damaged), (b"", damaged)):
            path.write_bytes(data)
            with pytest.raises(SavedFileError, match=f"other: .*; {remedy}$"):
                read_archive(path, kind)


def test_truncated_and_flipped(saved):
    content = saved.read_bytes()
    expected = MODELS["ranking"][0].coef_
    for length in range(0, len(content), 13):
        saved.write_bytes(content[:length])
        refused(saved, "is empty|is damaged or incomplete|is not a file saved")
    # Every byte of the lists of the zip file, and some of the long header, which its check sum guards.
    places = {*range(0, len(content), 11), *range(100), *range(len(content) - 700, len(content))}
    for place in places:
        saved.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        try:
            found = load_model(saved)
        except SavedFileError as error:
            assert str(saved) in str(error)  # noqa: PT017
        else:
            # A byte that means nothing, such as a date.
            np.testing.assert_array_equal(found.coef_, expected)


def test_newer_versions(saved):
    with_header(saved, lambda header: header.update(format_version=2, version="9.1"))
    refused(saved, "was written by maxmargin 9.1 in format 2, but maxmargin .* reads formats up to 1; upgrade with pip")
    with_header(saved, lambda header: header.update(format_version=1) or header["content"].update({"class": "FutureSVM"}))
    refused(saved, "holds a model of class 'FutureSVM' from maxmargin 9.1, unknown to this version; it knows Approx")
    with_header(saved, lambda header: header["content"].update({"class": "RankingSVM"}))
    with_header(saved, lambda header: header["content"]["parameters"].update(q=1))
    refused(saved, "RankingSVM has no parameter 'q' in this version; upgrade maxmargin or train again")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format_version="1"), "no sound format_version"),
        (lambda h: h.update(version=None), "no sound format_version and version"),
        (lambda h: h.update(arrays="coef_"), "lacks arrays or content"),
        (lambda h: h.update(arrays=[3]), "lacks arrays or content"),
        (lambda h: h.update(content=[]), "lacks arrays or content"),
        (lambda h: h.update(arrays=["coef_"]), "the array of history_ is missing"),
        (lambda h: h["arrays"].append("more"), "the array 'more' is missing"),
        (lambda h: h["content"].pop("fitted"), "its header has no fitted"),
        (lambda h: h["content"].update(parameters=3), "its header has no parameters"),
        (lambda h: h["content"]["parameters"].update(loss="rank"), "loss='rank' is unknown"),
        (lambda h: h["content"]["parameters"].update(loss={"loss": 3}), "loss is not of a form"),
        (lambda h: h["content"]["parameters"].update(grades="no"), "grades='no' is neither true nor false"),
        (lambda h: h["content"]["parameters"].update(C={"what": 1}), "C is not of a form that maxmargin writes"),
        (lambda h: h["content"]["parameters"].update(solver={"solver": "os.system", "settings": {}}), "solver is not of a form"),
        (lambda h: h["content"]["parameters"].update(solver={"solver": "BCFW", "settings": {"x": 1}}), "cannot be made"),
        (lambda h: h["content"]["fitted"].pop("coef_"), "coef_ is missing"),
        (lambda h: h["content"]["fitted"].update(coef_=[1.0, 2.0]), r"coef_ has shape \(2,\), but must have \(5,\)"),
        (lambda h: h["content"]["fitted"].update(coef_="12345"), r"coef_ has shape \(\)"),
        (lambda h: h["content"]["fitted"].update(n_features_in_=4), r"coef_ has shape \(5,\), but must have \(4,\)"),
        (lambda h: h["content"]["fitted"].update(n_features_in_=5.0), "n_features_in_ is 5.0, but must be of type int"),
        (lambda h: h["content"]["fitted"].update(intercept_={"float": "nan"}), "intercept_ holds NaN or infinity"),
        (lambda h: h["content"]["fitted"].update(intercept_={"float": "1"}), "intercept_ is not of a form"),
        (lambda h: h["content"]["fitted"].update(intercept_="x"), "intercept_ has dtype <U1, but must be numbers"),
        (lambda h: h["content"]["fitted"].update(certified_=1), "certified_ is 1, but must be of type bool"),
        (lambda h: h["content"]["fitted"].update(history_={"history": "coef_"}), "a history has 4 rows"),
        (lambda h: h["content"]["fitted"].update(feature_names_in_={"texts": ["a"]}), "must name 5 features"),
        (lambda h: h["content"]["fitted"].update(feature_names_in_={"texts": [1] * 5}), "feature_names_in_ is not of a form"),
        (lambda h: h["content"]["fitted"].update(predict=1), "'predict' is not an attribute of a fitted RankingSVM"),
        (lambda h: h["content"]["fitted"].update(__class__=1), "'__class__' is not an attribute"),
    ],
)
def test_headers_that_do_not_fit(saved, change, message):
    with_header(saved, change)
    refused(saved, message)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(4), r"coef_ has shape \(4,\), but must have \(5,\)"),
        (np.ones((5, 1)), r"coef_ has shape \(5, 1\)"),
        (np.array([1, 2, np.nan, 4, 5]), "coef_ holds NaN or infinity, so its predictions would mean nothing; train again"),
        (np.full(5, np.inf), "coef_ holds NaN or infinity"),
        (np.array(list("abcde")), "coef_ has dtype <U1, but must be numbers"),
        (np.ones(5, dtype=complex), "the array 'coef_' is not as maxmargin writes it"),
        (np.ones(5, dtype=[("a", float)]), "is not as maxmargin writes it"),
    ],
)
def test_arrays_that_do_not_fit(saved, array, message):
    with_array(saved, "coef_", array)
    refused(saved, message)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("executed",))


def test_nothing_is_executed(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_array(saved, "coef_", np.array([Evil()] * 5, dtype=object), allow_pickle=True)
    refused(saved, "the array 'coef_' is not as maxmargin writes it, numbers or text in a plain order")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"dual_gap_": -5.0},
        {"dual_objective_": 1e6},
        {"dual_gap_": 0.0, "dual_objective_": 0.0},
        {"oracle_gap_": 1e6},
        {"oracle_gap_": -1.0},
        {"dual_objective_": {"float": "-inf"}, "dual_gap_": {"float": "inf"}},
    ],
)
def test_a_certificate_that_contradicts_itself_is_none(saved, change):
    assert load_model(saved).certified_
    with_header(saved, lambda header: header["content"]["fitted"].update(change))
    assert load_model(saved).certified_ is False


@pytest.mark.parametrize("name", ["primal_objective_", "dual_objective_", "dual_gap_"])
def test_a_certificate_without_numbers_is_refused(saved, name):
    with_header(saved, lambda header: header["content"]["fitted"].update({name: {"float": "nan"}}))
    refused(saved, f"{name} is not a number")


def test_deep_nests_are_refused(saved):
    nest = "[" * 900 + "]" * 900
    with_header(saved, lambda header: header["content"]["parameters"].update(C="here"))
    rewritten(saved, lambda members: members.update({"header.json": members["header.json"].replace(b'"here"', nest.encode())}))
    refused(saved, "nested more than 50 levels deep")


def test_a_callback_is_not_part_of_a_model(tmp_path):
    save_model(RankingSVM(callback=lambda history: None).fit(X, GRADES), tmp_path / "m")
    assert load_model(tmp_path / "m").callback is None


def test_what_belongs_to_a_class_is_no_fitted_attribute(saved):
    """Names in a file become attributes of the object, never methods or parameters."""
    for name in ("fit", "predict", "C", "callback", "holds", "_keep", "__class__"):
        with_header(saved, lambda header, name=name: header["content"].update(fitted={name: 1}))
        refused(saved, f"'{name}' is not an attribute of a fitted RankingSVM")


def test_sizes_are_not_believed(saved):
    content = {}
    rewritten(saved, lambda members: content.update(members))
    array = content["coef_.npy"].replace(b"(5,)", b"(9999999999999,)").replace(b" " * 12 + b"\n", b"\n")
    rewritten(saved, lambda members: members.update({"coef_.npy": array}))
    refused(saved, r"is said to be float64 of shape \(9999999999999,\), but has 40 bytes")
    # Megabytes of zeros in a small file.
    rewritten(saved, lambda members: members.update({"coef_.npy": bytes(10**7)}), zipfile.ZIP_DEFLATED)
    refused(saved, "is packed in another way")


def test_headers_that_are_deep(saved):
    """Python reads them, but recursion over what comes out of it ends early."""
    nested = []
    for _ in range(900):
        nested = [nested]
    with_header(saved, lambda h: h["content"]["parameters"].update(C=nested))
    refused(saved, "its header is nested more than 50 levels deep")


@pytest.mark.parametrize("header", [b"{", b"\xff", b"[" * 100_000, b'{"format": ' + b"9" * 10_000 + b"}", b"[1]", b'{"a": NaN}'])
def test_headers_that_are_not_json(saved, header):
    rewritten(saved, lambda members: members.update({"header.json": header}))
    refused(saved, "its header is not sound JSON|not one saved by maxmargin")


def test_shapes_of_classes(tmp_path):
    path = tmp_path / "m"
    for name, array, message in (
        ("classes_", np.arange(4), "coef_ has 3 rows for 4 classes"),
        ("coef_", np.ones((1, 5)), r"intercept_ has shape \(3,\), but must have \(1,\)"),
    ):
        save_model(MODELS["strings"][0], path)
        with_array(path, name, array)
        refused(path, message)
    save_model(MODELS["chain"][0], path)
    with_array(path, "transition_", np.ones((3, 2)))
    refused(path, r"transition_ has shape \(3, 2\), but must have \(2, 2\)")


def test_archives_of_any_kind(tmp_path):
    arrays = {
        "empty": np.empty((0, 3)),
        "scalar": np.array(2.5),
        "text": np.array(["ä", "bcd"]),
        "bytes": np.array([b"x"]),
        "big end first": np.arange(3, dtype=">i4"),
        "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "flags": np.array([True, False]),
    }
    write_archive(tmp_path / "a", "any", {"ü": [1, None, {"b": 0.1}]}, arrays)
    content, found, _ = read_archive(tmp_path / "a", "any")
    assert content == {"ü": [1, None, {"b": 0.1}]} and found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape and found[name].dtype == array.dtype.newbyteorder("=")
    with pytest.raises(TypeError, match="x has dtype object"):
        write_archive(tmp_path / "a", "any", {}, {"x": np.array([None])})
    assert read_archive(tmp_path / "a", "any").content == content


def test_loading_in_a_new_process(saved):
    code = f"import maxmargin; m = maxmargin.load_model({str(saved)!r}); print(m.C, m.coef_.tolist(), m.loss)"
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
