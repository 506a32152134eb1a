"""Rankings over shards against the same lists in one piece."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import RankingSVM
from maxmargin.core import trace_path
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import ArrayRows, Fault, LocalEngine, ShardError, ShardOf, split_rows
from maxmargin.io import load_svmlight
from maxmargin.ranking import RankingLoss
from maxmargin.ranking.shards import ShardedRanking

DATA = Path(os.environ.get("MAXMARGIN_DATA", Path(__file__).parents[3] / "shared" / "data"))


def queries(seed=0, n=40, columns=60, grades=2):
    """Lists of 1 to 12 rows; grades follow the first feature."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, size=n)
    qid = np.repeat(np.arange(n), sizes)
    X = rng.normal(size=(len(qid), columns))
    y = np.clip(np.floor(X[:, 0] + rng.normal(size=len(qid)) + 0.5), 0, grades - 1)
    return X, y, qid


def engine_of(parts, loss=None, **settings):
    return LocalEngine([ShardOf(part, "ranking", loss) for part in parts], **settings)


def single(X, y, qid, loss="ap", grades=False, weight=None, **settings):
    """The problem of the estimator."""
    weights = None if weight is None else np.asarray(weight)[np.unique(qid, return_inverse=True)[1]]
    return RankingSVM(loss, grades=grades, **settings)._prepare(X, y, qid, weights)


def assert_same_cuts(found, expected, rng, tol=1e-12):
    assert (found.n_blocks, found.n_features, found.n_skipped) == (expected.n_blocks, expected.n_features, expected.n_skipped)
    for scale in (0.0, 0.1, 1.0, 30.0):
        weights = scale * rng.normal(size=found.n_features)
        one, other = found.mean_cut(weights), expected.mean_cut(weights)
        assert one.loss == pytest.approx(other.loss, rel=tol)
        assert np.abs(one.psi - other.psi).max() <= tol * max(np.abs(other.psi).max(), 1e-3)
        assert found.tangent(found.scores(weights)).hinge == pytest.approx(
            expected.tangent(expected.scores(weights)).hinge, rel=tol, abs=1e-14
        )


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7, 60])
@pytest.mark.parametrize("kind", [np.asarray, np.float32, sparse.csr_array])
def test_cuts(n_shards, kind):
    X, y, qid = queries()
    X = kind(X) if kind is not np.float32 else X.astype(np.float32)
    rng = np.random.default_rng(1)
    engine = engine_of(split_rows(X, y, n_shards, qid))
    assert_same_cuts(ShardedRanking(engine), single(X, y, qid), rng)


@pytest.mark.parametrize("whole", [True, False])
def test_scaled_features(whole):
    X, y, qid = queries()
    rng = np.random.default_rng(1)
    scale = 10.0 ** rng.uniform(-3, 3, size=60)
    engine = engine_of(split_rows(X * scale, y, 3, qid, whole=whole))
    sharded, expected = ShardedRanking(engine, scale=scale), single(X, y, qid)
    assert_same_cuts(sharded, expected, rng)
    weights = rng.normal(size=60)
    # Blocks of scattered lists come last; whatever their order, their mean is the mean cut.
    cuts = sharded.cuts(range(sharded.n_blocks), weights)
    mean = expected.mean_cut(weights)
    np.testing.assert_allclose(np.mean([cut.psi for cut in cuts], axis=0), mean.psi, atol=1e-12)
    assert np.mean([cut.loss for cut in cuts]) == pytest.approx(mean.loss, rel=1e-12)
    found, plain = (OneSlackCuttingPlane().solve(problem, 0.01) for problem in (sharded, expected))
    assert found.primal == pytest.approx(plain.primal, rel=1e-9)
    other = ShardedRanking(engine, scale=2 * scale)
    assert sharded.fingerprint() not in (None, ShardedRanking(engine).fingerprint(), other.fingerprint())


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", "ndcg@3", "p@2", "rbp(p=0.9)"])
def test_losses(loss):
    X, y, qid = queries(1)
    sharded = ShardedRanking(engine_of(split_rows(X, y, 3, qid)), loss)
    assert_same_cuts(sharded, single(X, y, qid, loss), np.random.default_rng(1))


@pytest.mark.parametrize(("loss", "grades"), [("ap", True), ("ndcg", "linear"), ("ndcg", "exponential"), ("ndcg@5", "linear")])
def test_grades_that_some_shards_do_not_have(loss, grades):
    X, y, qid = queries(2, grades=4)
    y[qid < 14] = np.minimum(y[qid < 14], 1)
    y[qid > 30] = np.where(y[qid > 30] > 1, 3, 0)
    sharded = ShardedRanking(engine_of(split_rows(X, y, 3, qid)), loss, grades=grades)
    assert sharded.thresholds.tolist() == [0, 1, 2]
    assert_same_cuts(sharded, single(X, y, qid, loss, grades), np.random.default_rng(1))


