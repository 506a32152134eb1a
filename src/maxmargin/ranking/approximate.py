"""AP-SVM made cheaper by a binary SVM: samples that are easy for it only keep their margin (thesis 3.7.1, spec B9)."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Booleans, Floats, with_constant
from maxmargin.core import CERTIFICATE, LISTWISE, Cut, Facility, Problem
from maxmargin.core.solvers import BCFW, ConstrainedCuttingPlane, Margins
from maxmargin.io import counts_in_lists
from maxmargin.ranking.base import RANKING, LinearRanker
from maxmargin.ranking.binary import BinaryProblem
from maxmargin.ranking.losses import RankingLoss
from maxmargin.ranking.problem import RankingProblem


@dataclass(eq=False, repr=False)
class ApproximateRankingSVM(LinearRanker):
    """Rank samples by a linear score, trained for a rank loss of the difficult samples alone.

    First an ordinary SVM is trained. Of the samples it classifies with a margin of at least 1, those with the largest margins
    are *easy*, all others *difficult*. Then

        ``1/2 ||w||^2 + C * sum over queries of J_q(w)``  subject to  ``y_i (x_i . w) >= 1`` for all easy samples

    is minimised, where ``J_q`` is the hinge of :class:`maxmargin.RankingSVM` of the difficult samples of a query, ``y_i`` is 1
    or -1, and both stages have a constant among the features, whose weight is regularised like the others. The duality gap is
    that of this problem and says nothing about that of ``RankingSVM``.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        As in :class:`maxmargin.RankingSVM`, ``"accuracy"`` excepted.
    C : float, default=1.0
        Weight of the hinges in the second stage, as in :class:`maxmargin.RankingSVM`.
    easy_fraction : float, default=0.5
        Share, from 0 to 1, of the samples with a margin of at least 1 that are taken as easy, the largest margins first. With 0
        the result is that of :class:`maxmargin.RankingSVM`; with 1 inference is cheapest and the weights have the least freedom.
    binary_C : float, default=1.0
        ``C`` of the ordinary SVM, which has the hinge of every sample: that of ``RankingSVM(loss="accuracy")``.
    relevance_threshold, n_jobs
        As in :class:`maxmargin.RankingSVM`.
    tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`: ``tol`` and ``time_limit`` of both stages, the others and the certificate
        of the second. A warm start needs the same ``easy_fraction`` and ``binary_C`` too.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights; the score of a sample is ``x . coef_ + intercept_``. All constraints hold there.
    intercept_ : float
        Weight of the constant. It does not change a ranking, but the margins need it.
    largest_violation_ : float
        By how much the margin of an easy sample falls short of 1: zero up to rounding.
    easy_ : bool array of shape (n,)
        The easy samples.
    n_easy_, n_difficult_ : int
        Numbers of easy samples, and of those whose ranking counts in the second stage.
    binary_coef_, binary_intercept_ : array of shape (d,) and float
        The ordinary SVM.
    n_skipped_queries_, relevance_thresholds_, n_features_in_, feature_names_in_
        As in :class:`maxmargin.RankingSVM`. Skipped queries are left out of both stages.

    See Also
    --------
    maxmargin.RankingSVM : the exact problem; its inference is so fast that little time remains to be saved.

    Notes
    -----
    A query whose difficult samples are all relevant or all irrelevant has no hinge. If there is none at all, the result is the
    shortest vector that satisfies the constraints.

    The ordinary SVM, an optimum or not, satisfies the constraints, so there is always a solution. ``sample_weight`` counts in
    the second stage; in the first every sample of a query with a positive weight counts alike.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ApproximateRankingSVM("ap", C=100, easy_fraction=0.75).fit(scale(X), y)
    >>> print(f"AP {model.score(scale(X), y):.3f}, {model.n_easy_} easy samples, {model.n_difficult_} in the ranking")
    AP 0.999, 401 easy samples, 168 in the ranking
    >>> model.certified_, bool(model.dual_gap_ <= 1e-3 * model.primal_objective_), model.largest_violation_ < 1e-9
    (True, True, True)
    """

    loss: str | RankingLoss = "ap"
    C: float = 1.0
    _: KW_ONLY
    easy_fraction: float = 0.5
    binary_C: float = 1.0

    lacks: ClassVar[Mapping[Facility, str]] = {
        **LISTWISE,
        "path": "weights that satisfy the constraints do so at one scale only",
        "bounds": "the margins of easy samples are constraints already",
        "surrogate": "what is easy is told by the hinges of margin rescaling, whose constraints are linear in the margins",
    }
    holds: ClassVar[Mapping[str, Any]] = {**CERTIFICATE, **RANKING}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_positive("binary_C")
        if not isinstance(self.easy_fraction, numbers.Real) or not 0 <= float(self.easy_fraction) <= 1:
            raise ValueError(f"easy_fraction={self.easy_fraction!r} must be a number from 0 to 1")

    def _prepare(
        self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> tuple[RankingProblem, NDArray[np.intp] | None]:
        return self._lists(*self._check_samples(X, y), qid, sample_weight)

    def _train(self, problem: tuple[RankingProblem, NDArray[np.intp] | None]) -> Floats:
        lists, order = problem
        earlier = self._recalled(lists, self.easy_fraction, self.binary_C)
        rows, signs = with_constant(lists.X), np.where(lists.relevant[0] > 0, 1.0, -1.0)
        counts = np.repeat(lists.weights[0] > 0, np.diff(lists.offsets))
        binary = self._binary_weights(rows[counts], signs[counts]) if earlier is None else earlier[0]
        easy = self._easy_samples(signs * np.asarray(rows @ binary).ravel(), counts)
        margins = Margins(rows[easy], signs[easy])
        second = _difficult(lists, rows, counts & ~easy)
        solver = self._solver(second, ConstrainedCuttingPlane(margins=margins, feasible=binary))
        solution = self._solve(second, solver, None if earlier is None else earlier[1])
        self._certify(solution, self.C * second.n_blocks)
        self._remember(lists, (binary, solution), self.easy_fraction, self.binary_C)
        self.binary_coef_, self.binary_intercept_ = binary[:-1], float(binary[-1])
        self.largest_violation_ = margins.violation(solution.weights)
        self.n_easy_, self.n_difficult_ = int(easy.sum()), int((counts & ~easy).sum())
        self.easy_ = easy
        if order is not None:
            self.easy_ = np.empty_like(easy)
            self.easy_[order] = easy
        return solution.weights

    def _binary_weights(self, rows: Any, signs: Floats) -> Floats:
        """The ordinary SVM. Whether it is optimal matters little, so that nobody is warned if it is not."""
        solver = BCFW(steps="exact", tol=self.tol, time_limit=self.time_limit, random_state=self.random_state or 0)
        return solver.solve(BinaryProblem(rows, signs), 1.0 / (self.binary_C * len(signs))).weights

    def _easy_samples(self, margins: Floats, counts: Booleans) -> Booleans:
        """The given share of those with a margin of at least 1, the largest margins first."""
        candidates = np.flatnonzero(counts & (margins >= 1.0))
        # 0.3 * 10 is a little less than 3.
        n_easy = int(self.easy_fraction * len(candidates) + 1e-9)
        easy = np.zeros(len(margins), dtype=bool)
        easy[candidates[np.argsort(-margins[candidates], kind="stable")[:n_easy]]] = True
        return easy


def _difficult(lists: RankingProblem, rows: Any, difficult: Booleans) -> RankingProblem | _NoHinge:
    """The lists of the difficult samples."""
    sizes = counts_in_lists(difficult[None], lists.offsets)[0]
    left = sizes > 0
    if not left.any():
        return _NoHinge(rows.shape[1])
    offsets = np.concatenate([[0], np.cumsum(sizes[left])])
    relevant = lists.relevant[:, difficult] > 0
    model = RankingProblem(rows[difficult], relevant, lists.loss, offsets, lists.weights[0, left])
    return model if model.n_blocks else _NoHinge(rows.shape[1])


class _NoHinge(Problem):
    """What is left to learn if no ranking can be wrong: a hinge that is zero."""

    n_blocks = 1

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def cut(self, block: int, weights: Floats) -> Cut:
        """Nothing."""
        return Cut(np.zeros(self.n_features), 0.0)
