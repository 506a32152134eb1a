"""compare and inspect, names of metrics and losses."""

import json
from inspect import signature
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import bootstrap, permutation_test, ttest_rel, wilcoxon

from maxmargin import MulticlassSVM, load_model, save_model
from maxmargin.cli.paired import bootstrap_interval, compare_paired, holm, randomisation_test
from maxmargin.core import RegularizationPath
from maxmargin.ranking import evaluate
from maxmargin.report import p_value

# ---- tests of paired differences ----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.integers(2, 9), elements=st.sampled_from([-0.5, -0.2, 0.0, 0.0, 0.1, 0.2, 0.3])))
def test_randomisation_by_enumeration(differences):
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in product((-1, 1), repeat=len(differences))
    ]
    expected = np.mean(np.array(sums) >= abs(differences.sum()) - 1e-9)
    assert randomisation_test(differences, np.random.default_rng(0), 10) == pytest.approx(expected)


def test_against_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.random(40), rng.random(40)
    b = 0.7 * a + 0.3 * b + 0.03
    found = compare_paired(a, b, np.random.default_rng(1))
    assert found.t_test == pytest.approx(ttest_rel(a, b).pvalue)
    chance = {"rng" if "rng" in signature(bootstrap).parameters else "random_state": rng}  # scipy before 1.15 has the second
    sampled = permutation_test((a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=20_000, **chance)
    assert found.randomisation == pytest.approx(sampled.pvalue, abs=0.02)
    theirs = bootstrap((a - b,), np.mean, method="percentile", **chance).confidence_interval
    assert (found.low, found.high) == pytest.approx(tuple(theirs), abs=0.006)
    assert found.low < found.difference < found.high and found.wins + found.losses + found.ties == 40
    assert (found.t_test < 0.05) == (wilcoxon(a, b).pvalue < 0.05)
    same = compare_paired(a, a, rng)
    assert same[:6] == (0, 0, 0, 1, 1, 1) and same.ties == 40
    assert bootstrap_interval(np.full(5, 0.25), rng, 100, 0.95) == (0.25, 0.25)


def test_holm_step_by_step():
    p = [0.02, 0.001, 0.5, 0.02]
    assert holm(p) == pytest.approx([0.06, 0.004, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([0.3]) == [0.3]


# ---- the command --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def runs(run, tmp_path):
    rng = np.random.default_rng(0)
    lines = {name: [] for name in ("qrels", "a.run", "b.run", "c.run")}
    for q in range(20):
        for d in range(12):
            grade = int(rng.random() < 0.3) * int(rng.integers(1, 3))
            score = grade + rng.normal()
            lines["qrels"].append(f"{q} 0 d{d} {grade}")
            lines["a.run"].append(f"{q} Q0 d{d} 1 {score} a")
            lines["b.run"].append(f"{q} Q0 d{d} 1 {score + grade + 0.1 * rng.normal()} b")
            if q:
                lines["c.run"].append(f"{q} Q0 d{d} 1 {score + 0.5 * rng.normal()} c")
    for name, rows in lines.items():
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    return run


def test_compare_runs(runs):
    answer = json.loads(runs("compare", "a.run", "b.run", "--qrels", "qrels", "-m", "AP", "-m", "P_5", "--json").stdout)
    assert answer["queries"] == 20 and answer["comparisons"] == 2
    for row in answer["results"]:
        each = json.loads(
            runs("evaluate", "--qrels", "qrels", "--run", row["name"], "-m", row["metric"], "--json", "--per-query").stdout
        )
        assert row["mean"] == pytest.approx(each["metrics"][row["metric"]])
    a, b = (row for row in answer["results"] if row["metric"] == "AP")
    assert b["difference"] == pytest.approx(b["mean"] - a["mean"]) and b["difference"] > 0 and b["against"] == "a.run"
    assert b["t_test"] <= b["t_test_holm"] <= 2 * b["t_test"] and b["difference_interval"][0] > 0
    result = runs("compare", "a.run", "b.run", "c.run", "--qrels", "qrels")
    assert "1 queries are not in all runs and do not count" in result.stderr
    assert result.stdout.startswith("19 queries; differences to a.run, p-values two-sided, corrected by Holm for 4 comparisons\n")
    assert runs("compare", "a.run", "b.run", "c.run", "--qrels", "qrels").stdout == result.stdout
    assert runs("compare", "a.run", "c.run", "--qrels", "qrels", "-c").stdout.startswith("20 queries")


def test_compare_models(runs):
    for C in (0.001, 1):
        runs("train", "train.letor", "--C", C, "--model", f"m{C}")
    answer = json.loads(runs("compare", "m0.001", "m1", "test.letor", "-m", "map", "-m", "auc", "--json").stdout)
    for row in answer["results"]:
        alone = json.loads(runs("evaluate", row["name"], "test.letor", "-m", row["metric"], "--json").stdout)
        assert row["mean"] == pytest.approx(alone["metrics"][row["metric"]])


def test_compare_what_cannot_be(runs, tmp_path):
    runs("train", "train.letor", "--model", "m")
    runs("train", "train.letor", "--C", 3, "--model", "n")
    runs("train", "train.letor", "--threshold", 1, "--model", "high")
    (tmp_path / "list.txt").write_text("1 1:2\n1 1:1\n")
    for arguments, code, message in (
        (["a.run", "--qrels", "qrels"], 2, "two runs are needed to compare"),
        (["a.run", "b.run"], 2, "two models and the data"),
        (["a.run", "b.run", "train.letor"], 2, "a.run is no model"),
        (["m", "m", "train.letor"], 2, "m is named twice"),
        (["m", "n", "train.letor", "-c"], 2, "--complete is for --qrels"),
        (["a.run", "b.run", "--qrels", "qrels", "-m", "auc"], 2, "auc needs the scores of all documents"),
        (["m", "n", "list.txt"], 1, "list.txt: is one list of relevant samples only"),
        (["m", "high", "train.letor"], 1, "m takes labels above 0 for relevant, high those above 1"),
    ):
        assert message in runs("compare", *arguments, code=code).stderr


def test_compare_on_one_list(run, tmp_path):
    """The same draws by hand, with another way to compute the metrics of each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 1).astype(int)
    rows = "".join(f"{label},{a},{b},{c}\n" for label, (a, b, c) in zip(y, X.tolist(), strict=True))
    (tmp_path / "list.csv").write_text("relevance,a,b,c\n" + rows)
    run("train", "list.csv", "--model", "good")
    run("train", "list.csv", "--features", "b,c", "--model", "bad")
    answer = json.loads(run("compare", "bad", "good", "list.csv", "-m", "ap", "-m", "nDCG@10", "-m", "auc", "--json").stdout)
    assert (answer["samples"], answer["relevant"], answer["queries"], answer["comparisons"]) == (300, y.sum(), 1, 3)
    scores = {name: load_model(name).decision_function(X[:, 3 - n :]) for name, n in (("good", 3), ("bad", 2))}
    drawn = {name: [] for name in scores}
    kinds = [np.flatnonzero(y), np.flatnonzero(1 - y)]
    for _ in range(400):
        at = np.concatenate([rng.choice(kind, len(kind)) for kind in kinds])
        for name, own in scores.items():
            drawn[name].append(list(evaluate(y[at], own[at], metrics=["ap", "ndcg@10", "auc"]).values()))
    drawn = {name: np.array(values) for name, values in drawn.items()}
    for k, metric in enumerate(("ap", "nDCG@10", "auc")):
        bad, good = (row for row in answer["results"] if row["metric"] == metric)
        truth = [evaluate(y, scores[name], metrics=[metric.lower()])[metric.lower()] for name in ("bad", "good")]
        assert [bad["mean"], good["mean"]] == pytest.approx(truth) and good["difference"] == pytest.approx(truth[1] - truth[0])
        low, high = good["difference_interval"]
        width = 4 * np.std(drawn["good"][:, k] - drawn["bad"][:, k])
        assert high - low == pytest.approx(width, rel=0.2) and low < good["difference"] < high
        assert bad["interval"][0] < bad["mean"] < bad["interval"][1] and "difference" not in bad
        assert good["bootstrap"] <= good["bootstrap_holm"]
    assert good["bootstrap"] < 0.01
    words = run("compare", "bad", "good", "list.csv").stdout
    assert "one list of 300 samples" in words and "a bootstrap over the samples" in words and "corrected by Holm for 2" in words


def test_chance_of_a_difference():
    """The p-value of noise is level: below 5 % in about 5 % of the cases, with many draws and with few."""
    rng = np.random.default_rng(0)
    for n_draws in (1000, 50):
        found = np.array([p_value(rng.normal(), rng.normal(size=n_draws)) for _ in range(2000)])
        assert 0.03 < np.mean(found < 0.05) < 0.075 and 0.45 < found.mean() < 0.55
    assert p_value(0.3, np.full(1000, 0.3)) < 0.001 < p_value(0.0, np.zeros(50)) == 1.0


# ---- inspect ------------------------------------------------------------------------------------------------------------------


def test_inspect(run, tmp_path):
    run("train", "train.csv", "--loss", "ndcg@5", "--C", 3, "--scale", "standard", "--model", "m")
    model = load_model("m")
    answer = json.loads(run("inspect", "m", "--json", "--top", 2).stdout)
    assert (
        answer["class"] == "RankingSVM" and answer["settings"]["loss"] == "ndcg@5" and answer["settings"]["scale"] == "standard"
    )
    assert answer["certificate"]["primal_objective"] == model.primal_objective_ and answer["data"]["label"] == "relevance"
    best = int(np.argmax(np.abs(model.coef_)))
    assert answer["weights"][0] == {"feature": "abcdef"[best], "weight": model.coef_[best]} and len(answer["weights"]) == 2
    text = run("inspect", "m").stdout
    assert (
        "(certified)" in text and "trained on: train.csv, 180 samples, label in column 'relevance', query in column 'qid'" in text
    )
    run("train", "train.letor", "--model", "m")
    assert "feature 1 " in run("inspect", "m").stdout
    save_model(MulticlassSVM().fit(np.eye(3), [0, 1, 2]), "classes")
    assert "arrays: classes_ (3,), coef_ (3, 3)" in run("inspect", "classes").stdout
    assert "is not a file saved by maxmargin" in run("inspect", "train.csv", code=1).stderr


# ---- names --------------------------------------------------------------------------------------------------------------------


def test_inspect_a_model_whose_bounds_contradict_each_other(run):
    run("train", "train.csv", "--model", "m")
    model = load_model("m")
    model.dual_objective_, model.certified_ = 2 * model.primal_objective_, False
    model.dual_gap_ = -model.primal_objective_
    save_model(model, "m")
    assert "the dual objective exceeds the primal one (not certified)" in run("inspect", "m").stdout


def test_inspect_a_path(run):
    run("path", "train.letor", "--epsilon", 0.05, "--lambda-min", 0.01, "--save", "p", "--checkpoint", "c")
    answer, path = json.loads(run("inspect", "p", "--json").stdout), RegularizationPath.load("p")
    assert (answer["kind"], answer["format"], answer["class"], answer["models"]) == ("path", 1, "RankingSVM", len(path))
    assert answer["lambda"] == [path.lambdas[0], path.lambda_end] and answer["certified"] is path.certified
    assert answer["C"][0] == pytest.approx(1 / (path.lambdas[0] * path.n_blocks))
    words = run("inspect", "p").stdout
    assert "p: path of RankingSVM" in words and "format 1" in words
    assert "everywhere within 0.05 of the optimum (certified)" in words
    message = run("inspect", "c", code=1).stderr
    assert "c: holds a path checkpoint" in message and "inspect reads models" in message
    assert "is not a file saved by maxmargin" in run("inspect", "train.letor", code=1).stderr


@pytest.mark.parametrize(
    ("name", "same"),
    [("nDCG@10", "ndcg@10"), ("ndcg_cut_10", "ndcg@10"), ("AP", "map"), ("map_cut_5", "map@5"), ("P@5", "p@5"), ("P_5", "p@5")]
    + [("R@20", "recall@20"), ("recall_20", "recall@20"), ("RR", "mrr"), ("recip_rank", "mrr"), ("success_1", "success@1")],
)
def test_names_of_evaluation_tools(run, name, same):
    y, scores = [0, 1, 0, 2, 0, 1], [6, 5, 4, 3, 2, 1]
    assert evaluate(y, scores, metrics=[name])[name] == evaluate(y, scores, metrics=[same])[same]
    if "success" not in name and "map" not in name:
        answer = json.loads(run("train", "train.letor", "--loss", name, "--model", "m", "--json").stdout)
        expected = json.loads(run("train", "train.letor", "--loss", same, "--model", "m", "--json").stdout)
        assert answer["loss"] == expected["loss"] and answer["primal"] == expected["primal"]
