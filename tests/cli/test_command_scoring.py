"""Predict and evaluate as a user calls them: results, exit codes, and what is said about bad input."""

import json
import pickle

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.cases.command_cases import samples

from maxmargin import ChainSVM, MulticlassSVM, load_model, save_model
from maxmargin.cli.cv import Measure
from maxmargin.io import load_svmlight, read_scores
from maxmargin.ranking import metrics, read_run
from maxmargin.report import report_contents

# ---- predict ------------------------------------------------------------------------------------------------------------------


def test_the_model_knows_its_label(run, tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}_2.csv").write_text((tmp_path / f"{name}.csv").read_text().replace("relevance", "grade", 1))
    run("train", "train_2.csv", "--label", "grade", "--model", "m")
    expected = run("evaluate", "m", "test_2.csv", "--label", "grade").stdout
    assert run("evaluate", "m", "test_2.csv").stdout == expected
    assert run("evaluate", "m", "test.csv", "--label", "relevance").stdout == expected
    assert run("predict", "m", "test_2.csv").stdout == run("predict", "m", "test.csv").stdout
    assert "there is no column 'grade'" in run("evaluate", "m", "test.csv", code=1).stderr


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
    assert "auc needs the scores of all documents" in run("evaluate", "--qrels", "q", "--run", "r", "-m", "auc", code=2).stderr
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
    assert "relevance is missing; labels are numbers" in run("evaluate", "m", "blank.csv", code=1).stderr
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
