"""Means and spreads of columns against sums of fractions, which are exact."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array, csr_matrix
from sklearn.preprocessing import StandardScaler

from maxmargin.core import merged, moments_of
from maxmargin.core.moments import _Sum


def exactly(column):
    """Mean and standard deviation of a column; the variance is exact, and its root has the digits of a float."""
    numbers = [Fraction(float(x)) for x in column]
    mean = sum(numbers) / len(numbers)
    variance = sum((x - mean) ** 2 for x in numbers) / len(numbers)
    if not variance:
        return float(mean), 0.0
    # In units near the root, lest its square is no float.
    unit = Fraction(float(max(abs(x - mean) for x in numbers)))
    return float(mean), float(np.sqrt(float(variance / unit**2)) * float(unit))


def columns(n=700, seed=0):
    rng = np.random.default_rng(seed)
    time = 1.7e9 + np.sort(rng.normal(size=n)) * 50  # in the order of time, as files are
    far = rng.normal(size=n)
    far[n // 3] = 1e7
    return np.column_stack(
        [time, far, np.full(n, 0.1), np.zeros(n), 1e300 * rng.normal(size=n), 1e-310 * rng.normal(size=n), rng.normal(size=n) - 5,
         1e15 + rng.integers(0, 4, size=n), 1e11 + rng.integers(0, 4, size=n),
         np.where(rng.random(n) < 0.02, rng.normal(size=n), 0.0)]
    )  # fmt: skip


@pytest.mark.parametrize("form", [np.asarray, csr_array, csr_matrix, np.asfortranarray])
@pytest.mark.parametrize("edges", [[], [0, 1, 350], [250, 250, 251, 600]])
def test_exact_however_parted(form, edges):
    X = columns()
    parts = [moments_of(form(part)) for part in np.split(X, edges)]
    found = merged(parts)
    assert found.rows == len(X)
    np.testing.assert_array_equal(found.peak, np.abs(X).max(axis=0))
    for k, column in enumerate(X.T):
        mean, deviation = exactly(column)
        assert found.mean[k] == pytest.approx(mean, rel=1e-14, abs=1e-15 * np.abs(column).max())
        # Less than 1e-12 of its largest entry is no spread.
        flat = deviation <= 1e-12 * np.abs(column).max()
        assert found.scale[k] == (pytest.approx(deviation, rel=1e-13, abs=5e-324) if not flat else np.abs(column).max() or 1.0)


def test_a_long_column_and_a_sparse_one_keep_their_digits():
    rng = np.random.default_rng(0)
    time = 1.7e9 + rng.integers(0, 1000, size=(200_000, 1)).astype(float)
    whole = moments_of(time)
    _, deviation = exactly(time[:, 0])
    assert whole.scale[0] == pytest.approx(deviation, rel=3e-14)
    assert moments_of(csr_array(time)).scale[0] == pytest.approx(deviation, rel=3e-14)
    assert merged([moments_of(part) for part in np.array_split(time, 7)]).scale[0] == pytest.approx(deviation, rel=3e-14)


def test_sums_keep_what_rounding_takes_off():
    total = _Sum(2)
    for part in ([1e16, 1.0], [1.0, 1e16], [1.0, 1.0], [-1e16, -1e16]):
        total.add(np.array(part))
    assert total.value.tolist() == [2.0, 2.0]


def test_as_scikit_learn_has_it():
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1, 1e4, 1e-3, 1] + [0, 5e5, 0, 7]
    scaler = StandardScaler().fit(X)
    found = moments_of(X)
    np.testing.assert_allclose(found.scale, scaler.scale_, rtol=1e-12)
    np.testing.assert_allclose(found.mean, scaler.mean_, rtol=1e-12, atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (9, 2), elements=st.sampled_from([0.0, -1.0, 3.5, 1e-200, 1e200, -1.7e308, 5e-324, 1e8 + 1, 1e16])),
    st.lists(st.integers(0, 9), max_size=3).map(sorted),
)
def test_any_numbers_in_any_parts(X, edges):
    found = merged([moments_of(part) for part in np.split(X, edges)])
    same = merged([moments_of(csr_array(part)) for part in np.split(X, edges)])
    for k, column in enumerate(X.T):
        mean, deviation = exactly(column)
        peak = np.abs(column).max()
        for one in (found, same):
            assert one.mean[k] == pytest.approx(mean, abs=1e-15 * peak + 5e-324)
            flat = deviation <= 1e-12 * peak
            assert one.scale[k] == (peak or 1.0 if flat else pytest.approx(deviation, rel=1e-12, abs=5e-324))


def test_the_same_bits_from_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(40_000, 30)) + 1e6
    for dtype in (np.float32, np.float64):
        np.save(tmp_path / "x.npy", X.astype(dtype))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        one, other = moments_of(mapped), moments_of(np.array(mapped))
        for name in ("peak", "center", "first", "second"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_narrow_and_empty_parts():
    X = np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]])
    found = merged([moments_of(csr_array(X[:1, :2])), moments_of(csr_array((0, 0))), moments_of(csr_array(X[1:]))])
    np.testing.assert_array_equal(found.mean, [2.0, 3.0, 0.0])
    np.testing.assert_array_equal(found.scale, [1.0, 1.0, 1.0])
    nothing = merged([moments_of(np.zeros((0, 2)))])
    assert nothing.rows == 0
    assert nothing.scale.tolist() == [1.0, 1.0]
