"""What is proved about weights: an upper and a lower bound, and the invariant without which neither means anything."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

Objective = Literal["exact", "bounded", "relaxed"]

# What rounding may do to a difference of two objectives, as a part of the larger one.
_ROUNDING = 1e-7


@dataclass(frozen=True)
class Certificate:
    """The objective at some weights lies within ``gap`` of the optimum, if ``certified``.

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
        Size of rounding errors where objectives are sums of numbers that nearly cancel.
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
        return _ROUNDING * abs(self.primal) + self.noise

    def scaled(self, factor: float) -> Certificate:
        """The same for the objective times ``factor``."""
        scaled = {name: factor * getattr(self, name) for name in ("primal", "dual", "oracle_gap", "noise")}
        return replace(self, **scaled)

    def attributes(self) -> dict[str, Any]:
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
    def of_attributes(cls, values: dict[str, Any]) -> Certificate:
        """The way back, from a file, say: numbers that contradict each other are not proved."""
        found = cls(
            values["primal_objective_"],
            values["dual_objective_"],
            bool(values["certified_"]),
            values.get("oracle_gap_", 0.0),
            relaxed=values.get("certified_objective_") == "relaxed",
        )
        consistent = abs(values["dual_gap_"] - found.gap) <= found._rounding
        return replace(found, proved=found.proved and consistent)
