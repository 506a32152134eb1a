"""Every estimator with every surrogate and facility on data so small that the whole program can be written down (spec 14.2).

The reference is a proved optimum of the program of all outputs, ``min |w|^2 / 2 + C sum_i weight_i xi_i`` with
``xi_i >= psi(h, g)`` for each of them; it knows nothing of searches.
"""

import pickle
import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
from tests.cases.reference_programs import tangent_program

from maxmargin import ChainSVM, MulticlassSVM, MultilabelSVM, StructuredSVM, TreeSVM, load_model, regularization_path, save_model
from maxmargin.core import Structure
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.multiclass import ClassStructure
from maxmargin.multilabel import LabelSetStructure
from maxmargin.sequences import ChainStructure, Tree, TreeStructure
from maxmargin.surrogates import StructuredProblem, make_surrogate

RNG = np.random.default_rng(0)
N, C = 5, 0.5
X = RNG.normal(size=(N, 2))
COSTS = np.array([[0.0, 1, 3], [2, 0, 1], [1, 4, 0]])
CLASSES = np.array([0, 2, 1, 0, 2])
SETS = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1]])
BLOCKS = [RNG.normal(size=(3, 2)) for _ in range(N)]
LABELS = [RNG.permutation([0, 1, int(RNG.integers(2))]) for _ in range(N)]
TREES = [Tree(x, [-1, 0, 0]) for x in BLOCKS]
WEIGHTS = np.array([1.0, 0.0, 2.0, 0.5, 1.0])


class OwnClasses(Structure):
    """Three classes with costs: the three methods, and the best ones in order, without which costs would be bounded only."""

    def joint_feature(self, x, y):
        return np.outer(np.eye(3)[y], x).ravel()

    def loss(self, truth, y):
        return COSTS[truth, y]

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return self.k_best(x, weights, truth, a, b, 1)[0]

    def k_best(self, x, weights, truth, a, b, k):
        costs = 0.0 if truth is None else b * COSTS[truth]
        return np.argsort(-(a * weights.reshape(3, -1) @ x + costs))[:k].tolist()


# An estimator, its data, and the structure whose outputs are listed.
CASES = {
    "classes": (MulticlassSVM(C=C, costs=COSTS, fit_intercept=False), X, CLASSES, ClassStructure(3, 2, costs=COSTS)),
    "own classes": (StructuredSVM(OwnClasses(), C=C), X, CLASSES, OwnClasses()),
    "sets": (
        MultilabelSVM(C=C, pairwise="full", fit_intercept=False), X, SETS, LabelSetStructure(3, 2, [(0, 1), (0, 2), (1, 2)]),
    ),
    "chains": (ChainSVM(C=C, normalize=False, fit_intercept=False), BLOCKS, LABELS, ChainStructure(2, 2, normalize=False)),
    "trees": (TreeSVM(C=C, normalize=False, fit_intercept=False), TREES, LABELS, TreeStructure(2, 2, normalize=False)),
    "own chains": (
        StructuredSVM(ChainStructure(2, 2, normalize=False), C=C), BLOCKS, LABELS, ChainStructure(2, 2, normalize=False),
    ),
}  # fmt: skip
NAMES = ["slack", "beta", "log", "prob"]


def estimator(name, **parameters):
    own = CASES[name][0]
    return type(own)(**(own.get_params(deep=False) | parameters))


def dense(feature):
    return feature.toarray().ravel() if hasattr(feature, "toarray") else np.asarray(feature, dtype=float)


def outputs_of(structure, x):
    if isinstance(structure, OwnClasses):
        return range(3)
    if isinstance(structure, LabelSetStructure):
        return [np.array(labels) for labels in product((0, 1), repeat=3)]
    return structure.all_outputs(x)


@cache
def optimum(name, surrogate, weighted=False):
    """The smallest objective, with every output of every sample; psi is convex in h."""
    _, inputs, truths, structure = CASES[name]
    psi, weights = make_surrogate(surrogate), WEIGHTS if weighted else np.ones(N)
    samples = []
    for k in range(N):
        x, truth = structure.encode(inputs[k], truths[k])
        own = dense(structure.joint_feature(x, truth))
        wrong = [(y, structure.loss(truth, y)) for y in outputs_of(structure, x) if structure.loss(truth, y) > 0]
        differences = np.array([dense(structure.joint_feature(x, y)) - own for y, _ in wrong])
        samples.append((differences, np.array([loss for _, loss in wrong])))

    def tangents(w):
        blocks = []
        for differences, losses in samples:
            h = differences @ w
            slope = psi.gradient(h, losses)[0]
            # No slack is below zero.
            rows = np.vstack([np.zeros_like(w), -slope[:, None] * differences])
            blocks.append((rows, np.append(0.0, psi.value(h, losses) - slope * h)))
        return blocks

    return tangent_program(tangents, samples[0][0].shape[1], C * weights, tol=1e-9)


