"""Linear ranking by the metric one reports: the AP-SVM, NDCG-SVM and their kin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, check_choice, with_constant
from maxmargin.core import (
    CERTIFICATE,
    LISTWISE,
    SCALES,
    Facility,
    Problem,
    Scale,
    WeightedProblem,
    center_and_scale,
    folded,
    standardized,
    standardized_within,
)
from maxmargin.core.solvers import Solver
from maxmargin.io import query_offsets
from maxmargin.ranking.base import RANKING, LinearRanker, flat_at_zero
from maxmargin.ranking.binary import BinaryProblem
from maxmargin.ranking.losses import RankingLoss
from maxmargin.ranking.problem import RankingProblem
from maxmargin.ranking.structure import RankingStructure
from maxmargin.surrogates import Margin, StructuredProblem, Surrogate, check_convex, make_surrogate


@dataclass(eq=False, repr=False)
class RankingSVM(LinearRanker):
    """Rank samples by a linear score that is trained for a rank loss.

    Minimises ``1/2 ||w||^2 + C * sum over queries of J_q(w)``, where ``J_q`` bounds the loss (1 - AP, 1 - NDCG, ...) of the
    ranking of a query from above, with exact loss-augmented inference. The result comes with a duality gap: the objective
    is within ``dual_gap_`` of the best possible one.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        ``"ap"``, ``"ndcg"``, ``"auc"``, ``"mrr"``, ``"rbp"``; of the first places alone ``"ndcg@10"``, ``"ap@10"``, ``"mrr@10"``,
        ``"p@5"``, ``"recall@20"``; or an object of :mod:`maxmargin.ranking`. A list that is not longer than the cut-off has none.
        Or ``"accuracy"`` for the baseline, an ordinary SVM: ``C`` times the sum over the samples of
        ``max(0, 1 - y (x . w + b))``, with ``b`` in the regulariser.
    C : float, default=1.0
        Weight of the hinges against the regulariser. The hinge is that of a whole list (not a sum over samples), so
        useful values are larger than for a classifier: 10 to 1e4 are common.
    relevance_threshold : float, optional
        Labels above it are relevant. By default a sample is relevant if its label is greater than zero or, where no label is
        zero or less, greater than the smallest (so 0/1, -1/+1, 1/2 and grades all work).
    grades : bool or {"linear", "exponential"}, default=False
        Use all grades. With True the hinge of a query is the mean of those for "label > g", over all grades g that leave it with
        relevant and irrelevant samples, and bounds the mean of these losses. For ``loss="ndcg"`` and ``"ndcg@10"`` the name of
        gains weighs the grades so that the hinge bounds 1 - NDCG with these gains exactly. All of this stays certified.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss is minimised: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, or an object of
        :mod:`maxmargin.surrogates`. All but the first are searched in Python, list by list, on the convex hull of all rankings;
        what that leaves open is in ``oracle_gap_``: little for long lists, a few percent for those of ten samples.
    scale : {"none", "standard", "query"}, default="none"
        What to do with features before training. ``"standard"``: less their mean and divided by their standard deviation over all
        samples; ``coef_`` is for features as they came. ``"query"``: the same within every query, for features that mean
        something only among the documents of a query; ``coef_`` is for features standardised so, and predictions need ``qid``.
        Sparse features are divided only. The certificate and ``bounds`` are about the weights of standardised features.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate.
    n_jobs : int, optional
        Threads for the inference of many queries; all cores by default.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights; the score of a sample is ``x . coef_``.
    intercept_ : float
        0, because a constant does not change a ranking; that of the ordinary SVM for ``loss="accuracy"``.
    training_sketch_ : array of shape (6,)
        Sums over the training data, by which a report knows them again.
    n_skipped_queries_ : int
        Queries without relevant or without irrelevant samples: every ranking of them is right.
    relevance_thresholds_ : array of shape (levels,)
        Labels above it count as relevant; several with ``grades=True``.
    feature_center_, feature_scale_ : arrays of shape (d,)
        With ``scale="standard"``, what was taken off features and what they were divided by.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    maxmargin.most_violating_ranking : the inference inside.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RankingSVM(loss="ap", C=100).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 3)
    0.998
    >>> model.certified_, bool(model.dual_gap_ <= 1e-3 * model.primal_objective_)
    (True, True)
    """

    loss: str | RankingLoss = "ap"
    C: float = 1.0
    _: KW_ONLY
    grades: bool | str = False
    surrogate: str | Surrogate = "margin"
    scale: Scale = "none"
    bounds: tuple[ArrayLike, ArrayLike] | None = None
    solver: str | Solver = "auto"

    lacks: ClassVar[Mapping[Facility, str]] = LISTWISE
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, **RANKING}

    def _prepare(self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Problem:
        surrogate = make_surrogate(self.surrogate)
        check_convex(surrogate, self.solver)
        X, y = self._check_samples(X, y)
        X = self._scaled(X, qid)
        if not (isinstance(self.loss, str) and self.loss == "accuracy"):
            lists = self._lists(X, y, qid, sample_weight)[0]
            return lists if type(surrogate) is Margin else _searched(lists, surrogate)
        if type(surrogate) is not Margin:
            raise ValueError(
                f"loss='accuracy' is the ordinary hinge, which knows no surrogate={self.surrogate!r}; use MulticlassSVM, or a "
                "rank loss"
            )
        relevant = y > self.relevance_thresholds_[0]
        if sample_weight is not None:
            raise ValueError("sample_weight is the weight of a query, which loss='accuracy' does not know; leave it out")
        if relevant.all() or not relevant.any():
            raise ValueError("y must contain relevant and irrelevant samples; mark relevant samples by 1 and the others by 0")
        if qid is not None:
            query_offsets(qid, len(y))
        self.n_skipped_queries_ = 0
        return BinaryProblem(with_constant(X), np.where(relevant, 1, -1))

    # ---- scales of features -------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("scale", self.scale, SCALES)

    def _takes_any_size(self) -> bool:
        return self.scale == "standard"

    def _scaled(self, X: Any, qid: ArrayLike | None) -> Any:
        """Samples to train on; what is needed to undo it becomes fitted attributes."""
        self._forget_scales()
        if self.scale == "query":
            return standardized_within(X, qid)
        if self.scale == "standard":
            self.feature_center_, self.feature_scale_ = center_and_scale(X)
            return standardized(X, self.feature_center_, self.feature_scale_)
        return X

    def _forget_scales(self) -> None:
        """Those of an earlier fit."""
        for name in ("feature_center_", "feature_scale_"):
            if name in vars(self):
                delattr(self, name)

    def _keep(self, weights: Floats) -> None:
        super()._keep(weights)
        if self.scale == "standard":
            coef, intercept = folded(self.coef_, self.intercept_, self.feature_center_, self.feature_scale_)
            # Only the ordinary SVM has one; a constant does not change a ranking.
            self.coef_, self.intercept_ = coef, intercept if len(weights) > self.n_features_in_ else 0.0

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if self.scale == "standard":
            for name in ("feature_center_", "feature_scale_"):
                value = vars(self).get(name)
                if not isinstance(value, np.ndarray) or value.shape != self.coef_.shape or not np.isfinite(value).all():
                    raise ValueError(f"{name} must be {len(self.coef_)} finite numbers")

    def decision_function(self, X: Any, qid: ArrayLike | None = None) -> Floats:
        """Scores, shape (n,); sort them in descending order to rank. The queries are needed with ``scale="query"`` alone."""
        if self.scale != "query":
            return super().decision_function(X)
        check_is_fitted(self)
        return np.asarray(standardized_within(self._check_matrix(X), qid) @ self.coef_) + self.intercept_

    def predict(self, X: Any, qid: ArrayLike | None = None) -> Floats:
        """Scores, shape (n,): as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X, qid)

    def _scores(self, X: Any, qid: ArrayLike | None) -> Floats:
        return self.decision_function(X, qid)

    def _zero_is_best(self, problem: Problem) -> str:
        return flat_at_zero(problem.loss) if isinstance(problem, RankingProblem) and problem.loss.at is not None else ""


def _searched(lists: RankingProblem, surrogate: Surrogate) -> Problem:
    """The same lists, one for every grade that counts, under another surrogate."""
    rows = [slice(*lists.offsets[which : which + 2].tolist()) for _, which in lists.blocks]
    relevant = [lists.relevant[level, own] > 0 for (level, _), own in zip(lists.blocks, rows, strict=True)]
    problem = StructuredProblem(RankingStructure(lists.loss), [lists.X[own] for own in rows], relevant, surrogate)
    weights = np.array([lists.weights[level, which] for level, which in lists.blocks])
    return problem if (weights == 1).all() else WeightedProblem(problem, weights)