def test_weights_of_queries_and_thresholds():
    X, y, qid = queries(3, grades=4)
    weight = np.random.default_rng(4).integers(0, 3, size=40).astype(float)
    sharded = ShardedRanking(engine_of(split_rows(X, y, 4, qid, query_weight=weight)), relevance_threshold=1.5)
    assert_same_cuts(sharded, single(X, y, qid, weight=weight, relevance_threshold=1.5), np.random.default_rng(1))


def test_the_lowest_label_of_all_shards_is_irrelevant():
    X, y, qid = queries(5)
    y = y + 1
    parts = split_rows(X, y, 3, qid)
    assert_same_cuts(ShardedRanking(engine_of(parts)), single(X, y, qid), np.random.default_rng(1))


class OwnAUC(RankingLoss):
    """The area under the curve, written again without a name."""

    def derivative(self, j, i, n_pos, n_neg):
        return np.full(j.shape, -1.0 / (n_pos * n_neg))

    def value(self, negatives_above, n_neg):
        return negatives_above.mean() / n_neg


def test_a_loss_of_ones_own_comes_with_the_sources():
    X, y, qid = queries(6, n=12, columns=5)
    loss = OwnAUC()
    sharded = ShardedRanking(engine_of(split_rows(X, y, 2, qid), loss), loss)
    assert_same_cuts(sharded, single(X, y, qid, loss), np.random.default_rng(1))
    with pytest.raises(ValueError, match="the loss has no name; give it to the source of every shard"):
        ShardedRanking(engine_of(split_rows(X, y, 2, qid)), loss)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.sampled_from(["ap", "ndcg", "auc", "mrr"]),
    st.sampled_from([1e-300, 1, 1e200]),
)
def test_any_lists_with_ties(seed, n_shards, loss, scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    qid = np.repeat(np.arange(n), rng.integers(1, 6, size=n))
    X, y = rng.integers(-1, 2, size=(len(qid), 2)) * 1.0, rng.integers(0, 2, size=len(qid))
    X[:2], y[:2], qid[:2] = [[1, 0], [0, 1]], [0, 1], 0
    sharded, expected = ShardedRanking(engine_of(split_rows(X, y, n_shards, qid)), loss), single(X, y, qid, loss)
    weights = scale * rng.integers(-1, 2, size=2)
    one, other = sharded.mean_cut(weights), expected.mean_cut(weights)
    assert one.loss == pytest.approx(other.loss, rel=1e-12, abs=1e-15) and one.psi == pytest.approx(
        other.psi, rel=1e-12, abs=1e-14
    )
    for block in range(sharded.n_blocks):
        one, at = sharded.cut(block, weights), np.abs(sharded.cut(block, weights).psi).max()
        assert any(
            np.abs(one.psi - expected.cut(k, weights).psi).max() <= 1e-12 * (1 + at) and one.loss == expected.cut(k, weights).loss
            for k in range(expected.n_blocks)
        )


def data_set(name):
    if name == "random":
        X, y, qid = queries(7, n=120)
        return X, y, qid, "ap", 1e-3
    if name == "grades":
        X, y, qid = queries(8, n=80, columns=120, grades=5)
        return X, y, qid, "ndcg", 0.1
    path = DATA / "ltr_mq2008" / "S1.txt.gz"
    if not path.exists():
        pytest.skip("ltr_mq2008/S1.txt.gz is not there; set MAXMARGIN_DATA to the folder that has it")
    read = load_svmlight(path)
    return read.X, read.y, read.qid, "ap", 1e-3


@pytest.mark.parametrize("name", ["random", "grades", "mq2008"])
@pytest.mark.parametrize("n_shards", [2, 5])
def test_training_takes_the_same_passes(name, n_shards):
    X, y, qid, loss, lam = data_set(name)
    sharded, expected = ShardedRanking(engine_of(split_rows(X, y, n_shards, qid)), loss), single(X, y, qid, loss)
    solver = OneSlackCuttingPlane(tol=1e-3)
    one, other = solver.solve(sharded, lam), solver.solve(expected, lam)
    assert one.certified and one.converged and one.passes == other.passes > 5
    assert one.primal == pytest.approx(other.primal, rel=1e-9) and one.dual == pytest.approx(other.dual, rel=1e-9)
    assert sharded.shards.repeats == 0 and sharded.engine.moves == 0
    # Scores of few weights are kept.
    del one
    gc.collect()
    assert sharded.n_roots <= 1


def test_within_bounds_and_warm_starts():
    X, y, qid = queries(9, n=60)
    sharded, expected = ShardedRanking(engine_of(split_rows(X, y, 3, qid))), single(X, y, qid)
    solver, bounds = OneSlackCuttingPlane(), (0.0, 0.3)
    one, other = (solver.solve(problem, 1e-2, bounds=bounds) for problem in (sharded, expected))
    assert one.certified and one.passes == other.passes and one.primal == pytest.approx(other.primal, rel=1e-9)
    first, second = (
        solver.solve(problem, 5e-3, bounds=bounds, start=start) for problem, start in ((sharded, one), (expected, other))
    )
    assert first.certified and first.passes == second.passes and first.primal == pytest.approx(second.primal, rel=1e-9)


def test_paths_are_traced_as_they_are():
    X, y, qid = queries(10, n=30, columns=55)
    traced = [
        trace_path(problem, epsilon=0.05, lambda_min=0.01, solver=OneSlackCuttingPlane())
        for problem in (ShardedRanking(engine_of(split_rows(X, y, 3, qid))), single(X, y, qid))
    ]
    one, other = traced
    assert one.certified and one.complete and len(one.segments) == len(other.segments) > 3
    assert np.array_equal(one.passes, other.passes)
    for name in ("lambdas", "hinges", "duals"):
        assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-9)


