"""Surrogates of structures: oracles, cuts and training against enumeration and explicit programs (spec 5, 7 and 14.2)."""

from itertools import product

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem

from maxmargin.core import Structure, SupportsKBest, SupportsLossValues, dot, supports
from maxmargin.core.solvers import BCFW, NSlackCuttingPlane, OneSlackCuttingPlane, Subgradient
from maxmargin.multiclass import ClassStructure
from maxmargin.sequences import ChainStructure, Tree, TreeStructure
from maxmargin.structured import StructuredSVM
from maxmargin.surrogates import BetaScaling, LogLoss, MicroF1, ProbLoss, Slack, StructuredProblem

CONVEX = [Slack(), BetaScaling(0.5), LogLoss(), ProbLoss()]


def chains(rng, n=5, L=4, K=3, p=2):
    return [rng.normal(size=(L, p)) for _ in range(n)], [rng.integers(0, K, L) for _ in range(n)]


def worth(surrogate, structure, sample, weights):
    """psi of all outputs of a sample."""
    cuts = [sample.cut(structure, y) for y in structure.all_outputs(sample.x)]
    return np.array([float(surrogate.value(-dot(cut.psi, weights), cut.loss)) for cut in cuts])


@pytest.mark.parametrize("kind", ["chain", "tree", "classes"])
def test_k_best_is_the_sorted_list_of_all_outputs(kind):
    rng = np.random.default_rng(0)
    for _ in range(10):
        if kind == "classes":
            structure, x, truth, d = ClassStructure(5, 3), rng.normal(size=3), 2, 15
            x, truth = structure.encode(x, truth)
        else:
            structure = ChainStructure(3, 2) if kind == "chain" else TreeStructure(3, 2, normalize=False)
            features, truth, d = rng.normal(size=(4, 2)), rng.integers(0, 3, 4), 6 + 6 + 9
            x = features if kind == "chain" else Tree(features, [-1, 0, -1, 0])
            x, truth = structure.encode(x, truth)
        weights = rng.normal(size=d)
        for a, b in ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.3, 2.0)):

            def value(y, structure=structure, x=x, truth=truth, weights=weights, a=a, b=b):
                score = float((structure.joint_feature(x, y).toarray() @ weights)[0])
                return a * score + b * structure.loss(truth, y)

            listed = sorted((value(y) for y in structure.all_outputs(x)), reverse=True)
            for k in (1, 2, 7, 1000):
                found = structure.k_best(x, weights, truth, a, b, k)
                np.testing.assert_allclose([value(y) for y in found], listed[:k], atol=1e-9)
                assert len({np.asarray(y).tobytes() for y in found}) == len(found) == min(k, len(listed))
        losses = {structure.loss(truth, y) for y in structure.all_outputs(x)}
        assert all(np.isclose(structure.loss_values(x, truth), loss).any() for loss in losses)


@pytest.mark.parametrize(
    "surrogate", [*CONVEX, ProbLoss(convex=False), Slack(search="angular"), Slack(search="enumerate")], ids=repr
)
def test_cuts_are_tangents_at_the_best_output(surrogate):
    rng = np.random.default_rng(1)
    structure = ChainStructure(3, 2, normalize=False)
    problem = StructuredProblem(structure, *chains(rng), surrogate)
    for scale in (0.0, 0.3, 1.0, 3.0):
        weights = scale * rng.normal(size=problem.n_features)
        other = weights + 0.3 * rng.normal(size=problem.n_features)
        for sample, cut in zip(problem.samples, problem.cuts(range(5), weights), strict=True):
            best = worth(surrogate, structure, sample, weights).max()
            assert cut.bound is None and cut.hinge(weights) == pytest.approx(best, rel=1e-8, abs=1e-9)
            if surrogate.convex:
                assert cut.hinge(other) <= worth(surrogate, structure, sample, other).max() + 1e-9
    assert problem.queries > 0


