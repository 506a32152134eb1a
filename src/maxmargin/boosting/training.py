"""Rounds of LightGBM that are watched on held-out data, and the round to stop at."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Floats, Ints, seconds_left
from maxmargin.boosting.evaluations import RankEvaluation

# A metric of few positives jumps from round to round; so many on both sides make it smooth enough to choose by.
_NEIGHBOURS = 2


class Part(NamedTuple):
    """Rows to train on or to watch: features, labels, and sizes of queries (None for one list)."""

    X: Any
    y: NDArray[Any]
    group: Ints | None = None


class Watched(NamedTuple):
    """A model after its rounds, and a curve for every metric: its value on the held-out part after every round.

    The status is ``"completed"``, ``"time_limit"`` or ``"interrupted"``.
    """

    booster: Any
    curves: dict[str, Floats]
    status: str = "completed"

    def best_round(self, metric: str) -> tuple[int, float]:
        """How many rounds are best, and how good they are, by the mean over neighbouring rounds."""
        smooth = smoothed(self.curves[metric])
        best = int(np.argmax(smooth))
        return best + 1, float(smooth[best])


def smoothed(curve: Floats) -> Floats:
    """Mean over five neighbouring rounds, over those there are at the ends.

    >>> smoothed(np.array([0.0, 3.0, 3.0, 6.0, 3.0, 9.0]))
    array([2.  , 3.  , 3.  , 4.8 , 5.25, 6.  ])
    """
    sums = np.concatenate([[0.0], np.cumsum(curve)])
    places = np.arange(len(curve))
    first, last = np.maximum(places - _NEIGHBOURS, 0), np.minimum(places + _NEIGHBOURS + 1, len(curve))
    return np.asarray((sums[last] - sums[first]) / (last - first))


def import_lightgbm() -> Any:
    """The library, or a word on how to get it."""
    try:
        import lightgbm
    except ModuleNotFoundError as error:
        if error.name != "lightgbm":
            raise
        raise ImportError("these estimators train with LightGBM; install it with: pip install 'maxmargin[lightgbm]'") from error
    return lightgbm


def train_watched(
    settings: Mapping[str, Any],
    train: Part,
    held_out: Part,
    metrics: Sequence[RankEvaluation],
    rounds: int,
    *,
    patience: int | None = None,
    tell: Callable[[int, float], None] | None = None,
) -> Watched:
    """Train with LightGBM and evaluate every round.

    Ends early if the first metric has not become better for ``patience`` rounds, when the time is over
    (:mod:`maxmargin._utils.deadline`), and at Ctrl-C; one round is always made.
    """
    lgb = import_lightgbm()
    wanted = settings["objective"]
    ours = callable(wanted)
    parameters = {**settings, "objective": "none" if ours else wanted, "metric": "None"}
    # The copy knows nothing of rounds of other trainings.
    rank = copy.deepcopy(wanted) if ours else None
    data = lgb.Dataset(train.X, train.y, group=train.group, params=parameters)
    watched = lgb.Dataset(held_out.X, held_out.y, group=held_out.group, reference=data, params=parameters)
    booster = lgb.Booster(parameters, data).add_valid(watched, "held out")
    curves: dict[str, list[float]] = {metric.metric: [] for metric in metrics}
    first, status = metrics[0].metric, "completed"
    try:
        for number in range(1, rounds + 1):
            ended = booster.update(fobj=rank)
            for _, name, value, _ in booster.eval_valid(feval=list(metrics)):
                curves[name].append(value)
            if tell is not None:
                tell(number, curves[first][-1])
            if ended or (patience is not None and number - int(np.argmax(smoothed(np.array(curves[first])))) > patience):
                break
            if number < rounds and seconds_left() == 0:
                status = "time_limit"
                break
    except KeyboardInterrupt:
        if not all(curves.values()):
            raise
        status = "interrupted"
    return Watched(booster, {name: np.array(values) for name, values in curves.items()}, status)
