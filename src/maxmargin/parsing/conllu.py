"""Treebanks in the CoNLL-U format of Universal Dependencies: sentences, one word per line, with the head of every word.

A line has ten columns, separated by tabs: ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC. Multiword tokens
(``3-4``) and empty nodes (``8.1``) are no part of the basic tree; they are kept, with all other columns and the comments, and
written again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from maxmargin._utils import tree_fault
from maxmargin.io import DataError, Source, lines, name_of

_COLUMNS = 10
_WORD, _RANGE, _EMPTY = (
    re.compile(r"[1-9][0-9]{0,8}"),
    re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})"),
    re.compile(r"([0-9]{1,9})\.[1-9][0-9]{0,8}"),
)


@dataclass(frozen=True)
class Sentence:
    """Words with their tags and, if it is known, the dependency tree.

    Attributes
    ----------
    words, tags : list of str
        One of each for every word; tags are those of the column UPOS.
    heads : list of int or None
        The head of every word, 1 to n, or 0 for the root; None if the tree is not known.
    labels : list of str or None
        The relation of every word to its head.
    comments : list of str
        Lines that begin with ``#``.
    columns : list of tuples of str
        Everything that a file said of every word.
    others : list of pairs (int, str)
        Lines of multiword tokens and empty nodes, with the number of words before them.

    Examples
    --------
    >>> Sentence(["We", "ate"], ["PRON", "VERB"], [2, 0], ["nsubj", "root"]).heads
    [2, 0]
    """

    words: list[str]
    tags: list[str]
    heads: list[int] | None = None
    labels: list[str] | None = None
    comments: list[str] = field(default_factory=list, repr=False)
    columns: list[tuple[str, ...]] = field(default_factory=list, repr=False)
    others: list[tuple[int, str]] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.words)

    def with_tree(self, heads: Iterable[int], labels: Iterable[str] | None = None) -> Sentence:
        """The same words with another tree; labels stay as they are if none are given."""
        own = [int(head) for head in heads]
        tags = self.labels if labels is None else [str(label) for label in labels]
        wrong = tree_fault(own, len(self.words))
        if wrong is not None:
            raise ValueError(f"heads are no tree over {len(self.words)} words: {wrong[1]}")
        if tags is not None and len(tags) != len(own):
            raise ValueError(f"{len(tags)} labels for {len(own)} words; each needs one")
        return replace(self, heads=own, labels=tags)

    def lines(self) -> Iterator[str]:
        """The sentence as lines of a file, with the blank one at its end."""
        for comment in self.comments:
            yield f"{comment}\n"
        others = list(self.others)
        for k, word in enumerate(self.words):
            while others and others[0][0] <= k:
                yield f"{others.pop(0)[1]}\n"
            own = list(self.columns[k]) if self.columns else ["_"] * _COLUMNS
            own[0], own[1], own[3] = str(k + 1), word or "_", self.tags[k] or "_"
            own[6] = "_" if self.heads is None else str(self.heads[k])
            own[7] = "_" if self.labels is None else self.labels[k]
            for name, value in (("word", own[1]), ("tag", own[3]), ("label", own[7])):
                if "\t" in value or "\n" in value or "\r" in value:
                    raise ValueError(f"{name} {value[:40]!r} has a tab or a line break, which no column may; replace them")
            yield "\t".join(own) + "\n"
        for _, line in others:
            yield f"{line}\n"
        yield "\n"


def read_conllu(path: Source) -> list[Sentence]:
    r"""Sentences of a CoNLL-U file, plain or with ``.gz`` or ``.bz2``.

    Sentences without heads, with ``_`` in that column throughout, have no tree.

    Raises
    ------
    DataError
        A ValueError with file, line and what to do: a line without ten columns, broken numbers of words, a word with two heads or
        none, heads in a cycle.

    Examples
    --------
    >>> text = "1\tWe\t_\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tate\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    >>> read_conllu(text.encode())
    [Sentence(words=['We', 'ate'], tags=['PRON', 'VERB'], heads=[2, 0], labels=['nsubj', 'root'])]
    """
    found: list[Sentence] = []
    part = _Part(name_of(path))
    for number, line in enumerate(lines(path), start=1):
        text = line.rstrip("\r\n")
        if text.strip():
            part.add(text, number)
        elif part.begun:
            found.append(part.sentence())
            part = _Part(part.file)
    if part.begun:
        found.append(part.sentence())
    if not found:
        raise DataError(f"{name_of(path)}: holds no sentences; lines with ten columns separated by tabs are needed")
    return found


def write_conllu(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> None:
    """Write sentences to a file, with all that was read of them and their present trees."""
    text = "".join(line for sentence in sentences for line in sentence.lines())
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


class _Part:
    """The lines of a sentence so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.comments: list[str] = []
        self.rows: list[tuple[str, ...]] = []
        self.numbers: list[int] = []
        self.others: list[tuple[int, str]] = []
        # The multiword token that goes on, up to this word.
        self.until = 0
        self.last = 0

    @property
    def begun(self) -> bool:
        return bool(self.rows or self.comments or self.others)

    def _place(self, number: int) -> str:
        return f"{self.file}, line {number}"

    def add(self, text: str, number: int) -> None:
        place, self.last = self._place(number), number
        if text.startswith("#") and not self.rows and not self.others:
            self.comments.append(text)
            return
        fields = tuple(text.split("\t"))
        if len(fields) != _COLUMNS:
            hint = "; write '_' where a column says nothing" if "\t" in text else "; separate columns by tabs, not by blanks"
            if text.startswith("#"):
                hint = "; comments come before the first word, and a blank line ends a sentence"
            raise DataError(f"{place}: {len(fields)} columns, but a word of CoNLL-U has {_COLUMNS}{hint}")
        identity, expected = fields[0], len(self.rows) + 1
        several, empty = _RANGE.fullmatch(identity), _EMPTY.fullmatch(identity)
        if several:
            first, last = int(several[1]), int(several[2])
            if first != expected or last <= first or first <= self.until:
                raise DataError(
                    f"{place}: the multiword token {identity!r} does not begin with the next word, {expected}, or ends before it "
                    "begins; put its line before its first word"
                )
            self.until = last
            self.others.append((len(self.rows), text))
        elif empty:
            if int(empty[1]) != len(self.rows):
                raise DataError(f"{place}: the empty node {identity!r} must come after word {empty[1]}; move it there")
            self.others.append((len(self.rows), text))
        elif not _WORD.fullmatch(identity):
            raise DataError(f"{place}: the id {identity[:40]!r} is neither a number nor a range; number the words 1, 2, 3, ...")
        elif int(identity) < expected:
            raise DataError(f"{place}: word {identity} comes twice, but a word has one line and one head; keep one of them")
        elif int(identity) != expected:
            raise DataError(
                f"{place}: the id {identity} comes where {expected} should; number words without gaps, and end sentences by a "
                "blank line"
            )
        else:
            self.rows.append(fields)
            self.numbers.append(number)

    def sentence(self) -> Sentence:
        """What the lines say, checked."""
        if not self.rows:
            raise DataError(f"{self._place(self.last)}: a sentence without words; remove it")
        if self.until > len(self.rows):
            raise DataError(
                f"{self._place(self.last)}: a multiword token goes up to word {self.until}, but the sentence has "
                f"{len(self.rows)}; mend its id"
            )
        heads = self._heads()
        return Sentence(
            words=[row[1] for row in self.rows], tags=[row[3] for row in self.rows], heads=heads,
            labels=None if heads is None else [row[7] for row in self.rows], comments=self.comments, columns=self.rows,
            others=self.others,
        )  # fmt: skip

    def _heads(self) -> list[int] | None:
        texts = [row[6] for row in self.rows]
        if all(text == "_" for text in texts):
            return None
        for text, number in zip(texts, self.numbers, strict=True):
            if text == "_":
                raise DataError(f"{self._place(number)}: has no head, but others have one; write it, or '_' for all")
            if not re.fullmatch("[0-9]{1,9}", text):
                one = "a word of the basic tree has one head, others belong in the column DEPS"
                remedy = one if re.search("[|,: ]", text) else "write 0, 1, 2, ..."
                raise DataError(f"{self._place(number)}: the head {text[:40]!r} is not a number; {remedy}")
        heads = [int(text) for text in texts]
        wrong = tree_fault(heads, len(heads))
        if wrong is not None:
            raise DataError(f"{self._place(self.numbers[wrong[0]])}: {wrong[1]}")
        return heads
