"""Small problems for tests of paths: all outputs of every block written out, and the optimum of a quadratic program over them."""

from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
from tests.cases.reference_programs import MarginProgram
from tests.cases.solver_cases import ThreeClasses, chain, make_model, outputs_of

from maxmargin.graphs import Graph, GraphProblem
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import RankingProblem, ranking_loss
from maxmargin.surrogates import StructuredProblem


def ranking_outputs(X, relevant, loss):
    """``psi`` and loss of every ranking of a list; many rankings are the same."""
    n_pos, n_neg = int(relevant.sum()), int((~relevant).sum())
    found = []
    for order in permutations(range(len(X))):
        ranked = relevant[list(order)]
        psi = np.zeros(X.shape[1])
        for a, i in enumerate(order):
            for j in order[a + 1 :]:
                if relevant[j] and not relevant[i]:
                    psi += 2 * (X[j] - X[i]) / (n_pos * n_neg)
        found.append([*psi.round(12), round(loss.value(np.cumsum(~ranked)[ranked], n_neg), 12)])
    table = np.unique(found, axis=0)
    return table[:, :-1], table[:, -1]


@cache
def make_case(name):
    """A problem, and ``(psi, loss)`` of all outputs of every block."""
    rng = np.random.default_rng(11)
    if name in ("ranking", "queries"):
        X, relevant = rng.normal(size=(9, 3)), np.array([1, 0, 0, 1, 0, 1, 0, 1, 0], dtype=bool)
        offsets = np.array([0, 5]) if name == "ranking" else np.array([0, 3, 5, 9])
        X, relevant, loss = X[: offsets[-1]], relevant[: offsets[-1]], ranking_loss("ap")
        lists = [slice(a, b) for a, b in pairwise(offsets)]
        return RankingProblem(X, relevant, loss, offsets), [ranking_outputs(X[rows], relevant[rows], loss) for rows in lists]
    if name == "graph":
        edges = np.array([[0, 1], [1, 2], [2, 3], [0, 3]], dtype=np.int32)
        graphs = [Graph(rng.normal(size=(4, 2)), edges, rng.random((4, 1))) for _ in range(4)]
        labels = [rng.integers(0, 2, 4) for _ in graphs]
        model, blocks = GraphProblem(graphs, labels), []
        for graph, truth in zip(graphs, labels, strict=True):
            every = [np.array(y) for y in product((0, 1), repeat=4)]
            feature = model.structure.joint_feature
            psi = [feature(graph, truth) - feature(graph, y) for y in every]
            blocks.append((np.array(psi), np.array([np.mean(y != truth) for y in every])))
        return model, blocks
    if name == "separable":
        X, y = np.array([[2.0, 0.3], [1.5, -0.4], [-1.0, 0.2], [-2.5, -0.6], [0.1, 3.0]]), np.array([0, 0, 1, 1, 2])
        model = MulticlassProblem(X, y, 3)
    elif name in ("multiclass", "user"):
        model = MulticlassProblem(rng.normal(size=(6, 2)), rng.integers(0, 3, 6), 3)
    elif name == "chain":
        model = chain((1, 2, 2, 1), n_inputs=1)
    else:
        model = make_model(name)
    blocks = [outputs_of(model, block) for block in range(model.n_blocks)]
    return (StructuredProblem(ThreeClasses(), list(model.X), model.y.tolist()) if name == "user" else model), blocks


def primal_at(blocks, weights, lam):
    """The objective, by a look at every output."""
    return lam / 2 * weights @ weights + np.mean([np.max(loss - psi @ weights) for psi, loss in blocks])


class Reference:
    """The quadratic program over weights and slacks, with one constraint per output, for one lambda after another."""

    def __init__(self, blocks, bounds=None):
        self.blocks = blocks
        self.program = MarginProgram(blocks, bounds=bounds)
        self.lower, self.upper = self.program.box.lower, self.program.box.upper

    def optimum(self, lam):
        """Its value, with a proof that it is no more than 1e-11 too large."""
        return self.program.optimum(lam, tol=1e-11).value
