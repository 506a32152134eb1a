"""Samples with sets of labels: ARFF files of Mulan, MEKA and Clus, and svmlight files with lists of labels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np

from maxmargin._types import Floats
from maxmargin.data.arff import ArffTable, Row, feature_columns, read_arff
from maxmargin.data.source import DataError, Source, lines, name_of, number, open_binary

Missing = Literal["refuse", "nan", "mean"]

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


@dataclass(frozen=True)
class HierarchicalData:
    """Samples with sets of nodes of a hierarchy.

    Attributes
    ----------
    X : array or csr_array of shape (n, p)
        Features.
    label_sets : list of n tuples of str
        The nodes that the file names for each sample. Their ancestors are meant too, and may be among them or not.
    nodes : list of str
        All nodes but the root, in the order of the file; paths such as ``"01/02"`` in a tree.
    edges : list of (str, str)
        Parent and child; parents of the uppermost nodes are ``root``.
    root : str
        The name of the root.
    feature_names : list of str
        Of the columns of ``X``.
    """

    X: Any = field(repr=False)
    label_sets: list[tuple[str, ...]] = field(repr=False)
    nodes: list[str] = field(repr=False)
    edges: list[tuple[str, str]] = field(repr=False)
    root: str
    feature_names: list[str] = field(repr=False)

    def indicator(self, ancestors: bool = True) -> Any:
        """A csr_array of shape (n, number of nodes), a one where a sample has a node, or if ``ancestors`` one below it."""
        from scipy.sparse import csr_array

        number_of = {node: k for k, node in enumerate(self.nodes)}
        parents: dict[str, list[str]] = {node: [] for node in self.nodes}
        for parent, child in self.edges:
            if parent != self.root:
                parents[child].append(parent)
        columns, ends = list[int](), [0]
        for labels in self.label_sets:
            found, open_nodes = set(labels), list(labels) if ancestors else []
            while open_nodes:
                for parent in parents[open_nodes.pop()]:
                    if parent not in found:
                        found.add(parent)
                        open_nodes.append(parent)
            columns += sorted(number_of[node] for node in found)
            ends.append(len(columns))
        ones = np.ones(len(columns), dtype=np.int8)
        return csr_array((ones, np.array(columns, np.int32), np.array(ends, np.int32)), shape=(len(ends) - 1, len(self.nodes)))


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
    left_out = {*chosen, *_columns_of(table, ignore, "ignore")}
    features = feature_columns(table, [k for k in range(len(table.attributes)) if k not in left_out])
    names = [table.attributes[column].name for column in chosen]
    Y = _indicator(table, chosen)
    if not isinstance(features.X, np.ndarray):
        from scipy.sparse import csr_array

        return MultilabelData(_filled(features.X, missing, table), csr_array(Y), names, features.names)
    return MultilabelData(_filled(features.X, missing, table), Y, names, features.names)


def load_hierarchical(
    path: Source,
    kind: Literal["auto", "tree", "dag"] = "auto",
    *,
    root: str = "root",
    ignore: Sequence[str] = (),
    missing: Missing = "mean",
) -> HierarchicalData:
    r"""Samples of an ARFF file of Clus, whose attribute of the type ``hierarchical`` holds nodes of a tree or a DAG.

    Parameters
    ----------
    path : path, bytes or binary file
        Names that end in ``.gz`` or ``.bz2`` are unpacked.
    kind : {"auto", "tree", "dag"}
        What the declaration lists: nodes of a tree as paths (``01, 01/02, 01/02/01``), or edges of a DAG (``parent/child``) whose
        ends are named in the rows. "auto" takes the latter if all entries have two parts and no row names a path.
    root : str
        What the root is called; uppermost nodes become its children. In a DAG it may be declared as a parent.
    ignore, missing
        As in :func:`load_multilabel`, but that missing features become the mean of the column by default.

    Examples
    --------
    >>> text = b"@relation r\n@attribute size numeric\n@attribute class hierarchical 1,1/1,1/2,2\n@data\n1.5,1/2@2\n3,1\n?,1/1\n"
    >>> data = load_hierarchical(text)
    >>> data.label_sets, data.edges
    ([('1/2', '2'), ('1',), ('1/1',)], [('root', '1'), ('1', '1/1'), ('1', '1/2'), ('root', '2')])
    >>> data.indicator().toarray().tolist(), data.X.ravel().tolist()
    ([[1, 0, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]], [1.5, 3.0, 2.25])
    """
    if kind not in ("auto", "tree", "dag"):
        raise ValueError(f"kind={kind!r} must be 'auto', 'tree' or 'dag'")
    table = read_arff(path)
    own = [k for k, attribute in enumerate(table.attributes) if attribute.kind == "hierarchical"]
    if len(own) != 1:
        raise DataError(
            f"{table.name}: has {len(own)} attributes of the type hierarchical, but one is needed, such as "
            "'@attribute class hierarchical 1,1/1,1/2'; for labels without a hierarchy use load_multilabel"
        )
    column = own[0]
    written = [tuple(part.strip() for part in (_value(row, column) or "").split("@") if part.strip()) for row in table.rows]
    entries = [entry for entry in table.attributes[column].values if entry]
    if kind == "auto":
        pairs = bool(entries) and all(entry.count("/") == 1 for entry in entries)
        kind = "dag" if pairs and not any("/" in label for labels in written for label in labels) else "tree"
    nodes, edges = _dag(entries, root) if kind == "dag" else _tree(entries, root)
    known = set(nodes)
    for row, labels in zip(table.rows, written, strict=True):
        for label in labels:
            if label not in known and label != root:
                raise DataError(
                    f"{table.place(row)}: the label {label[:40]!r} is not a node of the hierarchy that attribute "
                    f"{table.attributes[column].name!r} declares; correct the row or declare the node"
                )
    left_out = {column, *_columns_of(table, ignore, "ignore")}
    features = feature_columns(table, [k for k in range(len(table.attributes)) if k not in left_out])
    # The root belongs to every sample.
    sets = [tuple(dict.fromkeys(label for label in labels if label != root)) for labels in written]
    return HierarchicalData(_filled(features.X, missing, table), sets, nodes, edges, root, features.names)


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
        return _columns_of(table, read_label_names(labels), "labels")
    chosen = _columns_of(table, labels, "labels")
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


def _columns_of(table: ArffTable, names: Sequence[str], argument: str) -> list[int]:
    column_of = {attribute.name: k for k, attribute in enumerate(table.attributes)}
    unknown = [name for name in names if name not in column_of]
    if unknown:
        raise DataError(f"{table.name}: has no attribute {unknown[0]!r}, which {argument} names; correct it or the header")
    return [column_of[name] for name in dict.fromkeys(names)]


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


def _value(row: Row, column: int) -> str | None:
    for own, value in zip(row.columns, row.values, strict=True):
        if own == column:
            return value
    return None


# ---- hierarchies --------------------------------------------------------------------------------------------------------------


def _tree(entries: list[str], root: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Nodes and edges of paths; what lies above a path is there even if it was not listed."""
    nodes: dict[str, str] = {}
    for entry in entries:
        parts, parent = entry.split("/"), root
        for depth in range(1, len(parts) + 1):
            node = "/".join(parts[:depth])
            nodes.setdefault(node, parent)
            parent = node
    return list(nodes), [(parent, node) for node, parent in nodes.items()]


