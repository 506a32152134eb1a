"""Gradients and Hessians against single lists, one threshold after the other, and against finite differences."""

import copy
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import most_violating_ranking
from maxmargin.boosting import evaluation, objective
from maxmargin.boosting.datasets import read_arrays
from maxmargin.boosting.graded import GradedLists
from maxmargin.ranking import NDCG, AveragePrecision, metrics, ranking_loss


def reference(scores, grades, group, loss, gains="exponential", scale=1.0, weights=None):
    """Gradient and class curvature, a list and a threshold at a time."""
    gradient, curvature = np.zeros(len(scores)), np.zeros(len(scores))
    graded = loss == "ndcg"
    gain = (lambda g: 2.0 ** max(g, 0) - 1) if gains == "exponential" else (lambda g: float(max(g, 0)))
    begin = 0
    for k, size in enumerate(group):
        rows = slice(begin, begin + size)
        s, y = np.asarray(scores[rows], dtype=float), np.asarray(grades[rows])
        begin += size
        levels = np.unique(grades)
        ideal = np.sum(np.sort([gain(g) for g in y])[::-1] / np.log2(2 + np.arange(size)))
        steps = list(pairwise(levels)) if graded else [(max(0, levels.min()), None)]
        for low, high in steps:
            relevant = y > low
            if not relevant.any() or relevant.all():
                continue
            weight = 1.0 if weights is None else weights[k]
            if graded:
                if ideal == 0:
                    continue
                weight *= (gain(high) - gain(low)) * np.sum(1 / np.log2(2 + np.arange(relevant.sum()))) / ideal
            found = most_violating_ranking(scale * s, relevant, loss)
            gradient[rows] += 0.5 * weight * found.gradient
            curvature[rows] += weight * np.where(relevant, 1 / relevant.sum(), 1 / (~relevant).sum())
    return gradient, curvature


graded_lists = st.lists(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-8, 8)), min_size=1, max_size=12), min_size=2, max_size=6
)


# Powers of two: others round, and at ties the two ways to scale may then take different subgradients.
scales = st.sampled_from([0.125, 0.5, 1.0, 2.0, 8.0])


@settings(deadline=None, max_examples=60)
@given(graded_lists, st.sampled_from(["ndcg", "ap", "auc", "mrr"]), st.sampled_from(["exponential", "linear"]), scales)
def test_queries_are_sums_over_lists_and_thresholds(lists, loss, gains, scale):
    group = [len(rows) for rows in lists]
    grades, scores = (np.array(part, dtype=float) for part in zip(*(row for rows in lists for row in rows), strict=True))
    weights = 1.0 + np.arange(len(group)) % 3
    gradient, curvature = reference(scores, grades, group, loss, gains, scale, weights)
    make = objective(loss, noise=0.0, gains=gains, scale=scale, step=3.0)
    if not curvature.any():
        with pytest.raises(ValueError, match="mark relevant rows"):
            make(grades, scores, None, group)
        return
    found = make(grades, scores, np.repeat(weights, group), group)
    unit = np.mean(group)
    assert found[0].dtype == found[1].dtype == np.float32
    np.testing.assert_allclose(found[0], unit * gradient, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], unit * curvature / 3, rtol=1e-5, atol=1e-6)


def test_half_the_bound_lies_between_it_and_the_curvature_of_the_averaged_hinge():
    # Stein: the second derivative of E f(s + z) is E f'(s + z) z; here its mean over the rows, at scores that know nothing.
    rng = np.random.default_rng(7)
    lists = GradedLists(read_arrays(rng.integers(0, 4, 2000), None, [20] * 100), 2000, ranking_loss("ndcg"), "exponential")
    draws = rng.normal(size=(10, 2000))
    gradients = np.array([lists.gradient(z, 1.0, 1) for z in draws])
    assert (abs(gradients) <= lists.curvature * (1 + 1e-5)).all()
    assert 0.15 < np.sum(gradients * draws) / (10 * np.sum(lists.curvature)) < 0.4


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(-5, 5, width=32)), min_size=2, max_size=30), st.sampled_from(["ndcg", "ap"])
)
def test_a_single_list_has_the_size_of_its_gradient_as_hessian(rows, loss):
    grades, scores = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    if len(set(grades)) < 2 or (loss == "ap" and len(set(grades > max(0, grades.min()))) < 2):
        return
    gradient, curvature = reference(scores, grades, [len(rows)], loss)
    unit = np.count_nonzero(grades > max(0, grades.min()))
    found = objective(loss, noise=0.0, floor=0.1)(grades, scores)
    np.testing.assert_allclose(found[0], unit * gradient, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], unit * np.maximum(abs(gradient), 0.1 * curvature), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gains", ["exponential", "linear"])
