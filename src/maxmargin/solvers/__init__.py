"""Solvers of ``min lambda/2 ||w||^2 + mean hinge(w)``: they eat cuts and stop on a duality gap. They know no task."""

from maxmargin.solvers.base import Solver
from maxmargin.solvers.bcfw import BCFW, NSlackCuttingPlane
from maxmargin.solvers.constrained import ConstrainedCuttingPlane, Margins
from maxmargin.solvers.cutting_plane import KnownCuts, OneSlackCuttingPlane
from maxmargin.solvers.frank_wolfe import FrankWolfe, Subgradient
from maxmargin.solvers.partial_linearization import ExponentiatedGradient, PartialLinearization
from maxmargin.solvers.simplex_qp import SimplexQP
from maxmargin.solvers.solution import ConvergenceWarning, History, InexactOracleWarning, Solution

__all__ = [
    "BCFW", "ConstrainedCuttingPlane", "ConvergenceWarning", "ExponentiatedGradient", "FrankWolfe", "History",
    "InexactOracleWarning", "KnownCuts", "Margins", "NSlackCuttingPlane", "OneSlackCuttingPlane",
    "PartialLinearization", "SimplexQP", "Solution", "Solver", "Subgradient",
]  # fmt: skip