def test_gradients_and_scores_are_opaque():
    X, y, qid = queries(11)
    problem, rng = ShardedRanking(engine_of(split_rows(X, y, 3, qid))), np.random.default_rng(0)
    expected = single(X, y, qid)
    a, b = rng.normal(size=(2, 60))
    one, other = problem.scores(a), problem.scores(b)
    middle = one + np.float64(0.25) * (other - one)
    assert np.allclose(middle.weights(), 0.75 * a + 0.25 * b)
    found, plain = problem.tangent(middle), expected.tangent(expected.scores(0.75 * a + 0.25 * b))
    rounds = problem.engine.rounds
    slope = found.gradient.ravel() @ (other - one).ravel()
    assert problem.engine.rounds == rounds  # known from the pass
    assert slope == pytest.approx(plain.gradient @ expected.scores(b - a), rel=1e-9)
    assert -found.gradient @ (other - one) == -slope
    new = problem.scores(rng.normal(size=60))
    assert found.gradient @ new == pytest.approx(plain.gradient @ expected.scores(new.weights()), rel=1e-9)
    assert problem.engine.rounds == rounds + 1  # by the features
    assert -found.gradient @ new == -(found.gradient @ new) and problem.engine.rounds == rounds + 1


def test_too_many_roots_become_one():
    X, y, qid = queries(12)
    problem = ShardedRanking(engine_of(split_rows(X, y, 2, qid)))
    rng = np.random.default_rng(0)
    place = problem.scores(rng.normal(size=60))
    for _ in range(5):
        place = place + 0.5 * (problem.scores(rng.normal(size=60)) - place)
    assert len(place.terms) == 6
    before, weights = problem.tangent(place).hinge, place.weights()
    problem.scores(np.zeros(60)) - place
    assert len(place.terms) == 6
    place = place + 0.5 * (problem.scores(rng.normal(size=60)) - place)
    weights = place.weights()
    assert len(place.terms) == 7
    before = problem.tangent(place).hinge
    problem.scores(np.zeros(60)) - place
    assert len(place.terms) == 1 and np.allclose(place.weights(), weights)
    assert problem.tangent(place).hinge == pytest.approx(before, rel=1e-12)
    # The shards have dropped what nobody needs.
    del place
    gc.collect()
    last = problem.scores(np.ones(60))
    problem.tangent(last)
    assert all(len(shard._roots) == 1 for shard in problem.engine._shards)


def test_two_problems_share_the_shards():
    X, y, qid = queries(13)
    engine = engine_of(split_rows(X, y, 2, qid))
    one, other = ShardedRanking(engine, "ap"), ShardedRanking(engine, "ndcg")
    rng = np.random.default_rng(0)
    for problem, loss in ((one, "ap"), (other, "ndcg"), (one, "ap")):
        assert_same_cuts(problem, single(X, y, qid, loss), rng)
    assert other.shards.repeats == 0


def test_a_task_that_a_shard_has_let_go_is_sent_again():
    X, y, qid = queries(13)
    engine = engine_of(split_rows(X, y, 2, qid))
    problems = [ShardedRanking(engine, loss) for loss in ("ap", "ndcg", "auc", "ndcg@3", "ndcg@5")]
    assert_same_cuts(problems[0], single(X, y, qid), np.random.default_rng(0))
    assert problems[0].shards.repeats > 0 and all(len(shard._built) == 4 for shard in engine._shards)


