"""Readers of samples whose labels are nodes of a hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from maxmargin.io import DataError, Missing, Row, Source, columns_of, feature_columns, filled, read_arff


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
    left_out = {column, *columns_of(table, ignore, "ignore")}
    features = feature_columns(table, [k for k in range(len(table.attributes)) if k not in left_out])
    # The root belongs to every sample.
    sets = [tuple(dict.fromkeys(label for label in labels if label != root)) for labels in written]
    return HierarchicalData(filled(features.X, missing, table), sets, nodes, edges, root, features.names)


def _value(row: Row, column: int) -> str | None:
    for own, value in zip(row.columns, row.values, strict=True):
        if own == column:
            return value
    return None


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