def test_the_shares_make_the_binary_losses_one_minus_ndcg(gains):
    rng = np.random.default_rng(1)
    grades, scores, group = rng.integers(0, 5, 60).astype(float), rng.normal(size=60), [20, 1, 19, 20]
    lists = GradedLists(read_arrays(grades, None, group), 60, NDCG(), gains)
    total = np.zeros(4)
    ends = lists._begins
    for a, b in pairwise(ends):
        rows, relevant = lists._rows[a:b], lists._relevant[a:b]
        query = np.searchsorted(np.cumsum(group), rows[0], side="right")
        total[query] += 2 * lists._factors[a] / lists.unit * (1 - metrics.ndcg(relevant, scores[rows]))
    expected = metrics.per_query(grades, scores, qid=np.repeat(range(4), group), metrics=["ndcg"], gains=gains)[0]["ndcg"]
    # A query of one row is always right.
    np.testing.assert_allclose(total, np.where(np.array(group) == 1, 0, 1 - expected))


def cut_off_loss(name):
    try:
        return ranking_loss(name)
    except ValueError:
        pytest.skip(f"this version has no loss {name!r}")


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_shares_of_the_first_places(k):
    loss = cut_off_loss(f"ndcg@{k}")
    rng = np.random.default_rng(8)
    grades, scores, group = rng.integers(0, 4, 40).astype(float), rng.normal(size=40), [15, 5, 20]
    lists = GradedLists(read_arrays(grades, None, group), 40, loss, "exponential")
    total = np.zeros(3)
    for a, b in pairwise(lists._begins):
        rows, relevant = lists._rows[a:b], lists._relevant[a:b]
        query = np.searchsorted(np.cumsum(group), rows[0], side="right")
        total[query] += 2 * lists._factors[a] / lists.unit * (1 - metrics.ndcg(relevant, scores[rows], k=k))
    expected = metrics.per_query(grades, scores, qid=np.repeat(range(3), group), metrics=[f"ndcg@{k}"], gains="exponential")[0]
    np.testing.assert_allclose(total, 1 - expected[f"ndcg@{k}"], rtol=1e-5)


@pytest.mark.parametrize("name", ["ap@3", "mrr@3", "p@2", "recall@4", "rbp"])
def test_losses_of_the_first_places(name):
    cut_off_loss(name)
    rng = np.random.default_rng(9)
    labels, scores = rng.integers(0, 2, 24).astype(float), rng.normal(size=24)
    found = objective(name, noise=0.0)(labels, scores, None, [10, 14])[0]
    expected, _ = reference(scores, labels, [10, 14], name)
    np.testing.assert_allclose(found, 12 * expected, rtol=1e-5, atol=1e-6)


def test_gradient_is_that_of_the_hinge():
    rng = np.random.default_rng(2)
    grades, scores, group = rng.integers(0, 3, 24).astype(float), rng.normal(size=24), [10, 14]

    def value(s):
        total, begin = 0.0, 0
        for size in group:
            rows = slice(begin, begin + size)
            total += most_violating_ranking(s[rows], grades[rows] > 0, "ap").hinge
            begin += size
        return 12 * 0.5 * total

    numeric = [(value(scores + 1e-6 * e) - value(scores - 1e-6 * e)) / 2e-6 for e in np.eye(24)]
    np.testing.assert_allclose(objective("ap", noise=0.0)(grades, scores, None, group)[0], numeric, atol=1e-6)


def rounds(make, labels, scores, n=3, **more):
    return [make(labels, s, **more)[0] for s in [scores, scores + 0.1, scores + 0.2][:n]]


