"""Means and spreads of features that are spread over shards; one round, in which a few numbers for every column come up."""

from __future__ import annotations

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import Moments, merged
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.engine import Engine
from maxmargin.distributed.sharded_problem import n_columns


def column_moments(engine: Engine | Conversation) -> Moments:
    """Of the features of all shards that are made of rows; with the mean and the standard deviation of every column.

    To 1e-12 those of one machine, also where the mean of a column is huge next to its spread; the same bits for the same shards.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> X = np.array([[1.7e9], [1.7e9 + 4], [1.7e9], [1.7e9 + 4]])
    >>> engine = LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, [1, 0, 1, 0], 3)])
    >>> column_moments(engine).mean, column_moments(engine).scale
    (array([1.7e+09]), array([2.]))
    """
    shards = engine if isinstance(engine, Conversation) else Conversation(engine)
    _refuse_nothing(shards)
    # Rows without an entry in the last columns know nothing of them.
    return merged([Moments(**answer) for answer in shards.plain("moments")]).widened(n_columns(shards.infos, shards.engine))


def feature_scaling(engine: Engine | Conversation) -> tuple[Floats, Floats]:
    """What one machine would take off features and divide them by, shapes (d,): means, and standard deviations.

    As :mod:`maxmargin.core.standardizing` has them: zero in place of the means where a shard has sparse rows, which would
    not stay sparse, and the largest entry, or 1, where a column is constant.
    """
    shards = engine if isinstance(engine, Conversation) else Conversation(engine)
    found = column_moments(shards)
    sparse = any(info["sparse"] for info in shards.infos if info["rows"])
    return np.zeros(len(found.peak)) if sparse else found.mean, found.scale


def _refuse_nothing(shards: Conversation) -> None:
    if not any(info["rows"] for info in shards.infos):
        raise ValueError(f"the {shards.n_shards} shards hold no data; at least one needs rows")
