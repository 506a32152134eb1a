"""Sets of labels: the best ones, the most violating ones and trained models, against lists of all sets."""

import dataclasses
import pickle
from copy import copy
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import _enforce_estimator_tags_y, parametrize_with_checks
from tests.cases.reference_programs import tangent_program

import maxmargin.multilabel.label_set_search as label_set_search
from maxmargin import MultilabelSVM, load_model, save_model
from maxmargin.core import Decoded
from maxmargin.core.solvers import BCFW, ConvergenceWarning
from maxmargin.multilabel import LabelPairs, LabelSetStructure, MultilabelProblem
from maxmargin.multilabel.inference import all_sets
from maxmargin.multilabel.label_set_search import SetSearch
from maxmargin.multilabel.svm import dependence_tree
from maxmargin.surrogates import BetaScaling, GeneralizedScaling, LogLoss, Margin, MicroF1, ProbLoss, Slack, StructuredProblem

SURROGATES = (Margin(), Slack(), BetaScaling(0.5), GeneralizedScaling(1.5, 1.0), LogLoss(), ProbLoss(), MicroF1())


def pairs_of(kind, L, rng):
    everything = list(combinations(range(L), 2))
    return {
        "none": [],
        "tree": [(int(rng.integers(k)), k) for k in range(1, L) if rng.random() < 0.8],
        "some": [pair for pair in everything if rng.random() < 0.5],
    }.get(kind, everything)


def scores_of(kind, n, rng, whole):
    scores = 2 * rng.normal(size=n)
    scores = np.rint(scores) if whole else scores
    return np.abs(scores) if kind == "attractive" else scores


def hinges(surrogate, pairs, S, P, Y):
    """The largest psi over all sets, by definition."""
    sets, found = all_sets(pairs.n_labels), []
    for scores, truth in zip(S, Y, strict=True):
        error = pairs.scores(sets, scores, P) - pairs.scores(truth[None], scores[None], P)
        wrong = np.abs(sets - truth).sum(axis=1)
        other = wrong > 0
        if isinstance(surrogate, MicroF1):
            values = (wrong + error)[other] / (sets.sum(axis=1) + truth.sum())[other]
        else:
            values = surrogate.value(error[other], wrong[other])
        found.append(max(0.0, values.max()))
    return np.array(found)


@pytest.mark.parametrize("kind", ["none", "tree", "some", "full", "attractive"])
@pytest.mark.parametrize("L", [1, 3, 7])
def test_best_sets_relaxations_and_k_best_against_all_sets(kind, L):
    rng = np.random.default_rng(L)
    for trial in range(20):
        model = LabelPairs(L, pairs_of(kind, L, rng))
        S, P = scores_of("", (3, L), rng, trial % 2), scores_of(kind, len(model.pairs), rng, trial % 2)
        values = np.array([model.scores(all_sets(L), own, P) for own in S])
        for by_cuts in (False, True):
            found = model.best(S, P, relaxed_only=by_cuts)
            assert found.upper is None
            np.testing.assert_allclose(model.scores(found.labels, S, P), values.max(axis=1), atol=1e-9)
        relaxed = model.relaxed(S, P)
        assert (relaxed.value >= values.max(axis=1) - 1e-9).all() and np.isin(relaxed.labels, (0, 0.5, 1)).all()
        if kind in ("none", "tree", "attractive"):
            np.testing.assert_allclose(relaxed.value, values.max(axis=1), atol=1e-9)
        ranked = list(model.k_best(S[0], P, 6))
        np.testing.assert_allclose([value for _, value in ranked], np.sort(values[0])[::-1][:6], atol=1e-9)
        assert len({labels.tobytes() for labels, _ in ranked}) == len(ranked) == min(6, 2**L)


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0])
def test_bounds_decide_some_labels_and_branches_the_others(size):
    # Small scores of labels leave everything to pairs, large ones decide for themselves, and some follow from what these decide.
    rng, L = np.random.default_rng(7), 11
    for trial in range(25):
        model = LabelPairs(L, pairs_of("full" if trial % 2 else "some", L, rng))
        S, P = size * rng.normal(size=(4, L)), rng.normal(size=len(model.pairs)) - 0.3 * (trial % 3)
        found = model.best(S, P)
        best = [model.scores(all_sets(L), own, P).max() for own in S]
        np.testing.assert_allclose(model.scores(found.labels, S, P), best, atol=1e-9)
        assert found.upper is None


