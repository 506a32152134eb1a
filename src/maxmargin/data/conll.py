"""Files of tagged sentences as in the CoNLL tasks of 2000 to 2003: a token per line, an empty line between sentences."""

from __future__ import annotations

from collections.abc import Sequence

from maxmargin.data.source import DataError, Source, lines, name_of


def read_conll(path: Source, n_columns: int | None = None) -> list[list[tuple[str, ...]]]:
    r"""Sentences as lists of tokens, each a tuple of its columns; the last column is usually the tag.

    Lines that begin with ``-DOCSTART-`` stand between documents and are passed over.

    Parameters
    ----------
    path : path, bytes or open file
        Text in UTF-8, perhaps with ``.gz`` or ``.bz2``; columns are separated by spaces or tabs.
    n_columns : int, optional
        Columns that every token must have; by default as many as the first one.

    Raises
    ------
    DataError
        File, line and remedy.

    Examples
    --------
    >>> read_conll(b"He PRP B-NP\nsits VBZ B-VP\n\nHi UH O\n")
    [[('He', 'PRP', 'B-NP'), ('sits', 'VBZ', 'B-VP')], [('Hi', 'UH', 'O')]]
    """
    sentences: list[list[tuple[str, ...]]] = []
    sentence: list[tuple[str, ...]] = []
    for number, line in enumerate(lines(path), start=1):
        columns = tuple(line.split())
        if not columns or columns[0] == "-DOCSTART-":
            if sentence:
                sentences.append(sentence)
            sentence = []
            continue
        if n_columns is None:
            n_columns = len(columns)
        if len(columns) != n_columns:
            raise DataError(
                f"{name_of(path)}, line {number}: has {len(columns)} columns, but {n_columns} are needed; every token has "
                "a line with as many, and sentences are separated by empty lines"
            )
        sentence.append(columns)
    if sentence:
        sentences.append(sentence)
    if not sentences:
        raise DataError(f"{name_of(path)}: holds no tokens; one line per token is needed")
    return sentences


def window_features(sentence: Sequence[Sequence[str]]) -> list[list[str]]:
    """Names of indicators for every token, from its columns and those of its neighbours: what taggers usually look at.

    Of every column the values in a window of five, and pairs of neighbours; of all columns but the first triples too. Of the
    first, the word, its beginnings and ends of two and three characters, the last one, and the shape of its first four.

    Parameters
    ----------
    sentence : sequence of L sequences of text
        The columns of every token, without the tag that is to be found.

    Returns
    -------
    list of L lists of str
        As :class:`maxmargin.ChainSVM` takes them.

    Examples
    --------
    >>> [own] = window_features([("Go",)])
    >>> own[2], own[-1]
    ('0:0=Go', 'shape=Aa')
    """
    length = len(sentence)
    columns = [["<<", "<", *(token[c] for token in sentence), ">", ">>"] for c in range(len(sentence[0]) if length else 0)]
    rows = []
    for t in range(2, length + 2):
        own: list[str] = []
        for c, values in enumerate(columns):
            own += [f"{c}:{k}={values[t + k]}" for k in range(-2, 3)]
            reach = (-1, 0) if c == 0 else range(-2, 2)
            own += [f"{c}:{k}|={values[t + k]}|{values[t + k + 1]}" for k in reach]
            if c:
                own += [f"{c}:{k}||={values[t + k]}|{values[t + k + 1]}|{values[t + k + 2]}" for k in range(-2, 1)]
        word = columns[0][t]
        own += [f"^{n}={word[:n]}" for n in (2, 3)] + [f"${n}={word[-n:]}" for n in (1, 2, 3)]
        own.append("shape=" + "".join(map(_shape, word[:4])))
        rows.append(own)
    return rows


def _shape(character: str) -> str:
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return "0" if character.isdigit() else "."
