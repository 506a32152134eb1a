"""Samples with sets of labels: ARFF files of Mulan, MEKA and Clus, and svmlight files with lists of labels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from maxmargin.io import (
    ArffTable,
    DataError,
    Missing,
    Source,
    columns_of,
    feature_columns,
    filled,
    lines,
    name_of,
    number,
    open_binary,
    read_arff,
)

# In the name of a relation of MEKA: how many of the attributes are labels, the first ones, or if negative the last.
_MEKA = re.compile(r"-C\s+(-?\d+)")


@dataclass(frozen=True)
class MultilabelData:
    """Samples with sets of labels.

    Attributes
    ----------
    X : array or csr_array of shape (n, p)
        Features.
    Y : int8 array of shape (n, L), or csr_array
        A one where a sample has a label; sparse if ``X`` is.
    label_names, feature_names : lists of str
        Of the columns of ``Y`` and of ``X``.
    """

    X: Any = field(repr=False)
    Y: Any = field(repr=False)
    label_names: list[str]
    feature_names: list[str] = field(repr=False)


def load_multilabel(
    path: Source,
    labels: str | os.PathLike[str] | bytes | Sequence[str] | int | None = None,
    *,
    ignore: Sequence[str] = (),
    missing: Missing = "refuse",
) -> MultilabelData:
    r"""Samples of an ARFF file with several labels, as Mulan and MEKA have them.

    Parameters
    ----------
    path : path, bytes or binary file
        Names that end in ``.gz`` or ``.bz2`` are unpacked.
    labels : path or bytes of an XML file, list of str, or int, optional
        Which attributes are labels: those that an XML file of Mulan names, those of a list, or the first ``labels``, and if
        negative the last. By default what MEKA writes into the name of the relation (``-C 6``), or else an XML file beside the
        data and of the same name.
    ignore : sequence of str
        Attributes that are neither labels nor features.
    missing : {"refuse", "nan", "mean"}
        What to do about missing features: refuse the file, leave them NaN, or put the mean of the column in their place.

    Returns
    -------
    MultilabelData

    Raises
    ------
    DataError
        A ValueError: file, line, what is wrong and what to do.

    Examples
    --------
    >>> header = b"@relation 'birds: -C 2'\n@attribute owl {0,1}\n@attribute gull {0,1}\n@attribute size numeric\n"
    >>> data = load_multilabel(header + b"@data\n0,1,1.5\n1,1,3\n")
    >>> data.label_names, data.Y.tolist(), data.X.tolist()
    (['owl', 'gull'], [[0, 1], [1, 1]], [[1.5], [3.0]])
    """
    table = read_arff(path)
    chosen = _label_columns(table, path, labels)
    left_out = {*chosen, *columns_of(table, ignore, "ignore")}
    features = feature_columns(table, [k for k in range(len(table.attributes)) if k not in left_out])
    names = [table.attributes[column].name for column in chosen]
    Y = _indicator(table, chosen)
    if not isinstance(features.X, np.ndarray):
        from scipy.sparse import csr_array

        return MultilabelData(filled(features.X, missing, table), csr_array(Y), names, features.names)
    return MultilabelData(filled(features.X, missing, table), Y, names, features.names)


def load_multilabel_svmlight(
    path: Source, *, n_features: int | None = None, label_names: Sequence[str] | None = None, zero_based: bool = False
) -> MultilabelData:
    r"""Samples of a svmlight file whose lines begin with a list of labels: ``1,4 1:0.5 3:1``.

    A line that begins with a blank, or at once with features, has no label.

    Parameters
    ----------
    path : path, bytes or binary file
        Names that end in ``.gz`` or ``.bz2`` are unpacked.
    n_features : int, optional
        Number of columns; by default what the largest index calls for. For test data, pass that of the training data.
    label_names : sequence of str, optional
        All labels, in the order of the columns of ``Y``; by default those that occur, in order, numbers by their size. For test
        data, pass those of the training data.
    zero_based : bool, default=False
        Whether features are numbered from 0.

    Examples
    --------
    >>> data = load_multilabel_svmlight(b"2,10 1:0.5 3:1\n 2:2\n10 1:1\n")
    >>> data.label_names, data.Y.toarray().tolist(), data.X.toarray().tolist()
    (['2', '10'], [[1, 1], [0, 0], [0, 1]], [[0.5, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    """
    from scipy.sparse import csr_array

    name, start = name_of(path), 0 if zero_based else 1
    sets, data, at, ends = list[list[str]](), list[float](), list[int](), [0]
    for line, text in enumerate(lines(path), start=1):
        written = text.split("#", 1)[0].rstrip()
        if not written.strip():
            continue
        place, fields = f"{name}, line {line}", written.split()
        unlabelled = written[0].isspace() or ":" in fields[0]
        sets.append([] if unlabelled else [label for label in fields[0].split(",") if label])
        last = start - 1
        for entry in fields if unlabelled else fields[1:]:
            index, _, value = entry.partition(":")
            if not (index.isascii() and index.isdigit()):
                raise DataError(f"{place}: {entry[:40]!r} is not a feature; write index:value after the list of labels")
            if int(index) <= last:
                raise DataError(f"{place}: feature index {index} is not above {last}; indices rise from {start}, each once")
            last = int(index)
            if n_features is not None and last - start >= n_features:
                raise DataError(f"{place}: feature index {last} is beyond n_features={n_features}; raise it or leave it out")
            data.append(_finite(value, place))
            at.append(last - start)
        ends.append(len(data))
    if not sets:
        raise DataError(f"{name}: holds no samples; at least one line such as '1,4 1:0.5' is needed")
    names = _in_order({label for labels in sets for label in labels}) if label_names is None else list(label_names)
    number_of = {label: k for k, label in enumerate(names)}
    Y = np.zeros((len(sets), len(names)), dtype=np.int8)
    for k, labels in enumerate(sets):
        for label in labels:
            if label not in number_of:
                raise DataError(f"{name}: sample {k + 1} has the label {label[:40]!r}, which is not in label_names; add it")
            Y[k, number_of[label]] = 1
    width = max(at, default=-1) + 1 if n_features is None else n_features
    X = csr_array((np.array(data), np.array(at, np.int32), np.array(ends, np.int32)), shape=(len(sets), width))
    return MultilabelData(X, csr_array(Y), names, [str(k + start) for k in range(width)])


# ---- labels -------------------------------------------------------------------------------------------------------------------


def _label_columns(table: ArffTable, path: Source, labels: Any) -> list[int]:
    if labels is None:
        labels = _declared(table, path)
    if isinstance(labels, int | np.integer):
        n, labels = len(table.attributes), int(labels)
        if labels == 0 or abs(labels) >= n:
            raise DataError(
                f"{table.name}: {labels} labels are declared for {n} attributes; a label and a feature are needed; pass labels="
            )
        return list(range(labels)) if labels > 0 else list(range(n + labels, n))
    if isinstance(labels, str | os.PathLike | bytes):
        return columns_of(table, read_label_names(labels), "labels")
    chosen = columns_of(table, labels, "labels")
    if not chosen:
        raise ValueError("labels is empty; name at least one attribute")
    return chosen


def _declared(table: ArffTable, path: Source) -> Any:
    found = _MEKA.search(table.relation)
    if found is not None:
        return int(found[1])
    if isinstance(path, str | os.PathLike):
        beside = Path(path)
        while beside.suffix.lower() in (".gz", ".bz2", ".arff"):
            beside = beside.with_suffix("")
        beside = beside.with_name(beside.name + ".xml")
        if beside.is_file():
            return beside
    raise DataError(
        f"{table.name}: neither the name of the relation (-C, as MEKA writes it) nor an XML file beside it says which attributes "
        "are labels; pass labels=, the XML file of Mulan, the names, or the number of the first (if negative, of the last)"
    )


def read_label_names(path: Source) -> list[str]:
    """Names of the labels in an XML file of Mulan, those of a hierarchy in the order in which they begin.

    Examples
    --------
    >>> read_label_names(b'<labels xmlns="http://mulan.sourceforge.net/labels"><label name="a"/><label name="b"/></labels>')
    ['a', 'b']
    """
    try:
        with open_binary(path) as file:
            tree = ElementTree.parse(file)
    except ElementTree.ParseError as error:
        raise DataError(f"{name_of(path)}: not a sound XML file ({error}); correct it or name the labels in a list") from None
    names = [own.get("name") for own in tree.iter() if own.tag.rpartition("}")[2] == "label"]
    if not names or None in names:
        raise DataError(f'{name_of(path)}: has no labels; elements such as <label name="happy"/> are needed')
    return [name for name in names if name is not None]


def _indicator(table: ArffTable, columns: list[int]) -> Any:
    """A one where a row has a label: 0 and 1 in any order, as numbers or as declared values."""
    defaults = []
    for column in columns:
        own = table.attributes[column]
        if own.kind != "numeric" and (own.kind != "nominal" or not set(own.values) <= {"0", "1"}):
            raise DataError(
                f"{table.name}: attribute {own.name!r} is to be a label, but its values are not 0 and 1; name "
                "the labels with labels="
            )
        # What a sparse row leaves out is the first value that was declared.
        defaults.append(own.values[:1] == ("1",))
    number_of = {column: k for k, column in enumerate(columns)}
    Y = np.zeros((len(table.rows), len(columns)), dtype=np.int8)
    for k, row in enumerate(table.rows):
        if row.sparse:
            Y[k] = defaults
        for column, value in zip(row.columns, row.values, strict=True):
            place = number_of.get(column)
            if place is None:
                continue
            if value is None or value not in ("0", "1", "0.0", "1.0"):
                raise table.error(row, column, value, "a label is 0 or 1; correct the row, or leave it out")
            Y[k, place] = value[0] == "1"
    return Y


# ---- hierarchies --------------------------------------------------------------------------------------------------------------


# ---- numbers ------------------------------------------------------------------------------------------------------------------


def _finite(text: str, place: str) -> float:
    try:
        found = number(text)
    except ValueError:
        raise DataError(f"{place}: the value {text[:40]!r} of a feature is not a number; write index:value") from None
    if not np.isfinite(found):
        raise DataError(f"{place}: the value {text[:40]!r} of a feature is not finite; leave it out or write a number")
    return found


def _in_order(labels: set[str]) -> list[str]:
    """Numbers by their size, anything else by the alphabet."""
    try:
        return sorted(labels, key=number)
    except ValueError:
        return sorted(labels)
