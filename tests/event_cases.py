"""Rare events over shards, without a cluster: a classifier that is trained on an engine."""

from itertools import pairwise

import numpy as np

from maxmargin.distributed import ArrayRows, LocalEngine, ShardOf
from maxmargin.distributed.client import Conversation
from maxmargin.estimators.sharded_events import ClassifierOverShards


class OverShards(ClassifierOverShards):
    def fit_engine(self, engine):
        self._check_parameters()
        self.samples = self._over(Conversation(engine))
        self._keep(self._train(self.samples))
        return self


def samples(n=300, d=4, seed=0, share=0.15):
    """Columns of all sizes, labels that are text, outliers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    found = X[:, 0] + 0.5 * X[:, 1] + 0.8 * rng.normal(size=n)
    y = np.where(found > np.quantile(found, 1 - share), "rare", "common")
    return X * 10.0 ** np.arange(-2, d - 2) + np.arange(d) * 100.0, y


def engine_of(X, y, cuts=(0.3, 0.3, 0.7), loss=None, **settings):
    """Shards between cuts; where two are equal, an empty one."""
    edges = [0, *(int(len(y) * cut) if isinstance(cut, float) else cut for cut in cuts), len(y)]
    parts = [ArrayRows(X[a:b], y[a:b], text=f"rows {a} to {b - 1}") for a, b in pairwise(edges)]
    return LocalEngine([ShardOf(part, "events", loss, 1) for part in parts], **settings)
