"""Train and cv as a user calls them: results, exit codes, and what is said about bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from tests.cases.command_cases import in_a_pipe_and_on_a_terminal, samples
from tests.cases.waiting import wait_until

import maxmargin
import maxmargin.cli.options as options
from maxmargin import RankingSVM, load_model
from maxmargin.cli.cv import split
from maxmargin.cli.main import main
from maxmargin.core import SOLVERS, read_model
from maxmargin.io import RankingData, load_svmlight
from maxmargin.ranking import RankingProblem

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
    assert "one-hot encoded: who (12 categories)" in run("train", "named.csv", "--label", "grade", "--model", "m").stdout
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


def interrupting(monkeypatch, at, number=signal.SIGINT):
    """Ctrl-C or another signal in the middle of inference number ``at``."""
    calls = 0
    original = RankingProblem.tangent

    def tangent(self, scores):
        nonlocal calls
        calls += 1
        if calls == at:
            signal.raise_signal(number)
        return original(self, scores)

    monkeypatch.setattr(RankingProblem, "tangent", tangent)


SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@SIGNALS
def test_interruption_saves_what_there_is(run, monkeypatch, number, code):
    interrupting(monkeypatch, 6, number)
    before = signal.getsignal(number)
    result = run("train", "train.letor", "--C", 1e3, "--tol", 1e-9, "--model", "m", code=code)
    assert "Warning: interrupted" in result.stderr and signal.getsignal(number) is before
    model = load_model("m")
    assert model.n_iter_ == 6 and model.dual_gap_ > 1e-9 * model.primal_objective_ and model.certified_
    # The gap is true: weights at their optimum are not better than the dual says.
    monkeypatch.undo()
    X, y, qid = samples()
    best = RankingSVM(C=1e3, tol=1e-6, max_iter=10_000).fit(X, y, qid)
    assert model.dual_objective_ <= best.primal_objective_ <= model.primal_objective_


@SIGNALS
def test_interruption_before_anything_is_reached(run, tmp_path, monkeypatch, number, code):
    interrupting(monkeypatch, 1, number)
    assert run("train", "train.letor", "--model", "m", code=code).stderr == "interrupted\n"
    assert not (tmp_path / "m").exists()


def test_sigterm_in_a_process(run, tmp_path):
    """What a batch system sends: the best model is written, though nobody asked for the gap it has."""
    endless = ["--C", "1e4", "--tol", "1e-12", "--max-iter", "1000000", "--solver", "subgradient"]
    command = [sys.executable, "-m", "maxmargin", "train", "train.letor", *endless, "--model", "m"]
    environment = {**os.environ, "PYTHONPATH": str(Path(maxmargin.__file__).parents[1])}
    ours, theirs = pytest.importorskip("pty").openpty()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        assert b"relative gap" in os.read(ours, 1000)  # training has begun
        process.terminate()
        code = process.wait(60)
    os.close(theirs)
    os.close(ours)
    assert code == 143 and load_model("m").n_iter_ >= 1 and os.listdir(tmp_path).count("m") == 1


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
        ("label qid f1\n1 qid:1 1:2\n", "line 1: label 'label' is not a number; .* Remove a header, .* under names in .csv"),
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
        ("relevance,a\n1,2\n0,\n", "line 3: a is missing; fill in what is missing, .* or the column: leave it out with --drop a"),
        ("relevance,a\n1,2\n1,nan\n", "line 3: a 'nan' is not finite; leave out or impute what is missing"),
        ("grade,a\n1,2\n", "line 1: there is no column 'relevance' of labels; the header has 'grade', 'a'; name it with --label"),
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
        (["train", "train.letor", "--model", "m", "--loss", "mape"], "loss='mape' is unknown; choose one of 'ap[@K]'"),
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
        assert "--grades mean uses every grade as a threshold; leave --threshold out" in message


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
    assert "train.letor: --grades linear are the gains of NDCG, and AveragePrecision() knows none; use them with" in message
    run("train", "train.letor", "--model", "m")
    message = run("predict", "m", "test.letor", "--format", "trec", "--tag", "my tag", code=2).stderr
    assert "'--tag': 'my tag' must be one word" in message and "test.letor" not in message


@pytest.mark.parametrize("command", ["train", "cv", "path"])
def test_too_little_memory(run, tmp_path, monkeypatch, command):
    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate 238. GiB")

    monkeypatch.setattr(RankingSVM, "fit", fail)
    monkeypatch.setattr("maxmargin.core.regularization_path", fail)
    (tmp_path / "wide.letor").write_text("".join(f"1 qid:{k} 1:2\n0 qid:{k} 2000000000:1\n" for k in range(5)))
    model = [] if command == "path" else ["--model", "m"]
    for name, place in (
        ("wide.letor", "the largest feature index is 2000000000, on line 2, and there is a weight for every index up to it"),
        ("train.csv", "take fewer samples or features"),
    ):
        message = run(command, name, *model, code=1).stderr
        assert f"{name}: does not fit into memory with what training needs (Unable to allocate 238. GiB); {place}" in message


def test_choices_are_those_of_the_library():
    assert set(options.SOLVERS) == {"auto", *SOLVERS}


def test_losses_by_other_names(run):
    answer = json.loads(run("train", "train.letor", "--loss", "MAP", "--model", "a", "--json").stdout)
    run("train", "train.letor", "--loss", "ap", "--model", "b")
    assert answer["loss"] == load_model("a").loss == "ap" and (load_model("a").coef_ == load_model("b").coef_).all()


@pytest.mark.parametrize(
    "arguments", [["train", "train.letor", "--model", "-"], ["predict", "-", "train.letor"], ["report", "m", "d", "-o", "-"]]
)
def test_a_dash_is_no_file(run, tmp_path, arguments):
    for name in "md":
        (tmp_path / name).touch()
    before = os.listdir(tmp_path)
    message = run(*arguments, code=2).stderr
    assert "'-' does not stand for a stream here; " in message and os.listdir(tmp_path) == before


def test_names_that_are_not_text(run, tmp_path):
    """Names of files are bytes: nothing is lost where they are not UTF-8."""
    name = os.fsdecode(b"tr\xff.letor")
    try:
        os.rename("train.letor", name)
    except OSError:
        pytest.skip("the file system has other names")
    for arguments in (["train", name, "--model", name + "m"], ["report", name + "m", name, "-o", name + ".html"]):
        result = run(*arguments)
        assert "\ufffd" in result.stdout or "\udcff" in result.stdout or b"\xff" in result.stdout_bytes
    assert read_model(name + "m").about["data"]["file"] == name
    assert "Model: tr" in (tmp_path / f"{name}.html").read_text()
    run("path", name, "--epsilon", 0.1, "--report", name + "p.html")


def test_memory_is_named(run, monkeypatch):
    def none(*args, **options):
        raise MemoryError

    monkeypatch.setattr("maxmargin.cli.reading.load_svmlight", none)
    message = run("train", "train.letor", "--model", "m", code=1).stderr
    assert "train.letor: does not fit into memory with what training needs; take fewer samples or features" in message
    monkeypatch.setattr("maxmargin.cli.report.check_writable", none)
    assert "Error: there is not enough memory; take fewer" in run("report", "train.letor", "test.letor", code=1).stderr


def test_queries_beside_the_data(run, tmp_path):
    """LightGBM has the sizes of queries in a file of their own."""
    X, y, _ = samples()
    dump_svmlight_file(X, y, "side.txt", zero_based=False)
    Path("side.txt.query").write_text("15\n" * 12)
    assert json.loads(run("train", "side.txt", "--model", "a", "--json").stdout)["queries"] == 12
    run("train", "train.letor", "--model", "b")
    np.testing.assert_array_equal(load_model("a").coef_, load_model("b").coef_)
    for sizes in ("15\n", "7.5\n" * 24, "180\n0\n"):
        Path("side.txt.query").write_text(sizes)
        message = run("train", "side.txt", "--model", "a", code=1).stderr
        assert "side.txt.query: must hold the sizes of the queries of side.txt, whole numbers that add up to its 180" in message


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
    assert "metric 'best' is unknown" in run("cv", "train.csv", "-m", "best", code=2).stderr
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
    wait_until(lambda: threading.active_count() <= before)


# ---- the process --------------------------------------------------------------------------------------------------------------


def test_pipes_and_terminals(run, tmp_path):
    """Nothing on standard error in a pipe; a line that is written over on a terminal."""
    piped, shown, _ = in_a_pipe_and_on_a_terminal("train", "train.letor", "--C", "100", "--model", "m")
    assert piped.stderr == "" and piped.stdout.startswith("train.letor: ")
    assert "relative gap" in shown and shown.count("\n") == 1 and shown.endswith("\n")


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
