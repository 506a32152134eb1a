"""``maxmargin pack``: files in, shards out; what is done is kept; what cannot be packed is said."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from tests.cases.command_cases import in_a_pipe_and_on_a_terminal
from tests.cases.waiting import wait_until

from maxmargin.distributed import open_packed
from maxmargin.io import load_svmlight


def test_pack(run):
    # Both number their queries alike.
    assert "query 0 is in two files" in run("pack", "*.letor", "-o", "both", "--shards", 1, code=1).stderr
    assert "query 0 has appeared in a shard before" in run("pack", "*.letor", "-o", "two", "--shards", 2, code=1).stderr
    said = run("pack", "tr*.letor", "-o", "packed", "--shards", 3)
    assert said.stdout.startswith("packed: 3 shards, 180 samples, 12 queries, 6 features, dense float64, ") and not said.stderr
    data = load_svmlight("train.letor")
    rows = [source.load_rows() for source in open_packed("packed")]
    np.testing.assert_array_equal(np.concatenate([part.X for part in rows]), data.X.toarray())
    assert "3 of them as they were" in run("pack", "tr*.letor", "-o", "packed", "--shards", 3).stdout
    answer = json.loads(run("pack", "train.letor", "-o", "other", "--dtype", "float32", "--layout", "sparse", "--json").stdout)
    assert answer.pop("seconds") >= 0 and answer.pop("bytes") > 0
    assert answer == {
        "folder": "other", "shards": 1, "kept": 0, "rows": 180, "features": 6, "queries": 12, "sparse": True, "dtype": "float32",
    }  # fmt: skip
    assert run("pack", "train.letor", "-o", "third", "-q").output == ""


def test_tables(run):
    said = run("pack", "train.csv", "test.csv", "-o", "packed", "--qid", "qid", code=1)
    assert "is in two files" in said.stderr
    assert "360 samples, 6 features" in run("pack", "train.csv", "test.csv", "-o", "all", "--drop", "qid").stdout
    assert "180 samples, 12 queries, 6 features" in run("pack", "train.csv", "-o", "packed").stdout  # qid by itself, as elsewhere


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["nothing-*"], 1, "no file matches 'nothing-*'"),
        (["nothing"], 1, "nothing: is not there; is it on a shared file system"),
        (["train.letor", "train.csv"], 1, "is a table, and train.letor is not"),
        (["train.csv", "--label", "grade"], 1, "there is no column 'grade' of labels"),
        (["train.letor", "--label", "grade"], 2, "--label is for tables"),
        (["train.csv", "--zero-based"], 2, "are for svmlight files"),
        (["train.csv", "--layout", "sparse"], 1, "tables have dense rows"),
        (["train.letor", "--shards", "0"], 2, "--shards"),
        (["nosuch://a"], 1, "install what fsspec asks for"),
        ([], 2, "FILES"),
    ],
)
def test_bad_input(run, arguments, code, problem):
    assert problem in run("pack", *arguments, "-o", "packed", code=code).stderr


def test_text_in_a_table(run, tmp_path):
    (tmp_path / "c.csv").write_text("relevance,colour,a\n1,red,2\n0,blue,3\n")
    said = run("pack", "c.csv", "-o", "packed", code=1).stderr
    assert "column 'colour' holds text" in said and "--drop colour" in said
    assert "2 samples, 1 features" in run("pack", "c.csv", "-o", "packed", "--drop", "colour").stdout


def test_progress_on_a_terminal(run, tmp_path):
    piped, shown, _ = in_a_pipe_and_on_a_terminal("pack", "train.letor", "-o", tmp_path / "packed", "--shards", 2)
    assert piped.stderr == "" and "2 shards" in piped.stdout
    assert "shard 2 of 2" in shown


def test_interrupted(run, tmp_path):
    # Long enough to be stopped; what is written is whole, and the same command goes on.
    with open("large.svm", "wb") as file:
        for k in range(400):
            file.write(b"".join(b"1 qid:%d %d:1\n" % (k, c) for c in range(1, 21)))
    command = [sys.executable, "-m", "maxmargin", "pack", "large.svm", "-o", "packed", "--shards", "40", "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: os.path.isdir("packed") and len(os.listdir("packed")) > 3)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and b"interrupted" in said
    left = os.listdir("packed")
    assert 3 <= len(left) < 40 and not [name for name in left if name.startswith(".")]
    done = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    assert done["rows"] == 8000 and done["shards"] == 40 and done["kept"] >= 3
