"""Small energies with cliques, and their minima by enumeration."""

import itertools

import numpy as np

from maxmargin.labeling import L1, Cardinality, Cliques, Diameter, Energy, Metric, PnPotts, TreeLength, minkowski, random_hst


def random_cliques(rng, n_nodes, cost, count=None):
    """Overlapping sets of 2 to 5 nodes with random weights."""
    count = int(rng.integers(1, 5)) if count is None else count
    sizes = rng.integers(2, min(5, n_nodes) + 1, size=count)
    return Cliques([rng.choice(n_nodes, size=size, replace=False) for size in sizes], cost, rng.uniform(0, 2, count))


def random_edges(rng, n_nodes):
    pairs = [(a, b) for a, b in itertools.combinations(range(n_nodes), 2) if rng.random() < 0.4]
    return [pair[:: int(rng.choice([-1, 1]))] for pair in pairs]


def random_cost(rng, n_labels, kind):
    points = rng.normal(size=(n_labels, 2))
    tree = random_hst(n_labels, 1.3, random_state=rng)
    return {
        "linear": lambda: Diameter(Metric("linear", limit=2.5)),
        "euclidean": lambda: Diameter(minkowski(points)),
        "tree": lambda: Diameter(tree),
        "cardinality": Cardinality,
        "l1": lambda: L1(points),
        "tree length": lambda: TreeLength(tree),
        "potts": lambda: PnPotts(1.5, rng.uniform(0, 1.5, n_labels)),
    }[kind]()


COSTS = ("linear", "euclidean", "tree", "cardinality", "l1", "tree length", "potts")


def random_energy(rng, kind, n_nodes=None, n_labels=None, pairwise="euclidean"):
    """Edges with a metric, or tables of their own; cliques of two kinds."""
    n_nodes = int(rng.integers(3, 7)) if n_nodes is None else n_nodes
    n_labels = int(rng.integers(2, 5)) if n_labels is None else n_labels
    edges = random_edges(rng, n_nodes)
    tables = {
        "euclidean": lambda: minkowski(rng.normal(size=(n_labels, 2))),
        "any": lambda: rng.normal(size=(len(edges), n_labels, n_labels)),
    }
    cliques = [random_cliques(rng, n_nodes, random_cost(rng, n_labels, kind))]
    if rng.random() < 0.5:
        cliques.append(random_cliques(rng, n_nodes, PnPotts(rng.uniform(0, 1, 2)), 2))
    weights = rng.uniform(0, 2, len(edges))
    return Energy(rng.uniform(0, 3, (n_nodes, n_labels)), edges, tables[pairwise](), weights=weights, cliques=cliques)


def all_labelings(n_nodes, n_labels):
    return [np.array(labels) for labels in itertools.product(range(n_labels), repeat=n_nodes)]


def least(energy):
    """The best labeling, by enumeration."""
    return min(all_labelings(energy.n_nodes, energy.n_labels), key=energy.energy)


def keeps_promise(energy, labels, factor):
    """``energy <= unary part of the best + factor * its other parts``, against every labeling."""
    value = energy.energy(labels)
    for other in all_labelings(energy.n_nodes, energy.n_labels):
        unary, pairs, cliques = energy.parts(other)
        if value > unary + factor * (pairs + cliques) + 1e-9:
            return False
    return True
