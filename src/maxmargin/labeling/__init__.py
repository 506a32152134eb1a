"""Inference without training: energies of labelings and their minimisation, minimum cuts, max-marginals, trees, relaxations and
rounding.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.labeling.cliques import Cliques as Cliques
    from maxmargin.labeling.cliques import PnPotts as PnPotts
    from maxmargin.labeling.cooccurrence_moves import cooccurrence as cooccurrence
    from maxmargin.labeling.descents import ForestSearch
    from maxmargin.labeling.distances import Metric as Metric
    from maxmargin.labeling.distances import minkowski as minkowski
    from maxmargin.labeling.distances import shortest_paths as shortest_paths
    from maxmargin.labeling.distances import why_no_metric as why_no_metric
    from maxmargin.labeling.diversities import L1 as L1
    from maxmargin.labeling.diversities import Cardinality as Cardinality
    from maxmargin.labeling.diversities import Diameter as Diameter
    from maxmargin.labeling.diversities import Diversity as Diversity
    from maxmargin.labeling.diversities import FunctionDiversity as FunctionDiversity
    from maxmargin.labeling.diversities import TreeLength as TreeLength
    from maxmargin.labeling.diversities import why_no_diversity as why_no_diversity
    from maxmargin.labeling.energy import Energy as Energy
    from maxmargin.labeling.energy import grid_edges
    from maxmargin.labeling.flow import GRID_STEPS, check_edges, real_array
    from maxmargin.labeling.flow import FlowGraph as FlowGraph
    from maxmargin.labeling.flow import MinimumCut as MinimumCut
    from maxmargin.labeling.flow import minimum_cut as minimum_cut
    from maxmargin.labeling.fractional import FractionalLabeling as FractionalLabeling
    from maxmargin.labeling.fractional import expected_energy as expected_energy
    from maxmargin.labeling.fractional import marginals_for, pairwise_slopes
    from maxmargin.labeling.graphcut import BinaryLabeling as BinaryLabeling
    from maxmargin.labeling.graphcut import best_binary_labeling as best_binary_labeling
    from maxmargin.labeling.hierarchical_moves import hierarchical as hierarchical
    from maxmargin.labeling.k_best import Listed, k_best_labelings, listed_by_parts
    from maxmargin.labeling.label_trees import HST as HST
    from maxmargin.labeling.label_trees import linkage_tree as linkage_tree
    from maxmargin.labeling.label_trees import random_hst as random_hst
    from maxmargin.labeling.label_trees import random_tree as random_tree
    from maxmargin.labeling.label_trees import refit_heights as refit_heights
    from maxmargin.labeling.label_trees import star as star
    from maxmargin.labeling.local_polytope import Marginals, minimize_relaxation
    from maxmargin.labeling.max_marginals import Components, Labelings
    from maxmargin.labeling.max_marginals import MaxMarginals as MaxMarginals
    from maxmargin.labeling.max_marginals import binary_max_marginals as binary_max_marginals
    from maxmargin.labeling.messages import bp as bp
    from maxmargin.labeling.messages import trws as trws
    from maxmargin.labeling.minimization import METHODS, options_of
    from maxmargin.labeling.minimization import minimize as minimize
    from maxmargin.labeling.moves import NotSubmodularError as NotSubmodularError
    from maxmargin.labeling.parsimonious_moves import ParsimoniousLabeling as ParsimoniousLabeling
    from maxmargin.labeling.parsimonious_moves import parsimonious as parsimonious
    from maxmargin.labeling.relaxations import RelaxationName
    from maxmargin.labeling.relaxations import relax as relax
    from maxmargin.labeling.result import Labeling as Labeling
    from maxmargin.labeling.rounding import Roundings as Roundings
    from maxmargin.labeling.rounding import draw_in_parts
    from maxmargin.labeling.rounding import round_labeling as round_labeling
    from maxmargin.labeling.tree_inference import BestLabeling as BestLabeling
    from maxmargin.labeling.tree_inference import LabelMarginals as LabelMarginals
    from maxmargin.labeling.tree_inference import best_labeling as best_labeling
    from maxmargin.labeling.tree_inference import label_marginals as label_marginals
    from maxmargin.labeling.uai import UAIError as UAIError
    from maxmargin.labeling.uai import read_uai as read_uai
    from maxmargin.labeling.uai import write_uai as write_uai
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
