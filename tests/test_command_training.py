"""Train, cv and predict as a user calls them: results, exit codes, and what is said about bad input."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from command_cases import in_a_pipe_and_on_a_terminal, samples
from sklearn.datasets import dump_svmlight_file, load_breast_cancer

import maxmargin
import maxmargin.cli.options as options
from maxmargin import ChainSVM, MulticlassSVM, RankingSVM, load_model, losses, metrics, save_model
from maxmargin.cli import main
from maxmargin.cli.cv import Measure, split
from maxmargin.data import RankingData, load_svmlight, read_run, read_scores
from maxmargin.estimators.model_files import read_model
from maxmargin.estimators.training import _BY_NAME
from maxmargin.models import RankingModel
from maxmargin.report import report_contents

# ---- train --------------------------------------------------------------------------------------------------------------------


def test_train(run, tmp_path):
    result = run("train", "train.letor", "--loss", "ndcg", "--C", 10, "--model", "m")
    assert result.stderr == ""
    X, y, qid = samples()
    expected = RankingSVM("ndcg", 10, random_state=0).fit(load_svmlight("train.letor").X, y, qid)
    model, about, _ = read_model("m")
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.dual_gap_ == expected.dual_gap_ and model.verbose == 0
    assert about == {"data": {"file": "train.letor", "samples": 180, "zero_based": False}}
    lines = result.stdout.splitlines()
    assert lines[0] == "train.letor: 180 samples, 12 queries, 6 features"
    assert lines[1].startswith(f"primal {expected.primal_objective_:.6g}, dual {expected.dual_objective_:.6g}, relative gap ")
    assert "(certified)" in lines[1]
    assert lines[2] == f"NDCG on the training data {expected.score(X, y, qid):.4f}, model: m"
    assert run("train", "train.letor", "--C", 10, "--model", "m", "--quiet").output == ""


def test_train_as_json(run):
    answer = json.loads(run("train", "train.csv", "--C", 3, "--grades", "--solver", "one_slack", "--json", "--model", "m").stdout)
    model = load_model("m")
    assert list(model.feature_names_in_) == list("abcdef") and model.grades and model.solver == "one_slack"
    assert answer["samples"] == 180 and answer["queries"] == 12 and answer["features"] == 6 and answer["converged"]
    assert answer["primal"] == model.primal_objective_ and answer["gap"] == model.dual_gap_ and answer["certified"]
    assert answer["training"].keys() == {"ap"} and 0 < answer["training"]["ap"] < 1 and answer["model"] == "m"


def test_columns(run, tmp_path):
    text = (tmp_path / "train.csv").read_text().replace("qid,relevance", "who,grade").replace("q", "query ")
    (tmp_path / "named.csv").write_text(text)
    run("train", "named.csv", "--label", "grade", "--qid", "who", "--features", "b, a", "--threshold", 1, "--model", "m")
    model = load_model("m")
    X, y, qid = samples()
    expected = RankingSVM(relevance_threshold=1, random_state=0).fit(X[:, [1, 0]], y, qid)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert list(model.feature_names_in_) == ["b", "a"]
    message = run("train", "named.csv", "--label", "grade", "--model", "m", code=1).stderr
    assert "named.csv, line 2: who 'query 0' is not a number" in message and "with --features" in message
    for features, message in (
        ("a,relevance", "train.csv, line 1: column 'relevance' is named as the label and as a feature; name another for one"),
        ("a,b,a", "train.csv, line 1: column 'a' is named 2 times as a feature; name it once"),
    ):
        assert message in run("train", "train.csv", "--features", features, "--model", "m", code=1).stderr
    message = run("train", "train.csv", "--qid", "who", "--model", "m", code=1).stderr
    assert "line 1: there is no column 'who'" in message


def test_without_queries(run, tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    dump_svmlight_file(X / X.max(axis=0), y, str(tmp_path / "one.txt"), zero_based=True)
    output = run("train", "one.txt", "--loss", "accuracy", "--C", 0.1, "--model", "m").stdout
    assert output.startswith("one.txt: 569 samples, one list, 30 features") and "AP on the training data" in output
    assert load_model("m").intercept_ != 0 and read_model("m").about["data"]["zero_based"] is True


def test_gap_that_is_not_reached(run):
    result = run("train", "train.letor", "--C", 1e4, "--max-iter", 3, "--json", "--model", "m")
    assert "Warning: the relative gap did not reach --tol 0.001" in result.stderr and "--max-iter" in result.stderr
    answer = json.loads(result.stdout)
    assert not answer["converged"] and answer["relative_gap"] > 1e-3 and answer["passes"] == 3
    assert load_model("m").dual_gap_ == answer["gap"]


def interrupting(monkeypatch, at):
    """Ctrl-C in the middle of inference number ``at``."""
    calls = 0
    original = RankingModel.tangent

    def tangent(self, scores):
        nonlocal calls
        calls += 1
        if calls == at:
            signal.raise_signal(signal.SIGINT)
        return original(self, scores)

    monkeypatch.setattr(RankingModel, "tangent", tangent)


def test_interruption_saves_what_there_is(run, monkeypatch):
    interrupting(monkeypatch, 6)
    before = signal.getsignal(signal.SIGINT)
    result = run("train", "train.letor", "--C", 1e3, "--tol", 1e-9, "--model", "m", code=130)
    assert "Warning: interrupted" in result.stderr and signal.getsignal(signal.SIGINT) is before
    model = load_model("m")
    assert model.n_iter_ == 6 and model.dual_gap_ > 1e-9 * model.primal_objective_ and model.certified_
    # The gap is true: weights at their optimum are not better than the dual says.
    monkeypatch.undo()
    X, y, qid = samples()
    best = RankingSVM(C=1e3, tol=1e-6, max_iter=10_000).fit(X, y, qid)
    assert model.dual_objective_ <= best.primal_objective_ <= model.primal_objective_


def test_interruption_before_anything_is_reached(run, tmp_path, monkeypatch):
    interrupting(monkeypatch, 1)
    assert run("train", "train.letor", "--model", "m", code=130).stderr == "interrupted\n"
    assert not (tmp_path / "m").exists()


def test_model_file_is_checked_first(run, monkeypatch):
    monkeypatch.setattr(RankingSVM, "fit", lambda *args: pytest.fail("trained before looking"))
    message = run("train", "train.letor", "--model", "none/m", code=1).stderr
    assert message == "Error: none/m: its folder does not exist; make it first\n"
    assert "is a directory" in run("train", "train.letor", "--model", ".", code=2).stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "bad.letor: holds no samples; at least one line such as '2 qid:7 1:0.5' is needed"),
        ("1 qid:1 1:2\n0 1:3\n", "line 2: some lines have a qid and some have not; give every line one, or none"),
        ("1 qid:1 2:1 1:2\n", "line 1: feature index 1 follows 2; sort the features of every line by index"),
        ("1 qid:1 1:2\n0 qid:1 -1:2\n", "line 2: feature index '-1:2' is negative; number the features from 1"),
        ("1 qid:1 1:nan\n", "line 1: value of feature 1 'nan' is not finite; leave out or impute"),
        ("1 qid:1 1:2\r0 qid:1 1:3\n", "line 1: a carriage return inside the line; save the file with line ends"),
        ("1 qid:1 1:2\n0 qid:2 1:2\n0 qid:1 1:3\n", "line 3: the query has appeared before, .* pass --split-queries group"),
        ("label qid f1\n1 qid:1 1:2\n", "line 1: label 'label' is not a number; .* Remove a header, .* tables have names"),
        ("good 1:2\n", "line 1: label 'good' is not a number"),
        ("1 qid:1 1:2\n1 qid:1 1:3\n", r"bad\.letor: y must contain .* only one class, irrelevant ones: .* or set --threshold"),
        ("1 qid:1 1:2\n0 qid:2 1:3\n", "bad.letor: y must contain relevant and irrelevant samples of the same query"),
        ("1 1:2\n1 1:3\n", "bad.letor: y must contain relevant and irrelevant samples, but holds only one class"),
    ],
)
@pytest.mark.parametrize("command", ["train", "cv"])
def test_bad_svmlight(run, tmp_path, command, content, message):
    (tmp_path / "bad.letor").write_bytes(content.encode())
    result = run(command, "bad.letor", "--model", "m", code=1)
    folds = r"Error: bad.letor: 5 folds need as many"
    assert_matches(result.stderr, f"{message}|{folds}" if command == "cv" and "y must" in message else message)
    assert "bad.letor" in result.stderr and not (tmp_path / "m").exists() and result.stdout == ""


def assert_matches(text, pattern):
    assert re.search(pattern, text), text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; a header line and at least one row are needed"),
        ("relevance,a\n", "has a header but no rows"),
        ("relevance,a\n1,2\nno,3\n", "line 3: relevance 'no' is not a number"),
        ("relevance,a\n1,2\n0,\n", "line 3: a '' is not a number; correct it, or name the columns to use with --features"),
        ("relevance,a\n1,nan\n", "line 2: a 'nan' is not finite; leave out or impute what is missing"),
        ("grade,a\n1,2\n", "line 1: there is no column 'relevance'; the header has 'grade', 'a'"),
        ("relevance,a,qid\n1,2,x\n0,3,y\n0,3,x\n", "line 4: query x has appeared before, .* --split-queries group"),
        ("relevance,a,qid\n1,2\n", "line 2: 2 fields, but the header has 3"),
    ],
)
def test_bad_tables(run, tmp_path, content, message):
    (tmp_path / "bad.csv").write_text(content)
    assert_matches(run("train", "bad.csv", "--model", "m", code=1).stderr, f"bad.csv.*{message}")
    assert not (tmp_path / "m").exists()


def test_line_ends_may_be_mixed(run, tmp_path):
    lines = (tmp_path / "train.letor").read_text().splitlines()
    ends = ["\n", "\r\n", "\n\n"]
    (tmp_path / "mixed.letor").write_bytes("".join(line + ends[k % 3] for k, line in enumerate(lines)).encode())
    run("train", "train.letor", "--model", "a")
    run("train", "mixed.letor", "--model", "b")
    np.testing.assert_array_equal(load_model("a").coef_, load_model("b").coef_)


@pytest.mark.parametrize("how", ["group", "keep"])
def test_split_queries(run, tmp_path, how):
    lines = (tmp_path / "train.letor").read_text().splitlines()
    (tmp_path / "split.letor").write_text("\n".join(lines[7:] + lines[:7]) + "\n")
    assert "--split-queries group" in run("train", "split.letor", "--model", "b", code=1).stderr
    run("train", "train.letor", "--tol", 1e-6, "--model", "a")
    run("train", "split.letor", "--tol", 1e-6, "--split-queries", how, "--model", "b")
    np.testing.assert_allclose(load_model("a").coef_, load_model("b").coef_, atol=1e-3)


def test_wrong_usage(run):
    for arguments, message in (
        (["train", "train.letor"], "Missing option '--model'"),
        (["train", "none.letor", "--model", "m"], "does not exist"),
        (["train", "train.letor", "--model", "m", "--C", -1], "--C"),
        (["train", "train.letor", "--model", "m", "--loss", "mape"], "'mape' is not one of 'ap'"),
        (["train", "train.letor", "--model", "m", "--features", "a"], "--features is for tables"),
        (["train", "train.csv", "--model", "m", "--zero-based"], "are for svmlight files, but train.csv is a table"),
        (["cv", "train.letor", "--C", "1,two"], "'1,two' must be numbers separated by commas, such as 0.1,1,10"),
        (["cv", "train.letor", "--C", "1,0"], "must be positive numbers"),
        (["cv", "train.letor", "--folds", 1], "--folds"),
        (["predict", "train.letor"], "Missing argument 'DATA'"),
    ):
        assert message in run(*arguments, code=2).stderr
    for command in ("train", "cv"):
        message = run(command, "train.letor", "--model", "m", "--grades", "--threshold", 1, code=1).stderr
        assert "--grades uses every grade as a threshold; leave out --threshold" in message


NUMBERS = {
    "train": ["--C", "--tol", "--time-limit", "--threshold"],
    "cv": ["--C", "--tol", "--time-limit", "--threshold"],
    "path": ["--epsilon", "--lambda-min", "--kappa", "--time-limit", "--threshold"],
}


@pytest.mark.parametrize(("command", "option"), [(command, option) for command, names in NUMBERS.items() for option in names])
def test_numbers_are_finite(run, command, option):
    model = [] if command == "path" else ["--model", "m"]
    for value in ("nan", "inf", "-inf"):
        assert f"'{option}'" in run(command, "train.letor", *model, option, value, code=2).stderr


@pytest.mark.parametrize("command", ["train", "cv", "path"])
@pytest.mark.parametrize("solver", ["eg", "pl"])
def test_solvers_that_cannot_rank(run, command, solver):
    options = ["--epsilon", 0.1, "--lambda-min", 0.1] if command == "path" else ["--model", "m"]
    message = run(command, "train.letor", "--solver", solver, *options, code=2).stderr
    assert f"--solver {solver} cannot train for rankings, only for --loss accuracy; choose one of auto, bcfw, fw, " in message
    run(command, "train.letor", "--solver", solver, "--loss", "accuracy", *options)


def test_all_other_solvers_can_rank(run):
    for solver in set(options.SOLVERS) - {"eg", "pl"}:
        run("train", "train.letor", "--solver", solver, "--tol", 0.1, "--model", "m")


def test_files_are_kept_apart(run, tmp_path):
    """Nothing is written over what is read, nor twice to one file, whatever the names."""
    run("train", "train.letor", "--model", "m")
    (tmp_path / "link").symlink_to("train.letor")
    (tmp_path / "folder").mkdir()
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    tune = ["--validation", "test.letor", "--model"]
    for arguments, names in (
        (["train", "train.letor", "--model", "train.letor"], ("--model", "DATA")),
        (["train", "train.letor", "--model", "folder/../train.letor"], ("--model", "DATA")),
        (["train", "link", "--model", "train.letor"], ("--model", "DATA")),
        (["cv", "train.letor", "--model", "link"], ("--model", "DATA")),
        (["path", "train.letor", "--save", "train.letor"], ("--save", "DATA")),
        (["path", "train.letor", "--checkpoint", "train.letor"], ("--checkpoint", "DATA")),
        (["path", "train.letor", *tune, "test.letor"], ("--model", "--validation")),
        (["path", "train.letor", *tune, "x", "--save", "x"], ("--save", "--model")),
        (["path", "train.letor", "--save", "x", "--report", "./x"], ("--report", "--save")),
        (["path", "train.letor", "--save", "x", "--checkpoint", tmp_path / "x"], ("--checkpoint", "--save")),
        (["path", "train.letor", "--folds", 3, "--save", "x.2", "--checkpoint", "x"], ("--checkpoint of fold 2", "--save")),
        (["predict", "m", "test.letor", "-o", "m"], ("--output", "MODEL")),
        (["predict", "m", "test.letor", "-o", "test.letor"], ("--output", "DATA")),
        (["report", "m", "test.letor", "-o", "m"], ("--output", "MODEL")),
        (["report", "m", "test.letor", "-o", "test.letor"], ("--output", "DATA")),
        (["report", "m", "test.letor", "--train", "train.letor", "-o", "link"], ("--output", "--train")),
        (["report", "m", "test.letor", "--against", "link", "-o", "train.letor"], ("--output", "--against link")),
    ):
        message = run(*arguments, code=2).stderr
        assert f"Error: {names[0]} and {names[1]} are the same file, " in message and f"another one for {names[0]}" in message
        assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    run("path", "train.letor", "--epsilon", 0.1, "--lambda-min", 0.1, "--save", "/dev/null", "--report", "/dev/null")


def test_words_of_the_command(run):
    message = run("train", "train.letor", "--grades", "linear", "--model", "m", code=1).stderr
    assert "train.letor: --grades linear are the gains of NDCG; use them with --loss ndcg, or pass --grades mean" in message
    run("train", "train.letor", "--model", "m")
    message = run("predict", "m", "test.letor", "--format", "trec", "--tag", "my tag", code=2).stderr
    assert "'--tag': 'my tag' must be one word" in message and "test.letor" not in message


@pytest.mark.parametrize("command", ["train", "cv", "path"])
def test_too_little_memory(run, tmp_path, monkeypatch, command):
    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 238. GiB")

    monkeypatch.setattr(RankingSVM, "fit", fail)
    monkeypatch.setattr("maxmargin.cli.path.regularization_path", fail)
    (tmp_path / "wide.letor").write_text("".join(f"1 qid:{k} 1:2\n0 qid:{k} 2000000000:1\n" for k in range(5)))
    model = [] if command == "path" else ["--model", "m"]
    for name, place in (
        ("wide.letor", "the largest feature index is 2000000000, on line 2, and there is a weight for every index up to it"),
        ("train.csv", "take fewer samples or features"),
    ):
        message = run(command, name, *model, code=1).stderr
        assert f"{name}: does not fit into memory with what training needs (Unable to allocate 238. GiB); {place}" in message


def test_choices_are_those_of_the_library():
    assert set(options.SOLVERS) == {"auto", *_BY_NAME}
    for name in options.LOSSES:
        assert name == "accuracy" or losses.ranking_loss(name)


# ---- predict ------------------------------------------------------------------------------------------------------------------


def test_predict(run, tmp_path):
    run("train", "train.letor", "--model", "m")
    model, data = load_model("m"), load_svmlight("test.letor")
    expected = model.predict(data.X)
    result = run("predict", "m", "test.letor")
    np.testing.assert_array_equal([float(line) for line in result.stdout.splitlines()], expected)
    assert run("predict", "m", "test.letor", "-o", "scores.txt").stdout == "scores.txt: 180 scores\n"
    np.testing.assert_array_equal(read_scores("scores.txt"), expected)
    assert (tmp_path / "scores.txt").read_text() == result.stdout
    answer = json.loads(run("predict", "m", "test.letor", "--json").stdout)
    assert answer.pop("scores") == expected.tolist() and answer == {"model": "m", "data": "test.letor", "samples": 180}
    answer = json.loads(run("predict", "m", "test.letor", "--json", "-o", "scores.txt").stdout)
    assert answer["output"] == "scores.txt" and "scores" not in answer
    assert "its folder does not exist" in run("predict", "m", "test.letor", "-o", "none/x", code=1).stderr
    found = json.loads(run("evaluate", "m", "test.letor", "--json").stdout)["metrics"]
    assert found == metrics.evaluate(data.y, expected, qid=data.qid)
    assert found == json.loads(run("evaluate", "test.letor", "scores.txt", "--json").stdout)["metrics"]


def test_trec_session(run, tmp_path):
    _, y, qid = samples(seed=1)
    lines = (tmp_path / "test.letor").read_text().splitlines()
    names = [f"GX{k:03d}-{k * 7 % 10}" for k in range(len(lines))]
    (tmp_path / "test.letor").write_text("".join(f"{a} #docid = {b} inc = 1\n" for a, b in zip(lines, names, strict=True)))
    run("train", "train.letor", "--model", "m")
    run("predict", "m", "test.letor", "--format", "trec", "--tag", "mine", "-o", "test.run")
    found, expected = read_run("test.run"), load_model("m").predict(load_svmlight("test.letor").X)
    assert found == {str(q): {names[k]: expected[k] for k in np.flatnonzero(qid == q)} for q in np.unique(qid)}
    assert (tmp_path / "test.run").read_text().splitlines()[0].endswith(" mine")
    (tmp_path / "test.qrels").write_text("".join(f"{q} 0 {name} {grade}\n" for q, name, grade in zip(qid, names, y, strict=True)))
    answer = json.loads(run("evaluate", "--qrels", "test.qrels", "--run", "test.run", "--json").stdout)
    assert answer["metrics"] == pytest.approx(metrics.evaluate(y, expected, qid=qid, metrics=answer["metrics"]))
    assert answer["metrics"].keys() == {"map", "mrr", "ndcg", "ndcg@10", "p@10"}
    # Without the last two queries: their results are missing, and -c counts them.
    kept = [line for line in (tmp_path / "test.run").read_text().splitlines() if line.split()[0] not in ("10", "11")]
    (tmp_path / "some.run").write_text("\n".join(kept))
    command = ["evaluate", "--qrels", "test.qrels", "--run", "some.run", "-m", "map", "--json", "--per-query"]
    some, whole = json.loads(run(*command).stdout), json.loads(run(*command, "-c").stdout)
    assert some["queries"] == 10 and whole["queries"] == 12 and whole["per_query"]["11"] == {"map": 0.0}
    assert whole["metrics"]["map"] == pytest.approx(some["metrics"]["map"] * 10 / 12)


def test_trec_usage(run, tmp_path):
    (tmp_path / "q").write_text("1 0 a 1\n")
    (tmp_path / "r").write_text("2 Q0 a 1 1 x\n")
    assert "r: has no query in common with q" in run("evaluate", "--qrels", "q", "--run", "r", code=1).stderr
    assert "this looks like a run" in run("evaluate", "--qrels", "r", "--run", "r", code=1).stderr
    assert "auc needs the scores of all documents" in run("evaluate", "--qrels", "q", "--run", "r", "-m", "auc", code=1).stderr
    assert "--qrels and --run go together" in run("evaluate", "--qrels", "q", code=2).stderr
    assert "either files of samples, or" in run("evaluate", "q", "--qrels", "q", "--run", "r", code=2).stderr
    assert "--complete is for" in run("evaluate", "test.csv", "-c", code=2).stderr
    assert "one or two files" in run("evaluate", code=2).stderr


def test_names_in_runs(run, tmp_path):
    run("train", "train.letor", "--model", "m")
    first = run("predict", "m", "test.letor", "--format", "trec").stdout.splitlines()[0].split()
    assert first[:2] == ["0", "Q0"] and first[3] == "1" and 1 <= int(first[2]) <= 15
    (tmp_path / "t.letor").write_text("0 qid:1 1:1 #docid = a\n0 qid:1 1:2 #docid = a\n")
    message = run("predict", "m", "t.letor", "--format", "trec", code=1).stderr
    assert "t.letor: two documents of query 1 have the same name" in message
    # The number of a sample may be the name of another.
    (tmp_path / "t.letor").write_text("0 qid:1 1:1\n0 qid:1 1:2 #docid = 1\n")
    message = run("predict", "m", "t.letor", "--format", "trec", code=1).stderr
    assert "t.letor: sample 1 has no docid in its comment, but others have; give every line one" in message
    (tmp_path / "t.letor").write_text("0 qid:1 1:1 #first\n0 qid:1 1:2 #second\n")
    assert run("predict", "m", "t.letor", "--format", "trec").stdout.split()[2::6] in (["1", "2"], ["2", "1"])
    message = run("predict", "m", "test.letor", "--format", "trec", "--json", code=2).stderr
    assert "--json prints scores, not a run; write the run to a file with --output" in message
    answer = json.loads(run("predict", "m", "test.letor", "--format", "trec", "--json", "-o", "test.run").stdout)
    assert answer["samples"] == 180 and len(read_run("test.run")) == 12
    (tmp_path / "t.csv").write_text("qid,a,b,c,d,e,f\nx y,1,2,3,4,5,6\n")
    assert "t.csv: 'x y' is empty or has blanks" in run("predict", "m", "t.csv", "--format", "trec", code=1).stderr


def test_features_of_tables(run, tmp_path):
    run("train", "train.csv", "--model", "m")
    expected = run("predict", "m", "test.csv").stdout
    header, *rows = (line.split(",") for line in (tmp_path / "test.csv").read_text().splitlines())
    # In another order, with a column more, and without labels.
    order = [7, 0, 3, 2, 6, 5, 4]
    lines = [[line[k] for k in order] + [more] for line, more in zip([header, *rows], ["note", *["x"] * len(rows)], strict=True)]
    (tmp_path / "other.csv").write_text("\n".join(map(",".join, lines)))
    assert run("predict", "m", "other.csv").stdout == expected
    # Labels that are missing are no matter here, but in evaluate they are.
    blank = [header, *([row[0], "", *row[2:]] for row in rows)]
    (tmp_path / "blank.csv").write_text("\n".join(map(",".join, blank)))
    assert run("predict", "m", "blank.csv").stdout == expected
    assert "relevance '' is not a number" in run("evaluate", "m", "blank.csv", code=1).stderr
    (tmp_path / "renamed.csv").write_text((tmp_path / "test.csv").read_text().replace("c,d", "C,d"))
    message = run("predict", "m", "renamed.csv", code=1).stderr
    assert "renamed.csv, line 1: there is no column 'c', feature 3 of the model m; the header has 'qid', " in message
    message = run("predict", "m", "test.csv", "--features", "a,b,d", code=1).stderr
    assert "test.csv: --features has 'd' where the model m has 'c'" in message
    assert run("predict", "m", "test.csv", "--features", "a,b,c,d,e,f").stdout == expected
    # By number, where one of them has no names; sums are rounded in another order.
    close = pytest.approx([float(line) for line in expected.split()], abs=1e-9)
    assert [float(line) for line in run("predict", "m", "test.letor").stdout.split()] == close
    run("train", "train.letor", "--model", "m")
    assert [float(line) for line in run("predict", "m", "test.csv").stdout.split()] == close
    message = run("predict", "m", "test.csv", "--features", "a,b", code=1).stderr
    assert "test.csv: has 2 features, but the model m was trained with 6" in message
    answer = json.loads(run("evaluate", "m", "test.csv", "-m", "map", "--json").stdout)
    assert answer["samples"] == 180 and answer["queries"] == 12


def test_features_of_svmlight_files(run, tmp_path):
    run("train", "train.letor", "--model", "m")
    coef = load_model("m").coef_
    (tmp_path / "few.letor").write_text("0 2:3\n")
    assert float(run("predict", "m", "few.letor").stdout) == 3 * coef[1]
    (tmp_path / "many.letor").write_text("0 2:3 7:1\n")
    message = run("predict", "m", "many.letor", code=1).stderr
    assert "many.letor, line 1: feature index 7 is beyond the 6 features of the model m (indices start at 1); use data" in message
    # Whether indices start at 0 is known from training, where 0 occurred.
    X, y, qid = samples()
    dump_svmlight_file(X, y, str(tmp_path / "zero.letor"), query_id=qid, zero_based=True)
    run("train", "zero.letor", "--model", "z")
    assert float(run("predict", "z", "few.letor").stdout) == 3 * load_model("z").coef_[2]
    assert float(run("predict", "z", "few.letor", "--one-based").stdout) == 3 * load_model("z").coef_[1]
    (tmp_path / "zeros.letor").write_text("0 0:3\n")
    message = run("predict", "m", "zeros.letor", code=1).stderr
    assert "zeros.letor, line 1: feature index 0, but the model m says that they start at 1; pass --zero-based" in message
    message = run("predict", "m", "zeros.letor", "--one-based", code=1).stderr
    assert "zeros.letor, line 1: feature index 0, but --one-based says that they start at 1; pass --zero-based" in message


def test_files_that_are_no_models(run, tmp_path):
    assert "train.letor: is not a file saved by maxmargin" in run("predict", "train.letor", "test.letor", code=1).stderr
    X, y, _ = samples()
    for model in (MulticlassSVM().fit(X, y), ChainSVM().fit([X], [y])):
        save_model(model, "m")
        message = run("predict", "m", "test.letor", code=1).stderr
        assert f"m: holds a {type(model).__name__}, which does not rank samples" in message
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-30])
    assert "m: is damaged or incomplete" in run("evaluate", "m", "test.letor", code=1).stderr
    assert "m: was saved by maxmargin and holds no samples" in run("train", "m", "--model", "n", code=1).stderr


# ---- evaluate -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lowest", "options"),
    [
        (0, []),
        (1, []),
        (-1, []),
        (0, ["--threshold", "1"]),
        (2, ["--threshold", "3"]),
        (1, ["--grades"]),
        (1, ["--loss", "ndcg", "--grades", "exponential"]),
    ],
)
def test_evaluate_knows_what_is_relevant(run, tmp_path, lowest, options):
    """As the model learned it; in the report it is the same."""
    for name, seed in (("train", 0), ("test", 1)):
        X, y, qid = samples(seed=seed)
        dump_svmlight_file(X, y + lowest, str(tmp_path / f"{name}.letor"), query_id=qid, zero_based=False)
    run("train", "train.letor", "--model", "m", *options)
    result = run("evaluate", "m", "test.letor", "--json")
    found, model = json.loads(result.stdout)["metrics"], load_model("m")
    assert result.stderr == ""
    relevant = y + lowest > model.relevance_thresholds_.min()
    scores = model.decision_function(X)
    for name in ("map", "mrr", "p@10", "auc"):
        assert found[name] == pytest.approx(metrics.evaluate(relevant, scores, qid=qid, metrics=[name])[name]), name
    if not options:
        assert found["map"] == pytest.approx(model.score(X, y + lowest, qid))
    page = report_contents(model, X, y + lowest, qid)["metrics"]
    names = [title.lower().replace("precision", "p") for title in page["titles"]]
    assert found == pytest.approx(dict(zip(names, page["rows"][0], strict=True)), rel=1e-4)
    # And cross-validation judges by the same numbers.
    measure = Measure("ndcg@10", "linear", float(model.relevance_thresholds_.min()))
    assert measure.of(model, X, y + lowest, qid) == pytest.approx(found["ndcg@10"])


def test_metrics_of_a_query_do_not_depend_on_the_others(run, tmp_path):
    """What is relevant, and how much it gains, is the model's to say."""
    run("train", "train.csv", "--threshold", 1, "--model", "m")
    header, *rows = (tmp_path / "test.csv").read_text().splitlines()
    names = ["-m", "map", "-m", "ndcg"]
    table = json.loads(run("evaluate", "m", "test.csv", *names, "--per-query", "--json").stdout)["per_query"]
    for query in ("q0", "q5", "q11"):
        alone = [row for row in rows if row.startswith(f"{query},")]
        (tmp_path / "alone.csv").write_text("\n".join([header, *alone]) + "\n")
        found = json.loads(run("evaluate", "m", "alone.csv", *names, "--json").stdout)["metrics"]
        assert found == pytest.approx(table[query])


