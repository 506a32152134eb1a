"""What goes wrong on a cluster: the results have the same bits, repeats are counted, and nothing hangs."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest

pytest.importorskip("distributed")
import dask.array as da
from dask.distributed import Client
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from tests.cases.dask_cases import BigSource, Faults, class_sources, list_sources, lists, processes, ranking_sources
from tests.cases.waiting import time_out, wait_until

from maxmargin.core import CheckpointFile
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.dask import DaskRankingSVM
from maxmargin.distributed import DaskEngine, LocalEngine, ShardedMean, ShardError, ShardOf, connect, pack, row_sources
from maxmargin.ranking.shards import ShardedRanking

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore:.* took .* ms for a pass:UserWarning")]


@pytest.fixture(scope="module")
def clusters():
    with ExitStack() as stack:
        yield [stack]


@pytest.fixture
def client(clusters):
    """Of a cluster of two workers; that of the test before, if its nannies have brought both back to life."""
    stack, *running = clusters
    if running:
        with suppress(TimeoutError):
            running[0].wait_for_workers(2, timeout=60)
            return running[0]
        stack.close()
    clusters[1:] = [stack.enter_context(processes())]
    return clusters[1]


@pytest.fixture(autouse=True)
def limit():
    with time_out(240):
        yield


def train(engine, kind="ranking"):
    problem = ShardedMean.classes(engine) if kind == "classes" else ShardedRanking(engine)
    found = OneSlackCuttingPlane().solve(problem, 0.01)
    assert found.certified
    return found.weights.tolist(), found.primal, found.dual, problem.shards.repeats


def train_for_ever(engine):
    for _ in range(1000):
        train(engine)


def alone(kind="ranking"):
    make = {"ranking": ranking_sources, "list": list_sources, "classes": class_sources}[kind]
    return train(LocalEngine(make()), kind)[:3]


def pids(engine, only=None):
    return [reply.values["pid"] for reply in engine.call("where", (), only)]


def test_workers_killed_while_they_have_nothing_to_do(client, tmp_path):
    with DaskEngine(ranking_sources(3, tmp_path), client) as engine:
        first = train(engine)
        for victim in pids(engine, [0]):
            os.kill(victim, signal.SIGKILL)
        second = train(engine)
        assert first[:3] == second[:3] == alone()
        assert 1 <= engine.moves <= 2


@pytest.mark.parametrize("when", ["die before", "die after"])
@pytest.mark.parametrize(
    ("kind", "operation"),
    [(kind, name) for kind, names in (
        ("ranking", ("info", "prepare", "look", "features")), ("list", ("step", "features")),
        ("classes", ("labels", "prepare", "mean_cut", "audit")),
    ) for name in names],
)  # fmt: skip
def test_a_worker_killed_in_an_operation(client, tmp_path, kind, operation, when):
    make = {"ranking": ranking_sources, "list": list_sources, "classes": class_sources}[kind]
    faults = Faults(tmp_path)
    faults.plan(when, operation, 1)
    with DaskEngine(make(3, tmp_path), client) as engine:
        found = train(engine, kind)
        if operation == "audit":
            ShardedMean.classes(engine).audit(np.zeros(12))
        assert found[:3] == alone(kind)
        assert not list(tmp_path.iterdir())
        assert 1 <= engine.moves <= 2


def test_two_workers_killed_one_after_the_other(client, tmp_path):
    faults = Faults(tmp_path)
    faults.plan("die before", "look", 1)
    faults.plan("die after", "features", 2)
    with DaskEngine(ranking_sources(3, tmp_path), client) as engine:
        found = train(engine)
        assert found[:3] == alone()
        assert found[3] >= 1
        assert not list(tmp_path.iterdir())


def test_a_worker_killed_while_it_loads(client, tmp_path):
    Faults(tmp_path).plan("die", "load", 0)
    with DaskEngine(ranking_sources(3, tmp_path), client) as engine:
        assert train(engine)[:3] == alone()
        assert not list(tmp_path.iterdir())


def test_a_shard_that_kills_every_worker(client, tmp_path):
    Faults(tmp_path).plan("die", "load", 2, times=100)
    with (
        DaskEngine(ranking_sources(3, tmp_path), client) as engine,
        pytest.raises(ShardError, match=r"shard . \(rows .*\) was lost 3 times .* raise the memory .* memory limit of .* MB\)"),
    ):
        train(engine)
    (tmp_path / "die-load-2").unlink()


def test_a_machine_that_computes_wrongly(client, tmp_path):
    Faults(tmp_path).plan("nan", "look", 1)
    with DaskEngine(ranking_sources(3, tmp_path), client) as engine:
        found = train(engine)
        assert found[:3] == alone() and found[3] >= 1 and engine.moves == 1
        # One of them is spent on saying what is missing.
        Faults(tmp_path).plan("nan", "look", 1, times=3)
        with pytest.raises(ValueError, match=r"the answer of shard 1 \(rows 160 to 319\) to 'look' is NaN or infinite, twice"):
            train(engine)


@contextmanager
def soon(condition, action):
    """Act in a thread as soon as the condition holds."""

    def work():
        wait_until(condition)
        action()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_slow_worker_is_waited_for(client, tmp_path):
    faults = Faults(tmp_path)
    with DaskEngine(ranking_sources(3, tmp_path), client, beat=0.5, patience=1.5) as engine:
        before = engine.call("labels", (9,))
        faults.plan("sleep", "labels", 1)
        enough = time.monotonic() + 5
        with soon(lambda: time.monotonic() > enough, faults.wake):
            after = engine.call("labels", (9,))
        assert engine.moves == 0 and [a.incarnation for a in before] == [b.incarnation for b in after]


@pytest.mark.parametrize("kind", ["svm", "packed"])
def test_a_file_that_one_worker_does_not_have(tmp_path, monkeypatch, kind):
    """Workers in folders of their own: all files are in one, and the second shard is missing in the other."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        monkeypatch.chdir(folder)
        X, y = np.random.default_rng(0).normal(size=(40, 3)).round(2), np.arange(40) % 2
        for k in range(2):
            dump_svmlight_file(X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20], f"part-{k}.svm", zero_based=False)
        if kind == "packed":
            pack(["part-0.svm", "part-1.svm"], "packed", 2)
    name = "part-1.svm" if kind == "svm" else "packed/00001-of-00002.mmshard"
    monkeypatch.chdir(here)
    files = ["part-0.svm", "part-1.svm"] if kind == "svm" else "packed"
    sources = [ShardOf(rows, "ranking") for rows in row_sources(files, None if kind == "packed" else 2)]
    with processes(2) as client:
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        for address, folder in zip(workers, (here, there), strict=True):
            client.run(os.chdir, str(folder), workers=[address])
        with DaskEngine(sources, client, beat=0.5) as engine:
            assert sum(reply.values["rows"] for reply in engine.call("info")) == 40
            where = engine.where(1)
        folder = {workers[0]: here, workers[1]: there}[where]
        shutil.rmtree(folder / name) if kind == "packed" else (folder / name).unlink()
        with DaskEngine(sources, client, beat=0.5) as engine, pytest.raises(ShardError) as caught:
            engine.call("info")
    said = str(caught.value)
    assert said.startswith(f"worker {where} cannot find {name}") and "which shard 1 comes from" in said
    assert said.count("is it on a shared file system") == 1


