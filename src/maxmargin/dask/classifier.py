"""Rare events on a cluster: a tuned logistic regression, refined for a rank metric where that helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.dask.base import DaskEstimator
from maxmargin.dask.engine import DaskEngine
from maxmargin.data.places import Files
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.events import Labels, ShardedEvents
from maxmargin.distributed.kinds import Kind
from maxmargin.estimators import RankingClassifier
from maxmargin.estimators.classifier import CalibratedMethod
from maxmargin.estimators.linear_start import own_metric
from maxmargin.estimators.sharded_events import ClassifierOverShards, SamplesOverShards
from maxmargin.losses import RankingLoss, ranking_loss


@dataclass(eq=False, repr=False)
class DaskRankingClassifier(DaskEstimator, ClassifierOverShards):
    """:class:`maxmargin.RankingClassifier` on a Dask cluster: the same steps with the same folds, on rows that do not move.

    Workers send sums of the logistic loss and its derivatives, and scores of the positives; the best cut and the calibration
    are exact, though no list of all scores is anywhere. Inner folds are masks on the rows, and the same as in one process with
    the same ``random_state``: every worker is sent one byte for each of its rows, once. So the model is that of one process, to
    the tolerance of the solvers: Newton's method for up to 200 dense features, L-BFGS for more and for sparse ones.

    Parameters
    ----------
    loss, C, pos_label, standardize, refine, step, epsilon, threshold, calibration, max_iter, tol
        As in :class:`maxmargin.RankingClassifier`; ``start`` is known with its default only.
    time_limit, random_state, verbose, callback
        As there.
    cv : int or PredefinedSplit, default=5
        Inner folds: their number, or scikit-learn's ``PredefinedSplit`` with the fold of every row, in the order of X.
    client, shards_per_worker, worker_timeout, speculate
        As in :class:`maxmargin.dask.base.DaskEstimator`; there is no checkpoint.

    Attributes
    ----------
    classes_, coef_, intercept_, threshold_, held_out_, C_, Cs_, cv_scores_, refined_, gain_, gain_error_, n_steps_
        As in :class:`maxmargin.RankingClassifier`, and all others that it has.
    cluster_ : dict
        What the cluster has done.

    Notes
    -----
    Features beyond 1e140 are refused. Columns whose mean is more than 1e8 times their spread lose digits in the scores; centre
    them first. The client keeps one byte for every row.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_digits
    >>> X, digit = load_digits(return_X_y=True)
    >>> X, eight = da.from_array(X, chunks=(500, 64)), da.from_array(np.where(digit == 8, "eight", "another"), chunks=500)
    >>> import warnings; warnings.simplefilter("ignore", UserWarning)  # that this is too small for a cluster
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = DaskRankingClassifier(pos_label="eight", C=0.01, refine=False, client=client).fit(X, eight)
    ...     print(round(model.score(X, eight), 2), model.predict(X)[6:9].compute(), model.predict_proba(X).shape)
    0.9 ['another' 'another' 'eight'] (1797, 2)
    """

    local: ClassVar[Any] = RankingClassifier
    kind: ClassVar[Kind] = "events"
    unknown: ClassVar[dict[str, str]] = {
        "start": "the logistic regression is the only start there; use RankingClassifier for the hinge",
        "checkpoint": "training keeps none; leave it out",
    }

    def fit(self, X: Any, y: Any) -> Self:
        """Tune, refine, cut and calibrate.

        Parameters
        ----------
        X : Dask array of shape (n, d), or Dask data frame
            Features, none of them missing, in chunks of any sizes.
        y : Dask array or series of length n; of a frame, the name of its column
            Labels of two classes, of any type.

        Returns
        -------
        self
        """
        return self._fit_shards(self._from_collections(X, y))

    def fit_files(self, files: Files, *, shards: int | None = None, cache: Any = None, **options: Any) -> Self:
        """Train on files, which the workers read; see :meth:`maxmargin.dask.DaskRankingSVM.fit_files`. They have no queries."""
        return self._fit_shards(self._from_files(files, shards, cache, options))

    def _own_loss(self) -> RankingLoss | None:
        loss = ranking_loss(self.loss)
        return None if loss.native_name() else loss

    def _problem_over(self, engine: DaskEngine) -> SamplesOverShards:
        return self._over(Conversation(engine))

    def _n_passes(self, engine: DaskEngine) -> int:
        # Every question is one.
        return engine.rounds

    # ---- predictions --------------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Any:
        """Scores, as lazy as X is: a Dask array of shape (n,), or a series for a frame; positive for ``classes_[1]``."""
        check_is_fitted(self)
        return self._map(X, "decision_function", np.float64)

    def predict(self, X: Any) -> Any:
        """Labels by the cut that ``threshold`` asked for, as lazy as X is."""
        check_is_fitted(self)
        return self._map(X, "predict", self.classes_.dtype)

    @CalibratedMethod
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of both classes, as lazy as X is: a Dask array of shape (n, 2), or a frame with the labels as columns."""
        check_is_fitted(self)
        return self._map(X, "predict_proba", np.float64, 2, columns=self.classes_)

    @CalibratedMethod
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities of both classes."""
        check_is_fitted(self)
        return self._map(X, "predict_log_proba", np.float64, 2, columns=self.classes_)

    def score(self, X: Any, y: Any) -> float:
        """The metric that was trained for, as that of :class:`maxmargin.RankingClassifier`; exact, and no list is gathered."""
        check_is_fitted(self)
        loss, positive = ranking_loss(self.loss), self._positive()
        weights = np.append(self.coef_[0], self.intercept_[0])
        with self._shards_to_judge(X, y) as engine:
            events = ShardedEvents(engine, Labels(self.classes_, positive), self.n_features_in_)
            return events.metrics(loss, [-1], [weights if positive == 1 else -weights], own_metric(loss))[0]