def quietly(model, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*data, **more)


every = pytest.mark.parametrize(("name", "surrogate"), [*product(CASES, NAMES)])


@every
@pytest.mark.parametrize("solver", ["one_slack", "n_slack", "bcfw", "subgradient"])
def test_solvers_reach_the_optimum_of_the_whole_program(name, surrogate, solver):
    best = optimum(name, surrogate)
    tol = {"one_slack": 1e-5, "n_slack": 1e-5, "bcfw": 3e-2, "subgradient": 0.3}[solver]
    model = quietly(estimator(name, surrogate=surrogate, solver=solver, tol=tol, max_iter=1500), *CASES[name][1:3])
    assert model.certified_ and model.certified_objective_ == "exact"
    assert model.dual_objective_ <= best.value * (1 + 1e-10)
    assert best.bound * (1 - 1e-10) <= model.primal_objective_ <= best.value * (1 + 1.01 * tol / (1 - tol))


@every
def test_weights_of_samples(name, surrogate):
    best = optimum(name, surrogate, weighted=True)
    model = quietly(estimator(name, surrogate=surrogate, tol=1e-5, max_iter=3000), *CASES[name][1:3], sample_weight=WEIGHTS)
    assert model.certified_ and model.dual_objective_ <= best.value * (1 + 1e-10)
    assert best.bound * (1 - 1e-10) <= model.primal_objective_ <= best.value * (1 + 2e-5)


@every
def test_paths(name, surrogate):
    _, inputs, truths, _ = CASES[name]
    # Hinges are averaged on a path, and lambda is 1 / (C n).
    lam, epsilon = 1 / (C * N), 0.05
    found = regularization_path(estimator(name, surrogate=surrogate), inputs, truths, epsilon=epsilon, lambda_min=0.9 * lam)
    model = found.estimator(lam)
    best = optimum(name, surrogate)
    assert model.certified_ and model.dual_objective_ <= best.value * (1 + 1e-10)
    assert model.primal_objective_ >= best.bound * (1 - 1e-10)


@every
def test_files_and_pickles(name, surrogate, tmp_path):
    own, inputs, truths, structure = CASES[name]
    model = estimator(name, surrogate=surrogate).fit(inputs, truths)
    save_model(model, tmp_path / "model")
    objects = {"structure": own.structure} if isinstance(own, StructuredSVM) else {}
    for same in (load_model(tmp_path / "model", **objects), pickle.loads(pickle.dumps(model))):
        assert same.get_params()["surrogate"] == surrogate and same.primal_objective_ == model.primal_objective_
        for found, expected in zip(same.predict(inputs), model.predict(inputs), strict=True):
            np.testing.assert_array_equal(found, expected)
    # Problems too, with what their searches have kept.
    problem = StructuredProblem(structure, inputs, truths, surrogate)
    weights = RNG.normal(size=problem.n_features)
    problem.cuts(range(N), weights)
    again = pickle.loads(pickle.dumps(problem))
    for cut, other in zip(problem.cuts(range(N), 2 * weights), again.cuts(range(N), 2 * weights), strict=True):
        assert cut.loss == other.loss and cut.hinge(weights) == other.hinge(weights)


@pytest.mark.parametrize("surrogate", NAMES)
def test_weights_of_classes_are_weights_of_samples(surrogate):
    own = estimator("classes", surrogate=surrogate, class_weight={0: 1.0, 1: 3.0, 2: 0.5}).fit(X, CLASSES)
    other = estimator("classes", surrogate=surrogate).fit(X, CLASSES, np.array([1.0, 0.5, 3.0, 1.0, 0.5]))
    np.testing.assert_array_equal(own.coef_, other.coef_)
    plain = estimator("classes", surrogate=surrogate).fit(X, CLASSES)
    assert np.abs(own.coef_ - plain.coef_).max() > 1e-3
