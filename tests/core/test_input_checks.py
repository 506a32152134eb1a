"""What users hand in by mistake is refused with a sentence: it must not be taken for something else, nor end the process."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from maxmargin import DirectLossMinimizer, MulticlassSVM, RankingSVM, metrics
from maxmargin._utils import ArgumentError, Setting, check_matrix

ESTIMATORS = [RankingSVM(), RankingSVM("accuracy"), DirectLossMinimizer(), MulticlassSVM()]


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return X, (X[:, 0] > 0.5).astype(int)


@pytest.fixture(params=ESTIMATORS, ids=repr)
def estimator(request):
    return request.param


@pytest.mark.parametrize("kind", [None, np.ma.masked])
def test_missing_labels(estimator, samples, kind):
    X, y = samples
    if kind is None:
        labels, message = y.astype(object), "y has no label for sample 4"
        labels[3] = None
    else:
        labels, message = np.ma.array(y, mask=np.arange(30) % 10 == 3), "y has 3 masked entries; leave out"
    with pytest.raises(ArgumentError, match=message) as caught:
        estimator.fit(X, labels)
    assert caught.value.argument == "y"
    estimator.fit(X, np.ma.array(y))  # nothing is hidden


def test_masked_features(estimator, samples):
    X, y = samples
    with pytest.raises(ArgumentError, match="X has 1 masked entries"):
        estimator.fit(np.ma.array(X, mask=X[2, 1] == X), y)
    estimator.fit(np.ma.array(X), y)
    with pytest.raises(ArgumentError, match="X has 1 masked entries"):
        estimator.predict(np.ma.array(X, mask=X[2, 1] == X))


def test_masked_queries(samples):
    X, y = samples
    with pytest.raises(ValueError, match="qid has masked entries"):
        RankingSVM().fit(X, y, np.ma.array(np.arange(30) // 10, mask=np.arange(30) == 5))


def broken(X, how):
    matrix = sparse.csr_matrix(X)
    if how == "column":
        matrix.indices[5] = 10_000_000
    elif how == "negative":
        matrix.indices[5] = -3
    elif how == "rows":
        matrix.indptr[3] = 1
    elif how == "end":
        matrix.indptr[-1] = 10_000
    elif how == "csc":
        matrix = sparse.csc_matrix(X)
        matrix.indices[5] = 10_000_000
    elif how == "coo":
        matrix = sparse.coo_matrix(X)
        matrix.row[5] = 10_000_000
    return matrix


BROKEN = ["column", "negative", "rows", "end", "csc", "coo"]


@pytest.mark.parametrize("how", BROKEN)
def test_broken_sparse_matrices(samples, how):
    matrix = broken(samples[0], how)
    indices = matrix.row if how == "coo" else matrix.indices
    before = indices.copy()
    with pytest.raises(ArgumentError, match=r"X is a broken sparse matrix .*; make it anew"):
        check_matrix(matrix)
    assert np.array_equal(indices, before)


def test_estimators_refuse_broken_matrices():
    """In a process of their own, which they used to end."""
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
from tests.core.test_input_checks import *
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 4))
y = (X[:, 0] > 0.5).astype(int)
for estimator in ESTIMATORS:
    for how in BROKEN:
        with pytest.raises(ArgumentError, match="X is a broken sparse matrix"):
            estimator.fit(broken(X, how), y)
    estimator.fit(X, y)
    with pytest.raises(ArgumentError, match="X is a broken sparse matrix"):
        estimator.decision_function(broken(X, "column"))
print("done")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "done\n", result.stderr[-2000:]


def test_wide_indices_that_fit(estimator, samples):
    X, y = samples
    wide = sparse.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    narrow = estimator.fit(sparse.csr_matrix(X), y).coef_.copy()
    np.testing.assert_array_equal(estimator.fit(wide, y).coef_, narrow)
    assert wide.indices.dtype == np.int64, "the caller's matrix stays as it is"


def test_long_names_in_a_list():
    """Text of a list is not given the room of the longest."""
    qid = ["x" * 1_000_000, *(f"q{k // 10}" for k in range(20_000))]
    relevance, scores = np.arange(len(qid)) % 2, np.arange(len(qid)) % 7
    tracemalloc.start()
    values, ids = metrics.per_query(relevance, scores, qid=qid, metrics=["ap"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(ids) == len(values["ap"]) == 2001 and ids[0] == qid[0] and peak < 20e6


def test_settings_are_spelt_by_the_face():
    error = ArgumentError("a", ["with ", Setting("a", 1), " nothing goes"], ["try ", Setting("b")])
    assert str(error) == "with a=1 nothing goes; try b"
    assert error.sentence(lambda setting: setting.name.upper()) == "with A nothing goes; try B"
    assert isinstance(error, ValueError) and str(ArgumentError("a", "no")) == "no"
