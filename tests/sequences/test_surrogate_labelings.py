"""The compiled search for the most violating labeling under a surrogate, against all labelings."""

import itertools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.cases.reference_programs import tangent_program

from maxmargin import ChainSVM, MulticlassSVM, TreeSVM
from maxmargin.core.solvers import BCFW, FrankWolfe, NSlackCuttingPlane, OneSlackCuttingPlane
from maxmargin.multiclass import SurrogateMulticlassProblem
from maxmargin.sequences import SurrogateTreeProblem, Tree, TreeProblem
from maxmargin.surrogates import BetaScaling, GeneralizedScaling, LogLoss, Margin, MicroF1, ProbLoss, Slack, Surrogate

K, P = 3, 2
SURROGATES = [Slack(), BetaScaling(0.25), GeneralizedScaling(1.2, 0.6), LogLoss(), ProbLoss(), ProbLoss(tau=0.3), MicroF1()]
LENGTHS = (1, 4, 5, 3)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
# A chain of one, a star with a tail, two trees in one block, a chain.
PARENTS = np.array([-1, -1, 0, 0, 2, -1, 0, -1, 2, 2, -1, 0, 1])


def data(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(OFFSETS[-1], P)), rng.integers(0, K, OFFSETS[-1])


def problem_of(surrogate, trees=False, normalize=True, seed=0):
    X, y = data(seed)
    outside = 0 if isinstance(surrogate, MicroF1) else None
    parent = PARENTS if trees else None
    return SurrogateTreeProblem(X, y, OFFSETS, parent, K, surrogate=surrogate, normalize=normalize, outside=outside)


def every_cut(problem, block, surrogate, weights, normalize):
    """Of all labelings of a block: psi's value at the weights, and the tangent cut (feature difference, loss) of each."""
    rows, (children, parents) = problem.forests.rows(block), problem.forests.edges(block)
    truth, L = problem.y[rows], LENGTHS[block]
    roots, leaves = problem.forests.is_root[rows], problem.forests.is_leaf[rows]

    def feature(labels):
        emission, pairs = np.zeros((K, P)), np.zeros((K, K))
        np.add.at(emission, labels, problem.X[rows])
        np.add.at(pairs, (labels[parents], labels[children]), 1)
        ends = [np.bincount(labels[which], minlength=K) for which in (roots, leaves)]
        return np.concatenate([emission.ravel(), *ends, pairs.ravel()])

    own = feature(truth)
    for labels in map(np.array, itertools.product(range(K), repeat=L)):
        wrong = labels != truth
        if not wrong.any():
            continue
        psi = own - feature(labels)
        h = -float(psi @ weights)
        if isinstance(surrogate, MicroF1):
            # The table of spec 11.3: two entries that differ are two errors.
            errors = sum(2 if a and b else 1 for a, b in zip(truth[wrong], labels[wrong], strict=True))
            size = np.count_nonzero(labels) + np.count_nonzero(truth)
            yield (errors + h) / size, psi / size, errors / size
        else:
            g = wrong.sum() / (L if normalize else 1)
            value, a = float(surrogate.value(h, g)), float(surrogate.gradient(h, g)[0])
            yield value, a * psi, value - a * h


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("surrogate", [*SURROGATES, Margin()], ids=str)
def test_cuts_are_those_of_the_best_of_all_labelings(surrogate, trees, normalize):
    problem = problem_of(surrogate, trees, normalize)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.1, 0.5, 2.0, 8.0):
        weights = scale * rng.normal(size=problem.n_features)
        cuts = problem.cuts(range(len(LENGTHS)), weights)
        best = [max(0.0, *(v for v, _, _ in every_cut(problem, b, surrogate, weights, normalize))) for b in range(len(LENGTHS))]
        np.testing.assert_allclose([cut.hinge(weights) for cut in cuts], best, atol=1e-9)
        np.testing.assert_allclose([cut.bound for cut in cuts], best, atol=1e-9)
        mean = problem.mean_cut(weights)
        np.testing.assert_allclose(mean.psi, np.mean([cut.psi for cut in cuts], axis=0), atol=1e-12)
        assert mean.hinge(weights) == pytest.approx(np.mean(best))
    assert problem.queries < 12 * 5 * len(LENGTHS)


