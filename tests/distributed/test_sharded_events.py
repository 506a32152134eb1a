"""Samples of two classes over shards: folds, regressions, metrics and held-out scores against those of one machine."""

import warnings

import numpy as np
import pytest
from event_cases import engine_of, samples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from maxmargin._validation import ArgumentError
from maxmargin.distributed import Fault, LocalEngine, ShardedEvents, ShardOf, split_rows
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.events import Labels, labels_of
from maxmargin.distributed.folds import stratified_folds
from maxmargin.distributed.pooled import PooledScores
from maxmargin.estimators.calibration import calibrate
from maxmargin.estimators.cutoffs import choose_cutoff, outcome
from maxmargin.estimators.held_out import pooled_scores
from maxmargin.estimators.linear_start import metric_of, own_metric
from maxmargin.estimators.sharded_events import ScoresOverShards
from maxmargin.estimators.standardizing import center_and_scale, divided
from maxmargin.losses import ranking_loss
from maxmargin.problems import RankingProblem
from maxmargin.problems.direct import DirectRanking

X, Y = samples()
RARE = Y == "rare"
BOTH = Labels(np.array(["common", "rare"]))


def events_of(X=X, y=Y, cuts=(0.3, 0.3, 0.7), n_folds=3, standardize=True, loss=None, **faults):
    found = ShardedEvents(engine_of(X, y, cuts, loss, **faults), BOTH)
    found.standardize(standardize)
    found.stratify(n_folds, seed=5)
    return found


def standardized(X):
    X = X.astype(np.float64)
    center, scale = center_and_scale(X)
    return divided(X if sparse.issparse(X) else X - center, scale)


def folds_of(n_folds=3):
    return list(StratifiedKFold(n_folds, shuffle=True, random_state=5).split(X, RARE))


# ---- folds ------------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.lists(st.booleans(), min_size=4, max_size=60), st.integers(2, 7), st.integers(0, 9))
def test_folds_are_those_of_scikit_learn(labels, n_folds, seed):
    y = np.array(labels)
    if min(y.sum(), (~y).sum()) < n_folds:
        return
    expected = np.empty(len(y), dtype=int)
    for k, (_, test) in enumerate(StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)):
        expected[test] = k
    first = y[0]
    of_first, of_other = stratified_folds((int((y == first).sum()), int((y != first).sum())), n_folds, seed)
    assert (expected[y == first] == of_first).all() and (expected[y != first] == of_other).all()


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (0, 0.3, 0.3, 300)])
def test_folds_of_shards(cuts):
    events = events_of(cuts=cuts)
    for k, (train, test) in enumerate(folds_of()):
        assert events.sizes[:, k].tolist() == [np.count_nonzero(~RARE[test]), np.count_nonzero(RARE[test])]
        assert events.n_trained(k) == len(train)
    found = events.metrics(ranking_loss("ap"), [0, 1, 2], [np.ones(5)] * 3)
    expected = [metric_of(ranking_loss("ap"), RARE[test], standardized(X)[test].sum(axis=1)) for _, test in folds_of()]
    assert found == pytest.approx(expected, rel=1e-12)


# ---- regressions ------------------------------------------------------------------------------------------------------------


def rows_of(kind):
    if kind == "float32":
        return X.astype(np.float32)
    return sparse.csr_array(np.where(np.abs(X - X.mean(axis=0)) > X.std(axis=0), X, 0.0)) if kind == "sparse" else X


