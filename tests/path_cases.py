"""Small problems for tests of paths: all outputs of every block written out, and the optimum of a quadratic program over them."""

from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
from scipy.optimize import minimize
from solver_cases import ThreeClasses, chain, make_model, outputs_of

from maxmargin.losses import ranking_loss
from maxmargin.problems import GraphProblem, MulticlassProblem, RankingProblem, StructuredProblem
from maxmargin.structures import Graph


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
        n, d = len(blocks), blocks[0][0].shape[1]
        self.n, self.d, self.blocks = n, d, blocks
        slack = [np.repeat(np.eye(n)[[i]], len(psi), axis=0) for i, (psi, _) in enumerate(blocks)]
        self.table = np.vstack([np.column_stack([psi, own]) for (psi, _), own in zip(blocks, slack, strict=True)])
        self.losses = np.concatenate([loss for _, loss in blocks])
        lower, upper = (-np.inf, np.inf) if bounds is None else bounds
        self.lower, self.upper = np.broadcast_to(lower, d), np.broadcast_to(upper, d)
        self.weights = np.clip(np.zeros(d), lower, upper)

    def optimum(self, lam):
        """Its value; the search begins at the last weights."""
        d, n = self.d, self.n
        slacks = [np.max(loss - psi @ self.weights) for psi, loss in self.blocks]
        # In units that make the curvature one where lambda is large.
        unit = 1 / np.sqrt(max(1.0, lam))
        table = np.column_stack([unit * self.table[:, :d], self.table[:, d:]])
        result = minimize(
            lambda z: lam * unit**2 / 2 * z[:d] @ z[:d] + z[d:].mean(),
            np.concatenate([self.weights / unit, slacks]),
            jac=lambda z: np.concatenate([lam * unit**2 * z[:d], np.full(n, 1 / n)]),
            bounds=[*zip(self.lower / unit, self.upper / unit, strict=True), *[(0, None)] * n],
            constraints={"type": "ineq", "fun": lambda z: table @ z - self.losses, "jac": lambda z: table},
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        self.weights = np.clip(unit * result.x[:d], self.lower, self.upper)
        return primal_at(self.blocks, self.weights, lam)
