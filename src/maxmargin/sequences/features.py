"""Features of tokens."""

from __future__ import annotations

from collections.abc import Sequence


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
