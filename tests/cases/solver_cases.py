"""Small problems for tests of solvers: their outputs written out, and optima to compare with."""

from functools import cache
from itertools import pairwise, product

import numpy as np
from scipy import sparse
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.reference_averages import averages

from maxmargin import _core
from maxmargin.core import Problem, Structure, compiled_blocks
from maxmargin.core.solvers import BCFW, FrankWolfe, NSlackCuttingPlane, OneSlackCuttingPlane
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem
from maxmargin.sequences import ChainProblem, ChainWeights

LAM = 0.1
NEVER = 10**9
# None, positivity, a box, and a box that does not contain zero.
BOUNDS = {"free": None, "positive": (0.0, np.inf), "box": (-0.15, 0.3), "off zero": (0.01, 0.08)}
MODELS = ("multiclass", "sparse", "costs", "binary", "chain")
# All ways to train sets of labels besides exact steps.
SET_SOLVERS = [
    *(BCFW(steps=steps, tol=1e-2, max_passes=4000) for steps in ("fw", "pairwise", "away", "all")),
    BCFW(steps="pairwise", cache=5, tol=1e-3, max_passes=4000),
    BCFW(steps="fw", hybrid=True, tol=1e-2, max_passes=4000),
    NSlackCuttingPlane(tol=1e-3, max_passes=500),
    FrankWolfe(tol=2e-2, max_passes=4000),
]


def frank_wolfe(steps="fw", cache=0, sampling="gap", seed=0):
    """Settings of an engine."""
    return _core.BlockSettings.frank_wolfe(sampling, steps, cache, seed)


class ThreeClasses(Structure):
    """Multi-class, as a user would write it."""

    def joint_feature(self, x, y):
        return np.outer(np.eye(3)[y], x).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return int(np.argmax(a * weights.reshape(3, -1) @ x + b * (np.arange(3) != truth)))


class Hidden(Problem):
    """A model without its compiled form: the engine must ask its oracle in Python."""

    def __init__(self, model):
        self.model = model
        self.n_blocks, self.n_features, self.exact = model.n_blocks, model.n_features, model.exact

    def cut(self, block, weights):
        return self.model.cut(block, weights)

    def cuts(self, blocks, weights):
        return self.model.cuts(blocks, weights)


class Averaging(Hidden):
    """The same with averages; it keeps the distributions, and the blocks in the order of their visits.

    Parameters
    ----------
    model : Problem
    seed : int, optional
        Begin at random distributions instead of those close to the truth.
    """

    def __init__(self, model, seed=None):
        super().__init__(model)
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.distributions, self.visited = {}, []
        self.averages, self.diameter = averages(model), model.diameter
        self.average = self.averages.average

    def interior(self, block, mass):
        start = self.averages.interior(block, mass)
        if self.rng is not None:
            # Reached by a tilt from a vertex that is not sharp.
            start = self.averages.tilt(block, self.averages.interior(block, 0.9), self.rng.normal(size=self.n_features), 0.7)
        self.distributions[block] = start
        return start

    def tilt(self, block, distribution, weights, temperature):
        self.visited.append(block)
        return self.averages.tilt(block, distribution, weights, temperature)

    def mix(self, distribution, other, step):
        mixed = self.averages.mix(distribution, other, step)
        self.distributions[self.visited[-1]] = mixed
        return mixed


def engine_of(problem, settings, lam=0.1, bounds=None, start=None, transport=False):
    """The engine itself, without a solver around it; problems without a compiled form are asked in Python."""
    lower, upper = (None, None) if bounds is None else (np.full(problem.n_features, float(b)) for b in bounds)
    return _core.BlockEngine(compiled_blocks(problem), lam, lower, upper, settings, start, transport)


def chain(lengths, n_labels=3, n_inputs=2, seed=0, scale=1.0):
    """Random chains. Costs differ from position to position, so that no two labelings tie."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = scale * rng.normal(size=(offsets[-1], n_inputs))
    model = ChainProblem(X, rng.integers(0, n_labels, len(X)), offsets, n_labels)
    model.cost = model.cost * rng.uniform(0.5, 1.5, len(X))
    return model


@cache
def make_model(name):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    costs = rng.uniform(0.5, 2.0, (3, 3)) * (1 - np.eye(3))
    if name == "multiclass":
        return MulticlassProblem(X, y, 3)
    if name == "sparse":
        return MulticlassProblem(sparse.csr_array(X * (rng.random(X.shape) < 0.5)), y, 3)
    if name == "costs":
        return MulticlassProblem(X, y, 3, costs)
    if name == "binary":
        return BinaryProblem(X, np.where(y == 0, 1, -1))
    return chain((1, 2, 3, 2, 1, 3))


def chain_feature(model, block, labels):
    """The joint feature of a labeling, position after position."""
    feature = np.zeros(model.n_features)
    parts = ChainWeights(feature, model.n_labels, model.n_inputs)
    for x, label in zip(model.X[model.offsets[block] :], labels, strict=False):
        parts.emission[label] += x
    parts.first[labels[0]] += 1
    parts.last[labels[-1]] += 1
    for a, b in pairwise(labels):
        parts.transition[a, b] += 1
    return feature


def outputs_of(model, block):
    """``psi`` and loss of every output of a block, by definition."""
    if isinstance(model, EnumeratedProblem):
        return model.psi[block], model.loss[block]
    if isinstance(model, ChainProblem):
        rows = slice(model.offsets[block], model.offsets[block + 1])
        truth = model.y[rows]
        labelings = np.array(list(product(range(model.n_labels), repeat=len(truth))))
        own = chain_feature(model, block, truth)
        psi = np.array([own - chain_feature(model, block, labels) for labels in labelings])
        return psi, ((labelings != truth) * model.cost[rows]).sum(axis=1)
    x = np.asarray(model.X.toarray() if sparse.issparse(model.X) else model.X)[block]
    if isinstance(model, BinaryProblem):
        return np.array([0 * x, model.y[block] * x]), np.array([0.0, 1.0])
    eye, truth = np.eye(model.n_classes), model.y[block]
    return np.array([np.outer(eye[truth] - eye[k], x).ravel() for k in range(model.n_classes)]), model.costs[truth]


def listed(model):
    """The same problem with all outputs in arrays."""
    return EnumeratedProblem(*zip(*(outputs_of(model, block) for block in range(model.n_blocks)), strict=True))


def primal_of(model, weights, lam):
    """The objective, by a look at every output."""
    hinges = [np.max(loss - psi @ weights) for psi, loss in (outputs_of(model, block) for block in range(model.n_blocks))]
    return lam / 2 * weights @ weights + np.mean(hinges)


@cache
def optimum(name, bounds, lam=LAM):
    """Best weights and value, by cutting planes over the listed outputs to 1e-10."""
    return OneSlackCuttingPlane(tol=1e-10, max_passes=5000).solve(listed(make_model(name)), lam, bounds=BOUNDS[bounds])
