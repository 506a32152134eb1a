"""Is a rank loss QS-suitable? Checked by enumerating every ranking of a few samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.losses.ranking import RankingLoss

# What rounding may do, as a part of the largest number.
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Failure:
    """The first place where one condition fails for one pair of class sizes."""

    condition: str
    n_pos: int
    n_neg: int
    message: str

    def __str__(self) -> str:
        return f"{self.condition} with {self.n_pos} positives and {self.n_neg} negatives: {self.message}"


@dataclass(frozen=True)
class Suitability:
    """Answer of :func:`check_qs_suitable`; true in a boolean context if the loss passed."""

    loss: RankingLoss
    failures: tuple[Failure, ...] = field(default=())

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the failed conditions, without repetition."""
        return tuple(dict.fromkeys(failure.condition for failure in self.failures))

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if not self.failures:
            return f"{self.loss!r} is QS-suitable"
        first = {failure.condition: failure for failure in reversed(self.failures)}
        return f"{self.loss!r} is not QS-suitable\n" + "\n".join(f"  {first[c]}" for c in sorted(first))


def check_qs_suitable(loss: RankingLoss, max_positives: int = 5, max_negatives: int = 5) -> Suitability:
    """Check the three conditions of exact inference on all lists of up to ``max_positives`` x ``max_negatives`` samples.

    C1: the loss is a sum of one term per negative, and :meth:`RankingLoss.derivative` gives the differences of these
    terms. C2: the differences do not fall from one negative to the next. C3: they can be had for arrays of pairs, and
    are finite.

    Parameters
    ----------
    loss : RankingLoss
        If its ``derivative`` fails, the differences are taken from ``value``, so that C1 and C2 are answered too.
    max_positives, max_negatives : int
        Largest class sizes to enumerate; the work grows like the binomial coefficient of their sum.

    Returns
    -------
    Suitability
        With the place of every failure.

    Examples
    --------
    >>> from maxmargin.losses import AveragePrecision, Discounted
    >>> print(check_qs_suitable(AveragePrecision()))
    AveragePrecision() is QS-suitable
    >>> precision_at_2 = Discounted(lambda position: (position <= 2) * 1.0)
    >>> check_qs_suitable(precision_at_2).failed
    ('C2',)
    """
    if max_positives < 1 or max_negatives < 1:
        raise ValueError("max_positives and max_negatives must be at least 1")
    failures: list[Failure] = []
    for n_pos in range(1, max_positives + 1):
        for n_neg in range(1, max_negatives + 1):
            failures += _failures(loss, n_pos, n_neg)
    return Suitability(loss, tuple(failures))


def is_suitable_for(loss: RankingLoss, sizes: Iterable[tuple[int, int]]) -> bool:
    """Whether inference is exact for lists of these numbers of positives and negatives, as far as spot checks can tell.

    Losses with a compiled form are. Others are enumerated on tiny lists (C1), and on lists as large as the given ones the
    differences are looked at (C2), for some of the positives.
    """
    if loss.native_name() is not None:
        return True
    if not check_qs_suitable(loss, 4, 4):
        return False
    distinct = sorted(set(sizes), key=lambda size: size[0] * size[1])
    kept = {round(k) for k in np.linspace(0, len(distinct) - 1, _PROBED_SIZES)} if distinct else set()
    return all(_rises(loss, *distinct[k]) for k in kept)


_PROBED_SIZES = 10
_PROBED_NEGATIVES = 1_000_000


def _rises(loss: RankingLoss, n_pos: int, n_neg: int) -> bool:
    """Whether differences do not fall from a negative to the next, at many places of a list."""
    j = np.arange(1, min(n_neg, _PROBED_NEGATIVES) + 1)
    for i in np.unique(np.geomspace(1, n_pos, min(n_pos, 8)).astype(np.int64)):
        try:
            values = np.asarray(loss.derivative(j, np.full(len(j), i), n_pos, n_neg))
        except Exception:  # a user's code: whatever it raises, the answer is that it does not work
            return False
        steps = values.astype(np.float64)
        if steps.shape != j.shape or not np.isfinite(steps).all():
            return False
        if np.diff(steps).min(initial=0.0) < -_tolerance(values) * np.abs(steps).max(initial=0.0):
            return False
    return True


