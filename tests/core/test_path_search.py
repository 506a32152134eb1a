"""Cross-validation over whole paths."""

import signal

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.cases.scikit_learn_versions import needs_1_9
from tests.core.test_path_estimators import CASES

from maxmargin import ChainSVM, MulticlassSVM, PathSearchCV, RankingSVM
from maxmargin.core import path_search


@parametrize_with_checks([PathSearchCV(MulticlassSVM(), epsilon=0.1, lambda_min=0.1, cv=2)])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_search_is_better_than_its_grid():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    search = PathSearchCV(RankingSVM("ap"), epsilon=0.01, cv=4).fit(X, y)
    assert search.cv_scores_.shape == (4, len(search.cv_lambdas_) - 1) and (np.diff(search.cv_lambdas_) < 0).all()
    assert search.best_score_ == search.cv_scores_.mean(axis=0).max()
    model = search.best_estimator_
    assert model.certified_ and pytest.approx(1 / search.best_lambda_) == search.best_C_
    np.testing.assert_array_equal(search.predict(X), model.predict(X))
    assert search.score(X, y) == model.score(X, y)
    # The same folds and lambdas, one by one: what the search says of them is true up to the gap.
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(4).split(X, y))
    for k, lam in enumerate(np.sqrt(search.cv_lambdas_[:-1] * search.cv_lambdas_[1:])[::5]):
        for (train, test), score in zip(folds, search.cv_scores_[:, 5 * k], strict=True):
            own = RankingSVM("ap", C=1 / lam, tol=1e-4).fit(X[train], y[train]).score(X[test], y[test])
            assert own == pytest.approx(score, abs=0.03)


def test_search_over_queries_in_a_pipeline():
    _, X, y, params = CASES["queries"]
    search = PathSearchCV(RankingSVM("ap"), epsilon=0.1, cv=3).fit(X.toarray(), y, qid=params["qid"])
    assert search.cv_scores_.shape[0] == 3
    with pytest.raises(ValueError, match="cv=5 folds need as many queries, but qid has only 3"):
        PathSearchCV(RankingSVM("ap"), epsilon=0.1).fit(X.toarray(), y, qid=params["qid"])
    grouped = PathSearchCV(RankingSVM("ap"), epsilon=0.1, cv=GroupKFold(3)).fit(X.toarray(), y, qid=params["qid"])
    assert grouped.best_lambda_ > 0
    pipeline = make_pipeline(StandardScaler(), PathSearchCV(MulticlassSVM(), epsilon=0.1, cv=3))
    assert cross_val_score(pipeline, *load_iris(return_X_y=True), cv=3).mean() > 0.9
    with pytest.raises(NotFittedError):
        PathSearchCV(RankingSVM()).predict(X)


def test_search_over_sequences():
    _, X, y, _ = CASES["chain"]
    search = PathSearchCV(ChainSVM(), epsilon=0.1, lambda_min=1e-2, cv=3).fit(X, y)
    assert search.score(X, y) > 0.8 and list(search.classes_) == ["a", "b"]


def fold_of(search, X, y, qid=None):
    """Which samples are tested together."""
    folds = [test for _, test in search._folds(X, y, qid)]
    which = np.empty(len(y), dtype=int)
    for k, test in enumerate(folds):
        which[test] = k
    return which


def test_folds_do_not_depend_on_the_container():
    X, y = np.ones((30, 1)), np.arange(30) >= 20
    search = PathSearchCV(RankingSVM(), cv=3)
    expected = fold_of(search, X, y)
    assert all(0 < y[expected == k].sum() < 10 for k in range(3))
    for other in (y.tolist(), y[:, None], y.astype(int), np.where(y, "b", "a"), y.astype(object)):
        np.testing.assert_array_equal(fold_of(search, X, other), expected)
    # Labels of structures: nothing to keep in proportion.
    sequences = np.empty(30, dtype=object)
    sequences[:] = [np.zeros(1 + k % 3) for k in range(30)]
    for labels in (sequences, list(sequences)):
        assert len(set(fold_of(search, X, labels))) == 3


@pytest.mark.parametrize("cv", [3, np.int64(3), None])
def test_folds_of_whole_queries(cv):
    qid = np.repeat(["c", "a", "b", "a", "d", "e", "f"], 4)
    which = fold_of(PathSearchCV(RankingSVM(), cv=cv), np.ones((28, 1)), np.arange(28) % 2, qid)
    assert len(set(which)) == (5 if cv is None else 3)
    assert all(len(set(which[qid == q])) == 1 for q in qid)


