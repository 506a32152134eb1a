"""One reader for every format, chosen by the name of the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from maxmargin.io.ranking_data import RankingData
from maxmargin.io.source import format_suffix
from maxmargin.io.svmlight import load_svmlight
from maxmargin.io.table import load_table

_TABLES = (".csv", ".tsv", ".parquet", ".pq")


# Readers of other formats, by suffix: functions of a path, and of options, that return RankingData.
READERS: dict[str, Callable[..., RankingData]] = {}


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a table with named columns."""
    return format_suffix(path) in _TABLES


def load(path: str | os.PathLike[str], **options: Any) -> RankingData:
    """Samples of a file, by its suffix.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv``, ``.parquet`` and ``.pq`` are tables, and suffixes in ``READERS`` have their own readers; every other
        name is taken for svmlight/LETOR, which has no suffix. A further ``.gz`` or ``.bz2`` says how text is compressed.
    **options
        Those of :func:`load_table`, where ``label`` is needed, or of :func:`load_svmlight`.

    Returns
    -------
    RankingData
    """
    if not is_table(path):
        reader: Callable[..., RankingData] = READERS.get(format_suffix(path), load_svmlight)
        return reader(path, **options)
    if "label" not in options:
        raise ValueError(f"{os.fspath(path)} is a table; pass label= (and query=, if it has queries), the names of its columns")
    return load_table(path, **options)
