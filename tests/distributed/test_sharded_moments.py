"""Means and spreads of features over shards against those of one machine."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from maxmargin.core import center_and_scale, is_streamed
from maxmargin.distributed import ArrayRows, Fault, LocalEngine, ShardOf, column_moments, feature_scaling, split_rows


def data(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * [1, 1e4, 1e-3, 50, 0] + [0, 5e5, 0, 1.7e9, 0.1]
    X[:, 0] *= rng.random(n) < 0.2
    X[:, 3] = np.sort(X[:, 3])
    return X, rng.integers(0, 2, size=n)


def engine_of(parts, **settings):
    return LocalEngine([ShardOf(part, "ranking") for part in parts], **settings)


@pytest.mark.parametrize("n_shards", [1, 2, 5, 17])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_as_on_one_machine(n_shards, form):
    X, y = data()
    center, scale = center_and_scale(form(X))
    found = feature_scaling(engine_of(split_rows(form(X), y, n_shards)))
    np.testing.assert_allclose(found[0], center, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found[1], scale, rtol=1e-12)


def test_float32_empty_and_narrow_shards():
    X, y = data()
    X[:200, 4] = 0.0
    parts = [
        ArrayRows(csr_array(X[:200, :4]), y[:200]),
        ArrayRows(csr_array((0, 0)), y[:0]),
        ArrayRows(csr_array(X[200:].astype(np.float32)), y[200:]),
    ]
    expected = center_and_scale(csr_array(np.concatenate([X[:200], X[200:].astype(np.float32)])))
    center, scale = feature_scaling(engine_of(parts))
    np.testing.assert_array_equal(center, np.zeros(5))
    np.testing.assert_allclose(scale, expected[1], rtol=1e-12)
    # All of them narrow but one without rows, which names the columns.
    last = ArrayRows(csr_array((0, 7)), y[:0])
    assert feature_scaling(engine_of([parts[0], last]))[1][4:].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="the 2 shards hold no data"):
        column_moments(engine_of([parts[1], last]))


def test_mapped_shards(tmp_path):
    X, y = data(40_000)
    X = np.tile(X, 3)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    center, scale = center_and_scale(X)
    parts = split_rows(mapped, y, 3)
    assert is_streamed(parts[0].X)
    found = feature_scaling(engine_of(parts))
    np.testing.assert_allclose(found[0], center, rtol=1e-12)
    np.testing.assert_allclose(found[1], scale, rtol=1e-12)


def test_the_same_bits_whatever_is_lost():
    X, y = data()
    parts = split_rows(X, y, 6)
    expected = feature_scaling(engine_of(parts))
    for kind in ("lost before", "lost after", "nan"):
        for now in (0, 1):
            engine = engine_of(parts, n_jobs=3, faults=[Fault(kind, round=now, shard=2)])
            for one, other in zip(feature_scaling(engine), expected, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_none_is_named(bad):
    X, y = data()
    X[333, 2] = bad
    with pytest.raises(ValueError, match=r"a feature in row 133 of rows 200 to 399 is NaN or infinite"):
        column_moments(engine_of(split_rows(X, y, 2)))
