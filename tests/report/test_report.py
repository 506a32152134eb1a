"""What the report computes, and the file it becomes; the page itself is tested in a browser."""

import base64
import hashlib
import html
import itertools
import json
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LatentRankingSVM, RankingClassifier, RankingSVM, regularization_path
from maxmargin.core import Certificate
from maxmargin.ranking import AUC, RankedLists, RankingLoss, metrics
from maxmargin.report import path_contents, report_contents, save_page, write_report
from maxmargin.report.chance import expected_metric
from maxmargin.report.curves import gain, histogram, precision_recall, thin
from maxmargin.report.ranked import METRICS, metric_of_lists


@pytest.fixture(scope="module")
def one_list():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, 0] - X[:, 1] + rng.normal(size=300) > 1.2).astype(int)
    return X, y, RankingSVM("ap", C=10).fit(X, y)


@pytest.fixture(scope="module")
def queries():
    """Grades 0 to 2, unordered queries of different sizes, one of them without anything relevant."""
    rng = np.random.default_rng(1)
    X, qid = rng.normal(size=(400, 5)), rng.integers(0, 30, 400)
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=400)), 0, 2)
    y[qid == qid[0]] = 0
    return X, y, qid, RankingSVM("ndcg", C=1).fit(X, y, qid)


def contents_of(page):
    """The data block of a page, as a browser would read it."""
    return json.loads(re.search(r'<script type="application/json" id="contents">(.*?)</script>', page, re.S)[1])


# ---- a random ranking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*METRICS, "ndcg@2", "p@3"])
@pytest.mark.parametrize("grades", [[1, 0], [2, 0, 1, 0, 0], [1, 1, 1], [0, 0, 0], [1], [3, 1, 1, 0]])
def test_expectation_is_the_mean_over_all_orders(name, grades):
    grades = np.array(grades, dtype=float)
    orders = list(itertools.permutations(range(len(grades))))
    truth = np.mean([metrics.evaluate(grades, np.array(order), metrics=[name])[name] for order in orders])
    assert expected_metric(name, RankedLists(grades, grades, None), grades) == pytest.approx(truth, abs=1e-12)


def test_expectation_over_queries_is_a_mean():
    grades = np.array([1.0, 0, 2, 0, 0, 0, 0])
    queries = [slice(0, 2), slice(2, 5), slice(5, 7)]
    for name in METRICS:
        parts = [expected_metric(name, RankedLists(grades[rows], grades[rows], None), grades[rows]) for rows in queries]
        lists = RankedLists(grades, grades, np.repeat([7, 5, 6], [2, 3, 2]))
        assert expected_metric(name, lists, grades) == pytest.approx(np.mean(parts))


# ---- curves ------------------------------------------------------------------------------------------------------------------

cases = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(0, 4)), min_size=2, max_size=40)


@given(cases)
@settings(max_examples=150, deadline=None)
def test_one_list(samples):
    grades, scores, _ = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    if not grades.any():
        grades[0] = 1
    lists = RankedLists(grades, scores, None)
    curve = precision_recall(lists)
    area = np.sum(np.diff(curve.x) * curve.y[1:])
    assert area == pytest.approx(metrics.average_precision(grades, scores))
    n, order = len(grades), np.lexsort((grades, -scores))
    found = np.append(0, np.cumsum(grades[order])) / grades.sum()
    curve = gain(lists, lists.grades)
    np.testing.assert_allclose(np.interp(np.arange(n + 1) / n, curve.x, curve.y), found, atol=1e-12)


@given(cases)
@settings(max_examples=150, deadline=None)
def test_several_queries(samples):
    grades, scores, qid = (np.array(column, dtype=float) for column in zip(*samples, strict=True))
    qid[:2], grades[:2] = [0, 1], 1
    lists = RankedLists(grades, scores, qid)
    curve = precision_recall(lists)
    judged = np.isin(qid, qid[grades > 0])
    truth = metrics.interpolated_average_precision(grades[judged], scores[judged], points=101, qid=qid[judged])
    assert curve.y.mean() == pytest.approx(truth) and (np.diff(curve.y) <= 1e-9).all()
    curve = gain(lists, lists.grades)
    expected = []
    for query in np.unique(qid[judged]):
        here = qid == query
        order = np.lexsort((grades[here], -scores[here]))
        found = np.append(0, np.cumsum(grades[here][order])) / grades[here].sum()
        expected.append(np.interp(curve.x, np.arange(here.sum() + 1) / here.sum(), found))
    np.testing.assert_allclose(curve.y, np.mean(expected, axis=0), atol=1e-9)


