"""Labels of the nodes of graphs and of the pixels of images, also with hidden states."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.graphs.graph_sets import GraphSetStructure as GraphSetStructure
    from maxmargin.graphs.latent import LatentGraphSVM as LatentGraphSVM
    from maxmargin.graphs.latent import LatentGridSVM as LatentGridSVM
    from maxmargin.graphs.latent_problem import LatentGraphProblem as LatentGraphProblem
    from maxmargin.graphs.latent_structure import LatentGraphStructure as LatentGraphStructure
    from maxmargin.graphs.latent_structure import PartlyHidden as PartlyHidden
    from maxmargin.graphs.problem import GraphProblem as GraphProblem
    from maxmargin.graphs.relaxed import RelaxedGraphStructure as RelaxedGraphStructure
    from maxmargin.graphs.structure import Graph as Graph
    from maxmargin.graphs.structure import GraphStructure as GraphStructure
    from maxmargin.graphs.svm import GraphSVM as GraphSVM
    from maxmargin.graphs.svm import GridSVM as GridSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
