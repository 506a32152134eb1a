"""Gradients and scores are written into memory that was used before: nothing of what it held is left."""

import gc

import numpy as np
import pytest

from maxmargin import most_violating_ranking, most_violating_rankings
from maxmargin.core import times

LONG = (1 << 22) + 1000  # fresh memory of this length comes with zeros


def leave_behind(value, n):
    """Fill memory as long as an array of n scores and give it back."""
    used = [times(np.ones((n, 1)), np.ones(1), 1) for _ in range(3)] + [np.full(n, value) for _ in range(3)]
    for one in used:
        one[:] = value
    del used, one
    gc.collect()


def scores_of(kind, n):
    rng = np.random.default_rng(0)
    relevant = np.zeros(n, dtype=bool)
    relevant[rng.choice(n, max(1, min(50, n // 4)), replace=False)] = True
    if kind == "constant":
        return np.zeros(n), relevant
    if kind == "huge":
        return 1e300 * rng.normal(size=n), relevant
    if kind == "inseparable":
        return 5e-324 * rng.integers(0, 3, size=n), relevant
    return rng.normal(size=n) + {"overlapping": 1, "separated": 9}[kind] * relevant, relevant


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("kind", ["overlapping", "separated", "constant"])
def test_long_lists(kind, n_jobs):
    scores, relevant = scores_of(kind, LONG)
    found = []
    for value in (np.nan, 7.0):
        leave_behind(value, LONG)
        found.append(most_violating_ranking(scores, relevant, n_jobs=n_jobs).gradient)
        assert abs(found[-1].sum()) < 1e-9
    assert np.array_equal(*found)


@pytest.mark.parametrize("n", [20, 1000, 50_000])
@pytest.mark.parametrize("kind", ["overlapping", "separated", "constant", "huge", "inseparable"])
@pytest.mark.parametrize("loss", ["ap", "ndcg@5"])
def test_lists_of_all_kinds(kind, n, loss):
    scores, relevant = scores_of(kind, n)
    found = []
    for value in (np.nan, 7.0):
        leave_behind(value, n)
        found.append(most_violating_ranking(scores, relevant, loss).gradient)
    assert np.array_equal(*found)


def test_queries_with_nothing_to_rank():
    query = np.repeat([0, 1, 2], 1000)
    relevant = np.concatenate([np.zeros(1000), np.ones(1000), np.arange(1000) % 9 == 0])
    scores = np.random.default_rng(0).normal(size=3000)
    for value in (np.nan, 7.0):
        leave_behind(value, 3000)
        assert not most_violating_rankings(scores, relevant, query).gradient[:2000].any()


@pytest.mark.parametrize("n", [LONG, 200_000])
def test_a_block_is_used_again_but_never_by_two(n):
    first = times(np.ones((n, 1)), np.ones(1), 1)
    second = times(np.ones((n, 1)), 2 * np.ones(1), 1)
    assert not np.shares_memory(first, second)
    where = {first.ctypes.data, second.ctypes.data}
    del first, second
    again = [times(np.ones((n, 1)), k * np.ones(1), 1) for k in range(3)]
    assert where & {one.ctypes.data for one in again}
    assert [float(one[-1]) for one in again] == [0.0, 1.0, 2.0] and len({one.ctypes.data for one in again}) == 3