def test_an_interruption_leaves_the_engine_usable(client, tmp_path):
    faults = Faults(tmp_path)
    faults.plan("sleep", "look", 0)
    with DaskEngine(ranking_sources(3, tmp_path), client) as engine:

        def asleep():
            return not faults.path("sleep", "look", 0).exists()

        with pytest.raises(KeyboardInterrupt), soon(asleep, lambda: os.kill(os.getpid(), signal.SIGINT)):
            ShardedRanking(engine).mean_cut(np.ones(4))
        # The worker still sleeps.
        faults.wake()
        assert train(engine)[:3] == alone()
        assert engine.moves == 0


def test_chunks_are_computed_again_where_a_worker_is_killed(client):
    X, y, _ = lists()
    rows = da.from_array(X, chunks=(100, 4)).map_blocks(np.negative).persist(scheduler=client)
    labels = da.from_array(y, chunks=100)
    model = DaskRankingSVM(C=10.0, client=client)
    expected = clone(model).fit(rows, labels).coef_

    def kill(history):
        if len(history.passes) == 2:
            address = model._engine.where(1)
            os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

    model.set_params(callback=kill).fit(rows, labels)
    assert (model.coef_ == expected).all()
    assert model.cluster_["moves"] >= 1 and model.cluster_["repeats"] >= 1


