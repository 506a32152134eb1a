"""Every structure on instances so small that all outputs can be listed, with features and losses by their definitions."""

from itertools import combinations, product

import numpy as np
from scipy import sparse
from tests.cases.brute_force import loss_by_definition
from tests.cases.solver_cases import ThreeClasses

from maxmargin.graphs import Graph, GraphStructure
from maxmargin.multiclass import ClassStructure
from maxmargin.ranking import Interleaving, RankingStructure
from maxmargin.sequences import ChainStructure, ChainWeights, Tree, TreeStructure, TreeWeights


class Case:
    """A structure with samples; ``outputs(x)`` lists all outputs, ``feature(x, y)`` and ``loss(truth, y)`` are written out."""

    def __init__(self, structure, xs, truths, outputs, feature, loss):
        self.structure, self.xs, self.truths = structure, xs, truths
        self.outputs, self.feature, self.loss = outputs, feature, loss
        encoded = [structure.encode(x, y) for x, y in zip(xs, truths, strict=True)]
        self.coded, self.coded_truths = [x for x, _ in encoded], [y for _, y in encoded]
        self.n_features = len(feature(xs[0], outputs(xs[0], truths[0])[0]))

    def weights(self, rng, scale, whole):
        weights = scale * rng.normal(size=self.n_features)
        if whole:
            weights = np.rint(weights)
        bounds = self.structure.bounds
        return weights if bounds is None else np.clip(weights, *bounds)


def dense(x):
    return x.toarray() if sparse.issparse(x) else np.asarray(x)


def classes(rng, kind):
    costs = rng.uniform(0.5, 2.0, (3, 3)) * (1 - np.eye(3)) if kind == "costs" else None
    X = rng.normal(size=(4, 2))
    xs = [sparse.csr_array(x[None]) for x in X] if kind == "sparse" else list(X)
    table = 1 - np.eye(3) if costs is None else costs
    structure = ThreeClasses() if kind == "user" else ClassStructure(3, 2, costs)
    return Case(
        structure,
        xs,
        [0, 2, 1, 1],
        lambda x, truth: [0, 1, 2],
        lambda x, y: np.outer(np.eye(3)[y], dense(x).ravel()).ravel(),
        lambda truth, y: table[truth, y],
    )


def labelings(rng, kind):
    parents = {"chain": None, "tree": ([-1], [-1, 0, 0], [-1, 0, -1, 1])}[kind.split()[0]]
    lengths = (1, 3, 4)
    normalize = "sums" not in kind
    X = [rng.normal(size=(n, 2)) for n in lengths]
    if "sparse" in kind:
        X = [sparse.csr_array(x) for x in X]
    xs = X if parents is None else [Tree(x, parent) for x, parent in zip(X, parents, strict=True)]

    def feature(x, y):
        rows, parent = (x, np.arange(-1, len(y) - 1)) if parents is None else (x.features, np.asarray(x.parent))
        total = np.zeros(TreeWeights.size(3, 2))
        parts = ChainWeights(total, 3, 2) if parents is None else TreeWeights(total, 3, 2)
        for t, label in enumerate(y):
            parts.emission[label] += dense(rows)[t]
            if parent[t] < 0:
                parts.root[label] += 1
            else:
                parts.transition[y[parent[t]], label] += 1
            if t not in parent:
                parts.leaf[label] += 1
        return total

    def loss(truth, y):
        return sum(a != b for a, b in zip(truth, y, strict=True)) / (len(y) if normalize else 1)

    kinds = {"chain": ChainStructure, "tree": TreeStructure}
    return Case(
        kinds[kind.split()[0]](3, 2, normalize),
        xs,
        [rng.integers(0, 3, n) for n in lengths],
        lambda x, truth: [np.array(y) for y in product(range(3), repeat=len(truth))],
        feature,
        loss,
    )


def graphs(rng):
    xs = []
    for size in (1, 3, 5):
        edges = np.array(list(combinations(range(size), 2)), dtype=np.int32).reshape(-1, 2)
        edges = edges[rng.random(len(edges)) < 0.7]
        xs.append(Graph(rng.normal(size=(size, 2)), edges, rng.random((len(edges), 2))))

    def feature(x, y):
        total = np.zeros(6)
        for row, label in zip(x.nodes, y, strict=True):
            total[2 * label : 2 * label + 2] += row
        for (a, b), f in zip(x.edges, x.edge_features, strict=True):
            total[4:] -= f * (y[a] != y[b])
        return total

    return Case(
        GraphStructure(2, 2),
        xs,
        [rng.integers(0, 2, len(x.nodes)) for x in xs],
        lambda x, truth: [np.array(y) for y in product((0, 1), repeat=len(truth))],
        feature,
        lambda truth, y: np.mean(np.asarray(truth) != y),
    )


def rankings(rng, name):
    truths = [np.array([1, 0, 0], bool), np.array([0, 1, 1, 0, 0], bool), np.array([1, 0, 1, 1, 0], bool), np.ones(2, bool)]
    xs = [rng.normal(size=(len(truth), 2)) for truth in truths]

    def outputs(x, truth):
        """All interleavings in which either kind is in some order: positions of the relevant ones, and who is where."""
        found = {}
        relevant, others = np.flatnonzero(truth), np.flatnonzero(~truth)
        for places in combinations(range(len(truth)), len(relevant)):
            for top in _orders(relevant):
                for bottom in _orders(others):
                    order = np.empty(len(truth), dtype=int)
                    at = np.isin(np.arange(len(truth)), places)
                    order[at], order[~at] = top, bottom
                    found[tuple(order)] = Interleaving.of_order(truth, order)
        return list(found.values())

    def feature(x, y):
        relevant, others = np.flatnonzero(y.relevant), np.flatnonzero(~y.relevant)
        total, pairs = np.zeros(2), max(1, len(relevant) * len(others))
        for i in relevant:
            # Irrelevant samples in the order of their ranks; the first ``ranks[i] - 1`` of them are above.
            above = sorted(others, key=lambda j: y.ranks[j])[: y.ranks[i] - 1]
            for j in others:
                total += (x[i] - x[j]) * (-1 if j in above else 1) / pairs
        return total

    def loss(truth, y):
        relevant = truth.relevant if isinstance(truth, Interleaving) else truth
        if relevant.all():
            return 0.0
        above = np.sort(y.ranks[relevant]) - 1
        placed = np.zeros(len(relevant), dtype=bool)
        placed[above + np.arange(len(above))] = True
        return loss_by_definition(name, placed)

    return Case(RankingStructure(name), xs, truths, outputs, feature, loss)


def _orders(items):
    if len(items) == 0:
        return [[]]
    return [[item, *rest] for k, item in enumerate(items) for rest in _orders([*items[:k], *items[k + 1 :]])]


def make_case(name, seed=0):
    rng = np.random.default_rng(seed)
    kind, _, rest = name.partition(" ")
    if kind == "classes":
        return classes(rng, rest)
    if kind == "graph":
        return graphs(rng)
    if kind == "ranking":
        return rankings(rng, rest)
    return labelings(rng, name)


CASES = (
    "classes",
    "classes costs",
    "classes sparse",
    "classes user",
    "chain",
    "chain sums",
    "chain sparse",
    "tree",
    "tree sums",
    "tree sparse",
    "graph",
    "ranking ap",
    "ranking ndcg",
    "ranking auc",
    "ranking mrr",
)
