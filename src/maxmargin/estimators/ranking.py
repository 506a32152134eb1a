"""Linear ranking by the metric one reports: the AP-SVM, NDCG-SVM and their kin."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.estimators.linear_ranker import LinearRanker, mark_of
from maxmargin.estimators.multiclass import with_constant
from maxmargin.estimators.training import check_budgets, train
from maxmargin.losses import RankingLoss
from maxmargin.problems import BinaryProblem, RankingProblem
from maxmargin.queries import query_offsets
from maxmargin.solvers import Solver


class RankingSVM(LinearRanker):
    """Rank samples by a linear score that is trained for a rank loss.

    Minimises ``1/2 ||w||^2 + C * sum over queries of J_q(w)``, where ``J_q`` bounds the loss (1 - AP, 1 - NDCG, ...) of the
    ranking of a query from above, with exact loss-augmented inference. The result comes with a duality gap: the objective
    is within ``dual_gap_`` of the best possible one.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        ``"ap"``, ``"ndcg"``, ``"auc"``, ``"mrr"``, or an object of :mod:`maxmargin.losses`; or ``"accuracy"`` for the baseline,
        an ordinary SVM: ``C`` times the sum over the samples of ``max(0, 1 - y (x . w + b))``, with ``b`` in the regulariser.
    C : float, default=1.0
        Weight of the hinges against the regulariser. The hinge is that of a whole list (not a sum over samples), so
        useful values are larger than for a classifier: 10 to 1e4 are common.
    relevance_threshold : float, optional
        Labels above it are relevant. By default a sample is relevant if its label is greater than zero or, where no label is
        zero or less, greater than the smallest (so 0/1, -1/+1, 1/2 and grades all work).
    grades : bool or {"linear", "exponential"}, default=False
        Use all grades. With True the hinge of a query is the mean of those for "label > g", over all grades g that leave it with
        relevant and irrelevant samples, and bounds the mean of these losses. For ``loss="ndcg"`` the name of gains weighs the
        grades so that the hinge bounds 1 - NDCG with these gains exactly. All of this stays certified.
    solver : str or Solver, default="auto"
        As in :class:`maxmargin.MulticlassSVM`.
    tol : float, default=1e-3
        Stop when ``gap <= tol * primal``.
    max_iter : int, default=1000
        Most passes over the queries; a warning says if they did not suffice.
    time_limit : float, optional
        Seconds after which training stops with what it has.
    warm_start : bool, default=False
        Go on from the last ``fit``, perhaps with another ``C``, if the data are the same; start anew if they are not.
    random_state : int, optional
        Seed of solvers that draw queries at random.
    verbose : int, default=0
        Progress on standard error if 1.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights; the score of a sample is ``x . coef_``.
    intercept_ : float
        0, because a constant does not change a ranking; that of the ordinary SVM for ``loss="accuracy"``.
    primal_objective_, dual_objective_, dual_gap_ : float
        Objective at ``coef_``, a lower bound of the optimum, and their difference.
    certified_ : bool
        Whether the gap is proved (inference was exact).
    n_iter_ : int
        Passes.
    n_skipped_queries_ : int
        Queries without relevant or without irrelevant samples: every ranking of them is right.
    history_ : History
        Primal, dual and seconds after each check; ``history_.plot()`` draws it.
    relevance_thresholds_ : array of shape (levels,)
        Labels above it count as relevant; several with ``grades=True``.
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

    def __init__(
        self,
        loss: str | RankingLoss = "ap",
        C: float = 1.0,
        *,
        relevance_threshold: float | None = None,
        grades: bool | str = False,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        warm_start: bool = False,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.relevance_threshold = relevance_threshold
        self.grades = grades
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on one list, or on one list per query.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            Features.
        y : array of shape (n,)
            Relevance: labels or grades.
        qid : array of shape (n,), optional
            The query each sample belongs to, numbers or strings, in any order. Queries without relevant or without
            irrelevant samples are skipped and counted.
        sample_weight : array of shape (n,), optional
            Weight of the query a sample belongs to, not negative and the same for all samples of a query.

        Returns
        -------
        self
        """
        check_budgets(self)
        problem, _ = self._prepare(X, y, qid, sample_weight)
        mark = mark_of(problem) if self.warm_start and isinstance(problem, RankingProblem) else None
        solution = train(self, problem, start=self._recalled(mark))
        self._remember(mark, solution)
        self._keep(solution.weights)
        return self

    def _prepare(
        self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> tuple[RankingProblem | BinaryProblem, None]:
        """The problem to solve; its weights have no bounds."""
        X, y = self._check_samples(X, y)
        if not (isinstance(self.loss, str) and self.loss == "accuracy"):
            return self._lists(X, y, qid, sample_weight)[0], None
        relevant = y > self.relevance_thresholds_[0]
        if sample_weight is not None:
            raise ValueError("sample_weight is the weight of a query, which loss='accuracy' does not know; leave it out")
        if relevant.all() or not relevant.any():
            raise ValueError("y must contain relevant and irrelevant samples; mark relevant samples by 1 and the others by 0")
        if qid is not None:
            query_offsets(qid, len(y))
        self.n_skipped_queries_ = 0
        return BinaryProblem(with_constant(X), np.where(relevant, 1, -1)), None

    def _keep(self, weights: NDArray[np.float64]) -> None:
        """Weights of the problem as fitted attributes."""
        has_constant = len(weights) > self.n_features_in_
        self.coef_ = weights[: self.n_features_in_].copy()
        self.intercept_ = float(weights[-1]) if has_constant else 0.0
