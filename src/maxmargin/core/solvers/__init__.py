"""Solvers of ``min lambda/2 ||w||^2 + mean hinge(w)``, which stop on a certified duality gap."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.core.solvers.base import Solver as Solver
    from maxmargin.core.solvers.base import check_bounds
    from maxmargin.core.solvers.bcfw import BCFW as BCFW
    from maxmargin.core.solvers.bcfw import NSlackCuttingPlane as NSlackCuttingPlane
    from maxmargin.core.solvers.constrained import ConstrainedCuttingPlane as ConstrainedCuttingPlane
    from maxmargin.core.solvers.constrained import Margins as Margins
    from maxmargin.core.solvers.cutting_plane import KnownCuts as KnownCuts
    from maxmargin.core.solvers.cutting_plane import OneSlackCuttingPlane as OneSlackCuttingPlane
    from maxmargin.core.solvers.cutting_plane import RunNumbers
    from maxmargin.core.solvers.frank_wolfe import FrankWolfe as FrankWolfe
    from maxmargin.core.solvers.frank_wolfe import Subgradient as Subgradient
    from maxmargin.core.solvers.partial_linearization import ExponentiatedGradient as ExponentiatedGradient
    from maxmargin.core.solvers.partial_linearization import PartialLinearization as PartialLinearization
    from maxmargin.core.solvers.simplex_qp import SimplexQP as SimplexQP
    from maxmargin.core.solvers.solution import ConvergenceWarning as ConvergenceWarning
    from maxmargin.core.solvers.solution import Curve, Rows
    from maxmargin.core.solvers.solution import History as History
    from maxmargin.core.solvers.solution import InexactOracleWarning as InexactOracleWarning
    from maxmargin.core.solvers.solution import Solution as Solution
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
