"""Shards on the workers of Dask: what they answer, and what is said about bad input."""

import asyncio
import os
import platform
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("distributed")
from dask.distributed import Client
from tests.cases.dask_cases import class_sources, lists, ranking_sources, threads
from tests.cases.waiting import wait_until

import maxmargin.distributed.dask_cluster
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import PROTOCOL, ArrayRows, DaskEngine, LocalEngine, ShardedMean, ShardError, ShardOf, connect
from maxmargin.distributed.dask_actor import Seat, packed, portable, unpacked
from maxmargin.distributed.dask_engine import future_done
from maxmargin.ranking.shards import ShardedRanking


def test_answers_are_those_of_one_process(client):
    local = LocalEngine(ranking_sources())
    with DaskEngine(ranking_sources(), client) as engine:
        assert [reply.values for reply in engine.call("info")] == [reply.values for reply in local.call("info")]
        assert [len(reply.values["labels"]) for reply in engine.call("labels", [(1,), (9,)], only=[2, 0])] == [1, 2]
        assert engine.workers == 2
        assert (engine.rounds, engine.moves) == (2, 0)
        # The envelope of a message is a few dozen bytes.
        assert 16 < engine.bytes_down < 16 + 5 * 60


def test_training_has_the_bits_of_one_process(client):
    solver = OneSlackCuttingPlane()
    with DaskEngine(ranking_sources(), client) as engine:
        here, there = (solver.solve(ShardedRanking(each), 0.01) for each in (LocalEngine(ranking_sources()), engine))
        assert there.certified
        assert (here.weights == there.weights).all() and (here.primal, here.dual) == (there.primal, there.dual)
        one = LocalEngine(ranking_sources())
        ShardedRanking(one).mean_cut(np.zeros(4))
        up, down = engine.bytes_up, engine.bytes_down
        ShardedRanking(engine).mean_cut(np.zeros(4))
        # What is packed, with names and kinds of arrays.
        assert one.bytes_up < engine.bytes_up - up < one.bytes_up + 1000 * one.rounds * engine.n_shards
        assert one.bytes_down < engine.bytes_down - down < one.bytes_down + 1500 * one.rounds * engine.n_shards
    with DaskEngine(class_sources(), client) as engine:
        for solver in (OneSlackCuttingPlane(),):
            here, there = (solver.solve(ShardedMean.classes(each), 0.1) for each in (LocalEngine(class_sources()), engine))
            assert (here.weights == there.weights).all() and there.certified


def test_incarnations_stay_until_a_shard_is_renewed(client):
    with DaskEngine(ranking_sources(), client) as engine:
        first, where = engine.call("info"), [engine.where(k) for k in range(3)]
        assert [a.incarnation == b.incarnation for a, b in zip(first, engine.call("info"), strict=True)] == [True] * 3
        engine.renew([1])
        assert [a.incarnation == b.incarnation for a, b in zip(first, engine.call("info"), strict=True)] == [True, False, True]
        assert engine.moves == 1 and engine.where(1) != where[1]


def test_errors_of_operations_come_out_as_they_are(client, tmp_path):
    with DaskEngine(ranking_sources(3, tmp_path), client) as engine:
        for error in (KeyError("x"), FileNotFoundError(2, "gone", "a.svm"), ZeroDivisionError("y"), MemoryError("z")):
            with pytest.raises(type(error)) as caught:
                engine.call("fail", (error,), only=[1])
            assert caught.value.args == error.args
            note = caught.value.__notes__[0]
            assert "in shard 1 on worker inproc://" in note and "rows 160 to 319" in note
        with pytest.raises(ValueError, match="RankingShard has no operation 'mean', only"):
            engine.call("mean")
        assert len(engine.call("info")) == 3


def test_an_error_that_cannot_be_sent_says_the_same():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__("too odd")

    found = portable(Odd(1, 2))
    assert type(found) is RuntimeError and "Odd: too odd" in str(found)
    error = ValueError("x")
    assert portable(error) is error


def test_actors_go_when_the_engine_is_closed(client):
    def actors(dask_worker):
        return len(dask_worker.state.actors)

    engine = DaskEngine(ranking_sources(), client)
    engine.call("info")
    assert sum(client.run(actors).values()) == 3
    engine.close()
    engine.close()
    wait_until(lambda: sum(client.run(actors).values()) == 0)
    assert not client.direct_to_workers
    with pytest.raises(ValueError, match="this engine is closed; make a new one"):
        engine.call("info")


