"""Metrics over shards against those of the whole list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import RankingSVM, metrics
from maxmargin.distributed import ArrayRows, Fault, LocalEngine, ShardOf, split_rows
from maxmargin.ranking.shards import evaluate

NAMES = [
    "ap", "ap@3", "mrr", "mrr@2", "ndcg", "ndcg@4", "p@3", "recall@3", "success@2", "rprec", "rbp", "rbp(p=0.5)", "err", "err@3",
    "auc",
]  # fmt: skip


def engine_of(parts, **settings):
    return LocalEngine([ShardOf(part, "ranking") for part in parts], **settings)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-15), name


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans(), st.booleans(), st.sampled_from(["linear", "exponential"]),
    st.sampled_from([2, 1000]),
)  # fmt: skip
def test_any_list_with_ties(seed, n_shards, queries, whole, gains, values):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    X, y = rng.integers(0, values, size=(n, 2)) * 1.0, rng.integers(-1, 4, size=n)
    qid = np.sort(rng.integers(0, 5, size=n)) if queries else None
    parts = split_rows(X, y, n_shards, qid, whole=whole)
    found = evaluate(engine_of(parts), [1.0, 0.5], metrics=NAMES, gains=gains)
    assert_same(found, metrics.evaluate(y, X @ [1.0, 0.5], qid=qid, metrics=NAMES, gains=gains))


def data(seed=0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)).round(1)
    return X, np.clip(np.floor(X[:, 0] + rng.normal(size=n)), 0, 3), np.sort(rng.integers(0, 40, size=n))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("loss", "grades"),
    [("ap", False), ("ndcg@5", False), ("auc", True), ("ndcg", "exponential"), ("ap@5", False), ("ap@5", True)],
)
def test_the_score_of_an_estimator(whole, loss, grades):
    X, y, qid = data()
    weight = np.random.default_rng(1).integers(0, 3, size=40).astype(float)
    names = np.unique(qid, return_inverse=True)
    weight = weight[: len(names[0])]
    model = RankingSVM(loss, C=10.0, grades=grades, tol=0.1).fit(X, y, qid)
    engine = engine_of(split_rows(X, y, 5, qid, query_weight=weight, whole=whole))
    named = not loss.startswith("ap@")
    found = evaluate(
        engine, model.coef_, metrics=[loss] if named else [], gains=grades if isinstance(grades, str) else "linear",
        thresholds=None if isinstance(grades, str) else model.relevance_thresholds_, loss=None if named else loss,
    )  # fmt: skip
    expected = model.score(X, y, qid, weight[names[1]])
    assert next(iter(found.values())) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
@pytest.mark.parametrize("queries", [True, False])
def test_every_operation_and_every_fault(kind, queries):
    X, y, qid = data(2, 60)
    parts = split_rows(X, y, 3, qid if queries else None, whole=False)
    engine = engine_of(parts)
    clean = evaluate(engine, np.ones(6))
    assert "count_above" in engine.log
    for number in range(engine.rounds):
        assert evaluate(engine_of(parts, faults=[Fault(kind, number, number % 3)]), np.ones(6)) == clean


def test_rounds_and_bytes():
    X, y, _ = data(3, 3000)
    y[np.random.default_rng(0).random(3000) < 0.95] = 0
    engine = engine_of(split_rows(X, y, 3))
    evaluate(engine, np.ones(6), metrics=["ap", "auc"])
    assert engine.log == ["info", "judge", "count_above"]
    n_pos = np.count_nonzero(y > 0)
    assert engine.bytes_up < 3000 + 16 * n_pos + 3 * 16 * n_pos and engine.bytes_down < 3000 + 3 * 8 * n_pos


def test_bad_input():
    X, y, qid = data(4, 60)
    engine = engine_of(split_rows(X, y, 2, qid))
    with pytest.raises(ValueError, match="metric 'mapp' is unknown"):
        evaluate(engine, np.ones(6), metrics=["mapp"])
    with pytest.raises(ValueError, match=r"weights has shape \(5,\), but the rows have 6 features"):
        evaluate(engine, np.ones(5))
    with pytest.raises(ValueError, match="weights must be finite"):
        evaluate(engine, np.full(6, np.nan))
    with pytest.raises(ValueError, match="shards hold no data"):
        evaluate(engine_of([ArrayRows(X[:0], y[:0])]), np.ones(6))
    with pytest.raises(ValueError, match="the weight of every query is zero"):
        evaluate(engine_of(split_rows(X, y, 2, qid, query_weight=np.zeros(40))), np.ones(6))
    with pytest.raises(ValueError, match=r"weights has shape \(7,\), but the rows have 6 features"):
        evaluate(engine, np.ones(7))
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match=r"a feature in row 3 of rows 0 to .* is NaN or infinite"):
        evaluate(engine_of(split_rows(X, y, 2, qid)), np.ones(6))
