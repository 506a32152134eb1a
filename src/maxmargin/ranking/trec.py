"""Files of evaluation campaigns: judgements (qrels) and runs, as ``trec_eval`` reads them.

Both are plain text, perhaps with ``.gz`` or ``.bz2``, and become dictionaries of dictionaries, as Python packages for such files
have them: query, document, relevance or score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Booleans, Floats
from maxmargin.io import Codes, DataError, Source, finite_score, lines, name_of, query_offsets

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]

# Separated as C separates: a no-break space is part of a name.
_FIELDS = re.compile(r"[^ \t\n\r\v\f]+")
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")


def read_qrels(path: Source) -> Qrels:
    r"""Judgements: lines ``query iteration document relevance``, the last a whole number; the second field is not used.

    Returns
    -------
    dict
        ``qrels[query][document]`` is the relevance; queries in order of appearance.

    Examples
    --------
    >>> read_qrels(b"301 0 FR940202-2-00150 1\n301 0 FR940104-0-00001 0\n")
    {'301': {'FR940202-2-00150': 1, 'FR940104-0-00001': 0}}
    """
    qrels: Qrels = {}
    for (query, _, document, text), place in _rows(path, 4, "a line of judgements is 'query iteration document relevance'"):
        if not _WHOLE.fullmatch(text):
            raise DataError(f"{place}: relevance {text[:40]!r} is not a whole number; write 0, 1, 2, ...")
        _put(qrels, query, document, int(text), place)
    if not qrels:
        raise DataError(f"{name_of(path)}: holds no judgements; lines such as '301 0 FR940202-2-00150 1' are needed")
    return qrels


def read_run(path: Source) -> Run:
    r"""Results: lines ``query Q0 document rank score tag``. The order is that of the scores; the rank is not used.

    Returns
    -------
    dict
        ``run[query][document]`` is the score; queries in order of appearance.

    Examples
    --------
    >>> read_run(b"301 Q0 FR940202-2-00150 1 2.5 mine\n")
    {'301': {'FR940202-2-00150': 2.5}}
    """
    run: Run = {}
    for (query, _, document, _, text, _), place in _rows(path, 6, "a line of a run is 'query Q0 document rank score tag'"):
        score = finite_score(text, place, "the fifth field is the score", "leave the document out, or give it a low score")
        _put(run, query, document, score, place)
    if not run:
        raise DataError(f"{name_of(path)}: holds no results; lines such as '301 Q0 FR940202-2-00150 1 2.5 mine' are needed")
    return run


def _rows(path: Source, n: int, shape: str) -> Iterator[tuple[list[str], str]]:
    """Fields of every line that is not blank, and the place to name in messages."""
    other = "this looks like a file of judgements, not a run" if n == 6 else "this looks like a run, not a file of judgements"
    for line, text in enumerate(lines(path), start=1):
        fields = _FIELDS.findall(text)
        if fields:
            place = f"{name_of(path)}, line {line}"
            if len(fields) != n:
                hint = f"; {other}" if len(fields) == 10 - n else ""
                raise DataError(f"{place}: {len(fields)} fields, but {shape}{hint}")
            yield fields, place


def _put(table: dict[str, dict[str, Any]], query: str, document: str, value: float, place: str) -> None:
    documents = table.setdefault(query, {})
    if document in documents:
        raise DataError(f"{place}: document {document[:60]!r} occurs twice for query {query[:60]!r}; keep one of them")
    documents[document] = value


def run_lines(
    qid: ArrayLike | None,
    docids: Iterable[str],
    scores: ArrayLike,
    tag: str = "maxmargin",
    query_names: Sequence[Any] | None = None,
) -> Iterator[str]:
    r"""Lines of a run: queries by first appearance, documents by falling score, equal ones by name, the last first.

    Where ``query_names`` are given, ``qid`` are codes, places in them.

    Examples
    --------
    >>> print(*run_lines([7, 7], ["a", "b"], [0.25, 0.5]), end="", sep="")
    7 Q0 b 1 0.5 maxmargin
    7 Q0 a 2 0.25 maxmargin
    """
    values, names = np.asarray(scores, dtype=np.float64), list(docids)
    ids, offsets, order = query_offsets(np.ones(len(values), dtype=np.int64) if qid is None else qid, len(values))
    queries = [str(name) for name in (ids if query_names is None else map(query_names.__getitem__, ids.tolist()))]
    rows = np.arange(len(values)) if order is None else order
    for name in [*queries, *names, tag]:
        if not _FIELDS.fullmatch(name):
            raise DataError(f"{name[:60]!r} is empty or has blanks, which no field of a run may; rename the query or document")
    for query, begin, end in zip(queries, offsets[:-1], offsets[1:], strict=True):
        best_first = sorted(rows[begin:end].tolist(), key=lambda row: (values[row], names[row]), reverse=True)
        if len({names[row] for row in best_first}) < len(best_first):
            raise DataError(f"two documents of query {query[:60]} have the same name; a run needs a name for each")
        for rank, row in enumerate(best_first, start=1):
            yield f"{query} Q0 {names[row]} {rank} {values[row]:.17g} {tag}\n"


class JudgedRun(NamedTuple):
    """What the metrics take: one entry per document that was judged or retrieved, and the names of the queries."""

    relevance: Floats
    scores: Floats
    qid: Codes
    retrieved: Booleans
    query_names: list[str]


def judged_run(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]], *, complete: bool = False
) -> JudgedRun:
    """Judgements and results put together as ``trec_eval`` does.

    Documents are ordered by score in single precision and, where that is equal, by name, the last first. A document without
    judgement is irrelevant; one that was judged and not retrieved counts as such (see :func:`maxmargin.metrics.per_query`).

    Parameters
    ----------
    qrels, run
        As from :func:`read_qrels` and :func:`read_run`.
    complete : bool
        All queries of ``qrels``, as with ``trec_eval -c``: those without results score 0. By default only queries that are in
        both. Queries without judgements are never evaluated.

    Returns
    -------
    JudgedRun
        With scores that stand for positions.

    Examples
    --------
    >>> from maxmargin import metrics
    >>> lists = judged_run({"q": {"a": 1, "b": 1}}, {"q": {"a": 0.2, "c": 0.7}})
    >>> values, queries = metrics.per_query(**lists._asdict(), metrics=["map"])
    >>> values["map"], queries
    (array([0.25]), ['q'])
    """
    relevance, positions, codes, names, retrieved = list[float](), list[float](), list[int](), list[str](), list[bool]()
    for query, judged in qrels.items():
        found = run.get(query, {})
        if not found and not complete:
            continue
        with np.errstate(over="ignore"):
            single = np.array(list(found.values()), dtype=np.float64).astype(np.float32).tolist()
        ranking = [document for _, document in sorted(zip(single, found, strict=True), reverse=True)]
        missed = [document for document in judged if document not in found]
        relevance += [judged.get(document, 0) for document in ranking + missed]
        positions += [*map(float, range(len(ranking), 0, -1)), *([0.0] * len(missed))]
        retrieved += [True] * len(ranking) + [False] * len(missed)
        codes += [len(names)] * (len(ranking) + len(missed))
        names.append(query)
    if not names:
        raise DataError("no query of the run has judgements; give a run and judgements of the same queries")
    return JudgedRun(
        np.array(relevance, dtype=np.float64), np.array(positions), np.array(codes, dtype=np.int64), np.array(retrieved), names
    )
