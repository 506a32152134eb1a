"""Labeling of sequences on a cluster: rows are nodes, and each says which sequence it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import dask.array as da
import numpy as np
from dask import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.dask.base import DaskEstimator
from maxmargin.distributed import DaskEngine, Kind, ShardedMean, gathered, kept_whole, rows_of_chunks
from maxmargin.io import Files
from maxmargin.sequences import AUTO_C, ChainSVM


@dataclass(eq=False, repr=False)
class DaskChainSVM(DaskEstimator, ChainSVM):
    """:class:`maxmargin.ChainSVM` on a Dask cluster: the same objective, with the same certificate.

    A data set are the rows of all sequences below each other, with a column that tells sequences apart. Rows of a sequence stand
    next to each other; chunks may end in the middle of it. In one process (``to_local()``) a sequence is a matrix, or, if the
    model was trained on a frame, a list of dictionaries with the names of its columns.

    Parameters
    ----------
    C, normalize, fit_intercept, bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.ChainSVM`; ``surrogate`` is known with its default only. Training is by cutting planes, whatever
        the number of sequences.
    client, checkpoint, shards_per_worker, worker_timeout
        As in :class:`maxmargin.dask.base.DaskEstimator`.

    Attributes
    ----------
    C_, classes_, coef_, intercept_, first_, last_, transition_, n_features_in_, feature_names_in_
        As in :class:`maxmargin.ChainSVM`; and those of its certificate.
    cluster_ : dict
        What the cluster has done.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.from_array(np.array([[1.0], [0.9], [-0.1], [-1.0], [-1.0], [0.1], [1.0]]), chunks=(3, 1))
    >>> y = da.from_array(np.array(["up", "up", "down", "down", "down", "up", "up"]), chunks=3)
    >>> sequence = da.from_array(np.array([0, 0, 0, 0, 1, 1, 1]), chunks=3)
    >>> import warnings; warnings.simplefilter("ignore", UserWarning)  # that this is too small for a cluster
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = DaskChainSVM(C=10, client=client).fit(X, y, sequence)
    ...     print(model.predict(X, sequence).compute().tolist(), model.score(X, y, sequence))
    ['up', 'up', 'down', 'down', 'down', 'up', 'up'] 1.0
    """

    local: ClassVar[Any] = ChainSVM
    kind: ClassVar[Kind] = "chains"
    whole: ClassVar[str | None] = "sequence"
    unknown: ClassVar[dict[str, str]] = {
        "surrogate": "leave it out, or use ChainSVM",
        "warm_start": "name a checkpoint, from which training goes on",
    }

    def fit(self, X: Any, y: Any, sequence: Any) -> Self:  # type: ignore[override]
        """Train on sequences.

        Parameters
        ----------
        X : Dask array of shape (n, d), or Dask data frame
            Features of all nodes.
        y, sequence : Dask array or series of length n; of a frame, the names of its columns
            Labels, and the sequence that each node belongs to.

        Returns
        -------
        self
        """
        return self._fit_shards(self._from_collections(X, y, sequence))

    def fit_files(self, files: Files, *, shards: int | None = None, cache: Any = None, **options: Any) -> Self:
        """Train on files, which the workers read; see :meth:`maxmargin.dask.DaskRankingSVM.fit_files`. Queries are sequences."""
        return self._fit_shards(self._from_files(files, shards, cache, options))

    def _problem_over(self, engine: DaskEngine) -> ShardedMean:
        problem = ShardedMean.chains(engine, normalize=self.normalize, constant=self.fit_intercept)
        self.classes_ = problem.labels
        self.n_features_in_ = int(problem.shards.task["n_features"])
        self._names = None
        self.C_ = float(self.C) if not self._has_auto_C() else self._auto_C(problem)
        return problem

    def _auto_C(self, problem: ShardedMean) -> float:
        """As :class:`maxmargin.ChainSVM` has it."""
        found = [reply.values for reply in problem.engine.call("sizes")]
        rows = sum(int(info["rows"]) for info in problem.shards.infos)
        squared = math.fsum(answer["squares"] for answer in found) / rows + self.fit_intercept
        factor = AUTO_C / (rows / problem.n_blocks if self.normalize else 1.0)
        return float(np.clip(factor / squared, 1e-30, 1e30)) if squared > 0 else factor

    def predict(self, X: Any, sequence: Any = None) -> Any:
        """The best labels of all rows, a lazy Dask array of shape (n,); a list of sequences is labelled at once."""
        check_is_fitted(self)
        if sequence is None:
            return self.to_local().predict(X)
        local, made = self._for_workers(), self._chunks_to_judge(X, sequence, sequence)
        whole = kept_whole(self._client(), made)
        found = [
            da.from_delayed(delayed(_labelled)(local, made.names, parts), (rows,), self.classes_.dtype)
            for parts, rows in zip(whole.parts, whole.rows, strict=True)
            if rows
        ]
        if not found:
            raise ValueError("X has no rows; there is nothing to label")
        return da.concatenate(found)

    def score(self, X: Any, y: Any, sequence: Any = None) -> float:
        """Mean over the sequences of the fraction of right labels."""
        check_is_fitted(self)
        if sequence is None:
            return float(self.to_local().score(X, y))
        client, local, made = self._client(), self._for_workers(), self._chunks_to_judge(X, y, sequence)
        parts = [own for own in kept_whole(client, made).parts if own]
        found = gathered(client, [delayed(_right)(local, made.names, own) for own in parts])
        total = sum(count for _, count in found)
        if not total:
            raise ValueError("X has no rows; there is nothing to judge")
        return float(math.fsum(right for right, _ in found) / total)


def _sequences(names: Any, parts: list[Any], truth: str = "y") -> tuple[list[Any], NDArray[Any], NDArray[Any]]:
    """Features of every sequence, where sequences end but for the last, and labels of all rows."""
    X, (y, ids) = rows_of_chunks(parts, names, [truth, "sequence"])
    ends = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    edges = [0, *ends.tolist(), X.shape[0]]
    return [X[a:b] for a, b in pairwise(edges)], ends, y


def _labelled(local: ChainSVM, names: Any, parts: list[Any]) -> NDArray[Any]:
    return np.concatenate(local.predict(_sequences(names, parts, "sequence")[0]))


def _right(local: ChainSVM, names: Any, parts: list[Any]) -> tuple[float, int]:
    """The sum over sequences of the fraction of right labels, and how many there are."""
    X, ends, y = _sequences(names, parts)
    found = zip(local.predict(X), np.split(y, ends), strict=True)
    return math.fsum(float(np.mean(labels == truth)) for labels, truth in found), len(X)
