"""What the readers of tables have in common: which columns are wanted, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.source import DataError


class Wanted(NamedTuple):
    """Names of columns; ``features`` None stands for all others."""

    label: str
    query: str | None
    features: Sequence[str] | None
    query_needed: bool = True  # or else read only if it is there


class Table(NamedTuple):
    """Features (n, p), labels (n,), queries (n,) or None, names of the features and, for text, the line of every row."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    features: list[str]
    lines: Sequence[int] | None = None


def choose(names: list[str], wanted: Wanted, place: str) -> tuple[list[str], str | None]:
    """Columns of the features and of the query; every column that is used must be there once."""
    query = wanted.query if wanted.query_needed or wanted.query in names else None
    features = [name for name in names if name not in (wanted.label, query)] if wanted.features is None else list(wanted.features)
    for column in [wanted.label, *features, *([] if query is None else [query])]:
        if column not in names:
            raise DataError(f"{place}: there is no column {column!r}; the header has {', '.join(map(repr, names))}")
        if names.count(column) > 1:
            raise DataError(f"{place}: {names.count(column)} columns are called {column!r}; give every column a name of its own")
    return features, query
