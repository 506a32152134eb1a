"""``maxmargin path`` as a user calls it: the same numbers as in Python, files, Ctrl-C, and what is said about bad input."""

import json
import re
import signal

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.cases.command_cases import in_a_pipe_and_on_a_terminal, samples
from tests.cli.test_command_training import SIGNALS, interrupting

from maxmargin import PathSearchCV, RankingSVM, RegularizationPath, load_model, metrics, regularization_path
from maxmargin.cli.cv import split
from maxmargin.core import read_model
from maxmargin.io import load_svmlight

SETTINGS = {"epsilon": 0.02, "lambda_min": 1e-3}
OPTIONS = ["--epsilon", 0.02, "--lambda-min", 1e-3]


def contents(file):
    with open(file) as page:
        return json.loads(re.search(r'id="contents">(.*?)</script>', page.read(), re.S)[1])


def in_python(**options):
    X, y, qid = samples()
    return regularization_path(RankingSVM("ap"), X, y, qid=qid, **SETTINGS | options)


def test_validation(run, tmp_path):
    files = ["--model", "m", "--save", "p", "--report", "p.html"]
    answer = json.loads(run("path", "train.letor", *OPTIONS, "--validation", "test.letor", *files, "--json").stdout)
    path, (X, y, qid) = in_python(), samples(seed=1)
    found = path.select(X, y, qid=qid)
    best = answer["best"]
    assert (best["lambda"], best["ap"]) == pytest.approx((found.lam, found.score), rel=1e-6) and best["on"] == "test.letor"
    assert best["C"] == pytest.approx(1 / (found.lam * path.n_blocks)) and answer["blocks"] == path.n_blocks
    assert answer["certified"] and answer["complete"] and not answer["interrupted"]
    assert answer["lambda_end"] == 1e-3 and answer["solved"] == len(path) and answer["passes"] == path.total_passes
    used = [k for k, (hi, lo) in enumerate(path.ranges()) if hi > lo]
    assert [row["model"] for row in answer["models"]] == used and answer["models"][0]["lambda_high"] is None
    for row in answer["models"]:
        inside = np.geomspace(row["lambda_low"] * 1.0001, (row["lambda_high"] or 10 * row["lambda_low"]) * 0.9999, 7)
        assert all(path.model_at(lam) == row["model"] for lam in inside)
        assert max(map(path.gap_bound, inside)) <= row["largest_gap"] + 1e-12 <= SETTINGS["epsilon"] * (1 + 1e-9)
        assert row["ap"] == pytest.approx(found.scores[row["model"]])
        assert row["C_high"] == pytest.approx(1 / (row["lambda_low"] * path.n_blocks))
    model, saved = load_model("m"), RegularizationPath.load("p")
    assert model.score(X, y, qid) == pytest.approx(best["ap"]) and model.certified_ and pytest.approx(best["C"]) == model.C
    assert read_model("m").about == {"data": {"file": "train.letor", "samples": 180, "zero_based": False}}
    np.testing.assert_allclose(saved.weights(0.5), path.weights(0.5), rtol=1e-9)
    page = contents("p.html")
    assert page["path"]["best"]["lambda"] == pytest.approx(found.lam) and page["path"]["held_out"] == "test.letor"
    assert page["path"]["metric"] == "MAP" and page["path"]["features"][0] == "feature 1"
    measured = load_model("m").score(*samples())
    assert page["path"]["models"]["training"][page["path"]["best"]["position"]] == pytest.approx(measured, rel=1e-5)
    # The model ranks new files as any other does.
    assert f"{best['ap']:.4f}" in run("evaluate", "m", "test.letor", "-m", "map").stdout


