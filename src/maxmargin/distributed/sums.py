"""Sums that depend neither on the order of arrival nor on the number of threads.

Numbers of different shards are added by ``math.fsum``, correctly rounded; vectors by a fixed binary tree over the numbers of the
shards; long products within a shard in blocks of a fixed length, too short for a BLAS to share among threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from maxmargin._utils import Floats

_BLOCK = 4096


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
