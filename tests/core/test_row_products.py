"""Products of matrices with vectors: any layout, either precision, no copies, any number of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import _core
from maxmargin.core import column_peaks, fingerprint, sum_of_rows, times
from maxmargin.core.rows import _has_kernel


def exact(terms):
    """Sums of products of doubles along the last axis, and the sums of their sizes."""
    wide = np.asarray(terms, dtype=np.longdouble)
    return wide.sum(axis=-1), np.abs(wide).sum(axis=-1)


def layouts(X):
    n, d = X.shape
    padded = np.zeros((2 * n + 1, d + 3), dtype=X.dtype)
    padded[1::2, 2 : d + 2] = X
    columns = np.zeros((d + 2, n + 1), dtype=X.dtype)
    columns[1 : d + 1, :n] = X.T
    gaps = np.zeros((n, 2 * d), dtype=X.dtype)
    gaps[:, ::2] = X
    return {
        "rows": X.copy(), "columns": np.asfortranarray(X), "every second row": padded[1::2, 2 : d + 2],
        "upside down": X[::-1].copy()[::-1], "part of columns": columns[1 : d + 1, :n].T, "gaps": gaps[:, ::2],
    }  # fmt: skip


@given(
    n=st.sampled_from([0, 1, 2, 3, 5, 2047, 2048, 2049, 4100]),
    d=st.integers(0, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
    zeros=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    size=st.sampled_from([1e-30, 1.0, 1e30]),
    seed=st.integers(0, 99),
)
def test_products_of_all_layouts(n, d, dtype, zeros, size, seed):
    rng = np.random.default_rng(seed)
    X = (size * rng.normal(size=(n, d)) * 10.0 ** rng.integers(-5, 5, size=d)).astype(dtype)
    weights, coefficients = rng.normal(size=d), rng.normal(size=n) * (rng.random(n) >= zeros)
    scores, score_sizes = exact(X.astype(np.longdouble) * weights)
    total, total_sizes = exact((X.astype(np.longdouble) * coefficients[:, None]).T)
    for name, laid_out in layouts(X).items():
        found, summed = times(laid_out, weights, 1), sum_of_rows(coefficients, laid_out, 1)
        assert found.shape == (n,) and summed.shape == (d,) and found.dtype == summed.dtype == np.float64
        assert (np.abs(found - scores) <= 1e-14 * score_sizes).all(), name
        assert (np.abs(summed - total) <= 1e-14 * total_sizes).all(), name


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_change_a_bit(dtype, order):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(60_001, 20)), dtype=dtype, order=order)
    weights, coefficients = rng.normal(size=20), rng.normal(size=len(X)) * (rng.random(len(X)) < 0.5)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(times(X, weights, threads), times(X, weights, 1))
        np.testing.assert_array_equal(_core.sum_of_rows(coefficients, X, threads), _core.sum_of_rows(coefficients, X, 1))


def test_which_matrices_are_not_copied():
    X = np.zeros((6, 4), dtype=np.float32)
    assert all(_has_kernel(Y) for Y in (X, X.T, X[::2], X[:, 1:3], X.astype(np.float64), X[:0], X[:, :0], X[:, ::2][:, :1]))
    # Left to numpy: gaps in rows and columns, float64 columns, other numbers, other bytes, sparse ones.
    others = [X[:, ::2], X.astype(np.float64).T, X.astype(np.float16), X.astype(int), X.astype(">f4"), sparse.csr_array(X)]
    assert not any(_has_kernel(Y) for Y in others)


def test_refused_by_the_kernels():
    X = np.zeros((6, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="one entry for each column"):
        _core.times_vector(X, np.zeros(3), 1, np.zeros(6))
    with pytest.raises(ValueError, match="out must have one entry for each row"):
        _core.times_vector(X, np.zeros(4), 1, np.zeros(5))
    with pytest.raises(ValueError, match="coefficients must have one entry for each row"):
        _core.sum_of_rows(np.zeros(5), X, 1)
    with pytest.raises(ValueError, match="one piece"):
        _core.times_vector(X[:, ::2], np.zeros(2), 1, np.zeros(6))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_peaks_of_columns(kind):
    X = np.array([[1.0, -7.0, 0.0], [-2.0, 3.0, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(column_peaks(kind(X)), [2.0, 7.0, 0.0])
    np.testing.assert_array_equal(column_peaks(kind(X)[:0]), [0.0, 0.0, 0.0])


def test_fingerprints_know_values_not_layouts():
    X = np.random.default_rng(0).normal(size=(10_000, 3)).astype(np.float32)
    assert fingerprint(X) == fingerprint(np.asfortranarray(X)) == fingerprint(np.repeat(X, 2, axis=0)[::2])
    assert fingerprint(X) != fingerprint(X.astype(np.float64)) and fingerprint(X) != fingerprint(X[::-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [*range(1, 21), 33])
def test_a_row_does_not_know_its_neighbours(dtype, d):
    """Short rows are multiplied four at a time; and where some factors are zero, with them or without."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(43, d)).astype(dtype)
    weights = rng.normal(size=d)
    found = times(X, weights, 1)
    np.testing.assert_allclose(found, X.astype(np.float64) @ weights, rtol=1e-13, atol=1e-13)
    assert found.tolist() == [times(X[k : k + 1], weights, 1)[0] for k in range(len(X))]
    # Rows that are not one after the other.
    wide = np.concatenate([X, X], axis=1)[:, :d]
    assert times(wide, weights, 1).tolist() == found.tolist()
    for share in (0.0, 0.03, 0.1, 0.5, 1.0):
        factors = np.where(rng.random(len(X)) < share, rng.normal(size=len(X)), 0.0)
        expected = factors @ X.astype(np.float64)
        for rows in (X, wide):
            np.testing.assert_allclose(sum_of_rows(factors, rows, 1), expected, rtol=1e-13, atol=1e-13)