@pytest.mark.parametrize("surrogate", [Slack(search="hull"), BetaScaling(0.5, search="hull"), ProbLoss(search="hull")], ids=str)
def test_the_hull_alone_bounds_what_it_misses(surrogate):
    problem = problem_of(surrogate)
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(40):
        weights = rng.normal(size=problem.n_features)
        for block, cut in enumerate(problem.cuts(range(len(LENGTHS)), weights)):
            best = max(0.0, *(v for v, _, _ in every_cut(problem, block, surrogate, weights, True)))
            assert cut.hinge(weights) - 1e-9 <= best <= cut.bound + 1e-9
            missed += cut.bound > best + 1e-6
    # Or this test would not see whether bounds are there.
    assert missed > 0
    solution = BCFW(steps="pairwise", cache=10).solve(problem, 0.1)
    assert solution.certified and solution.converged and solution.certificate.oracle_gap > 0
    exact = BCFW(steps="pairwise", cache=10).solve(
        problem_of(BetaScaling(0.5) if isinstance(surrogate, BetaScaling) else type(surrogate)()), 0.1
    )
    assert solution.dual <= exact.primal + 1e-9 and exact.dual <= solution.primal + 1e-9


def explicit_optimum(problem, surrogate, normalize, lam):
    """A proved optimum of the convex problem with every cut of every block: the hinge is the largest psi of all labelings."""

    def tangents(weights):
        blocks = []
        for block in range(len(LENGTHS)):
            _, psi, loss = zip(*every_cut(problem, block, surrogate, weights, normalize), strict=True)
            # No hinge is below zero.
            blocks.append((np.array([np.zeros(problem.n_features), *psi]), np.array([0.0, *loss])))
        return blocks

    return tangent_program(tangents, problem.n_features, np.full(len(LENGTHS), 1 / len(LENGTHS)), lam)


SOLVERS = [
    BCFW(tol=1e-3, steps="pairwise", cache=20),
    BCFW(tol=1e-3, steps="all"),
    BCFW(tol=1e-3, steps="away", sampling="uniform"),
    NSlackCuttingPlane(tol=1e-3),
    OneSlackCuttingPlane(tol=1e-3),
]


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("surrogate", SURROGATES, ids=str)
def test_all_solvers_reach_the_optimum(surrogate, trees):
    lam = 0.5
    problem = problem_of(surrogate, trees, normalize=False)
    found = [solver.solve(problem, lam) for solver in SOLVERS]
    assert all(solution.certified and solution.converged for solution in found)
    assert max(solution.dual for solution in found) <= min(solution.primal for solution in found) + 1e-9
    np.testing.assert_allclose([solution.primal for solution in found], found[0].primal, rtol=2e-3)
    best = explicit_optimum(problem, surrogate, False, lam)
    assert max(solution.dual for solution in found) <= best.value + 1e-9
    assert min(solution.primal for solution in found) >= best.bound - 1e-9


@pytest.mark.parametrize("surrogate", [Slack(), LogLoss(), MicroF1()], ids=str)
def test_plain_steps_and_batch_steps(surrogate):
    problem = problem_of(surrogate, normalize=False)
    reference = OneSlackCuttingPlane(tol=1e-6).solve(problem, 1.0)
    for solver in (
        BCFW(steps="fw", tol=1e-2, max_passes=3000),
        BCFW(steps="fw", tol=1e-2, hybrid=True, max_passes=3000),
        FrankWolfe(tol=3e-2, max_passes=3000),
    ):
        solution = solver.solve(problem, 1.0)
        assert solution.certified
        assert solution.dual <= reference.primal + 1e-9 and solution.primal >= reference.dual - 1e-9
        assert solution.converged


def test_weights_within_bounds_and_warm_starts():
    problem = problem_of(Slack(), normalize=False)
    solver = BCFW(tol=1e-5, steps="pairwise", cache=10)
    bounds = (-0.1, 0.2)
    one, other = (s.solve(problem, 0.2, bounds=bounds) for s in (solver, OneSlackCuttingPlane(tol=1e-5)))
    assert one.primal == pytest.approx(other.primal, rel=1e-4) and one.weights.max() <= 0.2
    start = solver.solve(problem, 0.4)
    warm = solver.solve(problem, 0.2, start=start)
    assert warm.primal == pytest.approx(solver.solve(problem, 0.2).primal, rel=1e-4) and warm.certified


def test_beta_zero_is_margin_rescaling():
    X, y = data()
    own = SurrogateTreeProblem(X, y, OFFSETS, None, K, surrogate=BetaScaling(0.0))
    margin = TreeProblem(X, y, OFFSETS, None, K)
    solver = BCFW(steps="pairwise", cache=20, tol=1e-6)
    assert solver.solve(own, 0.05).primal == pytest.approx(solver.solve(margin, 0.05).primal, rel=1e-5)


