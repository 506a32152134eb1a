"""Files of tagged sentences as in the CoNLL tasks of 2000 to 2003: a token per line, an empty line between sentences."""

from __future__ import annotations

from maxmargin.io import DataError, Source, lines, name_of


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