@pytest.mark.parametrize("search", ["hull", "bisect", "sarawagi", "binary"])
def test_searches_that_are_not_exact_bound_the_hinge(search):
    rng = np.random.default_rng(2)
    structure = ChainStructure(3, 2)
    problem = StructuredProblem(structure, *chains(rng), Slack(search=search))
    open_bounds = 0
    for scale in (0.3, 1.0, 3.0):
        weights = scale * rng.normal(size=problem.n_features)
        for sample, cut in zip(problem.samples, problem.cuts(range(5), weights), strict=True):
            best = worth(Slack(), structure, sample, weights).max()
            assert cut.hinge(weights) <= best + 1e-9 and cut.upper(weights) >= best - 1e-7
            open_bounds += cut.bound is not None
    assert open_bounds > 0


def count_dp(scores, transition, truth):
    """The best score for every number of wrong labels (spec 7.4)."""
    L, K = scores.shape
    best = np.full((K, L + 1), -np.inf)
    for k in range(K):
        best[k, int(k != truth[0])] = scores[0, k]
    for t in range(1, L):
        new = np.full_like(best, -np.inf)
        for k in range(K):
            wrong = int(k != truth[t])
            reached = (best + transition[:, k, None]).max(axis=0) + scores[t, k]
            new[k, wrong:] = reached[: L + 1 - wrong]
        best = new
    return best.max(axis=0)


@pytest.mark.parametrize("surrogate", CONVEX, ids=repr)
def test_searches_agree_with_counts_on_long_chains(surrogate):
    rng = np.random.default_rng(3)
    structure, L, K = ChainStructure(4, 3, normalize=False), 12, 4
    X, Y = chains(rng, n=6, L=L, K=K, p=3)
    problem = StructuredProblem(structure, X, Y, surrogate)
    for scale in (0.3, 1.0):
        weights = scale * rng.normal(size=problem.n_features)
        parts = np.split(weights, np.cumsum([12, 4, 4]))
        for x, y, cut in zip(X, Y, problem.cuts(range(6), weights), strict=True):
            scores = x @ parts[0].reshape(4, 3).T
            scores[0] += parts[1]
            scores[-1] += parts[2]
            best = count_dp(scores, parts[3].reshape(4, 4), y)
            truth = float((structure.joint_feature(x, y).toarray() @ weights)[0])
            exact = max(0.0, float(np.max(surrogate.value(best - truth, np.arange(L + 1.0)))))
            assert cut.hinge(weights) <= exact + 1e-7 <= cut.upper(weights) + 2e-7
            if cut.bound is None:
                assert cut.hinge(weights) == pytest.approx(exact, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize(
    "solver", [OneSlackCuttingPlane(tol=1e-7), NSlackCuttingPlane(tol=1e-7), BCFW(tol=1e-5, steps="pairwise", cache=10)]
)
def test_slack_training_is_the_program_of_all_outputs(solver):
    """The explicit program: every output of every sample is a cut ``g - g * (feature difference) . w``."""
    rng = np.random.default_rng(4)
    structure = ChainStructure(2, 2)
    problem = StructuredProblem(structure, *chains(rng, n=4, L=3, K=2), "slack")
    blocks = [[sample.cut(structure, y) for y in structure.all_outputs(sample.x)] for sample in problem.samples]
    psi = [np.array([cut.times(cut.loss).dense(problem.n_features) for cut in cuts]) for cuts in blocks]
    explicit = EnumeratedProblem(psi, [np.array([cut.loss for cut in cuts]) for cuts in blocks])
    optimum = OneSlackCuttingPlane(tol=1e-9).solve(explicit, 0.05)
    found = solver.solve(problem, 0.05)
    assert found.certified and found.converged
    assert optimum.dual * (1 - 1e-6) <= found.primal <= optimum.primal * (1 + 2 * solver.tol)


@pytest.mark.parametrize("surrogate", CONVEX, ids=repr)
def test_solvers_sandwich_the_same_optimum(surrogate):
    rng = np.random.default_rng(5)
    structure = ChainStructure(2, 2, normalize=False)
    X, Y = chains(rng, n=4, L=3, K=2)
    runs = [
        solver.solve(StructuredProblem(structure, X, Y, surrogate), 0.1)
        for solver in (
            OneSlackCuttingPlane(tol=1e-3),
            NSlackCuttingPlane(tol=1e-3),
            BCFW(steps="fw", tol=1e-2),
            Subgradient(average="last_half", max_passes=200),
        )
    ]
    assert all(run.certified for run in runs)
    assert max(run.dual for run in runs) <= min(run.primal for run in runs) * (1 + 1e-9)
    assert runs[3].dual > 0.5 * runs[0].primal and runs[3].primal < 1.1 * runs[0].primal


def test_surrogates_that_are_not_convex_are_for_subgradient_steps():
    rng = np.random.default_rng(6)
    problem = StructuredProblem(ChainStructure(2, 2, normalize=False), *chains(rng, n=4, L=3, K=2), ProbLoss(convex=False))
    for solver in (OneSlackCuttingPlane(), NSlackCuttingPlane(), BCFW()):
        with pytest.raises(TypeError, match="needs convex hinges"):
            solver.solve(problem, 0.1)
    found = Subgradient(max_passes=30).solve(problem, 0.1)
    assert not found.certified and found.primal < problem.mean_cut(np.zeros(problem.n_features)).loss


def test_estimator():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(12, 3))
    y = (X @ rng.normal(size=(3, 3))).argmax(axis=1)
    structure = ClassStructure(3, 3, costs=[[0, 1, 3], [1, 0, 1], [3, 1, 0]])
    for surrogate in ("margin", "slack", "log", BetaScaling(0.5)):
        model = StructuredSVM(structure, C=1.0, surrogate=surrogate).fit(X, y)
        assert model.certified_ and model.score(X, y) > 0.7 and model.n_queries_ > 0
    with pytest.raises(ValueError, match="unknown"):
        StructuredSVM(structure, surrogate="slak").fit(X, y)
    with pytest.raises(TypeError, match="set_size"):
        StructuredSVM(structure, surrogate="micro_f1").fit(X, y)