def test_text(run):
    result = run("path", "train.letor", *OPTIONS, "--validation", "test.letor")
    path, (X, y, qid) = in_python(), samples(seed=1)
    found = path.select(X, y, qid=qid)
    lines = result.stdout.splitlines()
    used = sum(hi > lo for hi, lo in path.ranges())
    assert lines[0] == "train.letor: 180 samples, 12 queries, 6 features"
    assert lines[1].startswith(f"{used} models for every lambda down to 0.001, gap at most 0.02 (certified), ")
    assert lines[2].split() == ["lambda", "from", "down", "to", "C", "up", "to", "largest", "gap", "AP"]
    marked = [line for line in lines if line.endswith("*")]
    assert len(marked) == 1 and f"{found.score:.4f}*" in marked[0]
    assert (
        lines[-1] == f"best lambda: {found.lam:.6g}, C: {1 / (found.lam * path.n_blocks):.6g}, AP {found.score:.4f} on test.letor"
    )
    assert len(lines) == 4 + used + 1 and result.stderr == ""
    assert run("path", "train.letor", *OPTIONS, "-q").output == ""
    fine = run("path", "train.letor", "--epsilon", 0.0005, "--lambda-min", 1e-3).stdout.splitlines()
    assert len(fine) == 5 + 20 - 1 + 1 and re.fullmatch(r"20 of \d+ models; --json has all", fine[-1])


def test_folds(run):
    """The same as the search in Python on the folds of ``maxmargin cv``."""
    answer = json.loads(
        run("path", "train.letor", *OPTIONS, "--folds", 3, "--seed", 5, "--model", "m", "--report", "p.html", "--json").stdout
    )
    data = load_svmlight("train.letor")
    rows = np.arange(len(data))
    folds = [(np.setdiff1d(rows, held), held) for held in split(data, 3, 5, 0.0)]
    search = PathSearchCV(RankingSVM("ap"), cv=folds, **SETTINGS).fit(data.X, data.y, qid=data.qid)
    best = answer["best"]
    assert (best["lambda"], best["ap"]) == pytest.approx((search.best_lambda_, search.best_score_)) and best[
        "on"
    ] == "3 held-out folds"
    np.testing.assert_allclose(load_model("m").coef_, search.best_estimator_.coef_, rtol=1e-6)
    ends, means = search.cv_lambdas_, search.cv_scores_.mean(axis=0)
    for row in answer["models"][1:]:
        lam = np.sqrt(row["lambda_high"] * row["lambda_low"])
        inside = [mean for high, low, mean in zip(ends, ends[1:], means, strict=False) if low <= lam <= high]
        # The best one is shown with what made it the best, wherever in its range that is.
        assert row["ap"] in [pytest.approx(mean) for mean in [*inside, *([best["ap"]] if row["model"] == best["model"] else [])]]
    page = contents("p.html")
    assert (
        page["path"]["held_out"] == "3 held-out folds" and "On 3 held-out folds, the best is" in page["headline"]["sentences"][1]
    )


def test_other_metrics(run):
    options = [
        "--validation",
        "test.csv",
        "-m",
        "ndcg@5",
        "--gains",
        "exponential",
        "--report",
        "p.html",
        "--model",
        "m",
        "--json",
    ]
    answer = json.loads(run("path", "train.csv", *OPTIONS, *options).stdout)
    X, y, qid = samples(seed=1)
    path = in_python()
    values = [
        metrics.evaluate(y, X @ path.store[k], qid=qid, metrics=["ndcg@5"], gains="exponential")["ndcg@5"]
        for k in range(len(path))
    ]
    assert [row["ndcg@5"] for row in answer["models"]] == pytest.approx([values[row["model"]] for row in answer["models"]])
    assert answer["best"]["ndcg@5"] == pytest.approx(max(row["ndcg@5"] for row in answer["models"]))
    page = contents("p.html")["path"]
    assert page["metric"] == "NDCG@5" and set(page["features"]) == set("abcdef")
    assert list(load_model("m").feature_names_in_) == list("abcdef")


def test_one_list_and_other_losses(run, tmp_path):
    X, y, _ = samples()
    dump_svmlight_file(X, y, str(tmp_path / "one.txt"), zero_based=True)
    for loss in ("ndcg", "accuracy"):
        answer = json.loads(
            run("path", "one.txt", "--loss", loss, "--epsilon", 0.1, "--lambda-min", 0.01, "--folds", 2, "--json").stdout
        )
        assert answer["queries"] is None and answer["loss"] == loss
        assert answer["blocks"] == (180 if loss == "accuracy" else 1)


