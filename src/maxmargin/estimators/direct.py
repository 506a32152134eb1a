"""Linear ranking by direct loss minimisation: the loss itself, not a convex bound of it (spec B8)."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import StandardScaler

from maxmargin._types import Floats
from maxmargin.estimators.base import LISTWISE, Facility
from maxmargin.estimators.linear_ranker import RANKING, LinearRanker
from maxmargin.losses import RankingLoss
from maxmargin.problems import RankingProblem
from maxmargin.problems.direct import DirectRanking
from maxmargin.progress import StatusLine
from maxmargin.solvers import OneSlackCuttingPlane
from maxmargin.solvers.solution import Rows
from maxmargin.structures.rows import is_sparse

_PASSES_OF_THE_START = 1000
# Steps without progress after which they get shorter.
_PATIENCE = 10


@dataclass
class DirectHistory(Rows):
    """One row per step: mean loss of the rankings at its weights, and the smallest so far; direct loss there for the perturbation
    ``epsilon``; length of the next step in radians; seconds since the beginning of ``fit``.
    """

    loss: list[float] = field(default_factory=list)
    best_loss: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    epsilon: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass
class _Descent:
    """One run: its best weights, which are at first its start, and how it went."""

    weights: Floats
    loss: float
    epsilon: float
    start_loss: float
    history: DirectHistory
    converged: bool = False
    # By Ctrl-C or a callback.
    stopped: bool = False


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
    epsilon : float, default=1.0
        First perturbation (see Notes). A large one looks far, a small one sees only samples that are close in score.
    sign : {1, -1}, default=1
        Move away from a worse ranking, or towards a better one. With -1 inference takes O(PN) time and PN bits per query,
        unless the loss has a cut-off.
    start : {"hinge", "zeros"} or array of shape (d,), default="hinge"
        Where descent begins: the weights of a :class:`maxmargin.RankingSVM`, zeros (from which the first step leads to the
        difference of the class means), or these weights.
    standardize : bool, default=True
        Measure weights in standard deviations of the features, also at the start. False is for features that share a scale, such
        as pixels, where those that hardly vary should hardly count.
    step : float, default=0.3
        Length of the first steps, in radians; at most a right angle.
    n_starts : int, default=1
        Descents; those after the first begin at random weights. The smallest training loss wins.
    relevance_threshold, grades, n_jobs
        As in :class:`maxmargin.RankingSVM`.
    tol : float, default=1e-4
        Stop when the steps are shorter, in radians.
    max_iter : int, default=1000
        Most steps of a descent; a warning says if they did not suffice.
    time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`; the callback gets the history of the descent.

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

    Long descents fit training data more closely than is good for few samples of many features. There ``max_iter`` is what
    regularizes: a few short steps (``step=0.01, epsilon=0.01``) from a good start, say the weights of a logistic regression.

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
    >>> for model in (RankingSVM(C=100).fit(X, y), DirectLossMinimizer(C=100).fit(X, y)):
    ...     print(f"AP {model.score(X, y):.1f}, certified: {model.certified_}")
    AP 0.8, certified: True
    AP 0.9, certified: False
    """

    loss: str | RankingLoss = "ap"
    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 1.0
    sign: Literal[1, -1] = 1
    start: str | ArrayLike = "hinge"
    standardize: bool = True
    step: float = 0.3
    n_starts: int = 1
    grades: bool | str = False
    tol: float = 1e-4

    lacks: ClassVar[Mapping[Facility, str]] = {
        **LISTWISE,
        "certificate": "the loss itself is not convex, and no bound of its minimum is known",
        "path": "there is no regulariser",
        "bounds": "only the direction of the weights counts",
        "surrogate": "the loss itself is minimised, and nothing that bounds it",
    }
    holds: ClassVar[Mapping[str, Any]] = {**RANKING, "certified_": bool, "training_loss_": float, "history_": DirectHistory}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_positive("epsilon", "step")
        self._check_count("n_starts")
        if self.step > np.pi / 2:
            raise ValueError(f"step={self.step!r} must be at most a right angle, {np.pi / 2:.4g}")
        if self.sign not in (1, -1):
            raise ValueError(f"sign={self.sign!r} must be 1 or -1")
        self._check_start("hinge", "zeros")

    def _prepare(self, X: Any, y: Any, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> RankingProblem:
        return self._lists(*self._check_samples(X, y), qid, sample_weight)[0]

    def _train(self, model: RankingProblem) -> Floats:
        began = time.perf_counter()
        problem = DirectRanking(model, self.sign)
        scale = feature_scale(model.X) if self.standardize else np.ones(model.n_features)
        rng = np.random.default_rng(self.random_state)
        earlier = self._recalled(model)
        first = self._first_weights(model, scale) if earlier is None else earlier
        with self._status_line() as line:
            runs = [self._descend(problem, first, scale, began, line)]
            while len(runs) < self.n_starts and not runs[-1].stopped and not self._out_of_time(began):
                runs.append(self._descend(problem, rng.normal(size=len(scale)) / scale, scale, began, line))
        best = min(runs, key=lambda run: run.loss)
        if not best.converged:
            self._warn(
                f"stopped after {len(best.history)} steps, the last one {best.history.step[-1]:.1g} radians long; raise "
                "max_iter, time_limit or tol"
            )
        self.start_loss_, self.training_loss_ = runs[0].start_loss, best.loss
        self.training_losses_ = [run.loss for run in runs]
        self.epsilon_ = best.epsilon
        self.objective_ = problem.at(best.weights, best.epsilon).value
        self.certified_ = False
        self.n_iter_, self.history_ = len(best.history), best.history
        self._remember(model, best.weights)
        return best.weights

    def _first_weights(self, model: RankingProblem, scale: Floats) -> Floats:
        if not isinstance(self.start, str):
            return self._given_start(len(scale), "'hinge' or 'zeros'")
        if self.start == "zeros":
            return np.zeros(len(scale))
        scaled = copy.copy(model)
        scaled.X = divided(model.X, scale)
        # Only a start: if a budget ends it, it is a start all the same.
        solver = OneSlackCuttingPlane(max_passes=_PASSES_OF_THE_START, time_limit=self.time_limit)
        return solver.solve(scaled, 1.0 / (self.C * scaled.n_blocks)).weights / scale

    def _out_of_time(self, began: float) -> bool:
        return self.time_limit is not None and time.perf_counter() - began >= self.time_limit

    def _descend(self, problem: DirectRanking, first: Floats, scale: Floats, began: float, line: StatusLine) -> _Descent:
        """Normalised gradient steps on the unit sphere; the best weights seen are kept, the first ones as they are."""
        step, epsilon, idle = float(self.step), float(self.epsilon), 0
        start_loss = problem.loss(first)
        run = _Descent(first, start_loss, epsilon, start_loss, DirectHistory())
        unit = best_unit = _unit(scale * first)
        try:
            while True:
                # Zero weights tie everything, which a better ranking cannot improve on; away from the worst ranking works.
                at_zero = not unit.any()
                weights = unit / scale
                point = problem.at(weights, epsilon, 1 if at_zero else None)
                if point.loss < run.loss:
                    run.weights, run.loss, run.epsilon, best_unit, idle = weights, point.loss, epsilon, unit, 0
                else:
                    idle += 1
                run.history.record(point.loss, run.loss, point.value, epsilon, step, time.perf_counter() - began)
                line.show(f"step {len(run.history)}, loss {run.loss:.6f}, step length {step:.1e}")
                run.stopped = self.callback is not None and bool(self.callback(run.history))
                slope = point.gradient / scale
                slope -= float(slope @ unit) * unit
                length = float(np.linalg.norm(slope))
                run.converged = run.loss == 0 or (at_zero and length == 0)
                if run.converged or run.stopped or len(run.history) >= self.max_iter or self._out_of_time(began):
                    break
                if idle >= _PATIENCE or length == 0:
                    step, epsilon, unit, idle = 0.5 * step, 0.5 * epsilon, best_unit, 0
                    if step < self.tol:
                        run.converged = True
                        break
                else:
                    unit = _unit(-slope if at_zero else np.cos(step) * unit - np.sin(step) * slope / length)
        except KeyboardInterrupt:
            if not len(run.history):
                raise
            run.stopped = True
        return run


def feature_scale(X: Any) -> Floats:
    """Standard deviation of every column of a dense or CSR matrix, shape (d,); the largest entry, or 1, where it is constant."""
    largest: Any = abs(X).max(axis=0)
    peak = np.asarray(largest.toarray() if is_sparse(largest) else largest, dtype=np.float64).ravel()
    peak[peak == 0] = 1.0
    # Squares of entries of any size would not be numbers.
    variance = StandardScaler(with_mean=False).fit(divided(X, peak)).var_
    # Rounding gives constant columns some variance.
    return np.asarray(peak * np.where(variance > 1e-24, np.sqrt(variance), 1.0))


def divided(X: Any, scale: Floats) -> Any:
    """The columns of a dense or CSR matrix divided by numbers."""
    if not is_sparse(X):
        return X / scale
    other: Any = X.copy()
    other.data /= scale[other.indices]
    return other


def _unit(direction: Floats) -> Floats:
    """Length 1, or zero."""
    peak = float(np.abs(direction).max())
    if peak == 0:
        return direction
    direction = direction / peak
    return np.asarray(direction / np.linalg.norm(direction))
