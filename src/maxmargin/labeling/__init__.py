"""Labelings of graphs and images: energies, and ways to minimise them."""

from maxmargin.labeling.cliques import Cliques, PnPotts
from maxmargin.labeling.cooccurrence import cooccurrence
from maxmargin.labeling.diversities import L1, Cardinality, Diameter, Diversity, FunctionDiversity, TreeLength, why_no_diversity
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.fractional import FractionalLabeling, expected_energy
from maxmargin.labeling.hierarchical import hierarchical
from maxmargin.labeling.messages import bp, trws
from maxmargin.labeling.metrics import Metric, minkowski, shortest_paths, why_no_metric
from maxmargin.labeling.minimize import minimize
from maxmargin.labeling.moves import NotSubmodularError
from maxmargin.labeling.parsimonious import ParsimoniousLabeling, parsimonious
from maxmargin.labeling.relaxations import relax
from maxmargin.labeling.result import Labeling
from maxmargin.labeling.rounding import Roundings, round_labeling
from maxmargin.labeling.trees import HST, linkage_tree, random_hst, random_tree, refit_heights, star
from maxmargin.labeling.uai import UAIError, read_uai, write_uai

__all__ = [
    "HST",
    "L1",
    "Cardinality",
    "Cliques",
    "Diameter",
    "Diversity",
    "Energy",
    "FractionalLabeling",
    "FunctionDiversity",
    "Labeling",
    "Metric",
    "NotSubmodularError",
    "ParsimoniousLabeling",
    "PnPotts",
    "Roundings",
    "TreeLength",
    "UAIError",
    "bp",
    "cooccurrence",
    "expected_energy",
    "hierarchical",
    "linkage_tree",
    "minimize",
    "minkowski",
    "parsimonious",
    "random_hst",
    "random_tree",
    "read_uai",
    "refit_heights",
    "relax",
    "round_labeling",
    "shortest_paths",
    "star",
    "trws",
    "why_no_diversity",
    "why_no_metric",
    "write_uai",
]