def test_rules_and_solvers(run):
    coarse = ["--epsilon", 0.1, "--lambda-min", 0.1, "--json"]
    few = json.loads(run("path", "train.letor", *coarse, "--kappa", 0.5, "--solver", "bcfw").stdout)
    many = json.loads(run("path", "train.letor", *coarse, "--kappa", 0.5, "--rule", "transport").stdout)
    assert (few["rule"], many["rule"]) == ("interpolate", "transport") and len(few["models"]) < len(many["models"])
    assert few["certified"] and few["kappa"] == 0.5


def test_interruption_and_checkpoint(run, monkeypatch, tmp_path):
    interrupting(monkeypatch, 35)
    before = signal.getsignal(signal.SIGINT)
    options = [*OPTIONS, "--checkpoint", "c", "--save", "p", "--validation", "test.letor"]
    result = run("path", "train.letor", *options, "--json", code=130)
    assert "Warning: interrupted; the path ends at lambda" in result.stderr and signal.getsignal(signal.SIGINT) is before
    first = json.loads(result.stdout)
    assert first["interrupted"] and not first["complete"] and first["lambda_end"] > 1e-3 and first["best"]["ap"] > 0
    begun = RegularizationPath.load("p")
    assert not begun.complete and begun.lambda_end == first["lambda_end"]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    calls = []
    original = RegularizationPath.of
    monkeypatch.setattr(RegularizationPath, "of", classmethod(lambda cls, traced, e: calls.append(traced) or original(traced, e)))
    second = json.loads(run("path", "train.letor", *options, "--json").stdout)
    assert second["complete"] and second["lambda_end"] == 1e-3
    # What had been solved is not solved again.
    assert set(begun.lambdas) <= set(calls[0].lambdas)
    other = run("path", "train.letor", "--epsilon", 0.3, "--checkpoint", "c", code=1).stderr
    assert "c: is the checkpoint of a path with epsilon=0.02, not 0.3" in other


@SIGNALS
def test_interruption_of_a_fold(run, monkeypatch, tmp_path, number, code):
    interrupting(monkeypatch, 60, number)
    folds = ["--folds", 3, "--checkpoint", "c", "--model", "m"]
    assert run("path", "train.letor", *OPTIONS, *folds, code=code).stderr == "interrupted\n"
    assert (tmp_path / "c.1").exists() and not (tmp_path / "m").exists()


def test_time_limit(run):
    result = run("path", "train.letor", "--epsilon", 1e-4, "--lambda-min", 1e-7, "--time-limit", 0.05, "--json")
    assert not json.loads(result.stdout)["complete"] and "Warning: the path ends at lambda" in result.stderr


def test_paths_without_a_range(run, tmp_path):
    """Features that tell nothing: weights of zero are optimal for every lambda. And a lambda where the closed form holds."""
    (tmp_path / "flat.txt").write_text("1 1:1\n0 1:1\n")
    output = run("path", "flat.txt", "--validation", "flat.txt").stdout
    assert "1 model for every lambda, gap at most 0.01 (certified)" in output
    message = run("path", "flat.txt", "--report", "p.html", code=1).stderr
    assert "flat.txt: the path has no range of lambda to show" in message and not (tmp_path / "p.html").exists()
    assert "1 model for every lambda down to" in run("path", "train.letor", "--lambda-min", 1e9).stdout
    # A page that cannot be drawn costs nothing else.
    files = ["--model", "m", "--save", "p", "--report", "p.html"]
    run("path", "train.letor", "--lambda-min", 1e9, "--validation", "test.letor", *files, code=1)
    assert load_model("m").certified_ and len(RegularizationPath.load("p")) == 1 and not (tmp_path / "p.html").exists()