def test_relaxation_is_that_of_a_linear_program():
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    model = LabelPairs(5, list(combinations(range(5), 2)))
    for _ in range(20):
        S, P = rng.normal(size=5), rng.normal(size=10)
        rows, right = [], []
        for e, (j, k) in enumerate(model.pairs):
            for signs, most in (((-1, 0, 1), 0), ((0, -1, 1), 0), ((1, 1, -1), 1)):
                row = np.zeros(15)
                row[[j, k, 5 + e]] = signs
                rows.append(row)
                right.append(most)
        best = -linprog(-np.concatenate([S, P]), A_ub=np.array(rows), b_ub=right, bounds=(0, 1)).fun
        np.testing.assert_allclose(model.relaxed(S[None], P).value[0], best, atol=1e-9)


def test_many_labels_that_repel_have_a_bound():
    rng = np.random.default_rng(0)
    model = LabelPairs(30, list(combinations(range(30), 2)))
    S, P = rng.normal(size=(4, 30)), rng.normal(size=435)
    found = model.best(S, P)
    assert not model.exact and found.upper is not None
    assert (found.upper >= model.scores(found.labels, S, P)).all()
    np.testing.assert_allclose(found.upper, model.relaxed(S, P).value, rtol=1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda own: type(own).__name__)
def test_most_violating_sets_against_all_sets(surrogate, monkeypatch):
    rng = np.random.default_rng(1)
    n_missed = n = 0
    on_hull = copy(surrogate)
    object.__setattr__(on_hull, "search", "hull")
    for L in (1, 2, 5, 7, 10):
        for kind in ("none", "tree", "full", "attractive"):
            pairs = LabelPairs(L, pairs_of(kind, L, rng))
            for trial in range(4):
                S = rng.choice([0.1, 1.0, 3.0]) * scores_of("", (10, L), rng, trial == 3)
                P, Y = scores_of(kind, len(pairs.pairs), rng, trial == 3), (rng.random((10, L)) < 0.4).astype(np.int8)
                expected = hinges(surrogate, pairs, S, P, Y)
                # Enumerated, sorted, asked once, by the ascent for sizes, or on the hull and then by counting or enumerating.
                found = SetSearch(pairs, surrogate).search(S, P, Y)
                np.testing.assert_allclose(found.value, expected, atol=1e-9)
                assert found.bound is None
                monkeypatch.setattr(label_set_search, "_FEW", 0)
                for search in (SetSearch(pairs, on_hull).search, SetSearch(pairs, surrogate).in_step):
                    found = search(S, P, Y)
                    bound = found.value if found.bound is None else found.bound
                    assert (bound >= expected - 1e-9).all() and (found.value <= expected + 1e-9).all()
                    n_missed, n = n_missed + int((found.value < expected - 1e-9).sum()), n + len(S)
                    if isinstance(surrogate, Margin | MicroF1):
                        np.testing.assert_allclose(found.value, expected, atol=1e-9)
                # The relaxation is worth at least as much, and both ways to search it agree.
                relaxed = [SetSearch(pairs, surrogate, True).search(S, P, Y), SetSearch(pairs, surrogate, True).in_step(S, P, Y)]
                for found in relaxed:
                    assert ((found.value if found.bound is None else found.bound) >= expected - 1e-9).all()
    assert n_missed <= 0.03 * n


@pytest.mark.parametrize("surrogate", [Margin(), Slack(), BetaScaling(0.5)], ids=lambda own: type(own).__name__)
def test_bounds_of_the_relaxation_hold_for_every_solution_of_the_linear_program(surrogate):
    from scipy.optimize import linprog

    rng, L = np.random.default_rng(4), 5
    pairs = LabelPairs(L, list(combinations(range(L), 2)))
    rows, right = [], []
    for e, (j, k) in enumerate(pairs.pairs):
        for signs, most in (((-1, 0, 1), 0), ((0, -1, 1), 0), ((1, 1, -1), 1)):
            row = np.zeros(L + len(pairs.pairs))
            row[[j, k, L + e]] = signs
            rows.append(row)
            right.append(most)
    n_halves = 0
    for _ in range(6):
        S, P, truth = rng.normal(size=L), 2 * rng.normal(size=len(pairs.pairs)), (rng.random(L) < 0.5).astype(np.int8)
        found = SetSearch(pairs, surrogate, True).search(S[None], P, truth[None])
        top = float(found.value[0] if found.bound is None else found.bound[0])
        score, turns = np.concatenate([S, P]), np.concatenate([1.0 - 2.0 * truth, np.zeros(len(P))])
        best = 0.0
        # HiGHS answers questions h + lambda g with vertices of the polytope; none is worth more than the bound.
        for weight in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0):
            solved = linprog(-(score + weight * turns), A_ub=np.array(rows), b_ub=right, bounds=(0, 1)).x
            h, g = score @ solved - pairs.scores(truth, S, P), truth.sum() + turns @ solved
            n_halves += int((np.abs(solved[:L] - np.rint(solved[:L])) > 0.1).any())
            best = max(best, float(surrogate.value(np.array([h]), np.array([g]))[0]) if g > 1e-9 else 0.0)
        assert best <= top + 1e-7
        if isinstance(surrogate, Margin):
            np.testing.assert_allclose(best, top, atol=1e-7)
    assert n_halves > 0


