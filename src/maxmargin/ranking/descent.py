"""Descent of the direct loss of a linear ranking, and whether it is worth its steps, judged on samples that it has not seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin._utils import Floats, Ints, StatusLine
from maxmargin.core import register_history
from maxmargin.core.solvers import Rows
from maxmargin.ranking.direct_problem import DirectPoint

# Steps without progress after which they get shorter.
_PATIENCE = 10


class DirectLists(Protocol):
    """Lists, in memory or over shards, with the mean loss of their rankings and the mean direct loss."""

    def loss(self, weights: Floats) -> float:
        """Mean loss of the rankings by score."""

    def at(self, weights: Floats, epsilon: float, sign: int | None = None) -> DirectPoint:
        """Everything at ``weights``."""


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
class Descent:
    """One run: its best weights, which are at first its start, and how it went."""

    weights: Floats
    loss: float
    epsilon: float
    start_loss: float
    history: DirectHistory
    # The best weights after as many steps as were asked for, one array of shape (d,) for each.
    reached: list[Floats] = field(default_factory=list)
    converged: bool = False
    # By Ctrl-C or a callback.
    stopped: bool = False
    out_of_time: bool = False


@dataclass(frozen=True)
class Steps:
    """How to descend: length of the first steps in radians, first perturbation, when to stop, whom to tell."""

    step: float
    epsilon: float
    max_iter: int
    tol: float
    seconds_left: Callable[[], float]
    callback: Callable[[Any], bool | None] | None = None


def descend(
    problem: DirectLists,
    first: Floats,
    scale: Floats,
    how: Steps,
    line: StatusLine,
    began: float,
    checkpoints: Sequence[int] = (),
) -> Descent:
    """Normalised gradient steps on the unit sphere; the best weights seen are kept, the first ones as they are.

    Parameters
    ----------
    problem : DirectLists
        What is descended.
    first : array of shape (d,)
        Where to begin.
    scale : array of shape (d,)
        What features are divided by to make them comparable.
    how : Steps
        Lengths and budgets.
    line, began
        Where to say how far it is, and when it all began.
    checkpoints : sequence of int
        Numbers of steps after which the best weights are noted, in ascending order; a descent that ends before has its last ones.
    """
    step, epsilon, idle = float(how.step), float(how.epsilon), 0
    start_loss = problem.loss(first)
    run = Descent(first, start_loss, epsilon, start_loss, DirectHistory())
    unit = best_unit = unit_of(scale * first)
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
            run.reached += [run.weights for steps in checkpoints if steps == len(run.history)]
            line.show(f"step {len(run.history)}, loss {run.loss:.6f}, step length {step:.1e}")
            run.stopped = how.callback is not None and bool(how.callback(run.history))
            slope = point.gradient / scale
            slope -= float(slope @ unit) * unit
            length = float(np.linalg.norm(slope))
            run.converged = run.loss == 0 or (at_zero and length == 0)
            if run.converged or run.stopped or len(run.history) >= how.max_iter:
                break
            run.out_of_time = how.seconds_left() <= 0
            if run.out_of_time:
                break
            if idle >= _PATIENCE or length == 0:
                step, epsilon, unit, idle = 0.5 * step, 0.5 * epsilon, best_unit, 0
                if step < how.tol:
                    run.converged = True
                    break
            else:
                unit = unit_of(-slope if at_zero else np.cos(step) * unit - np.sin(step) * slope / length)
    except KeyboardInterrupt:
        if not len(run.history):
            raise
        run.stopped = True
    run.reached += [run.weights] * (len(checkpoints) - len(run.reached))
    return run


def unit_of(direction: Floats) -> Floats:
    """Length 1, or zero."""
    peak = float(np.abs(direction).max())
    if peak == 0:
        return direction
    direction = direction / peak
    return np.asarray(direction / np.linalg.norm(direction))


def checkpoints_of(max_iter: int) -> list[int]:
    """A sixteenth, a quarter and all of the steps.

    >>> checkpoints_of(160), checkpoints_of(3)
    ([10, 40, 160], [1, 3])
    """
    return sorted({max(1, max_iter // 16), max(1, max_iter // 4), max_iter})


class Verdict(NamedTuple):
    """What descents brought on held-out samples.

    ``gains`` has the shape (folds, checkpoints): the metric after so many steps less that of the start. ``steps`` are those with
    the best mean, ``gain`` is this mean and ``error`` its standard error.
    """

    checkpoints: Ints
    gains: Floats
    steps: int
    gain: float
    error: float

    @property
    def accepted(self) -> bool:
        """Whether the mean gain exceeds its standard error."""
        return self.gain > self.error


def judge(checkpoints: Sequence[int], gains: Floats) -> Verdict:
    """The number of steps that helped most, the smallest of several.

    Examples
    --------
    >>> verdict = judge([10, 40], np.array([[0.01, 0.03], [0.02, -0.01], [0.01, 0.0]]))
    >>> verdict.steps, round(verdict.gain, 4), round(verdict.error, 4), verdict.accepted
    (10, 0.0133, 0.0033, True)
    """
    means = gains.mean(axis=0)
    best = int(np.argmax(means))
    own = gains[:, best]
    error = float(own.std(ddof=1) / np.sqrt(len(own))) if len(own) > 1 else float("inf")
    return Verdict(np.array(checkpoints, dtype=np.int64), gains, int(checkpoints[best]), float(means[best]), error)


class Trial(NamedTuple):
    """A descent in one fold: what checkpoints gained on held-out lists, the weights there, and whether something ended it."""

    gains: list[float]
    reached: list[Floats]
    ended: bool


# Gets lists to descend on, lists to judge by, and weights to begin with.
Attempt = Callable[[DirectLists, DirectLists, Floats], Trial]


class Tried(NamedTuple):
    """Descents in folds: the verdict, the weights of every fold after the steps it is about, and whether something ended them."""

    verdict: Verdict
    weights: list[Floats]
    ended: bool


def try_descents(
    in_folds: Callable[[Attempt], Iterable[Trial | None]],
    checkpoints: Sequence[int],
    scale: Floats,
    how: Steps,
    line: StatusLine,
    began: float,
) -> Tried:
    """Descend once in every fold and look at held-out lists on the way.

    Parameters
    ----------
    in_folds : callable
        Makes an attempt in every fold, one after the other or all at once; None stands for one that Ctrl-C has stopped.
    checkpoints : sequence of int
        Numbers of steps, in ascending order, after which to look.
    scale, how, line, began
        As in :func:`descend`.
    """

    def attempt(train: DirectLists, held: DirectLists, first: Floats) -> Trial:
        run = descend(train, first, scale, how, line, began, checkpoints)
        before = held.loss(first)
        return Trial([before - held.loss(weights) for weights in run.reached], run.reached, run.stopped or run.out_of_time)

    trials: list[Trial] = []
    ended = False
    for trial in in_folds(attempt):
        if trial is not None:
            trials.append(trial)
        ended = trial is None or trial.ended
        if ended:
            break
    gains = np.array([trial.gains for trial in trials]) if trials else np.zeros((1, len(checkpoints)))
    verdict = judge(checkpoints, gains)
    at = list(checkpoints).index(verdict.steps)
    return Tried(verdict, [trial.reached[at] for trial in trials], ended)


register_history("direct history", DirectHistory)
