"""The classifier for rare events: what it chooses, against what others would choose, its cuts, its probabilities, its words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit
from scipy.stats import entropy
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import PrecisionRecallDisplay, average_precision_score, f1_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.cases.model_file_cases import refused, with_array
from tests.cases.reference_programs import proved

from maxmargin import DirectLossMinimizer, MulticlassSVM, RankingClassifier, RankingSVM, load_model, metrics, save_model
from maxmargin._utils import ArgumentError
from maxmargin.core import probabilities
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.ranking.descent import judge
from maxmargin.rare_events import start as linear_start
from maxmargin.rare_events.calibration import calibrate, check_calibration, score_of
from maxmargin.rare_events.thresholds import choose_cutoff, outcome


# As for the classifiers of scikit-learn that choose a threshold.
def of_other_thresholds(estimator):
    return {} if estimator.threshold == 0.5 else {"check_classifiers_train": "the threshold is not at probability 0.5"}


@pytest.mark.filterwarnings("default::maxmargin.core.solvers.ConvergenceWarning")
@parametrize_with_checks(
    [RankingClassifier(), RankingClassifier("auc", threshold=0.5, start="hinge", refine="always", max_iter=20, cv=3)],
    expected_failed_checks=of_other_thresholds,
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def ordinary():
    """What logistic regression is made for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6)) * [1, 10, 0.1, 1, 1, 1] + [0, 5, 0, 0, 0, 0]
    return X, rng.random(800) < 1 / (1 + np.exp(3 - 2 * X[:, 0] - 0.1 * X[:, 1]))