def test_a_file_that_a_worker_does_not_see(client, tmp_path):
    sources = ranking_sources(3, tmp_path)
    sources[1].faults.plan("hide", "load", 1)
    with DaskEngine(sources, client) as engine:
        with pytest.raises(ShardError, match=r"worker .* cannot find /data/part-7.svm, which shard 1 .* shared file system"):
            engine.call("info")
        assert len(engine.call("info")) == 3  # it is there by now


def test_workers_of_another_protocol_are_refused(client, monkeypatch):
    monkeypatch.setattr(maxmargin.distributed.dask_cluster, "PROTOCOL", 99)
    with (
        DaskEngine(ranking_sources(), client) as engine,
        pytest.raises(ShardError, match=rf"worker .* with protocol {PROTOCOL}, but the client is .* with protocol 99; inst"),
    ):
        engine.call("info")


def test_bad_settings(client):
    with pytest.raises(ValueError, match="sources is empty"):
        DaskEngine([], client)
    with pytest.raises(ValueError, match=r"worker_timeout=0 must be a positive number of seconds"):
        DaskEngine(ranking_sources(), client, worker_timeout=0)
    with pytest.raises(TypeError, match=r"client must be a dask.distributed.Client, or None .*, not str"):
        DaskEngine(ranking_sources(), "tcp://localhost:1")
    with pytest.raises(ValueError, match="client=None means Dask's current client, and there is none; make one first"):
        DaskEngine(ranking_sources())
    with client.as_current():
        assert DaskEngine(ranking_sources()).client is client
    other = Client(client.scheduler.address, set_as_default=False)
    other.close()
    with pytest.raises(ValueError, match="client is closed; make a new one"):
        DaskEngine(ranking_sources(), other)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have no such settings")
def test_arrays_get_no_fresh_pages_where_dask_asks_for_them():
    """Page faults of a second round of arrays, in a process with the environment of Dask's workers."""
    code = """
import resource, sys
import numpy as np
from maxmargin.distributed.dask_actor import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.full(400_000, 1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    kept, fresh = (
        int(subprocess.run([sys.executable, "-c", code, how], env=environment, capture_output=True, text=True, check=True).stdout)
        for how in ("keep", "let go")
    )
    assert kept < 100 < fresh


def test_a_scheduler_that_is_not_there():
    with pytest.raises(ConnectionError, match=r"scheduler='tcp://127.0.0.1:9' did not answer within 1 s .* `dask scheduler`"):
        connect("tcp://127.0.0.1:9", timeout=1)


def test_dask_not_installed():
    code = "import sys; sys.modules['distributed'] = None; from maxmargin.dask import DaskRankingSVM"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (
        "ImportError: maxmargin.dask.DaskRankingSVM needs distributed; install it with: pip install 'maxmargin[dask]'"
        in found.stderr
    )


def test_nothing_of_dask_is_loaded_by_the_package():
    code = (
        "import sys, maxmargin, maxmargin.distributed; from maxmargin import RankingSVM; "
        "print(any(name.split('.')[0] in ('dask', 'distributed') for name in sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(("n_shards", "how"), [(1, "answer"), (3, "answer_for")])
def test_an_answer_that_gets_lost_is_asked_for_again(client, monkeypatch, n_shards, how):
    whole, lost = getattr(Seat, how), []

    async def answer(self, number, question, *neighbours):
        first = question if how == "answer" else question[0]
        if unpacked(first)[0] == "labels" and not lost:
            lost.append(number)
            await asyncio.Event().wait()  # Dask never answers what it did not expect
        return await whole(self, number, question, *neighbours)

    monkeypatch.setattr(Seat, how, answer)
    with DaskEngine(ranking_sources(n_shards), client, beat=0.1, patience=0.3) as engine:
        assert sum(len(reply.values["labels"]) for reply in engine.call("labels", (9,))) == 2 * n_shards
        assert lost and engine.moves == 0


def test_shards_of_a_worker_answer_in_one_message(client, monkeypatch):
    asked, whole = [], Seat.answer_for

    async def noted(self, number, questions, neighbours):
        asked.append(len(questions))
        return await whole(self, number, questions, neighbours)

    monkeypatch.setattr(Seat, "answer_for", noted)
    expected = OneSlackCuttingPlane().solve(ShardedRanking(LocalEngine(ranking_sources(4))), 0.01)
    with DaskEngine(ranking_sources(4), client) as engine:
        found = OneSlackCuttingPlane().solve(ShardedRanking(engine), 0.01)
        # Two workers have two each.
        assert set(asked) == {2} and len(asked) == 2 * engine.rounds
        sent = engine.bytes_up
        # Of some shards, in the order in which they are named.
        rows = [reply.values["rows"] for reply in engine.call("info")]
        assert [reply.values["rows"] for reply in engine.call("info", only=[3, 0, 2])] == [rows[3], rows[0], rows[2]]
        assert engine.bytes_up > sent
    assert (found.weights == expected.weights).all() and found.passes == expected.passes


def test_one_of_a_message_that_is_gone_is_made_anew():
    """Its worker lives; but the actor is not there any more."""
    with threads() as client, DaskEngine(ranking_sources(4), client, beat=0.1, patience=0.3) as engine:
        rows = [reply.values["rows"] for reply in engine.call("info")]
        place = engine._places[3]

        def forget(dask_worker, key=place.actor.key):
            del dask_worker.state.actors[key]

        client.run(forget, workers=[place.address])
        assert [reply.values["rows"] for reply in engine.call("info")] == rows
        assert engine.moves == 1


def test_messages_travel_as_one_piece(client, monkeypatch):
    sent, whole = [], Seat._do

    def do(self, question):
        sent.append((question, whole(self, question)))
        return sent[-1][1]

    monkeypatch.setattr(Seat, "_do", do)
    with DaskEngine(ranking_sources(1), client) as engine:
        found = ShardedRanking(engine).mean_cut(np.ones(4))
    assert all(isinstance(part, bytes) for pair in sent for part in pair)
    assert (found.psi == ShardedRanking(LocalEngine(ranking_sources(1))).mean_cut(np.ones(4)).psi).all()
    operation, (first, second) = unpacked(packed(("look", (np.zeros(3, dtype=np.float32), {"roots": np.arange(2)[::-1]}))))
    assert operation == "look" and first.dtype == np.float32 and second["roots"].tolist() == [1, 0]
    assert first.flags.aligned and second["roots"].flags.aligned


def test_loading_may_be_cancelled_at_any_time(client):
    """Dask's client gathers nothing any more if it is cancelled while it begins to gather, and loses every shard then."""

    async def give_up(engine, steps):
        await engine._place_all([0])
        place = engine._places[0]
        await future_done(place.future)
        loading = asyncio.ensure_future(engine._load(place))
        for _ in range(steps):
            await asyncio.sleep(0)
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading

    for steps in range(10):
        with DaskEngine(ranking_sources(1), client) as engine:
            engine._run(give_up(engine, steps))
            assert engine.call("info")[0].values["rows"] == 480 and engine.moves == 0
    assert client.submit(int, 7).result(timeout=60) == 7


