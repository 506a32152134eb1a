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


class Table(NamedTuple):
    """Features (n, p), labels (n,), queries (n,) or None, names of the features and, for text, the line of every row."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[Any] | None
    features: list[str]
    lines: Sequence[int] | None = None


def choose_features(names: list[str], wanted: Wanted, place: str) -> list[str]:
    """Names of the features; every column that is used must be there once."""
    features = [name for name in names if name not in wanted[:2]] if wanted.features is None else list(wanted.features)
    for column in [wanted.label, *features, *([] if wanted.query is None else [wanted.query])]:
        if column not in names:
            raise DataError(f"{place}: there is no column {column!r}; the header has {', '.join(map(repr, names))}")
        if names.count(column) > 1:
            raise DataError(f"{place}: {names.count(column)} columns are called {column!r}; give every column a name of its own")
    return features
