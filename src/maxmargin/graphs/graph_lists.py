"""More than the best labeling of a graph: all of a small one, the order of a forest, and the best one in a cone of the plane."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from maxmargin._utils import Floats, Int32s, Ints
from maxmargin.core import Decoded

# Labelings that are listed, at most.
MOST_LABELINGS = 2**14
# An open end of a cone is moved inward by this part of it.
_OPEN = 1e-9
# Labelings on the edge of a cone that are forbidden one after the other, at most.
_MOST_BANNED = 200
# What the integer program found, and what it found out.
_SOLVED, _INFEASIBLE = 0, 2


def is_small(n_nodes: int, n_labels: int) -> bool:
    """Whether all labelings can be listed."""
    return bool(n_nodes * np.log(n_labels) <= np.log(MOST_LABELINGS) + 1e-9)


@cache
def every_labeling(n_nodes: int, n_labels: int) -> Ints:
    """Shape (K^L, L): the numbers to the base K, the last node counting least."""
    found = np.indices((n_labels,) * n_nodes).reshape(n_nodes, -1).T.astype(np.int64)
    found.setflags(write=False)
    return found


def values_of(labelings: Ints, scores: Floats, edges: Int32s, tables: Floats) -> Floats:
    """Of labelings (N, L), for scores of nodes (L, K) and of both ends of edges (E, K, K)."""
    nodes = scores[np.arange(len(scores)), labelings].sum(axis=1)
    first, second = edges.T
    return np.asarray(nodes + tables[np.arange(len(edges)), labelings[:, first], labelings[:, second]].sum(axis=1))


class Rooted(NamedTuple):
    """Nodes of a forest, each after its parent: the nodes in that order, and of each its parent's place and the edge, -1 for
    a root, and whether the edge begins at the child.
    """

    order: Ints
    parent: Ints
    edge: Ints
    turned: Ints


def rooted(n_nodes: int, edges: Int32s) -> Rooted:
    """A forest from the roots down.

    >>> rooted(3, np.array([[1, 0], [1, 2]], dtype=np.int32)).order
    array([0, 1, 2])
    """
    beside: list[list[tuple[int, int, int]]] = [[] for _ in range(n_nodes)]
    for edge, (first, second) in enumerate(edges.tolist()):
        beside[first].append((second, edge, 0))
        beside[second].append((first, edge, 1))
    place = [-1] * n_nodes
    found: list[tuple[int, int, int, int]] = []
    for root in range(n_nodes):
        waiting = [(root, -1, -1, 0)] if place[root] < 0 else []
        while waiting:
            node, parent, edge, turned = waiting.pop()
            place[node] = len(found)
            found.append((node, parent, edge, turned))
            waiting += [(other, place[node], own, end) for other, own, end in beside[node] if own != edge]
    return Rooted(*np.array(found, dtype=np.int64).reshape(-1, 4).T)


class Cone(NamedTuple):
    """Labelings with ``low <= loss / (1 + margin error) < high``, loss and denominator positive (spec 7.2)."""

    low: float
    high: float


def best_in_cone(
    scores: Floats, edges: Int32s, tables: Floats, losses: Floats, own: float, lam: float, cone: Cone
) -> Decoded | None:
    """The labeling with the largest ``score + lam * loss`` in a cone, by an integer program (HiGHS); None if there is none.

    Variables are marginals of nodes and edges that agree with each other, those of nodes whole: the local polytope with two more
    rows, of which the solver proves the optimum. Open ends are moved inward by a billionth.

    Parameters
    ----------
    scores, losses : arrays of shape (L, K)
        Scores of the labels of nodes, and what they cost.
    edges, tables : arrays of shape (E, 2) and (E, K, K)
    own : float
        Score of the truth.
    lam : float
    cone : Cone
    """
    (L, K), E = scores.shape, len(edges)
    n_own, n_pairs = L * K, E * K * K
    error_of = np.concatenate([scores.ravel(), tables.ravel()])
    wrong_of = np.concatenate([losses.ravel(), np.zeros(n_pairs)])
    least = losses[losses > 0].min(initial=np.inf)
    if not np.isfinite(least):
        return None
    one_label = sparse.csr_array((np.ones(n_own), (np.repeat(np.arange(L), K), np.arange(n_own))), shape=(L, n_own + n_pairs))
    constraints = [LinearConstraint(one_label, 1.0, 1.0)]
    # Sums of the pairs of an edge over the label of one end are the marginals of the other.
    edge, first, second = np.indices((E, K, K)).reshape(3, -1)
    at = n_own + np.arange(n_pairs)
    for end, label in ((0, first), (1, second)):
        node = edges[:, end].astype(np.int64)
        rows = np.concatenate([edge * K + label, np.arange(E * K)])
        columns = np.concatenate([at, (node[:, None] * K + np.arange(K)).ravel()])
        values = np.concatenate([np.ones(n_pairs), -np.ones(E * K)])
        constraints.append(LinearConstraint(sparse.csr_array((values, (rows, columns)), shape=(E * K, n_own + n_pairs)), 0, 0))
    # loss >= its least positive value;  1 + score - own > 0
    rest = 1.0 - own
    constraints += [
        LinearConstraint(wrong_of[None], 0.5 * least, np.inf),
        LinearConstraint(error_of[None], _OPEN * (1.0 + abs(own)) - rest, np.inf),
    ]
    if cone.low > 0:
        constraints.append(LinearConstraint((wrong_of - cone.low * error_of)[None], cone.low * rest, np.inf))
    if np.isfinite(cone.high):
        end_of = cone.high * (1.0 - _OPEN)
        constraints.append(LinearConstraint((end_of * error_of - wrong_of)[None], -end_of * rest, np.inf))
    whole = np.concatenate([np.ones(n_own), np.zeros(n_pairs)])
    goal, upper = -(error_of + lam * wrong_of), np.inf
    for _ in range(_MOST_BANNED):
        found: Any = milp(
            goal, constraints=constraints, integrality=whole, bounds=Bounds(0.0, 1.0), options={"mip_rel_gap": 0.0}
        )  # fmt: skip
        if found.status == _INFEASIBLE:
            return None
        if found.status != _SOLVED:
            raise RuntimeError(f"the integer program of {L} nodes and {E} edges was not solved: {found.message}")
        labels = np.argmax(found.x[:n_own].reshape(L, K), axis=1).astype(np.int64)
        upper = min(upper, -float(found.mip_dual_bound))
        score = float(values_of(labels[None], scores, edges, tables)[0])
        loss = float(losses[np.arange(L), labels].sum())
        if loss > 0 and score + rest > 0 and cone.low <= loss / (score + rest) < cone.high:
            return Decoded(labels, max(score + lam * loss, upper))
        # A solver takes what is outside by its tolerance; that labeling is forbidden.
        one = np.concatenate([(np.arange(K) == labels[:, None]).ravel().astype(np.float64), np.zeros(n_pairs)])
        constraints.append(LinearConstraint(one[None], -np.inf, L - 1.0))
    raise RuntimeError(f"more than {_MOST_BANNED} labelings lie on the edge of the cone; use search='hull' or 'auto'")
