"""Intervals, budgets, thresholds, documents and slices of the report against independent computations."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import RankingSVM, load_model, save_model
from maxmargin.core import same_sketch, sketch
from maxmargin.ranking import RankedLists, metrics
from maxmargin.report import intervals as module
from maxmargin.report import report_contents, write_report
from maxmargin.report.budgets import budgets, convex_corners, short_threshold, table_budgets, thresholds
from maxmargin.report.intervals import intervals, mean_intervals
from maxmargin.report.ranked import METRICS, Judged, Ranked
from maxmargin.report.slices import MISSING, parts


class Scorer:
    """Scores are the first column."""

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def one_list(n=200, seed=0, grades=1, ties=False):
    rng = np.random.default_rng(seed)
    y = np.clip(rng.integers(-2, grades + 1, n), 0, None).astype(float)
    scores = y + rng.normal(size=n)
    return Judged(y, None, None), scores.round(1) if ties else scores


# ---- intervals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grades", [1, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_draws_of_one_list_are_metrics_of_drawn_lists(grades, ties, monkeypatch):
    """Every draw, without a sort, against the metrics of the samples it holds."""
    judged, scores = one_list(60, grades=grades, ties=ties)
    ranked = [Ranked("model", scores, judged), Ranked("other", np.roll(scores, 3).round(1), judged)]
    seen = []
    monkeypatch.setattr(module, "interval", lambda value, draws, *_: seen.append((value, draws)))
    counted = []
    counts = module._counts
    monkeypatch.setattr(module, "_counts", lambda rows, n: counted.append(counts(rows, n)) or counted[-1])
    monkeypatch.setattr(module, "DRAWS", 25)
    monkeypatch.setattr(module, "_PIECE", 60 * 7)
    intervals(ranked, np.array([5, 60]))
    times = np.concatenate(counted)
    assert times.shape == (25, 60) and (times[:, judged.relevant].sum(axis=1) == judged.relevant.sum()).all()
    n = len(METRICS)
    for which, method in enumerate(ranked):
        for k, name in enumerate(METRICS):
            value, draws = seen[which * n + k]
            assert value == method.means[name]
            gains = judged.gains if name.startswith("ndcg") else judged.relevant
            truth = [metrics.evaluate(np.repeat(gains, t), np.repeat(method.scores, t), metrics=[name])[name] for t in times]
            np.testing.assert_allclose(draws, truth, atol=1e-12, err_msg=name)
    lead = seen[2 * n]
    np.testing.assert_allclose(lead[1], seen[0][1] - seen[n][1])
    drawn = [metrics.precision(np.repeat(judged.relevant, t), np.repeat(scores, t), k=5) for t in times]
    np.testing.assert_allclose(seen[3 * n][1], drawn)


def test_means_over_queries():
    rng = np.random.default_rng(0)
    values = rng.random((400, 2)) ** [1, 3]
    found, how = mean_intervals(values)
    error = values.std(axis=0, ddof=1) / 20
    for ends, mean, one in zip(found, values.mean(axis=0), error, strict=True):
        assert ends.low < mean < ends.high and ends.high - ends.low == pytest.approx(3.92 * one, rel=0.1)
    assert "bootstrap over the queries" in how and found == mean_intervals(values)[0]
    many, how = mean_intervals(rng.random((20_001, 1)))
    assert "standard error" in how and many[0].high - many[0].low == pytest.approx(3.92 / np.sqrt(12 * 20_001), rel=0.02)


def test_interval_of_auc_is_that_of_theory():
    """Hanley and McNeil's standard error of the AUC knows nothing of a bootstrap."""
    judged, scores = one_list(1500)
    ranked = Ranked("m", scores, judged)
    ends = intervals([ranked]).metrics[0]["auc"]
    a, p, n = ranked.means["auc"], judged.relevant.sum(), (~judged.relevant).sum()
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    error = np.sqrt((a * (1 - a) + (p - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a)) / (p * n))
    assert ends.high - ends.low == pytest.approx(3.92 * error, rel=0.15) and ends.low < a < ends.high


def test_paired_differences_are_narrower():
    judged, scores = one_list(500)
    near = scores + 1e-3 * np.random.default_rng(1).normal(size=500)
    found = intervals([Ranked("m", scores, judged), Ranked("near", near, judged), Ranked("same", scores, judged)])
    own, lead, none = found.metrics[0]["ap"], found.leads[0]["ap"], found.leads[1]["ap"]
    assert lead.high - lead.low < 0.1 * (own.high - own.low) and none == (0, 0)
    assert "1,000 draws" in found.how


