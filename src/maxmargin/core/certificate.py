"""What is proved about weights: an upper and a lower bound, and the invariant without which neither means anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Objective = Literal["exact", "bounded", "relaxed"]

# How far rounding can move an objective. In floating-point arithmetic with unit roundoff u = 2**-53, a sum of m terms is wrong by
# at most m * u * (sum of their magnitudes) in any order, and by about sqrt(m) * u where errors are independent. An objective is
# a sum over features (squares and products of weights) of sums over blocks, which are compensated: m is the number of features.
# Where terms have one sign, their magnitudes add up to the objective: 1e-7 of it is enough for m = 9e8.
_RELATIVE = 1e-7
# Where terms cancel (a hinge is a loss plus a difference of scores, each of which may be much larger than what is left), their
# magnitudes add up to what the objective was where they did not cancel: at most the hinge of zero weights, which is the losses
# alone, and the largest objective of the run. 1e-11 of that is enough for m = 9e4, or for m = 8e9 where errors are independent.
# Neither covers scores that lose their digits before they are subtracted, as those of columns whose mean is 1e8 times their
# spread do: bounds that cross there are shown as they are, and nothing is certified.
_CANCELLATION = 1e-11


def cancellation_error(magnitude: float) -> float:
    """Bound of the rounding error of an objective whose terms are up to ``magnitude`` in sum; scales with the problem."""
    return _CANCELLATION * magnitude


@dataclass(frozen=True)
class Certificate:
    """The objective at some weights lies within ``gap`` of the optimum, if ``certified``.

    A gap is never negative: where the dual objective exceeds the primal one by no more than rounding, ``dual`` is set to
    ``primal``. Where it exceeds it by more, ``crossed`` is True, nothing is certified, and both are kept as they are.

    Attributes
    ----------
    primal : float
        The objective, or an upper bound of it where the oracle knows bounds only.
    dual : float
        A lower bound of the optimum.
    proved : bool
        Whether every part of both bounds was computed with an exact oracle, or with one that bounds what it misses.
    oracle_gap : float
        The part of the gap that is the oracle's: how much its bounds exceed the outputs it found. No solver can close it.
    noise : float
        Bound of the rounding errors of sums of numbers that nearly cancel, see :func:`cancellation_error`; those of other sums
        are a part of ``primal``.
    relaxed : bool
        Whether the objective is that of a relaxation. It is nowhere below the true one, so ``primal`` bounds the latter at the
        weights; ``dual`` says nothing of its optimum.
    """

    primal: float
    dual: float
    proved: bool
    oracle_gap: float = 0.0
    noise: float = 0.0
    relaxed: bool = False

    def __post_init__(self) -> None:
        if self.primal < self.dual and not self.crossed:
            object.__setattr__(self, "dual", self.primal)

    @property
    def objective(self) -> Objective:
        """Whose optimum the gap is measured from.

        "exact": the true objective, all of whose maxima were found; "bounded": the true objective, for which ``primal`` is an
        upper bound; "relaxed": that of a relaxation.
        """
        if self.relaxed:
            return "relaxed"
        return "bounded" if self.oracle_gap > self._rounding else "exact"

    @property
    def gap(self) -> float:
        """How far the objective can be from the optimum."""
        return self.primal - self.dual

    @property
    def crossed(self) -> bool:
        """Whether the lower bound exceeds the upper one by more than rounding: then some maximum was missed."""
        return self.dual - self.primal > self._rounding

    @property
    def certified(self) -> bool:
        """Whether the gap is proved: finite, of the right sign, and made by an oracle that can be trusted."""
        finite = all(map(math.isfinite, (self.primal, self.dual, self.oracle_gap)))
        return finite and self.proved and not self.crossed and 0 <= self.oracle_gap <= self.gap + self._rounding

    @property
    def _rounding(self) -> float:
        return _RELATIVE * abs(self.primal) + self.noise

    def scaled(self, factor: float) -> Certificate:
        """The same for the objective times ``factor``."""
        scaled = {name: factor * getattr(self, name) for name in ("primal", "dual", "oracle_gap", "noise")}
        return replace(self, **scaled)

    def attributes(self) -> dict[str, float | str]:
        """The fitted attributes by which estimators show it."""
        return {
            "primal_objective_": float(self.primal),
            "dual_objective_": float(self.dual),
            "dual_gap_": float(self.gap),
            "oracle_gap_": float(self.oracle_gap),
            "certified_": self.certified,
            "certified_objective_": self.objective,
        }

    @classmethod
    def of_attributes(cls, values: Mapping[str, float | str]) -> Certificate:
        """The way back, from a file, say: numbers that contradict each other are not proved."""
        found = cls(
            float(values["primal_objective_"]),
            float(values["dual_objective_"]),
            bool(values["certified_"]),
            float(values.get("oracle_gap_", 0.0)),
            relaxed=values.get("certified_objective_") == "relaxed",
        )
        consistent = abs(float(values["dual_gap_"]) - found.gap) <= found._rounding
        return replace(found, proved=found.proved and consistent)
