"""Many queries in one call give what single calls give."""

import subprocess
import sys

import numpy as np
import pytest

import maxmargin as mm
from maxmargin.ranking import AveragePrecision


class PythonAP(AveragePrecision):
    """Not the class itself, so the compiled version does not apply."""


@pytest.fixture
def queries():
    rng = np.random.default_rng(7)
    sizes = np.concatenate([rng.integers(1, 200, 300), [6000, 20_000]])
    qid = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=len(qid)), rng.random(len(qid)) < 0.15, qid


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", PythonAP()])
@pytest.mark.parametrize("n_jobs", [1, None, 3])
def test_equals_single_calls(queries, loss, n_jobs, dtype):
    scores, relevant, qid = queries
    scores = scores.astype(dtype)
    found = mm.most_violating_rankings(scores, relevant, qid, loss, n_jobs=n_jobs)
    assert found.gradient.dtype == dtype
    assert len(found) == len(np.unique(qid)) and found.skipped.any()
    for k, q in enumerate(found.qid):
        rows = qid == q
        if found.skipped[k]:
            assert relevant[rows].all() or not relevant[rows].any()
            assert found.hinge[k] == found.loss[k] == 0 and not found.gradient[rows].any()
            continue
        one = mm.most_violating_ranking(scores[rows], relevant[rows], loss)
        assert found.hinge[k] == pytest.approx(one.hinge, rel=1e-14)
        assert found.loss[k] == pytest.approx(one.loss, rel=1e-14)
        np.testing.assert_array_equal(found.gradient[rows], one.gradient)
        np.testing.assert_array_equal(found.interleaving[rows], one.interleaving)


def test_queries_in_any_order_and_of_any_type(queries):
    scores, relevant, qid = queries
    grouped = mm.most_violating_rankings(scores, relevant, qid)
    order = np.random.default_rng(0).permutation(len(qid))
    names = np.array([f"q{q}" for q in qid])
    mixed = mm.most_violating_rankings(scores[order], relevant[order], names[order])
    assert list(mixed.qid) == list(dict.fromkeys(names[order]))
    place = {name: k for k, name in enumerate(mixed.qid)}
    back = [place[f"q{q}"] for q in grouped.qid]
    np.testing.assert_allclose(mixed.hinge[back], grouped.hinge, rtol=1e-13)
    np.testing.assert_allclose(mixed.gradient, grouped.gradient[order], rtol=1e-13)
    np.testing.assert_array_equal(mixed.interleaving, grouped.interleaving[order])


def test_bad_input():
    with pytest.raises(ValueError, match="qid has shape"):
        mm.most_violating_rankings([1.0, 2.0], [0, 1], [1])
    with pytest.raises(ValueError, match="qid contains NaN"):
        mm.most_violating_rankings([1.0, 2.0], [0, 1], [1.0, np.nan])
    with pytest.raises(ValueError, match=r"scores\[3\] is NaN"):
        mm.most_violating_rankings([1.0, 2.0, 0.0, np.nan], [0, 1, 0, 1], [1, 1, 2, 2])
    with pytest.raises(ValueError, match="n_jobs=0"):
        mm.most_violating_rankings([1.0, 2.0], [0, 1], [1, 1], n_jobs=0)


OUT_OF_MEMORY = """
import resource
import numpy as np
from maxmargin.ranking import solve_lists
from maxmargin.ranking import AveragePrecision
rng = np.random.default_rng(0)
n = 500_000
scores, truth = rng.normal(size=4 * n), (rng.random(4 * n) < 0.05).astype(np.uint8)
size = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
outcomes = set()
for extra in range(0, 200, 10):
    resource.setrlimit(resource.RLIMIT_AS, (size + extra * 2**20, resource.RLIM_INFINITY))
    try:
        solve_lists(scores, truth, np.arange(5) * n, AveragePrecision(), 1.0, 2)
        outcomes.add("done")
    except MemoryError:
        outcomes.add("MemoryError")
print(*sorted(outcomes))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
def test_threads_that_run_out_of_memory_say_so():
    out = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert out.stdout.split() == ["MemoryError", "done"]
