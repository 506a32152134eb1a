"""``maxmargin tag`` in a folder with small files of columns."""

import json

import numpy as np
import pytest
from tests.cases.command_runner import CliRunner

from maxmargin.cli.main import main
from maxmargin.sequences import read_conll, window_features

WORDS = {"the": "DT", "a": "DT", "old": "JJ", "red": "JJ", "dog": "NN", "ball": "NN", "cat": "NN", "saw": "VBD", "ate": "VBD"}


def sentences(n, seed):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for _ in range(rng.integers(1, 4)):
            phrase = [str(rng.choice(["the", "a"])), *(str(w) for w in rng.choice(["old", "red"], rng.integers(0, 3)))]
            phrase.append(str(rng.choice(["dog", "ball", "cat"])))
            lines += [f"{word} {WORDS[word]} {'B' if k == 0 else 'I'}-NP" for k, word in enumerate(phrase)]
            verb = str(rng.choice(["saw", "ate"]))
            lines.append(f"{verb} {WORDS[verb]} B-VP")
        lines += [". . O", ""]
    return "\n".join(lines) + "\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(sentences(40, 0))
    (tmp_path / "test.txt").write_text(sentences(10, 1))

    def command(*args, code=0):
        result = CliRunner().invoke(main, ["tag", *map(str, args)])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return command


def test_train_evaluate_and_predict(run, tmp_path):
    told = json.loads(run("train", "train.txt", "--model", "m", "--json").stdout)
    assert told["sentences"] == 40 and told["tags"] == 4 and told["certified"] and told["converged"]
    assert told["C"] == pytest.approx(2.5 / (len(window_features([("a", "b")])[0]) + 1), rel=0.02)
    assert "certified" in run("train", "train.txt", "--model", "n", "--surrogate", "log", "--C", 0.3).output
    scores = json.loads(run("evaluate", "m", "test.txt", "--json").stdout)
    assert scores["accuracy"] == scores["f1"] == 1.0
    assert "chunks: precision 100.00, recall 100.00, f1 100.00" in run("evaluate", "m", "test.txt").output
    tagged = run("predict", "m", "test.txt").stdout
    assert [[token[-1] for token in s] for s in read_conll(tagged.encode())] == [
        [token[-2] for token in s] for s in read_conll(tagged.encode())
    ]
    # Without the true tags, into a file.
    bare = "\n".join(" ".join(line.split()[:2]) for line in (tmp_path / "test.txt").read_text().splitlines())
    (tmp_path / "bare.txt").write_text(bare + "\n")
    run("predict", "m", "bare.txt", "-o", "out.txt")
    assert (tmp_path / "out.txt").read_text().split() == (tmp_path / "test.txt").read_text().split()


def test_tags_that_are_no_chunks(run, tmp_path):
    lines = [" ".join(line.split()[:2]) for line in sentences(20, 2).splitlines()]
    (tmp_path / "pos.txt").write_text("\n".join(lines) + "\n")
    run("train", "pos.txt", "--model", "pos", "--quiet")
    told = json.loads(run("evaluate", "pos", "pos.txt", "--json").stdout)
    assert told["accuracy"] > 0.95 and "f1" not in told


def test_bad_input(run, tmp_path):
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    assert "has one column" in run("train", "words.txt", "--model", "m", code=1).output
    run("train", "train.txt", "--model", "m")
    assert "words.txt: has 1 columns, but m reads 2" in run("predict", "m", "words.txt", code=1).output
    (tmp_path / "two.txt").write_text("the DT\ndog NN\n")
    assert "no column of true tags after the 2" in run("evaluate", "m", "two.txt", code=1).output
    assert "line 2: has 1 columns" in run("predict", "m", write(tmp_path, "the DT\ndog\n"), code=1).output
    assert "is not a file saved by maxmargin" in run("predict", "train.txt", "test.txt", code=1).output
    assert "train.txt" in run("train", "train.txt", "--model", "train.txt", code=2).output
    from maxmargin import ChainSVM, save_model

    save_model(ChainSVM().fit([np.eye(2)], [[0, 1]]), tmp_path / "other")
    assert "other: holds no tagger" in run("predict", "other", "test.txt", code=1).output


def write(folder, text):
    (folder / "short.txt").write_text(text)
    return "short.txt"


def test_windows_reach_over_the_ends():
    rows = window_features([("Ab1", "X"), ("c", "Y")])
    assert {"0:-1=<", "0:-2=<<", "0:1=c", "1:0||=X|Y|>", "^2=Ab", "$3=Ab1", "shape=Aa0"} <= set(rows[0])
    assert all(len(set(own)) == len(own) for own in rows) and window_features([]) == []
