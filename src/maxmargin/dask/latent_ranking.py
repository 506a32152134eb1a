"""Ranking with weak supervision on a cluster: rows are candidates, and each says which bag it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import dask.array as da
import numpy as np
from dask import delayed
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin import metrics
from maxmargin._types import Floats
from maxmargin.dask.base import DaskEstimator
from maxmargin.dask.collections import Whole, gathered, kept_whole, rows_of_chunks
from maxmargin.dask.engine import DaskEngine
from maxmargin.data.places import Files
from maxmargin.distributed import ShardedLatentRanking
from maxmargin.distributed.bag_shard import check_labels_of_bags
from maxmargin.distributed.kinds import Kind
from maxmargin.distributed.sums import tree_sum
from maxmargin.estimators import LatentRankingSVM
from maxmargin.estimators.latent_estimator import LatentEstimator
from maxmargin.estimators.linear_ranker import loss_of_ranking, trained_metric
from maxmargin.losses import RankingLoss, ranking_loss


@dataclass(eq=False, repr=False)
class DaskLatentRankingSVM(DaskEstimator, LatentRankingSVM):
    """:class:`maxmargin.LatentRankingSVM` on a Dask cluster: the same rounds, each with the same certificate.

    A data set are the candidates of all bags below each other, with a column that tells bags apart and the label of its bag in
    every row. Candidates of a bag stand next to each other; chunks may end in the middle of it.

    Parameters
    ----------
    loss, C, n_starts, start, max_rounds, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.LatentRankingSVM`, of which ``formulation="latent_ap"`` is known.
    client, shards_per_worker, worker_timeout, speculate
        As in :class:`maxmargin.dask.base.DaskEstimator`; a checkpoint is not kept.

    Attributes
    ----------
    coef_, intercept_, relevance_threshold_, n_features_in_, feature_names_in_
        As in :class:`maxmargin.LatentRankingSVM`; and those of rounds and certificate.
    cluster_ : dict
        What the cluster has done.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.from_array(np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), chunks=(3, 2))
    >>> y, bag = (da.from_array(np.array(values), chunks=3) for values in ([1, 1, 0, 0], [0, 0, 1, 1]))
    >>> import warnings; warnings.simplefilter("ignore", UserWarning)  # that this is too small for a cluster
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = DaskLatentRankingSVM(C=10, client=client).fit(X, y, bag)
    ...     print(model.predict(X, bag).compute().shape, model.score(X, y, bag))
    (2,) 1.0
    """

    local: ClassVar[Any] = LatentRankingSVM
    kind: ClassVar[Kind] = "bags"
    whole: ClassVar[str | None] = "bag"
    unknown: ClassVar[dict[str, str]] = {
        "formulation": "use 'latent_ap', or LatentRankingSVM",
        "checkpoint": "rounds of imputation begin anew; leave it out",
    }

    def fit(self, X: Any, y: Any, bag: Any) -> Self:  # type: ignore[override]
        """Train on one list of bags.

        Parameters
        ----------
        X : Dask array of shape (n, d), or Dask data frame
            Candidates of all bags.
        y, bag : Dask array or series of length n; of a frame, the names of its columns
            The relevance of the bag of a candidate, and which bag that is.

        Returns
        -------
        self
        """
        return self._fit_shards(self._from_collections(X, y, bag))

    def fit_files(self, files: Files, *, shards: int | None = None, cache: Any = None, **options: Any) -> Self:
        """Train on files, which the workers read; see :meth:`maxmargin.dask.DaskRankingSVM.fit_files`. Queries are bags."""
        return self._fit_shards(self._from_files(files, shards, cache, options))

    def _own_loss(self) -> RankingLoss | None:
        loss = ranking_loss(self.loss)
        return None if loss.native_name() else loss

    def _problem_over(self, engine: DaskEngine) -> ShardedLatentRanking:
        problem = ShardedLatentRanking(engine, self.loss)
        self.n_features_in_ = problem.n_features
        self.relevance_threshold_ = float(problem.thresholds[0])
        return problem

    def _train(self, problem: Any) -> Floats:
        # Nobody here knows the candidates of all bags.
        return LatentEstimator._train(self, problem)

    def _first_weights(self, problem: Any, start: int, rng: np.random.Generator) -> Floats | None:
        if start > 0 or (isinstance(self.start, str) and self.start == "random"):
            return None
        if not isinstance(self.start, str):
            return self._given_start(problem.n_features, "'means' or 'random'")
        asked = (problem.n_features, self.relevance_threshold_)
        found = [reply.values for reply in problem.engine.call("mean_candidates", asked)]
        n_relevant, n_bags = (sum(answer[name] for answer in found) for name in ("n_relevant", "n_bags"))
        relevant, others = (tree_sum([answer[name] for answer in found]) for name in ("relevant", "others"))
        return np.asarray(relevant / n_relevant - others / (n_bags - n_relevant))

    def decision_function(self, X: Any, bag: Any = None) -> Any:
        """The score of the best candidate of every bag, a lazy Dask array; bags in memory are scored at once."""
        check_is_fitted(self)
        if bag is None:
            return self.to_local().decision_function(X)
        whole, names = self._bags(X, bag, bag)
        found = [
            da.from_delayed(delayed(_scored)(self.coef_, names, parts, False), (count,), np.float64)
            for parts, count in zip(whole.parts, whole.sequences, strict=True)
            if count
        ]
        if not found:
            raise ValueError("X has no rows; there is nothing to score")
        return da.concatenate(found)

    def predict(self, X: Any, bag: Any = None) -> Any:
        """The same scores: as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X, bag)

    def score(self, X: Any, y: Any, bag: Any = None) -> float:
        """The metric that was trained for; a score and a label of every bag come to the client."""
        check_is_fitted(self)
        if bag is None:
            return float(self.to_local().score(X, y))
        whole, names = self._bags(X, y, bag)
        client = self._client()
        tasks = [delayed(_scored)(self.coef_, names, parts, True) for parts in whole.parts if parts]
        found = np.concatenate(gathered(client, tasks), axis=1)
        scores, relevant = found[0], found[1] > self.relevance_threshold_
        if relevant.all() or not relevant.any():
            raise ValueError("y must contain relevant and irrelevant bags, but holds only one class; score a larger set")
        loss = ranking_loss(self.loss)
        name = trained_metric(loss)
        if name is None:
            return 1.0 - loss_of_ranking(loss, relevant, scores)
        return metrics.evaluate(relevant, scores, metrics=[name])[name]

    def _bags(self, X: Any, y: Any, bag: Any) -> tuple[Whole, Any]:
        made = self._chunks_to_judge(X, y, bag)
        return kept_whole(self._client(), made, "bag"), made.names


def _scored(coef: Floats, names: Any, parts: list[Any], labelled: bool) -> NDArray[Any]:
    """The score of the best candidate of every bag, and below it its label if that is asked for."""
    X, (y, ids) = rows_of_chunks(parts, names, ["y" if labelled else "bag", "bag"])
    if X.shape[1] != len(coef):
        raise ValueError(f"X has {X.shape[1]} features, but the model was trained with {len(coef)}")
    starts = np.concatenate([[0], np.flatnonzero(ids[1:] != ids[:-1]) + 1])
    of_rows = np.asarray(X @ coef)
    bad = np.flatnonzero(~np.isfinite(of_rows))
    if len(bad):
        bag = ids[bad[0]].item()
        raise ValueError(f"X must be finite: a candidate of bag {bag!r} has a NaN or infinite feature; remove or replace it")
    scores = np.maximum.reduceat(of_rows, starts)
    if not labelled:
        return scores
    labels = check_labels_of_bags(y, np.append(starts, len(y)))
    return np.array([scores, labels])
