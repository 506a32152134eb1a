"""Metrics against trec_eval (through pytrec_eval) and scikit-learn."""

import numpy as np
import pytest
import pytrec_eval
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from maxmargin import metrics


def trec(relevance, scores, qid, names):
    """trec_eval's values per query; documents are named so that ties fall the way ours do, relevant ones last."""
    qrels, run = {}, {}
    for k, (r, s, q) in enumerate(zip(relevance, scores, qid, strict=True)):
        document = f"{9 - int(r)}-{k:06d}"  # trec_eval puts the larger name first among equal scores
        qrels.setdefault(str(q), {})[document] = int(r)
        run.setdefault(str(q), {})[document] = float(s)
    return pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_trec_eval(seed, tied):
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, 30, 700)
    relevance = rng.choice([0, 0, 0, 1, 2, 4], 700)
    relevance[qid == 3] = 0
    scores = rng.normal(size=700) + 0.3 * relevance
    if tied:
        scores = scores.round(0)
    names = {
        "map": "map", "mrr": "recip_rank", "ndcg": "ndcg", "ndcg@5": "ndcg_cut_5", "ndcg@10": "ndcg_cut_10", "p@5": "P_5",
        "recall@5": "recall_5", "R@1000": "recall_1000", "success@1": "success_1", "success@5": "success_5", "Rprec": "Rprec",
        "ap@5": "map_cut_5", "AP@10": "map_cut_10",
    }  # fmt: skip
    expected = trec(relevance, scores, qid, names.values())
    found, queries = metrics.per_query(relevance, scores, qid=qid, metrics=names)
    assert 3 in queries
    for ours, theirs in names.items():
        for value, query in zip(found[ours], queries, strict=True):
            if ours.startswith("ndcg") and tied:
                # Documents with equal scores but different positive grades: trec_eval sees only our names.
                continue
            assert value == pytest.approx(expected[str(query)][theirs], abs=1e-12)
    means = metrics.evaluate(relevance, scores, qid=qid, metrics=["map"])
    assert means["map"] == pytest.approx(np.mean([v["map"] for v in expected.values()]), abs=1e-12)


