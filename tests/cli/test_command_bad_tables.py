"""Odd tables, and what the command says about them: the file, the problem, the remedy; nothing is left behind."""

import os

import pytest

ROWS = [(k % 2, k % 7, 3 * k % 5) for k in range(40)]


def text(header, rows=ROWS, separator=","):
    return "".join(separator.join(map(str, row)) + "\n" for row in [header.split("|"), *rows])


@pytest.mark.parametrize(
    "table",
    [
        "\ufeff" + text("relevance|a|b"),
        "\ufeff" + text("relevance|a|b", separator=";").replace("\n", "\r\n"),
        text('relevance|"a;x;y;z"|b'),
        text('relevance|"a,x,y,z"|b', separator=";"),
        text("relevance|a|b", [*ROWS, (1, '"2"', 3)]),
    ],
)
def test_odd_tables_are_read(run, tmp_path, table):
    (tmp_path / "odd.csv").write_bytes(table.encode())
    assert "samples, one list, 2 features" in run("train", "odd.csv", "--model", "m").stdout


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (text("relevance|a|b", [*ROWS, (1, "", 3)]), [], ["line 42: a is missing", "leave out this row", "--drop a"]),
        (text("relevance|a|b", [*ROWS, ("", 2, 3)]), [], ["line 42: relevance is missing", "--label"]),
        (text("relevance|a|b", [*ROWS, ("nan", 2, 3)]), [], ["line 42: relevance 'nan' is not finite", "leave out"]),
        (text("relevance|a", [("yes", 1), ("no", 2)]), [], ["line 2: relevance 'yes' is not a number", "true and false"]),
        (text("relevance|d", [(1, "2024-01-02")]), [], ["line 2: d '2024-01-02' is not a number", "--drop d", "--features"]),
        (text("relevance|a|a"), [], ["2 columns are called 'a'", "a name of its own"]),
        (text("relevance", [(1,), (0,)]), [], ["has no feature", "besides label and query"]),
        (text("relevance|a|b"), ["--drop", "a,b"], ["has no feature", "not left out"]),
        (text("relevance|a|b"), ["--label", "grade"], ["no column 'grade' of labels", "the header has", "--label"]),
        (text("relevance|a|b", [*ROWS, (1, 1e308, 3)]), [], ["column 'a' reaches 1e+308", "--drop a"]),
        (text("relevance|a|b", [*ROWS, (1, -1e308, 3)]), ["--method", "classifier"], ["reaches 1e+308", "larger units"]),
        (text("relevance|a", [(1, 2), (1, 3)]), ["--method", "classifier"], ["0 samples with a label above 1", "--threshold"]),
        (text("relevance|a", [(1, 2), (0, 3), (0, 1)]), ["--method", "classifier"], ["1 samples with a label above 0", "add"]),
        (text("relevance|a|b"), ["--method", "classifier", "--aim", "budget=50"], ["has 40 samples, fewer than --aim budget=50"]),
    ],
)
def test_bad_tables_are_refused(run, tmp_path, table, options, words):
    (tmp_path / "bad.csv").write_text(table)
    before = sorted(os.listdir(tmp_path))
    message = run("train", "bad.csv", *options, "--model", "m", code=1).stderr
    assert message.startswith("Error: bad.csv") and not [word for word in words if word not in message], message
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nobody can make files")
def test_the_name_of_an_output_that_cannot_be_made(run):
    message = run("train", "train.csv", "--model", "/proc/m", code=1).stderr
    # Whoever may write anywhere finds out when the file is made, others before.
    assert message.startswith("Error: /proc/m: ") and "choose another place" in message and ".tmp" not in message
