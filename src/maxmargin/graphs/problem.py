"""Graphs with labels on their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.graphs.graph_sets import GraphSetStructure
from maxmargin.graphs.relaxed import RelaxedGraphStructure
from maxmargin.graphs.structure import GraphStructure
from maxmargin.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    ProbLoss,
    Slack,
    StructuredProblem,
    Surrogate,
    make_surrogate,
)

# Surrogates that are what their parameters say.
KNOWN = frozenset({Margin, Slack, BetaScaling, GeneralizedScaling, LogLoss, ProbLoss, MicroF1})


class GraphProblem(StructuredProblem):
    """Graphs with Hamming loss, divided by the number of nodes unless it is to count.

    Parameters
    ----------
    graphs : sequence of Graph
        Inputs, or tuples ``(nodes, edges)`` or ``(nodes, edges, edge_features)``.
    labels : sequence of int arrays of shape (L,)
        Labels 0 to K - 1.
    n_labels, pairwise, costs
        As in :class:`maxmargin.graphs.GraphStructure`: two labels that attract each other by default.
    relaxed : bool, default=False
        Whether hinges are maxima over the local polytope, see :class:`maxmargin.graphs.RelaxedGraphStructure`.
    normalize : bool, default=True
        Whether the loss is divided by the number of nodes.
    surrogate : str or Surrogate, default="margin"
        Which hinge; see :mod:`maxmargin.surrogates`.
    outside : int, optional
        For the micro F1: the label of nodes that are in no set, see :class:`maxmargin.graphs.GraphSetStructure`.
    """

    structure: GraphStructure

    def __init__(
        self,
        graphs: Sequence[Any],
        labels: Sequence[ArrayLike],
        n_labels: int = 2,
        pairwise: str | Sequence[str] = "attractive",
        costs: ArrayLike | None = None,
        relaxed: bool = False,
        *,
        normalize: bool = True,
        surrogate: str | Surrogate = "margin",
        outside: int | None = None,
    ) -> None:
        if len(graphs) != len(labels) or len(graphs) == 0:
            raise ValueError(f"there are {len(graphs)} graphs and {len(labels)} labelings; they must be equal and not zero")
        # What is wrong with a graph is told when it is encoded.
        parts = graphs[0] if isinstance(graphs[0], tuple | list) else ()
        sizes = [np.shape(part)[1] if np.ndim(part) == 2 else 1 for part in parts]
        n_inputs, n_edge_inputs = (sizes or [1])[0], sizes[2] if len(sizes) > 2 else 1
        shape, chosen = (n_inputs, n_edge_inputs, n_labels, pairwise), make_surrogate(surrogate)
        if isinstance(chosen, MicroF1):
            if costs is not None or relaxed:
                raise ValueError(
                    "the micro F1 counts nodes, whatever their labels cost, and is not known for marginals; leave out costs and "
                    "relaxed=True, or choose another surrogate"
                )
            structure: GraphStructure = GraphSetStructure(*shape, outside=0 if outside is None else outside)
        else:
            kind = RelaxedGraphStructure if relaxed else GraphStructure
            structure = kind(*shape, costs, normalize)
        super().__init__(structure, graphs, labels, chosen)
        # On trees nothing is worth more than labels.
        self.relaxed = self.relaxed and not all(sample.x.messages(n_labels).is_forest for sample in self.samples)

    def _contents(self) -> tuple[Any, ...] | None:
        own = self.structure
        # Parameters of a surrogate of one's own are not known to be all that it depends on.
        if type(self.surrogate) not in KNOWN:
            return None
        outside = getattr(own, "outside", None)
        settings = own.n_labels, " ".join(own.pairwise), own.costs, own.normalize, outside, repr(self.surrogate), self.relaxed
        return *settings, *(part for sample in self.samples for part in (*sample.x, sample.truth))
