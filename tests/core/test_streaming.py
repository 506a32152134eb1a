"""Products with memory-mapped rows: the same bits as in memory, in one walk, and with little of the file in memory."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.core import bad_row, column_peaks, streaming, sum_of_rows, times
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.ranking import RankingProblem, ranking_loss

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is watched by the means of Linux")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """As for files that are a thousand times larger."""
    monkeypatch.setattr(streaming, "_PIECE", 2048 * 20 * 8)
    monkeypatch.setattr(streaming, "_AHEAD", 1 << 20)
    monkeypatch.setattr(streaming, "_SMALL", 1)


def mapped(folder, X, name="x"):
    path = os.path.join(folder, f"{name}.npy")
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def mapped_csr(folder, X):
    data, indices = mapped(folder, X.data, "data"), mapped(folder, X.indices, "indices")
    return sparse.csr_array((data, indices, X.indptr), shape=X.shape)


@given(
    n=st.sampled_from([1, 2, 100, 2047, 2048, 2049, 5000, 9000, 30_000]),
    d=st.integers(1, 20),
    dtype=st.sampled_from([np.float32, np.float64]),
    zeros=st.sampled_from([0.0, 0.9, 1.0]),
    seed=st.integers(0, 99),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
def test_the_bits_of_products_in_memory(tmp_path, n, d, dtype, zeros, seed):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * 10.0 ** rng.integers(-20, 20, size=d)).astype(dtype)
    on_disk = mapped(tmp_path, X)
    weights, coefficients = rng.normal(size=d), rng.normal(size=n) * (rng.random(n) >= zeros)
    assert streaming.is_streamed(on_disk) and not streaming.is_streamed(X)
    for threads in (1, 2):
        np.testing.assert_array_equal(times(on_disk, weights, threads), times(X, weights, threads))
        np.testing.assert_array_equal(sum_of_rows(coefficients, on_disk, threads), sum_of_rows(coefficients, X, threads))
    np.testing.assert_array_equal(column_peaks(on_disk), column_peaks(X))


def test_rows_wider_than_a_piece_and_parts_of_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(37, 20_000)).astype(np.float32)
    on_disk = mapped(tmp_path, X)
    weights, coefficients = rng.normal(size=20_000), rng.normal(size=37)
    for part in (np.s_[:], np.s_[5:30], np.s_[::3], np.s_[:, 10:15_000], np.s_[3:, 19_999:]):
        view = on_disk[part]
        assert streaming.is_streamed(view)
        w = weights[: view.shape[1]]
        np.testing.assert_array_equal(times(view, w, 1), times(X[part], w, 1))
        c = coefficients[: view.shape[0]]
        np.testing.assert_allclose(sum_of_rows(c, view, 1), sum_of_rows(c, X[part], 1), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows(tmp_path, dtype):
    rng = np.random.default_rng(1)
    X = sparse.csr_array(np.where(rng.random((8000, 300)) < 0.05, rng.normal(size=(8000, 300)), 0.0).astype(dtype))
    # Empty rows at the ends.
    X = sparse.vstack([sparse.csr_array((50, 300), dtype=dtype), X, sparse.csr_array((9, 300), dtype=dtype)], format="csr")
    on_disk = mapped_csr(tmp_path, X)
    assert streaming.is_streamed(on_disk)
    weights, coefficients = rng.normal(size=300), rng.normal(size=X.shape[0])
    np.testing.assert_allclose(times(on_disk, weights), X.astype(np.float64) @ weights, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(sum_of_rows(coefficients, on_disk), coefficients @ X.astype(np.float64), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(column_peaks(on_disk), column_peaks(X))
    bounds = streaming._bounds(on_disk)
    assert bounds[0] == 0 and bounds[-1] == X.shape[0] and (np.diff(bounds) > 0).all() and len(bounds) > 3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite(tmp_path, bad):
    X = np.ones((6000, 7))
    assert bad_row(mapped(tmp_path, X)) is None
    X[5555, 3] = X[5999, 0] = bad
    assert bad_row(mapped(tmp_path, X, "y")) == 5555


def test_rows_without_a_coefficient_are_not_read(tmp_path, monkeypatch):
    on_disk = mapped(tmp_path, np.ones((20_000, 10)))
    fetched = []
    fetch = streaming._fetch
    monkeypatch.setattr(streaming, "_fetch", lambda spans: fetched.append(spans) or fetch(spans))
    coefficients = np.zeros(20_000)
    assert not sum_of_rows(coefficients, on_disk).any() and fetched == []
    coefficients[12_345] = 2.0
    assert (sum_of_rows(coefficients, on_disk) == 2.0).all() and len(fetched) == 1
    ((begin, end),) = fetched[0]
    place = on_disk.ctypes.data + 12_345 * 80
    assert begin <= place < end and end - begin <= 4096 * 80


def test_mappings_that_are_left_alone(tmp_path):
    X = np.ones((100, 10))
    np.save(tmp_path / "x.npy", X)
    # What is written to a private mapping is nowhere else.
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[:] = 7
    assert not streaming.is_streamed(private) and (times(private, np.ones(10)) == 70).all()
    assert not streaming.is_streamed(np.load(tmp_path / "x.npy", mmap_mode="r+"))
    anonymous = np.frombuffer(mmap.mmap(-1, 8000), dtype=np.float64).reshape(100, 10)
    assert not streaming.is_streamed(anonymous)
    readable = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert streaming.is_streamed(readable) and streaming.is_streamed(np.asarray(readable)[3:])
    assert not any(map(streaming.is_streamed, (readable.T, readable[:, ::2], readable[::-1], readable.astype(int), readable[0])))


def test_whoever_stops_half_way_leaves_no_thread(tmp_path):
    import threading

    on_disk = mapped(tmp_path, np.ones((50_000, 10)))
    for begin, _ in streaming.row_pieces(on_disk):
        if begin > 10_000:
            break
    with pytest.raises(ValueError, match="one entry"):
        times(on_disk, np.ones(9))
    assert not [thread for thread in threading.enumerate() if "read-ahead" in thread.name]


def test_training_keeps_scores_of_mapped_rows(tmp_path, monkeypatch):
    # Another look at short rows is cheap in memory, and costs a walk through the file here.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    relevant = X[:, 0] + rng.normal(size=3000) > 2
    looks = {"memory": [], "file": []}
    found = {}
    for name, rows in (("memory", X), ("file", mapped(tmp_path, X))):
        problem = RankingProblem(rows, relevant, ranking_loss("ap"))
        monkeypatch.setattr("maxmargin.ranking.problem.times", lambda *args, to=looks[name]: to.append(1) or times(*args))
        found[name] = OneSlackCuttingPlane(tol=1e-6).solve(problem, 1e-4)
        assert problem.cheap_scores == (name == "memory")
    assert len(looks["file"]) < len(looks["memory"])
    assert found["file"].primal == pytest.approx(found["memory"].primal, rel=1e-5)


@LINUX
def test_older_systems_touch_every_page(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(9000, 10))
    on_disk = mapped(tmp_path, X)

    def knows_nothing(address, length, advice):
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(streaming, "_madvise", knows_nothing)
    np.testing.assert_array_equal(times(on_disk, np.ones(10)), times(X, np.ones(10)))
    monkeypatch.setattr(streaming, "_madvise", None)  # and others are not asked
    np.testing.assert_array_equal(times(on_disk, np.ones(10)), times(X, np.ones(10)))


@LINUX
def test_a_file_that_was_cut_off_is_an_error_and_no_crash(tmp_path):
    script = textwrap.dedent(
        """
        import os, sys
        import numpy as np
        from maxmargin.core import times
        path = sys.argv[1]
        np.save(path, np.ones((200_000, 10)))
        X = np.load(path, mmap_mode="r")
        os.truncate(path, 1_000_000)
        try:
            times(X, np.ones(10), 1)
        except OSError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "x.npy")], capture_output=True, text=True, timeout=60)
    if done.returncode == -7 and os.uname().release.split(".")[:2] < ["5", "14"]:
        pytest.skip("this system cannot ask for pages without touching them")
    assert done.returncode == 0 and "cut off" in done.stdout, (done.returncode, done.stderr)


