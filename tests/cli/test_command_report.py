"""``maxmargin report`` as a user calls it."""

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.cases.command_runner import CliRunner

from maxmargin import RankingSVM, load_model, metrics, save_model
from maxmargin.cli import cv
from maxmargin.cli.main import main
from maxmargin.core.solvers import BCFW
from maxmargin.io import RankingData, load_svmlight
from maxmargin.report.headline import TRAINING_DATA


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args):
        result = CliRunner().invoke(main, list(map(str, args)))
        assert not result.exception or isinstance(result.exception, SystemExit), result.exception
        return result

    return call


def letor(path, seed, n=240, grades=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(3)
    y = np.clip(np.round(X[:, 0] - X[:, 2] + 0.5 * rng.normal(size=n)), 0, grades).astype(int)
    y[::12] = 0
    lines = [f"{y[k]} qid:{k // 12} " + " ".join(f"{j + 1}:{X[k, j]}" for j in range(4)) for k in range(n)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def ranker(run, tmp_path):
    letor(tmp_path / "train.letor", 0)
    letor(tmp_path / "test.letor", 1)
    assert run("train", "train.letor", "--loss", "ap", "--C", 1, "--model", "ranker.model", "-q").exit_code == 0


def contents(path):
    block = re.search(r'id="contents">(.*?)</script>', path.read_text(), re.S)[1]
    return json.loads(block)


def test_report(run, tmp_path, ranker):
    result = run("report", "ranker.model", "test.letor")
    assert result.exit_code == 0, result.output
    assert "RankingSVM reaches MAP" in result.output and "certified" in result.output and "report: report.html" in result.output
    found = contents(tmp_path / "report.html")
    data, model = load_svmlight(tmp_path / "test.letor"), load_model(tmp_path / "ranker.model")
    truth = metrics.average_precision(data.y, model.decision_function(data.X), qid=data.qid)
    assert found["headline"]["value"] == pytest.approx(truth, rel=1e-5)
    assert found["convergence"]["gap"][-1] == pytest.approx(model.dual_gap_, rel=1e-5)
    # Features are numbered as in the file.
    assert found["features"]["by_weight"][0][0] == f"feature {1 + int(np.argmax(np.abs(model.coef_)))}"
    assert found["notes"] == ["Model: ranker.model. Data: test.letor."]
    # Queries have the names of the file.
    text = (tmp_path / "test.letor").read_text()
    (tmp_path / "named.letor").write_text(text.replace("qid:", "qid:q-"))
    run("report", "ranker.model", "named.letor", "-o", "named.html")
    rows, named = (contents(tmp_path / page)["queries"]["rows"] for page in ("report.html", "named.html"))
    assert [row[0] for row in named] == [f"q-{row[0]}" for row in rows] and len(rows) == 20
    assert run("report", "ranker.model", "test.letor", "-q").output == ""


def test_report_against_others(run, tmp_path, ranker):
    run("train", "train.letor", "--loss", "ndcg", "--C", 1e-4, "--model", "weak.model", "-q")
    result = run(
        "report", "ranker.model", "test.letor", "--against", "weak.model", "--train", "train.letor", "--baseline", "svm",
        "--json", "-o", "r.html"
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["report"] == "r.html" and answer["queries"] == 20 and answer["certified"] and answer["metric"] == "MAP"
    assert list(answer["baselines"]) == ["weak", "ordinary SVM"]
    found = contents(tmp_path / "r.html")
    assert found["methods"] == ["ranker", "weak", "ordinary SVM", "random"]
    note = found["notes"][1]
    C = float(re.search(r"C=([^)]*)\)", note)[1])
    train, test = load_svmlight(tmp_path / "train.letor"), load_svmlight(tmp_path / "test.letor")
    solver = BCFW(steps="exact", tol=1e-3, max_passes=1000)
    ordinary = RankingSVM("accuracy", C=C, solver=solver).fit(train.X, train.y).decision_function(test.X)
    truth = metrics.average_precision(test.y, ordinary, qid=test.qid)
    assert answer["baselines"]["ordinary SVM"] == pytest.approx(truth, rel=1e-5)
    assert "3-fold cross-validation of AP" in note and "train.letor" in note
    low, high = answer["leads"]["weak"]
    assert low <= answer["value"] - answer["baselines"]["weak"] <= high and not answer["on_training_data"]


def test_logistic_regression_is_the_default_baseline(run, tmp_path, ranker):
    answer = json.loads(run("report", "ranker.model", "test.letor", "--train", "train.letor", "--json").output)
    assert list(answer["baselines"]) == ["logistic regression"]
    note = contents(tmp_path / "report.html")["notes"][1]
    C = float(re.search(r"C=([^)]*)\)", note)[1])
    train, test = load_svmlight(tmp_path / "train.letor"), load_svmlight(tmp_path / "test.letor")
    spread = train.X.toarray().std(axis=0)
    plain = LogisticRegression(C=C, max_iter=500).fit(train.X / spread, train.y > 0)
    truth = metrics.average_precision(test.y, plain.decision_function(test.X / spread), qid=test.qid)
    assert answer["baselines"]["logistic regression"] == pytest.approx(truth, rel=1e-3)
    assert "3-fold cross-validation of AP" in note and "train.letor" in note
    both = run(
        "report", "ranker.model", "test.letor", "--train", "train.letor", "--baseline", "svm", "--baseline", "logistic", "--json"
    )
    assert list(json.loads(both.output)["baselines"]) == ["ordinary SVM", "logistic regression"]
    alone = run("report", "ranker.model", "test.letor", "--baseline", "svm")
    assert alone.exit_code == 2 and "--train" in alone.output


def test_slices_of_a_table(run, tmp_path):
    rng = np.random.default_rng(4)
    rows = [f"{int(a + b > 0)},{a:.3f},{b:.3f},{t},{s}" for a, b, t, s in zip(
        rng.normal(size=90), rng.normal(size=90), rng.choice(["Rome", "Oslo, N", ""], 90), rng.random(90).round(4), strict=True
    )]  # fmt: skip
    rows = [re.sub("Oslo, N", '"Oslo, N"', row) for row in rows]
    (tmp_path / "t.csv").write_text("hit,a,b,town,size\n" + "\n".join(rows) + "\n")
    assert run("train", "t.csv", "--label", "hit", "--features", "a", "--model", "m.model", "-q").exit_code == 0
    result = run("report", "m.model", "t.csv", "--slice", "town", "--slice", "size", "--slice", "hit")
    assert result.exit_code == 0, result.output
    assert "trained on" in result.output.splitlines()[0]
    town, size, hit = contents(tmp_path / "report.html")["slices"]
    assert {row[0] for row in town["rows"]} == {"Rome", "Oslo, N", "missing"} and sum(row[1] for row in town["rows"]) == 90
    assert len(size["rows"]) == 4 and hit["rows"] == []
    missing = run("report", "m.model", "t.csv", "--slice", "planet")
    assert missing.exit_code == 1 and "planet" in missing.output
    (tmp_path / "t.letor").write_text("1 1:1\n0 1:2\n")
    wrong = run("report", "m.model", "t.letor", "--slice", "town")
    assert wrong.exit_code == 2 and "is not a table" in wrong.output


def test_report_on_tables(run, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2)).round(3)
    rows = [f"{int(a > b)},{a},{b}" for a, b in X]
    (tmp_path / "t.csv").write_text("hit,price,age\n" + "\n".join(rows) + "\n")
    assert run("train", "t.csv", "--label", "hit", "--model", "m.model", "-q").exit_code == 0
    result = run("report", "m.model", "t.csv", "--label", "hit", "--title", "Which ones hit?")
    assert result.exit_code == 0, result.output
    found = contents(tmp_path / "report.html")
    assert {name for name, _ in found["features"]["by_weight"]} == {"price", "age"}
    assert found["title"] == "Which ones hit?" and found["queries"] is None
    assert found["headline"]["warning"] == TRAINING_DATA and len(found["notes"]) == 1
    # A file from before models remembered their data.
    model = load_model(tmp_path / "m.model")
    del model.training_sketch_
    save_model(model, tmp_path / "m.model", about={"data": {"file": "t.csv"}})
    run("report", "m.model", "t.csv", "--label", "hit")
    assert "trained on a file of that name" in contents(tmp_path / "report.html")["notes"][1]


def test_report_bad_input(run, tmp_path, ranker):
    (tmp_path / "none.letor").write_text("0 qid:1 1:1\n0 qid:1 2:1\n")
    result = run("report", "ranker.model", "none.letor")
    assert result.exit_code == 1 and "none.letor: y must hold relevant and irrelevant samples" in result.output
    (tmp_path / "wide.letor").write_text("1 qid:1 1:1\n0 qid:1 9:1\n")
    wide = run("report", "ranker.model", "wide.letor").output
    assert "wide.letor, line 2: feature index 9 is beyond the 4 features of the model ranker.model" in wide
    assert "is not a file saved by maxmargin" in run("report", "train.letor", "test.letor").output
    assert "its folder does not exist" in run("report", "ranker.model", "test.letor", "-o", "no/where/r.html").output
    few = run("report", "ranker.model", "test.letor", "--train", "wide.letor")
    assert few.exit_code == 1 and "wide.letor" in few.output
    assert run("report", "ranker.model").exit_code == 2
    assert not (tmp_path / "report.html").exists()


def test_folds_that_use_a_solver_object_can_be_stopped(monkeypatch):
    callbacks, solve = [], BCFW.solve

    def noted(solver, *args, **kwargs):
        callbacks.append(solver.callback)
        return solve(solver, *args, **kwargs)

    monkeypatch.setattr(BCFW, "solve", noted)
    X = np.random.default_rng(0).normal(size=(60, 3))
    data = RankingData(X, (X[:, 0] > 0.5).astype(float), None)
    parameters = {"loss": "accuracy", "random_state": 0, "solver": BCFW(steps="exact")}
    table = cv.cross_validate(data, parameters, [0.1, 1.0], 3, cv.Measure("ap", "linear", 0.0), None, show=False)
    assert len(table) == 3 and len(callbacks) == 6 and all(callback(None) is True for callback in callbacks)
