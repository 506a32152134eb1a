"""Optional methods of problems and structures: which of them can be used, and what overrides take away."""

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem

from maxmargin.core import (
    Cut,
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
    WeightedProblem,
    supports,
)
from maxmargin.core.solvers import BCFW, NSlackCuttingPlane, OneSlackCuttingPlane, Subgradient
from maxmargin.distributed import LocalEngine, ShardedMean, ShardOf, split_rows
from maxmargin.hierarchy import Hierarchy, HierarchyProblem, HierarchyStructure, NodeWeights
from maxmargin.multiclass import ClassStructure, MulticlassProblem
from maxmargin.multilabel import LabelSetStructure, MultilabelProblem
from maxmargin.ranking import BinaryProblem, RankingProblem, ranking_loss
from maxmargin.sequences import ChainProblem, ChainStructure
from maxmargin.surrogates import StructuredProblem, make_problem

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
    name = rf"{type(problem).__name__}\.(mean_cut|tangent) is overridden, but not the cuts of single blocks"
    for solver in (BCFW(steps="pairwise"), NSlackCuttingPlane()):
        with pytest.raises(TypeError, match=name):
            solver.solve(problem, LAM)
    with pytest.raises(TypeError, match=name):
        WeightedProblem(problem, np.ones(problem.n_blocks))


def test_an_override_of_a_compiled_problem_is_named_once():
    class Mine(MulticlassProblem):
        def cuts(self, blocks, weights):
            return super().cuts(blocks, weights)

    with pytest.warns(UserWarning, match=r"Mine\.cuts overrides MulticlassProblem\.cuts, .* ten times slower") as told:
        solution = BCFW(steps="pairwise", tol=1e-2).solve(Mine(X, Y, 3), LAM)
    assert solution.certified and [one.filename for one in told] == [__file__]


def test_an_override_of_a_structure_is_named():
    class Mine(ChainStructure):
        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return super().decode(x, weights, truth, a, b)

    with pytest.warns(UserWarning, match=r"Mine\.decode overrides TreeStructure\.decode, .* ten times slower"):
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


class Scaled(RankingProblem):
    """Columns count differently: both maps must be overridden, and the cuts of single queries are still those of the parent."""

    factors = np.array([3.0, 0.2, 1.0])

    def scores(self, weights):
        return super().scores(weights * self.factors)

    def features(self, coefficients):
        return super().features(coefficients) * self.factors


def test_other_scores_are_not_solved_by_the_cuts_of_the_parent():
    expected = OneSlackCuttingPlane(tol=1e-9).solve(RankingProblem(X * Scaled.factors, Y == 0, ranking_loss("ap")), LAM)
    found = OneSlackCuttingPlane(tol=1e-9).solve(ranking(Scaled), LAM)
    assert found.primal == pytest.approx(expected.primal, rel=1e-8)
    with pytest.raises(TypeError, match=r"Scaled\.(scores|features) is overridden, but not the cuts"):
        BCFW(steps="pairwise").solve(ranking(Scaled), LAM)


@pytest.mark.parametrize("solver", [OneSlackCuttingPlane(), BCFW(steps="pairwise"), Subgradient(average="last_half")])
def test_a_method_replaced_after_the_class_was_made_is_refused(solver):
    """Nobody could make the other of cut and cuts out of it."""
    for name, replaced in (("cut", lambda block, weights: None), ("cuts", lambda blocks, weights: [])):
        problem = ranking(RankingProblem)
        setattr(problem, name, replaced)
        with pytest.raises(TypeError, match=f"^{name} of RankingProblem was replaced after the class was defined"):
            solver.solve(problem, LAM)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("solver", [OneSlackCuttingPlane(tol=1e-4), BCFW(steps="pairwise", tol=1e-4)])
def test_a_mixin_counts_like_an_override(solver):
    class Doubled:
        def cuts(self, blocks, weights):
            return [doubled(cut) for cut in MulticlassProblem.cuts(self, blocks, weights)]

    class Mine(Doubled, MulticlassProblem):
        pass

    found = solver.solve(Mine(X, Y, 3), 2 * LAM)
    plain = OneSlackCuttingPlane(tol=1e-6).solve(MulticlassProblem(X, Y, 3), LAM)
    assert found.certified and found.primal == pytest.approx(2 * plain.primal, rel=2e-4)


def test_a_base_without_passes_does_not_count_as_overridden():
    """Neither an abstract one nor the average over single cuts; both forms are the user's."""

    inner = MulticlassProblem(X, Y, 3)

    class Blocks(Problem):
        n_blocks, n_features = inner.n_blocks, inner.n_features

        def cut(self, block, weights):
            return inner.cut(block, weights)

    class Quick(Blocks):
        def mean_cut(self, weights):
            return inner.mean_cut(weights)

    for solver in (BCFW(steps="pairwise"), OneSlackCuttingPlane()):
        assert solver.solve(Quick(), LAM).certified
    shards = ShardedMean.classes(LocalEngine([ShardOf(rows, "classes") for rows in split_rows(X, Y, 2)]))
    assert BCFW(steps="pairwise").solve(shards, LAM).certified


@pytest.mark.parametrize("base", [ClassStructure, ChainStructure, LabelSetStructure])
def test_a_loss_that_the_decoder_ignores_is_refused(base):
    class Costly(base):
        def loss(self, truth, y):
            return 5 * super().loss(truth, y)

    with pytest.raises(
        TypeError, match=r"Costly\.loss is overridden, but decode is that of .*Structure and ignores it; override"
    ):
        StructuredProblem(Costly(3, 3), list(X), list(Y), "slack")


def test_problems_of_hierarchies_refuse_overrides_that_they_ignore():
    class Mine(HierarchyStructure):
        def loss(self, truth, y):
            return 2 * super().loss(truth, y)

        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return super().decode(x, weights, truth, a, 2 * b)

    hierarchy = Hierarchy.of({"b": "a", "c": "a"})
    mine = Mine(hierarchy, X.shape[1], NodeWeights().of(hierarchy))
    with pytest.raises(TypeError, match=r"HierarchyProblem does not call Mine\.(loss|decode); use StructuredProblem"):
        HierarchyProblem(mine, X, Y % 2)
    found = OneSlackCuttingPlane().solve(StructuredProblem(mine, list(X), list(Y % 2)), LAM)
    plain = HierarchyStructure(hierarchy, X.shape[1], NodeWeights().of(hierarchy))
    assert found.certified and found.primal > OneSlackCuttingPlane().solve(HierarchyProblem(plain, X, Y % 2), LAM).primal
