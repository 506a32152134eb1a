"""What every reader hands out: samples with labels and, if there are any, queries."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from maxmargin._validation import query_offsets

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
    qid : array of shape (n,), or None
        Query of every sample: 64-bit integers if all of them are such, text otherwise. None without queries.
    comments : list of n str, or None
        What follows ``#`` on each line of a svmlight file, if asked for.
    feature_names : list of p str, or None
        Columns of a table.
    zero_based : bool, or None
        Whether the features of a svmlight file are numbered from 0; None for tables.
    """

    X: Any
    y: NDArray[np.float64]
    qid: NDArray[Any] | None = None
    comments: list[str] | None = None
    feature_names: list[str] | None = None
    zero_based: bool | None = None

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


def query_ids(names: list[str]) -> NDArray[Any]:
    """The names as 64-bit integers if every one is written as such (``7``, not ``07``), as text otherwise."""
    try:
        numbers = np.array([int(name) for name in names], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(names)
    return numbers if all(map(str.__eq__, map(str, numbers.tolist()), names)) else np.array(names)


def grouped(data: RankingData) -> RankingData:
    """Rows of a query together, queries by first appearance, rows inside a query in their order."""
    if data.qid is None:
        return data
    order = query_offsets(data.qid, len(data))[2]
    if order is None:
        return data
    comments = None if data.comments is None else [data.comments[row] for row in order]
    return replace(data, X=data.X[order], y=data.y[order], qid=data.qid[order], comments=comments)


def first_split(qid: NDArray[Any]) -> int | None:
    """The first row whose query has appeared before, with others in between."""
    starts = np.flatnonzero(np.concatenate(([True], qid[1:] != qid[:-1])))
    _, first = np.unique(qid[starts], return_index=True)
    again = np.setdiff1d(np.arange(len(starts)), first)
    return int(starts[again[0]]) if len(again) else None
