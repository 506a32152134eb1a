"""Two systems on the same queries: whether the difference of their means is more than chance.

Three tests of paired differences, all two-sided: Student's t; randomisation (Fisher), where under the hypothesis the sign of
every difference is a coin toss, enumerated for few queries and sampled for many; and the sign test, which counts wins alone.
Intervals of the mean are percentiles of a bootstrap over queries.
Smucker, Allan and Carterette (CIKM 2007) compare them on runs of TREC.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin._utils import Floats

_EXACT = 16  # queries with differences: up to 65,536 patterns of signs are looked at one by one
_ENTRIES = 1 << 22  # of an array of samples


class Paired(NamedTuple):
    """Mean difference with its interval; p-values of the tests; queries won, lost and equal."""

    difference: float
    low: float
    high: float
    t_test: float
    randomisation: float
    sign_test: float
    wins: int
    losses: int
    ties: int


TESTS = ("t_test", "randomisation", "sign_test")


def compare_paired(ours: Floats, base: Floats, rng: np.random.Generator, samples: int = 10_000, level: float = 0.95) -> Paired:
    """Values of a metric for the same queries, shape (q,), q at least 2.

    Examples
    --------
    >>> found = compare_paired(np.array([0.5, 0.7, 0.9]), np.array([0.4, 0.5, 0.6]), np.random.default_rng(0))
    >>> round(found.difference, 3), round(found.t_test, 4), found.randomisation, found.sign_test, found.wins
    (0.2, 0.0742, 0.25, 0.25, 3)
    """
    from scipy.stats import binomtest

    differences = np.asarray(ours - base)
    wins, losses = int(np.count_nonzero(differences > 0)), int(np.count_nonzero(differences < 0))
    low, high = bootstrap_interval(differences, rng, samples, level)
    return Paired(
        float(differences.mean()), low, high, t_test(differences), randomisation_test(differences, rng, samples),
        float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0, wins, losses, len(differences) - wins - losses,
    )  # fmt: skip


def t_test(differences: Floats) -> float:
    """That the mean is zero; 1 if all are zero, 0 if all are the same and not zero."""
    from scipy.stats import ttest_1samp

    if np.ptp(differences) == 0:
        return 1.0 if differences[0] == 0 else 0.0
    return float(ttest_1samp(differences, 0.0).pvalue)


def randomisation_test(differences: Floats, rng: np.random.Generator, samples: int) -> float:
    """How often random signs give a sum at least as far from zero; the observed signs count as one of the samples."""
    sizes = np.abs(differences[differences != 0])
    if not len(sizes):
        return 1.0
    # Sums that are equal but for rounding are as far.
    observed = abs(float(differences.sum())) - 1e-12 * float(sizes.sum())
    if len(sizes) <= _EXACT:
        signs = 1.0 - 2.0 * ((np.arange(1 << len(sizes))[:, None] >> np.arange(len(sizes))) & 1)
        return float(np.mean(np.abs(signs @ sizes) >= observed))
    beyond, done = 0, 0
    while done < samples:
        rows = min(samples - done, max(1, _ENTRIES // len(sizes)))
        tossed = rng.integers(0, 2, (rows, len(sizes)), dtype=np.int8) * 2 - 1
        beyond += int(np.count_nonzero(np.abs(tossed @ sizes) >= observed))
        done += rows
    return (beyond + 1) / (samples + 1)


def bootstrap_interval(values: Floats, rng: np.random.Generator, samples: int, level: float) -> tuple[float, float]:
    """Percentiles of the means of samples drawn with replacement."""
    means: list[Floats] = []
    done = 0
    while done < samples:
        rows = min(samples - done, max(1, _ENTRIES // len(values)))
        means.append(values[rng.integers(0, len(values), (rows, len(values)))].mean(axis=1))
        done += rows
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def holm(p_values: list[float]) -> list[float]:
    """Corrected for their number by Holm's steps: the chance of any false alarm stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(p) for p in corrected]
