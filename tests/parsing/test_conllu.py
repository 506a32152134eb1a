"""CoNLL-U files: read, written again as they were, and refused with file, line and remedy."""

import gzip
import os
from pathlib import Path

import pytest

from maxmargin.io import DataError
from maxmargin.parsing import Sentence, read_conllu, write_conllu

TEXT = """# sent_id = 1
# text = Don't eat it.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_
3\teat\teat\tVERB\tVB\t_\t0\troot\t0:root\t_
4\tit\tit\tPRON\tPRP\t_\t3\tobj\t3:obj\tSpaceAfter=No
4.1\teaten\teat\tVERB\t_\t_\t_\t_\t3:conj\t_
5\t.\t.\tPUNCT\t.\t_\t3\tpunct\t3:punct\t_

# sent_id = 2
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

"""


def line(k, head, word="w", label="dep"):
    return "\t".join([str(k), word, "_", "X", "_", "_", str(head), label, "_", "_"])


def read(*rows):
    return read_conllu("\n".join([*rows, "", ""]).encode())


def test_words_heads_and_everything_else(tmp_path):
    first, second = read_conllu(TEXT.encode())
    assert first.words == ["Do", "n't", "eat", "it", "."] and first.tags == ["AUX", "PART", "VERB", "PRON", "PUNCT"]
    assert first.heads == [3, 3, 0, 3, 3] and first.labels[3] == "obj" and len(first) == 5
    assert second.comments == ["# sent_id = 2"]
    write_conllu(tmp_path / "again.conllu", [first, second])
    assert (tmp_path / "again.conllu").read_text() == TEXT
    (tmp_path / "b.conllu.gz").write_bytes(gzip.compress(TEXT.rstrip("\n").replace("\n", "\r\n").encode()))
    assert read_conllu(tmp_path / "b.conllu.gz")[0].heads == first.heads


def test_another_tree_and_sentences_of_ones_own(tmp_path):
    sentence = Sentence(["a", "b"], ["X", "Y"])
    assert "1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n" in list(sentence.lines())
    write_conllu(tmp_path / "t", [sentence.with_tree([2, 0], ["dep", "root"])])
    assert read_conllu(tmp_path / "t")[0].heads == [2, 0]
    with pytest.raises(ValueError, match="own head"):
        sentence.with_tree([1, 0])
    with pytest.raises(ValueError, match="1 labels for 2 words"):
        sentence.with_tree([2, 0], ["root"])
    with pytest.raises(ValueError, match="tab or a line break"):
        list(Sentence(["a\tb"], ["X"]).lines())
    assert read(line(1, "_"), line(2, "_"))[0].heads is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1 a b"], r"<bytes>, line 1: 1 columns, but a word of CoNLL-U has 10; separate columns by tabs"),
        ([line(1, 0), "2\tx"], r"line 2: 2 columns, but a word of CoNLL-U has 10; write '_' where a column says nothing"),
        ([line(1, 0) + "\tmore"], r"line 1: 11 columns, but a word of CoNLL-U has 10"),
        ([line("9" * 5000, 0)], r"line 1: the id '9+' is neither a number nor a range; number the words 1, 2, 3"),
        ([line("1-" + "9" * 5000, "_"), line(1, 0)], r"line 1: the id '1-9+' is neither a number nor a range"),
        ([line(0, 0)], r"line 1: the id '0' is neither a number nor a range"),
        ([line(1, 0), line(3, 1)], r"line 2: the id 3 comes where 2 should; number words without gaps"),
        ([line(1, 0), "", line(1, 0), line(2, "1,1")], r"line 4: the head '1,1' is not a number; a word .* one head"),
        ([line(1, "-1")], r"line 1: the head '-1' is not a number; write 0, 1, 2"),
        ([line("1-2", "_"), line("2-3", "_"), line(1, 0)], r"line 2: the multiword token '2-3' does not begin"),
        ([line(1, 0), "# late"], r"line 2: .*comments come before the first word"),
        ([line(2, 0)], r"line 1: the id 2 comes where 1 should"),
        ([line(1, 0), line("x", 1)], r"line 2: the id 'x' is neither a number nor a range"),
        ([line(1, 0), line(1, 2)], r"line 2: word 1 comes twice, but a word has one line and one head"),
        ([line(1, 2), line(2, "0|1")], r"line 2: the head '0\|1' is not a number; a word of the basic tree has one head"),
        ([line(1, 2), line(2, "_")], r"line 2: has no head, but others have one"),
        ([line(1, 0), line(2, 3)], r"line 2: the head of word 2 is 3, but words are numbered 1 to 2"),
        ([line(1, 1)], r"line 1: word 1 is its own head"),
        ([line(1, 0), line(2, 3), line(3, 4), line(4, 2)], r"line 2: heads go in a cycle, 2 -> 3 -> 4 -> 2"),
        ([line("2-3", "_"), line(1, 0)], r"line 1: the multiword token '2-3' does not begin with the next word, 1"),
        ([line("1-3", "_"), line(1, 0)], r"line 2: a multiword token goes up to word 3, but the sentence has 1"),
        ([line("5.1", "_"), line(1, 0)], r"line 1: the empty node '5.1' must come after word 5"),
        (["# only a comment"], r"line 1: a sentence without words"),
        (["", ""], r"holds no sentences"),
    ],
)
def test_broken_files(rows, message):
    with pytest.raises(DataError, match=message):
        read(*rows)


def test_ud_english():
    folder = Path(os.environ.get("MAXMARGIN_DATA", Path(__file__).parents[3] / "shared" / "data")) / "ud_english_ewt"
    if not folder.exists():
        pytest.skip("UD English EWT is not here; set MAXMARGIN_DATA to the folder with ud_english_ewt")
    sentences = read_conllu(folder / "en_ewt-ud-dev.conllu.gz")
    assert len(sentences) == 2001 and sum(map(len, sentences)) == 25147
    text = gzip.decompress((folder / "en_ewt-ud-dev.conllu.gz").read_bytes()).decode()
    assert "".join(row for sentence in sentences for row in sentence.lines()) == text