def test_evaluate_warns_if_everything_is_relevant(run, tmp_path):
    (tmp_path / "t.letor").write_text("1 qid:1 1:1\n2 qid:1 2:1\n")
    (tmp_path / "s.txt").write_text("1\n2\n")
    (tmp_path / "t.csv").write_text("relevance,score\n1,1\n2,1\n")
    run("train", "train.letor", "--model", "m")
    warning = "Warning: every label is above 0, so every sample counts as relevant"
    for arguments in (["t.letor", "s.txt"], ["t.csv"], ["m", "t.letor"]):
        result = run("evaluate", *arguments, "--json")
        assert result.stderr.startswith(warning) and result.stderr.count("\n") == 1 and json.loads(result.stdout)
    (tmp_path / "t.letor").write_text("0 qid:1 1:1\n2 qid:1 2:1\n")
    assert run("evaluate", "t.letor", "s.txt").stderr == ""
    # Judgements need not hold what is irrelevant.
    (tmp_path / "q").write_text("1 0 a 1\n")
    (tmp_path / "r").write_text("1 Q0 a 1 1 x\n")
    assert run("evaluate", "--qrels", "q", "--run", "r").stderr == ""


def test_evaluate_finds_out_what_files_are(run, tmp_path):
    run("train", "train.letor", "--model", "m")
    run("predict", "m", "test.letor", "-o", "scores.txt")
    (tmp_path / "empty").write_text("")
    (tmp_path / "pickled").write_bytes(pickle.dumps([1]))
    (tmp_path / "two.txt").write_text("1 2\n")
    for files, message in (
        (["empty", "test.letor"], "empty: is empty; copy or write it again"),
        (["pickled", "test.letor"], "pickled: is not a file saved by maxmargin; name one that 'maxmargin train'"),
        (["pickled", "test.csv"], "pickled: is not a file saved by maxmargin"),
        (["train.letor", "test.letor"], "train.letor: is not a file saved by maxmargin"),
        (["m", "m"], "m: was saved by maxmargin and holds no samples"),
        (["test.letor", "two.txt"], "two.txt, line 1: score '1 2' is not a number"),
    ):
        assert message in run("evaluate", *files, code=1).stderr
    for files, message in (
        (["test.letor", "m"], "m was saved by maxmargin; a model comes first, and then the data: [MODEL] DATA"),
        (["m"], "m was saved by maxmargin; name the data that it is to score after it"),
        (["scores.txt", "test.letor"], "scores.txt has scores, which come after the data: DATA SCORES"),
        (["test.letor"], "test.letor is a svmlight file, without scores; name a model before it, or a file of scores after it"),
        (["test.csv", "scores.txt"], "test.csv is a table, whose scores are a column (--score); leave out scores.txt"),
        (["test.letor", "scores.txt", "--label", "x"], "--label is for tables (.csv, .tsv, .parquet), but test.letor is"),
        (["test.letor", "scores.txt", "--qid", "x"], "--qid is for tables"),
        (["test.letor", "scores.txt", "--score", "x"], "--score is for a table with a column of scores"),
        (["test.csv", "--score", "relevance"], "--label and --score both name the column 'relevance'"),
        (["--qrels", "test.csv", "--run", "test.csv", "--label", "x"], "--label, --score and --qid name columns of tables"),
    ):
        assert message in run("evaluate", *files, code=2).stderr
    # One score per line, whatever the name.
    (tmp_path / "scores.csv").write_text((tmp_path / "scores.txt").read_text())
    assert run("evaluate", "test.letor", "scores.csv").stdout == run("evaluate", "test.letor", "scores.txt").stdout


