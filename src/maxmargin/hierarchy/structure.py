"""Labels in a hierarchy, one of them or a set (spec 12): weights are an (M, p) matrix, one row per node.

The score of a label is ``sum over the nodes at or above it of sqrt(alpha_n) * V_n . x``: what nodes above several labels learn
is shared, and how much that costs is for the weights ``alpha`` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maxmargin._utils import Floats, Ints
from maxmargin.core import Structure, as_rows, check_costs, check_rows, is_sparse, stack
from maxmargin.hierarchy.closed_sets import LabelSets
from maxmargin.hierarchy.hierarchy import Hierarchy

LOSSES = ("zero_one", "hamming", "sqrt_hamming", "normalized", "tree")
SET_LOSSES = ("leaves", "hamming", "weighted")
# By how much, as a part of what a row may add up to, constraints of integer programs are widened.
_WIDER = 1e-7


class HierarchyLoss(NamedTuple):
    """A loss of labels: the sum over the symmetric difference of their nodes, or its square root; 0-1 without ``per_node``.

    The symmetric difference is that of the answer and the truth, each with all its ancestors (E21); nodes in both count nothing.
    """

    per_node: Floats | None
    root: bool = False

    @classmethod
    def named(cls, name: str, hierarchy: Hierarchy, alpha: Floats) -> HierarchyLoss:
        """``"zero_one"``, ``"hamming"`` over nodes, its square root, ``"normalized"`` (the root of the sum of alpha; a metric, at
        most sqrt(2) for leaves), or ``"tree"``: edges between two nodes of a tree, which is the Hamming distance of their nodes.
        """
        if name == "zero_one":
            return cls(None)
        if name == "tree" and not hierarchy.is_tree:
            raise ValueError(
                "loss='tree' counts edges between labels of a tree, and nodes here have several parents; use 'hamming'"
            )
        if name in ("hamming", "tree", "sqrt_hamming"):
            return cls(np.ones(len(hierarchy)), name == "sqrt_hamming")
        if name == "normalized":
            return cls(np.asarray(alpha, dtype=np.float64), True)
        raise ValueError(f"loss={name!r} is unknown; choose one of {', '.join(map(repr, LOSSES))}, or pass costs")


class HierarchyStructure(Structure):
    """One label out of the nodes of a hierarchy. Inputs are arrays of shape (p,) or sparse rows, outputs 0 to K - 1.

    Parameters
    ----------
    hierarchy : Hierarchy
    n_inputs : int
        p.
    alpha : array of shape (M,)
        Weights of nodes; see :class:`maxmargin.hierarchy.NodeWeights`.
    labels : int array of shape (K,), optional
        Nodes that may be answered; leaves by default.
    loss : str, default="zero_one"
        See :class:`HierarchyLoss`.
    costs : array of shape (K, K), optional
        Instead of a loss.

    Examples
    --------
    >>> tree = Hierarchy.from_parents([-1, 0, 0, 1, 1])
    >>> labels = HierarchyStructure(tree, 1, np.ones(5), loss="hamming")
    >>> labels.loss(1, 0), labels.loss(1, 2)
    (3.0, 2.0)
    >>> labels.decode(np.ones(1), np.array([0.0, 1.0, 1.5, 0.0, 0.2]))
    0
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        n_inputs: int,
        alpha: ArrayLike,
        labels: Ints | None = None,
        loss: str = "zero_one",
        costs: ArrayLike | None = None,
    ) -> None:
        self.hierarchy, self.n_inputs = hierarchy, n_inputs
        self.alpha = check_alpha(alpha, hierarchy)
        self.labels = hierarchy.leaves if labels is None else np.asarray(labels, dtype=np.int64)
        self.costs = None if costs is None else check_costs(costs, len(self.labels))
        self.loss_of = HierarchyLoss.named(loss, hierarchy, self.alpha)

    @cached_property
    def members(self) -> Any:
        """The matrix of labels by nodes, CSR of shape (K, M), with rising columns."""
        matrix: Any = self.hierarchy.membership(self.labels)
        matrix.sort_indices()
        return matrix

    @cached_property
    def attributes(self) -> Any:
        """The same with ``sqrt(alpha_n)`` in the place of 1; nodes without weight keep a zero."""
        matrix = self.members.copy()
        matrix.data = np.sqrt(self.alpha)[matrix.indices]
        return matrix

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """A row of numbers, and a label between 0 and K - 1."""
        row = check_rows(as_rows(x), "x")
        if row.shape != (1, self.n_inputs):
            raise ValueError(f"x has shape {np.shape(x)}, but must be one row of {self.n_inputs} numbers")
        if y is not None and not 0 <= y < len(self.labels):
            raise ValueError(f"y={y} must lie between 0 and {len(self.labels) - 1}")
        return row, y

    def joint_feature(self, x: Any, y: Any) -> Any:
        """The input times the attributes of the label."""
        row = self.attributes[[y]]
        return _spread(row.indices, row.data, x, len(self.hierarchy))

    def losses(self, truths: ArrayLike) -> Floats:
        """The loss of every label, shape (n, K), for each of some truths."""
        chosen = np.atleast_1d(np.asarray(truths, dtype=np.int64))
        if self.costs is not None:
            return self.costs[chosen]
        if self.loss_of.per_node is None:
            found = np.ones((len(chosen), len(self.labels)))
        else:
            per_node = self.loss_of.per_node
            sizes = np.asarray(self.members @ per_node)
            common = np.asarray(((self.members[chosen] * per_node) @ self.members.T).toarray())
            found = np.maximum(0.0, sizes[chosen][:, None] + sizes - 2 * common)
            found = np.sqrt(found) if self.loss_of.root else found
        found[np.arange(len(chosen)), chosen] = 0.0
        return found

    def loss(self, truth: Any, y: Any) -> float:
        """Of answering ``y``."""
        return float(self.losses(truth)[0, y])

    def scores(self, X: Any, weights: Floats) -> Floats:
        """Of every label, shape (n, K), for the rows of X."""
        of_nodes = np.asarray(X @ weights.reshape(len(self.hierarchy), -1).T)
        return np.asarray((self.attributes @ of_nodes.T).T)

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> int:
        """The best label, the first of several."""
        return HierarchyStructure.decode_batch(self, [x], weights, None if truth is None else [truth], a, b)[0]

    def decode_batch(
        self, xs: Any, weights: Floats, truths: Sequence[Any] | None = None, a: float = 1.0, b: float = 0.0
    ) -> list[int]:
        """By one matrix product; ``xs`` may be a matrix."""
        scores = a * self.scores(stack(xs), weights)
        best: list[int] = np.argmax(scores if truths is None else scores + b * self.losses(truths), axis=1).tolist()
        return best

    def all_outputs(self, x: Any) -> range:
        """Every label."""
        return range(len(self.labels))

    def k_best(self, x: Any, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[int]:
        """The k best labels, best first."""
        values = (a * self.scores(as_rows(x), weights) + b * self.losses(truth))[0]
        best: list[int] = np.argsort(-values, kind="stable")[:k].tolist()
        return best


class HierarchySetStructure(Structure):
    """Sets of labels of a hierarchy, closed under ancestors (spec 11.2, 12.6). Outputs are arrays of shape (M,), 0 or 1.

    Parameters
    ----------
    hierarchy : Hierarchy
    n_inputs : int
        p.
    alpha : array of shape (M,)
        Weights of nodes.
    ends : bool array of shape (M,), optional
        Where a set may end; leaves by default.
    loss : {"leaves", "hamming", "weighted"}
        How many leaves, or nodes, are wrong, or the sum of their alpha.
    relaxed : bool, default=False
        On graphs that are no trees: search in training by the linear relaxation, whose answers may be fractions.

    Examples
    --------
    >>> tree = Hierarchy.from_parents([-1, 0, 0, 1, 1])
    >>> sets = HierarchySetStructure(tree, 1, np.ones(5))
    >>> sets.decode(np.ones(1), np.array([0.0, -1.0, -0.5, 2.0, 0.5])).astype(int)
    array([1, 1, 0, 1, 1])
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        n_inputs: int,
        alpha: ArrayLike,
        ends: NDArray[np.bool_] | None = None,
        loss: str = "leaves",
        relaxed: bool = False,
    ) -> None:
        self.hierarchy, self.n_inputs = hierarchy, n_inputs
        self.alpha = check_alpha(alpha, hierarchy)
        self.sets = LabelSets(hierarchy, ends)
        if loss not in SET_LOSSES:
            raise ValueError(f"loss={loss!r} is unknown for sets of labels; choose one of {', '.join(map(repr, SET_LOSSES))}")
        self.per_node = np.ones(len(hierarchy)) if loss == "hamming" else self.alpha.copy()
        if loss == "leaves":
            # Where sets may end at inner nodes, these are labels like leaves.
            self.per_node = self.sets.ends.astype(np.float64)
        self._relaxed = relaxed and not hierarchy.is_tree

    @property
    def relaxed(self) -> bool:
        """Whether training searches among averages of sets too."""
        return self._relaxed

    def encode(self, x: Any, y: Any = None) -> tuple[Any, Any]:
        """A row of numbers, and a closed set."""
        row = check_rows(as_rows(x), "x")
        if row.shape != (1, self.n_inputs):
            raise ValueError(f"x has shape {np.shape(x)}, but must be one row of {self.n_inputs} numbers")
        return row, None if y is None else self.hierarchy.check_indicators(np.atleast_2d(y), self.sets.ends)[0]

    def joint_feature(self, x: Any, y: Any) -> Any:
        """The input times ``sqrt(alpha)`` of the nodes of the set."""
        values = np.sqrt(self.alpha) * y
        nodes = np.flatnonzero(values)
        return _spread(nodes, values[nodes], x, len(self.hierarchy))

    def loss(self, truth: Any, y: Any) -> float:
        """Of the symmetric difference; linear in fractions."""
        return float(self.per_node @ np.abs(np.asarray(y, dtype=np.float64) - truth))

    def node_scores(self, X: Any, weights: Floats) -> Floats:
        """``sqrt(alpha_n) V_n . x``, shape (n, M)."""
        return np.asarray(X @ weights.reshape(len(self.hierarchy), -1).T) * np.sqrt(self.alpha)

    def rewards(self, X: Any, weights: Floats, truths: Any, a: float, b: float) -> Floats:
        """What a node adds to ``a * score + b * loss``, but for the loss of an empty answer."""
        scores = a * self.node_scores(X, weights)
        return scores if truths is None else scores + b * self.per_node * (1.0 - 2.0 * np.asarray(truths))

    def search(self, rewards: Floats, relaxed: bool = False) -> Any:
        """The best sets for rows of rewards, shape (n, M)."""
        if not relaxed or self.hierarchy.is_tree:
            return self.sets.best(rewards)
        return np.array([self.sets.solve(row, relaxed=True).z for row in rewards])

    def decode(self, x: Any, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Any:
        """The best set."""
        return HierarchySetStructure.decode_batch(self, [x], weights, None if truth is None else [truth], a, b)[0]

    def decode_batch(
        self, xs: Any, weights: Floats, truths: Sequence[Any] | None = None, a: float = 1.0, b: float = 0.0
    ) -> list[Any]:
        """The best sets; on trees all samples at once. ``xs`` may be a matrix."""
        return list(self.search(self.rewards(stack(xs), weights, truths, a, b), self.relaxed and truths is not None))

    def set_size(self, y: Any) -> float:
        """What the nodes below the root cost, which is in every set: their number for ``loss="hamming"``."""
        return float(self.per_node[1:] @ np.asarray(y, dtype=np.float64)[1:])

    def decode_sized(self, x: Any, weights: Floats, truth: Any, a: float, b: float, c: float) -> Any:
        """The set with the largest ``a * score + b * loss - c * size``."""
        rewards = self.rewards(as_rows(x), weights, [truth], a, b) - c * self.per_node
        return self.search(rewards, self.relaxed)[0]

    def k_best(self, x: Any, weights: Floats, truth: Any, a: float, b: float, k: int) -> list[Any]:
        """The k best sets, distinct, best first."""
        rewards = self.rewards(as_rows(x), weights, [truth], a, b)[0]
        return [chosen for _, chosen in self.sets.k_best(rewards, k)]

    def decode_within(self, x: Any, weights: Floats, truth: Any, lam: float, low: float, high: float) -> Any:
        """The best ``h + lam g`` of sets with ``low <= g / h < high``, h being one plus the margin error and g the loss.

        Both are positive. An integer program with up to four more rows, a little wider than asked, as it keeps constraints to a
        millionth only; a set that lies outside is left out of the next one. None if there is no such set.
        """
        scores, signs = self.node_scores(as_rows(x), weights)[0], self.per_node * (1.0 - 2.0 * np.asarray(truth))
        start, missed = 1.0 - float(scores @ truth), float(self.per_node @ truth)
        # No loss is between zero and that of one node.
        smallest = float(self.per_node[self.per_node > 0].min(initial=1.0))
        rows = [(signs, 0.5 * smallest - missed, np.inf), (scores, -_WIDER * (1.0 + np.abs(scores).sum()) - start, np.inf)]
        # Of slopes near 0 or infinity nothing is to be told from 0 and infinity.
        if low > 1e-9:
            row = signs - low * scores
            rows.append((row, low * start - missed - _WIDER * (1.0 + np.abs(row).sum()), np.inf))
        if high < 1e9:
            row = signs - high * scores
            rows.append((row, -np.inf, high * start - missed + _WIDER * (1.0 + np.abs(row).sum())))
        while True:
            matrix, least, most = zip(*rows, strict=True)
            found = self.sets.solve(scores + lam * signs, rows=np.array(matrix), low=least, high=most)
            if found is None:
                return None
            h, g = start + float(scores @ found.z), missed + float(signs @ found.z)
            # Slopes that differ by rounding only are one: an angle must not find its own end again.
            if h > 0 and g > 0 and low * (1.0 + 1e-13) <= g / h < high * (1.0 - 1e-13):
                return found.z > 0.5
            rows.append((1.0 - 2.0 * found.z, 1.0 - float(found.z.sum()), np.inf))

    def all_outputs(self, x: Any) -> list[Any]:
        """Every set, for small hierarchies."""
        return list(self.sets.all())


def _spread(nodes: Ints, values: Floats, x: Any, n_nodes: int) -> Any:
    """The input times the value of each of some nodes, as one row; by hand, since searches ask for it very often."""
    row: Any = as_rows(x)
    p = row.shape[1]
    if is_sparse(row):
        entries = row.tocoo()
        columns, own = entries.coords[1], entries.data
    else:
        columns, own = np.arange(p), row[0]
    at = (np.asarray(nodes, dtype=np.int64)[:, None] * p + columns).ravel()
    return sparse.coo_array((np.outer(values, own).ravel(), (np.zeros(len(at), dtype=np.int64), at)), shape=(1, n_nodes * p))


def check_alpha(alpha: ArrayLike, hierarchy: Hierarchy) -> Floats:
    """One finite weight per node, not negative."""
    weights = np.asarray(alpha, dtype=np.float64)
    if weights.shape != (len(hierarchy),):
        raise ValueError(f"alpha has shape {weights.shape}, but the hierarchy has {len(hierarchy)} nodes, one weight for each")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("alpha must be finite and not negative")
    return weights