def _dag(entries: list[str], root: str) -> tuple[list[str], list[tuple[str, str]]]:
    edges = list(dict.fromkeys((entry.split("/")[0], entry.split("/")[1]) for entry in entries))
    nodes = list(dict.fromkeys(node for edge in edges for node in edge if node != root))
    below = {child for _, child in edges}
    return nodes, [*((root, node) for node in nodes if node not in below), *edges]


# ---- numbers ------------------------------------------------------------------------------------------------------------------


def _filled(X: Any, missing: Missing, table: ArffTable) -> Any:
    """Features without NaN, unless that is wanted."""
    if missing not in ("refuse", "nan", "mean"):
        raise ValueError(f"missing={missing!r} must be 'refuse', 'nan' or 'mean'")
    values: Floats = X if isinstance(X, np.ndarray) else X.data
    gaps = np.isnan(values)
    if missing == "nan" or not gaps.any():
        return X
    if missing == "refuse":
        at = (
            int(gaps.any(axis=1).argmax())
            if isinstance(X, np.ndarray)
            else int(np.searchsorted(X.indptr, gaps.argmax(), "right")) - 1
        )
        raise DataError(
            f"{table.place(table.rows[at])}: a feature is missing (?); pass missing='mean' or missing='nan', or fill it in"
        )
    if isinstance(X, np.ndarray):
        columns = np.broadcast_to(np.arange(X.shape[1]), X.shape)
        known = (~gaps).sum(axis=0)
        sums = np.where(gaps, 0.0, values).sum(axis=0)
    else:
        columns = X.indices
        known = X.shape[0] - np.bincount(columns[gaps], minlength=X.shape[1])
        sums = np.bincount(columns, weights=np.where(gaps, 0.0, values), minlength=X.shape[1])
    # A column of which nothing is known says nothing.
    values[gaps] = (sums / np.maximum(known, 1))[columns[gaps]]
    return X


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
