"""What searches return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from maxmargin.surrogates.oracle import Candidate


class Step(NamedTuple):
    """A question ``a h + b g`` and its answer; a cone of slopes ``g / (1 + h)`` if the question was about one."""

    a: float
    b: float
    found: Candidate | None
    upper: float
    cone: tuple[float, float] | None = None


def steps_of(rows: Iterable[tuple[Any, ...]]) -> list[Step]:
    """Steps from the tuples of compiled searches."""
    return list(map(_as_step, rows))


# Tuples as they are: the constructor would take them apart and put them together again.
_as_step = partial(tuple.__new__, Step)


@dataclass
class SearchResult:
    """The best that a search has found, and what it proves.

    Attributes
    ----------
    labels, weights : tuples
        The best point of the convex hull of all outputs that were found: one output, or a mixture of two of them.
    value : float
        psi there.
    incumbent : Candidate
        The best single output.
    best : float
        psi of it.
    upper : float
        An upper bound of psi over all single outputs; infinite if nothing is known.
    calls : int
        Questions to the oracle.
    trace : list of Step
    vertices : list of Candidate
        To begin the next search of the same sample with.
    """

    labels: tuple[Candidate, ...]
    weights: tuple[float, ...]
    value: float
    incumbent: Candidate
    best: float
    upper: float
    calls: int
    trace: list[Step] = field(default_factory=list)
    vertices: list[Candidate] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether nothing better than the incumbent exists, but for rounding."""
        return self.upper <= self.best + ROUNDING * (1.0 + abs(self.best))


# Differences of values below this part of them are rounding.
ROUNDING = 1e-9