def test_empty_sets_have_an_f1():
    pairs, Y = LabelPairs(2, []), np.zeros((1, 2), dtype=np.int8)
    nothing = SetSearch(pairs, MicroF1()).search(np.full((1, 2), -5.0), np.zeros(0), Y)
    assert nothing.value == 0 and not nothing.labels.any()
    # One label too many is all wrong, and violates by one more than its score.
    np.testing.assert_allclose(SetSearch(pairs, MicroF1()).search(np.array([[0.5, -5.0]]), np.zeros(0), Y).value, 1.5)


@pytest.mark.parametrize("kind", ["none", "full", "attractive"])
@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda own: type(own).__name__)
def test_cuts_are_tangents_and_averages_agree(kind, surrogate):
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(6, 3)), (rng.random((6, 4)) < 0.5).astype(int)
    own = pairs_of(kind, 4, rng)
    for rows in (X, sparse.csr_array(X)):
        problem = MultilabelProblem(rows, Y, own, kind == "attractive", surrogate=surrogate, sample_weight=np.arange(6.0))
        weights, other = rng.normal(size=problem.n_features), rng.normal(size=problem.n_features)
        weights[12:], other[12:] = np.abs(weights[12:]), np.abs(other[12:])
        cuts = problem.cuts(range(6), weights)
        S, P = problem.structure.split(weights)[0], weights[12:]
        expected = np.arange(6.0) * hinges(surrogate, problem.structure.pairs, X @ S.T, P, Y)
        np.testing.assert_allclose([cut.hinge(weights) for cut in cuts], expected, atol=1e-9)
        mean = problem.mean_cut(weights)
        np.testing.assert_allclose(mean.psi, np.mean([cut.dense(problem.n_features) for cut in cuts], axis=0), atol=1e-9)
        np.testing.assert_allclose(mean.hinge(weights), expected.mean(), atol=1e-9)
        # A convex function lies above its tangents.
        if surrogate.convex:
            assert problem.mean_cut(other).hinge(other) >= mean.hinge(other) - 1e-9


def test_structure_answers_the_questions_of_searches():
    rng = np.random.default_rng(3)
    structure = LabelSetStructure(4, 2, list(combinations(range(4), 2)))
    sets = all_sets(4)
    for _ in range(20):
        x, weights, truth = rng.normal(size=2), rng.normal(size=structure.n_weights), rng.integers(0, 2, 4)
        x, truth = structure.encode(x, truth)
        features = np.array([structure.joint_feature(x, y).toarray().ravel() for y in sets])
        scores, losses = features @ weights, np.abs(sets - truth).sum(axis=1)
        np.testing.assert_allclose(losses, [structure.loss(truth, y) for y in sets])
        for a, b, c in ((1.0, 0.0, 0.0), (1.0, 1.0, 0.0), (0.3, 1.0, 0.7), (0.0, 1.0, 0.0)):
            values = a * scores + b * losses - c * sets.sum(axis=1)
            found = structure.decode_sized(x, weights, truth, a, b, c)
            np.testing.assert_allclose(values[(sets == found).all(axis=1)], values.max())
        best = structure.k_best(x, weights, truth, 1.0, 0.5, 5)
        values = scores + 0.5 * losses
        np.testing.assert_allclose([values[(sets == y).all(axis=1)][0] for y in best], np.sort(values)[::-1][:5])
        error = 1.0 + scores - scores[(sets == truth).all(axis=1)]
        for low, high in ((0.0, np.inf), (0.3, 2.0), (1.0, 1.2)):
            inside = (error > 0) & (losses > 0) & (losses >= low * error) & (losses < high * error)
            for limit in (14, 0):
                pytest.MonkeyPatch().setattr("maxmargin.multilabel.structure.MOST_LISTED", limit)
                found = structure.decode_within(x, weights, truth, 0.7, low, high)
                if not inside.any():
                    assert found is None
                else:
                    at = (sets == found).all(axis=1)
                    np.testing.assert_allclose((error + 0.7 * losses)[at], (error + 0.7 * losses)[inside].max(), atol=1e-6)
            pytest.MonkeyPatch().setattr("maxmargin.multilabel.structure.MOST_LISTED", 14)
    assert structure.set_size(np.array([1, 0, 1, 1])) == 3 and len(structure.all_outputs(x)) == 16


