"""Small files of queries, and the command in a folder that holds them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from tests.cases.command_runner import CliRunner

import maxmargin
from maxmargin.cli.main import main

P = 6


def samples(queries=12, size=15, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), size)
    X = rng.normal(size=(len(qid), P)).round(3)
    X[:, -1] *= rng.random(len(qid)) < 0.5
    y = np.digitize(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=len(qid)), [0.8, 1.8])
    return X, y, qid


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command in a folder with train.letor, test.letor, train.csv and test.csv."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train", 0), ("test", 1)):
        X, y, qid = samples(seed=seed)
        dump_svmlight_file(X, y, f"{name}.letor", query_id=qid, zero_based=False)
        rows = [",".join(["qid", "relevance", *"abcdef"])]
        rows += [",".join(map(str, [f"q{q}", grade, *x])) for q, grade, x in zip(qid, y, X.tolist(), strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")

    def command(*args, code=0, given=None):
        result = CliRunner().invoke(main, list(map(str, args)), input=given)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return command


def in_a_pipe_and_on_a_terminal(*arguments):
    """The command in a process of its own, twice: the first run, what the second shows on its terminal, and what it prints."""
    command = [sys.executable, "-m", "maxmargin", *map(str, arguments)]
    # Also where the package is not installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(maxmargin.__file__).parents[1])}
    piped = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True, env=environment)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    return piped, shown, done.stdout