def test_metrics_from_their_definitions():
    """Those that trec_eval lacks, place by place."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 30))
        grades, scores, k = rng.integers(0, 5, n), rng.permutation(n).astype(float), int(rng.integers(1, 35))
        ranked = grades[np.argsort(-scores)]
        places = np.flatnonzero(ranked > 0) + 1
        found = metrics.evaluate(grades, scores, metrics=[f"rr@{k}", "rbp", "rbp(p=0.5)", f"err@{k}", "err", f"err(max=6)@{k}"])
        assert found[f"rr@{k}"] == pytest.approx(1 / places[0] if len(places) and places[0] <= k else 0.0)
        assert found["rbp"] == pytest.approx(sum(0.2 * 0.8 ** (p - 1) for p in places))
        assert found["rbp(p=0.5)"] == pytest.approx(sum(0.5**p for p in places))
        for name, end, highest in ((f"err@{k}", k, 4), ("err", n, 4), (f"err(max=6)@{k}", k, 6)):
            looking, expected = 1.0, 0.0
            for place, grade in enumerate(ranked[:end], 1):
                stops = (2.0**grade - 1) / 2**highest
                expected += looking * stops / place
                looking *= 1 - stops
            assert found[name] == pytest.approx(expected, abs=1e-14)


def test_samples_that_were_not_retrieved_are_not_found():
    names = ["ap", "ap@2", "rr", "rr@9", "recall@5", "rprec", "success@9", "rbp", "err", "p@2"]
    retrieved = np.array([True, False, True])
    found = metrics.evaluate([0, 1, 0], [3.0, 2.0, 1.0], metrics=names, retrieved=retrieved)
    assert set(found.values()) == {0.0}
    found = metrics.evaluate([1, 1, 0], [3.0, 2.0, 1.0], metrics=names, retrieved=retrieved)
    assert found["recall@5"] == found["rprec"] == found["ap"] == 0.5 and found["rbp"] == pytest.approx(0.2)


def test_equal_to_scikit_learn():
    rng = np.random.default_rng(0)
    y, scores = rng.random(500) < 0.2, rng.normal(size=500)
    assert metrics.average_precision(y, scores) == pytest.approx(average_precision_score(y, scores), abs=1e-12)
    assert metrics.auc(y, scores) == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
    assert metrics.auc(y, scores.round()) == pytest.approx(roc_auc_score(y, scores.round()), abs=1e-12)
    grades = rng.integers(0, 5, 500)
    for k in (None, 7):
        assert metrics.ndcg(grades, scores, k=k) == pytest.approx(ndcg_score([grades], [scores], k=k), abs=1e-12)
        exponential = metrics.ndcg(grades, scores, k=k, gains="exponential")
        assert exponential == pytest.approx(ndcg_score([2.0**grades - 1], [scores], k=k), abs=1e-12)


def test_reference_values():
    assert metrics.average_precision([1, 0, 0, 0, 1], [5, 4, 3, 2, 1]) == pytest.approx(0.7)
    assert metrics.ndcg([1, 0, 0, 0, 1], [5, 4, 3, 2, 1]) == pytest.approx(0.850345, abs=1e-6)
    assert metrics.precision([1, 1, 0, 0, 0], [5, 4, 3, 2, 1], k=5) == 0.4
    assert metrics.average_precision([0, 0, 1], [1, 1, 1]) == pytest.approx(1 / 3)
    assert metrics.precision([1], [0.0], k=10) == 0.1
    assert metrics.reciprocal_rank([0, 0], [1, 2]) == 0


def test_average_precision_of_turned_and_of_stretched_rankings():
    """The worst ranking is not worth nothing; only the order of scores counts."""
    for n_pos, n_neg in ((3, 5), (1, 1), (4, 40), (7, 2)):
        relevant = np.arange(n_pos + n_neg) < n_pos
        worst = np.mean([m / (n_neg + m) for m in range(1, n_pos + 1)])
        assert metrics.average_precision(relevant, np.where(relevant, -1.0, 1.0)) == pytest.approx(worst, rel=1e-14)
        # Equal scores are taken for the worst order.
        assert metrics.average_precision(relevant, np.zeros(len(relevant))) == pytest.approx(worst, rel=1e-14)
        assert metrics.average_precision(relevant, np.where(relevant, 1.0, -1.0)) == 1
    assert metrics.average_precision([1, 1, 1, 0, 0, 0, 0, 0], np.arange(8)) == pytest.approx(0.2758, abs=5e-5)
    rng = np.random.default_rng(1)
    y, scores = rng.random(300) < 0.1, rng.normal(size=300).round(1)
    value = metrics.average_precision(y, scores)
    for stretched in (np.exp(scores), scores**3, 1e-9 * scores - 5, np.searchsorted(np.unique(scores), scores)):
        assert metrics.average_precision(y, stretched) == value


def test_bad_input():
    with pytest.raises(ValueError, match="relevance has shape"):
        metrics.average_precision([1, 0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="scores must be finite"):
        metrics.ndcg([1, 0], [1.0, np.nan])
    with pytest.raises(ValueError, match="relevance must be finite"):
        metrics.ndcg([1, np.inf], [1.0, 2.0])
    with pytest.raises(TypeError, match="relevance must be numbers"):
        metrics.auc(["a", "b"], [1.0, 2.0])
    with pytest.raises(ValueError, match="k=0"):
        metrics.precision([1, 0], [1.0, 2.0], k=0)
    with pytest.raises(ValueError, match="gains='log'"):
        metrics.ndcg([1, 0], [1.0, 2.0], gains="log")
    for name in ("auc@3", "foo", "p", "ndcg@0", "ndcg@x", "ap(p=0.5)", "rbp@3", "recall", "rprec@2", "ndcg@-1"):
        with pytest.raises(ValueError, match="is unknown; choose from"):
            metrics.evaluate([1, 0], [1.0, 2.0], metrics=[name])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rbp(p=1)", "persistence p=1 of rbp must be between 0 and 1"),
        ("rbp(p=much)", "'much' in the name of a metric is not a number"),
        ("err(max=0)", "the highest grade max=0 of err must be at least 1"),
        ("err(max=2)", r"relevance has the grade 5, but err knows grades up to 2; use err\(max=5\)"),
    ],
)
def test_bad_parameters_of_metrics(name, message):
    with pytest.raises(ValueError, match=message):
        metrics.evaluate([5, 0], [1.0, 2.0], metrics=[name])