def test_long_lists_take_fewer_draws():
    judged, scores = one_list(50_000)
    found = intervals([Ranked("m", scores, judged)])
    assert "40 draws, by their standard deviation" in found.how
    ends = found.metrics[0]["auc"]
    assert 0.005 < ends.high - ends.low < 0.02


def test_perfect_and_tiny_lists_stay_inside():
    judged = Judged([0, 1], None, None)
    found = intervals([Ranked("m", np.array([0.0, 1.0]), judged)])
    assert set(found.metrics[0].values()) <= {(1.0, 1.0), (0.1, 0.1)}  # precision@10 of two samples
    judged, _ = one_list(50)
    for scores in (judged.labels, -judged.labels, np.zeros(50)):
        for ends in intervals([Ranked("m", scores, judged)]).metrics[0].values():
            assert 0 <= ends.low <= ends.high <= 1


def test_headline_has_intervals_of_everything():
    X = np.random.default_rng(2).normal(size=(300, 2))
    y = X[:, 0] + np.random.default_rng(3).normal(size=300) > 1
    found = report_contents(Scorer(), X, y, baselines={"noise": X[:, 1], "itself": X[:, 0]})
    said, text = found["headline"], " ".join(found["headline"]["sentences"])
    low, high = said["interval"]
    assert low < said["value"] < high and set(said["baseline_intervals"]) == {"noise", "itself"} == set(said["leads"])
    assert f"(95\xa0% interval {low:.3f} to {high:.3f})" in text
    assert "do not tell Scorer and itself apart (difference 0.000 to 0.000)" in text
    behind = report_contents(Scorer(), X[:, ::-1], y, baselines={"signal": X[:, 0]})
    assert "Scorer is behind signal by more than chance" in " ".join(behind["headline"]["sentences"])
    ahead = report_contents(Scorer(), X, y, baselines={"noise": X[:, 1]})
    assert "Scorer is ahead of noise by more than chance" in " ".join(ahead["headline"]["sentences"])
    assert json.dumps(ahead) == json.dumps(report_contents(Scorer(), X, y, baselines={"noise": X[:, 1]})), "seeded"


# ---- budgets and thresholds --------------------------------------------------------------------------------------------------

lists = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30).filter(
    lambda rows: 0 < sum(hit for hit, _ in rows) < len(rows)
)


@given(lists)
@settings(max_examples=100, deadline=None)
def test_thresholds(rows):
    relevant, scores = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    found = thresholds(RankedLists(relevant, scores, None))
    total = relevant.sum()
    for threshold, flagged, precision, recall, f1 in found["rows"]:
        here = scores >= threshold
        hits = relevant[here].sum()
        assert flagged == here.sum() and precision == pytest.approx(hits / flagged, rel=1e-5)
        assert recall == pytest.approx(hits / total, rel=1e-5) and f1 == pytest.approx(2 * hits / (flagged + total), rel=1e-5)
    f1s = [2 * relevant[scores >= t].sum() / ((scores >= t).sum() + total) for t in np.unique(scores)]
    assert max(row[4] for row in found["rows"]) == pytest.approx(max(f1s), rel=1e-5)
    # Whatever errors cost, no threshold is cheaper than the best corner.
    for miss, alarm in [(1, 1), (10, 1), (1, 7), (0, 1), (1, 0), (3, 2), (0, 0)]:
        every = [np.inf, *scores]
        truth = min(miss * relevant[scores < t].sum() + alarm * (1 - relevant[scores >= t]).sum() for t in every)
        assert min(miss * (total - hits) + alarm * alarms for _, alarms, hits in found["corners"]) == truth
    for threshold, alarms, hits in found["corners"]:
        here = scores >= (np.inf if threshold is None else threshold)
        assert (alarms, hits) == ((1 - relevant[here]).sum(), relevant[here].sum())


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_short_thresholds_flag_the_same(score, below):
    if below < score:
        assert below < short_threshold(below, score) <= score


def test_corners_of_a_line():
    assert convex_corners(np.array([0, 1, 2]), np.array([0, 1, 2])) == [0, 2]
    assert convex_corners(np.array([0, 0]), np.array([0, 3])) == [1]


