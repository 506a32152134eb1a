"""Graphs, and slow, obvious minima of their energies: over labelings, and over the local polytope."""

from itertools import product

import numpy as np
from scipy.optimize import linprog

# Every node with every other, in either direction: much is at odds with the rest.
CYCLES = np.array([(a, b)[:: -1 if (a + b) % 3 else 1] for a in range(6) for b in range(a)], dtype=np.int32)
TREE = np.array([(0, 1), (2, 1), (3, 1), (3, 4), (5, 0)], dtype=np.int32)


def frustrated(rng, n_labels):
    """Costs of labels and pairs for which equal neighbours cost most."""
    unary, tables = rng.normal(size=(6, n_labels)), rng.normal(size=(len(CYCLES), n_labels, n_labels))
    return 0.3 * unary, 0.3 * tables + 2 * np.eye(n_labels)


def by_one_program(edges, unary, tables):
    """The least cost over the local polytope, written out."""
    (n_nodes, K), n_edges = unary.shape, len(edges)
    rows, right = [], []

    def row(entries, value):
        dense = np.zeros(n_nodes * K + n_edges * K * K)
        for at, factor in entries:
            dense[at] += factor
        rows.append(dense)
        right.append(value)

    for s in range(n_nodes):
        row([(s * K + k, 1.0) for k in range(K)], 1.0)
    for e, (a, b) in enumerate(edges):
        first = n_nodes * K + e * K * K
        for k in range(K):
            row([(first + k * K + m, 1.0) for m in range(K)] + [(a * K + k, -1.0)], 0.0)
            row([(first + m * K + k, 1.0) for m in range(K)] + [(b * K + k, -1.0)], 0.0)
    return linprog(np.concatenate([unary.ravel(), tables.ravel()]), A_eq=np.array(rows), b_eq=right, method="highs").fun


def by_enumeration(edges, unary, tables):
    nodes, numbers = np.arange(len(unary)), np.arange(len(edges))
    return min(
        unary[nodes, y].sum() + tables[numbers, np.array(y)[edges[:, 0]], np.array(y)[edges[:, 1]]].sum()
        for y in product(range(unary.shape[1]), repeat=len(unary))
    )