def test_thinning_keeps_every_peak():
    x = np.linspace(0, 1, 200_000)
    y = np.sin(40 * x)
    kept = thin(y)
    assert len(kept) <= 1000 and np.abs(np.interp(x, x[kept], y[kept]) - y).max() < 0.02
    y[[3, 70_001, 199_998]] = [5.0, -7.0, 9.0]
    kept = thin(y)
    assert len(kept) <= 1000 and {0, 3, 70_001, 199_998, 199_999} <= set(kept)
    y[5] = np.nan
    assert len(thin(y, -y)) <= 1000
    assert thin(y[:1000]).tolist() == list(range(1000))


def test_thinned_curves_stay_true():
    rng = np.random.default_rng(2)
    relevant = rng.random(60_000) < 0.3
    scores = relevant + rng.normal(size=60_000)
    lists = RankedLists(relevant, scores, None)
    curve = precision_recall(lists)
    assert len(curve.x) <= 1001
    assert np.sum(np.diff(curve.x) * curve.y[1:]) == pytest.approx(metrics.average_precision(relevant, scores), abs=2e-3)
    curve = gain(lists, lists.grades)
    found = np.append(0, np.cumsum(lists.grades)) / relevant.sum()
    assert len(curve.x) <= 1000
    np.testing.assert_allclose(np.interp(np.linspace(0, 1, 60_001), curve.x, curve.y), found, atol=2e-3)


def test_histogram():
    values = np.random.default_rng(3).normal(size=5000)
    groups = [values > 0, values <= 0]
    edges, counts, beyond = histogram(values, groups)
    assert [count.sum() for count in counts] == [group.sum() for group in groups] and beyond == (0, 0)
    values[0] = 1e9
    edges, counts, beyond = histogram(values, [values > 0, values <= 0])
    assert edges[-1] < 10 and beyond == (0, 1 + np.count_nonzero(values[1:] > edges[-1]))
    for constant in (0.0, 1e300, -4.5):
        edges, counts, beyond = histogram(np.full(3, constant), [np.ones(3, bool)])
        assert counts[0].sum() == 3 and (np.diff(edges) > 0).all() and beyond == (0, 0)


# ---- contents ----------------------------------------------------------------------------------------------------------------


def test_contents_of_one_list(one_list):
    X, y, model = one_list
    other = X[:, 0]
    found = report_contents(model, X, y, baselines={"first feature": other, "accuracy": RankingSVM("accuracy").fit(X, y)})
    scores = model.decision_function(X)
    assert found["headline"]["value"] == pytest.approx(model.score(X, y), rel=1e-5)
    assert found["methods"] == ["RankingSVM", "first feature", "accuracy", "random"]
    expected = [metrics.evaluate(y, s, metrics=METRICS) for s in (scores, other)]
    for row, values in zip(found["metrics"]["rows"], expected, strict=False):
        assert row == pytest.approx(list(values.values()), rel=1e-5)
    assert found["headline"]["baselines"]["first feature"] == pytest.approx(expected[1]["ap"], rel=1e-5)
    assert found["queries"] is None
    late, early = found["samples"]["late"], found["samples"]["early"]
    rank = np.empty(len(y), dtype=int)
    rank[np.argsort(-scores)] = np.arange(1, len(y) + 1)
    assert late[0][:2] == [1 + int(np.flatnonzero(y)[np.argmin(scores[y == 1])]), rank[y == 1].max()]
    assert early[0][:2] == [1 + int(np.flatnonzero(y == 0)[np.argmax(scores[y == 0])]), rank[y == 0].min()]
    assert found["convergence"]["gap"][-1] == pytest.approx(model.dual_gap_, rel=1e-5)
    assert ["C", "10", True] in found["parameters"]["rows"] and ["tol", "0.001", False] in found["parameters"]["rows"]
    text = " ".join(found["headline"]["sentences"])
    assert "300 samples" in text and "certified." in text and "first feature" in text
    json.dumps(found, allow_nan=False)