def test_structure_bounds_what_it_may_miss():
    rng = np.random.default_rng(4)
    structure = LabelSetStructure(20, 1, list(combinations(range(20), 2)))
    found = structure.decode(np.ones(1), rng.normal(size=structure.n_weights), np.zeros(20), 1.0, 1.0)
    assert isinstance(found, Decoded) and not structure.exact
    assert LabelSetStructure(20, 1, list(combinations(range(20), 2)), attractive=True).exact


def data(n=40, L=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = (X @ rng.normal(size=(3, L)) + 0.5 * rng.normal(size=(n, L)) > 0.3).astype(int)
    Y[:, 1] |= Y[:, 0]
    return X, Y


def test_one_svm_per_label_is_what_pairs_and_slack_are_compared_with():
    X, Y = data()
    model = MultilabelSVM(C=0.5, tol=1e-7, max_iter=5000).fit(X, Y)
    rows = np.column_stack([X, np.ones(len(X))])
    for k in range(Y.shape[1]):
        svm = LinearSVC(C=0.5, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=1_000_000).fit(rows, Y[:, k])
        np.testing.assert_allclose(np.append(model.coef_[k], model.intercept_[k]), svm.coef_.ravel(), atol=5e-3)


@pytest.mark.parametrize("surrogate", [SURROGATES[k] for k in (0, 1, 2, 4, 6)], ids=lambda own: type(own).__name__)
def test_training_against_a_proved_optimum_over_all_sets(surrogate):
    X, Y = data(n=8, L=3)
    pairs, sets = list(combinations(range(3), 2)), all_sets(3)
    model = MultilabelSVM(C=0.7, pairwise="full", surrogate=surrogate, fit_intercept=False, tol=1e-5, max_iter=5000).fit(X, Y)
    structure, labels = LabelSetStructure(3, 3, pairs), LabelPairs(3, pairs)
    weights = np.concatenate([model.coef_.ravel(), model.pair_coef_])

    def objective(w):
        own, P = structure.split(w)
        return 0.5 * w @ w + 0.7 * hinges(surrogate, labels, X @ own.T, P, Y).sum()

    np.testing.assert_allclose(model.primal_objective_, objective(weights), rtol=1e-9)
    assert model.certified_ and model.certified_objective_ == "exact"
    features = np.array([[structure.joint_feature(x, y).toarray().ravel() for y in sets] for x in X])
    own = np.array([row[(sets == truth).all(axis=1)][0] for row, truth in zip(features, Y, strict=True)])

    def tangents(w):
        blocks = []
        for rows, truth in zip(features - own[:, None], Y, strict=True):
            wrong, size = np.abs(sets - truth).sum(axis=1), sets.sum(axis=1) + truth.sum()
            rows, wrong, size = rows[wrong > 0], wrong[wrong > 0], size[wrong > 0]
            error = rows @ w
            if isinstance(surrogate, MicroF1):
                values, slope = (wrong + error) / size, 1 / size
            else:
                values, slope = surrogate.value(error, wrong), np.broadcast_to(surrogate.gradient(error, wrong)[0], len(rows))
            # No hinge is below zero.
            psi = np.vstack([np.zeros_like(w), -slope[:, None] * rows])
            blocks.append((psi, np.append(0.0, values - slope * error)))
        return blocks

    optimum = tangent_program(tangents, 12, np.full(8, 0.7), tol=1e-9)
    assert model.dual_objective_ <= optimum.value * (1 + 1e-10)
    assert optimum.bound * (1 - 1e-10) <= model.primal_objective_ <= optimum.value * (1 + 2e-5)
    assert objective(optimum.x) == pytest.approx(optimum.value, rel=1e-12)
    rng = np.random.default_rng(0)
    assert all(objective(weights + 0.05 * rng.normal(size=12)) >= model.dual_objective_ for _ in range(20))


def test_relaxed_training_bounds_the_objective_of_sets(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(25, 2)), np.eye(5, dtype=int)[rng.integers(0, 5, 25)]
    exact = MultilabelSVM(C=5.0, pairwise="full").fit(X, Y)
    relaxed = MultilabelSVM(C=5.0, pairwise="full", inference="relaxed").fit(X, Y)
    assert relaxed.certified_ and relaxed.certified_objective_ == "relaxed" and exact.certified_objective_ == "exact"
    assert relaxed.primal_objective_ >= exact.dual_objective_
    tree = MultilabelSVM(C=5.0, pairwise="tree", inference="relaxed").fit(X, Y)
    assert tree.certified_objective_ == "exact"


def test_the_general_problem_finds_the_same_hinges():
    X, Y = data(n=6, L=3)
    structure = LabelSetStructure(3, 3, [(0, 1), (1, 2), (0, 2)])
    weights = np.random.default_rng(0).normal(size=structure.n_weights)
    general, fast = StructuredProblem(structure, X, Y), MultilabelProblem(X, Y, [(0, 1), (1, 2), (0, 2)])
    np.testing.assert_allclose(general.mean_cut(weights).hinge(weights), fast.mean_cut(weights).hinge(weights))


@pytest.mark.parametrize("solver", ["one_slack", "n_slack", "bcfw", "fw", "subgradient"])
def test_solvers_agree(solver):
    X, Y = data(n=20)
    reference = MultilabelSVM(C=0.3, pairwise="tree", surrogate="slack", tol=1e-3).fit(X, Y)
    model = MultilabelSVM(C=0.3, pairwise="tree", surrogate="slack", solver=solver, tol=2e-2, max_iter=3000)
    assert abs(model.fit(X, Y).primal_objective_ / reference.primal_objective_ - 1) < 3e-2


def test_sets_are_remembered_unless_labels_decide_for_themselves():
    _, Y = data(n=20)
    # More weights than cutting planes are chosen for.
    X, chosen = np.random.default_rng(0).normal(size=(20, 40)), {}
    for pairwise, surrogate in (("none", "margin"), ("none", "slack"), ("tree", "margin")):
        model = MultilabelSVM(pairwise=pairwise, surrogate=surrogate)
        solver = model._solver(model._prepare(X, Y))
        chosen[pairwise, surrogate] = solver.steps, solver.cache
    assert chosen["none", "margin"] == ("exact", 0)
    assert chosen["none", "slack"] == chosen["tree", "margin"] == ("pairwise", 10)
    # Whoever names a solver gets it.
    model = MultilabelSVM(pairwise="tree", solver=BCFW(steps="fw"))
    assert model._solver(model._prepare(X, Y)).steps == "fw"


def test_large_features_are_told_what_to_change():
    X, Y = data(n=60)
    advice = r"norm of about 1.7e\+03.*StandardScaler\(\), MultilabelSVM.*or use C=4e-7"
    with pytest.warns(ConvergenceWarning, match=advice) as told:
        MultilabelSVM(C=1.0, max_iter=20).fit(1000 * X, Y)
    assert told[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="MaxAbsScaler"):
        MultilabelSVM(C=1.0, max_iter=20).fit(sparse.csr_array(1000 * X), Y)
    # Of features that are not large the usual advice.
    with pytest.warns(ConvergenceWarning, match="scale the features$"):
        MultilabelSVM(C=10.0, max_iter=1).fit(X, Y)


def test_labels_never_or_always_present_empty_sets_and_sparse_input():
    X, Y = data()
    Y[:, 2], Y[:, 3], Y[:5] = 0, 1, 0
    model = MultilabelSVM(C=10.0, pairwise="full").fit(sparse.csr_array(X), sparse.csr_matrix(Y))
    found = model.predict(sparse.csr_array(X))
    assert not found[:, 2].any() and found.shape == Y.shape and model.classes_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(found, model.predict(X))
    assert 0 <= model.score(X, Y) <= 1 and model.decision_function(X).shape == Y.shape
    same = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(same.predict(X), found)


def test_files_hold_pairs_and_ask_for_surrogates_of_ones_own(tmp_path):
    X, Y = data()
    model = MultilabelSVM(pairwise=[(0, 1), (1, 3)], surrogate="slack").fit(X, Y)
    save_model(model, tmp_path / "m")
    same = load_model(tmp_path / "m")
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    assert same.pairs_.tolist() == [[0, 1], [1, 3]] and same.surrogate == "slack"
    save_model(MultilabelSVM(surrogate=BetaScaling(0.25)).fit(X, Y), tmp_path / "own")
    assert load_model(tmp_path / "own", surrogate=BetaScaling(0.25)).surrogate == BetaScaling(0.25)


def test_dependence_tree_has_the_strongest_pairs():
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 4)) < 0.5).astype(np.int8)
    Y[:, 3], Y[:, 1] = 1 - Y[:, 0], np.where(rng.random(400) < 0.9, Y[:, 2], Y[:, 1])
    assert {(0, 3), (1, 2)} <= set(map(tuple, dependence_tree(Y).tolist()))
    assert dependence_tree(Y[:, :1]).shape == (0, 2)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"pairwise": "most"}, None, "pairwise='most' is unknown"),
        ({"pairwise": [(0, 9)]}, None, "pairwise names a label outside of 0 to 3"),
        ({"pairwise": [(1, 1)]}, None, "label 1 is paired with itself"),
        ({"pairwise": [(0, 1), (1, 0)]}, None, r"the pair of labels \(0, 1\) is there 2 times"),
        ({"inference": "guess"}, None, "inference='guess' is unknown"),
        ({"surrogate": "hinge"}, None, "surrogate='hinge' is unknown"),
        ({}, np.arange(40), "an indicator matrix.*MultiLabelBinarizer"),
        ({}, np.full((40, 2), 2), "zeros and ones"),
        ({}, np.ones((39, 2)), "X has 40 samples, but y has 39 rows"),
        ({}, np.ones((40, 0)), "at least one sample and one label"),
    ],
)
def test_bad_input(settings, y, message):
    X, Y = data()
    with pytest.raises(ValueError, match=message):
        MultilabelSVM(**settings).fit(X, Y if y is None else y)


