"""Graphs with labels on their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.problems.structured import StructuredProblem
from maxmargin.structures import GraphStructure, RelaxedGraphStructure


class GraphProblem(StructuredProblem):
    """Graphs with Hamming loss, divided by the number of nodes.

    Parameters
    ----------
    graphs : sequence of Graph
        Inputs, or tuples ``(nodes, edges)`` or ``(nodes, edges, edge_features)``.
    labels : sequence of int arrays of shape (L,)
        Labels 0 to K - 1.
    n_labels, pairwise, costs
        As in :class:`maxmargin.structures.GraphStructure`: two labels that attract each other by default.
    relaxed : bool, default=False
        Whether hinges are maxima over the local polytope, see :class:`maxmargin.structures.RelaxedGraphStructure`.
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
    ) -> None:
        if len(graphs) != len(labels) or len(graphs) == 0:
            raise ValueError(f"there are {len(graphs)} graphs and {len(labels)} labelings; they must be equal and not zero")
        # What is wrong with a graph is told when it is encoded.
        parts = graphs[0] if isinstance(graphs[0], tuple | list) else ()
        sizes = [np.shape(part)[1] if np.ndim(part) == 2 else 1 for part in parts]
        n_inputs, n_edge_inputs = (sizes or [1])[0], sizes[2] if len(sizes) > 2 else 1
        kind = RelaxedGraphStructure if relaxed else GraphStructure
        super().__init__(kind(n_inputs, n_edge_inputs, n_labels, pairwise, costs), graphs, labels)
        # On trees nothing is worth more than labels.
        self.relaxed = self.relaxed and not all(sample.x.messages(n_labels).is_forest for sample in self.samples)

    def _contents(self) -> tuple[Any, ...]:
        own = self.structure
        settings = own.n_labels, " ".join(own.pairwise), own.costs, self.relaxed
        return *settings, *(part for sample in self.samples for part in (*sample.x, sample.truth))