def test_noise_is_fresh_in_every_round_and_the_same_in_every_training():
    rng = np.random.default_rng(3)
    labels, scores = (rng.random(200) < 0.2).astype(float), rng.normal(size=200)
    first = objective("ap")
    one = rounds(first, labels, scores)
    assert not np.array_equal(one[0], one[1])
    # A new object, a copy, a pickle, and the same object with a model that begins anew.
    for again in (objective("ap"), copy.deepcopy(first), pickle.loads(pickle.dumps(first)), first):
        for a, b in zip(one, rounds(again, labels, scores), strict=True):
            np.testing.assert_array_equal(a, b)
    # Other labels are another data set.
    rounds(first, 1 - labels, scores, 2)
    for a, b in zip(one, rounds(first, labels, scores), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[0], objective("ap", random_state=1)(labels, scores)[0])


class DataSet:
    """What objectives ask a LightGBM data set for."""

    def __init__(self, labels):
        self.labels = labels

    def get_label(self):
        return self.labels

    def get_weight(self):
        return None

    def get_group(self):
        return None


def test_data_sets_count_their_own_rounds():
    rng = np.random.default_rng(7)
    labels, scores = (rng.random(100) < 0.2).astype(float), rng.normal(size=100)
    alone = [make(s, data)[0] for make, data in [(objective("ap"), DataSet(labels))] for s in (scores, scores + 1)]
    make, one, two = objective("ap"), DataSet(labels), DataSet(labels.copy())
    # As in cross-validation: a round of every fold in turn.
    for k, s in enumerate((scores, scores + 1)):
        for data in (one, two):
            np.testing.assert_array_equal(make(s, data)[0], alone[k])
    # Nothing is kept of data sets that are gone, and other labels are noticed.
    del data, two
    assert len(make._of_data_sets) == 1
    one.labels = 1 - labels
    assert not np.array_equal(make(scores, one)[0], alone[0])


def test_scores_that_stay_get_other_noise():
    labels, scores = np.repeat([1.0, 0.0], 50), np.zeros(100)
    make = objective("ap")
    assert not np.array_equal(make(labels, scores)[0], make(labels, scores)[0])


def test_mean_over_many_rounds_is_a_smoothed_gradient():
    rng = np.random.default_rng(4)
    labels, scores = (rng.random(60) < 0.3).astype(float), rng.normal(size=60)
    make = objective("ap", noise=0.7)
    mean = np.mean([make(labels, scores)[0] for _ in range(600)], axis=0)
    drawn = [most_violating_ranking(scores + 0.7 * rng.normal(size=60), labels > 0).gradient for _ in range(600)]
    assert np.abs(mean - 0.5 * labels.sum() * np.mean(drawn, axis=0)).max() < 0.06


def test_a_new_floor_is_noticed():
    labels, scores = np.array([1.0, 0, 0]), np.array([0.0, 1.0, -1.0])
    make = objective("ap", noise=0.0)
    assert make(labels, scores)[1][2] == np.float32(0.025)
    make.floor = 0.1
    assert make(labels, scores)[1][2] == np.float32(0.05)