# ---- cv -----------------------------------------------------------------------------------------------------------------------


def test_cv(run, tmp_path):
    command = ["cv", "train.letor", "--C", "1,0.01,0.1", "--folds", 4, "--tol", 1e-7, "--seed", 3, "--json"]
    answer = json.loads(run(*command, "--jobs", 2, "--model", "m").stdout)
    assert [row["C"] for row in answer["results"]] == [0.01, 0.1, 1] and answer["n_folds"] == 4 and answer["metric"] == "ap"
    # Against fits of one's own on the same folds.
    X, y, qid = samples()
    folds = split(RankingData(X, y, qid), 4, 3, 0.0)
    assert sorted(np.concatenate(folds)) == list(range(len(y)))
    assert [len(np.unique(qid[held])) for held in folds] == [3, 3, 3, 3]
    for row in answer["results"]:
        values = []
        for held in folds:
            kept = np.setdiff1d(np.arange(len(y)), held)
            model = RankingSVM(C=row["C"], tol=1e-7).fit(X[kept], y[kept], qid[kept])
            values.append(model.score(X[held], y[held], qid[held]))
        np.testing.assert_allclose(row["folds"], values, atol=1e-9)
        assert row["mean"] == pytest.approx(np.mean(row["folds"]))
        assert row["standard_error"] == pytest.approx(np.std(row["folds"], ddof=1) / 2)
        assert row["largest_relative_gap"] <= 1e-7 and row["not_converged"] == 0
    best = max(answer["results"], key=lambda row: row["mean"])["C"]
    assert answer["best_C"] == best == answer["final"]["C"] == load_model("m").C
    run("train", "train.letor", "--C", best, "--tol", 1e-7, "--seed", 3, "--model", "same")
    np.testing.assert_array_equal(load_model("m").coef_, load_model("same").coef_)
    # Again, alone, and with another seed.
    again = json.loads(run(*command, "--jobs", 1).stdout)
    assert again["results"] == answer["results"]
    other = json.loads(run(*command[:-2], 4, "--json").stdout)
    assert other["results"] != answer["results"]


