"""Latent AP-SVM and its rivals: the verification plan of weakly supervised ranking, against enumeration."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.svm import LinearSVC
from tests.cases.latent_cases import all_orders, as_bags, choices, chosen, convex_reference, make_bags, psi_of, ragged, score_of

from maxmargin import LatentRankingSVM, RankingSVM, most_violating_ranking
from maxmargin.core.solvers import ConvergenceWarning, FrankWolfe, OneSlackCuttingPlane
from maxmargin.ranking import (
    AUC,
    AveragePrecision,
    Discounted,
    JointLatentRankingProblem,
    LatentBinaryProblem,
    LatentRankingProblem,
    metrics,
    supervised_share,
)
from maxmargin.ranking import bags as bags_module
from maxmargin.ranking.joint_inference import most_violating_joint_ranking

LOSSES = ["ap", "ndcg", "auc", "mrr"]
AP = AveragePrecision()


# --- 1. the loss and its counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_pos", "n_neg"), [(1, 4), (2, 3), (3, 3), (4, 2)])
def test_counts_give_loss_and_features(n_pos, n_neg):
    relevant = np.arange(n_pos + n_neg) < n_pos
    phi = np.random.default_rng(0).normal(size=(n_pos + n_neg, 3))
    truth = np.array([score_of(np.arange(n_pos + n_neg), relevant, phi[:, k]) for k in range(3)])
    worst = 0.0
    for loss, wrong, position in all_orders(relevant):
        assert AP.value(np.sort(wrong[relevant]).astype(int), n_neg) == pytest.approx(loss, abs=1e-12)
        here = np.array([score_of(position, relevant, phi[:, k]) for k in range(3)])
        np.testing.assert_allclose(psi_of(wrong, relevant, phi), truth - here, atol=1e-12)
        worst = max(worst, loss)
    assert worst == pytest.approx(1 - np.mean([k / (n_neg + k) for k in range(1, n_pos + 1)]))


# --- 2. the most violating ranking -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1e-1, 1.0, 1e3])
@pytest.mark.parametrize("tied", [False, True])
def test_inference_is_exact(scale, tied):
    rng = np.random.default_rng(int(1e4 * scale))
    for n_pos, n_neg in [(1, 3), (3, 3), (2, 4)]:
        relevant = np.arange(n_pos + n_neg) < n_pos
        scores = rng.normal(size=n_pos + n_neg)
        scores = scale * (scores.round() if tied else scores)
        found = most_violating_ranking(scores, relevant)
        best = max(loss - psi_of(wrong, relevant, scores[:, None])[0] for loss, wrong, _ in all_orders(relevant))
        assert found.hinge == pytest.approx(best, rel=1e-10, abs=1e-12)
        assert found.hinge == pytest.approx(found.loss + found.gradient @ scores, rel=1e-10, abs=1e-12)
        # Better negatives stand no lower.
        negatives = np.flatnonzero(~relevant)
        order = negatives[np.argsort(-scores[negatives], kind="stable")]
        assert (np.diff(np.sort(found.interleaving[order])) >= 0).all()


@pytest.mark.parametrize(
    ("positives", "negatives", "places", "loss", "value"),
    [
        ([0.2, -0.1], [0.1, 0, -0.3], [1, 1, 3], 0.583333, 0.583333),
        ([1, 0.5, 0], [0.8, 0.1], [1, 3], 0.411111, 0.744444),
        ([0.05, -0.05, 0.02], [0.01, 0, 0.03, -0.02], [1, 1, 1, 1], 0.679365, 0.676032),
    ],
)
def test_inference_fixtures(positives, negatives, places, loss, value):
    relevant = np.arange(len(positives) + len(negatives)) < len(positives)
    found = most_violating_ranking(np.array(positives + negatives, dtype=float), relevant)
    np.testing.assert_array_equal(found.interleaving[~relevant], places)
    assert found.loss == pytest.approx(loss, abs=1e-6) and found.hinge == pytest.approx(value, abs=1e-6)


# --- 3. the convex problem -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_convex_problem_against_all_constraints(seed):
    rng = np.random.default_rng(seed)
    X, relevant = ragged(rng, 2, 2, 3)
    C = 5.0
    model = LatentRankingProblem(as_bags(X), relevant, AP)
    model.start(rng)
    fixed = model.imputed - model.bags.offsets[:-1][relevant]
    planes = []
    for h in choices(X[2:]):
        phi = chosen(X, [*fixed, *h])
        planes += [(psi_of(wrong, relevant, phi), loss) for loss, wrong, _ in all_orders(relevant)]
    expected = convex_reference(planes, C, 3)
    solution = OneSlackCuttingPlane(tol=1e-8).solve(model, 1 / C)
    assert solution.certified and C * solution.primal == pytest.approx(expected, rel=1e-6)
    assert C * solution.dual <= expected * (1 + 1e-9)
    batch = FrankWolfe(tol=1e-2, max_passes=5000).solve(model, 1 / C)
    assert batch.dual - 1e-9 <= solution.primal <= batch.primal + 1e-9
    dual = np.array(solution.history.dual)
    assert (np.diff(dual) >= -1e-12).all() and (np.array(solution.history.primal) >= dual - 1e-12).all()


# --- 4. and 5. the hinge, its bound, and the looser bounds -----------------------------------------------------------------


def hinges(X, relevant, w):
    """Latent AP-SVM, A1 and standard hinge by enumeration of rankings and candidates, and by the models."""
    scores = [x @ w for x in X]
    n_pos, n_neg = relevant.sum(), (~relevant).sum()
    rankings = list(all_orders(relevant))
    positive = list(product(*[s for s, r in zip(scores, relevant, strict=True) if r]))
    negative = list(product(*[s for s, r in zip(scores, relevant, strict=True) if not r]))

    def value(loss, wrong, high, low):
        return loss - 2 * (wrong[relevant] @ np.array(high) - wrong[~relevant] @ np.array(low)) / (n_pos * n_neg)

    table = np.array([[[value(loss, wrong, p, q) for p in positive] for q in negative] for loss, wrong, _ in rankings])
    joint = -np.inf
    for loss, wrong, _ in rankings:
        coefficients = np.where(relevant, n_neg - 2 * wrong, 2 * wrong - n_pos) / (n_pos * n_neg)
        best = sum(np.max(c * s) for c, s in zip(coefficients, scores, strict=True))
        joint = max(joint, loss + best)
    top = np.array([s.max() for s in scores])
    bottom = np.array([s.min() for s in scores])
    return {
        "max-min": table.min(axis=2).max(),
        "min-max": table.max(axis=(0, 1)).min(),
        "A1": joint - (top[relevant].mean() - top[~relevant].mean()),
        "standard": joint - (top[relevant].mean() - bottom[~relevant].mean()),
        "spread": np.mean((top - bottom)[~relevant]),
        "loss": 1 - metrics.average_precision(relevant, top),
    }


def model_hinge(model, w):
    model.impute(w)
    return model.hinge(w)


@pytest.mark.parametrize("seed", range(15))
def test_hinges_by_enumeration_and_their_order(seed):
    rng = np.random.default_rng(seed)
    X, relevant = ragged(rng, *[(2, 2), (1, 3), (3, 1), (2, 3)][seed % 4], 2)
    w = rng.normal(size=2) * [0.1, 1, 3][seed % 3]
    slow = hinges(X, relevant, w)
    latent = model_hinge(LatentRankingProblem(as_bags(X), relevant, AP), w)
    assert latent == pytest.approx(slow["max-min"], abs=1e-10) and latent == pytest.approx(slow["min-max"], abs=1e-10)
    for variant in ("A1", "standard"):
        exact = model_hinge(JointLatentRankingProblem(as_bags(X), relevant, AP, variant, "exact"), w)
        greedy = model_hinge(JointLatentRankingProblem(as_bags(X), relevant, AP, variant), w)
        assert exact == pytest.approx(slow[variant], abs=1e-10) and greedy <= exact + 1e-12
    assert slow["loss"] <= latent + 1e-12 and latent <= slow["A1"] + 1e-12
    assert slow["A1"] == pytest.approx(slow["standard"] + slow["spread"], abs=1e-10)


@pytest.mark.parametrize(
    ("negative", "positive", "latent", "a1", "standard", "loss"),
    [([1.0, -3.0], 0.0, 2.5, 4.0, 0.0, 0.5), ([0.0, -5.0], 1.0, 0.0, 5.0, 0.0, 0.0)],
)
def test_the_standard_hinge_is_no_bound_for_the_rule_in_use(negative, positive, latent, a1, standard, loss):
    X, relevant, w = [np.array([[positive]]), np.array(negative)[:, None]], np.array([True, False]), np.ones(1)
    assert model_hinge(LatentRankingProblem(as_bags(X), relevant, AP), w) == pytest.approx(latent)
    assert model_hinge(JointLatentRankingProblem(as_bags(X), relevant, AP, "A1", "exact"), w) == pytest.approx(a1)
    assert model_hinge(JointLatentRankingProblem(as_bags(X), relevant, AP, "standard", "exact"), w) == pytest.approx(standard)
    assert hinges(X, relevant, w)["loss"] == loss


@pytest.mark.parametrize("loss", [*LOSSES, Discounted(lambda p: 1 / p)])
def test_every_loss_is_bounded(loss):
    rng = np.random.default_rng(0)
    X, y, _ = make_bags(40, rng)
    model = LatentRankingSVM(loss, C=5, random_state=0).fit(X, y)
    hinge = (model.objective_ - 0.5 * model.coef_ @ model.coef_) / 5
    assert hinge >= 1 - model.score(X, y) - 1e-9 and model.certified_
    assert hinge == pytest.approx(most_violating_ranking(model.decision_function(X), y, loss).hinge, abs=1e-9)


def test_latent_auc_is_a_sum_over_pairs():
    X, y, _ = make_bags(30, np.random.default_rng(1))
    w = np.random.default_rng(2).normal(size=5)
    best = (X @ w).max(axis=1)
    expected = np.mean(np.maximum(0, 1 - 2 * (best[y][:, None] - best[~y])))
    assert model_hinge(LatentRankingProblem(as_bags(list(X)), y, AUC()), w) == pytest.approx(expected)


# --- 6. rounds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formulation", ["latent_ap", "latent_svm"])
def test_objective_never_rises_and_is_what_it_says(formulation):
    X, y, _ = make_bags(60, np.random.default_rng(3))
    model = LatentRankingSVM(C=20, formulation=formulation, n_starts=3, tol=1e-4, random_state=2).fit(X, y)
    assert (np.diff(model.objectives_) <= 0).all() and len(model.objectives_) == model.n_rounds_ == len(model.histories_) > 1
    assert model.objective_ == min(model.start_objectives_) == model.objectives_[-1]
    best = (X @ model.coef_).max(axis=1)
    if formulation == "latent_ap":
        hinge = most_violating_ranking(best, y, method="sort").hinge
    else:
        hinge = np.mean(np.maximum(0, 1 - np.where(y, 1, -1) * (best + model.intercept_)))
    norm = model.coef_ @ model.coef_ + model.intercept_**2
    assert model.objective_ == pytest.approx(0.5 * norm + 20 * hinge, rel=1e-10)
    assert model.certified_ and 0 <= model.dual_gap_ <= 1e-4 * model.primal_objective_ * (1 + 1e-9)
    # The convex problem lies above F, so its value does too.
    assert model.objective_ <= model.primal_objective_ * (1 + 1e-12)


@pytest.mark.parametrize("make", [lambda b, y: LatentRankingProblem(b, y, AP), lambda b, y: LatentBinaryProblem(b, y, 2.0)])
def test_surrogate_lies_above_and_touches(make):
    rng = np.random.default_rng(4)
    X, y, _ = make_bags(20, rng)
    model = make(as_bags(list(X)), y)
    for _ in range(10):
        model.start(rng)
        w, v = rng.normal(size=(2, model.n_features))
        above = model.hinge(w)
        model.impute(v)
        other = model.hinge(w)
        model.impute(w)
        assert model.hinge(w) <= min(above, other) + 1e-12


def test_cuts_of_earlier_rounds_stay_valid():
    rng = np.random.default_rng(5)
    X, y, _ = make_bags(20, rng)
    for model in (
        LatentRankingProblem(as_bags(list(X)), y, AP),
        LatentBinaryProblem(as_bags(list(X)), y),
        JointLatentRankingProblem(as_bags([*X[y][:2], *X[~y][:2]]), np.arange(4) < 2, AP, "standard", "exact"),
    ):
        model.start(rng)
        for _ in range(5):
            model.cut(0, rng.normal(size=model.n_features))
        model.impute(rng.normal(size=model.n_features))
        w = rng.normal(size=model.n_features)
        hinge = model.hinge(w)
        known = [cut.hinge(w) for cut in model.known_cuts()]
        assert len(known) == 5 and max(known) <= hinge + 1e-12


def test_final_objective_is_no_worse_than_any_first_round():
    X, y, _ = make_bags(50, np.random.default_rng(6))
    first = []
    for seed in range(3):
        with pytest.warns(ConvergenceWarning, match="1 rounds.*raise max_rounds"):
            first.append(LatentRankingSVM(C=20, start="random", max_rounds=1, random_state=seed).fit(X, y).objective_)
        full = LatentRankingSVM(C=20, start="random", random_state=seed).fit(X, y)
        assert full.objective_ <= first[-1]
        again = LatentRankingSVM(C=20, start="random", random_state=seed).fit(X, y)
        np.testing.assert_array_equal(full.coef_, again.coef_)
    many = LatentRankingSVM(C=20, start="random", n_starts=4, random_state=2).fit(X, y)
    assert len(many.start_objectives_) == 4 and many.objective_ <= full.objective_


def test_difference_of_means(monkeypatch):
    rng = np.random.default_rng(31)
    X, y = ragged(rng, 5, 8, 3, most=6)
    given = np.full(13, -1)
    given[[1, 7]] = [len(X[0]), sum(map(len, X[:7]))]
    for known in (None, given):
        means = np.array([x.mean(axis=0) if known is None or known[k] < 0 else x[0] for k, x in enumerate(X)])
        for piece in (1, 10, 2**17):
            monkeypatch.setattr(bags_module, "PIECE", piece)
            found = as_bags(X, known).mean_difference(y)
            np.testing.assert_allclose(found, means[y].mean(axis=0) - means[~y].mean(axis=0), atol=1e-12)


def test_means_are_a_better_start_than_chance():
    X, y, place = make_bags(200, np.random.default_rng(32), candidates=10, shift=3)
    means = LatentRankingSVM(C=100).fit(X, y)
    random = [LatentRankingSVM(C=100, start="random", random_state=seed).fit(X, y).objective_ for seed in range(3)]
    assert means.objective_ < 0.5 * np.median(random) and means.score(X, y) > 0.95
    assert np.mean(means.candidates_[y] == place[y]) > 0.9


def test_starting_weights():
    X, y, place = make_bags(60, np.random.default_rng(7))
    w = np.array([1.0, 1, 0, 0, 0])
    model = LatentRankingSVM(C=20, start=w).fit(X, y)
    random = [LatentRankingSVM(C=20, start="random", random_state=k).fit(X, y).objective_ for k in range(3)]
    assert model.objective_ <= min(random) * 1.05
    assert np.mean(model.candidates_[y] == place[y]) > 0.7


# --- 7. special cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_single_candidates_are_the_ranking_svm(loss):
    X, y, _ = make_bags(80, np.random.default_rng(8), candidates=1)
    plain = RankingSVM(loss, C=10, tol=1e-6).fit(X[:, 0], y)
    latent = LatentRankingSVM(loss, C=10, tol=1e-6).fit(X, y)
    assert latent.n_rounds_ == 1 and latent.objective_ == pytest.approx(plain.primal_objective_, rel=1e-6)
    np.testing.assert_allclose(latent.coef_, plain.coef_, atol=1e-3)
    assert latent.score(X, y) == pytest.approx(plain.score(X[:, 0], y), abs=0.01)
    np.testing.assert_array_equal(latent.candidates_, 0)


def test_single_candidates_in_the_structured_formulation():
    X, y, _ = make_bags(8, np.random.default_rng(9), candidates=1)
    plain = RankingSVM(C=10, tol=1e-6).fit(X[:, 0], y)
    for variant, inference in product(("A1", "standard"), ("greedy", "exact")):
        latent = LatentRankingSVM(
            C=10, tol=1e-6, formulation="latent_ssvm", variant=variant, inference=inference, max_iter=2000
        ).fit(X, y)
        np.testing.assert_allclose(latent.coef_, plain.coef_, atol=2e-3)
        assert latent.certified_ == (inference == "exact") and latent.n_rounds_ == 1


def test_degenerate_data():
    rng = np.random.default_rng(10)
    X, y, _ = make_bags(12, rng)
    # Identical features: no weights help.
    same = LatentRankingSVM(C=3).fit(np.ones((12, 2, 3)), y)
    np.testing.assert_allclose(same.coef_, 0, atol=1e-12)
    n_pos, n_neg = y.sum(), (~y).sum()
    assert same.objective_ == pytest.approx(3 * (1 - np.mean([k / (n_neg + k) for k in range(1, n_pos + 1)])))
    # Duplicates change nothing, nor do candidates that are always worse.
    start = rng.normal(size=5)
    once = LatentRankingSVM(C=3, tol=1e-7, start=start).fit(X, y)
    twice = LatentRankingSVM(C=3, tol=1e-7, start=start).fit(np.concatenate([X, X], axis=1), y)
    assert twice.objective_ == pytest.approx(once.objective_, rel=1e-6)
    np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-3)
    worse = X[:, 0] - 1e3 * once.coef_
    assert not (once.best_candidates(np.concatenate([X, worse[:, None]], axis=1)) == 6).any()
    assert np.linalg.norm(LatentRankingSVM(C=1e-6).fit(X, y).coef_) < 1e-4
    for labels in (np.arange(12) < 1, np.arange(12) < 11):
        assert LatentRankingSVM(C=3, random_state=0).fit(X, labels).certified_


# --- 8. invariances --------------------------------------------------------------------------------------------------------


def test_invariances():
    rng = np.random.default_rng(11)
    X, y, _ = make_bags(30, rng)
    start = rng.normal(size=5)

    def fit(X, y, C=5.0, start=start):
        return LatentRankingSVM(C=C, tol=1e-7, start=start).fit(X, y)

    base = fit(X, y)
    np.testing.assert_allclose(fit(X + rng.normal(size=5), y).coef_, base.coef_, atol=1e-4)
    order = rng.permutation(30)
    np.testing.assert_allclose(fit(X[order], y[order]).coef_, base.coef_, atol=1e-4)
    np.testing.assert_allclose(fit(X[:, ::-1], y).coef_, base.coef_, atol=1e-4)
    scaled = fit(3 * X, y, C=5 / 9)
    np.testing.assert_allclose(3 * scaled.coef_, base.coef_, atol=1e-4)
    np.testing.assert_allclose(scaled.decision_function(3 * X), base.decision_function(X), atol=1e-3)


# --- 9. the structured formulation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_joint_inference_against_all_rankings_and_candidates(seed):
    rng = np.random.default_rng(seed)
    relevant = np.arange(5) < 2 + seed % 2
    scores = rng.normal(size=(5, 2)) * [0.3, 1, 3][seed % 3]
    top, bottom = scores.max(axis=1), scores.min(axis=1)
    best = max(
        loss + score_of(position, relevant, scores[np.arange(5), h])
        for loss, _, position in all_orders(relevant)
        for h in product([0, 1], repeat=5)
    )
    exact = most_violating_joint_ranking(top, bottom, relevant, method="exact")
    greedy = most_violating_joint_ranking(top, bottom, relevant)
    assert exact.value == pytest.approx(best, abs=1e-10) and greedy.value <= exact.value + 1e-12
    for found in (exact, greedy):
        used = np.where(found.coefficients >= 0, top, bottom)
        assert found.value == pytest.approx(found.loss + found.coefficients @ used, abs=1e-10)
        assert found.coefficients.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_assignment_for_a_fixed_pattern(seed):
    """Positions of one class are assigned best by the coefficients (opposite class below - above)."""
    rng = np.random.default_rng(seed)
    pattern = rng.permutation([True] * 3 + [False] * 3)
    scores = rng.normal(size=(6, 2))
    sides = [np.flatnonzero(pattern), np.flatnonzero(~pattern)]
    below = np.array([np.sum(pattern[a:] != pattern[a]) - np.sum(pattern[:a] != pattern[a]) for a in range(6)])
    total, brute = 0.0, -np.inf
    for members in sides:
        gain = np.array([[np.max(below[a] * scores[i]) for a in members] for i in members])
        total += gain[linear_sum_assignment(gain, maximize=True)].sum()
    for p, q in product(permutations(sides[0]), permutations(sides[1])):
        position = np.empty(6, dtype=int)
        position[sides[0]], position[sides[1]] = p, q
        value = sum(max(score * below[position[i]] for score in scores[i]) for i in range(6))
        brute = max(brute, value)
    assert total == pytest.approx(brute, abs=1e-10)


def test_greedy_can_miss_the_maximum():
    top, bottom = 4.0 * np.array([8, 7, 9, 7]), 4.0 * np.array([4, 6, 1, 0])
    assert most_violating_joint_ranking(top, bottom, [0, 1, 0, 1]).value == pytest.approx(18)
    assert most_violating_joint_ranking(top, bottom, [0, 1, 0, 1], method="exact").value == pytest.approx(22 + 7 / 12)


def test_greedy_with_single_candidates_is_the_most_violating_ranking():
    rng = np.random.default_rng(12)
    for _ in range(20):
        relevant = rng.permutation([True] * 3 + [False] * 4)
        scores = rng.normal(size=7)
        found = most_violating_joint_ranking(scores, scores, relevant)
        truth = scores[relevant].mean() - scores[~relevant].mean()
        assert found.value - truth == pytest.approx(most_violating_ranking(scores, relevant).hinge, abs=1e-10)


@pytest.mark.parametrize("inference", ["greedy", "exact"])
def test_the_truth_makes_no_noise(inference):
    """Where no ranking violates the margin, rounding must not look like a mistake of the search."""
    rng = np.random.default_rng(34)
    for _ in range(20):
        X, relevant = rng.normal(size=(6, 1, 4)), np.arange(6) < 3
        X[relevant, :, 0] += 100
        w = np.array([1.0, 0.1, 0.1, 0.1])
        cut = JointLatentRankingProblem(as_bags(list(X)), relevant, AP, "A1", inference).cut(0, w)
        assert cut.loss == 0 and 0 <= cut.hinge(w) < 1e-12


def test_structured_formulation_trains():
    X, y, _ = make_bags(16, np.random.default_rng(13), candidates=3, shift=3)
    for variant in ("A1", "standard"):
        model = LatentRankingSVM(C=5, formulation="latent_ssvm", variant=variant, n_starts=2, random_state=0).fit(X, y)
        assert not model.certified_ and (np.diff(model.objectives_) <= 0).all()
    small, labels = X[:7], np.arange(7) < 3
    exact = LatentRankingSVM(C=5, formulation="latent_ssvm", inference="exact", random_state=0).fit(small, labels)
    assert exact.certified_
    expected = hinges(list(small[:5]), labels[:5], exact.coef_)["A1"]
    assert model_hinge(
        JointLatentRankingProblem(as_bags(list(small[:5])), labels[:5], AP, "A1", "exact"), exact.coef_
    ) == pytest.approx(expected)


# --- 10. latent SVM --------------------------------------------------------------------------------------------------------


def test_latent_svm_with_single_candidates_is_the_linear_svm():
    X, y, _ = make_bags(60, np.random.default_rng(14), candidates=1)
    for weight in (1.0, 3.0):
        model = LatentRankingSVM(C=60, formulation="latent_svm", positive_weight=weight, tol=1e-7).fit(X, y)
        peer = LinearSVC(C=1, loss="hinge", class_weight={True: weight}, tol=1e-8, max_iter=1_000_000).fit(X[:, 0], y)
        np.testing.assert_allclose(np.append(model.coef_, model.intercept_), np.append(peer.coef_, peer.intercept_), atol=5e-3)
        assert model.n_rounds_ == 1
    assert LatentRankingSVM(formulation="latent_svm", fit_intercept=False).fit(X, y).intercept_ == 0


def test_latent_svm_round_against_enumeration():
    rng = np.random.default_rng(15)
    X, relevant = ragged(rng, 2, 2, 2)
    model = LatentBinaryProblem(as_bags(X), relevant, 2.0)
    model.start(rng)
    rows = model.bags.X
    planes = []
    for h in choices(X[2:]):
        picked = np.concatenate([rows[model.imputed], chosen(X[2:], h)])
        picked = np.c_[picked, np.ones(4)] * np.where(relevant, 1, -1)[:, None]
        for violated in product([0, 1], repeat=4):
            share = np.array(violated) * np.array([2, 2, 1, 1]) / 4
            planes.append((share @ picked, share.sum()))
    solution = OneSlackCuttingPlane(tol=1e-8).solve(model, 1 / 5)
    assert 5 * solution.primal == pytest.approx(convex_reference(planes, 5, 3), rel=1e-6)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, 0.999])
def test_outliers(fraction):
    rng = np.random.default_rng(16)
    X, relevant = ragged(rng, 4, 10, 3, most=5)
    bags = as_bags(X)
    w = rng.normal(size=3)
    ignored = bags.outliers(w, ~relevant, fraction)
    owner = np.repeat(np.arange(14), bags.sizes)
    assert not ignored[relevant[owner]].any()
    left = np.bincount(owner[~ignored], minlength=14)
    assert (left >= 1).all()
    may_go = int(bags.sizes[~relevant].sum() - 10)
    assert ignored.sum() == np.floor(fraction * may_go + 1e-9)
    scores = bags.X @ w
    lowest = {int(bags.offsets[k] + np.argmin(scores[owner == k])) for k in np.flatnonzero(~relevant)}
    others = [r for r in np.flatnonzero(~relevant[owner]) if r not in lowest]
    if ignored.any() and not ignored[others].all():
        assert scores[ignored].min() >= scores[[r for r in others if not ignored[r]]].max()


def test_ignored_candidates_leave_no_cuts_behind():
    rng = np.random.default_rng(33)
    X, y, _ = make_bags(30, rng)
    model = LatentBinaryProblem(as_bags(list(X)), y, outlier_fraction=0.5)
    w = rng.normal(size=6)
    model.impute(w)
    model.cut(0, w)
    before = model.hinge(w)
    assert model.revise(w) and not model.known_cuts() and not model.revise(w)
    kept = np.where(model.ignored.reshape(30, 6), -np.inf, X @ w[:5]).max(axis=1) + w[5]
    assert model.hinge(w) == pytest.approx(np.mean(np.maximum(0, 1 - np.where(y, 1, -1) * kept))) and model.hinge(w) < before


def test_latent_svm_without_outliers():
    X, y, _ = make_bags(60, np.random.default_rng(17))
    model = LatentRankingSVM(C=20, formulation="latent_svm", outlier_fraction=0.2, random_state=0).fit(X, y)
    assert 1 <= model.n_rounds_ <= 20 and model.score(X, y) > 0.5


# --- 11. supervision -------------------------------------------------------------------------------------------------------


def test_annotated_samples_keep_their_candidate():
    X, y, place = make_bags(60, np.random.default_rng(18))
    known = supervised_share(y, place, 0.5, random_state=1)
    model = LatentRankingSVM(C=20, random_state=0).fit(X, y, annotations=known)
    np.testing.assert_array_equal(model.candidates_[known >= 0], known[known >= 0])
    # Random starts leave them alone as well.
    given = np.where(known >= 0, 6 * np.arange(60) + known, -1)
    start = as_bags(list(X), given).random(np.random.default_rng(0))
    np.testing.assert_array_equal(start[known >= 0], given[known >= 0])
    # The same as handing in bags of one candidate.
    cut_down = [x if k < 0 else x[[k]] for x, k in zip(X, known, strict=True)]
    w = np.ones(5)
    a = LatentRankingSVM(C=20, start=w, tol=1e-6).fit(X, y, annotations=known)
    b = LatentRankingSVM(C=20, start=w, tol=1e-6).fit(cut_down, y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    everyone = LatentRankingSVM(C=20, tol=1e-6).fit(X, y, annotations=place)
    plain = RankingSVM(C=20, tol=1e-6).fit(X[np.arange(60), place], y)
    np.testing.assert_allclose(everyone.coef_, plain.coef_, atol=1e-3)
    assert everyone.n_rounds_ == 1


def test_supervision_levels_are_nested_and_stratified():
    y = np.arange(100) % 5 == 0
    levels = [supervised_share(y, np.arange(100), share, random_state=3) for share in (0, 0.25, 0.5, 0.75, 1)]
    for low, high in pairwise(levels):
        assert (high[low >= 0] == low[low >= 0]).all()
    for share, known in zip((0, 0.25, 0.5, 0.75, 1), levels, strict=True):
        assert (known[y] >= 0).sum() == 20 * share and (known[~y] >= 0).sum() == 80 * share
    with pytest.raises(ValueError, match=r"share=1\.5 must be between 0 and 1"):
        supervised_share(y, np.arange(100), 1.5)
    with pytest.raises(ValueError, match=r"annotations has shape \(3,\)"):
        supervised_share(y, np.arange(3), 0.5)


# --- 12. metrics -----------------------------------------------------------------------------------------------------------


def test_interpolated_average_precision():
    # Precisions at the hits 1/1, 2/4, 3/5; the envelope is 1, 0.6, 0.6.
    hits, scores = [1, 0, 0, 1, 1, 0], [6, 5, 4, 3, 2, 1]
    assert metrics.interpolated_average_precision(hits, scores) == pytest.approx(2.2 / 3)
    # Recalls 0 to 0.3 need one hit, 0.4 to 1 need two or three.
    assert metrics.interpolated_average_precision(hits, scores, points=11) == pytest.approx((4 * 1 + 7 * 0.6) / 11)
    assert metrics.interpolated_average_precision([1, 0], [1, 1]) == 0.5  # ties stand with the irrelevant first
    assert metrics.interpolated_average_precision(hits * 2, scores * 2, qid=[0] * 6 + [1] * 6) == pytest.approx(2.2 / 3)
    assert metrics.interpolated_average_precision([0, 0], [1, 2]) == 0
    with pytest.raises(ValueError, match="points=1"):
        metrics.interpolated_average_precision(hits, scores, points=1)


def test_score_is_the_metric():
    X, y, _ = make_bags(40, np.random.default_rng(19))
    named = {"ap": metrics.average_precision, "ndcg": metrics.ndcg, "auc": metrics.auc, "mrr": metrics.reciprocal_rank}
    for loss, metric in named.items():
        model = LatentRankingSVM(loss, random_state=0).fit(X, y)
        assert model.score(X, y) == pytest.approx(metric(y, model.decision_function(X)), abs=1e-12)
