"""Labelings of graphs and images: energies, and ways to minimise them."""

from maxmargin.labeling.cliques import Cliques, PnPotts
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.messages import bp, trws
from maxmargin.labeling.metrics import Metric, minkowski, shortest_paths, why_no_metric
from maxmargin.labeling.result import Labeling

__all__ = [
    "Cliques",
    "Energy",
    "Labeling",
    "Metric",
    "PnPotts",
    "bp",
    "minkowski",
    "shortest_paths",
    "trws",
    "why_no_metric",
]