def test_cv_table(run):
    result = run("cv", "train.csv", "--folds", 3, "-m", "ndcg@5", "--gains", "exponential", "--loss", "ndcg")
    lines = result.stdout.splitlines()
    assert lines[0] == "train.csv: 180 samples, 12 queries, 6 features"
    assert lines[1].split() == ["C", "NDCG@5,", "3", "folds", "std.", "error", "largest", "gap"]
    # Twelve lists: from a tenth of what one list would get.
    assert [float(line.split()[0]) for line in lines[3:9]] == [0.1, 1, 10, 100, 1000, 10000]
    assert lines[9].startswith("best C: ")
    assert run("cv", "train.csv", "--C", "1", "--quiet").output == ""
    assert "metric 'best' is unknown" in run("cv", "train.csv", "-m", "best", code=1).stderr
    message = run("cv", "train.csv", "--folds", 13, code=1).stderr
    assert "train.csv: 13 folds need as many queries, but there are only 12; lower --folds" in message


def test_cv_metric_and_labels(run, tmp_path):
    """Labels 1 and 2: one is irrelevant, for the metric too."""
    X, y, qid = samples()
    for name, labels in (("a", y > 0), ("b", (y > 0) + 1)):
        dump_svmlight_file(X, labels, str(tmp_path / f"{name}.letor"), query_id=qid, zero_based=False)
    a, b = (json.loads(run("cv", f"{name}.letor", "--C", "0.1", "-m", "map", "--json").stdout) for name in "ab")
    trained = json.loads(run("cv", "a.letor", "--C", "0.1", "--json").stdout)
    assert a["results"] == b["results"] and a["results"][0]["mean"] == pytest.approx(trained["results"][0]["mean"])