def test_contents_of_queries(queries):
    X, y, qid, model = queries
    names = {int(q): f"query no. {q}" for q in np.unique(qid)}
    found = report_contents(model, X, y, qid, baselines={"zero": np.zeros(len(y))}, query_names=names)
    assert found["data"]["queries"] == 30 and found["data"]["without_relevant"] == 1 and found["data"]["graded"]
    scores = model.decision_function(X)
    assert found["headline"]["value"] == pytest.approx(metrics.ndcg(y, scores, qid=qid), rel=1e-5)
    values, ids = metrics.per_query(y, scores, qid=qid, metrics=["ndcg", "mrr"])
    truth = sorted((v, f"query no. {q}") for v, q in zip(values["ndcg"], ids, strict=True) if y[qid == q].any())
    rows = found["queries"]["rows"]
    assert [row[4] for row in rows] == pytest.approx([v for v, _ in truth[:20]], rel=1e-5)
    assert rows[0][0] == truth[0][1]
    for name, size, relevant, first, _, _ in rows:
        here = qid == int(name.split()[-1])
        order = np.argsort(-scores[here])
        assert (size, relevant) == (here.sum(), np.count_nonzero(y[here])) and first == np.argmax(y[here][order] > 0) + 1
    duel = found["queries"]["duels"][0]
    assert duel["better"] + duel["worse"] + duel["equal"] == found["queries"]["total"] == 29
    assert [sum(counts) for counts in found["queries"]["counts"]] == [29, 29]
    assert found["gain"]["collected"] is not None and found["samples"] is None


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (1, 2)])
def test_any_coding_of_two_labels(one_list, low, high):
    X, y, _ = one_list
    labels = np.where(y == 1, high, low)
    found = report_contents(RankingSVM("ndcg", C=10).fit(X, labels), X, labels)
    plain = report_contents(RankingSVM("ndcg", C=10).fit(X, y), X, y)
    assert found["metrics"] == plain["metrics"] and not found["data"]["graded"] and found["gain"] == plain["gain"]


def test_relevance_is_what_the_model_learned(queries):
    X, y, qid, _ = queries
    found = report_contents(RankingSVM("ap", relevance_threshold=1).fit(X, y, qid), X, y, qid)
    assert found["data"]["relevant"] == np.count_nonzero(y > 1)
    found = report_contents(RankingSVM("ap", grades=True).fit(X, y, qid), X, y, qid)
    assert found["data"]["relevant"] == np.count_nonzero(y > 0)
    shifted = report_contents(RankingSVM("ndcg").fit(X, y + 1, qid), X, y + 1, qid)
    assert shifted["metrics"] == report_contents(RankingSVM("ndcg").fit(X, y, qid), X, y, qid)["metrics"]


def test_features(one_list):
    X, y, model = one_list
    stretched = X * np.array([1, 1, 50, 1, 1, 1])
    names = [f"f{k}" for k in range(6)]
    for matrix in (stretched, sparse.csr_array(stretched), stretched.tolist()):
        found = report_contents(model, matrix, y, feature_names=names)["features"]
        order = np.argsort(-np.abs(model.coef_))
        assert [row[0] for row in found["by_weight"]] == [f"f{k}" for k in order]
        assert [row[1] for row in found["by_weight"]] == pytest.approx(model.coef_[order], rel=1e-5)
        effects = model.coef_ * stretched.std(axis=0)
        assert [row[1] for row in found["by_effect"]] == pytest.approx(sorted(effects, key=abs, reverse=True), rel=1e-5)
        assert found["total"] == found["nonzero"] == 6
    assert report_contents(model, X, y)["features"]["by_weight"][0][0] == f"column {order[0]}"


def test_pipeline(one_list):
    X, y, _ = one_list
    pipeline = make_pipeline(StandardScaler(), RankingSVM("ap", C=10)).fit(X * 100, y)
    found = report_contents(pipeline, X * 100, y)
    scores = pipeline.decision_function(X * 100)
    assert found["headline"]["value"] == pytest.approx(metrics.average_precision(y, scores), rel=1e-5)
    weights = dict(found["features"]["by_weight"])
    assert dict(found["features"]["by_effect"]) == pytest.approx(weights, rel=1e-4)
    assert set(weights) == {f"x{k}" for k in range(6)}


