"""Linear ranking on a cluster, by the metric one reports; a list may lie on any number of workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.dask.base import DaskEstimator
from maxmargin.distributed import DaskEngine, Kind, ShardOf
from maxmargin.io import Files
from maxmargin.ranking import Gains, RankingLoss, RankingSVM, ranking_loss, ranking_over, trained_metric
from maxmargin.ranking.shards import ShardedRanking, check_together, evaluate


@dataclass(eq=False, repr=False)
class DaskRankingSVM(DaskEstimator, RankingSVM):
    """:class:`maxmargin.RankingSVM` on a Dask cluster: the same objective, with the same certificate.

    Queries may be cut by chunks wherever these end, and one list may be as long as all data: its hinge is the exact one
    nevertheless. Rows, scores and gradients stay on the workers. A worker that is lost costs a reload, and changes no bit.

    Parameters
    ----------
    loss, C, relevance_threshold, grades, bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.RankingSVM`; ``surrogate`` is known with its default only.
    scale : {"none", "standard"}, default="none"
        As in :class:`maxmargin.RankingSVM`; the workers add up means and spreads, and rows are not copied.
    n_jobs : int, optional
        Threads for a shard; by default those of a worker over the number of its shards.
    client, checkpoint, shards_per_worker, worker_timeout
        As in :class:`maxmargin.dask.base.DaskEstimator`.

    Attributes
    ----------
    coef_, intercept_, n_skipped_queries_, relevance_thresholds_, n_features_in_, feature_names_in_
        As in :class:`maxmargin.RankingSVM`; and those of its certificate.
    cluster_ : dict
        What the cluster has done.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, y = da.from_array(scale(X), chunks=(200, 30)), da.from_array(y, chunks=200)
    >>> import warnings; warnings.simplefilter("ignore", UserWarning)  # that this is too small for a cluster
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = DaskRankingSVM("ap", C=100, client=client).fit(X, y)
    ...     print(model.certified_, round(model.score(X, y), 3), model.predict(X).compute().shape)
    True 0.998 (569,)
    """

    local: ClassVar[Any] = RankingSVM
    kind: ClassVar[Kind] = "ranking"
    unknown: ClassVar[dict[str, str]] = {
        "surrogate": "leave it out, or use RankingSVM",
        "warm_start": "name a checkpoint, from which training goes on",
    }

    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Train on one list, or on one list per query.

        Parameters
        ----------
        X : Dask array of shape (n, d), or Dask data frame
            Features, in chunks of any sizes.
        y, qid, sample_weight : Dask array or series of length n; of a frame, the names of its columns
            Relevance, queries, weights of queries, as in :meth:`maxmargin.RankingSVM.fit`.

        Returns
        -------
        self
        """
        return self._fit_shards(self._from_collections(X, y, qid, sample_weight))

    def fit_files(self, files: Files, *, shards: int | None = None, cache: Any = None, **options: Any) -> Self:
        """Train on files, which the workers read.

        Parameters
        ----------
        files : path, glob or URL, a list of them, or a folder of packed shards
            All workers must find them at the same place.
        shards : int, optional
            How many parts; by default ``shards_per_worker`` for each worker.
        cache : path, optional
            Folder on the workers' disks for packed shards, which are mapped and need not fit into memory.
        **options
            As in :func:`maxmargin.distributed.share_out`: ``label`` and ``query`` of tables, ``dtype="float32"``, and others.
        """
        return self._fit_shards(self._from_files(files, shards, cache, options))

    def _check_shards(self, problem: ShardedRanking) -> None:
        # Rows of files have an order; those of chunks are where somebody has computed them.
        source = self._engine.sources[0] if self._engine is not None else None
        if isinstance(source, ShardOf) and not all(info["one_list"] for info in problem.shards.infos if info["rows"]):
            check_together(problem.shards)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.loss, str) and self.loss == "accuracy":
            raise ValueError("loss='accuracy' is not known over shards: use DaskMulticlassSVM, or RankingSVM")
        if self.scale == "query":
            raise ValueError("scale='query' is not known over shards: use scale='standard', or RankingSVM")

    def _own_loss(self) -> RankingLoss | None:
        loss = ranking_loss(self.loss)
        return None if loss.native_name() else loss

    def _problem_over(self, engine: DaskEngine) -> ShardedRanking:
        return ranking_over(self, engine)

    def decision_function(self, X: Any, qid: Any = None) -> Any:
        """Scores of the rows, as lazy as X is: a Dask array of shape (n,), or a series for a frame."""
        return self._map(X, "decision_function", np.float64)

    def predict(self, X: Any, qid: Any = None) -> Any:
        """Scores of the rows: as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X)

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> float:
        """The metric that was trained for, as :meth:`maxmargin.RankingSVM.score` has it; exact, and no list is gathered."""
        check_is_fitted(self)
        gains: Literal["linear", "exponential"] = "linear"
        options: dict[str, Any] = {"thresholds": self.relevance_thresholds_}
        loss = ranking_loss(self.loss)
        name = trained_metric(loss)
        if self.grades in get_args(Gains):
            gains, options = self.grades, {}  # type: ignore[assignment]
        if name is None:
            options["loss"] = loss
        with self._shards_to_judge(X, y, qid, sample_weight) as engine:
            found = evaluate(engine, self.coef_, metrics=[] if name is None else [name], gains=gains, **options)
        return next(iter(found.values()))