# These checks hand out one column of classes, or classes that are not zero and one.
OF_ONE_COLUMN = dict.fromkeys(
    [
        "check_classifier_data_not_an_array", "check_classifier_not_supporting_multiclass", "check_classifiers_classes",
        "check_classifiers_one_label", "check_classifiers_one_label_sample_weights", "check_classifiers_regression_target",
        "check_classifiers_train", "check_estimators_dtypes", "check_fit2d_1feature", "check_sample_weights_not_an_array",
        "check_sample_weights_not_overwritten", "check_sample_weights_pandas_series", "check_sample_weights_shape",
    ],
    "labels are an indicator matrix",
)  # fmt: skip


@parametrize_with_checks([MultilabelSVM(), MultilabelSVM(pairwise="full")], expected_failed_checks=lambda model: OF_ONE_COLUMN)
def test_conventions_of_scikit_learn(estimator, check):
    if _enforce_estimator_tags_y(estimator, np.array([1, 0])).min() != 0:
        pytest.skip("the checks of this scikit-learn hand out labels that are not zero and one")
    check(estimator)


def test_subclasses_with_other_settings_are_other_problems():
    X, Y = data()
    one = MultilabelProblem(X, Y, [(0, 1)], surrogate=Slack())
    assert one.same_as(MultilabelProblem(X, Y, [(0, 1)], surrogate=Slack()))
    for other in (
        MultilabelProblem(X, Y, [(0, 2)], surrogate=Slack()),
        MultilabelProblem(X, Y, [(0, 1)], surrogate=dataclasses.replace(Slack(), search="hull")),
        MultilabelProblem(X, Y, [(0, 1)], True, surrogate=Slack()),
    ):
        assert not one.same_as(other)


def test_the_usual_C_is_that_of_the_size_of_the_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = (X[:, :2] > 0).astype(int)
    squared = np.mean((X**2).sum(axis=1)) + 1
    model = MultilabelSVM().fit(X, Y)
    assert model.C == "auto" and pytest.approx(1 / squared) == model.C_
    same = MultilabelSVM(C=model.C_).fit(X, Y)
    np.testing.assert_array_equal(same.coef_, model.coef_)
    assert pytest.approx(1e-6 / (squared - 1)) == MultilabelSVM(fit_intercept=False).fit(1000 * X, Y).C_
    with pytest.raises(ValueError, match="must be a positive number, or 'auto'"):
        MultilabelSVM(C="best").fit(X, Y)
