"""Ranking with weak supervision: latent AP-SVM and the two methods it is compared with."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Booleans, Floats, Ints, check_choice, warn
from maxmargin.core import CERTIFICATE, Facility, LatentEstimator
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.ranking.bag_input import as_rows, check_annotations, check_filled, check_finite, check_labels
from maxmargin.ranking.bags import Bags
from maxmargin.ranking.base import flat_at_zero, loss_of_ranking, relevant_labels, trained_metric
from maxmargin.ranking.latent_problem import ImputedBags, JointLatentRankingProblem, LatentBinaryProblem, LatentRankingProblem
from maxmargin.ranking.losses import RankingLoss, ranking_loss
from maxmargin.ranking.metrics import evaluate


@dataclass(eq=False, repr=False)
class LatentRankingSVM(LatentEstimator):
    """Rank bags of candidates by their best candidate, knowing only which bags are relevant.

    Minimises ``F(w) = 1/2 ||w||^2 + C * hinge(w)``, where the hinge of ``formulation="latent_ap"`` bounds the loss (1 - AP, ...)
    of ranking the bags by ``M_k(w)``, the score of the best candidate of bag k. The problem is not convex. In every round
    the candidates of the relevant bags are fixed at the best ones for the last weights, and the convex problem that remains
    is solved with exact inference (irrelevant bags always use their best candidate) to a certified gap. Rounds never raise
    ``F``; where they end depends on the start, and nothing is certified about the minimum of ``F``.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        ``"ap"``, ``"ndcg"``, ``"ndcg@10"`` and so on, or an object of :mod:`maxmargin.ranking`. For ``"latent_svm"`` it
        is only the metric of :meth:`score`.
    C : float, default=1.0
        Weight of the hinge, as in :class:`maxmargin.RankingSVM`. The latent SVM has the mean over the bags.
    formulation : {"latent_ap", "latent_svm", "latent_ssvm"}, default="latent_ap"
        Latent AP-SVM; the binary latent SVM of multiple-instance learning; or the latent structured SVM, whose violating
        output chooses ranking and candidates together. The last needs of the order of ``P N`` assignment problems per inference,
        which is for small problems only, and its greedy inference is not exact: nothing is certified then. Objectives of
        different formulations cannot be compared.
    n_starts : int, default=1
        Runs from different candidates; the lowest objective wins.
    start : {"means", "random"} or array of shape (d,), default="means"
        First candidates of the first start: the best ones for the difference of the mean relevant and the mean irrelevant
        candidate, random ones, or the best ones for these weights. Further starts are random.
    max_rounds : int, default=400
        Most rounds of imputation.
    positive_weight : float, default=1.0
        Latent SVM: weight J of the relevant bags.
    outlier_fraction : float, default=0.0
        Latent SVM: share of the highest scoring candidates of irrelevant bags that is ignored, anew in every round; each
        bag keeps its lowest one. If it is positive the objective changes from round to round and may rise; at most 20 rounds.
    fit_intercept : bool, default=True
        Latent SVM: learn a constant (regularised). The others need none.
    variant : {"A1", "standard"}, default="A1"
        Latent structured SVM: what the hinge is measured from, see :class:`maxmargin.ranking.JointLatentRankingProblem`. The
        hinge of ``"standard"`` does not bound the loss of the ranking by best candidates.
    inference : {"greedy", "exact"}, default="greedy"
        Latent structured SVM: ``"exact"`` tries all patterns, for a handful of bags.
    tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.structured.latent.LatentEstimator`, which also tells the attributes of rounds and certificate.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights; the score of a bag is ``max over its candidates of x . coef_ + intercept_``.
    intercept_ : float
        0 except for the latent SVM.
    objective_ : float
        ``F(coef_)``, with greedy inference a lower bound of it.
    candidates_ : int array of shape (n,)
        Best candidate of every training bag, counted inside the bag; the annotated one where there is one.
    relevance_threshold_ : float
        Labels above it count as relevant.
    n_features_in_ : int

    See Also
    --------
    maxmargin.RankingSVM : the same with one candidate per bag.
    maxmargin.ranking.supervised_share : annotations for studies of the level of supervision.

    Notes
    -----
    With several candidates per bag a random start seldom leads anywhere: random candidates of relevant bags lose against the
    best ones of the others, so the first convex problem is solved by weights near zero, and there ``F`` is stationary. An
    ``objective_`` close to C times the largest possible loss is the sign of it.

    Bags come as a list of arrays of shape (candidates, d), as an array of shape (n, m, d), or as one matrix of all candidates
    together with ``offsets``. The matrix is never copied as a whole: it may be float32 (sums are in float64) and a
    ``np.memmap``, and one inference call reads it once.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def bags(n):                       # one candidate of a relevant bag is shifted
    ...     X, y = rng.normal(size=(n, 5, 10)), np.arange(n) % 4 == 0
    ...     X[y, rng.integers(0, 5, n)[y], :2] += 2.5
    ...     return X, y
    >>> model = LatentRankingSVM(C=10, random_state=0).fit(*bags(200))
    >>> print(f"{model.score(*bags(1000)):.1f}")
    0.9
    >>> model.certified_, bool(np.all(np.diff(model.objectives_) <= 0))
    (True, True)
    """

    loss: str | RankingLoss = "ap"
    C: float = 1.0
    _: KW_ONLY
    formulation: Literal["latent_ap", "latent_svm", "latent_ssvm"] = "latent_ap"
    start: str | ArrayLike = "means"
    max_rounds: int = 400
    positive_weight: float = 1.0
    outlier_fraction: float = 0.0
    fit_intercept: bool = True
    variant: Literal["A1", "standard"] = "A1"
    inference: Literal["greedy", "exact"] = "greedy"

    lacks: ClassVar[Mapping[Facility, str]] = {
        "path": "the objective is not convex, so no bound holds between two solutions",
        "bounds": "cuts of earlier rounds are kept for free weights only",
        "sample_weight": "there is one list, whose weight is C",
        "class_weight": "relevant and irrelevant bags share a hinge; positive_weight is that of the latent SVM",
        "n_jobs": "one list is one thread",
        "surrogate": "cuts of earlier rounds are kept, and made valid for other rows of bags, for margin rescaling only",
        "warm_start": "start=coef_ goes on from earlier weights",
    }
    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "n_features_in_": int,
        "coef_": ("n_features_in_",),
        "intercept_": (),
        "relevance_threshold_": float,
    }
    _METHOD = OneSlackCuttingPlane()

    def fit(self, X: Any, y: ArrayLike, offsets: ArrayLike | None = None, annotations: ArrayLike | None = None) -> Self:
        """Train on one list of bags.

        Parameters
        ----------
        X : list of arrays of shape (m_k, d), array of shape (n, m, d), or matrix of shape (m, d) with ``offsets``
            Candidates.
        y : array of shape (n,)
            Relevance of the bags, coded as for :class:`maxmargin.RankingSVM`.
        offsets : int array of shape (n + 1,), optional
            Bag k has the rows ``offsets[k]:offsets[k + 1]`` of the matrix X.
        annotations : int array of shape (n,), optional
            The right candidate of a bag, counted inside the bag, or -1 if it is unknown. Others of an annotated bag are
            ignored, as if it had one candidate.

        Returns
        -------
        self
        """
        return self._fit(X, y, offsets=offsets, annotations=annotations)

    def _prepare(
        self, X: Any, y: ArrayLike, offsets: ArrayLike | None = None, annotations: ArrayLike | None = None
    ) -> ImputedBags:
        rows, bounds = as_rows(X, offsets)
        labels = check_labels(y, len(bounds) - 1)
        self.relevance_threshold_, relevant = relevant_labels(labels, "bags")
        check_filled(bounds, np.flatnonzero(relevant), "relevant bag")
        given = check_annotations(annotations, bounds)
        kept = np.diff(bounds) > 0
        if not kept.all():
            warn(
                f"X has no candidates for {np.count_nonzero(~kept)} irrelevant bags, the first is {np.argmin(kept)}; they are "
                "left out"
            )
            if not (kept & ~relevant).any():
                raise ValueError("X has no candidates for any irrelevant bag; give at least one of them a row")
        bags = Bags(rows, np.append(bounds[:-1][kept], bounds[-1]), None if given is None else given[kept])
        check_finite(bags, np.flatnonzero(kept))
        self.n_features_in_ = bags.n_features
        problem = self._problem(bags, relevant[kept])
        self.candidates_ = np.where(kept, 0, -1)
        return problem

    def _train(self, problem: Any) -> Floats:
        weights = super()._train(problem)
        bags = problem.bags
        self.candidates_[self.candidates_ >= 0] = bags.highest(weights[: bags.n_features])[1] - bags.offsets[:-1]
        # The latent SVM has a hinge of its own, for which the loss does not matter.
        loss = ranking_loss(self.loss)
        if self.formulation != "latent_svm" and not weights.any() and loss.at is not None:
            self._warn(f"ends at zero weights, {flat_at_zero(loss)}")
        return weights

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_positive("positive_weight")
        check_choice("formulation", self.formulation, ("latent_ap", "latent_svm", "latent_ssvm"))
        check_choice("variant", self.variant, ("A1", "standard"))
        check_choice("inference", self.inference, ("greedy", "exact"))
        share = self.outlier_fraction
        if not isinstance(share, numbers.Real) or not 0 <= float(share) < 1:
            raise ValueError(f"outlier_fraction={share!r} must be at least 0 and less than 1")
        if share and self.formulation != "latent_svm":
            raise ValueError(f"outlier_fraction={share!r} is for formulation='latent_svm' only; leave it at 0")
        self._check_start("means", "random")

    def _problem(self, bags: Bags, relevant: Booleans) -> ImputedBags:
        loss = ranking_loss(self.loss)
        if self.formulation == "latent_ap":
            return LatentRankingProblem(bags, relevant, loss)
        if self.formulation == "latent_svm":
            intercept = bool(self.fit_intercept)
            return LatentBinaryProblem(bags, relevant, self.positive_weight, intercept, float(self.outlier_fraction))
        return JointLatentRankingProblem(bags, relevant, loss, self.variant, self.inference)

    def _first_weights(self, problem: ImputedBags, start: int, rng: np.random.Generator) -> Floats | None:
        d = problem.bags.n_features
        if start > 0 or (isinstance(self.start, str) and self.start == "random"):
            return None
        means = isinstance(self.start, str)
        weights = problem.bags.mean_difference(problem.relevant) if means else self._given_start(d, "'means' or 'random'")
        return np.append(weights, np.zeros(problem.n_features - d))

    def _keep(self, weights: Floats) -> None:
        self.coef_ = weights[: self.n_features_in_].copy()
        self.intercept_ = float(weights[-1]) if len(weights) > self.n_features_in_ else 0.0

    def _scored(self, X: Any, offsets: ArrayLike | None) -> tuple[Floats, Ints]:
        check_is_fitted(self)
        rows, bounds = as_rows(X, offsets)
        check_filled(bounds)
        bags = Bags(rows, bounds)
        self._check_width(bags.n_features)
        check_finite(bags)
        scores, best = bags.highest(self.coef_)
        return scores + self.intercept_, best - bounds[:-1]

    def decision_function(self, X: Any, offsets: ArrayLike | None = None) -> Floats:
        """Score of the best candidate of every bag, shape (n,); sort in descending order to rank."""
        return self._scored(X, offsets)[0]

    def predict(self, X: Any, offsets: ArrayLike | None = None) -> Floats:
        """The same scores: as in other rankers, the prediction is what to sort by."""
        return self.decision_function(X, offsets)

    def best_candidates(self, X: Any, offsets: ArrayLike | None = None) -> Ints:
        """The best candidate of every bag, counted inside the bag, shape (n,); the first of several."""
        return self._scored(X, offsets)[1]

    def score(self, X: Any, y: ArrayLike, offsets: ArrayLike | None = None) -> float:
        """The metric that was trained for on new bags: AP, NDCG, AUC, MRR, precision, recall, RBP; 1 - loss for other losses."""
        scores = self.decision_function(X, offsets)
        relevant = check_labels(y, len(scores)) > self.relevance_threshold_
        if relevant.all() or not relevant.any():
            raise ValueError("y must contain relevant and irrelevant bags, but holds only one class; score a larger set")
        loss = ranking_loss(self.loss)
        # The metric need not be 1 - loss: AUC counts half of a tied pair, precision may not reach 1.
        name = trained_metric(loss)
        if name is None:
            return 1.0 - loss_of_ranking(loss, relevant, scores)
        return evaluate(relevant, scores, metrics=[name])[name]

    def _check_fitted(self) -> None:
        ranking_loss(self.loss)

    def report(
        self,
        X: Any,
        y: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        path: str | os.PathLike[str] = "report.html",
        baselines: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Path:
        """Write one HTML page about the model, judged on labelled bags; see :func:`maxmargin.report.write_report`.

        Rows on the page are bags; the spread of a feature is that over all candidates. Estimators among the ``baselines`` score
        the same bags. Options are ``feature_names``, ``title`` and ``notes``.
        """
        others = {
            name: other.decision_function(X, offsets) if hasattr(other, "decision_function") else other
            for name, other in (baselines or {}).items()
        }
        scores = self.decision_function(X, offsets)
        return self._write_report(as_rows(X, offsets)[0], y, path=path, baselines=others, scores=scores, **options)
