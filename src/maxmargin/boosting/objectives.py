"""Structured hinges of rank losses as objectives of boosted trees.

A round of boosting fits a tree to the gradient of the hinge ``J`` at the present scores plus fresh normal noise. The noise
matters: it smooths the hinge over the rounds, and without it trees chase single margins. The Hessian of a hinge is zero almost
everywhere, so something else has to bound the step: on a single list the size of the gradient, which keeps every leaf within the
learning rate, on queries a constant. A row's gradient never exceeds its share of the loss, ``curvature``, and that is a safe
constant, but steps are small: the hinge averaged over the noise is far less curved, by Stein's identity about a fourth of it
(0.2 to 0.3 on the four data sets looked at). Half of it, between the two, is the default, ``step=2``.
"""

from __future__ import annotations

import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import ArgumentError, Floats, Reals, check_choice, thread_count
from maxmargin.boosting.datasets import Labelled, is_data_set, read_arrays, read_data_set
from maxmargin.boosting.graded import Gains, GradedLists
from maxmargin.ranking import RankingLoss, ranking_loss

Hessian = Literal["auto", "constant", "gradient"]


@dataclass(eq=False)
class RankObjective:
    """The hinge of a rank loss as a custom objective of LightGBM and XGBoost; :func:`objective` makes one.

    It is called by the libraries, with scores and a data set or, by their scikit-learn interfaces, with labels and scores.
    """

    loss: str | RankingLoss = "ndcg"
    _: KW_ONLY
    noise: float = 1.0
    scale: float = 1.0
    floor: float = 0.05
    gains: Gains = "exponential"
    relevance_threshold: float | None = None
    hessian: Hessian = "auto"
    step: float = 2.0
    random_state: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        ranking_loss(self.loss)
        for name, least in (("noise", "0 or more"), ("scale", "positive"), ("floor", "positive"), ("step", "positive")):
            value = getattr(self, name)
            fine = isinstance(value, numbers.Real) and np.isfinite(float(value)) and float(value) >= 0
            if not fine or (least == "positive" and value == 0):
                raise ArgumentError(name, f"{name}={value!r} is no number of the right kind", f"pass a number that is {least}")
        check_choice("gains", self.gains, get_args(Gains))
        check_choice("hessian", self.hessian, get_args(Hessian))
        threshold = self.relevance_threshold
        if threshold is not None and not (isinstance(threshold, numbers.Real) and np.isfinite(float(threshold))):
            raise ArgumentError("relevance_threshold", f"relevance_threshold={threshold!r} is no number", "pass one, or None")
        if not isinstance(self.random_state, numbers.Integral) or not 0 <= self.random_state < 2**63:
            raise ArgumentError("random_state", f"random_state={self.random_state!r} is no seed", "pass an integer from 0 on")
        thread_count(self.n_jobs)
        self._forget()

    def _forget(self) -> None:
        self._of_data_sets: WeakKeyDictionary[Any, _Training] = WeakKeyDictionary()
        self._of_arrays: _Training | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Copies begin anew: what was prepared, and the number of the round, belong to a training.
        return {name: value for name, value in vars(self).items() if name not in ("_of_data_sets", "_of_arrays")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: ArrayLike | None = None, group: ArrayLike | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradient and Hessian, shapes (n,).

        Parameters
        ----------
        y_true : array of shape (n,)
            Labels; the scores, if a data set follows.
        y_pred : array of shape (n,), lightgbm.Dataset or xgboost.DMatrix
            Scores; or the data set, which knows labels, queries and weights.
        sample_weight : array of shape (n,), optional
            Weight of the query of a row, the same for all of its rows.
        group : array of shape (q,), optional
            Numbers of rows of the queries; all rows are one list without it.
        """
        if is_data_set(y_pred):
            scores, data = y_true, read_data_set(y_pred)
            training = self._of_data_sets.get(y_pred)
        else:
            scores, data = y_pred, read_arrays(y_true, sample_weight, group)
            training = self._of_arrays
        values = np.ascontiguousarray(scores, dtype=np.float64)
        if values.ndim != 1:
            raise ArgumentError(
                "objective", f"a rank loss takes one score per row, but they have shape {values.shape}", "train one output"
            )
        if training is None or not training.data.same(data):
            lists = GradedLists(data, len(values), ranking_loss(self.loss), self.gains, self.relevance_threshold)
            training = _Training(data.copy(), lists)
            if is_data_set(y_pred):
                self._of_data_sets[y_pred] = training
            else:
                self._of_arrays = training
        return self._step(training, values)

    def _step(self, training: _Training, scores: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        lists, number = training.lists, training.next_round(scores)
        noisy: Reals = scores
        if self.noise:
            noisy = _core.with_noise(scores, self.noise, self.random_state, number)
        gradient = lists.gradient(noisy, self.scale, thread_count(self.n_jobs))
        if self.hessian == "constant" or (self.hessian == "auto" and not lists.one_list):
            return gradient, lists.curvature / np.float32(self.step)
        hessian = np.abs(gradient)
        return gradient, np.maximum(hessian, training.floors(self.floor), out=hessian)


class _Training:
    """What one training of a model needs from round to round."""

    def __init__(self, data: Labelled, lists: GradedLists) -> None:
        self.data, self.lists = data, lists
        self._first: Floats | None = None
        self._moved = False
        self._round = -1
        self._floors: tuple[float, NDArray[np.float32]] | None = None

    def next_round(self, scores: Floats) -> int:
        """Number of this round, from 0. Scores that are again those of the first round mean that a new model is trained."""
        at_start = self._first is not None and _equal(scores, self._first)
        if self._first is None or (at_start and self._moved):
            self._first, self._moved, self._round = scores.copy(), False, 0
        else:
            self._moved, self._round = not at_start, self._round + 1
        return self._round

    def floors(self, floor: float) -> NDArray[np.float32]:
        """The least Hessians, made once."""
        if self._floors is None or self._floors[0] != floor:
            self._floors = floor, floor * self.lists.curvature
        return self._floors[1]


def _equal(a: Floats, b: Floats) -> bool:
    """Whether two vectors are the same; the first rows mostly say that they are not."""
    return bool(np.array_equal(a[:64], b[:64]) and np.array_equal(a, b))


def objective(
    loss: str | RankingLoss = "ndcg",
    *,
    noise: float = 1.0,
    scale: float = 1.0,
    floor: float = 0.05,
    gains: Gains = "exponential",
    relevance_threshold: float | None = None,
    hessian: Hessian = "auto",
    step: float = 2.0,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> RankObjective:
    """A rank loss as an objective of LightGBM or XGBoost, for queries or for one list of any length.

    Parameters
    ----------
    loss : str or RankingLoss, default="ndcg"
        ``"ndcg"``, ``"ap"``, ``"auc"``, ``"mrr"``, or an object of :mod:`maxmargin.ranking`. NDCG has grades; for all others rows
        are relevant or not. Train for the metric that counts.
    noise : float, default=1.0
        Standard deviation of the normal noise on the scores, drawn anew in every round.
    scale : float, default=1.0
        Scores count so many times: the smaller it is, the wider the margins.
    floor : float, default=0.05
        Least Hessian of a row of a single list, in units of one over the size of its class.
    gains : {"exponential", "linear"}
        Of grades in NDCG: ``2**grade - 1``, as in LightGBM and XGBoost, or the grade itself.
    relevance_threshold : float, optional
        Labels above it are relevant; with it NDCG has no grades. By default 0, or the smallest label if that is larger.
    hessian : {"auto", "constant", "gradient"}
        Constant, or the size of the gradient; by default the first for queries and the second for a single list.
    step : float, default=2.0
        What the constant Hessian is divided by: 1 keeps every leaf within the learning rate, 4 is about Newton's step for the
        hinge averaged over the noise. No part of a Hessian that is the size of the gradient.
    random_state : int, default=0
        Seed of the noise, together with the number of the round.
    n_jobs : int, optional
        Threads for the inference of many long lists; all cores by default.

    Returns
    -------
    RankObjective
        A callable that can be copied and pickled. Pass it as ``params={"objective": ...}`` to ``lightgbm.train`` and
        ``lightgbm.cv``, as ``objective=`` to LightGBM's estimators and ``XGBRegressor``, as ``obj=`` to ``xgboost.train``
        (``XGBRanker`` takes no objectives of one's own).

    Examples
    --------
    With labels and scores, as the scikit-learn interfaces call it:

    >>> gradient, hessian = objective("ap", noise=0.0)([1, 0, 0], [0.0, 1.0, -1.0])
    >>> gradient, hessian
    (array([-0.5,  0.5,  0. ], dtype=float32), array([0.5  , 0.5  , 0.025], dtype=float32))
    """
    return RankObjective(
        loss, noise=noise, scale=scale, floor=floor, gains=gains, relevance_threshold=relevance_threshold, hessian=hessian,
        step=step, random_state=random_state, n_jobs=n_jobs,
    )  # fmt: skip