def _tolerance(values: NDArray[Any]) -> float:
    return _TOLERANCE if values.dtype.itemsize >= 8 else 1e-5


def _failures(loss: RankingLoss, n_pos: int, n_neg: int) -> list[Failure]:
    failures = []

    def fail(condition: str, message: str) -> None:
        failures.append(Failure(condition, n_pos, n_neg, message))

    every = _all_ranks(n_pos, n_neg)
    try:
        values = np.array([float(loss.value(_negatives_above(ranks, n_pos), n_neg)) for ranks in every])
    except Exception as raised:  # a user's code: whatever it raises, the answer is that it does not work
        fail("C1", f"value(negatives_above, n_neg) fails: {type(raised).__name__} {raised}")
        return failures
    steps, problem, tolerance = _steps(loss, n_pos, n_neg)
    if problem:
        fail("C3", problem)
    if steps is None:
        # What the differences would have to be: drop negative j below positive i, all others where they count least.
        steps = _steps_from_values(loss, n_pos, n_neg)
    tolerance *= max(float(np.abs(values).max()), float(np.abs(steps).max()))
    worst, where = 0.0, ""
    for ranks, actual in zip(every, values.tolist(), strict=True):
        expected = -sum(float(np.sum(steps[j, rank - 1 :])) for j, rank in enumerate(ranks))
        error = abs(actual - expected)
        if not error <= max(worst, tolerance):
            worst, where = error, f"value is {actual:.6g}, the terms add up to {expected:.6g} for interleaving ranks {ranks}"
    if where:
        fail("C1", where)
    rise = np.diff(steps, axis=0)
    if rise.size and not rise.min() >= -tolerance:
        j, i = np.unravel_index(int(np.argmin(rise)), rise.shape)
        fail("C2", f"the difference falls by {-rise[j, i]:.6g} from j={j + 1} to j={j + 2} at i={i + 1}")
    return failures


def _steps(loss: RankingLoss, n_pos: int, n_neg: int) -> tuple[NDArray[np.float64] | None, str, float]:
    """The (n_neg, n_pos) table of derivatives, what is wrong with the way it was obtained, and how exact it is."""
    j, i = (grid.ravel() for grid in np.mgrid[1 : n_neg + 1, 1 : n_pos + 1])
    try:
        values: Any = loss.derivative(j, i, n_pos, n_neg)
    except Exception as error:  # a user's code: whatever it raises, the answer is that it does not work
        return None, f"derivative(j, i, n_pos, n_neg) does not take arrays: {type(error).__name__} {error}", _TOLERANCE
    exactness = _tolerance(np.asarray(values))
    values = np.asarray(values, dtype=np.float64)
    if values.shape != j.shape:
        return None, f"derivative returned shape {values.shape} for {j.size} pairs", exactness
    if not np.isfinite(values).all():
        return None, "derivative returned a value that is not finite", exactness
    return values.reshape(n_neg, n_pos), "", exactness


def _steps_from_values(loss: RankingLoss, n_pos: int, n_neg: int) -> NDArray[np.float64]:
    steps = np.empty((n_neg, n_pos))
    for j in range(n_neg):
        for i in range(n_pos):
            # Negatives before j share its rank, those after it stay below all positives.
            high = [i + 1] * (j + 1) + [n_pos + 1] * (n_neg - j - 1)
            low = [i + 1] * j + [i + 2] + [n_pos + 1] * (n_neg - j - 1)
            steps[j, i] = loss.value(_negatives_above(low, n_pos), n_neg) - loss.value(_negatives_above(high, n_pos), n_neg)
    return steps


def _all_ranks(n_pos: int, n_neg: int) -> list[list[int]]:
    """All non-decreasing vectors of interleaving ranks: every pattern of positives and negatives."""
    patterns = combinations(range(n_pos + n_neg), n_neg)
    return [[position - j + 1 for j, position in enumerate(pattern)] for pattern in patterns]


def _negatives_above(ranks: list[int], n_pos: int) -> NDArray[np.int64]:
    return np.array([sum(rank <= i for rank in ranks) for i in range(1, n_pos + 1)], dtype=np.int64)
