"""Chunks of tags, and files of tagged sentences."""

import gzip

import numpy as np
import pytest

from maxmargin.io import DataError
from maxmargin.sequences import chunk_scores, read_conll
from maxmargin.sequences.metrics import check_bio, chunks, sentence_f1


def starts_and_ends(tags):
    """The rules of the evaluation script of the tasks, written down one by one."""
    parts = [("O", "")] + [tuple(tag.split("-")) if "-" in tag else ("O", "") for tag in tags] + [("O", "")]
    found, begun = [], None
    for at in range(1, len(parts)):
        (before, before_kind), (now, kind) = parts[at - 1], parts[at]
        changed = before_kind != kind
        ends = before != "O" and (now in "BO" or changed)
        starts = now == "B" or (now == "I" and (before == "O" or changed))
        if ends and begun is not None:
            found.append((begun, at - 1, before_kind))
            begun = None
        if starts:
            begun = at - 1
    return found


def test_chunks_are_those_of_the_script():
    rng = np.random.default_rng(0)
    for _ in range(300):
        tags = rng.choice(["O", "B-NP", "I-NP", "B-VP", "I-VP"], size=rng.integers(0, 9)).tolist()
        assert [tuple(chunk) for chunk in chunks(tags)] == starts_and_ends(tags)


def test_scores_by_hand():
    truth = [["B-NP", "I-NP", "O", "B-VP"], ["O", "B-NP"]]
    found = [["B-NP", "I-NP", "B-VP", "I-VP"], ["O", "B-NP"]]
    scores = chunk_scores(truth, found)
    assert scores == (2 / 3, 2 / 3, 2 / 3, 4 / 6)
    assert chunk_scores([["O"]], [["O"]])[:3] == (0, 0, 0)


def test_sentence_f1_is_that_of_sets():
    rng = np.random.default_rng(1)
    truth, found = (rng.choice(["O", "A", "B"], size=(50, 4)).tolist() for _ in range(2))
    expected = []
    for own, other in zip(truth, found, strict=True):
        one, two = ({(t, tag) for t, tag in enumerate(tags) if tag != "O"} for tags in (own, other))
        expected.append(2 * len(one & two) / (len(one) + len(two)) if one or two else 1.0)
    assert sentence_f1(truth, found) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["B-NP", "I-VP"], "position 1 of sentence 0 continues no chunk of its kind"),
        (["X-NP"], "neither 'O' nor of the form"),
        (["B"], "neither 'O' nor of the form"),
    ],
)
def test_tags_that_are_no_bio(tags, message):
    with pytest.raises(ValueError, match=message):
        check_bio([tags])


def test_unequal_sentences():
    with pytest.raises(ValueError, match="1 true and 2 predicted sentences"):
        chunk_scores([["O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match="sentence 0 has 1 true and 2 predicted tags"):
        chunk_scores([["O"]], [["O", "O"]])


def test_files_of_sentences(tmp_path):
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"-DOCSTART- -X- O\n\na\tDT B-NP\n\n\nb NN O\r\nc NN O"))
    assert read_conll(path) == [[("a", "DT", "B-NP")], [("b", "NN", "O"), ("c", "NN", "O")]]


@pytest.mark.parametrize(
    ("content", "message"), [(b"a B\n\nb\n", "line 3: has 1 columns, but 2 are needed"), (b"\n\n", "holds no tokens")]
)
def test_files_that_are_none(content, message):
    with pytest.raises(DataError, match=message):
        read_conll(content)
    with pytest.raises(DataError, match="line 1: has 2 columns, but 3"):
        read_conll(b"a B\n", n_columns=3)
