"""Readers of the file formats that rankings, tagged sentences, treebanks, sets of labels and hierarchies come in."""

from __future__ import annotations

from maxmargin.data.arff import ArffTable, read_arff
from maxmargin.data.columns import Wanted
from maxmargin.data.conll import read_conll
from maxmargin.data.conllu import Sentence, read_conllu, write_conllu
from maxmargin.data.encoding import Encoding, UnseenCategoryWarning
from maxmargin.data.features import window_features
from maxmargin.data.hierarchical import HierarchicalData, load_hierarchical
from maxmargin.data.loading import READERS, is_table, load
from maxmargin.data.multilabel import MultilabelData, load_multilabel, load_multilabel_svmlight, read_label_names
from maxmargin.data.ranking_data import RankingData
from maxmargin.data.source import DataError, read_scores
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
