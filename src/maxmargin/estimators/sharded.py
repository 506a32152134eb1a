"""Rankers trained on parts of the data, which an engine asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from maxmargin._types import Floats
from maxmargin.distributed import Engine, ShardedDirect, ShardedRanking, feature_scaling
from maxmargin.distributed.folded import FoldedRanking
from maxmargin.distributed.status import ClusterLine
from maxmargin.estimators.direct import DirectLossMinimizer
from maxmargin.estimators.linear_ranker import LinearRanker
from maxmargin.estimators.ranking import RankingSVM
from maxmargin.losses.ranking import without_cut_off
from maxmargin.progress import StatusLine


def ranking_over(model: RankingSVM, engine: Engine) -> ShardedRanking:
    """The problem of a ranker over shards; what is known of the data becomes fitted attributes, scales of features among them.

    With ``scale="standard"`` the weights of the problem are those of standardised features, as on one machine.
    """
    grades: Any = model.grades
    scale = None
    model._forget_scales()
    if model.scale == "standard":
        model.feature_center_, model.feature_scale_ = feature_scaling(engine)
        scale = model.feature_scale_
    problem = ShardedRanking(engine, model.loss, relevance_threshold=model.relevance_threshold, grades=grades, scale=scale)
    _note(model, problem)
    return problem


class ShardedDirectMinimizer(DirectLossMinimizer):
    """A :class:`maxmargin.DirectLossMinimizer` that is trained on an engine in place of samples; :meth:`plain` is the usual one.

    Starts, steps and the folds of ``validation`` are those of one machine, but for rounding.

    Attributes
    ----------
    repeats : int
        Questions that had to be asked again.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = X[:, 0] > 1
    >>> engine = LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, y, 3)])
    >>> model = ShardedDirectMinimizer(C=100, validation=5).fit_engine(engine).plain()
    >>> same = DirectLossMinimizer(C=100, validation=5).fit(X, y)
    >>> model.accepted_ == same.accepted_, abs(model.gain_ - same.gain_) < 1e-9
    (True, True)
    """

    repeats: int = 0
    _engine: Engine | None = None

    def fit_engine(self, engine: Engine) -> Self:
        """Train."""
        self._engine = engine
        try:
            return self._fit(engine, None)
        finally:
            self._engine = None

    def plain(self) -> DirectLossMinimizer:
        """The same model without any engine, for files."""
        made = DirectLossMinimizer(**self.get_params(deep=False))
        for name, value in vars(self).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(made, name, value)
        return made

    def _prepare(self, X: Any, y: Any, *args: Any, **data: Any) -> Any:
        grades: Any = self.grades
        problem = FoldedRanking(X, self.loss, relevance_threshold=self.relevance_threshold, grades=grades)
        _note(self, problem)
        return problem

    def _train(self, model: Any) -> Floats:
        try:
            return super()._train(model)
        finally:
            self.repeats = model.shards.repeats

    def _direct(self, model: Any) -> Any:
        return ShardedDirect(model, self.sign)

    def _scales(self, model: Any) -> Floats:
        return feature_scaling(model.shards)[1]

    def _parts(self, model: Any) -> Iterator[tuple[Any, Any]]:
        for train, test in model.folds(int(self.validation or 0), self.random_state or 0):
            yield ShardedDirect(train, self.sign), ShardedDirect(test, self.sign)

    def _hinges(self, lists: Any, scale: Floats) -> Any:
        return lists.problem.with_loss(without_cut_off(lists.problem.loss), scale)

    def _status_line(self) -> StatusLine:
        line = ClusterLine("DirectLossMinimizer", shown=bool(self.verbose))
        line.engine = self._engine
        return line


def _note(model: LinearRanker, problem: ShardedRanking) -> None:
    model.n_features_in_ = problem.n_features
    model.relevance_thresholds_ = problem.thresholds
    model.n_skipped_queries_ = problem.n_skipped
