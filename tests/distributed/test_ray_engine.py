"""The same rounds on a Ray cluster: exact, and the same bits when a process is killed."""

import os
import signal

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'maxmargin[ray]'")

from maxmargin.core.solvers import OneSlackCuttingPlane  # noqa: E402
from maxmargin.distributed import LocalEngine, ProblemSource, RayEngine, ShardOf, split_rows  # noqa: E402
from maxmargin.ranking.shards import ShardedRanking  # noqa: E402

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    signal.alarm(240)  # a hang is the way engines fail
    yield
    signal.alarm(0)
    ray.shutdown()


def sources():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = X[:, 0] + rng.normal(size=6000) > 2
    return [ShardOf(rows, "ranking") for rows in split_rows(X, y, 2)]


class Killer(RayEngine):
    """Kills the process of a shard right before some rounds."""

    def call(self, operation, args=(), only=None):
        if self.rounds in self.when:
            os.kill(ray.get(self._actors[1].__ray_call__.remote(lambda seat: os.getpid())), signal.SIGKILL)
        return super().call(operation, args, only)


def test_killed_processes_change_no_bit():
    expected = OneSlackCuttingPlane().solve(ShardedRanking(LocalEngine(sources())), 0.01)
    with Killer(sources()) as engine:
        engine.when = {6, 13}
        problem = ShardedRanking(engine)
        found = OneSlackCuttingPlane().solve(problem, 0.01)
        assert engine.moves == 2 and problem.shards.repeats >= 1 and engine.workers == 2
        assert engine.bytes_up > 0 and engine.bytes_down > 0
    assert found.certified and (found.weights == expected.weights).all()
    assert (found.primal, found.dual, found.passes) == (expected.primal, expected.dual, expected.passes)


def test_errors_come_out_as_they_are(tmp_path):
    missing = ProblemSource(open, (str(tmp_path / "part-7.svm"),), text="part-7.svm")
    with RayEngine([missing]) as engine, pytest.raises(FileNotFoundError, match=r"part-7\.svm") as caught:
        engine.call("info")
    assert caught.value.__notes__ == ["in shard 0: part-7.svm"]
    with RayEngine(sources()) as engine, pytest.raises(ValueError, match="has no operation 'dance'"):
        engine.call("dance")


def test_shards_that_were_doubted_are_made_anew():
    with RayEngine(sources()) as engine:
        before = [reply.incarnation for reply in engine.call("info")]
        engine.renew([1])
        after = [reply.incarnation for reply in engine.call("info")]
    assert before[0] == after[0] and before[1] != after[1] and engine.moves == 1


def test_bad_settings():
    with pytest.raises(ValueError, match="sources is empty"):
        RayEngine([])
    with pytest.raises(ValueError, match="worker_timeout=0"):
        RayEngine(sources(), worker_timeout=0)