def test_cv_of_one_list(run, tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    dump_svmlight_file(X / X.max(axis=0), y, str(tmp_path / "one.txt"), zero_based=False)
    answer = json.loads(run("cv", "one.txt", "--C", "1,10", "--loss", "auc", "--json").stdout)
    assert answer["queries"] is None and all(row["mean"] > 0.98 for row in answer["results"])
    folds = split(RankingData(X, y), 5, 0, 0.0)
    shares = [np.mean(y[held]) for held in folds]
    assert max(shares) - min(shares) < 0.01
    (tmp_path / "few.txt").write_text("1 1:1\n1 1:2\n" + "0 1:0.5\n" * 9)
    message = run("cv", "few.txt", code=1).stderr
    assert "few.txt: 5 folds need as many relevant and as many irrelevant samples, but there are only 2 of one kind" in message


def test_cv_warnings(run):
    result = run("cv", "train.letor", "--C", "100,10000", "--max-iter", 4, "--folds", 3)
    assert "Warning: 6 of 6 fits did not reach --tol" in result.stderr
    assert "Warning: the best C is at the end of the grid; try " in result.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_cv_interrupted(run, tmp_path, monkeypatch, jobs):
    interrupting(monkeypatch, 4)
    before = threading.active_count()
    endless = ["--C", "1,10", "--tol", 1e-12, "--max-iter", 100_000]
    result = run("cv", "train.letor", "--jobs", jobs, *endless, "--model", "m", code=130)
    assert result.stderr == "interrupted\n" and result.stdout == "" and not (tmp_path / "m").exists()
    # No fold goes on behind our back; a thread that was just starting may take a moment to notice.
    for _ in range(1000):
        if threading.active_count() <= before:
            break
        time.sleep(0.01)
    assert threading.active_count() <= before


# ---- the process --------------------------------------------------------------------------------------------------------------


def test_pipes_and_terminals(run, tmp_path):
    """Nothing on standard error in a pipe; a line that is written over on a terminal."""
    piped, shown, _ = in_a_pipe_and_on_a_terminal("train", "train.letor", "--C", "100", "--model", "m")
    assert piped.stderr == "" and piped.stdout.startswith("train.letor: ")
    assert "relative gap" in shown and shown.endswith("\r\x1b[K")


def test_pipes_in_place_of_files(run):
    """A model out of a pipe, and results into one."""
    run("train", "train.letor", "--model", "m")
    environment = {**os.environ, "PYTHONPATH": str(Path(maxmargin.__file__).parents[1])}
    command = [sys.executable, "-m", "maxmargin"]

    def output(*arguments, **options):
        return subprocess.run([*command, *arguments], capture_output=True, check=True, env=environment, **options).stdout.decode()

    expected = run("predict", "m", "test.letor").stdout
    assert output("predict", "m", "test.letor", "-o", "/dev/stdout") == expected
    # A file that standard output leads to keeps what others write to it.
    for name in ("/dev/stdout", "/dev/fd/1"):
        with open("all.txt", "w") as file:
            file.write("first\n")
            file.flush()
            subprocess.run([*command, "predict", "m", "test.letor", "-o", name], stdout=file, check=True, env=environment)
            file.write("last\n")
        assert Path("all.txt").read_text() == f"first\n{expected}last\n"
    answer = run("evaluate", "m", "test.letor").stdout
    assert output("evaluate", "/dev/stdin", "test.letor", input=Path("m").read_bytes()) == answer
    assert output("evaluate", "m", "/dev/stdin", input=Path("test.letor").read_bytes()) == answer


def test_full_disks_are_named(run):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full, the disk that is always full")
    run("train", "train.letor", "--model", "m")
    for arguments in (
        ["train", "train.letor", "--model"],
        ["predict", "m", "test.letor", "-o"],
        ["report", "m", "test.letor", "-o"],
    ):
        message = run(*arguments, "/dev/full", code=1).stderr
        assert message == "Error: /dev/full: No space left on device; make room, or choose another place\n"
    command = [sys.executable, "-m", "maxmargin", "predict", "m", "test.letor"]
    environment = {**os.environ, "PYTHONPATH": str(Path(maxmargin.__file__).parents[1])}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode == 1 and done.stderr.startswith("Error: standard output: No space left on device; make room")


def test_every_command_has_an_example(run):
    for name in main.commands:
        text = run(name, "--help").stdout
        assert f"maxmargin {name} " in text and "Example" in text and "\\b" not in text, name
    assert "\\b" not in run("--help").stdout
