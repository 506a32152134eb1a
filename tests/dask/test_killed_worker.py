"""The smoke test of faults: a worker is killed while a list that lies on both workers is trained on."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
from tests.cases.dask_cases import Faults, lists, processes, sources_of

from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.distributed import DaskEngine, LocalEngine
from maxmargin.ranking.shards import ShardedRanking

EXAMPLE = Path(__file__).parents[2] / "examples" / "kill_a_worker.py"


def test_a_killed_worker_changes_no_bit(tmp_path):
    X, y, _ = lists()
    with processes() as client, DaskEngine(sources_of(X, y, 2, folder=tmp_path), client) as engine:
        Faults(tmp_path).plan("die before", "step", 1)
        found = OneSlackCuttingPlane().solve(ShardedRanking(engine), 0.01)
        expected = OneSlackCuttingPlane().solve(ShardedRanking(LocalEngine(sources_of(X, y, 2))), 0.01)
        assert not list(tmp_path.iterdir())
        assert engine.moves == 1 and found.certified
        assert (found.weights == expected.weights).all() and (found.primal, found.dual) == (expected.primal, expected.dual)


@pytest.mark.cluster
def test_the_example_ends_with_identical_weights():
    found = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    assert "killed process" in found.stdout and "The weights are bit-identical." in found.stdout
