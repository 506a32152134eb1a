"""Labels of the nodes of graphs and of the pixels of images, also with hidden states."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.graphs.graph_sets import GraphSetStructure
    from maxmargin.graphs.latent import LatentGraphSVM, LatentGridSVM
    from maxmargin.graphs.latent_problem import LatentGraphProblem
    from maxmargin.graphs.latent_structure import LatentGraphStructure, PartlyHidden
    from maxmargin.graphs.problem import GraphProblem
    from maxmargin.graphs.relaxed import RelaxedGraphStructure
    from maxmargin.graphs.structure import Graph, GraphStructure
    from maxmargin.graphs.svm import GraphSVM, GridSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
