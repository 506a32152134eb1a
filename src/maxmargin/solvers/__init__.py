"""Solvers of ``min 1/2 ||w||^2 + C * hinge(w)``: they eat cuts and stop on a duality gap. They know no task."""

from maxmargin.solvers.cutting_plane import OneSlackCuttingPlane
from maxmargin.solvers.simplex_qp import SimplexQP
from maxmargin.solvers.solution import ConvergenceWarning, History, Solution

__all__ = ["ConvergenceWarning", "History", "OneSlackCuttingPlane", "SimplexQP", "Solution"]
