"""Inference without training: energies of labelings and their minimisation, minimum cuts, max-marginals, trees, relaxations and
rounding.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.labeling.cliques import Cliques, PnPotts
    from maxmargin.labeling.cooccurrence_moves import cooccurrence
    from maxmargin.labeling.distances import Metric, minkowski, shortest_paths, why_no_metric
    from maxmargin.labeling.diversities import (
        L1,
        Cardinality,
        Diameter,
        Diversity,
        FunctionDiversity,
        TreeLength,
        why_no_diversity,
    )
    from maxmargin.labeling.energy import Energy, grid_edges
    from maxmargin.labeling.flow import GRID_STEPS, FlowGraph, MinimumCut, check_edges, minimum_cut, real_array
    from maxmargin.labeling.fractional import FractionalLabeling, expected_energy, marginals_for, pairwise_slopes
    from maxmargin.labeling.graphcut import BinaryLabeling, best_binary_labeling
    from maxmargin.labeling.hierarchical_moves import hierarchical
    from maxmargin.labeling.k_best import Listed, k_best_labelings, listed_by_parts
    from maxmargin.labeling.label_trees import HST, linkage_tree, random_hst, random_tree, refit_heights, star
    from maxmargin.labeling.local_polytope import Marginals, minimize_relaxation
    from maxmargin.labeling.max_marginals import Components, Labelings, MaxMarginals, binary_max_marginals
    from maxmargin.labeling.messages import bp, trws
    from maxmargin.labeling.minimization import METHODS, minimize, options_of
    from maxmargin.labeling.moves import NotSubmodularError
    from maxmargin.labeling.parsimonious_moves import ParsimoniousLabeling, parsimonious
    from maxmargin.labeling.relaxations import RelaxationName, relax
    from maxmargin.labeling.result import Labeling
    from maxmargin.labeling.rounding import Roundings, draw_in_parts, round_labeling
    from maxmargin.labeling.tree_inference import BestLabeling, LabelMarginals, best_labeling, label_marginals
    from maxmargin.labeling.uai import UAIError, read_uai, write_uai
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