def test_scores_that_differ_in_the_last_row_alone_are_others():
    rng = np.random.default_rng(12)
    labels, scores = (rng.random(200) < 0.2).astype(float), rng.normal(size=200)
    moved = scores.copy()
    moved[-1] += 1
    make = objective("ap")
    first = [make(labels, s)[0] for s in (scores, moved)]
    # The second call was no first round: the third, with the first scores, begins anew.
    for a, b in zip(first, [make(labels, s)[0] for s in (scores, moved)], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_query_counts_by_its_weight():
    rng = np.random.default_rng(5)
    labels, scores = rng.integers(0, 3, 30).astype(float), rng.normal(size=30)
    make = objective("ndcg", noise=0.0)
    plain = make(labels, scores, None, [10, 20])
    weighted = make(labels, scores, np.repeat([2.0, 0.0], [10, 20]), [10, 20])
    for a, b in zip(plain, weighted, strict=True):
        np.testing.assert_allclose(b, a * np.repeat([2.0, 0.0], [10, 20]), rtol=1e-6)


def test_any_loss_will_do():
    class Half(AveragePrecision):
        pass

    rng = np.random.default_rng(6)
    labels, scores = rng.integers(0, 2, 30).astype(float), rng.normal(size=30)
    for one, other in zip(*(objective(loss, noise=0.0)(labels, scores, None, [12, 18]) for loss in ("ap", Half())), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "nonsense"}, "loss='nonsense' is unknown"),
        ({"noise": -1.0}, "noise=-1.0"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"scale": 0.0}, "scale=0.0"),
        ({"floor": 0}, "floor=0"),
        ({"step": 0.0}, "step=0.0"),
        ({"gains": "quadratic"}, "gains='quadratic'"),
        ({"hessian": "exact"}, "hessian='exact'"),
        ({"relevance_threshold": "high"}, "relevance_threshold='high'"),
        ({"random_state": -3}, "random_state=-3"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        objective(**settings)


@pytest.mark.parametrize(
    ("labels", "weight", "group", "message"),
    [
        ([0, 0, 0, 0], None, None, "all 0.*without labels.*mark relevant rows"),
        ([1, 1, 0, 0], None, [2, 2], "of the same query"),
        ([1, 0, np.nan, 0], None, None, "labels contain NaN.*leave out"),
        ([1, 0, 0], None, None, "3 labels for 4 scores"),
        (["a", "b", "a", "b"], None, None, "must be numbers"),
        ([1, 0, 1, 0], [1, 2, 1, 1], None, "no weights of their own.*class_weight"),
        ([1, 0, 1, 0], [1, 2, 1, 1], [2, 2], "rows of one query have different ones"),
        ([1, 0, 1, 0], [-1, -1, 1, 1], [2, 2], "not negative"),
        ([1, 0, 1, 0], [0, 0, 0, 0], [2, 2], "all weights are 0"),
        ([1, 0, 1, 1], [0, 0, 1, 1], [2, 2], "weight 0"),
        ([1, 0, 1, 0], None, [2, 3], "the groups have 5 rows"),
        ([1, 0, 2000, 0], None, None, "too large a number"),
    ],
)
def test_bad_data_are_named(labels, weight, group, message):
    with pytest.raises(ValueError, match=message):
        objective("ndcg")(labels, np.zeros(4), weight, group)


@pytest.mark.parametrize("loss", ["ndcg", "ap"])
def test_no_rows_are_named(loss):
    with pytest.raises(ValueError, match=r"no rows.*at least one relevant"):
        objective(loss)(np.zeros(0), np.zeros(0))


def test_too_many_grades_and_outputs():
    with pytest.raises(ValueError, match=r"round labels to a few grades"):
        objective("ndcg")(np.linspace(0, 3, 2000), np.zeros(2000))
    with pytest.raises(ValueError, match=r"one score per row.*\(4, 3\)"):
        objective("ap")(np.array([0, 1, 0, 1]), np.zeros((4, 3)))


def test_a_threshold_ends_grades():
    labels, scores = np.array([0.0, 1, 2, 3]), np.zeros(4)
    a = objective("ndcg", noise=0.0, relevance_threshold=1.5)(labels, scores)
    b = objective("ndcg", noise=0.0)((labels > 1.5).astype(float), scores)
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


def test_huge_and_infinite_scores():
    labels = np.array([1.0, 0, 1, 0])
    gradient, hessian = objective("ap")(labels, np.array([1e30, -1e30, 0, 1e30]))
    assert np.isfinite(gradient).all() and np.isfinite(hessian).all()
    with pytest.raises(ValueError, match="finite"):
        objective("ap")(labels, np.array([0, np.inf, 0, 0]))


def test_neither_library_is_loaded():
    code = "import sys, maxmargin, maxmargin.boosting; sys.exit('lightgbm' in sys.modules or 'xgboost' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_names_of_losses_are_checked_first():
    assert ranking_loss("ndcg").native_name() == "ndcg"
    assert "noise=1.0" in repr(objective("ap"))


@pytest.mark.parametrize("group", [None, [2, 2]])
def test_metrics_want_some_weight(group):
    with pytest.raises(ValueError, match="all weights are 0, so nothing counts; leave weights out"):
        evaluation("ap")([1, 0, 1, 0], np.arange(4.0), np.zeros(4), group)
    assert evaluation("ap")([1, 0, 1, 0], [1.0, 0.0, 0.0, 1.0], [2, 2, 0, 0], [2, 2])[1] == 1.0
