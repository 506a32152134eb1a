"""The multi-class SVM on a cluster: every shard sums the cuts of its samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from dask import delayed
from sklearn.utils.validation import check_is_fitted

from maxmargin.dask.base import DaskEstimator
from maxmargin.distributed import DaskEngine, Kind, ShardedMean, gathered, rows_of_chunks
from maxmargin.io import Files
from maxmargin.multiclass import MulticlassSVM


@dataclass(eq=False, repr=False)
class DaskMulticlassSVM(DaskEstimator, MulticlassSVM):
    """:class:`maxmargin.MulticlassSVM` on a Dask cluster: the same objective, with the same certificate.

    Parameters
    ----------
    C, costs, fit_intercept, bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.MulticlassSVM`; ``surrogate`` and ``class_weight`` are known with their defaults only. Training is
        by cutting planes, whatever the number of samples.
    client, checkpoint, shards_per_worker, worker_timeout
        As in :class:`maxmargin.dask.base.DaskEstimator`.

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_, feature_names_in_
        As in :class:`maxmargin.MulticlassSVM`; and those of its certificate.
    cluster_ : dict
        What the cluster has done.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> X, y = da.from_array(X, chunks=(40, 4)), da.from_array(y, chunks=40)
    >>> import warnings; warnings.simplefilter("ignore", UserWarning)  # that this is too small for a cluster
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = DaskMulticlassSVM(client=client).fit(X, y)
    ...     print(model.certified_, round(model.score(X, y), 2), model.predict(X)[:2].compute())
    True 0.98 [0 0]
    """

    local: ClassVar[Any] = MulticlassSVM
    kind: ClassVar[Kind] = "classes"
    unknown: ClassVar[dict[str, str]] = {
        "surrogate": "leave it out, or use MulticlassSVM",
        "class_weight": "pass sample_weight to fit",
        "warm_start": "name a checkpoint, from which training goes on",
    }

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on samples X, a Dask array of shape (n, d) or a Dask data frame.

        ``y`` and ``sample_weight`` are Dask arrays or series of length n or, of a frame, the names of its columns.
        """
        return self._fit_shards(self._from_collections(X, y, None, sample_weight))

    def fit_files(self, files: Files, *, shards: int | None = None, cache: Any = None, **options: Any) -> Self:
        """Train on files, which the workers read; see :meth:`maxmargin.dask.DaskRankingSVM.fit_files`. Queries do not matter."""
        return self._fit_shards(self._from_files(files, shards, cache, options))

    def _problem_over(self, engine: DaskEngine) -> ShardedMean:
        problem = ShardedMean.classes(engine, self.costs, constant=self.fit_intercept)
        self.classes_ = problem.labels
        self.n_features_in_ = int(problem.shards.task["n_features"])
        return problem

    def decision_function(self, X: Any) -> Any:
        """Scores, as lazy as X is: of shape (n, K), or (n,) for two classes, where positive means the second.

        For a frame with the labels as columns, or a series.
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:
            return self._map(X, "decision_function", np.float64)
        return self._map(X, "decision_function", np.float64, len(self.classes_), columns=self.classes_)

    def predict(self, X: Any) -> Any:
        """Labels of the largest score, as lazy as X is."""
        check_is_fitted(self)
        return self._map(X, "predict", self.classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The part of the samples whose label is right, by their weights if they have any."""
        check_is_fitted(self)
        local, client = self._for_workers(), self._client()
        made = self._chunks_to_judge(X, y, None, sample_weight)
        counted = [delayed(_right)(local, made.names, *parts) for parts in made.parts]
        found = np.array(gathered(client, counted))
        right, total = found.sum(axis=0)
        if not total > 0:
            raise ValueError("X has no samples, or none that counts; there is nothing to judge")
        return float(right / total)


def _right(local: MulticlassSVM, names: Any, X: Any, y: Any, weight: Any = None) -> tuple[float, float]:
    """Weights of the samples with the right label, and of all."""
    columns = ["y"] if weight is None else ["y", "sample_weight"]
    rows, (truth, *given) = rows_of_chunks([X, y] if weight is None else [X, y, weight], names, columns)
    if not len(truth):
        return 0.0, 0.0
    weights = given[0].astype(np.float64) if given else np.ones(len(truth))
    return float(weights[local.predict(rows) == truth].sum()), float(weights.sum())
