"""Graphs with labels on their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.problems.structured import StructuredProblem
from maxmargin.structures.graph import GraphStructure


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
    """

    structure: GraphStructure

    def __init__(
        self,
        graphs: Sequence[Any],
        labels: Sequence[ArrayLike],
        n_labels: int = 2,
        pairwise: str | Sequence[str] = "attractive",
        costs: ArrayLike | None = None,
    ) -> None:
        if len(graphs) != len(labels) or len(graphs) == 0:
            raise ValueError(f"there are {len(graphs)} graphs and {len(labels)} labelings; they must be equal and not zero")
        # What is wrong with a graph is told when it is encoded.
        parts = graphs[0] if isinstance(graphs[0], tuple | list) else ()
        sizes = [np.shape(part)[1] if np.ndim(part) == 2 else 1 for part in parts]
        n_inputs, n_edge_inputs = (sizes or [1])[0], sizes[2] if len(sizes) > 2 else 1
        super().__init__(GraphStructure(n_inputs, n_edge_inputs, n_labels, pairwise, costs), graphs, labels)

    def _contents(self) -> tuple[Any, ...]:
        own = self.structure
        settings = own.n_labels, " ".join(own.pairwise), own.costs
        return *settings, *(part for sample in self.samples for part in (*sample.x, sample.truth))
