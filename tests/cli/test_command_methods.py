"""train --refine and --method classifier, and the baseline of cv."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler

from maxmargin import RankingClassifier, load_model, save_model
from maxmargin.cli.cv import split
from maxmargin.core import read_model
from maxmargin.io import RankingData


def write_table(path, X, y):
    rows = (",".join(map(repr, [int(label), *map(float, x)])) for label, x in zip(y, X, strict=True))
    path.write_text("\n".join(["relevance,a,b,c", *rows]) + "\n")


@pytest.fixture
def events(run, tmp_path):
    """One list, with positives far out that a hinge cannot ignore, one without, and one that is easy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    write_table(tmp_path / "plain.csv", X, X[:, 0] + 0.5 * rng.normal(size=600) > 1)
    y = X[:, 0] > 1
    write_table(tmp_path / "easy.csv", X, y)
    wrong = rng.permutation(np.flatnonzero(~y))[:20]
    X[wrong] *= 6
    y[wrong] = True
    write_table(tmp_path / "wild.csv", X, y)
    return run


def test_refinement_is_taken_where_it_helps(events):
    answer = json.loads(
        events("train", "wild.csv", "--C", 100, "--refine", "--scale", "standard", "--model", "m", "--json").stdout
    )
    found, model = answer["refinement"], load_model("m")
    assert found["taken"] and found["gain"] > found["standard_error"] > 0 and answer["certified"] is False
    assert type(model).__name__ == "DirectLossMinimizer" and model.standardize and list(model.feature_names_in_) == list("abc")
    events("train", "wild.csv", "--C", 100, "--scale", "standard", "--model", "hinge")
    scores = [json.loads(events("evaluate", name, "wild.csv", "--json").stdout)["metrics"]["map"] for name in ("m", "hinge")]
    assert scores[0] > scores[1] and answer["training"]["ap"] == pytest.approx(scores[0])
    result = events("train", "wild.csv", "--C", 100, "--refine", "--scale", "standard", "--model", "m")
    assert "refinement: taken, not certified, gain +0." in result.stdout


def test_refinement_is_not_taken_where_it_does_not(events):
    result = events("train", "easy.csv", "--C", 100, "--refine", "--model", "m")
    assert "refinement: not taken" in result.stdout and "(certified)" in result.stdout
    events("train", "easy.csv", "--C", 100, "--model", "n")
    assert type(load_model("m")).__name__ == "RankingSVM" and load_model("m").certified_
    np.testing.assert_array_equal(load_model("m").coef_, load_model("n").coef_)
    for options, message in ((["--loss", "accuracy"], "no"), (["--scale", "query"], "--scale query")):
        assert message in events("train", "train.letor", "--refine", *options, "--model", "m", code=2).stderr


def test_classifier(events, tmp_path):
    result = events("train", "wild.csv", "--method", "classifier", "--model", "m")
    assert "logistic, C = " in result.stdout and "refinement:" in result.stdout
    rows = np.loadtxt("wild.csv", delimiter=",", skiprows=1)
    expected = RankingClassifier(random_state=0).fit(rows[:, 1:], rows[:, 0].astype(int))
    saved = read_model("m")
    np.testing.assert_array_equal(saved.estimator.coef_, expected.coef_)
    scores = np.array(events("predict", "m", "wild.csv").stdout.split(), float)
    np.testing.assert_allclose(scores, expected.decision_function(rows[:, 1:]), rtol=1e-12)
    metrics = json.loads(events("evaluate", "m", "wild.csv", "--json").stdout)["metrics"]
    assert metrics["map"] == pytest.approx(average_precision_score(rows[:, 0], scores))
    events("report", "m", "wild.csv", "-o", "r.html")
    assert "RankingClassifier" in events("inspect", "m").stdout
    # Labels of another kind: 1 and 2, relevant is the larger one.
    (tmp_path / "two.csv").write_text((tmp_path / "wild.csv").read_text().replace("\n1,", "\n2,").replace("\n0,", "\n1,"))
    events("train", "two.csv", "--method", "classifier", "--no-refine", "--C", 0.1, "--scale", "none", "--model", "n")
    other = load_model("n")
    assert other.refine is False and other.C_ == 0.1 and not other.standardize and not other.refined_
    assert json.loads(events("evaluate", "n", "two.csv", "--json").stdout)["metrics"]["map"] > 0.5
    for options, code, message in (
        (["train.letor"], 1, "train.letor: has queries, and --method classifier is for one list"),
        (["wild.csv", "--grades"], 2, "--grades is for --method svm"),
        (["wild.csv", "--solver", "bcfw"], 2, "--solver is for --method svm"),
        (["wild.csv", "--loss", "accuracy"], 2, "is no rank loss"),
        (["wild.csv", "--scale", "query"], 2, "knows no --scale query"),
    ):
        assert message in events("train", *options, "--method", "classifier", "--model", "x", code=code).stderr