@pytest.mark.parametrize(
    ("kind", "most_curved", "cuts"), [
        ("dense", 200, ()), ("dense", 200, (1, 2, 3)), ("dense", 0, (0.2, 0.2, 0.9)), ("float32", 200, (0.2, 0.2, 0.9)),
        ("float32", 0, (1, 2, 3)), ("sparse", 200, (0.2, 0.2, 0.9)),
    ]
)  # fmt: skip
def test_regressions_are_those_of_scikit_learn(kind, most_curved, cuts):
    rows = rows_of(kind)
    events, Z = events_of(rows, cuts=cuts), standardized(rows)
    for C in (1e-3, 10.0):
        found = events.fit(C, [0, 1, 2, -1], most_curved=most_curved, tol=1e-9)
        for weights, train in zip(found, [*(train for train, _ in folds_of()), np.arange(len(Y))], strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                solver = "lbfgs" if kind == "sparse" else "newton-cholesky"
                peer = LogisticRegression(C=C, tol=1e-10, max_iter=10_000, solver=solver).fit(Z[train], RARE[train])
            np.testing.assert_allclose(weights, np.append(peer.coef_, peer.intercept_), rtol=1e-6, atol=1e-6)


def test_regressions_go_on_from_where_they_are_told():
    events = events_of()
    (best,) = events.fit(1.0, [-1])
    before = events.shards.engine.rounds
    (again,) = events.fit(1.0, [-1], [best])
    assert events.shards.engine.rounds == before + 1 and (again == best).all()


def test_separable_samples_and_a_mean_far_from_zero():
    rng = np.random.default_rng(0)
    far = np.concatenate([rng.normal(-3, 0.1, 60), rng.normal(3, 0.1, 40)])[:, None] + 1e7
    y = np.repeat(["common", "rare"], [60, 40])
    (found,) = events_of(far, y, (0.5,)).fit(1e6, [-1], tol=1e-12)
    peer = LogisticRegression(C=1e6, tol=1e-12, max_iter=1000, solver="newton-cholesky").fit(standardized(far), y)
    np.testing.assert_allclose(found, np.append(peer.coef_, peer.intercept_), rtol=1e-4)


# ---- lists and metrics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [(), (0.3, 0.3, 0.7), (2, 299)])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("loss", ["ap", "ndcg@10"])
def test_lists_of_folds(cuts, kind, loss):
    rows = rows_of(kind)
    events, Z = events_of(rows, cuts=cuts), standardized(rows)
    weights, loss = np.array([1.0, 0.3, -0.2, 0.1]), ranking_loss(loss)
    train, test = folds_of()[1]
    for part, tested, own in ((1, False, train), (1, True, test), (-1, False, np.arange(len(Y)))):
        expected = DirectRanking(RankingProblem(Z[own], RARE[own], loss))
        found = events.lists(loss, part, tested=tested)
        assert found.loss(weights) == pytest.approx(expected.loss(weights), rel=1e-12)
        one, other = found.at(weights, 0.1), expected.at(weights, 0.1)
        assert (one.loss, one.value) == pytest.approx((other.loss, other.value), rel=1e-9)
        np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-9 * np.abs(other.gradient).max())


@pytest.mark.parametrize("name", ["ap", "auc", "p@20", "recall@30", "ndcg", "mrr"])
def test_metrics_of_held_out_samples(name):
    loss, Z = ranking_loss(name), standardized(X).round()  # ties
    events = events_of(X, standardize=False)
    weights = [np.array([w, 0.1, 1e-3, 1e-4, 7.0]) for w in (100.0, 0.0, -1.0)]
    expected = [metric_of(loss, RARE[t], X[t] @ w[:-1]) for w, (_, t) in zip(weights, folds_of(), strict=True)]
    assert events.metrics(loss, [0, 1, 2], weights, own_metric(loss)) == pytest.approx(expected, rel=1e-12)
    tied = events_of(Z, standardize=False).metrics(loss, [-1], [np.array([1.0, 1.0, 0.0, 0.0, 0.0])], own_metric(loss))
    assert tied == pytest.approx([metric_of(loss, RARE, Z[:, 0] + Z[:, 1])], rel=1e-12)


# ---- held-out scores ----------------------------------------------------------------------------------------------------------

AIMS = [
    "f1", {"budget": 0.1}, {"budget": 17}, {"budget": 0.999}, {"budget": 0.0001}, {"precision": 0.5}, {"precision": 0.31},
    {"precision": 1.0}, {"recall": 0.5}, {"recall": 1.0}, {"cost": [[0, 1], [10, 0]]}, {"cost": [[0, 10], [1, 0]]},
]  # fmt: skip


# Negatives of which a budget has room for some, but not for all that are equal.
TIED = [(3, False), (2, False), (2, False), (2, False), (4, True), (0, True), (0, False), (-1, False)]