def test_an_answer_that_takes_long_is_waited_for(client, monkeypatch):
    whole, busy, asked, polls = Seat._do, Seat.is_busy_with, [], []
    # Time of the engine goes on while the shard is at work, not while a question is on its way.
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def slow(self, question):
        if unpacked(question)[0] == "labels":
            asked.append(question)
            for _ in range(3):
                clock.now, before = clock.now + 4.0, len(polls)
                wait_until(lambda before=before: len(polls) >= before + 2)
        return whole(self, question)

    async def noted(self, number):
        polls.append(number)
        return await busy(self, number)

    monkeypatch.setattr(Seat, "_do", slow)
    monkeypatch.setattr(Seat, "is_busy_with", noted)
    with DaskEngine(ranking_sources(1), client, beat=0.1, patience=5.0) as engine:
        engine.call("info")
        monkeypatch.setattr("maxmargin.distributed.dask_engine.time", clock)
        engine.call("labels", (9,))
        assert clock.now == 12.0 and len(asked) == 1 and engine.moves == 0


def test_arrays_that_begin_at_any_byte_give_the_same_bits():
    def odd(values):
        space = np.zeros(values.nbytes + 1, dtype=np.uint8)[1:].view(values.dtype).reshape(values.shape)
        space[:] = values
        assert not space.flags.aligned
        return space

    X = lists()[0]
    classes = np.argmax(X[:, :3], axis=1)
    rows = [ArrayRows(X, classes), ArrayRows(odd(X), odd(classes)), ArrayRows(sparse.csr_array(X), classes)]
    found = [ShardedMean.classes(LocalEngine([ShardOf(each, "classes")])).mean_cut(np.arange(12.0)) for each in rows]
    assert found[0].loss == found[1].loss and (found[0].psi == found[1].psi).all()
    bent = sparse.csr_array(X)
    bent.data = odd(bent.data)
    again = ShardedMean.classes(LocalEngine([ShardOf(ArrayRows(bent, classes), "classes")])).mean_cut(np.arange(12.0))
    assert (again.psi == found[2].psi).all()
    with threads(1) as own, DaskEngine([ShardOf(rows[1], "classes")], own) as engine:
        assert (ShardedMean.classes(engine).mean_cut(odd(np.arange(12.0))).psi == found[0].psi).all()
