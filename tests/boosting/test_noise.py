"""The normal numbers of the noise, against scipy's distribution."""

import numpy as np
from scipy import stats

from maxmargin import _core


def draw(n, seed=0, round_number=0, deviation=1.0):
    return _core.with_noise(np.zeros(n), deviation, seed, round_number).astype(float)


def test_the_distribution_is_normal():
    drawn = np.concatenate([draw(100_000, 3, k) for k in range(5)])
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert abs(stats.kurtosis(drawn)) < 0.05
    # Beyond 3.44 another procedure takes over.
    for edge in (3.2, 3.44, 3.8):
        expected = 2 * stats.norm.sf(edge) * len(drawn)
        assert abs(np.count_nonzero(np.abs(drawn) > edge) - expected) < 5 * np.sqrt(expected)
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.01


def test_streams_differ_and_repeat():
    streams = [draw(1000, seed, k) for seed in (0, 1, 2**63 - 1) for k in (0, 1, 2)]
    together = np.abs(np.corrcoef(streams) - np.eye(9))
    assert together.max() < 0.2
    np.testing.assert_array_equal(draw(1000, 1, 2), draw(1000, 1, 2))
    # A shorter one is the beginning of a longer one, and deviations multiply.
    np.testing.assert_array_equal(draw(10, 1, 2), draw(1000, 1, 2)[:10])
    np.testing.assert_array_equal(draw(10, 1, 2, 0.25), 0.25 * draw(10, 1, 2))
    assert draw(0).shape == (0,)
