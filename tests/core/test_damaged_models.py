"""A clear refusal of every file that is not a sound model."""

import os
import pickle
import zipfile

import numpy as np
import pytest
from tests.cases.model_file_cases import MODELS, refused, rewritten, with_array, with_header

from maxmargin import SavedFileError, load_model, save_model
from maxmargin.io import read_archive, write_archive


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.model"
    save_model(MODELS["ranking"][0], path)
    return path


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
        (lambda h: h["content"]["parameters"].update(loss={"loss": 3}), "loss is no loss"),
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
        (lambda h: h["content"]["fitted"].update(history_={"history": {"array": "coef_"}}), "history_ is no history .* 4 rows"),
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
