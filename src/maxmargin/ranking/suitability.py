"""Is a rank loss QS-suitable? Checked by every ranking of a few samples, and by all differences of some longer lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from maxmargin._utils import Ints
from maxmargin.ranking.checked import CheckedLoss
from maxmargin.ranking.losses import RankingLoss

# Few positives in long lists, about as many as negatives, and one.
_SIZES = ((50, 2000), (300, 300), (1, 100_000))


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


def check_qs_suitable(
    loss: RankingLoss, max_positives: int = 5, max_negatives: int = 5, *, sizes: Iterable[tuple[int, int]] = _SIZES
) -> Suitability:
    """Check the three conditions under which every negative finds its place alone, so that inference is almost linear.

    C1: the loss is a sum of one term per negative, and :meth:`RankingLoss.derivative` gives the differences of these
    terms. C2: the differences do not fall from one negative to the next. C3: they can be had for arrays of pairs, and
    are finite.

    Parameters
    ----------
    loss : RankingLoss
        If its ``derivative`` fails, nothing else is known of it.
    max_positives, max_negatives : int
        C1 is checked on all rankings of up to so many samples; the work grows like the binomial coefficient of their sum.
    sizes : pairs of int
        C2 is checked on these lists too, given by their numbers of positives and negatives: all their differences are
        looked at. Pass the sizes of your own lists to be sure of them.

    Returns
    -------
    Suitability
        With the place of every failure.

    Notes
    -----
    A loss that fails C2 alone is maximised exactly all the same, in O(PN) time; one that fails C1 or C3 is not given by its
    differences.

    Examples
    --------
    >>> from maxmargin.ranking import AveragePrecision, Discounted
    >>> print(check_qs_suitable(AveragePrecision()))
    AveragePrecision() is QS-suitable
    >>> precision_at_2 = Discounted(lambda position: (position <= 2) * 1.0)
    >>> check_qs_suitable(precision_at_2).failed
    ('C2',)
    """
    if max_positives < 1 or max_negatives < 1:
        raise ValueError("max_positives and max_negatives must be at least 1")
    checked = CheckedLoss(loss)
    failures: list[Failure] = []
    for n_pos in range(1, max_positives + 1):
        for n_neg in range(1, max_negatives + 1):
            failures += _failures(checked, n_pos, n_neg)
    if not any(failure.condition == "C3" for failure in failures):
        for size in sizes:
            failures += _falls(checked, *size)
    return Suitability(loss, tuple(failures))


def _falls(loss: CheckedLoss, n_pos: int, n_neg: int) -> list[Failure]:
    """C2 and C3 on one size of list."""
    try:
        fall = loss.fall(n_pos, n_neg)
    except Exception as raised:  # a user's code: whatever it raises, the answer is that it does not work
        return [Failure("C3", n_pos, n_neg, f"derivative(j, i, n_pos, n_neg) fails for arrays: {type(raised).__name__} {raised}")]
    if fall.largest <= loss.rounding:
        return []
    message = f"the difference falls to j={fall.j} at i={fall.i}, by {fall.largest:.2g} of the largest difference"
    return [Failure("C2", n_pos, n_neg, message)]


def _failures(loss: CheckedLoss, n_pos: int, n_neg: int) -> list[Failure]:
    """All conditions on one size of short list."""
    every = _all_ranks(n_pos, n_neg)
    try:
        values = np.array([loss.value(_negatives_above(ranks, n_pos), n_neg) for ranks in every])
    except Exception as raised:  # as above
        return [Failure("C1", n_pos, n_neg, f"value(negatives_above, n_neg) fails: {type(raised).__name__} {raised}")]
    failures = _falls(loss, n_pos, n_neg)
    if any(failure.condition == "C3" for failure in failures):
        return failures
    j, i = (grid.ravel() for grid in np.mgrid[1 : n_neg + 1, 1 : n_pos + 1])
    steps = loss.derivative(j, i, n_pos, n_neg).reshape(n_neg, n_pos)
    added_up = np.array([-sum(float(np.sum(steps[j, rank - 1 :])) for j, rank in enumerate(ranks)) for ranks in every])
    errors = np.abs(values - added_up)
    worst = int(np.argmax(errors))
    if errors[worst] > loss.rounding * max(float(np.abs(values).max()), float(np.abs(steps).max())):
        message = f"value is {values[worst]:.6g}, the terms add up to {added_up[worst]:.6g} for interleaving ranks {every[worst]}"
        failures.append(Failure("C1", n_pos, n_neg, message))
    return failures


def _all_ranks(n_pos: int, n_neg: int) -> list[list[int]]:
    """All non-decreasing vectors of interleaving ranks: every pattern of positives and negatives."""
    patterns = combinations(range(n_pos + n_neg), n_neg)
    return [[position - j + 1 for j, position in enumerate(pattern)] for pattern in patterns]


def _negatives_above(ranks: list[int], n_pos: int) -> Ints:
    return np.array([sum(rank <= i for rank in ranks) for i in range(1, n_pos + 1)], dtype=np.int64)