@LINUX
def test_memory_stays_small(tmp_path):
    # In a process of its own, which may have 60 MB of its own memory more than now: the file has 320 MB.
    script = textwrap.dedent(
        """
        import resource, sys, threading
        import numpy as np
        from maxmargin.core import bad_row, sum_of_rows, times
        def megabytes(what):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) / 1024 for line in file if line.startswith(what))
        n, d = 800_000, 100
        X = np.load(sys.argv[1], mmap_mode="r")
        assert X.shape == (n, d)
        times(X[:100_000], np.ones(d), 1)
        before = megabytes("VmRSS")
        own = int(megabytes("VmData") + 60) << 20
        resource.setrlimit(resource.RLIMIT_DATA, (own, own))
        most, done = [0.0], threading.Event()
        def watch():
            while not done.wait(0.001):
                most[0] = max(most[0], megabytes("VmRSS"))
        thread = threading.Thread(target=watch)
        thread.start()
        scores = times(X, np.ones(d), 1)
        total = sum_of_rows(scores, X, 1)
        assert bad_row(X) is None
        done.set()
        thread.join()
        assert (scores == d).all() and (total == d * n).all()
        print(most[0] - before, megabytes("VmRSS") - before)
        """
    )
    path = tmp_path / "x.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(800_000, 100))
    X[:] = 1
    X.flush()
    del X
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    most, left = map(float, done.stdout.split())
    # 64 MB ahead, the piece at work, 6.4 MB of scores, and the masks of a piece.
    assert most < 120 and left < 30, (most, left)