def assert_same_pool(pool, events, scores, relevant, aims):
    np.testing.assert_allclose(pool.positives, np.sort(scores[relevant]), rtol=1e-9, atol=1e-12)
    found = ScoresOverShards(events, pool)
    assert found.ends() == pytest.approx((scores.min(), scores.max()), rel=1e-9, abs=1e-12)
    for aim in aims:
        one, other = found.cutoff(aim, 1), choose_cutoff(aim, scores, relevant, 1, len(scores))
        assert one.met == other.met and one.value == pytest.approx(other.value, rel=1e-9, abs=1e-12), aim
        assert found.outcome(one.value) == outcome(scores > other.value, relevant)
    expected = calibrate("sigmoid", scores, relevant)
    # A slope that is rounding is zero or not.
    if abs(np.corrcoef(scores, relevant)[0, 1] if np.ptp(scores) else 0.0) > 1e-9:
        np.testing.assert_allclose(found.calibrate("sigmoid"), expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.calibrate("isotonic"), calibrate("isotonic", scores, relevant), rtol=1e-9, atol=1e-9)
    for k in {1, 2, len(scores) // 2, len(scores)}:
        assert pool.of_rank(k) == pytest.approx(np.sort(scores)[-k], rel=1e-9, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=8, max_size=40),
    st.lists(st.integers(0, 40), max_size=3),
    st.sampled_from(AIMS),
)
@example(TIED, [2], {"budget": 3})
@example(TIED, [2], {"precision": 0.25})
def test_cuts_and_calibrations_with_ties(rows, cuts, aim):
    relevant = np.array([own for _, own in rows])
    if min(relevant.sum(), (~relevant).sum()) < 2:
        return
    values = np.array([[float(x)] for x, _ in rows])
    cuts = sorted(min(cut, len(rows)) for cut in cuts)
    events = events_of(values, np.where(relevant, "rare", "common"), cuts, n_folds=2, standardize=False)
    # Neither moved nor stretched, as rounding would part what is equal.
    same = {"centers": np.zeros(2), "stretches": np.ones(2), "wanted": np.zeros(2), "weights": np.array([[1.0, 0.0]] * 2)}
    assert_same_pool(PooledScores(events.shards, same), events, values[:, 0], relevant, [aim])


def assert_same_scores(X, relevant, weights, whole, cuts):
    events = events_of(X, np.where(relevant, "rare", "common"), cuts, n_folds=2, standardize=False)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=5).split(X, relevant))
    scores, seen = pooled_scores([X @ own[:-1] + own[-1] for own in weights], X @ whole[:-1] + whole[-1], folds)
    assert seen.all()
    assert_same_pool(events.pooled(weights, whole), events, scores, relevant, AIMS)


@pytest.mark.parametrize("cuts", [(0.3, 0.3, 0.7), (1, 2)])
def test_cuts_and_calibrations_of_many_samples(cuts):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9000, 2))
    relevant = X[:, 0] + rng.normal(size=9000) > 1.5
    weights = [np.array([1.0, 0.1, -1.0]), np.array([0.7, 0.0, 0.3])]
    assert_same_scores(X, relevant, weights, np.array([2.0, 0.1, -3.0]), cuts)


def test_scores_that_tell_nothing():
    relevant = np.arange(40) % 4 == 0
    for weights in (np.zeros(2), np.array([0.0, 3.0]), np.array([-1.0, 0.0])):
        values = np.arange(40.0)[:, None] * (weights[0] != 0) + relevant[:, None]
        assert_same_scores(values, relevant, [weights, weights], weights, (0.5,))
    # Scores that differ by rounding alone are moved, and not stretched.
    values = np.column_stack([np.where(np.arange(40) % 3 == 0, 0.3, 0.1 + 0.2), np.arange(40.0)])
    assert_same_scores(values, relevant, [np.array([1.0, 0.0, 0.0])] * 2, np.array([0.0, 1.0, 0.0]), (0.5,))


# ---- faults and bad data ------------------------------------------------------------------------------------------------------


