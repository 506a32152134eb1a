"""Vectors of many shards added in groups: the bits of the tree without groups, whatever is lost in a group."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.distributed import Fault, LocalEngine, ShardedRanking, ShardOf, split_rows
from maxmargin.distributed import problem as problem_module
from maxmargin.distributed.sums import add_group, group_size, sum_of_groups, tree_sum
from maxmargin.solvers import OneSlackCuttingPlane


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 70), st.integers(0, 5), st.integers(0, 10**6))
def test_groups_are_branches_of_the_tree(n, power, seed):
    rng = np.random.default_rng(seed)
    answers = [{"psi": rng.normal(size=3) * 10.0 ** rng.integers(-8, 8), "loss": k} for k in range(n)]
    size = 2**power
    added = []
    for begin in range(0, n, size):
        group = answers[begin : begin + size]
        added += add_group(group, "psi") if rng.random() < 0.7 else group  # some are left as they are
    expected = tree_sum([answer["psi"] for answer in answers])
    np.testing.assert_array_equal(sum_of_groups(added, "psi", size), expected)
    assert [answer["loss"] for answer in added] == list(range(n))


def test_sizes_of_groups():
    for n in (16, 33, 64, 100, 200, 1000):
        size = group_size(n, 10_000_000)
        assert size & (size - 1) == 0 and np.sqrt(n) / 2 < size < 2 * np.sqrt(n)
    assert group_size(15, 10**9) == group_size(1000, 10) == 1


@pytest.fixture(params=[False, True])
def parts(request):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(160, 6)), np.repeat(np.arange(20), 8)
    y = X[:, 0] + rng.normal(size=160) > 1
    return split_rows(X, y, 5, qid if request.param else None)


def train(parts, **settings):
    engine = LocalEngine([ShardOf(part, "ranking") for part in parts], **settings)
    problem = ShardedRanking(engine)
    found = OneSlackCuttingPlane(max_passes=6).solve(problem, 0.01)
    return found, problem


def test_the_same_bits_with_groups_whatever_is_lost(parts, monkeypatch):
    plain, before = train(parts)
    monkeypatch.setattr(problem_module, "group_size", lambda n_shards, n_numbers: 2)
    clean, problem = train(parts)
    assert problem.engine.log == before.engine.log
    assert problem.engine.bytes_up < before.engine.bytes_up
    np.testing.assert_array_equal(clean.weights, plain.weights)
    rounds = [number for number, operation in enumerate(problem.engine.log) if operation == "features"]
    assert rounds
    for number in rounds:
        for kind in ("lost before", "lost after", "nan"):
            for shard in (0, 3, 4):  # the first of a group, another, and one that is alone
                found, broken = train(parts, faults=[Fault(kind, number, shard)])
                np.testing.assert_array_equal(found.weights, plain.weights)
                assert (found.primal, found.dual, found.passes) == (plain.primal, plain.dual, plain.passes)
                if kind != "lost after":
                    assert broken.engine.moves == 1
