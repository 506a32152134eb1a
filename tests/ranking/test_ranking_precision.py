"""Rankers on float32 features, on sparse ones with 64-bit indices, and on columns of any scale."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse

from maxmargin import DirectLossMinimizer, RankingSVM
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.ranking import scaling_advice


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + rng.normal(size=n) > 1


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("loss", ["ap", "ndcg", "ndcg@50", "accuracy"])
def test_float32_is_float64_of_the_same_values(loss, order):
    X, y = data()
    single = np.asarray(X, dtype=np.float32, order=order)
    qid = np.arange(len(y)) // 100
    one, other = (RankingSVM(loss, C=10, tol=1e-8).fit(Z, y, qid) for Z in (single, single.astype(np.float64, order="C")))
    assert one.certified_ and one.coef_.dtype == np.float64 and one.coef_.all()
    assert one.primal_objective_ == pytest.approx(other.primal_objective_, rel=1e-9)
    assert one.dual_objective_ == pytest.approx(other.dual_objective_, rel=1e-8)
    scores = single.astype(np.float64) @ one.coef_ + one.intercept_
    np.testing.assert_allclose(one.decision_function(single), scores, rtol=1e-12, atol=1e-14)
    # The bound is about these very numbers: the hinge of float64 scores, rounded nowhere.
    assert one.dual_objective_ <= other.primal_objective_ * (1 + 1e-12)


def test_float32_with_all_queries_mixed_up_and_grades():
    X, _ = data(200)
    rng = np.random.default_rng(1)
    y, qid = rng.integers(0, 3, size=200), rng.integers(0, 5, size=200)
    single = X.astype(np.float32)
    one, other = (RankingSVM(C=10, grades=True, tol=1e-6).fit(Z, y, qid) for Z in (single, single.astype(np.float64)))
    assert one.primal_objective_ == pytest.approx(other.primal_objective_, rel=1e-9)


def test_direct_loss_of_float32():
    X, y = data()
    single = X.astype(np.float32)
    one, other = (DirectLossMinimizer(tol=0.05).fit(Z, y) for Z in (single, single.astype(np.float64)))
    assert one.training_loss_ == pytest.approx(other.training_loss_, rel=1e-9)


def test_wide_and_narrow_rows_agree():
    """Scores of wide rows are kept along a line, those of narrow ones are made anew."""
    X, y = data(80, 3)
    narrow = RankingSVM(C=10, tol=1e-9).fit(X, y)
    wide = RankingSVM(C=10, tol=1e-9).fit(np.hstack([X, np.zeros((80, 60))]), y)
    assert wide.primal_objective_ == pytest.approx(narrow.primal_objective_, rel=2e-9)
    np.testing.assert_allclose(wide.coef_[:3], narrow.coef_, rtol=1e-4)


_GROWTH = """
import sys, numpy as np
from maxmargin import RankingSVM
rng = np.random.default_rng(0)
X = rng.random((400_000, 30), dtype=sys.argv[1])
y = X[:, :3].sum(axis=1) + rng.random(len(X)) > 3.4
RankingSVM().fit(X[:3000], np.arange(3000) % 7 == 0)
def memory(name):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
RankingSVM(C=10, max_iter=8, tol=0.05).fit(X, y)
print((memory("VmHWM") - before) / X.nbytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are read from /proc")
@pytest.mark.parametrize(("dtype", "most"), [("float32", 0.3), ("float64", 0.3)])
def test_features_are_not_copied(dtype, most):
    done = subprocess.run([sys.executable, "-c", _GROWTH, dtype], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) <= most


@pytest.mark.parametrize("estimator", [RankingSVM(C=10), RankingSVM("accuracy"), DirectLossMinimizer(tol=0.05)])
def test_sparse_indices_of_64_bits(estimator):
    X, y = data()
    X[np.abs(X) < 0.5] = 0
    narrow = sparse.csr_array(X)
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    kept = wide.indices
    expected = estimator.fit(narrow, y).decision_function(narrow)
    np.testing.assert_array_equal(estimator.fit(wide, y).decision_function(wide), expected)
    assert wide.indices is kept and wide.indices.dtype == np.int64


@pytest.mark.parametrize("loss", ["ap", "ndcg"])
def test_scale_makes_no_difference(loss):
    """X times s and C over s squared is the same problem, in the same passes."""
    X, y = data()
    usual = RankingSVM(loss, C=10).fit(X, y)
    for scale in (1e-8, 1e-4, 1e4, 1e8):
        scaled = RankingSVM(loss, C=10 / scale**2).fit(scale * X, y)
        assert scaled.n_iter_ == usual.n_iter_
        assert scaled.primal_objective_ * scale**2 == pytest.approx(usual.primal_objective_, rel=1e-9)
        np.testing.assert_allclose(scaled.coef_ * scale, usual.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", ["ap", "accuracy"])
def test_features_of_any_size_converge(loss):
    X, y = data(200)
    large = RankingSVM(loss, C=1).fit(3e7 * X, y)
    assert large.certified_ and large.dual_gap_ <= 1e-3 * large.primal_objective_ and large.n_iter_ < 200
    # Of such features the regulariser sees next to nothing, however large they are.
    smaller = RankingSVM(loss, C=1).fit(3e3 * X, y)
    assert large.primal_objective_ == pytest.approx(smaller.primal_objective_, rel=2e-3)
    assert large.score(3e7 * X, y) == pytest.approx(smaller.score(3e3 * X, y), abs=0.02)


@pytest.mark.parametrize("loss", ["ap", "ndcg", "accuracy"])
@pytest.mark.parametrize("C", [1, 100])
def test_a_timestamp_among_the_features(loss, C):
    X, y = data(200)
    rng = np.random.default_rng(5)
    X[:, 2] = 1.6e9 + rng.uniform(0, 3e7, size=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RankingSVM(loss, C=C).fit(X, y)
    assert model.certified_ and model.dual_gap_ <= 1e-3 * model.primal_objective_ and model.coef_[0] > 0.1
    centred = X - X.mean(axis=0)
    if loss != "accuracy":  # a constant changes no ranking
        other = RankingSVM(loss, C=C).fit(centred, y)
        assert model.primal_objective_ == pytest.approx(other.primal_objective_, rel=2e-3)


def test_the_warning_names_the_columns():
    pandas = pytest.importorskip("pandas")
    X, y = data(200)
    X[:, 2] *= 1e9
    frame = pandas.DataFrame(X, columns=["age", "size", "time", "height"])
    with pytest.warns(ConvergenceWarning, match=r"StandardScaler: column 3 \('time'\) reaches .*e\+09, the usual one \d"):
        RankingSVM(C=100, max_iter=2).fit(frame, y)
    with pytest.warns(ConvergenceWarning, match=r"StandardScaler: column 3 reaches"):
        RankingSVM("accuracy", C=100, max_iter=2).fit(sparse.csr_array(X), y)


def test_advice_about_scales():
    assert scaling_advice(np.ones(3)) == scaling_advice(np.zeros(3)) == "scale the features with StandardScaler"
    assert scaling_advice(np.full(3, 3e7)).endswith("StandardScaler: their entries reach 3e+07")
    assert scaling_advice(np.array([1e6, 1.0, 1.0, 0.0, 1e9, 0.5])).endswith(
        "column 5 reaches 1e+09, column 1 reaches 1e+06, the usual one 1"
    )