def test_bags(tmp_path):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 3, 4)), np.arange(60) % 4 == 0
    X[y, 0, :2] += 3
    model = LatentRankingSVM(C=10, random_state=0).fit(X, y)
    other = LatentRankingSVM(C=1e-3, random_state=0).fit(X, y)
    found = contents_of(model.report(X, y, path=tmp_path / "r.html", baselines={"other": other}).read_text())
    assert found["headline"]["value"] == pytest.approx(model.score(X, y), rel=1e-5)
    assert found["headline"]["baselines"]["other"] == pytest.approx(other.score(X, y), rel=1e-5)
    assert found["certificate"]["sentence"].startswith("The last convex step is optimal")
    rows, offsets = X.reshape(180, 4), np.arange(0, 181, 3)
    same = contents_of(model.report(rows, y, offsets, path=tmp_path / "s.html", baselines={"other": other}).read_text())
    assert same == found


class Scorer:
    """The least that a report needs."""

    def __init__(self, **known):
        vars(self).update(known)

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def test_certificate():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2

    def sentence(**known):
        return report_contents(Scorer(**known), X, y)["certificate"]["sentence"]

    assert "Nothing is proved" in sentence()
    assert "Nothing is proved" in sentence(**Certificate(1.0, -np.inf, True).attributes())
    known = Certificate(2.0, 1.998, True).attributes()
    # Nobody is to take the certificate of the objective for a good ranking.
    about = "That is about the training objective, not about how good the ranking is."
    assert sentence(**known) == f"Training is optimal to within 0.1\xa0%: certified. {about}"
    assert "within rounding: certified." in sentence(**Certificate(2.0, 2.0, True).attributes())
    assert "not certified" in sentence(**known | {"certified_": False})
    assert "not certified" in sentence(**known | {"dual_gap_": 0.0}), "the objectives say otherwise"
    crossed = report_contents(Scorer(**Certificate(2.0, 2.1, True).attributes()), X, y)["certificate"]
    assert crossed["relative_gap"] is None and "nothing is proved" in crossed["sentence"]
    bare = report_contents(Scorer(), X, y)
    assert bare["features"] is None and bare["convergence"] is None and bare["parameters"]["rows"] == []
    assert bare["title"] == "Scorer" and bare["metric"] == "AP"