def test_problems_know_each_other_and_can_be_pickled():
    one, same, other = problem_of(Slack()), problem_of(Slack()), problem_of(BetaScaling(0.5))
    assert one.same_as(same) and not one.same_as(other)
    again = pickle.loads(pickle.dumps(one))
    weights = np.random.default_rng(0).normal(size=one.n_features)
    assert again.mean_cut(weights).hinge(weights) == pytest.approx(one.mean_cut(weights).hinge(weights))


def test_a_single_label_and_an_empty_set():
    X = np.ones((3, 1))
    problem = SurrogateTreeProblem(X, [0, 0, 0], [0, 3], None, 1, surrogate=Slack())
    assert problem.mean_cut(np.ones(4)).loss == 0
    # Nothing is there, and predicting anything has an F1 of zero.
    problem = SurrogateTreeProblem(X, [0, 0, 0], [0, 3], None, 2, surrogate=MicroF1(), outside=0)
    assert problem.mean_cut(np.zeros(problem.n_features)).loss == pytest.approx(1.0)


def test_long_chains_against_the_frontier_of_counts():
    """The best labeling for every number of wrong labels, written out for chains, is exact for any surrogate (spec 7.4)."""
    rng = np.random.default_rng(5)
    L, labels = 40, 4
    X, y = rng.normal(size=(L, 3)), rng.integers(0, labels, L)
    for surrogate in (Slack(), BetaScaling(0.5), ProbLoss()):
        problem = SurrogateTreeProblem(X, y, [0, L], None, labels, surrogate=surrogate, normalize=False)
        for _ in range(5):
            weights = rng.normal(size=problem.n_features)
            parts = problem._parts(weights)
            scores = X @ parts.emission.T
            scores[0] += parts.root
            scores[-1] += parts.leaf
            truth = scores[np.arange(L), y].sum() + parts.transition[y[:-1], y[1:]].sum()
            best = np.full((L + 1, labels), -np.inf)
            for k in range(labels):
                best[int(k != y[0]), k] = scores[0, k]
            for t in range(1, L):
                moved = (best[:, :, None] + parts.transition[None]).max(axis=1)
                best = np.full_like(best, -np.inf)
                for k in range(labels):
                    wrong = int(k != y[t])
                    best[wrong:, k] = moved[: L + 1 - wrong, k] + scores[t, k]
            frontier = best.max(axis=1)[1:] - truth
            expected = max(0.0, float(np.max(surrogate.value(frontier, np.arange(1.0, L + 1)))))
            cut = problem.cut(0, weights)
            assert cut.hinge(weights) == pytest.approx(expected) and cut.bound == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"surrogate": MicroF1()}, "outside=None must be the label"),
        ({"surrogate": ProbLoss(convex=False)}, "no compiled form"),
        ({"surrogate": Slack(search="bisect")}, "no compiled form"),
    ],
)
def test_what_has_no_compiled_form_is_told(settings, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        SurrogateTreeProblem(X, y, OFFSETS, None, K, **settings)


# ---- classes


COSTS = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 0.5], [3.0, 1.0, 0.0]])


@pytest.mark.parametrize("surrogate", [s for s in SURROGATES if not isinstance(s, MicroF1)], ids=str)
def test_classes_look_at_all_labels(surrogate):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    sample_weight = rng.uniform(0.5, 2.0, 30)
    problem = SurrogateMulticlassProblem(X, y, 3, COSTS, sample_weight, surrogate=surrogate)
    for scale in (0.1, 1.0, 5.0):
        W = scale * rng.normal(size=(3, 4))
        expected = []
        for x, truth, weight in zip(X, y, sample_weight, strict=True):
            values = [float(surrogate.value(float((W[k] - W[truth]) @ x), COSTS[truth, k])) for k in range(3) if k != truth]
            expected.append(weight * max(0.0, *values))
        cuts = problem.cuts(range(30), W.ravel())
        np.testing.assert_allclose([cut.hinge(W.ravel()) for cut in cuts], expected, atol=1e-9)
        mean = problem.mean_cut(W.ravel())
        assert mean.hinge(W.ravel()) == pytest.approx(np.mean(expected))
        np.testing.assert_allclose(mean.psi, np.mean([cut.psi for cut in cuts], axis=0), atol=1e-12)
    found = [s.solve(problem, 0.1) for s in (BCFW(tol=1e-4, steps="pairwise", cache=20), OneSlackCuttingPlane(tol=1e-4))]
    assert all(solution.certified and solution.converged for solution in found)
    assert found[0].primal == pytest.approx(found[1].primal, rel=3e-4)
    assert (problem.block_data is not None) == (surrogate.affine(1.0) is not None)


