"""Small data from integer arithmetic: the same numbers on every machine, whatever its random generators or libraries do."""

import numpy as np


def _integers(seed, n):
    """n integers of 64 bits by SplitMix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        state = np.uint64(seed) * np.uint64(0x632BE59BD9B4E019) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def below(limit, seed, *shape):
    """Integers from 0 to ``limit - 1``."""
    drawn = _integers(seed, int(np.prod(shape))) >> np.uint64(20)
    return (drawn % np.uint64(limit)).astype(np.int64).reshape(shape)


def numbers(seed, *shape):
    """Bell-shaped numbers with a standard deviation of about 0.58, multiples of 2^-21: sums and small products are exact."""
    parts = _integers(seed, 4 * int(np.prod(shape))) >> np.uint64(44)
    return (parts.reshape(-1, 4).sum(axis=1).astype(np.float64) - 2**21).reshape(shape) / 2**21