def test_the_model_to_beat(events):
    answer = json.loads(events("cv", "plain.csv", "--C", "10", "--folds", 3, "--json").stdout)
    rows = np.loadtxt("plain.csv", delimiter=",", skiprows=1)
    X, y = rows[:, 1:], rows[:, 0]
    found = answer["logistic_regression"]
    values = []
    for held in split(RankingData(X, y), 3, 0, 0.0):
        kept = np.setdiff1d(np.arange(len(y)), held)
        scaler = StandardScaler().fit(X[kept])
        model = LogisticRegression(C=found["C"], max_iter=1000).fit(scaler.transform(X[kept]), y[kept])
        values.append(average_precision_score(y[held], model.decision_function(scaler.transform(X[held]))))
    assert found["mean"] == pytest.approx(np.mean(values), abs=2e-3)
    assert "to beat: " in events("cv", "train.letor", "--C", "0.1", "--folds", 3, "--scale", "query", "-m", "ndcg@5").stdout
    assert "to beat" not in events("cv", "plain.csv", "--C", "10", "--folds", 3, "--no-baseline").stdout


def test_labels_and_probabilities(events, tmp_path):
    """The aim of train decides which samples predict flags, with the labels of the file."""
    two = (tmp_path / "plain.csv").read_text().replace("\n1,", "\n7,").replace("\n0,", "\n2.5,")
    (tmp_path / "two.csv").write_text(two)
    rows = np.loadtxt("plain.csv", delimiter=",", skiprows=1)
    for text, aim in (
        ("f1", "f1"),
        ("budget=0.02", {"budget": 0.02}),
        ("Budget=30", {"budget": 30}),
        ("precision=0.9", {"precision": 0.9}),
        ("recall=0.95", {"recall": 0.95}),
        ("cost=1:10", {"cost": [[0, 1], [10, 0]]}),
        ("0.25", 0.25),
    ):
        result = events("train", "two.csv", "--method", "classifier", "--no-refine", "--C", 1, "--aim", text, "--model", "m")
        assert f"--aim {text.lower()}: flags " in result.stdout and "find:          7, not 2.5" in result.stdout
        expected = RankingClassifier(C=1, refine=False, threshold=aim, random_state=0).fit(rows[:, 1:], rows[:, 0].astype(int))
        labels = events("predict", "m", "two.csv", "--as", "labels").stdout.split()
        assert labels == ["7" if flagged else "2.5" for flagged in expected.predict(rows[:, 1:])]
    answer = json.loads(events("predict", "m", "two.csv", "--as", "probabilities", "--json").stdout)
    np.testing.assert_allclose(answer["probabilities"], expected.predict_proba(rows[:, 1:])[:, 1], rtol=1e-12)
    assert events("predict", "m", "two.csv", "--as", "labels", "-o", "l.txt").stdout == "l.txt: 600 labels\n"
    warned = events("train", "two.csv", "--method", "classifier", "--no-refine", "--time-limit", 1e-9, "--model", "m")
    assert "Warning: training ended early" in warned.stderr and "raise --time-limit" in warned.stderr


def test_the_class_to_be_found_may_come_first(events):
    rows = np.loadtxt("plain.csv", delimiter=",", skiprows=1)
    names = np.where(rows[:, 0] == 1, "fraud", "honest")
    model = RankingClassifier(C=1, refine=False, pos_label="fraud").fit(rows[:, 1:], names)
    model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    save_model(model, "m")
    metrics = json.loads(events("evaluate", "m", "plain.csv", "--json").stdout)["metrics"]
    assert metrics["map"] == pytest.approx(average_precision_score(rows[:, 0], -model.decision_function(rows[:, 1:])))
    assert events("predict", "m", "plain.csv", "--as", "labels").stdout.split() == model.predict(rows[:, 1:]).tolist()
    found = np.array(events("predict", "m", "plain.csv", "--as", "probabilities").stdout.split(), float)
    np.testing.assert_allclose(found, model.predict_proba(rows[:, 1:])[:, 0], rtol=1e-12)


def test_what_has_no_labels_or_probabilities(events, tmp_path):
    events("train", "plain.csv", "--model", "svm")
    message = events("predict", "svm", "plain.csv", "--as", "labels", code=1).stderr
    assert "svm: holds a RankingSVM, which has scores and no labels; train with --method classifier" in message
    rows = np.loadtxt("plain.csv", delimiter=",", skiprows=1)
    save_model(RankingClassifier(C=1, refine=False, calibration=None).fit(rows[:, 1:], rows[:, 0]), "bare")
    assert "without calibration" in events("predict", "bare", "plain.csv", "--as", "probabilities", code=1).stderr
    assert "leave out --as" in events("predict", "svm", "plain.csv", "--as", "labels", "--format", "trec", code=2).stderr
    assert "--aim is for --method classifier" in events("train", "plain.csv", "--aim", "f1", "--model", "x", code=2).stderr
    for aim, why in (
        ("f2", "is no aim"),
        ("cost=1", "is no aim"),
        ("cost=1:-1", "no dearer"),
        ("budget=1.5", "whole number"),
        ("budget=nan", "positive number"),
        ("precision=2", "more than 1"),
        ("1.5", "no probability"),
    ):
        message = events("train", "plain.csv", "--method", "classifier", "--aim", aim, "--model", "x", code=2).stderr
        assert why in message and "use f1, budget=100" in message
    (tmp_path / "three.csv").write_text("relevance,a\n" + "0,1\n1,2\n2,3\n" * 20)
    message = events("train", "three.csv", "--method", "classifier", "--model", "x", code=1).stderr
    assert "three.csv: has 3 different labels (0, 1, 2)" in message and "--threshold 0" in message
    events("train", "three.csv", "--method", "classifier", "--threshold", 1, "--no-refine", "--C", 1, "--model", "x")
    assert events("predict", "x", "three.csv", "--as", "labels").stdout.split() == ["0", "0", "1"] * 20
