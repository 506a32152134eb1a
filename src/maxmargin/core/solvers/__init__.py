"""Solvers of ``min lambda/2 ||w||^2 + mean hinge(w)``, which stop on a certified duality gap."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.core.solvers.base import Solver, check_bounds
    from maxmargin.core.solvers.bcfw import BCFW, NSlackCuttingPlane
    from maxmargin.core.solvers.constrained import ConstrainedCuttingPlane, Margins
    from maxmargin.core.solvers.cutting_plane import KnownCuts, OneSlackCuttingPlane, RunNumbers
    from maxmargin.core.solvers.frank_wolfe import FrankWolfe, Subgradient
    from maxmargin.core.solvers.partial_linearization import ExponentiatedGradient, PartialLinearization
    from maxmargin.core.solvers.simplex_qp import SimplexQP
    from maxmargin.core.solvers.solution import ConvergenceWarning, Curve, History, InexactOracleWarning, Rows, Solution
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
