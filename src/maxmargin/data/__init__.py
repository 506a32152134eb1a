"""Readers of the file formats that rankings, tagged sentences, treebanks, sets of labels and hierarchies come in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from maxmargin.data.arff import ArffTable, read_arff
from maxmargin.data.columns import Wanted
from maxmargin.data.conll import read_conll, window_features
from maxmargin.data.conllu import Sentence, read_conllu, write_conllu
from maxmargin.data.encoding import Encoding, UnseenCategoryWarning
from maxmargin.data.multilabel import (
    HierarchicalData,
    MultilabelData,
    load_hierarchical,
    load_multilabel,
    load_multilabel_svmlight,
    read_label_names,
)
from maxmargin.data.ranking_data import RankingData
from maxmargin.data.source import DataError, format_suffix, read_scores
from maxmargin.data.svmlight import FeatureIndexError, load_svmlight, read_labels
from maxmargin.data.table import load_table, load_wanted, read_table
from maxmargin.data.trec import JudgedRun, judged_run, read_qrels, read_run, run_lines

__all__ = [
    "READERS", "ArffTable", "DataError", "Encoding", "FeatureIndexError", "HierarchicalData", "JudgedRun", "MultilabelData",
    "RankingData", "Sentence", "UnseenCategoryWarning", "Wanted", "is_table", "judged_run", "load", "load_hierarchical",
    "load_multilabel", "load_multilabel_svmlight", "load_svmlight", "load_table", "load_wanted", "read_arff", "read_conll",
    "read_conllu", "read_label_names", "read_labels", "read_qrels", "read_run", "read_scores", "read_table", "run_lines",
    "window_features", "write_conllu",
]  # fmt: skip

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
