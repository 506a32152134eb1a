"""Lists that lie in several shards: training on them against the same lists in one piece."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import RankingSVM, SavedFileError
from maxmargin.core import CheckpointFile, trace_path
from maxmargin.core.checkpoint import KIND
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import ArrayRows, Fault, LocalEngine, ShardOf, run_rounds, split_rows
from maxmargin.io import read_archive, write_archive
from maxmargin.ranking import RankingLoss
from maxmargin.ranking.shards import ShardedRanking


def samples(seed=0, n=600, columns=60, share=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    y = (X[:, 0] + rng.normal(size=n) > np.quantile(X[:, 0], 1 - share)).astype(float)
    y[:2] = [0, 1]
    return X, y


def engine_of(parts, loss=None, **settings):
    return LocalEngine([ShardOf(part, "ranking", loss) for part in parts], **settings)


def single(X, y, qid=None, loss="ap", grades=False, weight=None):
    weights = None if weight is None else np.asarray(weight)[np.unique(qid, return_inverse=True)[1]]
    return RankingSVM(loss, grades=grades)._prepare(X, y, qid, weights)


def assert_same_cuts(found, expected, rng, tol=1e-11):
    assert (found.n_blocks, found.n_features, found.n_skipped) == (expected.n_blocks, expected.n_features, expected.n_skipped)
    for scale in (0.0, 0.1, 1.0, 30.0):
        weights = scale * rng.normal(size=found.n_features)
        one, other = found.mean_cut(weights), expected.mean_cut(weights)
        assert one.loss == pytest.approx(other.loss, rel=tol)
        assert np.abs(one.psi - other.psi).max() <= tol * max(np.abs(other.psi).max(), 1e-3)
        tangent = found.tangent(found.scores(weights))
        assert tangent.hinge == pytest.approx(expected.tangent(expected.scores(weights)).hinge, rel=tol, abs=1e-14)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", "ndcg@10", "p@5", "rbp"])
def test_one_list(n_shards, loss):
    X, y = samples()
    assert_same_cuts(
        ShardedRanking(engine_of(split_rows(X, y, n_shards)), loss), single(X, y, loss=loss), np.random.default_rng(1)
    )


@pytest.mark.parametrize("kind", [np.float32, sparse.csr_array])
def test_kinds_of_rows(kind):
    X, y = samples()
    X = X.astype(np.float32) if kind is np.float32 else kind(X)
    assert_same_cuts(ShardedRanking(engine_of(split_rows(X, y, 3))), single(X, y), np.random.default_rng(1))


def test_a_long_list_in_buckets():
    X, y = samples(n=100_000, columns=5, share=1e-5)
    assert y.sum() < 1500
    sharded, expected = ShardedRanking(engine_of(split_rows(X, y, 4))), single(X, y)
    assert_same_cuts(sharded, expected, np.random.default_rng(1))
    engine = sharded.engine
    weights = np.eye(5)[0]
    sharded.tangent(sharded.scores(weights))
    # The buckets of the last time will do: look, write and place.
    before, up, down = engine.rounds, engine.bytes_up, engine.bytes_down
    sharded.tangent(sharded.scores(1.01 * weights))
    assert engine.rounds - before == 3 and engine.log[before:] == ["step"] * 3
    assert engine.bytes_up - up + engine.bytes_down - down < 8 * 100_000 / 2


@pytest.mark.parametrize("kind", [np.float32, sparse.csr_array])
def test_features_of_the_few_rows_above_a_floor(kind, monkeypatch):
    monkeypatch.setattr("maxmargin.ranking.shards.lists._ROWS_AT_ONCE", 20)
    X, y = samples(n=80_000, columns=4)
    y = np.zeros(len(X))
    y[::4_001] = 1
    X[:, 0] += 9 * y
    X = X.astype(np.float32) if kind is np.float32 else kind(X)
    sharded, expected = ShardedRanking(engine_of(split_rows(X, y, 3))), single(X, y)
    engine, weights = sharded.engine, np.eye(4)[0]
    sharded.tangent(sharded.scores(weights))
    before, weights = engine.rounds, weights + 0.01
    found, other = sharded.tangent(sharded.scores(weights)), expected.tangent(expected.scores(weights))
    assert engine.rounds - before == 2 and np.count_nonzero(other.gradient) > 300  # several pieces of every shard
    assert found.hinge == pytest.approx(other.hinge, rel=1e-11)
    psi = expected.features(other.gradient)
    assert np.abs(sharded.features(found.gradient) - psi).max() <= 1e-11 * np.abs(psi).max()
    # Products with scores come from the shards, before features are asked for.
    again = sharded.tangent(sharded.scores(weights)).gradient
    assert again @ sharded.scores(weights) == pytest.approx(float(other.gradient @ expected.scores(weights)), rel=1e-9)


def test_wherever_the_positives_are():
    X, y = samples(n=40, columns=4)
    order = np.argsort(-y, kind="stable")
    X, y = X[order], y[order]
    n_pos = int(y.sum())
    for edges in ([0, n_pos, 40], [0, 0, n_pos, n_pos, 40, 40], [0, 1, 2, 40], [0, 39, 40], [0, n_pos + 1, 40]):
        parts = [ArrayRows(X[a:b], y[a:b]) for a, b in pairwise(edges)]
        assert_same_cuts(ShardedRanking(engine_of(parts)), single(X, y), np.random.default_rng(1))


def graded(seed=2, n=30):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n), rng.integers(1, 13, size=n))
    X = rng.normal(size=(len(qid), 60))
    return X, np.clip(np.floor(X[:, 0] + rng.normal(size=len(qid)) + 0.5), 0, 3), qid


@pytest.mark.parametrize(("loss", "grades"), [("ap", False), ("ap", True), ("ndcg", "linear"), ("ndcg@3", "exponential")])
@pytest.mark.parametrize("n_shards", [2, 5, 25])
def test_queries_that_are_cut_anywhere(loss, grades, n_shards):
    X, y, qid = graded()
    weight = np.random.default_rng(5).integers(0, 3, size=30).astype(float)
    sharded = ShardedRanking(engine_of(split_rows(X, y, n_shards, qid, query_weight=weight, whole=False)), loss, grades=grades)
    assert len(sharded.scattered) > 0
    expected = single(X, y, qid, loss, grades, weight)
    assert_same_cuts(sharded, expected, np.random.default_rng(1))
    weights = np.random.default_rng(2).normal(size=60)
    total = np.sum([sharded.cut(k, weights).psi for k in range(sharded.n_blocks)], axis=0)
    assert np.allclose(total / sharded.n_blocks, expected.mean_cut(weights).psi, rtol=1e-9, atol=1e-12)


def test_names_may_be_numbers_here_and_text_there():
    X, y, qid = graded()
    parts = split_rows(X, y, 4, qid, whole=False)
    named = [
        ArrayRows(part.X, part.y, part.offsets, [str(name) for name in part.names] if k % 2 else part.names)
        for k, part in enumerate(parts)
    ]
    assert_same_cuts(ShardedRanking(engine_of(named)), single(X, y, qid), np.random.default_rng(1))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.lists(st.integers(0, 20), max_size=5), st.sampled_from(["ap", "ndcg", "auc", "mrr", "ap@3"]),
    st.booleans(), st.sampled_from([1.0, 1e-300, 1e200]),
)  # fmt: skip
def test_any_cuts_and_ties(seed, edges, loss, queries, scale):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-1, 2, size=(20, 2)) * 1.0, rng.integers(0, 2, size=20)
    y[:2] = [0, 1]
    qid = np.sort(rng.integers(0, 4, size=20)) if queries else None
    if queries:
        qid[:2] = 0
    ends, parts = [0, *sorted(edges), 20], []
    for a, b in pairwise(ends):
        if queries and b > a:
            names, first = np.unique(qid[a:b], return_index=True)
            parts.append(ArrayRows(X[a:b], y[a:b], np.append(first, b - a), names.tolist()))
        elif queries:
            parts.append(ArrayRows(X[a:b], y[a:b], np.zeros(1, dtype=int), []))
        else:
            parts.append(ArrayRows(X[a:b], y[a:b]))
    sharded, expected = ShardedRanking(engine_of(parts), loss), single(X, y, qid, loss)
    weights = scale * rng.integers(-1, 2, size=2)
    one, other = sharded.mean_cut(weights), expected.mean_cut(weights)
    assert one.loss == pytest.approx(other.loss, rel=1e-12, abs=1e-15)
    tangents = (sharded.tangent(sharded.scores(weights)).hinge, expected.tangent(expected.scores(weights)).hinge)
    assert tangents[0] == pytest.approx(tangents[1], rel=1e-11, abs=1e-13 * (1 + scale))
    # Ties are dealt in the order of the rows here; either cut is a tangent.
    assert one.loss - one.psi @ weights == pytest.approx(other.loss - other.psi @ weights, rel=1e-11, abs=1e-13 * (1 + scale))


@pytest.mark.parametrize("loss", ["ap", "ndcg"])
@pytest.mark.parametrize("n_shards", [2, 5])
def test_training_takes_the_same_passes(loss, n_shards):
    X, y = samples(3, n=2000)
    sharded, expected = ShardedRanking(engine_of(split_rows(X, y, n_shards)), loss), single(X, y, loss=loss)
    solver = OneSlackCuttingPlane(tol=1e-3)
    one, other = (solver.solve(problem, 1e-3) for problem in (sharded, expected))
    assert one.certified and one.passes == other.passes > 5
    assert one.primal == pytest.approx(other.primal, rel=1e-9) and one.dual == pytest.approx(other.dual, rel=1e-9)
    assert sharded.shards.repeats == 0


def test_paths_are_traced_as_they_are():
    X, y = samples(4, n=300, columns=55)
    one, other = (
        trace_path(problem, epsilon=0.05, lambda_min=0.01, solver=OneSlackCuttingPlane())
        for problem in (ShardedRanking(engine_of(split_rows(X, y, 3))), single(X, y))
    )
    assert one.certified and len(one.segments) == len(other.segments) > 3 and np.array_equal(one.passes, other.passes)
    assert np.allclose(one.hinges, other.hinges, rtol=1e-9)


class OwnAUC(RankingLoss):
    """The area under the curve, written again without a name."""

    proved_suitable = True

    def derivative(self, j, i, n_pos, n_neg):
        return np.full(j.shape, -1.0 / (n_pos * n_neg))

    def value(self, negatives_above, n_neg):
        return negatives_above.mean() / n_neg


def test_a_loss_of_ones_own_stays_with_the_client():
    X, y = samples(5, n=200)
    assert_same_cuts(ShardedRanking(engine_of(split_rows(X, y, 3)), OwnAUC()), single(X, y, loss="auc"), np.random.default_rng(1))


# ---- faults --------------------------------------------------------------------------------------------------------------------


def train(parts, faults=(), checkpoint=None, **settings):
    problem = ShardedRanking(engine_of(parts, faults=faults))
    file = None if checkpoint is None else CheckpointFile(checkpoint, problem, 1e-3)
    return OneSlackCuttingPlane(**{"tol": 1e-2, "max_passes": 4, "checkpoint": file, **settings}).solve(problem, 1e-3), problem


def assert_equal_bits(one, other):
    assert np.array_equal(one.weights, other.weights)
    assert (one.primal, one.dual, one.passes) == (other.primal, other.dual, other.passes)
    assert (one.history.primal, one.history.dual) == (other.history.primal, other.history.dual)


def cases():
    X, y = samples(6, n=5000, columns=4, share=0.01)
    graded_rows, grades, qid = graded(7)
    return {"long": split_rows(X, y, 3), "queries": split_rows(graded_rows[:, :5], grades, 4, qid, whole=False)}


CASES = cases()


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
@pytest.mark.parametrize("case", CASES)
def test_every_operation_and_every_fault(case, kind):
    parts = CASES[case]
    clean, problem = train(parts)
    assert problem.scattered and {"step", "features", "prepare"} <= set(problem.engine.log)
    counted = 0
    for number in range(problem.engine.rounds):
        found, broken = train(parts, [Fault(kind, number, shard=number % len(parts))])
        assert_equal_bits(found, clean)
        assert broken.shards.repeats <= 4
        counted += broken.shards.repeats
    assert counted >= problem.engine.log.count("step") // 2


def test_lost_twice_and_all_at_once():
    parts = CASES["long"]
    clean, _ = train(parts)
    for faults in ([Fault("lost before", 5, 1), Fault("lost before", 8, 1)], [Fault("lost after", 5, k) for k in range(3)]):
        found, broken = train(parts, faults)
        assert_equal_bits(found, clean)
        assert broken.engine.moves == len(faults)


def test_lost_between_a_pass_and_its_cut_where_few_negatives_are_looked_at():
    """Sums of some rows and of all, with zeros, differ in their last bits; a repeated pass must go the way of the first."""
    rng = np.random.default_rng(4)
    y = np.zeros(150_000)
    y[::1500] = 1
    X = rng.normal(size=(len(y), 4))
    X[:, 0] += 5 * y
    parts = split_rows(X, y, 2)

    def run(faults=()):
        problem = ShardedRanking(engine_of(parts, faults=faults))
        return OneSlackCuttingPlane(tol=1e-5, max_passes=12).solve(problem, 1e-6), problem

    clean, problem = run()
    assert any(block.ranking._floor is not None for block in problem.scattered)
    for number in [k for k, operation in enumerate(problem.engine.log) if operation == "features"]:
        assert_equal_bits(run([Fault("lost before", number, 0)])[0], clean)


def test_as_many_losses_between_a_pass_and_its_cut_as_there_are_shards():
    X, y = samples(9, n=300, columns=3)
    parts, faults = split_rows(X, y, 4), []
    for shard in range(4):
        problem = ShardedRanking(engine_of(parts, faults=faults))
        expected = problem.mean_cut(np.ones(3))
        last = max(k for k, operation in enumerate(problem.engine.log) if operation == "features")
        faults = [*faults, Fault("lost before", last, shard)]
    problem = ShardedRanking(engine_of(parts, faults=faults))
    assert (problem.mean_cut(np.ones(3)).psi == expected.psi).all() and problem.engine.moves == 4


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 7), (7, 3)])
@pytest.mark.parametrize("with_queries", [False, True])
def test_checkpoints_go_on_with_other_scattered_lists(tmp_path, before, after, with_queries):
    X, y = samples(10, n=300, columns=4)
    qid = np.repeat(np.arange(10), 30) if with_queries else None
    file = tmp_path / "run.ckpt"
    parts = [split_rows(X, y, k, qid, whole=False) for k in (before, after)]
    train(parts[0], checkpoint=file, tol=1e-4)
    found, _ = train(parts[1], checkpoint=file, tol=1e-4, max_passes=500)
    fresh, _ = train(parts[1], tol=1e-4, max_passes=500)
    assert found.certified and abs(found.primal - fresh.primal) <= 2e-4 * fresh.primal


def test_guesses_of_a_file_are_looked_at(tmp_path):
    file = tmp_path / "run.ckpt"
    train(CASES["long"], checkpoint=file)
    content, arrays, _ = read_archive(file, KIND)
    assert len(arrays["buckets.0"]) >= 6
    nan, inf = np.nan, np.inf
    bad = [[], [nan], [-1.0], [1.0, inf], [1.0] * 5]
    bad += [[1, nan, nan, 1024, nan, nan], [1, 0.0, 0.0, 1024, 0, 0], [1, 1.0, 0.0, 2, 0, 0]]
    for guess in [*map(np.array, bad), np.zeros((1, 1)), np.array(["x"])]:
        write_archive(file, KIND, content, {**arrays, "buckets.0": guess})
        with pytest.raises(SavedFileError, match=r"not a sound checkpoint.*remove it"):
            train(CASES["long"], checkpoint=file)
    for name in ("roots.weights", "roots.coefficients"):
        write_archive(file, KIND, content, {key: array for key, array in arrays.items() if key != name})
        with pytest.raises(SavedFileError, match=r"not a sound checkpoint.*remove it"):
            train(CASES["long"], checkpoint=file)
    # Nobody needs a guess.
    write_archive(file, KIND, content, {key: array for key, array in arrays.items() if key != "buckets.0"})
    assert train(CASES["long"], checkpoint=file, max_passes=500)[0].certified


def test_a_row_that_is_no_number_is_named():
    X, y = samples(8, n=50, columns=3)
    parts = split_rows(X, y, 3)
    X[20, 1] = np.nan
    with pytest.raises(ValueError, match="a feature in row 4 of rows 16 to 32 is NaN or infinite"):
        train(parts)


@pytest.mark.parametrize("case", CASES)
def test_resumed_to_the_last_bit(case, tmp_path):
    parts = CASES[case]
    clean, _ = train(parts, max_passes=12)
    plain, _ = train(parts, max_passes=12, checkpoint=tmp_path / "whole.ckpt")
    assert_equal_bits(plain, clean)
    for end in range(1, len(clean.history)):
        file = tmp_path / f"{end}.ckpt"
        train(parts, max_passes=12, checkpoint=file, callback=lambda history, end=end: len(history) >= end)
        assert_equal_bits(train(parts, max_passes=12, checkpoint=file)[0], clean)


def test_bad_input():
    X, y = samples(9, n=40, columns=3)
    queries = ArrayRows(X[:20], y[:20], np.array([0, 20]), ["a"])
    with pytest.raises(ValueError, match=r"shard 1 \(an array\) has no queries, and others have; give qid for all, or for none"):
        ShardedRanking(engine_of([queries, ArrayRows(X[20:], y[20:])]))
    twice = ArrayRows(X[:20], y[:20], np.array([0, 10, 20]), ["a", "a"])
    with pytest.raises(ValueError, match="rows of a query are apart"):
        ShardedRanking(engine_of([twice]))
    weighed = [ArrayRows(X[k::2], y[k::2], np.array([0, 20]), ["a"], np.array([1.0 + k])) for k in range(2)]
    with pytest.raises(ValueError, match="has different weights there"):
        ShardedRanking(engine_of(weighed))
    with pytest.raises(ValueError, match="holds only one class"):
        ShardedRanking(engine_of(split_rows(X, np.zeros(40), 2)))


# ---- many lists at once -------------------------------------------------------------------------------------------------------


def two_requests():
    yield "x", 1
    return (yield "x", 2)


def test_an_error_in_one_task_ends_all():
    def fails():
        yield "x", 1
        raise ValueError("no such list")

    with pytest.raises(ValueError, match="no such list"):
        run_rounds([two_requests(), fails()], lambda requests: dict.fromkeys(requests, 0))


def test_an_interrupt_while_requests_are_sent_ends_all():
    def send(requests):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_rounds([two_requests(), two_requests()], send)


def test_no_task_needs_no_round():
    assert run_rounds([], None) == []
