"""Graphs with two labels, neighbours of which attract each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.problems.structured import StructuredProblem
from maxmargin.structures.graph import GraphStructure


class GraphProblem(StructuredProblem):
    """Binary graphs with Hamming loss, divided by the number of nodes.

    Parameters
    ----------
    graphs : sequence of Graph
        Inputs, or tuples ``(nodes, edges)`` or ``(nodes, edges, edge_features)``.
    labels : sequence of int arrays of shape (L,)
        Labels 0 and 1.
    """

    structure: GraphStructure

    def __init__(self, graphs: Sequence[Any], labels: Sequence[ArrayLike]) -> None:
        if len(graphs) != len(labels) or len(graphs) == 0:
            raise ValueError(f"there are {len(graphs)} graphs and {len(labels)} labelings; they must be equal and not zero")
        # What is wrong with a graph is told when it is encoded.
        sizes = [np.shape(part)[1] if np.ndim(part) == 2 else 1 for part in graphs[0]]
        super().__init__(GraphStructure(*sizes[:1], *sizes[2:3]), graphs, labels)

    def _contents(self) -> tuple[Any, ...]:
        return tuple(part for sample in self.samples for part in (*sample.x, sample.truth))
