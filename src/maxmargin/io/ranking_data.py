"""What every reader hands out: samples with labels and, if there are any, queries."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from maxmargin._utils import Floats, Setting, Words
from maxmargin.io.encoding import Encoding
from maxmargin.io.queries import Codes, Names, query_offsets
from maxmargin.io.source import DataError

SplitQueries = Literal["refuse", "group", "keep"]


@dataclass(frozen=True, eq=False)
class RankingData:
    """Samples to rank.

    Attributes
    ----------
    X : csr_array or array of shape (n, p)
        Features; sparse from svmlight files, dense from tables.
    y : array of shape (n,)
        Labels.
    qid : int64 array of shape (n,), or None
        Code of the query of every sample: 0, 1, ... in order of first appearance. None without queries.
    query_names : list of q int or str, or None
        Names of the queries by code: integers if all of them are such, of 64 bits, text otherwise.
    comments : list of n str, or None
        What follows ``#`` on each line of a svmlight file, if asked for.
    feature_names : list of p str, or None
        Columns of a table; those of text are one for every category, ``colour=red``.
    zero_based : bool, or None
        Whether the features of a svmlight file are numbered from 0; None for tables.
    label_name, query_column : str, or None
        Columns of the labels and of the queries in a table.
    encoding : Encoding, or None
        How the columns of a table became features.
    """

    X: Any
    y: Floats
    qid: Codes | None = None
    query_names: Names | None = None
    comments: list[str] | None = None
    feature_names: list[str] | None = None
    zero_based: bool | None = None
    label_name: str | None = None
    query_column: str | None = None
    encoding: Encoding | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def docids(self) -> list[str | None] | None:
        """Names of the documents from LETOR comments, ``#docid = GX008-86-4444840 inc = 1``; None for lines without."""
        if self.comments is None:
            return None
        found = (re.search(r"docid\s*=\s*(\S+)", comment) for comment in self.comments)
        return [match[1] if match else None for match in found]


def check_split_queries(split_queries: str) -> None:
    """Refuse what is none of the three ways."""
    if split_queries not in get_args(SplitQueries):
        raise ValueError(
            f"split_queries={split_queries!r} is unknown; it is one of {', '.join(map(repr, get_args(SplitQueries)))}"
        )


def grouped(data: RankingData) -> RankingData:
    """Rows of a query together, queries by first appearance, rows inside a query in their order."""
    order = None if data.qid is None else query_offsets(data.qid, len(data))[2]
    if data.qid is None or order is None:
        return data
    comments = None if data.comments is None else [data.comments[row] for row in order]
    return replace(data, X=data.X[order], y=data.y[order], qid=data.qid[order], comments=comments)


def split_query(place: str) -> DataError:
    """Complain about a query that appears again."""
    sorted_by = " to have them sorted by the first appearance of their query"
    remedy: Words = ["put the samples of a query together, or pass ", Setting("split_queries", "group"), sorted_by]
    return DataError(place, remedy, "split_queries")
