"""Objectives and metrics inside XGBoost."""

import numpy as np
import pytest
from sklearn.base import clone
from tests.boosting.test_with_lightgbm import GROUP, qid, queries

from maxmargin import metrics
from maxmargin.boosting import evaluation, objective

xgb = pytest.importorskip("xgboost", reason="XGBoost is not installed: pip install 'maxmargin[xgboost]'")

SETTINGS = {"nthread": 1, "max_depth": 3, "learning_rate": 0.3, "base_score": 0.0}


def matrix(seed=0, **more):
    X, y = queries(seed)
    return xgb.DMatrix(X, y, qid=qid(), **more)


@pytest.mark.parametrize("loss", ["ndcg", "ap"])
def test_queries_are_learned(loss):
    log = {}
    booster = xgb.train(
        SETTINGS, matrix(), 30, obj=objective(loss), custom_metric=evaluation("ndcg@5"), evals=[(matrix(1), "new")],
        evals_result=log, verbose_eval=False,
    )  # fmt: skip
    X, y = queries(1)
    scores = booster.predict(matrix(1))
    found = metrics.ndcg(y, scores, qid=qid(), k=5, gains="exponential")
    assert log["new"]["ndcg@5"][-1] == pytest.approx(found, abs=1e-6)
    assert found > metrics.ndcg(y, X[:, 0], qid=qid(), k=5, gains="exponential") - 0.02


def test_the_same_matrix_twice_gives_the_same_model():
    data, rank = matrix(), objective("ndcg")
    one, two = (xgb.train(SETTINGS, data, 6, obj=rank).predict(data) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, xgb.train(SETTINGS, matrix(), 6, obj=objective("ndcg")).predict(data))


def test_one_list_by_both_interfaces():
    X, y = queries()
    relevant = (y > 2).astype(float)
    booster = xgb.train(SETTINGS, xgb.DMatrix(X, relevant), 15, obj=objective("ap"))
    model = xgb.XGBRegressor(
        objective=objective("ap"), n_estimators=15, max_depth=3, learning_rate=0.3, n_jobs=1, base_score=0.0,
        eval_metric=evaluation("ap"),
    )  # fmt: skip
    model = clone(model).fit(X, relevant, eval_set=[(X, relevant)], verbose=False)
    np.testing.assert_allclose(booster.predict(xgb.DMatrix(X)), model.predict(X), rtol=1e-5)
    found = metrics.average_precision(relevant, model.predict(X))
    assert model.evals_result()["validation_0"]["map"][-1] == pytest.approx(found, abs=1e-6)
    assert found > 0.8


@pytest.mark.parametrize(("metric", "name"), [("ap", "map"), ("p@5", "pre@5"), ("mrr", "prefer_mrr"), ("NDCG@10", "ndcg@10")])
@pytest.mark.parametrize("explicit", [False, True])
def test_early_stopping_finds_the_largest_value(metric, name, explicit):
    """Whether XGBoost guesses by the name or is told."""
    X, y = queries()
    relevant = (y > 2).astype(float)
    stop = {"callbacks": [xgb.callback.EarlyStopping(rounds=3, maximize=True)]} if explicit else {"early_stopping_rounds": 3}
    model = xgb.XGBRegressor(
        objective=objective("ap"), n_estimators=8, max_depth=3, n_jobs=1, base_score=0.0, eval_metric=evaluation(metric), **stop
    )
    values = model.fit(X, relevant, eval_set=[(X, relevant)], verbose=False).evals_result()["validation_0"][name]
    assert model.best_iteration == np.argmax(values) and len(values) >= min(8, np.argmax(values) + 4)
    log = {}
    booster = xgb.train(
        SETTINGS, matrix(), 8, obj=objective("ndcg"), custom_metric=evaluation(metric), evals=[(matrix(1), "new")],
        early_stopping_rounds=3, evals_result=log, verbose_eval=False, **({"maximize": True} if explicit else {}),
    )  # fmt: skip
    assert booster.best_iteration == np.argmax(log["new"][name])


def test_one_weight_for_every_query():
    _, y = queries()
    weights = np.ones(len(GROUP))
    weights[5:] = 0
    scores = np.zeros(300)
    found = objective("ndcg", noise=0)(scores, matrix(weight=weights))
    expected = objective("ndcg", noise=0)(y, scores, np.repeat(weights, GROUP), GROUP)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert found[0][:60].any() and not found[0][60:].any()


def test_a_matrix_without_labels():
    with pytest.raises(ValueError, match=r"no labels.*pass label="):
        xgb.train(SETTINGS, xgb.DMatrix(queries()[0]), 2, obj=objective("ap"))