def test_metric_follows_the_loss():
    class Half(RankingLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return np.full(j.shape, -0.5 / (n_pos * n_neg))

    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    titles = {loss: report_contents(Scorer(loss=loss), X, y) for loss in ("mrr", "auc", "accuracy", "unheard of", AUC(), Half())}
    assert [found["metric"] for found in titles.values()] == ["reciprocal rank", "AUC", "AP", "AP", "AUC", "AP"]
    assert [found["title"] for found in titles.values()][2:] == [
        "Scorer, trained for accuracy",
        "Scorer",
        "Scorer, trained for AUC",
        "Scorer, trained for Half",
    ]


def test_metrics_of_the_first_places(queries):
    class Cut(RankingLoss):
        def __init__(self, name):
            self.name = name

        def native_name(self):
            return self.name

        def derivative(self, j, i, n_pos, n_neg):
            return np.full(j.shape, -0.5 / (n_pos * n_neg))

    X, y, qid, _ = queries
    found = report_contents(Scorer(loss=Cut("ndcg@3")), X, y, qid, slices={"one": np.ones(len(y))})
    assert found["metric"] == "NDCG@3" == found["metrics"]["titles"][0] and found["title"] == "Scorer, trained for NDCG@3"
    assert found["headline"]["value"] == pytest.approx(metrics.ndcg(y, X[:, 0], k=3, qid=qid), rel=1e-5)
    assert found["slices"][0]["rows"][0][4] is not None and len(found["intervals"]["metrics"][0]) == 7
    found = report_contents(Scorer(loss=Cut("p@2")), X[:50], y[:50])
    assert found["metric"] == "precision@2" and found["headline"]["value"] == metrics.precision(y[:50] > 0, X[:50, 0], k=2)


@pytest.mark.parametrize(("loss", "title", "one"), [("ap@3", "MAP@3", "AP@3"), ("rbp", "RBP(p=0.8)", "RBP(p=0.8)")])
def test_models_are_judged_by_what_they_were_trained_for(queries, loss, title, one):
    """As their own score says; where a query has nothing relevant both are 0."""
    X, y, qid, _ = queries
    y = (y > 0).astype(float)
    model = RankingSVM(loss, C=0.1, tol=0.1).fit(X, y, qid)
    found = report_contents(model, X, y, qid, slices={"one": np.ones(len(y))})
    assert found["metric"] == title == found["metrics"]["titles"][0] and found["title"].endswith(f"trained for {one}")
    scores = model.predict(X)
    truth = []
    for q in np.unique(qid):
        relevant = y[qid == q][np.argsort(-scores[qid == q])] > 0
        places = np.arange(1, len(relevant) + 1)
        if loss == "rbp":
            truth.append(0.2 * np.sum(relevant * 0.8 ** (places - 1)))
        else:
            precision = np.cumsum(relevant) / places
            truth.append(np.sum((precision * relevant)[:3]) / max(1, min(3, relevant.sum())))
    assert found["headline"]["value"] == pytest.approx(np.mean(truth), abs=1e-6)
    assert found["slices"][0]["rows"][0][4] is not None
    low, high = found["headline"]["interval"]
    assert low < found["headline"]["value"] < high
    # Easy enough for the hinge of three places of a list of 99.
    easy = X[:99] + 3 * (y[:99, None] > 0)
    single = report_contents(RankingSVM(loss, C=0.1).fit(easy, y[:99]), easy, y[:99])
    assert single["metric"] == one and single["headline"]["warning"] is not None
    page = path_contents(regularization_path(RankingSVM(loss), X, y, qid=qid, epsilon=0.1, lambda_min=0.1), X, y, qid)
    assert page["title"].endswith(f"trained for {one}")


def test_classifiers_know_their_training_data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 1).astype(int)
    for labels in (y, y + 1, np.where(y, "a", "b")):
        model = RankingClassifier(C=1, refine=False, pos_label="a" if labels.dtype.kind == "U" else None).fit(X, labels)
        turned = rng.permutation(200)
        page = contents_of(model.report(X[turned], labels[turned], path=tmp_path / "r.html").read_text())
        assert page["headline"]["warning"] is not None
        page = contents_of(model.report(X[:199], labels[:199], path=tmp_path / "r.html").read_text())
        assert page["headline"]["warning"] is None
    model = RankingClassifier(C=1, refine=False).fit(X, y + 1)
    assert report_contents(model, X, y + 1)["headline"]["warning"] is not None


@pytest.mark.parametrize("name", ["ap@1", "ap@2", "ap@3", "ap@9", "rbp(p=0.7)"])
@pytest.mark.parametrize("grades", [[1], [1, 0], [0, 1, 1, 0, 0], [1, 1, 1], [0, 0, 0]])
def test_expectations_over_all_orders(name, grades):
    orders = list(itertools.permutations(grades))
    values = [metric_of_lists(name, RankedLists(order, -np.arange(len(order)), None))[0] for order in orders]
    lists = RankedLists(grades, grades, None)
    assert expected_metric(name, lists, np.array(grades, float)) == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize("grades", [[1, 0], [0, 1, 1, 0, 0], [1, 1, 1], [0, 0, 0]])
def test_expectations_of_cut_metrics(grades):
    grades = np.array(grades, dtype=float)
    orders = [np.array(order) for order in set(itertools.permutations(grades))]
    for k in (1, 2, 4, 9):
        first = [next((1 / r for r, hit in enumerate(order[:k], 1) if hit), 0.0) for order in orders]
        recall = [order[:k].sum() / max(1, grades.sum()) for order in orders]
        lists = RankedLists(grades, grades, None)
        assert expected_metric(f"mrr@{k}", lists, grades) == pytest.approx(np.mean(first))
        assert expected_metric(f"recall@{k}", lists, grades) == pytest.approx(np.mean(recall))


def test_history_with_holes():
    class History:
        passes, seconds = [1, 2, 3], [0.1, 0.2, 0.3]
        primal, dual = [3.0, 2.0, 1.5], [-np.inf, np.nan, 1.0]

    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    found = report_contents(Scorer(history_=History()), X, y)["convergence"]
    assert found["dual"] == [None, None, 1.0] and found["gap"] == [None, None, 0.5] and found["primal"] == [3.0, 2.0, 1.5]


