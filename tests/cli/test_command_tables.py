"""Real tables and streams: columns of text, scales, what a model remembers, standard input and output."""

import gzip
import json

import numpy as np
import pytest
from tests.cases.command_cases import samples

from maxmargin import load_model
from maxmargin.core import read_model

HEADER = "grade;who;city;vip;a;b;empty\n"


def table(seed, cities=("Aix", "Bonn", "Como")):
    X, y, qid = samples(queries=6, size=10, seed=seed)
    rng = np.random.default_rng(seed)
    rows = [
        f"{int(grade > 0)};query {q};{cities[rng.integers(len(cities))]};{x[2] > 0};{x[0]};{1e6 + 1e4 * x[1]};\n"
        for grade, q, x in zip(y, qid, X.tolist(), strict=True)
    ]
    return HEADER + "".join(rows)


@pytest.fixture
def tables(run, tmp_path):
    (tmp_path / "a.csv").write_text(table(0))
    (tmp_path / "b.csv").write_text(table(1))
    return run


TRAIN = ["train", "a.csv", "--label", "grade", "--qid", "who"]


def test_columns_of_text_are_remembered(tables, tmp_path):
    message = tables(*TRAIN, "--model", "m", code=1).stderr
    assert "a.csv: column 'empty' has no value at all, every cell is missing; leave it out with --drop empty" in message
    result = tables(*TRAIN, "--drop", "empty", "--scale", "standard", "--model", "m")
    assert "one-hot encoded: city (3 categories)" in result.stdout
    saved = read_model("m")
    assert list(saved.estimator.feature_names_in_[3:]) == ["vip", "a", "b"]
    data = saved.about["data"]
    assert (data["label"], data["query"], data["columns"]) == ("grade", "who", ["city", "vip", "a", "b"])
    assert sorted(data["kinds"]["city"]) == ["Aix", "Bonn", "Como"] and data["kinds"]["vip"] == "boolean"
    # Columns in another order, and no need to say what they are called.
    rows = [line.split(";") for line in table(1).splitlines()]
    (tmp_path / "turned.csv").write_text("\n".join(",".join(row[::-1]) for row in rows) + "\n")
    straight, turned = (tables("predict", "m", name).stdout for name in ("b.csv", "turned.csv"))
    assert straight == turned and len(straight.splitlines()) == 60
    assert json.loads(tables("evaluate", "m", "b.csv", "--json").stdout)["queries"] == 6
    (tmp_path / "new.csv").write_text(table(1, ("Aix", "Delft")))
    result = tables("predict", "m", "new.csv")
    assert (
        "Warning: new.csv, line " in result.stderr and "city 'Delft' is a category that was not seen in training" in result.stderr
    )
    assert len(result.stdout.splitlines()) == 60


def test_queries_of_the_model_must_be_there_where_they_matter(tables, tmp_path):
    for scale in ("none", "query"):
        tables(*TRAIN, "--drop", "empty,city", "--scale", scale, "--model", scale)
    (tmp_path / "c.csv").write_text(table(1).replace("who", "asked"))
    assert len(tables("predict", "none", "c.csv").stdout.splitlines()) == 60
    for command in (["evaluate", "none", "c.csv"], ["predict", "query", "c.csv"]):
        message = tables(*command, code=1).stderr
        assert "there is no column 'who', which holds the queries of the model" in message and "name it with --qid" in message
    assert tables("predict", "query", "c.csv", "--qid", "asked").stdout == tables("predict", "query", "b.csv").stdout


@pytest.mark.parametrize("scale", ["standard", "query"])
def test_units_do_not_matter_with_a_scale(run, tmp_path, scale):
    """Features in other units give the same ranking, in every command."""
    X, y, qid = samples()
    other = X * 10.0 ** np.arange(-3, 3)
    for name, values in (("one", X), ("other", other)):
        lines = (
            f"{grade} qid:{q} " + " ".join(f"{k}:{v:.17g}" for k, v in enumerate(row, 1))
            for grade, q, row in zip(y, qid, values.tolist(), strict=True)
        )
        (tmp_path / f"{name}.letor").write_text("\n".join(lines) + "\n")
        run("train", f"{name}.letor", "--scale", scale, "--model", name, "--tol", 1e-6)
    one, two = (np.array(run("predict", name, f"{name}.letor").stdout.split(), float) for name in ("one", "other"))
    np.testing.assert_allclose(one, two, atol=1e-4)
    means = [
        json.loads(run("cv", f"{name}.letor", "--scale", scale, "--C", "0.1", "--json", "--tol", 1e-6).stdout)
        for name in ("one", "other")
    ]
    assert means[0]["results"][0]["mean"] == pytest.approx(means[1]["results"][0]["mean"], abs=1e-3)
    run("path", "other.letor", "--scale", scale, "--validation", "one.letor", "--model", "p", "--report", "p.html")
    assert load_model("p").scale == scale
    run("report", "other", "other.letor", "-o", "r.html")