def test_classes_with_costs_of_zero_and_one_have_one_surrogate():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    fits = [MulticlassSVM(C=0.5, surrogate=name, tol=1e-6).fit(X, y) for name in ("margin", "slack", BetaScaling(0.3))]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, atol=1e-2)
        assert fit.primal_objective_ == pytest.approx(fits[0].primal_objective_, rel=1e-5)


# ---- estimators


def sequences(n=30, seed=3):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(2, 8, n):
        states = np.where(np.cumsum(rng.random(length) < 0.4) % 2, "B", "O")
        X.append(np.column_stack([(states == "B") + 0.5 * rng.normal(size=length), np.ones(length)]))
        y.append(states)
    return X, y


@pytest.mark.parametrize("name", ["slack", "beta", "log", "prob", "micro_f1"])
def test_chains_and_trees_take_a_surrogate(name):
    X, y = sequences()
    model = ChainSVM(C=1.0, surrogate=name).fit(X, y)
    trees = TreeSVM(C=1.0, surrogate=name).fit([Tree(x, np.arange(-1, len(x) - 1)) for x in X], y)
    assert model.certified_ and model.certified_objective_ == "exact" and model.n_queries_ > 0
    assert model.score(X, y) > 0.75
    assert trees.primal_objective_ == pytest.approx(model.primal_objective_, rel=3e-3)


def test_sample_weights_repeat_sequences():
    X, y = sequences(12)
    weights = np.arange(12) % 3
    twice = [k for k, weight in enumerate(weights) for _ in range(weight)]
    weighted = ChainSVM(surrogate="slack", tol=1e-5).fit(X, y, sample_weight=weights)
    repeated = ChainSVM(surrogate="slack", tol=1e-5).fit([X[k] for k in twice], [y[k] for k in twice])
    assert weighted.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=1e-4)


def test_the_surrogate_bounds_the_loss_of_what_is_predicted():
    X, y = sequences()
    for name in ("slack", "beta", "prob", "micro_f1"):
        model = ChainSVM(C=0.1, surrogate=name).fit(X, y)
        hinges = model.primal_objective_ - 0.5 * np.sum(
            [np.sum(getattr(model, part) ** 2) for part in ("coef_", "intercept_", "first_", "last_", "transition_")]
        )
        assert hinges / 0.1 >= sum(np.mean(a != b) for a, b in zip(model.predict(X), y, strict=True)) or name == "micro_f1"


class Own(Surrogate):
    """Half way between margin and slack rescaling, without a compiled form."""

    def value(self, h, g):
        return g + h * np.sqrt(g)

    def gradient(self, h, g):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(g) + 0 * h, 1 + 0.5 * h / np.sqrt(g)

    def affine(self, g):
        return np.sqrt(g), g


def test_errors_name_the_remedy():
    X, y = sequences()
    with pytest.raises(ValueError, match="outside='nothing' is no label of y"):
        ChainSVM(surrogate="micro_f1", outside="nothing").fit(X, y)
    with pytest.raises(ValueError, match="use solver='subgradient'"):
        ChainSVM(surrogate=ProbLoss(convex=False)).fit(X, y)
    with pytest.raises(ValueError, match="surrogate='hinge' is unknown"):
        ChainSVM(surrogate="hinge").fit(X, y)
    with pytest.raises(ValueError, match="a surrogate of sets"):
        MulticlassSVM(surrogate="micro_f1").fit(np.eye(3), [0, 1, 2])


def test_slack_on_words_costs_no_more_than_queries_allow():
    root = Path(os.environ.get("MAXMARGIN_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = root / "ocr_letters" / "ocr_letters.npz"
    if not path.exists():
        pytest.skip("ocr_letters is not in MAXMARGIN_DATA")
    with np.load(path) as data:
        offsets = data["offsets"][:201].astype(np.int64)
        X = np.unpackbits(data["pixels_packed"], axis=1)[: offsets[-1]].astype(np.float64)
        y = data["labels"][: offsets[-1]].astype(np.int64)
    problem = SurrogateTreeProblem(X, y, offsets, None, 26, surrogate=Slack())
    solution = BCFW(steps="pairwise", cache=20, tol=1e-2).solve(problem, 0.01)
    assert solution.certified and solution.converged and solution.certificate.objective == "exact"
    assert problem.queries / (solution.passes * problem.n_blocks) < 3
