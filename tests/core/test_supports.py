"""Optional methods of problems and structures: which of them can be used, and what overrides take away."""

import numpy as np
import pytest

from maxmargin.core import (
    Cut,
    EnumeratedProblem,
    Problem,
    Structure,
    SupportsCompiledExpectations,
    SupportsExactSteps,
    SupportsExpectations,
    SupportsFastProblem,
    SupportsKBest,
    SupportsLinearScores,
    SupportsMeanCut,
    Tangent,
    supports,
)
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane
from maxmargin.hierarchy import Hierarchy, HierarchyProblem, HierarchyStructure, NodeWeights
from maxmargin.multiclass import ClassStructure, MulticlassProblem
from maxmargin.multilabel import MultilabelProblem
from maxmargin.ranking import BinaryProblem, RankingProblem, ranking_loss
from maxmargin.sequences import ChainProblem, ChainStructure
from maxmargin.surrogates import make_problem

LAM = 0.1
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = np.arange(12) % 3


def doubled(cut):
    return Cut(2 * cut.psi, 2 * cut.loss, cut.bound)


class TwiceInMeans(MulticlassProblem):
    def mean_cut(self, weights):
        return doubled(super().mean_cut(weights))


class TwiceInTangents(RankingProblem):
    def tangent(self, scores):
        found = super().tangent(scores)
        return Tangent(2 * found.hinge, 2 * found.loss, 2 * found.gradient)


def ranking(cls):
    return cls(X, Y == 0, ranking_loss("ap"))


def test_a_class_has_what_it_defines():
    classes, ranks, chains = MulticlassProblem(X, Y, 3), ranking(RankingProblem), ChainProblem(X, Y, [0, 5, 12], 3)
    assert supports(classes, SupportsMeanCut) and supports(classes, SupportsExactSteps)
    assert supports(ranks, SupportsLinearScores) and not supports(ranks, SupportsExactSteps)
    assert supports(chains, SupportsCompiledExpectations) and not supports(chains, SupportsExpectations)
    assert supports(chains, (SupportsExpectations, SupportsCompiledExpectations))

    class Own(Problem):
        n_blocks, n_features = 1, 2

        def cut(self, block, weights):
            return Cut(np.ones(2), 1.0)

    assert not supports(Own(), SupportsMeanCut)  # the method of the base class averages over single cuts


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("problem", "expected"), [(TwiceInMeans(X, Y, 3), MulticlassProblem(X, Y, 3)),
                                                   (ranking(TwiceInTangents), ranking(RankingProblem))])  # fmt: skip
def test_one_overridden_form_of_the_hinge_is_not_solved_by_the_others(problem, expected):
    """Twice the hinges with twice lambda have the same minimiser; single cuts would be those of the parent."""
    found = OneSlackCuttingPlane(tol=1e-9).solve(problem, 2 * LAM)
    plain = OneSlackCuttingPlane(tol=1e-9).solve(expected, LAM)
    assert found.primal == pytest.approx(2 * plain.primal, rel=1e-8) and found.certified
    np.testing.assert_allclose(found.weights, plain.weights, atol=1e-4)
    name = f"{type(problem).__name__} overrides (mean_cut|tangent), but not the cuts of single blocks"
    with pytest.raises(TypeError, match=name):
        BCFW(steps="pairwise").solve(problem, LAM)


def test_an_override_of_a_compiled_problem_is_named_once():
    class Mine(MulticlassProblem):
        def cuts(self, blocks, weights):
            return super().cuts(blocks, weights)

    with pytest.warns(UserWarning, match=r"Mine\.cuts overrides MulticlassProblem\.cuts, .* ten times slower") as told:
        solution = BCFW(steps="pairwise", tol=1e-2).solve(Mine(X, Y, 3), LAM)
    assert solution.certified and [one.filename for one in told] == [__file__]


def test_an_override_of_a_structure_is_named():
    class Mine(ChainStructure):
        def loss(self, truth, y):
            return 2 * super().loss(truth, y)

    with pytest.warns(UserWarning, match=r"Mine\.loss overrides TreeStructure\.loss, .* ten times slower"):
        make_problem(Mine(3, 3), [X[:5], X[5:]], [Y[:5], Y[5:]])
    assert not supports(Mine(3, 3), SupportsFastProblem) and supports(ChainStructure(3, 3), SupportsFastProblem)


def test_an_inherited_method_that_is_assigned_again_holds():
    class Mine(MulticlassProblem):
        mean_cut = MulticlassProblem.mean_cut

        def cuts(self, blocks, weights):
            return super().cuts(blocks, weights)

    assert supports(Mine(X, Y, 3), SupportsMeanCut) and not supports(Mine(X, Y, 3), SupportsCompiledExpectations)


def test_optional_methods_of_a_structure_rely_on_what_defines_it():
    class Renamed(ClassStructure):
        def decode_batch(self, xs, weights, truths=None, a=1.0, b=0.0):
            return super().decode_batch(xs, weights, truths, a, b)

    class Other(ClassStructure):
        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return super().decode(x, weights, truth, a, b)

    class Own(Structure):
        joint_feature = loss = decode = None

    assert supports(Renamed(3, 3), SupportsKBest) and not supports(Other(3, 3), SupportsKBest)
    assert not supports(ClassStructure, SupportsMeanCut)


def test_problems_that_errors_recommend_support_what_is_needed():
    """The names in core/solvers/base.py."""
    hierarchy = Hierarchy.of({"b": "a", "c": "a"})
    tree = HierarchyStructure(hierarchy, X.shape[1], NodeWeights().of(hierarchy))
    exact = [
        BinaryProblem(X, 2 * (Y == 0) - 1),
        HierarchyProblem(tree, X, Y % 2),
        MulticlassProblem(X, Y, 3),
        MultilabelProblem(X, np.eye(3, dtype=np.int8)[Y]),
    ]
    assert all(supports(problem, SupportsExactSteps) for problem in exact)
    averaging = [
        exact[0],
        exact[2],
        ChainProblem(X, Y, [0, 5, 12], 3),
        EnumeratedProblem([np.vstack([np.zeros(3), X])], [np.arange(13.0)]),
    ]
    assert all(supports(problem, (SupportsExpectations, SupportsCompiledExpectations)) for problem in averaging)
