"""What a search asks: the best output for a weighing of margin error and loss (spec 7).

The argmax is that of ``h + lam g`` (E6: in print that of a set of outputs). ``h`` is to the right and ``g`` upward, here and in
pictures (E18: in figure 4-1 of the thesis it is the other way round).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats


class Candidate(NamedTuple):
    """An output as a point of the plane.

    Attributes
    ----------
    h, g : float
        Its margin error ``score - score of the truth`` and its loss.
    key : hashable
        By which it is known again.
    output : object
        Whatever the oracle likes.
    """

    h: float
    g: float
    key: Hashable = None
    output: Any = None

    def along(self, a: float, b: float) -> float:
        """``a h + b g``; of the loss alone if ``a`` is zero, however large ``h`` is."""
        return a * self.h + b * self.g if a else b * self.g


class Answer(NamedTuple):
    """The best output found for a question, None if there is none, and an upper bound of ``a h + b g`` over all of them."""

    found: Candidate | None
    upper: float


class LambdaOracle(ABC):
    """Answers questions about the outputs of one sample, and counts them.

    Attributes
    ----------
    truth : Candidate
        The point (0, 0).
    calls : int
    """

    truth: Candidate
    calls: int = 0

    @abstractmethod
    def ask(self, a: float, b: float) -> Answer:
        """The output with the largest ``a h + b g``, for ``a, b >= 0``."""

    def k_best(self, a: float, b: float, k: int) -> list[Candidate]:
        """The ``k`` best distinct outputs, best first; all of them if there are no more."""
        raise NotImplementedError(f"{type(self).__name__} has no k_best")

    def listed(self, a: float, b: float, k: int) -> list[Answer]:
        """The same, each with an upper bound of ``a h + b g`` for all outputs that are not listed before it."""
        return [Answer(found, found.along(a, b)) for found in self.k_best(a, b, k)]

    def within(self, lam: float, low: float, high: float) -> Answer:
        """The output with the largest ``h + lam g`` among those with ``1 + h > 0``, ``g > 0``, ``low <= g / (1 + h) < high``."""
        raise NotImplementedError(f"{type(self).__name__} has no within")

    def best_by_loss(self) -> list[Candidate]:
        """For every loss that there is, an output with the largest ``h``."""
        raise NotImplementedError(f"{type(self).__name__} has no best_by_loss")

    def everything(self) -> Iterable[Candidate]:
        """All outputs."""
        raise NotImplementedError(f"{type(self).__name__} has no everything")

    def losses(self) -> Floats | None:
        """All losses that outputs can have; None if that is not known."""
        return None

    def most_loss(self) -> float:
        """An upper bound of all losses."""
        return self.ask(0.0, 1.0).upper


class Banned(LambdaOracle):
    """The same outputs without some of them, by the ``k`` best of another oracle."""

    def __init__(self, oracle: LambdaOracle, banned: set[Hashable]) -> None:
        self.oracle, self.banned, self.truth = oracle, banned, oracle.truth

    def ask(self, a: float, b: float) -> Answer:
        """The first that is not banned."""
        self.calls += 1
        k = len(self.banned) + 1
        found = self.oracle.listed(a, b, k)
        for candidate, upper in found:
            if candidate is not None and candidate.key not in self.banned:
                return Answer(candidate, upper)
        if len(found) == k:
            raise ValueError(f"k_best returned {k} outputs, but only {len(self.banned)} of them can be distinct")
        return Answer(None, -np.inf)

    def losses(self) -> Floats | None:
        """Those of the oracle."""
        return self.oracle.losses()


class PointOracle(LambdaOracle):
    """Outputs that are points of the plane, all of them known: for tests, pictures and outputs that can be listed.

    Parameters
    ----------
    h, g : arrays of shape (n,)
        Margin errors and losses; the truth, (0, 0), is one more.

    Examples
    --------
    >>> PointOracle([1.0, -1.0], [1.0, 4.0]).ask(1.0, 1.0).found
    Candidate(h=-1.0, g=4.0, key=1, output=None)
    """

    def __init__(self, h: ArrayLike, g: ArrayLike) -> None:
        self.h, self.g = np.asarray(h, dtype=np.float64), np.asarray(g, dtype=np.float64)
        self.truth = Candidate(0.0, 0.0, "truth")
        self.points = [Candidate(float(a), float(b), k) for k, (a, b) in enumerate(zip(self.h, self.g, strict=True))]
        self.points.append(self.truth)

    def ask(self, a: float, b: float) -> Answer:
        """Of equally good points the one with the larger sum."""
        self.calls += 1
        found = self._sorted(self.points, a, b)[0]
        return Answer(found, found.along(a, b))

    def _sorted(self, points: Sequence[Candidate], a: float, b: float) -> list[Candidate]:
        return sorted(points, key=lambda point: (-point.along(a, b), -point.h - point.g))

    def k_best(self, a: float, b: float, k: int) -> list[Candidate]:
        """By sorting."""
        self.calls += 1
        return self._sorted(self.points, a, b)[:k]

    def within(self, lam: float, low: float, high: float) -> Answer:
        """By looking at all points."""
        self.calls += 1
        inside = [point for point in self.points if in_angle(point, low, high)]
        if not inside:
            return Answer(None, -np.inf)
        found = self._sorted(inside, 1.0, lam)[0]
        return Answer(found, found.along(1.0, lam))

    def everything(self) -> list[Candidate]:
        """All points."""
        return self.points


def in_angle(point: Candidate, low: float, high: float) -> bool:
    """Whether ``low <= g / (1 + h) < high`` in the open quadrant."""
    return 1.0 + point.h > 0 and point.g > 0 and low <= point.g / (1.0 + point.h) < high