def test_descent_without_bounds():
    class History:
        seconds, loss, best_loss = [0.1, 0.2, 0.3], [0.5, 0.6, 0.4], [0.5, 0.5, 0.4]

    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    found = report_contents(Scorer(history_=History(), certified_=False), X, y, name="direct")
    assert found["convergence"] is None and found["methods"] == ["direct", "random"]
    assert found["descent"] == {"steps": [1, 2, 3], "seconds": [0.1, 0.2, 0.3], "loss": [0.5, 0.6, 0.4], "best": [0.5, 0.5, 0.4]}
    assert "Nothing is proved" in found["headline"]["sentences"][-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1, 1, 1, 1]}, "y must hold relevant and irrelevant samples, but all are irrelevant"),
        ({"y": [1, 2, 3]}, "gives scores of shape"),
        ({"y": ["a", "b", "a", "b"]}, "y must be one number or boolean per sample"),
        ({"y": [0, 1, np.nan, 1]}, "finite labels"),
        ({"qid": [1, 2]}, "qid has shape"),
        ({"baselines": {"b": [1.0, 2.0]}}, r"baselines\['b'\] gives scores of shape \(2,\)"),
        ({"baselines": {"b": 3}}, r"baselines\['b'\] must be a fitted estimator"),
        ({"baselines": {"b": [1.0, 2.0, 3.0, np.nan]}}, "scores must be finite"),
        ({"baselines": {"random": [1.0, 2.0, 3.0, 4.0]}}, "'random', which another curve"),
        ({"baselines": {"Scorer": [1.0, 2.0, 3.0, 4.0]}}, "'Scorer', which another curve"),
        ({"feature_names": ["a", "b"]}, "feature_names has 2 names, but the model has 1 weights"),
    ],
)
def test_bad_input_is_named(tmp_path, change, message):
    arguments = {"X": np.arange(4.0)[:, None], "y": [0, 1, 0, 1], **change}
    with pytest.raises((ValueError, TypeError), match=message):
        write_report(Scorer(coef_=np.ones(1)), path=tmp_path / "r.html", **arguments)
    assert not list(tmp_path.iterdir())


# ---- the file ----------------------------------------------------------------------------------------------------------------

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\"'&amp;{{script}}"


def test_names_cannot_leave_the_data_block(tmp_path, queries):
    X, y, qid, model = queries
    names = {int(q): f"{NASTY} {q}" for q in np.unique(qid)}
    page = model.report(
        X,
        y,
        qid,
        path=tmp_path / "r.html",
        feature_names=[f"{NASTY} {k}" for k in range(5)],
        query_names=names,
        baselines={NASTY: X[:, 1]},
        title=NASTY,
        notes=[NASTY],
    ).read_text()
    assert len(re.findall("<script", page)) == 2 and len(re.findall("</script", page)) == 2 and "<img" not in page
    assert "\u2028" not in page.replace(html.escape(NASTY), "")
    found = contents_of(page)
    assert found["features"]["by_weight"][0][0].startswith(NASTY) and found["queries"]["rows"][0][0].startswith(NASTY)
    assert found["title"] == NASTY and f"<title>{html.escape(NASTY)}</title>" in page


def test_policy_allows_this_script_and_style_only(tmp_path, one_list):
    X, y, model = one_list
    page = model.report(X, y, path=tmp_path / "r.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        content = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_long_names_and_many_samples_stay_small(tmp_path):
    rng = np.random.default_rng(5)
    n = 200_000
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + rng.normal(size=n) > 1
    names = ["x" * 10**6, "y"]
    path = write_report(Scorer(coef_=np.ones(2)), X, y, path=tmp_path / "r.html", feature_names=names)
    assert path.stat().st_size < 200_000


def test_written_in_one_step(tmp_path, one_list, monkeypatch):
    X, y, model = one_list
    path = model.report(X, y, path=tmp_path / "new" / "folder" / "r.html")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        save_page({"title": "", "headline": {"sentences": []}, "bad": np.nan}, path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        model.report(X, y, path=path)
    assert path.read_bytes() == before and list(path.parent.iterdir()) == [path]