@pytest.mark.parametrize(
    ("cv", "message"), [(1, "cv=1 must be at least 2"), (0, "cv=0 must"), (-2, "cv=-2 must"), ([], "cv gives no folds")]
)
@pytest.mark.parametrize("qid", [None, np.repeat(np.arange(6), 5)])
def test_bad_folds(cv, message, qid):
    with pytest.raises(ValueError, match=message):
        PathSearchCV(RankingSVM(), cv=cv).fit(np.ones((30, 1)), np.arange(30) % 2, qid=qid)


def test_interruption_ends_the_search():
    def stop(*_):
        signal.raise_signal(signal.SIGINT)
        return 1.0

    X, y = load_iris(return_X_y=True)
    with pytest.raises(KeyboardInterrupt):
        PathSearchCV(MulticlassSVM(), epsilon=0.1, scoring=stop).fit(X, y)


def test_interruption_of_a_path_ends_the_search(monkeypatch):
    """A path keeps what it has; the search must not go on with that."""
    whole = path_search.regularization_path

    def interrupted(*args, **options):
        return whole(*args, **options, callback=lambda _: signal.raise_signal(signal.SIGINT))

    monkeypatch.setattr(path_search, "regularization_path", interrupted)
    X, y = load_iris(return_X_y=True)
    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="interrupted"):
        PathSearchCV(MulticlassSVM(), epsilon=0.1).fit(X, y)


@needs_1_9
def test_scoring():
    _, X, y, params = CASES["queries"]
    X, qid = X.toarray(), params["qid"]
    by_name = PathSearchCV(RankingSVM("auc"), epsilon=0.1, cv=3, scoring="roc_auc").fit(X, y > 0)
    by_loss = PathSearchCV(RankingSVM("auc"), epsilon=0.1, cv=3).fit(X, y > 0)
    assert by_name.score(X, y > 0) == pytest.approx(by_loss.score(X, y > 0), rel=1e-12)
    with pytest.raises(ValueError, match="knows no qid"):
        PathSearchCV(RankingSVM(), epsilon=0.1, cv=3, scoring="roc_auc").fit(X, y > 0, qid=qid)
    with pytest.raises(ValueError, match=r"scoring takes no qid; write it as scoring\(estimator, X, y, qid\)"):
        PathSearchCV(RankingSVM(), epsilon=0.1, cv=3, scoring=lambda model, X, y: 1.0).fit(X, y, qid=qid)
    own = PathSearchCV(RankingSVM(), epsilon=0.1, cv=3, scoring=lambda model, X, y, qid: model.score(X, y, qid))
    assert own.fit(X, y, qid=qid).best_score_ == PathSearchCV(RankingSVM(), epsilon=0.1, cv=3).fit(X, y, qid=qid).best_score_
    nothing = PathSearchCV(RankingSVM(), epsilon=0.1, cv=3, scoring=lambda model, X, y: np.nan)
    with pytest.raises(ValueError, match="gave no number"):
        nothing.fit(X, y > 0)


def test_queries_by_metadata_routing():
    _, X, y, params = CASES["queries"]
    X, qid = np.tile(X.toarray(), (2, 1)), np.concatenate([params["qid"], 10 + params["qid"]])
    y = np.tile(y, 2)
    with config_context(enable_metadata_routing=True):
        search = PathSearchCV(RankingSVM(), epsilon=0.1, cv=2).set_fit_request(qid=True).set_score_request(qid=True)
        found = cross_validate(search, X, y, params={"qid": qid, "groups": qid}, cv=GroupKFold(2), return_estimator=True)
    for (_, test), model, score in zip(GroupKFold(2).split(X, y, qid), found["estimator"], found["test_score"], strict=True):
        assert score == model.best_estimator_.score(X[test], y[test], qid[test])


def test_weights_and_bounds():
    _, X, y, params = CASES["queries"]
    X, qid = X.toarray(), params["qid"]
    plain = PathSearchCV(RankingSVM(), epsilon=0.05, cv=3).fit(X, y, qid=qid)
    weighted = PathSearchCV(RankingSVM(), epsilon=0.05, cv=3).fit(X, y, qid=qid, sample_weight=1.0 + (qid == qid[0]))
    assert np.abs(weighted.path_.weights(0.1) - plain.path_.weights(0.1)).max() > 1e-6
    same = PathSearchCV(RankingSVM(), epsilon=0.05, cv=3).fit(X, y, qid=qid, sample_weight=None)
    assert same.best_score_ == plain.best_score_
    positive = PathSearchCV(RankingSVM(), epsilon=0.05, cv=3, bounds=(0, np.inf)).fit(X, y, qid=qid)
    assert (positive.best_estimator_.coef_ >= 0).all() and (plain.path_.weights(1e-3) < 0).any()
