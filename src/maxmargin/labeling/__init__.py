"""Labelings of graphs and images: energies, and ways to minimise them."""

from maxmargin.labeling.cliques import Cliques, PnPotts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.metrics import Metric, minkowski, shortest_paths, why_no_metric
from maxmargin.labeling.minimize import minimize
from maxmargin.labeling.moves import NotSubmodularError
from maxmargin.labeling.result import Labeling
from maxmargin.labeling.uai import UAIError, read_uai, write_uai

__all__ = [
    "Cliques",
    "Energy",
    "Labeling",
    "Metric",
    "NotSubmodularError",
    "PnPotts",
    "UAIError",
    "minimize",
    "minkowski",
    "read_uai",
    "shortest_paths",
    "why_no_metric",
    "write_uai",
]
