"""The engine protocol, and what goes wrong on purpose."""

import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.distributed import PROTOCOL, Fault, LocalEngine, Reply, Shard, ShardError, ShardSource
from maxmargin.distributed.engine import check_versions
from maxmargin.distributed.messages import LossWatch, is_finite, size_of


class Numbers(Shard):
    operations = Shard.operations | {"add", "fail"}

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.asked = numbers, 0

    def add(self, other):
        self.asked += 1
        return {"sum": self.numbers + other, "total": float(self.numbers.sum()), "asked": self.asked, "name": "x"}

    def fail(self):
        raise ValueError("no such numbers")


class Source:
    def __init__(self, k):
        self.k = k

    def load(self):
        return Numbers(np.arange(4.0) + self.k)

    def describe(self):
        return f"numbers.txt, rows {self.k} to {self.k + 3}"


def engine_of(n=3, **settings):
    return LocalEngine([Source(k) for k in range(n)], **settings)


def test_a_source_is_one():
    assert isinstance(Source(0), ShardSource)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_replies_come_in_the_order_of_the_shards_asked(n_jobs):
    engine = engine_of(n_jobs=n_jobs)
    assert [r.values["total"] for r in engine.call("add", (0.0,))] == [6.0, 10.0, 14.0]
    assert [r.values["sum"][0] for r in engine.call("add", [(10.0,), (20.0,)], only=[2, 0])] == [12.0, 20.0]
    assert (engine.rounds, engine.moves, engine.log) == (2, 0, ["add", "add"])
    # Three and two numbers down; up each time four numbers, two more and a letter.
    assert (engine.bytes_down, engine.bytes_up) == (5 * 8, 5 * (4 * 8 + 2 * 8 + 1))


def test_incarnations_stay_until_a_shard_is_lost():
    engine = engine_of(faults=[Fault("lost before", round=1, shard=0), Fault("lost after", round=1, shard=2)])
    first, second, third = (engine.call("add", (0.0,)) for _ in range(3))
    assert [a.incarnation == b.incarnation for a, b in zip(first, second, strict=True)] == [False, True, True]
    assert [a.incarnation == b.incarnation for a, b in zip(second, third, strict=True)] == [True, True, False]
    assert [r.values["asked"] for r in second] == [1, 2, 2]
    assert [r.values["asked"] for r in third] == [2, 3, 1]
    assert engine.moves == 2
    assert len({r.incarnation for r in (*first, *second, *third)}) == 5


def test_nan_comes_once_or_until_the_shard_is_made_anew():
    engine = engine_of(faults=[Fault("nan", round=0, shard=1), Fault("nan", round=1, shard=2, lasting=True)])
    assert [is_finite(r.values) for r in engine.call("add", (0.0,))] == [True, False, True]
    for _ in range(2):
        assert [is_finite(r.values) for r in engine.call("add", (0.0,))] == [True, True, False]
    engine.renew([2])
    assert all(is_finite(r.values) for r in engine.call("add", (0.0,)))
    assert engine.moves == 1


def test_stubborn_nan_outlives_its_shard():
    engine = engine_of(faults=[Fault("nan", round=0, shard=0, lasting=True, stubborn=True)])
    engine.renew([0])
    assert not is_finite(engine.call("add", (0.0,))[0].values)


def test_a_delay_and_an_interruption():
    engine = engine_of(faults=[Fault("delay", round=0, seconds=0.05), Fault("interrupt", round=1)])
    begin = time.perf_counter()
    engine.call("add", (0.0,))
    assert time.perf_counter() - begin >= 0.05
    with pytest.raises(KeyboardInterrupt):
        engine.call("add", (0.0,))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_of_operations_name_the_source(n_jobs):
    with pytest.raises(ValueError, match="no such numbers") as caught:
        engine_of(n_jobs=n_jobs).call("fail")
    assert caught.value.__notes__ == ["in shard 0: numbers.txt, rows 0 to 3"]
    with pytest.raises(ValueError, match="no operation '_private', only add, fail, info"):
        engine_of().call("_private")


def test_shards_are_never_pickled():
    with pytest.raises(TypeError, match="a Numbers stays where it was loaded; send its source"):
        pickle.dumps(Source(0).load())


@pytest.mark.parametrize(
    ("settings", "message"), [({"n_jobs": 0}, "n_jobs=0 must be at least 1"), ({"n": 0}, "sources is empty")]
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        engine_of(**settings)


def test_bad_questions():
    with pytest.raises(ValueError, match=r"only=\[3\] must name different shards between 0 and 2"):
        engine_of().call("add", (0.0,), only=[3])
    with pytest.raises(ValueError, match=r"only=\[1, 1\] must name different"):
        engine_of().call("add", (0.0,), only=[1, 1])
    with pytest.raises(ValueError, match="args has 2 tuples for 3 shards"):
        engine_of().call("add", [(0.0,), (1.0,)])


def test_other_protocols_are_refused():
    good = Source(0).load().answer("info")
    check_versions([Reply.of(good)])
    with pytest.raises(ShardError, match=rf"shard 1 \(file\) is held by maxmargin 9.9 with protocol 7, .* protocol {PROTOCOL};"):
        check_versions([Reply.of(good), Reply({"version": "9.9", "protocol": 7}, "x")], lambda k: "file")


def test_a_shard_that_is_lost_again_and_again():
    watch = LossWatch()
    watch.lost(0, 1, "a")
    watch.lost(1, 2, "b")
    watch.lost(0, 3, "a")
    watch.lost(0, 11, "a")  # the first one is long ago
    with pytest.raises(ShardError, match=r"shard 0 \(a\) was lost 3 times within 10 passes; .* memory"):
        watch.lost(0, 12, "a")


numbers = st.floats(allow_nan=True, allow_infinity=True)
values = st.recursive(
    numbers | st.integers(-5, 5) | st.text(max_size=3) | st.lists(numbers, max_size=4).map(np.array),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


def flat(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [x for inner in value for x in flat(inner)]
    return value.tolist() if isinstance(value, np.ndarray) else [value]


@given(values)
def test_finite_means_all_of_it(value):
    assert is_finite(value) == all(np.isfinite(x) for x in flat(value) if not isinstance(x, str))


def test_huge_numbers_are_finite():
    assert is_finite({"a": np.full(4, 1.7e308)})


@given(values)
def test_sizes(value):
    assert size_of(value) == sum(len(x) if isinstance(x, str) else 8 for x in flat(value))
