"""The direct loss over shards against that of one machine."""

import numpy as np
import pytest

from maxmargin import RankingSVM
from maxmargin.distributed import Fault, LocalEngine, ShardedDirect, ShardedRanking, ShardOf, split_rows
from maxmargin.problems.direct import DirectRanking


def data(seed=0, n=200):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).round(1)
    return X, np.clip(np.floor(X[:, 0] + rng.normal(size=n)), 0, 2), np.sort(rng.integers(0, 20, size=n))


def sharded(parts, loss="ap", grades=False, **settings):
    return ShardedRanking(LocalEngine([ShardOf(part, "ranking") for part in parts], **settings), loss, grades=grades)


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", "ndcg@5"])
@pytest.mark.parametrize(("how", "grades"), [("one list", False), ("one list", True), ("cut", True), ("whole", False)])
def test_value_loss_and_gradient(loss, how, grades):
    X, y, qid = data()
    qid = None if how == "one list" else qid
    weight = None if qid is None else np.random.default_rng(2).integers(0, 3, size=20).astype(float)
    own = None if qid is None else weight[np.unique(qid, return_inverse=True)[1]]
    model = RankingSVM(loss, grades=grades)._prepare(X, y, qid, own)
    parts = split_rows(X, y, 3, qid, query_weight=weight, whole=how == "whole")
    expected, direct = DirectRanking(model), ShardedDirect(sharded(parts, loss, grades))
    for scale in (0.0, 1.0, 5.0):
        weights = scale * np.random.default_rng(1).normal(size=5).round(1)
        one, other = direct.at(weights, 0.5), expected.at(weights, 0.5)
        assert one.loss == pytest.approx(other.loss, rel=1e-12, abs=1e-15)
        assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-12)
        assert direct.loss(weights) == one.loss
        if scale:
            # The gradient is that of the two maxima: by small steps where nothing is tied.
            off = weights + 1e-3 * np.random.default_rng(3).normal(size=5)
            one, other = direct.at(off, 0.5), expected.at(off, 0.5)
            assert one.gradient == pytest.approx(other.gradient, rel=1e-8, abs=1e-10)


def test_scaled_features():
    X, y, qid = data()
    scale, weights = np.array([1.0, 30.0, 1e-3, 2.0, 5.0]), np.random.default_rng(1).normal(size=5)
    parts = split_rows(X * scale, y, 3, qid, whole=False)
    engine = LocalEngine([ShardOf(part, "ranking") for part in parts])
    found = ShardedDirect(ShardedRanking(engine, scale=scale)).at(weights, 0.5)
    expected = DirectRanking(RankingSVM()._prepare(X, y, qid)).at(weights, 0.5)
    assert (found.loss, found.value) == (pytest.approx(expected.loss, rel=1e-12), pytest.approx(expected.value, rel=1e-9))
    assert found.gradient == pytest.approx(expected.gradient, rel=1e-8, abs=1e-10)


def test_the_other_side():
    X, y, qid = data()
    whole = sharded(split_rows(X, y, 3, qid))
    model = DirectRanking(RankingSVM()._prepare(X, y, qid), -1)
    weights = np.random.default_rng(0).normal(size=5)
    assert ShardedDirect(whole, -1).at(weights, 0.5).value == pytest.approx(model.at(weights, 0.5).value, rel=1e-9)
    with pytest.raises(ValueError, match=r"sign=-1 takes all pairs .* use sign=1"):
        ShardedDirect(sharded(split_rows(X, y, 3)), -1)
    with pytest.raises(ValueError, match="sign=-1 takes all pairs"):
        ShardedDirect(sharded(split_rows(X, y, 3))).at(weights, 0.5, -1)
    with pytest.raises(ValueError, match="sign=0 must be 1 or -1"):
        ShardedDirect(whole, 0)


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
def test_every_operation_and_every_fault(kind):
    X, y, qid = data(1, 60)
    parts = split_rows(X, y, 3, qid, whole=False)
    clean = sharded(parts)
    point = ShardedDirect(clean).at(np.ones(5), 0.5)
    for number in range(clean.engine.rounds):
        found = ShardedDirect(sharded(parts, faults=[Fault(kind, number, number % 3)])).at(np.ones(5), 0.5)
        assert (found.loss, found.value, found.gradient.tolist()) == (point.loss, point.value, point.gradient.tolist())
