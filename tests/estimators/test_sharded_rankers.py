"""Direct loss minimisation and its folds over shards against one machine."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from maxmargin import DirectLossMinimizer
from maxmargin.distributed import Fault, LocalEngine, ShardOf, split_rows
from maxmargin.distributed.folded import FoldedRanking
from maxmargin.estimators.sharded import ShardedDirectMinimizer

UNITS = 10.0 ** np.linspace(-2, 2, 60)


def data(seed=0, n=240):
    """Grades, ten of them wrong on samples far out; columns in units of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(UNITS))) * np.where(np.arange(len(UNITS)) < 4, 1.0, 0.1)
    y = np.clip(np.floor(X[:, 0] + 0.3 * rng.normal(size=n) + 0.5), 0, 2)
    wrong = rng.permutation(np.flatnonzero(y == 0))[:10]
    X[wrong] *= 5
    y[wrong] = 2
    qid = np.sort(rng.integers(0, 24, size=n))
    y[qid == 3] = 0
    return (X + np.arange(len(UNITS))) * UNITS, y, qid


def engine_of(parts, **settings):
    return LocalEngine([ShardOf(part, "ranking") for part in parts], **settings)


@pytest.mark.parametrize(
    ("how", "settings"),
    [
        ("one list", {}), ("one list", {"grades": True, "standardize": False}), ("cut", {}), ("whole", {"random_state": 3}),
        ("one list", {"loss": "ndcg@5", "grades": "linear"}), ("cut", {"loss": "ndcg@5", "grades": "linear"}),
        ("one shard", {"loss": "auc"}), ("sparse", {"loss": "ap", "random_state": 1}),
    ],
)  # fmt: skip
def test_steps_are_those_of_one_machine(how, settings):
    X, y, qid = data()
    X = csr_array(X) if how == "sparse" else X
    qid = None if how in ("one list", "one shard", "sparse") else qid
    parts = split_rows(X, y, 1 if how == "one shard" else 3, qid, whole=how == "whole")
    # Hinges end anywhere within their tolerance, and descents from there at places that differ by more.
    start = np.where(np.arange(len(UNITS)) < 4, 1.0, 0.1) / UNITS
    options = {"validation": 4, "max_iter": 16, "start": start, **settings}
    plain = DirectLossMinimizer(**options).fit(X, y, qid)
    model = ShardedDirectMinimizer(**options).fit_engine(engine_of(parts)).plain()
    assert type(model) is DirectLossMinimizer
    np.testing.assert_allclose(model.gains_, plain.gains_, atol=1e-12)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    assert model.start_loss_ == pytest.approx(plain.start_loss_, rel=1e-12)
    assert model.training_loss_ == pytest.approx(plain.training_loss_, rel=1e-12)
    assert (model.accepted_, model.n_features_in_) == (plain.accepted_, len(UNITS))
    assert model.relevance_thresholds_.tolist() == plain.relevance_thresholds_.tolist()
    assert model.n_skipped_queries_ == plain.n_skipped_queries_


@pytest.mark.parametrize("loss", ["ap", "ndcg@5"])
@pytest.mark.parametrize("queries", [False, True])
def test_starts_are_within_the_tolerance_of_those_of_one_machine(loss, queries):
    X, y, qid = data(n=120)
    qid = qid if queries else None
    options = {"loss": loss, "C": 10.0, "grades": "linear" if loss == "ndcg@5" else False}
    plain, model = DirectLossMinimizer(**options), ShardedDirectMinimizer(**options)
    one = plain._direct(plain._prepare(X, y, qid))
    other = model._direct(model._prepare(engine_of(split_rows(X, y, 3, qid, whole=False)), None))
    scale = plain._scales(one.model)
    np.testing.assert_allclose(model._scales(other.problem), scale, rtol=1e-12)
    hinges = plain._hinges(one, scale)
    lam, found = 1.0 / (10.0 * hinges.n_blocks), []
    for how, lists in ((plain, one), (model, other)):
        weights = scale * how._first_weights(lists, scale)
        found.append(0.5 * lam * float(weights @ weights) + hinges.mean_cut(weights).hinge(weights))
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.mark.parametrize("grades", [False, True])
@pytest.mark.parametrize("how", ["one list", "cut", "whole"])
def test_folds_are_those_of_one_machine(how, grades):
    X, y, qid = data()
    qid = None if how == "one list" else qid
    y[np.flatnonzero(y == 2)[2:]] = 1  # a grade that some folds do not have
    minimizer = DirectLossMinimizer(validation=4, grades=grades)
    whole = minimizer._prepare(X, y, qid)
    lists = FoldedRanking(engine_of(split_rows(X, y, 5, qid, whole=how == "whole")), grades=grades)
    weights = np.random.default_rng(1).normal(size=len(UNITS)) / UNITS
    for expected, found in zip(minimizer._parts(whole), lists.folds(4, 0), strict=True):
        for one, other in zip(expected, found, strict=True):
            # Lists without any block of the one are not in the other at all.
            cut, same = one.model.mean_cut(weights), other.mean_cut(weights)
            assert other.n_blocks == one.model.n_blocks
            assert same.loss == pytest.approx(cut.loss, rel=1e-12)
            np.testing.assert_allclose(same.psi, cut.psi, rtol=1e-9, atol=1e-12 * np.abs(cut.psi).max())


@pytest.mark.parametrize("queries", [False, True])
def test_the_same_bits_whatever_is_lost(queries):
    X, y, qid = data(1, 80)
    parts = split_rows(X, y, 3, qid if queries else None, whole=False)
    options = {"validation": 2, "max_iter": 2, "start": 1 / UNITS}
    engine, moves = engine_of(parts), 0
    expected = ShardedDirectMinimizer(**options).fit_engine(engine)
    for now in range(1, engine.rounds, 9):
        for kind in ("lost before", "lost after", "nan"):
            faulty = engine_of(parts, faults=[Fault(kind, now, shard=1)])
            model = ShardedDirectMinimizer(**options).fit_engine(faulty)
            np.testing.assert_array_equal(model.coef_, expected.coef_)
            np.testing.assert_array_equal(model.gains_, expected.gains_)
            moves += faulty.moves
    assert moves >= 2 * (engine.rounds // 9) - 2


def test_too_many_folds():
    X, y, qid = data()
    with pytest.raises(ValueError, match="folds need as many samples of each kind, but there are 1"):
        next(FoldedRanking(engine_of(split_rows(X, np.arange(240) == 3, 2))).folds(3, 0))
    with pytest.raises(ValueError, match="200 folds need as many queries with samples of both kinds, not 2"):
        next(FoldedRanking(engine_of(split_rows(X, y, 2, qid))).folds(200, 0))
    with pytest.raises(ValueError, match="300 folds are too many; lists over shards know 255 at most"):
        next(FoldedRanking(engine_of(split_rows(X, y, 2, qid))).folds(300, 0))
