"""Which solvers can train with which surrogates."""

from __future__ import annotations

from maxmargin.core import SOLVERS
from maxmargin.core.solvers import Solver
from maxmargin.surrogates.base import Surrogate


def check_convex(surrogate: Surrogate, solver: str | Solver) -> None:
    """Complain about a solver that relies on cuts where a surrogate is not convex and has none."""
    if surrogate.convex or solver == "subgradient" or type(solver) is SOLVERS["subgradient"]:
        return
    raise ValueError(
        f"{surrogate} is not convex: its tangents bound nothing, and solver={solver!r} builds on them; "
        "use solver='subgradient', or the convex one"
    )
