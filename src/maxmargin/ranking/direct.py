"""Linear ranking by direct loss minimisation: the loss itself, not a convex bound of it (spec B8)."""

from __future__ import annotations

import copy
import dataclasses
import numbers
import time
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import starmap
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import StratifiedKFold

from maxmargin._utils import Floats, Ints, seconds_left, time_limit
from maxmargin.core import LISTWISE, Facility, divided, feature_scale
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.ranking.base import RANKING, LinearRanker
from maxmargin.ranking.checked import checked_loss
from maxmargin.ranking.descent import Descent, DirectHistory, Steps, checkpoints_of, descend, try_descents
from maxmargin.ranking.direct_problem import DirectRanking
from maxmargin.ranking.losses import RankingLoss, without_cut_off
from maxmargin.ranking.problem import RankingProblem

_PASSES_OF_THE_START = 1000


@dataclass(eq=False, repr=False)
class DirectLossMinimizer(LinearRanker):
    """Rank samples by a linear score, minimising the mean rank loss itself.

    A hinge grows with every sample that is far on the wrong side; the loss does not, and a few mislabelled samples cannot drag
    it along. But it is piecewise constant, and not convex: it is descended along the gradient of the *direct loss* (see Notes).
    Nothing is proved about the minimum, except that the result is never worse on the training data than the start.

    Parameters
    ----------
    loss : str or RankingLoss, default="ap"
        As in :class:`maxmargin.RankingSVM`, but for ``"accuracy"``, which is no rank loss.
    C : float, default=1.0
        Weight of the hinges in the convex problem of ``start="hinge"``. Descent itself has no regulariser: a ranking knows no
        length of the weights.
    epsilon : float, default=0.1
        First perturbation (see Notes). A large one looks far, a small one sees only samples that are close in score.
    sign : {1, -1}, default=1
        Move away from a worse ranking, or towards a better one. With -1 inference takes O(PN) time and PN bits per query,
        unless the loss has a cut-off.
    start : {"hinge", "zeros"} or array of shape (d,), default="hinge"
        Where descent begins: the weights of a :class:`maxmargin.RankingSVM` (for the loss of all places, if ``loss`` has a
        cut-off), zeros (from which the first step leads to the
        difference of the class means), or these weights.
    standardize : bool, default=True
        Measure weights in standard deviations of the features, also at the start. False is for features that share a scale, such
        as pixels, where those that hardly vary should hardly count.
    step : float, default=0.03
        Length of the first steps, in radians; at most a right angle.
    validation : int, optional
        Judge descent in so many folds (of whole queries, or of the samples of a single list, each with a start of its own) after
        a sixteenth, a quarter and all of ``max_iter`` steps. The best number of steps is taken, if its mean gain exceeds the
        standard error; otherwise the weights are the start.
    n_starts : int, default=1
        Descents; those after the first begin at random weights. The smallest training loss wins.
    relevance_threshold, grades, n_jobs
        As in :class:`maxmargin.RankingSVM`.
    tol : float, default=1e-4
        Stop when the steps are shorter, in radians.
    max_iter : int, default=160
        Most steps of a descent. They are what regularizes, so reaching them is no failure.
    time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`; the callback gets the history of the descent.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Weights; the score of a sample is ``x . coef_``. They have length 1 (times the standard deviation of the features, if
        ``standardize``), unless nothing better than the start was found: then they are the start.
    intercept_ : float
        0, because a constant does not change a ranking.
    training_loss_ : float
        Mean over the queries of the loss of the ranking by score, ties in the least favourable order: what was minimised.
    start_loss_ : float
        The same at the start; ``training_loss_ <= start_loss_``.
    objective_ : float
        Direct loss at ``coef_`` for ``epsilon_``.
    epsilon_ : float
        Perturbation of the step that found ``coef_``.
    certified_ : bool
        False: no bound is proved.
    training_losses_ : list of float
        Training loss at the end of every descent.
    checkpoints_, gains_, gain_, gain_error_, accepted_
        Only with ``validation``: numbers of steps, shape (m,); held-out metric after them less that of the start, shape
        (folds, m); the best mean gain, its standard error, and whether it was taken.
    n_iter_, history_ : int and DirectHistory
        Steps of the best descent.
    n_skipped_queries_, relevance_thresholds_, n_features_in_, feature_names_in_
        As in :class:`maxmargin.RankingSVM`.

    See Also
    --------
    maxmargin.RankingSVM : the convex bound, certified.
    maxmargin.nn.DirectLoss : the same loss for networks.

    Notes
    -----
    The direct loss of a list is ``sign / epsilon * (max_R [F(R) + sign * epsilon * delta(R)] - max_R F(R))``, with ``F`` the mean
    over (positive, negative) pairs of the score differences. It depends on ``w / epsilon`` alone, so descent takes place among
    weights of length 1, and a step has a length in radians. After ten steps without a smaller loss, descent goes back to the best
    weights and halves both the step and epsilon, in whose limit the direct loss is the loss. So an epsilon that is far too large
    (useful ones differ by orders of magnitude between losses) costs some steps and no more.

    Long descents with long steps fit training data more closely than is good for few samples of many features, or for labels of
    which a tenth are wrong: ``step=0.3, epsilon=1, max_iter=1000`` find a smaller training loss, and lose on new images
    and texts. The defaults are short; ``validation`` says whether they helped. For one list of rare events
    :class:`maxmargin.RankingClassifier` does all of it, from a better start.

    Examples
    --------
    Ten labels are wrong, on samples far out, which a hinge cannot ignore:

    >>> from maxmargin import RankingSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = X[:, 0] > 1
    >>> wrong = rng.permutation(np.flatnonzero(~y))[:10]
    >>> X[wrong] *= 5
    >>> y[wrong] = True
    >>> for model in (RankingSVM(C=100).fit(X, y), DirectLossMinimizer(C=100, step=0.3).fit(X, y)):
    ...     print(f"AP {model.score(X, y):.1f}, certified: {model.certified_}")
    AP 0.8, certified: True
    AP 0.9, certified: False
    """

    loss: str | RankingLoss = "ap"
    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 0.1
    sign: Literal[1, -1] = 1
    start: str | ArrayLike = "hinge"
    standardize: bool = True
    step: float = 0.03
    validation: int | None = None
    n_starts: int = 1
    grades: bool | str = False
    tol: float = 1e-4
    max_iter: int = 160

    lacks: ClassVar[Mapping[Facility, str]] = {
        **LISTWISE,
        "certificate": "the loss itself is not convex, and no bound of its minimum is known",
        "path": "there is no regulariser",
        "bounds": "only the direction of the weights counts",
        "surrogate": "the loss itself is minimised, and nothing that bounds it",
    }
    holds: ClassVar[Mapping[str, Any]] = {**RANKING, "certified_": bool, "training_loss_": float, "history_": DirectHistory}

    def _takes_any_size(self) -> bool:
        return True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_positive("epsilon", "step")
        self._check_count("n_starts")
        if self.validation is not None and (not isinstance(self.validation, numbers.Integral) or self.validation < 2):
            raise ValueError(f"validation={self.validation!r} must be a number of folds, at least 2, or None")
        if self.step > np.pi / 2:
            raise ValueError(f"step={self.step!r} must be at most a right angle, {np.pi / 2:.4g}")
        if self.sign not in (1, -1):
            raise ValueError(f"sign={self.sign!r} must be 1 or -1")
        self._check_start("hinge", "zeros")

    def _prepare(self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> RankingProblem:
        return self._lists(*self._check_samples(X, y), qid, sample_weight)[0]

    def _train(self, model: Any) -> Floats:
        began = time.perf_counter()
        for name in ("checkpoints_", "gains_", "gain_", "gain_error_", "accepted_"):
            if hasattr(self, name):
                delattr(self, name)  # of an earlier fit
        problem = self._direct(model)
        scale = self._scales(model) if self.standardize else np.ones(model.n_features)
        rng = np.random.default_rng(self.random_state)
        earlier = self._recalled(model)
        with self._status_line() as line, time_limit(self.time_limit):
            how = Steps(self.step, self.epsilon, self.max_iter, self.tol, seconds_left, self.callback)
            first = self._first_weights(problem, scale) if earlier is None else earlier
            ended = False
            if self.validation is not None:
                folds = ((*parts, self._first_weights(parts[0], scale)) for parts in self._parts(model))
                one_by_one, checkpoints = (lambda attempt: starmap(attempt, folds)), checkpoints_of(self.max_iter)
                tried = try_descents(one_by_one, checkpoints, scale, how, line, began)
                self.checkpoints_, self.gains_, self.gain_, self.gain_error_ = (
                    tried.verdict.checkpoints, tried.verdict.gains, tried.verdict.gain, tried.verdict.error,
                )  # fmt: skip
                ended, self.accepted_ = tried.ended, tried.verdict.accepted and not tried.ended
                # One step looks at the start and leaves it as it is.
                how = dataclasses.replace(how, max_iter=tried.verdict.steps if self.accepted_ else 1)
            runs = [descend(problem, first, scale, how, line, began)]
            while len(runs) < self.n_starts and not _ended(runs[-1]) and how.max_iter > 1:
                runs.append(descend(problem, rng.normal(size=len(scale)) / scale, scale, how, line, began))
        best = min(runs, key=lambda run: run.loss)
        if ended or _ended(runs[-1]):
            self._warn(f"stopped after {len(best.history)} steps; raise time_limit, or let it go on")
        self.start_loss_, self.training_loss_ = runs[0].start_loss, best.loss
        self.training_losses_ = [run.loss for run in runs]
        self.epsilon_ = best.epsilon
        self.objective_ = problem.at(best.weights, best.epsilon).value
        self.certified_ = False
        self.n_iter_, self.history_ = len(best.history), best.history
        self._remember(model, best.weights)
        return best.weights

    def _direct(self, model: Any) -> Any:
        """What is descended."""
        return DirectRanking(model, self.sign)

    def _scales(self, model: Any) -> Floats:
        """What features are divided by to make them comparable, shape (d,)."""
        return feature_scale(model.X)

    def _parts(self, model: Any) -> Iterator[tuple[Any, Any]]:
        """Lists to descend on and lists to judge by: whole queries, or parts of a single list, kept in proportion."""
        offsets, folds = model.offsets, int(self.validation or 0)
        if len(offsets) > 2:
            useful = np.flatnonzero(model.weights.any(axis=0))
            if len(useful) < folds:
                raise ValueError(f"validation={folds} folds need as many queries with samples of both kinds, not {len(useful)}")
            which = np.arange(len(useful)) % folds
            for k in range(folds):
                yield self._of_lists(model, useful[which != k]), self._of_lists(model, useful[which == k])
            return
        relevant = model.relevant[0] > 0
        fewest = int(min(relevant.sum(), (~relevant).sum()))
        if fewest < folds:
            raise ValueError(f"validation={folds} folds need as many samples of each kind, but there are {fewest}; lower it")
        for train, test in StratifiedKFold(folds, shuffle=True, random_state=self.random_state or 0).split(relevant, relevant):
            yield self._of_rows(model, train), self._of_rows(model, test)

    def _of_rows(self, model: RankingProblem, rows: Ints) -> DirectRanking:
        part = RankingProblem(model.X[rows], model.relevant[:, rows] > 0, model.loss, shares=model.weights)
        part.n_jobs = model.n_jobs
        return DirectRanking(part, self.sign)

    def _of_lists(self, model: RankingProblem, lists: Ints) -> DirectRanking:
        rows = np.concatenate([np.arange(*model.offsets[k : k + 2]) for k in lists])
        offsets = np.concatenate([[0], np.cumsum(np.diff(model.offsets)[lists])]).astype(np.int64)
        part = RankingProblem(model.X[rows], model.relevant[:, rows] > 0, model.loss, offsets, shares=model.weights[:, lists])
        part.n_jobs = model.n_jobs
        return DirectRanking(part, self.sign)

    def _first_weights(self, lists: Any, scale: Floats) -> Floats:
        if not isinstance(self.start, str):
            return self._given_start(len(scale), "'hinge' or 'zeros'")
        if self.start == "zeros":
            return np.zeros(len(scale))
        scaled = self._hinges(lists, scale)
        # Only a start: if a budget ends it, it is a start all the same.
        left = seconds_left()
        solver = OneSlackCuttingPlane(max_passes=_PASSES_OF_THE_START, time_limit=max(left, 1e-9) if np.isfinite(left) else None)
        return solver.solve(scaled, 1.0 / (self.C * scaled.n_blocks)).weights / scale

    def _hinges(self, lists: Any, scale: Floats) -> Any:
        """The convex problem of lists whose features are divided by their scales.

        The hinge of the first places is flat where all of them are wrong, and at times smallest at zero: no place to start. All
        places count.
        """
        scaled = copy.copy(lists.model)
        scaled.X = divided(scaled.X, scale)
        scaled.loss = without_cut_off(scaled.loss)
        scaled.checked = checked_loss(scaled.loss)
        return scaled


def _ended(run: Descent) -> bool:
    """By Ctrl-C, a callback or the clock."""
    return run.stopped or run.out_of_time