def test_chunks_that_are_not_the_same_the_second_time(client):
    X, y, _ = lists()
    engine_of_fit = []

    class Watched(DaskRankingSVM):
        def _problem_over(self, engine):
            engine_of_fit.append(engine)
            return super()._problem_over(engine)

    def renew(history):
        engine_of_fit[0].renew([1])

    labels = da.from_array(y, chunks=240).map_blocks(lambda block: np.random.default_rng().permutation(block), dtype=bool)
    with pytest.raises(ShardError, match=r"was loaded again with checksum \d+ where it was \d+ before; .* seed what is"):
        Watched(C=10.0, tol=1e-9, client=client, callback=renew).fit(da.from_array(X, chunks=(240, 4)), labels)


def test_a_shard_that_does_not_fit_into_memory():
    message = r"a big file does not fit on worker tcp://.*: with it the process has \d+ MB and needs 224 MB more .* is 600 MB"
    with processes(1, memory_limit="600MB") as client, DaskEngine([BigSource(35_000_000)], client) as engine:
        engine.cluster.remedy = "go home"
        with pytest.raises(ShardError, match=f"{message}|memory limit of 600 MB.; go home"):  # the nanny may be quicker
            engine.call("info")


def resume(address, file, rounds=None):
    """Train with a checkpoint; the client kills itself after some rounds."""

    def die_at_last(history):
        if len(history.passes) == rounds:
            os.kill(os.getpid(), signal.SIGKILL)

    with Client(address, set_as_default=False) as client, DaskEngine(ranking_sources(), client) as engine:
        problem = ShardedRanking(engine)
        kept = CheckpointFile(file, problem, 0.01, pause=0.0)
        return OneSlackCuttingPlane(checkpoint=kept, callback=die_at_last).solve(problem, 0.01)


def test_the_client_is_killed_and_another_goes_on(client, tmp_path):
    file = tmp_path / "run.ckpt"
    code = f"from test_dask_faults import resume; resume({client.scheduler.address!r}, {str(file)!r}, 4)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, timeout=100, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert file.stat().st_size > 0
    found = resume(client.scheduler.address, file)
    expected = OneSlackCuttingPlane().solve(ShardedRanking(LocalEngine(ranking_sources())), 0.01)
    assert (found.weights == expected.weights).all() and found.passes == expected.passes


def started(*command):
    """A process of Dask's command; scheduler and workers need what is sent to them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-m", *command, "--host", "127.0.0.1"], env=environment, stderr=subprocess.DEVNULL)


def started_worker(address):
    options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "5")
    return started("distributed.cli.dask_worker", address, *options)


def test_no_worker_is_left_until_a_new_one_comes(tmp_path):
    with processes(0) as client:
        late = [started_worker(client.scheduler.address)]
        engine = DaskEngine(ranking_sources(3, tmp_path), client, worker_timeout=60)
        first = train(engine)
        late.pop().kill()
        thread = threading.Timer(4.0, lambda: late.append(started_worker(client.scheduler.address)))
        thread.start()
        try:
            second = train(engine)
            assert first[:3] == second[:3] == alone()
            assert engine.moves == 3
            late[0].kill()
            late[0].wait()
            engine.cluster.timeout = 3.0
            with pytest.raises(ShardError, match=r"no worker has come to the scheduler tcp://.* for 3 s; start workers, then"):
                train(engine)
        finally:
            thread.join()
            late[0].kill()
            engine.close()


def test_the_scheduler_is_killed(tmp_path):
    file, worker = tmp_path / "scheduler.json", None
    scheduler = started("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    try:
        wait_until(file.exists)
        client = Client(scheduler_file=str(file), set_as_default=False, timeout=60)
        address = client.scheduler.address
        worker = started_worker(address)
        client.wait_for_workers(1, timeout=60)
        engine = DaskEngine(ranking_sources(3, tmp_path), client, worker_timeout=10)
        train(engine)
        scheduler.kill()
        scheduler.wait()
        with pytest.raises(ShardError, match=r"the scheduler tcp://.* is gone; start one and workers, then start again"):
            train_for_ever(engine)
        engine.close()
        with pytest.raises(ConnectionError, match="did not answer within 2 s"):
            connect(address, timeout=2)
        client.close()
    finally:
        for process in (worker, scheduler):
            if process is not None:
                process.kill()
                process.wait()
