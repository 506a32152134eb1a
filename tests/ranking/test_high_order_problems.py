"""HOB-SVM and HOAP-SVM as problems, against the enumeration of labelings and rankings (spec 14, items 13 and 14)."""

import itertools
import pickle

import numpy as np
import pytest
from tests.cases.latent_cases import all_orders
from tests.cases.reference_programs import MarginProgram

from maxmargin.core import Cut
from maxmargin.core.solvers import BCFW, KnownCuts, OneSlackCuttingPlane
from maxmargin.ranking import AveragePrecision, HighOrderBinaryProblem, HighOrderRankingProblem, LinkedSamples, RankingProblem


def linked(rng, sizes=(3, 2, 1), d=3, q=2, density=0.8):
    """Groups of samples; relevant ones among them, features, edges and features of edges."""
    n = sum(sizes)
    relevant = np.zeros(n, dtype=bool)
    relevant[rng.permutation(n)[: max(1, n // 3)]] = True
    starts = np.cumsum([0, *sizes])
    edges = [
        pair
        for begin, end in itertools.pairwise(starts)
        for pair in itertools.combinations(range(begin, end), 2)
        if rng.random() < density
    ]
    edges = rng.permutation(np.array(edges, dtype=np.int32).reshape(-1, 2))
    # Not in the order of the components.
    names = rng.permutation(n).astype(np.int32)
    X = rng.normal(size=(n, d)) + 0.7 * relevant[:, None]
    return X, relevant, names[edges].reshape(-1, 2), rng.random((len(edges), q))


def random_weights(rng, d=3, q=2):
    return np.concatenate([rng.normal(size=d), -rng.exponential(size=q)])


def joint_feature(y, X, edges, edge_features):
    """The thesis' feature with two blocks of node weights, spec 8.1."""
    y = np.asarray(y)
    differ = y[edges[:, 0]] != y[edges[:, 1]]
    return np.concatenate([X[y == 1].sum(axis=0), X[y == 0].sum(axis=0), edge_features[differ].sum(axis=0)])


def published(weights, d=3):
    """The weights of both labels for ours: of all pairs with the same difference the shortest."""
    half = weights[:d] / np.sqrt(2)
    return np.concatenate([half, -half, weights[d:]])


def labelings(n):
    return np.array(list(itertools.product((0, 1), repeat=n)))


def max_marginals(w, X, edges, edge_features):
    """(n, 2), by enumeration."""
    every = labelings(len(X))
    scores = np.array([w @ joint_feature(y, X, edges, edge_features) for y in every])
    return np.array([[scores[every[:, i] == label].max() for label in (0, 1)] for i in range(len(X))])


# ---- HOB-SVM ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_binary_hinge_equals_enumeration(seed, balanced):
    rng = np.random.default_rng(seed)
    X, relevant, edges, features = linked(rng)
    problem = HighOrderBinaryProblem(LinkedSamples(X, relevant, edges, features), balanced)
    weights = random_weights(rng)
    w, truth = published(weights), relevant.astype(int)
    n_pos, n_neg = relevant.sum(), (~relevant).sum()
    if balanced:
        # Features times what the labels of samples cost, and of edges the mean of both ends'.
        share = np.where(relevant, 0.5 / n_pos, 0.5 / n_neg)
        X, features = share[:, None] * X, np.array([np.sqrt(share[a] * share[b]) for a, b in edges])[:, None] * features
    values = [
        0.5 * ((y[relevant] == 0).sum() / n_pos + (y[~relevant] == 1).sum() / n_neg)
        + w @ (joint_feature(y, X, edges, features) - joint_feature(truth, X, edges, features))
        for y in labelings(len(X))
    ]
    assert 0.5 * w @ w == pytest.approx(0.5 * weights @ weights)
    cut = problem.mean_cut(weights)
    assert problem.n_blocks * cut.hinge(weights) == pytest.approx(max(values))
    # The blocks add up to it, and the cut holds elsewhere.
    parts = [problem.cut(block, weights) for block in range(problem.n_blocks)]
    assert sum(part.hinge(weights) for part in parts) == pytest.approx(max(values))
    np.testing.assert_allclose(sum(part.psi for part in parts), problem.n_blocks * cut.psi, atol=1e-12)
    other = random_weights(rng)
    assert cut.hinge(other) <= problem.mean_cut(other).hinge(other) + 1e-12
    found = problem.tangent(problem.scores(weights))
    assert found.hinge == pytest.approx(cut.hinge(weights)) and found.loss == cut.loss


def test_one_slack_equals_block_steps_and_weights_keep_their_sign():
    rng = np.random.default_rng(1)
    X, relevant, edges, features = linked(rng, sizes=(3, 4, 2, 1, 3, 4, 2, 5, 1, 14))
    problem = HighOrderBinaryProblem(LinkedSamples(X, relevant, edges, features))
    lam = 1.0 / problem.n_blocks
    found = [
        solver.solve(problem, lam, bounds=problem.bounds)
        for solver in (OneSlackCuttingPlane(tol=1e-5), BCFW(tol=1e-3, max_passes=5000))
    ]
    for solution in found:
        assert solution.certified and solution.converged and (solution.weights[3:] <= 0).all()
    for one, other in (found, found[::-1]):
        assert one.dual <= other.primal * (1 + 1e-9)
    assert found[0].primal == pytest.approx(found[1].primal, rel=1e-3)
    again = pickle.loads(pickle.dumps(problem))
    assert again.same_as(problem)


@pytest.mark.parametrize("balanced", [True, False])
def test_without_edges_it_is_the_balanced_hinge(balanced):
    rng = np.random.default_rng(2)
    X, relevant, _, _ = linked(rng, sizes=(1,) * 12)
    nothing = np.zeros((0, 2), dtype=np.int32), np.zeros((0, 2))
    problem = HighOrderBinaryProblem(LinkedSamples(X, relevant, *nothing), balanced)
    margin = np.where(relevant, 0.5 / relevant.sum(), 0.5 / (~relevant).sum())
    sign = np.where(relevant, 1, -1)

    def objective(u):
        return 0.25 * u @ u + 3.0 * np.maximum(0, margin - sign * (X @ u) * (margin if balanced else 1)).sum()

    found = OneSlackCuttingPlane(tol=1e-7).solve(problem, 1 / (3.0 * problem.n_blocks), bounds=problem.bounds)
    u = np.sqrt(2) * found.weights[:3]
    primal = 3.0 * problem.n_blocks * found.primal
    assert primal == pytest.approx(objective(u), rel=1e-9) and not found.weights[3:].any()
    rows = (sign * (margin if balanced else 1))[:, None] * X
    blocks = [(np.array([0 * row, row]), np.array([0.0, one])) for row, one in zip(rows, margin, strict=True)]
    best = MarginProgram(blocks, np.full(12, 3.0)).optimum(0.5, tol=1e-10)
    assert objective(best.x) == pytest.approx(best.value, rel=1e-12)
    # The solver's tolerance.
    assert best.bound * (1 - 1e-10) <= primal <= best.value * (1 + 2e-7)


def test_rounding_makes_no_reward_of_a_penalty():
    rng = np.random.default_rng(3)
    X, relevant, edges, features = linked(rng)
    problem = HighOrderBinaryProblem(LinkedSamples(X, relevant, edges, features))
    scores = problem.scores(random_weights(rng))
    scores[len(X) :] = 1e-17
    assert not problem.samples.split(scores)[1].any()
    without = np.concatenate([scores[: len(X)], np.zeros(len(edges))])
    assert problem.tangent(scores).hinge == pytest.approx(problem.tangent(without).hinge)


# ---- HOAP-SVM -----------------------------------------------------------------------------------------------------------------


def by_enumeration(w, X, relevant, edges, features):
    """Every ranking's loss and value in the hinge that is not convex, by the definition over pairs; its counts."""
    marginals = max_marginals(w, X, edges, features)
    s = marginals[:, 1] - marginals[:, 0]
    pairs = relevant.sum() * (~relevant).sum()
    for loss, wrong, position in all_orders(relevant):
        change = sum(
            -2 * (s[i] - s[j]) for i in np.flatnonzero(relevant) for j in np.flatnonzero(~relevant) if position[j] < position[i]
        )
        yield loss, loss + change / pairs, 2 * wrong, marginals


def problem_of(data, decomposition="component"):
    return HighOrderRankingProblem(LinkedSamples(*data), AveragePrecision(), decomposition)


@pytest.mark.parametrize("seed", range(8))
def test_ranking_hinge_and_its_two_convex_parts(seed):
    rng = np.random.default_rng(seed)
    X, relevant, edges, features = data = linked(rng)
    weights = random_weights(rng)
    w = published(weights)
    pairs = relevant.sum() * (~relevant).sum()
    best = -np.inf
    for loss, value, counts, marginals in by_enumeration(w, *data):
        # f - g: what the wrong labels could have minus what the true ones have.
        wrong, true = marginals[np.arange(len(X)), 1 - relevant], marginals[np.arange(len(X)), 1 * relevant]
        assert value - loss == pytest.approx(counts @ (wrong - true) / pairs, abs=1e-9)
        best = max(best, value)
    for decomposition in ("component", "global"):
        problem = problem_of(data, decomposition)
        assert problem.ranking_hinge(weights) == pytest.approx(best)
        # Imputed here, the convex hinge touches it; imputed elsewhere, it lies above.
        problem.impute(weights)
        assert problem.hinge(weights) == pytest.approx(best)
        for _ in range(5):
            problem.impute(random_weights(rng))
            assert problem.hinge(weights) >= best - 1e-9
    # Bounds the loss of the ranking by max-marginals.
    marginals = max_marginals(w, X, edges, features)
    order = np.argsort(marginals[:, 0] - marginals[:, 1], kind="stable")
    hits = relevant[order]
    loss = 1 - np.mean([hits[: k + 1].mean() for k in np.flatnonzero(hits)])
    assert best >= loss - 1e-12
    margins = np.empty(len(X))
    samples = problem.samples
    margins[samples.parts.order] = samples.margins(weights)
    np.testing.assert_allclose(margins, marginals[:, 1] - marginals[:, 0], atol=1e-9)


@pytest.mark.parametrize("decomposition", ["component", "global"])
@pytest.mark.parametrize("seed", range(6))
def test_convex_hinge_equals_enumeration_and_cuts_are_valid_and_tight(seed, decomposition):
    rng = np.random.default_rng(seed)
    X, relevant, edges, features = data = linked(rng)
    problem = problem_of(data, decomposition)
    at, here = random_weights(rng), random_weights(rng)
    problem.impute(at)
    every = labelings(len(X))
    n, pairs = len(X), relevant.sum() * (~relevant).sum()
    if decomposition == "component":
        # Only the own component has a say: the others are left out of the graph.
        reach = np.eye(n, dtype=bool)
        for a, b in edges:
            reach[a, b] = reach[b, a] = True
        for _ in range(n):
            reach = reach @ reach
    else:
        reach = np.ones((n, n), dtype=bool)

    def best_labeling(w, i, label):
        allowed = [y for y in every if y[i] == label and not y[~reach[i]].any()]
        return max(allowed, key=lambda y: own_score(w, y, i))

    def own_score(w, y, i):
        inside = reach[i][edges[:, 0]]
        return w @ joint_feature(y[reach[i]], X[reach[i]], np.zeros((0, 2), dtype=int), features[:0]) + w[6:] @ (
            features[inside & (y[edges[:, 0]] != y[edges[:, 1]])].sum(axis=0)
        )

    fixed = [best_labeling(published(at), i, int(relevant[i])) for i in range(n)]
    hinges = {}
    for name, weights in (("here", here), ("elsewhere", random_weights(rng))):
        w = published(weights)
        lead = np.array([
            own_score(w, best_labeling(w, i, 1 - int(relevant[i])), i) - own_score(w, fixed[i], i) for i in range(n)
        ])  # fmt: skip
        hinges[name] = weights, max(loss + 2 * wrong @ lead / pairs for loss, wrong, _ in all_orders(relevant))
    cut = problem.mean_cut(here)
    assert cut.hinge(here) == pytest.approx(hinges["here"][1])
    assert cut.hinge(hinges["elsewhere"][0]) <= hinges["elsewhere"][1] + 1e-9
    # Cuts outlive their imputation.
    problem.impute(random_weights(rng))
    known = problem.known_cuts()
    assert known and all(isinstance(cut, Cut) for cut in known)
    for _ in range(10):
        weights = random_weights(rng)
        hinge = problem.hinge(weights)
        assert all(cut.hinge(weights) <= hinge + 1e-9 for cut in known)


def test_rounds_never_raise_the_objective():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = linked(rng, sizes=(4, 3, 2, 4, 1, 3, 4, 15))
        for decomposition in ("component", "global"):
            problem, C = problem_of(data, decomposition), 10.0
            weights = random_weights(rng)
            objectives = []
            for _ in range(6):
                problem.impute(weights)
                objectives.append(0.5 * weights @ weights + C * problem.ranking_hinge(weights))
                found = OneSlackCuttingPlane(tol=1e-3).solve(
                    problem, 1 / C, bounds=problem.bounds, start=KnownCuts(problem.known_cuts(), weights)
                )
                assert found.certified and (found.weights[3:] <= 0).all()
                # The convex problem lies above.
                assert C * found.primal >= 0.5 * found.weights @ found.weights + C * problem.ranking_hinge(found.weights) - 1e-9
                weights = found.weights
            assert (np.diff(objectives) <= 1e-9).all() and objectives[-1] < objectives[0]


def test_without_edges_one_round_is_the_ranking_svm():
    rng = np.random.default_rng(5)
    X, relevant, _, _ = linked(rng, sizes=(1,) * 14)
    problem = problem_of((X, relevant, np.zeros((0, 2), dtype=np.int32), np.zeros((0, 2))))
    C = 4.0
    found = OneSlackCuttingPlane(tol=1e-6).solve(problem, 1 / C, bounds=problem.bounds)
    # Half the objective with twice the weight: 1/4 ||u||^2 + C J(u) = 1/2 (1/2 ||u||^2 + 2 C J(u)).
    linear = OneSlackCuttingPlane(tol=1e-6).solve(RankingProblem(X, relevant, AveragePrecision()), 1 / (2 * C))
    assert C * found.primal == pytest.approx(0.5 * 2 * C * linear.primal, rel=1e-5)
    np.testing.assert_allclose(np.sqrt(2) * found.weights[:3], linear.weights, atol=1e-2)


def test_a_larger_share_of_pairs_changes_scores_continuously():
    rng = np.random.default_rng(6)
    X, relevant, edges, features = linked(rng)
    weights = random_weights(rng)
    alone = np.sqrt(2) * X @ weights[:3]
    differences = []
    for eta in (1.0, 1e-1, 1e-3):
        samples = LinkedSamples(X, relevant, edges, eta * features)
        differences.append(np.abs(samples.margins(weights) - alone[samples.parts.order]).max())
    assert differences[0] > differences[1] > differences[2] and differences[2] < 1e-2


def test_imputation_says_whether_labelings_changed():
    """A single sample has its true label, whatever is best; in the global form the others see what that is."""
    X, relevant = np.array([[1.0], [-1.0], [2.0]]), np.array([True, False, False])
    data = X, relevant, np.array([(1, 2)], dtype=np.int32), np.ones((1, 1))
    up, stronger, turned = np.array([1.0, 0.0]), np.array([3.0, 0.0]), np.array([-1.0, 0.0])
    for decomposition in ("component", "global"):
        problem = problem_of(data, decomposition)
        problem.impute(up)
        assert not problem.impute(up) and not problem.impute(stronger) and problem.impute(turned)
    alone = X, relevant, np.zeros((0, 2), dtype=np.int32), np.zeros((0, 1))
    for decomposition, changed in (("component", False), ("global", True)):
        problem = problem_of(alone, decomposition)
        problem.impute(up)
        assert problem.impute(turned) is changed