class LabelSets(Structure):
    """Independent labels; the loss counts differences."""

    def joint_feature(self, x, y):
        return np.outer(y, x).ravel().astype(float)

    def loss(self, truth, y):
        return float(np.sum(np.asarray(truth) != np.asarray(y)))

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return self.decode_sized(x, weights, truth, a, b, 0.0)

    def decode_sized(self, x, weights, truth, a, b, c):
        own = a * weights.reshape(-1, len(x)) @ x - c
        if truth is not None:
            own = own + b * (1 - 2 * np.asarray(truth))
        return (own > 0).astype(int)

    def set_size(self, y):
        return int(np.sum(y))


def test_micro_f1_against_enumeration():
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(20, 2)), [rng.integers(0, 2, 5) for _ in range(20)]
    Y[0] = np.zeros(5, dtype=int)
    problem = StructuredProblem(LabelSets(), X, Y, MicroF1())
    for scale in (0.2, 1.0, 3.0):
        weights = scale * rng.normal(size=10)
        for x, truth, cut in zip(X, Y, problem.cuts(range(20), weights), strict=True):
            values = [0.0]
            for y in product((0, 1), repeat=5):
                sizes = sum(y) + truth.sum()
                score = float(np.outer(np.array(y) - truth, x).ravel() @ weights)
                if sizes:
                    values.append((np.sum(np.array(y) != truth) + score) / sizes)
            assert cut.bound is None and cut.hinge(weights) == pytest.approx(max(values), abs=1e-8)
    found = OneSlackCuttingPlane(tol=1e-4).solve(problem, 0.05)
    assert found.certified


def test_who_replaces_a_search_loses_what_was_known_of_the_old_one():
    class Other(ChainStructure):
        def loss(self, truth, y):
            return 2 * super().loss(truth, y)

        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return super().decode(x, weights, truth, a, 2 * b)

    assert not supports(Other(2, 2), (SupportsKBest, SupportsLossValues)) and supports(ChainStructure(2, 2), SupportsKBest)
    rng = np.random.default_rng(9)
    problem = StructuredProblem(Other(2, 2), *chains(rng, K=2), "slack")
    problem.cuts(range(5), rng.normal(size=problem.n_features))
    with pytest.raises(TypeError, match="all_outputs"):
        StructuredProblem(Other(2, 2), *chains(rng, K=2), Slack(search="enumerate"))
