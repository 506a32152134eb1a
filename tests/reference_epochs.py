"""Block steps of one shard as the formulas say them: a vector of d numbers per block, cuts from Python, no engine.

Every block has a point of its own, ``(w_i, l_i)``: a convex combination of its cuts, over ``lambda n``. Those of a shard add up
to its part of the weights and of the dual's linear term.
"""

import numpy as np
from solver_cases import Hidden

from maxmargin import _core
from maxmargin.cuts import CheckedProblem, compiled_blocks
from maxmargin.problems import EnumeratedProblem


class ReferenceEpochs:
    """Dual points of the blocks of a shard, all at the truth to begin with."""

    def __init__(self, problem, lam, n_blocks):
        self.problem, self.lam, self.n = CheckedProblem(problem), lam, n_blocks
        self.points = np.zeros((problem.n_blocks, problem.n_features + 1))
        self.before = self.points.copy()

    def run(self, weights, order, curvature):
        """Frank-Wolfe steps of the blocks, in this order; what has changed of the part, and of the linear term."""
        here, d = weights.copy(), len(weights)
        self.points = self.before.copy()
        for block in order:
            cut = self.problem.cuts([block], here)[0]
            corner = np.append(cut.dense(d) / (self.lam * self.n), cut.loss / self.n)
            direction = corner - self.points[block]
            slope = direction[d] - self.lam * direction[:d] @ here
            squared = self.lam * curvature * direction[:d] @ direction[:d]
            if slope > 0:
                step = 1.0 if squared <= slope else slope / squared
                self.points[block] += step * direction
                here += curvature * step * direction[:d]
        total = (self.points - self.before).sum(axis=0)
        return total[:d], total[d]

    def keep(self, part):
        """Take only a part of what has changed."""
        self.points = self.before + part * (self.points - self.before)
        self.before = self.points.copy()

    def part(self):
        """The sum of all points."""
        total = self.points.sum(axis=0)
        return total[:-1], total[-1]


class _Noting(Hidden):
    def __init__(self, model):
        super().__init__(model)
        self.visited = []

    def cut(self, block, weights):
        self.visited.append(block)
        return self.model.cut(block, weights)


def order_of(n_blocks, n_epochs, seed):
    """In which order the engine visits blocks."""
    problem = _Noting(EnumeratedProblem([np.arange(2.0)[:, None]] * n_blocks, [np.arange(2.0)] * n_blocks))
    _core.BlockEpochs(compiled_blocks(problem), 1.0, n_blocks).run(np.zeros(1), n_epochs, "fw", 1.0, seed)
    return problem.visited
