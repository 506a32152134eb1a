"""Solvers that ask oracles in Python, and a problem that counts what it is asked."""

import numpy as np
from tests.cases.solver_cases import Hidden

from maxmargin.core.solvers import (
    BCFW,
    ExponentiatedGradient,
    FrankWolfe,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Subgradient,
)
from maxmargin.multiclass import MulticlassProblem

ALL_SOLVERS = {
    "bcfw": BCFW(steps="fw", tol=1e-2),
    "pairwise": BCFW(tol=1e-4, steps="pairwise"),
    "cache": BCFW(tol=1e-3, steps="all", cache=10),
    "n-slack": NSlackCuttingPlane(tol=1e-4),
    "one-slack": OneSlackCuttingPlane(tol=1e-5),
    "fw": FrankWolfe(tol=2e-2, max_passes=5000),
    "subgradient": Subgradient(average="rising", tol=5e-2, max_passes=5000),
    "pl": PartialLinearization(tol=1e-2, temperature=0.1),
    "eg": ExponentiatedGradient(tol=2e-2, temperature=0.5, max_passes=5000),
}
SOLVERS = {name: solver for name, solver in ALL_SOLVERS.items() if name not in ("pl", "eg")}


class Counting(Hidden):
    """Notes the number of blocks of every question."""

    def __init__(self, model):
        super().__init__(model)
        self.single, self.batches = 0, []

    def cut(self, block, weights):
        self.single += 1
        return self.model.cut(block, weights)

    def cuts(self, blocks, weights):
        self.batches.append(len(blocks))
        return self.model.cuts(blocks, weights)


def many(n=2500, seed=0):
    rng = np.random.default_rng(seed)
    return MulticlassProblem(rng.normal(size=(n, 3)), rng.integers(0, 3, n), 3)