def test_scale_by_query_needs_queries(run, tmp_path):
    (tmp_path / "list.txt").write_text("1 1:2\n0 1:1\n1 1:3\n")
    message = run("train", "list.txt", "--scale", "query", "--model", "m", code=1).stderr
    assert "list.txt: --scale query standardises features within every query" in message and "--scale standard" in message
    run("train", "train.letor", "--scale", "query", "--model", "m")
    for command in ("predict", "evaluate"):
        assert "list.txt: --scale query" in run(command, "m", "list.txt", code=1).stderr


def test_standard_input_and_output(run, tmp_path):
    for name, text in (("csv", (tmp_path / "train.csv").read_bytes()), ("letor", (tmp_path / "train.letor").read_bytes())):
        result = run("train", "-", "--model", "m", given=text)
        assert result.stdout.startswith("standard input: 180 samples, 12 queries, 6 features")
        run("train", f"train.{name}", "--model", "n")
        np.testing.assert_array_equal(load_model("m").coef_, load_model("n").coef_)
        test = (tmp_path / f"test.{name}").read_bytes()
        expected = run("predict", "m", f"test.{name}").stdout
        assert run("predict", "m", "-", "-o", "-", given=gzip.compress(test)).stdout == expected
        assert run("evaluate", "m", "-", given=test).stdout == run("evaluate", "m", f"test.{name}").stdout
    assert run("evaluate", "test.letor", "-", given=expected).stdout == run("evaluate", "m", "test.letor").stdout
    assert "standard input, which can be read once" in run("evaluate", "-", "-", given="", code=2).stderr
    assert "standard input, line 1: a is missing" not in run("train", "-", "--model", "m", given="1 x\n", code=1).stderr
    message = run("train", "-", "--model", "m", given="relevance,a\n1,2\n0,x\n", code=1).stderr
    assert "standard input, line 3: a 'x' is not a number" in message
    assert "standard input" in run("train", "-", "--model", "m", given="", code=1).stderr


def test_scores_of_a_c_do_not_depend_on_the_others(run):
    """Solved loosely, so that any trace of the others would show."""

    def scores(grid):
        answer = json.loads(run("cv", "train.letor", "--C", grid, "--tol", 0.3, "--json").stdout)
        return {row["C"]: row["folds"] for row in answer["results"]}

    several = scores("0.01,1,100")
    for C in (0.01, 1.0, 100.0):
        assert scores(str(C))[C] == several[C]
    assert scores("1,3,30")[1.0] == several[1.0]


def test_ids_are_no_categories(tables, tmp_path):
    rows = "".join(f"{k % 2},{k % 7},ticket {k}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("relevance,a,ticket\n" + rows)
    message = tables("train", "t.csv", "--model", "m", code=1).stderr
    assert "t.csv: column 'ticket' is text with 60 different values in 60 rows, more likely ids than categories" in message
    for option in ("--drop ticket", "--qid ticket", "--categorical ticket"):
        assert option in message
    for option in ("--drop", "--categorical"):
        tables("train", "t.csv", option, "ticket", "--model", "m")


def test_columns_of_other_sizes_are_named(run, tmp_path):
    X, y, _ = samples()
    rows = "".join(f"{int(grade > 0)},{x[0]},{1.6e9 + 1e8 * x[1]}\n" for grade, x in zip(y, X.tolist(), strict=True))
    (tmp_path / "wild.csv").write_text("relevance,age,time\n" + rows)
    message = run("train", "wild.csv", "--max-iter", 1, "--model", "m").stderr
    assert "scale the features with --scale standard: column 2 ('time') reaches" in message and "StandardScaler" not in message
    message = run("train", "wild.csv", "--max-iter", 1, "--C", 1e6, "--scale", "standard", "--model", "m").stderr
    assert "did not reach --tol" in message and "--scale" not in message