@pytest.mark.parametrize("n", [2, 30, 1000, 5000])
def test_budgets(n):
    judged, scores = one_list(n, seed=7)
    judged.relevant[:2] = [True, False]
    ranked = [Ranked("m", scores, judged), Ranked("o", -scores, judged)]
    ks = table_budgets(n)
    found = budgets(ranked, ks, intervals(ranked, ks).precisions)
    order = judged.relevant[np.argsort(-scores)]
    for k, hits in zip(found["steps"], found["hits"][0], strict=True):
        assert hits == order[:k].sum()
    assert found["steps"][-1] == n and set(ks) <= set(found["steps"]) and len(found["steps"]) <= 1510
    for k, precision, (low, high), recall, other in found["rows"]:
        assert precision == pytest.approx(metrics.precision(judged.relevant, scores, k=k), rel=1e-5) and low <= precision <= high
        assert recall == pytest.approx(order[:k].sum() / order.sum(), rel=1e-5)
        assert other == pytest.approx(metrics.precision(judged.relevant, -scores, k=k), rel=1e-5)


# ---- documents ---------------------------------------------------------------------------------------------------------------


def test_documents_of_queries():
    rng = np.random.default_rng(0)
    n = 2000
    X, qid = rng.normal(size=(n, 2)), np.append(np.repeat(0, 500), rng.integers(1, 40, n - 500))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=n)), 0, 2)
    found = report_contents(Scorer(), X, y, qid, baselines={"second": X[:, 1]})
    shown = found["documents"]["queries"]
    assert [query["name"] for query in shown[:20]] == [row[0] for row in found["queries"]["rows"]]
    assert len(shown) == found["documents"]["of"] == 40
    for query in shown:
        here = np.flatnonzero(qid == int(query["name"]))
        order, second = here[np.argsort(-X[here, 0])], here[np.argsort(-X[here, 1])]
        assert query["samples"] == len(here)
        for rank, sample, label, score, other in query["rows"]:
            assert order[rank - 1] == sample - 1 == second[other - 1] and label == y[sample - 1]
            assert score == pytest.approx(X[sample - 1, 0], rel=1e-4)
        ranks = [row[0] for row in query["rows"]]
        if len(here) <= 100:
            assert ranks == list(range(1, len(here) + 1))
        else:
            late = [r for r in range(51, len(here) + 1) if y[order[r - 1]] > 0][:50]
            assert ranks == [*range(1, 51), *late]


