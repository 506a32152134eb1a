"""Fractional labelings, and what rounding them costs on average, by integrating over all numbers that may be drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from maxmargin import _core
from maxmargin.labeling import Energy


def marginals(rng, n_nodes, n_labels, ties=False):
    """Rows that add up to one; with ties they are made of quarters, so that sums of neighbours often agree."""
    if ties:
        return rng.multinomial(4, np.ones(n_labels) / n_labels, size=n_nodes) / 4
    return rng.dirichlet(np.ones(n_labels), size=n_nodes)


def potts_example(n):
    """As many nodes as labels, no node may have its own label: the best labelings are constant but for one node."""
    unary = np.where(np.eye(n) > 0, np.inf, 0.0)
    edges = [(a, b) for a in range(n) for b in range(a + 1, n)]
    return Energy(unary, edges, "potts"), (1 - np.eye(n)) / (n - 1)


def steps(y, first, length):
    """Labels for every part of [0, 1) in which a window gives the same ones, and how long it is."""
    n_labels = y.shape[1]
    low = max(0, first)
    inside = np.cumsum(y[:, low : min(n_labels, first + length)], axis=1)
    ends = np.unique(np.concatenate([[0.0, 1.0], np.clip(inside, 0, 1).ravel()]))
    rounder = _core.Rounder(np.ascontiguousarray(y))
    for left, right in pairwise(ends):
        if right - left > 1e-12:
            yield right - left, rounder.window(first, length, 0.5 * (left + right))


def complete_mean(y, energy):
    """Mean energy of complete rounding."""
    return sum(share * energy.energy(labels) for share, labels in steps(y, 0, y.shape[1]))


def interval_joint(y, length):
    """Probabilities of the labels of all pairs of nodes under interval rounding, shape (N, N, L, L).

    A window gives both nodes labels, or one, or none; who has none yet gets each label as often as it has of it in the end.
    """
    n, n_labels = y.shape
    n_windows = n_labels + length - 1
    both, only, none = np.zeros((n, n, n_labels, n_labels)), np.zeros((n, n, n_labels)), np.zeros((n, n))
    for first in range(1 - length, n_labels):
        for share, labels in steps(y, first, length):
            for a in range(n):
                for b in range(n):
                    if labels[a] >= 0 and labels[b] >= 0:
                        both[a, b, labels[a], labels[b]] += share / n_windows
                    elif labels[a] >= 0:
                        only[a, b, labels[a]] += share / n_windows
                    elif labels[b] < 0:
                        none[a, b] += share / n_windows
    joint = both + only[:, :, :, None] * y[None, :, None, :] + y[:, None, :, None] * only.transpose(1, 0, 2)[:, :, None, :]
    return joint / (1 - none)[:, :, None, None]


def interval_mean(y, energy, length):
    """Mean energy of interval rounding."""
    joint = interval_joint(y, length)
    tables = np.broadcast_to(energy.table, (len(energy.edges), energy.n_labels, energy.n_labels))
    pairs = sum(w * np.vdot(joint[a, b], t) for (a, b), w, t in zip(energy.edges, energy.weights, tables, strict=True))
    return float(np.sum(y[y > 0] * energy.unary[y > 0]) + pairs)