def everything(engine):
    """All operations, and what they have found."""
    shards = Conversation(engine)
    events = ShardedEvents(shards, Labels(labels_of(shards)))
    events.standardize()
    events.stratify(2, seed=0)
    by_fold, (whole,) = events.fit(1.0, [0, 1]), events.fit(0.1, [-1], most_curved=0)
    loss = ranking_loss("ap")
    point = events.lists(loss, 0).at(whole[:-1], 0.1)
    scores = ScoresOverShards(events, events.pooled(by_fold, whole))
    cuts = [scores.cutoff(aim, 1).value for aim in ({"budget": 0.3}, {"precision": 0.5})]
    numbers = [
        *events.sketch, *whole, *np.ravel(by_fold), *events.metrics(loss, [0, 1], by_fold), point.loss, point.value,
        *point.gradient, events.lists(loss, 1, tested=True).loss(whole[:-1]), *cuts, *scores.outcome(cuts[0]).values(),
        *scores.calibrate("sigmoid"), *np.ravel(scores.calibrate("isotonic")),
    ]  # fmt: skip
    return [float(number) for number in numbers]


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
def test_every_operation_and_every_fault(kind):
    X, y = samples(60, 2, seed=1)
    clean = engine_of(X, y, (0.4,))
    expected, log = everything(clean), clean.log
    own = set(ShardOf(split_rows(X, y, 1)[0], "events").load().operations) & {
        "counted", "sketch", "logistic", "held_positives", "held_above", "score_sums", "score_squares", "pool", "pool_counts",
        "pool_neighbours", "pool_sample", "pool_ranks", "pool_squares", "pool_sigmoid", "moments", "labels",
    }  # fmt: skip
    assert own <= set(log) and len(own) == 16
    for operation in sorted(set(log)):
        # The first time, and the last.
        last = len(log) - 1 - log[::-1].index(operation)
        for number in {log.index(operation), last} if kind == "lost before" else {last}:
            engine = engine_of(X, y, (0.4,), faults=[Fault(kind, number, number % 2)])
            assert everything(engine) == expected, (operation, number)
            assert engine.moves == 1 or kind == "nan" or number in (0, len(log) - 1)


def test_folds_are_sent_once_and_only_to_their_shard():
    X, y = samples(4000, 2, share=0.01)
    engine = engine_of(X, y, (0.25,))
    events = ShardedEvents(engine, BOTH)
    events.standardize()
    before = engine.bytes_down
    events.stratify(3, seed=0)
    assert 4000 <= engine.bytes_down - before < 4500
    before = engine.bytes_down
    for part in range(2):
        for tested in (False, True):
            events.lists(ranking_loss("ap"), part, tested=tested).loss(np.ones(2))
    # Nor do shards have to be told again what they let go for other tasks.
    events.fit(1.0, [-1])
    assert engine.bytes_down - before < 6000 and events.shards.repeats == 0


def test_bad_data():
    bad = X.copy()
    bad[123, 2] = np.nan
    with pytest.raises(ValueError, match=r"X and y must be finite: a feature in row 33 of rows 90 to 209 is NaN or infinite"):
        events_of(bad)
    with pytest.raises(ArgumentError, match=r"column 4 of X reaches 1e\+200, .*; measure it in larger units"):
        events_of(X * [1, 1, 1, 1e200 / X[:, 3].max()])
    with pytest.raises(ArgumentError, match="the data have queries, and rare events are found in one list"):
        ShardedEvents(LocalEngine([ShardOf(rows, "events") for rows in split_rows(X, Y, 2, np.arange(300) // 3)]), BOTH)
    with pytest.raises(ValueError, match="the 1 shards hold no data; at least one needs rows"):
        ShardedEvents(engine_of(X[:0], Y[:0], ()), BOTH)
    with pytest.raises(ValueError, match="X has 4 features, but the model was trained with 5"):
        ShardedEvents(engine_of(X, Y), BOTH, 5)
    with pytest.raises(ValueError, match="there are 3 numbers of folds for 300 samples; give one for each"):
        events_of().divide(np.zeros(3, dtype=np.uint8), 2)
    with pytest.raises(ValueError, match="there are 300 folds, and samples over shards know 255 at most"):
        events_of().divide(np.zeros(300, dtype=np.uint8), 300)
    mixed = [ShardOf(split_rows(np.eye(2), labels, 1)[0], "events") for labels in (["a", "b"], [0, 1])]
    with pytest.raises(ArgumentError, match="y mixes labels of different kinds, numbers and text"):
        labels_of(Conversation(LocalEngine(mixed)))
    with pytest.raises(ValueError, match="y holds labels of several kinds, or missing ones"):
        engine_of(np.eye(2), np.array(["a", None], dtype=object), ()).call("info")
