"""Labels on the nodes of a graph whose appearance or neighbourhood has kinds that nobody annotated.

Two things may be hidden. Every label can have several *states*, of which one is there: a node has a score for each state, an
edge for each pair of states, and the loss knows labels only. And there can be *hidden nodes*, which have no label at all but
states of their own, and are joined to others by edges. An output is a state for every node; labels follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.core import Bounds, Decoded, LatentStructure
from maxmargin.graphs.structure import Graph, GraphStructure, best_of_messages


class PartlyHidden(NamedTuple):
    """A graph whose last ``n_hidden`` nodes have no labels."""

    graph: Graph
    n_hidden: int


class LatentGraphStructure(LatentStructure):
    """Labelings of graphs with hidden states of labels, hidden nodes, or both.

    Inputs are ``(features, edges)``, ``(features, edges, edge_features)`` or ``(features, edges, edge_features, n_hidden)``: rows
    of features for all nodes (zeros where a hidden node has none), of which the last ``n_hidden`` are hidden. Labels ``y`` have
    shape (L,), L the number of visible nodes; hidden parts ``h`` are states of all nodes. The loss is the share of wrong labels.

    Parameters
    ----------
    n_inputs, n_edge_inputs : int
        Numbers of features of a node and of an edge.
    n_labels : int
        K; labels are 0 to K - 1.
    n_states : int or sequence of K ints
        States of every label, or of each.
    n_hidden_states : int
        States of hidden nodes.
    pairwise : {"attractive", "symmetric", "antisymmetric", "free"}, or a sequence of them
        What edges can say of pairs of states, as in :class:`maxmargin.graphs.GraphStructure`.
    costs : array of shape (K,), optional
        Loss of a wrong label, by the true one; ones by default.
    normalize : bool
        Divide the loss by the number of labels; False counts wrong ones.

    Attributes
    ----------
    label_of : array of shape (S,)
        The label of every state; -1 for those of hidden nodes, which come last.

    Examples
    --------
    Label 1 comes in two kinds, at both ends of a line:

    >>> structure = LatentGraphStructure(2, n_states=[1, 2])
    >>> x, _ = structure.encode(([[1.0, -2.0], [1.0, 0.0], [1.0, 2.0]], [(0, 1), (1, 2)]))
    >>> weights = np.concatenate([[0.0, 0.0, -1.0, -1.0, -1.0, 1.0], np.zeros(6)])
    >>> structure.decode(x, weights).output
    (array([1, 0, 1]), array([1, 0, 2]))
    >>> structure.impute(x, np.array([1, 1, 1]), weights)[[0, 2]]
    array([1, 2])
    """

    # Only on trees; elsewhere there are bounds.
    exact = False

    def __init__(
        self,
        n_inputs: int,
        n_edge_inputs: int = 1,
        n_labels: int = 2,
        n_states: int | Sequence[int] = 2,
        n_hidden_states: int = 0,
        pairwise: str | Sequence[str] = "symmetric",
        costs: ArrayLike | None = None,
        normalize: bool = True,
    ) -> None:
        states = np.asarray(n_states)
        if states.shape not in ((), (n_labels,)) or states.dtype.kind not in "iu" or (states < 1).any():
            raise ValueError(f"n_states={n_states!r} must be a positive integer, or one for each of the {n_labels} labels")
        if n_hidden_states < 0:
            raise ValueError(f"n_hidden_states={n_hidden_states!r} must not be negative")
        self.n_labels, self.n_hidden_states = n_labels, n_hidden_states
        kinds = np.repeat(np.arange(n_labels), states)
        self.label_of = np.concatenate([kinds, np.full(n_hidden_states, -1)])
        self.states = GraphStructure(n_inputs, n_edge_inputs, len(self.label_of), pairwise)
        self.labels = GraphStructure(n_inputs, n_labels=n_labels, costs=costs, normalize=normalize)
        self.costs = self.labels.costs

    @property
    def bounds(self) -> Bounds | None:
        """Those of attractive edge features."""
        return self.states.bounds

    def encode(self, x: Any, y: Any = None) -> tuple[PartlyHidden, Any]:
        """A graph of finite numbers, checked, and a label for each visible node."""
        if isinstance(x, PartlyHidden):
            x = (*x.graph, x.n_hidden)
        n_hidden = 0
        if isinstance(x, tuple | list) and len(x) == 4:
            *x, n_hidden = x
        graph, _ = self.states.encode(tuple(x) if isinstance(x, list) else x)
        if not isinstance(n_hidden, int | np.integer) or not 0 <= n_hidden < len(graph.nodes):
            raise ValueError(f"n_hidden={n_hidden!r} must be an integer not below 0, and below the {len(graph.nodes)} nodes")
        n_visible = len(graph.nodes) - n_hidden
        if n_hidden and not self.n_hidden_states:
            raise ValueError(f"{n_hidden} nodes are hidden, but n_hidden_states=0; say how many states they have")
        if (graph.edges[:, 0] == graph.edges[:, 1]).any():
            raise ValueError("an edge joins a node to itself; add its features to those of the node")
        whole = PartlyHidden(graph, int(n_hidden))
        if y is None:
            return whole, None
        labels = np.asarray(y).astype(np.int64)
        if labels.shape != (n_visible,):
            raise ValueError(f"there are {n_visible} nodes that are not hidden, but labels of shape {labels.shape}")
        if not ((labels >= 0) & (labels < self.n_labels)).all():
            raise ValueError(f"labels must be 0 to {self.n_labels - 1}")
        return whole, labels

    def joint_feature(self, x: PartlyHidden, y: Any, h: Any) -> Any:
        """That of the states; the labels are in them."""
        return self.states.joint_feature(x.graph, h)

    def loss(self, truth: Any, y: Any, h: Any) -> float:
        """The share, or the number, of wrong labels, each with its cost; states do not matter."""
        return self.labels.loss(truth, y)

    def loss_values(self, x: PartlyHidden, truth: Any) -> Floats | None:
        """All losses that outputs can have, if they are few."""
        return self.labels.loss_values(x.graph, truth)

    def decode(self, x: PartlyHidden, weights: Floats, truth: Any = None, a: float = 1.0, b: float = 0.0) -> Decoded:
        """The best states, and their labels: for sure on trees, elsewhere with a bound."""
        scores = self.states.node_scores(x.graph, a * weights)
        n_visible = len(scores) - x.n_hidden
        if truth is not None:
            labels = np.asarray(truth)
            cost = (b / self.labels.unit(n_visible)) * self.costs[labels]
            scores[:n_visible] += cost[:, None] * (self.label_of != labels[:, None])
        found = self._best(x, scores, a * weights, self._allowed(x))
        return Decoded((self.label_of[found.output[:n_visible]], found.output), found.upper)

    def impute(self, x: PartlyHidden, y: Any, weights: Floats) -> Ints:
        """The best states of the given labels; for sure on trees."""
        found: Ints = self._best(x, self.states.node_scores(x.graph, weights), weights, self._allowed(x, y)).output
        return found

    def start(self, x: PartlyHidden, y: Any, rng: np.random.Generator) -> Ints:
        """Any state of the given labels."""
        return np.asarray([rng.choice(np.flatnonzero(row)) for row in self._allowed(x, y)])

    def _allowed(self, x: PartlyHidden, y: Any = None) -> Booleans:
        """Which states a node can have, shape (nodes, S): those of its label, if that is given."""
        wanted = np.full(len(x.graph.nodes), -1)
        n_visible = len(wanted) - x.n_hidden
        if y is None:
            allowed = np.tile(self.label_of >= 0, (len(wanted), 1))
            allowed[n_visible:] = self.label_of < 0
            return allowed
        wanted[:n_visible] = y
        return np.asarray(self.label_of == wanted[:, None])

    def _best(self, x: PartlyHidden, scores: Floats, weights: Floats, allowed: Booleans) -> Decoded:
        costs = self.states.costs_of(x.graph, np.where(allowed, scores, -np.inf), weights)
        return best_of_messages(x.graph, costs, None)
