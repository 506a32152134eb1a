"""The estimators: scikit-learn's checks, what they are made of, and files."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import load_model, metrics, save_model
from maxmargin.boosting import BoostedRanker, BoostedRankingClassifier, objective
from maxmargin.boosting.training import smoothed
from maxmargin.io import SavedFileError, read_archive, write_archive

lgb = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'maxmargin[lightgbm]'")

SMALL = {"n_estimators": 15, "n_jobs": 1, "random_state": 0}


@parametrize_with_checks([BoostedRankingClassifier(n_estimators=10, num_leaves=7, n_jobs=1)])
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def rare(n=900, seed=0):
    return make_classification(n, n_features=8, n_informative=4, weights=[0.93], flip_y=0.02, random_state=seed)


def test_scores_are_the_sum_of_standardised_members():
    X, y = rare()
    model = BoostedRankingClassifier(**SMALL).fit(X[:500], y[:500], validation=(X[500:700], y[500:700]))
    held = [booster.predict(X[500:700], raw_score=True) for booster in model.boosters_]
    np.testing.assert_allclose(model.spreads_, [np.std(scores) for scores in held])
    new = sum(booster.predict(X[700:], raw_score=True) / np.std(own) for booster, own in zip(model.boosters_, held, strict=True))
    slope, intercept = model.calibration_
    np.testing.assert_allclose(model.decision_function(X[700:]), slope * new + intercept)
    assert slope > 0 and [booster.current_iteration() for booster in model.boosters_] == model.n_rounds_
    blend = sum(own / np.std(own) for own in held)
    assert model.validation_score_ == pytest.approx(metrics.average_precision(y[500:700], blend))
    assert average_precision_score(y[700:], model.decision_function(X[700:])) > 0.5


def test_probabilities_are_calibrated_log_odds():
    X, y = rare(3000)
    model = BoostedRankingClassifier(**SMALL).fit(X[:2000], y[:2000])
    odds, proba = model.decision_function(X[2000:]), model.predict_proba(X[2000:])
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-odds)))
    assert abs(proba[:, 1].mean() - y[2000:].mean()) < 0.03
    np.testing.assert_array_equal(model.predict(X[2000:]), (proba[:, 1] > 0.5).astype(int))


def test_rounds_are_those_of_the_smoothed_metric():
    X, y = rare()
    member = {"objective": "binary", "num_leaves": 7}
    model = BoostedRankingClassifier(members=[member], patience=None, **SMALL)
    model.fit(X[:600], y[:600], validation=(X[600:], y[600:]))
    whole = lgb.train(
        {**model._settings(600, 0)[0], "seed": np.random.RandomState(0).randint(2**31 - 1)}, lgb.Dataset(X[:600], y[:600]), 15
    )
    curve = [metrics.average_precision(y[600:], whole.predict(X[600:], num_iteration=k)) for k in range(1, 16)]
    assert model.n_rounds_ == [int(np.argmax(smoothed(np.array(curve)))) + 1]
    assert len(model.boosters_) == 1


@pytest.mark.parametrize("length", [1, 2, 3, 5, 9])
def test_smoothing_is_the_mean_of_five_neighbours(length):
    curve = np.random.default_rng(length).random(length)
    expected = [np.mean(curve[max(0, k - 2) : k + 3]) for k in range(length)]
    np.testing.assert_allclose(smoothed(curve), expected)


def test_two_binary_models_and_two_noises():
    X, y = rare()
    model = BoostedRankingClassifier(**SMALL).fit(X, y)
    own = [{"objective": "binary"}, {"objective": "binary", "max_delta_step": 1.0}]
    seed = np.random.RandomState(0).randint(2**31 - 1)
    own += [objective("ap", random_state=seed), objective("ap", random_state=seed + 1)]
    same = BoostedRankingClassifier(members=own, **SMALL).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    scores = [booster.predict(X, raw_score=True) for booster in model.boosters_]
    assert not np.array_equal(scores[2], scores[3])


def test_members_of_ones_own():
    X, y = rare()
    two = [{"objective": "binary"}, {"objective": "binary", "max_delta_step": 1.0, "num_leaves": 3}]
    model = BoostedRankingClassifier(members=two, **SMALL).fit(X, y)
    assert len(model.boosters_) == 2
    assert max(tree["num_leaves"] for tree in model.boosters_[1].dump_model()["tree_info"]) <= 3
    alone = BoostedRankingClassifier(members=[objective("auc")], metric="auc", **SMALL).fit(X, y)
    assert metrics.auc(y, alone.decision_function(X)) > 0.8


def test_any_labels_sparse_and_missing_features():
    X, y = rare(400)
    X[::7, 0] = np.nan
    words = np.where(y == 1, "yes", "no")
    dense = BoostedRankingClassifier(**SMALL).fit(X, words)
    assert dense.classes_.tolist() == ["no", "yes"]
    assert set(dense.predict(X)) <= {"no", "yes"}
    X = np.where(np.abs(X) < 0.5, 0, np.nan_to_num(X))
    one, other = (clone(dense).fit(form, words).decision_function(form) for form in (X, csr_matrix(X)))
    np.testing.assert_allclose(one, other)


def queries(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(n * 12, 4)), np.repeat(np.arange(n), 12)
    return X, np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n * 12), [1.0, 2.0, 3.5]), qid


def test_queries():
    X, y, qid = queries()
    model = BoostedRanker(**SMALL).fit(X, y, qid)
    new = queries(1)
    assert model.score(*new) == pytest.approx(metrics.ndcg(new[1], model.predict(new[0]), k=10, gains="exponential", qid=new[2]))
    assert model.score(*new) > metrics.ndcg(new[1], new[0][:, 0], k=10, gains="exponential", qid=new[2])
    # The order of the rows is of no consequence, but for that of queries.
    order = np.argsort(np.arange(len(y)) % 12, kind="stable")
    again = clone(model).fit(X[order], y[order], qid[order])
    np.testing.assert_allclose(again.predict(new[0]), model.predict(new[0]))
    given = clone(model).fit(X, y, qid, validation=new)
    assert given.validation_score_ == pytest.approx(given.score(*new))


@pytest.mark.parametrize("kind", [BoostedRankingClassifier, BoostedRanker])
def test_files_hold_the_model(kind, tmp_path):
    if kind is BoostedRanker:
        X, y, qid = queries()
        model = kind(**SMALL).fit(X, y, qid)
        predict = model.predict
    else:
        X, y = rare(400)
        model = kind(members=["binary", objective("ap")], **SMALL).fit(X, np.where(y == 1, "yes", "no"))
        predict = model.predict_proba
    path = tmp_path / "model"
    model.save(path)
    same = kind.load(path)
    np.testing.assert_array_equal(getattr(same, predict.__name__)(X), predict(X))
    assert same.n_rounds_ == model.n_rounds_ and same.n_estimators == 15 and same.validation_score_ == model.validation_score_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    other = BoostedRankingClassifier if kind is BoostedRanker else BoostedRanker
    with pytest.raises(SavedFileError, match=f"holds a {kind.__name__}"):
        other.load(path)
    (tmp_path / "half").write_bytes(path.read_bytes()[:1000])
    with pytest.raises(SavedFileError):
        kind.load(tmp_path / "half")
    save_model(model, path, about={"of": "May"})
    same = load_model(path)
    assert type(same) is kind and read_archive(path, "boosted ranking").content["about"] == {"of": "May"}
    np.testing.assert_array_equal(getattr(same, predict.__name__)(X), predict(X))
    with pytest.raises(SavedFileError, match="half"):
        load_model(tmp_path / "half")
    with pytest.raises(ValueError, match=r"members cannot be passed for .* leave it out"):
        load_model(path, members=["binary"])
    write_archive(path, "boosted ranking", {"class": "os.system"}, {})
    with pytest.raises(SavedFileError, match=r"holds a os.system, not a"):
        load_model(path)
    with pytest.raises(NotFittedError):
        save_model(kind(), path)


def test_time_limit_and_interruption_keep_what_there_is(monkeypatch):
    X, y = rare(400)
    model = BoostedRankingClassifier(time_limit=1e-6, **SMALL).fit(X, y)
    assert model.status_ == "time_limit" and model.n_rounds_ == [1] * 4
    calls = []
    update = lgb.Booster.update

    def interrupted(self, *args, **more):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return update(self, *args, **more)

    monkeypatch.setattr(lgb.Booster, "update", interrupted)
    model = BoostedRankingClassifier(num_leaves=7, **SMALL).fit(X, y)
    assert model.status_ == "interrupted" and len(model.boosters_) == 2
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": 0}, "n_estimators=0"),
        ({"patience": -1}, "patience=-1"),
        ({"num_leaves": 1}, "num_leaves=1"),
        ({"num_leaves": ()}, "num_leaves"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0.*between 0 and 1"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"metric": "nonsense"}, "nonsense"),
        ({"loss": "nonsense"}, "nonsense"),
        ({"members": "binary"}, "members='binary' is no list"),
        ({"members": [{"num_leaves": 3}]}, "has no objective"),
    ],
)
def test_bad_parameters_are_named(settings, message):
    X, y = rare(100)
    with pytest.raises(ValueError, match=message):
        BoostedRankingClassifier(**settings).fit(X, y)


def test_bad_data_are_named():
    X, y = rare(100)
    model = BoostedRankingClassifier(**SMALL)
    with pytest.raises(ValueError, match=r"Only binary classification.*3 class"):
        model.fit(X, np.arange(100) % 3)
    single = np.zeros(100)
    single[0] = 1
    with pytest.raises(ValueError, match="one sample of the class"):
        model.fit(X, single)
    with pytest.raises(ValueError, match="validation has the label 7"):
        model.fit(X, y, validation=(X, np.full(100, 7)))
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X, y, validation=(X, np.zeros(100, dtype=int)))
    with pytest.raises(ValueError, match="validation must be features and labels"):
        model.fit(X, y, validation=X)
    ranker = BoostedRanker(**SMALL)
    with pytest.raises(ValueError, match=r"one query.*validation="):
        ranker.fit(X, y, np.zeros(100))
    with pytest.raises(ValueError, match="whole numbers"):
        ranker.fit(X, y + 0.5, np.arange(100) % 4)
    with pytest.raises(ValueError, match="qid is None"):
        ranker.fit(X, y, None)


def test_lightgbm_is_asked_for(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"pip install 'maxmargin\[lightgbm\]'"):
        BoostedRankingClassifier().fit([[0.0], [1.0]], [0, 1])
