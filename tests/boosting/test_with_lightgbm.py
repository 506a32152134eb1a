"""Objectives and metrics inside LightGBM, by both of its interfaces."""

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import metrics
from maxmargin.boosting import evaluation, objective

lgb = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'maxmargin[lightgbm]'")

SETTINGS = {"verbose": -1, "num_threads": 1, "num_leaves": 5, "learning_rate": 0.2, "min_data_in_leaf": 3, "deterministic": True}
GROUP = [12] * 25


def queries(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    return X, np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=300), [0.5, 1.2, 2.0]).astype(float)


def qid():
    return np.repeat(np.arange(len(GROUP)), GROUP)


@pytest.mark.parametrize("loss", ["ndcg", "ap", "auc", "mrr"])
def test_queries_are_learned(loss):
    X, y = queries()
    booster = lgb.train({**SETTINGS, "objective": objective(loss)}, lgb.Dataset(X, y, group=GROUP), 30)
    new, grades = queries(1)
    found = metrics.ndcg(grades, booster.predict(new), qid=qid(), gains="exponential")
    assert found > metrics.ndcg(grades, new[:, 0], qid=qid(), gains="exponential") - (0.1 if loss == "mrr" else 0.02)


def test_both_interfaces_give_the_same_model():
    X, y = queries()
    booster = lgb.train({**SETTINGS, "objective": objective("ndcg")}, lgb.Dataset(X, y, group=GROUP), 10)
    model = clone(lgb.LGBMRanker(n_estimators=10, objective=objective("ndcg"), **SETTINGS)).fit(X, y, group=GROUP)
    np.testing.assert_array_equal(booster.predict(X), model.predict(X))
    # And once more, with the same estimator.
    np.testing.assert_array_equal(booster.predict(X), model.fit(X, y, group=GROUP).predict(X))


def test_one_list():
    X, y = queries()
    relevant = (y > 2).astype(float)
    booster = lgb.train({**SETTINGS, "objective": objective("ap")}, lgb.Dataset(X, relevant), 20)
    model = lgb.LGBMRegressor(n_estimators=20, objective=objective("ap"), **SETTINGS).fit(X, relevant)
    np.testing.assert_array_equal(booster.predict(X), model.predict(X))
    assert metrics.average_precision(relevant, model.predict(X)) > 0.9


def test_lists_beyond_ten_thousand_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12_000, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=12_000) > 2).astype(float)
    booster = lgb.train({**SETTINGS, "objective": objective("ap")}, lgb.Dataset(X, y), 5)
    assert metrics.average_precision(y, booster.predict(X)) > 0.4


def test_folds_of_cv():
    X, y = queries()
    folds = [(np.arange(144), np.arange(144, 300)), (np.arange(144, 300), np.arange(144))]
    data = lgb.Dataset(X, y, group=GROUP)
    log = lgb.cv({**SETTINGS, "objective": objective("ndcg")}, data, 12, folds=folds, feval=evaluation("ndcg@5"))
    found = log["valid ndcg@5-mean"]
    assert len(found) == 12 and found[-1] > found[0] and found[-1] > 0.6


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_metrics_are_ours():
    X, y = queries()
    log = {}
    data = lgb.Dataset(X, y, group=GROUP)
    booster = lgb.train(
        {**SETTINGS, "objective": objective("ndcg"), "metric": "None"}, data, 5, valid_sets=[data], valid_names=["own"],
        feval=[evaluation("ndcg@3"), evaluation("ap")], callbacks=[lgb.record_evaluation(log)],
    )  # fmt: skip
    scores = booster.predict(X)
    assert log["own"]["ndcg@3"][-1] == pytest.approx(metrics.ndcg(y, scores, k=3, gains="exponential", qid=qid()))
    assert log["own"]["ap"][-1] == pytest.approx(metrics.average_precision(y, scores, qid=qid()))
    model = lgb.LGBMRanker(n_estimators=5, objective=objective("ndcg"), **SETTINGS)
    model.fit(X, y, group=GROUP, eval_set=[(X, y)], eval_group=[GROUP], eval_metric=evaluation("ndcg@3"))
    assert model.evals_result_["training"]["ndcg@3"][-1] == pytest.approx(log["own"]["ndcg@3"][-1])


def test_weights_of_queries():
    X, y = queries()
    half = np.repeat([1.0, 0.0], [144, 156])
    booster = lgb.train({**SETTINGS, "objective": objective("ndcg", noise=0)}, lgb.Dataset(X, y, group=GROUP, weight=half), 5)
    log = evaluation("ap")(y, booster.predict(X), half, GROUP)[1]
    assert log == pytest.approx(metrics.average_precision(y[:144], booster.predict(X[:144]), qid=qid()[:144]))


def test_data_sets_without_labels():
    X, _ = queries()
    with pytest.raises(ValueError, match=r"without labels.*mark relevant rows"):
        lgb.train({**SETTINGS, "objective": objective("ap")}, lgb.Dataset(X), 2)
