"""Sums that depend neither on the order of arrival nor on the number of threads.

Numbers of different shards are added by ``math.fsum``, correctly rounded; vectors by a fixed binary tree over the numbers of the
shards; long products within a shard in blocks of a fixed length, too short for a BLAS to share among threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._types import Floats

_BLOCK = 4096
# From so many shards and so many bytes on, groups add up first: below, one more round trip costs more than it saves
# (benchmarks/results/distributed.md).
MANY_SHARDS = 16
MANY_BYTES = 16_000_000


def tree_sum(vectors: Sequence[Floats]) -> Floats:
    """The sum of equally long vectors: neighbours first, then neighbouring pairs, and so on.

    >>> tree_sum([np.array([1e16]), np.array([1.0]), np.array([1.0]), np.array([-1e16])])
    array([0.])
    """
    level = [np.asarray(vector, dtype=np.float64) for vector in vectors]
    while len(level) > 1:
        pairs = [one + other for one, other in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def exact_dot(one: Floats, other: Floats) -> float:
    """Inner product of two vectors; only the blocks are rounded.

    >>> exact_dot(np.ones(10_000), np.arange(10_000.0))
    49995000.0
    """
    return math.fsum(float(one[k : k + _BLOCK] @ other[k : k + _BLOCK]) for k in range(0, len(one), _BLOCK))


def group_size(n_shards: int, n_numbers: int) -> int:
    """Shards that add up vectors of so many numbers among themselves, before the client adds those of the groups; 1 for none.

    A power of two near the root of the number of shards: the sums of such groups are branches of the tree of :func:`tree_sum`,
    and the bits are those without groups.

    >>> group_size(100, 100_000), group_size(100, 1000), group_size(15, 10_000_000)
    (8, 1, 1)
    """
    if n_shards < MANY_SHARDS or 8 * n_shards * n_numbers < MANY_BYTES:
        return 1
    return 1 << round(math.log2(math.sqrt(n_shards)))


def add_group(answers: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Answers of a group, of which the first has the sum of all vectors of a name, and the others have None."""
    total = tree_sum([answer[name] for answer in answers])
    return [{**answer, name: None if k else total} for k, answer in enumerate(answers)]


def sum_of_groups(answers: Sequence[dict[str, Any]], name: str, size: int) -> Floats:
    """The sum of the vectors of all shards, where some groups have added up theirs.

    >>> parts = [{"psi": np.array([1e16])}, {"psi": np.array([1.0])}, {"psi": np.array([1.0])}, {"psi": np.array([-1e16])}]
    >>> sum_of_groups([*add_group(parts[:2], "psi"), *parts[2:]], "psi", 2)
    array([0.])
    """
    groups = [answers[begin : begin + size] for begin in range(0, len(answers), size)]
    return tree_sum([tree_sum([answer[name] for answer in group if answer[name] is not None]) for group in groups])
