"""``--engine``: training, scores and metrics on parts of the data, and what is said where that cannot be."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cases.waiting import time_out

from maxmargin import load_model
from maxmargin.cli import sharded
from maxmargin.distributed import LocalEngine
from maxmargin.ranking.shards import evaluate as judge


def answer(result):
    return json.loads(result.stdout)


def scores_in(folder):
    return np.array([float(line) for path in sorted(Path(folder).iterdir()) for line in path.read_text().split()])


def write_parts(n=3):
    """The lines of train.letor in files of their own; queries are cut, and go on in the next file."""
    lines = Path("train.letor").read_text().splitlines(keepends=True)
    for k in range(n):
        Path(f"part-{k}.svm").write_text("".join(lines[len(lines) * k // n : len(lines) * (k + 1) // n]))


def test_parts_give_the_model_of_the_whole(run):
    whole = answer(run("train", "train.letor", "--model", "whole.model", "--tol", "1e-6", "--json"))
    write_parts()
    for data in (["part-*.svm"], ["part-0.svm", "part-1.svm", "part-2.svm"]):
        found = answer(run("train", *data, "--engine", "local", "--shards", 4, "--model", "m.model", "--tol", "1e-6", "--json"))
        assert (found["samples"], found["queries"], found["features"]) == (180, 12, 6)
        assert found["primal"] == pytest.approx(whole["primal"], rel=2e-6) and found["certified"] and found["converged"]
        assert found["training"]["ap"] == pytest.approx(whole["training"]["ap"], abs=1e-3)
        assert (found["engine"], found["workers"], found["moves"], found["repeats"]) == ("local", 1, 0, 0)
        assert found["shards"] == 4 and found["bytes_up"] > 0 and found["bytes_down"] > 0
    model = load_model("m.model")
    assert type(model).__name__ == "RankingSVM"
    np.testing.assert_allclose(model.coef_, load_model("whole.model").coef_, rtol=1e-2, atol=1e-3)
    said = run("train", "part-*.svm", "--engine", "local", "--shards", 4, "--model", "m.model").stdout
    assert "part-*.svm: 180 samples, 12 queries, 6 features\n4 shards in this process, 0 moves" in said and "certified" in said
    assert "trained on: part-*.svm, 180 samples" in run("inspect", "m.model").stdout


def test_metrics_and_scores_are_those_of_the_whole(run):
    run("train", "train.letor", "--threshold", 1, "--model", "m.model")
    expected = answer(run("evaluate", "m.model", "train.letor", "--json"))
    write_parts()
    found = answer(run("evaluate", "m.model", "part-*.svm", "--engine", "local", "--shards", 5, "--json"))
    # Grades count from the threshold of the model, also in NDCG.
    assert found["metrics"] == pytest.approx(expected["metrics"], rel=1e-12)
    assert (found["samples"], found["queries"], found["shards"]) == (180, 12, 5)
    few = ["-m", "ndcg@5", "-m", "map", "--gains", "exponential"]
    plain = run("evaluate", "m.model", "train.letor", *few).stdout
    assert run("evaluate", "m.model", "part-*.svm", "--engine", "local", *few).stdout == plain
    run("predict", "m.model", "train.letor", "-o", "scores.txt")
    said = run("predict", "m.model", "part-*.svm", "--engine", "local", "--shards", 3, "-o", "scores")
    assert "scores: 180 scores in 3 files" in said.stdout
    np.testing.assert_array_equal(scores_in("scores"), np.loadtxt("scores.txt"))
    again = answer(run("predict", "m.model", "part-*.svm", "--engine", "local", "--shards", 3, "-o", "scores", "--json"))
    assert again["files"] == ["00000-of-00003.txt", "00001-of-00003.txt", "00002-of-00003.txt"] and again["samples"] == 180
    assert (
        "of another number of shards"
        in run("predict", "m.model", "part-*.svm", "--engine", "local", "--shards", 2, "-o", "scores", code=1).stderr
    )
    assert "name a folder" in run("predict", "m.model", "part-*.svm", "--engine", "local", "-o", "scores.txt", code=1).stderr


def spread_out():
    """The columns of the tables in units of their own, one of them far from zero."""
    for name in ("train", "test"):
        head, *lines = Path(f"{name}.csv").read_text().split()
        cells = [line.split(",") for line in lines]
        X = np.array([row[2:] for row in cells], dtype=float) * [1.0, 1e4, 1e-3, 50.0, 1.0, 1.0] + [0, 0, 0, 1.7e9, 5, 0]
        text = [",".join([*row[:2], *map(repr, x)]) for row, x in zip(cells, X.tolist(), strict=True)]
        Path(f"{name}.csv").write_text("\n".join([head, *text]) + "\n")


def test_scaled_features(run):
    spread_out()
    scaled = ["--scale", "standard", "--tol", "1e-6", "--json"]
    whole = answer(run("train", "train.csv", *scaled, "--model", "whole.model"))
    head, *lines = Path("train.csv").read_text().splitlines(keepends=True)
    for k, (begin, end) in enumerate([(0, 50), (50, 125), (125, 180)]):  # queries are cut
        Path(f"part-{k}.csv").write_text(head + "".join(lines[begin:end]))
    found = answer(run("train", "part-*.csv", "--engine", "local", "--shards", 3, *scaled, "--model", "m.model"))
    assert found["samples"] == 180 and found["shards"] == 3 and found["certified"]
    assert found["primal"] == pytest.approx(whole["primal"], rel=2e-6)
    assert found["training"]["ap"] == pytest.approx(whole["training"]["ap"], abs=1e-3)
    one, other = load_model("m.model"), load_model("whole.model")
    np.testing.assert_allclose(one.feature_scale_, other.feature_scale_, rtol=1e-12)
    np.testing.assert_allclose(one.feature_center_, other.feature_center_, rtol=1e-12)
    np.testing.assert_allclose(one.coef_ * one.feature_scale_, other.coef_ * other.feature_scale_, rtol=1e-2, atol=1e-3)
    # What was trained in parts scores whole files and parts, and so does what was not.
    for model in ("m.model", "whole.model"):
        plain = run("evaluate", model, "test.csv").stdout
        assert run("evaluate", model, "test.csv", "--engine", "local").stdout == plain
        run("predict", model, "test.csv", "-o", "scores.txt")
        run("predict", model, "test.csv", "--engine", "local", "-o", "scores")
        np.testing.assert_allclose(scores_in("scores"), np.loadtxt("scores.txt"), rtol=1e-12)
    without = answer(run("train", "part-*.csv", "--engine", "local", "--json", "--model", "n.model", "--max-iter", 50))
    assert without["primal"] != pytest.approx(whole["primal"], rel=1e-3)


def test_path_of_scaled_features(run):
    spread_out()
    options = ["--scale", "standard", "--validation", "test.csv", "--epsilon", 0.05, "--json"]
    expected = answer(run("path", "train.csv", *options, "--model", "m.model"))
    found = answer(run("path", "train.csv", *options, "--engine", "local", "--model", "n.model"))
    assert found["best"]["ap"] == pytest.approx(expected["best"]["ap"], abs=1e-6)
    np.testing.assert_allclose(load_model("n.model").coef_, load_model("m.model").coef_, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_packed_shards(run, dtype):
    run("pack", "train.letor", "-o", "packed", "--shards", 3, "--dtype", dtype)
    found = answer(run("train", "packed", "--engine", "local", "--model", "m.model", "--json"))
    assert found["shards"] == 3 and found["samples"] == 180
    files = answer(run("train", "train.letor", "--engine", "local", "--dtype", dtype, "--model", "n.model", "--json"))
    assert found["primal"] == pytest.approx(files["primal"], rel=2e-3)
    run("predict", "m.model", "packed", "--engine", "local", "-o", "scores")
    assert len(scores_in("scores")) == 180
    assert run("evaluate", "m.model", "packed", "--engine", "local").stdout == run("evaluate", "m.model", "train.letor").stdout
    said = run("train", "packed", "--engine", "local", "--shards", 2, "--model", "m.model", code=2).stderr
    assert "holds packed shards, which are what they are; leave out --shards" in said


def test_tables_and_one_list_over_all_parts(run):
    columns = ["--drop", "qid", "--engine", "local"]
    found = answer(run("train", "train.csv", "test.csv", *columns, "--shards", 2, "--model", "m.model", "--json"))
    assert (found["samples"], found["queries"], found["shards"]) == (360, None, 2)
    Path("both.csv").write_text(Path("train.csv").read_text() + Path("test.csv").read_text().partition("\n")[2])
    whole = answer(run("train", "both.csv", "--drop", "qid", "--model", "n.model", "--json"))
    assert found["primal"] == pytest.approx(whole["primal"], rel=1e-9)
    assert found["training"]["ap"] == pytest.approx(whole["training"]["ap"], rel=1e-12)
    assert list(load_model("m.model").feature_names_in_) == list("abcdef")
    # Labels are not used; columns are found by their names.
    lines = [line.split(",") for line in Path("test.csv").read_text().split()]
    Path("new.csv").write_text("\n".join(",".join(reversed(cells[2:])) for cells in lines) + "\n")
    run("predict", "m.model", "new.csv", "--engine", "local", "-o", "scores")
    run("predict", "m.model", "test.csv", "-o", "scores.txt")
    np.testing.assert_allclose(scores_in("scores"), np.loadtxt("scores.txt"), rtol=1e-12)
    assert run("evaluate", "m.model", "test.csv", "--engine", "local").stdout == run("evaluate", "m.model", "test.csv").stdout


def test_a_classifier_trained_in_one_process_predicts_in_parts(run):
    options = ["--method", "classifier", "--drop", "qid", "--threshold", 0, "--C", 0.1, "--no-refine"]
    run("train", "train.csv", *options, "--model", "m.model")
    for wanted in ("scores", "labels", "probabilities"):
        run("predict", "m.model", "test.csv", "--as", wanted, "-o", "values.txt")
        said = run("predict", "m.model", "test.csv", *LOCAL, "--as", wanted, "-o", wanted).stdout
        assert f"180 {wanted} in 1 files" in said
        np.testing.assert_allclose(scores_in(wanted), np.loadtxt("values.txt"), rtol=1e-12)
    assert set(scores_in("labels")) == {0, 1}
    expected = answer(run("evaluate", "m.model", "test.csv", "--json"))
    assert answer(run("evaluate", "m.model", "test.csv", *LOCAL, "--json"))["metrics"] == pytest.approx(expected["metrics"])


@pytest.mark.parametrize("kind", ["letor", "csv"])
def test_path(run, kind):
    options = ["--validation", f"test.{kind}", "--epsilon", 0.05, "-m", "ndcg@5", "--json"]
    expected = answer(run("path", f"train.{kind}", *options, "--model", "m.model"))
    parts = ["--engine", "local", "--shards", 3, "--save", "p.path", "--checkpoint", "p.ckpt"]
    found = answer(run("path", f"train.{kind}", *options, *parts, "--model", "n.model"))
    assert found["certified"] and found["complete"] and len(found["models"]) == len(expected["models"])
    assert found["best"]["ndcg@5"] == pytest.approx(expected["best"]["ndcg@5"], abs=1e-9)
    assert found["best"]["C"] == pytest.approx(expected["best"]["C"], rel=1e-6)
    assert found["engine"] == "local" and found["shards"] == (3 if kind == "letor" else 1)  # text of tables is not cut
    np.testing.assert_allclose(load_model("n.model").coef_, load_model("m.model").coef_, rtol=1e-6, atol=1e-9)
    assert "path of RankingSVM" in run("inspect", "p.path").stdout
    again = answer(run("path", f"train.{kind}", *options, *parts, "--model", "n.model"))
    assert again["best"] == found["best"]
    said = run("path", f"train.{kind}", "--engine", "local", "--folds", 2, code=2).stderr
    assert "--folds does not go with --engine" in said


class Interrupted(LocalEngine):
    """Somebody presses Ctrl-C in the middle."""

    pressed = False

    def call(self, *args, **kwargs):
        if self.rounds == 24 and not Interrupted.pressed:
            Interrupted.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
        return super().call(*args, **kwargs)


def test_interrupted_and_gone_on(run, monkeypatch):
    write_parts()
    command = ["train", "part-*.svm", "--engine", "local", "--shards", 3, "--tol", "1e-6"]
    expected = answer(run(*command, "--model", "m.model", "--json"))
    weights = load_model("m.model").coef_
    monkeypatch.setattr(sharded, "LocalEngine", Interrupted)
    Interrupted.pressed = False
    stopped = run(*command, "--model", "n.model", "--checkpoint", "run.ckpt", "--json", code=130)
    assert "interrupted; the model is the best one so far" in stopped.stderr and "goes on from run.ckpt" in stopped.stderr
    assert answer(stopped)["interrupted"] and answer(stopped)["passes"] < expected["passes"] and answer(stopped)["training"] == {}
    assert load_model("n.model").dual_gap_ > expected["gap"]
    done = answer(run(*command, "--model", "n.model", "--checkpoint", "run.ckpt", "--json"))
    assert (done["primal"], done["dual"], done["passes"]) == (expected["primal"], expected["dual"], expected["passes"])
    np.testing.assert_array_equal(load_model("n.model").coef_, weights)
    said = run(*command, "--C", 7, "--model", "n.model", "--checkpoint", "run.ckpt", code=1).stderr
    assert "run.ckpt: is the checkpoint of a run with lam=" in said


LOCAL = ["--engine", "local"]


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["nothing-*", *LOCAL], 1, "no file matches 'nothing-*'"),
        (["nothing", *LOCAL], 1, "nothing: is not there; is it on a shared file system"),
        (["train.letor", "train.csv", *LOCAL], 1, "train.csv is a table, and"),
        (["train.letor", "test.letor"], 2, "--engine local or dask takes many files"),
        (["-", *LOCAL], 2, "standard input, which cannot be shared out"),
        (["train.letor", "--shards", "2"], 2, "--shards is for data in parts; add --engine"),
        (["train.letor", "--checkpoint", "a"], 2, "--checkpoint is for data in parts"),
        (["train.letor", "--scheduler", "tcp://a:1", *LOCAL], 2, "add --engine dask"),
        (["train.letor", "--loss", "accuracy", *LOCAL], 2, "--loss accuracy is not known over shards"),
        (["train.letor", "--scale", "query", *LOCAL], 2, "--scale query is not known over shards"),
        (["train.letor", "--refine", *LOCAL], 2, "--refine needs all data in one process; leave out --refine, or leave out"),
        (["train.csv", "--method", "classifier", *LOCAL], 2, "--method classifier trains in one process only; leave out"),
        (["train.letor", "--aim", "f1", *LOCAL], 2, "--aim is for --method classifier"),
        (["train.csv", "--categorical", "a", *LOCAL], 2, "--categorical does not go with --engine"),
        (["train.letor", "--checkpoint", "a", "--solver", "bcfw", *LOCAL], 2, "--checkpoint is for --solver one_slack"),
        (["train.letor", "--threshold", "9", *LOCAL], 1, "train.letor: y must contain relevant and irrelevant samples"),
        (["train.letor", "--label", "grade", *LOCAL], 2, "--label is for tables"),
        (["train.letor", "--model", "train.letor", *LOCAL], 2, "are the same file"),
        (["train.letor", "--engine", "spark"], 2, "'spark' is not one of 'local', 'dask'"),
        (["folder", *LOCAL], 1, "holds no packed shard"),
    ],
)
def test_bad_training(run, arguments, code, problem):
    Path("folder").mkdir()
    assert problem in run("train", "--model", "m.model", *arguments, code=code).stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["predict", "m.model", "train.letor"], "name a folder for them with --output"),
        (["predict", "m.model", "train.letor", "-o", "s", "--format", "trec"], "--format does not go with --engine"),
        (["evaluate", "m.model"], "a model and data are needed"),
        (["evaluate", "m.model", "train.letor", "--per-query"], "--per-query does not go with --engine"),
        (["evaluate", "nothing", "train.letor"], "'nothing' does not exist"),
    ],
)
def test_bad_judging(run, arguments, problem):
    run("train", "train.letor", "--model", "m.model")
    assert problem in run(*arguments, *LOCAL, code=2).stderr


def test_models_that_do_not_score_parts(run):
    run("train", "train.letor", "--scale", "query", "--model", "m.model")
    assert "--scale query, which is not known in parts" in run("evaluate", "m.model", "train.letor", *LOCAL, code=1).stderr
    run("train", "train.letor", "--model", "m.model")
    said = run("predict", "m.model", "train.letor", "--as", "labels", "-o", "s", *LOCAL, code=1).stderr
    assert "holds a RankingSVM, which has scores and no labels; train with --method classifier" in said
    Path("wide.svm").write_text("1 qid:1 9:1\n0 qid:1 1:1\n")
    assert "9" in run("predict", "m.model", "wide.svm", "-o", "s", *LOCAL, code=1).stderr


def test_only_the_dask_engine_needs_dask(run):
    """In processes of their own: modules that were imported before do not count."""
    without = "import sys; sys.modules['distributed'] = None; from maxmargin.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", without, "train", "train.letor", "--model", "m.model"]
    said = subprocess.run([*command, "--engine", "dask"], capture_output=True, text=True, timeout=60)
    assert said.returncode == 1 and "pip install 'maxmargin[dask]'" in said.stderr
    subprocess.run([*command, *LOCAL], capture_output=True, check=True, timeout=60)


def test_a_scheduler_that_is_not_there(run, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(sharded, "_PATIENCE", 0.5)
    with time_out(60):
        command = ["train", "train.letor", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9", "--model", "m.model"]
        assert "scheduler='tcp://127.0.0.1:9' did not answer within 0.5 s" in run(*command, code=1).stderr


def test_grades_count_from_a_base():
    from maxmargin.cli.evaluate import relevance_for
    from maxmargin.distributed import ShardOf, split_rows
    from maxmargin.ranking import evaluate

    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(50, 2)), rng.integers(-1, 4, size=50).astype(float), np.array([1.0, -0.3])
    engine = LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, y, 3)])
    for base in (0.0, 1.0, 1.5):
        found = judge(engine, w, metrics=["ndcg", "err@5"], base=base)
        assert found == pytest.approx(evaluate(relevance_for("ndcg", y, base), X @ w, metrics=["ndcg", "err@5"]), rel=1e-12)


@pytest.mark.cluster
def test_a_cluster_on_this_machine(run):
    pytest.importorskip("distributed")
    write_parts()
    with time_out(400):
        options = ["part-*.svm", "--shards", 3, "--engine"]
        scaled = ["--scale", "standard", "--json"]
        expected = answer(run("train", *options, "local", "--model", "m.model", *scaled))
        found = answer(run("train", *options, "dask", "--model", "n.model", *scaled))
        assert (found["primal"], found["dual"], found["training"]) == (expected["primal"], expected["dual"], expected["training"])
        np.testing.assert_array_equal(load_model("n.model").coef_, load_model("m.model").coef_)
        assert found["workers"] >= 1 and found["shards"] == 3 and found["engine"] == "dask"
        assert run("evaluate", "m.model", *options, "dask").stdout == run("evaluate", "m.model", *options, "local").stdout
        run("predict", "m.model", *options, "local", "-o", "here")
        run("predict", "m.model", *options, "dask", "-o", "there")
        np.testing.assert_array_equal(scores_in("there"), scores_in("here"))


@pytest.mark.cluster
def test_a_worker_that_does_not_see_the_files(run):
    pytest.importorskip("distributed")
    from tests.cases.dask_cases import threads

    from maxmargin.distributed import sources

    with time_out(300), threads() as client:
        command = ["train", "train.letor", "--engine", "dask", "--scheduler", client.scheduler.address, "--model", "m.model"]
        with pytest.MonkeyPatch.context() as patch:

            def missing(part, length):
                raise FileNotFoundError(2, "No such file or directory", part.file)

            patch.setattr(sources, "check_length", missing)
            said = run(*command, code=1).stderr
        assert "cannot find" in said and "train.letor" in said and "every worker sees under this name" in said
        assert "certified" in run(*command).stdout


# ---- tables, packings and queries ---------------------------------------------------------------------------------------------


def write_table(name, columns=("a", "b"), n=120, flag=False, label=True, seed=0):
    rng = np.random.default_rng(seed)
    values = {"a": rng.normal(size=n), "b": rng.normal(size=n)}
    y = (values["a"] - values["b"] + 0.3 * rng.normal(size=n) > 0.5).astype(int)
    header = [*(["relevance"] if label else []), "qid", *columns, *(["flag"] if flag else [])]
    lines = [",".join(header)]
    for k in range(n):
        cells = [*([str(y[k])] if label else []), str(k // 20), *(repr(float(values[c][k])) for c in columns)]
        lines.append(",".join([*cells, *(["true" if k % 3 else "false"] if flag else [])]))
    Path(name).write_text("\n".join(lines))


def test_columns_of_packed_tables_are_those_of_the_model(run):
    write_table("ab.csv")
    write_table("ba.csv", ("b", "a"))
    run("train", "ab.csv", "--model", "m.model")
    for name in ("ab", "ba"):
        run("pack", f"{name}.csv", "-o", f"{name}.packed")
    expected = answer(run("evaluate", "m.model", "ab.csv", "--json"))["metrics"]
    for data in ("ba.csv", "ab.packed"):
        assert answer(run("evaluate", "m.model", data, "--engine", "local", "--json"))["metrics"] == pytest.approx(expected)
    for command in (["evaluate", "m.model", "ba.packed"], ["predict", "m.model", "ba.packed", "-o", "out"]):
        said = run(*command, "--engine", "local", code=1).stderr
        assert "its columns are b, a, and those of the model are a, b; pack the files again with --features a,b" in said
    run("pack", "ba.csv", "-o", "again.packed", "--features", "a,b")
    assert answer(run("evaluate", "m.model", "again.packed", "--engine", "local", "--json"))["metrics"] == pytest.approx(expected)


def test_columns_of_truth_are_known_again(run):
    write_table("flag.csv", flag=True)
    run("pack", "flag.csv", "-o", "flag.packed")
    whole = run("train", "flag.csv", "--model", "whole.model").stdout
    for data in ("flag.csv", "flag.packed"):
        run("train", data, "--engine", "local", "--model", "m.model")
        for how in ([], ["--engine", "local"]):
            assert "all " in run("evaluate", "m.model", "flag.csv", *how).stdout
        assert "all " in run("evaluate", "m.model", "flag.packed", "--engine", "local").stdout
    assert "certified" in whole
    assert "best lambda" in run("path", "flag.csv", "--engine", "local", "--validation", "flag.csv").stdout


def test_scores_need_no_labels(run):
    write_table("ab.csv")
    write_table("none.csv", label=False)
    lines = [f"{k % 2} qid:{k // 10} 1:{np.sin(k)} 2:{np.cos(k)}" for k in range(60)]
    Path("a.svm").write_text("\n".join(lines))
    run("train", "a.svm", "--model", "m.model")
    assert "120 scores" in run("predict", "m.model", "none.csv", "--engine", "local", "-o", "out").stdout


def test_packed_rows_that_are_too_short(run):
    Path("a.svm").write_text("1 qid:1 1:1 2:1\n0 qid:1 1:2\n")
    Path("few.svm").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    run("train", "a.svm", "--model", "m.model")
    run("pack", "few.svm", "-o", "few.packed")
    said = run("evaluate", "m.model", "few.packed", "--engine", "local", code=1).stderr
    assert "has rows of 1 features, and the model has 2; pack the files again with --layout sparse" in said
    run("pack", "few.svm", "-o", "sparse.packed", "--layout", "sparse")
    run("evaluate", "m.model", "sparse.packed", "--engine", "local")


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
def test_queries_that_come_back_are_refused_in_any_number_of_parts(run, shards):
    for name in ("a.svm", "b.svm"):
        Path(name).write_text("".join(f"{k % 2} qid:{k // 10} 1:{np.sin(k)}\n" for k in range(60)))
    how = ["--engine", "local", "--shards", shards]
    assert (
        "with others in between; put the samples of a query together"
        in run("train", "a.svm", "b.svm", *how, "--model", "m.model", code=1).stderr
    )
    run("train", "a.svm", *how, "--model", "m.model")
    assert "with others in between" in run("evaluate", "m.model", "a.svm", "b.svm", *how, code=1).stderr


def test_a_file_is_named_once_however_it_is_spelt(run):
    Path("a.svm").write_text("1 1:1\n0 1:2\n")
    for other in ("./a.svm", Path("a.svm").absolute().as_uri()):
        assert "twice" in run("train", "a.svm", other, "--engine", "local", "--model", "m.model", code=1).stderr
        assert "twice" in run("pack", "a.svm", other, "-o", "packed", code=1).stderr


def test_an_address_without_a_port(run):
    Path("a.svm").write_text("1 1:1\n0 1:2\n")
    with time_out(20):
        said = run("train", "a.svm", "--engine", "dask", "--scheduler", "somewhere", "--model", "m.model", code=1).stderr
    assert "scheduler='somewhere' is no address; give host and port" in said
