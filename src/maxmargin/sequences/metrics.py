"""Chunks and entities in tags of the IOB kinds, and how well they are found: precision, recall, F1 as conlleval has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Chunk", "ChunkScores", "check_bio", "chunk_scores", "chunks", "sentence_f1"]


class Chunk(NamedTuple):
    """Tokens ``start`` to ``end - 1`` of a sentence, and what they are."""

    start: int
    end: int
    kind: str


class ChunkScores(NamedTuple):
    """Of all chunks of all sentences together; a ratio of nothing to nothing is 0, as in conlleval."""

    precision: float
    recall: float
    f1: float
    accuracy: float


def _parts(tag: str, sentence: int, position: int) -> tuple[str, str]:
    if tag == "O":
        return "O", ""
    prefix, dash, kind = tag.partition("-")
    if prefix not in ("B", "I") or not dash or not kind:
        raise ValueError(
            f"tag {tag!r} at position {position} of sentence {sentence} is neither 'O' nor of the form 'B-NP' or 'I-NP'; convert "
            "other schemes first"
        )
    return prefix, kind


def chunks(tags: Sequence[str], sentence: int = 0) -> list[Chunk]:
    """The chunks of a sentence, in order. A chunk begins at ``B-``, and at an ``I-`` that continues none of its kind.

    Examples
    --------
    >>> chunks(["B-NP", "I-NP", "O", "I-VP", "B-VP"])
    [Chunk(start=0, end=2, kind='NP'), Chunk(start=3, end=4, kind='VP'), Chunk(start=4, end=5, kind='VP')]
    """
    found: list[Chunk] = []
    start, open_kind = 0, ""
    for position, tag in enumerate([*map(str, tags), "O"]):
        prefix, kind = _parts(tag, sentence, position)
        if open_kind and (prefix != "I" or kind != open_kind):
            found.append(Chunk(start, position, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = position, kind
    return found


def check_bio(sentences: Sequence[Sequence[str]]) -> None:
    """Complain about tags that are no BIO: every chunk begins with ``B-``, and an ``I-`` continues a chunk of its kind.

    Examples
    --------
    >>> check_bio([["B-NP", "I-NP"], ["O", "I-NP"]])
    Traceback (most recent call last):
    ...
    ValueError: tag 'I-NP' at position 1 of sentence 1 continues no chunk of its kind, it follows 'O'; begin chunks with 'B-NP'
    """
    for number, tags in enumerate(sentences):
        before = "O"
        for position, tag in enumerate(map(str, tags)):
            prefix, kind = _parts(tag, number, position)
            if prefix == "I" and before not in (f"B-{kind}", f"I-{kind}"):
                raise ValueError(
                    f"tag {tag!r} at position {position} of sentence {number} continues no chunk of its kind, "
                    f"it follows {before!r}; begin chunks with 'B-{kind}'"
                )
            before = tag


def _checked(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> None:
    if len(truth) != len(found):
        raise ValueError(f"there are {len(truth)} true and {len(found)} predicted sentences; they must be equal")
    for number, (own, other) in enumerate(zip(truth, found, strict=True)):
        if len(own) != len(other):
            raise ValueError(f"sentence {number} has {len(own)} true and {len(other)} predicted tags; they must be equal")


def chunk_scores(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> ChunkScores:
    """Precision, recall and F1 of chunks, which are right if start, end and kind are; accuracy is that of tags.

    Parameters
    ----------
    truth, found : sequences of sequences of str
        Tags of the same sentences.

    Examples
    --------
    >>> chunk_scores([["B-NP", "I-NP", "B-VP"]], [["B-NP", "O", "B-VP"]])
    ChunkScores(precision=0.5, recall=0.5, f1=0.5, accuracy=0.6666666666666666)
    """
    _checked(truth, found)
    n_true = n_found = n_right = n_tags = n_same = 0
    for number, (own, other) in enumerate(zip(truth, found, strict=True)):
        one, two = chunks(own, number), chunks(other, number)
        n_true, n_found, n_right = n_true + len(one), n_found + len(two), n_right + len(set(one) & set(two))
        n_tags, n_same = n_tags + len(own), n_same + sum(str(a) == str(b) for a, b in zip(own, other, strict=True))
    precision, recall = n_right / max(n_found, 1), n_right / max(n_true, 1)
    f1 = 2 * n_right / max(n_true + n_found, 1)
    return ChunkScores(precision, recall, f1, n_same / max(n_tags, 1))


def sentence_f1(
    truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]], *, outside: str = "O", empty_value: float = 1.0
) -> float:
    """Mean over the sentences of the F1 of tokens: what the surrogate ``"micro_f1"`` bounds one minus of.

    A token counts if its tag is not ``outside``; two such tags that differ are one wrong and one missed. A sentence without any,
    true or predicted, counts ``empty_value``.

    Examples
    --------
    >>> sentence_f1([["B", "O"], ["O", "O"]], [["B", "B"], ["O", "O"]])
    0.8333333333333333
    """
    _checked(truth, found)
    total = 0.0
    for own, other in zip(truth, found, strict=True):
        size = sum(str(tag) != outside for tags in (own, other) for tag in tags)
        right = sum(str(a) == str(b) != outside for a, b in zip(own, other, strict=True))
        total += 2 * right / size if size else empty_value
    return total / max(len(truth), 1)