def test_validation_data_that_are_numbered_differently(run, tmp_path):
    """An option would shift both files."""
    X, y, qid = samples(seed=1)
    dump_svmlight_file(X, y, str(tmp_path / "zero.letor"), query_id=qid, zero_based=True)
    message = run("path", "train.letor", *OPTIONS, "--validation", "zero.letor", code=1).stderr
    assert "renumber one of them" in message and "--zero-based" not in message


def test_end_of_the_path_warns(run, tmp_path):
    """If the best lambda is the smallest, smaller ones might be better."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 3 * X[:, 1] > 0).astype(int)
    X[:, 1] /= 100
    dump_svmlight_file(X, y, str(tmp_path / "s.txt"))
    result = run("path", "s.txt", "--validation", "s.txt", "--lambda-min", 0.01, "--epsilon", 0.001)
    assert "Warning: the best lambda is at the end of the path; try a smaller --lambda-min" in result.stderr
    # With folds it is their range that counts, not that of the model of all data.
    answer = json.loads(run("path", "train.letor", *OPTIONS, "--folds", 3, "--json").stdout)
    path, folds = in_python(), split(load_svmlight("train.letor"), 3, 0, 0.0)
    X, y, qid = samples()
    rows = np.arange(len(y))
    search = PathSearchCV(RankingSVM("ap"), cv=[(np.setdiff1d(rows, held), held) for held in folds], **SETTINGS)
    at_end = search.fit(X, y, qid=qid).cv_scores_.mean(axis=0)[-1] == search.best_score_
    said = run("path", "train.letor", *OPTIONS, "--folds", 3).stderr
    assert ("the best lambda is at the end" in said) == at_end
    shown = {row["model"]: row["ap"] for row in answer["models"]}
    assert shown[path.model_at(search.best_lambda_)] == pytest.approx(search.best_score_)


def test_progress_on_a_terminal_only(run):
    piped, shown, printed = in_a_pipe_and_on_a_terminal("path", "train.letor", *OPTIONS)
    assert piped.stderr == "" and piped.stdout.startswith("train.letor: ")
    assert "breakpoints" in shown and "of log lambda" in shown and shown.count("\n") == 1 and shown.endswith("\n")
    assert "breakpoints" not in printed and "\r" not in printed


def test_wrong_usage(run, tmp_path):
    for arguments, message in (
        (["--model", "m"], "--model and --metric need --validation or --folds"),
        (["-m", "map"], "--model and --metric need --validation or --folds"),
        (["--validation", "test.letor", "--folds", 3], "--validation and --folds are two ways to choose lambda"),
        (["--kappa", 1], "--kappa"),
        (["--epsilon", 0], "--epsilon"),
        (["--rule", "guess"], "'guess' is not one of 'interpolate', 'transport'"),
        (["--folds", 1], "--folds"),
    ):
        assert message in run("path", "train.letor", *arguments, code=2).stderr
    (tmp_path / "wide.letor").write_text("1 qid:1 9:1\n0 qid:1 1:1\n")
    (tmp_path / "short.csv").write_text("qid,relevance,a,b\nq,1,2,3\n")
    for arguments, message in (
        (["train.letor", "--validation", "wide.letor"], "wide.letor, line 1: feature index 9 is beyond the 6 features of tra"),
        (["train.csv", "--validation", "short.csv"], "there is no column 'c', feature 3 of train.csv"),
        (["train.letor", "--folds", 13], "train.letor: 13 folds need as many queries, but there are only 12; lower --folds"),
        (["train.letor", "--validation", "test.letor", "--model", "no/m"], "no/m: its folder does not exist; make it first"),
        (["train.letor", "--save", "no/m"], "no/m: its folder does not exist; make it first"),
        (["train.letor", "--checkpoint", "test.letor"], "is not a file saved by maxmargin; name another file for the checkpoint"),
        (["train.letor", "--grades", "--threshold", 1], "--grades mean uses every grade as a threshold; leave --threshold out"),
    ):
        assert message in run("path", *arguments, code=1).stderr
    assert "metric 'mape' is unknown" in run("path", "train.letor", "--validation", "test.letor", "-m", "mape", code=2).stderr
    assert not (tmp_path / "m").exists()