# ---- faults ------------------------------------------------------------------------------------------------------------------


def train(parts, faults=(), tol=1e-2):
    engine = engine_of(parts, faults=faults)
    problem = ShardedRanking(engine)
    return OneSlackCuttingPlane(tol=tol, max_passes=8).solve(problem, 1e-2), problem


def assert_equal_bits(one, other):
    assert np.array_equal(one.weights, other.weights)
    assert (one.primal, one.dual, one.passes) == (other.primal, other.dual, other.passes)
    assert (one.history.primal, one.history.dual) == (other.history.primal, other.history.dual)


@pytest.fixture(scope="module")
def parts():
    X, y, qid = queries(14, n=20, columns=10)
    return split_rows(X, y, 3, qid)


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan", "delay"])
def test_every_operation_and_every_fault(parts, kind):
    clean, problem = train(parts)
    assert {"info", "query_hashes", "prepare", "look", "features"} == set(problem.engine.log)
    for number in range(problem.engine.rounds):
        found, broken = train(parts, [Fault(kind, number, shard=number % 3)])
        assert_equal_bits(found, clean)
        assert broken.shards.repeats <= 2
        operation = problem.engine.log[number]
        if kind == "nan" and operation in ("look", "features", "info"):
            assert broken.engine.moves == 1 and broken.shards.repeats >= 1
        if kind == "lost before" and number:
            assert broken.engine.moves == 1


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
def test_faults_before_training(kind):
    X, y, qid = queries(18, n=20, columns=4, grades=4)
    parts = split_rows(X, y, 3, qid)
    clean = ShardedRanking(engine_of(parts), "ndcg", grades="linear")
    mark = clean.fingerprint()
    assert clean.engine.log == ["info", "query_hashes", "labels", "prepare", "digest"]
    for number in range(5):
        found = ShardedRanking(engine_of(parts, faults=[Fault(kind, number, shard=number % 3)]), "ndcg", grades="linear")
        assert found.fingerprint() == mark and np.array_equal(found.thresholds, clean.thresholds)
        assert np.array_equal(found.mean_cut(np.ones(4)).psi, clean.mean_cut(np.ones(4)).psi)


def test_two_shards_and_the_same_one_twice(parts):
    clean, _ = train(parts)
    for faults in (
        [Fault("lost before", 5, 0), Fault("lost before", 5, 2)],
        [Fault("lost before", 5, 1), Fault("lost before", 6, 1)],
        [Fault("lost after", 7, 1), Fault("nan", 10, 1)],
        [Fault("lost before", 5, k) for k in range(3)],
    ):
        found, broken = train(parts, faults)
        assert_equal_bits(found, clean)
        assert broken.engine.moves == len(faults)


def test_a_shard_that_is_lost_again_and_again(parts):
    with pytest.raises(ShardError, match=r"shard 1 \(rows .*\) was lost 3 times within 10 passes"):
        train(parts, [Fault("lost before", k, 1) for k in range(5, 30)])


def test_an_answer_that_is_no_number_twice(parts):
    with pytest.raises(ValueError, match=r"shard 2 \(rows .*\) to 'look' is NaN or infinite, twice; .* scale the features"):
        train(parts, [Fault("nan", 7, 2, lasting=True, stubborn=True)])


@pytest.mark.parametrize(("what", "value"), [("feature", np.nan), ("feature", np.inf), ("label", np.nan)])
def test_a_row_that_is_no_number_is_named(what, value):
    X, y, qid = queries(15, n=20)
    parts = split_rows(X, y, 3, qid)
    if what == "feature":
        X[len(parts[0].y) + 4, 3] = value
    else:
        y[len(parts[0].y) + 4] = value
    with pytest.raises(
        ValueError, match=rf"X and y must be finite: a {what} in row 4 of {parts[1].text} is NaN or infinite; remove"
    ):
        train(parts)


def test_scores_that_overflow():
    X, y, qid = queries(16, n=10)
    problem = ShardedRanking(engine_of(split_rows(1e200 * X, y, 2, qid)))
    with pytest.raises(ValueError, match="sums of them overflow: scale the features"):
        problem.mean_cut(np.full(60, 1e200))


class Fickle:
    """A source that gives one row more when it is asked again."""

    def __init__(self, rows):
        self.rows, self.asked = rows, 0

    def load_rows(self):
        self.asked += 1
        rows = self.rows.load_rows()
        return rows if self.asked == 1 else rows._replace(y=1 - rows.y)

    def describe(self):
        return "a fickle file"


