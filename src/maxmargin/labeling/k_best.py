"""The k best labelings: of a forest by dynamic programming with lists (spec 7.3), of anything by partitions of what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from maxmargin._utils import Booleans, Floats, Ints


def k_best_labelings(scores: Floats, transition: Floats, parent: Ints, k: int) -> tuple[Floats, Ints]:
    """Values of shape (m,) and labelings of shape (m, L), best first and distinct; ``m`` is k unless there are fewer.

    Parameters
    ----------
    scores : array of shape (L, K)
        Of every label at every node.
    transition : array of shape (K, K) or (L, K, K)
        From the parent's label to the child's, for all nodes or for each.
    parent : int array of shape (L,)
        A node before it, or -1 for a root.
    k : int

    Examples
    --------
    >>> values, labels = k_best_labelings(np.array([[0.0, 1.0], [0.0, 0.5]]), np.zeros((2, 2)), np.array([-1, 0]), 3)
    >>> values.tolist(), labels.tolist()
    ([1.5, 1.0, 0.5], [[1, 1], [1, 0], [0, 1]])
    """
    L, K = scores.shape
    # Of the part of the forest below every node: values (K, m) and labels (K, m, nodes so far), for every label of the node.
    values = [scores[node][:, None] for node in range(L)]
    labels = [np.broadcast_to(np.arange(K)[:, None, None], (K, 1, 1)) for _ in range(L)]
    members = [[node] for node in range(L)]
    # The forest itself, above all roots; it has no label, so there is one list.
    whole, found, order = np.zeros((1, 1)), np.zeros((1, 1, 0), dtype=np.int64), []
    for node in range(L - 1, -1, -1):
        above = int(parent[node])
        # All labels of the node for each one of its parent.
        own = np.zeros((1, K)) if above < 0 else transition if transition.ndim == 2 else transition[node]
        pairs = own[:, :, None] + values[node]
        m = values[node].shape[1]
        message, place = _largest(pairs.reshape(len(pairs), -1), k)
        below = labels[node][place // m, place % m]
        if above >= 0:
            values[above], labels[above] = _together(values[above], labels[above], message, below, k)
            members[above] = members[above] + members[node]
        else:
            whole, found = _together(whole, found, message, below, k)
            order += members[node]
    result = np.empty((whole.shape[1], L), dtype=np.int64)
    result[:, order] = found[0]
    return whole[0], result


def _largest(values: Floats, k: int) -> tuple[Floats, Ints]:
    """The k largest of every row, in order, and where they are."""
    place = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, place, axis=1), place


def _together(values: Floats, labels: Ints, other: Floats, below: Ints, k: int) -> tuple[Floats, Ints]:
    """The k best pairs of two lists, row by row."""
    m = other.shape[1]
    best, place = _largest((values[:, :, None] + other[:, None, :]).reshape(len(values), -1), k)
    rows = np.arange(len(values))[:, None]
    return best, np.concatenate([labels[rows, place // m], below[rows, place % m]], axis=2)


class Listed(NamedTuple):
    """A labeling (L,), its value, and an upper bound of this one and of all that are not listed before it."""

    labels: Ints
    value: float
    upper: float


def listed_by_parts(best: Callable[[Booleans], Listed], n_nodes: int, n_labels: int, k: int) -> Iterator[Listed]:
    """Up to k different labelings, those found first that seem best; in order and with tight bounds if ``best`` is exact.

    After every labeling the rest of its part is divided by the first node at which it differs (Lawler 1972), and ``best`` is
    asked for each of these parts. What was not listed is in one of them, so that the largest of their bounds is one.

    Parameters
    ----------
    best : callable
        The best labeling found, with its value and an upper bound, among those with labels that are allowed, shape (L, K).

    Examples
    --------
    >>> def best(allowed):
    ...     scores = np.where(allowed, [[0.0, 1.0], [0.0, 0.5]], -np.inf)
    ...     return Listed(scores.argmax(axis=1), scores.max(axis=1).sum(), scores.max(axis=1).sum())
    >>> [(found.labels.tolist(), float(found.value)) for found in listed_by_parts(best, 2, 2, 3)]
    [([1, 1], 1.5), ([1, 0], 1.0), ([0, 1], 0.5)]
    """
    everything = np.ones((n_nodes, n_labels), dtype=bool)
    # Parts with their best labelings; nodes before `first` have one label left.
    waiting: list[tuple[Listed, Booleans, int]] = [(best(everything), everything, 0)]
    for _ in range(k):
        if not waiting:
            return
        upper = max(part.upper for part, _, _ in waiting)
        at = max(range(len(waiting)), key=lambda place: waiting[place][0].value)
        found, allowed, first = waiting.pop(at)
        yield found._replace(upper=max(upper, found.value))
        for node in range(first, n_nodes):
            part = allowed.copy()
            part[:node] = np.arange(n_labels) == found.labels[:node, None]
            part[node, found.labels[node]] = False
            if part[node].any():
                waiting.append((best(part), part, node))
