"""Dependency trees whose score is a sum over arcs, each with sparse features.

An unlabelled arc from head ``h`` to word ``m`` scores ``w . f(h, m)``; with labels there are features ``g`` of their own, and the
arc with label ``l`` scores ``w . f(h, m) + W[:, l] . g(h, m)``. The weights are w and then W, row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Floats, Int32s, tree_fault
from maxmargin.core import Structure, bad_row


class SentenceArcs:
    """The features of all arcs of a sentence of n words.

    Parameters
    ----------
    features : array or sparse matrix of shape ((n + 1)**2, p)
        Row ``h * (n + 1) + m`` is that of the arc from head h to word m; the root is 0. Arcs into the root, and from a word to
        itself, are never used.
    label_features : array or sparse matrix of shape ((n + 1)**2, q), optional
        What the labels of arcs depend on.
    n_labels : int
        Number of labels; needed with ``label_features``.

    Examples
    --------
    >>> SentenceArcs(np.ones((9, 2)))
    SentenceArcs(2 words, 2 features)
    """

    def __init__(self, features: Any, label_features: Any = None, n_labels: int = 1) -> None:
        arcs = _as_rows(features, "features")
        n_words = round(np.sqrt(arcs.shape[0])) - 1
        if n_words < 1 or (n_words + 1) ** 2 != arcs.shape[0]:
            raise ValueError(f"features have {arcs.shape[0]} rows, but (n + 1)**2 are needed, one for every arc of n >= 1 words")
        labels = None if label_features is None else _as_rows(label_features, "label_features")
        if labels is not None and labels.shape[0] != arcs.shape[0]:
            raise ValueError(
                f"label_features have {labels.shape[0]} rows, but features have {arcs.shape[0]}; one per arc is needed"
            )
        self.n_words, self.index = n_words, 0
        self.n_features, self.n_labels = int(arcs.shape[1]), n_labels if labels is not None else 1
        self.n_label_features = 0 if labels is None else int(labels.shape[1])
        label_begin, label_columns, label_values = (None, None, None) if labels is None else _parts(labels)
        begin, columns, values = _parts(arcs)
        self.rows = _core.ArcRows(
            np.array([0, n_words], dtype=np.int64), begin, columns, values, self.n_features, self.n_labels,
            label_begin, label_columns, label_values, self.n_label_features,
        )  # fmt: skip

    @classmethod
    def view(cls, rows: _core.ArcRows, index: int, n_words: int, sizes: tuple[int, int, int]) -> SentenceArcs:
        """Sentence ``index`` of many; sizes are the numbers of features, labels and features of labels."""
        own = cls.__new__(cls)
        own.rows, own.index, own.n_words = rows, index, n_words
        own.n_features, own.n_labels, own.n_label_features = sizes
        return own

    def __repr__(self) -> str:
        return f"SentenceArcs({self.n_words} words, {self.n_features} features)"


class DependencyStructure(Structure):
    """Dependency trees of sentences, each given by :class:`SentenceArcs`; the loss is the number of words with a wrong head.

    Outputs are heads, an integer array of shape (n,) with 0 for the root. With labels they have the shape (n, 2), heads and
    labels, and a word is wrong if either is.

    Parameters
    ----------
    n_features : int
        p, features of arcs.
    n_labels : int, default=0
        L; 0 if arcs have no labels.
    n_label_features : int, default=0
        q, features that labels depend on.
    projective : bool, default=True
        Only trees without crossing arcs, by Eisner's algorithm in O(n^3); otherwise all trees, by Edmonds' in O(n^2).
    single_root : bool, default=True
        Only trees with one child of the root.

    Notes
    -----
    A true tree that is not projective, or has several roots, is still an output of its own sentence in training.

    Examples
    --------
    Arcs to the right like the only feature there is:

    >>> features = np.zeros((9, 1))
    >>> features[1 * 3 + 2] = 1
    >>> structure = DependencyStructure(1)
    >>> structure.decode(SentenceArcs(features), np.array([1.0]))
    array([0, 1], dtype=int32)
    >>> structure.loss(np.array([0, 1]), np.array([2, 0]))
    2.0
    """

    def __init__(
        self, n_features: int, n_labels: int = 0, n_label_features: int = 0, *, projective: bool = True, single_root: bool = True
    ) -> None:
        if (n_labels > 0) != (n_label_features > 0):
            raise ValueError(f"n_labels={n_labels} and n_label_features={n_label_features} must both be positive, or both be 0")
        self.n_features, self.n_labels, self.n_label_features = n_features, n_labels, n_label_features
        self.projective, self.single_root = projective, single_root

    @property
    def n_weights(self) -> int:
        """P + q L."""
        return self.n_features + self.n_label_features * self.n_labels

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """Checked arcs, and heads (and labels) as int32."""
        if not isinstance(x, SentenceArcs):
            raise TypeError(f"a sentence must be a maxmargin.parsing.SentenceArcs, not {type(x).__name__}")
        own = (x.n_features, x.n_labels if self.n_labels else 0, x.n_label_features)
        if own != (self.n_features, self.n_labels, self.n_label_features):
            raise ValueError(
                f"the sentence has {own[0]} features of arcs, {own[1]} labels and {own[2]} features of labels, but the structure "
                f"{self.n_features}, {self.n_labels} and {self.n_label_features}"
            )
        return x, None if y is None else check_tree(y, x.n_words, self.n_labels)

    def joint_feature(self, x: SentenceArcs, y: Any) -> Any:
        """The sum of the features of all arcs, a sparse row of length p + q L."""
        heads, labels = self._columns(y)
        at, values = x.rows.features(x.index, heads, labels)
        return sparse.coo_array((values, (np.zeros(len(at), dtype=np.int32), at)), shape=(1, self.n_weights))

    def loss(self, truth: Any, y: Any) -> float:
        """Words with a wrong head, or with a wrong label."""
        wrong = np.asarray(truth) != np.asarray(y)
        return float(np.count_nonzero(wrong.any(axis=1) if wrong.ndim == 2 else wrong))

    def loss_values(self, x: SentenceArcs, truth: Any) -> Floats:
        """Whole numbers, up to that of the words."""
        return np.arange(x.n_words + 1, dtype=np.float64)

    def decode(self, x: SentenceArcs, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The best tree."""
        own = self._columns(truth)
        return self._output(*x.rows.best(x.index, _ready(weights), *own, a, b, self.projective, self.single_root))

    def k_best(self, x: SentenceArcs, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[Any]:
        """The k best trees, all different, best first; fewer if there are no more."""
        own = self._columns(truth)
        heads, labels, _ = x.rows.k_best(x.index, _ready(weights), *own, a, b, k, self.projective, self.single_root)
        return [self._output(*tree) for tree in zip(heads, labels, strict=True)]

    def _columns(self, y: Any) -> tuple[Any, Int32s | None]:
        if y is None:
            return None, None
        tree = np.asarray(y, dtype=np.int32)
        if self.n_labels == 0:
            return np.ascontiguousarray(tree), None
        return np.ascontiguousarray(tree[:, 0]), np.ascontiguousarray(tree[:, 1])

    def _output(self, heads: Int32s, labels: Int32s) -> Int32s:
        return np.column_stack([heads, labels]) if self.n_labels else heads


def check_tree(y: Any, n_words: int, n_labels: int) -> Int32s:
    """Heads, or heads and labels, as int32; complain about what is no tree."""
    wanted = (n_words, 2) if n_labels else (n_words,)
    try:
        tree = np.asarray(y)
    except ValueError:
        raise ValueError(f"a tree of {n_words} words must be an array of shape {wanted}; a word has one head") from None
    if tree.shape != wanted or tree.dtype.kind not in "iu":
        what = "integers, head and label of every word" if n_labels else "integers, the head of every word"
        raise ValueError(f"a tree of {n_words} words must be an array of shape {wanted} of {what}, but has shape {tree.shape}")
    heads = tree[:, 0] if n_labels else tree
    if n_labels and not ((tree[:, 1] >= 0) & (tree[:, 1] < n_labels)).all():
        raise ValueError(f"labels must be numbered 0 to {n_labels - 1}, but there are others")
    wrong = tree_fault(heads.tolist(), n_words)
    if wrong is not None:
        raise ValueError(f"heads are no tree: {wrong[1]}")
    return np.ascontiguousarray(tree, dtype=np.int32)


def _ready(weights: Floats) -> Floats:
    return np.ascontiguousarray(weights, dtype=np.float64)


def _as_rows(features: Any, name: str) -> Any:
    table: Any = features if sparse.issparse(features) else np.atleast_2d(np.asarray(features, dtype=np.float64))
    rows: Any = sparse.csr_array(table)
    bad = bad_row(rows)
    if bad is not None:
        raise ValueError(f"{name} contain NaN or infinite values, first in row {bad}; remove or replace them")
    return rows


def _parts(rows: Any) -> tuple[Any, Any, Any]:
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), np.ascontiguousarray(rows.data, dtype=np.float64)