def test_a_source_that_changes_is_refused(parts):
    with pytest.raises(ShardError, match=r"shard 0 \(a fickle file\) was loaded again with checksum .* must give the same rows"):
        train([Fickle(parts[0]), *parts[1:]], [Fault("lost before", 6, 0)])


def test_ctrl_c_leaves_the_best_state(parts):
    clean, problem = train(parts)
    found, _ = train(parts, [Fault("interrupt", problem.engine.rounds - 3)])
    assert found.status == "interrupted" and found.certified and found.gap >= clean.gap


def test_a_gradient_of_other_bits_makes_no_cut(parts):
    problem = ShardedRanking(engine_of(parts))
    found = problem.tangent(problem.scores(np.ones(10)))
    found.gradient.point.losses[1] += 1e-16 + 1e-16 * found.gradient.point.losses[1] * 4
    with pytest.raises(ShardError, match=r"shard 1 .* machine whose sums differ in their last bits"):
        problem.features(found.gradient)


# ---- bytes, bad input --------------------------------------------------------------------------------------------------------


def test_bytes_do_not_grow_with_the_rows():
    sent = []
    for n in (200, 2000):
        X, y, qid = queries(17, n=n, columns=30)
        engine = engine_of(split_rows(X, y, 2, qid))
        problem = ShardedRanking(engine)
        one, other = problem.scores(np.ones(30)), problem.scores(np.zeros(30))
        problem.tangent(one)
        problem.tangent(other)
        up, down = engine.bytes_up, engine.bytes_down
        middle = problem.tangent(0.5 * one + 0.5 * other)
        sent.append((engine.bytes_up - up, engine.bytes_down - down))
        assert sum(sent[-1]) <= 2 * 250
        up, down = engine.bytes_up, engine.bytes_down
        problem.features(middle.gradient)
        assert engine.bytes_up - up <= 2 * (8 * 30 + 16) and engine.bytes_down - down <= 2 * 100
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grades": "cubic"}, "grades='cubic' must be True"),
        ({"grades": True, "relevance_threshold": 1.0}, "relevance_threshold=1.0 is not for grades"),
        ({"relevance_threshold": np.nan}, "relevance_threshold=nan must be a finite number"),
        ({"relevance_threshold": 9}, r"holds only one class \(labels are from 0 to 1, and those above 9 are relevant\); mark"),
        ({"grades": "linear"}, "grades='linear' are the gains of NDCG, and AveragePrecision"),
        ({"loss": "app"}, "loss='app' is unknown"),
        ({"scale": [1.0, 0.0]}, r"scale has shape \(2,\); give a positive, finite number for each of the"),
    ],
)
def test_bad_settings(parts, settings, message):
    with pytest.raises(ValueError, match=message):
        ShardedRanking(engine_of(parts), **settings)


def test_bad_rows():
    X, y = np.ones((4, 2)), np.array([0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"no query has both .*; check qid"):
        ShardedRanking(engine_of(split_rows(X, y, 2, [0, 1, 2, 3])))
    with pytest.raises(ValueError, match="shards hold no data"):
        ShardedRanking(engine_of(split_rows(X[:0], y[:0], 2, [])))
    with pytest.raises(ValueError, match="it holds text"):
        ShardedRanking(engine_of([ArrayRows(X, np.array(["a", "b", "a", "b"]))]))
    with pytest.raises(ValueError, match="the weight is zero for every query"):
        ShardedRanking(engine_of(split_rows(X, y, 2, [0, 0, 1, 1], query_weight=[0.0, 0.0])))
    with pytest.raises(ValueError, match="X has 1 columns in shard 0"):
        ShardedRanking(engine_of([ArrayRows(X[:, :1], y), ArrayRows(X, y)]))
    for rows, message in (
        (ArrayRows(X[:3], y), "a row of features is needed for every label"),
        (ArrayRows(X, y, np.array([0, 2])), "offsets of queries must rise from 0 to the number of rows, 4"),
        (ArrayRows(X, y, np.array([0, 2, 2, 4])), "a query has no rows"),
        (ArrayRows(X, y, np.array([0, 2, 4]), names=["a"]), "names are 1, but there are 2 queries"),
        (ArrayRows(X, y, np.array([0, 2, 4]), weights=np.ones(3)), "weights are 3, but there are 2 queries"),
        (ArrayRows(X, y, np.array([0, 2, 4]), weights=-np.ones(2)), "weights of queries must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            ShardedRanking(engine_of([rows]))