def test_pages_stay_small(tmp_path):
    rng = np.random.default_rng(1)
    n = 30_000
    X, qid = rng.normal(size=(n, 1)), np.repeat(np.arange(n // 20), 20)
    y = X[:, 0] + rng.normal(size=n) > 1
    names = {k: "é<" * 300 + str(k) for k in range(n // 20)}
    kinds = rng.choice([f"kind {k} " * 100 for k in range(50)], n)
    path = write_report(
        Scorer(), X, y, qid, path=tmp_path / "r.html", query_names=names, slices={"kind": kinds},
        baselines={f"b{k}": rng.normal(size=n) for k in range(3)},
    )  # fmt: skip
    assert path.stat().st_size < 2_000_000


# ---- slices ------------------------------------------------------------------------------------------------------------------


def test_slices_of_one_list():
    rng = np.random.default_rng(0)
    X, town = rng.normal(size=(600, 2)), rng.choice(["Rome", "Oslo", ""], 600, p=[0.5, 0.4, 0.1])
    y = (np.where(town == "Oslo", 0, X[:, 0]) + rng.normal(size=600) > 1).astype(int)
    size = rng.exponential(size=600)
    size[:20] = np.nan
    found = report_contents(Scorer(), X, y, baselines={"other": X[:, 1]}, slices={"town": town, "size": size})["slices"]
    assert [table["name"] for table in found] == ["town", "size"]
    rows = found[0]["rows"]
    assert rows[0][0] == "Oslo" and {row[0] for row in rows} == {"Rome", "Oslo", MISSING}
    for name, n, queries, relevant, value, (low, high), other, chance in rows:
        here = town == ("" if name == MISSING else name)
        assert (n, relevant, queries) == (here.sum(), y[here].sum(), None) and low < value < high
        assert value == pytest.approx(metrics.average_precision(y[here], X[here, 0]), rel=1e-5)
        assert other == pytest.approx(metrics.average_precision(y[here], X[here, 1]), rel=1e-5)
        assert 0 < chance < 1
    assert sorted(row[1] for row in found[1]["rows"]) == [20, 145, 145, 145, 145]
    assert [row[4] for row in found[1]["rows"]] == sorted(row[4] for row in found[1]["rows"])


def test_slices_of_queries():
    rng = np.random.default_rng(1)
    X, qid = rng.normal(size=(400, 1)), np.repeat(np.arange(40), 10)
    y = (X[:, 0] + rng.normal(size=400) > 1).astype(int)
    kind, age = np.repeat(rng.choice(["a", "b"], 40), 10), rng.choice([True, False], 400)
    whole, cut = report_contents(Scorer(), X, y, qid, slices={"kind": kind, "age": age})["slices"]
    for name, n, queries, relevant, value, *_ in whole["rows"]:
        here = kind == name
        assert (n, queries, relevant) == (here.sum(), len(np.unique(qid[here])), y[here].sum())
        assert value == pytest.approx(metrics.average_precision(y[here], X[here, 0], qid=qid[here]), rel=1e-5)
    assert "as wholes" in whole["note"] and "cut down" in cut["note"]
    for name, n, queries, _, value, *_ in cut["rows"]:
        here = age == (name == "True")
        here &= np.isin(qid, qid[here & (y == 1)])
        assert (n, queries) == (here.sum(), len(np.unique(qid[here])))
        assert value == pytest.approx(metrics.average_precision(y[here], X[here, 0], qid=qid[here]), rel=1e-5)


def test_slices_without_a_value_are_named():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    found = report_contents(Scorer(), X, y, slices={"label": y, "one": np.zeros(8)})["slices"]
    assert found[0]["rows"] == [] and "without a value: 0, 1" in found[0]["note"]
    assert [row[:2] for row in found[1]["rows"]] == [["0", 8]]
    with pytest.raises(ValueError, match=r"slices\['short'\] has shape \(2,\), but y has 8 labels; give one value per sample"):
        report_contents(Scorer(), X, y, slices={"short": [1, 2]})


@given(st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=3), st.integers()), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_every_sample_is_in_one_slice(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    groups, _ = parts(column)
    assert np.sum([rows for _, rows in groups], axis=0).tolist() == [1] * len(values) and len(groups) <= 12
    numeric = np.array([v if isinstance(v, float) else 0.5 for v in values])
    groups, _ = parts(numeric)
    assert np.sum([rows for _, rows in groups], axis=0).tolist() == [1] * len(values)


# ---- training data -----------------------------------------------------------------------------------------------------------


def test_training_data_are_known_again(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    y = (X[:, 0] + rng.normal(size=100) > 0).astype(int)
    model = RankingSVM("ap").fit(X, y)
    save_model(model, tmp_path / "m.model")
    model = load_model(tmp_path / "m.model")
    for same in (X, X[::-1], sparse.csr_array(X), X.tolist(), X.astype(np.float32)):
        labels = y[::-1] if same is not X and np.shape(same) == X.shape and np.array_equal(np.asarray(same), X[::-1]) else y
        found = report_contents(model, same, labels)
        assert "trained on" in found["headline"]["warning"]
    for other, labels in ((X[:99], y[:99]), (X + 1e-4, y), (X, 1 - y), (rng.permuted(X, axis=0), y)):
        assert report_contents(model, other, labels)["headline"]["warning"] is None
    assert report_contents(model, X, y, on_training_data=False)["headline"]["warning"] is None
    assert report_contents(Scorer(), X, y, on_training_data=True)["headline"]["warning"] is not None
    page = model.report(X, y, path=tmp_path / "r.html").read_text()
    assert "trained on" in page[page.index("<noscript>") : page.index("</noscript>")]


@pytest.mark.parametrize("layout", ["C", "F"])
def test_sketches_by_any_number_of_threads(monkeypatch, layout):
    rng = np.random.default_rng(0)
    X, y = np.asarray(rng.normal(size=(1001, 7)), dtype=np.float32, order=layout), rng.normal(size=1001)
    monkeypatch.setattr("maxmargin.core.digest._NUMBERS", 70)
    monkeypatch.setattr("maxmargin.core.digest._SHARED", 700)
    found = [sketch(X, y, n_jobs) for n_jobs in (1, 2, 5)]
    assert all(np.array_equal(one, found[0]) for one in found)
    wide = X.astype(np.float64)
    assert found[0] == pytest.approx([1001, 7, y.sum(), wide.sum(), (wide**2).sum(), wide.sum(axis=1) @ y], rel=1e-12)
    assert same_sketch(found[0], sketch(sparse.csr_array(wide), y))


def test_sketches_of_odd_data():
    huge = np.full((2, 2), 1e300)
    assert not same_sketch(sketch(huge, [0, 1]), sketch(huge, [0, 1]))  # not known, so not claimed
    zero = np.zeros((2, 2))
    assert same_sketch(sketch(zero, [0, 1]), sketch(zero, [0, 1])) and not same_sketch(None, sketch(zero, [0, 1]))
    assert not same_sketch(np.array(["x"] * 6), sketch(zero, [0, 1]))
    assert same_sketch(sketch(zero > 1, [0, 1]), sketch(zero, [0, 1]))