@pytest.fixture(scope="module")
def spoilt():
    """A clean direction, and far samples that are marked by mistake."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 6))
    y = X[:, 0] + 0.2 * rng.normal(size=800) > 1.6
    wrong = rng.permutation(np.flatnonzero(~y))[:12]
    X[wrong] = 6 * rng.normal(size=(12, 6)) - 6 * (np.arange(6) == 0)
    y[wrong] = True
    return X, y


# ---- what is chosen -------------------------------------------------------------------------------------------------------


def test_start_is_the_tuned_logistic_regression(ordinary):
    X, y = ordinary
    Z = StandardScaler().fit_transform(X)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {"C": [10.0**k for k in range(-4, 2)]}
    search = GridSearchCV(LogisticRegression(tol=1e-8, max_iter=1000), grid, scoring="average_precision", cv=folds).fit(Z, y)
    model = RankingClassifier(refine=False).fit(X, y)
    assert search.best_params_["C"] == model.C_ and not model.refined_
    np.testing.assert_allclose(model.cv_scores_.mean(axis=0), search.cv_results_["mean_test_score"], atol=2e-3)
    np.testing.assert_allclose(model.coef_[0] * X.std(axis=0), search.best_estimator_.coef_[0], rtol=2e-2, atol=2e-3)
    assert model.score(X, y) == pytest.approx(average_precision_score(y, model.decision_function(X)), abs=1e-12)
    # Many features: another solver, the same weights.
    wide = np.hstack([Z, np.random.default_rng(0).normal(size=(800, 250))])
    reference = LogisticRegression(C=0.01, tol=1e-8, max_iter=1000).fit(wide, y)
    other = RankingClassifier(C=0.01, refine=False, standardize=False).fit(wide, y)
    np.testing.assert_allclose(other.coef_, reference.coef_, atol=1e-3)


def test_refinement_is_taken_where_it_helps_and_only_there(ordinary, spoilt):
    model = RankingClassifier().fit(*ordinary)
    assert not model.refined_ and model.gain_ <= model.gain_error_ and model.gains_.shape == (5, 3)
    X, y = spoilt
    plain, refined = RankingClassifier(refine=False).fit(X, y), RankingClassifier().fit(X, y)
    assert refined.refined_ and refined.gain_ > refined.gain_error_ > 0
    assert refined.score(X, y) > plain.score(X, y) + 0.1
    assert refined.held_out_["score"] == pytest.approx(plain.held_out_["score"] + refined.gain_, abs=1e-12)
    assert len(refined.history_) == refined.n_iter_ <= refined.n_steps_
    # Scores keep their size.
    assert np.linalg.norm(refined.coef_ * X.std(axis=0)) == pytest.approx(np.linalg.norm(plain.coef_ * X.std(axis=0)))
    always = RankingClassifier(refine="always").fit(*ordinary)
    assert always.refined_ and always.gain_ == model.gain_


def test_refinement_is_that_of_the_direct_loss_minimizer(spoilt):
    X, y = spoilt
    plain, refined = RankingClassifier(refine=False).fit(X, y), RankingClassifier().fit(X, y)
    start = plain.coef_[0]
    same = DirectLossMinimizer(start=start, max_iter=refined.n_steps_).fit(X, y)
    cosine = same.coef_ @ refined.coef_[0] / np.linalg.norm(same.coef_) / np.linalg.norm(refined.coef_)
    assert cosine == pytest.approx(1, abs=1e-9)
    judged = DirectLossMinimizer(start=start, validation=5).fit(X, y)
    assert judged.accepted_ and judged.gain_ > judged.gain_error_ and judged.gains_.shape == (5, 3)


def test_hinge_start_takes_its_C_from_the_path(ordinary):
    X, y = ordinary
    model = RankingClassifier(start="hinge", refine=False, cv=3).fit(X, y)
    assert len(model.Cs_) == model.cv_scores_.shape[1] > 5 and model.cv_scores_.shape[0] == 3
    Z = StandardScaler().fit_transform(X)
    reference = RankingSVM("ap", C=model.C_).fit(Z, y.astype(int))
    cosine = np.corrcoef(Z @ reference.coef_, model.decision_function(X))[0, 1]
    assert cosine > 0.995
    fixed = RankingClassifier(start="hinge", C=3.0, refine=False, cv=3).fit(X, y)
    assert fixed.C_ == 3.0 and fixed.Cs_.tolist() == [3.0]


def test_verdicts():
    assert not judge([1], np.array([[0.0], [0.0]])).accepted
    assert not judge([1], np.array([[0.5]])).accepted, "one fold has no error"
    found = judge([10, 40, 160], np.array([[0.1, 0.2, 0.0], [0.1, 0.2, 0.3]]))
    assert found.steps == 40 and found.gain == pytest.approx(0.2) and found.error == pytest.approx(0)
    # Of 0, 1 and 2 the standard error of the mean is one over the root of three; gains that large are taken, smaller ones not.
    assert judge([5], np.array([[0.0], [1.0], [2.0]])).error == pytest.approx(3**-0.5)
    assert judge([5], np.array([[0.0], [1.0], [2.0]])).accepted and not judge([5], np.array([[-1.0], [0.1], [1.0]])).accepted


# ---- validation of direct descent -----------------------------------------------------------------------------------------


def test_validation_by_queries_and_by_rows():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(300, 3)), np.repeat(np.arange(30), 10)
    y = X[:, 0] + rng.normal(size=300) > 0.5
    model = DirectLossMinimizer(validation=3).fit(X, y, qid)
    assert model.gains_.shape == (3, 3) and model.checkpoints_.tolist() == [10, 40, 160]
    if not model.accepted_:
        assert model.training_loss_ == model.start_loss_
    noise = DirectLossMinimizer(validation=3).fit(X, rng.random(300) < 0.1)
    assert noise.accepted_ == (noise.gain_ > noise.gain_error_)
    with pytest.raises(ValueError, match="validation=1 must be a number of folds"):
        DirectLossMinimizer(validation=1).fit(X, y)
    with pytest.raises(ValueError, match="validation=5 folds need as many samples of each kind, but there are 2"):
        DirectLossMinimizer(validation=5).fit(X, np.arange(300) < 2)
    with pytest.raises(ValueError, match="validation=50 folds need as many queries"):
        DirectLossMinimizer(validation=50).fit(X, y, qid)


def test_verdicts_are_those_of_the_last_fit(ordinary):
    X, y = ordinary
    model = DirectLossMinimizer(validation=2, max_iter=4).fit(X[:200], y[:200])
    assert model.gains_.shape == (2, 2)
    model.set_params(validation=None).fit(X[:200], y[:200])
    assert not hasattr(model, "accepted_") and not hasattr(model, "gains_")


# ---- labels ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [int, float, bool, object, "names"])
def test_any_two_labels(ordinary, kind):
    X, y = ordinary
    labels = np.where(y, "rare", "common") if kind == "names" else y.astype(kind)
    model = RankingClassifier(C=0.1, refine=False).fit(X, labels)
    reference = RankingClassifier(C=0.1, refine=False).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(labels))
    assert model.classes_.dtype == np.unique(labels).dtype and set(model.predict(X)) == set(labels)
    sign = 1 if model.classes_[1] == labels[y][0] else -1
    np.testing.assert_array_equal(model.decision_function(X) * sign > 0, reference.predict(X))


def test_the_class_to_be_found(ordinary):
    X, y = ordinary
    named = np.where(y, "a rare one", "the rest")
    found = RankingClassifier(pos_label="a rare one", threshold={"budget": 0.1}, refine="always", C=1.0).fit(X, named)
    same = RankingClassifier(threshold={"budget": 0.1}, refine="always", C=1.0).fit(X, y)
    np.testing.assert_allclose(-found.decision_function(X), same.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(found.predict_proba(X)[:, 0], same.predict_proba(X)[:, 1], atol=1e-12)
    np.testing.assert_array_equal(found.predict(X) == "a rare one", same.predict(X))
    assert found.score(X, named) == same.score(X, y) and "find:          a rare one" in found.summary()
    with pytest.raises(ArgumentError, match="pos_label='rare' is no label: y has 'a rare one' and 'the rest'"):
        RankingClassifier(pos_label="rare").fit(X, named)


# ---- cuts -----------------------------------------------------------------------------------------------------------------

ODD = [-1e300, -1.0, 0.0, 5e-324, 1.0, 1.5, 1e300]
SCORES = st.lists(st.tuples(st.sampled_from(ODD), st.booleans()), min_size=2, max_size=14)
FREE = st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=2, max_size=20)


@settings(max_examples=200, deadline=None)
@given(SCORES, st.sampled_from(["f1", "budget", "share", "precision", "recall", "cost"]), st.integers(0, 1))
def test_cuts_are_the_best_of_all(pairs, kind, positive):
    scores, relevant = np.array([s for s, _ in pairs]), np.array([r for _, r in pairs])
    if relevant.all() or not relevant.any():
        return
    aims = {
        "f1": "f1", "budget": {"budget": 3}, "share": {"budget": 0.4}, "precision": {"precision": 0.7},
        "recall": {"recall": 0.6}, "cost": {"cost": [[0, 2], [5, 1]]},
    }  # fmt: skip
    with np.errstate(over="ignore"):
        cut, met = choose_cutoff(aims[kind], scores, relevant, positive)
    flagged = scores > cut
    answers = [scores > value for value in np.unique(scores)] + [np.ones(len(scores), dtype=bool)]

    def cost(answer):
        costs = np.array([[0, 2], [5, 1]])
        truth = relevant if positive else ~relevant
        said = answer if positive else ~answer
        return costs[truth.astype(int), said.astype(int)].sum()

    values = [outcome(answer, relevant) for answer in answers]
    own = outcome(flagged, relevant)
    if kind == "f1":
        assert own["f1"] == max(value["f1"] for value in values)
    elif kind in ("budget", "share"):
        most = 3 if kind == "budget" else 0.4 * len(scores)
        assert flagged.sum() == max(answer.sum() for answer in answers if answer.sum() <= most)
    elif kind == "precision":
        fine = [answer.sum() for answer, value in zip(answers, values, strict=True) if value["precision"] >= 0.7]
        assert met == bool(fine)
        if met:
            assert flagged.sum() == max(fine)
        else:
            assert own["precision"] == max(value["precision"] for value in values)
    elif kind == "recall":
        fewest = min(answer.sum() for answer, v in zip(answers, values, strict=True) if v["recall"] >= 0.6)
        assert own["recall"] >= 0.6 and flagged.sum() == fewest
    else:
        assert cost(flagged) == min(map(cost, answers))


def test_aims_are_met_on_held_out_scores(ordinary):
    X, y = ordinary
    budget = RankingClassifier(C=0.1, threshold={"budget": 40}, refine=False).fit(X, y)
    assert budget.held_out_["flagged"] == 40 / 800 and abs(np.mean(budget.predict(X)) - 0.05) < 0.01
    precise = RankingClassifier(C=0.1, threshold={"precision": 0.8}, refine=False).fit(X, y)
    assert precise.held_out_["precision"] >= 0.8
    dear = RankingClassifier(C=0.1, threshold={"cost": [[0, 1], [20, 0]]}, refine=False).fit(X, y)
    cheap = RankingClassifier(C=0.1, threshold={"cost": [[0, 1], [1, 0]]}, refine=False).fit(X, y)
    assert dear.held_out_["recall"] > cheap.held_out_["recall"] and dear.threshold_ < cheap.threshold_
    f1 = RankingClassifier(C=0.1, refine=False).fit(X, y)
    assert f1_score(y, f1.predict(X)) == pytest.approx(f1.held_out_["f1"], abs=0.1)
    half = RankingClassifier(C=0.1, threshold=0.3, refine=False).fit(X, y)
    np.testing.assert_array_equal(half.predict(X), half.predict_proba(X)[:, 1] > 0.3)
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"threshold=\{'precision': 1.0\} is not reached"):
        RankingClassifier(threshold={"precision": 1.0}, refine=False, C=1.0).fit(X, rng.permutation(y))


@pytest.mark.parametrize("n", [100, 10000])
def test_shares_are_meant_as_they_are_written(n):
    """69 % of 10000 are 6900, although 0.69 * 10000 is less as a product of floats; 81 % of 5000 are not 4051."""
    scores, relevant = np.arange(n, dtype=float), np.arange(n) % 2 == 0
    for percent in range(1, 100):
        assert (scores > choose_cutoff({"budget": percent / 100}, scores, relevant).value).sum() == n * percent // 100
        cut = choose_cutoff({"recall": percent / 100}, scores, relevant).value
        assert (relevant & (scores > cut)).sum() == -(-(n // 2) * percent // 100)


def test_a_number_to_flag_is_meant_of_all_samples(ordinary):
    """Also if inner folds hold out only a part of them."""
    X, y = ordinary
    part = StratifiedShuffleSplit(1, test_size=0.25, random_state=0)
    model = RankingClassifier(C=0.1, threshold={"budget": 80}, refine=False, cv=part).fit(X, y)
    assert model.held_out_["flagged"] == 0.1


# ---- probabilities --------------------------------------------------------------------------------------------------------


def test_sigmoid_against_a_proved_optimum():
    rng = np.random.default_rng(0)
    scores = 1e6 + 1e3 * rng.normal(size=200)
    relevant = rng.random(200) < 1 / (1 + np.exp(1 - (scores - 1e6) / 500))
    p, n = relevant.sum(), (~relevant).sum()
    targets = np.where(relevant, (p + 1) / (p + 2), 1 / (n + 2))

    line, at = np.column_stack([(scores - 1e6) / 1e3, np.ones(200)]), np.zeros(2)
    for _ in range(20):
        shares = expit(line @ at)
        at = at - np.linalg.solve((shares * (1 - shares) * line.T) @ line, line.T @ (shares - targets))
    value = np.sum(np.logaddexp(0, line @ at) - targets * (line @ at))
    # log(1 + e^z) is at least z p + H(p) for the entropy H of any p: of shares with line.T @ (p - targets) = 0 only H is left.
    shares = shares - line @ np.linalg.lstsq(line, shares - targets, rcond=None)[0]
    best = proved([(value, at, entropy(np.array([shares, 1 - shares])).sum())], 1e-12)
    found = probabilities(calibrate("sigmoid", scores, relevant), scores)
    assert -targets @ np.log(found) - (1 - targets) @ np.log(1 - found) <= best.value + 1e-10
    np.testing.assert_allclose(found, expit(line @ best.x), atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(FREE, st.sampled_from(["sigmoid", "isotonic"]))
def test_probabilities_never_fall(pairs, kind):
    scores, relevant = np.array([s for s, _ in pairs]), np.array([r for _, r in pairs])
    calibration = calibrate(kind, scores, relevant)
    check_calibration(calibration)
    found = probabilities(calibration, np.sort(scores))
    assert np.isfinite(found).all() and (np.diff(found) >= 0).all() and found.min() >= 0 and found.max() <= 1
    for probability in (0.01, 0.3, 0.9):
        cut = score_of(calibration, probability)
        values, at = probabilities(calibration, scores), np.abs(scores - cut) > 1e-6 * (1 + np.abs(scores))
        near = np.abs(values - probability) < 1e-9
        np.testing.assert_array_equal((scores > cut)[at & ~near], (values > probability)[at & ~near])


def test_calibration(ordinary):
    X, y = ordinary
    for kind in ("sigmoid", "isotonic"):
        model = RankingClassifier(C=0.1, refine=False, calibration=kind).fit(X, y)
        found = model.predict_proba(X)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert found[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(X), np.log(found))
    bare = RankingClassifier(C=0.1, refine=False, calibration=None).fit(X, y)
    assert not hasattr(bare, "predict_proba") and not hasattr(bare, "predict_log_proba") and bare.calibration_ is None
    with pytest.raises(AttributeError, match=r"predict_proba needs a calibration.*calibration=None; fit"):
        bare.predict_proba(X)


# ---- among others ---------------------------------------------------------------------------------------------------------


def test_tools_of_scikit_learn(ordinary):
    X, y = ordinary
    model = RankingClassifier(C=0.1, refine=False)
    assert (cross_val_score(model, X, y, scoring="average_precision", cv=3) > 0.4).all()
    assert cross_val_predict(model, X, y, method="decision_function", cv=3).shape == (800,)
    assert cross_val_predict(model, X, y, method="predict_proba", cv=3).shape == (800, 2)
    assert CalibratedClassifierCV(model, cv=3).fit(X, y).predict_proba(X).shape == (800, 2)
    PrecisionRecallDisplay.from_estimator(model.fit(X, y), X, y)
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {"rankingclassifier__C": [0.1, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.4


def test_sparse_features_are_scaled_and_not_moved(ordinary):
    X, y = ordinary
    X = np.where(np.abs(X) > 0.7, X, 0)[:, [0, 1, 3, 4]] * [1, 1e8, 1e-8, 1]
    model = RankingClassifier(refine="always", max_iter=40).fit(sparse.csr_array(X), y)
    reference = RankingClassifier(refine="always", max_iter=40, standardize=False).fit(X / X.std(axis=0), y)
    scores = model.decision_function(sparse.csc_matrix(X))
    np.testing.assert_allclose(scores, reference.decision_function(X / X.std(axis=0)), atol=0.3)
    assert model.score(X, y) == pytest.approx(reference.score(X / X.std(axis=0), y), abs=0.02)


def test_scale_and_place_of_features_do_not_matter(ordinary):
    X, y = ordinary
    model = RankingClassifier().fit(X, y)
    moved = RankingClassifier().fit(X * 2.0**20 + 2.0**24, y)
    np.testing.assert_allclose(moved.decision_function(X * 2.0**20 + 2.0**24), model.decision_function(X), atol=1e-4)


def test_same_seed_same_model_and_files(ordinary, tmp_path):
    X, y = ordinary
    models = [RankingClassifier(random_state=seed, refine="always", max_iter=20).fit(X, y) for seed in (3, 3, 4)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert (models[0].cv_scores_ != models[2].cv_scores_).any()
    save_model(models[0], tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), models[0].predict_proba(X))
    assert loaded.summary() == models[0].summary()


@pytest.mark.parametrize("kind", [bool, int, str])
def test_labels_that_are_objects_fit_into_files(ordinary, tmp_path, kind):
    X, y = ordinary
    model = RankingClassifier(C=1.0, refine=False).fit(X, y.astype(kind).astype(object))
    save_model(model, tmp_path / "objects.model")
    found = load_model(tmp_path / "objects.model").predict(X)
    np.testing.assert_array_equal(found, model.predict(X))
    assert found.dtype == object and {type(label) for label in found} == {kind}


def test_damaged_files(ordinary, tmp_path):
    X, y = ordinary
    save_model(RankingClassifier(C=1.0, refine=False).fit(X, y), tmp_path / "m")
    for name, array, message in (
        ("calibration_", np.array([-1.0, 0.0]), "a sigmoid that falls"),
        ("calibration_", np.array([[0.0, 1.0], [0.5, 0.2]]), "ascending probabilities"),
        ("calibration_", np.zeros(3), r"has shape \(3,\)"),
        ("coef_", np.zeros((1, 5)), "coef_ has shape"),
        ("classes_", np.array([0, 1, 2]), "coef_ has 1 rows for 3 classes"),
    ):
        copy = tmp_path / "copy"
        copy.write_bytes((tmp_path / "m").read_bytes())
        with_array(copy, name, array)
        refused(copy, message)


def test_summary_and_report(spoilt, tmp_path):
    X, y = spoilt
    model = RankingClassifier("ndcg", calibration=None, threshold={"budget": 0.05}).fit(X, np.where(y, "fraud", "fine"))
    text = model.summary()
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "find", "metric", "start", "refinement", "held out", "predict", "probabilities",
    ]  # fmt: skip
    assert "find:          fraud, not fine" in text or "find:          fine, not fraud" in text
    assert ("taken, gain +" in text) == model.refined_ and f"flags {model.held_out_['flagged']:.2%}" in text
    assert "not asked for" in RankingClassifier(C=1.0, refine=False).fit(X, y).summary()
    page = model.report(X, np.where(y, "fraud", "fine"), path=tmp_path / "page.html").read_text()
    assert "RankingClassifier" in page and "refinement:" in page and "Nothing is proved" in page


# ---- the clock, Ctrl-C, callbacks -----------------------------------------------------------------------------------------


def test_ends_early_with_what_it_has(spoilt):
    X, y = spoilt
    with pytest.warns(ConvergenceWarning, match="the best of 1 tried; refinement was not tried"):
        model = RankingClassifier(time_limit=1e-9).fit(X, y)
    assert model.Cs_.tolist() == [1e-4] and model.predict(X).shape == (800,) and "ended early" in model.summary()
    plain = RankingClassifier(refine=False).fit(X, y)

    def interrupt(history):
        if len(history) == 5:
            raise KeyboardInterrupt

    for callback in (interrupt, lambda history: len(history) == 5):
        with pytest.warns(ConvergenceWarning, match="refinement was stopped, and the start is kept"):
            model = RankingClassifier(callback=callback).fit(X, y)
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        assert not model.refined_


def test_interrupted_while_tuning(spoilt, monkeypatch):
    X, y = spoilt
    fit, calls = linear_start._fit, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return fit(*arguments)

    monkeypatch.setattr(linear_start, "_fit", interrupted)
    stop_at = 13
    with pytest.warns(ConvergenceWarning, match="the best of 2 tried; refinement was not tried"):
        model = RankingClassifier().fit(X, y)
    same = RankingClassifier(C=model.C_, refine=False).fit(X, y)
    assert model.Cs_.tolist() == [1e-4, 1e-3] and model.score(X, y) == pytest.approx(same.score(X, y), abs=1e-3)
    calls, stop_at = [], 3
    with pytest.raises(KeyboardInterrupt):
        RankingClassifier().fit(X, y)


@pytest.mark.parametrize("fits_in_time", [0, 3, 12])
def test_time_runs_out_within_a_fit(spoilt, monkeypatch, fits_in_time):
    """By a clock that stands still until so many fits are begun: others make one step, and a C is done in all folds or none."""
    X, y = spoilt
    fit, steps = LogisticRegression.fit, []

    def counted(model, *data):
        steps.append(model.max_iter)
        return fit(model, *data)

    monkeypatch.setattr(LogisticRegression, "fit", counted)
    monkeypatch.setattr(linear_start, "seconds_left", lambda: 0.0 if len(steps) >= fits_in_time else 1e3)
    with pytest.warns(ConvergenceWarning, match="refinement was not tried"):
        model = RankingClassifier(time_limit=1e3).fit(X, y)
    assert set(steps[fits_in_time:]) == {1} and all(n > 1 for n in steps[:fits_in_time])
    assert len(steps) <= max(fits_in_time, 5) + 1 and model.cv_scores_.shape == (5, len(model.Cs_))
    assert len(model.Cs_) >= 1 and np.isfinite(model.decision_function(X)).all()


def test_portions_of_steps_lead_to_the_same_weights(ordinary):
    X, y = ordinary
    for data in (X, sparse.csr_matrix(X)):
        plain, limited = (RankingClassifier(refine=False, time_limit=limit).fit(data, y) for limit in (None, 1e3))
        assert plain.C_ == limited.C_
        np.testing.assert_allclose(limited.decision_function(X), plain.decision_function(X), atol=2e-2)


def test_fits_of_the_hinge_share_the_time(ordinary, monkeypatch):
    limits = []
    fit = RankingSVM.fit
    monkeypatch.setattr(RankingSVM, "fit", lambda self, *data: limits.append(self.time_limit) or fit(self, *data))
    RankingClassifier(start="hinge", C=0.1, cv=3, refine=False, time_limit=1000.0).fit(*ordinary)
    assert len(limits) == 4 and 200 < limits[0] <= 250 and limits[-1] > 900


@pytest.mark.parametrize("name", ["p@20", "recall@20", "ap", "ndcg@20", "auc", "mrr"])
def test_score_is_the_metric_of_that_name(ordinary, name):
    X, y = ordinary
    model = RankingClassifier(name, C=0.1, refine=False).fit(X, y)
    assert model.score(X, y) == pytest.approx(metrics.evaluate(y, model.decision_function(X), metrics=[name])[name], abs=1e-12)
    recall = metrics.evaluate(y, model.decision_function(X), metrics=["recall@20"])["recall@20"]
    assert recall < 0.5 and (name != "recall@20" or model.held_out_["score"] < 1)


# ---- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C=0 must be a positive number, several"),
        ({"C": []}, r"C=\[\] must be"),
        ({"C": "best"}, "C='best' must be"),
        ({"C": [1, 2], "start": "hinge"}, "start='hinge' chooses among all C of its path.*; pass one number, or leave C out"),
        ({"start": "svm"}, "start='svm' is unknown"),
        ({"refine": "never"}, "refine='never' must be True, False or 'always'"),
        ({"calibration": "platt"}, "calibration='platt' is unknown"),
        ({"threshold": "f2"}, "threshold='f2' is no aim; use 'f1'"),
        ({"threshold": 1.5}, "threshold=1.5 is no probability"),
        ({"threshold": {"budget": 0}}, "must have a positive number"),
        ({"threshold": {"budget": 2.5}}, "neither a share below 1 nor a whole number"),
        ({"threshold": {"precision": 1.2}}, "asks for a precision of more than 1"),
        ({"threshold": {"cost": [[0, 1, 2]]}}, r"four finite costs, cost\[truth, answer\]"),
        ({"threshold": {"cost": [[1, 0], [0, 1]]}}, "makes a wrong answer no dearer"),
        ({"threshold": {"budget": 1, "precision": 1}}, "is no aim"),
        ({"threshold": 0.5, "calibration": None}, "threshold=0.5 is a probability.*; pass calibration='sigmoid'"),
        ({"cv": 1}, "cv=1 must be at least 2"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"step": 2}, "at most a right angle"),
        ({"loss": "accuracy"}, "loss='accuracy' is unknown"),
        ({"time_limit": -1}, "time_limit=-1"),
    ],
)
def test_bad_parameters(ordinary, parameters, message):
    with pytest.raises(ValueError, match=message):
        RankingClassifier(**parameters).fit(*ordinary)


def test_bad_data(ordinary):
    X, y = ordinary
    with pytest.raises(ArgumentError, match=r"y has 3 classes; compare it with .*y == label.*OneVsRestClassifier"):
        RankingClassifier().fit(X, np.arange(800) % 3)
    with pytest.raises(ArgumentError, match="y holds only one class"):
        RankingClassifier().fit(X, np.ones(800))
    with pytest.raises(ArgumentError, match="y has 1 sample of class 1, but inner folds need two"):
        RankingClassifier().fit(X, (np.arange(800) == 5).astype(int))
    with pytest.raises(ArgumentError, match=r"y mixes labels of different kinds, int and str; make them alike"):
        RankingClassifier().fit(X, np.array([1 if label else "no" for label in y], dtype=object))
    with pytest.raises(ArgumentError, match="fold 1 of cv has samples of one class only"):
        RankingClassifier(cv=[(np.arange(400), np.flatnonzero(y))]).fit(X, y)
    holes = X.copy()
    holes[3, 2] = np.nan
    with pytest.raises(ArgumentError, match=r"X contains NaN: column 3 has missing values; fill them in.*SimpleImputer"):
        RankingClassifier().fit(holes, y)
    model = RankingClassifier(C=1.0, refine=False).fit(X, y)
    with pytest.raises(ArgumentError, match="X contains NaN: column 3"):
        model.predict(holes)
    holes[:, 2] = np.nan
    with pytest.raises(ArgumentError, match="column 3 of X has no value at all, only NaN; drop it"):
        RankingClassifier().fit(holes, y)
    with pytest.raises(ValueError, match="X has 5 features"):
        model.predict(X[:, :5])
    with pytest.raises(ValueError, match="y has shape"):
        model.score(X, y[:5])


@pytest.mark.parametrize("large", [1e150, 1e200, 1e308])
def test_huge_numbers_are_scaled_or_named(ordinary, large):
    X, y = ordinary[0].copy(), ordinary[1]
    X[3, 1] = -large
    message = r"column 2 of X reaches .*, and squares of numbers beyond 1e\+140 are too large to add up; measure it in larger"
    for model in (RankingClassifier(standardize=False), RankingSVM(), MulticlassSVM()):
        for data in (X, sparse.csr_matrix(X)):
            with pytest.raises(ArgumentError, match=message):
                model.fit(data, y)
    for model in (RankingClassifier(refine=False, C=1.0), RankingSVM(scale="standard"), DirectLossMinimizer(max_iter=2)):
        assert np.isfinite(model.fit(X, y).coef_).all()


@pytest.mark.parametrize("n", [4, 7])
def test_few_samples_and_constant_features(n):
    X, y = np.column_stack([np.arange(n, dtype=float), np.ones(n)]), np.arange(n) >= n - 2
    model = RankingClassifier().fit(X, y)
    assert model.cv_scores_.shape == (2, 6) and np.isfinite(model.coef_).all() and model.score(X, y) == 1
    flat = RankingClassifier(refine="always").fit(np.ones((n, 2)), y)
    assert np.isfinite(flat.decision_function(np.ones((3, 2)))).all()
